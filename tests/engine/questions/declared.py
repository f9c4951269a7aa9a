"""Whether an answer has what its question declares."""

from __future__ import annotations

from engine.questions.question import Answered, Question


def assert_as_declared(question: Question, answered: Answered) -> None:
    """Its tables, the columns of its charts, and the options that these set."""
    assert answered.answer and next(iter(answered.tables)) == "main"
    assert set(question.TABLES) <= set(answered.tables)
    for chart in question.CHARTS:
        table = answered.tables.get(chart.table)
        if table is not None and table.num_rows:
            names = (chart.x, chart.y, chart.colour, chart.low, chart.high, chart.split, chart.size, chart.dash)
            assert {name for name in (*names, *chart.hover) if name} <= set(table.column_names)
        kind, _, more = chart.picks.partition(":")
        assert kind != "option" or more.split(":")[0] in {option.name for option in question.OPTIONS}
