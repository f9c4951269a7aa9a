"""Scored token by token as while sampling, whatever the batch and the LP; and how much of the mass wanted to close."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import pytest
import torch

from engine.chem.enriched import fill_blocks, skeleton_of
from engine.chem.smiles import parse_smiles
from engine.decode import scoring
from engine.decode.body import Body
from engine.decode.diagnosis import LOST_RULE, close_ids, closing_cells
from engine.decode.plan import preset
from engine.decode.scoring import Stored, forced_closes, score, walk
from engine.decode.steps import Counters, Diagnosis, Step
from engine.errors import ConstraintError, ModelError
from engine.lp.constraint import Constraint
from engine.lp.driver import Tables
from engine.lp_records import LPS
from engine.text.align import align
from engine.text.template import build_template
from engine.text.tokenizers import TextTokenizer, load_tokenizer, number_ids
from tests.engine.decode import reference as ref
from tests.engine.decode.reference import small_model as model
from tools.training.packed import all_ids

NAMES = ("qwen3", "llama3")
LIKE_OTHERS = ("group-v3.4", "group-v3.8", "group-v3.9", "group-v4.0")  # tables like v4.3's
MIXED = ref.SMILES[1:3]
LIMIT = 20
SHORT = "0.0,0.0,0.00"
SAMPLING = preset("qwen3")
each = pytest.mark.parametrize("name", NAMES)


@functools.cache
def body(name: str) -> Body:
    return Body(model(name), 512)


@functools.cache
def sampled(lp: str, name: str) -> tuple[TextTokenizer, Constraint, list[Stored], list[list[Step]]]:
    """Samples of the fast backend, as they would be stored, and their steps with its own diagnostics."""
    tokenizer, constraint = ref.made(lp, name, **({"placeholder": SHORT} if "position" in lp else {}))
    requests = ref.requests_of(constraint, tokenizer, MIXED, limit=LIMIT)
    steps = steps_by("fast", lp, name)
    answers = [tuple(step.token_id for step in own) for own in steps]
    stored = [
        Stored(request.prompt, answer, request.program) for request, answer in zip(requests, answers, strict=True)
    ]
    return tokenizer, constraint, stored, steps


def steps_by(kind: str, lp: str, name: str) -> list[list[Step]]:
    tokenizer, constraint = ref.made(lp, name, **({"placeholder": SHORT} if "position" in lp else {}))
    requests = ref.requests_of(constraint, tokenizer, MIXED, limit=LIMIT)
    backend = ref.backend_of(kind, model(name), constraint, tokenizer)
    events = ref.events_of(backend, requests, SAMPLING, diagnostics=True, candidates=3)
    steps = [event for event in events if isinstance(event, Step)]
    return [[step for step in steps if step.sample == request.sample] for request in requests]


# --- the numbers --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "lp"),
    [*(("qwen3", lp) for lp in LPS if lp not in LIKE_OTHERS), ("llama3", "group-v2.1"), ("llama3", "exact"),
     ("qwen3-bins", "none"), ("qwen3-bins", "group-v4.3"), ("qwen3-bins", "exact")],
)  # fmt: skip
def test_as_both_backends_said_while_they_sampled(name: str, lp: str) -> None:
    tokenizer, constraint, stored, steps = sampled(lp, name)
    scores = list(score(body(name), constraint, stored, tokenizer.vocab_size, candidates=3, sampling=SAMPLING))
    for scored, sample, expected, hf in zip(scores, stored, steps, steps_by("hf", lp, name), strict=True):
        ref.same(scored.diagnoses, [step.diagnosis for step in expected])
        ref.same(scored.diagnoses, [step.diagnosis for step in hf])
        tables = Tables.of(constraint.automaton, [sample.program])
        states = list(walk(tables, torch.tensor([sample.answer])))[:-1]
        only = [int(tables.forced_id(state)) for state in states]
        forced = [forced_id == id_ for forced_id, id_ in zip(only, sample.answer, strict=True)]
        assert forced == [step.forced for step in expected]


def test_another_lp_is_asked_what_it_would_have_allowed() -> None:
    """The first token that it had not allowed is the last one of which it says anything."""
    tokenizer, _, stored, steps = sampled("group-v2.1", "qwen3")
    _, exact = ref.made("exact")
    others = [
        replace(entry, program=exact.compile(parse_smiles(smiles))) for entry, smiles in zip(stored, MIXED, strict=True)
    ]
    for scored, own in zip(score(body("qwen3"), exact, others, tokenizer.vocab_size), steps, strict=True):
        diagnoses = scored.diagnoses
        lost = [index for index, d in enumerate(diagnoses) if d.rule == LOST_RULE]
        first = lost[0]
        assert lost == list(range(first, len(own))), "lost, and lost for good"
        assert all((d.p_lp, d.allowed_mass, d.block) == (0, 0, -1) for d in diagnoses[first:])
        assert diagnoses[first - 1].p_lp == 0
        assert (diagnoses[first - 1].allowed_mass or 0) > 0
        assert all((d.p_lp or 0) > 0 for d in diagnoses[: first - 1])
        assert [d.p_raw for d in diagnoses] == pytest.approx(
            [step.diagnosis.p_raw for step in own if step.diagnosis], rel=2e-4
        )


def test_scores_that_are_not_finite_are_an_error() -> None:
    made = ref.tiny_model()
    with torch.no_grad():
        made.get_output_embeddings().weight[ref.LETTERS[0]] = torch.nan
    with pytest.raises(ModelError, match="are not finite"):
        tiny_scores(Body(made, 64))


# --- batches ------------------------------------------------------------------------------------------------------
def tiny_stored() -> list[Stored]:
    """Prompts and answers of mixed length over 48 rows, some without an answer."""
    program = ref.LETTERS_ONLY.program()
    letters = [
        (),
        (5,),
        (5, 6, 11, 13, 7, ref.END),
        (5, 6, *range(11, 29, 2), 7, ref.END),
        (),
        (5, 6, 7, ref.END),
        (5, 30, 7),
    ]
    return [Stored(tuple(range(31, 32 + number * 3 % 7)), answer, program) for number, answer in enumerate(letters)]


def tiny_scores(of: Body, **given: Any) -> list[list[Diagnosis]]:
    return [scored.diagnoses for scored in score(of, ref.LETTERS_ONLY, tiny_stored(), ref.TOKENS, **given)]


@pytest.fixture(scope="module")
def tiny() -> Body:
    return Body(ref.tiny_model(), 64)


@pytest.mark.parametrize(("read_width", "most_scores"), [(256, 2**22), (1, ref.TOKENS), (3, 7 * ref.TOKENS)])
def test_a_sample_does_not_depend_on_its_batch(
    monkeypatch: pytest.MonkeyPatch, tiny: Body, read_width: int, most_scores: int
) -> None:
    alone = [next(score(tiny, ref.LETTERS_ONLY, [sample], ref.TOKENS)).diagnoses for sample in tiny_stored()]
    assert [len(diagnoses) for diagnoses in alone] == [len(sample.answer) for sample in tiny_stored()]
    monkeypatch.setattr(scoring, "READ_WIDTH", read_width)
    monkeypatch.setattr(scoring, "MOST_SCORES", most_scores)
    for batch_size in (1, 2, 3, 8):
        for diagnoses, expected in zip(tiny_scores(tiny, batch_size=batch_size), alone, strict=True):
            ref.same(diagnoses, expected)


def test_short_memory_halves_the_batch_and_loses_nothing(monkeypatch: pytest.MonkeyPatch, tiny: Body) -> None:
    counters, expected = Counters(), tiny_scores(tiny)

    def check(number: int, rows: int) -> None:
        if rows > 2:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20 GiB")

    ref.each_pass(monkeypatch, tiny, check)
    for diagnoses, wanted in zip(tiny_scores(tiny, counters=counters), expected, strict=True):
        ref.same(diagnoses, wanted)
    assert counters.notes == [f"memory was short: batches of {size} from here on" for size in (3, 1)]


# --- what does not fit --------------------------------------------------------------------------------------------
def test_what_the_model_cannot_read_is_named_before_anything_is_read(tiny: Body) -> None:
    sample = tiny_stored()[2]
    list(score(tiny, ref.LETTERS_ONLY, [replace(sample, answer=(5,) * 58)], ref.TOKENS))
    for wrong, message in (
        ({"answer": (5,) * 59}, "sample of 65 tokens is longer than the model's context of 64"),
        ({"answer": (5, 40)}, "the token 40, and the model's tokenizer has 40"),
        ({"prompt": (41,)}, "the token 41"),
        ({"answer": (-1,)}, "the token -1"),
    ):
        with pytest.raises(ModelError, match=message):
            score(tiny, ref.LETTERS_ONLY, [sample, replace(sample, **wrong)], ref.TOKENS)
    with pytest.raises(ConstraintError, match="the model has 48 rows, the constraint was built for 151,936"):
        score(tiny, ref.made("exact")[1], [sample], ref.TOKENS)


# --- closing ------------------------------------------------------------------------------------------------------
@each
def test_which_tokens_close_and_which_go_on(name: str) -> None:
    tokenizer = load_tokenizer(name)
    ids = close_ids(tokenizer)
    closing, going_on = ids.closing.tolist(), ids.going_on.tolist()
    assert set(going_on) == all_ids(number_ids(tokenizer))
    assert all(tokenizer.piece(id_).startswith(">") for id_ in closing)
    exact = ref.made("exact", name)[1].compile(parse_smiles("CC(C)(C)c1cc(C#N)ccc1F"))
    assert set(exact.symbols[:, 0].tolist()) - {-1} <= set(closing), "what the exact LP closes with"


def test_only_a_close_that_was_forced_counts() -> None:
    """Not the truncating LP's jump, not a text that ends before, not a token that the program had not forced."""
    tokenizer, constraint = ref.made("truncating", placeholder=SHORT)
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
    tokenizer, constraint = ref.made(lp, name, placeholder="0.0000,0.0000,0.0000")
    molecule = parse_smiles("CC=O")
    template = build_template(skeleton_of(molecule), tokenizer, "0.0000,0.0000,0.0000", tags=True)
    contents = ["1.2345,0.1000,2.0005", "0.0001,9.1234,0.0000", "3.3333,4.4444,5.5555"]
    text = fill_blocks(molecule.smiles, molecule.descriptors, contents)
    answer = tuple(tokenizer.encode(f"[CONFORMER]{text}[/CONFORMER]"))
    prompt = tuple(tokenizer.encode("[SMILES]CC=O[/SMILES]"))
    return tokenizer, constraint, Stored(prompt, answer, constraint.compile(molecule)), template


@pytest.mark.parametrize(
    ("name", "lp"), [("qwen3", "group-v2.1"), ("llama3", "group-v4.3"), ("qwen3", "adaptive-placeholder")]
)
def test_a_models_own_wish_at_a_forced_close(name: str, lp: str) -> None:
    """The sums of a plain pass over the whole text; then ``align`` makes of them what the vocabulary of kinds says."""
    tokenizer, constraint, stored, template = position_sample(name, lp)
    ids = close_ids(tokenizer)
    (scored,) = score(body(name), constraint, [stored], tokenizer.vocab_size, candidates=None, close_ids=ids)
    masses = scored.masses
    assert (scored.diagnoses, list(masses)) == ([], [0, 1, 2])
    with torch.inference_mode():
        logits = model(name)(torch.tensor([[*stored.prompt, *stored.answer]])).logits[0, :, : tokenizer.vocab_size]
    chances = logits.float().softmax(dim=-1)
    for cell, block in closing_cells(stored.program).items():
        row = chances[len(stored.prompt) + cell - 1]
        assert masses[block].closing == pytest.approx(float(row[ids.closing].sum()), rel=1e-3)
        assert masses[block].going_on == pytest.approx(float(row[ids.going_on].sum()), rel=1e-3)
    (both,) = score(body(name), constraint, [stored], tokenizer.vocab_size, candidates=1, close_ids=ids)
    assert both.masses == masses
    assert len(both.diagnoses) == len(stored.answer)
    blocks = align(template, stored.answer, tokenizer, lp=lp, masses=masses).blocks
    assert [block.kinds for block in blocks] == [("unverified",)] * 3, "a model of random weights wants neither"
