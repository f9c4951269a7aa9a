"""The reports' counts and ours as one table, and their derived figures as another; no widget."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.profile.beside import COUNTED, counts, work_side
from engine.profile.compare import Totals, Trace
from engine.profile.figures import UNKNOWN, number, time_of, times
from engine.profile.reported import Derived, ReportedTrace
from pages._shared.compare.charts_words import listed
from pages._shared.compare.table_html import safe
from pages._shared.evidence import state as evidence
from pages._shared.evidence.words import look_of
from pages._shared.profiles.families_html import Cell, Group, Line
from pages._shared.profiles.state import Chosen
from pages._shared.table_files import csv_text

CAPTION = "Counts of report 003 beside those of the traces that are looked at"
REPORT = "report 003 (reported)"
LAUNCHES = COUNTED[0].what
Made = Callable[[], str]
Text = Callable[[float | None], str]


@dataclass(frozen=True, slots=True)
class Column:
    """One trace's counts. What is not known is None."""

    name: str
    work_side: str
    counts: Mapping[str, Totals | None]
    span_us: float | None
    samples: float | None
    tokens: float | None

    def of(self, figure: str, part: str) -> float | None:
        """``part`` is calls, time, each or token."""
        found = self.counts[figure]
        if found is None:
            return None
        if part == "calls":
            return found.calls
        if part == "time":
            return found.total_us
        if part == "each":
            return found.mean_us
        return found.calls / self.tokens if self.tokens else None


@dataclass(frozen=True, slots=True)
class Columns:
    """A control and its test, or a trace alone."""

    heading: str
    columns: tuple[Column, ...]

    @property
    def is_comparable(self) -> bool:
        """Kernels and operators are counted differently."""
        return len({one.work_side for one in self.columns}) == 1

    def cells(self, value: Callable[[Column], float | None], text: Text) -> list[Cell]:
        if self.heading == REPORT and text is time_of:
            text = _as_stated
        values = [value(one) for one in self.columns]
        ratio = _over(values[1], values[0]) if len(values) > 1 and self.is_comparable else None
        cells = [Cell(UNKNOWN if one is None else text(one)) for one in values]
        return [*cells, Cell(times(ratio), "ratio")] if len(values) > 1 else cells


def of_reported(traces: Sequence[ReportedTrace]) -> Columns:
    """LLaMA's is the control, as in the report's own ratios."""
    found = {("LLaMA" if "llama" in one.trace_id else "Qwen"): one for one in traces}
    columns = tuple(
        Column(
            name,
            work_side(found[name].operations),
            counts(found[name].operations),
            found[name].row.get("span_us"),
            found[name].row.get("samples"),
            found[name].row.get("tokens"),
        )
        for name in ("LLaMA", "Qwen")
    )
    return Columns(REPORT, columns)


def of_trace(chosen: Chosen, trace: Trace) -> Column:
    return Column(
        chosen.letter(trace.entry),
        work_side(trace.rows),
        counts(trace.rows),
        trace.known("span_us"),
        trace.known("samples"),
        trace.known("tokens"),
    )


def groups(sets: Sequence[Columns]) -> list[Group]:
    found = []
    for one in sets:
        names = [column.name for column in one.columns]
        heading = one.heading if one.heading == REPORT else "here"
        found.append(Group(heading, (*names, "×") if len(names) > 1 else tuple(names), "× is test over control"))
    return found


def lines(sets: Sequence[Columns]) -> list[Line]:
    """What is counted, in the report's order, then what it is spread over."""
    found = []
    for counted in COUNTED:
        for part, name, text in (
            ("calls", "number", _whole),
            ("time", "time", time_of),
            ("each", "each", time_of),
            ("token", "a token", number),
        ):
            if part == "token" and counted.what != LAUNCHES:
                continue
            cells = _cells(sets, lambda one, what=counted.what, part=part: one.of(what, part), text)  # type: ignore[misc]
            found.append(Line(name, cells, group=counted.what))
    rest: tuple[tuple[str, Callable[[Column], float | None], Text], ...] = (
        ("first event to last", lambda one: one.span_us, time_of),
        ("samples", lambda one: one.samples, _whole),
        ("tokens", lambda one: one.tokens, _whole),
    )
    return [*found, *(Line(name, _cells(sets, value, text), group="the whole trace") for name, value, text in rest)]


def _cells(sets: Sequence[Columns], value: Callable[[Column], float | None], text: Text) -> tuple[Cell, ...]:
    return tuple(cell for one in sets for cell in one.cells(value, text))


def answer(sets: Sequence[Columns]) -> str:
    """The ratios of the counts, theirs and ours."""
    said = f"Qwen’s trace has {listed(_ratios(sets[0]))} of LLaMA’s, by what report 003 states."
    if len(sets) > 1 and len(sets[1].columns) > 1:
        first, second = (column.name for column in sets[1].columns)
        if not sets[1].is_comparable:
            return f"{said} Of {first} and {second} one has no device, so what is counted here does not compare."
        found = _ratios(sets[1])
        said += f" {second} has {listed(found)} of {first}’s." if found else f" {first} and {second} share none of it."
    return said


def _ratios(one: Columns) -> list[str]:
    control, test = one.columns
    named = ((counted.what, _over(test.of(counted.what, "calls"), control.of(counted.what, "calls")))
             for counted in COUNTED[:3])  # fmt: skip
    return [f"{times(ratio)} the {what}" for what, ratio in named if ratio is not None]


def _as_stated(time_us: float | None) -> str:
    """Seconds have one digit behind the point there; a mean of them is computed, from what was rounded so."""
    if time_us is None:
        return UNKNOWN
    return f"{time_us / 1e6:g} s" if time_us >= 1e5 else f"~{time_us:.2g} µs"


def _whole(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:,.0f}"


def _over(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole else part / whole


def counts_csv(sets: Sequence[Columns]) -> str:
    """A row a figure, as the table has it but for its digits."""
    names = [f"{one.heading}: {column.name}" for one in sets for column in one.columns]
    rows: list[list[object]] = []
    for counted in COUNTED:
        for part, unit in (("calls", ""), ("time", " (µs)"), ("each", " (µs)")):
            values = [column.of(counted.what, part) for one in sets for column in one.columns]
            rows.append([counted.what, f"{part}{unit}", *values])
    return csv_text(["counted", "figure", *names], rows)


# --- what was derived -----------------------------------------------------------------------------------------------


def derived_answer(derived: Sequence[Derived]) -> str:
    given = sum(one.ours is not None for one in derived)
    return (
        f"{len(derived)} figures of report 003 do not follow from what it counts: {given} come out otherwise from the "
        "reports’ own numbers, and the rest rests on what was not counted. Most go back to steps that were taken for "
        "tokens, and to 24 layers in both models."
    )


def derived_table(derived: Sequence[Derived], verdicts: Mapping[str, str]) -> str:
    names = ("figure", "report 003 (reported)", "ours, from its counts", "why", "claim")
    head = "".join(f'<th scope="col">{safe(name)}</th>' for name in names)
    body = "".join("".join(_derived_row(one, verdicts.get(one.claim))) for one in derived)
    caption = "Figures that report 003 derived wrongly"
    return (
        f'<div class="beside-frame" role="region" aria-label="{caption}" tabindex="0">'
        f'<table class="beside plain grouped derived"><caption>{caption}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _derived_row(one: Derived, verdict: Any) -> Iterator[str]:
    how = f"<code>{safe(one.computed_from)}</code>"
    ours = UNKNOWN if one.ours is None else f"<strong>{safe(figure(one.ours, one.unit))}</strong> {how}"
    sign = f"{look_of(verdict).sign} {verdict}" if verdict else "look at it"
    about, why = "This claim on the Evidence page", " ".join(one.why.split())
    yield f'<tr><th scope="row">{safe(one.what)}</th><td><s>{safe(figure(one.stated, one.unit))}</s></td>'
    yield f'<td class="ours">{ours}</td><td class="why">{safe(why)}</td>'
    yield f'<td><a href="{evidence.address(one.claim)}" target="_self" title="{about}">{safe(sign)}</a></td></tr>'


def figure(value: float, unit: str) -> str:
    text = f"{value:,.10g}"
    return f"{text}×" if unit == "x" else f"{text} {unit}".strip()


def derived_csv(derived: Sequence[Derived]) -> str:
    rows = [
        [one.what, one.stated, one.ours, one.unit, one.computed_from, " ".join(one.why.split()), one.claim]
        for one in derived
    ]
    return csv_text(["figure", "reported", "ours", "unit", "computed as", "why", "claim"], rows)
