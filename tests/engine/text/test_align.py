"""Alignment of text that nothing forced, damaged or not; and of a position LP's, simulated to the token."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.chem.enriched import skeleton_of
from engine.chem.smiles import parse_smiles
from engine.lp_records import LPS
from engine.records import FIXED4, TRIMMED4, Block, Molecule, NumberFormat
from engine.text.align import Alignment, align
from engine.text.blocks import CloseMass
from engine.text.template import FREE, Template, build_template, needed_tokens
from engine.text.tokenizers import TextTokenizer, load_tokenizer
from tests.alignments import LP_NAMES, NAMES, PLACEHOLDERS, check_complete
from tests.report_examples import LLAMA_EXAMPLES, QWEN_EXAMPLES
from tests.strategies import (
    Written,
    enriched_texts,
    molecule,
    molecules,
    random_triples,
    seeds,
    small_molecules,
    written,
)

# --- text that nothing forced -----------------------------------------------------------------------------------------


@pytest.mark.soak
@given(
    enriched_texts(molecules(shipped=60), TRIMMED4),
    st.sampled_from(PLACEHOLDERS),
    st.sampled_from(NAMES),
    st.booleans(),
)
def test_text_without_an_lp_drifts_as_its_numbers_say(answer: Written, placeholder: str, name: str, tags: bool) -> None:
    tokenizer = load_tokenizer(name)
    template = build_template(answer.text, tokenizer, placeholder, tags=tags)
    ids = tokenizer.encode(f"[CONFORMER]{answer.text}[/CONFORMER]" if tags else answer.text)
    alignment = align(template, ids, tokenizer)
    check_complete(alignment, template, ids)
    (needed,) = needed_tokens([answer.text], tokenizer)
    drift = template.free_per_block - needed
    assert [block.drift for block in alignment.blocks] == drift.tolist()
    assert [block.needed for block in alignment.blocks] == needed.tolist()
    assert [block.atom for block in alignment.blocks] == list(range(answer.molecule.atoms))
    assert [block.element for block in alignment.blocks] == list(answer.molecule.elements)
    assert {kind for block in alignment.blocks for kind in block.kinds} == {"exact"}
    assert [(block.x, block.y, block.z) for block in alignment.blocks] == [tuple(map(float, t)) for t in answer.numbers]
    marks = [row.mark for row in alignment.rows]
    assert marks.count("left_over") == sum(value for value in drift.tolist() if value > 0)
    assert marks.count("beyond") == -sum(value for value in drift.tolist() if value < 0)
    assert set(marks) <= {"left_over", "beyond", ""}
    for row in alignment.rows:  # all that is not a number stands opposite itself
        if row.role not in (None, "FREE"):
            assert row.token_id == row.template_id
        assert row.forced in (False, None)


# --- examples ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "content", "junk_tokens"),
    [
        *zip(
            ["qwen3"] * 11, [content for content, _, _ in QWEN_EXAMPLES], [1, 2, 1, 1, 1, 2, 1, 2, 2, 1, 1], strict=True
        ),
        *zip(["llama3"] * 3, [content for content, _, _ in LLAMA_EXAMPLES], [1, 1, 1], strict=True),
    ],
)
def test_junk_tokens_of_the_reports(name: str, content: str, junk_tokens: int) -> None:
    tokenizer = load_tokenizer(name)
    template = build_template("[C]<>=[O]<>", tokenizer)
    ids = tokenizer.encode(f"[C]<{content}>=[O]<1.0,2.0,3.0>")
    alignment = align(template, ids, tokenizer)
    junk, clean = alignment.blocks
    assert junk.junk_tokens == junk_tokens == [row.mark for row in alignment.rows].count("junk")
    assert clean.junk_tokens == 0
    assert junk.drift == junk.template_free - len(tokenizer.encode(f"[C]<{content.removesuffix(junk.junk_text)}>")) + 3


def test_a_token_that_is_junk_in_part_counts_as_junk() -> None:
    """LLaMA's digits come three to a token: the fifth decimal shares one with the fourth."""
    tokenizer = load_tokenizer("llama3")
    alignment = align(build_template("[C]<>", tokenizer), tokenizer.encode("[C]<1.0,2.0,3.00001>"), tokenizer)
    (block,) = alignment.blocks
    assert (block.kinds, block.junk_text, block.junk_tokens) == (("extra_digit",), "1", 1)
    assert [row.piece for row in alignment.rows if row.mark == "junk"] == ["01"]


@pytest.mark.parametrize("text", ["0.1" * 3_000, "[C]<0.0>" * 1_000, "]<" * 2_000])
def test_text_that_follows_no_template_is_aligned_in_bounded_time(text: str) -> None:
    """Comparing token by token took a minute and a half for a model that wrote digits without end."""
    tokenizer = load_tokenizer("qwen3")
    answer = written(molecule("CN1C=NC2=C1C(=O)N(C(=O)N2C)C"), 1)
    template = build_template(answer.text * 6, tokenizer)
    ids = tokenizer.encode(text)
    for lp in ("none", "group-v2.1"):
        check_complete(align(template, ids, tokenizer, lp=lp), template, ids)


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
    for reading, block, simulated in zip(alignment.readings, alignment.blocks, blocks, strict=True):
        check_simulated_block(alignment, block, simulated, tokenizer)
        assert reading.kinds == block.kinds


def check_simulated_block(
    alignment: Alignment, block: Block, simulated: SimulatedBlock, tokenizer: TextTokenizer
) -> None:
    assert block.text == tokenizer.decode(simulated.ids)
    assert block.template_free == simulated.free
    if simulated.drift > 0:
        assert set(block.kinds) <= {"letters", "punctuation"}
        assert block.junk_tokens == simulated.drift == block.drift
        assert block.junk_text == tokenizer.decode(simulated.junk_ids)
        assert block.needed == len(simulated.number_ids)
        assert (block.x, block.y, block.z) == tuple(map(float, simulated.number.split(",")))
    elif simulated.drift == 0:
        assert block.kinds == ("unverified",)
        assert (block.text, block.junk_tokens, block.drift) == (simulated.number, 0, None)
    else:
        assert simulated.number.startswith(block.text)
        assert set(block.kinds) <= {"unverified", "cut", "missing_z", "trailing_mark"}
        assert block.junk_tokens == 0
        assert block.needed is block.drift is None
        last = [row for row in alignment.rows if row.block == block.block and row.role == "FREE"][-1]
        assert (last.mark == "cut") == ("cut" in block.kinds)


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
    molecule: Molecule, seed: int, form: NumberFormat, placeholder: str, name: str, lp: str, tags: bool
) -> None:
    tokenizer = load_tokenizer(name)
    template = build_template(skeleton_of(molecule), tokenizer, placeholder, tags=tags)
    contents = [",".join(triple) for triple in random_triples(molecule.atoms, seed, form)]
    blocks = simulate(template, tokenizer, contents, seed)
    alignment = align(template, forced_by_position(template, blocks), tokenizer, lp=lp)
    check_simulated(alignment, template, blocks, tokenizer)


@pytest.mark.soak
@given(small_molecules(), seeds(), st.sampled_from(NAMES))
def test_diagnostics_settle_what_the_text_alone_cannot(molecule: Molecule, seed: int, name: str) -> None:
    tokenizer = load_tokenizer(name)
    template = build_template(skeleton_of(molecule), tokenizer, "0.0000,0.0000,0.0000")
    contents = [",".join(triple) for triple in random_triples(molecule.atoms, seed)]
    blocks = simulate(template, tokenizer, contents, seed)
    masses = {
        index: CloseMass(closing=0.0, going_on=0.9) if block.drift < 0 else CloseMass(closing=0.9, going_on=0.0)
        for index, block in enumerate(blocks)
    }
    ids = forced_by_position(template, blocks)
    aligned = align(template, ids, tokenizer, lp="group-v2.1", masses=masses).blocks
    for block, simulated in zip(aligned, blocks, strict=True):
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
def test_any_ids_are_aligned(molecule: Molecule, ids: list[int], name: str, lp: str) -> None:
    """Imported samples may name an LP that did not make them."""
    template = build_template(skeleton_of(molecule), load_tokenizer(name))
    check_complete(align(template, ids, load_tokenizer(name), lp=lp), template, ids)


# --- several conformers -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_each_conformer_of_an_answer_is_aligned_with_the_same_template(name: str) -> None:
    tokenizer, answer = load_tokenizer(name), written(parse_smiles("CC(N)C(=O)O"), seed=3)
    template = build_template(answer.text, tokenizer, tags=True)
    twice = f"{answer.text}[/CONFORMER][CONFORMER]{answer.text}"
    expected, repeated = build_template(twice, tokenizer, tags=True), template.repeated(2)
    for column in ("ids", "roles", "block_of", "starts", "ends", "block_spans"):
        assert getattr(repeated, column).tolist() == getattr(expected, column).tolist(), column
    texts = (f"[CONFORMER]{text}[/CONFORMER]" for text in (twice, answer.text))
    whole, once = (align(template, tokenizer.encode(text), tokenizer) for text in texts)
    assert [block.conformer for block in whole.blocks] == [1] * 6 + [2] * 6
    assert [block.atom for block in whole.blocks] == [*range(6), *range(6)]
    assert [block.drift for block in whole.blocks] == 2 * [block.drift for block in once.blocks]
    assert [row for row in whole.rows if row.template_pos is None and row.mark != "beyond"] == []
    lost = answer.text.rpartition(")")[0]  # the second ends before its last atom
    short = align(template, tokenizer.encode(f"[CONFORMER]{answer.text}[/CONFORMER][CONFORMER]{lost}"), tokenizer)
    assert [block.atom for block in short.blocks] == [*range(6), *range(5)]
