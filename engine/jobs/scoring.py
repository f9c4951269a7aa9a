"""Stored samples scored by a model, teacher-forced over the ids that they have: nothing is generated.

A page asks any model with the run's tokenizer about one sample: token probabilities per step, and the cost of cut
blocks. A whole run is scored by its own model alone; the rows become its kept steps, where it is the user's own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from engine.chem.smiles import parse_written
from engine.decode.plan import Plan
from engine.errors import DriftscopeError, ModelError, RunError, StoreError
from engine.inspection.lp_cost import RunCost, cost_of_run, cost_of_steps
from engine.inspection.molecules import sample_table
from engine.inspection.recount import Recounted, recount_run
from engine.inspection.runs import RunFacts, number_format, run_facts
from engine.inspection.sample import BlockEstimate, Inspected
from engine.jobs.plan import ModelChoice, RunPlan
from engine.jobs.service import Job
from engine.lp_records import NO_LP, lp_record, split_cleanup
from engine.models.registry import ModelEntry, load_registry
from engine.models.tags import tokenizer_name, tokenizer_place
from engine.store.entries import Entry, is_branch, without_samples
from engine.store.sample_rows import step_rows
from engine.store.schema import SAMPLES, STEPS
from engine.store.staging import rewrite_run
from engine.store.store import Store

if TYPE_CHECKING:
    from engine.decode.continuation import Continuation, Cut
    from engine.decode.generation import Generation
    from engine.models.loading import LoadedModel

Steps = dict[int, dict[str, Any]]  # rows of the table, by position
IN_ORDER = [("sample_id", "ascending"), ("pos", "ascending")]
CANDIDATES, KEPT, AT_ONCE = 10, 5, 64
"""Likely tokens that a page gets of a step, and that a run stores; samples that are turned into rows together."""
_CUT = """
SELECT sample_id, smiles, token_ids, list(block ORDER BY block) AS blocks
FROM samples JOIN (SELECT sample_id, block FROM blocks
    WHERE run_id = $run AND list_contains(kinds, 'cut') AND continued_text IS NULL) USING (sample_id)
WHERE run_id = $run AND len(token_ids) > 0 GROUP BY ALL ORDER BY smiles, sample_id
"""
_WAITING = """
SELECT sample_id, smiles, token_ids, forced FROM samples
WHERE run_id = $run AND len(token_ids) > 0 AND ($ids IS NULL OR list_contains($ids, sample_id))
  AND ($most = 0 OR sample_id < $most)
  AND sample_id NOT IN (SELECT sample_id FROM steps WHERE run_id = $run AND ($ids IS NOT NULL OR ln_q IS NOT NULL))
ORDER BY smiles, sample_id
"""
"""Samples whose chances are unknown; of these ``$ids`` those without steps."""
_STEPS = f"SELECT {', '.join(STEPS.names)} FROM steps WHERE run_id = $run"


@dataclass(frozen=True, slots=True)
class Question:
    """A stored sample, the LP that it was written under, and the model that scores it."""

    model: ModelChoice
    tokenizer: str  # the run's
    smiles: str
    plan: Plan  # the LP, its placeholder, numbers and descriptors
    token_ids: Sequence[int]
    forced: Sequence[bool] | None
    sample_id: int = 0


def models_for(run: RunFacts) -> list[ModelEntry]:
    """The run's own model first, and others with its tokenizer, which a run names by a short name or by its folder."""
    try:
        entries = load_registry().entries
    except DriftscopeError:
        return []

    def has_tokenizer(entry: ModelEntry) -> bool:
        try:
            place = tokenizer_place(entry)
        except DriftscopeError:  # its tokenizer is gone
            return False
        return run.tokenizer in (tokenizer_name(entry), str(place), Path(place).name)

    matches = [entry for entry in entries if entry.name == run.model or has_tokenizer(entry)]
    return sorted(matches, key=lambda entry: entry.name != run.model)


def question_of(inspection: Inspected, entry: ModelEntry, lp: str = "") -> Question:
    """The sample as it is stored, for a model of the registry. ``lp``: in place of the run's own; where only a server
    holds to that, nothing is masked here."""
    run = inspection.run
    lp = lp or (NO_LP if run.lp_record.by_server else "")
    sample = inspection.sample
    tokenizer = inspection.tokenizer
    return Question(
        model=ModelChoice(alias=entry.alias, step=entry.step),
        tokenizer=tokenizer.name if tokenizer is not None else run.tokenizer,
        smiles=inspection.molecule.smiles,
        plan=Plan(
            lp or run.lp_record.name,
            "" if lp else run.placeholder,
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


def score_sample(question: Question, job: Job[Steps]) -> Steps:
    generation = generation_of(question, job)
    job.say("scoring the sample")
    sample = {"sample_id": question.sample_id, "token_ids": question.token_ids, "forced": question.forced}
    rows, _ = _steps_of(generation, [0], [sample], candidates=CANDIDATES, between=job.go_on)
    return {row["pos"]: row for row in rows}


def estimate_cuts(
    question: Question, blocks: Collection[int], job: Job[dict[int, BlockEstimate]]
) -> dict[int, BlockEstimate]:
    """How the model would have continued those of the cut ``blocks`` that can be continued."""
    generation = generation_of(question, job)
    job.say("continuing the cut blocks")
    (estimates,) = _continued(generation, [0], [{"token_ids": question.token_ids, "blocks": blocks}])
    return {
        block: BlockEstimate(estimate.text, estimate.needed, estimate.digits_lost, estimate.displacement_ang)
        for block, estimate in estimates.items()
    }


def generation_of(question: Question, job: Job[Any]) -> Generation:
    """The LP's constraint, the prompt and the program as they were."""
    return generation_with(question, loaded_for(question.model, job))


def loaded_for(choice: ModelChoice, job: Job[Any]) -> LoadedModel:
    job.say(f"loading {choice.alias or choice.folder}")
    return job.models.get(choice.entry(), choice.device, choice.dtype)


def generation_with(question: Question, loaded: LoadedModel) -> Generation:
    """``ModelError`` where its tokenizer is not that of the sample."""
    from engine.decode.generation import Generation

    if question.tokenizer and loaded.tokenizer.name != question.tokenizer:
        problem = f"the sample was written with the tokenizer {question.tokenizer}, but {loaded.entry.name} has "
        raise ModelError(problem + loaded.tokenizer.name, "Choose a model with the same tokenizer")
    return Generation(loaded, [parse_written(question.smiles)], question.plan)


def _continued(
    generation: Generation, indices: Sequence[int], samples: Sequence[Mapping[str, Any]]
) -> list[dict[int, Continuation]]:
    """Of samples of the molecules with these indices, the continuations of those of their ``blocks`` that have one."""
    from engine.decode.continuation import continue_blocks, cuts_of
    from engine.decode.generation import make_backend
    from engine.lp.exact import ExactConstraint

    loaded = generation.loaded
    by_sample: list[list[Cut]] = []
    for index, sample in zip(indices, samples, strict=True):
        stored = generation.stored(index, sample["token_ids"])
        by_sample.append(cuts_of(generation.constraint, generation.molecules[index], stored, sample["blocks"]))
    exact = ExactConstraint(loaded.tokenizer, generation.form, loaded.vocab_rows)
    backend = make_backend(loaded, exact, "auto")
    estimates = iter(continue_blocks(backend, exact, loaded.tokenizer, [cut for cuts in by_sample for cut in cuts]))
    known = [[(cut.block, next(estimates)) for cut in cuts] for cuts in by_sample]
    return [{block: estimate for block, estimate in blocks if estimate is not None} for blocks in known]


def _steps_of(
    generation: Generation, indices: Sequence[int], samples: Sequence[Mapping[str, Any]], **how: Any
) -> tuple[list[dict[str, Any]], float]:
    """Rows of ``steps`` of samples of the molecules with these indices, and the seconds of the model's passes."""
    from engine.decode.scoring import reader_of, score

    loaded, rows = generation.loaded, list[dict[str, Any]]()
    stored = [generation.stored(index, sample["token_ids"]) for index, sample in zip(indices, samples, strict=True)]
    reader, began = reader_of(loaded), time.perf_counter()
    scored = list(score(reader, generation.constraint, stored, loaded.tokenizer.vocab_size, **how))
    seconds = time.perf_counter() - began
    for index, sample, result in zip(indices, samples, scored, strict=True):
        ids = sample["token_ids"]
        forced = sample["forced"] or [False] * len(ids)
        aligned = generation.reader.aligned(generation.molecules[index], ids, forced, {})
        rows += step_rows(sample["sample_id"], aligned.rows, result.diagnoses)
    return rows, seconds


@dataclass(frozen=True, slots=True)
class ScoredRun:
    """``samples`` and ``tokens`` are those that were scored, in so many seconds of the model's passes."""

    entry: Entry
    cost: RunCost
    samples: int
    tokens: int
    seconds: float
    is_stored: bool


def score_run(
    store: Store,
    run_id: str,
    *,
    most: int = 0,
    device: str = "auto",
    batch_size: int = 8,
    progress: Callable[[int, int], None] = lambda done, samples: None,
) -> ScoredRun:
    """Score the run's samples with unknown chances, the first ``most`` of all; 0: all. None may be left."""
    from engine.models.loading import load_model

    entry = store.entry(run_id)
    _check_drawn(entry)
    facts = run_facts(store, entry.id)
    waiting = store.table(_WAITING, {"run": entry.id, "most": most, "ids": None}, of=[entry.id]).to_pylist()
    if waiting and facts.lp_record.asks_tokens:
        lp = facts.lp_record.name
        problem = (
            f"{len(waiting):,} samples of {entry.id} were stored without what {lp} struck, which only their run knew"
        )
        raise RunError(problem, f"Generate it again with --keep-steps {len(waiting)}, or give --kept")
    if not waiting:
        return ScoredRun(entry, cost_of_run(store, facts), 0, 0, 0.0, is_stored=False)
    for sample in waiting:
        ids, forced = sample["token_ids"], sample["forced"] or [False] * len(sample["token_ids"])
        if None in (*ids, *forced) or len(forced) != len(ids):
            reason = f"the tokens of sample {sample['sample_id']} of {entry.id} lack an id, or whether they were forced"
            raise RunError(reason, "Generate the run again, or give --kept")
    plan, model = _plan_of(entry)
    stored = _stored_steps(store, entry)
    is_scored = pc.is_in(stored["sample_id"], pa.array([sample["sample_id"] for sample in waiting]))
    kept = stored.filter(is_scored).select(["sample_id", "pos", "top_k"]).to_pylist()
    likely = {(row["sample_id"], row["pos"]): row["top_k"] for row in kept}
    loaded = load_model(model, device)
    tables = [stored.filter(pc.invert(is_scored))]
    seconds = 0.0
    for some, generation, indices in _at_once(waiting, loaded, plan, progress):
        rows, took_s = _steps_of(generation, indices, some, candidates=0, sampling=plan.sampling, batch_size=batch_size)
        rows = [row | {"run_id": entry.id, "top_k": likely.get((row["sample_id"], row["pos"]), [])} for row in rows]
        tables.append(STEPS.rows(rows))
        seconds += took_s
    steps = pa.concat_tables(tables).sort_by(IN_ORDER)
    figures = (len(waiting), sum(len(sample["token_ids"]) for sample in waiting), seconds)
    if entry.files is not store.home:
        cost = cost_of_steps(store, facts, steps.filter(pc.is_valid(steps["ln_q"])))
        return ScoredRun(entry, cost, *figures, is_stored=False)
    entry = rewrite_run(entry, {STEPS.name: steps}, {})
    store = store.snapshot()
    return ScoredRun(entry, cost_of_run(store, run_facts(store, entry.id)), *figures, is_stored=True)


@dataclass(frozen=True, slots=True)
class ExplainedRun:
    """``samples`` were scored, ``continued`` cut blocks have continuations now."""

    entry: Entry
    samples: int
    continued: int
    recounted: Recounted | None


def explain_run(
    store: Store,
    run_id: str,
    *,
    worst: int = 4,
    device: str = "auto",
    batch_size: int = 8,
    progress: Callable[[int, int], None] = lambda done, samples: None,
) -> ExplainedRun:
    """Store what the inspector's two buttons compute: how the model would have finished the cut blocks of a run, whose
    kinds are then counted again, and token probabilities of its worst samples. The latter are no sample of the run, so
    they are stored without what figures over samples are made of, such as log w."""
    from engine.models.loading import load_model

    entry = store.writable(run_id)
    if SAMPLES.name not in entry.parts:
        raise without_samples(entry, "score")
    plan, model = _plan_of(entry)
    loaded = load_model(model, device)
    cut = store.table(_CUT, {"run": entry.id}, of=[entry.id]).to_pylist()
    texts: dict[tuple[int, int], str] = {}
    for some, generation, indices in _at_once(cut, loaded, plan, progress):
        for sample, estimates in zip(some, _continued(generation, indices, some), strict=True):
            texts |= {(sample["sample_id"], block): estimate.text for block, estimate in estimates.items()}
    recounted = recount_run(store, entry.id, texts) if texts else None
    entry = (store := store.snapshot()).entry(entry.id)
    order = sample_table(store, [entry.id], is_worst_first=True)["sample_id"].to_pylist()[:worst]
    waiting = store.table(_WAITING, {"run": entry.id, "most": 0, "ids": order}, of=[entry.id]).to_pylist()
    tables = [_stored_steps(store, entry)]
    for some, generation, indices in _at_once(waiting, loaded, plan, progress):
        rows, _ = _steps_of(generation, indices, some, candidates=KEPT, batch_size=batch_size, between=lambda: None)
        tables.append(STEPS.rows([row | {"run_id": entry.id} for row in rows]))
    if waiting:
        entry = rewrite_run(entry, {STEPS.name: pa.concat_tables(tables).sort_by(IN_ORDER)}, {})
    return ExplainedRun(entry, len(waiting), len(texts), recounted)


def _stored_steps(store: Store, entry: Entry) -> pa.Table:
    """All of the run's: what a damaged file has lost must not be lost for good as the run is written again."""
    steps = store.table(_STEPS, {"run": entry.id}, of=[entry.id]).cast(STEPS.schema)
    part = entry.parts.get(STEPS.name)
    if part is not None and steps.num_rows != part.rows:
        raise StoreError(f"steps of {entry.id} cannot be read: {steps.num_rows:,} of {part.rows:,}", "Run `verify`")
    return steps


def _at_once(
    samples: Sequence[dict[str, Any]], loaded: LoadedModel, plan: Plan, progress: Callable[[int, int], None]
) -> Iterator[tuple[Sequence[dict[str, Any]], Generation, list[int]]]:
    """Samples in parts, each with a generation of its molecules and the index of each sample's."""
    from engine.decode.generation import Generation

    for start in range(0, len(samples), AT_ONCE):
        some = samples[start : start + AT_ONCE]
        smiles = list(dict.fromkeys(sample["smiles"] for sample in some))
        indices = [smiles.index(sample["smiles"]) for sample in some]
        yield some, Generation(loaded, list(map(parse_written, smiles)), plan), indices
        progress(start + len(some), len(samples))


def _check_drawn(entry: Entry) -> None:
    """An error unless all of its samples' tokens were drawn or forced by its LP."""
    if SAMPLES.name not in entry.parts:
        raise without_samples(entry, "score")
    if is_branch(entry):
        problem = f"{entry.id} keeps the first tokens of {entry.row['branch_of']}, which its LP did not choose"
        raise RunError(problem, f"What the place decides: `python -m engine ask drift_branches {entry.id}`")


def written_with(entry: Entry) -> tuple[RunPlan, ModelEntry]:
    """The plan of a run that was measured here, and its model, which has the weights of then."""
    if "plan" not in entry.sheet:
        problem = f"{entry.id} does not say how it was sampled"
        raise RunError(problem, "Only runs that were measured here have their plan")
    whole = RunPlan.read(entry.sheet["plan"])
    model = whole.model.entry()
    if entry.row.get("weights") and model.sha256 != entry.row["weights"]:
        raise RunError(f"{entry.id} was written with other weights than {model.name} has now", "Generate the run again")
    return whole, model


def _plan_of(entry: Entry) -> tuple[Plan, ModelEntry]:
    """The plan that samples are read with, one answer a molecule; and the model."""
    whole, model = written_with(entry)
    plan = whole.plan
    record = lp_record(split_cleanup(plan.lp)[0])
    if plan.equal_work and record.name == NO_LP:
        problem = f"{entry.id} was written with --equal-work: its answers were cut at a length, so log w is not defined"
        raise RunError(problem, "Generate one without --equal-work")
    placeholder = entry.row.get("placeholder") or plan.placeholder if record.placeholder else ""
    lp = record.unguarded or record.name  # a guard changes no mask
    options: dict[str, Any] = {"generations": 1, "diagnostics": False, "equal_work": False, "backend": "auto"}
    options["branch"] = None
    return replace(plan, lp=lp, placeholder=placeholder, **options), model
