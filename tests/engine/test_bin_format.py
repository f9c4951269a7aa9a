"""Numbers of bins: the same as the group's rules give, written out here in numpy, in both directions."""

from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np
import pytest

from engine.records import BinFormat, NumberFormat, read_number_format

LOW, HIGH = -10.5748, 10.5102
UNIFORM = BinFormat(edges=tuple(np.linspace(LOW, HIGH, 257).tolist()), mode="uniform")
_INNER = np.sort(np.random.default_rng(3).normal(0, 2.0, 255)).tolist()
QUANTILE = BinFormat(edges=(LOW, *_INNER, HIGH), mode="quantile")  # its outermost bins are wide
RANGES = [(-13.0, 13.0, 0.104), (-11.0, 11.0, 0.104), (-9.0, 9.0, 0.05), (-21.0, 21.0, 0.042), (-1.0, 2.0, 0.7)]


def values_for(edges: np.ndarray) -> np.ndarray:  # [values]
    """Everywhere in the range and around it, at every edge, and just beside each."""
    low, high = edges[0], edges[-1]
    spread = np.random.default_rng(0).uniform(low - 2, high + 2, 20_000)
    return np.concatenate([spread, edges, np.nextafter(edges, -np.inf), np.nextafter(edges, np.inf), [0.0, -0.0]])


def group_places(numbers: np.ndarray, edges: np.ndarray, low: float, high: float) -> np.ndarray:
    middles = (edges[:-1] + edges[1:]) / 2
    inside = middles[np.clip(numbers - 1, 0, len(middles) - 1)]
    return np.where(numbers < 1, low, np.where(numbers > len(middles), high, inside))


@pytest.mark.parametrize("form", [UNIFORM, QUANTILE], ids=["uniform", "quantile"])
def test_bins_of_a_file_are_counted_and_decoded_as_the_group_does(form: BinFormat) -> None:
    edges = np.array(form.edges)
    values = values_for(edges)
    expected = np.searchsorted(edges, values, side="right")
    expected[values == edges[-1]] = form.bins
    written = [form.number_of(value) for value in values.tolist()]
    assert [int(number) for number in written] == expected.tolist()
    assert {len(number) for number in written} == {3}
    places = [form.value_ang(number) for number in written]
    assert places == group_places(expected, edges, LOW, HIGH).tolist()
    assert {0, form.bins + 1} < set(expected.tolist()) and form.tails == (0, form.bins + 1)


@pytest.mark.parametrize(("start", "end", "size"), RANGES)
def test_equal_bins_are_those_of_numpy_digitize(start: float, end: float, size: float) -> None:
    form, starts = BinFormat.equal(start, end, size), np.arange(start, end, size)
    assert form.edges == (*starts.tolist(), end)
    values = values_for(np.array(form.edges))
    expected = np.digitize(values, starts)
    written = [form.number_of(value) for value in values.tolist()]
    assert [int(number) for number in written] == expected.tolist()
    middles = np.append((starts[:-1] + starts[1:]) / 2, end)  # the top number is the upper end
    places = [form.value_ang(number) for number in written]
    assert places == np.where(expected < 1, start, middles[expected - 1]).tolist()
    assert form.tails == (0,) and form.value_ang(f"{len(starts) + 1:0{form.digits}d}") is None


@pytest.mark.parametrize(("size", "most", "bins", "digits"), [(0.042, 21.0, 1000, 4), (0.05, 9.0, 360, 3)])
def test_the_older_form_ends_at_its_range(size: float, most: float, bins: int, digits: int) -> None:
    form, starts = BinFormat.in_brackets(size, most), np.arange(-most, most, size)
    assert (form.bins, form.digits, form.tails) == (bins, digits, ())
    values = np.random.default_rng(0).uniform(-most, most, 20_000)
    numbers = [form.number_of(value) for value in values.tolist()]
    assert [int(number) for number in numbers] == np.digitize(values, starts[:bins]).tolist()
    off = np.array([form.value_ang(number) for number in numbers]) - values
    assert abs(off).max() <= size / 2 + 1e-9
    assert np.sqrt(3 * (off**2).mean()) == pytest.approx(form.floor_ang, rel=0.05)
    assert form.value_ang("0" * digits) is form.value_ang(f"{bins + 1}".zfill(digits)) is None


def test_minus_13_to_13_has_250_bins_and_the_top_one_is_the_upper_end() -> None:
    form = BinFormat.equal(-13, 13, 0.104)
    assert form.bins == 250 and form.number_of(12.95) == form.number_of(99.0) == "250"
    assert form.value_ang("250") == 13.0 and form.bounds_ang("250") == (form.edges[-2], np.inf)
    assert form.value_ang("000") == -13.0 and form.is_tail("000") and not form.is_tail("250")


@pytest.mark.parametrize("form", [UNIFORM, QUANTILE, BinFormat.equal(-11, 11, 0.104), BinFormat.in_brackets(0.05, 9)])
def test_a_number_is_within_its_bounds_and_every_bin_comes_back(form: BinFormat) -> None:
    for value in np.random.default_rng(1).uniform(-8.9, 8.9, 500).tolist():
        bounds = form.bounds_ang(form.number_of(value))
        assert bounds is not None and bounds[0] <= value < bounds[1]
    for bin_ in range(1, form.bins + 1):
        number = f"{bin_:0{form.digits}d}"
        middle = form.value_ang(number)
        assert middle is not None and form.number_of(middle) == number


@pytest.mark.parametrize("number", ["", "12", "0128", "258", "1.2", "-12", "١٢٨", "12a"])
def test_what_is_no_number_of_a_bin_means_nothing(number: str) -> None:
    meanings = [UNIFORM.value_ang(number), UNIFORM.bounds_ang(number), UNIFORM.index_of(number)]
    assert meanings == [None, None, None]


@pytest.mark.parametrize(
    ("form", "block"),
    [(UNIFORM, "128130125;"), (BinFormat.in_brackets(0.05, 9), "<128,130,125>"), (NumberFormat(), "<128,130,125>")],
)
def test_how_a_block_is_written(form: NumberFormat, block: str) -> None:
    assert form.write(("128", "130", "125")) == block


def test_digits_are_those_of_the_upper_tail() -> None:
    assert BinFormat(edges=tuple(range(999)), mode="uniform").digits == 3  # 998 bins, 999 is the tail
    assert BinFormat(edges=tuple(range(1000)), mode="uniform").digits == 4


@pytest.mark.parametrize("form", [UNIFORM, QUANTILE, BinFormat.in_brackets(0.042, 21), NumberFormat(1, 4, 3)])
def test_a_format_is_read_from_its_fields(form: NumberFormat) -> None:
    assert read_number_format(json.loads(json.dumps(asdict(form)))) == form


def test_bins_of_former_sheets_are_read() -> None:
    former = {"least_decimals": 0, "most_decimals": 4, "most_integer_digits": 3, "bin_ang": 0.05, "range_ang": 9.0}
    assert read_number_format(former) == BinFormat.in_brackets(0.05, 9.0)


@pytest.mark.parametrize(
    ("edges", "mode", "message"),
    [
        ((0.0,), "uniform", "bins are 1 to 99,999"),
        ((), "uniform", "bins are 1 to 99,999"),
        ((0.0, 1.0, 1.0), "quantile", "ascending order"),
        ((0.0, float("nan"), 1.0), "quantile", "ascending order"),
        ((0.0, float("inf")), "uniform", "ascending order"),
        ((0.0, 1.0), "fsq", "the mode of bins is one of"),
    ],
)
def test_what_are_no_bins_is_refused(edges: tuple[float, ...], mode: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BinFormat(edges=edges, mode=mode)  # type: ignore[arg-type]


@pytest.mark.parametrize(("size", "most"), [(0.05, 9.01), (0.0, 9.0), (10.0, 9.0), (1e-6, 9.0), (0.05, float("nan"))])
def test_a_width_that_does_not_fit_its_range_is_refused(size: float, most: float) -> None:
    with pytest.raises(ValueError, match="whole number of at most"):
        BinFormat.in_brackets(size, most)
