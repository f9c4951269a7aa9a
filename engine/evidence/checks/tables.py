"""Checks by the LPs' own tables: what a constraint holds in memory, blocks and lets pass. No model runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from engine.chem.enriched import described
from engine.chem.smiles import parse_smiles
from engine.evidence.checks.finding import Basis, Finding, beside_reported, fallen_by, held_against, said
from engine.evidence.checks.stored import written_out
from engine.evidence.claims import Claim
from engine.evidence.formula import Range
from engine.lp.constraint import build_constraint
from engine.lp.table import ILLEGAL, KEEP, NO_ID, SYMBOLS, Automaton, Program
from engine.lp_records import lp_record
from engine.models.layout import VOCAB_ROWS
from engine.text.tokenizers import load_tokenizer

MOLECULES = "SELECT DISTINCT smiles FROM samples JOIN runs USING (run_id) WHERE {demo} ORDER BY smiles LIMIT 32"
"""A batch, as the reports had it."""


def lp_table(claim: Claim, basis: Basis) -> Finding:
    """A ``figure`` of the tables of ``lp`` for one tokenizer and the stored molecules.

    ``text`` are the numbers of a block. A claim with a figure is held against it; one without falls where the measured
    figure lies in ``refuted_by``.
    """
    given = claim.arguments
    query = written_out(MOLECULES)
    smiles = [row["smiles"] for row in basis.rows(query)]
    if not smiles:
        return Finding("not testable here", None, "The store does not hold the molecules.", query, "store")
    tokenizer = load_tokenizer(given["tokenizer"])
    constraint = build_constraint(given["lp"], tokenizer, VOCAB_ROWS[given["tokenizer"]])
    descriptors = lp_record(given["lp"]).descriptors or "plain"
    programs = [constraint.compile(described(parse_smiles(text), descriptors)) for text in smiles]
    figure, unit, words = _FIGURES[given["figure"]]
    text = given.get("text", "")
    inside = tokenizer.encode(f"<{text}>")[1:-1] if text else []  # a number that begins with a digit joins no bracket
    measured = figure(constraint.automaton, programs, inside)
    said_of = f" with <{text}>" if text else ""
    about = f"The LP {given['lp']} for {len(smiles)} molecules under {given['tokenizer']}{said_of}: {words}"
    verdict = fallen_by(claim, measured) or held_against(claim, Range.exact(measured))
    reason = f"{about} {said(measured)} {unit}{beside_reported(claim)}."
    how = f"build_constraint({given['lp']!r}, {given['tokenizer']}, {VOCAB_ROWS[given['tokenizer']]})"
    return Finding(verdict, measured, reason, f"{query} -- {how}", "lp tables")


def _megabytes(automaton: Automaton, programs: list[Program], _: list[int]) -> float:
    """All that masks are made from."""
    arrays: list[Any] = [automaton.classes, automaton.goto, automaton.move]
    for program in programs:
        arrays += [program.forced, program.entry, program.symbols, program.jump, program.block]
    return sum(int(array.nbytes) for array in arrays) / 1e6


def _skipped(automaton: Automaton, programs: list[Program], inside: list[int]) -> float:
    """FREE positions of a block that stay unused when it ends behind these tokens; 0 where it may not end there."""
    program = programs[0]
    cells = np.flatnonzero((program.forced == NO_ID) & (program.block == 0))
    if len(inside) >= len(cells):
        return 0.0
    node = KEEP
    for cell, id_ in zip(cells, inside, strict=False):
        node = node if program.entry[cell] == KEEP else int(program.entry[cell])
        node = int(automaton.goto[node, automaton.classes[id_]])
        if node == ILLEGAL:
            return 0.0
    behind = cells[len(inside)]
    node = node if program.entry[behind] == KEEP else int(program.entry[behind])
    may_end = automaton.legal[node, -SYMBOLS] and program.symbols[behind, 0] != NO_ID
    return float(len(cells) - len(inside)) if may_end else 0.0


_FIGURES: dict[str, tuple[Callable[[Automaton, list[Program], list[int]], float], str, str]] = {
    "memory": (_megabytes, "MB", "its tables take"),
    "skipped": (_skipped, "FREE positions", "where a block ends with its numbers, it leaves out"),
    "kept": (
        lambda automaton, *_: 100 * len(automaton.live) / len(automaton.classes),
        "% of the vocabulary",
        "a FREE position lets through",
    ),
}
