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
from engine.figures.queue_words import waiting_words
from engine.figures.words import fixed
from engine.inspection.faults import faults
from engine.inspection.runs import number_format
from engine.inspection.sample import BlockEstimate, Inspected, with_pieces
from engine.jobs.plan import ModelChoice
from engine.jobs.scoring import Question, costs_work, score_work
from engine.jobs.service import Job, service
from engine.models.registry import ModelEntry, load_registry
from engine.models.tags import tokenizer_name, tokenizer_place
from pages._kit.errors import escaped
from pages._kit.visitor import presence, visitor

Kind = Literal["steps", "costs"]
TICK_S = 0.25


@dataclass(slots=True)
class Score:
    """A model's scores of one sample, or its job or error. ``rows``: steps by position, or estimates by block."""

    kind: Kind
    model: str = ""
    job: Job[Any] | None = None
    rows: Mapping[int, Any] | None = None
    rows_model: str = ""  # of ``rows``, which stay while another model runs
    error: str = ""


def _score(kind: Kind, inspection: Inspected) -> Score:
    scores: dict[object, Score] = st.session_state.setdefault("scores", {})
    return scores.setdefault((kind, inspection.run.run_id, inspection.sample["sample_id"]), Score(kind))


def steps_of(inspection: Inspected) -> tuple[Mapping[int, Mapping[str, Any]], str]:
    """The steps to show, and the model that they were computed with; "" for the run's own."""
    score = _score("steps", inspection)
    if score.rows is None:
        return inspection.steps, ""
    return {pos: with_pieces(row, inspection.tokenizer) for pos, row in score.rows.items()}, score.rows_model


def estimates_of(inspection: Inspected) -> tuple[Mapping[int, BlockEstimate], str]:
    score = _score("costs", inspection)
    return (inspection.estimates, "") if score.rows is None else (score.rows, score.rows_model)


def show(inspection: Inspected, has_steps: bool) -> None:
    """Draw the form that scores this sample, or the progress of the job."""
    steps, costs = _score("steps", inspection), _score("costs", inspection)
    for score in (steps, costs):
        if score.job is not None:
            _progress(score)
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
    work = score_work(question) if score.kind == "steps" else costs_work(question, cut)
    score.model, score.error = entry.name, ""
    try:
        score.job = service().submit(visitor(), work, is_there=presence())
    except DriftscopeError as error:
        score.error = str(error)


@st.fragment(run_every=TICK_S)
def _progress(score: Score) -> None:
    if score.job is None:
        return
    seen = score.job.poll()
    if seen.has_ended:
        if seen.state == "done":
            score.rows, score.rows_model = score.job.result, score.model
        elif seen.state == "failed":
            score.error = seen.error
        elif seen.note:
            score.error = f"Stopped: {seen.note}."
        score.job = None
        st.rerun()
    if seen.state == "waiting":
        words = waiting_words(seen.ahead)
    else:
        words = f"{seen.note or 'running'} · {fixed(seen.elapsed_s, 0)} s"
    with st.container(horizontal=True, vertical_alignment="center", border=True, key="asking"):
        st.markdown(escaped(f"{score.model}: {words}"))
        st.button("Stop", icon=":material/stop:", key="ask-stop", on_click=_stop, args=(score,))


def _stop(score: Score) -> None:
    if score.job is not None:
        score.job.stop()
        score.job = None
