"""Each LP over no LP within a model, then each model over the first within an LP.

Runs of several models with one control say neither: their ratios mix what the LP does with what the model does. Of
several runs of one model under one LP the first counts, and a reported run is compared with reported ones alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.comparing.differences import against, figure_row, figure_words, ratio_words, speed_columns
from engine.comparing.measures import BY_NAME, lp_words, model_words
from engine.comparing.paired import compare_entries
from engine.figures.words import speed
from engine.lp_records import NO_LP
from engine.questions.question import SPEED_COLUMNS, Chart, Column, Of, Options, Tables, answer_text, rows_table
from engine.store.entries import Entry
from engine.store.store import Store

TITLE = "LP on over off within each model, and model over model within each LP"
OF = Of("run", least=2, most=41)
OPTIONS = ()
MEASURES = ("wall_s_a_sample", "ms_a_token", "usable_rate", "clean_rate", "cut_share")
COLUMNS = {
    "kind": Column("compared"),
    "within": Column("within", help="The model, or the LP, that both have"),
    "pair": Column("over"),
    "of control": Column("control"),
    "of test": Column("test"),
    "comparison": Column("test against control", help="With its 95 % bootstrap interval over molecules"),
    "ratio": Column("ratio", "×", "Test over control, of the figure"),
    "ratio_low": Column("from", "×", "95 % bootstrap interval over molecules"),
    "ratio_high": Column("to", "×"),
    "value": Column("value", help="Of the test; a share from 0 to 1"),
    "control_value": Column("control's"),
    **SPEED_COLUMNS,
}
CHARTS = (
    Chart("points", "speed", "pair", "pace", colour="within", low="speed_low", high="speed_high", line_at=1, log="x",
          split="kind", hover=("within", "pair", "pace")),
)  # fmt: skip
TABLES = ("table",)


def tables(store: Store, entries: Sequence[Entry], options: Options) -> Tables:
    rows = [row for pair in pairs_of(entries) for row in pair_rows(store, pair)]
    timed = [row for row in rows if row["measure"] == BY_NAME["wall_s_a_sample"].words and row["ratio"] is not None]
    return {
        "main": rows_table(rows, ["kind", "within", "pair"]),
        "table": rows_table([row_in_words(row) for row in rows], ["kind", "within", "pair"]),
        "pace": rows_table([row | speed_columns(row) for row in timed]),
    }


@dataclass(frozen=True, slots=True)
class Pair:
    """Two runs that differ in the LP alone, or in the model alone."""

    kind: str
    within: str
    words: str
    control: Entry
    test: Entry


def pairs_of(entries: Sequence[Entry]) -> Iterator[Pair]:
    """None of runs of one model."""
    runs: dict[tuple[str, str, str], Entry] = {}
    for entry in entries:
        if model_words(entry) and lp_words(entry):
            runs.setdefault((entry.row["origin"], model_words(entry), lp_words(entry)), entry)
    models = list(dict.fromkeys(model for _, model, _ in runs))
    if len(models) < 2:
        return
    by_model = sorted(runs, key=lambda key: models.index(key[1]))
    for origin, model, lp in by_model:
        without = runs.get((origin, model, NO_LP))
        if lp != NO_LP and without is not None:
            yield Pair("LP on over off", model, f"{lp} over {NO_LP}", without, runs[origin, model, lp])
    first: dict[tuple[str, str], tuple[str, Entry]] = {}
    for origin, model, lp in by_model:
        of_first, control = first.setdefault((origin, lp), (model, runs[origin, model, lp]))
        if of_first != model:
            yield Pair("model over model", lp, f"{model} over {of_first}", control, runs[origin, model, lp])


def pair_rows(store: Store, pair: Pair) -> Iterator[dict[str, Any]]:
    """A row a measure. Shares are from 0 to 1, and so is their unit."""
    paired = compare_entries(store, pair.control, pair.test)
    for name in MEASURES:
        measure = BY_NAME[name]
        first, other = (figure_row(entry, measure, {})["value"] for entry in (pair.control, pair.test))
        unit = "share" if measure.unit == "%" else measure.unit
        row = {"kind": pair.kind, "within": pair.within, "pair": pair.words, "measure": measure.words, "unit": unit}
        row |= {"value": other, "control_value": first, "control": pair.control.id, "test": pair.test.id}
        compared = against(measure, pair.control, pair.test, first, other, paired)
        keys = ("ratio", "ratio_low", "ratio_high", "ratio_pairs", "mark", "reason")
        yield row | {key: compared.get(key) for key in keys} | {"name": name}


def row_in_words(row: Mapping[str, Any]) -> dict[str, str]:
    """As a reader sees it: ``usable (%)``, ``45.3``, ``64.1``, ``1.41× (1.19–1.82) ▲``."""
    measure = BY_NAME[row["name"]]
    return {
        **{name: row[name] for name in ("kind", "within", "pair")},
        "figure": measure.words + (f" ({measure.unit})" if measure.unit else ""),
        "of control": figure_words(row["control_value"], measure),
        "of test": figure_words(row["value"], measure),
        "comparison": ratio_words(row, measure),
    }


def answer(tables: Tables, options: Options) -> str:
    if not tables["main"].num_rows:
        return "Choose runs of two models to compare an LP on over off within each, and the models within each LP."
    parts: dict[tuple[str, str], list[str]] = {}
    for row in tables["pace"].to_pylist():
        parts.setdefault((row["kind"], row["within"]), []).append(f"{row['pair']} {speed(row['ratio'])}")
    return answer_text(
        f"{kind}, {within}: {', '.join(pairs)} by wall time per sample." for (kind, within), pairs in parts.items()
    )
