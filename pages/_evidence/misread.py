"""A finding of our own on the Evidence page: blocks that the group's reader misreads, with figures of stored runs."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from engine.figures.words import counted, percent
from engine.inspection.misread import RunMisread, misread_by_run
from engine.store.store import Store
from pages._shared.errors import escape_markdown
from pages._shared.words import visible_text

QUESTION = "What no report saw: numbers that their reader misreads"
ABOUT = (
    "The group's runner (v3.9 on) splits a block at commas and takes the last number of each part. A digit inside junk "
    "becomes a coordinate, without an error: the answer passes by the reports' rule and decodes by the runner's. "
    "By ours it is not clean."
)
_SAME_IN_SQL = (
    "python -m engine sql counts the same of new runs: SELECT run_id, misread_blocks, misread_most_ang FROM runs"
)


def show(store: Store) -> None:
    runs = misread_by_run(store, store.found().entries)
    st.subheader(QUESTION, anchor=False)
    st.markdown(escape_markdown(sentence(runs)))
    st.caption(escape_markdown(f"{ABOUT} {_SAME_IN_SQL}."))
    if runs:
        config = st.column_config
        st.dataframe(
            [
                {
                    "run": run.model,
                    "LP": run.lp,
                    "origin": run.origin,
                    "misread": run.misread,
                    "of": run.blocks,
                    "Å": run.most_ang,
                    "block": visible_text(run.text),
                }
                for run in runs
            ],
            hide_index=True,
            column_config={
                "run": config.TextColumn(width=108),
                "LP": config.TextColumn(width=112),
                "origin": config.TextColumn(width=70),
                "misread": config.NumberColumn(
                    "misread blocks", width=98, help="Over 0.01 Å off, or taken from no number"
                ),
                "of": config.NumberColumn("of blocks", width=68, format="localized"),
                "Å": config.NumberColumn("farthest (Å)", width=80, format="%.2f"),
                "block": config.TextColumn("farthest block, as written", width=160),
            },
            alt="Runs with blocks that the group's reader misreads",
        )


def sentence(runs: Sequence[RunMisread]) -> str:
    if not runs:
        return "No stored run has a block that the group's reader misreads."
    worst = max(runs, key=lambda run: run.most_ang or 0.0)
    words = (
        f"In {counted(worst.misread, 'block')} of {worst.blocks:,} ({percent(worst.misread / worst.blocks)}) of "
        f"{worst.model}'s run under {worst.lp}, the group's reader puts the atom elsewhere than the text says"
    )
    if worst.most_ang is None:
        return f"{words}."
    return f"{words}, by up to {worst.most_ang:.2f} Å: “<{visible_text(worst.text)}>”."
