"""Reference sets of a store: conformers that generated ones are held against, by molecule.

    reference_set(store, "geom-drugs").conformers("CCO")

A set is written once and never changes but for its label and notes; ``content`` says what it holds, so what is computed
against it may be kept under that. Molecules are canonical SMILES without hydrogens. Conformers with equal bytes are in
it once, and one with another graph than the molecule it is filed under is left out, by name.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
from rdkit import Chem

from engine.chem.conformer_files import (
    HeavyConformer,
    files_of,
    molecule_with,
    read_conformers,
    settled_smiles,
    under_its_key,
)
from engine.errors import DriftscopeError, FileError, StoreError, shown
from engine.records import Molecule
from engine.store.entries import NAME, Entry
from engine.store.schema import REFERENCE_CONFORMERS, REFERENCE_OMISSIONS, REFERENCES
from engine.store.staging import begun_anew
from engine.store.store import UNREADABLE, Store

GROUP = 5_000
"""Conformers that are written together."""


class ReferenceSet:
    """One set, read when it is first asked for a molecule; 200,000 conformers of 25 atoms take 150 MB."""

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.name = entry.id
        self.molecule_count: int = entry.row["molecules"]

    def molecules(self) -> list[str]:
        """Canonical SMILES, in the order in which they came."""
        return list(self._indexes)

    def conformers(self, smiles: str) -> Chem.Mol | None:
        """The molecule without hydrogens, atoms in the order of its canonical SMILES, with all its conformers; None
        where the set has none of it. Any SMILES of the molecule will do."""
        if smiles not in self._indexes:
            with suppress(DriftscopeError):
                smiles = settled_smiles(smiles)
        if (indexes := self._indexes.get(smiles)) is None:
            return None
        numbers = [self._rows["xyz"][index].values.to_numpy(zero_copy_only=False) for index in indexes]
        return molecule_with(smiles, [xyz.reshape(-1, 3) for xyz in numbers])

    def repeated(self, molecules: Sequence[Molecule], per_conformer: int | None) -> tuple[list[Molecule], list[str]]:
        """Each once, or so many times its conformers here; and the SMILES of those that the set has not."""
        repeated, unknown = list[Molecule](), list[str]()
        for molecule in molecules:
            if (conformers := self.conformers(molecule.smiles)) is None:
                unknown.append(molecule.smiles)
            else:
                repeated += [molecule] * ((per_conformer or 0) * conformers.GetNumConformers() or 1)
        if not repeated:
            raise StoreError(f"{self.name} has none of these molecules", "Without SMILES all are taken")
        return repeated, unknown

    @cached_property
    def _rows(self) -> pa.Table:
        try:
            return self.entry.read(REFERENCE_CONFORMERS.name, ["smiles", "xyz"]).combine_chunks()
        except (*UNREADABLE, KeyError) as error:
            raise StoreError(f"the conformers of {self.name} are damaged: {error}", "Run `verify`") from error

    @cached_property
    def _indexes(self) -> dict[str, list[int]]:
        indexes: dict[str, list[int]] = {}
        for index, smiles in enumerate(self._rows["smiles"].to_pylist()):
            indexes.setdefault(smiles, []).append(index)
        return indexes


def reference_set(store: Store, name: str) -> ReferenceSet:
    """The set of that name or label."""
    return ReferenceSet(store.entry(name, REFERENCES))


def write_references(
    store: Store,
    conformers: Iterable[HeavyConformer],
    *,
    label: str,
    progress: Callable[[int], object] = lambda done: None,
    **about: str,
) -> Entry:
    """A set of what is read; all of it or, where the reading fails, nothing. ``progress`` hears how many are read;
    ``about`` has its ``form`` and ``source``, and its ``origin`` unless that is a file."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", label.strip())[:100].strip("-._")
    if not NAME.fullmatch(name):
        raise StoreError(f"{shown(label)} is no label for references", "Give letters and digits, such as geom-drugs")
    if store.has(name, REFERENCES):
        raise StoreError(f"there is an entry {name} already", "Give another --label, or remove it first")
    row = {
        "origin": "imported",
        "label": label,
        **about,
        "created_at": datetime.now(UTC).isoformat(),
        "versions": json.dumps({"rdkit": version("rdkit")}),
    }
    with begun_anew(store.home, REFERENCES, name, row) as staging:
        seen: dict[str, tuple[int, set[bytes]]] = {}  # of each molecule: its number, its conformers' digests
        counts, first = Counter(conformers=0, repeated=0, left_out=0), ""
        rows = defaultdict[str, list[dict[str, Any]]](list)  # by table

        def write() -> None:
            staging.add({table.name: table.rows(rows[table.name]) for table in REFERENCES.tables if table.name in rows})
            rows.clear()

        for done, conformer in enumerate(conformers, start=1):
            progress(done)
            placed = under_its_key(conformer)
            if placed.problem:
                first = first or f": {placed.source}: {placed.problem}"
                counts["left_out"] += 1
                key = placed.key[:500] or None  # a SMILES of any length
                omission = {"reference_set": name, "source": placed.source, "key": key, "reason": placed.problem}
                rows[REFERENCE_OMISSIONS.name].append(omission)
            else:
                smiles, xyz = placed.smiles, placed.xyz
                number, digests = seen.setdefault(smiles, (len(seen), set()))
                digest = hashlib.blake2b(xyz.tobytes(), digest_size=16).digest()
                counts["repeated" if digest in digests else "conformers"] += 1
                if digest not in digests:
                    rows[REFERENCE_CONFORMERS.name].append(
                        {
                            "reference_set": name,
                            "molecule": number,
                            "conformer": len(digests),
                            "smiles": smiles,
                            "xyz": xyz.ravel(),  # [3 x heavy atoms]
                            "weight": conformer.weight,
                            "source": conformer.source,
                        }
                    )
                    digests.add(digest)
            if sum(map(len, rows.values())) >= GROUP:
                write()
        if not seen:
            problem = f"{shown(about['source'], 200)} has no conformer that can be used{first}"
            raise FileError(problem, "Give another file")
        write()
        content = hashlib.sha256()
        for smiles in sorted(seen):
            content.update(f"{smiles}\n".encode() + b"".join(sorted(seen[smiles][1])))
        return staging.publish({"molecules": len(seen), **counts, "content": content.hexdigest()})


def add_references(store: Store, path: Path, label: str, say: Callable[[int], object] = lambda done: None) -> Entry:
    """The set that a user's file, or folder of files of one form, becomes."""
    form, paths = files_of(path, "references")
    conformers, source = read_conformers(form, paths), path.resolve().name
    return write_references(store, conformers, label=label, form=form.name, source=source, progress=say)


def omissions(store: Store, entry: Entry) -> list[dict[str, Any]]:
    """What was left out, in the order of its coming: ``source``, ``key``, ``reason``."""
    sql = "SELECT source, key, reason FROM reference_omissions"
    return store.table(sql, of=[entry.id]).to_pylist() if REFERENCE_OMISSIONS.name in entry.parts else []
