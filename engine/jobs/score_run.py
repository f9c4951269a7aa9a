"""A stored run asked again, in one pass of its model over the ids that it has: what each token was drawn with.

Nothing is generated. The rows become the run's kept steps, where it is the user's own, so that everything that reads
steps has them. Tokens are only as likely as the same weights say: a run of others is refused.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from engine.chem.smiles import parse_written
from engine.decode.plan import Plan
from engine.errors import RunError
from engine.inspection.lp_cost import RunCost, cost_of_run, cost_of_steps
from engine.inspection.runs import run_facts
from engine.jobs.plan import RunPlan
from engine.lp_records import lp_record, split_cleanup
from engine.models.registry import ModelEntry
from engine.store.entries import Entry, without_samples
from engine.store.rewriting import rewrite_run
from engine.store.sample_rows import step_rows, steps_table
from engine.store.schema import STEPS
from engine.store.store import Store

AT_ONCE = 64
"""Samples that are read and turned into rows together."""
_UNKNOWN = """
SELECT sample_id, smiles, token_ids, forced FROM samples
WHERE run_id = $run AND len(token_ids) > 0 AND ($most = 0 OR sample_id < $most)
  AND sample_id NOT IN (SELECT sample_id FROM steps WHERE run_id = $run AND ln_q IS NOT NULL)
ORDER BY smiles, sample_id
"""


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
    """Score the run's samples whose chances are not known, the first ``most`` of all; 0: all. None may be left."""
    entry = store.entry(run_id)
    if "samples" not in entry.parts:
        raise without_samples(entry, "score")
    facts = run_facts(store, entry.id)
    waiting = store.table(_UNKNOWN, {"run": entry.id, "most": most}, of=[entry.id]).to_pylist()
    if not waiting:
        return ScoredRun(entry, cost_of_run(store, facts), 0, 0, 0.0, is_stored=False)
    for sample in waiting:
        ids, forced = sample["token_ids"], sample["forced"] or [False] * len(sample["token_ids"])
        if None in ids or None in forced or len(forced) != len(ids):
            what = f"the tokens of sample {sample['sample_id']} of {entry.id} lack an id, or whether they were forced"
            raise RunError(what, "Generate the run again, or give --kept")
    scoring = _Scoring(entry, device, batch_size)
    tables = []
    for start in range(0, len(waiting), AT_ONCE):
        tables.append(steps_table(entry.id, scoring.rows(waiting[start : start + AT_ONCE])))
        progress(min(start + AT_ONCE, len(waiting)), len(waiting))
    rows = _beside_known(store, entry, pa.concat_tables(tables))
    figures = (len(waiting), sum(len(row["token_ids"]) for row in waiting), scoring.seconds)
    if entry.files is not store.home:
        known = rows.filter(pc.is_valid(rows["ln_q"]))
        return ScoredRun(entry, cost_of_steps(store, facts, known), *figures, is_stored=False)
    entry = rewrite_run(entry, {STEPS.name: rows}, {})
    store = store.snapshot()
    return ScoredRun(entry, cost_of_run(store, run_facts(store, entry.id)), *figures, is_stored=True)


def _beside_known(store: Store, entry: Entry, scored: pa.Table) -> pa.Table:
    """With the steps that the run has of other samples, and the likely tokens that it kept of these."""
    names = ", ".join(f'"{name}"' for name in STEPS.names)
    sql = f"SELECT {names} FROM steps WHERE run_id = $run ORDER BY sample_id, pos"
    known = store.table(sql, {"run": entry.id}, of=[entry.id]).cast(STEPS.schema)
    is_scored = pc.is_in(known["sample_id"], pc.unique(scored["sample_id"]))
    kept = known.filter(is_scored)
    if kept.num_rows:
        tops = {
            (row["sample_id"], row["pos"]): row["top_k"]
            for row in kept.select(["sample_id", "pos", "top_k"]).to_pylist()
        }
        keys = zip(scored["sample_id"].to_pylist(), scored["pos"].to_pylist(), strict=True)
        column = STEPS.names.index("top_k")
        top_k = pa.array([tops.get(key) for key in keys], STEPS.schema.field(column).type)
        scored = scored.set_column(column, STEPS.schema.field(column), top_k)
    whole = pa.concat_tables([known.filter(pc.invert(is_scored)), scored])
    return whole.sort_by([("sample_id", "ascending"), ("pos", "ascending")])


class _Scoring:
    """The run's model and LP, as the run had them."""

    def __init__(self, entry: Entry, device: str, batch_size: int) -> None:
        from engine.models.loading import load_model

        self.plan, model = _plan_of(entry)
        self.loaded = load_model(model, device)
        self.batch_size = batch_size
        self.seconds = 0.0

    def rows(self, samples: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        from engine.decode.body import Body
        from engine.decode.generation import Generation
        from engine.decode.scoring import score

        smiles = list(dict.fromkeys(sample["smiles"] for sample in samples))
        generation = Generation(self.loaded, list(map(parse_written, smiles)), self.plan)
        place = {text: number for number, text in enumerate(smiles)}
        stored = [generation.stored(place[sample["smiles"]], sample["token_ids"]) for sample in samples]
        began = time.perf_counter()
        scored = list(
            score(
                Body(self.loaded.model, self.loaded.positions),
                generation.constraint,
                stored,
                self.loaded.tokenizer.vocab_size,
                candidates=0,
                sampling=self.plan.sampling,
                batch_size=self.batch_size,
            )
        )
        self.seconds += time.perf_counter() - began
        for sample, diagnoses in zip(samples, scored, strict=True):
            ids, molecule = sample["token_ids"], generation.molecules[place[sample["smiles"]]]
            forced = sample["forced"] or [False] * len(ids)
            aligned = generation.reader.aligned(molecule, ids, forced, {})
            yield from step_rows(sample["sample_id"], aligned.rows, diagnoses.diagnoses)


def _plan_of(entry: Entry) -> tuple[Plan, ModelEntry]:
    """The plan that samples are read with, one answer a molecule; and the model."""
    if "plan" not in entry.sheet:
        raise RunError(
            f"{entry.id} does not say how it was sampled", "Only runs that were measured here have their plan"
        )
    whole = RunPlan.read(entry.sheet["plan"])
    plan, model = whole.plan, whole.model.entry()
    if entry.row.get("weights") and model.sha256 != entry.row["weights"]:
        raise RunError(f"{entry.id} was written with other weights than {model.name} has now", "Generate the run again")
    lp, _ = split_cleanup(plan.lp)
    if plan.equal_work and lp == "none":
        raise RunError(
            f"{entry.id} was written with --equal-work: its answers were cut at a length, so log w is not defined",
            "Generate one without --equal-work",
        )
    record = lp_record(lp)
    placeholder = entry.row.get("placeholder") or plan.placeholder if record.placeholder else ""
    lp = "exact" if record.is_guarded else record.name  # a guard changes no mask
    return replace(
        plan, lp=lp, placeholder=placeholder, generations=1, diagnostics=False, equal_work=False, backend="fast"
    ), model
