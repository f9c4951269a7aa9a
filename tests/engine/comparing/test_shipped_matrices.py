"""The RMSDs that ship beside the demo runs: theirs, what is computed anew, and taken by the same RDKit alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.comparing import rmsd_matrices
from engine.comparing.array_files import read_arrays
from engine.comparing.evaluation import EvaluationRequest, is_computed, jobs_of
from engine.comparing.measures import has_samples
from engine.store.files import Files
from engine.store.store import DEMO, Store

STORE, REQUEST = Store(Files(DEMO)), EvaluationRequest()
RUNS = [entry for entry in STORE.found().entries if has_samples(entry)]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRIFTSCOPE_CACHE", str(tmp_path / "cache"))


def test_every_demo_run_is_evaluated_and_a_matrix_is_what_it_would_be_made_anew() -> None:
    """When this fails, `make demo-coverage` is due."""
    assert len(RUNS) == 11 and all(is_computed(STORE, entry, REQUEST) for entry in RUNS)
    run = next(entry for entry in RUNS if entry.row["lp"] == "guarded")
    for job in sorted(jobs_of(STORE, run, REQUEST, []), key=lambda job: len(job.payload["smiles"]))[:6]:
        meta, arrays = job.make(job.payload)
        shipped_meta, shipped = read_arrays(job.path)
        assert arrays["rmsd"].shape == (10, 1) and shipped_meta == meta | {"key": job.key}
        np.testing.assert_allclose(shipped["rmsd"], arrays["rmsd"], rtol=0, atol=0.01)


def test_another_rdkit_makes_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rmsd_matrices, "_VERSIONS", {"format": "1", "rdkit": "1999.1"})
    assert not any(is_computed(STORE, entry, REQUEST) for entry in RUNS)


def test_a_damaged_file_is_passed_by(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "damaged.arrays"
    path.write_bytes(rmsd_matrices.SHIPPED.read_bytes()[:-9])
    monkeypatch.setattr(rmsd_matrices, "SHIPPED", path)
    assert not is_computed(STORE, RUNS[0], REQUEST)
