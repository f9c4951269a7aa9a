"""How fast answers are written: the fast backend beside plain ``generate``, with and without LPs, of equal work.

``python -m bench.decode`` prints Markdown tables of medians with their spread, all of one run. The sides of a batch
take turns, so that a busy machine slows all alike. What was asked for stands in the column *asked*. Nothing here is a
test: the machine decides. The whole takes up to half an hour on 2 cores; most of it is ``generate``'s own sampler,
which sorts the vocabulary at every token.

    --quick          8 molecules, one round, a part of each answer: whether it runs, no more
    --share 0.3      the sides with generate's own sampler write this part of each answer on the large batch
    --only NAME      sides and sections whose name has this in it, several times; extra sides run only so.
                     ``--only none --only position`` is what an LP gains: no LP, a position LP, the exact one, and
                     ``generate`` without an LP
    --model NAME     one embedded model alone
    --json FILE      every repeat
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import _decode_parts as parts
from bench._decode_sides import (
    EXACT,
    FREE,
    HF_EXACT,
    HF_KEYED,
    HF_OWN,
    LLGUIDANCE,
    POSITION,
    PRESET,
    SIDES,
    XGRAMMAR,
    Desk,
    Effort,
    Run,
    Side,
    missing,
    natural,
    round_robin,
)
from bench._decode_table import Row, Spread, Table, asked, figure
from bench._machine import machine, pin
from engine.chem.molecule_sets import load_held_out
from engine.chem.smiles import parse_smiles
from engine.models.registry import load_registry
from engine.models.summary import body_sizes, body_weights
from engine.records import Molecule

MODELS = ("demo-qwen:final", "demo-llama:final")
BATCHES = (1, 32)
MOLECULES, SINGLE = 32, 3
LEAST_ATOMS, MOST_ATOMS = 10, 18
STEPS = 400
QUICK_MOLECULES, QUICK_SHARE = 8, 0.1
CORES = 2
SECTIONS = ("step", "masks", "compile")
PARTS = ("prefill", "layers", "head", "sampling", "constraint", "rest")
FLOORS: dict[tuple[Side, Side], dict[int, float]] = {
    (EXACT, HF_OWN): {1: 8, 32: 18},
    (EXACT, HF_KEYED): {1: 8, 32: 18},
    (EXACT, FREE): {1: 1.2, 32: 1.5},
    (EXACT, POSITION): {},
    (POSITION, FREE): {},
    (EXACT, HF_EXACT): {},
    (EXACT, XGRAMMAR): {32: 18},
    (EXACT, LLGUIDANCE): {32: 18},
    (FREE, HF_OWN): {1: 2, 32: 2},
    (FREE, HF_KEYED): {1: 2, 32: 2},
}
NATURAL = (FREE, HF_KEYED)
"""The sides that are also timed at their natural length. They draw alike, so their lengths are the same."""
STEP_MS = {32: 0.5, 128: 1.0}
ROWLOOP_TIMES, COMPILE_MS = 10, 0.3

Timings = Mapping[Side, Sequence[Run]]


def molecules(count: int) -> list[Molecule]:
    """The first of the held-out set that are large enough."""
    fitting = [one for one in load_held_out() if LEAST_ATOMS <= one.atoms <= MOST_ATOMS]
    return [parse_smiles(one.smiles) for one in fitting[:count]]


def rates(model: str, batch: int, timings: Timings) -> list[Row]:
    """Molecules a second are those of whole answers, whatever part of them a side has written."""
    exact = timings[EXACT][0]
    rows: list[Row] = []
    for side, runs in timings.items():
        tokens = _tokens_a_second(runs)
        rate = figure(tokens.median * len(exact.lengths) / exact.tokens)
        rows.append((model, str(batch), side.name, *tokens.cells(), rate, str(len(runs)), f"{runs[0].tokens:,}"))
    return rows


def ratios(model: str, batch: int, timings: Timings) -> list[Row]:
    rows: list[Row] = []
    wanted = [*FLOORS, *((EXACT, side) for side in timings if side.is_extra)]
    for one, other in wanted:
        if one in timings and other in timings:
            found = _tokens_a_second(timings[one]).over(_tokens_a_second(timings[other]))
            floor = asked(FLOORS.get((one, other), {}).get(batch), "x", at_least=True)
            rows.append((model, str(batch), f"{one.name} / {other.name}", *found.cells(), floor))
    return rows


def _tokens_a_second(runs: Sequence[Run]) -> Spread:
    return Spread.of([run.tokens_a_second for run in runs])


def naturals(model: str, batch: int, runs: Timings) -> list[Row]:
    rows: list[Row] = []
    for side, (run,) in runs.items():
        mean, rate = run.tokens / len(run.lengths), figure(run.tokens_a_second)
        cut = f"{run.at_limit / len(run.lengths):.0%}"
        rows.append((model, str(batch), side.name, rate, figure(run.molecules_a_second), f"{mean:.0f}", cut))
    return rows


def shares(model: str, batch: int, timings: Timings) -> list[Row]:
    """Of the run in the middle, by its time."""
    rows: list[Row] = []
    for side, runs in timings.items():
        found = sorted(runs, key=lambda run: run.seconds)[len(runs) // 2].parts
        if found is not None:
            cells = [f"{found[part] / found['all']:.1%}" for part in PARTS]
            rows.append((model, str(batch), side.name, figure(found["all"] / found["passes"] * 1e3), *cells))
    return rows


def steps_table(quick: bool) -> list[Row]:
    steps = STEPS // 10 if quick else STEPS
    rows: list[Row] = []
    for batch, most in STEP_MS.items():
        part = parts.constraint_step(molecules(batch), batch, steps)
        rows.append((part.name, *part.ms.cells(), asked(most, "ms", at_least=False)))
    for batch in STEP_MS:
        part = parts.full_mask(molecules(batch), batch, steps // 10)
        rows.append((part.name, *part.ms.cells(), ""))
    return rows


def masks_table(quick: bool) -> list[Row]:
    chosen = molecules(32)
    found = parts.masks(chosen, 32, 24 if quick else parts.shortest_answer(chosen))
    rows: list[Row] = [(part.name, *part.ms.cells(), "") for part in found]
    *ours, theirs = found
    for part, floor in zip(ours, (ROWLOOP_TIMES, None, None, None), strict=True):
        ratio = theirs.ms.over(part.ms)
        rows.append((f"the loop / {part.name.partition(': ')[2]}", *ratio.cells(), asked(floor, "x", at_least=True)))
    return rows


def compile_table(quick: bool) -> list[Row]:
    rows: list[Row] = []
    for part in parts.compilations(2 if quick else 9):
        floor = COMPILE_MS if part.name.endswith(", again") else None
        cells = (part.note, "") if part.note else part.ms.cells()
        rows.append((part.name, *cells, asked(floor, "ms", at_least=False)))
    return rows


def header(args: argparse.Namespace, count: int) -> str:
    said = machine(("torch", "transformers", "numpy", "xgrammar", "llguidance"))
    entries = [load_registry().find(model) for model in MODELS]
    sizes = ", ".join(
        f"{entry.name}: {body_weights(body_sizes(entry)) / 1e6:.1f} M weights in layers" for entry in entries
    )
    which = "all other sides write" if args.quick else "generate's own sampler on the large batch writes"
    slow = "" if args.share >= 1 else f"; {which} the first {args.share:.0%} of them alone, which favours them"
    return (
        f"{said} {sizes}. Single precision, preset {PRESET}. The first {count} molecules of data/held_out.tsv with "
        f"{LEAST_ATOMS} to {MOST_ATOMS} heavy atoms; at batch 1 the first {1 if args.quick else SINGLE}, "
        f"at batch 32 {count}. Every side "
        f"writes as many tokens for each molecule as the exact LP takes{slow}.\n"
    )


def chosen_sides(only: Sequence[str]) -> list[Side]:
    """The exact LP's side always, to compare with."""
    if not only:
        return [side for side in SIDES if not side.is_extra]
    found = [side for side in SIDES if any(name in side.name for name in only)]
    return [EXACT, *(side for side in found if side != EXACT)] if found else []


class Report:
    """Tables as they are made, and every repeat for the JSON file."""

    def __init__(self) -> None:
        self.runs: list[dict[str, Any]] = []
        self.tables: list[Table] = []

    def add(self, title: str, head: str, rows: Sequence[Row]) -> None:
        if rows:
            self.tables.append(Table(title, tuple(head.split(" | ")), tuple(rows)))

    def keep(self, model: str, batch: int, kind: str, timings: Timings) -> None:
        for side, runs in timings.items():
            self.runs += [
                {
                    "model": model,
                    "batch": batch,
                    "side": side.name,
                    "kind": kind,
                    "seconds": run.seconds,
                    "tokens": run.tokens,
                    "molecules": len(run.lengths),
                    "at_limit": run.at_limit,
                    "parts": run.parts,
                }
                for run in runs
            ]

    def as_json(self, said: str) -> str:
        tables = [{"title": table.title, "head": table.head, "rows": table.rows} for table in self.tables]
        return json.dumps({"machine": said, "tables": tables, "runs": self.runs}, indent=1)


def bench_sides(report: Report, models: Sequence[str], sides: Sequence[Side], effort: Effort, count: int) -> None:
    told: list[list[Row]] = [[] for _ in range(4)]
    absent = {side.name: why for side in sides if (why := missing(side)) is not None}
    there = [side for side in sides if side.name not in absent]
    for model in models:
        desk = Desk(model, molecules(count))
        for batch in BATCHES:
            now = [side for side in there if batch in side.batches]
            timings = round_robin(desk, now, batch, effort, _note)
            free = {side: [natural(desk, side, batch, effort)] for side in now if side in NATURAL}
            report.keep(model, batch, "equal work", timings)
            report.keep(model, batch, "natural length", free)
            made = (rates, ratios, shares)
            for place, make in enumerate(made):
                told[place] += make(model, batch, timings)
            told[3] += naturals(model, batch, free)
        told[0] += [(model, "32", name, why, "", "", "", "") for name, why in absent.items()]
    report.add("Ratios of tokens a second", "model | batch | what | times | least .. most | asked", told[1])
    head = "model | batch | side | tokens/s | least .. most | molecules/s | rounds | tokens"
    report.add("Equal work", head, told[0])
    head = "model | batch | side | tokens/s | molecules/s | tokens an answer | at the limit"
    report.add("Natural length: the model's own end, the end token allowed, default limit", head, told[3])
    report.add("Parts of a pass", f"model | batch | side | ms a pass | {' | '.join(PARTS)}", told[2])


def bench_parts(report: Report, wanted: Sequence[str], quick: bool) -> None:
    head = "what | ms | least .. most | asked"
    if "step" in wanted:
        report.add(f"One step of a constraint at V = {parts.ROWS:,}", head, steps_table(quick))
    if "masks" in wanted:
        head_masks = "what | ms or times | least .. most | asked"
        report.add("Masks alone, beside the reports' loop over rows", head_masks, masks_table(quick))
    if "compile" in wanted:
        title = f"Compiling a molecule of {parts.COMPILED_ATOMS} heavy atoms, {parts.TOKENIZER}"
        report.add(title, head, compile_table(quick))


def _note(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="The benchmark of decoding.")
    parser.add_argument("--quick", action="store_true", help="8 molecules, one round, a part of each answer")
    parser.add_argument("--share", type=float, default=1.0, help="of each answer, for generate's own sampler")
    parser.add_argument("--model", choices=MODELS, help="this embedded model alone")
    parser.add_argument("--only", action="append", default=[], help="sides and sections with this in their name")
    parser.add_argument("--json", type=Path, help="write every repeat here")
    args = parser.parse_args()
    if args.quick:
        args.share = QUICK_SHARE
    if not 0 < args.share <= 1:
        parser.error("--share is more than 0 and at most 1")
    return args


def main() -> None:
    args = arguments()
    pin(CORES)
    count = QUICK_MOLECULES if args.quick else MOLECULES
    effort = Effort(1, args.share, args.share, 1) if args.quick else Effort(SINGLE, args.share)
    said, report = header(args, count), Report()
    sides = chosen_sides(args.only)
    sections = [name for name in SECTIONS if not args.only or any(only in name for only in args.only)]
    if not sides and not sections:
        known = "; ".join((*SECTIONS, *(side.name for side in SIDES)))
        sys.exit(f"nothing has {' or '.join(args.only)} in its name; known are: {known}")
    if sides:
        bench_sides(report, [args.model] if args.model else MODELS, sides, effort, count)
    bench_parts(report, sections, args.quick)
    print(said)
    for table in report.tables:
        print(table.markdown())
    if args.json is not None:
        args.json.write_text(report.as_json(said), encoding="utf-8")


if __name__ == "__main__":
    main()
