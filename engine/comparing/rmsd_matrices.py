"""RMSD matrices [references, samples] of molecules: jobs for processes, each of which keeps one matrix as a file.

A file is named by all that its matrix rests on (molecule, references, texts or the number of baseline conformers) and
keyed by versions besides, so that a stopped evaluation resumes, and runs with the same references share their
baselines. Files lie in the folder of caches; any may be deleted. Matrices of the demo runs ship in one file: a job
whose key it has, takes its matrix from there, and those of other texts, other references or another RDKit never are.

Of a run's texts those count that a reader (the strict one, where none is named) takes for the molecule that was asked
for. Symmetries are tried up to ``MAX_MATCHES`` per pair; beyond, the RMSD is an upper bound and the matrix is not
complete.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import rdkit
from numpy.typing import NDArray
from rdkit import Chem

from engine.chem.conformers import reference_conformers
from engine.chem.rmsd import MAX_MATCHES, clustered_conformers, index_rmsd_matrix, rmsd_matrix
from engine.chem.smiles import parse_smiles, same_graph
from engine.comparing.array_files import Arrays, Meta, read_arrays, write_arrays
from engine.comparing.file_jobs import FileJob, FinishedJob
from engine.errors import AssetError, DriftscopeError, FileError, shown
from engine.paths import DATA, cache_folder
from engine.records import ReaderName
from engine.text.check import decode_with
from engine.user_files import parsed_json

log = logging.getLogger(__name__)
FOLDER, FILE = "matrices", "rmsd.arrays"
BY_INDEX = "by_index"
"""The array of RMSDs with atoms matched by index; files of earlier versions, and those that ship, lack it."""
SHIPPED = DATA / "demo" / FILE
"""``keys`` [n, 32], ``complete`` [n], ``shapes`` [n, 2] (references, samples), and their ``rmsd`` one after another."""
MAX_SECONDS = 30.0  # longest search for a molecule's references by ETKDG
_VERSIONS = {"format": "1", "rdkit": rdkit.__version__}
_EXACT = int(Chem.PropertyPickleOptions.CoordsAsDouble)
Matrix = NDArray[np.float64]
References = Mapping[str, Any]
"""``{"etkdg": count}``, or ``{"conformers": text}`` as ``given_references`` makes it."""


def given_references(conformers: Chem.Mol) -> References:
    """All conformers of one molecule, as JSON can hold them and without a digit lost."""
    return {"conformers": base64.b64encode(conformers.ToBinary(_EXACT)).decode()}


def texts_job(smiles: str, references: References, texts: Sequence[str], reader: ReaderName = "strict") -> FileJob:
    payload = {"smiles": smiles, "references": dict(references), "texts": list(texts), "reader": reader}
    return _job(matrix_of_texts, payload)


def baseline_job(smiles: str, references: References, count: int) -> FileJob:
    return _job(matrix_of_baseline, {"smiles": smiles, "references": dict(references), "count": count})


def read_matrix(job: FinishedJob) -> Matrix:
    """[references, samples]"""
    matrix: Matrix = read_arrays(job.path)[1]["rmsd"]
    return matrix


def read_by_index(job: FinishedJob) -> Matrix | None:
    """The same with atoms matched by index; None where that was not computed."""
    return read_arrays(job.path)[1].get(BY_INDEX)


def matrix_of_texts(payload: Mapping[str, Any]) -> tuple[Meta, Arrays]:
    texts, reader = payload["texts"], payload["reader"]
    return _matrix(payload, lambda references: conformers_of(texts, references, reader))


def matrix_of_baseline(payload: Mapping[str, Any]) -> tuple[Meta, Arrays]:
    def clustered(_: Chem.Mol) -> list[Chem.Mol]:
        try:
            return [clustered_conformers(parse_smiles(payload["smiles"]), payload["count"])]
        except DriftscopeError:
            return []

    return _matrix(payload, clustered)


def conformers_of(texts: Iterable[str], references: Chem.Mol, reader: ReaderName = "strict") -> list[Chem.Mol]:
    """Of the answers that the reader takes for the references' molecule: those of one SMILES in one molecule."""
    by_smiles: dict[str, Chem.Mol | None] = {}
    for text in texts:
        try:
            decoded = decode_with(reader, text)
        except DriftscopeError:
            continue
        if decoded.smiles not in by_smiles:
            by_smiles[decoded.smiles] = decoded.mol if same_graph(decoded.mol, references) else None
        elif (mol := by_smiles[decoded.smiles]) is not None:
            mol.AddConformer(decoded.mol.GetConformer(), assignId=True)
    return [mol for mol in by_smiles.values() if mol is not None]


def _job(make: Callable[[Any], tuple[Meta, Arrays]], payload: Mapping[str, Any]) -> FileJob:
    digest = hashlib.sha256(json.dumps([make.__name__, payload], sort_keys=True).encode()).hexdigest()
    job = FileJob(cache_folder() / FOLDER / digest[:2] / f"{digest}.arrays", make, payload, _VERSIONS)
    if not job.path.exists() and (shipped := _shipped(SHIPPED).get(job.key)) is not None:
        with contextlib.suppress(AssetError):  # a folder that takes nothing is named once the matrix is needed
            write_arrays(job.path, {"complete": shipped[0], "key": job.key}, {"rmsd": shipped[1]})
    return job


def _matrix(payload: Mapping[str, Any], samples_for: Callable[[Chem.Mol], list[Chem.Mol]]) -> tuple[Meta, Arrays]:
    """What RDKit cannot lay on itself has gaps alone; without references there is nothing to lay it on."""
    source = payload["references"]
    try:
        references = (
            reference_conformers(parse_smiles(payload["smiles"]), source["etkdg"], max_seconds=MAX_SECONDS)
            if "etkdg" in source
            else Chem.Mol(base64.b64decode(source["conformers"]))
        )
    except DriftscopeError:
        return {"complete": True}, {"rmsd": np.empty((0, 0)), BY_INDEX: np.empty((0, 0))}
    samples = samples_for(references)
    shape = references.GetNumConformers(), sum(mol.GetNumConformers() for mol in samples)
    if not shape[1]:
        return {"complete": True}, {"rmsd": np.empty(shape), BY_INDEX: np.empty(shape)}
    try:
        matrix, is_complete = rmsd_matrix(samples, references, max_matches=MAX_MATCHES)
        by_index = index_rmsd_matrix(samples, references)
    except DriftscopeError:
        return {"complete": True}, {"rmsd": np.full(shape, np.nan), BY_INDEX: np.full(shape, np.nan)}
    return {"complete": is_complete}, {"rmsd": matrix.T, BY_INDEX: by_index.T}


# --- matrices that ship -----------------------------------------------------------------------------------------------


@cache
def _shipped(path: Path) -> dict[str, tuple[bool, Matrix]]:
    if not path.exists():
        return {}
    try:
        arrays = read_arrays(path)[1]
    except FileError as error:
        log.warning("%s", error)
        return {}
    ends = np.cumsum(arrays["shapes"].prod(axis=1))[:-1]
    parts = zip(arrays["keys"], arrays["complete"], arrays["shapes"], np.split(arrays["rmsd"], ends), strict=True)
    return {key.tobytes().hex(): (bool(complete), rmsd.reshape(shape)) for key, complete, shape, rmsd in parts}


# --- matrices of others -----------------------------------------------------------------------------------------------


def read_matrices(text: str) -> dict[str, Matrix]:
    """By molecule [references, samples], of JSON as ``{"molecule": [[rmsd, ...] per reference]}`` in ångström, null for
    a gap. A molecule without a single sample has empty rows, or none."""
    form = 'Give {"molecule": [[rmsd, ...] per reference, ...], ...}, with null for a gap'
    try:
        document = parsed_json(text)
    except ValueError as error:
        raise FileError(f"the matrices are no JSON ({error})", form) from error
    if not isinstance(document, dict) or not document:
        raise FileError("the matrices are no object with a molecule in it", form)
    matrices = {}
    for name, rows in document.items():
        try:
            matrix = np.array(rows, dtype=np.float64).reshape(len(rows), len(rows[0]) if rows else 0)
        except (TypeError, ValueError, OverflowError) as error:
            raise FileError(f"{shown(name)} is no matrix of RMSDs ({error})", form) from error
        if (matrix < 0).any() or np.isinf(matrix).any():
            raise FileError(f"{shown(name)} is no matrix of RMSDs: one is negative or infinite", form)
        matrices[name] = matrix
    return matrices
