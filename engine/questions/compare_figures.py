"""Every figure of each run, as it is and as a ratio to the control's, with noise flagged.

Ratios are test over control; of times, *faster* is control over test, and *slower by* test over control. Marks are by
95 % bootstrap intervals over molecules, paired where the runs share them: ▲ better, ▼ worse, ◆ differs, ≈ within noise,
= no difference, ± too close to call, ? no interval. 5 % false positives are expected. What is counted once per run has
a ratio and no interval. Choose a measure to see its ratios with their intervals. Figures that a report states have no
samples, so there is no interval; machine, molecules and model may differ there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from engine.comparing.measures import (
    BY_NAME,
    DRIFT_BLOCKS,
    MEASURES,
    TIME_CAUTION,
    TIME_DOUBT,
    TOTALS,
    Measure,
    figure,
    has_samples,
    model_words,
    rate,
    run_names,
)
from engine.comparing.paired import Compared, PairedRuns, compare_entries, samples_of
from engine.figures.statistics import Interval, quotient
from engine.figures.words import UNKNOWN, hundredths, listed, number, percent, span, speed, speed_span, times, whole
from engine.inspection.lp_cost import known_cost
from engine.lp_records import NO_LP, UNKNOWN_LP, guard_words, stored_lp
from engine.models.loading import sized
from engine.questions.question import Chart, Column, Of, Option, Options, Tables, answer_text, rows_table
from engine.store.entries import Entry, has_former_counts, is_profiled, rmsd_references
from engine.store.store import Store

TITLE = "Side by side"
OF = Of("run", least=1, most=41)
OPTIONS = (
    Option("table_all", False, "All figures", help="Also totals and counts"),
    Option("table_detail", "wall time per sample", "Measure", [m.words for m in MEASURES], help="Of the chart"),
)
SPEED_COLUMNS = {
    "speed": Column("times faster", "×", "The control's time over the test's: below 1 the test is slower"),
    "pace": Column("test against control", help="With its 95 % bootstrap interval over molecules"),
    **dict.fromkeys(("speed_low", "speed_high"), Column(is_hidden=True)),
}
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

SIGNS = {
    "better": "▲", "worse": "▼", "differs": "◆", "noise": "≈", "same": "=", "doubtful": "±", "unknown": "?", "": "",
}  # fmt: skip
MARKS = {"noise": "within noise", "same": "no difference", "doubtful": "too close to call", "unknown": "no interval"}
CLEAR = ("better", "worse", "differs")
SETUP = (
    "tokenizer", "backend", "sampling", "device", "threads", "dtype", "batch_size", "placeholder", "descriptors",
    "guard", "generations", "judged_with", "rmsd",
)  # fmt: skip
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
        "side by side": rows_table(wide([r for r in rows if options["table_all"] or BY_NAME[r["measure"]].is_main])),
        "set-up": rows_table(set_up(entries, names)),
        "runs": rows_table(runs),
        "notes": rows_table([{"note": note} for note in notes(store, entries, names)], ["note"]),
    }


def figure_rows(store: Store, entries: Sequence[Entry], names: Mapping[str, str]) -> list[dict[str, Any]]:
    """Every measure of every run, the control first; without measures that none of them has."""
    control, rows = entries[0], list[dict[str, Any]]()
    of_control: dict[str, float | None] = {}
    for entry in entries:
        more = of_samples(store, entry)
        paired = compare_entries(store, control, entry) if entry is not control else None
        for measure in MEASURES:
            row: dict[str, Any] = {"run": entry.id, "name": names[entry.id], "measure": measure.name}
            row |= {"figure": measure.words, "unit": measure.unit, **figure_row(entry, measure, more)}
            if paired is None:
                of_control[measure.name] = row["value"]
            else:
                row |= against(measure, control, entry, of_control[measure.name], row["value"], paired)
            rows.append(row)
    known = {row["measure"] for row in rows if row["value"] is not None}
    return [row for row in rows if row["measure"] in known]


def figure_row(entry: Entry, measure: Measure, of_samples: dict[str, Interval]) -> dict[str, Any]:
    interval = of_samples.get(measure.name) or (rate(entry, "pass_rate") if measure.name == "pass_rate" else None)
    value = figure(entry, measure.name) if interval is None else interval.value
    is_hypothetical = measure.name.startswith("drift_") and not has_template(entry)
    origin = "hypothetical" if is_hypothetical else entry.row["origin"]
    ends = (None, None) if interval is None else (interval.low, interval.high)
    return {"value": value, "low": ends[0], "high": ends[1], "origin": origin}


def of_samples(store: Store, entry: Entry) -> dict[str, Interval]:
    """Figures that the sheet lacks: drift, strain per atom, and what the LP cost where steps are kept."""
    figures: dict[str, Interval] = {}
    if not has_samples(entry):
        return figures
    run = samples_of(store, entry)
    drift, drift_abs, strain, moved = (
        run.columns[name] for name in ("drift", "drift_abs_mean", "strain_kcal_per_atom", "strain_moved_ang")
    )
    blocks = run.weights[DRIFT_BLOCKS]
    if blocks.sum():
        figures["drift_mean"] = Interval(float(np.nansum(drift) / blocks.sum()))
        figures["drift_abs_mean"] = Interval(float(np.nansum(drift_abs * blocks) / blocks.sum()))
    for name, column in (("strain_kcal_per_atom", strain), ("strain_moved_ang", moved)):
        if np.isfinite(column).any():
            figures[name] = Interval(float(np.nanmean(column)))
    cost, _ = known_cost(store, entry)
    if cost is not None and cost.log_w_tempered is not None:
        figures["log_w"] = cost.log_w_tempered.mapped(lambda nat: round(nat, 3) + 0.0)  # what rounding leaves
        if cost.tempered.effective is not None:
            figures["effective_share"] = Interval(cost.tempered.effective.value / cost.samples)
    return figures


def against(
    measure: Measure, control: Entry, test: Entry, first: float | None, second: float | None, paired: PairedRuns
) -> dict[str, Any]:
    """The test's ratio to the control, and what it is worth; where there is none, the reason."""
    if not measure.has_ratio:
        return {}
    if first is None or second is None:
        missing = [side for side, value in (("control", first), ("test", second)) if value is None]
        return {"reason": f"Not known of the {' and the '.join(missing)}."}
    if measure.name in TOTALS and control.row.get("samples") != test.row.get("samples"):
        return {"reason": "Another number of samples: only figures per sample compare."}
    if measure.is_time and (is_profiled(control) or is_profiled(test)):
        return {"mark": "unknown", "reason": "One of the runs was profiled, which slows it: not compared."}
    if measure.name == "drift_abs_mean" and not (has_template(control) and has_template(test)):
        return {"reason": "Drift of text that no template wrote is hypothetical: it is not compared."}
    ratio = quotient(second, first)
    if not measure.sample:
        return {"ratio": ratio, "mark": "unknown", "reason": "Counted once per run, so there is no interval."}
    compared = paired.measure(measure.name)
    if measure.is_time and compared.ratio is not None and paired.is_paired:
        ratio = compared.ratio.value  # over the molecules that both have
    mark = mark_of(measure, ratio, compared)
    reason = compared.reason or ("" if compared.within_noise is not None else paired.reason)
    if mark == "doubtful":
        reason = "Beyond noise over molecules, but too small a difference for one run each."
    row = {"ratio": ratio, "mark": mark, "answers": compared.answers, "molecules": compared.molecules}
    row |= {"control_mean": compared.control, "test_mean": compared.test, "reason": reason}
    for name, interval in (("ratio", compared.ratio), ("difference", compared.difference)):
        if interval is not None:
            row |= {f"{name}_pairs": interval.value, f"{name}_low": interval.low, f"{name}_high": interval.high}
    return row


def mark_of(measure: Measure, ratio: float | None, compared: Compared) -> str:
    """What a difference is worth: no more than its interval, nor than one run each can tell of time."""
    difference = compared.difference
    if difference is None or compared.within_noise is None:
        return "unknown"
    if compared.within_noise:
        return "same" if difference.low == difference.high else "noise"
    if ratio is not None and compared.ratio is not None:
        doubt, over_pairs = TIME_DOUBT if measure.is_time else 0.0, compared.ratio.value
        is_small = bool(doubt) and min(abs(over_pairs - 1), abs(ratio - 1)) <= doubt
        if is_small or (ratio - 1) * (over_pairs - 1) < 0:  # or the runs as wholes point the other way
            return "doubtful"
    if not measure.better:
        return "differs"
    return "better" if (difference.value < 0) == (measure.better == "less") else "worse"


def has_template(entry: Entry) -> bool:
    """Whether a template wrote its texts, as far as is known: only there drift costs anything."""
    lp = stored_lp(entry.row.get("lp"))
    return lp is UNKNOWN_LP or bool(lp.placeholder)


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


def figure_words(value: float | None, measure: Measure, origin: str = "") -> str:
    """Without its unit, which stands with the figure's name: ``45.3``"""
    if measure.unit == "%":
        text = UNKNOWN if value is None else hundredths(value)
    elif measure.unit or measure.whole:
        text = number(value)
    else:
        text = whole(value)
    return text + (" (hypothetical)" if origin == "hypothetical" else "")


def speed_columns(row: Mapping[str, Any]) -> dict[str, Any]:
    """Of a row with the ratio of a time, the same as speed, and in words."""
    parts = {"speed": "ratio", "speed_low": "ratio_high", "speed_high": "ratio_low"}
    low, high = row.get("ratio_low"), row.get("ratio_high")
    columns: dict[str, Any] = {name: quotient(1.0, row.get(part)) for name, part in parts.items()}
    return columns | {"pace": speed(row["ratio"], (low, high) if low and high else None)}


def ratio_words(row: Mapping[str, Any], measure: Measure) -> str:
    """``0.92× (0.90–0.95) ▲``, of times ``4.40× faster (4.34–4.46) ▲``; the ratio over pairs too, where that of whole
    runs is outside its interval."""
    ratio, sign = row.get("ratio"), SIGNS[row.get("mark") or ""]
    low, high, pairs = (row.get(f"ratio_{name}") for name in ("low", "high", "pairs"))
    words = speed if measure.is_time else times
    if ratio is None:
        return sign
    if measure.is_time and row["mark"] in ("unknown", "same"):
        return pace_words(ratio, row["mark"])  # "as fast ?" would ask
    if low is None or high is None or row["mark"] == "same":
        return f"{words(ratio)} {sign}".strip()
    text = speed(ratio, (low, high)) if measure.is_time else f"{times(ratio)} ({span(low, high)})"
    inside = 0.995 * low <= ratio <= 1.005 * high
    return f"{text}{'' if inside else f', pairs {words(pairs)}'} {sign}".strip()


def set_up(entries: Sequence[Entry], names: dict[str, str]) -> list[dict[str, Any]]:
    """In what, besides model and LP, the runs differ: a difference may come from any of these."""
    table = []
    for column in SETUP:
        values = {}
        for entry in entries:
            value = rmsd_references(entry) if column == "rmsd" else entry.row.get(column)
            if column == "guard" and value:
                value = guard_words(value, stored_lp(entry.row.get("lp"))) or "usual"
            if value not in (None, "") and (column != "placeholder" or stored_lp(entry.row.get("lp")).placeholder):
                values[names[entry.id]] = str(value)
        if len(set(values.values())) > 1:
            table.append({"set-up": column.replace("_", " "), **values})
    return table


def notes(store: Store, entries: Sequence[Entry], names: dict[str, str]) -> list[str]:
    control, lines = entries[0], []
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
                f"{other} and {first} share {paired.shared_molecules:,} molecules ({paired.shared:,} pairs); "
                f"{paired.control_alone:,} answers of {first} and {paired.test_alone:,} of {other} are not paired. "
                "Figures cover whole runs; marks, and ratios of pace, what both have."
            )
    several = [names[e.id] for e in entries if (e.row.get("molecules") or 0) and e.row["samples"] > e.row["molecules"]]
    if several:
        lines.append(f"{listed(several)}: several answers per molecule, so the pass rate's own interval is too narrow.")
    if any(has_samples(entry) for entry in entries[1:]):
        lines.append(TIME_CAUTION)
    lines += cut_notes(store, entries, names)
    if entries[1:]:
        lines += size_notes([entry for entry in entries if has_samples(entry)])
    for entry in entries:
        cost, why_not = known_cost(store, entry)
        if why_not:
            lines.append(f"What it costs is not known: {why_not}.")
        elif cost is not None and entry.row.get("lp") not in (None, "", NO_LP):
            lines.append(f"{cost.short_words(str(entry.row['lp']))}.")
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


def size_notes(entries: Sequence[Entry]) -> list[str]:
    """A ratio of speed is never stated without the size of the model."""
    models = sorted({model_words(entry) for entry in entries} - {""})
    sizes = listed([sized(model) for model in models])
    return [f"Times are of {sizes}: the gain shrinks with model size."] if models else []


def pace_words(ratio: float | None, mark: str | None) -> str:
    """``7.10× faster``, ``slower by 1.20× (within noise)``"""
    if ratio is None:
        return "time unknown"
    return speed(ratio) + ("" if mark in CLEAR else f" ({MARKS.get(mark or '', 'no interval')})")


def answer(tables: Tables, options: Options) -> str:
    """One sentence a test, of the control where it is alone; then notes."""
    rows = {(row["run"], row["measure"]): row for row in tables["main"].to_pylist()}
    names = {row["run"]: row["name"] for row in tables["runs"].to_pylist()}
    control, *tests = names
    lines = [f"{names[run]} {against_words(run, control, names[control], rows)}" for run in tests]
    if not tests:
        shares = [
            f"{percent(rows[control, f'{n}_rate']['value'])} {w}"
            for n, w in (
                *(("pass", "passed"), ("decodes", "decode"), ("clean", "clean"), ("usable", "usable")),
                *(
                    ((f"{n}_right"), f"{n} right")
                    for n in ("stereo", "geometry")
                    if (control, "usable_rate") not in rows
                ),
            )
            if (control, f"{n}_rate") in rows
        ]
        lines = [f"{names[control]}: {', '.join(shares) or 'no rate is known'}. Choose a test to see ratios."]
    return answer_text(lines, tables["notes"]["note"].to_pylist())


def against_words(run: str, control: str, name: str, rows: dict[tuple[str, str], dict[str, Any]]) -> str:
    pace = rows.get((run, "wall_s_a_sample"), {})
    ratio, low, high = (pace.get(key) for key in ("ratio", "ratio_low", "ratio_high"))
    if ratio is None:
        words = "has no time to compare"
    elif pace["mark"] in ("noise", "same", "doubtful"):
        words = f"is about as fast as {name} ({speed(ratio, per='sample')}, {MARKS[pace['mark']]})"
    else:
        interval = f"95 % CI {speed_span(ratio, (low, high))}" if low and high else "no interval"
        words = f"is {speed(ratio, per='sample', than=name)} ({interval})"
    parts = [words]
    is_usable_known = all(rows.get((of, "usable_rate"), {}).get("value") is not None for of in (run, control))
    for measure, verb in (
        ("usable_rate", "usable"),
        *(
            []
            if is_usable_known
            else [("stereo_right_rate", "stereo right"), ("geometry_right_rate", "geometry right")]
        ),
        ("junk_nonnumeric_share", "of blocks not numeric"),
        ("cut_share", "of blocks cut"),
    ):
        row, first = rows.get((run, measure)), rows.get((control, measure))
        if row and first and row["value"] is not None and first["value"] is not None:
            mark = row.get("mark") or "unknown"
            how = "" if mark in CLEAR else f", {MARKS[mark]}"
            parts.append(f"{percent(row['value'])} {verb} ({name} {percent(first['value'])}{how})")
    return "; ".join(parts) + "."
