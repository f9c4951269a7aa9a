"""Molecules in, samples out: the model, the LP, the backend and the limits put together for one call.

The stream of steps is passed on as it comes, so that a page or a terminal can show it; what is finished is read and
checked on the way.
"""

from __future__ import annotations

import copy
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, cast

from rdkit import Chem

from engine.chem.enriched import described
from engine.chem.geometry import failures_of_graph
from engine.chem.guard import MoleculeGuard
from engine.chem.smiles import parse_written
from engine.decode.diagnosis import close_ids
from engine.decode.guarding import AnswerGuard
from engine.decode.plan import BackendName, Branch, Context, DecodeOptions, Plan, Request, requests_for
from engine.decode.samples import Guarding, Reader, Sample, ThrownTry
from engine.decode.scoring import Stored, forced_closes, reader_of, score
from engine.decode.shaped_rows import AnswerShape
from engine.decode.steps import Back, Counters, Diagnosis, Event, Kept, Step, StepObserver, Stop, StopReason, Tap, phase
from engine.decode.weighing import log_ws
from engine.errors import ConstraintError, DriftscopeError, ModelError, ServerError, UnsupportedMoleculeError, shown
from engine.figures.words import counted, listed
from engine.lp.constraint import Constraint, LpParameters, build_constraint
from engine.lp.exact import ExactConstraint
from engine.lp.follower import AutomatonRows, Follower
from engine.lp.grammar import GrammarConstraint
from engine.lp.shaped import ShapedMolecule
from engine.lp.table import NO_ID, Program
from engine.lp_records import CONFORMER_CONTROL, DEFAULT_LP, NO_LP, GuardSettings, lp_record, split_cleanup
from engine.models.devices import threads_of
from engine.models.loading import LoadedModel
from engine.models.server import ADDRESS
from engine.records import CHECK_COLUMNS, BinFormat, Molecule, ReaderName
from engine.text.blocks import CloseMass
from engine.text.check import decode_each
from engine.text.examples import count_conformers
from engine.text.placeholder import fit_placeholder, reference_texts

if TYPE_CHECKING:
    from engine.decode.fast import FastBackend
    from engine.decode.hf import HfBackend
    from engine.decode.server import ServerBackend

PROBED, PROBED_ATOMS = ("CO", "C#N"), 2
"""The molecule of the LP and the one of the prompt, by which a server is asked whether it holds to the LP."""
FITTED_MOLECULES = 20
"""Molecules of which reference conformers an adaptive placeholder is fitted to."""


def constraint_of(loaded: LoadedModel, plan: Plan) -> Constraint:
    """Of a settled plan; an LP that cannot be had for this model says so here."""
    name = lp_record(split_cleanup(plan.lp)[0]).name
    return build_constraint(name, loaded.tokenizer, loaded.vocab_rows, _parameters(loaded, plan))


def _parameters(loaded: LoadedModel, plan: Plan) -> LpParameters:
    form, before = plan.form or loaded.entry.numbers, count_conformers(plan.examples)
    return LpParameters(plan.placeholder, form, plan.equal_work, plan.conformers, before)


class Generation:
    """One call. Iterate over ``events``; ``samples`` are read as their stops come by.

    ``numbers`` are the molecules' indices in a longer list, of which this call is a part: they come out as there.
    ``tap`` and ``watch`` may be set before the events are asked for.
    """

    tap: Tap | None = None
    watch: StepObserver | None = None

    def __init__(
        self, loaded: LoadedModel, molecules: Sequence[Molecule], plan: Plan, numbers: Sequence[int] | None = None
    ) -> None:
        began = time.perf_counter()
        self.loaded, self.plan = loaded, settled(loaded, molecules, plan)
        self.descriptors = plan.descriptors_of(loaded.entry.descriptors)
        lp, cleanup = split_cleanup(plan.lp)
        self.lp = lp_record(lp).name
        self.form = plan.form or loaded.entry.numbers
        self.placeholder = self.plan.placeholder
        self.constraint = constraint_of(loaded, self.plan)
        self.reader = Reader(loaded.tokenizer, self.lp, self.placeholder, self.form, cleanup)
        self.backend: FastBackend | HfBackend | ServerBackend
        if self.plan.backend == "server":
            self.backend = self._server_backend()
        else:
            self.backend = make_backend(loaded, self.constraint, self.plan.backend, compile=plan.compile)
        self._take(molecules, numbers, began)

    def _server_backend(self) -> ServerBackend:
        from engine.decode.server import ServerBackend

        return ServerBackend(
            self.loaded, self.constraint, self.lp, self.descriptors, _parameters(self.loaded, self.plan)
        )

    def more(self, molecules: Sequence[Molecule], numbers: Sequence[int] | None = None) -> Generation:
        """The same call for other molecules, with the placeholder, the constraint and the backend of this one."""
        other = copy.copy(self)
        other._take(molecules, numbers, time.perf_counter())
        return other

    def _take(self, given: Sequence[Molecule], numbers: Sequence[int] | None, began: float) -> None:
        written = {id(molecule): described(molecule, self.descriptors) for molecule in given}  # some stand there often
        self.molecules = molecules = [written[id(molecule)] for molecule in given]
        self.numbers = list(range(len(molecules)) if numbers is None else numbers)
        self._index = {number: index for index, number in enumerate(self.numbers)}
        limits = [self.plan.limit_of(molecule.heavy_atoms) for molecule in molecules]
        if self.plan.equal_work:
            limits = self._equal_limits()
        with phase("template"):
            self.requests = requests_for(
                molecules,
                self.constraint,
                context_of(self.loaded, self.plan),
                generations=self.plan.generations,
                limits=limits,
                numbers=self.numbers,
            )
            self.counters = Counters()
            if self.plan.branch is not None:
                self._keep(self.plan.branch)
            self._note_examples()
            if self.plan.backend == "server":
                assert self.loaded.served is not None
                warning = getattr(self.constraint, "warning", "")  # of a grammar
                self.counters.notes += [self.loaded.served.words, *([warning] if warning else [])]
            elif self.loaded.why_not_fast:
                self.counters.notes.append(f"written by the backend hf: {self.loaded.why_not_fast}")
            if lp_record(self.lp).is_guarded and self.plan.backend != "server":  # there the plugin does
                self._guard()
        self.template_s = time.perf_counter() - began
        self.samples: list[Sample] = []
        self._open: dict[int, list[Step]] = {}
        self._thrown: dict[int, list[ThrownTry]] = {}

    def _keep(self, branch: Branch) -> None:
        """Give each generation the first tokens of its answer, and the draws of the parent."""
        rows = AutomatonRows(self.constraint.automaton)
        for number, request in enumerate(self.requests):
            ids = branch.first_ids(number % self.plan.generations)
            if len(ids) >= request.limit:
                problem = f"the branch keeps {counted(len(ids), 'token')}, and its answer may have {request.limit:,}"
                raise ConstraintError(problem, "Branch earlier, or set a higher limit of new tokens")
            kept = taken_up(ids, Follower(rows, request.program))
            if len(kept.ids) < len(ids):
                at = len(kept.ids)
                piece = shown(self.loaded.tokenizer.piece(ids[at]))
                problem = f"the LP {self.lp} does not allow the token {piece} at position {at:,} of the kept text"
                raise ConstraintError(problem, "Use the LP none, which allows any text, or branch before it")
            self.requests[number] = replace(request, kept=kept, key=branch.key)

    def _note_examples(self) -> None:
        before = count_conformers(self.plan.examples)
        if self.lp.startswith(CONFORMER_CONTROL) and before >= self.plan.conformers:
            self.counters.notes.append(
                f"{self.lp} counts the {counted(before, 'conformer')} of the prompt's examples too, so its target of "
                f"{self.plan.conformers} is reached before the answer begins"
            )

    def _guard(self) -> None:
        """Give each molecule's requests its guard, where one can be made."""
        count, settings = self.plan.generations, self.plan.guard_settings
        if self.plan.sampling.is_greedy and not lp_record(self.lp).asks_tokens:  # the same tokens would come again
            settings = replace(settings, most_thrown=0)
            self.counters.notes.append("greedy sampling redraws nothing: what the guard found wrong was only named")
        made: dict[int, AnswerGuard | AnswerShape] = {}  # by identity: a molecule may be in the list many times
        for index, molecule in enumerate(self.molecules):
            part = slice(index * count, (index + 1) * count)
            try:
                if id(molecule) not in made:
                    made[id(molecule)] = self._guard_of(molecule, self.requests[part][0].program, settings)
                    self._note_graph(molecule)
            except UnsupportedMoleculeError as error:
                note = f"{molecule.smiles} was written as under exact, without a guard: {error.what}"
                self.counters.notes.append(note)
                continue
            self.requests[part] = [replace(request, guard=made[id(molecule)]) for request in self.requests[part]]

    def _note_graph(self, molecule: Molecule) -> None:
        """Of a molecule that is never usable, wherever its atoms are."""
        if failed := failures_of_graph(molecule.mol):
            what = listed([failure.detail for failure in failed])
            self.counters.notes.append(
                f"{molecule.smiles} has {what}: PoseBusters passes no conformer of it; {self.lp} acts all the same"
            )

    def _guard_of(self, molecule: Molecule, program: Program, settings: GuardSettings) -> AnswerGuard | AnswerShape:
        if lp_record(self.lp).asks_tokens:
            assert isinstance(self.constraint, ExactConstraint)
            return AnswerShape(ShapedMolecule(molecule.mol, program, self.constraint, settings.checks), settings)
        guard = MoleculeGuard(molecule.mol, settings.checks)
        return AnswerGuard(guard, program, self.loaded.tokenizer, settings, self.form)

    def events(self, cancelled: Callable[[], bool] = lambda: False) -> Iterator[Event]:
        """The stream; a sample is in ``samples`` before its stop is passed on."""
        if self.tap is not None and lp_record(self.lp).is_guarded:
            raise ConstraintError(
                f"what is thrown away under {self.lp} would be logged as if it were kept", "Use the LP exact"
            )
        plan = self.plan
        ids = close_ids(self.loaded.tokenizer, self.loaded.device) if plan.diagnostics else None
        settings = (plan.diagnostics, plan.candidates, ids, plan.time_limit_s, self.tap)
        options = DecodeOptions(plan.sampling, plan.seed, plan.batch_size, *settings)
        events = self.backend.run(self.requests, options, self.counters, cancelled)
        for event in events if self.watch is None else self.watch(events, self.counters):
            match event:
                case Step():
                    self._open.setdefault(event.sample, []).append(event)
                case Back():
                    steps = self._open[event.sample]
                    self._thrown.setdefault(event.sample, []).append(ThrownTry(event, tuple(steps[event.pos :])))
                    del steps[event.pos :]
                case Stop():
                    self.samples.append(self._sample(event))
            yield event

    def proof(self, cancelled: Callable[[], bool] = lambda: False) -> bool | None:
        """Whether the server holds to the LP now, by a probe of which the prompt names one molecule and the LP another.
        None where that is not known: no server writes, it wrote neither, or the LP allows both."""
        if self.plan.backend != "server" or self.lp == NO_LP:
            return None
        asked, named = (described(parse_written(smiles), self.descriptors) for smiles in PROBED)
        limit = replace(self.plan, limit=None).limit_of(PROBED_ATOMS)
        context = context_of(self.loaded, self.plan)
        (request,) = requests_for([asked], self.constraint, context, limits=[limit])
        forced, of_prompt = request.program.forced.tolist(), self.constraint.compile(named).forced.tolist()
        if forced == of_prompt and not isinstance(self.constraint, GrammarConstraint):
            return None
        backend = cast("ServerBackend", self.backend)
        return backend.holds(replace(request, prompt=context.prompt(named, limit)), named, cancelled)

    def run(self, cancelled: Callable[[], bool] = lambda: False) -> list[Sample]:
        """All samples, in the order in which they were asked for."""
        for _ in self.events(cancelled):
            pass
        return self.in_order()

    @property
    def conformers(self) -> int:
        """Of all samples so far, readable or not."""
        return sum(sample.check.conformers for sample in self.samples)

    def in_order(self) -> list[Sample]:
        return sorted(self.samples, key=lambda sample: sample.sample_id)

    def molecule_of(self, sample_id: int) -> Molecule:
        return self.molecules[self._index[sample_id // self.plan.generations]]

    def request_of(self, sample_id: int) -> Request:
        number, generation = divmod(sample_id, self.plan.generations)
        return self.requests[self._index[number] * self.plan.generations + generation]

    def stored(self, sample_id: int, ids: Iterable[int]) -> Stored:
        """A sample's ids, to be scored under this call's constraint."""
        request = self.request_of(sample_id)
        return Stored(request.prompt, tuple(ids), request.program)

    def diagnosed(self, samples: Sequence[Sample]) -> Iterator[list[Diagnosis]]:
        """What the model thinks at each token of these, read once more."""
        scored = score(
            reader_of(self.loaded),
            self.constraint,
            [self.stored(sample.sample_id, sample.token_ids) for sample in samples],
            self.loaded.tokenizer.vocab_size,
            candidates=0,
            sampling=self.plan.sampling,
        )
        return (one.diagnoses for one in scored)

    def read_again(self, sample: Sample, masses: Mapping[int, CloseMass]) -> Sample:
        """The sample with what the model wanted where its blocks were closed by force."""
        return self._read(
            sample.sample_id,
            sample.token_ids,
            sample.forced,
            sample.stop_reason,
            masses=masses,
            guarding=sample.guarding,
            unseen=sample.unseen,
        )

    def _sample(self, stop: Stop) -> Sample:
        steps = self._open.pop(stop.sample, [])
        ids, forced = [step.token_id for step in steps], [step.forced for step in steps]
        diagnoses = [step.diagnosis for step in steps if step.diagnosis is not None]
        masses, guarding = self._masses(stop.sample, ids, diagnoses), None
        if self.request_of(stop.sample).guard is not None:
            guarding = self._guarding(stop, steps)
        return self._read(
            stop.sample,
            ids,
            forced,
            stop.reason,
            diagnoses=diagnoses,
            masses=masses,
            guarding=guarding,
            unseen=stop.unseen,
        )

    def _guarding(self, stop: Stop, steps: Sequence[Step]) -> Guarding:
        shapings = None
        if lp_record(self.lp).asks_tokens:
            shapings = {step.pos: step.shaping for step in steps if step.shaping is not None}
        is_whole = stop.reason == "end" and self.plan.branch is None
        return Guarding(tuple(self._thrown.pop(stop.sample, ())), stop.unmended, shapings, is_whole)

    def _read(self, number: int, ids: Iterable[int], forced: Iterable[bool], reason: StopReason, **more: Any) -> Sample:
        generation = number % self.plan.generations
        molecule = self.molecule_of(number)
        return self.reader.read(molecule, ids, forced, reason, sample_id=number, generation=generation, **more)

    def _masses(self, number: int, ids: list[int], diagnoses: list[Diagnosis]) -> dict[int, CloseMass]:
        """By block, what the model wanted where the LP closed it by force; empty without diagnostics."""
        if len(diagnoses) < len(ids) or not ids or self.plan.backend == "server":  # which tells no such mass
            return {}
        (closes,) = forced_closes(self.constraint, [self.stored(number, ids)])
        return {
            block: CloseMass(diagnoses[index].closing, diagnoses[index].going_on) for block, index in closes.items()
        }

    def _equal_limits(self) -> list[int]:
        """The tokens that the default LP takes for each molecule, with the same sampling and seed."""
        plan = replace(self.plan, lp=DEFAULT_LP, placeholder="", backend="auto", generations=1, equal_work=False)
        exact = Generation(self.loaded, self.molecules, replace(plan, diagnostics=False), self.numbers)
        return [sample.tokens for sample in exact.run()]


def taken_up(ids: Sequence[int], follower: Follower) -> Kept:
    """As many of these tokens as the LP allows, and where they lead."""
    forced, places = list[bool](), list[tuple[int, int]]()
    for id_ in ids:
        is_forced = follower.forced_id != NO_ID
        if follower.follow((id_,)) == 0:
            break
        forced.append(is_forced)
        places.append((follower.cell, follower.node))
    return Kept(tuple(ids[: len(places)]), tuple(forced), tuple(places))


def settled(loaded: LoadedModel, molecules: Sequence[Molecule], plan: Plan) -> Plan:
    """With the backend and the placeholder that a call of these molecules has: the LP's own, or for the adaptive one
    that which fits their reference conformers. An error where the LP cannot write such numbers."""
    record, form = lp_record(split_cleanup(plan.lp)[0]), plan.form or loaded.entry.numbers
    record.check_form(form)
    placeholder = record.placeholder_of(form, plan.placeholder)
    if record.needs_coordinates and not plan.placeholder and not isinstance(form, BinFormat):
        texts = [text for molecule in molecules[:FITTED_MOLECULES] for text in reference_texts(molecule, form)]
        placeholder = fit_placeholder(texts, loaded.tokenizer).placeholder
    return replace(plan, backend=backend_for(loaded, plan.backend), placeholder=placeholder)


def context_of(loaded: LoadedModel, plan: Plan) -> Context:
    begin = loaded.begin_ids if plan.bos else ()
    must_fit = plan.conformers > 1 and plan.is_whole and plan.limit is None
    return Context(loaded.tokenizer, loaded.positions, begin, plan.examples, must_fit)


def backend_for(loaded: LoadedModel, wanted: BackendName) -> BackendName:
    """Of ``auto``, ``fast`` or ``hf``; an error where ``fast`` cannot run the model, or no server has it."""
    why = loaded.why_not_fast
    if wanted == "server" and loaded.served is None:
        raise ServerError("the backend server has no address", f"Give --url, or set {ADDRESS}")
    if wanted == "fast" and why:
        problem = f"the backend fast cannot run {loaded.entry.name}: {why}"
        raise ModelError(problem, "Use the backend hf, which auto chooses")
    if wanted != "auto":
        return wanted
    return "hf" if why else "fast"


def make_backend(
    loaded: LoadedModel, constraint: Constraint, name: BackendName, *, compile: bool = False
) -> FastBackend | HfBackend:
    """The backend for a loaded model. Torch and transformers are imported here, and not with this module."""
    from engine.decode.fast import FastBackend
    from engine.decode.hf import HfBackend

    end = loaded.tokenizer.end_id
    if end is None:
        raise ModelError(f"the tokenizer of {loaded.entry.name} has no end token", "Use another tokenizer")
    vocab_size = loaded.tokenizer.vocab_size
    if backend_for(loaded, name) == "hf":
        return HfBackend(loaded.model, constraint, end, vocab_size)
    return FastBackend(loaded.model, constraint, end, vocab_size, compile=compile)


def names_of(generation: Generation) -> Callable[[int], str]:
    """Of samples, by their ids: SMILES, so that logs of two engines meet by them."""
    counts = Counter(molecule.smiles for molecule in generation.molecules)

    def name_of(sample_id: int) -> str:
        smiles = generation.molecule_of(sample_id).smiles
        is_alone = counts[smiles] * generation.plan.generations == 1
        return smiles if is_alone else f"{smiles} sample {sample_id}"

    return name_of


def conformers_of(generation: Generation, reader: ReaderName) -> list[Chem.Mol]:
    """Those that can be read."""
    mols = []
    for sample in generation.in_order():
        each = decode_each(reader, sample.text, generation.form)
        mols += [decoded.mol for decoded in each if not isinstance(decoded, DriftscopeError)]
    return mols


UNKNOWN_OF_SERVERS = "forward_passes prefill_s forward_s constraint_s sampling_s peak_memory_mb".split()
"""Counters that nothing is known of where a server writes."""
OF_SAMPLE = "sample_id generation smiles text token_ids forced stop_reason tokens forced_tokens".split()


def _sample_document(sample: Sample, log_w: Mapping[int, float | None]) -> dict[str, Any]:
    """What every sample has, then what only some have: of a guard, of ``shaped``, a text cut by an LP, kept steps."""
    guarding: dict[str, Any] = {}
    if sample.guarding is not None:
        guarding = {**sample.guarding.figures, "unmended": list(map(asdict, sample.guarding.unmended))}
    return {
        **{name: getattr(sample, name) for name in OF_SAMPLE},
        **{name: getattr(sample.check, name) for name in CHECK_COLUMNS},
        "blocks": list(map(asdict, sample.blocks)),
        **guarding,
        **({"log_w": log_w[sample.sample_id]} if sample.sample_id in log_w else {}),
        **({"raw_text": sample.raw_text} if sample.raw_text != sample.text else {}),
        **({"steps": list(map(asdict, sample.diagnoses))} if sample.diagnoses else {}),
    }


def document(generation: Generation) -> dict[str, Any]:
    """All that was written, and how, in JSON's types."""
    plan = generation.plan
    is_shaped = lp_record(generation.lp).asks_tokens
    log_w = log_ws(generation.samples, generation.diagnosed) if is_shaped else {}
    samples = [_sample_document(sample, log_w) for sample in generation.in_order()]
    return {
        "model": generation.loaded.entry.name,
        **{name: getattr(plan, name) for name in ("lp", "backend", "seed")},
        **{name: getattr(generation, name) for name in ("placeholder", "descriptors", "template_s")},
        "sampling": asdict(plan.sampling),
        **_counted(generation),
        "samples": samples,
    }


def _counted(generation: Generation) -> dict[str, Any]:
    """Where it was written, and what that took, as far as it is known."""
    counters, device = generation.counters, generation.loaded.device
    if generation.plan.backend == "server":
        return {"device": "server", "threads": None, **asdict(counters), **dict.fromkeys(UNKNOWN_OF_SERVERS)}
    guard = {}
    if lp_record(generation.lp).is_guarded:
        guard = {"tokens_thrown": counters.thrown_tokens, "blocks_redrawn": sum(counters.redrawn.values())}
    return {"device": str(device), "threads": threads_of(device), **asdict(counters), **guard}
