"""The Drift inspector asks a model about a stored sample: what it thought at each token, and what the cuts cost.

Both read the ids that are stored and write nothing; the work is the worker's. Answers stay with the visitor, by sample,
and say whose they are. A stored answer that the run itself kept always comes first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import streamlit as st

from engine.errors import DriftscopeError
from engine.inspection.estimates import BlockEstimate
from engine.inspection.sample import Inspected
from engine.inspection.tools import number_format
from engine.live.asking import Question, costs_work, score_work
from engine.models.registry import OWN_TOKENIZER, ModelEntry, load_registry
from engine.runner.plan import ModelChoice
from engine.service import Job, service
from engine.text.blocks import LP_NAMES
from pages._shared.drift.words import faults
from pages._shared.errors import escape_markdown
from pages._shared.visitor import presence, visitor

What = Literal["steps", "costs"]
WHATS: tuple[What, ...] = get_args(What)
Key = tuple[What, str, int]
TICK_S = 0.25
_JOBS, _ANSWERS, _COMPLAINTS = "questions under way", "answers of models", "questions that failed"


@dataclass(frozen=True, slots=True)
class Pending:
    job: Job[Any]
    model: str


@dataclass(frozen=True, slots=True)
class Answer:
    """``found`` has rows of steps by position, or estimates by block."""

    model: str
    found: Mapping[int, Any]


def steps_of(one: Inspected) -> tuple[Mapping[int, Mapping[str, Any]], str]:
    """The steps to show, and of which model they were asked; empty where the run kept them itself."""
    answer = _answers().get(_key("steps", one))
    return (answer.found, answer.model) if answer is not None else (one.steps, "")


def estimates_of(one: Inspected) -> tuple[Mapping[int, BlockEstimate], str]:
    answer = _answers().get(_key("costs", one))
    return (answer.found, answer.model) if answer is not None else (one.estimates, "")


def offer(one: Inspected, has_steps: bool) -> None:
    """Draw what may be asked of a model, or how far it is with that."""
    for what in WHATS:
        key = _key(what, one)
        if key in _jobs():
            _watch(key)
            return
        if complaint := st.session_state.setdefault(_COMPLAINTS, {}).get(key):
            st.error(escape_markdown(complaint), icon=":material/error:")
    if one.can_score:
        _form(one, has_steps)


def _form(one: Inspected, has_steps: bool) -> None:
    models = compatible(one)
    cut = [block["block"] for block in one.blocks if "cut" in faults(block)]
    if not models:
        st.caption(f"No model with the tokenizer {escape_markdown(one.run.tokenizer)} is registered here to be asked.")
        return
    with st.container(horizontal=True, vertical_alignment="bottom", key="ask"):
        name = st.selectbox(
            "Ask a model about these very tokens",
            [entry.name for entry in models],
            key=f"ask-{one.run.run_id}",
            width=300,
            help="Any model with the same tokenizer. It reads the text as it stands and writes nothing.",
        )
        entry = next(entry for entry in models if entry.name == name)
        st.button(
            "Ask anew what it thinks at each token" if has_steps else "Ask what it thinks at each token",
            icon=":material/psychology:",
            type="secondary" if has_steps else "primary",
            key="ask-steps",
            on_click=_ask,
            args=("steps", one, entry, cut),
        )
        if cut:
            st.button(
                "Estimate what the cuts cost",
                icon=":material/content_cut:",
                key="ask-costs",
                help="The model goes on where each block was cut: digits lost, and how far the atom moved",
                on_click=_ask,
                args=("costs", one, entry, cut),
            )


def compatible(one: Inspected) -> list[ModelEntry]:
    """Models with the run's tokenizer, that which wrote it first."""
    try:
        entries = load_registry().entries
    except DriftscopeError:
        return []
    able = [entry for entry in entries if _tokenizer_of(entry) == one.run.tokenizer]
    return sorted(able, key=lambda entry: entry.name != one.run.model)


def _tokenizer_of(entry: ModelEntry) -> str:
    if entry.tokenizer == OWN_TOKENIZER and entry.folder is not None:
        return entry.folder.name
    return Path(entry.tokenizer).name


def _ask(what: What, one: Inspected, entry: ModelEntry, cut: list[int]) -> None:
    key = _key(what, one)
    st.session_state.setdefault(_COMPLAINTS, {}).pop(key, None)
    question = question_of(one, entry)
    work = score_work(question) if what == "steps" else costs_work(question, cut)
    label = f"{entry.name} about sample {one.sample['sample_id']}"
    try:
        job = service().submit(visitor(), work, label=label, is_there=presence())
    except DriftscopeError as error:
        st.session_state[_COMPLAINTS][key] = str(error)
        return
    _jobs()[key] = Pending(job, entry.name)


def question_of(one: Inspected, entry: ModelEntry) -> Question:
    """The sample as it stands, for a model of the registry."""
    forced = one.sample["forced"]
    lp = one.run.constraint
    return Question(
        model=ModelChoice(alias=entry.alias, step=entry.step),
        tokenizer=one.tokenizer.name if one.tokenizer is not None else one.run.tokenizer,
        smiles=one.molecule.smiles,
        lp=lp if lp in LP_NAMES else "none",
        placeholder=one.run.placeholder,
        form=number_format(one.run),
        token_ids=tuple(one.sample["token_ids"]),
        forced=None if forced is None else tuple(forced),
        sample_id=one.sample["sample_id"],
    )


@st.fragment(run_every=TICK_S)
def _watch(key: Key) -> None:
    pending = _jobs().get(key)
    if pending is None:
        return
    seen = pending.job.poll()
    if seen.ended:
        del _jobs()[key]
        if seen.state == "done" and seen.events:
            _answers()[key] = Answer(pending.model, _found(key[0], seen.events[0]))
        elif seen.state == "failed":
            st.session_state[_COMPLAINTS][key] = seen.error
        elif seen.progress.note:
            st.session_state[_COMPLAINTS][key] = f"It was stopped: {seen.progress.note}."
        st.rerun()
    with st.container(horizontal=True, vertical_alignment="center", border=True, key="asking"):
        st.markdown(f":material/hourglass_top: {escape_markdown(_progress(pending.model, seen))}")
        st.button("Cancel", icon=":material/close:", key="ask-cancel", on_click=_cancel, args=(key,))


def _progress(model: str, seen: Any) -> str:
    if seen.state == "queued":
        ahead = f"{seen.ahead} before it in the queue" if seen.ahead else "next in the queue"
        return f"{model}: {ahead}"
    return f"{model}: {seen.progress.note or 'at work'} · {seen.elapsed_s:.0f} s"


def _cancel(key: Key) -> None:
    pending = _jobs().pop(key, None)
    if pending is not None:
        pending.job.cancel()


def _found(what: What, event: Any) -> Mapping[int, Any]:
    if what == "steps":
        return {row["pos"]: row for row in event.rows}
    return {
        block: BlockEstimate(one.text, one.needed, one.digits_lost, one.displacement_ang)
        for block, one in event.by_block.items()
        if one is not None
    }


def _key(what: What, one: Inspected) -> Key:
    return (what, one.run.run_id, one.sample["sample_id"])


def _jobs() -> dict[Key, Pending]:
    found: dict[Key, Pending] = st.session_state.setdefault(_JOBS, {})
    return found


def _answers() -> dict[Key, Answer]:
    found: dict[Key, Answer] = st.session_state.setdefault(_ANSWERS, {})
    return found
