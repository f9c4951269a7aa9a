"""How the Tokenizer lab shows drift of a molecule set: panels, a table, a sentence, a file."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any

import plotly.graph_objects as go
import streamlit as st
from plotly.subplots import make_subplots

from engine.text.drift import DriftSummary
from engine.text.placeholder import FittedPlaceholder, free_count
from engine.text.template import DEFAULT_PLACEHOLDER, GUESSED_PLACEHOLDER
from engine.text.tokenizers import TextTokenizer
from pages._shared.lab.choices import label_of
from pages._shared.table_files import csv_text
from pages._shared.theme import drift_colour, palette, plotly_template


@dataclass(frozen=True, slots=True)
class Row:
    """One panel of the figure and one line of the table: a tokenizer with a placeholder."""

    tokenizer: TextTokenizer
    summary: DriftSummary
    fitted: FittedPlaceholder | None  # where the placeholder was fitted to these coordinates


def figure(rows: list[Row]) -> go.Figure:
    """Share of blocks by drift: a row of panels a tokenizer, a column a placeholder, a colour and pattern a sign."""
    tokenizers = list(dict.fromkeys(row.tokenizer for row in rows))
    columns = len(rows) // len(tokenizers)
    panels = make_subplots(
        rows=len(tokenizers),
        cols=columns,
        shared_xaxes="all",
        shared_yaxes="all",
        horizontal_spacing=0.02,
        vertical_spacing=0.16,
        subplot_titles=[_panel_title(row) for row in rows],
    )
    for index, row in enumerate(rows):
        panels.add_trace(_bars(row), row=index // columns + 1, col=index % columns + 1)
    _set_axes(panels, rows)
    for number, tokenizer in enumerate(tokenizers, start=1):
        panels.update_yaxes(title=f"{escape(label_of(tokenizer))}<br>share of blocks", row=number, col=1)
    panels.update_xaxes(title="drift in tokens", row=len(tokenizers))
    panels.update_annotations(font={"size": 13})
    panels.update_layout(template=plotly_template(palette()), height=120 + 190 * len(tokenizers))
    return panels


def _bars(row: Row) -> go.Bar:
    colours = palette()
    drifts = list(row.summary.histogram)
    return go.Bar(
        x=drifts,
        y=[row.summary.share(count) for count in row.summary.histogram.values()],
        marker={
            "color": [drift_colour(drift, colours) for drift in drifts],
            "pattern": {"shape": ["" if drift == 0 else "/" if drift > 0 else "x" for drift in drifts]},
        },
        # A placeholder is anybody's text: it goes in as data, never into the template.
        customdata=[[escape(row.summary.placeholder)]] * len(drifts),
        hovertemplate="%{customdata[0]}<br>drift %{x:+d}: %{y:.1%} of blocks<extra></extra>",
        showlegend=False,
    )


def _set_axes(panels: go.Figure, rows: list[Row]) -> None:
    drifts = [drift for row in rows for drift in row.summary.histogram]
    least, most = min(*drifts, -1), max(*drifts, 1)
    panels.update_xaxes(range=[least - 0.7, most + 0.7], dtick=1 if most - least < 9 else 2)
    # Plotly adds the bars of linked panels up when it looks for a range.
    highest = max(row.summary.share(count) for row in rows for count in row.summary.histogram.values())
    panels.update_yaxes(tickformat=".0%", range=[0, 1.08 * highest])


def _panel_title(row: Row) -> str:
    return ("fitted: " if row.fitted else "") + escape(row.summary.placeholder)


def table(rows: list[Row]) -> None:
    """Draw the shares as a table."""
    lines = [_table_row(row) for row in rows]
    st.dataframe(lines, hide_index=True, height="content", column_config=_COLUMNS, alt="Shares by placeholder")


def _table_row(row: Row) -> dict[str, object]:
    summary = row.summary
    return {
        "tokenizer": label_of(row.tokenizer),
        "placeholder": summary.placeholder,
        "chosen": "fitted" if row.fitted else "",
        "blocks": summary.blocks,
        "exact": 100 * summary.share(summary.exact),
        "junk-prone": 100 * summary.share(summary.junk_prone),
        "cut": 100 * summary.share(summary.cut),
        "mean drift": round(summary.mean_drift, 2),
    }


def _share_column(label: str, help_text: str) -> Any:
    return st.column_config.ProgressColumn(label, help=help_text, format="%.1f %%", min_value=0.0, max_value=100.0)


_COLUMNS = {
    "exact": _share_column("exact", "Drift zero: the block fits"),
    "junk-prone": _share_column("junk-prone", "Positive drift: positions left over"),
    "cut": _share_column("cut", "Negative drift: the number loses its last digits"),
    "mean drift": st.column_config.NumberColumn("mean drift", help="In tokens a block", format="%+.2f"),
}


def sentence(rows: list[Row]) -> str:
    """What the figures say, in plain words: also what a screen reader gets in place of the panels."""
    parts = [
        f"{label_of(row.tokenizer)} with {row.summary.placeholder}{' (fitted)' if row.fitted else ''}: "
        f"{row.summary.share(row.summary.cut):.0%} cut, {row.summary.share(row.summary.junk_prone):.0%} junk-prone"
        for row in rows
        if row.fitted or row.summary.placeholder == DEFAULT_PLACEHOLDER
    ]
    return ". ".join(parts) + "."


def reports_sentence(rows: list[Row]) -> str:
    """What reports 000 and 001 expected of these figures, beside them; empty where they cannot be compared."""
    of_qwen = {row.summary.placeholder: row for row in rows if row.tokenizer.name == "qwen3"}
    default, guess = of_qwen.get(DEFAULT_PLACEHOLDER), of_qwen.get(GUESSED_PLACEHOLDER)
    if default is None:
        return ""
    free = free_count(DEFAULT_PLACEHOLDER, default.tokenizer)
    least, most = free - max(default.summary.histogram), free - min(default.summary.histogram)
    said = f"With Qwen3 a block's numbers need {least} to {most} tokens here; report 001 expected 18 to 25."
    if guess is not None:
        said += (
            f" Report 000 expected {GUESSED_PLACEHOLDER} to reduce drift by about 30 %; here a block misses the "
            f"template by {guess.summary.mean_distance:.2f} tokens on average with it, and by "
            f"{default.summary.mean_distance:.2f} with {DEFAULT_PLACEHOLDER}."
        )
    return said


def csv_of(rows: list[Row]) -> str:
    """Every bar as a line of CSV."""
    return csv_text(
        ("tokenizer", "placeholder", "fitted", "drift", "blocks"),
        [
            (row.tokenizer.name, row.summary.placeholder, int(row.fitted is not None), drift, count)
            for row in rows
            for drift, count in row.summary.histogram.items()
        ],
    )
