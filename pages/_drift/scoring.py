"""The Drift inspector scores a stored sample with a model: token probabilities, what it believes of each number, and
the cost of cuts.

These read the stored ids and generate nothing; the app's worker computes them. Scores stay in the visitor's session, by
sample, and name their model; beliefs are kept in the cache too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Literal, get_args

import streamlit as st

from engine.inspection.faults import faults
from engine.inspection.sample import BlockEstimate, Inspected, with_pieces
from engine.jobs.number_beliefs import open_numbers, request_of
from engine.jobs.scoring import estimate_cuts, models_for, question_of, score_sample
from engine.jobs.service import Work
from engine.models.registry import ModelEntry
from engine.questions.drift_belief import belief_tables
from engine.questions.question import Tables
from pages._kit.asked import Asked, asked, progress, show_error
from pages._kit.errors import escaped

Kind = Literal["steps", "costs", "beliefs"]
BELIEFS_HELP = "The law of x, y and z of each atom under exact, each given the numbers before it"
COSTS_HELP = "The model continues each cut block: digits lost, and how far the atom moved"


def _score(kind: Kind, inspection: Inspected) -> Asked:
    """A model's scores of one sample: steps by position, estimates by block, or beliefs."""
    return asked(kind, inspection.run.run_id, inspection.sample["sample_id"])


def steps_of(inspection: Inspected) -> tuple[Mapping[int, Mapping[str, Any]], str]:
    """The steps to show, and the model that they were computed with; "" for the run's own."""
    score = _score("steps", inspection)
    if score.result is None:
        return inspection.steps, ""
    return {pos: with_pieces(row, inspection.tokenizer) for pos, row in score.result.items()}, score.result_of


def estimates_of(inspection: Inspected) -> tuple[Mapping[int, BlockEstimate], str]:
    score = _score("costs", inspection)
    return (inspection.estimates, "") if score.result is None else (score.result, score.result_of)


def belief_tables_of(inspection: Inspected) -> Tables | None:
    """What the model believes of the numbers, where it was asked: the one chosen last in this session, or the run's."""
    if not inspection.can_score or inspection.is_of_codes or not models_for(inspection.run):
        return None
    request = request_of(inspection, _score("beliefs", inspection).result_of)
    cells = request.kept.read()
    return None if cells is None else belief_tables(inspection, request.entry, cells)


def show(inspection: Inspected, has_steps: bool) -> None:
    """Draw the form that scores this sample, or the progress of the job."""
    for kind in get_args(Kind):
        score = _score(kind, inspection)
        if score.job is not None:
            progress(score, kind)
            return
        show_error(score)
    if not inspection.can_score:
        return
    models = models_for(inspection.run)
    cut = [block["block"] for block in inspection.blocks if "cut" in faults(block)]
    if not models:
        st.caption(f"No registered model has the tokenizer {escaped(inspection.run.tokenizer)}.")
        return
    with st.container(horizontal=True, vertical_alignment="bottom", key="ask"):
        name = st.selectbox(
            "Score these tokens with a model",
            [entry.name for entry in models],
            key=f"ask-model-{inspection.run.run_id}",  # a run may be called as a button here: steps
            width=300,
            help="Any model with the same tokenizer. It scores the stored tokens and generates nothing.",
        )
        entry = next(entry for entry in models if entry.name == name)
        for kind, label, icon, about in _asks(inspection, has_steps, has_cuts=bool(cut)):
            st.button(
                label,
                icon=f":material/{icon}:",
                type="primary" if kind == "steps" and not has_steps else "secondary",
                key=f"ask-{kind}",
                help=about,
                on_click=_start,
                args=(kind, inspection, entry, cut),
            )


def _asks(inspection: Inspected, has_steps: bool, *, has_cuts: bool) -> Iterator[tuple[Kind, str, str, str | None]]:
    yield "steps", f"{'Recompute' if has_steps else 'Compute'} token probabilities", "psychology", None
    if not inspection.is_of_codes:
        yield "beliefs", "Show what it believes of each number", "area_chart", BELIEFS_HELP
    if has_cuts:
        yield "costs", "Estimate the cost of cuts", "content_cut", COSTS_HELP


def _start(kind: Kind, inspection: Inspected, entry: ModelEntry, cut: list[int]) -> None:
    def work() -> Work[Any]:
        if kind == "beliefs":
            return partial(open_numbers, request_of(inspection, entry.name))
        question = question_of(inspection, entry)
        return partial(score_sample, question) if kind == "steps" else partial(estimate_cuts, question, cut)

    _score(kind, inspection).submit(work, entry.name)
