"""Whether a training's rewards pay for right molecules: each reward held against the verdicts on what it paid.

A training such as GRPO compares the answers of one prompt, so pairs of one prompt are compared here too: how often a
bad answer is paid more than a good one, ties counted half, with a 95 % bootstrap interval over prompts. 50 % is a
reward that does not see the difference. What is named: *constant* (one value, or the same for all answers of nearly
every prompt: it teaches nothing), *saturated* (at the last step nearly all answers are within 2 % of its best), *pays
text that the reader misreads* (the group's reader takes numbers that the text does not state, and in two of five pairs
or more the answer is paid more than a usable one), and *pays more* for a wrong hand, geometry or unusable answer. A
reward that measures something else, such as length, may be right and still be named. It cannot say what training would
do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from engine.chem.verdict import CODES, NOT_JUDGED
from engine.figures.statistics import LEAST_MOLECULES, Bootstrap
from engine.figures.words import listed, number, percent, span
from engine.questions.compare_steps import IS_OPEN, judged_steps, notes_of, reward_names
from engine.questions.compare_steps import keys_of as depends
from engine.questions.question import Chart, Column, Of, Options, Tables, answer_text, rows_table
from engine.store.entries import Entry
from engine.store.store import Store

TITLE = "Does this reward pay?"
OF = Of("run", least=1, most=41)
OPTIONS = ()
NEAR_BEST, SATURATED, FLAT = 0.02, 0.9, 0.99
PAYS, PAYS_MORE, LEAST_PAIRS = 0.4, 0.55, 20
NO_VALUE = "no value in any answer"
BAD = {
    "misread": ("text that the reader misreads", "misread_ang IS NOT NULL", "usable"),
    "hand": ("a wrong hand", "NOT stereo_right", "stereo_right"),
    "geometry": ("a wrong geometry", "NOT geometry_right", "geometry_right"),
    "usable": ("an unusable answer", "NOT usable", "usable"),
}
"""By name: the bad answer in words; when an answer is bad, and when it is the good one of a pair."""
COLUMNS = {
    "training": Column("training"),
    "reward": Column("reward"),
    "finding": Column("finding", wrap_px=640),
    "mean": Column("mean"),
    "spread": Column("standard deviation"),
    "least": Column("least"),
    "best": Column("best"),
    "near_best": Column("near its best", "%", "At the last step, within 2 % of its range"),
    "flat": Column("prompts without a difference", "%", "All answers of the prompt get the same"),
    "answers": Column("answers"),
    "bad": Column("answer"),
    "chance": Column("paid more than a good one", "%", "Of pairs of one prompt; ties count half"),
    "low": Column("from", "%"),
    "high": Column("to", "%", "95 % bootstrap interval over prompts"),
    "pairs": Column("pairs"),
    "mean_bad": Column("mean, bad"),
    "mean_good": Column("mean, good"),
    "is_open": Column(is_hidden=True),
    "name": Column(is_hidden=True),
}
CHARTS = (
    Chart("points", "chance", "bad", "pairs", colour="name", low="low", high="high", line_at=0.5,
          hover=("name", "bad", "chance", "pairs", "mean_bad", "mean_good")),
)  # fmt: skip
TABLES = ("main", "pairs")
_ANSWERS = f"""
answers AS (
    SELECT run_id, smiles, clean, stereo_right, geometry_right, usable, misread_ang, {IS_OPEN} AS is_open,
           given.name AS reward, given.value AS paid
    FROM samples JOIN (SELECT run_id, sample_id, misread_ang, unnest(rewards) AS given FROM rollouts)
    USING (run_id, sample_id) WHERE given.value IS NOT NULL AND passed IS NOT NULL
)
"""
OVER_ALL = f"""
WITH {_ANSWERS}, ends AS (SELECT reward, min(paid) AS least, max(paid) AS best FROM answers GROUP BY reward),
prompts AS (
    SELECT reward, avg((low = high)::INT) AS flat FROM (
        SELECT reward, min(paid) AS low, max(paid) AS high FROM answers
        GROUP BY reward, run_id, smiles HAVING count(*) > 1
    ) GROUP BY reward
)
SELECT reward, count(*)::BIGINT AS answers, avg(paid) AS mean, stddev_pop(paid) AS spread, any_value(least) AS least,
       any_value(best) AS best, any_value(flat) AS flat, bool_and(is_open) AS is_open,
       avg((paid >= best - {NEAR_BEST} * (best - least))::INT) FILTER (run_id = $last) AS near_best
FROM answers JOIN ends USING (reward) LEFT JOIN prompts USING (reward) GROUP BY reward ORDER BY reward
"""
# Of each prompt, from the ranks of its answers (those that are equal share theirs): in how many pairs the bad one is
# paid more, which takes no join of all with all.
PAIRS = """
WITH {answers}, chosen AS (
    SELECT reward, run_id, smiles, paid, coalesce({bad}, false) AS is_bad
    FROM answers WHERE coalesce({bad}, false) OR coalesce({good}, false)
), ranked AS (
    SELECT reward, run_id, smiles, paid, is_bad, rank() OVER (PARTITION BY reward, run_id, smiles ORDER BY paid)
        + (count(*) OVER (PARTITION BY reward, run_id, smiles, paid) - 1) / 2 AS place
    FROM chosen
)
SELECT reward, count_if(is_bad)::DOUBLE AS bads, count_if(NOT is_bad)::DOUBLE AS goods,
       sum(place) FILTER (is_bad) - bads * (bads + 1) / 2 AS more,
       sum(paid) FILTER (is_bad) AS paid_bad, sum(paid) FILTER (NOT is_bad) AS paid_good
FROM ranked GROUP BY reward, run_id, smiles HAVING bads > 0 AND goods > 0 ORDER BY reward, run_id, smiles
"""

__all__ = ["CHARTS", "COLUMNS", "OF", "OPTIONS", "TABLES", "TITLE", "answer", "depends", "tables"]


def tables(store: Store, entries: Sequence[Entry], options: Options) -> Tables:
    judged, commands = judged_steps(store, entries)
    rows: list[dict[str, Any]] = []
    pairs: list[dict[str, Any]] = []
    for training, steps in judged.items():
        ids = [run.id for run in steps]
        of_rewards = [dict(row) for row in store.table(OVER_ALL, {"last": ids[-1]}, of=ids).to_pylist()] if ids else []
        compared = [row for name in BAD for row in pairs_of(store, ids, name)] if of_rewards else []
        found = [*with_findings(of_rewards, compared), *without_value(of_rewards, reward_names(store, steps))]
        rows += [{"training": training, **row} for row in found]
        name = f"{training}: " if len(judged) > 1 else ""
        pairs += [{"training": training, "name": f"{name}{pair['reward']}", **pair} for pair in compared]
    return {
        "main": rows_table(rows, ["training", "reward", "finding"]),
        "pairs": rows_table(pairs, ["training", "reward", "bad", "chance", "low", "high"]),
        **({"commands": rows_table(commands)} if commands else {}),
    }


def pairs_of(store: Store, ids: Sequence[str], name: str) -> Iterator[dict[str, Any]]:
    """By reward, how often the bad answer is paid more, over the prompts that have both."""
    words, bad, good = BAD[name]
    found = store.table(PAIRS.format(answers=_ANSWERS, bad=bad, good=good), of=list(ids))
    rewards = np.array(found["reward"].to_pylist(), dtype=object)
    for reward in sorted(set(rewards)):
        each = {key: found[key].to_numpy()[rewards == reward] for key in found.column_names if key != "reward"}
        pairs = each["bads"] * each["goods"]  # [prompts]
        chance = Bootstrap(len(pairs)).ratio(each["more"], pairs)
        is_told = len(pairs) >= LEAST_MOLECULES
        low, high = (is_told and chance and chance.ends) or (None, None)
        yield {
            "reward": reward,
            "bad": words,
            "chance": float(each["more"].sum() / pairs.sum()),
            "low": low,
            "high": high,
            "pairs": int(pairs.sum()),
            "mean_bad": float(each["paid_bad"].sum() / each["bads"].sum()),
            "mean_good": float(each["paid_good"].sum() / each["goods"].sum()),
        }


def with_findings(rewards: Sequence[dict[str, Any]], pairs: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Without pairs, that nothing is found says nothing."""
    for row in rewards:
        own = [pair for pair in pairs if pair["reward"] == row["reward"]]
        unpaired = NOT_JUDGED[CODES] if row["is_open"] else "no prompt has both a good and a bad answer"
        no_finding = "none" if own else f"nothing could be compared ({unpaired})"
        yield {**row, "finding": "; ".join(findings(row, own)) or no_finding}


def without_value(rewards: Sequence[dict[str, Any]], names: Sequence[str]) -> list[dict[str, Any]]:
    valued = {row["reward"] for row in rewards}
    return [{"reward": name, "finding": NO_VALUE} for name in names if name not in valued]


def findings(row: dict[str, Any], pairs: Sequence[dict[str, Any]]) -> Iterator[str]:
    """What is wrong with a reward, in words."""
    if row["least"] == row["best"]:
        yield f"constant: every answer gets {number(row['best'])}"
        return
    if (row["flat"] or 0) >= FLAT:
        yield f"constant within a prompt: in {percent(row['flat'])} of prompts all answers get the same"
        return
    if (row["near_best"] or 0) >= SATURATED:
        yield f"saturated: {percent(row['near_best'])} of the last step's answers get nearly its best"
    for pair in pairs:
        words = f"({percent(pair['chance'])} of {pair['pairs']:,} pairs"
        if pair["low"] is not None:
            words += f", {span(pair['low'], pair['high'], percent)}"
        if pair["low"] is not None and pair["low"] > 0.5 and pair["chance"] >= PAYS_MORE:
            yield f"pays more for {pair['bad']} {words})"
        elif pair["bad"] == BAD["misread"][0] and pair["chance"] >= PAYS and pair["pairs"] >= LEAST_PAIRS:
            yield f"pays {pair['bad']} like usable answers {words})"


def answer(tables: Tables, options: Options) -> str:
    rows = tables["main"].to_pylist()
    if not rows:
        return "These steps have no rewards."
    several = len({row["training"] for row in rows}) > 1
    lines, fine = [], []
    for row in rows:
        name = f"{row['training']}: `{row['reward']}`" if several else f"`{row['reward']}`"
        if row["finding"] == "none":
            fine.append(name)
        else:
            lines.append(f"{name}: {row['finding']}.")
    if fine:
        lines.append(f"Nothing was found in {listed(fine)}.")
    notes = notes_of(tables)
    if None in tables["pairs"]["low"].to_pylist():
        notes.append(f"With fewer than {LEAST_MOLECULES} prompts that have both kinds of answers there is no interval.")
    return answer_text(lines, notes)
