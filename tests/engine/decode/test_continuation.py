"""A block that was cut goes on as the model itself would have gone on; what was no number does not go on at all."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from engine.chem.enriched import segments_of
from engine.chem.smiles import parse_smiles
from engine.decode.body import Body
from engine.decode.continuation import Continuation, Cut, continue_blocks, cuts_of
from engine.decode.fast import FastBackend
from engine.decode.plan import DecodeOptions, Request, preset, requests_for
from engine.decode.scoring import Stored
from engine.decode.steps import Counters, Step, Stop
from engine.lp.constraint import Constraint
from engine.lp.exact import ExactConstraint
from engine.lp.table import NO_ID
from engine.records import Molecule, NumberFormat
from engine.text.template import needed_tokens
from engine.text.tokenizers import TextTokenizer
from tests.engine.decode.reference import SMILES, collected, made, small_model, written

GREEDY = preset("greedy")
NAMES = ("qwen3", "llama3")
FORM = NumberFormat(1, 4, 2)
"""Four decimals: with LLaMA's tokenizer a number may be cut between two tokens of its digits."""
DOUBLE_PLUS = replace(parse_smiles("[Ca+2]"), smiles="[Ca++]", descriptors=("[Ca++]",))
"""Its block is opened by another token where x is negative."""

each = pytest.mark.parametrize("name", NAMES)


@dataclass(frozen=True)
class Desk:
    """A tokenizer, its exact LP, and a backend that is under another LP."""

    tokenizer: TextTokenizer
    exact: ExactConstraint
    position: Constraint
    backend: FastBackend

    def go_on(self, cuts: Sequence[Cut], **given: Any) -> list[Continuation | None]:
        return continue_blocks(self.backend, self.exact, self.tokenizer, cuts, **given)

    def prompt(self, molecule: Molecule) -> tuple[int, ...]:
        return tuple(self.tokenizer.encode(f"[SMILES]{molecule.smiles}[/SMILES]"))

    def cut(self, inside: str | Sequence[int], smiles: str = "C") -> Cut:
        """The first block of a molecule, holding a text in the tokenizer's own cut, or any ids."""
        molecule = parse_smiles(smiles)
        opening = self.tokenizer.encode(next(iter(segments_of(molecule.smiles))))
        ids = self.tokenizer.encode(inside) if isinstance(inside, str) else list(inside)
        return Cut(molecule, self.prompt(molecule), (*opening, *ids), 0)

    def cut_in_tokens(self, *pieces: str) -> Cut:
        ids = [id_ for piece in pieces for id_ in self.tokenizer.encode(piece)]
        assert len(ids) == len(pieces)
        return self.cut(ids)


@functools.cache
def model(name: str) -> Any:
    return small_model(name)


@functools.cache
def desk(name: str) -> Desk:
    tokenizer, exact = made("exact", name, form=FORM)
    position = made("adaptive-placeholder", name, placeholder="0.0,0.0,0.0")[1]
    assert isinstance(exact, ExactConstraint)
    assert tokenizer.end_id is not None
    return Desk(tokenizer, exact, position, FastBackend(model(name), position, tokenizer.end_id, tokenizer.vocab_size))


@dataclass(frozen=True)
class Whole:
    """A block of a greedy exact answer, and where in the answer its inside is."""

    molecule: Molecule
    request: Request
    answer: tuple[int, ...]
    block: int
    inside: range


@functools.cache
def greedy_blocks(name: str) -> tuple[Whole, ...]:
    """All blocks of greedy answers under the exact LP."""
    at = desk(name)
    molecules = [*map(parse_smiles, SMILES), DOUBLE_PLUS]
    backend = FastBackend(model(name), at.exact, at.backend.end_id, at.backend.vocab_size)
    requests = requests_for(molecules, at.exact, at.tokenizer, positions=4096)
    answers = collected(backend.run(requests, DecodeOptions(GREEDY), Counters()))
    found = []
    for molecule, request in zip(molecules, requests, strict=True):
        answer = answers[request.sample]
        assert answer.reason == "end"
        pieces = [at.tokenizer.piece(id_) for id_ in answer.ids]
        opened = [place + 1 for place, piece in enumerate(pieces) if "<" in piece and ">" not in piece]
        closed = [place for place, piece in enumerate(pieces) if piece.startswith(">")]
        assert len(opened) == len(closed) == molecule.atoms
        found += [
            Whole(molecule, request, tuple(answer.ids), block, range(*ends))
            for block, ends in enumerate(zip(opened, closed, strict=True))
        ]
    return tuple(found)


def every_cut(blocks: Sequence[Whole]) -> Iterator[tuple[Whole, int, Cut]]:
    for block in blocks:
        for place in (*block.inside, block.inside.stop):
            yield block, place, Cut(block.molecule, block.request.prompt, block.answer[:place], block.block)


@each
def test_a_greedy_exact_block_cut_anywhere_goes_on_as_it_did(name: str) -> None:
    at, seen = desk(name), set()
    cuts = list(every_cut(greedy_blocks(name)))
    found = at.go_on([cut for _, _, cut in cuts])
    assert len(found) == len(cuts) > 100
    for (one, place, cut), got in zip(cuts, found, strict=True):
        assert got is not None
        text = at.tokenizer.decode(one.answer[:-1])
        content = text.split("<")[one.block + 1].split(">")[0]
        lost = at.tokenizer.decode(one.answer[place : one.inside.stop])
        assert (got.block, got.text, got.added) == (one.block, content, one.answer[place : one.inside.stop])
        assert got.needed == len(one.inside) == needed_tokens([text], at.tokenizer)[0][one.block]
        assert got.digits_lost == sum(char in "0123456789" for char in lost)
        assert at.tokenizer.encode(text) == [*cut.written, *got.added, *one.answer[one.inside.stop : -1]], "canonical"
        before = at.tokenizer.decode(cut.written).split("<")[-1].split(",")
        is_read = len(before) == 3 and "." in before[2] and before[2][-1] != "."
        assert (got.displacement_ang is not None) == is_read
        if is_read:
            expected = math.dist(list(map(float, before)), list(map(float, content.split(","))))
            assert got.displacement_ang == pytest.approx(expected)
        seen.add((is_read, got.digits_lost > 0))
    assert seen == {(True, True), (True, False), (False, True)}


@each
@pytest.mark.parametrize("batch_size", [1, 3])
def test_a_block_does_not_depend_on_its_batch(name: str, batch_size: int) -> None:
    cuts = [cut for _, _, cut in every_cut(greedy_blocks(name)[::5])][::3]
    cuts[1:1] = [desk(name).cut("1.0amen")]
    together = desk(name).go_on(cuts)
    assert together[1] is None
    assert desk(name).backend.constraint is desk(name).position, "the backend is left as it was"
    counters = Counters()
    assert desk(name).go_on(cuts, batch_size=batch_size, counters=counters) == together
    assert counters.batch_size == batch_size
    if batch_size == 1:
        assert [found for cut in cuts for found in desk(name).go_on([cut])] == together


@each
def test_it_goes_on_behind_the_text_that_was_there_with_its_earlier_cuts(name: str) -> None:
    """A position LP's answer, its numbers broken off: each block goes on as the plainest loop does, from there."""
    at = desk(name)
    molecule = parse_smiles("CC=O")
    program, exact = at.position.compile(molecule), at.exact.compile(molecule)
    answer = position_answer(at, molecule, ["-1.125,-22.25,3.5", "-0.5,-1.012,-12.125", "1.25,0.125,-7.0"])
    stored = Stored(at.prompt(molecule), tuple(answer), program)
    cuts = cuts_of(at.position, molecule, stored, [2, 0, 1, 9])
    assert [cut.block for cut in cuts] == [0, 1, 2]
    for cut, got in zip(cuts, at.go_on(cuts), strict=True):
        assert got is not None
        assert cut.written == stored.answer[: len(cut.written)], "earlier blocks as they were"
        assert stored.answer[len(cut.written)] == program.forced[len(cut.written)], "up to the forced close"
        inside = at.tokenizer.decode(cut.written).split("<")[-1]
        (cell,) = ((exact.block == cut.block) & (exact.forced == NO_ID)).nonzero()[0].tolist()
        node = node_behind(at, molecule, cell, at.tokenizer.encode(inside))
        prompt = (*cut.prompt, *cut.written)
        request = Request(0, 0, prompt, exact, len(got.added) + 1, (cell, node))
        plain = written(model(name), at.exact, request, GREEDY, 0, at.backend.end_id)
        assert tuple(plain.ids[:-1]) == got.added
        assert at.tokenizer.piece(plain.ids[-1]).startswith(">")
        assert got.text == inside + at.tokenizer.decode(got.added)


def position_answer(at: Desk, molecule: Molecule, contents: Sequence[str]) -> list[int]:
    """What a position LP lets through of these numbers."""
    program = at.position.compile(molecule)
    given = [iter(at.tokenizer.encode(content)) for content in contents]
    cells = zip(program.forced.tolist(), program.block.tolist(), strict=True)
    return [next(given[block]) if forced == NO_ID else forced for forced, block in cells]


def node_behind(at: Desk, molecule: Molecule, cell: int, inside: Sequence[int]) -> int:
    """The exact automaton's node behind a block's tokens, from its entry on, by the tables themselves."""
    program, automaton = at.exact.compile(molecule), at.exact.automaton
    node, sign = int(program.entry[cell]), program.symbols[cell][1]
    for id_ in inside:
        kind = automaton.goto.shape[1] - 1 if id_ == sign else automaton.classes[id_]
        node = int(automaton.goto[node, kind])
    return node


# --- what does not go on ------------------------------------------------------------------------------------------


@each
@pytest.mark.parametrize(
    "inside",
    [
        *("1.0amen", "abra", "1.0,2.0,3.0}", "1.0, 2.0", " 1.0", "1.0,2.0,3.0的"),
        *("1.0,2.0,3.0,4.0", "1.0,,", "1,2.0", "01.0", "00", "1..0", ".5", "--1", "1.23456", "123.0", "-0.0,"),
    ],
)
def test_what_is_no_beginning_of_three_numbers_does_not_go_on(name: str, inside: str) -> None:
    at = desk(name)
    assert at.go_on([at.cut(inside)]) == [None]


@each
def test_another_cut_of_the_same_text_does_not_go_on(name: str) -> None:
    at = desk(name)
    assert at.go_on([at.cut("1.0,-2.0")])[0] is not None
    assert at.go_on([at.cut_in_tokens("1", ".", "0", ",", "-", "2", ".", "0")]) == [None]
    if name == "llama3":
        assert at.go_on([at.cut("1.12")])[0] is not None
        assert at.go_on([at.cut_in_tokens("1", ".", "1", "2")]) == [None]


@each
def test_a_block_that_is_closed_or_never_opened_or_opened_otherwise_does_not_go_on(name: str) -> None:
    at = desk(name)
    right = at.cut("1.0")
    opening = right.written[:-3]
    closed = at.cut("1.0,2.0,3.0")
    close = at.exact.compile(closed.molecule).symbols.max(axis=1).max()
    other = (*opening[:-1], *at.tokenizer.encode("]"), *at.tokenizer.encode("<"))
    assert at.tokenizer.decode(other) == at.tokenizer.decode(opening)
    wrong = [
        replace(closed, written=(*closed.written, int(close))),
        replace(right, written=()),
        replace(right, written=tuple(at.tokenizer.encode("1.0"))),
        replace(right, written=(*other, *at.tokenizer.encode("1.0"))),
        replace(right, block=1),
        replace(right, block=-1),
    ]
    assert at.go_on([*wrong, right])[:-1] == [None] * len(wrong)
    assert at.go_on([right])[0] is not None
    assert at.go_on([]) == []


@each
def test_where_the_context_ends_before_the_block_there_is_no_continuation(name: str) -> None:
    at, two = desk(name), greedy_blocks(name)[2:4]  # the last block of CC=O, and the first of C
    late, early = (Cut(one.molecule, one.request.prompt, one.answer[: one.inside.start], one.block) for one in two)
    (of_late, of_early), ends = at.go_on([late, early]), [one.inside.stop + len(one.request.prompt) + 2 for one in two]
    assert ends[0] > ends[1], "the close and the end behind the inside"
    short = FastBackend(model(name), at.position, at.backend.end_id, at.backend.vocab_size)
    for positions, expected in (
        (ends[0], [of_late, of_early]),
        (ends[0] - 1, [None, of_early]),
        (ends[1] - 1, [None, None]),
        (8, [None, None]),
    ):
        short.body = Body(model(name), positions)
        assert continue_blocks(short, at.exact, at.tokenizer, [late, early]) == expected


# --- by hand ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("inside", "rest", "digits", "displacement"),
    [
        ("1.5,-2.0,3.1", "25", 2, 0.025),
        ("1.5,-2.0,-3.1", "2", 1, 0.02),
        ("1.5,-2.0,3", ".125", 3, None),  # an integer may be the beginning of one
        ("1.5,-2.0,3.", "125", 3, None),
        ("1.5,-2.0,", "-13.5", 3, None),
        ("1", ".5,-2.0,3.0", 5, None),
        ("", "-1.5,-2.0,3.0", 6, None),
        ("1.5,-2.0,3.125", "", 0, 0.0),
    ],
)
def test_what_was_lost_by_hand(
    monkeypatch: pytest.MonkeyPatch, inside: str, rest: str, digits: int, displacement: float | None
) -> None:
    at = desk("qwen3")
    end = at.backend.end_id
    added = at.tokenizer.encode(rest) if rest else []
    answer = [*added, *at.tokenizer.encode(">["), end]

    def scripted(_: FastBackend, requests: Sequence[Request], *given: Any) -> Iterator[Step | Stop]:
        for request in requests:
            yield from [Step(request.sample, place, id_, False) for place, id_ in enumerate(answer)]
            yield Stop(request.sample, "end")

    monkeypatch.setattr(FastBackend, "run", scripted)
    got = at.go_on([at.cut(inside)])[0]
    assert got is not None
    assert got.displacement_ang == (None if displacement is None else pytest.approx(displacement))
    assert replace(got, displacement_ang=None) == Continuation(
        0, inside + rest, len(at.tokenizer.encode(inside)) + len(added), tuple(added), digits, None
    )


@each
def test_a_negative_x_that_changes_the_opening_token_counts_as_one_beside_the_inside(name: str) -> None:
    at = desk(name)
    segment = next(iter(segments_of(DOUBLE_PLUS.smiles)))
    plain, signed = (at.tokenizer.encode(segment + sign) for sign in ("", "-"))
    assert len(plain) == len(signed)
    cut = Cut(DOUBLE_PLUS, at.prompt(DOUBLE_PLUS), (*signed, *at.tokenizer.encode("1.")), 0)
    (got,) = at.go_on([cut])
    assert got is not None
    assert got.text.startswith("-1.")
    assert got.needed == needed_tokens([f"[Ca++]<{got.text}>[/CONFORMER]"], at.tokenizer)[0].tolist()[0]
    minus = replace(cut, written=(*plain, *at.tokenizer.encode("-")))
    assert at.go_on([minus]) == [None], "a minus sign of its own behind the plain opening is another cut of the text"


def test_only_blocks_that_were_closed_by_force_are_cut() -> None:
    at = desk("qwen3")
    molecule = parse_smiles("CC=O")
    exact = at.exact.compile(molecule)
    one = greedy_blocks("qwen3")[0]
    assert one.molecule.smiles == molecule.smiles
    assert cuts_of(at.exact, molecule, Stored(one.request.prompt, one.answer, exact), range(3)) == []
    answer = position_answer(at, molecule, ["1.125,-2.25,3.5"] * 3)
    program = at.position.compile(molecule)
    stopped = Stored(at.prompt(molecule), tuple(answer[: len(answer) // 2]), program)
    assert [cut.block for cut in cuts_of(at.position, molecule, stopped, range(3))] == [0]
