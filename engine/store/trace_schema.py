"""The tables of traces, as ``engine.store.schema`` has those of runs. Times end in ``_us``."""

from __future__ import annotations

from engine.store.columns import FLAG, MOMENT, REAL, SMALL, TAGS, TEXT, TEXTS, WHOLE, Kind
from engine.store.columns import table as _table

TRACES = _table(
    "traces",
    ("trace_id", TEXT, "names the trace; its folder is trace_id=<trace_id>", True),
    ("created_at", MOMENT, "when it was captured or read"),
    ("origin", TEXT, "measured (captured here), imported (a file), or reported (a text states it)", True),
    ("form", TEXT, "events, or table: sums that somebody else made of them"),
    ("source", TEXT, "where it comes from: a command, a file's name, a report and its section"),
    ("label", TEXT, "a user's own name for it"),
    TAGS,
    ("notes", TEXT, "a user's own"),
    ("run_id", TEXT, "the run that it is of"),
    ("file", TEXT, "the trace itself, kept in the store beside the entries; null: not kept"),
    ("device", TEXT, "what its kernels ran on, as the trace says"),
    ("is_complete", FLAG, "false where its file ends too early, and what there was was taken"),
    ("events", WHOLE, "with a duration: all that is in trace_ops"),
    ("flows", WHOLE, "arrows between events, which are left out: correlations say the same"),
    ("others", WHOLE, "names of threads, moments, counters: left out"),
    ("span_us", REAL, "from the first event's start to the last one's end, without the profiler's own spans"),
    ("device_us", REAL, "sum over all work of devices, those at the same time counted each; null without a device"),
    ("busy_us", REAL, "time in which a device works, each device by itself"),
    ("idle_us", REAL, "time between a device's first and last work in which it does nothing"),
    ("gaps", WHOLE, "pieces that idle_us is made of"),
    ("overlap_us", REAL, "time in which a device does two things or more"),
    ("copy_overlap_us", REAL, "time in which it copies and computes"),
    ("joined", WHOLE, "events of devices whose call was found by correlation"),
    ("other_share", REAL, "part of the work's time that no rule of a family caught"),
    ("samples", WHOLE, "answers that it covers; see counted_by"),
    ("tokens", WHOLE, "tokens that it covers, forced ones included"),
    ("forced_tokens", WHOLE, "of these, those that the LP left no choice for"),
    ("forward_passes", WHOLE, "of the model"),
    ("counted_by", TEXT, "who says so: engine (while it was captured), run (the whole run's), user"),
    ("counters", TEXT, "what else the engine counted meanwhile, as JSON: seconds by phase"),
    ("warnings", TEXT, "what was odd about the file, one a line"),
    ("versions", TEXT, "what captured it, as JSON"),
)

TRACE_OPS = _table(
    "trace_ops",
    ("trace_id", TEXT, "its trace", True),
    ("op", SMALL, "numbers the operation within its trace"),
    ("side", TEXT, "device (its work), call (into its runtime), host (operators), python, or mark (named spans)"),
    ("family", TEXT, "by the rules of data/trace_families.toml; other where none matches", True),
    ("name", TEXT, "as the trace has it", True),
    ("short_name", TEXT, "for people"),
    ("category", TEXT, "as the trace has it"),
    ("stream", TEXT, "of a device"),
    ("device", TEXT, "its number"),
    ("calls", WHOLE, "events of this name", True),
    ("total_ns", WHOLE, "sum of their durations"),
    ("total_us", REAL, "the same; of operators inside operators both count", True),
    ("self_us", REAL, "of operators without those inside them; else as total_us"),
    ("min_us", REAL, "the shortest"),
    ("max_us", REAL, "the longest"),
    ("short_calls", WHOLE, "of the calls, those under 50 µs"),
    ("launched", WHOLE, "of a device: events whose call was found by correlation"),
    ("launch_us", REAL, "time of those calls on the host; one that begins several events is shared by them"),
    ("delay_us", REAL, "from those calls' start to the events' own, added up"),
    order=("op",),
)

TRACE_TIMELINE = _table(
    "trace_timeline",
    ("trace_id", TEXT, "its trace", True),
    ("side", TEXT, "as in trace_ops: device, call or host", True),
    ("family", TEXT, "as in trace_ops", True),
    ("bin", SMALL, "from 0; where a family does nothing it has no row", True),
    ("start_us", REAL, "of the bin, from the trace's first event"),
    ("width_us", REAL, "of every bin"),
    ("busy_us", REAL, "time of the family in it; several at once count each, operators without those inside them"),
    order=("side", "family", "bin"),
)

TRACE_GAPS = _table(
    "trace_gaps",
    ("trace_id", TEXT, "its trace", True),
    ("device", TEXT, "which device is idle"),
    ("start_us", REAL, "from the trace's first event"),
    ("gap_us", REAL, "how long; the longest gaps are here, traces.gaps counts all"),
    ("before_op", SMALL, "the operation that ended"),
    ("after_op", SMALL, "the operation that began"),
    order=("start_us",),
)

TRACE_MARKS = _table(
    "trace_marks",
    ("trace_id", TEXT, "its trace", True),
    ("family", TEXT, "annotation (on the host) or gpu_annotation"),
    ("name", TEXT, "driftscope::template, step, prefill, decode, constraint, sample; or what else was marked"),
    ("thread", SMALL, "numbers threads within the trace"),
    ("start_us", REAL, "from the trace's first event"),
    ("dur_us", REAL, "how long"),
    order=("start_us",),
)

TRACE_STEPS = _table(
    "trace_steps",
    ("trace_id", TEXT, "its trace; only of those that were captured here", True),
    ("step", SMALL, "from 0, as the marks driftscope::step stand in the trace", True),
    ("sample_id", WHOLE, "of the run or the command", True),
    ("pos", SMALL, "in the answer, from 0", True),
    ("token_id", SMALL, "what was written there", True),
    ("piece", TEXT, "the token's text"),
    ("forced", FLAG, "the LP left no choice for it", True),
    ("block", SMALL, "the coordinate block that it touches, -1 for none; null: not known"),
    ("kinds", TEXTS, "what is right or wrong with that block; null: not known, or none"),
    ("mark", TEXT, "junk; cut, at the last token of a block that was; null: not known, else empty"),
    order=("step", "sample_id", "pos"),
)

TRACE_EVENTS = _table(
    "trace_events",
    ("trace_id", TEXT, "its trace; only of those that were read with --events", True),
    ("op", SMALL, "of trace_ops"),
    ("thread", SMALL, "numbers threads within the trace"),
    ("start_us", REAL, "from the trace's first event; null where the trace has no sensible time"),
    ("dur_us", REAL, "how long"),
    ("correlation", WHOLE, "the same for a call and what it began"),
)

TRACE = Kind(
    "traces",
    "trace_id",
    "trace",
    "trace.json",
    TRACES,
    (TRACE_OPS, TRACE_TIMELINE, TRACE_GAPS, TRACE_MARKS, TRACE_STEPS, TRACE_EVENTS),
)
