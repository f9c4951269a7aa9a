"""A whole run's COV and MAT: matrices equal to a plain loop of RDKit's, kept and resumed, beside a baseline."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from rdkit import Chem
from rdkit.Chem import rdMolAlign

from engine.chem.conformers import reference_conformers
from engine.chem.enriched import encode
from engine.chem.smiles import parse_smiles
from engine.comparing import rmsd_matrices
from engine.comparing.array_files import read_arrays
from engine.comparing.evaluation import EvaluationRequest, evaluate_run, is_computed, jobs_of
from engine.comparing.file_jobs import FileJob, run_job, run_jobs
from engine.comparing.measures import has_samples
from engine.comparing.rmsd_matrices import baseline_job, given_references, texts_job
from engine.errors import DriftscopeError
from engine.figures.coverage_metrics import THRESHOLDS_ANG
from engine.records import WIDEST
from engine.store.references import ReferenceSet
from engine.store.store import Store
from tests.engine.inspection.made import DEMO_STORE, sample_row, write_run
from tests.support import sized

CHAIN, ETHER, ACID = "CCCCCO", "CCCCOC", "CC(C)Cc1ccc(cc1)C(C)C(=O)O"
MOLECULES = [
    CHAIN, ACID, "O=[N+]([O-])c1ccc(C(=O)[O-])cc1", "NC(=[NH2+])c1ccc(S(N)(=O)=O)cc1", "FC(F)(F)c1ccccc1",
    "O=P(O)(O)OCC(=O)[O-]", "C[C@H](N)C(=O)O", "CCO.[Na+].[Cl-]", "CC(C)(C)c1cc(C(C)(C)C)cc(C(C)(C)C)c1",
]  # fmt: skip


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("DRIFTSCOPE_CACHE", str(folder))
    return folder


class MadeReferences(ReferenceSet):
    """The first conformers of each of these molecules."""

    name = "made"

    def __init__(self, count: int, *molecules: str) -> None:
        self.count, self.smiles, self.molecule_count = count, molecules, len(molecules)

    def conformers(self, smiles: str) -> Chem.Mol | None:
        return reference_conformers(parse_smiles(smiles), self.count) if smiles in self.smiles else None


def texts(smiles: str, count: int, seed: int = 0) -> list[str]:
    mol = reference_conformers(parse_smiles(smiles), count, seed=seed)
    return [encode(mol, WIDEST, conformer=conformer.GetId()).text for conformer in mol.GetConformers()]


def write(store: Store, run_id: str, answers: Sequence[tuple[str, str]]) -> None:
    samples = [{"smiles": smiles, "text": f"[CONFORMER]{text}[/CONFORMER]"} for smiles, text in answers]
    write_run(store, run_id, [sample_row(number, **said, generation=number) for number, said in enumerate(samples)])


@pytest.mark.soak
def test_equal_to_a_plain_loop_of_get_best_rms() -> None:
    """Hydrogens removed on both sides; 6 samples for 3 references of each molecule."""
    jobs, loops = [], []
    for smiles in MOLECULES:
        molecule = parse_smiles(smiles)
        references, samples = reference_conformers(molecule, 3), reference_conformers(molecule, 6, seed=1)
        written = [encode(samples, WIDEST, conformer=conformer.GetId()).text for conformer in samples.GetConformers()]
        jobs.append(texts_job(smiles, given_references(references), written))
        ref, probe = Chem.RemoveHs(references), Chem.RemoveHs(samples)
        loops.append([[rdMolAlign.GetBestRMS(probe, ref, column, row) for column in range(6)] for row in range(3)])
    for done, loop in zip(run_jobs(jobs, sized(1, 2)), loops, strict=True):
        np.testing.assert_allclose(read_arrays(done.path)[1]["rmsd"], loop, rtol=0, atol=1e-6)


def test_the_references_themselves_are_covered_whole_beside_a_baseline(store: Store) -> None:
    write(store, "own", [(smiles, text) for smiles in (CHAIN, ETHER) for text in texts(smiles, 4)])
    request = EvaluationRequest(MadeReferences(4, CHAIN, ETHER), threshold_ang=0.01)
    heard: list[tuple[int, int]] = []
    result = evaluate_run(store, "own", request, workers=1, progress=lambda *said: heard.append(said))
    assert result.figures.mean.tolist() == pytest.approx([1, 1, 0, 0], abs=1e-6)
    assert (result.references, result.asked, result.run.samples, result.without_references) == (8, 8, 8, 0)
    assert result.clustered is not None and result.baseline is not None
    assert (result.clustered.samples, result.baseline.molecules) == (8, 2)
    assert result.baseline.mean[0] < 0.5 and result.baseline.mean[2] > 0.05  # none is a reference
    assert heard == [(1, 2), (2, 2)]


def test_molecules_without_samples_and_without_references(store: Store) -> None:
    answers = [(CHAIN, text) for text in texts(CHAIN, 2)]
    write(store, "half", [*answers, (ETHER, "[C]<1.0,2.0"), ("CC", texts("CC", 1)[0])])
    references = MadeReferences(2, CHAIN, ETHER)
    skip, zero = (
        evaluate_run(store, "half", EvaluationRequest(references, rule=rule), workers=1) for rule in ("skip", "zero")
    )
    for result in (skip, zero):
        assert (result.figures.molecules, result.figures.missing, result.without_references) == (2, 1, 1)
        assert (result.asked, result.run.samples) == (4, 2)
    assert (skip.figures.mean[0], zero.figures.mean[0]) == (1.0, 0.5)
    assert skip.baseline is not None and zero.baseline is not None
    assert (skip.baseline.molecules, zero.baseline.molecules) == (1, 2)  # those that the run's figures are over


def test_what_is_there_is_not_made_again_and_a_stopped_call_resumes(
    store: Store, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(store, "kept", [(smiles, texts(smiles, 1)[0]) for smiles in (CHAIN, ETHER, ACID)])
    made: list[str] = []

    def counted(job: FileJob) -> object:
        done = run_job(job)
        made.extend([] if done.was_there else [job.make.__name__])
        return done

    monkeypatch.setattr("engine.comparing.file_jobs.run_job", counted)

    def stop(done: int, molecules: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluate_run(store, "kept", workers=1, progress=stop)
    before = len(made)
    assert 2 <= before < 6
    first = evaluate_run(store, "kept", workers=1)
    assert len(made) == 6
    again = evaluate_run(store, "kept", EvaluationRequest(threshold_ang=THRESHOLDS_ANG[0]), workers=1)
    assert len(made) == 6
    assert again.figures.mean[2:].tolist() == first.figures.mean[2:].tolist()
    write(store, "other", [(CHAIN, texts(CHAIN, 1, seed=5)[0])])
    evaluate_run(store, "other", workers=1)
    assert made[6:] == ["matrix_of_texts"]  # the baseline is the first run's
    damaged = next(path for path in cache.rglob("*.arrays"))
    damaged.write_bytes(damaged.read_bytes()[:-4])
    assert evaluate_run(store, "kept", workers=1).figures.mean.tolist() == first.figures.mean.tolist()


def test_a_matrix_is_named_by_all_that_it_rests_on() -> None:
    references = given_references(reference_conformers(parse_smiles(CHAIN), 2))
    moved = given_references(reference_conformers(parse_smiles(CHAIN), 2, seed=1))
    jobs = [
        texts_job(CHAIN, references, ["a"]),
        texts_job(CHAIN, moved, ["a"]),
        texts_job(CHAIN, references, ["b"]),
        texts_job(CHAIN, {"etkdg": 2}, ["a"]),
        texts_job(CHAIN, {"etkdg": 3}, ["a"]),
        baseline_job(CHAIN, references, 2),
        baseline_job(CHAIN, references, 3),
        baseline_job(ETHER, references, 2),
    ]
    assert len({job.path for job in jobs}) == len(jobs)
    assert texts_job(CHAIN, references, ["a"]).path == jobs[0].path


def test_what_cannot_be_evaluated_is_named(store: Store) -> None:
    write_run(store, "empty", [])
    with pytest.raises(DriftscopeError, match="has no samples to evaluate"):
        evaluate_run(store, "empty")
    write(store, "odd", [(CHAIN, "")])
    with pytest.raises(DriftscopeError, match="have none of the 1 molecules of odd"):
        evaluate_run(store, "odd", EvaluationRequest(MadeReferences(1)), workers=1)


# --- those that ship beside the demo runs -----------------------------------------------------------------------------
REQUEST = EvaluationRequest()
RUNS = [entry for entry in DEMO_STORE.listing().entries if has_samples(entry)]


def test_every_demo_run_is_evaluated_and_a_matrix_is_what_it_would_be_made_anew() -> None:
    """When this fails, `make demo-coverage` is due."""
    assert len(RUNS) == 20 and all(is_computed(DEMO_STORE, entry, REQUEST) for entry in RUNS)
    run = next(entry for entry in RUNS if entry.row["lp"] == "guarded")
    for job in sorted(jobs_of(DEMO_STORE, run, REQUEST, []), key=lambda job: len(job.payload["smiles"]))[:6]:
        meta, arrays = job.make(job.payload)
        shipped_meta, shipped = read_arrays(job.path)
        assert arrays["rmsd"].shape == (10, 1) and shipped_meta == meta | {"key": job.key}
        np.testing.assert_allclose(shipped["rmsd"], arrays["rmsd"], rtol=0, atol=0.01)


def test_another_rdkit_makes_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rmsd_matrices, "_VERSIONS", {"format": "1", "rdkit": "1999.1"})
    assert not any(is_computed(DEMO_STORE, entry, REQUEST) for entry in RUNS)


def test_a_damaged_file_is_passed_by(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "damaged.arrays"
    path.write_bytes(rmsd_matrices.SHIPPED.read_bytes()[:-9])
    monkeypatch.setattr(rmsd_matrices, "SHIPPED", path)
    assert not is_computed(DEMO_STORE, RUNS[0], REQUEST)
