"""The Drift inspector scores a stored sample with a model: token probabilities, and the cost of cuts.

Both read the stored ids and generate nothing; the app's worker computes them. Scores stay in the visitor's session, by
sample, and name their model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import streamlit as st

from engine.decode.plan import Plan
from engine.errors import DriftscopeError
from engine.inspection.faults import faults
from engine.inspection.runs import number_format
from engine.inspection.sample import BlockEstimate, Inspected, with_pieces
from engine.jobs.plan import ModelChoice
from engine.jobs.scoring import Question, costs_work, score_work
from engine.models.registry import ModelEntry, load_registry
from engine.models.tags import tokenizer_name, tokenizer_place
from pages._kit.asked import Asked, progress, submit
from pages._kit.errors import escaped

Kind = Literal["steps", "costs"]


@dataclass(slots=True)
class Score(Asked):
    """A model's scores of one sample: steps by position, or estimates by block."""

    kind: Kind = "steps"
    model: str = ""  # that was asked last
    result_model: str = ""

    def take(self, result: object) -> None:
        self.result_model = self.model


def _score(kind: Kind, inspection: Inspected) -> Score:
    scores: dict[object, Score] = st.session_state.setdefault("scores", {})
    return scores.setdefault((kind, inspection.run.run_id, inspection.sample["sample_id"]), Score(kind=kind))


def steps_of(inspection: Inspected) -> tuple[Mapping[int, Mapping[str, Any]], str]:
    """The steps to show, and the model that they were computed with; "" for the run's own."""
    score = _score("steps", inspection)
    if score.result is None:
        return inspection.steps, ""
    return {pos: with_pieces(row, inspection.tokenizer) for pos, row in score.result.items()}, score.result_model


def estimates_of(inspection: Inspected) -> tuple[Mapping[int, BlockEstimate], str]:
    score = _score("costs", inspection)
    return (inspection.estimates, "") if score.result is None else (score.result, score.result_model)


def show(inspection: Inspected, has_steps: bool) -> None:
    """Draw the form that scores this sample, or the progress of the job."""
    steps, costs = _score("steps", inspection), _score("costs", inspection)
    for score in (steps, costs):
        if score.job is not None:
            progress(score, score.kind, score.model, score.take)
            return
        if score.error:
            st.error(escaped(score.error), icon=":material/error:")
    if not inspection.can_score:
        return
    models = compatible(inspection)
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
        st.button(
            "Recompute token probabilities" if has_steps else "Compute token probabilities",
            icon=":material/psychology:",
            type="secondary" if has_steps else "primary",
            key="ask-steps",
            on_click=_start,
            args=(steps, inspection, entry, cut),
        )
        if cut:
            st.button(
                "Estimate the cost of cuts",
                icon=":material/content_cut:",
                key="ask-costs",
                help="The model continues each cut block: digits lost, and how far the atom moved",
                on_click=_start,
                args=(costs, inspection, entry, cut),
            )


def compatible(inspection: Inspected) -> list[ModelEntry]:
    """The run's own model first, and others with its tokenizer, which a run names by a short name or by its folder."""
    try:
        entries = load_registry().entries
    except DriftscopeError:
        return []
    run = inspection.run

    def has_tokenizer(entry: ModelEntry) -> bool:
        try:
            place = tokenizer_place(entry)
        except DriftscopeError:  # its tokenizer is gone
            return False
        return run.tokenizer in (tokenizer_name(entry), str(place), Path(place).name)

    matches = [entry for entry in entries if entry.name == run.model or has_tokenizer(entry)]
    return sorted(matches, key=lambda entry: entry.name != run.model)


def question_of(inspection: Inspected, entry: ModelEntry) -> Question:
    """The sample as it is stored, for a model of the registry."""
    run = inspection.run
    sample = inspection.sample
    tokenizer = inspection.tokenizer
    return Question(
        model=ModelChoice(alias=entry.alias, step=entry.step),
        tokenizer=tokenizer.name if tokenizer is not None else run.tokenizer,
        smiles=inspection.molecule.smiles,
        plan=Plan(
            run.lp_record.name,
            run.placeholder,
            number_format(run),
            descriptors=run.descriptors,
            bos=not run.is_former,
            conformers=run.conformers_per_answer or 1,
            examples=inspection.examples,
            limit=max(1, len(sample["token_ids"])),
        ),
        token_ids=sample["token_ids"],
        forced=sample["forced"],
        sample_id=sample["sample_id"],
    )


def _start(score: Score, inspection: Inspected, entry: ModelEntry, cut: list[int]) -> None:
    question = question_of(inspection, entry)
    score.model = entry.name
    submit(score, lambda: score_work(question) if score.kind == "steps" else costs_work(question, cut))
