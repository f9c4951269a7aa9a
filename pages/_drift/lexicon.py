"""The Drift inspector's second section: the pieces that a run's junk is made of, by count, script and likelihood."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import streamlit as st

from engine.errors import visible
from engine.figures.words import counted, percent
from engine.inspection.lexicon import JunkPiece, Lexicon, lexicon_of
from engine.inspection.runs import RunFacts
from engine.store.store import Store
from pages._drift.runs import choose_one
from pages._shared.charts.card import draw
from pages._shared.charts.chart import Axis, Chart, Marks, chart
from pages._shared.errors import escape_markdown
from pages._shared.table_files import csv_text, file_button
from pages._shared.theme import palette
from pages._shared.words import unbroken

MOST_SHOWN = 500
MOST_SCRIPTS = 10
RARE = 0.001
COLUMNS = ("piece", "token_id", "script", "count", "samples", "mean_p_raw", "tokens_with_p_raw")


def show(store: Store, runs: Sequence[RunFacts]) -> None:
    run = choose_one(runs)
    with st.spinner("Reading the junk of this run …"):
        lexicon = lexicon_of(store, run)
    if not lexicon.pieces:
        if run.has_blocks:
            words = f"No block of {escape_markdown(run.name)} contains junk."
            st.info(words, icon=":material/check_circle:", title="No junk")
        else:
            st.info(
                "This run stored no blocks, so its junk is unknown.",
                icon=":material/visibility_off:",
                title="No blocks",
            )
        return
    st.markdown(unbroken(escape_markdown(sentence(lexicon))))
    left, right = st.container(key="stacked-lexicon").columns([13, 7], gap="large")
    with left:
        _table(lexicon)
        file_button("CSV", lambda: csv_of(lexicon.pieces), f"junk-{run.run_id}.csv")
    with right:
        draw(_chart(lexicon.pieces))


def sentence(lexicon: Lexicon) -> str:
    """How many junk pieces in how many samples, the most frequent ones, and their probability."""
    what = "junk tokens" if lexicon.by_token else "runs of junk characters (only texts are stored, not tokens)"
    lead = ", ".join(f"“{shown(piece)}” {piece.count:,}×" for piece in lexicon.pieces[:3])
    counts = f"{lexicon.count:,} {what} in {counted(lexicon.with_junk, 'sample')}, {len(lexicon.pieces):,} different"
    words = f"{counts}. Most frequent: {lead}."
    if lexicon.read < lexicon.with_junk:
        words += f" Counted in the first {lexicon.read:,} of these samples."
    known = sum(piece.known for piece in lexicon.pieces)
    if known:
        mean = sum((piece.mean_p_raw or 0) * piece.known for piece in lexicon.pieces) / known
        rare = sum(piece.known for piece in lexicon.pieces if (piece.mean_p_raw or 0) < RARE)
        words += (
            f" Mean probability before the LP: {mean:.2f}, over the {known:,} tokens with stored steps;"
            f" {percent(rare / known)} of them are pieces with a mean below {RARE:g}."
        )
    return words


def shown(piece: JunkPiece) -> str:
    """The piece with invisible characters escaped and spaces marked."""
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
                "mean p(raw)", width=88, format="%.2g", help="Its probability before the LP, where steps are stored"
            ),
            "known": config.NumberColumn("with steps", width=84, help="How many of them have stored steps"),
        },
        alt="Pieces of junk, most frequent first",
    )
    if len(lexicon.pieces) > MOST_SHOWN:
        st.caption(f"The {MOST_SHOWN} most frequent of {len(lexicon.pieces):,}; the CSV has all.")


def _chart(pieces: Sequence[JunkPiece]) -> Chart:
    counts: Counter[str] = Counter()
    for piece in pieces:
        counts[piece.script] += piece.count
    scripts = counts.most_common(MOST_SCRIPTS)
    rest = counts.total() - sum(count for _, count in scripts)
    scripts += [("others", rest)] if rest else []
    bars = [{"count": count, "script": script, "text": f"{count:,}"} for script, count in scripts]
    marks = Marks(
        kind="bars",
        rows=bars,
        x="count",
        y="script",
        is_across=True,
        is_hatched=False,
        colour=palette().junk,
        pattern="/",
        hover=lambda row: f"{row['script']}: {row['text']}",
    )
    highest = max(count for _, count in scripts)
    return chart(
        marks,
        x=Axis(title="junk pieces by script", range=[0, 1.2 * highest]),  # room for the figures
        y=Axis(more={"autorange": "reversed", "type": "category"}),
        height=90 + 32 * len(scripts),
        alt=f"Junk by script: {', '.join(f'{script} {count:,}' for script, count in scripts)}",
    )


def csv_of(pieces: Sequence[JunkPiece]) -> str:
    return csv_text(
        COLUMNS,
        [
            (piece.piece, piece.token_id, piece.script, piece.count, piece.samples, piece.mean_p_raw, piece.known or "")
            for piece in pieces
        ],
    )
