"""A block that was cut goes on as the model itself would have gone on; what was no number does not go on at all."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from engine.chem.enriched import segments_of
from engine.chem.smiles import parse_smiles
from engine.decode.body import Body
from engine.decode.continuation import Continuation, Cut, continue_blocks, cuts_of
from engine.decode.fast import FastBackend
from engine.decode.plan import Context, requests_for
from engine.decode.scoring import Stored
from engine.lp.constraint import Constraint
from engine.lp.exact import ExactConstraint
from engine.lp.table import NO_ID
from engine.records import Molecule, NumberFormat
from engine.text.template import needed_tokens
from engine.text.tokenizers import TextTokenizer
from tests.engine.decode.reference import GREEDY, backend_of, collected, events_of, made, small_model

FORM = NumberFormat(1, 4, 2)
"""Four decimals: with LLaMA's tokenizer a number may be cut between two tokens of its digits."""
DOUBLE_PLUS = replace(parse_smiles("[Ca+2]"), smiles="[Ca++]", descriptors=("[Ca++]",))
"""Its block is opened by another token where x is negative."""
MOLECULES = [*map(parse_smiles, ("CC=O", "C", "C[C@H](N)C(=O)O", "[NH4+]")), DOUBLE_PLUS]

each = pytest.mark.parametrize("name", ["qwen3", "llama3"])


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

    def cut(self, *inside: str) -> Cut:
        """The first block of methane, holding texts in the tokenizer's own cut, one after the other."""
        molecule = parse_smiles("C")
        opening = self.tokenizer.encode(next(iter(segments_of(molecule.smiles))))
        ids = [id_ for piece in inside for id_ in self.tokenizer.encode(piece)]
        return Cut(molecule, self.prompt(molecule), (*opening, *ids), 0)


@functools.cache
def desk(name: str) -> Desk:
    tokenizer, exact = made("exact", name, form=FORM)
    position = made("adaptive-placeholder", name, placeholder="0.0,0.0,0.0")[1]
    assert isinstance(exact, ExactConstraint)
    backend = backend_of("fast", small_model(name), position, tokenizer)
    assert isinstance(backend, FastBackend)
    return Desk(tokenizer, exact, position, backend)


@functools.cache
def greedy_blocks(name: str) -> tuple[tuple[Cut, range], ...]:
    """All blocks of greedy answers under the exact LP: the whole answer, and where in it a block's inside is."""
    at, blocks = desk(name), []
    backend = backend_of("fast", small_model(name), at.exact, at.tokenizer)
    requests = requests_for(MOLECULES, at.exact, Context(at.tokenizer, 4096))
    answers = collected(events_of(backend, requests, GREEDY))
    for molecule, request in zip(MOLECULES, requests, strict=True):
        ids = tuple(answers[request.sample].ids)
        pieces = [at.tokenizer.piece(id_) for id_ in ids]
        opened = [index + 1 for index, piece in enumerate(pieces) if "<" in piece and ">" not in piece]
        closed = [index for index, piece in enumerate(pieces) if piece.startswith(">")]
        assert len(opened) == len(closed) == molecule.atoms and answers[request.sample].reason == "end"
        ends = enumerate(zip(opened, closed, strict=True))
        blocks += [(Cut(molecule, request.prompt, ids, block), range(*inside)) for block, inside in ends]
    return tuple(blocks)


def every_cut(blocks: Sequence[tuple[Cut, range]]) -> list[tuple[Cut, range, Cut]]:
    """The whole block, its inside, and the block cut at each place of it."""
    return [
        (whole, inside, replace(whole, written=whole.written[:end]))
        for whole, inside in blocks
        for end in (*inside, inside.stop)
    ]


@each
def test_a_greedy_exact_block_cut_anywhere_goes_on_as_it_did(name: str) -> None:
    at, seen = desk(name), set()
    cuts = every_cut(greedy_blocks(name))
    results = at.go_on([cut for *_, cut in cuts])
    for (whole, inside, cut), got in zip(cuts, results, strict=True):
        assert got is not None
        text, rest = at.tokenizer.decode(whole.written[:-1]), whole.written[len(cut.written) : inside.stop]
        content = text.split("<")[whole.block + 1].split(">")[0]
        assert (got.block, got.text, got.added) == (whole.block, content, rest)
        assert got.needed == len(inside) == needed_tokens([text], at.tokenizer)[0][whole.block]
        assert got.digits_lost == sum(char in "0123456789" for char in at.tokenizer.decode(rest))
        assert at.tokenizer.encode(text) == [*cut.written, *rest, *whole.written[inside.stop : -1]], "canonical"
        before = at.tokenizer.decode(cut.written).split("<")[-1].split(",")
        is_read = len(before) == 3 and "." in before[2] and before[2][-1] != "."
        assert (got.displacement_ang is not None) == is_read
        if is_read:
            expected = math.dist(list(map(float, before)), list(map(float, content.split(","))))
            assert got.displacement_ang == pytest.approx(expected)
        seen.add((is_read, got.digits_lost > 0))
    assert seen == {(True, True), (True, False), (False, True)}


def test_it_goes_on_behind_the_text_that_was_there_with_its_earlier_cuts() -> None:
    """A position LP's answer, its numbers broken off: blocks that were closed by force, and no others."""
    at, molecule = desk("qwen3"), parse_smiles("CC=O")
    program, tokens = at.position.compile(molecule), at.tokenizer
    contents = ("-1.125,-22.25,3.5", "-0.5,-1.012,-12.125", "1.25,0.125,-7.0")
    given = [iter(tokens.encode(content)) for content in contents]
    cells = zip(program.forced.tolist(), program.block.tolist(), strict=True)
    answer = tuple(next(given[block]) if forced == NO_ID else forced for forced, block in cells)
    cuts = cuts_of(at.position, molecule, Stored(at.prompt(molecule), answer, program), [2, 0, 1, 9])
    assert [cut.block for cut in cuts] == [0, 1, 2]
    for cut, got in zip(cuts, at.go_on(cuts), strict=True):
        assert got is not None
        assert cut.written == answer[: len(cut.written)], "earlier blocks as they were"
        assert answer[len(cut.written)] == program.forced[len(cut.written)], "up to the forced close"
        assert got.text == tokens.decode(cut.written).split("<")[-1] + tokens.decode(got.added)
    half = Stored(at.prompt(molecule), answer[: len(answer) // 2], program)
    assert [cut.block for cut in cuts_of(at.position, molecule, half, range(3))] == [0]
    whole = greedy_blocks("qwen3")[0][0]
    exact = Stored(whole.prompt, whole.written, at.exact.compile(molecule))
    assert cuts_of(at.exact, molecule, exact, range(3)) == []


@each
def test_a_negative_x_that_changes_the_opening_token_counts_as_one_beside_the_inside(name: str) -> None:
    at = desk(name)
    segment = next(iter(segments_of(DOUBLE_PLUS.smiles)))
    plain, signed = (at.tokenizer.encode(segment + sign) for sign in ("", "-"))
    assert len(plain) == len(signed)
    cut = Cut(DOUBLE_PLUS, at.prompt(DOUBLE_PLUS), (*signed, *at.tokenizer.encode("1.")), 0)
    (got,) = at.go_on([cut])
    assert got is not None and got.text.startswith("-1.")
    assert got.needed == needed_tokens([f"[Ca++]<{got.text}>[/CONFORMER]"], at.tokenizer)[0].tolist()[0]
    minus = replace(cut, written=(*plain, *at.tokenizer.encode("-")))
    assert at.go_on([minus]) == [None], "a minus sign of its own behind the plain opening is another cut of the text"


@each
def test_what_does_not_go_on(name: str) -> None:
    at = desk(name)
    right, closed = at.cut("1.0"), at.cut("1.0,2.0,3.0")
    opening = right.written[:-3]
    close = int(at.exact.compile(closed.molecule).symbols.max(axis=1).max())
    other = (*opening[:-1], *at.tokenizer.encode("]"), *at.tokenizer.encode("<"))
    assert at.tokenizer.decode(other) == at.tokenizer.decode(opening)
    junk = ("1.0amen", "abra", "1.0,2.0,3.0}", "1.0, 2.0", " 1.0", "1.0,2.0,3.0的")
    numbers = ("1.0,2.0,3.0,4.0", "1.0,,", "1,2.0", "01.0", "00", "1..0", ".5", "--1", "1.23456", "123.0", "-0.0,")
    wrong = [
        *(at.cut(inside) for inside in (*junk, *numbers)),
        at.cut("1", ".", "0", ",", "-", "2", ".", "0"),  # another cut of a text that goes on
        replace(closed, written=(*closed.written, close)),
        replace(right, written=()),
        replace(right, written=tuple(at.tokenizer.encode("1.0"))),
        replace(right, written=(*other, *at.tokenizer.encode("1.0"))),
        replace(right, block=1),
        replace(right, block=-1),
    ]
    results = at.go_on([*wrong, right, at.cut("1.0,-2.0")])
    assert [result is None for result in results] == [True] * len(wrong) + [False] * 2
    assert at.go_on([]) == []


def test_where_the_context_ends_before_the_block_there_is_no_continuation() -> None:
    at, two = desk("qwen3"), greedy_blocks("qwen3")[2:4]  # the last block of CC=O, and the first of C
    late, early = (replace(whole, written=whole.written[: inside.start]) for whole, inside in two)
    (of_late, of_early), ends = at.go_on([late, early]), [inside.stop + len(cut.prompt) + 2 for cut, inside in two]
    assert ends[0] > ends[1], "the close and the end behind the inside"
    short = FastBackend(small_model(), at.position, at.backend.end_id, at.backend.vocab_size)
    for positions, expected in (
        (ends[0], [of_late, of_early]),
        (ends[0] - 1, [None, of_early]),
        (ends[1] - 1, [None, None]),
        (8, [None, None]),
    ):
        short.body = Body(small_model(), positions)
        assert continue_blocks(short, at.exact, at.tokenizer, [late, early]) == expected
