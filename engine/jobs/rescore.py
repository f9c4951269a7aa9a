"""A model scores a stored sample: token probabilities per step, and the cost of cut blocks.

Both score the stored ids, teacher-forced, and sample nothing, so any model with the run's tokenizer can do it. A page
submits the work to the service. What this module does not know: the store. A stored run never changes, so the caller
keeps the results.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine.chem.smiles import parse_written
from engine.decode.plan import Plan
from engine.errors import ModelError
from engine.inspection.sample import BlockEstimate
from engine.jobs.job import Control, Work
from engine.jobs.plan import ModelChoice
from engine.records import Descriptors, NumberFormat
from engine.store.sample_rows import step_rows

if TYPE_CHECKING:
    from engine.decode.generation import Generation

CANDIDATES = 10


@dataclass(frozen=True, slots=True)
class Question:
    """A stored sample, the LP that it was written under, and the model that scores it."""

    model: ModelChoice
    tokenizer: str  # the run's
    smiles: str
    lp: str
    placeholder: str
    form: NumberFormat
    token_ids: tuple[int, ...]
    forced: tuple[bool, ...] | None
    sample_id: int = 0
    descriptors: Descriptors = "plain"
    bos: bool = True


def score_work(question: Question) -> Work[dict[int, dict[str, Any]]]:
    """For ``Service.submit``; one event: rows of the table ``steps`` by position."""
    return lambda control: _scored(question, control)


def costs_work(question: Question, blocks: Collection[int]) -> Work[dict[int, BlockEstimate]]:
    """For ``Service.submit``; one event: how the model would have continued those of the blocks that can be continued.
    ``blocks`` are those that were cut."""
    return lambda control: _costs(question, blocks, control)


def _scored(question: Question, control: Control) -> Iterator[dict[int, dict[str, Any]]]:
    from engine.decode.body import Body
    from engine.decode.scoring import score

    generation = _generation(question, control)
    loaded = generation.loaded
    control.progress(0, note="scoring the sample")
    (scored,) = score(
        Body(loaded.model, loaded.positions),
        generation.constraint,
        [generation.stored(0, question.token_ids)],
        loaded.tokenizer.vocab_size,
        candidates=CANDIDATES,
        between=control.cancelled,
    )
    forced = question.forced or (False,) * len(question.token_ids)
    aligned = generation.reader.aligned(generation.molecules[0], question.token_ids, forced, {})
    yield {row["pos"]: row for row in step_rows(question.sample_id, aligned.rows, scored.diagnoses)}


def _costs(question: Question, blocks: Collection[int], control: Control) -> Iterator[dict[int, BlockEstimate]]:
    from engine.decode.continuation import continue_blocks, cuts_of
    from engine.decode.fast import FastBackend
    from engine.lp.constraint import end_of
    from engine.lp.exact import ExactConstraint

    generation = _generation(question, control)
    loaded = generation.loaded
    control.progress(0, note="continuing the cut blocks")
    stored = generation.stored(0, question.token_ids)
    cuts = cuts_of(generation.constraint, generation.molecules[0], stored, blocks)
    exact = ExactConstraint(loaded.tokenizer, question.form, loaded.vocab_rows)
    backend = FastBackend(loaded.model, exact, end_of(loaded.tokenizer), loaded.tokenizer.vocab_size)
    continuations = continue_blocks(backend, exact, loaded.tokenizer, cuts)
    yield {
        cut.block: BlockEstimate(found.text, found.needed, found.digits_lost, found.displacement_ang)
        for cut, found in zip(cuts, continuations, strict=True)
        if found is not None
    }


def _generation(question: Question, control: Control) -> Generation:
    """The LP's constraint, the prompt and the program as they were; nothing is generated."""
    from engine.decode.generation import Generation

    choice = question.model
    control.progress(0, note=f"loading {choice.alias or choice.folder}")
    loaded = control.models.get(choice.entry(), choice.device, choice.dtype)
    if question.tokenizer and loaded.tokenizer.name != question.tokenizer:
        raise ModelError(
            f"the sample was written with the tokenizer {question.tokenizer}, but {loaded.entry.name} has "
            f"{loaded.tokenizer.name}",
            "Choose a model with the same tokenizer",
        )
    plan = Plan(question.lp, question.placeholder, question.form, descriptors=question.descriptors, bos=question.bos)
    return Generation(loaded, [parse_written(question.smiles)], plan)
