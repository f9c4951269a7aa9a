"""What a model says of an answer that is stored: what it thought at each step, and what a cut cost.

Both read the stored ids, teacher-forced, and sample nothing anew, so any model with the tokenizer of the run may be
asked, also another one than that which wrote them. A page hands the work to the service. What this module does not
know: the store; a stored run never changes, so what is asked here is kept by whoever asked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine.chem.smiles import parse_smiles
from engine.decode.plan import Plan
from engine.errors import ModelError
from engine.records import NumberFormat
from engine.runner.plan import ModelChoice
from engine.service.jobs import Control, Work
from engine.store.sample_rows import step_rows

if TYPE_CHECKING:
    from engine.decode.continuation import Continuation
    from engine.decode.generation import Generation
    from engine.decode.scoring import Stored

CANDIDATES = 10


@dataclass(frozen=True, slots=True)
class Question:
    """A stored answer, the LP that it was written under, and the model that is asked."""

    model: ModelChoice
    tokenizer: str  # the run's
    smiles: str
    lp: str
    placeholder: str
    form: NumberFormat
    token_ids: tuple[int, ...]
    forced: tuple[bool, ...] | None
    sample_id: int = 0


@dataclass(frozen=True, slots=True)
class Thought:
    """Rows as the table ``steps`` has them, one a token."""

    rows: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Costs:
    """By block: how the model would have ended it, an estimate; None where there is nothing to go on with."""

    by_block: dict[int, Continuation | None]


def score_work(question: Question) -> Work[Thought]:
    """For ``Service.submit``; one event."""
    return lambda control: _scored(question, control)


def costs_work(question: Question, blocks: Collection[int]) -> Work[Costs]:
    """For ``Service.submit``; one event. ``blocks`` are those that were cut."""
    return lambda control: _costs(question, blocks, control)


def _scored(question: Question, control: Control) -> Iterator[Thought]:
    from engine.decode.body import Body
    from engine.decode.scoring import score

    generation = _generation(question, control)
    loaded = generation.loaded
    control.progress(0, note="reading the answer")
    (diagnoses,) = score(
        Body(loaded.model, loaded.positions),
        generation.constraint,
        [_stored(question, generation)],
        loaded.tokenizer.vocab_size,
        candidates=CANDIDATES,
    )
    forced = question.forced or (False,) * len(question.token_ids)
    aligned = generation.reader.aligned(generation.molecules[0], question.token_ids, forced, {})
    yield Thought(tuple(step_rows(question.sample_id, aligned.rows, diagnoses)))


def _costs(question: Question, blocks: Collection[int], control: Control) -> Iterator[Costs]:
    from engine.decode.continuation import continue_blocks, cuts_of
    from engine.decode.fast import FastBackend
    from engine.decode.generation import make_backend
    from engine.lp.exact import ExactConstraint

    generation = _generation(question, control)
    loaded = generation.loaded
    control.progress(0, note="going on with what was cut")
    cuts = cuts_of(generation.constraint, generation.molecules[0], _stored(question, generation), blocks)
    exact = ExactConstraint(loaded.tokenizer, question.form, loaded.vocab_rows)
    backend = make_backend(loaded, exact, "fast")
    assert isinstance(backend, FastBackend)  # for the type checker
    found = continue_blocks(backend, exact, loaded.tokenizer, cuts)
    yield Costs({cut.block: continuation for cut, continuation in zip(cuts, found, strict=True)})


def _generation(question: Question, control: Control) -> Generation:
    """Nothing is generated: it has the LP's constraint, the prompt and the program as they were."""
    from engine.decode.generation import Generation

    choice = question.model
    control.progress(0, note=f"loading {choice.alias or choice.folder}")
    loaded = control.models.get(choice.entry(), choice.device, choice.dtype)
    if question.tokenizer and loaded.tokenizer.name != question.tokenizer:
        raise ModelError(
            f"the answer was written with the tokenizer {question.tokenizer}, and {loaded.entry.name} has "
            f"{loaded.tokenizer.name}",
            "Ask a model with the same tokenizer",
        )
    plan = Plan(lp=question.lp, placeholder=question.placeholder, form=question.form)
    return Generation(loaded, [parse_smiles(question.smiles)], plan)


def _stored(question: Question, generation: Generation) -> Stored:
    from engine.decode.scoring import Stored

    request = generation.requests[0]
    return Stored(request.prompt, question.token_ids, request.program, question.forced)
