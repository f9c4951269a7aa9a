"""What bins and codes gain over decimals, and `exact` over no LP with each, at the demo models' size and Qwen3-0.6B's.

    python -m tools.bench.bins             batches of 1, 8 and 32, three rounds: about 25 minutes
    python -m tools.bench.bins --form "4,096 codes" --size qwen3-0.6b --batch 1 --batch 8      of codes alone
    python -m tools.bench.bins --tiny      a toy shape in seconds: whether it runs, no more

Random weights, made on the spot, the same for both forms: decimals as the embedded models write them with Qwen3's
tokenizer, and 256 uniform bins with the tokens `000` to `257` added to it. One core, CPU seconds, the four sides in
turns. Each side writes the same number of tokens for each molecule (without an LP the end token is blocked), so tokens
per second compare LPs of one form. Forms compare by atoms: a text of decimals has more tokens for the same molecule, as
counted on ETKDG conformers. Codes are drawn from all 4,096, one behind every token of the SMILES. *Forced* is
the share of a whole answer's tokens that `exact` leaves no choice.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence

import torch

from engine.chem.enriched import CLOSE_TAG, OPEN_TAG, skeleton_of
from engine.lp.exact import ExactConstraint
from engine.lp.follower import AutomatonRows, Follower
from engine.records import GROUP_UNIFORM, TRIMMED4, CodeFormat, NumberFormat
from engine.text.placeholder import reference_texts
from engine.text.tokenizer_build import QWEN_BINS, QWEN_CODES
from engine.text.tokenizers import load_tokenizer
from tools.bench._measure import figure, machine, note, show, spread
from tools.bench._sides import EXACT, FREE, timed
from tools.bench._sized import Shape, SizedModel
from tools.bench.sizes import FEW_TOKENS, LARGE, SHAPES, TOKENS, TOY

FORMS: dict[str, tuple[str, NumberFormat]] = {
    "decimals": ("qwen3", TRIMMED4),
    "258 bins": (QWEN_BINS, GROUP_UNIFORM),
    "4,096 codes": (QWEN_CODES, CodeFormat(levels=(2,) * 12)),
}
SIZES = {"demo": Shape("qwen3", 256, 4, 4, 2, 512, name="demo size"), "qwen3-0.6b": SHAPES["qwen3-0.6b"]}
COUNTED = 8
"""Molecules of which texts are counted."""


def counted(model: SizedModel, tokenizer_name: str, form: NumberFormat) -> tuple[float, float]:
    """Tokens per atom of whole answers but for their tags, and the share of the answers' tokens that is forced."""
    tokenizer = load_tokenizer(tokenizer_name)
    exact = ExactConstraint(tokenizer, form, model.rows)
    rows = AutomatonRows(exact.automaton)
    molecules = model.molecules[:COUNTED]
    tokens = forced = 0
    for molecule in molecules:
        is_code = isinstance(form, CodeFormat)
        text = skeleton_of(molecule, "7", form) if is_code else reference_texts(molecule, form, conformers=1)[0]
        ids = tokenizer.encode(f"{OPEN_TAG}{text}{CLOSE_TAG}")
        tokens += len(ids)
        forced += sum(map(Follower(rows, exact.compile(molecule)).take, ids))
    return (tokens - 2 * len(molecules)) / sum(molecule.atoms for molecule in molecules), forced / tokens


def rows_of(model: SizedModel, names: Sequence[str], batch: int, rounds: int) -> list[tuple[str, ...]]:
    tokens = FEW_TOKENS if model.layer_weights >= LARGE and batch > 8 else TOKENS
    asked = {name: model.in_form(*FORMS[name]) for name in names}
    sides = [(name, side) for name in names for side in (FREE, EXACT)]
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    backends = {(name, side): asked[name].backend(side) for name, side in sides}
    speeds: dict[tuple[str, str], list[float]] = {(name, side.lp): [] for name, side in sides}
    for number in range(rounds + 1):  # the first one warms up
        for name, side in sides:
            requests = asked[name].requests(side.lp, [tokens if number else 8] * batch)
            run = timed(side, backends[name, side], requests, batch, clock)
            if number:
                speeds[name, side.lp].append(run.tokens_per_s)
    median = {key: statistics.median(values) for key, values in speeds.items()}
    counts = {name: counted(model, *FORMS[name]) for name in names}
    per_atom = {name: tokens for name, (tokens, _) in counts.items()}
    rows = []
    for name in names:
        none, exact = median[name, "none"], median[name, "exact"]
        of_decimals = [median[names[0], lp] / per_atom[names[0]] for lp in ("none", "exact")]
        gains = [speed / per_atom[name] / other for speed, other in zip((none, exact), of_decimals, strict=True)]
        rows.append(
            (model.shape.name, str(batch), name, *spread(speeds[name, "none"]), *spread(speeds[name, "exact"]),
             f"{exact / none:.2f}", f"{counts[name][1]:.1%}", f"{per_atom[name]:.1f}", figure(none / per_atom[name]),
             figure(exact / per_atom[name]), *(f"{gain:.2f}" if name != names[0] else "" for gain in gains))
        )  # fmt: skip
    return rows


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="What bins gain over decimals, and exact over no LP with each.")
    parser.add_argument("--tiny", action="store_true", help="a toy shape, batches of 1 and 2, one round")
    parser.add_argument("--size", action="append", choices=list(SIZES), help="this one; may be repeated")
    parser.add_argument("--batch", action="append", type=int, help="this one; may be repeated (1, 8 and 32)")
    parser.add_argument("--form", action="append", choices=list(FORMS), help="this one; may be repeated (all)")
    parser.add_argument("--rounds", type=int, default=3, help="timings of each side (%(default)s)")
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32", help="(%(default)s)")
    parser.add_argument("--threads", type=int, default=1, help="with more, seconds by the clock (%(default)s)")
    args = parser.parse_args(argv)
    torch.set_num_threads(args.threads)
    print(f"{machine('torch', 'transformers', 'numpy')}\n", flush=True)
    rows: list[tuple[str, ...]] = []
    batches = (1, 2) if args.tiny else args.batch or (1, 8, 32)
    for shape in [TOY] if args.tiny else [SIZES[name] for name in args.size or SIZES]:
        model = SizedModel(shape, torch.device("cpu"), getattr(torch, args.dtype), max(batches))
        for batch in batches:
            rows += rows_of(model, args.form or list(FORMS), batch, 1 if args.tiny else args.rounds)
            for row in rows[-len(args.form or FORMS) :]:
                note(" | ".join(row))
        del model
    head = (
        "model|batch|numbers|none, tokens/s|least .. most|exact, tokens/s|least .. most|exact over none|forced"
        "|tokens per atom|none, atoms/s|exact, atoms/s|none: over the first form|exact: over the first form"
    )
    show(f"Decimals, bins and codes, {args.dtype}, threads: {args.threads}", head, rows)


if __name__ == "__main__":
    main()
