"""How much faster a test is per sample than the control, as the product of its factors.

Of a faster test each factor is the control's over the test's, of a slower one the test's over the control's. Each bar
begins where the one above it ended, on a scale where factors add up; to the right is faster. It says how much, not why:
that tokens and time multiply to the whole is algebra and holds for any two runs. More time per token may be a larger
model, another batch or a busy machine. Passes are counted for a run as a whole, so their noise is not known.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from engine.comparing.differences import size_notes
from engine.comparing.measures import answer_notes, pool_notes, run_names
from engine.figures.words import listed, percent, speed, times
from engine.questions.question import Chart, Column, Of, Option, Options, Tables, answer_text, rows_table
from engine.store.entries import Entry, is_pool, is_profiled
from engine.store.store import Store

Factor = tuple[str, str, str]
"""In words, and the columns that it is one over the other of."""
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
    factors = (WHOLE, *WAYS[options["made_of"]])
    unknown = {entry.id: unknown_of(entry, factors) for entry in entries}
    lacking = [entry for entry in entries if unknown[entry.id] and not is_pool(entry)]
    notes = [*pool_notes(entries, names), *(f"{names[e.id]}: {listed(unknown[e.id])} not known." for e in lacking)]
    rows: list[dict[str, Any]] = []
    for test in entries[1:]:
        if unknown[control.id] or unknown[test.id]:
            continue
        if is_profiled(control) or is_profiled(test):
            notes.append(f"{names[test.id]}: one of the runs was profiled.")
        else:
            rows += factor_rows(control, test, names[test.id], factors)
    notes += thrown_notes(entries, names)
    if rows:
        notes += [*answer_notes(entries, names), *size_notes(entries)]
    return {
        "main": rows_table(rows, ["run", "name", "factor", "ratio", "share"]),
        "notes": rows_table([{"note": note} for note in notes], ["note"]),
    }


def unknown_of(entry: Entry, factors: Sequence[Factor]) -> list[str]:
    """What its factors are made of and it does not say, in words."""
    columns = sorted({column for _, *of in factors for column in of if not entry.row.get(column)})
    return [{"wall_s": "wall time"}.get(column, column.replace("_", " ")) for column in columns]


def factor_rows(control: Entry, test: Entry, title: str, factors: Sequence[Factor]) -> Iterator[dict[str, Any]]:
    """The whole, and each factor beginning where the one before it ended."""
    whole = 1.0
    start = 1.0
    for name, part, over in factors:
        first = control.row[part] / control.row[over]
        other = test.row[part] / test.row[over]
        ratio = other / first
        is_whole = name == WHOLE[0]
        if is_whole:
            whole = ratio
        end = start * ratio
        yield {
            "run": test.id,
            "name": title,
            "factor": name,
            "control": first,
            "test": other,
            "ratio": ratio,
            "start": start,
            "end": end,
            "pace": speed(ratio),
            "speed": 1 / ratio,
            "speed_start": 1 / start,
            "speed_end": 1 / end,
            "bar": title if is_whole else f"{title}: {name}",
            "share": math.log(ratio) / math.log(whole) if abs(math.log(whole)) > 1e-12 else None,
        }
        if not is_whole:  # the first factor begins where the whole began
            start = end


def thrown_notes(entries: Sequence[Entry], names: Mapping[str, str]) -> Iterator[str]:
    for entry in entries:
        if (thrown := entry.row.get("thrown_tokens")) and entry.row.get("tokens") is not None:
            share = percent(thrown / (thrown + entry.row["tokens"]))
            yield f"The guard of {names[entry.id]} threw away {share} of its tokens: their time counts here."


def answer(tables: Tables, options: Options) -> str:
    rows = tables["main"].to_pylist()
    parts = []
    for whole in (row for row in rows if row["factor"] == WHOLE[0]):
        factors = [row for row in rows if row["run"] == whole["run"] and row is not whole]
        most = max(factors, key=lambda row: row["share"] or 0)
        way = "speed" if whole["speed"] > 1 else "ratio"  # as the pace is told: faster, or slower by
        product = ", ".join(f"{times(row[way])} by {row['factor']}" for row in factors)
        same_way = all((row["share"] or 0) >= 0 for row in factors) and abs(math.log(whole["ratio"])) > 0.02
        share = f"; {percent(most['share'])} of it by {most['factor']}" if same_way else ""
        parts.append(f"{whole['name']} is {speed(whole['ratio'], per='sample')}: {product}{share}.")
    lines = parts or ["Choose two runs with known times and tokens."]
    return answer_text(lines, tables["notes"]["note"].to_pylist())
