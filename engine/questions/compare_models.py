"""Each LP over no LP within a model, then each model over the first within an LP.

Runs of several models with one control say neither: their ratios mix what the LP does with what the model does. Of
several runs of one model under one LP the first counts, and a reported run is compared with reported ones alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.comparing.measures import BY_NAME, lp_words, model_words
from engine.comparing.paired import compare_entries
from engine.figures.words import times
from engine.lp_records import NO_LP
from engine.questions.compare_figures import against, figure_row
from engine.questions.question import Chart, Column, Of, Options, Tables, answer_text, rows_table
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
    "ratio": Column("ratio", "×", "Test over control"),
    "ratio_low": Column("from", "×", "95 % bootstrap interval over molecules"),
    "ratio_high": Column("to", "×"),
    "value": Column("value", help="Of the test"),
    "control_value": Column("control's"),
}
CHARTS = (
    Chart("points", "ratio", "pair", "pace", colour="within", low="ratio_low", high="ratio_high", line_at=1, log="x",
          split="kind"),
)  # fmt: skip
TABLES = ("main",)


def tables(store: Store, entries: Sequence[Entry], options: Options) -> Tables:
    runs: dict[tuple[str, str, str], Entry] = {}
    for entry in entries:
        if model_words(entry) and lp_words(entry):
            runs.setdefault((entry.row["origin"], model_words(entry), lp_words(entry)), entry)
    models = list(dict.fromkeys(model for _, model, _ in runs))
    rows: list[dict[str, Any]] = []

    def compare(kind: str, within: str, pair: str, control: Entry, test: Entry) -> None:
        paired = compare_entries(store, control, test)
        for name in MEASURES:
            measure = BY_NAME[name]
            first, other = figure_row(control, measure, {})["value"], figure_row(test, measure, {})["value"]
            row = {"kind": kind, "within": within, "pair": pair, "measure": measure.words, "unit": measure.unit}
            row |= {"value": other, "control_value": first, "control": control.id, "test": test.id}
            compared = against(measure, control, test, first, other, paired)
            keys = ("ratio", "ratio_low", "ratio_high", "mark", "reason")
            rows.append(row | {key: compared.get(key) for key in keys})

    for model in models:
        for (origin, of_model, lp), entry in runs.items():
            if of_model == model and lp != NO_LP and (origin, model, NO_LP) in runs:
                compare("LP on over off", model, f"{lp} over {NO_LP}", runs[origin, model, NO_LP], entry)
    first: dict[tuple[str, str], tuple[str, Entry]] = {}
    for origin, model, lp in sorted(runs, key=lambda key: models.index(key[1])):
        of_first, control = first.setdefault((origin, lp), (model, runs[origin, model, lp]))
        if of_first != model:
            compare("model over model", lp, f"{model} over {of_first}", control, runs[origin, model, lp])
    if len(models) < 2:
        rows = []
    pace = [row for row in rows if row["measure"] == BY_NAME["wall_s_a_sample"].words and row["ratio"] is not None]
    return {"main": rows_table(rows, ["kind", "within", "pair"]), "pace": rows_table(pace)}


def answer(tables: Tables, options: Options) -> str:
    if not tables["main"].num_rows:
        return "Choose runs of two models to compare an LP on over off within each, and the models within each LP."
    parts: dict[tuple[str, str], list[str]] = {}
    for row in tables["pace"].to_pylist():
        parts.setdefault((row["kind"], row["within"]), []).append(f"{row['pair']} {times(row['ratio'])}")
    return answer_text(
        f"{kind}, {within}: {', '.join(pairs)} by wall time per sample." for (kind, within), pairs in parts.items()
    )
