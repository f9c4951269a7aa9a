"""The Drift inspector's table of judged samples: damage in the text beside damage in the molecule."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from engine.figures.words import percent, with_interval
from engine.inspection.damage import damage
from engine.inspection.runs import RunFacts
from engine.store.store import Store
from pages._shared.rows import table_height


def show(store: Store, runs: Sequence[RunFacts]) -> None:
    """Text beside molecule; nothing for runs whose molecules were not judged."""
    rows = damage(store, [run.run_id for run in runs]) if any(run.judged for run in runs) else []
    if not rows:
        return
    with st.expander("Does damage in the text go with damage in the molecule?", icon=":material/compare_arrows:"):
        st.dataframe(
            [
                {
                    "text": row.text,
                    "samples": row.samples,
                    "stereo right": with_interval(row.stereo_right, percent),
                    "of those judged": row.stereo_judged,
                    "geometry right": with_interval(row.geometry_right, percent),
                    "of those with a geometry": row.geometry_judged,
                }
                for row in rows
            ],
            hide_index=True,
            height=table_height(len(rows)),
            alt="Judged samples by what their text has, and how many of their molecules are right",
        )
        st.caption(
            "A sample counts once, under the worst that its text has. In brackets the 95 % interval. What the strict "
            "reader refuses has no geometry to judge."
        )
