"""RMSD matrices [references, samples] of molecules: jobs for processes, each of which keeps one matrix as a file.

A file is named by all that its matrix rests on (molecule, references, texts or the number of baseline conformers) and
keyed by versions besides, so that a stopped evaluation resumes, and runs with the same references share their
baselines. Files lie in the folder of caches, where those of the demo runs are laid as they are needed
(``shipped_matrices``); any of them may be deleted, and those that nothing used for some time are, when an evaluation
begins.

Of a run's texts those count that a reader (the strict one, where none is named) takes for the molecule that was asked
for. Symmetries are tried up to ``MAX_MATCHES`` per pair; beyond, the RMSD is an upper bound and the matrix is not
complete.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import rdkit
from numpy.typing import NDArray
from rdkit import Chem

from engine.array_files import Arrays, Meta, read_arrays
from engine.chem.clustering import clustered_conformers
from engine.chem.conformers import reference_conformers
from engine.chem.rmsd import MAX_MATCHES, ensemble_metrics
from engine.chem.smiles import parse_smiles, same_graph
from engine.comparing.shipped_matrices import put_shipped
from engine.errors import DriftscopeError
from engine.file_jobs import FileJob, FinishedJob
from engine.paths import cache_folder
from engine.records import ReaderName
from engine.text.readers import decode_with

FOLDER = "rmsd"
MAX_SECONDS = 30.0
"""Longest search for a molecule's references by ETKDG."""
_VERSIONS = {"format": "1", "rdkit": rdkit.__version__}
UNUSED_DAYS = 60
"""Matrices that nothing has read for so long are removed."""
_EXACT = int(Chem.PropertyPickleOptions.CoordsAsDouble)

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


def read_matrix(job: FinishedJob) -> NDArray[np.float64]:
    """[references, samples]; the file counts as used now."""
    with contextlib.suppress(OSError):  # another user's file
        os.utime(job.path)
    found: NDArray[np.float64] = read_arrays(job.path)[1]["rmsd"]
    return found


def remove_unused() -> int:
    """Removes matrices that were not used for ``UNUSED_DAYS``, and says how many."""
    oldest, removed = time.time() - UNUSED_DAYS * 86_400, 0
    for path in (cache_folder() / FOLDER).glob("*/*.arrays"):
        with contextlib.suppress(OSError):  # another process was first, or it is another user's
            if path.stat().st_mtime < oldest:
                path.unlink()
                removed += 1
    return removed


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


def etkdg_references(smiles: str, count: int, max_seconds: float = MAX_SECONDS) -> Chem.Mol | None:
    """None where RDKit finds none."""
    try:
        return reference_conformers(parse_smiles(smiles), count, max_seconds=max_seconds)
    except DriftscopeError:
        return None


def _job(make: Callable[[Any], tuple[Meta, Arrays]], payload: Mapping[str, Any]) -> FileJob:
    digest = hashlib.sha256(json.dumps([make.__name__, payload], sort_keys=True).encode()).hexdigest()
    job = FileJob(cache_folder() / FOLDER / digest[:2] / f"{digest}.arrays", make, payload, _VERSIONS)
    if not job.path.exists():
        put_shipped(job)
    return job


def _matrix(payload: Mapping[str, Any], samples_for: Callable[[Chem.Mol], list[Chem.Mol]]) -> tuple[Meta, Arrays]:
    """What RDKit cannot lay on itself has gaps alone; without references there is nothing to lay it on."""
    references = _references(payload)
    if references is None:
        return {"complete": True}, {"rmsd": np.empty((0, 0))}
    samples = samples_for(references)
    shape = references.GetNumConformers(), sum(mol.GetNumConformers() for mol in samples)
    if not shape[1]:
        return {"complete": True}, {"rmsd": np.empty(shape)}
    try:
        metrics = ensemble_metrics(samples, references, max_matches=MAX_MATCHES)
    except DriftscopeError:
        return {"complete": True}, {"rmsd": np.full(shape, np.nan)}
    return {"complete": metrics.complete}, {"rmsd": metrics.rmsd_ang.T}


def _references(payload: Mapping[str, Any]) -> Chem.Mol | None:
    given = payload["references"]
    if "etkdg" in given:
        return etkdg_references(payload["smiles"], given["etkdg"])
    return Chem.Mol(base64.b64decode(given["conformers"]))
