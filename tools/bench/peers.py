"""The masks of xgrammar, llguidance and the exact LP: what each costs, and what may be drawn from it.

``python -m tools.bench.peers`` samples evenly from each one's masks and prints times, and how many of the texts are cut
as the tokenizer would cut them; then what a mask costs along an answer of 2,000 tokens (``--long``: this alone). Both
libraries are in requirements-bench.txt.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any

import numpy as np
import torch
from transformers import LogitsProcessor

from engine.chem.enriched import decode
from engine.chem.smiles import parse_smiles, read_text_order, same_graph
from engine.lp.constraint import build_constraint
from engine.lp.processor import ConstraintProcessor
from engine.records import TRIMMED4, Molecule, NumberFormat
from engine.text import tokenizer_build
from engine.text.tokenizers import load_tokenizer
from tests.engine.lp.grammars import AnswerGrammar, is_number
from tools.bench._peer_processors import (
    Made,
    MissingPeer,
    PeerProcessor,
    hugging_face,
    library,
    llguidance_processor,
    llguidance_tokenizer,
    made_once,
    xgrammar_compiler,
    xgrammar_processor,
)

ROWS = {"qwen3": 151_936, "llama3": 128_330}
SMILES = ("CC=O", "CC(=O)N1CCC[C@H]1C(N)=O", "CC(C)Cc1ccc(cc1)[C@@H](C)C(=O)O")
LONG, SPANS = "C" * 120, 5
"""A molecule whose answers have more than ``MOST_STEPS`` tokens, and the parts of an answer that are looked at."""
BATCH = 32
ROUNDS = 2
MOST_STEPS = 2_000
HEAD = (
    f"{'tokenizer':<10} {'library':<18} {'set-up s':>8} {'compile ms':>18} {'mask ms':>8} {'matchers ms':>12} canonical"
)
LONG_HEAD = f"{'tokenizer':<10} {'library':<18} {'tokens':>8} {'ms of a mask, by fifths':>44} {'last / first':>12}"


@dataclass(frozen=True)
class Sampled:
    """Texts that were drawn under a processor, and what its calls took."""

    ids: list[list[int]]
    call_ms: list[float]


def sample(processor: LogitsProcessor, rows: int, vocab_rows: int, end: int, seed: int) -> Sampled:
    """Each token is drawn evenly from its mask, until all rows have ended."""
    generator = torch.Generator().manual_seed(seed)
    ids, scores = torch.zeros((rows, 1), dtype=torch.long), torch.empty(rows, vocab_rows)
    times: list[float] = []
    while not bool((ids == end).any(dim=1).all()) and len(times) < MOST_STEPS:
        scores.uniform_(generator=generator)
        began = time.perf_counter()
        masked = processor(ids, scores)
        times.append((time.perf_counter() - began) * 1e3)
        ids = torch.cat([ids, masked.argmax(dim=1, keepdim=True)], dim=1)
    answers = [row[1 : row.index(end) if end in row else None] for row in ids.tolist()]
    return Sampled(answers, times)


def is_canonical(name: str, molecule: Molecule, form: NumberFormat, ids: Sequence[int]) -> bool:
    """Whether the tokenizer cuts the text just so; a text that is no answer is a fault of the grammar."""
    tokenizer = load_tokenizer(name)
    text = tokenizer.decode(ids)
    found = decode(text)
    if not all(is_number(form, number) for triple in found.numbers for number in triple):
        raise ValueError(f"a number in {text} does not fit the format")
    if not same_graph(found.mol, read_text_order(molecule.smiles)):
        raise ValueError(f"{text} is another molecule than {molecule.smiles}")
    return tokenizer.encode(text) == list(ids)


def check(
    label: str, name: str, set_up_s: float, make: Callable[[], LogitsProcessor], compile_ms: Sequence[float] | None
) -> None:
    """One line of the table. The first round, whose kernels are compiled, counts for the texts alone."""
    molecules = batch()
    drawn, matcher_ms, times = [], [], list(compile_ms or ())
    end = load_tokenizer(name).end_id
    assert end is not None
    for seed in range(ROUNDS):
        processor = make()
        drawn.append(sample(processor, BATCH, ROWS[name], end, seed))
        if isinstance(processor, PeerProcessor):
            times = times or list(processor.compile_ms)
            matcher_ms.append(processor.matcher_s * 1e3 / len(drawn[-1].call_ms))
    right = [
        is_canonical(name, molecule, TRIMMED4, ids)
        for each in drawn
        for molecule, ids in zip(molecules, each.ids, strict=True)
    ]
    shown = " ".join(f"{one:.2f}" for one in times)
    matching = f"{matcher_ms[-1]:.2f}" if matcher_ms else ""
    mask_ms = statistics.median(drawn[-1].call_ms)
    print(
        f"{name:<10} {label:<18} {set_up_s:>8.2f} {shown:>18} {mask_ms:>8.2f} {matching:>12} {sum(right)}/{len(right)}"
    )


def batch() -> list[Molecule]:
    return list(islice(cycle([parse_smiles(smiles) for smiles in SMILES]), BATCH))


def timed(make: Callable[[], Made]) -> tuple[Made, float]:
    began = time.perf_counter()
    made = make()
    return made, time.perf_counter() - began


def check_long(name: str) -> None:
    """Milliseconds of a mask in each part of a long answer: the first call, which may compile a kernel, is left out."""
    molecules, tokenizer = [parse_smiles(LONG)] * BATCH, load_tokenizer(name)
    grammars = [AnswerGrammar.of(molecule, TRIMMED4, tokenizer) for molecule in molecules]
    exact = build_constraint("exact", tokenizer, ROWS[name])
    made: dict[str, LogitsProcessor] = {
        "xgrammar": xgrammar_processor(name, grammars, ROWS[name]),
        "llguidance": llguidance_processor(name, grammars, ROWS[name]),
        "exact": ConstraintProcessor(exact, molecules, tokenizer.end_id or 0),
    }
    for label, processor in made.items():
        ms = sample(processor, BATCH, ROWS[name], tokenizer.end_id or 0, seed=0).call_ms[1:]
        parts = [statistics.median(part) for part in np.array_split(ms, SPANS)]
        shown = " ".join(f"{part:>8.2f}" for part in parts)
        print(f"{name:<10} {label:<18} {len(ms) + 1:>8} {shown} {parts[-1] / parts[0]:>12.2f}")


def check_peer(peer: str, name: str, set_up: Callable[..., Any], make: Callable[..., PeerProcessor]) -> None:
    grammars = [AnswerGrammar.of(molecule, TRIMMED4, load_tokenizer(name)) for molecule in batch()]
    version = importlib.metadata.version(library(peer).__name__)
    hugging_face(name)
    _, set_up_s = timed(lambda: set_up(name, ROWS[name]))
    check(f"{peer} {version}", name, set_up_s, lambda: make(name, grammars, ROWS[name]), None)


def check_exact(name: str) -> None:
    tokenizer = load_tokenizer(name)
    constraint, set_up_s = timed(lambda: build_constraint("exact", tokenizer, ROWS[name]))
    _, times = made_once(batch()[: len(SMILES)], constraint.compile)
    check("exact", name, set_up_s, lambda: ConstraintProcessor(constraint, batch(), tokenizer.end_id or 0), times)


def check_all(name: str) -> None:
    check_peer("xgrammar", name, xgrammar_compiler, xgrammar_processor)
    check_peer("llguidance", name, llguidance_tokenizer, llguidance_processor)
    check_exact(name)


def main() -> None:
    parser = argparse.ArgumentParser(description="The masks of xgrammar, llguidance and the exact LP.")
    parser.add_argument("--long", action="store_true", help="only what a mask costs along an answer of 2,000 tokens")
    tables = [(LONG_HEAD, check_long)] if parser.parse_args().long else [(HEAD, check_all), (LONG_HEAD, check_long)]
    try:
        for head, check_one in tables:
            print(head)
            for name in tokenizer_build.NAMES:
                check_one(name)
    except MissingPeer as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
