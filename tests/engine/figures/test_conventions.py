"""The named conventions of COV and MAT against numpy written out by hand, one function for each program."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.figures.conventions import BY_NAME, CONVENTIONS, MoleculeMatrix, figures_by
from engine.figures.coverage_metrics import FIGURES
from tests.cli import run_json

NAN = np.nan
T = 0.75
Rows = list[tuple[float, float, float, float]]


def random_molecules(count: int = 120, seed: int = 3) -> list[MoleculeMatrix]:
    """Gaps, rows and columns of gaps alone, values on the threshold, molecules without a conformer, several parts."""
    rng = np.random.default_rng(seed)
    molecules = []
    for number in range(count):
        references, conformers = int(rng.integers(1, 25)), int(rng.choice([0, 1, 3, 8, 20, 50, 70]))
        rmsd = rng.choice([0.5, 0.75, 1.0, 1.25], (references, conformers)) + rng.choice([0, 0.1, 0.3], (references, 1))
        rmsd[rng.random(rmsd.shape) < rng.choice([0, 0, 0.2, 0.9])] = NAN
        if conformers and rng.random() < 0.3:
            rmsd[int(rng.integers(references))] = NAN
        if conformers and rng.random() < 0.3:
            rmsd[:, int(rng.integers(conformers))] = NAN
        by_index = np.where(rng.random(rmsd.shape) < 0.05, NAN, np.nan_to_num(rmsd, nan=0.9) + 0.2)
        smiles = f"C{number}.O" if rng.random() < 0.2 else f"C{number}"
        molecules.append(MoleculeMatrix(smiles, rmsd, int(rng.integers(0, 4)), by_index))
    return molecules


def nanmin(rmsd: Any, axis: int) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rows of gaps alone
        return np.nanmin(rmsd, axis=axis)


def benchmark(molecules: list[MoleculeMatrix]) -> Rows:
    rows = []
    for molecule in molecules:
        rmsd = molecule.rmsd_ang.copy()
        if molecule.by_index_ang is not None:
            holes = np.isnan(rmsd)
            rmsd[holes] = molecule.by_index_ang[holes]
        good = [column for column in rmsd.T if not np.isnan(column).all()]
        if not good:
            rows.append((0.0, 0.0, NAN, NAN))
            continue
        kept = np.array(good).T[:, : 2 * len(rmsd)]
        per_reference, per_sample = nanmin(kept, 1), nanmin(kept, 0)
        recall, precision = np.mean(per_reference <= T), np.mean(per_sample <= T)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rows.append((recall, precision, np.nanmean(per_reference), np.nanmean(per_sample)))
    return rows


def loop_of_predictions(rmsd: Any, samples: int) -> tuple[float, float, float, float]:
    """As ET-Flow and DiTMC: nanmin, then a plain mean."""
    kept = rmsd[:, :samples]
    per_reference, per_sample = nanmin(kept, 1), nanmin(kept, 0)
    return np.mean(per_reference < T), np.mean(per_sample < T), np.mean(per_reference), np.mean(per_sample)


def runner(molecules: list[MoleculeMatrix]) -> Rows:
    return [loop_of_predictions(m.rmsd_ang, 2 * len(m.rmsd_ang)) for m in molecules if m.rmsd_ang.shape[1]]


def etflow(molecules: list[MoleculeMatrix]) -> Rows:
    rows = []
    for molecule in molecules:
        references, conformers = molecule.rmsd_ang.shape
        if "." in molecule.smiles or conformers < 2 * references:
            continue
        rows.append(loop_of_predictions(molecule.rmsd_ang, 2 * references))
    return rows


def torsional_diffusion(molecules: list[MoleculeMatrix]) -> Rows:
    """A failed conformer covers nothing, and is in no MAT; a molecule without any is 0 in COV."""
    rows = []
    for molecule in molecules:
        references, conformers = molecule.rmsd_ang.shape
        if not conformers:
            rows.append((0.0, 0.0, NAN, NAN))
            continue
        with_failed = np.concatenate([molecule.rmsd_ang, np.full((references, molecule.failed), NAN)], axis=1)
        kept = with_failed[:, : 2 * references]
        per_reference, per_sample = nanmin(kept, 1), nanmin(kept, 0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mats = np.nanmean(per_reference), np.nanmean(per_sample)
        rows.append((np.mean(per_reference < T), np.mean(per_sample < T), *mats))
    return rows


def etflow_properties(molecules: list[MoleculeMatrix]) -> Rows:
    chosen = [m for m in molecules if m.rmsd_ang.shape[1] and "." not in m.smiles]
    return [loop_of_predictions(m.rmsd_ang, min(2 * len(m.rmsd_ang), 32)) for m in chosen]


def alignmol(molecules: list[MoleculeMatrix]) -> Rows:
    chosen = [m.by_index_ang for m in molecules if m.by_index_ang is not None and m.by_index_ang.shape[1]]
    return [loop_of_predictions(rmsd, 2 * len(rmsd)) for rmsd in chosen]


BY_HAND: dict[str, Callable[[list[MoleculeMatrix]], Rows]] = {
    "benchmark": benchmark,
    "runner": runner,
    "ditmc": runner,
    "etflow": etflow,
    "torsional-diffusion": torsional_diffusion,
    "etflow-properties": etflow_properties,
    "ditmc-alignmol": alignmol,
}


@pytest.mark.parametrize("name", list(BY_NAME))
def test_random_matrices_by_hand(name: str) -> None:
    molecules = random_molecules()
    figures = figures_by(BY_NAME[name], molecules, T)
    assert figures is not None
    by_hand = np.array(BY_HAND[name](molecules))
    assert figures.molecules == len(by_hand) > 10
    np.testing.assert_allclose(figures.mean, np.nanmean(by_hand, axis=0), rtol=1e-12)
    np.testing.assert_allclose(figures.median, np.nanmedian(by_hand, axis=0), rtol=1e-12)


def test_the_conventions_differ_on_them() -> None:
    """Else they would not be told apart by the test above. DiTMC counts as the runner does."""
    found = {of.name: figures_by(of, random_molecules(), T) for of in CONVENTIONS}
    rows = {name: tuple(figures.mean.tolist()) for name, figures in found.items() if figures is not None}
    assert len(rows) == len(CONVENTIONS) and rows["ditmc"] == rows["runner"]
    assert len(set(rows.values())) == len(CONVENTIONS) - 1


def test_each_rule_alone() -> None:
    """A molecule with one good conformer of two that were asked for, one on the threshold, one without any."""
    good = MoleculeMatrix("C", np.array([[0.5]]), failed=1)
    edge = MoleculeMatrix("CC", np.array([[T, 2.0]]))
    none = MoleculeMatrix("CCC", np.empty((1, 0)), failed=2)
    shares = {}
    for of in CONVENTIONS:
        if (figures := figures_by(of, [good, edge, none], T)) is not None:
            shares[of.name] = [*(round(float(share), 4) for share in figures.mean[:2]), figures.left_out]
    assert shares == {
        "benchmark": [round(2 / 3, 4), round((1 + 0.5 + 0) / 3, 4), 0],  # <= takes the edge, the missing one is a miss
        "runner": [0.5, 0.5, 1],
        "ditmc": [0.5, 0.5, 1],
        "etflow": [0.0, 0.0, 2],  # only the second has 2K conformers
        "torsional-diffusion": [round(1 / 3, 4), round((0.5 + 0 + 0) / 3, 4), 0],
        "etflow-properties": [0.5, 0.5, 1],
    }  # and none by atom indices, which were not computed


def test_fallbacks_are_counted() -> None:
    rmsd = np.array([[NAN, 0.4], [NAN, 2.0]])
    molecule = MoleculeMatrix("CC", rmsd, by_index_ang=np.array([[0.6, 0.9], [NAN, 2.5]]))
    figures = figures_by(BY_NAME["benchmark"], [molecule], T)
    assert figures is not None and figures.by_index == 1 and figures.columns()["by_atom_indices"] == 1
    assert figures.mean.tolist() == [0.5, 1.0, pytest.approx((0.4 + 2.0) / 2), pytest.approx((0.6 + 0.4) / 2)]


def test_the_command_has_them_and_null_where_nothing_counts(tmp_path: Path) -> None:
    file = tmp_path / "matrices.json"
    file.write_text(json.dumps({"CC": [[0.5, None, 0.75]], "CC.O": [[]]}))
    document = run_json("evaluate", "--matrices", str(file))
    assert document["cov_p"] == pytest.approx(1 / 3) and document["mat_p_ang"] == 0.625  # as before
    rows = {row["convention"]: row for row in document["conventions"]}
    assert list(rows) == [of.name for of in CONVENTIONS if of.permutes]
    assert rows["benchmark"]["cov_p"] == 0.5 and rows["benchmark"]["missing"] == 1
    assert [rows["runner"][name] for name in FIGURES] == [1.0, 0.5, 0.5, None]  # a gap spoils MAT-P
    assert rows["torsional-diffusion"]["cov_p"] == 0.25
