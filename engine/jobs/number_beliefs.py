"""Computes what a model believes of numbers, and keeps it: of one stored sample, and of held-out reference texts.

The references are one conformer by ETKDG of each of 99 held-out molecules, in the frame that the demo models were
trained in. A checkpoint that was trained in another frame needs texts of its own; of these only the cell is known that
a written number stands for, and of bins not what their frame puts at 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from engine.chem.enriched import CLOSE_TAG, OPEN_TAG, SMILES_TAGS, enriched_text, format_number
from engine.chem.molecule_sets import rows_of
from engine.chem.smiles import parse_written
from engine.decode.plan import Plan
from engine.errors import ModelError, RunError
from engine.figures.laws import Array
from engine.inspection.kept_tables import KeptTable, weights_of
from engine.inspection.number_beliefs import belief_cells
from engine.inspection.runs import number_format
from engine.inspection.sample import Inspected
from engine.jobs.scoring import Question, generation_of, models_for, question_of
from engine.jobs.service import Job
from engine.lp.numbers import AXES, check_has_laws
from engine.models.registry import ModelEntry
from engine.records import BinFormat, Molecule, NumberFormat
from engine.text.check import find_answer

if TYPE_CHECKING:
    from engine.decode.generation import Generation
    from engine.models.loading import LoadedModel

VERSION = 6
DECIMALS, AT_ONCE = 2, 4
"""Of the cells, and texts that are opened together."""
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
    check_has_laws(number_format(inspection.run))
    models = [entry for entry in models_for(inspection.run) if model in ("", entry.name)]
    if not models:
        raise ModelError(f"no registered model has the tokenizer {inspection.run.tokenizer}", "Add one: `models add`")
    return BeliefRequest(question_of(inspection, models[0], "exact"), models[0], decimals)


def open_numbers(request: BeliefRequest, job: Job[pa.Table]) -> pa.Table:
    generation = generation_of(request.question, job)
    job.say("opening its numbers")
    return request.compute(generation, job.go_on)


# --- coverage ---------------------------------------------------------------------------------------------------------


def coverage_of(entry: ModelEntry) -> KeptTable:
    """A row each number: molecule, axis, level and reach, as `NumberLaw` has them; and of which texts it is."""
    return KeptTable("belief-coverage", [VERSION, weights_of(entry)])


def references() -> list[tuple[str, Array]]:
    """SMILES and places [atoms, 3] in angstrom, in the frame of the demo models' training."""
    rows = [(smiles, [place.split(",") for place in places.split()]) for smiles, places in rows_of("references.tsv")]
    return [(smiles, np.array(places, dtype=np.float64)) for smiles, places in rows]


def reference_text(molecule: Molecule, places: Array, form: NumberFormat) -> str:
    """``molecule`` is described as the text is."""
    numbers = tuple((format_number(x, form), format_number(y, form), format_number(z, form)) for x, y, z in places)
    return f"{OPEN_TAG}{enriched_text(molecule.smiles, molecule.descriptors, numbers, form)}{CLOSE_TAG}"


def prompted_texts(lines: Sequence[str]) -> list[tuple[str, str]]:
    """SMILES and answer of texts of the form that a model was trained on."""
    answers = [answer for answer in map(find_answer, lines) if answer.prompted and OPEN_TAG in answer.text]
    if not answers:
        raise ModelError("no text has a prompt and an answer", f"Give texts with {SMILES_TAGS[1]}{OPEN_TAG}")
    return [(answer.prompted, f"{OPEN_TAG}{answer.conformers[0]}{CLOSE_TAG}") for answer in answers]


def cover(
    loaded: LoadedModel,
    texts: Sequence[tuple[str, str | Array]] = (),
    source: str = HELD_OUT,
    progress: Callable[[int, int], None] = lambda done, texts: None,
) -> pa.Table:
    """``texts``: SMILES, and answers or places, in place of the references, from ``source``. ``ModelError`` where no
    number of them has a law: then what was kept before stays."""
    from engine.decode.generation import Generation
    from engine.decode.number_laws import number_laws
    from engine.decode.scoring import reader_of

    texts = texts or references()
    reader, generation = reader_of(loaded), Generation(loaded, [], Plan("exact"))
    rng, rows = np.random.default_rng(SEED), list[dict[str, Any]]()
    for first in range(0, len(texts), AT_ONCE):
        some = texts[first : first + AT_ONCE]
        part = generation.more([parse_written(smiles) for smiles, _ in some])
        stored = []
        for index, (molecule, (_, of)) in enumerate(zip(part.molecules, some, strict=True)):
            text = of if isinstance(of, str) else reference_text(molecule, of, part.form)
            stored.append(part.stored(index, loaded.tokenizer.encode(text)))
        by_text = number_laws(reader, part.constraint, stored, decimals=DECIMALS)
        for number, (blocks, (_, of)) in enumerate(zip(by_text, some, strict=True), start=first):
            true = _drawn([block.written for block in blocks], part.form, rng)
            if not isinstance(of, str):
                true[of[: len(true)] == 0] = 0  # of bins it is known of references alone
            for block, places in zip(blocks, true.tolist(), strict=True):
                for axis, law, place in zip(AXES, block.laws, places, strict=True):
                    if place != 0:  # else the frame put it there
                        at = {"level": law.below(place), "reach": law.reach(place)}
                        rows.append({"molecule": number, "axis": axis, **at, "source": source})
        progress(min(first + AT_ONCE, len(texts)), len(texts))
    if not rows:
        raise ModelError(f"{source}: {loaded.entry.name} has no law of any number under exact", "Give other texts")
    table = pa.Table.from_pylist(rows)
    coverage_of(loaded.entry).write(table)
    return table


def _drawn(written: Sequence[tuple[float, ...]], form: NumberFormat, rng: np.random.Generator) -> Array:
    """[atoms, 3] places in the cells that written numbers stand for, each as likely; a decimal 0 stays 0."""
    values = np.array(written).reshape(-1, len(AXES))
    if not isinstance(form, BinFormat):
        return np.where(values == 0, 0.0, values + np.copysign(rng.uniform(0, form.floor_ang, values.shape), values))
    edges = np.array(form.edges)
    bins = np.searchsorted(edges[1:-1], values, side="right")
    return rng.uniform(edges[bins], edges[bins + 1])  # of the top bin too, which has no end as a group reads it
