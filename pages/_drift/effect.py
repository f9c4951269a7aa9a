"""The Drift inspector's third section: does forcing overrule the model, and where.

A sentence with its uncertainty, the cost as one number, then figures: along the answers, by place, and against RMSD.
"""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from engine.figures.words import UNKNOWN, counted, number, percent, with_interval
from engine.inspection.effect import RunEffect, effect_of_run
from engine.inspection.effect_words import plain_words, sentence_of
from engine.inspection.runs import RunFacts
from engine.store.store import Store
from pages._drift import effect_figures as figures
from pages._drift import lp_cost, state
from pages._drift.runs import choose_one
from pages._drift.state import Spot
from pages._shared.charts.card import draw
from pages._shared.errors import escape_markdown
from pages._shared.rows import table_height
from pages._shared.sections import in_detail
from pages._shared.words import unbroken

MOST_ROWS_SHOWN = 5
PLACES_PX = 490
LEAST_POINTS = 3
"""Samples with an RMSD that a chart needs."""
_NO_STEPS = """
This run stored no token probabilities, so the effect of its LP on the model is unknown. Three ways to get it:

- Generate the run again with steps: `.venv/bin/python -m engine run ... --keep-steps 16 --rmsd`
- Score what is stored, in one pass of the model: `.venv/bin/python -m engine cost-of-lp RUN`
- Open one of its molecules and press *Compute token probabilities*: the strip then shows p, rank and mass.
"""
_NO_RMSD = (
    "No sample with steps has an RMSD against reference conformers: the run was generated without `--rmsd`, or no text"
    " can be read as a conformer."
)
_GUARDED = (
    "Only tokens that were kept count here. How the blocks that the guard threw away shift the model's distribution is"
    " estimated by `run --weigh`, as the `log_weight` of each sample."
)


def show(store: Store, runs: Sequence[RunFacts]) -> None:
    run = choose_one(runs)
    with st.spinner("Reading steps …"):
        effect = effect_of_run(store, run)
    if not effect.samples:
        st.info(_NO_STEPS, icon=":material/visibility_off:", title="No steps stored")
        return
    with st.container(border=True, key="effect-sentence"):
        st.markdown(unbroken(f"**Does forcing overrule the model?** {escape_markdown(plain_words(effect))}"))
        in_detail().markdown(unbroken(escape_markdown(sentence_of(effect))))
    _metrics(effect)
    lp_cost.show(store, run)
    st.subheader("Along the answer", anchor=False)
    for column, of_forced in zip(st.columns(2, gap="large"), (True, False), strict=True):
        with column:
            draw(figures.along(effect, of_forced=of_forced))
    _places(effect)
    _against_rmsd(store, effect, run)
    st.caption(
        "From the stored steps: probabilities before any sampling filter, given the text so far. At a forced token only"
        " one token was legal; at a free token the LP may still have blocked others. How the text would have continued"
        " without the LP is not known."
    )
    if run.lp_record.is_guarded:
        st.caption(_GUARDED)


def _metrics(effect: RunEffect) -> None:
    row = st.container(horizontal=True)
    row.metric("Samples with steps", f"{effect.samples:,}", width="content")
    for label, figure, form, about in zip(
        ("Model's own choice", "p of forced tokens", "Mass removed"),
        (effect.first_choice, effect.p_forced, effect.removed),
        (percent, number, percent),
        ("share of forced tokens that were its likeliest", "geometric mean, before the LP", "mean over free tokens"),
        strict=True,
    ):
        within = "no such token" if figure is None else f"{with_interval(figure, form)} (95 % interval)"
        value = UNKNOWN if figure is None else form(figure.value)
        row.metric(label, value, help=f"{about}: {within}", width="content")


def _places(effect: RunEffect) -> None:
    config = st.column_config
    forced = [
        {
            "where": place.name,
            "tokens": place.tokens,
            "share": 100 * place.first_choice.value,
            "p": place.p_forced.value,
        }
        for place in effect.forced_places
    ]
    free = [
        {"where": place.name or "no rule", "tokens": place.tokens, "share": 100 * place.removed.value}
        for place in effect.free_places
    ]
    row = st.container(horizontal=True, gap="large")  # one below the other on narrow screens
    for rows, where, where_px, share, colour, alt in zip(
        (forced, free),
        ("forced …", "free, under the rule …"),
        (180, 300),
        ("model's own choice", "mass removed"),
        ("blue", "red"),
        ("Forced tokens by place", "Free tokens by rule"),
        strict=True,
    ):
        if rows:
            row.dataframe(
                rows,
                width=PLACES_PX,
                hide_index=True,
                height=table_height(min(len(rows), MOST_ROWS_SHOWN)),
                column_config={
                    "where": config.TextColumn(where, width=where_px),
                    "tokens": config.NumberColumn("tokens", width=62),
                    "share": config.ProgressColumn(
                        share, width=120, format="%.1f %%", min_value=0, max_value=100, color=colour
                    ),
                    "p": config.NumberColumn("mean p", width=70, format="%.3f", help="Geometric mean"),
                },
                alt=alt,
            )


def _against_rmsd(store: Store, effect: RunEffect, run: RunFacts) -> None:
    st.subheader("Against accuracy", anchor=False)
    points = [point for point in effect.points if point.rmsd_ang is not None]
    if len(points) < LEAST_POINTS:
        st.info(too_few(len(points), effect.samples) if points else _NO_RMSD, icon=":material/straighten:")
        return
    for column, what in zip(st.columns(2, gap="large"), ("surprise", "removed"), strict=True):
        with column:
            draw(
                figures.against_rmsd(points, effect, what),
                key=f"rmsd-{what}",
                on_select=lambda key=f"rmsd-{what}": _take(key, run),
                selection_mode="points",
            )
    against = run.rmsd_to or "references that the run does not name"
    st.caption(
        f"Each point is a sample; click one to open it under *Molecules*. RMSD is to the nearest of"
        f" {escape_markdown(against)}."
    )


def too_few(known: int, samples: int) -> str:
    others = "" if known == samples else " The others cannot be read as a conformer."
    return f"An RMSD is known for {known} of {counted(samples, 'sample')} with steps: too few for a chart.{others}"


def _take(key: str, run: RunFacts) -> None:
    points = st.session_state[key]["selection"]["points"]
    if points and points[0].get("customdata"):
        sample_id = points[0]["customdata"]
        state.put_spot(Spot(run.run_id, int(sample_id[0] if isinstance(sample_id, list | tuple) else sample_id)))
        st.session_state["view"] = "Molecules"
