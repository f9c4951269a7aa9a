"""The molecules that ship in ``data/`` (its README says what the tags mean): plain text, read without RDKit. A SMILES
is canonical by the pinned RDKit (``molecules.tsv``, ``heldout.smi``) or as a chemist writes it (``named.tsv``)."""

from __future__ import annotations

from itertools import islice
from typing import NamedTuple

from engine.errors import DriftscopeError
from engine.paths import DATA


class MoleculeEntry(NamedTuple):
    smiles: str
    tags: tuple[str, ...]


def load_molecule_set(limit: int | None = None, tag: str | None = None) -> list[MoleculeEntry]:
    """The first ``limit`` molecules that have ``tag``. The file is shuffled: its start is a sample of the whole."""
    entries = (MoleculeEntry(smiles, tuple(tags.split(","))) for smiles, tags, _ in rows_of("molecules.tsv"))
    return list(islice((entry for entry in entries if tag is None or tag in entry.tags), limit))


def load_named() -> dict[str, str]:
    """SMILES by name, for a chooser."""
    return {name: smiles for name, smiles, _ in rows_of("named.tsv")}


def load_run_set(limit: int | None = None) -> list[str]:
    """The first SMILES of ``heldout.smi``; models are measured on 200 of them."""
    smiles = (DATA / "heldout.smi").read_text(encoding="utf-8").splitlines()
    if limit is not None and not 0 < limit <= len(smiles):
        problem = f"{limit:,} molecules are asked for, and {len(smiles):,} held-out ones ship"
        raise DriftscopeError(problem, "Give a file of your own")
    return smiles[:limit]


def rows_of(name: str) -> list[list[str]]:
    """The cells of each line below the header."""
    return [line.split("\t") for line in (DATA / name).read_text(encoding="utf-8").splitlines()[1:]]
