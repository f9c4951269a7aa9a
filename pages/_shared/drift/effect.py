"""The Drift inspector's third section: does forcing push the model off its own choice, and where.

A sentence with its uncertainty, then the figures that it rests on: along the answers, by place, and against RMSD.
"""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from engine.inspection.effect import RunEffect, effect_of_run
from engine.inspection.effect_words import number as figure_words
from engine.inspection.effect_words import percent
from engine.inspection.runs import RunFacts
from engine.inspection.statistics import Interval
from engine.store.store import Store
from pages._shared.drift import effect_figures as figures
from pages._shared.drift import state
from pages._shared.drift.runs import one_of
from pages._shared.drift.state import Spot
from pages._shared.errors import escape_markdown

MOST_ROWS_SHOWN = 5
LEAST_POINTS = 3
"""Samples with an RMSD that a chart needs."""
_NO_STEPS = """
What the model thought at each token was not kept with this run, so what its LP did to the model cannot be told for all
of it. Two ways to it:

- Write it again with its steps: `.venv/bin/python -m engine run ... --keep-steps 16 --rmsd`
- Open one of its molecules and press *Ask what it thinks at each token*: the strip then shows p, rank and mass for it.
"""


def show(store: Store, runs: Sequence[RunFacts]) -> None:
    """Draw the section for one of the chosen runs."""
    run = one_of(runs)
    with st.spinner("Reading steps …"):
        effect = effect_of_run(store, run.run_id)
    if not effect.samples:
        st.info(_NO_STEPS, icon=":material/visibility_off:", title="No steps were kept")
        return
    with st.container(border=True, key="effect-sentence"):
        st.markdown(f"**Does forcing push the model off its own choice?** {escape_markdown(effect.sentence)}")
    _metrics(effect)
    _along(effect)
    _places(effect)
    _against_rmsd(effect, run)
    st.caption(
        "From the steps that the run kept, before any sampling filter, behind the text as it stands. A forced token"
        " left no choice; at a free one the LP may still have blocked some. What was not tried cannot be seen here:"
        " how the text would have gone on without the LP."
    )


def _metrics(effect: RunEffect) -> None:
    columns = st.columns(4)
    columns[0].metric("Samples with steps", f"{effect.samples:,}")
    columns[1].metric(
        "Forced: the model's own choice",
        "–" if effect.first_choice is None else f"{effect.first_choice.value:.1%}",
        help=_range(effect.first_choice, "share of forced tokens that were its likeliest", is_share=True),
    )
    columns[2].metric(
        "p of what was forced",
        "–" if effect.p_forced is None else f"{effect.p_forced.value:.3f}",
        help=_range(effect.p_forced, "geometric mean, before the LP", is_share=False),
    )
    columns[3].metric(
        "Mass taken at free tokens",
        "–" if effect.removed is None else f"{effect.removed.value:.1%}",
        help=_range(effect.removed, "mean over free tokens", is_share=True),
    )


def _range(figure: Interval | None, what: str, *, is_share: bool) -> str:
    if figure is None:
        return f"{what}: there is no such token"
    words = percent if is_share else figure_words
    return f"{what}: {words(figure)} (95 % interval)"


def _along(effect: RunEffect) -> None:
    st.subheader("Along the answer", anchor=False)
    left, right = st.columns(2, gap="large")
    with left:
        st.plotly_chart(
            figures.surprise_along(effect), theme=None, config=_QUIET, alt=figures.words_along(effect, of_forced=True)
        )
    with right:
        st.plotly_chart(
            figures.removed_along(effect), theme=None, config=_QUIET, alt=figures.words_along(effect, of_forced=False)
        )


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
                {"rule": place.name or "no rule", "tokens": place.tokens, "taken": 100 * place.removed.value}
                for place in effect.free_places
            ],
            hide_index=True,
            height=_height(len(effect.free_places)),
            column_config={
                "rule": config.TextColumn("free, under the rule …"),
                "tokens": config.NumberColumn("tokens", width=70),
                "taken": config.ProgressColumn("mass taken", format="%.1f %%", min_value=0, max_value=100, color="red"),
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
            "RMSD against reference conformers is not known of any sample with steps: the run was written without"
            " `--rmsd`, or none of these texts decodes to a conformer.",
            icon=":material/straighten:",
        )
        return
    if len(points) < LEAST_POINTS:
        st.info(
            f"Of {effect.samples} samples with steps only {len(points)} decode to a conformer whose RMSD is known: too"
            " few to draw against anything. The others are broken in a way that has no RMSD.",
            icon=":material/straighten:",
        )
        return
    left, right = st.columns(2, gap="large")
    for place, what, key in ((left, "surprise", "rmsd-surprise"), (right, "removed", "rmsd-removed")):
        with place:
            st.plotly_chart(
                figures.against_rmsd(points, effect, what),
                theme=None,
                config=_QUIET,
                key=key,
                on_select=lambda key=key: _take(key, run),
                selection_mode="points",
                alt=figures.words_against_rmsd(effect, what),
            )
    st.caption("A point is a sample; click one to open it under *Molecules*.")


def _take(key: str, run: RunFacts) -> None:
    """A point opens its sample in the first section."""
    points = st.session_state[key]["selection"]["points"]
    if points and points[0].get("customdata"):
        sample_id = points[0]["customdata"]
        state.put_spot(Spot(run.run_id, int(sample_id[0] if isinstance(sample_id, list | tuple) else sample_id)))
        st.session_state["view"] = "Molecules"


_QUIET = {"displayModeBar": False}
