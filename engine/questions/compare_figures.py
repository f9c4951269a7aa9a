"""Every figure of each run, as it is and as a ratio to the control's, with noise flagged.

Ratios are test over control; of times, *faster* is control over test, and *slower by* test over control. Marks are by
95 % bootstrap intervals over molecules, paired where the runs share them: ▲ better, ▼ worse, ◆ differs, ≈ within noise,
= no difference, ± too close to call, ? no interval. 5 % false positives are expected. What is counted once per run has
a ratio and no interval. Choose a measure to see its ratios with their intervals. Figures that a report states have no
samples, so there is no interval; machine, molecules and model may differ there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from engine.comparing.differences import (
    against,
    figure_row,
    figure_words,
    pace_words,
    ratio_words,
    size_notes,
    speed_columns,
)
from engine.comparing.measures import (
    BY_NAME,
    DRIFT_BLOCKS,
    MEASURES,
    OF_SEVERAL,
    TIME_CAUTION,
    answer_notes,
    conformers_per_answer,
    constrained_notes,
    figure,
    has_samples,
    model_words,
    pool_notes,
    run_names,
)
from engine.comparing.paired import compare_entries, read_ahead, samples_of
from engine.figures.statistics import Interval
from engine.figures.words import counted, listed, percent
from engine.inspection.lp_cost import known_cost
from engine.lp_records import guard_words, stored_lp
from engine.questions.question import SPEED_COLUMNS, Chart, Column, Of, Option, Options, Tables, answer_text, rows_table
from engine.store.entries import Entry, constrained_words, has_former_counts, is_pool, rmsd_references
from engine.store.store import Store

TITLE = "Side by side"
OF = Of("run", least=1, most=41)
OPTIONS = (
    Option("table_all", False, "All rows", help="Also figures that do not differ, totals and counts"),
    Option("table_detail", "wall time per sample", "Measure", [m.words for m in MEASURES], help="Of the chart"),
)
COLUMNS = {
    "name": Column("run"),
    "figure": Column("figure", is_pinned=True),
    "open": Column("in the Drift inspector", page="drift"),
    "value": Column("value", help="Of the whole run"),
    "low": Column("from", help="95 % interval of the value"),
    "high": Column("to"),
    "ratio": Column("ratio", "×", "Test over control, of the figure"),
    "ratio_low": Column("from", "×", "95 % bootstrap interval over molecules"),
    "ratio_high": Column("to", "×"),
    **SPEED_COLUMNS,
    "difference_pairs": Column("difference", "", "Test less control, of the means per sample"),
    "mark": Column("mark", help="What the difference is worth"),
    "answers": Column("answers", help="Pairs of answers that the mark rests on"),
}
CHARTS = (
    Chart("points", "ratio", "name", "ratios", low="ratio_low", high="ratio_high", line_at=1, text="mark", log="x"),
    Chart("points", "speed", "name", "speeds", low="speed_low", high="speed_high", line_at=1, text="mark", log="x",
          hover=("name", "pace")),
)  # fmt: skip
TABLES = ("side by side", "set-up", "runs")

SETUP = (
    "tokenizer", "backend", "sampling", "device", "threads", "dtype", "batch_size", "placeholder", "descriptors",
    "guard", "constrained", "generations", "conformers_per_answer", "examples", "judged_with", "rmsd",
)  # fmt: skip
DERIVED: Mapping[str, Callable[[Entry], Any]] = {
    "constrained": constrained_words, "conformers_per_answer": conformers_per_answer, "rmsd": rmsd_references,
}  # fmt: skip
CONTINUED = """SELECT DISTINCT run_id FROM blocks
WHERE list_contains($runs, run_id) AND continued_text IS NOT NULL"""


def tables(store: Store, entries: Sequence[Entry], options: Options) -> Tables:
    names = run_names(entries)
    rows = figure_rows(store, entries, names)
    chosen = [row for row in rows if row["figure"] == options["table_detail"] and row.get("ratio") is not None]
    speeds = [row | speed_columns(row) for row in chosen if BY_NAME[row["measure"]].is_time]
    runs = [
        {
            "run": e.id,
            "name": names[e.id],
            "model": model_words(e),
            "origin": e.row["origin"],
            "made": e.row.get("created_at"),
            "label": e.row.get("label"),
            "open": f"run={e.id}" if has_samples(e) else None,
        }
        for e in entries
    ]
    return {
        "main": rows_table(rows, ["run", "name", "measure", "value", "ratio", "mark"]),
        "ratios": rows_table([] if speeds else chosen),
        "speeds": rows_table(speeds),
        "side by side": rows_table(wide(rows if options["table_all"] else main_rows(rows, entries))),
        "set-up": rows_table(set_up(entries, names)),
        "runs": rows_table(runs),
        "notes": rows_table([{"note": note} for note in notes(store, entries, names)], ["note"]),
    }


def figure_rows(store: Store, entries: Sequence[Entry], names: Mapping[str, str]) -> list[dict[str, Any]]:
    """Every measure of every run, the control first; without measures that none of them has."""
    control, rows = entries[0], list[dict[str, Any]]()
    read_ahead(store, entries)
    of_control: dict[str, float | None] = {}
    for entry in entries:
        more = of_samples(store, entry)
        paired = compare_entries(store, control, entry) if entry is not control else None
        for measure in MEASURES:
            found = figure_row(entry, measure, more)
            compared: dict[str, Any] = {}
            if paired is None:
                of_control[measure.name] = found["value"]
            else:
                compared = against(measure, control, entry, of_control[measure.name], found["value"], paired)
            head = {"run": entry.id, "name": names[entry.id], "measure": measure.name}
            rows.append({**head, "figure": measure.words, "unit": measure.unit, **found, **compared})
    known = {row["measure"] for row in rows if row["value"] is not None}
    return [row for row in rows if row["measure"] in known]


def of_samples(store: Store, entry: Entry) -> dict[str, Interval]:
    """Figures that the sheet lacks: drift, strain per atom, and what the LP cost where steps are kept."""
    figures: dict[str, Interval] = {}
    if not has_samples(entry):
        return figures
    run = samples_of(store, entry)
    drift, drift_abs = run.columns["drift"], run.columns["drift_abs_mean"]
    blocks = run.weights[DRIFT_BLOCKS]
    if blocks.sum():
        figures["drift_mean"] = Interval(float(np.nansum(drift) / blocks.sum()))
        figures["drift_abs_mean"] = Interval(float(np.nansum(drift_abs * blocks) / blocks.sum()))
    canonical = run.columns["canonical_share"]
    if np.isfinite(canonical).any():
        figures["canonical_share"] = Interval(float(np.nanmean(canonical)))
    for name in ("strain_kcal_per_atom", "strain_moved_ang", "differ_least_ang", "differ_mean_ang"):
        if np.isfinite(run.columns[name]).any():
            figures[name] = Interval(float(np.nanmean(run.columns[name])))
    cost, _ = known_cost(store, entry)
    if cost is not None and cost.log_w_tempered is not None:
        figures["log_w"] = cost.log_w_tempered.mapped(lambda nat: round(nat, 3) + 0.0)  # what rounding leaves
        if cost.tempered.effective is not None:
            figures["effective_share"] = Interval(cost.tempered.effective.value / cost.samples)
    return figures


def main_rows(rows: Sequence[dict[str, Any]], entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """Of the measures that are shown at once, those in which a test may differ from the control; those of conformers
    too, where an answer has several."""
    has_several = any((conformers_per_answer(entry) or 1) > 1 for entry in entries)
    shown = {measure.name for measure in MEASURES if measure.is_main} | (OF_SEVERAL if has_several else set())
    of_control = {row["measure"]: row["value"] for row in rows if row["run"] == entries[0].id}
    if len(entries) > 1:
        shown &= {row["measure"] for row in rows if may_differ(row, of_control[row["measure"]])}
    return [row for row in rows if row["measure"] in shown]


def may_differ(row: Mapping[str, Any], control: float | None) -> bool:
    is_known = row.get("mark") in ("same", "noise")
    return not is_known and (bool(row.get("mark")) or bool(row["value"] != control))


# --- as a reader sees it ----------------------------------------------------------------------------------------------


def wide(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row a figure, a column a run and, of tests, one for the ratio: ``0.92× (0.90–0.95) ▲``."""
    table: dict[str, dict[str, Any]] = {}
    runs = list(dict.fromkeys(row["run"] for row in rows))
    for row in rows:
        measure = BY_NAME[row["measure"]]
        unit = f" ({measure.unit})" if measure.unit else ""
        line = table.setdefault(row["measure"], {"figure": f"{measure.words}{unit}"})
        line[row["name"]] = figure_words(row["value"], measure, row["origin"])
        if row["run"] != runs[0]:
            line[f"{row['name']} vs control"] = ratio_words(row, measure)
    return list(table.values())


def set_up(entries: Sequence[Entry], names: dict[str, str]) -> list[dict[str, Any]]:
    """In what, besides model and LP, the runs differ: a difference may come from any of these."""
    table = []
    for column in SETUP:
        values = {}
        for entry in entries:
            value = DERIVED[column](entry) if column in DERIVED else entry.row.get(column)
            if column == "examples" and entry.row["origin"] == "measured":
                value = value or 0
            if column == "guard" and value:
                value = guard_words(value, stored_lp(entry.row.get("lp"))) or "usual"
            if value not in (None, "") and (column != "placeholder" or stored_lp(entry.row.get("lp")).placeholder):
                values[names[entry.id]] = str(value)
        if len(set(values.values())) > 1:
            table.append({"set-up": column.replace("_", " "), **values})
    return table


def paired_notes(store: Store, entries: Sequence[Entry], names: Mapping[str, str]) -> list[str]:
    """Which of the answers are paired with the control's."""
    control, lines = entries[0], list[str]()
    for test in entries[1:]:
        paired = compare_entries(store, control, test)
        first, other = names[control.id], names[test.id]
        if paired.reason:
            lines.append(paired.reason)
        elif not paired.is_paired:
            lines.append(
                f"{other} and {first} share no molecule: each is resampled by itself, which detects less, and "
                "different molecules may explain any difference."
            )
        elif paired.control_alone or paired.test_alone:
            lines.append(
                f"{other} and {first} share {counted(paired.shared_molecules, 'molecule')} "
                f"({counted(paired.shared, 'pair')}); "
                f"{counted(paired.control_alone, 'answer')} of {first} and {paired.test_alone:,} of {other} "
                "are not paired. Figures cover whole runs; marks, and ratios of pace, what both have."
            )
    return lines


def notes(store: Store, entries: Sequence[Entry], names: dict[str, str]) -> list[str]:
    lines = [*constrained_notes(entries, names), *paired_notes(store, entries, names)]
    lines += [*pool_notes(entries, names), *answer_notes(entries, names)]
    rated = [entry for entry in entries if (entry.row.get("molecules") or 0) and not is_pool(entry)]
    several = [names[entry.id] for entry in rated if entry.row["samples"] > entry.row["molecules"]]
    if several:
        lines.append(f"{listed(several)}: several answers per molecule, so the pass rate's own interval is too narrow.")
    timed = [entry for entry in entries if has_samples(entry) and figure(entry, "wall_s_a_sample") is not None]
    if timed[1:]:
        lines.append(TIME_CAUTION)
    lines += cut_notes(store, entries, names)
    if timed[1:]:
        lines += size_notes(timed)
    return list(dict.fromkeys(lines))


def cut_notes(store: Store, entries: Sequence[Entry], names: dict[str, str]) -> list[str]:
    """By what cut blocks are counted, where runs differ in it: by former rules, or by the model's mass until a run has
    continuations, which find fewer."""
    lines = []
    if former := [names[entry.id] for entry in entries if has_former_counts(entry)]:
        lines.append(f"{listed(former)}: cut blocks are counted by former rules; `verify --recount` counts them again.")
    with_cuts = [entry.id for entry in entries if entry.row.get("cut_blocks") and not has_former_counts(entry)]
    continued = {row["run_id"] for row in store.rows(CONTINUED, {"runs": with_cuts})} if with_cuts[1:] else set()
    by_text, by_mass = list[str](), list[str]()
    for run_id in with_cuts:
        (by_text if run_id in continued else by_mass).append(run_id)
    if by_text and by_mass:
        mass, text = (listed([names[run_id] for run_id in runs]) for runs in (by_mass, by_text))
        words = f"Cut blocks of {mass} are counted by the model's mass alone, those of {text} by"
        lines.append(f"{words} what it would have written, which are fewer: `explain {by_mass[0]}`.")
    return lines


def answer(tables: Tables, options: Options) -> str:
    """Tests in which the same figures clearly differ from the control's, each with its pace; then notes."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in tables["main"].to_pylist():
        rows.setdefault(row["run"], []).append(row)
    names = {row["run"]: row["name"] for row in tables["runs"].to_pylist()}
    control, *tests = names
    alike: dict[str, list[str]] = {}
    for run in tests:
        pace = next((row for row in rows.get(run, ()) if row["measure"] == "wall_s_a_sample"), {})
        named = f"{names[run]} ({pace_words(pace.get('ratio'), pace.get('mark'))})"
        alike.setdefault(difference_words(rows.get(run, ())), []).append(named)
    lines = [f"{listed(those)}: {words or 'nothing else clearly differs'}." for words, those in alike.items()]
    if not tests:
        lines = [f"{names[control]}: {rates_words(rows.get(control, ()))}. Choose a test to see how it differs."]
    return answer_text(lines, tables["notes"]["note"].to_pylist())


def rates_words(rows: Sequence[Mapping[str, Any]]) -> str:
    """``100 % passed, 45.3 % usable``: the rates of a run; of a pool of conformers those that it has."""
    values = {row["measure"]: row["value"] for row in rows}
    rates = {"pass_rate": "passed", "decodes_rate": "decode", "clean_rate": "clean", "usable_rate": "usable"}
    if values.get("usable_rate") is None:
        rates.update(stereo_right_rate="stereo right", geometry_right_rate="geometry right")
    known = [f"{percent(values[name])} {words}" for name, words in rates.items() if values.get(name) is not None]
    return ", ".join(known) or "no rate is known"


def difference_words(rows: Sequence[Mapping[str, Any]]) -> str:
    """``better in clean and usable; worse in strain``: what is beyond noise, of figures that are no time."""
    figures: dict[str, list[str]] = {}
    for row in rows:
        measure = BY_NAME[row["measure"]]
        if measure.is_main and not measure.is_time:
            figures.setdefault(row.get("mark") or "", []).append(measure.words)
    return "; ".join(f"{mark} in {listed(figures[mark])}" for mark in ("better", "worse") if mark in figures)
