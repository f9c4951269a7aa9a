"""Computes what a model believes of numbers, and keeps it: of one stored sample, and of held-out reference texts.

The reference texts have one conformer by ETKDG of each held-out molecule, in the frame that the demo models were
trained in. A checkpoint that was trained in another frame needs texts of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
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
from engine.inspection.kept_tables import KeptTable, weights_of
from engine.inspection.number_beliefs import belief_cells
from engine.inspection.sample import Inspected
from engine.jobs.scoring import Question, generation_of, models_for, question_of
from engine.jobs.service import Job, Work
from engine.lp.numbers import AXES
from engine.models.registry import ModelEntry
from engine.records import BinFormat, Molecule, NumberFormat
from engine.text.check import find_answer

if TYPE_CHECKING:
    from engine.decode.generation import Generation
    from engine.models.loading import LoadedModel

VERSION = 4
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

    @property
    def kept(self) -> KeptTable:
        """As ``belief_cells`` makes it."""
        asked = [self.question.smiles, repr(self.question.plan), list(self.question.token_ids), self.decimals]
        return KeptTable("beliefs", [VERSION, weights_of(self.entry), *asked])

    def compute(self, generation: Generation, between: Callable[[], object] = lambda: None) -> pa.Table:
        from engine.decode.number_laws import number_laws
        from engine.decode.scoring import reader_of

        reader, stored = reader_of(generation.loaded), [generation.stored(0, self.question.token_ids)]
        (laws,) = number_laws(reader, generation.constraint, stored, decimals=self.decimals, between=between)
        cells = belief_cells(generation.molecules[0], laws, generation.form)
        self.kept.write(cells)
        return cells


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


def belief_work(request: BeliefRequest) -> Work[pa.Table]:
    def work(job: Job[pa.Table]) -> pa.Table:
        generation = generation_of(request.question, job)
        job.say("opening its numbers")
        return request.compute(generation, job.go_on)

    return work


# --- coverage ---------------------------------------------------------------------------------------------------------


def coverage_of(entry: ModelEntry) -> KeptTable:
    """A row each number: molecule, axis, level and reach, as `NumberLaw` has them; and of which texts it is."""
    return KeptTable("belief-coverage", [VERSION, weights_of(entry)])


def reference_text(molecule: Molecule, form: NumberFormat) -> str:
    """One conformer by ETKDG, in the frame of the demo models' training; ``molecule`` is described as the text is."""
    positions = reference_conformers(molecule, seed=SEED).GetConformer().GetPositions()
    placed = _in_frame(np.rint(positions * UNITS_PER_ANG), molecule) / UNITS_PER_ANG
    numbers = tuple((format_number(x, form), format_number(y, form), format_number(z, form)) for x, y, z in placed)
    return f"{OPEN_TAG}{enriched_text(molecule.smiles, molecule.descriptors, numbers, form)}{CLOSE_TAG}"


def prompted_texts(lines: Sequence[str]) -> list[tuple[str, str]]:
    """SMILES and answer of texts of the form that a model was trained on."""
    answers = [answer for answer in map(find_answer, lines) if answer.prompted and OPEN_TAG in answer.text]
    if not answers:
        raise ModelError("no text has a prompt and an answer", f"Give texts with {SMILES_TAGS[1]}{OPEN_TAG}")
    return [(answer.prompted, f"{OPEN_TAG}{answer.conformers[0]}{CLOSE_TAG}") for answer in answers]


def cover(
    loaded: LoadedModel,
    texts: Sequence[tuple[str, str]] = (),
    source: str = HELD_OUT,
    progress: Callable[[int, int], None] = lambda done, texts: None,
) -> pa.Table:
    """``texts``: SMILES and answers in place of those of held-out molecules, from ``source``. ``ModelError`` where no
    number of them has a law: then what was kept before stays."""
    from engine.decode.generation import Generation
    from engine.decode.number_laws import number_laws
    from engine.decode.scoring import reader_of

    smiles = [text[0] for text in texts] or load_run_set(MOLECULES)
    reader, generation = reader_of(loaded), Generation(loaded, [], Plan("exact"))
    rng, rows = np.random.default_rng(SEED), list[dict[str, Any]]()
    for first in range(0, len(smiles), AT_ONCE):
        part = generation.more(list(map(parse_written, smiles[first : first + AT_ONCE])))
        stored = {}
        for index, molecule in enumerate(part.molecules):
            with suppress(EmbedError):  # a molecule without a conformer is left out
                text = texts[first + index][1] if texts else reference_text(molecule, part.form)
                stored[index] = part.stored(index, loaded.tokenizer.encode(text))
        by_text = number_laws(reader, part.constraint, list(stored.values()), decimals=DECIMALS)
        for index, blocks in zip(stored, by_text, strict=True):
            laws = [law for block in blocks for law in block.laws]
            written = [block.written for block in blocks]
            true = _true_numbers(written, part.molecules[index], part.form, rng).reshape(-1).tolist()
            rows += [
                {
                    "molecule": first + index,
                    "axis": AXES[number % len(AXES)],
                    "level": law.below(value),
                    "reach": law.reach(value),
                    "source": source,
                }
                for number, (law, value) in enumerate(zip(laws, true, strict=True))
                if not np.isnan(value)
            ]
        progress(min(first + AT_ONCE, len(smiles)), len(smiles))
    if not rows:
        raise ModelError(f"{source}: {loaded.entry.name} has no law of any number under exact", "Give other texts")
    table = pa.Table.from_pylist(rows)
    coverage_of(loaded.entry).write(table)
    return table


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
    units = np.zeros((molecule.atoms, len(AXES)))  # a text may be cut
    units[: len(true)] = np.rint(true * 100 * UNITS_PER_ANG)  # so fine that 0 is what the frame fixes alone
    return np.where((bins == zero) & (_in_frame(units, molecule)[: len(true)] == 0), np.nan, true)


def _in_frame(units: NDArray[np.float64], molecule: Molecule) -> NDArray[np.int32]:
    return text_frame(units.astype(np.int64), np.array([len(units)]), np.array([anchors_of(molecule.mol)]))
