"""Alignment of a position LP's text: simulated to the token, it must come out as simulated."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.chem.enriched import skeleton_of
from engine.lp_records import LPS
from engine.records import FIXED4, TRIMMED4, Block, Molecule, NumberFormat
from engine.text.align import Alignment, align
from engine.text.blocks import CloseMass
from engine.text.template import FREE, Template, build_template
from engine.text.tokenizers import TextTokenizer, load_tokenizer
from tests.alignments import LP_NAMES, NAMES, PLACEHOLDERS, check_complete
from tests.strategies import random_triples, seeds, small_molecules

POSITION_LPS = tuple(name for name, record in LPS.items() if record.closed_by == "lp")
FILLERS = ("amen", "C", "abra", "icine", "chedulers", " （", "}", '"', "的", " and", "[c", "é")


@dataclass(frozen=True)
class SimulatedBlock:
    """What was done to one block: the tokens that its number needs, and what stands at the FREE positions."""

    free: int
    number: str
    number_ids: list[int]
    junk_ids: list[int]

    @property
    def drift(self) -> int:
        return self.free - len(self.number_ids)

    @property
    def ids(self) -> list[int]:
        return [*self.number_ids, *self.junk_ids][: self.free]


def simulate(template: Template, tokenizer: TextTokenizer, contents: Sequence[str], seed: int) -> list[SimulatedBlock]:
    """Fill the FREE positions of each block with its number, then with junk, or break the number off."""
    rng = random.Random(seed)
    fillers = [id_ for text in FILLERS for id_ in tokenizer.encode(text) if not tokenizer.raw(id_).isdigit()]
    blocks = []
    for number, free in zip(contents, template.free_per_block.tolist(), strict=True):
        needed = [
            token.id
            for token in tokenizer.tokens(f"[C]<{number}>[")
            if token.start >= 4 and token.end <= 4 + len(number)
        ]
        blocks.append(
            SimulatedBlock(free, number, needed, [rng.choice(fillers) for _ in range(max(free - len(needed), 0))])
        )
    return blocks


def forced_by_position(template: Template, blocks: Sequence[SimulatedBlock]) -> list[int]:
    """The ids that a position LP lets through: COPY as in the template, FREE as the model fills it."""
    fills = [iter(block.ids) for block in blocks]
    roles, of = template.roles.tolist(), template.block_of.tolist()
    return [
        next(fills[of[position]]) if roles[position] == FREE else id_
        for position, id_ in enumerate(template.ids.tolist())
    ]


def check_simulated(
    alignment: Alignment, template: Template, blocks: list[SimulatedBlock], tokenizer: TextTokenizer
) -> None:
    assert alignment.mode == "position"
    assert len(alignment.rows) == template.tokens
    running = 0
    seen = [0] * len(blocks)
    for position, row in enumerate(alignment.rows):
        assert (row.pos, row.template_pos) == (position, position)
        assert row.forced == (row.role != "FREE")
        assert row.template_id == template.ids[position]
        if row.role != "FREE":
            assert row.token_id == row.template_id
            assert row.mark == ""
        else:
            simulated = blocks[row.block]
            is_junk = seen[row.block] >= len(simulated.number_ids)
            seen[row.block] += 1
            assert (row.mark == "junk") == is_junk
            assert row.mark in ("junk", "cut", "")
            running += is_junk
        assert row.running_drift == running
    for reading, found, simulated in zip(alignment.readings, alignment.blocks, blocks, strict=True):
        check_simulated_block(alignment, found, simulated, tokenizer)
        assert reading.kinds == found.kinds


def check_simulated_block(
    alignment: Alignment, found: Block, simulated: SimulatedBlock, tokenizer: TextTokenizer
) -> None:
    assert found.text == tokenizer.decode(simulated.ids)
    assert found.template_free == simulated.free
    if simulated.drift > 0:
        assert set(found.kinds) <= {"letters", "punctuation"}
        assert found.junk_tokens == simulated.drift == found.drift
        assert found.junk_text == tokenizer.decode(simulated.junk_ids)
        assert found.needed == len(simulated.number_ids)
        assert (found.x, found.y, found.z) == tuple(map(float, simulated.number.split(",")))
    elif simulated.drift == 0:
        assert found.kinds == ("unverified",)
        assert (found.text, found.junk_tokens, found.drift) == (simulated.number, 0, None)
    else:
        assert simulated.number.startswith(found.text)
        assert set(found.kinds) <= {"unverified", "cut", "missing_z", "trailing_mark"}
        assert found.junk_tokens == 0
        assert found.needed is found.drift is None
        last = [row for row in alignment.rows if row.block == found.block and row.role == "FREE"][-1]
        assert (last.mark == "cut") == ("cut" in found.kinds)


@pytest.mark.soak
@given(
    small_molecules(),
    seeds(),
    st.sampled_from((FIXED4, TRIMMED4)),
    st.sampled_from(PLACEHOLDERS),
    st.sampled_from(NAMES),
    st.sampled_from(POSITION_LPS),
    st.booleans(),
)
def test_a_simulated_position_lp_comes_out_as_simulated(
    one: Molecule, seed: int, form: NumberFormat, placeholder: str, name: str, lp: str, tags: bool
) -> None:
    tokenizer = load_tokenizer(name)
    template = build_template(skeleton_of(one), tokenizer, placeholder, tags=tags)
    contents = [",".join(triple) for triple in random_triples(one.atoms, seed, form)]
    blocks = simulate(template, tokenizer, contents, seed)
    alignment = align(template, forced_by_position(template, blocks), tokenizer, lp=lp)
    check_simulated(alignment, template, blocks, tokenizer)


@pytest.mark.soak
@given(small_molecules(), seeds(), st.sampled_from(NAMES))
def test_diagnostics_settle_what_the_text_alone_cannot(one: Molecule, seed: int, name: str) -> None:
    tokenizer = load_tokenizer(name)
    template = build_template(skeleton_of(one), tokenizer, "0.0000,0.0000,0.0000")
    contents = [",".join(triple) for triple in random_triples(one.atoms, seed)]
    blocks = simulate(template, tokenizer, contents, seed)
    masses = {
        index: CloseMass(closing=0.0, going_on=0.9) if block.drift < 0 else CloseMass(closing=0.9, going_on=0.0)
        for index, block in enumerate(blocks)
    }
    ids = forced_by_position(template, blocks)
    found = align(template, ids, tokenizer, lp="group-v2.1", masses=masses).blocks
    for block, simulated in zip(found, blocks, strict=True):
        if simulated.drift < 0:
            assert "cut" in block.kinds
            assert block.drift is None
        elif simulated.drift == 0:
            assert block.kinds == ("exact",)
            assert (block.needed, block.drift) == (simulated.free, 0)


@pytest.mark.soak
@given(
    small_molecules(),
    st.lists(st.integers(0, 152_000), max_size=150),
    st.sampled_from(NAMES),
    st.sampled_from(LP_NAMES),
)
def test_any_ids_are_aligned(one: Molecule, ids: list[int], name: str, lp: str) -> None:
    """Imported samples may name an LP that did not make them."""
    template = build_template(skeleton_of(one), load_tokenizer(name))
    check_complete(align(template, ids, load_tokenizer(name), lp=lp), template, ids)
