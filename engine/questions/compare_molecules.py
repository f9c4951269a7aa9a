"""A point is a molecule that both runs answered; answers with the same two figures share one point.

On the line both runs are equal. Click a point for its pairs, with links to both samples in the Drift inspector; the
table has all pairs, the largest difference first. Each answer is one random draw: a point far off the line does not
mean that its molecule is difficult.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from engine.comparing.differences import CLEAR, MARKS, mark_of
from engine.comparing.measures import BY_NAME, SAMPLED, answer_notes, has_samples, pool_notes, run_names
from engine.comparing.paired import Rows, RunSamples, compare_entries, pairs_of, samples_of
from engine.figures.words import capitalised, listed, number, percent, points, signed, with_interval
from engine.questions.question import Chart, Column, Of, Option, Options, Tables, answer_text, rows_table
from engine.store.entries import Entry
from engine.store.store import Store

TITLE = "Which molecules differ?"
OF = Of("run", least=1, most=41)
PER_SAMPLE = {
    "tokens_a_sample": "tokens",
    "forced_share": "forced share",
    "strain_moved_ang": "move when relaxed",
    "junk_letters_share": "blocks with a letter",
    "junk_nonnumeric_share": "blocks with a non-number",
    "cut_share": "cut blocks",
    "bad_blocks": "bad blocks",
}
"""What a measure is called of one sample, and in links."""
MEASURES = {PER_SAMPLE.get(m.name, m.words): m for m in (BY_NAME["tokens_a_sample"], *SAMPLED)}


def tests(store: Store, entries: Sequence[Entry]) -> dict[str, str]:
    names = run_names(entries)
    return {entry.id: names[entry.id] for entry in entries[1:] if has_samples(entry)}


OPTIONS = (
    Option("points_of", None, "Test", tests),
    Option("points_by", None, "Measure", list(MEASURES)),
    Option("pair", None, "Pair", is_picked=True),
)
COLUMNS = {
    "smiles": Column("molecule"),
    "control": Column("control"),
    "test": Column("test"),
    "count": Column("pairs"),
    "pair": Column(is_hidden=True),
    "control_sample": Column("sample of the control", page="drift"),
    "test_sample": Column("sample of the test", page="drift"),
}
CHARTS = (
    Chart("points", "control", "test", "points", colour="", size="size", has_diagonal=True,
          hover=("smiles", "count", "control", "test"), picks="option:pair:pair"),
)  # fmt: skip


def tables(store: Store, entries: Sequence[Entry], options: Options) -> Tables:
    control = entries[0]
    test = next((entry for entry in entries[1:] if entry.id == options["points_of"]), None)
    if test is None or not has_samples(control):
        return {"main": rows_table([], ["smiles", "control", "test"]), "overall": rows_table([])}
    measure, names = MEASURES[options["points_by"]], run_names(entries)
    name = measure.name
    first, second = samples_of(store, control), samples_of(store, test)
    first_rows, second_rows, *_ = pairs_of(first, second)
    left, right = first.columns[name][first_rows], second.columns[name][second_rows]
    known = np.isfinite(left) & np.isfinite(right)
    order = np.argsort(-np.abs(right[known] - left[known]), kind="stable")
    mine, theirs = first_rows[known][order], second_rows[known][order]
    rows: list[dict[str, Any]] = []
    for smiles, a, b, x, y in zip(
        first.smiles.take(mine).to_pylist(),
        first.sample_id[mine].tolist(),
        second.sample_id[theirs].tolist(),
        left[known][order].tolist(),
        right[known][order].tolist(),
        strict=True,
    ):
        samples = {"control_sample": f"run={control.id}&sample={a}", "test_sample": f"run={test.id}&sample={b}"}
        rows.append({"smiles": smiles, "control": x, "test": y, "pair": f"{a}-{b}", **samples})

    picked = next((row for row in rows if row["pair"] == options["pair"]), None)
    point = None if picked is None else (picked["control"], picked["test"])
    shown = [row for row in rows if point in (None, (row["control"], row["test"]))]
    paired = compare_entries(store, control, test)
    compared = paired.measure(name)
    as_words = points if measure.unit == "%" else signed
    ratio = None if compared.ratio is None else compared.ratio.value
    overall = {
        "known": known_of(first, first_rows, second, second_rows),
        "control": names[control.id],
        "test": names[test.id],
        "measure": options["points_by"],
        "unit": measure.unit,
        "pairs": len(rows),
        "shared": paired.shared,
        "above": int((right[known] > left[known]).sum()),
        "below": int((right[known] < left[known]).sum()),
        "alone": paired.control_alone + paired.test_alone,
        "control_mean": compared.control,
        "test_mean": compared.test,
        "reason": compared.reason,
        "mark": mark_of(measure, ratio, compared),
        "about": [*pool_notes([control, test], names), *answer_notes([control, test], names)],
        **({} if compared.difference is None else {"difference": with_interval(compared.difference, as_words)}),
    }
    return {
        "main": rows_table(shown, ["smiles", "control", "test"]),
        "points": rows_table(spots_of(rows)),
        "overall": rows_table([overall]),
    }


def spots_of(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The points of the chart: pairs with the same two figures are one, which the first of them stands for."""
    counts = Counter((row["control"], row["test"]) for row in rows)
    first_at = {(row["control"], row["test"]): row for row in reversed(rows)}
    return [{**first_at[at], "count": count, "size": min(8 + 3 * math.log2(count), 26)} for at, count in counts.items()]


def known_of(first: RunSamples, first_rows: Rows, second: RunSamples, second_rows: Rows) -> list[str]:
    """Measures that both samples of some pair have, by what a reader chooses them by."""
    both = {words: (first.columns[of.name], second.columns[of.name]) for words, of in MEASURES.items()}
    return [words for words, (x, y) in both.items() if np.isfinite(x[first_rows] + y[second_rows]).any()]


def answer(tables: Tables, options: Options) -> str:
    rows = tables["overall"].to_pylist()
    if not rows:
        return "Choose a control and a test with samples: their answers are compared molecule by molecule."
    row = rows[0]
    if not row["shared"]:
        return f"{row['control']} and {row['test']} share no molecule, so no point can be drawn."
    if not row["pairs"]:
        known = f" Known on both sides: {listed(row['known'])}." if row["known"] else ""
        words = f"{row['measure']} is never known on both sides of {row['shared']:,} pairs of answers.{known}"
        return answer_text([capitalised(words)], row["about"])
    form = percent if row["unit"] == "%" else number
    words = f"Over all pairs, {row['measure']}: {row['test']} {form(row['test_mean'])}, {row['control']} "
    words += f"{form(row['control_mean'])}; difference {row.get('difference') or 'not known'}, "
    words += "beyond noise. " if row["mark"] in CLEAR else f"{MARKS[row['mark']]}. "
    same = row["pairs"] - row["above"] - row["below"]
    words += f"Of {row['pairs']:,} pairs, {row['above']:,} are higher in {row['test']}, {row['below']:,} higher in "
    words += f"{row['control']}, {same:,} are equal."
    unknown = row["shared"] - row["pairs"]
    notes = [f"Not drawn, unknown on one side: {unknown:,} pairs."] if unknown else []
    notes += [f"Without a partner: {row['alone']:,} answers."] if row["alone"] else []
    notes += row["about"]
    return answer_text([words], notes)
