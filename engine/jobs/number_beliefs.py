"""Computes what a model believes of numbers, and keeps it: of one stored sample, and of held-out reference texts.

The reference texts have one conformer by ETKDG of each held-out molecule, in the frame that the demo models were
trained in. A checkpoint that was trained in another frame needs texts of its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.chem.conformers import reference_conformers
from engine.chem.enriched import CLOSE_TAG, OPEN_TAG, SMILES_TAGS, enriched_text, format_number
from engine.chem.molecule_sets import load_run_set
from engine.chem.smiles import parse_written
from engine.chem.text_frame import UNITS_PER_ANG, anchors_of, text_frame
from engine.decode.plan import Plan
from engine.errors import EmbedError, ModelError, RunError
from engine.inspection.kept_tables import keep_table, kept_path, kept_table, weights_of
from engine.inspection.number_beliefs import NumberBelief, beliefs_of, written_places
from engine.inspection.sample import Inspected
from engine.jobs.scoring import Question, generation_of, generation_with, models_for, question_of
from engine.jobs.service import Job, Work
from engine.lp.numbers import AXES
from engine.models.registry import ModelEntry
from engine.records import BinFormat, Molecule, NumberFormat

if TYPE_CHECKING:
    from engine.decode.generation import Generation
    from engine.models.loading import LoadedModel

VERSION = 2
MOLECULES, DECIMALS, AT_ONCE = 100, 2, 4
"""Held-out molecules that are asked, decimals of the cells, and texts that are opened together."""
SEED = 0
COVERAGE = "belief-coverage"
COVERAGE_SCHEMA = pa.schema(
    {"molecule": pa.int64(), "axis": pa.int64(), "level": pa.float64(), "reach": pa.float64(), "source": pa.string()}
)
HELD_OUT = "held-out molecules, one conformer by ETKDG each"


@dataclass(frozen=True, slots=True)
class BeliefRequest:
    """A stored sample, under exact, and the model that is asked about it."""

    question: Question
    entry: ModelEntry
    decimals: int = DECIMALS

    def kept(self) -> list[NumberBelief] | None:
        """What was computed before."""
        table = kept_table("beliefs", self._key)
        return None if table is None else [NumberBelief(**row) for row in table.to_pylist()]

    def compute(self, generation: Generation, between: Callable[[], object] = lambda: None) -> list[NumberBelief]:
        from engine.decode.number_laws import allowed_answers, number_laws
        from engine.decode.scoring import reader_of

        loaded, stored = generation.loaded, [generation.stored(0, self.question.token_ids)]
        constraint, form = generation.constraint, generation.form
        (laws,) = number_laws(reader_of(loaded), constraint, stored, decimals=self.decimals, between=between)
        (ids,) = allowed_answers(constraint, stored)
        beliefs = beliefs_of(generation.molecules[0], laws, written_places(loaded.tokenizer, form, ids), form)
        keep_table(pa.Table.from_pylist(list(map(asdict, beliefs))), "beliefs", self._key)
        return beliefs

    @property
    def _key(self) -> list[Any]:
        question, plan = self.question, self.question.plan
        prompt = [plan.examples + question.smiles, plan.bos, plan.conformers, str(plan.form), str(plan.descriptors)]
        return [VERSION, weights_of(self.entry), prompt, list(question.token_ids), self.decimals]


def request_of(inspection: Inspected, model: str = "", decimals: int = DECIMALS) -> BeliefRequest:
    """``model``: its name; the run's own without one."""
    if not inspection.can_score:
        raise RunError("its token ids or its LP are not known, so no model can be asked", "Choose another sample")
    models = [entry for entry in models_for(inspection.run) if model in ("", entry.name)]
    if not models:
        raise ModelError(f"no registered model has the tokenizer {inspection.run.tokenizer}", "Add one: `models add`")
    question = question_of(inspection, models[0])
    plan = replace(question.plan, lp="exact", placeholder="", backend="auto")
    return BeliefRequest(replace(question, plan=plan), models[0], decimals)


def belief_work(request: BeliefRequest) -> Work[list[NumberBelief]]:
    def work(job: Job[list[NumberBelief]]) -> list[NumberBelief]:
        generation = generation_of(request.question, job)
        job.say("opening its numbers")
        return request.compute(generation, job.go_on)

    return work


def believe(request: BeliefRequest, device: str) -> list[NumberBelief]:
    from engine.models.loading import load_model

    return request.compute(generation_with(request.question, load_model(request.entry, device)))


# --- coverage ---------------------------------------------------------------------------------------------------------


def reference_text(molecule: Molecule, form: NumberFormat) -> str:
    """One conformer by ETKDG, in the frame of the demo models' training; ``molecule`` is described as the text is."""
    positions = reference_conformers(molecule, seed=SEED).GetConformer().GetPositions()
    units = np.rint(positions * UNITS_PER_ANG).astype(np.int64)
    placed = text_frame(units, np.array([len(units)]), np.array([anchors_of(molecule.mol)])) / UNITS_PER_ANG
    numbers = tuple((format_number(x, form), format_number(y, form), format_number(z, form)) for x, y, z in placed)
    return f"{OPEN_TAG}{enriched_text(molecule.smiles, molecule.descriptors, numbers, form)}{CLOSE_TAG}"


def prompted_texts(lines: Sequence[str]) -> list[tuple[str, str]]:
    """SMILES and answer of texts of the form that a model was trained on."""
    pairs = []
    for line in lines:
        prompt, tag, answer = line.partition(SMILES_TAGS[1])
        if tag and OPEN_TAG in answer and CLOSE_TAG in answer:
            smiles = prompt.rpartition(SMILES_TAGS[0])[2]
            pairs.append((smiles, answer[answer.index(OPEN_TAG) : answer.index(CLOSE_TAG) + len(CLOSE_TAG)]))
    if not pairs:
        raise ModelError("no text has a prompt and an answer", f"Give texts with {SMILES_TAGS[1]}{OPEN_TAG}")
    return pairs


def kept_coverage(entry: ModelEntry) -> pa.Table | None:
    """A row each number: molecule, axis, level and reach, as `NumberLaw` has them; and of which texts it is."""
    table = kept_table(COVERAGE, [VERSION, weights_of(entry)])
    return table if table is not None and table.num_rows and table.schema.equals(COVERAGE_SCHEMA) else None


def coverage_digest(entry: ModelEntry) -> str:
    """Of the weights, and of what is kept of them."""
    path = kept_path(COVERAGE, [VERSION, weights_of(entry)])
    return path.stem + hashlib.blake2b(path.read_bytes() if path.exists() else b"").hexdigest()


def cover(
    loaded: LoadedModel,
    texts: Sequence[tuple[str, str]] = (),
    source: str = HELD_OUT,
    progress: Callable[[int, int], None] = lambda done, texts: None,
) -> pa.Table:
    """``texts``: SMILES and answers in place of those of held-out molecules, from ``source``. ``ModelError`` where no
    number of them has a law: then what was kept before stays."""
    from engine.decode.generation import Generation
    from engine.decode.number_laws import allowed_answers, number_laws
    from engine.decode.scoring import reader_of

    smiles = [text[0] for text in texts] or load_run_set(MOLECULES)
    reader, generation = reader_of(loaded), Generation(loaded, [], Plan("exact"))
    rng, rows = np.random.default_rng(SEED), list[dict[str, Any]]()
    for first in range(0, len(smiles), AT_ONCE):
        part = generation.more(list(map(parse_written, smiles[first : first + AT_ONCE])))
        answers = dict(_answers(part, [text[1] for text in texts[first : first + AT_ONCE]]))
        stored = [part.stored(index, ids) for index, ids in answers.items()]
        laws = number_laws(reader, part.constraint, stored, decimals=DECIMALS) if stored else []
        allowed = allowed_answers(part.constraint, stored) if stored else []
        for index, by_block, ids in zip(answers, laws, allowed, strict=True):
            written = written_places(loaded.tokenizer, part.form, ids)
            true = _true_numbers(written, part.molecules[index], part.form, rng)
            for block, axis in np.argwhere(~np.isnan(true)).tolist():
                if axis < len(by_block.get(block, ())):
                    law, value = by_block[block][axis], float(true[block, axis])
                    row = {
                        "molecule": first + index,
                        "axis": axis,
                        "level": law.below(value),
                        "reach": law.reach(value),
                    }
                    rows.append({**row, "source": source})
        progress(min(first + AT_ONCE, len(smiles)), len(smiles))
    if not rows:
        raise ModelError(f"{source}: {loaded.entry.name} has no law of any number under exact", "Give other texts")
    table = pa.Table.from_pylist(rows, schema=COVERAGE_SCHEMA)
    keep_table(table, COVERAGE, [VERSION, weights_of(loaded.entry)])
    return table


def _answers(generation: Generation, texts: Sequence[str]) -> Iterator[tuple[int, list[int]]]:
    """The index of each molecule and the ids of its answer; a molecule without a conformer is left out."""
    tokenizer = generation.loaded.tokenizer
    end = [] if tokenizer.end_id is None else [tokenizer.end_id]
    for index, molecule in enumerate(generation.molecules):
        try:
            text = texts[index] if texts else reference_text(molecule, generation.form)
        except EmbedError:
            continue
        yield index, [*tokenizer.encode(text), *end]


def _true_numbers(
    written: Sequence[tuple[float, ...]], molecule: Molecule, form: NumberFormat, rng: np.random.Generator
) -> NDArray[np.float64]:
    """[atoms, 3] places in the cells that written numbers stand for, each as likely. NaN is what the frame puts at 0:
    a number that is exactly 0; of bins, the bin of 0 at one of the numbers that the demo models' frame fixes."""
    values = np.array(written).reshape(-1, len(AXES))
    if not isinstance(form, BinFormat):
        true = values + np.copysign(rng.uniform(0, form.floor_ang, values.shape), values)
        return np.where(values == 0, np.nan, true)
    edges = np.array(form.edges)
    bins, zero = (np.searchsorted(edges[1:-1], value, side="right") for value in (values, 0.0))
    true = rng.uniform(edges[bins], edges[bins + 1])  # of the top bin too, which has no end as a group reads it
    units = np.zeros((molecule.atoms, len(AXES)), dtype=np.int64)  # a text may be cut
    units[: len(true)] = np.rint(true * 100 * UNITS_PER_ANG)  # so fine that 0 is what the frame fixes alone
    placed = text_frame(units, np.array([len(units)]), np.array([anchors_of(molecule.mol)]))
    return np.where((bins == zero) & (placed[: len(true)] == 0), np.nan, true)
