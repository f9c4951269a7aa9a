"""Scored token by token as while sampling, whatever the batch and the LP; and how much of the mass wanted to close."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from engine.chem.enriched import fill_blocks, skeleton_of
from engine.chem.smiles import parse_smiles
from engine.decode import scoring
from engine.decode.body import Body
from engine.decode.diagnosis import LOST_RULE, blocks_and_rules, close_ids, close_mass, closing_cells, diagnose
from engine.decode.fast import FastBackend
from engine.decode.plan import DecodeOptions, preset
from engine.decode.scoring import Scored, Stored, forced_closes, score, walk
from engine.decode.steps import CloseIds, Counters, Diagnosis, Step
from engine.errors import ConstraintError, ModelError
from engine.lp.constraint import Constraint
from engine.lp.driver import Tables
from engine.lp_records import LPS
from engine.text.align import align
from engine.text.template import build_template
from engine.text.tokenizers import TextTokenizer, load_tokenizer, number_ids
from tests.engine.decode.hf_tiny import END, LETTERS_ONLY, TOKENS, tiny_model
from tests.engine.decode.reference import SMILES, asked, collected, fresh_model, made
from tests.engine.decode.reference import small_model as model
from tools.training.packed import all_ids

NAMES = ("qwen3", "llama3")
MIXED = SMILES[1:3]
LIMIT = 20
SHORT = "0.0,0.0,0.00"
each = pytest.mark.parametrize("name", NAMES)


@functools.cache
def body(name: str) -> Body:
    return Body(model(name), 512)


@functools.cache
def sampled(lp: str, name: str) -> tuple[TextTokenizer, Constraint, list[Stored], list[list[Step]]]:
    """Samples of the fast backend, as they would be stored, and their steps with its own diagnostics."""
    tokenizer, constraint = made(lp, name, **({"placeholder": SHORT} if "position" in lp else {}))
    requests = asked(constraint, tokenizer, MIXED, limit=LIMIT)
    backend = FastBackend(model(name), constraint, tokenizer.end_id or 0, tokenizer.vocab_size)
    options = DecodeOptions(preset("qwen3"), seed=5, batch_size=3, diagnostics=True, candidates=3)
    events = list(backend.run(requests, options, Counters()))
    found = collected(events)
    stored = [Stored(request.prompt, tuple(found[request.sample].ids), request.program) for request in requests]
    steps = [
        [step for step in events if isinstance(step, Step) and step.sample == request.sample] for request in requests
    ]
    return tokenizer, constraint, stored, steps


def same(found: Sequence[Diagnosis], expected: Sequence[Diagnosis | None]) -> None:
    close: Any = functools.partial(pytest.approx, rel=2e-4, abs=1e-9)
    assert len(found) == len(expected)
    for got, wanted in zip(found, expected, strict=True):
        assert wanted is not None
        assert (got.block, got.rule) == (wanted.block, wanted.rule)
        for name in ("p_raw", "p_lp", "allowed_mass", "entropy_nat"):
            assert getattr(got, name) == close(getattr(wanted, name)), name
        assert abs(got.rank_raw - wanted.rank_raw) <= 2, "two of 150,000 may be as good as equal"
        assert [one.p_raw for one in got.top_k] == close([one.p_raw for one in wanted.top_k])
        assert [(one.token_id, one.allowed) for one in got.top_k] == [
            (one.token_id, one.allowed) for one in wanted.top_k
        ]


# --- the numbers --------------------------------------------------------------------------------------------------


@each
@pytest.mark.parametrize("lp", list(LPS))
def test_as_the_fast_backend_said_while_it_sampled(name: str, lp: str) -> None:
    tokenizer, constraint, stored, steps = sampled(lp, name)
    found = list(score(body(name), constraint, stored, tokenizer.vocab_size, candidates=3))
    for scored, one, expected in zip(found, stored, steps, strict=True):
        same(scored.diagnoses, [step.diagnosis for step in expected])
        tables = Tables.of(constraint.automaton, [one.program])
        states = list(walk(tables, torch.tensor([one.answer])))[:-1]
        only = [int(tables.forced_id(state)) for state in states]
        forced = [known == id_ for known, id_ in zip(only, one.answer, strict=True)]
        assert forced == [step.forced for step in expected]


@each
def test_as_a_plain_pass_of_the_whole_text_says(name: str) -> None:
    tokenizer, constraint, stored, _ = sampled("exact", name)
    one = stored[1]
    with torch.inference_mode():
        logits = model(name)(torch.tensor([[*one.prompt, *one.answer]]), use_cache=False).logits[0].float()
        raw = logits[len(one.prompt) - 1 : -1]  # [T, V] before each token of the answer
        raw[:, tokenizer.vocab_size :] = -torch.inf
    tables = Tables.of(constraint.automaton, [one.program])
    state, expected = tables.start(), []
    for place, id_ in enumerate(one.answer):
        token = torch.tensor([id_])
        standing = blocks_and_rules(constraint.automaton, [one.program], state)
        expected += diagnose(raw[place : place + 1], tables.mask(state), token, 10, *standing)
        state = tables.step(state, token)
    (found,) = score(body(name), constraint, [one], tokenizer.vocab_size)
    same(found.diagnoses, expected)


def test_a_row_without_a_token_has_no_mass() -> None:
    tokenizer, constraint, stored, _ = sampled("none", "qwen3")
    wide = fresh_model()
    with torch.no_grad():
        wide.lm_head.weight[tokenizer.vocab_size :] *= 30
    (scored,) = score(Body(wide, 512), constraint, stored[:1], tokenizer.vocab_size)
    found = scored.diagnoses
    assert all(one.allowed_mass == pytest.approx(1, abs=1e-4) for one in found)
    assert max(candidate.token_id for one in found for candidate in one.top_k) < tokenizer.vocab_size


@each
def test_another_lp_is_asked_what_it_would_have_allowed(name: str) -> None:
    """The first token that it had not allowed is the last one of which it says anything."""
    tokenizer, _, stored, steps = sampled("group-v2.1", name)
    _, exact = made("exact", name)
    others = [
        replace(one, program=exact.compile(parse_smiles(smiles))) for one, smiles in zip(stored, MIXED, strict=True)
    ]
    for scored, own in zip(score(body(name), exact, others, tokenizer.vocab_size), steps, strict=True):
        found = scored.diagnoses
        places = [place for place, one in enumerate(found) if one.rule == LOST_RULE]
        first = places[0]
        assert places == list(range(first, len(own))), "lost, and lost for good"
        assert all((one.p_lp, one.allowed_mass, one.block) == (0, 0, -1) for one in found[first:])
        assert found[first - 1].p_lp == 0
        assert found[first - 1].allowed_mass > 0
        assert all(one.p_lp > 0 for one in found[: first - 1])
        assert [one.p_raw for one in found] == pytest.approx(
            [step.diagnosis.p_raw for step in own if step.diagnosis], rel=2e-4
        )


# --- batches ------------------------------------------------------------------------------------------------------


def tiny_stored() -> list[Stored]:
    """Prompts and answers of mixed length over 48 rows, some without an answer."""
    program = LETTERS_ONLY.program()
    letters = [(), (5,), (5, 6, 11, 13, 7, END), (5, 6, *range(11, 29, 2), 7, END), (), (5, 6, 7, END), (5, 30, 7)]
    return [Stored(tuple(range(31, 32 + number * 3 % 7)), answer, program) for number, answer in enumerate(letters)]


def tiny_scores(of: Body, **given: Any) -> list[list[Diagnosis]]:
    return [scored.diagnoses for scored in score(of, LETTERS_ONLY, tiny_stored(), TOKENS, **given)]


@pytest.fixture(scope="module")
def tiny() -> Body:
    return Body(tiny_model(), 64)


@pytest.mark.parametrize(("read_width", "most_scores"), [(256, 2**22), (1, TOKENS), (3, 7 * TOKENS), (5, 1)])
def test_a_sample_does_not_depend_on_its_batch(
    monkeypatch: pytest.MonkeyPatch, tiny: Body, read_width: int, most_scores: int
) -> None:
    alone = [next(score(tiny, LETTERS_ONLY, [one], TOKENS)).diagnoses for one in tiny_stored()]
    assert [len(found) for found in alone] == [len(one.answer) for one in tiny_stored()]
    monkeypatch.setattr(scoring, "READ_WIDTH", read_width)
    monkeypatch.setattr(scoring, "MOST_SCORES", most_scores)
    for batch_size in (1, 2, 3, 8):
        for found, expected in zip(tiny_scores(tiny, batch_size=batch_size), alone, strict=True):
            same(found, expected)


def test_nothing_asked_is_nothing_read(tiny: Body) -> None:
    counters = Counters()
    empty = [replace(one, answer=()) for one in tiny_stored()]
    ids = CloseIds(torch.tensor([7]), torch.tensor([10]))
    assert list(score(tiny, LETTERS_ONLY, [], TOKENS, counters=counters)) == []
    assert list(score(tiny, LETTERS_ONLY, empty, TOKENS)) == [Scored([], {})] * len(empty)
    assert list(score(tiny, LETTERS_ONLY, empty[:1], TOKENS, close_ids=ids)) == [Scored([], {})]
    assert list(score(tiny, LETTERS_ONLY, empty[:1], TOKENS, candidates=None, close_ids=ids)) == [Scored([], {})]
    assert forced_closes(LETTERS_ONLY, []) == []
    assert counters.forward_passes == 0


def test_the_layers_read_a_batch_once(tiny: Body) -> None:
    counters = Counters()
    ids = CloseIds(torch.tensor([7]), torch.tensor([10]))
    list(score(tiny, LETTERS_ONLY, tiny_stored(), TOKENS, close_ids=ids, batch_size=4, counters=counters))
    assert (counters.forward_passes, counters.notes) == (2, [])


class _Wrapped:
    """A body with another way to run."""

    def __init__(self, of: Body, call: Callable[..., Any]) -> None:
        self._of, self._call = of, call

    def __call__(self, *given: Any) -> Any:
        return self._call(*given)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._of, name)


def failing(of: Body, error: RuntimeError, most: int) -> Any:
    """Fails where it reads more than so many rows together."""

    def call(ids: torch.Tensor, places: Any, cache: Any) -> torch.Tensor:
        if places.grid[0] > most:
            raise error
        return of(ids, places, cache)

    return _Wrapped(of, call)


def test_short_memory_halves_the_batch_and_loses_nothing(tiny: Body) -> None:
    counters = Counters()
    short = failing(tiny, torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20 GiB"), 2)
    for found, expected in zip(tiny_scores(short, counters=counters), tiny_scores(tiny), strict=True):
        same(found, expected)
    assert counters.notes == [f"memory was short: batches of {size} from here on" for size in (3, 1)]


def test_other_errors_and_memory_too_short_for_one_row_are_not_swallowed(tiny: Body) -> None:
    with pytest.raises(ModelError, match="too short for a single row"):
        tiny_scores(failing(tiny, RuntimeError("DefaultCPUAllocator: can't allocate memory"), 0))
    with pytest.raises(RuntimeError, match="shapes do not fit"):
        tiny_scores(failing(tiny, RuntimeError("shapes do not fit"), 0))


# --- what does not fit --------------------------------------------------------------------------------------------


def test_what_the_model_cannot_read_is_named_before_anything_is_read(tiny: Body) -> None:
    one = tiny_stored()[2]
    with pytest.raises(ModelError, match="sample of 64 tokens is longer than the model's context of 63"):
        score(Body(tiny_model(), 63), LETTERS_ONLY, [one, replace(one, answer=(5,) * 58)], TOKENS)
    list(score(tiny, LETTERS_ONLY, [replace(one, answer=(5,) * 58)], TOKENS))
    with pytest.raises(ModelError, match="the token 40, and the model's tokenizer has 40"):
        score(tiny, LETTERS_ONLY, [replace(one, answer=(5, 40))], TOKENS)
    with pytest.raises(ModelError, match="the token 41"):
        score(tiny, LETTERS_ONLY, [replace(one, prompt=(41,))], TOKENS)
    with pytest.raises(ModelError, match="the token -1"):
        score(tiny, LETTERS_ONLY, [replace(one, answer=(-1,))], TOKENS)
    with pytest.raises(ConstraintError, match="the model has 48 rows, the constraint was built for 151,936"):
        score(tiny, made("exact")[1], [one], TOKENS)


# --- closing ------------------------------------------------------------------------------------------------------


@each
def test_which_tokens_close_and_which_go_on(name: str) -> None:
    tokenizer = load_tokenizer(name)
    found = close_ids(tokenizer)
    closing, going_on = found.closing.tolist(), found.going_on.tolist()
    assert set(going_on) == all_ids(number_ids(tokenizer))
    assert all(tokenizer.piece(id_).startswith(">") for id_ in closing)
    exact = made("exact", name)[1].compile(parse_smiles("CC(C)(C)c1cc(C#N)ccc1F"))
    assert set(exact.symbols[:, 0].tolist()) - {-1} <= set(closing), "what the exact LP closes with"


def test_masses_are_sums_over_the_vocabulary() -> None:
    log_p = torch.tensor([[0.1, 0.2, 0.3, 0.4], [1.0, 0.0, 0.0, 0.0]]).log()
    found = close_mass(log_p, CloseIds(torch.tensor([1, 2]), torch.tensor([0])))
    torch.testing.assert_close(found, torch.tensor([[0.5, 0.1], [0.0, 1.0]], dtype=torch.float64))
    assert close_mass(log_p, CloseIds(torch.tensor([], dtype=torch.int64), torch.tensor([0, 1, 2, 3]))).tolist() == [
        [0, pytest.approx(1)],
        [0, 1],
    ]


@each
@pytest.mark.parametrize("lp", list(LPS))
def test_an_lp_closes_a_block_by_force_behind_its_last_free_position(name: str, lp: str) -> None:
    tokenizer, constraint = made(lp, name)
    molecule = parse_smiles("CC(N)=O")
    program = constraint.compile(molecule)
    found = closing_cells(program)
    if lp in ("none", "exact", "guarded"):
        assert found == {}
        return
    assert list(found.values()) == list(range(molecule.atoms))
    for cell, block in found.items():
        assert tokenizer.piece(program.forced[cell]).startswith(">")
        assert program.block[cell - 1] == program.block[cell] == block
        assert program.forced[cell - 1] < 0


def test_only_a_close_that_was_forced_counts() -> None:
    """Not the truncating LP's jump, not a text that ends before, not a token that the program had not forced."""
    tokenizer, constraint = made("truncating", placeholder=SHORT)
    program = constraint.compile(parse_smiles("C"))
    cell = next(iter(closing_cells(program)))
    template = build_template(skeleton_of(parse_smiles("C")), tokenizer, SHORT, tags=True)
    longest = tuple(template.ids.tolist())
    opening = longest[: template.roles.tolist().index(1)]
    early = (*opening, *tokenizer.encode("1.0,2.0,3.5"), *longest[cell:])
    answers = [longest, early, longest[:cell], longest[: cell + 1], (*longest[:cell], 5), ()]
    stored = [Stored((1,), answer, program) for answer in answers]
    assert forced_closes(constraint, stored) == [{0: cell}, {}, {}, {0: cell}, {}, {}]


def position_sample(name: str, lp: str) -> tuple[TextTokenizer, Constraint, Stored, Any]:
    """Numbers that fill each block to its last position."""
    tokenizer, constraint = made(lp, name, placeholder="0.0000,0.0000,0.0000")
    molecule = parse_smiles("CC=O")
    template = build_template(skeleton_of(molecule), tokenizer, "0.0000,0.0000,0.0000", tags=True)
    contents = ["1.2345,0.1000,2.0005", "0.0001,9.1234,0.0000", "3.3333,4.4444,5.5555"]
    text = fill_blocks(molecule.smiles, molecule.descriptors, contents)
    answer = tuple(tokenizer.encode(f"[CONFORMER]{text}[/CONFORMER]"))
    prompt = tuple(tokenizer.encode("[SMILES]CC=O[/SMILES]"))
    return tokenizer, constraint, Stored(prompt, answer, constraint.compile(molecule)), template


@each
@pytest.mark.parametrize("lp", [name for name, record in LPS.items() if record.closed_by == "lp"])
def test_a_models_own_wish_at_a_forced_close(name: str, lp: str) -> None:
    """The sums of a plain pass over the whole text; then ``align`` makes of them what the vocabulary of kinds says."""
    tokenizer, constraint, stored, template = position_sample(name, lp)
    ids = close_ids(tokenizer)
    (scored,) = score(body(name), constraint, [stored], tokenizer.vocab_size, candidates=None, close_ids=ids)
    found = scored.masses
    assert (scored.diagnoses, list(found)) == ([], [0, 1, 2])
    with torch.inference_mode():
        logits = model(name)(torch.tensor([[*stored.prompt, *stored.answer]])).logits[0, :, : tokenizer.vocab_size]
    chances = logits.float().softmax(dim=-1)
    for cell, block in closing_cells(stored.program).items():
        row = chances[len(stored.prompt) + cell - 1]
        assert found[block].closing == pytest.approx(float(row[ids.closing].sum()), rel=1e-3)
        assert found[block].going_on == pytest.approx(float(row[ids.going_on].sum()), rel=1e-3)
    (both,) = score(body(name), constraint, [stored], tokenizer.vocab_size, candidates=1, close_ids=ids)
    assert both.masses == found
    assert len(both.diagnoses) == len(stored.answer)
    blocks = align(template, stored.answer, tokenizer, lp=lp, masses=found).blocks
    assert [block.kinds for block in blocks] == [("unverified",)] * 3, "a model of random weights wants neither"


@each
@pytest.mark.parametrize(("wish", "kind"), [("closing", "exact"), ("going_on", "cut")])
def test_what_a_model_wants_decides_between_exact_and_cut(name: str, wish: str, kind: str) -> None:
    tokenizer, constraint, stored, template = position_sample(name, "group-v2.1")
    ids, eager = close_ids(tokenizer), fresh_model(name)
    wants(eager, stored, getattr(ids, wish))
    (scored,) = score(Body(eager, 512), constraint, [stored], tokenizer.vocab_size, candidates=None, close_ids=ids)
    masses = scored.masses
    assert all(getattr(mass, wish) > 0.99 for mass in masses.values())
    blocks = align(template, stored.answer, tokenizer, lp="group-v2.1", masses=masses).blocks
    assert [block.kinds for block in blocks] == [(kind,)] * 3


@torch.no_grad()
def wants(of: Any, stored: Stored, ids: torch.Tensor) -> None:
    """Give a model a head that finds these ids alike, and all others far less likely, at the forced closes."""
    hidden = of.model(torch.tensor([stored.read])).last_hidden_state[0]
    at_closes = hidden[[len(stored.prompt) + cell - 1 for cell in closing_cells(stored.program)]]
    of.lm_head.weight.zero_()
    of.lm_head.weight[ids] = torch.linalg.pinv(at_closes) @ torch.full((len(at_closes),), 25.0)
