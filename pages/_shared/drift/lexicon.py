"""The Drift inspector's second section: the pieces that a run's junk is made of, by count, script and likelihood."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import plotly.graph_objects as go
import streamlit as st

from engine.errors import visible
from engine.inspection.lexicon import JunkPiece, Lexicon, lexicon_of
from engine.inspection.runs import RunFacts
from engine.store.store import Store
from pages._shared.drift.runs import one_of
from pages._shared.errors import escape_markdown
from pages._shared.table_files import csv_text
from pages._shared.theme import palette, plotly_template

MOST_SHOWN = 500
MOST_SCRIPTS = 10
RARE = 0.001
COLUMNS = ("piece", "token_id", "script", "count", "samples", "mean_p_raw", "tokens_with_p_raw")


def show(store: Store, runs: Sequence[RunFacts]) -> None:
    """Draw the section for one of the chosen runs."""
    run = one_of(runs)
    with st.spinner("Reading the junk of this run …"):
        lexicon = lexicon_of(store, run.run_id)
    if not lexicon.pieces:
        st.info(_none(run), icon=":material/check_circle:", title="No junk")
        return
    st.markdown(escape_markdown(sentence(lexicon)))
    left, right = st.columns([13, 7], gap="large")
    with left:
        _table(lexicon)
        st.download_button(
            "Download as CSV",
            lambda: csv_of(lexicon.pieces),
            f"junk-{run.run_id}.csv",
            "text/csv",
            icon=":material/download:",
            on_click="ignore",
        )
    with right:
        scripts = _by_script(lexicon.pieces)
        said = ", ".join(f"{script} {count:,}" for script, count in scripts)
        st.plotly_chart(_figure(scripts), theme=None, config={"displayModeBar": False}, alt=f"Junk by script: {said}")


def _none(run: RunFacts) -> str:
    return (
        f"No block of {escape_markdown(run.name)} has anything in it that is no number."
        if run.has_blocks
        else "The blocks of this run are not there, so its junk cannot be told."
    )


def sentence(lexicon: Lexicon) -> str:
    """How much of how many samples, and the pieces that lead."""
    what = "junk tokens" if lexicon.by_token else "runs of junk characters (only texts are known, not tokens)"
    lead = ", ".join(f"“{shown(piece)}” {piece.count:,}×" for piece in lexicon.pieces[:3])
    samples = f"{lexicon.with_junk:,} {'sample' if lexicon.with_junk == 1 else 'samples'}"
    counts = f"{lexicon.count:,} {what} in {samples}, {len(lexicon.pieces):,} different"
    said = f"{counts}. Most often: {lead}."
    if lexicon.read < lexicon.with_junk:
        said += f" Told from the first {lexicon.read:,} of these samples."
    known = sum(piece.known for piece in lexicon.pieces)
    if known:
        mean = sum((piece.mean_p_raw or 0) * piece.known for piece in lexicon.pieces) / known
        rare = sum(piece.known for piece in lexicon.pieces if (piece.mean_p_raw or 0) < RARE)
        said += (
            f" Before the LP the model gave such a token a probability of {mean:.2f} on average, over the {known:,}"
            f" whose steps were kept; {rare / known:.0%} of these are pieces that it gave less than {RARE:g}."
        )
    return said


def shown(piece: JunkPiece) -> str:
    """Nothing in it is invisible; a space is seen as such."""
    return "".join("␣" if char == " " else visible(char) for char in piece.piece)


def _table(lexicon: Lexicon) -> None:
    pieces = lexicon.pieces[:MOST_SHOWN]
    config = st.column_config
    st.dataframe(
        [
            {
                "piece": shown(piece),
                "id": piece.token_id,
                "script": piece.script,
                "count": piece.count,
                "samples": piece.samples,
                "p": piece.mean_p_raw,
                "known": piece.known,
            }
            for piece in pieces
        ],
        hide_index=True,
        height=460 if len(pieces) > 12 else "auto",
        placeholder="–",
        column_config={
            "piece": config.TextColumn("piece", width=92, pinned=True, help="Invisible characters are escaped"),
            "id": config.NumberColumn("token id", width=70, format="%d"),
            "script": config.TextColumn("script", width=94),
            "count": config.ProgressColumn(
                "count",
                width=96,
                format="%d",
                min_value=0,
                max_value=max(piece.count for piece in pieces),
                color="violet",
            ),
            "samples": config.NumberColumn("samples", width=68, help="Samples that have it"),
            "p": config.NumberColumn(
                "mean p raw", width=84, format="%.1e", help="Its probability before the LP, where steps were kept"
            ),
            "known": config.NumberColumn("of", width=50, help="How many of them have kept steps"),
        },
        alt="Pieces of junk, commonest first",
    )
    if len(lexicon.pieces) > MOST_SHOWN:
        st.caption(f"The {MOST_SHOWN} commonest of {len(lexicon.pieces):,}; the file has all.")


def _by_script(pieces: Sequence[JunkPiece]) -> list[tuple[str, int]]:
    counts: Counter[str] = Counter()
    for piece in pieces:
        counts[piece.script] += piece.count
    kept = counts.most_common(MOST_SCRIPTS)
    rest = counts.total() - sum(count for _, count in kept)
    return [*kept, ("others", rest)] if rest else kept


def _figure(scripts: Sequence[tuple[str, int]]) -> go.Figure:
    figure = go.Figure(
        go.Bar(
            x=[count for _, count in scripts],
            y=[script for script, _ in scripts],
            orientation="h",
            marker={"color": palette().junk, "pattern": {"shape": "/"}},
            text=[f"{count:,}" for _, count in scripts],
            textposition="outside",
            cliponaxis=False,
            hovertemplate="%{y}: %{x:,}<extra></extra>",
        )
    )
    figure.update_yaxes(autorange="reversed", type="category")
    highest = max(count for _, count in scripts)
    figure.update_xaxes(title="junk pieces by script", range=[0, 1.2 * highest])  # room for the figures
    figure.update_layout(template=plotly_template(palette()), height=90 + 32 * len(scripts), margin={"t": 8})
    return figure


def csv_of(pieces: Sequence[JunkPiece]) -> str:
    """Every piece, as it is: a file is no page."""
    return csv_text(
        COLUMNS,
        [
            (one.piece, one.token_id, one.script, one.count, one.samples, one.mean_p_raw, one.known or "")
            for one in pieces
        ],
    )
