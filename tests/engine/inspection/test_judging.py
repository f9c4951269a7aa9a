"""A stored run judged: its samples' rows and its own get the verdicts, where it may be changed."""

from __future__ import annotations

import re
from typing import Any

import pytest

from engine.chem import judges
from engine.chem.verdict import JudgeSettings
from engine.errors import StoreError
from engine.inspection.faults import failed_words
from engine.inspection.judging import judge_run, judge_text
from engine.store.files import Files
from engine.store.store import Store
from tests.engine.inspection.made import sample_row, write_run
from tests.engine.store.stored_runs import assert_whole
from tests.judge_processes import scripted

GOOD = "[CONFORMER][C]<0.0000,0.0000,0.0000>[O]<1.4000,0.0000,0.0000>[/CONFORMER]"
LONG = GOOD.replace("1.4000", "3.4000")
HAND = "[CONFORMER][C]<0.0,0.0,1.5>[C@H]<0.0,0.0,0.0>([O]<1.4,0.0,-0.5>)[F]<-0.6,1.2,-0.5>[/CONFORMER]"


def write(store: Store, *rows: dict[str, Any]) -> None:
    write_run(store, "one", rows)


def test_rows_and_rates_of_a_run_of_ones_own_are_stored(store: Store) -> None:
    write(
        store,
        sample_row(0, text=GOOD, decodes=True),
        sample_row(1, text=LONG, decodes=True),
        sample_row(2, text="[CONFORMER][C]<0.0000,", clean=False, passed=False),
        sample_row(3, text=HAND, smiles="C[C@H](O)F"),
        sample_row(4, text=HAND.replace("@", "@@"), smiles="C[C@@H](O)F"),
        sample_row(5, text=GOOD, smiles="what?", clean=False),
    )
    seen: list[tuple[int, int]] = []
    judged = judge_run(store, "one", workers=1, progress=lambda done, samples: seen.append((done, samples)))
    assert judged.is_stored and not judged.not_finished
    assert seen == [(done, 6) for done in range(1, 7)]
    rows = store.rows("SELECT * FROM samples ORDER BY sample_id")
    assert [row["geometry_right"] for row in rows[:3]] == [True, False, None]
    assert [row["usable"] for row in rows[:3]] == [True, False, False]
    assert rows[0]["failed"] == []
    assert (rows[1]["failed"][0]["check"], rows[1]["failed"][0]["atoms"]) == ("bond_lengths", [0, 1])
    assert {rows[3]["stereo_right"], rows[4]["stereo_right"]} == {True, False}
    run = store.entry("one").row
    assert (run["judged"], run["stereo_judged"], run["stereo_right"]) == (6, 2, 1)
    assert run["judged_with"].startswith("posebusters ") and "decodes" not in run and rows[0]["text"] == GOOD
    assert_whole(store)


def test_a_failed_check_tells_its_figure_from_its_limit() -> None:
    """1.00 Å long, at least 1.00 is allowed: also of older runs, which have two decimals."""

    def detail(length: float) -> str:
        text = GOOD.replace("1.4000", f"{length:.4f}")
        return "".join(failed["detail"] for failed in judge_text(text, settings=JudgeSettings())["failed"])

    limit = float(detail(3.4).rpartition("at most ")[2].partition(" ")[0])
    near = next(length for length in (limit + step / 1000 for step in range(-5, 6)) if detail(length))
    figures = re.findall(r"\d\.\d+", detail(near))
    assert float(figures[0]) == pytest.approx(near, abs=6e-3) and len(set(figures)) == 2 and figures[0] > figures[1]
    older = {"check": "bond_lengths", "atoms": [3, 4], "detail": "1.00 Å long, at least 1.00 is allowed"}
    assert failed_words(older) == "bond lengths: 1.00 Å long, just below the least that is allowed (atoms 3 and 4)"
    wrong = older | {"detail": "conformer 2: 1.92 Å long, at most 1.90 is allowed"}
    assert "1.92 Å long, at most 1.90 is allowed" in failed_words(wrong)


def test_strain_is_judged_on_request_and_stays_when_judged_again_without(store: Store) -> None:
    write(store, sample_row(0, text=GOOD))
    strained = judge_run(store, "one", JudgeSettings(strain="force-field"), workers=1)
    again = judge_run(store, "one", workers=1)
    assert strained.rows[0]["strain_kcal"] == again.rows[0]["strain_kcal"] is not None
    assert store.entry("one").row["strain_kcal"] == strained.rows[0]["strain_kcal"]
    assert again.columns["strain_kcal"] == strained.columns["strain_kcal"]


def test_a_run_in_a_place_that_is_only_read_is_not_changed(store: Store, tmp_path: Any) -> None:
    write(store, sample_row(0, text=LONG))
    reader = Store(Files(tmp_path / "own"), (store.home,))
    judged = judge_run(reader, "one", workers=1)
    assert not judged.is_stored and judged.rows[0]["geometry_right"] is False
    assert store.rows("SELECT geometry_right, usable FROM samples") == [{"geometry_right": None, "usable": None}]


def test_what_could_not_be_judged_is_named_and_not_usable(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judges, "_judging", scripted)
    write(store, sample_row(7, text="hang", smiles="CCO"), sample_row(8, text="a"))
    judged = judge_run(store, "one", workers=2, limit_s=0.5)
    assert judged.not_finished == ["sample 7 (CCO): stopped after 0.5 s"]
    assert store.rows("SELECT usable, geometry_right FROM samples ORDER BY sample_id") == [
        {"usable": False, "geometry_right": None},
        {"usable": True, "geometry_right": True},
    ]


def test_of_several_conformers_the_worst_counts_and_a_failed_check_names_its_own(store: Store) -> None:
    write(store, sample_row(0, text=GOOD + LONG), sample_row(1, text=GOOD + GOOD), sample_row(2, text=GOOD + GOOD[:40]))
    rows = judge_run(store, "one", workers=1).rows
    assert [row["geometry_right"] for row in rows] == [False, True, None]
    assert [row["failed"][0]["detail"].partition(":")[0] for row in rows if row["failed"]] == ["conformer 2"] * 2
    assert [row["usable"] for row in rows] == [False, True, False]


def test_a_run_without_texts_says_what_is_missing(store: Store) -> None:
    write(store, sample_row(0, text=None, clean=None), sample_row(1, text="", clean=False))
    with pytest.raises(StoreError, match=r"one has samples, but neither their texts nor their conformers\. Import"):
        judge_run(store, "one", workers=1)
    about = {"text": None, "clean": None, "parse_error": "the molecule has no conformer"}
    write_run(store, "two", [sample_row(0, text=GOOD), sample_row(1, text=""), sample_row(2, **about)])
    rows = judge_run(store, "two", workers=1).rows
    assert [failed["detail"] for row in rows for failed in row["failed"]] == [
        "nothing to judge: no text of it is stored",
        "nothing to judge: the molecule has no conformer",
    ]
