"""How the Tokenizer lab shows drift of a molecule set: panels, a table, a sentence, a file."""

from __future__ import annotations

from dataclasses import dataclass, replace

import streamlit as st

from engine.figures.words import listed, percent
from engine.lp_records import DEFAULT_PLACEHOLDER
from engine.text.drift import DriftSummary
from engine.text.placeholder import FittedPlaceholder, free_count
from engine.text.template import GUESSED_PLACEHOLDER
from engine.text.tokenizers import TextTokenizer
from pages._shared.charts.chart import Axis, Chart, Marks, Panel
from pages._shared.charts.text import Markup, safe
from pages._shared.errors import escape_markdown
from pages._shared.table_files import csv_text
from pages._shared.theme import drift_colour, palette
from pages._shared.words import signed
from pages._tokenizer_lab.choices import in_colour, label_of


@dataclass(frozen=True, slots=True)
class DriftRow:
    """One panel of the figure and one line of the table: a tokenizer with a placeholder."""

    tokenizer: TextTokenizer
    summary: DriftSummary
    fitted: FittedPlaceholder | None  # where the placeholder was fitted to these coordinates


def drift_chart(rows: list[DriftRow], alt: str) -> Chart:
    """Share of blocks by drift: rows of panels by tokenizer, columns by placeholder, colour and pattern by sign."""
    tokenizers = list(dict.fromkeys(row.tokenizer for row in rows))
    columns = len(rows) // len(tokenizers)
    drifts = [drift for row in rows for drift in row.summary.histogram]
    least, most = min(*drifts, -1), max(*drifts, 1)
    x = Axis(range=[least - 0.7, most + 0.7], more={"dtick": 1 if most - least < 9 else 2})
    # Plotly sums the bars of linked panels when it chooses a range.
    highest = max(row.summary.share(count) for row in rows for count in row.summary.histogram.values())
    y = Axis(is_share=True, range=[0, 1.08 * highest])
    return Chart(
        panels=[
            Panel(
                layers=[_bars(row)],
                x=replace(x, title="drift in tokens") if place >= len(rows) - columns else x,
                y=y
                if place % columns
                else replace(y, title=Markup(f"{safe(label_of(row.tokenizer))}<br>share of blocks")),
                title=("fitted: " if row.fitted else "") + row.summary.placeholder,
            )
            for place, row in enumerate(rows)
        ],
        columns=columns,
        shared_x="all",
        shared_y="all",
        spacing=(0.02, 0.16),
        height=120 + 190 * len(tokenizers),
        top=40,
        alt=alt,
    )


def _bars(row: DriftRow) -> Marks:
    colours = palette()
    bars = [
        {
            "drift": drift,
            "share": row.summary.share(count),
            "colour": drift_colour(drift, colours),
            "pattern": "" if drift == 0 else "/" if drift > 0 else "x",
        }
        for drift, count in row.summary.histogram.items()
    ]
    return Marks(
        kind="bars",
        rows=bars,
        x="drift",
        y="share",
        is_hatched=False,
        hover=lambda bar: (row.summary.placeholder, f"drift {signed(bar['drift'])}: {percent(bar['share'])} of blocks"),
    )


def table(rows: list[DriftRow]) -> None:
    lines = [_table_row(row) for row in rows]
    st.table(lines, hide_index=True, border="horizontal", alt="Shares by placeholder")


def _table_row(row: DriftRow) -> dict[str, object]:
    summary = row.summary
    return {
        "tokenizer": escape_markdown(label_of(row.tokenizer)),
        "placeholder": escape_markdown(("fitted: " if row.fitted else "") + summary.placeholder),
        "blocks": f"{summary.blocks:,}",
        "exact": _share(summary, summary.exact, 0),
        "junk-prone": _share(summary, summary.junk_prone, 1),
        "cut": _share(summary, summary.cut, -1),
        "drift per block, in tokens": f"{summary.mean_drift:+z.2f}".replace("-", "−").replace("+0.00", "0.00"),
        "tokens per atom": f"{summary.tokens_per_atom:.2f}",
    }


def _share(summary: DriftSummary, blocks: int, drift: int) -> str:
    words = percent(summary.share(blocks)).replace(" ", "\u00a0")
    return in_colour(words, drift if blocks else None)


def sentence(rows: list[DriftRow]) -> str:
    """The figures in words, tokenizers of equal ones together; also the chart's text alternative."""
    by_words: dict[str, list[str]] = {}
    for row in rows:
        if row.fitted or row.summary.placeholder == DEFAULT_PLACEHOLDER:
            words = (
                f"{row.summary.placeholder}{' (fitted)' if row.fitted else ''}: "
                f"{percent(row.summary.share(row.summary.cut))} cut, "
                f"{percent(row.summary.share(row.summary.junk_prone))} junk-prone"
            )
            by_words.setdefault(words, []).append(label_of(row.tokenizer))
    return " ".join(f"{listed(names)} with {words}." for words, names in by_words.items())


def no_junk_sentence(rows: list[DriftRow]) -> str:
    """Why numbers of four decimals are not junk-prone where a model's own may be; empty where they are."""
    default = [row.summary for row in rows if row.summary.placeholder == DEFAULT_PLACEHOLDER]
    if not default or any(summary.junk_prone for summary in default):
        return ""
    return (
        f"All decimals are written here, so no number is shorter than {DEFAULT_PLACEHOLDER}. A model that drops "
        "trailing zeros, as demo-qwen and demo-llama do, leaves positions over, and so writes junk: choose “Trailing "
        "zeros dropped”."
    )


BINS_WORDS = "Numbers of bins are all of one width and cannot drift: the fitted placeholder fits every block."


def reports_sentence(rows: list[DriftRow]) -> str:
    """What reports 000 and 001 expected of these figures; empty where they cannot be compared."""
    of_qwen = {row.summary.placeholder: row for row in rows if row.tokenizer.name == "qwen3"}
    default, guess = of_qwen.get(DEFAULT_PLACEHOLDER), of_qwen.get(GUESSED_PLACEHOLDER)
    if default is None:
        return ""
    free = free_count(DEFAULT_PLACEHOLDER, default.tokenizer)
    least, most = free - max(default.summary.histogram), free - min(default.summary.histogram)
    words = f"With Qwen3 a block's numbers need {least} to {most} tokens here; report 001 expected 18 to 25."
    if guess is not None:
        words += (
            f" Report 000 expected {GUESSED_PLACEHOLDER} to reduce drift by about 30 %; here a block misses its "
            f"template by {guess.summary.mean_distance:.2f} of these tokens on average, and that of "
            f"{DEFAULT_PLACEHOLDER} by {default.summary.mean_distance:.2f}."
        )
    return words


def csv_of(rows: list[DriftRow]) -> str:
    """Every bar as a line of CSV."""
    return csv_text(
        ("tokenizer", "placeholder", "fitted", "drift", "blocks"),
        [
            (row.tokenizer.name, row.summary.placeholder, int(row.fitted is not None), drift, count)
            for row in rows
            for drift, count in row.summary.histogram.items()
        ],
    )
