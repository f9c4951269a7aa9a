"""What a comparison's figures mean, in their groups, and the two tables of the section: figures, and calls.

A figure of which neither trace knows anything is left out.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.profile.compare import Comparison, Figure
from engine.profile.figures import number, times
from engine.profile.words import incomparable, is_alone
from pages._shared.profiles.families_html import Cell, Group, Line
from pages._shared.profiles.families_table import PAIR
from pages._shared.table_files import csv_text

GROUPS: dict[str, tuple[str, ...]] = {
    "The whole": (
        "span_us",
        "work_us",
        "work_calls",
        "tokens",
        "samples",
        "forward_passes",
        "work_us_a_token",
        "work_us_a_sample",
        "work_us_a_pass",
    ),
    "Launches": ("launch_calls", "launch_us", "launch_mean_us", "launch_a_token", "launch_a_pass", "delay_us"),
    "Waits for the device": ("sync_calls", "sync_us", "sync_mean_us", "sync_a_token", "sync_a_pass"),
    "Copies between memories": ("memcpy_calls", "memcpy_us", "memcpy_mean_us", "memcpy_a_token", "memcpy_a_pass"),
    "Copies as kernels or operators": ("copy_calls", "copy_us", "copy_mean_us", "copy_a_token", "copy_a_pass"),
    "Concatenations": ("concat_calls", "concat_us", "concat_mean_us", "concat_a_token", "concat_a_pass"),
    "Attention": ("attention_calls", "attention_us", "attention_mean_us", "attention_a_token", "attention_a_pass"),
    "Idle time and overlap": ("idle_share", "gaps", "gap_us", "overlap_share", "copy_overlap_us"),
}
MEANINGS = {
    "span_us": "With all pauses, and without the profiler's own spans",
    "work_us": "What runs at the same time counts each",
    "launch_calls": "Each kernel is launched by the host: a call of some microseconds, however short the kernel is",
    "launch_us": "Time that the host spends in these calls. Kernels shorter than their launch leave the device idle",
    "launch_a_token": "What a token costs in launches. More of them at the same work means smaller kernels",
    "launch_a_pass": "Fixed by the model and by how it is run; a graph of kernels counts as one",
    "delay_us": "Long where launches run ahead of the device, which is good; short where the device waits for the host",
    "sync_calls": "The host stops until the device is done: reading a value back does that, such as a drawn token",
    "sync_us": "Time that the host spends waiting. It is no loss where the device is busy meanwhile",
    "memcpy_calls": "From host to device, back, or within the device, by the device's own copier",
    "copy_calls": "direct_copy and the like, for a contiguous cache or another precision",
    "concat_calls": "A cache of keys and values that grows by concatenation copies itself at each step, in each layer",
    "attention_calls": "One a layer and forward pass: over the layers, it counts passes and not tokens",
    "idle_share": "A device without work: it waits for the host, mostly",
    "gaps": "How many pieces that time is made of",
    "overlap_share": "Kernels of several streams at once",
    "copy_overlap_us": "Copies that cost no time of their own",
}
OF_OPERATORS = {"attention_calls": "An operator inside another one counts too: more than one a layer and forward pass"}
"""What it is without a device."""
UNITS = {"µs": "µs", "%": "%", "x": "×"}
SECOND_US = 1e5
"""From here on a time is told in ms: six digits of microseconds tell nothing."""


def known(found: Comparison, names: Sequence[str]) -> list[Figure]:
    figures = (found.figure(name) for name in names)
    return [one for one in figures if one.control is not None or one.test is not None]


def lines(found: Comparison, *, without: Sequence[str] = ()) -> list[Line]:
    """A line a figure; of groups that are named in ``without`` none."""
    return [
        _line(found, group, one)
        for group, names in GROUPS.items()
        if group not in without
        for one in _worth(known(found, names))
    ]


def _worth(figures: list[Figure]) -> list[Figure]:
    """Where neither has any of something, its number of calls says so alone."""
    counted = [one for one in figures if one.name.endswith("_calls") and one.name != "work_calls"]
    return counted if counted and not (counted[0].control or counted[0].test) else figures


def _line(found: Comparison, group: str, figure: Figure) -> Line:
    scale, unit = _scale(figure)
    cells = [Cell(number(_scaled(figure, one, scale))) for one in (figure.control, figure.test)]
    told = cells[:1] if is_alone(found) else [*cells, Cell(times(_ratio(found, figure)), "ratio")]
    what = figure.what.replace("copy kernels", "copies")  # on a CPU they are operators
    what = what[:1].upper() + what[1:]
    return Line(what, tuple(told), unit=unit, note=_meaning(found, figure), group=group)


def _meaning(found: Comparison, figure: Figure) -> str:
    has_device = "device" in (found.control.work_side, found.test.work_side)
    return (MEANINGS if has_device else {**MEANINGS, **OF_OPERATORS}).get(figure.name, "")


def _ratio(found: Comparison, figure: Figure) -> float | None:
    """None of sums of unlike work."""
    return None if figure.name.startswith("work_") and incomparable(found) else figure.ratio


def _scaled(figure: Figure, value: float | None, scale: float) -> float | None:
    """A count stays whole."""
    is_count = figure.unit == "" and "_a_" not in figure.name
    return None if value is None else round(value) if is_count else value / scale


def _scale(figure: Figure) -> tuple[float, str]:
    if figure.unit == "µs" and max(figure.control or 0.0, figure.test or 0.0) >= SECOND_US:
        return 1000.0, "ms"
    return 1.0, UNITS.get(figure.unit, figure.unit)


def groups(found: Comparison) -> list[Group]:
    return [Group("value")] if is_alone(found) else [Group(name) for name in PAIR]


def csv_of(found: Comparison) -> str:
    """Every figure, in its own unit."""
    rows = [(one.name, one.what, one.unit, one.control, one.test, one.ratio) for one in found.figures]
    if is_alone(found):
        return csv_text(("name", "what", "unit", "value"), [row[:4] for row in rows])
    return csv_text(("name", "what", "unit", "control", "test", "ratio"), rows)


def a_token(found: Comparison) -> list[Line]:
    """Calls of each family over tokens; none where a trace does not know its tokens."""
    one, other = (trace.known("tokens") for trace in (found.control, found.test))
    if not one or not other:
        return []
    rows = sorted(found.families, key=lambda row: -max(row.control.calls / one, row.test.calls / other))
    told = []
    for row in rows:
        first, second = row.control.calls / one, row.test.calls / other
        cells = [Cell(number(first)), Cell(number(second)), Cell(times(second / first if first else None), "ratio")]
        told.append(Line(row.family, tuple(cells[:1] if is_alone(found) else cells)))
    return told
