"""The Drift inspector's third section: does forcing overrule the model, and where.

A sentence with its uncertainty, then its figures: along the answers, by place, and against RMSD.
"""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from engine.figures.statistics import Interval
from engine.figures.words import UNKNOWN, number, percent, with_interval
from engine.inspection.effect import RunEffect, effect_of_run
from engine.inspection.effect_words import sentence_of
from engine.inspection.runs import RunFacts
from engine.store.store import Store
from pages._drift import effect_figures as figures
from pages._drift import state
from pages._drift.runs import choose_one
from pages._drift.state import Spot
from pages._shared.charts.card import draw
from pages._shared.errors import escape_markdown

MOST_ROWS_SHOWN = 5
LEAST_POINTS = 3
"""Samples with an RMSD that a chart needs."""
_NO_STEPS = """
This run stored no token probabilities, so the effect of its LP on the model is unknown. Two ways to get it:

- Generate the run again with steps: `.venv/bin/python -m engine run ... --keep-steps 16 --rmsd`
- Open one of its molecules and press *Compute token probabilities*: the strip then shows p, rank and mass.
"""


def show(store: Store, runs: Sequence[RunFacts]) -> None:
    """Draw the section for one of the chosen runs."""
    run = choose_one(runs)
    with st.spinner("Reading steps …"):
        effect = effect_of_run(store, run.run_id)
    if not effect.samples:
        st.info(_NO_STEPS, icon=":material/visibility_off:", title="No steps stored")
        return
    with st.container(border=True, key="effect-sentence"):
        st.markdown(f"**Does forcing overrule the model?** {escape_markdown(sentence_of(effect))}")
    _metrics(effect)
    st.subheader("Along the answer", anchor=False)
    for column, of_forced in zip(st.columns(2, gap="large"), (True, False), strict=True):
        with column:
            draw(figures.along(effect, of_forced=of_forced))
    _places(effect)
    _against_rmsd(effect, run)
    st.caption(
        "From the stored steps: probabilities before any sampling filter, given the text so far. At a forced token only"
        " one token was legal; at a free token the LP may still have blocked others. How the text would have continued"
        " without the LP is not known."
    )


def _metrics(effect: RunEffect) -> None:
    columns = st.columns(4)
    columns[0].metric("Samples with steps", f"{effect.samples:,}")
    columns[1].metric(
        "Forced: the model's own choice",
        UNKNOWN if effect.first_choice is None else percent(effect.first_choice.value),
        help=_range(effect.first_choice, "share of forced tokens that were its likeliest", is_share=True),
    )
    columns[2].metric(
        "p of forced tokens",
        UNKNOWN if effect.p_forced is None else number(effect.p_forced.value),
        help=_range(effect.p_forced, "geometric mean, before the LP", is_share=False),
    )
    columns[3].metric(
        "Mass removed at free tokens",
        UNKNOWN if effect.removed is None else percent(effect.removed.value),
        help=_range(effect.removed, "mean over free tokens", is_share=True),
    )


def _range(figure: Interval | None, what: str, *, is_share: bool) -> str:
    if figure is None:
        return f"{what}: no such token"
    return f"{what}: {with_interval(figure, percent if is_share else number)} (95 % interval)"


def _places(effect: RunEffect) -> None:
    config = st.column_config
    left, right = st.columns(2, gap="large")
    if effect.forced_places:
        left.dataframe(
            [
                {
                    "where": place.name,
                    "tokens": place.tokens,
                    "own": 100 * place.first_choice.value,
                    "p": place.p_forced.value,
                }
                for place in effect.forced_places
            ],
            hide_index=True,
            height=_height(len(effect.forced_places)),
            column_config={
                "where": config.TextColumn("forced …"),
                "tokens": config.NumberColumn("tokens", width=70),
                "own": config.ProgressColumn(
                    "model's own choice", format="%.1f %%", min_value=0, max_value=100, color="blue"
                ),
                "p": config.NumberColumn("mean p", width=70, format="%.3f", help="Geometric mean"),
            },
            alt="Forced tokens by place",
        )
    if effect.free_places:
        right.dataframe(
            [
                {"rule": place.name or "no rule", "tokens": place.tokens, "removed": 100 * place.removed.value}
                for place in effect.free_places
            ],
            hide_index=True,
            height=_height(len(effect.free_places)),
            column_config={
                "rule": config.TextColumn("free, under the rule …"),
                "tokens": config.NumberColumn("tokens", width=70),
                "removed": config.ProgressColumn(
                    "mass removed", format="%.1f %%", min_value=0, max_value=100, color="red"
                ),
            },
            alt="Free tokens by rule",
        )


def _height(rows: int) -> int:
    return 38 + 35 * min(rows, MOST_ROWS_SHOWN)


def _against_rmsd(effect: RunEffect, run: RunFacts) -> None:
    st.subheader("Against accuracy", anchor=False)
    points = [point for point in effect.points if point.rmsd_ang is not None]
    if not points:
        st.info(
            "No sample with steps has an RMSD against reference conformers: the run was generated without `--rmsd`, or"
            " no text decodes to a conformer.",
            icon=":material/straighten:",
        )
        return
    if len(points) < LEAST_POINTS:
        st.info(
            f"Only {len(points)} of {effect.samples} samples with steps have an RMSD: too few for a chart. The others"
            " do not decode to a conformer.",
            icon=":material/straighten:",
        )
        return
    left, right = st.columns(2, gap="large")
    for place, what, key in ((left, "surprise", "rmsd-surprise"), (right, "removed", "rmsd-removed")):
        with place:
            draw(
                figures.against_rmsd(points, effect, what),
                key=key,
                on_select=lambda key=key: _take(key, run),
                selection_mode="points",
            )
    st.caption("Each point is a sample; click one to open it under *Molecules*.")


def _take(key: str, run: RunFacts) -> None:
    """Open the clicked point's sample in the first section."""
    points = st.session_state[key]["selection"]["points"]
    if points and points[0].get("customdata"):
        sample_id = points[0]["customdata"]
        state.put_spot(Spot(run.run_id, int(sample_id[0] if isinstance(sample_id, list | tuple) else sample_id)))
        st.session_state["view"] = "Molecules"
