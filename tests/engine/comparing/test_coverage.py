"""COV and MAT of stored runs against known answers, and what is said where there is nothing to tell them of."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest

from engine.chem.conformers import reference_conformers
from engine.chem.enriched import encode
from engine.chem.smiles import parse_smiles
from engine.comparing import coverage
from engine.comparing.coverage import (
    NAMES,
    Coverage,
    CoverageRequest,
    MoleculeCoverage,
    compare_coverage,
    coverage_of,
    known_coverage,
)
from engine.records import WIDEST
from engine.store.store import Store
from tests.engine.inspection.made import DEMO_STORE, demo_run, sample_row, write_run

CHAIN, ETHER, ETHANE = "CCCCCO", "CCCCOC", "CC"
ASKED = CoverageRequest(references=4)
ROUNDING_ANG = 1e-6  # a text has twelve decimals


def answers(smiles: str, conformers: Sequence[int], count: int = 4) -> list[str]:
    """Texts of a molecule's own references."""
    mol = reference_conformers(parse_smiles(smiles), count)
    ids = [conformer.GetId() for conformer in mol.GetConformers()]
    return [encode(mol, WIDEST, conformer=ids[number]).text for number in conformers]


def write(store: Store, run_id: str, texts: Sequence[tuple[str, str]], **said: object) -> None:
    rows = [
        sample_row(number, smiles=smiles, text=f"[CONFORMER]{text}[/CONFORMER]", generation=number, **said)
        for number, (smiles, text) in enumerate(texts)
    ]
    write_run(store, run_id, rows)


def covered(store: Store, run_id: str, asked: CoverageRequest = ASKED) -> Coverage:
    found = coverage_of(store, store.entry(run_id), asked)
    assert found is not None
    return found


def test_the_references_themselves_are_covered_whole(store: Store) -> None:
    write(store, "own", [(smiles, text) for smiles in (CHAIN, ETHER) for text in answers(smiles, range(4))])
    found = covered(store, "own")
    assert (found.figure("cov_r"), found.figure("cov_p")) == (1.0, 1.0)
    assert found.figure("mat_r") == pytest.approx(0, abs=ROUNDING_ANG)
    assert found.figure("mat_p") == pytest.approx(0, abs=ROUNDING_ANG)
    assert (found.molecules, found.answers, found.without_answers, found.without_references) == (2, 8, 0, 0)


def test_one_reference_of_four_is_all_precision_and_a_quarter_of_recall(store: Store) -> None:
    write(store, "one", [(CHAIN, text) for text in answers(CHAIN, [2])])
    narrow = CoverageRequest(threshold_ang=0.01, references=4)  # no reference is as near to another
    found = covered(store, "one", narrow)
    assert (found.figure("cov_r"), found.figure("cov_p")) == (0.25, 1.0)
    assert found.figure("mat_p") == pytest.approx(0, abs=ROUNDING_ANG)
    assert (found.figure("mat_r") or 0) > 0.1


def test_a_molecule_without_an_answer_counts_as_nought_and_is_in_no_mat(store: Store) -> None:
    texts = [*((CHAIN, text) for text in answers(CHAIN, range(4))), (ETHER, "[C]<1.0,2.0")]
    write(store, "half", texts)
    found = covered(store, "half")
    assert (found.figure("cov_r"), found.figure("cov_p")) == (0.5, 0.5)
    assert found.figure("mat_r") == pytest.approx(0, abs=ROUNDING_ANG)
    assert (found.without_answers, found.answers) == (1, 4)


def test_an_answer_of_another_molecule_is_none(store: Store) -> None:
    (other,) = answers(ETHER, [0])
    write(store, "other", [(CHAIN, other)])
    write(store, "told", [(CHAIN, answers(CHAIN, [0])[0])], same_graph=False)
    for run_id in ("other", "told"):
        found = covered(store, run_id)
        assert (found.without_answers, found.figure("cov_p"), found.figure("mat_p")) == (1, 0.0, None)


def test_a_molecule_without_references_is_left_out_and_counted(store: Store) -> None:
    write(store, "odd", [("not a molecule", "[C]<1.0,2.0,3.0>"), (ETHANE, answers(ETHANE, [0])[0])])
    found = covered(store, "odd")
    assert (found.without_references, len(found.judged), found.figure("cov_r")) == (1, 1, 1.0)


def test_a_run_without_a_text_has_no_figure(store: Store) -> None:
    write_run(store, "bare", [sample_row(0, text=None)])
    assert covered(store, "bare").figure("cov_r") == 0.0
    write_run(store, "empty", [])
    assert [covered(store, "empty").figure(name) for name in NAMES] == [None] * 4


def test_precision_is_the_rmsd_that_runs_are_written_with() -> None:
    """The same references and the same distance: MAT-P of one answer a molecule is the run's mean RMSD."""
    entry = DEMO_STORE.entry(demo_run("qwen", "exact"))
    rows = DEMO_STORE.rows("SELECT smiles, rmsd_ang FROM samples WHERE run_id = $run", {"run": entry.id})
    stored = {row["smiles"]: row["rmsd_ang"] for row in rows}
    found = coverage_of(DEMO_STORE, entry, CoverageRequest(most_molecules=4))
    assert found is not None
    assert len(found.judged) == 4 and found.molecules == 64
    for one in found.judged:
        assert one.mat_p == pytest.approx(stored[one.smiles])


def test_runs_that_share_molecules_are_judged_on_the_same_ones(store: Store) -> None:
    chains = ["C" * length for length in range(1, 8)]
    write(store, "one", [(smiles, "") for smiles in chains])
    write(store, "two", [(smiles, "") for smiles in reversed(chains)])
    few = CoverageRequest(references=1, most_molecules=3)
    one, two = ([row.smiles for row in covered(store, run_id, few).judged] for run_id in ("one", "two"))
    assert one == two and len(one) == 3


def test_it_is_kept_by_what_was_asked_and_can_be_cancelled(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    write(store, "kept", [(ETHANE, answers(ETHANE, [0])[0]), (CHAIN, "")])
    entry = store.entry("kept")
    assert known_coverage(entry, ASKED) is None
    heard: list[tuple[int, int]] = []
    stops = itertools.chain([False], itertools.repeat(True))
    stopped = coverage_of(
        store, entry, ASKED, cancelled=lambda: next(stops), told=lambda done, total: heard.append((done, total))
    )
    assert stopped is None and heard == [(0, 2)]
    assert known_coverage(entry, ASKED) is None
    found = covered(store, "kept")
    monkeypatch.setattr(coverage, "_judged", None)
    assert covered(store, "kept") is known_coverage(entry, ASKED) is found
    assert known_coverage(entry, CoverageRequest(threshold_ang=0.5)) is None


def made(run_id: str, *figures: tuple[str, float, float | None]) -> Coverage:
    """Molecules by SMILES, COV and MAT."""
    rows = [MoleculeCoverage(smiles, 0 if mat is None else 1, cov, cov, mat, mat, True) for smiles, cov, mat in figures]
    return Coverage(run_id, ASKED, len(rows), len(rows), 0, tuple(rows))


def test_a_difference_is_told_over_the_molecules_of_both() -> None:
    control = made("a", *((f"m{number}", 0.5, 1.0) for number in range(10)), ("alone", 1.0, 0.0))
    test = made("b", *((f"m{number}", 0.25, 1.0 if number else None) for number in range(10)))
    found = dict(zip(NAMES, compare_coverage(control, test), strict=True))
    recall = found["cov_r"]
    assert (recall.control, recall.test, recall.molecules) == (0.5, 0.25, 10)
    assert recall.difference is not None and recall.ratio is not None
    assert (recall.difference.value, recall.difference.low, recall.difference.high) == (-0.25, -0.25, -0.25)
    assert (recall.ratio.value, recall.within_noise) == (0.5, False)
    assert (found["mat_r"].molecules, found["mat_r"].within_noise) == (9, True)


@pytest.mark.parametrize(
    ("molecules", "reason"), [(0, "No molecule has it on both sides."), (5, "Fewer than 6 molecules: no interval.")]
)
def test_too_few_molecules_make_no_interval(molecules: int, reason: str) -> None:
    one, other = (made(name, *((f"m{number}", share, 1.0) for number in range(molecules)))
                  for name, share in (("a", 0.5), ("b", 1.0)))  # fmt: skip
    found = compare_coverage(one, other)[0]
    assert (found.within_noise, found.reason) == (None, reason)


@pytest.mark.parametrize("said", [{"threshold_ang": 0.0}, {"references": 0}, {"most_molecules": 0}])
def test_arguments_are_checked(said: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="above 0"):
        CoverageRequest(**said)


def test_texts_are_of_one_run(store: Store) -> None:
    """Another run's answers to the same molecule are not counted."""
    write(store, "mine", [(ETHANE, "")])
    write(store, "theirs", [(ETHANE, text) for text in answers(ETHANE, [0, 0])])
    assert covered(store, "mine").answers == 0
