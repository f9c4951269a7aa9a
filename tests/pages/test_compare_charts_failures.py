"""The Compare page's charts of failures and of lengths without a page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from engine.comparing.failures import failures, token_histogram
from engine.store.store import Store
from pages._compare import charts_failures as failed
from pages._compare import charts_lengths as lengths
from pages._compare.runs import RunSelection
from pages._shared.theme import mixed
from tests.engine.inspection.made import sample_row, write_run
from tests.engine.store.stored_runs import store_at
from tests.pages.drift_stores import HOSTILE_JUNK
from tests.pages.test_theme import contrast


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return store_at(tmp_path)


def chosen_of(store: Store, control: str, *tests: str) -> RunSelection:
    return RunSelection(store.entry(control), tuple(store.entry(test) for test in tests))


# --- failures -------------------------------------------------------------------------------------------------------


def with_failures(store: Store) -> RunSelection:
    """Of ten samples four fail: one for two reasons, one without any. A second run is without fault."""
    issues = [["no end"], ["no end", HOSTILE_JUNK], ["no end"], []]
    samples = [sample_row(number, passed=False, issues=one, tokens=90) for number, one in enumerate(issues)]
    samples += [sample_row(number, tokens=10 + number, stop_reason="end") for number in range(4, 10)]
    write_run(store, "bad", samples)
    write_run(store, "good", [sample_row(number, tokens=20, stop_reason="end") for number in range(20)])
    return chosen_of(store, "bad", "good")


def test_failures_with_both_totals(store: Store) -> None:
    chosen = with_failures(store)
    found = failures(store, chosen.ids)
    assert type(found.runs[0].failed) is int and type(found.runs[0].unnamed) is int
    assert [(line.name, line.counts) for line in failed.lines(found)] == [
        (failed.FAILED, (4, 0)),
        ("no end", (3, 0)),
        (HOSTILE_JUNK, (1, 0)),
        ("no reason named", (1, 0)),
    ]
    said = failed.answer(chosen, found)
    assert said.startswith(f"A fails {failed.RULES} most: 4 of 10 samples (40.0 %, 16.8–68.7 %), 3 of them with “no")
    assert said.endswith("end”; 1 has more than one reason. Together 4 of 30 samples failed, with 4 reasons named.")
    figure = failed.failures_chart(chosen, found).figure()
    assert "<img" not in figure.to_json() and figure.data[0].z[0][0] == pytest.approx(0.4)
    assert {(row["reason"], row["samples with it"]) for row in failed.rows(chosen, found)} >= {
        ("no end", 3),
        (failed.FAILED, 0),
    }


def test_no_failure_has_a_bound(store: Store) -> None:
    with_failures(store)
    chosen = chosen_of(store, "good")
    said = failed.answer(chosen, failures(store, chosen.ids))
    assert said == f"None of 20 samples failed {failed.RULES}. At 95 % confidence, at most 16.1 % do."


def test_reasons_beyond_the_most_are_added_up(store: Store) -> None:
    samples = [sample_row(number, passed=False, issues=[f"reason {number:02}"]) for number in range(14)]
    write_run(store, "many", samples)
    chosen = chosen_of(store, "many")
    found = failures(store, chosen.ids)
    last = failed.lines(found)[-1]
    assert (last.name, last.counts) == ("other reasons", (14 - failed.MOST_REASONS,))
    assert failed._beyond(found) == "Named: the 10 most frequent of 14 reasons."
    assert len([row for row in failed.rows(chosen, found) if row["reason"] != failed.FAILED]) == 14


def test_runs_that_fail_equally_often_are_named_together(store: Store) -> None:
    for name, issues in (("two", ["no end"]), ("four", ["bad"]), ("good", [])):
        count = 4 if name == "four" else 2
        write_run(store, name, [sample_row(row, passed=not issues, issues=issues) for row in range(count)])

    def said(*runs: str) -> str:
        chosen = chosen_of(store, *runs)
        return failed.answer(chosen, failures(store, chosen.ids))

    both = "2 of 2 samples (100 %, 34.2–100 %) and 4 of 4 samples (100 %, 51.0–100 %), 4 of these 6 with “bad”."
    assert said("good", "two", "four").startswith(f"B and C fail {failed.RULES} most: {both}")
    assert said("two", "four").startswith(f"A and B fail {failed.RULES} equally often: {both}")
    assert said("two").startswith(f"A fails {failed.RULES}: 2 of 2 samples (100 %, 34.2–100 %), 2 of them")


def test_a_reason_is_read_whole_beside_the_figure(store: Store) -> None:
    reasons = ["molecule: not read by the strict reader", "molecule: non-aromatic ring non-flatness", 200 * "long "]
    write_run(store, "one", [sample_row(0, passed=False, issues=reasons)])
    chosen = chosen_of(store, "one")
    labels = failed.failures_chart(chosen, failures(store, chosen.ids)).figure().layout.yaxis.ticktext
    lines = [label.split("<br>") for label in labels]
    assert {" ".join(label) for label in lines} >= set(reasons[:2])
    assert max(len(line) for label in lines for line in label) <= 30 and max(map(len, lines)) == 3


def test_letters_stand_out_from_cells_of_every_share(store: Store) -> None:
    """Plotly's own choice had 2.8:1 on some."""
    rows = [sample_row(n, passed=False, issues=["all", *(f"of {few}" for few in range(1, 20) if n < few)])
            for n in range(20)]  # fmt: skip
    write_run(store, "one", rows)
    chosen = chosen_of(store, "one")
    (cells,) = failed.failures_chart(chosen, failures(store, chosen.ids)).figure().data
    low, high = (colour for _, colour in cells.colorscale)
    for text, share in zip(cells.text, cells.z, strict=True):
        (ink,) = set(re.findall(r"color:(#\w+)", text[0]))
        assert contrast(ink, mixed(low, high, share[0] / cells.zmax)) >= 4


# --- lengths --------------------------------------------------------------------------------------------------------


def test_lengths_are_mirrored_and_the_limit_is_said(store: Store) -> None:
    samples = [sample_row(number, tokens=10 + number, stop_reason="end") for number in range(8)]
    samples += [sample_row(number, passed=False, tokens=90, stop_reason="length") for number in range(8, 14)]
    write_run(store, "long", samples)
    chosen = chosen_of(store, "long")
    found = token_histogram(store, chosen.ids)
    said = lengths.answer(chosen, found)
    assert said.startswith("A: median 90 tokens in 6 that fail the reports' rule, 14 in 8 that pass it.")
    assert said.endswith("6 of 14 stopped at the limit, most often those of A that fail the rule, 100 %, 61.0–100 %.")
    up, down = lengths.lengths_chart(chosen, found).figure().data
    assert min(up.y) >= 0 and max(up.y) == 1 and max(down.y) <= 0 and min(down.y) == -1
    assert (up.marker.pattern.shape, down.marker.pattern.shape) == ("", "/")
    rows: list[dict[str, Any]] = lengths.rows(chosen, found)
    assert sum(row["samples"] for row in rows) == 14 and {row["at the limit"] for row in rows} == {0, 6}


def test_few_failed_answers_tell_no_difference(store: Store) -> None:
    chosen = with_failures(store)
    said = lengths.answer(chosen, token_histogram(store, chosen.ids))
    assert "(too few to tell a difference)" in said and "In 1 run none fails it." in said
