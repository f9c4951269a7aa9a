"""What a bundle holds. All of it is data that JSON can hold; nothing here reads a store or writes HTML."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from engine.store.provenance import git_commit, versions

MOST_BYTES = 1_500_000
"""Of a bundle, with 3Dmol.js."""
ShownToken = tuple[str, str, int | None, str]
"""Its piece, its marks, the atom whose row it is in, and what else is known of it."""


@dataclass(frozen=True, slots=True)
class TableView:
    """A table of an answer. ``values`` are the question's own, to the digit, ``words`` how they are shown."""

    name: str
    titles: Sequence[str]
    helps: Sequence[str]
    values: Sequence[Sequence[Any]]
    words: Sequence[Sequence[str]]
    rows_left_out: int = 0


@dataclass(frozen=True, slots=True)
class ChartView:
    """``legend``: an SVG of each mark, and its name; ``panels``: titles and SVGs."""

    legend: Sequence[tuple[str, str]]
    panels: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class AnswerView:
    """A question that was asked of the store."""

    title: str
    about: str
    answer: str
    command: str
    charts: Sequence[ChartView]
    tables: Sequence[TableView]
    left_out: Sequence[str] = ()  # charts that are not drawn here


@dataclass(frozen=True, slots=True)
class Conformer:
    """``atoms`` has the molecule's atom for each of the block's, -1 for none; ``marks`` what is wrong, by atom of the
    molecule. ``by_group``: what the group's reader makes of the same text, where it differs."""

    block: str
    atoms: Sequence[int]
    marks: Mapping[str, str]
    by_group: str = ""


@dataclass(frozen=True, slots=True)
class MoleculeView:
    """One sample. ``rows`` are of atoms, as `AtomRow` has them, and ``table`` shows them."""

    name: str
    smiles: str
    answer: str
    command: str
    drawing: str  # SVG
    conformer: Conformer | None
    why_no_conformer: str
    tokens: Sequence[ShownToken]
    rows: Sequence[Mapping[str, Any]]
    table: TableView


@dataclass(frozen=True, slots=True)
class Bundle:
    """``sources``: of each run or trace what made it; ``left_out``: questions and files with the reason why."""

    title: str
    command: str
    answers: Sequence[AnswerView]
    molecules: Sequence[MoleculeView]
    molecules_left_out: int
    sources: Sequence[Mapping[str, str]] = ()
    left_out: Sequence[str] = ()
    notes: Sequence[str] = ()
    made: str = field(default_factory=lambda: f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC")
    versions: Mapping[str, str] = field(default_factory=lambda: json.loads(versions()))
    git_commit: str | None = field(default_factory=git_commit)
