"""Passes as bars of phases: the mean of each trace, and one that wrote junk beside one that did not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import streamlit as st

from engine.figures.words import capitalised, listed, microseconds, number
from engine.profile.phases import OTHER, PHASES, Phases, State, StepPhases, phases_of_steps
from engine.store.entries import Entry
from pages._profiles.traces import TraceSelection, model_and_lp
from pages._shared.charts.card import card
from pages._shared.charts.chart import Axis, Chart, Marks, chart
from pages._shared.charts.chart import lanes as lane_axis
from pages._shared.charts.phases import PHASE_PATTERNS, phase_colours
from pages._shared.charts.text import wrapped
from pages._shared.errors import escape_markdown
from pages._shared.sections import in_detail
from pages._shared.theme import palette
from pages._shared.words import unbroken

MEAN_Q = "What is a pass made of?"
MEAN_HELP = """
One pass through the model and what goes with it: making templates (before the first one), the pass over the prompts
(prefill), over new tokens (forward), the LP (constraint), and drawing tokens (sample). *Other* is what no mark
covers. Times are the host's: where a device works on its own, a phase is what it took to ask for the work.

The set-up before the first pass makes the LP's tables, lays out the output head, and clears the cache.
"""
PAIR_Q = "Do passes that write junk take longer?"
PAIR_HELP = """
One pass without junk and one with junk, each the one nearest to the median of its kind. A pass covers all rows of
its batch: junk in one row does not mean junk in the others. Two passes are only an example; the sentence gives the
means over all passes of each kind.
"""
NO_JUNK = "No chart: it needs a pass that wrote junk or cut a number."
STATES: tuple[State, ...] = ("normal", "junk", "cut")
STATE_WORDS = {"normal": "without junk", "junk": "with junk", "cut": "with a cut", "unknown": "unknown"}
MOST_PIECES = 6
LEAST_AFTER = 0.001  # of a trace: most end with their last pass
ROUNDING_US = 1.0


@dataclass(frozen=True, slots=True)
class PhaseLane:
    name: str
    phases_us: Mapping[str, float]
    what: str  # it is the mean of, or wrote


def show(chosen: TraceSelection) -> None:
    traces = [(entry, phases_of_steps(entry)) for entry in chosen.entries]
    if not any(phases.steps for _, phases in traces):
        _means(chosen, traces)  # it says why, and that is all there is to say
        return
    left, right = st.columns(2, gap="small")
    with left:
        _means(chosen, traces)
    with right:
        _examples(chosen, traces)


Traces = Sequence[tuple[Entry, Phases]]


@st.fragment
def _means(chosen: TraceSelection, traces: Traces) -> None:
    with card("phases", MEAN_Q, MEAN_HELP) as frame:
        lanes = [
            PhaseLane(chosen.name(entry.id), phases.mean_us(), f"{len(phases.steps):,} passes")
            for entry, phases in traces
            if phases.steps
        ]
        frame.tell(mean_words(chosen, traces))
        if clock := clock_words(chosen, traces):
            in_detail().markdown(unbroken(escape_markdown(clock)))
        if lanes:
            frame.data(lambda: _rows(lanes))
            frame.draw(_chart(lanes, "mean per pass"))
        frame.leave_out(
            without_lp_words(chosen, traces), *_unknown(chosen, [trace for trace in traces if not trace[1].steps])
        )


def mean_words(chosen: TraceSelection, traces: Traces) -> str:
    """The mean pass of each with its largest phase."""
    parts = []
    for entry, phases in traces:
        place = f"in {chosen.letter(entry.id)}" if len(traces) > 1 else ""
        if phases.steps:
            means = phases.mean_us()
            whole = sum(means.values())
            name, most = max(means.items(), key=lambda phase: phase[1])
            share = f", {number(100 * most / whole)} % of it {name}" if whole else ""
            parts.append(f"{place} a pass takes {microseconds(whole)} on average{share}".lstrip())
    if not parts:
        return "No trace marks where its passes begin."
    return _sentence(parts)


def clock_words(chosen: TraceSelection, traces: Traces) -> str:
    """What of each trace's time by the clock lies inside and outside of its passes."""
    names = [chosen.letter(entry.id) if len(traces) > 1 else "The trace" for entry, _ in traces]
    told = [_whole_words(name, *trace) for name, trace in zip(names, traces, strict=True) if trace[1].steps]
    return " ".join(filter(None, told))


def _whole_words(name: str, entry: Entry, phases: Phases) -> str:
    """Parts that add up to the trace's time by the clock, all in one unit; empty where passes overlap."""
    *_, after = parts = phases.parts_us(entry.row.get("span_us") or 0.0)
    if min(parts) < -ROUNDING_US:
        return ""
    texts = [f"{number(part_us / 1000)} ms" for part_us in (sum(parts), *(max(0.0, part) for part in parts))]
    set_up = ""
    if phases.template_us is not None:
        set_up = f" (templates {number(phases.template_us / 1000)} ms, the rest set-up)"
    told = [f"{texts[1]} in passes", f"{texts[2]} before the first{set_up}", f"{texts[3]} between them"]
    if after >= LEAST_AFTER * sum(parts):
        told.append(f"{texts[4]} after the last")
    return f"{name} takes {texts[0]} by the clock: {listed(told)}."


def without_lp_words(chosen: TraceSelection, traces: Traces) -> str:
    """What the phases of an LP are in traces of runs without one; empty where there is no such trace."""
    letters = [
        chosen.letter(entry.id)
        for entry, phases in traces
        if model_and_lp(entry, chosen.runs)[1] == "none"
        and (phases.template_us is not None or "constraint" in phases.mean_us())
    ]
    if not letters:
        return ""
    return (
        f"Without an LP ({listed(letters)}), constraint is the time to add the drawn tokens, and templates are the "
        "prompts alone."
    )


def _sentence(parts: Sequence[str]) -> str:
    text = "; ".join(parts)
    return f"{capitalised(text)}."


@st.fragment
def _examples(chosen: TraceSelection, traces: Traces) -> None:
    with card("junk-step", PAIR_Q, PAIR_HELP) as frame:
        lanes = examples(chosen, traces)
        frame.tell(junk_words(chosen, traces))
        has_damage = any(phases.of("junk") or phases.of("cut") for _, phases in traces)
        if not has_damage:
            unknown = _unknown(chosen, traces)
            frame.leave_out(*(unknown or [NO_JUNK]))
            return
        frame.data(lambda: _rows(lanes))
        frame.draw(_chart(lanes, "one pass"))
        wrote = [f"{lane.name}: {lane.what}." for lane in lanes if lane.what]
        frame.leave_out(*wrote, *_unknown(chosen, traces))


def examples(chosen: TraceSelection, traces: Traces) -> list[PhaseLane]:
    """One pass of each kind that a trace has; of a trace without junk or a cut, its normal one."""
    lanes = []
    for entry, phases in traces:
        letter = f"{chosen.letter(entry.id)} · " if len(traces) > 1 else ""
        for state in STATES:
            if (step := phases.example(state)) is not None:
                name = f"{letter}pass {step.step + 1:,} · {STATE_WORDS[state]}"
                lanes.append(PhaseLane(name, step.phases_us, _pieces(step)))
    return lanes


def _pieces(step: StepPhases) -> str:
    """What it wrote, the junk first."""
    tokens = sorted(step.tokens, key=lambda token: not token.mark)
    pieces = [f"“{token.piece}”" + (f" ({token.mark})" if token.mark else "") for token in tokens if token.piece]
    shown = pieces[:MOST_PIECES]
    more = len(step.tokens) - len(shown)
    return "wrote " + " ".join(shown) + (f" and {more:,} more" if more > 0 else "") if shown else ""


def junk_words(chosen: TraceSelection, traces: Traces) -> str:
    """How many passes wrote junk, and their mean beside that of the others; what is not known where nothing is."""
    parts = []
    for entry, phases in traces:
        counted = {state: len(phases.of(state)) for state in STATES}
        if not any(counted.values()):
            continue
        of = f"of {len(phases.steps):,} passes" + (f" of {chosen.letter(entry.id)}" if len(traces) > 1 else "")
        if not counted["junk"]:
            parts.append(f"{of} none wrote junk" + (f", {counted['cut']:,} cut a number" if counted["cut"] else ""))
            continue
        sums = [sum(phases.mean_us(state).values()) for state in ("junk", "normal")]
        beside = f", {microseconds(sums[1])} without" if counted["normal"] else ""
        parts.append(f"{of} {counted['junk']:,} wrote junk: {microseconds(sums[0])} on average{beside}")
    return _sentence(parts) if parts else "Which passes wrote junk is not known."


def _unknown(chosen: TraceSelection, traces: Traces) -> list[str]:
    """What is not known of which traces."""
    reasons: dict[str, list[str]] = {}
    for entry, phases in traces:
        reasons.setdefault(phases.why, []).append(chosen.letter(entry.id))
    return [f"{listed(letters)}: {why}" for why, letters in reasons.items() if why]


def _chart(steps: Sequence[PhaseLane], title: str) -> Chart:
    """As the Compare page's budget has its parts."""
    colours = palette()
    hues = phase_colours(colours) | {OTHER: colours.grid}
    most = max((sum(step.phases_us.values()) for step in steps), default=0.0)
    scale, unit = (1000.0, "ms") if most >= 1000 else (1.0, "µs")
    bars = [
        {
            "lane": lane,
            "step": step.name,
            "phase": phase,
            "value": step.phases_us.get(phase, 0.0) / scale,
            "us": step.phases_us.get(phase, 0.0),
            "colour": hues[phase],
            "pattern": PHASE_PATTERNS.get(phase, ""),
        }
        for phase in PHASES
        if any(phase in step.phases_us for step in steps)
        for lane, step in enumerate(steps)
    ]
    words = [f"{step.name}: " + ", ".join(f"{name} {microseconds(us)}" for name, us in step.phases_us.items())
             for step in steps]  # fmt: skip
    return chart(
        Marks(
            kind="bars",
            rows=bars,
            x="value",
            y="lane",
            group="phase",
            is_across=True,
            hover=lambda row: (row["step"], f"{row['phase']}: {microseconds(row['us'])}"),
        ),
        x=Axis(title=f"{title}, {unit}", from_zero=True),
        y=lane_axis([wrapped(step.name) for step in steps]),
        bars="stack",
        height=120 + 46 * len(steps),
        top=56,
        alt=". ".join(words) + ".",
    )


def _rows(lanes: Sequence[PhaseLane]) -> list[dict[str, object]]:
    return [
        {
            "pass": lane.name,
            "what": lane.what,
            **{f"{name} (µs)": lane.phases_us.get(name) for name in PHASES},
            "all (µs)": sum(lane.phases_us.values()),
        }
        for lane in lanes
    ]
