"""Single operations by name, all streams together: those that came, went, grew and shrank, and what each costs.

Bars to the right are what the test has more of, to the left what it has less of. *Change* is of calls; time may go the
other way. An operation that is *pinned*, by a click on its bar or from the list, stays first, whatever is searched for,
and its full name, streams, shortest and longest call are shown. Counts are of whole traces.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from engine.figures.statistics import quotient
from engine.figures.words import listed, shortened, signed, signed_microseconds
from engine.profile.traces import Totals, fold_small, incomparable, pair_row, traces_of
from engine.questions.profiles_families import PAIRS, SIDES
from engine.questions.question import Chart, Column, Of, Option, Options, Tables, rows_table
from engine.store.entries import Entry, entry_names
from engine.store.store import Store

TITLE = "Which operations take the time, and which differ?"
OF = Of("trace", least=1, most=2)
# Saved links name the control A and the test B.
CHANGES = {
    "only in B": "added",
    "only in A": "gone",
    "more calls": "grown",
    "fewer calls": "shrunk",
    "as many calls": "same",
}
NAMES = {change: name for name, change in CHANGES.items()}
WORDS = {"only in B": "only in the test", "only in A": "only in the control"}


def families(store: Store, entries: Sequence[Entry]) -> list[str]:
    table = store.table("SELECT DISTINCT family FROM trace_ops ORDER BY family", of=[entry.id for entry in entries])
    return [str(family) for family in table["family"].to_pylist()]


def operations(store: Store, entries: Sequence[Entry]) -> dict[str, str]:
    """Those of these traces, the longest first, as choices of which none may be chosen."""
    labels = labels_of(store, entries, MOST_NAME)
    return {"": "none"} | {key_of(name): label for name, label in labels.items()}


def labels_of(store: Store, entries: Sequence[Entry], most: int) -> dict[str, str]:
    """By full name, the longest first: short names of about so many characters. Those that would be the same on a bar
    are numbered, in the list too: ``elementwise_kernel (2)``."""
    found = store.table(BY_TIME, of=[entry.id for entry in entries]).to_pylist()
    on_bars = Counter(shortened(row["short_name"], MOST_BAR) for row in found)
    numbers, labels = Counter[str](), dict[str, str]()
    for row in found:
        on_bar = shortened(row["short_name"], MOST_BAR)
        numbers[on_bar] += 1
        number = f" ({numbers[on_bar]})" if on_bars[on_bar] > 1 else ""
        labels[row["name"]] = shortened(row["short_name"], most) + number
    return labels


def key_of(name: str) -> str:
    """A name may be too long for an address."""
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:12]


MOST_NAME, MOST_BAR = 80, 34
WORK = """
SELECT *, coalesce(self_us, total_us) AS us FROM trace_ops
QUALIFY side = if(bool_or(side = 'device') OVER (PARTITION BY trace_id), 'device', 'host')
"""
"""Of a trace with a device that device's operations, else the host's."""
BY_TIME = f"""
SELECT name, min(coalesce(short_name, name)) AS short_name FROM ({WORK}) GROUP BY name ORDER BY sum(us) DESC, name
"""
OPTIONS = (
    Option("change", None, "Change of calls", {name: WORDS.get(name, name) for name in CHANGES}, is_many=True),
    Option("family", None, "Family", families, is_many=True),
    Option("kernel", "", "Search", help="Words in the operation's full name"),
    Option("by", None, "Largest by", ["time", "calls"]),
    Option("small", False, "Small bars", help="Each bar under 5 % of all bars, in place of one with their sum"),
    Option("operation", "", "Pinned", operations, is_open=True),
)
COLUMNS = {
    "short_name": Column("operation", is_pinned=True),
    "change": Column("calls in the test", help="More, fewer or as many as in the control, or only in one of them"),
    "difference_us": Column("difference", "µs", "Test less control"),
    **PAIRS,
    "value": Column("time", "ms"),
    "share": Column("share", "%", "Of all work"),
    "name": Column("full name"),
    "key": Column(is_hidden=True),
    "min_us": Column("shortest", "µs"),
    "max_us": Column("longest", "µs"),
    "delay_us": Column("after its launch", "µs"),
    "us": Column("time", "µs"),
}
CHARTS = (
    Chart("bars", "value", "short_name", "largest", colour="move", text="value",
          hover=("name", "family", "value", "calls_control", "calls_test"), picks="option:operation:key"),
    Chart("bars", "calls", "short_name", "most_calls", colour="move", text="calls",
          hover=("name", "family", "calls", "calls_control", "calls_test"), picks="option:operation:key"),
)  # fmt: skip
TABLES = ("streams", "table")
SHOWN_ALONE = ["short_name", "family", "total_us_control", "share", "calls_control", "mean_us_control", "name"]
SHOWN = ["short_name", "difference_us", "change", "total_us_control", "total_us_test", "total_us_speed",
         "calls_control", "calls_test", "calls_ratio", "mean_us_control", "mean_us_test", "family", "name"]  # fmt: skip
Row = dict[str, Any]
SQL = f"""
WITH ops AS (SELECT *, trace_id = $control AS is_control, trace_id = $test AS is_test FROM ({WORK}))
SELECT name, coalesce(sum(calls) FILTER (is_control), 0)::BIGINT AS calls_control,
       coalesce(sum(calls) FILTER (is_test), 0)::BIGINT AS calls_test,
       coalesce(sum(us) FILTER (is_control), 0) AS us_control, coalesce(sum(us) FILTER (is_test), 0) AS us_test,
       arg_min(coalesce(short_name, name), (is_test, op)) AS short_name, arg_min(family, (is_test, op)) AS family
FROM ops GROUP BY name
"""
STREAMS = """
SELECT trace_id AS trace, device, stream, calls, coalesce(self_us, total_us) AS us, min_us, max_us,
       delay_us / nullif(launched, 0) AS delay_us, name
FROM trace_ops WHERE name = $name AND side IN ('device', 'host') ORDER BY trace_id <> $control, us DESC
"""


def tables(store: Store, entries: Sequence[Entry], options: Options) -> Tables:
    control, test = traces_of(store, entries)
    ids, is_alone = [entry.id for entry in entries], len(entries) == 1
    operations = store.table(SQL, {"control": control.entry.id, "test": test.entry.id}, of=ids).to_pylist()
    rows = list(map(pair_of, operations))
    rows.sort(key=lambda row: (-abs(row["difference_us"]), row["name"]))
    whole_us = sum(row["total_us_control"] for row in rows)
    chosen = [row for row in rows if is_in(row, options) or key_of(row["name"]) == options["operation"]]
    table = [row | shown_parts(row, whole_us, options, is_alone=is_alone) for row in chosen]
    table.sort(key=lambda row: (not row["is_pinned"], -abs(row["value"]), row["name"]))
    reason = incomparable(control, test)
    labels = labels_of(store, entries, MOST_BAR)
    bars = [] if reason else bars_of(table, labels, is_unfolded=options["small"])
    picked = next((row["name"] for row in table if row["is_pinned"]), None)
    streams = store.table(STREAMS, {"name": picked, "control": ids[0]}, of=ids).to_pylist()
    names = entry_names(entries)
    shown = SHOWN_ALONE if is_alone else SHOWN
    return {
        "main": rows_table(rows, ["name", "short_name", "family", "change", "difference_us"]),
        "largest": rows_table(bars if options["by"] == "time" else []),
        "most_calls": rows_table([bar | {"calls": bar["value"]} for bar in bars if options["by"] == "calls"]),
        "streams": rows_table([row | {"trace": names[row["trace"]]} for row in streams]),
        "table": rows_table(table, shown).select(shown),
        "facts": rows_table([{"reason": reason, "is_alone": is_alone}]),
    }


def pair_of(operation: Row) -> Row:
    first, second = (Totals(operation.pop(f"calls_{side}"), operation.pop(f"us_{side}")) for side in SIDES)
    if not second.calls:
        change = "gone"
    elif not first.calls:
        change = "added"
    elif second.calls == first.calls:
        change = "same"
    else:
        change = "grown" if second.calls > first.calls else "shrunk"
    return {**operation, "change": change, **pair_row(first, second, {})}


def is_in(row: Row, options: Options) -> bool:
    is_changed = NAMES[row["change"]] in (options["change"] or CHANGES)
    is_family = row["family"] in (options["family"] or (row["family"],))
    words = options["kernel"].casefold().split()
    return is_changed and is_family and all(word in row["name"].casefold() for word in words)


def bars_of(table: Sequence[Row], labels: Mapping[str, str], *, is_unfolded: bool) -> list[Row]:
    bars = fold_small([row | {"bar": row["name"]} for row in table if row["value"]], "value", "bar", is_unfolded)
    return [{**bar, "short_name": labels.get(bar["bar"], bar["bar"])} for bar in bars]


def shown_parts(row: Row, whole_us: float, options: Options, *, is_alone: bool) -> Row:
    """What the table and the chart have of an operation besides both traces' figures."""
    is_count = options["by"] == "calls"
    column = "calls" if is_count else "total_us"
    value = row[f"{column}_control"] if is_alone else row[f"{column}_test"] - row[f"{column}_control"]
    words = f"{signed(value)} calls" if is_count else signed_microseconds(value)
    move = "more in the test" if value > 0 else "less in the test"
    change = NAMES[row["change"]]
    key = key_of(row["name"])
    return {
        "key": key,
        "is_pinned": key == options["operation"],
        "move": "work" if is_alone else move,
        "value": value if is_count else value / 1000,
        "change": WORDS.get(change, change),
        "words": words.removeprefix("+") if is_alone else words,
        "share": quotient(row["total_us_control"], whole_us),
    }


def answer(tables: Tables, options: Options) -> str:
    rows, (fact,) = tables["main"].to_pylist(), tables["facts"].to_pylist()
    bars = [*tables["largest"].to_pylist(), *tables["most_calls"].to_pylist()]
    if not rows:
        return "No work with a name is in these traces."
    if fact["reason"]:
        return str(fact["reason"])
    if not tables["table"].num_rows:
        return "No operation matches. Remove a filter."
    if not bars:
        return "None of these operations differs."
    first = max((bar for bar in bars if bar["key"]), key=lambda bar: abs(bar["value"]))
    lead = f"{shortened(first['short_name'], MOST_NAME)} {'takes' if fact['is_alone'] else 'differs'} most"
    lead = f"{lead} ({first['family']}): {first['words']}."
    if fact["is_alone"]:
        return lead
    count = Counter(row["change"] for row in rows)
    parts = [f"{count[change]:,} {WORDS.get(name, name)}" for name, change in CHANGES.items() if count[change]]
    return f"Of {len(rows):,} operations: {listed(parts)}. {lead}"
