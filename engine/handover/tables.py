"""Tables of a report: a question's, and its runs by LP and model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine.figures.text_tables import cell
from engine.questions.compare_matrix import words_of
from engine.questions.question import Answered, Column, Question, cell_of, shown_columns
from engine.store.columns import rows_of

MOST_ROWS = 100
MOST_CELL = 400


def tables_of(question: Question, answered: Answered) -> list[dict[str, Any]]:
    """Those that a card shows, else the main one, but no part of it where a chart has all."""
    views = [crossed(answered)] if "matrix" in [chart.kind for chart in question.CHARTS] else []
    for name in question.TABLES or ["main"]:
        table = answered.tables[name]
        rows = list(rows_of(table.slice(0, MOST_ROWS)))
        left_out = table.num_rows - len(rows)
        if rows and not (left_out and question.CHARTS and name not in question.TABLES):
            caption = "" if name == "main" else name
            views.append(table_view(caption, table.column_names, rows, question.COLUMNS, left_out))
    return views


def crossed(answered: Answered) -> dict[str, Any]:
    """The table of LPs and models, a cell a run, with the words that a page has there."""
    cells = answered.tables["main"].to_pylist()
    rows: dict[str, dict[str, str]] = {}
    for run, words in zip(cells, words_of(cells), strict=True):
        lines = (words["seconds"], words["faster"], f"usable: {words['usable']}", f"damaged: {words['damaged']}")
        rows.setdefault(run["lp"], {})[run["model"]] = "\n".join(filter(None, lines))
    models = list(dict.fromkeys(run["model"] for run in cells))
    table = [[lp, *(row.get(model, "no run") for model in models)] for lp, row in rows.items()]
    return {"name": "", "titles": ["LP", *models], "helps": [], "values": table, "words": table, "rows_left_out": 0}


def table_view(
    name: str,
    titles: Sequence[str],
    rows: Sequence[Mapping[str, Any]],
    columns: Mapping[str, Column],
    left_out: int = 0,
) -> dict[str, Any]:
    """Without columns that are empty or links into the app. ``values`` are the question's own, to the digit, ``words``
    how they are shown."""
    known = [title for title in titles if any(row[title] not in (None, "") for row in rows)]
    about = {title: column for title, column in shown_columns(known, columns).items() if not column.page}
    return {
        "name": name,
        "titles": [column.head(title) for title, column in about.items()],
        "helps": [column.help for column in about.values()],
        "values": [[row[title] for title in about] for row in rows],
        "words": [[cell(cell_of(column, row[title]), MOST_CELL) for title, column in about.items()] for row in rows],
        "rows_left_out": left_out,
    }
