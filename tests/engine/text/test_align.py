"""Alignment of text that nothing forced, damaged or not, and single examples of either mode."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.chem.enriched import enriched_text
from engine.chem.smiles import element_of
from engine.records import TRIMMED4, Kind, Molecule
from engine.text.align import Alignment, align
from engine.text.blocks import KINDS, find_blocks
from engine.text.generated import mode_of
from engine.text.template import build_template, needed_tokens
from engine.text.tokenizers import load_tokenizer
from tests.alignments import CLOSED_BY_MODEL, LP_NAMES, NAMES, PLACEHOLDERS, check_complete, step_of
from tests.report_examples import LLAMA_EXAMPLES, QWEN_EXAMPLES
from tests.small_tokenizers import SMALL_TOKENIZERS
from tests.strategies import (
    Written,
    damaged,
    enriched_texts,
    molecule,
    molecules,
    seeds,
    written,
)

# --- text that nothing forced -----------------------------------------------------------------------------------------


def check_drift_of_blocks(alignment: Alignment, descriptors: set[str]) -> None:
    """What the rows of a block add to the running drift is the block's drift, where that is known."""
    found = find_blocks(alignment.text)
    for block, place in zip(alignment.blocks, found, strict=True):
        steps = [
            step_of(row)
            for row in alignment.rows
            if (row.text_block == block.block and row.text_role == "FREE")
            or (row.pos is None and row.block == block.atom >= 0)
        ]
        if block.kinds == ("exact",) and block.atom >= 0 and place.descriptor in descriptors:
            assert block.drift == sum(steps)
        if block.atom < 0:
            assert block.drift is block.needed is None
            assert block.template_free == 0


@pytest.mark.soak
@given(
    enriched_texts(molecules(shipped=60), TRIMMED4),
    st.sampled_from(PLACEHOLDERS),
    st.sampled_from(NAMES),
    st.booleans(),
)
def test_text_without_an_lp_drifts_as_its_numbers_say(one: Written, placeholder: str, name: str, tags: bool) -> None:
    tokenizer = load_tokenizer(name)
    template = build_template(one.text, tokenizer, placeholder, tags=tags)
    ids = tokenizer.encode(f"[CONFORMER]{one.text}[/CONFORMER]" if tags else one.text)
    alignment = align(template, ids, tokenizer)
    check_complete(alignment, template, ids)
    (needed,) = needed_tokens([one.text], tokenizer)
    drift = template.free_per_block - needed
    assert [block.drift for block in alignment.blocks] == drift.tolist()
    assert [block.needed for block in alignment.blocks] == needed.tolist()
    assert [block.atom for block in alignment.blocks] == list(range(one.molecule.atoms))
    assert [block.element for block in alignment.blocks] == list(one.molecule.elements)
    assert {kind for block in alignment.blocks for kind in block.kinds} == {"exact"}
    assert [(block.x, block.y, block.z) for block in alignment.blocks] == [tuple(map(float, t)) for t in one.numbers]
    marks = [row.mark for row in alignment.rows]
    assert marks.count("left_over") == sum(value for value in drift.tolist() if value > 0)
    assert marks.count("beyond") == -sum(value for value in drift.tolist() if value < 0)
    assert set(marks) <= {"left_over", "beyond", ""}
    assert alignment.rows[-1].running_drift == drift.sum()
    for row in alignment.rows:  # all that is not a number stands opposite itself
        if row.role not in (None, "FREE"):
            assert row.token_id == row.template_id
        assert row.forced in (False, None)


@pytest.mark.soak
@given(enriched_texts(form=TRIMMED4), seeds(), st.sampled_from(NAMES), st.sampled_from(sorted(CLOSED_BY_MODEL)))
def test_damaged_text_is_aligned_whole(one: Written, seed: int, name: str, lp: str) -> None:
    tokenizer = load_tokenizer(name)
    template = build_template(one.text, tokenizer)
    text = damaged(one.text, seed, 8).encode(errors="replace").decode()
    ids = tokenizer.encode(text)
    alignment = align(template, ids, tokenizer, lp=lp)
    check_complete(alignment, template, ids)
    check_drift_of_blocks(alignment, set(one.molecule.descriptors))


def edited(one: Written, seed: int) -> tuple[str, list[int]]:
    """The text with atoms left out, atoms invented and junk behind numbers; for each atom left which it was."""
    rng = random.Random(seed)
    parts: list[str] = []
    kept: list[int] = []
    for block in find_blocks(one.text):
        begin = find_blocks(one.text)[len(parts) - 1].end if parts else 0
        parts.append(one.text[begin : block.end])
    tail = one.text[find_blocks(one.text)[-1].end :]
    text = ""
    for atom, part in enumerate(parts):
        if rng.random() < 0.1:
            continue
        if rng.random() < 0.1:
            text += "[Xx]<9.0,9.0,9.0>"
            kept.append(-1)
        text += part[:-1] + "amen>" if rng.random() < 0.2 else part
        kept.append(atom)
    return text + tail, kept


@pytest.mark.soak
@given(enriched_texts(molecules(shipped=60), TRIMMED4), seeds(), st.sampled_from(NAMES))
def test_missing_and_invented_atoms_leave_gaps(one: Written, seed: int, name: str) -> None:
    tokenizer = load_tokenizer(name)
    template = build_template(one.text, tokenizer)
    text, kept = edited(one, seed)
    ids = tokenizer.encode(text)
    alignment = align(template, ids, tokenizer)
    check_complete(alignment, template, ids)
    check_drift_of_blocks(alignment, set(one.molecule.descriptors))
    assert [block.atom < 0 for block in alignment.blocks].count(True) <= kept.count(-1)
    for block, atom in zip(alignment.blocks, kept, strict=True):
        if atom >= 0 and block.atom >= 0:  # it may be another atom, but one of its kind
            assert one.molecule.descriptors[block.atom] == one.molecule.descriptors[atom]
        assert block.junk_text == ("amen" if block.text.endswith("amen") else "")
        assert block.kinds == (("letters",) if block.junk_text else ("exact",))


@pytest.mark.soak
@given(enriched_texts(molecules(shipped=60), TRIMMED4), seeds(), st.sampled_from(NAMES))
def test_a_missing_tail_leaves_the_rest_of_the_template(one: Written, seed: int, name: str) -> None:
    tokenizer = load_tokenizer(name)
    template = build_template(one.text, tokenizer)
    ids = tokenizer.encode(one.text)
    ids = ids[: random.Random(seed).randrange(len(ids) + 1)]
    alignment = align(template, ids, tokenizer)
    check_complete(alignment, template, ids)
    assert [block.atom for block in alignment.blocks] == list(range(len(alignment.blocks)))
    for block in alignment.blocks[:-1]:
        assert block.kinds == ("exact",)
    # Nothing is left over in a block that has not ended, nor in one that has not begun.
    ended = {
        block.atom for block, found in zip(alignment.blocks, find_blocks(alignment.text), strict=True) if found.closed
    }
    assert all(row.block in ended for row in alignment.rows if row.mark == "left_over")


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


FILLS: dict[Kind, tuple[str, str]] = {  # what the model begins with, and what it repeats until the close is forced
    "letters": ("1.0,2.0,3.0", "amen"),
    "punctuation": ("1.0,2.0,3.0", "}"),
    "extra_digit": ("1.0,2.0,3.0000", "0"),
    "integer": ("1.0,2,3.0", "0"),
    "fourth_number": ("1.0,2.0,3.0,4.0", "0"),
    "missing_comma": ("1.0-2.0,3.0", "0"),
    "trailing_mark": ("1.0,2.0,3.0", ","),
    "missing_z": ("1.0,2.0", "0"),
    "cut": ("-123.4567,-123.4567,123.4567", "0"),
    "unverified": ("1.2345,1.2345,1.2345", "0"),
}


def test_every_kind_is_reached() -> None:
    """By what a position LP lets through, but for ``exact``, which takes a model that closed the block itself."""
    tokenizer = load_tokenizer("qwen3")
    template = build_template("[C]<>", tokenizer)
    for expected, (begun, repeated) in FILLS.items():
        free = [token.id for token in tokenizer.tokens(f"[C]<{begun}") if token.start >= 4]
        free = [*free, *tokenizer.encode(repeated) * template.free][: template.free]
        ids = [*template.ids[: len(template.ids) - template.free - 1].tolist(), *free, int(template.ids[-1])]
        (block,) = align(template, ids, tokenizer, lp="group-v2.1", form=TRIMMED4).blocks
        assert expected in block.kinds
    (by_model,) = align(template, tokenizer.encode("[C]<1.0,2.0,3.0>"), tokenizer, lp="none").blocks
    assert by_model.kinds == ("exact",)
    assert {*FILLS, "exact"} == set(KINDS)


def test_a_token_that_is_junk_in_part_counts_as_junk() -> None:
    """LLaMA's digits come three to a token: the fifth decimal shares one with the fourth."""
    tokenizer = load_tokenizer("llama3")
    alignment = align(build_template("[C]<>", tokenizer), tokenizer.encode("[C]<1.0,2.0,3.00001>"), tokenizer)
    (block,) = alignment.blocks
    assert (block.kinds, block.junk_text, block.junk_tokens) == (("extra_digit",), "1", 1)
    assert [row.piece for row in alignment.rows if row.mark == "junk"] == ["01"]


def test_what_follows_an_unclosed_block_is_not_in_it() -> None:
    tokenizer = load_tokenizer("qwen3")
    template = build_template("[C]<>[O]<>", tokenizer)
    alignment = align(template, tokenizer.encode("[C]<1.0,2.0[O]<3.0,4.0,5.0>"), tokenizer)
    by_block = ["".join(row.piece for row in alignment.rows if row.text_block == block) for block in (0, 1)]
    assert by_block == ["]<1.0,2.0", "]<3.0,4.0,5.0>"]
    assert [(block.atom, block.text) for block in alignment.blocks] == [(0, "1.0,2.0"), (1, "3.0,4.0,5.0")]


def test_forced_flags_are_taken_as_given() -> None:
    tokenizer = load_tokenizer("llama3")
    template = build_template("[C]<>", tokenizer)
    ids = tokenizer.encode("[C]<0.5,0.5,0.5>")
    forced = [index % 2 == 0 for index in range(len(ids))]
    for lp in LP_NAMES:
        rows = align(template, ids, tokenizer, lp=lp, forced=forced).rows
        assert [row.forced for row in rows if row.pos is not None] == forced
    with pytest.raises(ValueError, match="3 forced flags for"):
        align(template, ids, tokenizer, forced=forced[:3])


@pytest.mark.parametrize("lp", LP_NAMES)
def test_modes(lp: str) -> None:
    assert mode_of(lp) == ("structure" if lp in ("none", "truncating", "exact", "guarded", "unknown") else "position")


def test_nothing_generated() -> None:
    tokenizer = load_tokenizer("qwen3")
    template = build_template("[C]<>=[O]<>", tokenizer)
    for lp in LP_NAMES:
        alignment = align(template, [], tokenizer, lp=lp)
        check_complete(alignment, template, [])
        assert alignment.blocks == ()
        assert alignment.rows[-1].running_drift == 0


@pytest.mark.parametrize(
    "text", ["0.1" * 3_000, "[C]<0.0>" * 1_000, "的" * 3_000, "]<" * 2_000, "[C" * 3_000, "amen " * 2_000]
)
def test_text_that_follows_no_template_is_aligned_in_bounded_time(text: str) -> None:
    """Comparing token by token took a minute and a half for a model that wrote digits without end."""
    tokenizer = load_tokenizer("qwen3")
    one = written(molecule("CN1C=NC2=C1C(=O)N(C(=O)N2C)C"), 1)
    template = build_template(one.text * 6, tokenizer)
    ids = tokenizer.encode(text)
    for lp in ("none", "group-v2.1"):
        check_complete(align(template, ids, tokenizer, lp=lp), template, ids)


@pytest.mark.parametrize("kind", sorted(SMALL_TOKENIZERS))
def test_other_tokenizers_align_too(kind: str, tmp_path: Path) -> None:
    SMALL_TOKENIZERS[kind]().save(str(tmp_path / "tokenizer.json"))
    tokenizer = load_tokenizer(str(tmp_path))
    numbers = (("1.5", "-2.25", "3.0"), ("0.1234", "1.0", "-1.0"))
    text = enriched_text("CO", ("[C]", "[O]"), numbers)
    template = build_template(text, tokenizer)
    assert template.free + template.copy == template.tokens
    ids = tokenizer.encode(text)
    alignment = align(template, ids, tokenizer)
    assert alignment.text == text
    check_complete(alignment, template, ids)
    assert [block.text for block in alignment.blocks] == ["1.5,-2.25,3.0", "0.1234,1.0,-1.0"]
    assert [block.atom for block in alignment.blocks] == [0, 1]
    assert needed_tokens([text], tokenizer)[0].sum() == sum(
        role == "FREE" for role in (row.text_role for row in alignment.rows)
    )


@pytest.mark.parametrize(
    ("descriptor", "element"),
    [
        ("[C]", "C"), ("[c]", "C"), ("[nH]", "N"), ("[C@@H]", "C"), ("[Cl-]", "Cl"), ("[Cl]", "Cl"), ("[13CH3]", "C"),
        ("[2H]", "H"), ("[se]", "Se"), ("[Se]", "Se"), ("[Na+]", "Na"), ("[Co]", "Co"), ("[CH2]", "C"), ("[Sn]", "Sn"),
        ("[NH3+]", "N"), ("[H]", "H"), ("[sH]", "S"), ("[cH]", "C"), ("[Os]", "Os"), ("[OH2]", "O"), ("", ""),
        ("[]", ""), ("[123]", ""), ("[+]", ""),
    ],
)  # fmt: skip
def test_elements_of_descriptors(descriptor: str, element: str) -> None:
    assert element_of(descriptor) == element


@pytest.mark.soak
@given(molecules())
def test_elements_of_molecules(one: Molecule) -> None:
    assert tuple(map(element_of, one.descriptors)) == one.elements
