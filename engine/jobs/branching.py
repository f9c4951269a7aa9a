"""Branches of a stored sample: what else might have come at a place, and answers that go on from there.

A branch keeps the parent's ids up to a place exactly, whatever text they spell, and is written anew from there, under
any LP that allows them, by the parent's own draws. So its own token gives the parent again, but for ``guarded``, which
draws a block anew by others, and for runs with equal work, in which no answer may end. It is a run of its own, which
names its parent and the place; each of its samples begins with another token there. What it does not know: why a token
is likely.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from engine.chem.smiles import parse_written
from engine.decode.plan import GENERATION_BITS, Branch
from engine.errors import ConstraintError, RunError
from engine.figures.words import percent
from engine.inspection.runs import number_format
from engine.inspection.sample import Inspected
from engine.jobs.plan import RunPlan
from engine.jobs.scoring import loaded_for, written_with
from engine.jobs.service import Job
from engine.lp.constraint import LpParameters, build_constraint
from engine.lp.follower import AutomatonRows, Follower
from engine.lp.table import NO_ID
from engine.lp_records import DEFAULT_LP, full_name, lp_record, split_cleanup
from engine.store.entries import Entry
from engine.store.files import Files
from engine.store.store import Store, is_temporary

if TYPE_CHECKING:
    from engine.models.loading import LoadedModel

LEAST = 0.05
"""Of its probability after the LP: as likely a token is branched to where all are."""
PUT_RIGHT = "shaped"
"""The LP of a branch from the token that lost a molecule."""


@dataclass(frozen=True, slots=True)
class Place:
    """A token of a stored sample, and the plan that it was written by."""

    name: str  # RUN/SAMPLE
    smiles: str
    ids: tuple[int, ...]  # of the whole answer
    at: int
    plan: RunPlan
    key: int  # of its draws

    def branch(self, lp: str, tokens: Sequence[int] = (), device: str = "auto") -> RunPlan:
        """What is to be written: an answer for each token, or one whose token is drawn there."""
        parent, lp = self.plan.plan, full_name(lp)
        is_same = split_cleanup(lp)[0] == split_cleanup(full_name(parent.lp))[0]
        options: dict[str, Any] = {
            "lp": lp,
            "placeholder": parent.placeholder if is_same else "",
            "guard": parent.guard if is_same else None,
            "backend": parent.backend if parent.backend in ("fast", "hf") else "auto",
            "generations": max(1, len(tokens)),
            "branch": Branch(self.name, self.at, self.ids[: self.at], self.key, tuple(tokens)),
            **dict.fromkeys(("diagnostics", "equal_work", "compile"), False),
        }
        model = replace(self.plan.model, device=device)
        return RunPlan(model, replace(parent, **options), keep_steps=max(1, len(tokens)), judge=True)


def place_of(store: Store, inspection: Inspected, at: int) -> Place:
    """An error where nothing can be written behind it."""
    sample = inspection.sample
    name = f"{inspection.run.run_id}/{sample['sample_id']}"
    whole, _ = written_with(store.entry(inspection.run.run_id))
    if not inspection.can_score:
        raise RunError(f"the tokens of {name} are not known", "Choose another sample")
    ids = tuple(sample["token_ids"])
    if not 0 <= at < len(ids):
        raise RunError(f"{name} has no token {at:,}", f"It has {len(ids):,}; they count from 0")
    number, generation = divmod(sample["sample_id"], whole.plan.generations)
    key = number | generation << GENERATION_BITS if whole.plan.branch is None else whole.plan.branch.key
    whole = replace(whole, plan=replace(whole.plan, descriptors=inspection.descriptors))  # as the ids before it spell
    return Place(name, sample["smiles"], ids, at, whole, key)


def lost_place(inspection: Inspected) -> int:
    """Where a branch may put the molecule right: at the token that lost it, or where that had to come, at the last one
    before it that is a choice. An error where no branch can."""
    fix = "Choose a token before it, and branch there under any LP"
    if not inspection.lost:
        raise RunError("no token of this sample is known to have lost the molecule", "Choose a token")
    lost = inspection.lost[0]
    if lost.by != "written":
        raise RunError("the sample's own tokens are not known", "Choose a sample that was written here")
    if lost.is_before:
        raise RunError("no right place was left when its block began: atoms before it are wrong already", fix)
    if len(inspection.shapes) > 1:
        raise RunError(f"the answer has several conformers, and {PUT_RIGHT} writes one", fix)
    follower, ids, choice = _follower(inspection), inspection.sample["token_ids"], lost.token
    for at, id_ in enumerate(ids[: lost.token]):
        if follower.forced_id == NO_ID:
            choice = at
        if not follower.follow((id_,)):
            raise RunError(f"token {at:,}, which comes before it, is wrong already: {PUT_RIGHT} does not allow it", fix)
    return choice if follower.forced_id == ids[lost.token] else lost.token


def _follower(inspection: Inspected) -> Follower:
    """Of this sample's molecule, under ``PUT_RIGHT``."""
    tokenizer = inspection.tokenizer
    assert tokenizer is not None, "without one no token is known to have lost it"
    parameters = LpParameters(form=number_format(inspection.run))
    constraint = build_constraint(PUT_RIGHT, tokenizer, tokenizer.vocab_size, parameters)
    return Follower(AutomatonRows(constraint.automaton), constraint.compile(inspection.molecule))


def usual_lp(lp: str) -> str:
    """Of a branch that names none: its parent's, but ``exact`` where only a server holds to that."""
    return DEFAULT_LP if lp_record(split_cleanup(lp)[0]).by_server else lp


@dataclass(frozen=True, slots=True)
class TokenChoice:
    """A token that might come at a place."""

    token_id: int
    piece: str
    p_raw: float  # before the LP
    p_lp: float | None  # among the tokens that the LP allows; None: it does not allow the text before
    is_written: bool  # by the parent


def alternatives_at(loaded: LoadedModel, place: Place, lp: str) -> list[TokenChoice]:
    """All likely tokens under this LP, the likeliest first, and the parent's own; under one that strikes tokens, before
    it does."""
    from engine.decode.generation import Generation
    from engine.decode.scoring import alternatives, reader_of

    plan = replace(place.branch(lp).plan, branch=None)
    generation = Generation(loaded, [parse_written(place.smiles)], plan)
    stored, tokenizer = generation.stored(0, place.ids[: place.at + 1]), loaded.tokenizer
    found = alternatives(reader_of(loaded), generation.constraint, stored, tokenizer.vocab_size)
    written = place.ids[place.at]
    return [TokenChoice(id_, tokenizer.piece(id_), p_raw, p_lp, id_ == written) for id_, p_raw, p_lp in found]


def likely_tokens(place: Place, found: Sequence[TokenChoice], least: float = LEAST) -> list[int]:
    """Those of a run of branches: without the parent's own."""
    tokens = [token.token_id for token in found if (token.p_lp or 0.0) >= least and not token.is_written]
    if not tokens:
        problem = f"no other token has {percent(least)} at token {place.at:,} of {place.name}"
        raise ConstraintError(problem, "Choose one token, or another place")
    return tokens


def write_branch(
    files: Files, loaded: LoadedModel, place: Place, plan: RunPlan, go_on: Callable[[], object] = lambda: None
) -> tuple[Entry, float | None]:
    """The run, once it is in the store, and the seconds from the loaded model to the first new token. Nothing is left
    of one that fails or is stopped."""
    from engine.decode.steps import Counters, Events, Step
    from engine.jobs.run import Run, begin

    began, first_s = time.perf_counter(), None
    kept = len(plan.plan.branch.first_ids(0)) if plan.plan.branch else 0

    def watch(events: Events, counters: Counters) -> Events:
        nonlocal first_s
        for event in events:
            if first_s is None and isinstance(event, Step) and event.pos >= kept:
                first_s = time.perf_counter() - began
            yield event

    molecules = [parse_written(place.smiles)]
    staging = begin(files, loaded, molecules, plan)
    try:
        run = Run(staging, loaded, molecules, RunPlan.read(staging.sheet["plan"]))
        run.observe(watch, None)
        for _ in run.progress():
            go_on()
        return run.publish(), first_s
    finally:
        if staging.is_there:
            staging.abandon()


# --- in the app -----------------------------------------------------------------------------------------------------


def find_alternatives(place: Place, lp: str, job: Job[list[TokenChoice]]) -> list[TokenChoice]:
    return alternatives_at(loaded_for(replace(place.plan.model, device="auto"), job), place, lp)


def branch_off(store: Store, place: Place, lp: str, tokens: Sequence[int] | None, job: Job[str]) -> str:
    """Its run's id. ``tokens``: none, and one is drawn; None: all that are likely there. A branch of an unsaved run is
    put next to it, others into the user's store."""
    parent = store.entry(place.name.rpartition("/")[0])
    files = parent.files if is_temporary(parent) else store.home
    loaded = loaded_for(replace(place.plan.model, device="auto"), job)
    chosen = likely_tokens(place, alternatives_at(loaded, place, lp)) if tokens is None else tokens
    job.say("writing the branch" if len(chosen) < 2 else f"writing {len(chosen)} branches")
    return write_branch(files, loaded, place, place.branch(lp, chosen), job.go_on)[0].id
