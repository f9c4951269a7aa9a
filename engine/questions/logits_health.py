"""What is damaged in a log, where, and the likely causes.

Each value is compared with its own entry and with earlier tokens of its text. Damage leaves out masks and rows without
a token. The map shows a text's values, token by position, each by its most telling flag. Values are drawn on
sign × log10(1 + |value|): even around 0, logarithmic further out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.errors import one_line
from engine.figures.words import capitalised, counted, fixed, percent, significant
from engine.logits.causes import CERTAINTY_LABELS, ON_PURPOSE, RULES, positions_in_words
from engine.logits.health import DAMAGED, check_values, damage_query, health
from engine.logits.pairs import late_read
from engine.logits.parity import log_name
from engine.logits.rules import FLAGS, MEANING
from engine.questions.question import Chart, Column, Of, Option, Options, Tables, answer_text, rows_table
from engine.store.entries import Entry
from engine.store.memo import computed_once
from engine.store.schema import LOGIT_LOG
from engine.store.store import Store

TITLE = "What is damaged, and why?"
OF = Of("log")
MARKS = {  # on the map, by a letter and a colour; of several flags the first in this order
    "non_finite": "N not finite", "pointer": "P pointer (garbage)", "denormal": "D denormal (garbage)",
    "outlier": "O outlier (garbage)", "constant": "C constant (dead buffer)", "repeated": "R repeated (stale buffer)",
    "zero": "0 zero (dead buffer)",
}  # fmt: skip
MEANT = "m mask or padding"
MOST_TEXTS, MOST_VALUES, BINS = 2_000, 20_000, 360


@computed_once(16)
def texts(store: Store, entry: Entry) -> list[dict[str, Any]]:
    """One text at one checkpoint each, those with damage first."""
    check_values(store, entry)
    rows: list[dict[str, Any]] = damage_query(store, entry, TEXTS).to_pylist()
    return [{"text": f"{one_line(row['checkpoint'])} · text {row['sequence']}", **row} for row in rows]


def flagged_positions(store: Store, entries: Sequence[Entry]) -> list[int]:
    return sorted(row["position"] for row in health(store, entries[0])["positions"][:200])


OPTIONS = (
    Option("text", None, "Text", lambda store, logs: [row["text"] for row in texts(store, logs[0])]),
    Option("token", None, "From token", bounds=(-1, 2**31), help="On the map; empty: where the first damage is"),
    Option("tokens", "60", "Tokens", ("30", "60", "120"), help="Side by side on the map"),
    Option("position", 0, "From position", bounds=(-1, 2**31), help="On the map"),
    Option("positions", "24", "Positions", ("12", "24", "48", "96"), help="Below each other on the map"),
    Option("flags", (), "Flags", FLAGS, is_many=True, help="Of the table of values"),
    Option("at", (), "At positions", flagged_positions, is_many=True, help="Of the table of values"),
    Option("meant", False, "Masks and padding too", help=f"In the table of values, which has at most {MOST_VALUES:,}"),
)
COLUMNS = {
    "cause": Column("likely cause", is_pinned=True),
    "why": Column("what it means"),
    "share": Column("damaged values", "%"),
    "seen": Column("values"),
    "x": Column("sign × log10(1 + |value|)"),
    "kind": Column("values are"),
    "is_damaged": Column("damaged", help="Neither a mask nor padding"),
    "line": Column("line", help="Of the file"),
    "token_idx": Column("token"),
    **{name: Column(is_hidden=True) for name in ("letter", "mark", "width")},
}
CHARTS = (
    Chart("heat", "token_idx", "position", "map", colour="mark", text="letter",
          kinds=(*MARKS.values(), MEANT), hover=("token_idx", "position", "value", "flags", "reason")),
    Chart("bars", "x", "values", "spread", colour="kind", size="width", log="y",
          hover=("kind", "from", "to", "values")),
)  # fmt: skip
TABLES = ("causes", "positions", "values")
Row = dict[str, Any]

TEXTS = f"""
WITH damaged AS (SELECT entry, count(*) AS damaged FROM logit_values WHERE {DAMAGED} GROUP BY entry)
SELECT checkpoint, sequence, count(*) AS entries, min(token_idx) AS first_token, max(token_idx) AS last_token,
       sum(flagged)::BIGINT AS flagged, coalesce(sum(damaged), 0)::BIGINT AS damaged,
       min(token_idx) FILTER (damaged > 0) AS first_damaged, min(source) AS source
FROM logit_entries LEFT JOIN damaged USING (entry) GROUP BY checkpoint, sequence
ORDER BY coalesce(sum(damaged), 0) = 0, min(entry) LIMIT {MOST_TEXTS}
"""
VALUES = f"""
SELECT e.line, v.checkpoint, e.sequence AS text, v.token_idx, v.position, v.value, v.flags,
       coalesce({DAMAGED.replace("flags", "v.flags")}, false) AS is_damaged, e.middle, e.spread
FROM logit_values AS v JOIN logit_entries AS e ON v.entry = e.entry
WHERE """
WINDOW = """e.checkpoint = $checkpoint AND sequence = $sequence AND v.token_idx BETWEEN $token AND $token + $tokens - 1
  AND position IN (SELECT DISTINCT position FROM logit_values WHERE checkpoint = $checkpoint AND position >= $position
                   ORDER BY position LIMIT $positions)
ORDER BY v.token_idx, position"""
FLAGGED = f"""len(v.flags) > 0 AND (len($flags::VARCHAR[]) = 0 OR list_has_any(v.flags, $flags::VARCHAR[]))
  AND (len($at::INTEGER[]) = 0 OR list_contains($at::INTEGER[], position)) AND ($meant OR is_damaged)
ORDER BY v.entry, position LIMIT {MOST_VALUES}"""
SPREAD = f"""
WITH scaled AS (
    SELECT CASE WHEN len(flags) = 0 THEN 'nothing wrong' WHEN {DAMAGED} THEN 'damaged' ELSE 'on purpose' END AS kind,
           value, sign(value) * log10(1 + abs(value)) AS x
    FROM logit_values WHERE checkpoint = $checkpoint AND isfinite(value)
), bins AS (SELECT greatest((max(x) - min(x)) / {BINS}, 0.01) AS width FROM scaled)
SELECT kind, (floor(x / width) + 0.5) * width AS x, width, count(*) AS values, min(value) AS "from", max(value) AS "to"
FROM scaled, bins GROUP BY ALL ORDER BY kind DESC, x
"""


def depends(store: Store, entries: Sequence[Entry], options: Options) -> tuple[str, ...]:
    """A late read shows next to other logs."""
    return tuple(entry.id for entry in store.listing(LOGIT_LOG).entries)


def cause_rows(report: Row, late: Row | None) -> list[Row]:
    """The likeliest first; a log that was read late before all of them."""
    rows = [
        {
            "cause": f"{capitalised(finding['title'])} ({CERTAINTY_LABELS[finding['certainty']]})",
            "positions": positions_in_words(finding["positions"]) if finding["positions"] else "",
            "values": finding["values"],
            "places": finding["places"],
            "is_damage": finding["cause"] not in ON_PURPOSE,
            "why": RULES[finding["cause"]][1],
            "evidence": "; ".join(finding["evidence"]),
        }
        for finding in report["findings"]
    ]
    if late is None:
        return rows
    why = (
        f"{late['nearer']:,} of {counted(late['entries'], 'entry', 'entries')} hold the values that "
        f"{late['engine']} ({late['other']}) has for the next token. Either this log was read after the next "
        "call, or that one a token too early."
    )
    return [{"cause": "Read late (likely)", "values": 0, "is_damage": True, "why": why}, *rows]


def tables(store: Store, entries: Sequence[Entry], options: Options) -> Tables:
    log = entries[0]
    report, late = health(store, log), late_read(store, log)
    text = next(row for row in texts(store, log) if row["text"] == options["text"])
    tokens, token = int(options["tokens"]), options["token"]
    if token is None or not text["first_token"] <= token <= text["last_token"]:  # the window of the first damage
        token = text["first_token"] if text["first_damaged"] is None else text["first_damaged"]
    token -= (token - text["first_token"]) % tokens
    of_text = {name: text[name] for name in ("checkpoint", "sequence")}
    of_map = {"position": options["position"], "positions": int(options["positions"])}
    window = {**of_text, **of_map, "token": token, "tokens": tokens}
    cells = value_rows(damage_query(store, log, VALUES + WINDOW, **window).to_pylist())
    filters = {"flags": list(options["flags"]), "at": list(options["at"]), "meant": options["meant"]}
    shares = [row | {"share": row["damaged"] / row["seen"]} for row in report["positions"]]
    causes = cause_rows(report, late)
    figures = {name: value for name, value in report.items() if not isinstance(value, list)}
    first = {"name": log_name(log.row), **figures, "is_late": late is not None, "notes": log.row.get("notes") or ""}
    return {
        "main": rows_table([first]),
        "causes": rows_table(causes, ["cause", "why", "values", "positions", "evidence"]),
        "map": rows_table([cell | {"position": str(cell["position"])} for cell in cells]),
        "spread": damage_query(store, log, SPREAD, checkpoint=text["checkpoint"]),
        "values": rows_table(value_rows(damage_query(store, log, VALUES + FLAGGED, **filters).to_pylist())),
        "positions": rows_table(shares),
        "flags": rows_table([flag | {"meaning": MEANING[flag["flag"]]} for flag in report["flags"]]),
        "notes": rows_table([{**text, "texts": len(texts(store, log))}]),
    }


def value_rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """With the reason for each flag. Values as text: a column of numbers would round 1e-41 to 0."""
    cells = []
    for row in rows:
        value, flags, middle, spread = (row.pop(name) for name in ("value", "flags", "middle", "spread"))
        reasons = [reason(flag, value, middle, spread) for flag in flags]
        mark = next((words for flag, words in MARKS.items() if flag in flags), "")
        mark = MEANT if mark and not row["is_damaged"] else mark
        more = {"value": f"{value:.9g}", "flags": ", ".join(flags), "reason": capitalised("; ".join(reasons))}
        cells.append({**row, **more, "letter": mark[:1], "mark": mark})
    return cells


def reason(flag: str, value: float, middle: float | None, spread: float | None) -> str:
    """``middle`` and ``spread`` are of the value's entry."""
    if flag != "outlier":
        return MEANING[flag]  # type: ignore[index]
    if middle is None:
        return f"{significant(value)} is no plausible value, and its entry has none to compare with"
    times = abs(value - middle) / spread if spread else 0
    spreads = f", {fixed(times, 0)} times their spread" if 0 < times < 1e9 else ""
    return f"{significant(value)} is far from the median of its entry's values ({significant(middle, 3)}){spreads}"


def answer(tables: Tables, options: Options) -> str:
    (log,), (text,), causes = (tables[name].to_pylist() for name in ("main", "notes", "causes"))
    subject = f"the {counted(log['entries'], 'entry', 'entries')} ({counted(log['values'], 'value')}) of {log['name']}"
    notes = ["A late read (values of the next token) would show only next to another log of the same texts."]
    if log["damaged_values"]:
        ends = dict.fromkeys(significant(log[end], 3) for end in ("least", "largest") if log[end] is not None)
        size = f", magnitude {' to '.join(ends)}" if ends else ""
        share = percent(log["damaged_values"] / log["values"])
        damaged = counted(log["damaged_values"], "value")
        lines = [f"{percent(log['damaged_share'])} of {subject} are damaged: {damaged} ({share}){size}."]
        notes = []
    elif log["is_late"]:
        lines, notes = [f"Probably read late: {subject}. No value is damaged by itself."], []
    else:
        meant = counted(log["flagged_values"], "flagged value is", "flagged values are")
        lines = [f"No sign of damage in {subject}" + (f"; {meant} masks or padding." if log["flagged_values"] else ".")]
    for cause in causes:
        where = f": {counted(cause['values'], 'value')} at {cause['positions']}" if cause["values"] else ""
        lines.append(f"{cause['cause']}{where}. {cause['why']}")
    lines.append(f"By the report's rule (a huge number) {percent(log['garbage_share'])} of the entries are garbage.")
    damage = f"{text['damaged']:,} damaged and {text['flagged'] - text['damaged']:,} other flagged values"
    first = f", the first at token {text['first_damaged']:,}" if text["first_damaged"] is not None else ""
    of = f" of {text['texts']:,}" if text["texts"] > 1 else ""
    source = f" ({one_line(text['source'])[:40]})" if text["source"] else ""
    notes.append(f"{text['text']}{source}{of}: {text['entries']:,} entries, {damage}{first}.")
    return answer_text(lines, [*notes, log["notes"]])
