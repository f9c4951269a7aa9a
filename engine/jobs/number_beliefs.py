"""Computes what a model believes of numbers, and keeps it: of one stored sample, and of held-out reference texts.

The reference texts have one conformer by ETKDG of each held-out molecule, in the frame that the demo models were
trained in. A checkpoint that was trained in another frame needs texts of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from engine.chem.conformers import reference_conformers
from engine.chem.enriched import CLOSE_TAG, OPEN_TAG, SMILES_TAGS, enriched_text, format_number
from engine.chem.molecule_sets import load_run_set
from engine.chem.smiles import parse_written
from engine.chem.text_frame import UNITS_PER_ANG, anchors_of, text_frame
from engine.decode.plan import Plan
from engine.errors import EmbedError, ModelError, RunError
from engine.inspection.kept_tables import keep_table, kept_table, weights_of
from engine.inspection.number_beliefs import NumberBelief, beliefs_of, written_places
from engine.inspection.sample import Inspected
from engine.jobs.scoring import Question, generation_of, models_for, question_of
from engine.jobs.service import Job, Work
from engine.models.registry import ModelEntry
from engine.records import BinFormat, Molecule, NumberFormat

if TYPE_CHECKING:
    from engine.decode.generation import Generation
    from engine.decode.number_laws import Laws
    from engine.figures.laws import NumberLaw
    from engine.models.loading import LoadedModel

VERSION = 1
MOLECULES, DECIMALS, AT_ONCE = 100, 2, 4
"""Held-out molecules that are asked, decimals of the cells, and texts that are opened together."""
SEED = 0
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
        from engine.decode.number_laws import number_laws
        from engine.decode.scoring import reader_of

        ids, loaded = self.question.token_ids, generation.loaded
        how: Any = {"decimals": self.decimals, "between": between}
        (laws,) = number_laws(reader_of(loaded), generation.constraint, [generation.stored(0, ids)], **how)
        beliefs = beliefs_of(generation.molecules[0], laws, written_places(loaded.tokenizer, generation.form, ids))
        keep_table(pa.Table.from_pylist(list(map(asdict, beliefs))), "beliefs", self._key)
        return beliefs

    @property
    def _key(self) -> list[Any]:
        question = self.question
        prompt = question.plan.examples + question.smiles
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
    from engine.decode.generation import Generation
    from engine.models.loading import load_model

    question = request.question
    generation = Generation(load_model(request.entry, device), [parse_written(question.smiles)], question.plan)
    return request.compute(generation)


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
    return kept_table("belief-coverage", [VERSION, weights_of(entry)])


def cover(
    loaded: LoadedModel,
    texts: Sequence[tuple[str, str]] = (),
    source: str = HELD_OUT,
    progress: Callable[[int, int], None] = lambda done, texts: None,
) -> pa.Table:
    """``texts``: SMILES and answers in place of those of held-out molecules, from ``source``."""
    from engine.decode.generation import Generation
    from engine.decode.number_laws import number_laws
    from engine.decode.scoring import reader_of

    smiles = [text[0] for text in texts] or load_run_set(MOLECULES)
    reader, generation = reader_of(loaded), Generation(loaded, [], Plan("exact"))
    rng, rows = np.random.default_rng(SEED), list[dict[str, Any]]()
    for first in range(0, len(smiles), AT_ONCE):
        part = generation.more(list(map(parse_written, smiles[first : first + AT_ONCE])))
        stored, places = [], []
        for index, ids in _answers(part, [text[1] for text in texts[first : first + AT_ONCE]]):
            stored.append(part.stored(index, ids))
            places.append((first + index, written_places(loaded.tokenizer, part.form, ids)))
        laws = number_laws(reader, part.constraint, stored, decimals=DECIMALS) if stored else []
        for (molecule, written), by_block in zip(places, laws, strict=True):
            for axis, law, value in _with_values(by_block, written):
                true = _within(value, part.form, rng)
                row = {"molecule": molecule, "axis": axis, "level": law.below(true), "reach": law.reach(true)}
                rows.append({**row, "source": source})
        progress(min(first + AT_ONCE, len(smiles)), len(smiles))
    table = pa.Table.from_pylist(rows)
    keep_table(table, "belief-coverage", [VERSION, weights_of(loaded.entry)])
    return table


def _with_values(laws: Laws, written: Sequence[tuple[float, ...]]) -> Iterator[tuple[int, NumberLaw, float]]:
    """Axis, law and number, of those that are not exactly 0: the frame puts the others there."""
    for block in sorted(laws):
        for axis, law in enumerate(laws[block] if block < len(written) else ()):
            if written[block][axis]:
                yield axis, law, written[block][axis]


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


def _within(value: float, form: NumberFormat, rng: np.random.Generator) -> float:
    """A place in the cell that a written number stands for, each as likely."""
    if isinstance(form, BinFormat):
        low, high = form.bounds_ang(form.number_of(value)) or (value, value)
        return float(rng.uniform(low, high))
    return float(value + np.copysign(rng.uniform(0, form.floor_ang), value))
