"""The Profiles page's second section: what launching and waiting cost, and what a pass is made of."""

from __future__ import annotations

import streamlit as st

from engine.figures.statistics import quotient
from engine.figures.words import capitalised
from engine.profile.compare import TraceComparison, TraceFigure
from engine.profile.words import incomparable, is_alone, launches_words
from engine.store.store import Store
from pages._profiles import families as tables
from pages._profiles import launches_phases as phases
from pages._profiles.families import PAIR
from pages._profiles.traces import TraceSelection, comparison_of
from pages._shared.errors import escape_markdown
from pages._shared.html_table import ColumnGroup, TableRow, grouped_table
from pages._shared.table_files import csv_text, file_button
from pages._shared.words import unbroken

NO_CALLS = "Launches, waits and delays are not known: no calls into a device's runtime in {which}."


def show(_: Store, chosen: TraceSelection) -> None:
    comparison = comparison_of(chosen)
    with st.container(border=True, key="launches-say"):
        st.markdown(unbroken(escape_markdown(launches_words(comparison))))
    without = _without_calls(comparison)
    with st.container(key="profile-cards"):
        phases.show(chosen)
    names = " and ".join(chosen.name(entry.id) for entry in chosen.entries)
    if _is_on_cpu(comparison):
        _calls(comparison, names)
        with st.expander("All figures", icon=":material/table:"):
            st.caption(f":material/info: {NO_CALLS.format(which=without)}")
            _figures(comparison, names)
    else:
        if without:
            st.caption(f":material/info: {NO_CALLS.format(which=without)}")
        st.subheader("Figures", anchor=False)
        _figures(comparison, names)
        _calls(comparison, names)
    what = "Every figure, as the engine names it"
    file_button("CSV", lambda: csv_of(comparison), "launches.csv", key="launches_csv", help=what)


def _is_on_cpu(comparison: TraceComparison) -> bool:
    """Neither has a device: most of the figures are not known or not of launches, and are folded."""
    return {comparison.control.work_side, comparison.test.work_side} == {"host"} and not comparison.calls


def _figures(comparison: TraceComparison, names: str) -> None:
    st.html(grouped_table("figure", figure_columns(comparison), figure_rows(comparison), f"Figures of {names}", "told"))
    st.caption("– means unknown; 0 means none." + ("" if is_alone(comparison) else " × is test over control."))


def _without_calls(comparison: TraceComparison) -> str:
    launches = comparison.figure("launch_calls")
    is_missing = launches.control is None, launches.test is None
    if is_alone(comparison):
        return "this trace" if is_missing[0] else ""
    return {(True, True): "these traces", (True, False): "A", (False, True): "B"}.get(is_missing, "")


def _calls(comparison: TraceComparison, names: str) -> None:
    """Calls into the runtime; where there are none, operators per token by family."""
    if comparison.calls:
        st.subheader("Calls into the runtime", anchor=False)
        groups, lines = tables.family_table(comparison, comparison.calls, of_work=False)
        st.html(grouped_table("calls", groups, lines, f"Calls into the runtime of {names}"))
        return
    lines = per_token(comparison)
    if lines:
        st.subheader("Operators per token", anchor=False)
        st.html(grouped_table("family", figure_columns(comparison), lines, f"Operators per token of {names}"))


def _counted(family: str) -> tuple[str, ...]:
    """Names of the figures of a family whose calls are counted."""
    return tuple(f"{family}_{figure}" for figure in ("calls", "us", "mean_us", "a_token", "a_pass"))


WHOLE = "The whole"
GROUPS: dict[str, tuple[str, ...]] = {
    WHOLE: (
        *("span_us", "work_us", "work_calls", "tokens", "samples", "forward_passes"),
        *("work_us_a_token", "work_us_a_sample", "work_us_a_pass"),
    ),
    "Launches": (*_counted("launch"), "delay_us"),
    "Waits for the device": _counted("sync"),
    "Copies between memories": _counted("memcpy"),
    "Copies as kernels or operators": _counted("copy"),
    "Concatenations": _counted("concat"),
    "Attention": _counted("attention"),
    "Idle time and overlap": ("idle_share", "gaps", "gap_us", "overlap_share", "copy_overlap_us"),
}
MEANINGS = {
    "span_us": "Pauses included, the profiler's own spans left out",
    "work_us": "Operations that run at the same time count each",
    "work_us_a_pass": "All work, that outside of the passes included",
    "launch_calls": "Each kernel is launched by the host: a call of some microseconds, even for a short kernel",
    "launch_us": "Time that the host spends in these calls. Kernels shorter than their launch leave the device idle",
    "launch_a_token": "More launches for the same work mean smaller kernels",
    "launch_a_pass": "Set by the model and the backend; a graph of kernels counts as one",
    "delay_us": "Long when launches run ahead of the device (good); short when the device waits for the host",
    "sync_calls": "The host stops until the device is done, such as to read a sampled token",
    "sync_us": "Time that the host waits. No loss while the device is busy",
    "memcpy_calls": "Between host and device, or within the device, by the device's copy engine",
    "copy_calls": "direct_copy and the like, for a contiguous cache or another precision",
    "concat_calls": "A cache of keys and values that grows by concatenation copies itself at each step, in each layer",
    "attention_calls": "One per layer and forward pass: divided by the layers it gives passes, not tokens",
    "idle_share": "Device without work: mostly it waits for the host",
    "gaps": "Number of idle gaps",
    "overlap_share": "Kernels of several streams at once",
    "copy_overlap_us": "Copies hidden behind compute",
}
OF_OPERATORS = {"attention_calls": "Operators inside others count too: more than one per layer and forward pass"}
"""What it is without a device."""
SECOND_US = 1e5
"""Longer times are shown in ms."""


def figure_rows(comparison: TraceComparison) -> list[TableRow]:
    """A line a figure that one of them knows; where neither has any of something, its calls say so alone."""
    rows: list[TableRow] = []
    for group, names in GROUPS.items():
        figures = [comparison.figure(name) for name in names]
        known = [figure for figure in figures if figure.control is not None or figure.test is not None]
        counted = [figure for figure in known if figure.name.endswith("_calls") and figure.name != "work_calls"]
        is_none = counted and not (counted[0].control or counted[0].test)
        rows += [_line(comparison, group, figure) for figure in (counted if is_none else known)]
    return rows


def _line(comparison: TraceComparison, group: str, figure: TraceFigure) -> TableRow:
    values: list[float | None] = [figure.control, figure.test]
    unit = figure.unit
    if unit == "" and "_a_" not in figure.name:  # a count stays whole
        values = [None if value is None else round(value) for value in values]
    elif unit == "µs" and max(value or 0.0 for value in values) >= SECOND_US:
        values, unit = [None if value is None else value / 1000 for value in values], "ms"
    is_unlike = incomparable(comparison) if figure.name.startswith("work_") else _are_unlike(comparison, group)
    ratio = None if is_unlike else figure.ratio
    control, test = values
    cells = tables.figure_cells(comparison, control, test, ratio)
    what = capitalised(figure.what.replace("copy kernels", "copies"))  # on a CPU they are operators
    has_device = "device" in (comparison.control.work_side, comparison.test.work_side)
    note = (MEANINGS if has_device else {**MEANINGS, **OF_OPERATORS}).get(figure.name, "")
    return TableRow(what, tuple(cells), unit=unit, note=note, group=group)


def _are_unlike(comparison: TraceComparison, group: str) -> bool:
    """Kernels of a device beside operators of a CPU; how long a trace is and what it covers compare all the same."""
    return comparison.control.work_side != comparison.test.work_side and group != WHOLE


def figure_columns(comparison: TraceComparison) -> list[ColumnGroup]:
    return [ColumnGroup("value")] if is_alone(comparison) else [ColumnGroup(name) for name in PAIR]


def csv_of(comparison: TraceComparison) -> str:
    """Every figure, in its own unit."""
    rows = [
        (figure.name, figure.what, figure.unit, figure.control, figure.test, figure.ratio)
        for figure in comparison.figures
    ]
    if is_alone(comparison):
        return csv_text(("name", "what", "unit", "value"), [row[:4] for row in rows])
    return csv_text(("name", "what", "unit", "control", "test", "ratio"), rows)


def per_token(comparison: TraceComparison) -> list[TableRow]:
    """Calls of each family per token; none where a trace has no token count."""
    one, other = (trace.known("tokens") for trace in (comparison.control, comparison.test))
    if not one or not other:
        return []
    calls = [(row.family, row.control.calls / one, row.test.calls / other) for row in comparison.families]
    return [
        TableRow(family, tuple(tables.figure_cells(comparison, control, test, quotient(test, control))))
        for family, control, test in sorted(calls, key=lambda row: -max(row[1:]))
    ]
