"""What LPs are worth in anyone's loop: plain ``generate`` of ``transformers`` with their logits processors.

``python -m tools.bench.processor`` asks held-out molecules once each and prints how many answers are usable by the
verdict, what went wrong in the others, and seconds.

    --model ALIAS --lp NAME   may be repeated
    --molecules N             from the top of data/heldout.smi
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import LogitsProcessor

from engine.chem.enriched import prompt_of
from engine.chem.smiles import parse_written
from engine.chem.verdict import WITH_STRAIN, judge_answer
from engine.lp.constraint import end_of
from engine.lp.processor import logits_processor
from engine.lp.shaped_processor import ShapedProcessor
from engine.models.loading import LoadedModel, load_model
from engine.models.registry import load_registry
from engine.paths import ROOT
from engine.records import Molecule
from engine.text.check import answer_of, check_sample
from tools.bench._measure import figure, machine, note, show
from tools.training.evaluate import answers_of

TEMPERATURE, TOP_P = 0.7, 0.8
SAMPLING: dict[str, Any] = {
    "do_sample": True, "temperature": 1.0, "top_p": 1.0, "top_k": 0, "suppress_tokens": [],
}  # fmt: skip
"""Of ``generate`` itself; `Nucleus` and the LP do the rest."""
TOKENS_AN_ATOM, TOKENS_AROUND, BATCH = 40, 64, 32
HEAD = "model|LP|usable|hands and sides|geometry|strain, kcal/mol|atoms at a dead end|most struck unasked|seconds"


class Nucleus(LogitsProcessor):
    """Temperature, then top-p, as ``generate`` has them, without a sort of the whole vocabulary where few are legal."""

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        most = int(torch.isfinite(scores).sum(dim=1).max())
        values, ids = (scores / TEMPERATURE).topk(most, dim=1)
        chances = values.softmax(dim=1)
        values[chances.cumsum(dim=1) - chances >= TOP_P] = -torch.inf
        return torch.full_like(scores, -torch.inf).scatter_(1, ids, values)


def written(loaded: LoadedModel, lp: str, molecules: Sequence[Molecule]) -> tuple[list[str], dict[str, float], float]:
    """The texts, what the processor counted, and seconds."""
    texts: list[str] = []
    counted = dict.fromkeys(("dead ends", "unmended", "rest"), 0.0)
    end = end_of(loaded.tokenizer)
    began = time.perf_counter()
    for start in range(0, len(molecules), BATCH):
        group = molecules[start : start + BATCH]
        smiles = [molecule.smiles for molecule in group]
        made = logits_processor(lp, smiles, loaded.tokenizer.name, loaded.vocab_rows)
        prompts = [loaded.tokenizer.encode(prompt_of(text)) for text in smiles]
        limits = [TOKENS_AN_ATOM * molecule.atoms + TOKENS_AROUND for molecule in group]
        with torch.inference_mode():
            torch.manual_seed(start)
            ids = answers_of(loaded.model, prompts, limits, [end], logits_processor=[made, Nucleus()], **SAMPLING)
        texts += [answer_of(loaded.tokenizer.decode(row)) for row in ids]
        if isinstance(made, ShapedProcessor):
            counted["dead ends"] += sum(made.dead_ends)
            counted["unmended"] += len(made.unmended)
            counted["rest"] = max(counted["rest"], *made.rest)
        note(f"{loaded.entry.alias}, {lp}: {len(texts)} of {len(molecules)}")
    return texts, counted, time.perf_counter() - began


def judged(loaded: LoadedModel, lp: str, molecules: Sequence[Molecule]) -> tuple[str, ...]:
    """A line of the table."""
    texts, counted, seconds = written(loaded, lp, molecules)
    right, failed, strains = Counter[str](), Counter[str](), []
    for text, molecule in zip(texts, molecules, strict=True):
        verdict = judge_answer(text, molecule.mol, WITH_STRAIN)
        is_usable = verdict.is_usable(check_sample(text, molecule).clean)
        right.update(usable=is_usable, hands=verdict.stereo_right is not False, geometry=verdict.geometry_right is True)
        failed.update({failure.check for failure in verdict.failed})
        if is_usable and verdict.strain_kcal is not None:
            strains.append(verdict.strain_kcal)
    note(f"wrong by {dict(failed)}; {dict(counted)}")
    shares = (f"{100 * right[name] / len(molecules):.1f} %" for name in ("usable", "hands", "geometry"))
    rest = f"{counted['rest']:.0e}" if counted["rest"] else ""
    strain = figure(statistics.median(strains)) if strains else ""
    return loaded.entry.alias, lp, *shares, strain, f"{counted['dead ends']:g}", rest, figure(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description="What LPs are worth in plain generate.")
    parser.add_argument("--model", action="append", default=[])
    parser.add_argument("--lp", action="append", default=[])
    parser.add_argument("--molecules", type=int, default=200)
    args = parser.parse_args()
    torch.set_num_threads(1)
    print(machine("torch", "transformers", "rdkit"))
    lines = (ROOT / "data" / "heldout.smi").read_text(encoding="utf-8").split()
    molecules = [parse_written(smiles) for smiles in lines[: args.molecules]]
    entries = {entry.alias: entry for entry in load_registry().entries}
    rows = []
    for alias in args.model or ["demo-qwen", "demo-llama"]:
        loaded = load_model(entries[alias], "cpu")
        rows += [judged(loaded, lp, molecules) for lp in args.lp or ["exact", "shaped"]]
    show(f"{len(molecules)} held-out molecules, an answer each, plain generate, T 0.7, top-p 0.8", HEAD, rows)


if __name__ == "__main__":
    main()
