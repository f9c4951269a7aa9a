"""Two logs beside each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.errors import FileError
from engine.logits.ingest import add_file
from engine.logits.parity import Parity, compare_logs
from engine.store.entries import Entry
from engine.store.store import Store
from tests.engine.logits.logs import Rows, clean, objects, write


class Pair:
    """Two logs of the same prompt in one store."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.store, self.count = folder, Store.open(folder / "store"), 0

    def add(self, lines: list[dict[str, Any]], engine: str) -> Entry:
        self.count += 1
        path = write(self.folder / f"{self.count}.jsonl", [{**line, "engine": engine} for line in lines])
        (entry,) = add_file(self.store, path)
        return entry

    def of(self, control: list[dict[str, Any]], test: list[dict[str, Any]]) -> Parity:
        return compare_logs(self.store, self.add(control, "one"), self.add(test, "other"))


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path)


def near(rows: Rows, size: float = 1e-4) -> Rows:
    return rows + np.random.default_rng(1).normal(0, size, rows.shape)


def test_the_same_values_agree_bit_for_bit(pair: Pair) -> None:
    stats = pair.of(objects(clean()), objects(clean(), source="elsewhere"))
    first = stats["filters"][0]["with_flagged"]
    names = ("max_difference", "relative", "top_1", "entries", "values")
    assert [first[name] for name in names] == [0, 0, 1, 40, 480]
    assert first["cosine"] == pytest.approx(1)
    assert first["rank"] == pytest.approx(1)
    assert (stats["diverging"], stats["only_control"], stats["only_test"], stats["supported"]) == (None, 0, 0, "all")


def test_figures_are_what_they_are_called(pair: Pair) -> None:
    rows, other = clean(30, 7), near(clean(30, 7), 0.5)
    first = pair.of(objects(rows), objects(other))["filters"][0]["with_flagged"]
    difference = other - rows
    assert first["max_difference"] == pytest.approx(np.abs(difference).max())
    assert first["mean_difference"] == pytest.approx(np.abs(difference).mean())
    assert first["shift"] == pytest.approx(difference.mean())
    assert first["relative"] == pytest.approx(np.linalg.norm(difference) / np.linalg.norm(rows))
    larger = np.maximum(np.abs(rows), np.abs(other))
    assert first["max_relative"] == pytest.approx((np.abs(difference) / larger).max())
    cosines = (rows * other).sum(1) / np.linalg.norm(rows, axis=1) / np.linalg.norm(other, axis=1)
    assert first["cosine"] == pytest.approx(cosines.mean())
    ranks = [np.argsort(np.argsort(a, axis=1), axis=1) for a in (rows, other)]
    correlations = [np.corrcoef(a, b)[0, 1] for a, b in zip(*ranks, strict=True)]
    assert first["rank"] == pytest.approx(np.mean(correlations))
    assert first["top_1"] == (rows.argmax(1) == other.argmax(1)).mean()


def test_positions_meet_by_their_ids(pair: Pair) -> None:
    rows = clean(20, 6)
    stats = pair.of(objects(rows), objects(rows[:, [4, 2]], ids=[4, 2]))
    first = stats["filters"][0]["with_flagged"]
    assert (first["values"], first["max_difference"]) == (40, 0)


def test_a_text_that_ends_earlier_moves_none_behind_it(pair: Pair) -> None:
    first, second, third = (clean(size, 4, size) for size in (5, 8, 9))
    stats = pair.of(
        objects(first) + objects(second) + objects(third), objects(first) + objects(second[:6]) + objects(third)
    )
    assert (stats["entries"], stats["only_control"], stats["only_test"]) == (20, 2, 0)
    assert stats["filters"][0]["with_flagged"]["max_difference"] == 0
    assert [row["sequence"] for row in stats["places"]] == [0] * 5 + [1] * 6 + [2] * 9


def test_texts_of_one_name_meet_in_whatever_order(pair: Pair) -> None:
    a, b, c = (objects(clean(5, 4, seed), source=name) for seed, name in enumerate(("a", "b", "c")))
    stats = pair.of(a + b + c, b + a)
    assert (stats["entries"], stats["only_control"], stats["by_number"]) == (10, 5, False)
    assert stats["filters"][0]["with_flagged"]["max_difference"] == 0
    others = pair.of(a, objects(clean(5, 4, 0), source="elsewhere"))
    assert (others["entries"], others["by_number"]) == (5, False), "there is one text: it is that one"


def test_a_source_of_several_texts_names_none(pair: Pair) -> None:
    """Such as the line of a program that logs."""
    first, second = clean(5, 4, 0), clean(5, 4, 1)
    lines = objects(first, source="log.cpp:7") + objects(second, source="log.cpp:7")
    stats = pair.of(lines, objects(first, source="log.cpp:7") + objects(second, source="log.cpp:8"))
    assert (stats["entries"], stats["by_number"]) == (10, True)
    assert stats["filters"][0]["with_flagged"]["max_difference"] == 0


def garbled(rows: Rows, *positions: int) -> Rows:
    """Every other entry has garbage there."""
    damaged, rng = rows.copy(), np.random.default_rng(2)
    for position in positions:
        damaged[::2, position] = 10.0 ** rng.uniform(16, 34, len(damaged[::2]))
    return damaged


@pytest.mark.parametrize(
    ("positions", "supported"),
    [
        ((), "all"),
        ((0,), "skip 0"),
        ((0, 2), "skip 0 and 2"),
        ((2,), "skip 0 and 2"),
        ((1,), "from 3 on"),
        ((0, 8), None),
    ],
)
def test_the_filter_that_the_data_supports(pair: Pair, positions: tuple[int, ...], supported: str | None) -> None:
    rows = clean(30, 12)
    stats = pair.of(objects(garbled(rows, *positions)), objects(near(rows)))
    assert stats["supported"] == supported
    assert stats["flagged_positions"] == list(positions)
    first = stats["filters"][0]
    assert first["flagged"] == 15 * len(positions)
    assert (first["without_flagged"]["relative"] or 1) < 1e-3
    assert ((first["with_flagged"]["relative"] or 0) > 0.5) == bool(positions)
    assert stats["diverging"] is None


def test_the_first_checkpoint_that_parts(pair: Pair) -> None:
    names = ("embedding", "layer_0", "layer_1", "logits")
    lines, others = [], []
    for token in range(4):
        for index, name in enumerate(names):
            rows = clean(1, 8, 10 * token + index)
            said = {"checkpoint": name, "token_idx": token}
            is_off = token > 2 or (token == 2 and name in ("layer_1", "logits"))
            lines += objects(rows, **said)
            others += objects(rows * (1.05 if is_off else 1.00001), **said)
    stats = pair.of(lines, others)
    assert stats["diverging"] is not None
    assert (stats["diverging"]["checkpoint"], stats["diverging"]["token_idx"]) == ("layer_1", 2)
    assert stats["diverging"]["relative"] == pytest.approx(0.05, rel=1e-3)


def test_the_coarser_precision_says_what_may_differ(pair: Pair) -> None:
    rows = clean()
    control, test = pair.add(objects(rows, precision="F16"), "one"), pair.add(objects(near(rows, 0.3)), "other")
    quantised = pair.add(objects(near(rows, 0.3), precision="Q4_K_M"), "other")
    assert compare_logs(pair.store, control, test)["diverging"] is not None
    assert compare_logs(pair.store, control, quantised)["diverging"] is None


def test_values_that_are_no_numbers_are_counted_and_left_out(pair: Pair) -> None:
    rows = clean(20, 6)
    rows[3, 1], rows[4, 2] = np.nan, -np.inf
    stats = pair.of(objects(rows), objects(clean(20, 6)))
    first = stats["filters"][0]["with_flagged"]
    assert (first["not_finite"], first["values"], first["max_difference"]) == (2, 118, 0)
    rows[:] = np.nan
    nothing = pair.of(objects(rows), objects(clean(20, 6), source="x"))
    assert nothing["filters"][0]["with_flagged"]["relative"] is None


def test_logs_that_do_not_meet_are_refused(pair: Pair) -> None:
    entry = pair.add(objects(clean()), "one")
    with pytest.raises(FileError, match="twice"):
        compare_logs(pair.store, entry, entry)
    other = pair.add(objects(clean(), checkpoint="elsewhere"), "other")
    with pytest.raises(FileError, match="share no checkpoint"):
        compare_logs(pair.store, entry, other)
