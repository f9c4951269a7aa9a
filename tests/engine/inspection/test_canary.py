"""Silent failures, planted in real ``generate``: each changes tokens, and is found and named.

The model has random weights, so that whatever is not constrained is garbage; of a trained one that copies well some of
these faults change no token.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer
from torch import Tensor
from transformers import LogitsProcessor, PreTrainedTokenizerFast, SuppressTokensLogitsProcessor, TopKLogitsWarper

from engine.chem.enriched import described, prompt_of
from engine.chem.smiles import parse_written
from engine.decode.body import LiveHead
from engine.decode.hf import _Masks
from engine.decode.steps import Stop
from engine.inspection.canary import CAUSES, MOST_NAMED, Answer, Canary, Finding, FindingKind
from engine.lp.constraint import Constraint, build_constraint
from engine.lp.driver import LOST, State
from engine.lp.processor import ProgramProcessor
from engine.text.tokenizers import load_tokenizer
from tests.engine.decode import reference as ref
from tests.small_models import SMALL

SMILES = ("C[NH3+]", "CC=O", "OCC")
MOLECULES = [described(parse_written(smiles), "plain") for smiles in SMILES]
TOKENIZER = load_tokenizer("qwen3")
ROWS, END = 151_936, TOKENIZER.end_ids[0]
LATE = 24  # steps behind which a fault begins


@functools.cache
def model() -> Any:
    torch.manual_seed(0)
    shape = SMALL["qwen3"]
    return shape.model(shape.config(ROWS, end=END)).eval()


@functools.cache
def constraint(lp: str = "exact", tokenizer: str = "qwen3") -> Constraint:
    return build_constraint(lp, load_tokenizer(tokenizer), ROWS)


class Planted(ProgramProcessor):
    """Ours, with a count of its steps, and a place for a fault."""

    def __init__(self, of: Constraint | None = None, molecules: Sequence[Any] = MOLECULES) -> None:
        of = of or constraint()
        super().__init__(of.automaton, list(map(of.compile, molecules)), END)
        self.steps = 0

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        self.steps += 1
        return super().__call__(input_ids, scores)


class Dropped(Planted):
    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        masked = super().__call__(input_ids, scores)
        return masked if self.steps <= LATE else scores


class Swapped(Planted):
    """Two rows change places, and their states do not."""

    def _follow(self, input_ids: Tensor) -> None:
        super()._follow(input_ids)
        if self.steps == LATE:
            assert self._tables is not None and self._state is not None
            order = torch.tensor([1, 0, 2])
            self._tables = self._tables.keep(order)
            self._reorder(order)


class Stale(Planted):
    """As after a preemption: its state is that of some steps before."""

    def _follow(self, input_ids: Tensor) -> None:
        super()._follow(input_ids)
        if self.steps == LATE // 4:
            self.before = self._state
        if self.steps == 2 * LATE:
            self._state = self.before


class Refreshed(Planted):
    """It masks a copy: what is drawn from is the buffer that the model fills."""

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        super().__call__(input_ids, scores.clone())
        return scores


class Padded(Planted):
    """It takes the padding of shorter prompts for tokens of the answer."""

    def _begin(self, input_ids: Tensor) -> None:
        super()._begin(input_ids)
        assert self._state is not None and self._tables is not None
        padding = (input_ids == self._end).sum(dim=1)
        self._state = State(torch.where(padding > 0, padding + 1, 0), self._tables.cells[:, 0, 1].clamp(min=0))


class Waiting(Planted):
    """It waits for the rest of a prompt that is cached already."""

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        self.steps += 1
        return scores if self.steps <= 3 else super().__call__(input_ids, scores)


class Careless(Planted):
    """Behind a token that it had not allowed it goes on as if nothing had come."""

    def _take(self, token: Tensor) -> None:
        before = self._state
        super()._take(token)
        assert before is not None and self._state is not None
        is_lost = self._state.cell == LOST
        self._state = State(
            torch.where(is_lost, before.cell, self._state.cell), torch.where(is_lost, before.node, self._state.node)
        )


class Beams(Careless):
    """Beams change places, and its states do not."""

    def _origin(self, input_ids: Tensor) -> Tensor | None:
        is_next = self._seen is not None and self._seen.shape[1] + 1 == input_ids.shape[1]
        return torch.arange(len(input_ids)) if is_next else None


class FallingBack(Careless):
    """Where nothing is left it lets everything pass."""

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        masked = super().__call__(input_ids, scores)
        return torch.where(masked.amax(dim=1, keepdim=True) == -torch.inf, scores, masked)


def written(*processors: LogitsProcessor, **how: Any) -> list[list[int]]:
    """The ids of each molecule, by plain ``generate``."""
    prompts = [TOKENIZER.encode(prompt_of(smiles)) for smiles in SMILES]
    width = max(map(len, prompts))
    ids = torch.tensor([[END] * (width - len(prompt)) + prompt for prompt in prompts])
    mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    how = {"max_new_tokens": 110, "do_sample": True, "pad_token_id": END, "eos_token_id": END, **how}
    with torch.random.fork_rng():
        torch.manual_seed(1)
        rows = model().generate(input_ids=ids, attention_mask=mask, logits_processor=list(processors), **how)
    return [row[: row.index(END) + 1] if END in row else row for row in rows[:, width:].tolist()]


@functools.cache
def right() -> list[list[int]]:
    return written(Planted())


def findings(
    rows: Sequence[Sequence[int]], unseen: Sequence[int] | None = None, of: Constraint | None = None, **more: Any
) -> list[Finding | None]:
    canary = Canary(of or constraint(), TOKENIZER)
    answers = [
        Answer(at, MOLECULES[at], canary.constraint.compile(MOLECULES[at]), ids, more.get("text"), "length", unseen)
        for at, ids in enumerate(rows)
    ]
    return [canary.look(answer, answers) for answer in answers]


def first(found: Sequence[Finding | None]) -> Finding:
    return min((each for each in found if each is not None), key=lambda each: (each.rank, each.token or 0))


def test_what_is_right_gives_no_alarm() -> None:
    assert findings(right(), ()) == [None] * len(SMILES)


DIGITS = [id_ for digit in "0123456789" for id_ in TOKENIZER.encode(digit)]
IS_ASKED = ("refreshed", "falling back")
FAULTS: list[tuple[str, Callable[[], list[list[int]]], FindingKind, str]] = [
    ("dropped", lambda: written(Dropped()), "free", "the LP was dropped"),
    ("swapped", lambda: written(Swapped()), "swapped", "rows were swapped"),
    ("stale", lambda: written(Stale()), "stale", "a stale state, as after a preemption"),
    ("left padding", lambda: written(Padded()), "early", "left padding"),
    ("cached prefix", lambda: written(Waiting()), "late", "began at token 3"),
    ("other tokenizer", lambda: written(Planted(constraint(tokenizer="llama3"))), "other tokenizer", "llama3"),
    ("beams", lambda: written(Beams(), num_beams=3), "mixed", "the states of other beams"),
    ("refreshed", lambda: written(Refreshed()), "unmasked", "a buffer that is refreshed"),
    (
        "falling back",
        lambda: written(SuppressTokensLogitsProcessor(DIGITS), FallingBack()),
        "unmasked",
        "had no legal token and fell back",
    ),
    ("limit", lambda: written(Planted(), max_new_tokens=LATE), "cut", "inside a block"),
    ("top-k first", lambda: written(TopKLogitsWarper(1), Planted(), do_sample=False), "ended", "top-k before the mask"),
]


@pytest.mark.parametrize(("name", "write", "kind", "words"), FAULTS, ids=[fault[0] for fault in FAULTS])
def test_a_fault_is_found_and_named(
    name: str, write: Callable[[], list[list[int]]], kind: FindingKind, words: str
) -> None:
    rows = write()
    found = findings(rows, () if name in IS_ASKED else None)
    assert rows != right()
    assert first(found).kind == kind and words in first(found).cause


def of_text(text: str | None, ids: Sequence[int]) -> Finding | None:
    (found,) = findings([ids], text=text)
    return found


def test_text_and_ids_that_differ_are_named() -> None:
    ids = right()[0]
    text = TOKENIZER.decode(ids[:-1])
    assert of_text(text, ids) is None
    special = PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(TOKENIZER.backend.to_str()))
    special.add_special_tokens({"additional_special_tokens": ["[CONFORMER]", "[/CONFORMER]"]})
    tagless = special.decode(ids, skip_special_tokens=True)
    assert tagless == text.removeprefix("[CONFORMER]").removesuffix("[/CONFORMER]")
    for stored, kind, token in (
        (tagless, "tags eaten", 0),
        (load_tokenizer("llama3").decode(ids[1:-2]), "other tokenizer", None),
        (text.replace("[C]", "[N]", 1), "other text", None),
    ):
        found = of_text(stored, ids if kind != "other tokenizer" else ids[1:-2])
        assert found is not None and (found.kind, found.token) == (kind, token)
    assert CAUSES["tags eaten"].endswith("skip_special_tokens")


def test_tokens_of_a_grammar_without_special_tokens_are_named() -> None:
    """It leaves the tags out, or spells them in other tokens."""
    text = TOKENIZER.decode(right()[0][:-1])
    untagged = TOKENIZER.encode(text.removeprefix("[CONFORMER]").removesuffix("[/CONFORMER]"))
    spelled = [id_ for char in text for id_ in TOKENIZER.encode(char)]
    for ids, kind in ((untagged, "untagged"), (spelled, "spelled")):
        found = of_text(None, [*ids, END])
        assert found is not None and (found.kind, found.token) == (kind, 0)


def test_a_step_at_which_the_lp_was_not_asked_is_the_place() -> None:
    """However legal its token is."""
    (found, *_) = findings(right(), (7, 8))
    assert found is not None and (found.kind, found.token) == ("unseen", 7)


def test_tallies_count_faults_and_keep_the_worst() -> None:
    canary = Canary(constraint(), TOKENIZER)
    programs = [canary.constraint.compile(molecule) for molecule in MOLECULES]
    rows = [right()[0], right()[1][:-9], right()[0]]
    answers = [Answer(at, MOLECULES[at], programs[at], ids, None, "length", ()) for at, ids in enumerate(rows)]
    assert [found.sample_id for found in canary.look_at_all(answers)] == [1, 2]
    tally = canary.tally
    assert (tally.followed, tally.seen, tally.faulty) == (3, 3, 1)
    assert tally.worst is not None and tally.worst.words.startswith("sample 2, token 1: the answer goes on as that of")


def answered(ids: Sequence[int], stop_reason: str | None, lp: str = "exact", sample_id: int = 0) -> Answer:
    """Of the first molecule; nobody says at which steps its LP was asked where there are no ids."""
    program = constraint(lp).compile(MOLECULES[0])
    return Answer(sample_id, MOLECULES[0], program, ids, None, stop_reason, () if ids else None)


@pytest.mark.parametrize(
    ("stop_reason", "cut", "kind", "counts"),
    [
        ("length", 9, "cut", (1, 1, 0)),
        (None, 9, "cut", (1, 1, 0)),
        ("time", 9, None, (1, 1, 0)),
        ("desync", 9, "ended", (1, 1, 1)),  # a server leaves the end token out, and stops where there is no end
        ("empty_mask", 9, "stuck", (1, 0, 0)),
        ("empty_mask", 0, "stuck", (0, 0, 0)),  # a request that was refused
        ("cancelled", 0, None, (0, 0, 0)),
    ],
)
@pytest.mark.parametrize("lp", ["exact", "grammar"])
def test_why_an_answer_ended_too_early_is_told_by_its_stop_reason(
    stop_reason: str | None, cut: int, kind: FindingKind | None, counts: tuple[int, int, int], lp: str
) -> None:
    if lp == "grammar":  # a limit may cut it anywhere; of what did not say why it ended, all has to be there
        kind = {"length": None, None: "ended"}.get(stop_reason, kind)
        counts = (*counts[:2], int(kind == "ended"))
    canary = Canary(constraint(lp), TOKENIZER)
    found = canary.look_at_all([answered(right()[0][:cut], stop_reason, lp)])
    assert [each.kind for each in found] == ([] if kind is None else [kind])
    tally = canary.tally
    assert (tally.followed, tally.seen, tally.faulty) == counts
    if kind == "ended":
        assert found[0].token == cut


def test_the_worst_finding_is_one_of_those_whose_cause_was_looked_for() -> None:
    canary = Canary(constraint(), TOKENIZER)
    ids = right()[0]
    late = [*ids[:9], *ids]  # it begins anew
    canary.look_at_all([answered(late, "length", sample_id=at) for at in range(MOST_NAMED + 3)])
    kinds = [canary.look(answered(late, "length")), Canary(constraint(), TOKENIZER).look(answered(late, "length"))]
    assert [found and found.kind for found in kinds] == ["unnamed", "late"]
    assert canary.tally.faulty == MOST_NAMED + 3
    assert canary.tally.worst is not None and canary.tally.worst.kind == "late"


@pytest.mark.parametrize("kind", ["fast", "static", "hf"])
def test_our_own_loops_tell_each_step_at_which_the_lp_was_not_asked(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = ref.backend_of(kind, ref.tiny_model(), ref.LETTERS_ONLY)
    requests = ref.tiny_requests(3, ref.LETTERS_ONLY, 24)
    stops = [event for event in ref.events_of(backend, requests) if isinstance(event, Stop)]
    assert [stop.unseen for stop in stops] == [()] * 3
    calls = iter(range(1_000))
    where, asked = (_Masks, _Masks.__call__) if kind == "hf" else (LiveHead, LiveHead.__call__)

    def dropped(self: Any, *given: Any) -> Tensor:
        if next(calls) < 2:
            return asked(self, *given)
        return given[1] if kind == "hf" else self._logits(given[0])

    monkeypatch.setattr(where, "__call__", dropped)
    stops = [event for event in ref.events_of(backend, requests) if isinstance(event, Stop)]
    unseen = [stop.unseen for stop in stops if stop.unseen]  # some may have ended before
    assert len(unseen) >= 2 and min(first for first, *_ in unseen) >= 2
