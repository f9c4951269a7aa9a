"""What the Profiles page's sections ask of the engine, kept for the next rerun.

Traces never change, so their checksums name an answer. Answers are shared by all visitors and never written to.
"""

from __future__ import annotations

from engine.inspection.memo import Memo
from engine.profile.compare import Comparison, Trace, compare
from engine.store.entries import Entry
from pages._shared.profiles.state import Chosen

_traces: Memo[Trace] = Memo(6)
_comparisons: Memo[Comparison] = Memo(4)


def trace_of(entry: Entry) -> Trace:
    return _traces.of(_key(entry), lambda: Trace.of(entry))


def comparison_of(chosen: Chosen) -> Comparison:
    """Of a trace alone: beside itself."""
    control, test = chosen.traces[0], chosen.traces[-1]
    return _comparisons.of((_key(control), _key(test)), lambda: compare(trace_of(control), trace_of(test)))


def _key(entry: Entry) -> tuple[str, ...]:
    return (entry.files.where, *entry.key)
