"""Whether the LP overruled the model: how likely what it forced was, and how much of the model's mass it took away.

From the kept steps: probabilities before any sampling filter, given the text so far. At a forced token only one was
legal; at a free token the LP may still have blocked others. How the text would have gone on without the LP is not
known, and of a guard only the tokens that were kept count. Surprise is -ln p, and the mean p is geometric. Intervals
are 95 % bootstrap intervals over samples. Click a point to open that sample.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from engine.figures.statistics import LEAST_SAMPLES, Array, Bootstrap, Correlation, Interval, quotient, rank_correlation
from engine.figures.words import counted, number, percent, points, with_interval
from engine.inspection.runs import facts_of
from engine.questions.question import Chart, Column, NeedsWork, Of, Options, Tables, answer_text, rows_table
from engine.store.entries import Entry, rmsd_references
from engine.store.store import Store

TITLE = "Does the LP overrule the model?"
OF = Of("run")
NEEDS_TEXTS = True
OPTIONS = ()
LEAST_P = 1e-30  # of a probability that rounds to 0
MOST_SAMPLES = 5_000  # the first with kept steps
MOSTLY, NOTHING = 0.99, 0.0005  # own choices from which on forcing hardly matters; mass within rounding
COLUMNS = {
    "where": Column("where", help="Of forced tokens the place, of free ones the LP's rule"),
    "own_choice": Column("model's own choice", "%", "Share of forced tokens that were its likeliest"),
    "p_forced": Column("mean p", "", "Of forced tokens, before the LP"),
    "removed": Column("mass removed", "%", "Mean over free tokens"),
    "along": Column("along the answer", "%"),
    "surprise": Column("surprise of forced tokens", "nat"),
    "rmsd_ang": Column("RMSD", "Å", "To the nearest of the run's references"),
    "sample": Column("sample", page="drift"),
    "taken": Column(is_hidden=True),
    **{f"{name}_{end}": Column(is_hidden=True) for name in ("own_choice", "p_forced", "removed", "surprise")
       for end in ("low", "high")},
}  # fmt: skip
CHARTS = (
    Chart("points", "along", "surprise", "along", colour="", low="surprise_low", high="surprise_high", interval="y",
          hover=("along", "surprise", "forced")),
    Chart("points", "along", "removed", "along", colour="", low="removed_low", high="removed_high", interval="y",
          hover=("along", "removed", "free")),
    Chart("points", "surprise", "rmsd_ang", "with rmsd", colour="", hover=("sample_id", "surprise", "rmsd_ang"),
          picks="page:drift:sample"),
    Chart("points", "removed", "rmsd_ang", "with rmsd", colour="", hover=("sample_id", "removed", "rmsd_ang"),
          picks="page:drift:sample"),
)  # fmt: skip
TABLES = ("main",)
SQL = f"""
WITH chosen AS (SELECT sample_id FROM steps WHERE run_id = $run GROUP BY sample_id
                -- those of the worst samples alone have no ln_q where others do: they stand for no run
                QUALIFY bool_or(ln_q IS NOT NULL) = max(bool_or(ln_q IS NOT NULL)) OVER ()
                ORDER BY sample_id LIMIT {MOST_SAMPLES}),
     lengths AS (SELECT sample_id, max(pos) + 1 AS length FROM steps WHERE run_id = $run GROUP BY ALL)
SELECT sample_id, coalesce(forced, FALSE) AS forced, least(10 * pos // length, 9)::INT AS tenth,
       CASE WHEN NOT coalesce(forced, FALSE) THEN coalesce(rule, '')
            WHEN regexp_full_match(piece, '<(\\|[^<>|]*\\||/?s|bos|eos|pad|unk)>') THEN 'the end'
            WHEN contains(piece, '>') THEN 'closing a block'
            WHEN contains(piece, '<') THEN 'opening a block'
            WHEN role = 'FREE' THEN 'inside the numbers'
            WHEN regexp_matches(piece, '[A-Za-z]') AND NOT contains(piece, 'CONFORMER') THEN 'inside a descriptor'
            ELSE 'between the blocks' END AS place,
       count(*)::DOUBLE AS tokens, count_if(rank_raw = 1)::DOUBLE AS first,
       coalesce(sum(-ln(greatest(p_raw, {LEAST_P}))), 0) AS surprise,
       coalesce(sum(greatest(round(1 - allowed_mass, 6), 0)), 0) AS removed
FROM steps JOIN chosen USING (sample_id) JOIN lengths USING (sample_id)
WHERE run_id = $run AND CASE WHEN forced THEN p_raw ELSE allowed_mass END IS NOT NULL
GROUP BY ALL ORDER BY ALL
"""


def tables(store: Store, entries: Sequence[Entry], options: Options) -> Tables:
    run_id = facts_of(entries[0]).run_id
    steps = store.table(SQL, {"run": run_id})
    if not steps.num_rows:
        raise NeedsWork("this run stored no token probabilities; its model can score them", ["cost-of-lp", run_id])
    of = {name: steps[name].to_numpy() for name in steps.column_names}
    ids, sample = np.unique(of["sample_id"], return_inverse=True)
    draws, forced = Bootstrap(len(ids)), of["forced"].astype(bool)

    def sums(chosen: Any, *names: str) -> list[Array]:
        """By sample."""
        return [np.bincount(sample[chosen], of[name][chosen], len(ids)).astype(np.float64) for name in names]

    def figures(chosen: Any) -> dict[str, Any]:
        """Of forced tokens and of free ones; what there is none of is not known."""
        tokens, first, surprise = sums(chosen & forced, "tokens", "first", "surprise")
        free, removed = sums(chosen & ~forced, "tokens", "removed")
        own, nat = draws.share(first, tokens), draws.ratio(surprise, tokens)
        p_forced = None if nat is None else nat.mapped(lambda value: math.exp(-value))
        named = {"own_choice": own, "p_forced": p_forced, "surprise": nat, "removed": draws.ratio(removed, free)}
        row: dict[str, Any] = {"forced": int(tokens.sum()), "free": int(free.sum())}
        for name, figure in named.items():
            row |= interval_row(name, figure)
        return row | {"overruled": int(tokens.sum() - first.sum()), "taken": float(removed.sum())}

    every = figures(np.ones(len(sample), bool))
    by_where = [
        {"kind": kind, "where": str(name) or "no rule", **figures((of["place"] == name) & is_kind)}
        for kind, is_kind in (("forced", forced), ("free", ~forced))
        for name in np.unique(of["place"][is_kind])
    ]
    by_where.sort(key=lambda row: (row["kind"], -row["overruled"], -row["taken"], row["where"]))
    late = of["tenth"] >= 5
    trends = {}
    for name, is_kind in (("surprise", forced), ("removed", ~forced)):
        halves = [sums(is_kind & half, name, "tokens") for half in (~late, late)]
        parts, wholes = (np.stack([half[side] for half in halves], axis=1) for side in (0, 1))
        trends[name] = draws.difference(parts, wholes)
    sql = "SELECT sample_id, rmsd_ang, heavy_atoms FROM samples WHERE run_id = $run"
    by_id = {row["sample_id"]: row for row in store.rows(sql, {"run": run_id})}
    tokens, surprise = sums(forced, "tokens", "surprise")
    free, removed = sums(~forced, "tokens", "removed")
    samples = [
        {
            "sample_id": id_,
            "surprise": quotient(surprise[n], tokens[n]),
            "removed": quotient(removed[n], free[n]),
            **{name: by_id.get(id_, {}).get(name) for name in ("rmsd_ang", "heavy_atoms")},
            "sample": f"view=Molecules&run={run_id}&sample={id_}",
        }
        for n, id_ in enumerate(ids.tolist())
    ]
    with_rmsd = [row for row in samples if row["rmsd_ang"] is not None]
    overall = {"samples": len(ids), "rmsd_samples": len(with_rmsd), "rmsd_to": rmsd_references(entries[0]), **every}
    for name, trend in trends.items():
        overall |= interval_row(f"{name}_trend", trend)
    for name in ("surprise", "removed"):
        correlation = against_rmsd([row for row in with_rmsd if row[name] is not None], name)
        overall |= interval_row(f"rmsd_{name}", None if correlation is None else correlation.plain)
        overall |= interval_row(f"rmsd_{name}_adjusted", None if correlation is None else correlation.adjusted)
    along = [{"along": tenth / 10 + 0.05, **figures(of["tenth"] == tenth)} for tenth in range(10)]
    drawn = with_rmsd if len(with_rmsd) > 2 else []
    return {
        "main": rows_table(by_where, ["kind", "where"]),
        "along": rows_table(along),
        "overall": rows_table([overall]),
        "samples": rows_table(samples),
        "with rmsd": rows_table(drawn),
    }


def against_rmsd(rows: Sequence[dict[str, Any]], name: str) -> Correlation | None:
    """Between samples; adjusted for heavy atoms where all are known."""
    sizes = [row["heavy_atoms"] for row in rows]
    x, y = (np.array([row[column] for row in rows], dtype=float) for column in (name, "rmsd_ang"))
    return rank_correlation(x, y, None if None in sizes else np.array(sizes, dtype=float))


def interval_row(name: str, interval: Interval | None) -> dict[str, float | None]:
    ends = (None,) * 3 if interval is None else (interval.value, interval.low, interval.high)
    return dict(zip((name, f"{name}_low", f"{name}_high"), ends, strict=True))


def answer(tables: Tables, options: Options) -> str:
    (row,) = tables["overall"].to_pylist()
    by_where = tables["main"].to_pylist()

    def of(name: str, source: dict[str, Any] = row) -> Interval | None:
        value = source[name]
        return None if value is None else Interval(value, source[f"{name}_low"], source[f"{name}_high"])

    own, removed, notes = of("own_choice"), of("removed"), []
    lead = "The LP wrote no token itself."
    if own is not None:
        share = percent(row["forced"] / (row["forced"] + row["free"]))
        lead = (
            f"The LP wrote {share} of the tokens itself. {with_interval(own, percent)} of these were the model's own "
        )
        lead += "model's own first choice"
        low = own.value if own.low is None else own.low
        if low >= MOSTLY:
            lead += ", so forcing hardly changed what it writes"
        worst = max((row for row in by_where if row["kind"] == "forced"), key=lambda row: row["overruled"])
        if worst["overruled"] and low < MOSTLY:
            lead += f"; the others changed what it writes, mostly at “{worst['where']}”"
            lead += f" ({worst['overruled']:,} of {row['overruled']:,} tokens)"
        lead += "."
        notes.append(
            f"Mean probability (geometric) of {counted(row['forced'], 'forced token')}: "
            f"{with_interval(of('p_forced'))}."
        )
    if removed is not None:
        is_none = (removed.value if removed.high is None else removed.high) < NOTHING
        words = "nothing" if not removed.value else f"almost nothing ({percent(removed.value)})"
        lead += f" At {counted(row['free'], 'free token')} it ruled out "
        lead += f"{words if is_none else with_interval(removed, percent)} of the model's mass."
    trend = of("removed_trend")
    if trend is not None and trend.ends and max(map(abs, trend.ends)) >= NOTHING:
        notes.append(f"Mass removed, second half of the answers less first: {with_interval(trend, points)}.")
    trend = of("surprise_trend")
    if trend is not None and trend.excludes_zero and own is not None and own.value < MOSTLY:
        notes.append(f"Forcing changes {'more' if trend.value > 0 else 'less'} in the second half of the answers.")
    for name, words in (("surprise", "how unlikely forced tokens were"), ("removed", "the mass removed")):
        plain, adjusted = of(f"rmsd_{name}"), of(f"rmsd_{name}_adjusted")
        if plain is None or (name == "removed" and (removed is None or removed.value < NOTHING)):
            continue
        verdict = "not shown that the LP costs accuracy"
        if plain.excludes_zero:
            verdict = "a correlation, not a cause"
            if adjusted is not None and not adjusted.excludes_zero:
                verdict = "with size held constant the interval includes 0"
        notes.append(f"Rank correlation of RMSD with {words}: {with_interval(plain, number)}, {verdict}.")
    if row["rmsd_samples"] < LEAST_SAMPLES and own is not None:
        notes.append(
            f"RMSD is known of {row['rmsd_samples']} of {counted(row['samples'], 'sample')} with steps, which "
            "does not show whether the LP costs accuracy."
        )
    notes.append(f"In brackets: 95 % intervals over {counted(row['samples'], 'sample')}.")
    return answer_text([lead], notes)
