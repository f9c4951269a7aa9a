"""Where flags stand, how values are distributed, and which values are flagged and why: in windows and counts."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from engine.errors import StoreError
from engine.logits.distribution import BINS, distribution, scaled
from engine.logits.flagged import ValueFilter, flagged_values
from engine.logits.health import health
from engine.logits.windows import (
    KINDS,
    NOT_LOGGED,
    FlagWindow,
    LoggedText,
    kind_of,
    positions_of,
    texts,
    token_bins,
    window,
)
from engine.store.entries import Entry
from engine.store.store import Store
from tests.engine.logits.logs import Rows, clean, new_log, objects, write
from tests.pages.logit_logs import add, spoil_values, store_at


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return store_at(tmp_path)


def mixed() -> Rows:
    """Garbage at 0 from token 30 on, now and then; masks in all at 5; one that is no number."""
    rows = clean(60, 12)
    rows[30::6, 0] = [1e17, 3e20, -4e30, 2e18, 5e33]
    rows[:, 5] = -np.inf
    rows[33, 2] = np.nan
    return rows


def of_two_texts(store: Store, tmp_path: Path) -> Entry:
    lines = (
        objects(mixed())
        + objects(clean(20, 12, seed=4), source="CCO")
        + objects(clean(20, 6, seed=5), checkpoint="layer_2")
    )
    return new_log(store, write(tmp_path / "two.jsonl", lines))


def whole(store: Store, entry: Entry, text: LoggedText) -> FlagWindow:
    return window(store, entry, text, first=0, last=99, first_token=0, last_token=99)


# --- texts and windows ----------------------------------------------------------------------------------------------


def test_texts_are_told_apart_with_their_damage(store: Store, tmp_path: Path) -> None:
    found = texts(store, of_two_texts(store, tmp_path))
    assert [(one.checkpoint, one.sequence, one.entries, one.first_token, one.last_token) for one in found] == [
        ("logits", 0, 60, 0, 59),
        ("logits", 1, 20, 0, 19),
        ("layer_2", 0, 20, 0, 19),
    ]
    assert [one.source for one in found] == [None, "CCO", None]
    assert [(one.flagged, one.damaged, one.first_damaged) for one in found] == [(66, 6, 30), (0, 0, None), (0, 0, None)]


def test_positions_are_those_of_a_checkpoint(store: Store, tmp_path: Path) -> None:
    entry = of_two_texts(store, tmp_path)
    assert positions_of(store, entry, "logits").tolist() == list(range(12))
    assert positions_of(store, entry, "layer_2").tolist() == list(range(6))
    with pytest.raises(StoreError, match="has entries of 'nowhere' and no values"):
        positions_of(store, entry, "nowhere")


def test_bins_hold_each_entry_once(store: Store, tmp_path: Path) -> None:
    entry = of_two_texts(store, tmp_path)
    found = token_bins(store, entry, texts(store, entry)[0], most=7)
    assert [(one.first, one.last) for one in found] == [(start, min(start + 8, 59)) for start in range(0, 60, 9)]
    assert sum(one.entries for one in found) == sum(one.flagged for one in found) == 60
    assert [one.damaged for one in found] == [0, 0, 0, 2, 2, 1, 1]
    assert [one.first_damaged for one in found] == [None, None, None, 30, 36, 48, 54]


def test_a_window_has_kinds_and_reasons(store: Store, tmp_path: Path) -> None:
    entry = of_two_texts(store, tmp_path)
    first = texts(store, entry)[0]
    found = window(store, entry, first, first=0, last=5, first_token=29, last_token=34)
    assert found.tokens.tolist() == list(range(29, 35))
    kinds = [[KINDS[kind] for kind in row] for row in found.kinds.tolist()]
    assert [row[5] for row in kinds] == ["purpose"] * 6
    assert {(row, column) for row in range(6) for column in range(5) if kinds[row][column] != "none"} == {
        (1, 0),
        (4, 2),
    }
    assert (kinds[1][0], kinds[4][2]) == ("outlier", "non_finite")
    assert "from the median of its entry's values" in found.reasons[1, 0]
    assert (found.reasons[4, 2], found.reasons[0, 0]) == ("It is NaN.", "")


def test_what_was_not_logged_is_no_value(store: Store, tmp_path: Path) -> None:
    lines = objects(clean(6, 4))
    lines[3]["values"] = lines[3]["values"][:2]
    entry = new_log(store, write(tmp_path / "ragged.jsonl", lines))
    found = whole(store, entry, texts(store, entry)[0])
    assert np.argwhere(found.kinds == NOT_LOGGED).tolist() == [[3, 2], [3, 3]]
    assert window(store, entry, texts(store, entry)[0], first=9, last=9, first_token=0, last_token=9).kinds.size == 0


def test_what_is_on_purpose_is_what_health_leaves_out(store: Store, tmp_path: Path) -> None:
    rows = mixed()
    rows[:, -3:] = 0
    rows[7, 6], rows[8, 6] = -1e9, -1.0e9 * (1 + 1e-3)  # a mask, and what is none
    entry = add(store, tmp_path, "both", rows)
    found, told = whole(store, entry, texts(store, entry)[0]), health(store, entry)
    shown = found.kinds[found.kinds != NOT_LOGGED]
    assert (shown == KINDS.index("purpose")).sum() == told.flagged_values - told.damaged_values
    assert (shown > 0).sum() == told.flagged_values


def test_the_most_telling_flag_is_shown() -> None:
    assert kind_of(["outlier", "pointer"], on_purpose=False) == "pointer"
    assert kind_of(["zero", "repeated"], on_purpose=False) == "repeated"
    assert (kind_of([], on_purpose=True), kind_of(["zero"], on_purpose=True)) == ("none", "purpose")


# --- distribution ---------------------------------------------------------------------------------------------------


def test_every_value_is_counted_once(store: Store, tmp_path: Path) -> None:
    entry = of_two_texts(store, tmp_path)
    found = distribution(store, entry)
    assert [found.total(group) for group in ("clean", "damaged", "purpose")] == [60 * 12 - 66 + 20 * 12 + 20 * 6, 6, 60]
    assert found.non_finite == {("nan", "damaged"): 1, ("-inf", "purpose"): 60}
    assert found.ends("damaged") == (-4e30, 5e33)
    assert found.ends("purpose") is None
    assert len(found.bins) <= 3 * (BINS + 2)
    assert all(bin_.start <= scaled(bin_.least) + 1e-9 <= bin_.start + found.width + 1e-9 for bin_ in found.bins)
    assert distribution(store, entry, "layer_2").total("clean") == 120


def test_the_scale_has_both_signs() -> None:
    assert [scaled(value) for value in (0, 9, -9)] == [0, 1, -1]
    assert scaled(-1e38) == pytest.approx(-38) and math.isfinite(scaled(1.7e308))


def test_a_log_of_nothing_finite(store: Store, tmp_path: Path) -> None:
    found = distribution(store, add(store, tmp_path, "nan", np.full((5, 4), np.nan)))
    assert found.bins == () and sum(found.non_finite.values()) == 20


# --- flagged values -------------------------------------------------------------------------------------------------


def test_flagged_values_with_their_reasons(store: Store, tmp_path: Path) -> None:
    entry = of_two_texts(store, tmp_path)
    found = flagged_values(store, entry, ValueFilter())
    assert (found.values, found.entries, found.rows.num_rows) == (6, 6, 6)
    first = found.rows.to_pylist()[0]
    assert (first["line"], first["token_idx"], first["position"], first["value"]) == (31, 30, 0, 1e17)
    assert first["flags"] == ["outlier"] and first["is_damaged"] and first["reason"].startswith("1e+17 is 1e+17 from")
    assert flagged_values(store, entry, ValueFilter(with_purpose=True)).values == 66


def test_filters_and_limits(store: Store, tmp_path: Path) -> None:
    entry = of_two_texts(store, tmp_path)
    assert flagged_values(store, entry, ValueFilter(flags=("non_finite",))).values == 1
    assert flagged_values(store, entry, ValueFilter(positions=(2, 5), with_purpose=True)).values == 61
    assert flagged_values(store, entry, ValueFilter(flags=("zero",))).rows.num_rows == 0
    few = flagged_values(store, entry, ValueFilter(with_purpose=True), most=5)
    assert (few.rows.num_rows, few.values, few.entries) == (5, 66, 60)


def test_values_that_do_not_read_are_no_answer(store: Store, tmp_path: Path) -> None:
    entry = add(store, tmp_path, "spoilt", mixed())
    spoil_values(store, entry)
    for ask in (health, texts, distribution):
        with pytest.raises(StoreError, match="missing or damaged"):
            ask(store, entry)
    with pytest.raises(StoreError, match="missing or damaged"):
        flagged_values(store, entry, ValueFilter())
