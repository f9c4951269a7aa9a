"""Pools: conformers that another program made, in a file or a folder of files, read one by one and judged.

SDF is cut into records here, and its records are read by RDKit and judged in bounded processes, many at a time; other
forms are read as references are (`conformer_files`). A record that cannot be read is a `PoolConformer` with its problem
and costs no other.

The molecule that a conformer should be is the SMILES that is written with it: in a property of the record, as its
title, in the column of a table, or as the key of a pickle. Stereo is judged against that. Where none is written, the
molecule is the record's own graph: its stereo was read from these coordinates, so it cannot be wrong, and is not
judged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from rdkit import Chem

from engine.chem import structure_files as forms
from engine.chem.conformer_files import (
    SHAPES,
    HeavyConformer,
    Shape,
    as_asked,
    files_of,
    molecule_with,
    of_mol,
    omitted,
    read_conformers,
    settled_smiles,
)
from engine.chem.molecule_files import smiles_columns
from engine.chem.smiles import MOST_CHARACTERS, flat_smiles, read_text_order
from engine.chem.strain import xtb_calculator
from engine.chem.verdict import PLAIN, JudgeSettings, judge_mol
from engine.errors import DriftscopeError, FileError
from engine.processes import usable_cores
from engine.records import MoleculeVerdict
from engine.sandbox import Answer, Limits, Pool, SandboxError

AT_ONCE, AT_ONCE_RELAXED = 32, 4
"""Conformers of one call: few enough for the progress, enough that talking to a process costs little."""
GRAPH, TITLE, KEY, COLUMN = "graph", "title", "key", "column smiles"
"""Where the SMILES is from, besides ``property NAME``."""
_ONLY_SMILES = re.compile(r"[][()=#@/\\]")


@dataclass(frozen=True, slots=True)
class PoolRecord:
    """A conformer as its file has it. Of SDF it is a mol block that nothing has read yet."""

    source: str
    block: str = ""
    written: tuple[tuple[str, str], ...] = ()  # where a SMILES may be, and the text there; the likeliest first
    smiles: str = ""  # of other forms, which are read already: of the conformer itself,
    xyz: bytes = b""  # and x, y, z of its atoms
    problem: str = ""  # why there is none


@dataclass(frozen=True, slots=True)
class PoolConformer:
    """A conformer in the order of ``smiles``: the molecule that it should be, or its own where it is another."""

    source: str
    smiles: str = ""
    asked: str = ""  # the molecule that it should be; its own graph where no SMILES is written
    smiles_from: str = ""
    same_graph: bool | None = None  # None where no SMILES is written
    xyz: tuple[float, ...] = ()
    verdict: MoleculeVerdict | None = None  # None where it was not asked for, or nothing could be read
    problem: str = ""


def pool_records(
    path: Path, shapes: Sequence[Shape] = tuple(SHAPES), tell: Callable[[str], object] = lambda stats: None
) -> Iterator[PoolRecord]:
    """What there is in a file, or in all files of a folder, of one form; FileError where it is no such file. An SDF
    that is damaged in the middle ends with a record that says so. ``tell`` gets a shard's stats, in words."""
    form, paths = files_of(path)
    if form.name == "sdf":
        for file in paths:
            yield from _sdf_records(file)
        return
    for conformer in read_conformers(form, paths, shapes, tell):
        where, text = (COLUMN, conformer.key or conformer.smiles) if form.name == "parquet" else (KEY, conformer.key)
        written = ((where, text),) if text else ()
        xyz = np.asarray(conformer.xyz, np.float64).tobytes()
        yield PoolRecord(conformer.source, "", written, conformer.smiles, xyz, conformer.problem)


def _sdf_records(path: Path) -> Iterator[PoolRecord]:
    number = 0
    try:
        for number, record in enumerate(forms.sdf_records(path, is_strict=False), start=1):
            block, fields = forms.split_record(record)
            properties = forms.properties_of(fields)
            names = list(properties)
            written = [(f"property {names[at]}", properties[names[at]]) for at in smiles_columns(names)]
            title = record[0].split()[:1] if record else []
            written += [(TITLE, word) for word in title]
            yield PoolRecord(f"record {number} of {path.name}", block, tuple(written))
    except FileError as error:
        problem = error.what.rpartition(" cannot be read: ")[2]
        problem += "" if "cut short" in problem else "; what follows it was not read"
        yield PoolRecord(f"record {number + 1} of {path.name}", problem=problem)


def read_pool(
    records: Iterable[PoolRecord],
    settings: JudgeSettings | None = PLAIN,
    *,
    workers: int | None = None,
    limit_s: float = 60.0,
) -> Generator[PoolConformer]:
    """Each record's conformer, in their order, judged unless ``settings`` is None. Processes read and judge them, and
    one on which a process ends or that takes longer than ``limit_s`` of computing costs a sentence; what it should be
    is then read by a process as well."""
    is_open = settings is not None and (settings.energy or settings.strain == "gfn2-xtb")
    if settings is not None and settings.strain == "gfn2-xtb":
        xtb_calculator()  # what is missing is said here
    workers, at_once = workers or usable_cores(), AT_ONCE
    if settings is not None and (settings.energy or settings.strain):
        at_once = AT_ONCE_RELAXED
    limits = Limits(limit_s, is_cpu=True, memory_mb=4096, is_closed=not is_open)
    left = iter(records)
    groups = iter(lambda: tuple(islice(left, at_once)), ())
    with Pool(workers, _reader, settings, limits=limits) as pool:
        for group, future in pool.in_order(groups, lambda group: (_packed(group),)):
            yield from _answered(pool, group, future, limit_s)


def _answered(
    pool: Pool, group: Sequence[PoolRecord], future: Future[Answer], limit_s: float
) -> Iterator[PoolConformer]:
    try:
        yield from msgspec.convert(future.result()[0], list[PoolConformer])
        return
    except SandboxError as error:
        if error.why == "start":
            raise DriftscopeError("a process that judges ended before its work", "Try again") from error
        if len(group) == 1:
            if group[0].problem:  # nor what it should be
                yield PoolConformer(group[0].source, problem=group[0].problem)
                return
            is_late = error.why == "time"
            problem = f"stopped after {limit_s:g} s of computing" if is_late else f"not judged: {error.what}"
            group = [replace(group[0], problem=problem)]
    for record in group:
        yield from _answered(pool, (record,), pool.submit(_packed((record,))), limit_s)


def _packed(records: Sequence[PoolRecord]) -> list[tuple[Any, ...]]:
    """As plain values: a closed process imports no class of ours."""
    return [tuple(getattr(record, name) for name in PoolRecord.__slots__) for record in records]


# --- in the child ----------------------------------------------------------------------------------------------------


def _reader(settings: JudgeSettings | None) -> Callable[[Sequence[tuple[Any, ...]]], Answer]:
    def work(records: Sequence[tuple[Any, ...]]) -> Answer:
        return [msgspec.to_builtins(_read(PoolRecord(*record), settings)) for record in records], b""

    mol = molecule_with("C[C@H](N)O", [np.array([[0, 0, 0], [1.5, 0, 0], [2, 1.3, 0.3], [2, -0.8, 1.1]])])
    work([("", Chem.MolToMolBlock(mol), ((TITLE, "C[C@H](N)O"),))])  # nothing can be imported later
    return work


def _read(record: PoolRecord, settings: JudgeSettings | None) -> PoolConformer:
    asked, smiles_from = _named(record.written)
    nothing = PoolConformer(record.source, asked=asked, smiles_from=smiles_from, problem=record.problem)
    if record.problem:
        return nothing
    try:
        if record.block:
            found = next(of_mol(forms.mol_of_block(record.block), record.source))
        else:
            found = HeavyConformer(record.smiles, np.frombuffer(record.xyz).reshape(-1, 3), record.source)
    except DriftscopeError as error:
        found = omitted(record.source, "", error.what)
    if found.problem:
        return replace(nothing, problem=found.problem)
    titled = "" if asked else _settled(dict(record.written).get(TITLE, ""))
    if titled and without_stereo(titled) == without_stereo(found.smiles):
        asked, smiles_from = titled, TITLE
    placed, is_same = as_asked(replace(found, key=asked))
    if placed.problem:
        return replace(nothing, problem=placed.problem)
    verdict = None
    if settings is not None:
        expected = _settled(asked) or without_stereo(placed.smiles)
        mol = molecule_with(placed.smiles, [placed.xyz])
        verdict = judge_mol(mol, placed.smiles, _expected(expected), settings)
    xyz = tuple(placed.xyz.ravel().tolist())
    return PoolConformer(record.source, placed.smiles, asked or placed.smiles, smiles_from, is_same, xyz, verdict)


def _named(written: Iterable[tuple[str, str]]) -> tuple[str, str]:
    """The SMILES that is written for a conformer, and where; empty where it is nowhere. A title is one if it has a
    character that no name has: ``CON`` and ``C1`` may be names. A key stays one that cannot be read."""
    for where, text in written:
        settled = _settled(text)
        if settled and (where != TITLE or _ONLY_SMILES.search(text)):
            return settled, where
        if where == KEY:
            return text, where
    return "", GRAPH


@lru_cache(4_096)
def _settled(text: str) -> str:
    """Empty for what is no SMILES."""
    try:
        return settled_smiles(text) if len(text) <= MOST_CHARACTERS else ""
    except DriftscopeError:
        return ""


@lru_cache(4_096)
def without_stereo(smiles: str) -> str:
    """The same graph, of which nothing is specified in space."""
    return flat_smiles(read_text_order(smiles))


_expected = lru_cache(64)(read_text_order)
