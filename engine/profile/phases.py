"""The time of each step of a captured generation by phase, and what the step wrote: normal tokens, junk, or a cut.

Times are the host's: where a device works asynchronously, a phase is the time to launch its work. A step covers all
rows of its batch, so it may write junk in one row and clean tokens in others; its tokens say which. Unmarked time is
``other``. Whether junk made a step slower is not known from one of each.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from statistics import median
from typing import Any, Literal

from engine.decode.phases import PREFIX, STEP
from engine.inspection.memo import computed_once
from engine.profile.stored_trace import stored_table
from engine.store.columns import Table
from engine.store.entries import Entry
from engine.store.trace_schema import TRACE_MARKS, TRACE_STEPS

OTHER, TEMPLATE = "other", "template"
PHASES = (TEMPLATE, "prefill", "forward", "constraint", "sample", OTHER)
State = Literal["normal", "junk", "cut", "unknown"]
NAMES = {f"{PREFIX}decode": "forward"} | {f"{PREFIX}{name}": name for name in PHASES[:-1]}


@dataclass(frozen=True, slots=True)
class StepToken:
    """A token that a step wrote. What of ``block``, ``kinds`` and ``mark`` is not known is None."""

    sample_id: int
    pos: int
    token_id: int
    piece: str | None
    forced: bool
    block: int | None  # -1 outside of all
    kinds: tuple[str, ...] | None  # of its block
    mark: str | None  # junk; cut at the last token of a block that was; else empty


_COLUMNS = [column.name for column in fields(StepToken)]


@dataclass(frozen=True, slots=True)
class StepPhases:
    """One step. ``phases_us`` add up to ``dur_us``; what is inside of two phases belongs to the inner one."""

    step: int
    start_us: float
    dur_us: float
    phases_us: Mapping[str, float]
    tokens: tuple[StepToken, ...]

    @property
    def state(self) -> State:
        marks = {token.mark for token in self.tokens}
        if "junk" in marks:
            return "junk"
        if "cut" in marks:
            return "cut"
        return "normal" if marks and None not in marks else "unknown"


@dataclass(frozen=True, slots=True)
class Phases:
    """All steps of a trace, in order. ``why`` says what is not known of them, or is empty."""

    steps: tuple[StepPhases, ...]
    template_us: float | None  # of the templates, which are made before the first step
    why: str

    def of(self, state: State) -> tuple[StepPhases, ...]:
        return tuple(step for step in self.steps if step.state == state)

    def example(self, state: State) -> StepPhases | None:
        """The step whose time is nearest the median, if possible one without a prefill."""
        some = self.of(state)
        some = tuple(one for one in some if "prefill" not in one.phases_us) or some
        if not some:
            return None
        middle = median(one.dur_us for one in some)
        return min(some, key=lambda one: (abs(one.dur_us - middle), one.step))

    def parts_us(self, span_us: float) -> tuple[float, float, float, float]:
        """Of a trace this long: in steps, before the first, between them, after the last."""
        last = self.steps[-1]
        in_steps, before = sum(step.dur_us for step in self.steps), self.steps[0].start_us
        until = last.start_us + last.dur_us
        return in_steps, before, until - before - in_steps, span_us - until

    def mean_us(self, state: State | None = None) -> dict[str, float]:
        """Mean time per step by phase; of all steps, or of those of a state. Empty where there is none."""
        some = self.steps if state is None else self.of(state)
        names = [name for name in PHASES if any(name in one.phases_us for one in some)]
        return {name: sum(one.phases_us.get(name, 0.0) for one in some) / len(some) for name in names}


@computed_once(6)
def phases_of_steps(entry: Entry) -> Phases:
    """Of a trace of the store. One that was not captured here has no steps."""
    marks = [row for row in _rows_of(entry, TRACE_MARKS) if row["family"] == "annotation" and _takes_time(row)]
    templates = [row["dur_us"] for row in marks if row["name"] == f"{PREFIX}{TEMPLATE}"]
    spans = [row for row in marks if row["name"] == STEP]
    written = _written(_rows_of(entry, TRACE_STEPS))
    steps = tuple(
        StepPhases(number, row["start_us"], row["dur_us"], phases_us, tuple(written.get(number, ())))
        for number, (row, phases_us) in enumerate(zip(spans, _own_times(spans, marks), strict=True))
    )
    return Phases(steps, sum(templates) if templates else None, _why(entry, steps))


def _why(entry: Entry, steps: Sequence[StepPhases]) -> str:
    if not steps:
        if entry.row.get("origin") != "measured":
            return "This trace was not captured here: its passes and what they wrote are not known."
        return "This trace has no marks of passes: it is an older one, or of a backend without separate passes."
    if not any(step.tokens for step in steps):
        return "This trace has no tokens of its passes."
    if all(step.state == "unknown" for step in steps):
        return "Which tokens of its passes are junk is not known: their places in the texts are missing."
    return ""


def _own_times(spans: Sequence[Mapping[str, Any]], marks: Sequence[Mapping[str, Any]]) -> list[dict[str, float]]:
    """By step and phase, the time in which no other phase inside of it runs."""
    found: list[dict[str, float]] = [{} for _ in spans]
    number = {id(row): place for place, row in enumerate(spans)}
    for thread in {row["thread"] for row in spans}:
        own = [row for row in marks if row["thread"] == thread and (row["name"] in NAMES or id(row) in number)]
        step, open_, before = None, [], 0.0
        for now, is_begin, row in _bounds(own):
            if step is not None and now > before:
                name = NAMES[open_[-1]["name"]] if open_ else OTHER
                found[step][name] = found[step].get(name, 0.0) + now - before
            before = now
            if id(row) in number:
                step = number[id(row)] if is_begin else None
            elif is_begin:
                open_.append(row)
            else:
                open_.remove(row)
    return found


def _takes_time(row: Mapping[str, Any]) -> bool:
    """Late in a long trace, a float may not tell a mark's end from its start."""
    return bool(row["start_us"] + row["dur_us"] > row["start_us"])


def _bounds(rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[float, bool, Mapping[str, Any]]]:
    """Begins and ends in order of time; at equal times ends come first, then the longest begins."""
    ends = [(row["start_us"] + row["dur_us"], 0, row["dur_us"], place) for place, row in enumerate(rows)]
    begins = [(row["start_us"], 1, -row["dur_us"], place) for place, row in enumerate(rows)]
    for now, kind, _, place in sorted(ends + begins):
        yield now, bool(kind), rows[place]


def _written(rows: Sequence[Mapping[str, Any]]) -> dict[int, list[StepToken]]:
    tokens: dict[int, list[StepToken]] = defaultdict(list)
    for row in rows:
        columns = {name: row[name] for name in _COLUMNS} | {"kinds": row["kinds"] and tuple(row["kinds"])}
        tokens[row["step"]].append(StepToken(**columns))
    return tokens


def _rows_of(entry: Entry, table: Table) -> list[dict[str, Any]]:
    stored = stored_table(entry, table)
    return [] if stored is None else stored.to_pylist()
