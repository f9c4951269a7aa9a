"""Answers that go on behind kept ids: these exactly, and the rest by the same draws, on each backend."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.chem.smiles import parse_written
from engine.decode.generation import Generation, taken_up
from engine.decode.plan import GENERATION_BITS, BackendName, Branch, Plan, Request, Sampling, preset
from engine.decode.scoring import alternatives, reader_of
from engine.decode.steps import Back, Step
from engine.errors import ConstraintError
from engine.lp.follower import AutomatonRows, Follower
from engine.models.loading import LoadedModel, load_model
from engine.models.registry import load_registry
from tests.engine.decode import reference as ref

QWEN3, LIMIT = preset("qwen3"), 48
RING = "C[C@H]1CO[C@@H]1N"
each_backend = pytest.mark.parametrize("kind", ref.BACKENDS)


@pytest.fixture(scope="module")
def loaded() -> LoadedModel:
    return load_model(next(entry for entry in load_registry().entries if entry.alias == "demo-qwen"), "cpu")


def from_each(request: Request, ids: list[int], constraint: Any, positions: list[int]) -> list[Request]:
    """Requests that keep the first of these ids, as many as each position says."""
    rows = AutomatonRows(constraint.automaton)
    return [replace(request, sample=at, kept=taken_up(ids[:at], Follower(rows, request.program))) for at in positions]


@each_backend
@pytest.mark.parametrize(
    ("lp", "name", "sampling"),
    [
        ("exact", "qwen3", QWEN3),
        ("exact", "llama3", QWEN3),
        ("exact", "qwen3-bins", QWEN3),
        ("none", "qwen3", ref.PLAIN),
        ("group-v2.1", "qwen3", Sampling(1.2, min_p=0.1)),
        ("group-v4.3", "llama3", QWEN3),
    ],
    ids=str,
)
def test_a_branch_from_any_position_gives_the_parent_again(lp: str, name: str, sampling: Sampling, kind: str) -> None:
    """Also inside forced runs, and where junk was written that no tokenizer cuts so."""
    tokenizer, constraint = ref.made(lp, name)
    backend = ref.backend_of(kind, ref.small_model(name), constraint, tokenizer)
    (request,) = ref.requests_of(constraint, tokenizer, ("CC=O",), LIMIT)
    (parent,) = ref.collected(ref.events_of(backend, [request], sampling)).values()
    positions = list(range(0, len(parent.ids), 1 if kind == "fast" else 3))
    branches = from_each(request, parent.ids, constraint, positions)
    written = ref.collected(ref.events_of(backend, branches, sampling, batch_size=24))
    assert sorted(written) == positions
    assert all(branch == parent for branch in written.values())


def plan_of(lp: str, generation: Generation, at: int, tokens: tuple[int, ...] = (), **more: Any) -> Plan:
    """A branch of the generation's first sample."""
    parent = generation.in_order()[0]
    branch = Branch("run/0", at, parent.token_ids[:at], 0, tokens)
    return replace(generation.plan, lp=lp, placeholder="", generations=max(1, len(tokens)), branch=branch, **more)


def test_each_generation_begins_with_its_token_and_draws_as_its_parent(loaded: LoadedModel) -> None:
    molecules = [parse_written("CC=O")]
    parents = Generation(loaded, molecules, Plan("exact", generations=3, seed=4))
    third = parents.run()[2]
    at = next(pos for pos, is_forced in enumerate(third.forced) if not is_forced and pos > 20)
    stored = parents.stored(2, third.token_ids[: at + 1])
    found = alternatives(reader_of(loaded), parents.constraint, stored, loaded.tokenizer.vocab_size)
    assert third.token_ids[at] in [id_ for id_, *_ in found]
    assert sum(p_lp or 0.0 for *_, p_lp in found) <= 1.0 + 1e-6
    assert all(p_lp == 0.0 or (p_lp or 0.0) >= p_raw - 1e-9 for _, p_raw, p_lp in found)
    tokens = tuple(id_ for id_, _, p_lp in found if p_lp)
    key = 2 << GENERATION_BITS
    branch = Branch("run/2", at, third.token_ids[:at], key, tokens)
    branches = Generation(loaded, molecules, replace(parents.plan, generations=len(tokens), branch=branch)).run()
    assert [sample.token_ids[: at + 1] for sample in branches] == [(*third.token_ids[:at], id_) for id_ in tokens]
    assert [sample.token_ids for sample in branches if sample.token_ids[at] == third.token_ids[at]] == [third.token_ids]
    assert branches[0].forced[:at] == third.forced[:at] and all(sample.check.clean for sample in branches)


@pytest.mark.parametrize("backend", ["fast", "hf"])
def test_a_branch_to_the_end_token_ends_there(loaded: LoadedModel, backend: BackendName) -> None:
    parents = Generation(loaded, [parse_written("CC=O")], Plan("none", generations=1))
    parents.run()
    end = loaded.tokenizer.end_id
    assert end is not None
    branches = Generation(loaded, parents.molecules, plan_of("none", parents, 10, (end, 5), backend=backend)).run()
    ended, other = sorted(branches, key=lambda sample: sample.token_ids[10] != end)
    assert ended.token_ids == (*parents.samples[0].token_ids[:10], end) and ended.stop_reason == "end"
    assert other.token_ids[10] == 5 and len(other.token_ids) > 11


def test_text_that_is_not_canonical_is_kept_as_it_is(loaded: LoadedModel) -> None:
    """Junk of a position LP: under none its ids stay; what another LP does not allow is named."""
    sampling = Sampling(1.4)
    parents = Generation(loaded, [parse_written("CC=O")], Plan("group-v2.1", generations=8, sampling=sampling))
    parents.samples = [sample for sample in parents.run() if not sample.canonical][:1]
    (parent,) = parents.samples
    at = len(parent.token_ids) - 1
    (branch,) = Generation(loaded, parents.molecules, plan_of("none", parents, at)).run()
    assert branch.token_ids[:at] == parent.token_ids[:at] and not branch.canonical
    with pytest.raises(ConstraintError, match="the LP exact does not allow the token"):
        Generation(loaded, parents.molecules, plan_of("exact", parents, at))
    with pytest.raises(ConstraintError, match="its answer may have 12"):
        Generation(loaded, parents.molecules, plan_of("none", parents, 12, limit=12))
    with pytest.raises(ConstraintError, match="a branch needs the model itself"):
        plan_of("none", parents, at, diagnostics=True)


@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_shaped_and_guarded_never_go_back_into_what_is_kept(loaded: LoadedModel, data: st.DataObject) -> None:
    seed, lp = data.draw(st.integers(0, 3)), data.draw(st.sampled_from(["shaped", "guarded"]))
    hot: dict[str, Any] = {"sampling": Sampling(1.3), "seed": seed}
    parents = Generation(loaded, [parse_written(RING)], Plan("exact", **hot))
    (parent,) = parents.run()
    at = data.draw(st.integers(0, parent.tokens - 1))
    backend = data.draw(st.sampled_from(["fast", "hf"]))
    generation = Generation(loaded, parents.molecules, plan_of(lp, parents, at, backend=backend))
    events, refused = [], ""
    try:
        events = list(generation.events())
    except ConstraintError as error:
        refused = error.what
    if refused:  # then what is kept is wrong for the guard too
        guard = Generation(loaded, parents.molecules, Plan("guarded", **hot))
        assert "is wrong already" in refused and any(isinstance(event, Back) for event in guard.events())
        return
    (sample,) = generation.samples
    assert sample.token_ids[:at] == parent.token_ids[:at]
    assert all(event.pos >= at for event in events if isinstance(event, Back))
    assert [event.pos for event in events if isinstance(event, Step)][:at] == list(range(at))
    assert sample.guarding is not None and sample.guarding.figures.get("log_weight") is None
