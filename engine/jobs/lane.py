"""A lane of the live page: a small run; a page reads its state while the worker writes.

A page makes a ``LaneWatch``, hands ``write_lane`` to the service, and looks at the watch as often as it is drawn. An
unfinished text is aligned as far as it goes; its last block, which is still open, gets no verdict.
"""

from __future__ import annotations

import functools
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from engine.chem.enriched import skeleton_of
from engine.chem.smiles import parse_smiles
from engine.decode.samples import Reader, Sample
from engine.decode.steps import Back, Event, Step
from engine.errors import ConstraintError, ModelError
from engine.inspection.conformers import references_of
from engine.inspection.realign import with_kinds
from engine.jobs.plan import ModelChoice, RunPlan
from engine.jobs.service import Job
from engine.lp_records import usual_placeholder
from engine.records import Molecule
from engine.store.files import Files
from engine.store.store import trim
from engine.text.align import Alignment
from engine.text.template import build_template

if TYPE_CHECKING:
    from engine.chem.judges import JudgePool
    from engine.chem.verdict import JudgeSettings
    from engine.decode.generation import Generation
    from engine.models.loading import LoadedModel

REFERENCE_S, JUDGE_S = 5.0, 20.0
"""Longest search for a molecule's reference conformers, and longest judging of one, while a user waits."""
MOST_MOLECULES, MOST_ANSWERS = 100, 400


@dataclass(slots=True)
class LaneText:
    """One sample as far as it is written."""

    ids: list[int] = field(default_factory=list)
    forced: list[bool] = field(default_factory=list)
    answer: Sample | None = None  # once it has ended
    thrown: list[tuple[Back, tuple[int, ...]]] = field(default_factory=list)  # by a guard, and why
    struck: dict[int, tuple[int, ...]] = field(default_factory=dict)  # by position, by ``shaped``


class LaneWatch:
    """The state of one lane: its worker writes it, and pages read it at any time."""

    def __init__(self, plan: RunPlan, molecules: Sequence[Molecule]) -> None:
        """The molecules and the model are the same for all lanes of a page."""
        self.plan, self.molecules = plan, list(molecules)
        self.samples = len(self.molecules) * plan.plan.generations
        if not 0 < len(self.molecules) <= MOST_MOLECULES or self.samples > MOST_ANSWERS:
            raise ConstraintError(
                f"{len(self.molecules)} molecules with {plan.plan.generations} samples each exceed the live page",
                f"Give 1 to {MOST_MOLECULES} molecules and at most {MOST_ANSWERS} samples, or use `run`",
            )
        self.texts = {sample: LaneText() for sample in range(self.samples)}
        self.reader: Reader | None = None  # from here on until the end: once the model is loaded
        self.template_tokens: list[int] = []  # by molecule, about as many as a sample has
        self.backend = plan.plan.backend  # auto until the model is loaded
        self.run_row: Mapping[str, Any] = {}  # of runs, with the device and the dtype, once the model is loaded
        self.tokens = self.forced_tokens = self.forward_passes = 0
        self.redrawn: Counter[str] = Counter()  # how often blocks were redrawn, by the check that had failed
        self.thrown_tokens = 0  # no part of the tokens
        self.seconds = self.memory_mb = 0.0  # of decoding; the process's, or the GPU's, at its most
        self.run_id: str | None = None  # once it is stored
        self.notes: tuple[str, ...] = ()
        self._aligned: dict[int, tuple[tuple[int, int, int], Alignment]] = {}  # by sample; how far it had come then
        self._lock = threading.Lock()

    def take(self, generation: Generation, event: Event, seconds: float) -> None:
        text, counters = self.texts[event.sample], generation.counters
        with self._lock:
            match event:
                case Step(token_id=token_id, forced=forced, shaping=shaping):
                    text.ids.append(token_id)
                    text.forced.append(forced)
                    if shaping is not None and shaping.struck:
                        text.struck[event.pos] = shaping.struck
                case Back(pos=pos):
                    text.thrown.append((event, tuple(text.ids[pos:])))
                    del text.ids[pos:], text.forced[pos:]
                    text.struck = {at: ids for at, ids in text.struck.items() if at < pos}
                    self.redrawn, self.thrown_tokens = Counter(counters.redrawn), counters.thrown_tokens
                case _:
                    text.answer = generation.samples[-1]
        self.tokens, self.forced_tokens = counters.tokens, counters.forced_tokens
        self.forward_passes, self.seconds = counters.forward_passes, counters.decode_s or seconds
        self.memory_mb = counters.peak_memory_mb

    @property
    def is_served(self) -> bool:
        """Written by a server, of which neither passes nor memory are known, nor what a guard does there."""
        return self.backend == "server"

    @property
    def answered(self) -> list[Sample]:
        """In the order of the samples."""
        return [text.answer for text in self.texts.values() if text.answer is not None]

    @property
    def struck_tokens(self) -> int:
        with self._lock:
            return sum(len(ids) for text in self.texts.values() for ids in text.struck.values())

    @property
    def dead_ends(self) -> int:
        """Under ``shaped``: those that were left by a way back, and those that were not."""
        unmended = (answer.guarding is not None and bool(answer.guarding.unmended) for answer in self.answered)
        return self.redrawn.total() + sum(unmended)

    def molecule_of(self, sample: int) -> Molecule:
        return self.molecules[sample // self.plan.plan.generations]

    def alignment(self, sample: int) -> Alignment | None:
        """The sample so far, aligned with its template; None before its first token."""
        text = self.texts.get(sample)
        if text is None or self.reader is None:
            return None
        with self._lock:
            ids = list(text.ids)
            forced = list(text.forced)
            answer = text.answer
            reached = len(ids), len(text.thrown), id(answer)
        if not ids:
            return None
        cached = self._aligned.get(sample)
        if cached is None or cached[0] != reached:
            stop = self.reader.tokenizer.text_length(ids)
            aligned = self.reader.aligned(self.molecule_of(sample), ids[:stop], forced[:stop], {})
            if answer is None:
                aligned = _without_verdict_on_open_block(aligned)
            else:
                aligned = with_kinds(aligned, [block.kinds for block in answer.blocks])
            cached = self._aligned[sample] = reached, aligned
        return cached[1]


def _without_verdict_on_open_block(aligned: Alignment) -> Alignment:
    """The last block may still be open: what is missing may follow."""
    last = max((row.text_block for row in aligned.rows if row.pos is not None), default=-1)
    if last < 0 or not aligned.rows:
        return aligned
    rows = tuple(replace(row, mark="") if row.mark == "cut" and row.text_block == last else row for row in aligned.rows)
    return replace(aligned, rows=rows, blocks=aligned.blocks[:last], readings=aligned.readings[:last])


def warm_up(choice: ModelChoice, job: Job[None]) -> None:
    """Imports torch and transformers, and loads the model."""
    import engine.jobs.run  # noqa: F401 - imported for its time

    job.models.get(choice.entry(), choice.device, choice.dtype)


def write_lane(watch: LaneWatch, files: Files, job: Job[None]) -> None:
    choice, settings = watch.plan.model, watch.plan.judge_settings
    job.say(f"loading {choice.alias or choice.folder}")
    from engine.jobs.run import Run, begin  # takes seconds the first time

    loaded = _loaded(watch, job)
    molecules = [parse_smiles(molecule.smiles) for molecule in watch.molecules]
    judges = None if settings is None else _judges(settings)
    job.say("compiling the constraint")
    staging = begin(files, loaded, molecules, replace(watch.plan, group=len(molecules)))
    try:
        run = Run(staging, loaded, molecules, RunPlan.read(staging.sheet["plan"]))
        watch.backend, watch.run_row = run.plan.plan.backend, staging.sheet["row"]
        run.judges = judges
        run.note_device()
        work = run.work(0)
        work.reference_s, work.go_on, work.cancelled = REFERENCE_S, job.go_on, job.cancelled
        work.on_judged = lambda done: job.say(f"checking the result: {done} of {watch.samples}")
        generation = work.generation
        if watch.is_served:
            generation.backend.is_streaming = True  # type: ignore[union-attr]
        firsts = range(0, watch.samples, watch.plan.plan.generations)  # a group has the longest molecule first
        watch.molecules = list(map(generation.molecule_of, firsts))
        form = generation.form
        of_template = (loaded.tokenizer, generation.placeholder or usual_placeholder(form))
        skeletons = (skeleton_of(molecule, form=form) for molecule in watch.molecules)
        templates = (build_template(text, *of_template, tags=True, form=form) for text in skeletons)
        watch.template_tokens = [template.tokens * watch.plan.plan.conformers for template in templates]
        watch.reader = generation.reader
        if watch.plan.rmsd:
            threading.Thread(target=_make_references, args=(watch, job), daemon=True).start()
        job.say("writing")
        run.probe(work)
        began = time.perf_counter()
        for event in work.events():
            watch.take(generation, event, time.perf_counter() - began)
        watch.seconds = generation.counters.decode_s
        watch.memory_mb = generation.counters.peak_memory_mb  # the loop looks once more behind the last token
        job.say("checking the result")
        run.add(work, 0)
        entry = run.publish()
        trim(files)
        for sample in work.judged:  # scored: where an LP closed a block by force, it is known what the model wanted
            watch.texts[sample.sample_id].answer = sample
        watch.notes, watch.run_id = tuple(run.notes), entry.id
    finally:
        if watch.run_id is None:
            staging.abandon()
            if judges is not None:  # what is left to be judged delays no other lane
                judges.drop(watch.texts)


def _loaded(watch: LaneWatch, job: Job[None]) -> LoadedModel:
    """Where a server writes, of the address that the environment has, the weights score what it wrote; without them,
    where they do not fit this machine, its tokens have no probabilities."""
    choice = watch.plan.model
    if not watch.is_served:
        return job.models.get(choice.entry(), choice.device, choice.dtype)
    from engine.models.loading import load_outline, served_as

    try:
        loaded = job.models.get(choice.entry(), choice.device, choice.dtype)
    except ModelError:
        loaded = load_outline(choice.entry(), choice.dtype)
        watch.plan = replace(watch.plan, keep_steps=0, closing=False)
    return served_as(loaded)


def _make_references(watch: LaneWatch, job: Job[None]) -> None:
    """While the lane writes: the model leaves a core, and the check of the result finds them made."""
    for molecule in watch.molecules:
        if job.cancelled():
            return
        references_of(molecule.smiles, watch.plan.rmsd, REFERENCE_S)


@functools.lru_cache(maxsize=1)
def _judges(settings: JudgeSettings) -> JudgePool:
    """A judging process, kept from lane to lane, since starting it takes a second."""
    from engine.chem.judges import JudgePool

    judges = JudgePool(settings, workers=1, limit_s=JUDGE_S)
    for child in judges.children:
        child.start()
    return judges
