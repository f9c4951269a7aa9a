"""A test trace against a control: the families and kernels that differ, and figures of both.

A family's difference is split into more calls and slower calls; the two add up to it, and the families to the whole.
Ratios are test over control. Which differences are noise is not known: that takes more than one trace of each.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from engine.figures.statistics import quotient
from engine.profile.cautions import cautions
from engine.profile.stored_trace import Rows, StoredTrace, Totals
from engine.profile.trace_figures import figures_of
from engine.store.store import Store
from engine.store.trace_schema import TRACE

Change = Literal["added", "gone", "grown", "shrunk", "same"]


@dataclass(frozen=True, slots=True)
class FamilyRow:
    """One family in both. ``by_calls_us + by_mean_us`` is the difference of its time."""

    side: str
    family: str
    control: Totals
    test: Totals

    @property
    def difference_us(self) -> float:
        return self.test.total_us - self.control.total_us

    @property
    def by_calls_us(self) -> float:
        return self.split_us()[0]

    @property
    def by_mean_us(self) -> float:
        return self.split_us()[1]

    def split_us(self, control_count: float = 1.0, test_count: float = 1.0) -> tuple[float, float]:
        """The difference as more calls, each at the mean of both times, and slower calls; each trace over its count.

        A family that only one of them has is all calls.
        """
        before, after = self.control.mean_us, self.test.mean_us
        change = self.test.total_us / test_count - self.control.total_us / control_count
        if before is None or after is None:
            return change, 0.0
        by_calls = (self.test.calls / test_count - self.control.calls / control_count) * (before + after) / 2
        return by_calls, change - by_calls


@dataclass(frozen=True, slots=True)
class KernelRow:
    """One operation by name, all streams together. ``change`` is of its calls; time may go the other way."""

    name: str
    short_name: str
    family: str
    control: Totals
    test: Totals

    @property
    def change(self) -> Change:
        before, after = self.control.calls, self.test.calls
        if not before or not after:
            return "added" if after else "gone"
        return "same" if before == after else "grown" if after > before else "shrunk"

    @property
    def difference_us(self) -> float:
        return self.test.total_us - self.control.total_us


@dataclass(frozen=True, slots=True)
class TraceFigure:
    """One figure of both traces. ``unit`` is µs, % or empty for a count."""

    name: str
    what: str
    unit: str
    control: float | None
    test: float | None

    @property
    def ratio(self) -> float | None:
        return quotient(self.test, self.control)


@dataclass(frozen=True, slots=True)
class TraceComparison:
    """``families`` are of the work, largest difference first; ``calls`` those of calls into the runtime."""

    control: StoredTrace
    test: StoredTrace
    families: tuple[FamilyRow, ...]
    calls: tuple[FamilyRow, ...]
    figures: tuple[TraceFigure, ...]
    kernels: tuple[KernelRow, ...]
    notes: tuple[str, ...]

    @property
    def difference_us(self) -> float:
        """Of all work."""
        return sum(row.difference_us for row in self.families)

    def figure(self, name: str) -> TraceFigure:
        return next(figure for figure in self.figures if figure.name == name)


def compare_traces(store: Store, control: str, test: str) -> TraceComparison:
    """Two traces of the store, by their names or parts of them."""
    traces = store.found(TRACE)
    return compare(*(StoredTrace.of(traces.get(name, TRACE)) for name in (control, test)))


def compare(control: StoredTrace, test: StoredTrace) -> TraceComparison:
    pairs = zip(figures_of(control), figures_of(test), strict=True)
    return TraceComparison(
        control,
        test,
        _families(control.work, test.work),
        _families(control.on("call"), test.on("call")),
        tuple(TraceFigure(*figure, of_test[-1]) for figure, of_test in pairs),
        _kernels(control.work, test.work),
        tuple(cautions(control, test)),
    )


def _families(control: Rows, test: Rows) -> tuple[FamilyRow, ...]:
    pairs = _paired(control, test, "side", "family")
    rows = [FamilyRow(side, family, *map(Totals.of, pair)) for (side, family), pair in pairs.items()]
    return tuple(sorted(rows, key=lambda row: (-abs(row.difference_us), row.side, row.family)))


def _kernels(control: Rows, test: Rows) -> tuple[KernelRow, ...]:
    rows = []
    for (name,), pair in _paired(control, test, "name").items():
        first = (pair[0] or pair[1])[0]
        rows.append(KernelRow(name, first["short_name"] or name, first["family"], *map(Totals.of, pair)))
    return tuple(sorted(rows, key=lambda row: (-abs(row.difference_us), row.name)))


def _paired(control: Rows, test: Rows, *columns: str) -> Mapping[tuple[str, ...], tuple[Rows, Rows]]:
    """Rows of both traces by the values of these columns, the control's first."""
    groups: dict[tuple[str, ...], tuple[list[Mapping[str, Any]], ...]] = defaultdict(lambda: ([], []))
    for place, rows in enumerate((control, test)):
        for row in rows:
            groups[tuple(row[column] for column in columns)][place].append(row)
    return {key: (pair[0], pair[1]) for key, pair in groups.items()}


# --- as rows --------------------------------------------------------------------------------------------------------


def document(comparison: TraceComparison) -> dict[str, Any]:
    """All of it for JSON."""
    return {
        "control": comparison.control.entry.id,
        "test": comparison.test.entry.id,
        "work": {"control": comparison.control.work_side, "test": comparison.test.work_side},
        "difference_us": comparison.difference_us,
        "families": [family_row(row, comparison) for row in comparison.families],
        "calls": [family_row(row, comparison) for row in comparison.calls],
        "figures": [
            {"name": figure.name, "what": figure.what, "unit": figure.unit, **_pair(figure.control, figure.test)}
            for figure in comparison.figures
        ],
        "kernels": [kernel_row(row) for row in comparison.kernels],
        "notes": list(comparison.notes),
    }


def family_row(row: FamilyRow, comparison: TraceComparison) -> dict[str, Any]:
    """A family for JSON or a table, per token and per sample as well."""
    columns: dict[str, Any] = {"side": row.side, "family": row.family, **_sides(row)}
    for name, count in (("token", "tokens"), ("sample", "samples")):
        control = quotient(row.control.total_us, comparison.control.known(count))
        test = quotient(row.test.total_us, comparison.test.known(count))
        columns |= {f"us_a_{name}_{key}": value for key, value in _pair(control, test).items()}
    by_calls_us, by_mean_us = row.split_us()
    return columns | {"difference_us": row.difference_us, "by_calls_us": by_calls_us, "by_mean_us": by_mean_us}


def kernel_row(row: KernelRow) -> dict[str, Any]:
    """An operation for JSON or a table."""
    columns = {name: getattr(row, name) for name in ("name", "short_name", "family", "change", "difference_us")}
    return columns | _sides(row)


def _sides(row: FamilyRow | KernelRow) -> dict[str, Any]:
    return {
        f"{name}_{key}": value
        for name in ("calls", "total_us", "mean_us")
        for key, value in _pair(getattr(row.control, name), getattr(row.test, name)).items()
    }


def _pair(control: float | None, test: float | None) -> dict[str, float | None]:
    return {"control": control, "test": test, "ratio": quotient(test, control)}
