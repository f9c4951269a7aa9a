"""Alignment of text that nothing forced, damaged or not, and single examples of either mode."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.chem.enriched import enriched_text
from engine.records import TRIMMED4, Kind
from engine.text.align import align
from engine.text.blocks import KINDS
from engine.text.template import build_template, needed_tokens
from engine.text.tokenizers import load_tokenizer
from tests.alignments import CLOSED_BY_MODEL, NAMES, PLACEHOLDERS, check_complete
from tests.report_examples import LLAMA_EXAMPLES, QWEN_EXAMPLES
from tests.small_tokenizers import SMALL_TOKENIZERS
from tests.strategies import Written, damaged, enriched_texts, molecule, molecules, seeds, written

# --- text that nothing forced -----------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("text", ["0.1" * 3_000, "[C]<0.0>" * 1_000, "]<" * 2_000])
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
