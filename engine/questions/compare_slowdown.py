"""How much faster a test is per sample than the control, as the product of its factors.

Of a faster test each factor is the control's over the test's, of a slower one the test's over the control's. Each bar
begins where the one above it ended, on a scale where factors add up; to the right is faster. It says how much, not why:
that tokens and time multiply to the whole is algebra and holds for any two runs. More time per token may be a larger
model, another batch or a busy machine. Passes are counted for a run as a whole, so their noise is not known.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from engine.comparing.differences import size_notes
from engine.comparing.measures import run_names
from engine.figures.words import listed, percent, speed, times
from engine.questions.question import Chart, Column, Of, Option, Options, Tables, answer_text, rows_table
from engine.store.entries import Entry, is_profiled
from engine.store.store import Store

TITLE = "What is the speedup or slowdown made of?"
OF = Of("run", least=1, most=41)
TOKENS, TOKEN_TIME = ("tokens", "tokens", "samples"), ("wall time per token", "wall_s", "tokens")
PASSES, PASS_TIME = ("passes", "forward_passes", "samples"), ("wall time per pass", "wall_s", "forward_passes")
TOKEN_PASSES, WHOLE = ("passes per token", "forward_passes", "tokens"), ("wall time per sample", "wall_s", "samples")
WAYS = {
    "tokens × time per token": (TOKENS, TOKEN_TIME),
    "passes × time per pass": (PASSES, PASS_TIME),
    "tokens × passes per token × time per pass": (TOKENS, TOKEN_PASSES, PASS_TIME),
}
OPTIONS = (Option("made_of", None, "Made of", list(WAYS)),)
COLUMNS = {
    "name": Column("run"),
    "factor": Column("factor"),
    "control": Column("control"),
    "test": Column("test"),
    "pace": Column("by this factor alone"),
    "speed_end": Column("times faster per sample", "×", is_hidden=True),
    "share": Column("share", "%", "Of the whole, on a scale where factors add up"),
    **dict.fromkeys(("ratio", "start", "end", "bar", "speed", "speed_start"), Column(is_hidden=True)),
}
CHARTS = (
    Chart("bars", "speed_end", "bar", colour="name", low="speed_start", text="pace", log="x", line_at=1,
          hover=("name", "factor", "control", "test", "pace")),
)  # fmt: skip
TABLES = ()


def tables(store: Store, entries: Sequence[Entry], options: Options) -> Tables:
    control, names = entries[0], run_names(entries)
    rows, notes = [], []
    for test in entries[1:]:
        factors = (WHOLE, *WAYS[options["made_of"]])
        columns = {column for _, *of in factors for column in of}
        unknown = sorted(c for c in columns if not control.row.get(c) or not test.row.get(c))
        if unknown or is_profiled(control) or is_profiled(test):
            why = f"{listed(unknown)} not known" if unknown else "one of the runs was profiled"
            notes.append(f"{names[test.id]}: {why}.")
            continue
        whole, start = 1.0, 1.0
        for name, part, over in factors:
            first, other = control.row[part] / control.row[over], test.row[part] / test.row[over]
            ratio, is_whole = other / first, name == WHOLE[0]
            whole = ratio if is_whole else whole
            row = {"run": test.id, "name": names[test.id], "factor": name, "control": first, "test": other}
            row |= {"ratio": ratio, "start": start, "end": ratio if is_whole else start * ratio}
            row |= {"speed": 1 / ratio, "speed_start": 1 / start, "speed_end": 1 / row["end"], "pace": speed(ratio)}
            row["bar"] = names[test.id] if is_whole else f"{names[test.id]}: {name}"
            row["share"] = math.log(ratio) / math.log(whole) if abs(math.log(whole)) > 1e-12 else None
            start = start if is_whole else start * ratio
            rows.append(row)
    for entry in entries:
        if (thrown := entry.row.get("thrown_tokens")) and entry.row.get("tokens") is not None:
            share = percent(thrown / (thrown + entry.row["tokens"]))
            notes.append(f"The guard of {names[entry.id]} threw away {share} of its tokens: their time counts here.")
    notes += size_notes(entries)
    return {
        "main": rows_table(rows, ["run", "name", "factor", "ratio", "share"]),
        "notes": rows_table([{"note": note} for note in notes], ["note"]),
    }


def answer(tables: Tables, options: Options) -> str:
    rows = tables["main"].to_pylist()
    parts = []
    for whole in (row for row in rows if row["factor"] == WHOLE[0]):
        factors = [row for row in rows if row["run"] == whole["run"] and row is not whole]
        most = max(factors, key=lambda row: row["share"] or 0)
        way = "speed" if whole["speed"] > 1 else "ratio"  # as the pace is told: faster, or slower by
        product = " × ".join(f"{row['factor']} {times(row[way])}" for row in factors)
        same_way = all((row["share"] or 0) >= 0 for row in factors) and abs(math.log(whole["ratio"])) > 0.02
        share = f", {percent(most['share'])} of it {most['factor']}" if same_way else ""
        parts.append(f"{whole['name']} is {speed(whole['ratio'], per='sample')} = {product}{share}.")
    lines = parts or ["Choose two runs with known times and tokens."]
    return answer_text(lines, tables["notes"]["note"].to_pylist())
