"""What the reports say of their two traces: their counts beside those of the traces that are looked at, and the figures
that they derived wrongly, each with what their own counts give, and why.

Reported figures are always marked. Whether the reports counted right is not known here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st

from engine.figures.statistics import quotient
from engine.figures.words import UNKNOWN, listed, microseconds, number, times, whole
from engine.profile.report_counts import REPORT_COUNTS, counts
from engine.profile.reported import DerivedFigure, ReportedTrace, load_reported
from engine.profile.stored_trace import Rows, StoredTrace, Totals, work_side
from engine.store.store import Store
from pages._profiles.traces import TraceSelection, trace_of
from pages._shared.errors import escape_markdown
from pages._shared.html_table import ColumnGroup, TableCell, TableRow, frame, grouped_table, safe
from pages._shared.links import claim_address
from pages._shared.table_files import csv_text, file_button
from pages._shared.verdicts import look_of


def show(store: Store, chosen: TraceSelection | None) -> None:
    reported = load_reported()
    sets = [of_reported(reported.traces)]
    ours = [entry for entry in chosen.entries if entry.row.get("origin") != "reported"] if chosen else []
    if chosen and ours:
        sets.append(CountTable("chosen", tuple(of_trace(chosen, trace_of(entry)) for entry in ours)))
    st.subheader("What did the reports count, and what do we count?", anchor=False)
    st.markdown(escape_markdown(answer(sets)))
    st.html(grouped_table("counted", groups(sets), lines(sets), CAPTION))
    st.caption(escape_markdown(_about(chosen, bool(ours))))
    file_button("CSV", lambda: counts_csv(sets), "report-003-counts.csv", key="reports_counts")
    st.subheader("What did the reports derive from their counts?", anchor=False)
    st.markdown(escape_markdown(derived_answer(reported.derived)))
    st.html(derived_table(reported.derived, _verdicts()))
    st.caption(
        "Reported figures of report 003. The sign is the verdict on the Evidence page; *ours* is computed by the "
        "formula next to it, from the reports' own numbers."
    )
    file_button("CSV", lambda: derived_csv(reported.derived), "report-003-derived.csv", key="reports_derived")


def _about(chosen: TraceSelection | None, has_ours: bool) -> str:
    said = "The reports’ columns are as report 003 states them; what is marked ~ is computed from those."
    if chosen is None:
        return f"{said} Tick a trace to add its counts."
    if not has_ours:
        return f"{said} What is selected is reported too: tick a captured or imported trace."
    return (
        f"{said} Traces cover different work: compare ratios and per-token figures, not totals. "
        "– means unknown: a trace of a CPU has no launches. There, operators inside others count too."
    )


def _verdicts() -> Mapping[str, str]:
    """What each claim's check found, by the claim's id; empty before the first check."""
    from engine.evidence.verdicts import load  # with all checks: only this section needs them

    judged = load()
    return {} if judged is None else {verdict.claim_id: verdict.verdict for verdict in judged.verdicts}


CAPTION = "Counts of report 003 and of the chosen traces"
REPORT = "report 003 (reported)"
LAUNCHES, WHOLE = REPORT_COUNTS[0].what, "the whole trace"
Text = Callable[[float | None], str]


@dataclass(frozen=True, slots=True)
class CountColumn:
    """One trace's counts. What is not known is None."""

    name: str
    work_side: str
    counts: Mapping[str, Totals | None]
    whole: Mapping[str, float | None]  # of the trace: span_us, samples, tokens

    def of(self, figure: str, part: str) -> float | None:
        """``part`` is calls, time, each or token; of the whole trace a key of that."""
        if figure == WHOLE:
            return self.whole[part]
        totals = self.counts[figure]
        if totals is None:
            return None
        per_token = quotient(totals.calls, self.whole["tokens"])
        return {"calls": totals.calls, "time": totals.total_us, "each": totals.mean_us, "token": per_token}[part]


@dataclass(frozen=True, slots=True)
class CountTable:
    """A control and its test, or a trace alone."""

    heading: str
    columns: tuple[CountColumn, ...]

    @property
    def is_comparable(self) -> bool:
        """Kernels and operators are counted differently."""
        return len({column.work_side for column in self.columns}) == 1

    def cells(self, figure: str, part: str, text: Text) -> list[TableCell]:
        if self.heading == REPORT and text is microseconds:
            text = _as_stated
        elif self.heading == REPORT and part == "token":
            text = _computed
        values = [column.of(figure, part) for column in self.columns]
        cells = [TableCell(text(value)) for value in values]
        if len(values) == 1:
            return cells
        ratio = quotient(values[1], values[0]) if self.is_comparable else None
        return [*cells, TableCell(times(ratio), "ratio")]


def of_reported(traces: Sequence[ReportedTrace]) -> CountTable:
    """LLaMA's is the control, as in the report's own ratios."""
    named = {("LLaMA" if "llama" in trace.trace_id else "Qwen"): trace for trace in traces}
    columns = (_column(name, named[name].operations, named[name].row) for name in ("LLaMA", "Qwen"))
    return CountTable(REPORT, tuple(columns))


def of_trace(chosen: TraceSelection, trace: StoredTrace) -> CountColumn:
    return _column(chosen.letter(trace.entry.id), trace.rows, trace.entry.row)


def _column(name: str, operations: Rows, row: Mapping[str, Any]) -> CountColumn:
    of_all = {figure: row.get(figure) for figure in ("span_us", "samples", "tokens")}
    return CountColumn(name, work_side(operations), counts(operations), of_all)


def groups(sets: Sequence[CountTable]) -> list[ColumnGroup]:
    headings = []
    for set_ in sets:
        names = tuple(column.name for column in set_.columns)
        heading = set_.heading if set_.heading == REPORT else "here"
        headings.append(ColumnGroup(heading, (*names, "×") if len(names) > 1 else names, "× is test over control"))
    return headings


def lines(sets: Sequence[CountTable]) -> list[TableRow]:
    """What is counted, in the report's order, then what it is spread over."""
    rows = []

    def add(figure: str, name: str, part: str, text: Text) -> None:
        cells = tuple(cell for set_ in sets for cell in set_.cells(figure, part, text))
        rows.append(TableRow(name, cells, group=figure))

    for counted in REPORT_COUNTS:
        add(counted.what, "number", "calls", whole)
        add(counted.what, "time", "time", microseconds)
        add(counted.what, "each", "each", microseconds)
        if counted.what == LAUNCHES:
            add(counted.what, "per token", "token", number)
    add(WHOLE, "first to last event", "span_us", microseconds)
    add(WHOLE, "samples", "samples", whole)
    add(WHOLE, "tokens", "tokens", whole)
    return rows


def answer(sets: Sequence[CountTable]) -> str:
    """The ratios of the counts, theirs and ours."""
    said = f"Report 003: Qwen’s trace has {listed(_ratios(sets[0]))} of LLaMA’s."
    if len(sets) > 1 and len(sets[1].columns) > 1:
        first, second = (column.name for column in sets[1].columns)
        if not sets[1].is_comparable:
            return f"{said} {first} and {second} are not comparable: one has no device."
        ratios = _ratios(sets[1])
        if not ratios:
            return f"{said} {first} and {second} have none of these counts in common."
        said += f" {second} has {listed(ratios)} of {first}’s."
    return said


def _ratios(one: CountTable) -> list[str]:
    control, test = one.columns
    named = ((counted.what, quotient(test.of(counted.what, "calls"), control.of(counted.what, "calls")))
             for counted in REPORT_COUNTS[:3])  # fmt: skip
    return [f"{times(ratio)} the {what}" for what, ratio in named if ratio is not None]


def _as_stated(time_us: float | None) -> str:
    """The report gives seconds with one decimal; a mean of those is computed, so it is marked."""
    if time_us is None:
        return UNKNOWN
    return f"{time_us / 1e6:g} s" if time_us >= 1e5 else f"~{time_us:.2g} µs"


def _computed(value: float | None) -> str:
    """The report states other figures per token, which do not follow from its counts; this one does."""
    return UNKNOWN if value is None else f"~{number(value)}"


def counts_csv(sets: Sequence[CountTable]) -> str:
    """A row a figure, as the table has it but for its digits."""
    names = [f"{set_.heading}: {column.name}" for set_ in sets for column in set_.columns]
    rows: list[list[object]] = []
    for counted in REPORT_COUNTS:
        for part, unit in (("calls", ""), ("time", " (µs)"), ("each", " (µs)")):
            values = [column.of(counted.what, part) for set_ in sets for column in set_.columns]
            rows.append([counted.what, f"{part}{unit}", *values])
    return csv_text(["counted", "figure", *names], rows)


# --- what was derived -----------------------------------------------------------------------------------------------


def derived_answer(derived: Sequence[DerivedFigure]) -> str:
    given = sum(one.ours is not None for one in derived)
    return (
        f"{len(derived)} figures that report 003 derived from its counts are wrong: {given} differ when computed from "
        f"the reports’ own numbers, and {len(derived) - given} has the wrong name. Most errors come from counting "
        "steps as tokens, and from assuming 24 layers in both models."
    )


def derived_table(derived: Sequence[DerivedFigure], verdicts: Mapping[str, str]) -> str:
    names = ("figure", "report 003 (reported)", "ours, from its counts", "why", "claim")
    head = "".join(f'<th scope="col">{safe(name)}</th>' for name in names)
    body = "".join("".join(_derived_row(one, verdicts.get(one.claim))) for one in derived)
    caption = "Figures that report 003 derived wrongly"
    return frame(caption, f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>", "beside plain grouped derived")


def _derived_row(one: DerivedFigure, verdict: Any) -> Iterator[str]:
    how = f"<code>{safe(one.computed_from)}</code>"
    ours = UNKNOWN if one.ours is None else f"<strong>{safe(figure(one.ours, one.unit))}</strong> {how}"
    stated = safe(figure(one.stated, one.unit))
    sign = f"{look_of(verdict).sign} {verdict}" if verdict else "open"
    about, why = "This claim on the Evidence page", " ".join(one.why.split())
    is_struck = one.ours is not None and verdict != "reproduced"
    yield f'<tr><th scope="row">{safe(one.what)}</th><td>{f"<s>{stated}</s>" if is_struck else stated}</td>'
    yield f'<td class="ours">{ours}</td><td class="why">{safe(why)}</td>'
    yield f'<td><a href="{claim_address(one.claim)}" target="_self" title="{about}">{safe(sign)}</a></td></tr>'


def figure(value: float, unit: str) -> str:
    text = f"{value:,.10g}"
    return f"{text}×" if unit == "x" else f"{text} {unit}".strip()


def derived_csv(derived: Sequence[DerivedFigure]) -> str:
    rows = [
        [one.what, one.stated, one.ours, one.unit, one.computed_from, " ".join(one.why.split()), one.claim]
        for one in derived
    ]
    return csv_text(["figure", "reported", "ours", "unit", "computed as", "why", "claim"], rows)
