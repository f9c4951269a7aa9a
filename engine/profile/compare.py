"""A trace beside a control: where the difference of time comes from, what came, went, grew and shrank.

Work is what devices did, or where a trace has none, what operators did without those inside them. A family's difference
is split into more calls and slower calls; the two add up to it, and the families to the whole. Ratios are test over
control. What one of the two does not know is None, and never nought. It compares two traces, and does not say which of
their differences is noise: that takes more than one trace of each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from engine.errors import StoreError
from engine.profile.cautions import cautions
from engine.store.entries import Entry
from engine.store.store import Store
from engine.store.trace_schema import TRACE, TRACE_OPS

Change = Literal["added", "gone", "grown", "shrunk", "same"]
COMPUTE = ("attention", "gemm")
"""What a report calls real compute; all other work is overhead to it."""


@dataclass(frozen=True, slots=True)
class Totals:
    """Calls of something, and their time."""

    calls: int
    total_us: float

    @property
    def mean_us(self) -> float | None:
        return self.total_us / self.calls if self.calls else None


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
        """What more calls cost, each at the mean of both times. A family that came or went is all calls."""
        one, other = self.control.mean_us, self.test.mean_us
        if one is None or other is None:
            return self.difference_us
        return (self.test.calls - self.control.calls) * (one + other) / 2

    @property
    def by_mean_us(self) -> float:
        """What slower calls cost."""
        return self.difference_us - self.by_calls_us


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
        one, other = self.control.calls, self.test.calls
        if not one or not other:
            return "added" if other else "gone"
        return "same" if one == other else "grown" if other > one else "shrunk"

    @property
    def difference_us(self) -> float:
        return self.test.total_us - self.control.total_us


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of both traces. ``unit`` is µs, %, x or empty for a count."""

    name: str
    what: str
    unit: str
    control: float | None
    test: float | None

    @property
    def ratio(self) -> float | None:
        return None if self.test is None or not self.control else self.test / self.control


@dataclass(frozen=True, slots=True)
class Trace:
    """A trace as the store has it: its row, and its operations."""

    entry: Entry
    rows: Sequence[Mapping[str, Any]]

    @classmethod
    def of(cls, entry: Entry) -> Trace:
        if TRACE_OPS.name not in entry.parts:
            raise StoreError(f"{entry.id} has no table of operations", "Look at it with `verify`, or add it again")
        content = entry.files.read(f"{entry.folder}/{entry.parts[TRACE_OPS.name].file}")
        try:
            return cls(entry, pq.read_table(pa.BufferReader(content)).select(TRACE_OPS.names).to_pylist())
        except (OSError, KeyError, pa.ArrowException) as error:
            raise StoreError(f"the operations of {entry.id} do not read", "Add the trace again") from error

    @property
    def work_side(self) -> str:
        return "device" if any(row["side"] == "device" for row in self.rows) else "host"

    @property
    def work(self) -> list[Mapping[str, Any]]:
        return [row for row in self.rows if row["side"] == self.work_side]

    @property
    def is_whole(self) -> bool:
        """A report names some operations: of the others nothing is known, and sums are of those named."""
        return self.entry.row.get("origin") != "reported"

    def known(self, name: str) -> float | None:
        """A figure of the trace's own row."""
        found = self.entry.row.get(name)
        return None if found is None else float(found)

    def totals(self, *families: str, side: str | None = None) -> Totals:
        """Of some families of the work, or of another side."""
        some = [row for row in self.rows if row["side"] == (side or self.work_side) and row["family"] in families]
        return _totals(some)


@dataclass(frozen=True, slots=True)
class Comparison:
    """``families`` are of the work, largest difference first; ``calls`` those of calls into the runtime."""

    control: Trace
    test: Trace
    families: tuple[FamilyRow, ...]
    calls: tuple[FamilyRow, ...]
    figures: tuple[Figure, ...]
    kernels: tuple[KernelRow, ...]
    notes: tuple[str, ...]

    @property
    def difference_us(self) -> float:
        """Of all work."""
        return sum(row.difference_us for row in self.families)

    def figure(self, name: str) -> Figure:
        return next(one for one in self.figures if one.name == name)


def compare_traces(store: Store, control: str, test: str) -> Comparison:
    """Two traces of the store, by their names or parts of them."""
    found = store.found(TRACE)
    return compare(*(Trace.of(found.get(one, TRACE)) for one in (control, test)))


def compare(control: Trace, test: Trace) -> Comparison:
    return Comparison(
        control,
        test,
        _families(control.work, test.work),
        _families(*([row for row in one.rows if row["side"] == "call"] for one in (control, test))),
        tuple(_figures(control, test)),
        _kernels(control.work, test.work),
        tuple(cautions(control, test)),
    )


def _families(control: Sequence[Mapping[str, Any]], test: Sequence[Mapping[str, Any]]) -> tuple[FamilyRow, ...]:
    one, other = (_by(rows, "side", "family") for rows in (control, test))
    found = [
        FamilyRow(key[0], key[1], _totals(one.get(key, [])), _totals(other.get(key, [])))
        for key in dict.fromkeys([*one, *other])
    ]
    return tuple(sorted(found, key=lambda row: (-abs(row.difference_us), row.side, row.family)))


def _kernels(control: Sequence[Mapping[str, Any]], test: Sequence[Mapping[str, Any]]) -> tuple[KernelRow, ...]:
    one, other = (_by(rows, "name") for rows in (control, test))
    found = []
    for key in dict.fromkeys([*one, *other]):
        first = (one.get(key) or other[key])[0]
        totals = (_totals(rows.get(key, [])) for rows in (one, other))
        found.append(KernelRow(first["name"], first["short_name"] or first["name"], first["family"], *totals))
    return tuple(sorted(found, key=lambda row: (-abs(row.difference_us), row.name)))


def _by(rows: Sequence[Mapping[str, Any]], *keys: str) -> dict[tuple[str, ...], list[Mapping[str, Any]]]:
    found: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        found.setdefault(tuple(row[key] for key in keys), []).append(row)
    return found


def _totals(rows: Sequence[Mapping[str, Any]]) -> Totals:
    """Without what is inside: of kernels and calls nothing is."""
    times = [row["total_us"] if row["self_us"] is None else row["self_us"] for row in rows]
    return Totals(sum(row["calls"] for row in rows), sum(times))


# --- figures --------------------------------------------------------------------------------------------------------


def _figures(control: Trace, test: Trace) -> Iterator[Figure]:
    one, other = (dict(_figures_of(trace)) for trace in (control, test))
    for key in one:
        name, what, unit = key
        yield Figure(name, what, unit, one[key], other[key])


def _figures_of(trace: Trace) -> Iterator[tuple[tuple[str, str, str], float | None]]:
    work = _totals(trace.work)
    span, busy, idle = (trace.known(name) for name in ("span_us", "busy_us", "idle_us"))
    gaps, tokens, samples = (trace.known(name) for name in ("gaps", "tokens", "samples"))
    passes = trace.known("forward_passes")
    compute = trace.totals(*COMPUTE)
    launches, syncs = (trace.totals(family, side="call") for family in ("launch", "sync"))
    has_calls, is_whole = any(row["side"] == "call" for row in trace.rows), trace.is_whole
    unknown = () if has_calls else ("launch", "sync") if trace.work_side == "device" else ("launch", "sync", "memcpy")
    began = sum(row["launched"] or 0 for row in trace.work)
    delay = sum(row["delay_us"] or 0.0 for row in trace.work)
    yield ("span_us", "from the first event to the last", "µs"), span
    yield ("work_us", "all work, added up", "µs"), work.total_us
    yield ("work_calls", "pieces of work", ""), work.calls
    yield ("tokens", "tokens that the trace covers", ""), tokens
    yield ("samples", "samples that it covers", ""), samples
    yield ("forward_passes", "forward passes that it covers", ""), passes
    yield ("work_us_a_token", "work a token", "µs"), _over(work.total_us, tokens)
    yield ("work_us_a_sample", "work a sample", "µs"), _over(work.total_us, samples)
    yield ("work_us_a_pass", "work a forward pass", "µs"), _over(work.total_us, passes)
    yield (
        ("compute_share", "part of the work that is attention or gemm", "%"),
        _percent(compute.total_us, work.total_us) if is_whole else None,
    )
    yield (
        ("compute_span_share", "attention and gemm over the whole span", "%"),
        _percent(compute.total_us, span) if is_whole else None,
    )
    yield (
        ("idle_share", "part of the time between first and last work in which a device idles", "%"),
        (None if busy is None or idle is None else _percent(idle, busy + idle)),
    )
    yield ("gaps", "pauses of a device", ""), gaps
    yield ("gap_us", "a pause", "µs"), _over(idle, gaps)
    yield (
        ("overlap_share", "part of a device's busy time in which it does two things or more", "%"),
        _percent(trace.known("overlap_us"), busy),
    )
    yield ("copy_overlap_us", "time in which it copies and computes", "µs"), trace.known("copy_overlap_us")
    for name, what, totals in (
        ("launch", "kernel launches", launches),
        ("sync", "waits for the device", syncs),
        ("memcpy", "copies between memories", trace.totals("memcpy")),
        ("copy", "copy kernels", trace.totals("copy")),
        ("concat", "concatenations", trace.totals("concat")),
        ("attention", "attention calls", trace.totals("attention")),
    ):
        is_known = name not in unknown and (is_whole or totals.calls > 0)
        calls = totals.calls if is_known else None
        yield (f"{name}_calls", what, ""), calls
        yield (f"{name}_us", f"{what}: time", "µs"), totals.total_us if is_known else None
        yield (f"{name}_mean_us", f"{what}: each", "µs"), totals.mean_us if is_known else None
        yield (f"{name}_a_token", f"{what} a token", ""), _over(calls, tokens)
        yield (f"{name}_a_pass", f"{what} a forward pass", ""), _over(calls, passes)
    yield ("delay_us", "from a launch to its kernel, on average", "µs"), delay / began if began else None
    other = trace.known("other_share")
    yield ("other_share", "part of the work that no family's rule caught", "%"), None if other is None else 100 * other


def _over(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole else part / whole


def _percent(part: float | None, whole: float | None) -> float | None:
    found = _over(part, whole)
    return None if found is None else 100 * found


# --- as rows --------------------------------------------------------------------------------------------------------


def document(found: Comparison) -> dict[str, Any]:
    """All of it for JSON."""
    return {
        "control": found.control.entry.id,
        "test": found.test.entry.id,
        "work": {"control": found.control.work_side, "test": found.test.work_side},
        "difference_us": found.difference_us,
        "families": [family_row(row, found) for row in found.families],
        "calls": [family_row(row, found) for row in found.calls],
        "figures": [
            {"name": one.name, "what": one.what, "unit": one.unit, **_pair(one.control, one.test)}
            for one in found.figures
        ],
        "kernels": [
            {
                "name": row.name,
                "short_name": row.short_name,
                "family": row.family,
                "change": row.change,
                "difference_us": row.difference_us,
                **_sides(row.control, row.test),
            }
            for row in found.kernels
        ],
        "notes": list(found.notes),
    }


def family_row(row: FamilyRow, found: Comparison) -> dict[str, Any]:
    """A family for JSON or a table, a token and a sample as well."""
    said: dict[str, Any] = {"side": row.side, "family": row.family, **_sides(row.control, row.test)}
    for name, each in (("token", "tokens"), ("sample", "samples")):
        pair = (
            _over(totals.total_us, trace.known(each))
            for totals, trace in ((row.control, found.control), (row.test, found.test))
        )
        said |= {f"us_a_{name}_{key}": value for key, value in _pair(*pair).items()}
    return said | {
        "difference_us": row.difference_us,
        "by_calls_us": row.by_calls_us,
        "by_mean_us": row.by_mean_us,
    }


def _sides(control: Totals, test: Totals) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in ("calls", "total_us", "mean_us"):
        found |= {f"{name}_{key}": value for key, value in _pair(getattr(control, name), getattr(test, name)).items()}
    return found


def _pair(control: float | None, test: float | None) -> dict[str, float | None]:
    ratio = None if test is None or not control else test / control
    return {"control": control, "test": test, "ratio": ratio}
