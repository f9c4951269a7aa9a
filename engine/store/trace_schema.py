"""The tables of traces, as ``engine.store.schema`` has those of runs. Times end in ``_us``."""

from __future__ import annotations

from engine.store.columns import TAGS, Kind
from engine.store.columns import table as _table

TRACES = _table(
    "traces",
    ("trace_id", "text", "names the trace; its folder is trace_id=<trace_id>", True),
    ("created_at", "moment", "when it was captured or read"),
    ("origin", "text", "measured (captured here), imported (a file), or reported (a text states it)", True),
    ("form", "text", "events, or table: sums that somebody else made of them"),
    ("source", "text", "where it comes from: a command, a file's name, a report and its section"),
    ("label", "text", "a user's own name for it"),
    TAGS,
    ("notes", "text", "a user's own"),
    ("run_id", "text", "the run that it is of"),
    ("file", "text", "the trace itself, kept in the store beside the entries; null: not kept"),
    ("device", "text", "what its kernels ran on, as the trace says"),
    ("is_complete", "flag", "false where its file ends too early, and what there was was taken"),
    ("events", "whole", "with a duration: all that is in trace_ops"),
    ("flows", "whole", "arrows between events, which are left out: correlations say the same"),
    ("others", "whole", "names of threads, moments, counters: left out"),
    ("span_us", "real", "from the first event's start to the last one's end, without the profiler's own spans"),
    ("device_us", "real", "sum over all work of devices, those at the same time counted each; null without a device"),
    ("busy_us", "real", "time in which a device works, each device by itself"),
    ("idle_us", "real", "time between a device's first and last work in which it does nothing"),
    ("gaps", "whole", "pieces that idle_us is made of"),
    ("overlap_us", "real", "time in which a device does two things or more"),
    ("copy_overlap_us", "real", "time in which it copies and computes"),
    ("joined", "whole", "events of devices whose call was found by correlation"),
    ("other_share", "real", "part of the work's time that no rule of a family caught"),
    ("samples", "whole", "answers that it covers; see counted_by"),
    ("tokens", "whole", "tokens that it covers, forced ones included"),
    ("forced_tokens", "whole", "of these, those that the LP left no choice for"),
    ("forward_passes", "whole", "of the model"),
    ("counted_by", "text", "who says so: engine (while it was captured), run (the whole run's), user"),
    ("counters", "text", "what else the engine counted meanwhile, as JSON: seconds by phase"),
    ("warnings", "text", "what was odd about the file, one a line"),
    ("versions", "text", "what captured it, as JSON"),
)

TRACE_OPS = _table(
    "trace_ops",
    ("trace_id", "text", "its trace", True),
    ("op", "small", "numbers the operation within its trace"),
    ("side", "text", "device (its work), call (into its runtime), host (operators), python, or mark (named spans)"),
    ("family", "text", "by the rules of data/trace_families.toml; other where none matches", True),
    ("name", "text", "as the trace has it", True),
    ("short_name", "text", "for people"),
    ("category", "text", "as the trace has it"),
    ("stream", "text", "of a device"),
    ("device", "text", "its number"),
    ("calls", "whole", "events of this name", True),
    ("total_ns", "whole", "sum of their durations"),
    ("total_us", "real", "the same; of operators inside operators both count", True),
    ("self_us", "real", "of operators without those inside them; else as total_us"),
    ("min_us", "real", "the shortest"),
    ("max_us", "real", "the longest"),
    ("short_calls", "whole", "of the calls, those under 50 µs"),
    ("launched", "whole", "of a device: events whose call was found by correlation"),
    ("launch_us", "real", "time of those calls on the host; one that begins several events is shared by them"),
    ("delay_us", "real", "from those calls' start to the events' own, added up"),
    order=("op",),
)

TRACE_TIMELINE = _table(
    "trace_timeline",
    ("trace_id", "text", "its trace", True),
    ("side", "text", "as in trace_ops: device, call or host", True),
    ("family", "text", "as in trace_ops", True),
    ("bin", "small", "from 0; where a family does nothing it has no row", True),
    ("start_us", "real", "of the bin, from the trace's first event"),
    ("width_us", "real", "of every bin"),
    ("busy_us", "real", "time of the family in it; several at once count each, operators without those inside them"),
    order=("side", "family", "bin"),
)

TRACE_GAPS = _table(
    "trace_gaps",
    ("trace_id", "text", "its trace", True),
    ("device", "text", "which device is idle"),
    ("start_us", "real", "from the trace's first event"),
    ("gap_us", "real", "how long; the longest gaps are here, traces.gaps counts all"),
    ("before_op", "small", "the operation that ended"),
    ("after_op", "small", "the operation that began"),
    order=("start_us",),
)

TRACE_MARKS = _table(
    "trace_marks",
    ("trace_id", "text", "its trace", True),
    ("family", "text", "annotation (on the host) or gpu_annotation"),
    ("name", "text", "driftscope::template, step, prefill, decode, constraint, sample; or what else was marked"),
    ("thread", "small", "numbers threads within the trace"),
    ("start_us", "real", "from the trace's first event"),
    ("dur_us", "real", "how long"),
    order=("start_us",),
)

TRACE_STEPS = _table(
    "trace_steps",
    ("trace_id", "text", "its trace; only of those that were captured here", True),
    ("step", "small", "from 0, as the marks driftscope::step stand in the trace", True),
    ("sample_id", "whole", "of the run or the command", True),
    ("pos", "small", "in the answer, from 0", True),
    ("token_id", "small", "what was written there", True),
    ("piece", "text", "the token's text"),
    ("forced", "flag", "the LP left no choice for it", True),
    ("block", "small", "the coordinate block that it touches, -1 for none; null: not known"),
    ("kinds", "texts", "what is right or wrong with that block; null: not known, or none"),
    ("mark", "text", "junk; cut, at the last token of a block that was; null: not known, else empty"),
    order=("step", "sample_id", "pos"),
)

TRACE_EVENTS = _table(
    "trace_events",
    ("trace_id", "text", "its trace; only of those that were read with --events", True),
    ("op", "small", "of trace_ops"),
    ("thread", "small", "numbers threads within the trace"),
    ("start_us", "real", "from the trace's first event; null where the trace has no sensible time"),
    ("dur_us", "real", "how long"),
    ("correlation", "whole", "the same for a call and what it began"),
)

TRACE = Kind(
    "traces",
    "trace_id",
    "trace",
    "trace.json",
    TRACES,
    (TRACE_OPS, TRACE_TIMELINE, TRACE_GAPS, TRACE_MARKS, TRACE_STEPS, TRACE_EVENTS),
)
