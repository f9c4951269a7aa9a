"""Whether the LP overruled the model: how likely what it forced was, and how much of the model's mass it took away.

From the kept steps: probabilities before any sampling filter, given the text so far. At a forced token only one was
legal; at a free token the LP may still have blocked others. How the text would have gone on without the LP is not
known, and of a guard only the tokens that were kept count. Surprise is -ln p, and the mean p is geometric. Intervals
are 95 % bootstrap intervals over samples. Click a point to open that sample.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from engine.figures.statistics import LEAST_SAMPLES, Array, Bootstrap, Interval, quotient, rank_correlation
from engine.figures.words import counted, number, percent, points, with_interval
from engine.inspection.runs import facts_of
from engine.questions.question import Chart, Column, NeedsWork, Of, Options, Tables, answer_text, rows_table
from engine.store.entries import Entry, rmsd_references
from engine.store.store import Store

TITLE = "Does the LP overrule the model?"
OF = Of("run")
NEEDS_TEXTS = True
LEAST_P = 1e-30  # of a probability that rounds to 0
MOST_SAMPLES = 5_000  # the first with kept steps
MOSTLY, NOTHING = 0.99, 0.0005  # own choices from which on forcing hardly matters; mass within rounding
SHARES = ("own_choice", "p_forced", "removed", "surprise")
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
    **dict.fromkeys((f"{name}_low" for name in SHARES), Column(is_hidden=True)),
    **dict.fromkeys((f"{name}_high" for name in SHARES), Column(is_hidden=True)),
}
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


class Steps:
    """The kept steps of a run, summed by sample."""

    def __init__(self, steps: pa.Table) -> None:
        self.of = {name: steps[name].to_numpy() for name in steps.column_names}
        self.ids, self.sample = np.unique(self.of["sample_id"], return_inverse=True)
        self.forced = self.of["forced"].astype(bool)
        self.draws = Bootstrap(len(self.ids))

    def sums(self, chosen: Any, *names: str) -> list[Array]:
        """By sample."""
        count = len(self.ids)
        return [np.bincount(self.sample[chosen], self.of[name][chosen], count).astype(np.float64) for name in names]

    def figures(self, chosen: Any) -> dict[str, Any]:
        """Of forced tokens and of free ones; what there is none of is not known."""
        tokens, first, surprise = self.sums(chosen & self.forced, "tokens", "first", "surprise")
        free, removed = self.sums(chosen & ~self.forced, "tokens", "removed")
        nat = self.draws.ratio(surprise, tokens)
        return {
            "forced": int(tokens.sum()),
            "free": int(free.sum()),
            **interval_row("own_choice", self.draws.share(first, tokens)),
            **interval_row("p_forced", None if nat is None else nat.mapped(lambda value: math.exp(-value))),
            **interval_row("surprise", nat),
            **interval_row("removed", self.draws.ratio(removed, free)),
            "overruled": int(tokens.sum() - first.sum()),
            "taken": float(removed.sum()),
        }

    def by_place(self) -> list[dict[str, Any]]:
        """Forced tokens by place, free ones by the LP's rule; those first where the LP did most."""
        rows = [
            {"kind": kind, "where": str(name) or "no rule", **self.figures((self.of["place"] == name) & is_kind)}
            for kind, is_kind in (("forced", self.forced), ("free", ~self.forced))
            for name in np.unique(self.of["place"][is_kind])
        ]
        return sorted(rows, key=lambda row: (row["kind"], -row["overruled"], -row["taken"], row["where"]))

    def trend(self, name: str, is_kind: Any) -> Interval | None:
        """Of the second half of the answers less the first."""
        late = self.of["tenth"] >= 5
        halves = [self.sums(is_kind & half, name, "tokens") for half in (~late, late)]
        parts, wholes = (np.stack([half[side] for half in halves], axis=1) for side in (0, 1))
        return self.draws.difference(parts, wholes)

    def by_sample(self, run_id: str, known: Mapping[int, Mapping[str, Any]]) -> list[dict[str, Any]]:
        """``known``: rows of samples, by id."""
        tokens, surprise = self.sums(self.forced, "tokens", "surprise")
        free, removed = self.sums(~self.forced, "tokens", "removed")
        return [
            {
                "sample_id": id_,
                "surprise": quotient(surprise[n], tokens[n]),
                "removed": quotient(removed[n], free[n]),
                **{name: known.get(id_, {}).get(name) for name in ("rmsd_ang", "heavy_atoms")},
                "sample": f"view=Molecules&run={run_id}&sample={id_}",
            }
            for n, id_ in enumerate(self.ids.tolist())
        ]


def tables(store: Store, entries: Sequence[Entry], options: Options) -> Tables:
    run_id = facts_of(entries[0]).run_id
    table = store.table(SQL, {"run": run_id})
    if not table.num_rows:
        raise NeedsWork("this run stored no token probabilities; its model can score them", ["cost-of-lp", run_id])
    steps = Steps(table)
    sql = "SELECT sample_id, rmsd_ang, heavy_atoms FROM samples WHERE run_id = $run"
    samples = steps.by_sample(run_id, {row["sample_id"]: row for row in store.rows(sql, {"run": run_id})})
    with_rmsd = [row for row in samples if row["rmsd_ang"] is not None]
    overall = {
        "samples": len(samples),
        "rmsd_samples": len(with_rmsd),
        "rmsd_to": rmsd_references(entries[0]),
        **steps.figures(np.ones(table.num_rows, bool)),
        **interval_row("surprise_trend", steps.trend("surprise", steps.forced)),
        **interval_row("removed_trend", steps.trend("removed", ~steps.forced)),
        **rmsd_columns(with_rmsd, "surprise"),
        **rmsd_columns(with_rmsd, "removed"),
    }

    tenths = [{"along": tenth / 10 + 0.05, **steps.figures(steps.of["tenth"] == tenth)} for tenth in range(10)]
    return {
        "main": rows_table(steps.by_place(), ["kind", "where"]),
        "along": rows_table(tenths),
        "overall": rows_table([overall]),
        "samples": rows_table(samples),
        "with rmsd": rows_table(with_rmsd if len(with_rmsd) > 2 else []),
    }


def rmsd_columns(samples: Sequence[dict[str, Any]], name: str) -> dict[str, float | None]:
    """How a figure of samples goes with their RMSD, as it is, and adjusted for heavy atoms where all are known."""
    rows = [row for row in samples if row[name] is not None]
    sizes = [row["heavy_atoms"] for row in rows]
    x, y = (np.array([row[column] for row in rows], dtype=float) for column in (name, "rmsd_ang"))
    found = rank_correlation(x, y, None if None in sizes else np.array(sizes, dtype=float))
    return {
        **interval_row(f"rmsd_{name}", None if found is None else found.plain),
        **interval_row(f"rmsd_{name}_adjusted", None if found is None else found.adjusted),
    }


def interval_row(name: str, interval: Interval | None) -> dict[str, float | None]:
    ends = (None,) * 3 if interval is None else (interval.value, interval.low, interval.high)
    return dict(zip((name, f"{name}_low", f"{name}_high"), ends, strict=True))


def answer(tables: Tables, options: Options) -> str:
    (row,) = tables["overall"].to_pylist()
    removed = interval_of(row, "removed")
    lead = _forced_words(row, tables["main"].to_pylist()) + ("" if removed is None else _removed_words(row, removed))
    return answer_text([lead], list(_notes(row)))


def interval_of(row: Mapping[str, Any], name: str) -> Interval | None:
    """What ``interval_row`` wrote."""
    value = row[name]
    return None if value is None else Interval(value, row[f"{name}_low"], row[f"{name}_high"])


def _forced_words(row: Mapping[str, Any], by_place: Sequence[Mapping[str, Any]]) -> str:
    own = interval_of(row, "own_choice")
    if own is None:
        return "The LP wrote no token itself."
    words = f"The LP wrote {percent(row['forced'] / (row['forced'] + row['free']))} of the tokens itself. "
    words += f"{with_interval(own, percent)} of these were the model's own first choice"
    if (own.value if own.low is None else own.low) >= MOSTLY:
        return f"{words}, so forcing hardly changed what it writes."
    worst = max((place for place in by_place if place["kind"] == "forced"), key=lambda place: place["overruled"])
    if not worst["overruled"]:
        return f"{words}."
    most = f"“{worst['where']}” ({worst['overruled']:,} of {row['overruled']:,} tokens)"
    return f"{words}; the others changed what it writes, mostly at {most}."


def _removed_words(row: Mapping[str, Any], removed: Interval) -> str:
    words = with_interval(removed, percent)
    if (removed.value if removed.high is None else removed.high) < NOTHING:
        words = f"almost nothing ({percent(removed.value)})" if removed.value else "nothing"
    return f" At {counted(row['free'], 'free token')} it ruled out {words} of the model's mass."


def _notes(row: Mapping[str, Any]) -> Iterator[str]:
    own, trend = interval_of(row, "own_choice"), interval_of(row, "removed_trend")
    if own is not None:
        p_forced = with_interval(interval_of(row, "p_forced"))
        yield f"Mean probability (geometric) of {counted(row['forced'], 'forced token')}: {p_forced}."
    if trend is not None and trend.ends and max(map(abs, trend.ends)) >= NOTHING:
        yield f"Mass removed, second half of the answers less first: {with_interval(trend, points)}."
    trend = interval_of(row, "surprise_trend")
    if trend is not None and trend.excludes_zero and own is not None and own.value < MOSTLY:
        yield f"Forcing changes {'more' if trend.value > 0 else 'less'} in the second half of the answers."
    yield from _rmsd_notes(row)
    if row["rmsd_samples"] < LEAST_SAMPLES and own is not None:
        known = f"{row['rmsd_samples']} of {counted(row['samples'], 'sample')}"
        yield f"RMSD is known of {known} with steps, which does not show whether the LP costs accuracy."
    yield f"In brackets: 95 % intervals over {counted(row['samples'], 'sample')}."


def _rmsd_notes(row: Mapping[str, Any]) -> Iterator[str]:
    removed = interval_of(row, "removed")
    names = [("surprise", "how unlikely forced tokens were")]
    if removed is not None and removed.value >= NOTHING:
        names.append(("removed", "the mass removed"))
    for name, words in names:
        plain, adjusted = interval_of(row, f"rmsd_{name}"), interval_of(row, f"rmsd_{name}_adjusted")
        if plain is not None:
            verdict = "a correlation, not a cause"
            if not plain.excludes_zero:
                verdict = "not shown that the LP costs accuracy"
            elif adjusted is not None and not adjusted.excludes_zero:
                verdict = "with size held constant the interval includes 0"
            yield f"Rank correlation of RMSD with {words}: {with_interval(plain, number)}, {verdict}."
