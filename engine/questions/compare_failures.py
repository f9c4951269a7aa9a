"""Samples by the reason why they failed, and their share of the run's samples.

A sample fails here by the reports' rule for its text, or, where molecules were judged, by any check of its molecule;
conformers without texts fail by checks alone, an answer of several conformers if any of them does. A sample with two
reasons counts in both, so the reasons may add up to more than the failed samples. Junk that passes the rule is no
failure by itself; judged, it leaves no conformer. Codes without a decoder are not judged, which is no failure. It
cannot say why a model went wrong, only what was found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from engine.chem.verdict import CODES, check_words
from engine.comparing.measures import has_samples, run_names
from engine.figures.statistics import wilson
from engine.figures.words import listed, percent, span
from engine.questions.question import Chart, Column, Of, Options, Tables, rows_table
from engine.store.entries import Entry
from engine.store.store import Store

TITLE = "Where do failures go?"
OF = Of("run", least=1, most=41)
MOLECULE = "molecule: "  # begins a reason that a verdict on the molecule names
FAILED, UNNAMED, OTHERS, MOST_REASONS = "rule or check failed", "no reason named", "other reasons", 10
COLUMNS = {
    "name": Column("run"),
    "reason": Column("reason"),
    "samples": Column("samples", help="That failed for this reason"),
    "of": Column("of samples"),
    "share": Column("share", "%"),
}
CHARTS = (Chart("heat", "name", "reason", "shown", size="share", text="samples"),)
TABLES = ()
# A set of names, so that a sample counts once in a reason that is named twice.
SQL = f"""
WITH named AS (
    SELECT run_id, list_distinct(list_concat(coalesce(issues, []), list_transform(
               list_filter(coalesce(failed, []), lambda found: found['check'] <> '{CODES}'),
               lambda found: '{MOLECULE}' || found['check']))) AS reasons,
           coalesce(NOT passed, false) OR len(reasons) > 0 AS has_failed
    FROM samples WHERE list_contains($runs, run_id)
), counted AS (
    SELECT run_id, '{FAILED}' AS reason, count_if(has_failed)::BIGINT AS samples FROM named GROUP BY ALL
    UNION ALL
    SELECT run_id, reason, count(*) FROM (SELECT run_id, unnest(reasons) AS reason FROM named) GROUP BY ALL
    UNION ALL
    SELECT run_id, '{UNNAMED}', count(*) FROM named WHERE has_failed AND len(reasons) = 0 GROUP BY ALL
)
SELECT counted.*, totals."of", sum(samples) OVER (PARTITION BY reason) AS total
FROM counted JOIN (SELECT run_id, count(*) AS "of" FROM named GROUP BY ALL) AS totals USING (run_id)
ORDER BY reason = '{FAILED}' DESC, reason = '{UNNAMED}', total DESC, reason, list_position($runs, run_id)
"""


def tables(store: Store, entries: Sequence[Entry], options: Options) -> Tables:
    names, ids = run_names(entries), [entry.id for entry in entries if has_samples(entry)]
    rows = []
    for row in store.table(SQL, {"runs": ids}, of=ids).to_pylist() if ids else ():
        reason = row["reason"]
        if reason.startswith(MOLECULE):
            reason = MOLECULE + check_words(reason.removeprefix(MOLECULE))
        rows.append(_row(row["run_id"], names, reason, row["samples"], row["of"]))
    columns = ["run", "name", "reason", "samples", "of", "share"]
    damaged = [{"name": names[run_id]} for run_id in ids if run_id not in {row["run"] for row in rows}]
    return {
        "main": rows_table(rows, columns),
        "shown": rows_table(cells_of(rows, ids, names), columns),
        "damaged": rows_table(damaged, ["name"]),
    }


def cells_of(rows: Sequence[dict[str, Any]], ids: Sequence[str], names: Mapping[str, str]) -> list[dict[str, Any]]:
    """Of the chart: the commonest reasons, all others as one; none where no reason is named."""
    shown = list(dict.fromkeys(row["reason"] for row in rows if row["reason"] not in (FAILED, UNNAMED)))[:MOST_REASONS]
    if not shown:
        return []
    reasons = (FAILED, *shown, OTHERS, UNNAMED)
    of = {row["run"]: row["of"] for row in rows}
    counts: Counter[tuple[str, str]] = Counter()
    for row in rows:
        counts[row["reason"] if row["reason"] in reasons else OTHERS, row["run"]] += row["samples"]
    cells = [(reason, run_id) for reason in reasons for run_id in ids if (reason, run_id) in counts]
    return [_row(run_id, names, reason, counts[reason, run_id], of[run_id]) for reason, run_id in cells]


def _row(run_id: str, names: Mapping[str, str], reason: str, samples: int, of: int) -> dict[str, Any]:
    share = samples / of
    return {"run": run_id, "name": names[run_id], "reason": reason, "samples": samples, "of": of, "share": share}


def answer(tables: Tables, options: Options) -> str:
    rows = tables["main"].to_pylist()
    failed = [row for row in rows if row["reason"] == FAILED]
    if damaged := tables["damaged"]["name"].to_pylist():
        return f"The samples of {listed(damaged)} are damaged (python -m engine verify). Clear them from the selection."
    if not failed:
        return "None of these runs has samples: reports state how many failed, not why."
    samples, count = sum(row["of"] for row in failed), sum(row["samples"] for row in failed)
    if not count:
        most = percent(wilson(0, samples)[1])
        return f"None of {samples:,} samples failed the rule or a check. At 95 % confidence, at most {most} do."
    worst = max(failed, key=lambda row: row["share"])
    same = listed([row["name"] for row in failed if row["share"] == worst["share"]])
    why = max(
        (r for r in rows if r["run"] == worst["run"] and r["reason"] not in (FAILED, UNNAMED)),
        key=lambda row: row["samples"],
        default=None,
    )
    sentence = f"{same} failed most: {worst['samples']:,} of {worst['of']:,} samples ({percent(worst['share'])}, "
    sentence += f"{span(*wilson(worst['samples'], worst['of']), percent)})"
    sentence += f", {why['samples']:,} with “{why['reason']}”." if why else ", without a reason."
    return f"{sentence} Together {count:,} of {samples:,} samples failed."
