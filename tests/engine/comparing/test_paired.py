"""Two runs, sample by sample: what is paired, what is left out, what an interval needs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine.comparing import paired
from engine.comparing.paired import Compared, PairedRuns, compare_entries, read_ahead, samples_of
from engine.figures.statistics import LEAST_MOLECULES
from engine.store.memo import Memo
from engine.store.schema import SAMPLES
from engine.store.store import Store
from tests.engine.inspection.made import DEMO_STORE, demo_run, sample_row, write_run

MANY = ("C", "CC", "CCC", "CCCC", "CO", "CCO", "CN", "CCN")


def compare_runs(store: Store, control: str, test: str) -> PairedRuns:
    return compare_entries(store, store.entry(control), store.entry(test))


def run(store: Store, run_id: str, smiles: tuple[str, ...] = MANY, **columns: list[Any]) -> None:
    """A sample a molecule; ``columns`` have a value each."""
    rows = [
        sample_row(number, smiles=molecule, **{name: values[number] for name, values in columns.items()})
        for number, molecule in enumerate(smiles)
    ]
    write_run(store, run_id, rows, wall_s=sum(columns.get("decode_s", ())) or None)


def measure(store: Store, name: str) -> Compared:
    return compare_runs(store, "control", "test").measure(name)


def test_several_runs_are_read_in_one_query_and_are_as_each_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [DEMO_STORE.entry(demo_run("qwen", lp)) for lp in ("none", "exact", "group-v2.1")]
    alone = [paired._read(DEMO_STORE, [entry])[0] for entry in entries]
    asked: list[str] = []
    monkeypatch.setattr(paired, "_samples", Memo(8))
    table = Store.table

    def counted(store: Store, sql: str, *args: Any, **more: Any) -> Any:
        asked.append(sql)
        return table(store, sql, *args, **more)

    monkeypatch.setattr(Store, "table", counted)
    read_ahead(DEMO_STORE, entries)
    together = [samples_of(DEMO_STORE, entry) for entry in entries]
    assert asked == [paired._SAMPLES]
    for first, second in zip(alone, together, strict=True):
        assert (first.run_id, len(first), first.smiles.to_pylist()) == (second.run_id, 64, second.smiles.to_pylist())
        for name, column in (first.columns | first.weights).items():
            np.testing.assert_array_equal(column, (second.columns | second.weights)[name])


# --- what is paired ---------------------------------------------------------------------------------------------------
def test_answers_meet_by_molecule_and_generation(store: Store) -> None:
    def row(sample: int, smiles: str, generation: int, tokens: int) -> dict[str, Any]:
        return sample_row(sample, smiles=smiles, generation=generation, tokens=tokens)

    write_run(store, "control", [row(0, "C", 0, 10), row(1, "C", 1, 20), row(2, "N", 0, 70), row(3, "CC", 0, 30)])
    write_run(store, "test", [row(0, "CC", 0, 36), row(1, "C", 1, 22), row(2, "O", 0, 99), row(3, "C", 2, 98)])
    comparison = compare_runs(store, "control", "test")
    assert (comparison.shared, comparison.shared_molecules) == (2, 2)
    assert (comparison.control_alone, comparison.test_alone) == (2, 2)
    tokens = comparison.measure("tokens_a_sample")
    assert (tokens.answers, tokens.molecules, tokens.control, tokens.test) == (2, 2, 25, 29)
    assert tokens.difference and tokens.difference.value == 4 and tokens.ratio
    assert tokens.ratio.value == pytest.approx(29 / 25)


def test_a_pair_counts_where_both_sides_know(store: Store) -> None:
    run(store, "control", rmsd_ang=[1.0, None, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0])
    run(store, "test", rmsd_ang=[2.0, 9.0, None, 5.0, 6.0, 7.0, 8.0, 9.0])
    rmsd = measure(store, "rmsd_ang")
    assert (rmsd.answers, rmsd.molecules) == (6, 6)
    assert rmsd.control == pytest.approx((1 + 4 + 5 + 6 + 7 + 8) / 6)
    assert rmsd.difference is not None
    assert (rmsd.difference.low, rmsd.difference.high) == pytest.approx((1, 1))
    assert rmsd.within_noise is False


# --- what is noise ----------------------------------------------------------------------------------------------------
def test_a_difference_that_comes_and_goes_is_noise(store: Store) -> None:
    run(store, "control", tokens=[10, 12, 9, 11, 10, 12, 9, 11])
    run(store, "test", tokens=[12, 10, 11, 9, 12, 10, 12, 9])
    tokens = measure(store, "tokens_a_sample")
    assert tokens.within_noise is True and tokens.ratio is not None and tokens.ratio.contains(1) is True


def test_a_quotient_is_of_sums(store: Store) -> None:
    """A long answer counts for more: 10 s of 100 tokens and 1 s of 1 token are 11 s of 101 tokens."""
    run(store, "control", decode_s=[10.0, 1.0] * 4, tokens=[100, 1] * 4)
    run(store, "test", decode_s=[5.0, 0.5] * 4, tokens=[100, 1] * 4)
    time = measure(store, "ms_a_token")
    assert (time.control, time.test) == pytest.approx((11_000 / 101, 5_500 / 101))
    assert time.ratio is not None and (time.ratio.low, time.ratio.high) == pytest.approx((0.5, 0.5))


def test_pace_is_wall_time_though_samples_of_a_batch_overlap(store: Store) -> None:
    """Eight samples that ran at once took 2 s, and each of them nearly all of it: that was told as 1.5 s per sample."""
    rows = [sample_row(number, smiles=smiles, decode_s=1.5, tokens=10) for number, smiles in enumerate(MANY)]
    again = [sample_row(8 + n, smiles=smiles, generation=1, decode_s=0.5) for n, smiles in enumerate(MANY)]
    write_run(store, "control", rows, wall_s=2.0)
    write_run(store, "test", [*rows, *again], wall_s=1.0)
    pace = measure(store, "wall_s_a_sample")
    assert (pace.control, pace.test) == pytest.approx((2 / 8, 1 / 16))  # of all answers of the shared molecules
    assert pace.ratio is not None and (pace.ratio.value, pace.ratio.low) == pytest.approx((0.25, 0.25))
    write_run(store, "untimed", [*rows[1:], sample_row(0)], wall_s=2.0)
    assert compare_runs(store, "control", "untimed").measure("wall_s_a_sample").test is None  # one has no part


def test_of_few_molecules_there_is_no_interval(store: Store) -> None:
    few = MANY[: LEAST_MOLECULES - 1]
    run(store, "control", few, tokens=[10] * len(few))
    run(store, "test", few, tokens=[20] * len(few))
    tokens = measure(store, "tokens_a_sample")
    assert tokens.difference is not None and (tokens.difference.value, tokens.difference.low) == (10, None)
    assert tokens.within_noise is None and tokens.reason == "Fewer than 6 molecules: no interval."


def test_runs_that_share_nothing_are_drawn_apart(store: Store) -> None:
    run(store, "control", tokens=[10, 11, 12, 13, 10, 11, 12, 13])
    run(store, "test", tuple(f"N{smiles}" for smiles in MANY), tokens=[30, 31, 32, 33, 30, 31, 32, 33])
    comparison = compare_runs(store, "control", "test")
    assert (comparison.shared, comparison.is_paired) == (0, False)
    tokens = comparison.measure("tokens_a_sample")
    assert (tokens.answers, tokens.molecules, tokens.control, tokens.test) == (16, 16, 11.5, 31.5)
    assert tokens.difference is not None and tokens.difference.low is not None and tokens.difference.high is not None
    assert 18 < tokens.difference.low < 20 < tokens.difference.high < 22
    assert comparison.measure("rmsd_ang").reason == "No sample of the control or the test has it."


# --- what cannot be told ----------------------------------------------------------------------------------------------
def test_a_reported_run_has_no_interval_and_says_why() -> None:
    result = compare_runs(DEMO_STORE, "reported-002-qwen-none-1000", demo_run("qwen", "none"))
    assert (result.shared, result.is_paired) == (0, False)
    assert "is reported: a text states its figures" in result.reason
    assert all(item.within_noise is None and item.control is None and item.reason for item in result.measures)


# --- what is read -----------------------------------------------------------------------------------------------------
def test_the_demo_runs_add_up_to_their_sheets() -> None:
    for entry in DEMO_STORE.listing().entries:
        if SAMPLES.name not in entry.parts:
            continue
        columns = samples_of(DEMO_STORE, entry).columns
        for name, total in (
            ("pass_rate", "passes"),
            ("clean_rate", "clean"),
            ("tokens_a_sample", "tokens"),
            ("junk_letters_share", "junk_letters"),
            ("junk_nonnumeric_share", "junk_nonnumeric"),
            ("cut_share", "cut_blocks"),
        ):
            assert columns[name].sum() == entry.row[total], (entry.id, name)
