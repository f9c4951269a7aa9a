"""Each kind of damage is found, and its cause; what is clean stays so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine.logits.causes import DamageTally, findings_of
from engine.logits.detect import judge
from engine.logits.entries import EntryBatch, LogLine
from engine.logits.rules import Flags, has, load_rules
from engine.records import ValueFlag as Flag
from tests.engine.logits.logs import Rows, clean, singles

RULES = load_rules()


def judged(rows: Rows, checkpoint: str = "logits") -> tuple[Flags, DamageTally]:
    lines = [LogLine(row, n, checkpoint=checkpoint, line=n + 1, sequence=0) for n, row in enumerate(rows.tolist())]
    batch, tally = EntryBatch.of(lines), DamageTally(RULES)
    flags, _, _ = judge(batch, RULES)
    tally.add(batch, flags)
    return flags, tally


def flagged(rows: Rows, flag: Flag, checkpoint: str = "logits") -> set[tuple[int, int]]:
    mask = has(judged(rows, checkpoint)[0], flag).reshape(rows.shape)
    return {(int(token), int(position)) for token, position in np.argwhere(mask)}


def findings(rows: Rows, length: int = 0) -> list[dict[str, Any]]:
    return findings_of(judged(rows)[1], length)


def is_clean(rows: Rows, checkpoint: str = "logits") -> bool:
    return not judged(rows, checkpoint)[0].any()


# --- what is clean --------------------------------------------------------------------------------------------------


def coarse(rows: Rows, kind: str) -> Rows:
    if kind == "bf16":
        return (rows.astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32).astype(np.float64)
    return rows.astype(np.float16).astype(np.float64) if kind == "f16" else np.round(rows, int(kind))


@pytest.mark.parametrize("width", [1, 4, 100])
@pytest.mark.parametrize("kind", ["bf16", "f16", "1", "4", "12"])
def test_nothing_is_flagged_in_clean_logs_however_coarse(kind: str, width: int) -> None:
    for seed in range(3):
        assert is_clean(coarse(clean(500, width, seed), kind))


def test_a_model_that_is_certain_is_clean() -> None:
    rows = clean() / 10
    rows[:, 3] = np.linspace(60, 61, len(rows))
    rows[5] = -300  # softmax does not know where a row lies
    rows[5] += clean(1)[0]
    assert is_clean(rows)


def test_behind_a_layer_zeros_and_huge_channels_belong() -> None:
    rows = np.maximum(clean(50, 40) - 4, 0)
    rows[:, 7] = 3_000 + np.arange(50)
    assert is_clean(rows, "layer_3")
    assert not is_clean(rows)


# --- flags ----------------------------------------------------------------------------------------------------------


def test_an_outlier_is_one_at_any_size() -> None:
    for value in (-46_580.0, 1e35, -1e16, 400.0):
        rows = clean()
        rows[7, 0] = value
        assert flagged(rows, "outlier") == {(7, 0)}


def test_garbage_in_half_of_all_values_does_not_hide_itself() -> None:
    rows = clean(200, 4)
    rows[:, 0] = 1.8e35 + np.arange(200) * 1e32
    rows[:, 2] = -1e17 - np.arange(200) * 1e14
    assert flagged(rows, "outlier") == {(token, position) for token in range(200) for position in (0, 2)}


def test_zeros_alone_in_a_fine_log_and_at_one_position_in_a_coarse_one() -> None:
    rows = clean()
    rows[4, 5] = 0
    rows[9, 2] = -0.0
    assert flagged(rows, "zero") == {(4, 5), (9, 2)}
    rows = np.round(clean(), 4)
    rows[4, 5] = 0
    rows[9::9, 2] = 0
    assert flagged(rows, "zero") == {(token, 2) for token in (9, 18, 27, 36)}


@pytest.mark.parametrize(("decimals", "width"), [(1, 12), (1, 5), (2, 12), (2, 4), (3, 12), (3, 3)])
@pytest.mark.parametrize("share", [1, 60])
def test_entries_of_zeros_alone_are_found_in_a_coarse_log(decimals: int, width: int, share: int) -> None:
    """In a log of one to three decimals they passed, since a zero may be there by chance; also where most are zeros."""
    rows = np.round(clean(100, width), decimals)
    blank = range(20, 20 + share)
    rows[blank] = 0
    for flag in ("zero", "constant"):
        assert flagged(rows, flag) == {(token, position) for token in blank for position in range(width)}
    assert {finding["cause"] for finding in findings(rows)} >= ({"not_written"} if share > 1 else set())


def test_zeros_side_by_side_may_be_chance_where_a_log_is_too_coarse_to_tell() -> None:
    rng = np.random.default_rng(1)
    rare = np.round(rng.normal(0, 2, (3_000, 1)) + rng.normal(0, 0.2, (3_000, 4)), 1)  # they rise and fall as one
    assert (rare == 0).all(axis=1).any() and not flagged(rare, "constant")
    short = np.round(rng.normal(2, 3, (40, 2)), 1)
    short[7] = 0
    assert is_clean(short)
    single = clean(40, 1)
    single[7] = 0
    assert flagged(single, "zero") == {(7, 0)} and not flagged(single, "constant")


def test_repeats_in_a_row_and_at_a_distance() -> None:
    rows = clean()
    rows[5, 3] = rows[4, 3]
    rows[30, 6:8] = rows[20, 6:8]
    rows[33, 2] = rows[20, 2]  # one value at a distance may be chance
    assert flagged(rows, "repeated") == {(5, 3), (30, 6), (30, 7)}


def test_constant_entries_and_denormal_numbers() -> None:
    rows = clean()
    rows[3], rows[4] = 0, 7.25
    rows[8, 5], rows[9, 5] = singles(0x00007F12, 0x80000001)
    assert flagged(rows, "constant") == {(token, position) for token in (3, 4) for position in range(12)}
    assert flagged(rows, "denormal") == {(8, 5), (9, 5)}


def test_addresses_are_pairs_at_even_positions() -> None:
    rows = clean()
    rows[8, 0:2] = singles(0xF7DD2B78, 0x00007FFF)  # of a library: glibc's own list
    rows[9, 2:4] = singles(0x0040A2A0, 0x00000001)
    rows[10, 5:7] = singles(0xF7DD2B78, 0x00007FFF)
    assert flagged(rows, "pointer") == {(8, 0), (8, 1), (9, 2), (9, 3)}


# --- causes ---------------------------------------------------------------------------------------------------------


def damaged(damage: str) -> Rows:
    rows, rng = clean(60, 12), np.random.default_rng(0)
    match damage:
        case "unset":
            hit = rng.random(60) < 0.2
            rows[hit, 0] = 10.0 ** rng.uniform(16, 34, hit.sum())
            rows[hit, 2] = 10.0 ** rng.uniform(16, 34, hit.sum())
        case "freed":
            low = rng.integers(0x10000000, 0xFFFFFFF0, 60) & ~0xF
            for token in range(0, 60, 2):
                rows[token, :4] = singles(low[token], 0x00007FA3, low[token - 1], 0x00007FA3)
        case "freed, as printed":
            rows[::3, [0, 2]] = 10.0 ** rng.uniform(16, 34, (20, 2))
            rows[::3, [1, 3]] = 0
        case "stale":
            rows[[5, 6, 17, 30]] = rows[4]
        case "not written":
            rows[3:6] = 0
        case "not written, but filled":
            rows[3:6] = np.array([1.5, 2.5, 3.5])[:, None]
        case "masked":
            rows[:, 5:8] = -np.inf
        case "masked by a number":
            rows[:, 5] = -1e9
            rows[::2, 6] = np.finfo(np.float32).min
        case "padded":
            rows[:, -4:] = 0
        case "overflown":
            rows[12:] = np.nan
        case "one strange value":
            rows[7, 5] = 900
    return rows


@pytest.mark.parametrize(
    ("damage", "cause", "certainty"),
    [
        ("unset", "uninitialised", "likely"),
        ("freed", "freed", "sure"),
        ("freed, as printed", "freed", "likely"),
        ("stale", "stale", "likely"),
        ("not written", "not_written", "sure"),
        ("not written, but filled", "not_written", "likely"),
        ("masked", "masked", "sure"),
        ("masked by a number", "masked", "sure"),
        ("padded", "padding", "sure"),
        ("overflown", "overflow", "likely"),
        ("one strange value", "unknown", "possible"),
    ],
)
def test_each_damage_has_its_cause(damage: str, cause: str, certainty: str) -> None:
    rows = damaged(damage)
    changed = (rows != clean(60, 12)) | np.isnan(rows)
    causes = findings(rows, length=12)
    assert [(finding["cause"], finding["certainty"]) for finding in causes] == [(cause, certainty)]
    assert causes[0]["evidence"]
    assert {*causes[0]["positions"]} <= {*np.flatnonzero(changed.any(axis=0)).tolist()}
    assert causes[0]["values"] == judged(rows)[1].sums["flagged_values"] <= changed.sum()


def test_several_causes_are_told_apart_and_damage_comes_first() -> None:
    rows = damaged("masked")
    rows[::5, 0] = 10.0 ** np.random.default_rng(0).uniform(16, 34, 12)
    causes = [(finding["cause"], finding["positions"]) for finding in findings(rows)]
    assert causes == [("uninitialised", [0]), ("masked", [5, 6, 7])]


def test_denormal_numbers_beside_others_are_no_addresses() -> None:
    """A sixteenth of all numbers end as an aligned address does; two of those made a freed buffer of this, for sure."""
    rows = clean(100, 16, 14)
    rows[::7, 3] = 1e-42
    (finding,) = findings(rows)
    assert not flagged(rows, "pointer")
    assert (finding["cause"], finding["certainty"], finding["positions"]) == ("uninitialised", "likely", [3])


def test_addresses_alone_are_not_sure() -> None:
    """Freed and never written memory both have them: that the buffer was written shows only in sound values behind."""
    rows = clean(48, 12)
    for token in range(48):
        rows[token, :4] = singles(0x1A2B3C40 + 16 * token, 0x00005581, 0x2B3C4D50 + 16 * token, 0x00005581)
    (finding,) = findings(rows)
    assert (finding["cause"], finding["certainty"]) == ("freed", "sure")
    (finding,) = findings(rows[:, :6])
    assert (finding["cause"], finding["certainty"]) == ("freed", "likely")


def test_zeros_beside_nothing_but_garbage_are_found() -> None:
    """A log without one sound value was taken for so coarse that any zeros may be in it."""
    rows = np.zeros((48, 8))
    for token in range(48):
        rows[token, :4] = singles(0x1A2B3C40 + 16 * token, 0x00005581, 0x2B3C4D50 + 16 * token, 0x00005581)
    assert flagged(rows, "zero") == {(token, position) for token in range(48) for position in range(4, 8)}
    assert [(finding["cause"], finding["values"]) for finding in findings(rows)] == [("freed", 48 * 8)]


def test_logs_of_one_value_alone() -> None:
    (finding,) = findings(np.zeros((20, 8)))
    assert (finding["cause"], finding["certainty"]) == ("not_written", "sure")
    for mask in (-np.inf, -1e9):
        assert [finding["cause"] for finding in findings(np.full((20, 8), mask))] == ["masked"]
