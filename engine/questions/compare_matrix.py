"""Each LP with each model: the time of a sample, how many molecules are usable, how much of the text is damaged.

A cell is a run; its ratio and its marks are to the run of the same model without an LP, by 95 % bootstrap intervals
over molecules: ▲ better, ▼ worse, ≈ within noise, = no difference, ± too close to call, ? no interval. *Usable* decides
the colour, which is grey where nothing is usable, and none where nobody judged the molecules. *Damaged* are blocks that
are neither exact nor unverified; its interval takes blocks as independent. The thin bar is the run's own clock, from
building templates to the last token.

Of several runs of one model under one LP the first counts, and a reported run is compared with reported ones alone.
Where a model has no run without an LP there is no ratio. It cannot tell what else the machine did meanwhile.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from engine.comparing.differences import SIGNS, against, size_notes
from engine.comparing.measures import (
    BY_NAME,
    conformers_per_answer,
    constrained_notes,
    engine_words,
    figure,
    has_samples,
    lp_words,
    model_words,
    rate,
    run_names,
    time_parts,
)
from engine.comparing.paired import compare_entries, read_ahead
from engine.figures.statistics import Interval, quotient, wilson
from engine.figures.words import counted, listed, percent, seconds, span, speed
from engine.lp_records import NO_LP
from engine.questions.question import Chart, Column, Of, Options, Tables, answer_text, rows_table
from engine.store.entries import Entry, is_pool, run_value
from engine.store.schema import TRACE
from engine.store.store import Store

TITLE = "LPs and models"
OF = Of("run", least=1, most=41)
COLUMNS = {
    "model": Column("model", is_pinned=True),
    "lp": Column("LP"),
    "seconds": Column("time per sample", "s"),
    "speed": Column("times faster", "×", "Than the same model without an LP"),
    "speed_low": Column("from", "×", "95 % bootstrap interval over molecules"),
    "speed_high": Column("to", "×"),
    "speed_mark": Column("worth", help="What the difference of time is worth"),
    "over_first": Column("over the first model", help="The same LP's time per sample, next to the first model's"),
    "usable": Column("usable", "%", "Of judged answers"),
    "usable_low": Column("from", "%", "95 % interval (Wilson's)"),
    "usable_high": Column("to", "%"),
    "usable_mark": Column("against none", help="What the difference is worth, to the same model without an LP"),
    "damaged": Column("damaged", "%", "Of blocks: neither exact nor unverified"),
    "worst": Column("worst molecule", page="drift"),
    "trace": Column("its trace", page="profiles", help="A profiler's, of this run"),
    **dict.fromkeys(("run", "tone", "damaged_low", "damaged_high", "step", "conformers"), Column(is_hidden=True)),
    "at": Column("step"),
}
CHARTS = (Chart("matrix", "model", "lp"), Chart("lines", "at", "value", "steps", colour="line", split="figure"))
LEAST_STEPS = 3
"""Checkpoints of one model in one engine under one LP, from which on they are lines over their steps."""
WORST = """
SELECT run_id, arg_min(sample_id, (coalesce(clean, false), coalesce(usable, true), -coalesce(bad_blocks, 0),
                                   -coalesce(len(failed), 0), sample_id)) AS worst
FROM samples WHERE list_contains($runs, run_id) GROUP BY ALL
"""


@dataclass(frozen=True, slots=True)
class Cell:
    """A run, next to the same model without an LP. Shares are from 0 to 1; None is not known."""

    run: str
    model: str
    lp: str
    seconds: float | None
    speed: float | None = None
    speed_low: float | None = None
    speed_high: float | None = None
    speed_mark: str = ""
    over_first: str = ""
    conformers: int | None = None
    usable: float | None = None
    usable_low: float | None = None
    usable_high: float | None = None
    usable_mark: str = ""
    tone: str = ""  # of its colour: better, worse, same, none (nothing usable), or nothing
    damaged: float | None = None
    damaged_low: float | None = None
    damaged_high: float | None = None
    worst: str | None = None  # in an address
    trace: str | None = None
    step: str = ""


def depends(store: Store, entries: Sequence[Entry], options: Options) -> tuple[object, ...]:
    """Traces come and go beside the runs that they are of."""
    return tuple(entry.key for entry in store.listing(TRACE).entries)


def tables(store: Store, entries: Sequence[Entry], options: Options) -> Tables:
    by_place = placed(entries)
    read_ahead(store, list(by_place.values()))
    ids = [entry.id for entry in by_place.values() if has_samples(entry)]
    worst = (
        {row["run_id"]: row["worst"] for row in store.table(WORST, {"runs": ids}, of=ids).to_pylist()} if ids else {}
    )
    traces = {entry.row.get("run_id"): entry.id for entry in store.listing(TRACE).entries}
    cells = []
    for (origin, model, lp), entry in by_place.items():
        cell = cell_of(store, entry, by_place.get((origin, model, NO_LP)))
        cells.append(
            replace(
                cell,
                model=model if origin == "measured" else f"{model} ({origin})",
                lp=lp,
                over_first=over_first(store, by_place, (origin, lp), entry),
                worst=f"run={entry.id}&sample={worst[entry.id]}" if entry.id in worst else None,
                trace=f"control={traces[entry.id]}" if entry.id in traces else None,
            )
        )
    columns = tuple(Cell.__dataclass_fields__)
    return {
        "main": rows_table([asdict(cell) for cell in cells], columns),
        "parts": rows_table(list(parts_of(by_place.values())), ["run", "part", "share"]),
        "steps": rows_table(list(over_steps(by_place, cells)), ["line", "figure", "at", "value"]),
        "notes": rows_table([{"note": note} for note in notes(entries, by_place)], ["note"]),
    }


def placed(entries: Sequence[Entry]) -> dict[tuple[str, str, str], Entry]:
    """The first run of each origin, model and LP: models in their order, and of each no LP first. A model in another
    engine is a model of its own, next to which alone its LPs are timed."""
    runs: dict[tuple[str, str, str], Entry] = {}
    for entry in entries:
        if model_words(entry) and lp_words(entry):
            model = " · ".join(filter(None, (model_words(entry), engine_words(entry))))
            runs.setdefault((entry.row["origin"], model, lp_words(entry)), entry)
    models = list(dict.fromkeys((origin, model) for origin, model, _ in runs))
    lps = list(dict.fromkeys([NO_LP, *(lp for _, _, lp in runs)]))
    return dict(sorted(runs.items(), key=lambda item: (models.index(item[0][:2]), lps.index(item[0][2]))))


def cell_of(store: Store, entry: Entry, without: Entry | None) -> Cell:
    usable, pace = rate(entry, "usable_rate"), figure(entry, "wall_s_a_sample")
    step = str(run_value(entry, "model_step") or "")
    cell = Cell(entry.id, "", "", pace, conformers=conformers_per_answer(entry), step=step)
    blocks, bad = entry.row.get("blocks"), entry.row.get("bad_blocks")
    if blocks and bad is not None:
        low, high = wilson(bad, blocks)
        cell = replace(cell, damaged=bad / blocks, damaged_low=low, damaged_high=high)
    if usable is not None:
        cell = replace(cell, usable=usable.value, usable_low=usable.low, usable_high=usable.high)
    if without is not None and without is not entry:
        cell = compared(store, cell, without, entry)
    return replace(cell, tone=tone_of(cell, usable))


def compared(store: Store, cell: Cell, without: Entry, entry: Entry) -> Cell:
    """With what its model's run without an LP says of it."""
    paired = compare_entries(store, without, entry)
    time, usable = BY_NAME["wall_s_a_sample"], BY_NAME["usable_rate"]
    pace = against(time, without, entry, figure(without, time.name), cell.seconds, paired)
    right = against(usable, without, entry, figure(without, usable.name), cell.usable, paired)
    return replace(
        cell,
        speed=quotient(1.0, pace.get("ratio")),
        speed_low=quotient(1.0, pace.get("ratio_high")),
        speed_high=quotient(1.0, pace.get("ratio_low")),
        speed_mark=SIGNS[pace.get("mark") or ""],
        usable_mark=SIGNS[right.get("mark") or ""],
    )


def tone_of(cell: Cell, usable: Interval | None) -> str:
    if usable is None:
        return ""
    if not usable.value:
        return "none"
    return {"▲": "better", "▼": "worse"}.get(cell.usable_mark, "same")


def over_first(
    store: Store, by_place: Mapping[tuple[str, str, str], Entry], place: tuple[str, str], entry: Entry
) -> str:
    """``1.40× faster than demo-qwen:final ▲`` under the same LP; nothing of that model itself, nor of reported runs,
    whose machines may differ. ``place``: origin and LP."""
    of_lp = [(key[1], other) for key, other in by_place.items() if (key[0], key[2]) == place]
    model, first = of_lp[0]
    if first is entry or not (has_samples(first) and has_samples(entry)):
        return ""
    time = BY_NAME["wall_s_a_sample"]
    seconds = figure(first, time.name), figure(entry, time.name)
    pace = against(time, first, entry, *seconds, compare_entries(store, first, entry))
    ratio = pace.get("ratio")
    return f"{speed(ratio, than=model)} {SIGNS[pace.get('mark') or '']}".strip() if ratio else ""


def parts_of(entries: Iterable[Entry]) -> Iterator[dict[str, Any]]:
    """Of each run the shares of its wall time that its clock knows."""
    for entry in entries:
        wall_s = entry.row.get("wall_s")
        for part, value in time_parts(entry.row).items():
            if wall_s and value > 0:
                yield {"run": entry.id, "part": part, "share": min(1.0, value / wall_s)}


def over_steps(by_place: Mapping[tuple[str, str, str], Entry], cells: Sequence[Cell]) -> Iterator[dict[str, Any]]:
    """A row a checkpoint and figure, of models with several; a step that is no number has no place on the axis."""
    lines: dict[str, list[tuple[float, Cell]]] = {}
    for entry, cell in zip(by_place.values(), cells, strict=True):
        if cell.step.isascii() and cell.step.isdecimal():
            origin = "" if entry.row["origin"] == "measured" else f" ({entry.row['origin']})"
            parts = (str(entry.row.get("model_alias")), engine_words(entry), cell.lp)
            line = f"{' · '.join(filter(None, parts))}{origin}"
            lines.setdefault(line, []).append((float(cell.step), cell))
    for line, points in lines.items():
        has_steps = len({at for at, _ in points}) >= LEAST_STEPS
        for at, cell in sorted(points, key=lambda point: point[0]) if has_steps else ():
            for name, value in (("usable", cell.usable), ("damaged", cell.damaged), ("s per sample", cell.seconds)):
                if value is not None and math.isfinite(value):
                    yield {"line": line, "figure": name, "at": at, "value": value}


def notes(entries: Sequence[Entry], by_place: Mapping[tuple[str, str, str], Entry]) -> list[str]:
    """Whose LP did not act, what has no ratio, what is not in the table, and how large the models are."""
    names = run_names(entries)
    lines = constrained_notes(entries, names)
    models = dict.fromkeys(key[:2] for key in by_place)
    if alone := [f"{model} ({origin})" for origin, model in models if (origin, model, NO_LP) not in by_place]:
        lines.append(f"No run without an LP, so no ratio: {listed(alone)}.")
    shown = {entry.id for entry in by_place.values()}
    pools = [names[entry.id] for entry in entries if is_pool(entry)]
    others = [names[entry.id] for entry in entries if entry.id not in shown and not is_pool(entry)]
    if pools:
        lines.append(f"Not in the table, since no model wrote them: {listed(pools)}.")
    if others:
        lines.append(
            f"Not in the table, since another run of that model and LP is, or no model is named: {listed(others)}."
        )
    return lines + size_notes([entry for entry in by_place.values() if has_samples(entry)])


def words_of(rows: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, str]]:
    """What is written in each cell; conformers per answer where the runs of its model differ in them."""
    counts: dict[str, set[int]] = {}
    for row in rows:
        counts.setdefault(row["model"], set()).add(row["conformers"] or 1)
    for row in rows:
        pace = "time unknown" if row["seconds"] is None else seconds(row["seconds"])
        count = f" · {counted(row['conformers'] or 1, 'conformer')}" if len(counts[row["model"]]) > 1 else ""
        yield {
            "seconds": f"{pace}{count}",
            "faster": f"{speed(1 / row['speed'])} {row['speed_mark']}".strip() if row["speed"] else "",
            "usable": "not judged"
            if row["usable"] is None
            else f"{percent(row['usable'])} {row['usable_mark']}".strip(),
            "damaged": percent(row["damaged"]),
        }


def answer(tables: Tables, options: Options) -> str:
    """The fastest LP of those that lose no molecules, and the one with the most usable ones; a sentence for all models
    of which that is the same."""
    by_model: dict[str, list[dict[str, Any]]] = {}
    for row in tables["main"].to_pylist():
        by_model.setdefault(row["model"], []).append(row)
    alike: dict[tuple[str, ...], dict[str, list[dict[str, Any]]]] = {}
    for model, rows in by_model.items():
        quick, right = fastest(rows), best(rows)
        if chosen := [row for row in (quick, right) if row is not None]:
            key = (quick["lp"] if quick else "", loss_words(quick) if quick else "", right["lp"] if right else "")
            alike.setdefault(key, {})[model] = chosen
    lines = [sentence(models, *key) for key, models in alike.items()]
    if not lines:
        lines = ["Choose runs of a model without an LP and with one, to see what the LP does."]
    return answer_text(lines, tables["notes"]["note"].to_pylist())


def fastest(rows: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """Of the LPs that are faster than none, and under which no fewer molecules are usable as far as can be told."""
    kept = [row for row in rows if row["speed"] and row["speed"] > 1 and loss_words(row)]
    return max(kept, key=lambda row: row["speed"], default=None)


def loss_words(row: Mapping[str, Any]) -> str:
    if row["tone"] == "none":
        return ""
    marks = {"=": "loses no usable molecules", "▲": "loses no usable molecules"}
    return (marks | dict.fromkeys(("≈", "±"), "loses no usable molecules beyond noise")).get(row["usable_mark"], "")


def best(rows: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    judged = [row for row in rows if row["usable"] is not None]
    if not any(row["usable"] for row in judged):
        return None
    return max(judged, key=lambda row: row["usable"]) if len(judged) > 1 else None


def sentence(models: Mapping[str, Sequence[Mapping[str, Any]]], quick: str, loss: str, right: str) -> str:
    """``demo-qwen:final and demo-llama:final: exact is 4.20–4.40× faster than none and loses no usable molecules.``"""
    parts = []
    if quick:
        speeds = [rows[0]["speed"] for rows in models.values()]
        pace = speed(1 / speeds[0], than=NO_LP)
        if len(speeds) > 1:
            pace = f"{span(min(speeds), max(speeds))}× faster than {NO_LP}"
        parts.append(f"{quick} is {pace} and {loss}")
    if right:
        shares = [rows[-1]["usable"] for rows in models.values()]
        least, most = percent(min(shares)), percent(max(shares))
        parts.append(f"most are usable under {right}, {most if least == most else f'{least} to {most}'}")
    return f"{listed(list(models))}: {'; '.join(parts)}."
