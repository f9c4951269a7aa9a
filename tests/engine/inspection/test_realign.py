"""Stored kinds over the alignment's own."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.chem.enriched import skeleton_of
from engine.chem.smiles import parse_smiles
from engine.inspection.realign import with_kinds
from engine.records import Kind
from engine.text.align import Alignment, align
from engine.text.template import build_template
from engine.text.tokenizers import load_tokenizer

TOKENIZER = load_tokenizer("qwen3")
QWEN_TOKENS = TOKENIZER.vocab_size
STORED: list[tuple[Kind, ...]] = [("cut",), ("exact",), ("unverified",), ()]
TEXT = "[CONFORMER][C]<0.1234,0.2345,0.3456>[O]<1.2345,0.5678,1.0987>[/CONFORMER]"


def aligned(text: str = TEXT, smiles: str = "CO", lp: str = "group-v2.1") -> Alignment:
    template = build_template(skeleton_of(parse_smiles(smiles)), TOKENIZER, tags=True)
    return align(template, TOKENIZER.encode(text), TOKENIZER, lp=lp)


def marks(alignment: Alignment) -> list[tuple[int, str]]:
    return [(column, row.mark) for column, row in enumerate(alignment.rows) if row.mark]


def kinds(alignment: Alignment) -> list[tuple[Kind, ...]]:
    return [block.kinds for block in alignment.blocks]


def test_kinds_that_agree_change_nothing() -> None:
    found = aligned()
    assert kinds(found) == [("unverified",), ("unverified",)]
    assert with_kinds(found, kinds(found)) is found
    assert with_kinds(found, []) is found
    assert with_kinds(found, [(), ()]) is found


def test_a_stored_cut_marks_the_last_token_of_its_numbers() -> None:
    found = with_kinds(aligned(), [("cut",), ("exact",)])
    assert kinds(found) == [("cut",), ("exact",)]
    ((column, mark),) = marks(found)
    assert mark == "cut"
    assert found.rows[column].text_block == 0 and found.rows[column + 1].text_role != "FREE"


def test_a_cut_that_is_not_stored_loses_its_mark() -> None:
    whole = aligned()
    again = with_kinds(with_kinds(whole, [("cut",), ("cut",)]), [("cut",), ("unverified",)])
    assert [found.text_block for found in again.rows if found.mark == "cut"] == [0]
    back = with_kinds(again, [("unverified",), ("unverified",)])
    assert back == whole


def test_running_drift_stays_as_it_was() -> None:
    before, after = aligned(), with_kinds(aligned(), [("cut",), ("cut",)])
    assert [row.running_drift for row in before.rows] == [row.running_drift for row in after.rows]


@given(st.lists(st.integers(0, QWEN_TOKENS - 1), max_size=80), st.sampled_from(["none", "group-v2.1"]), st.data())
def test_any_tokens_have_columns(ids: list[int], lp: str, data: st.DataObject) -> None:
    template = build_template(skeleton_of(parse_smiles("CC(=O)N")), TOKENIZER, tags=True)
    before = align(template, [*template.ids[:20].tolist(), *ids], TOKENIZER, lp=lp)
    stored = [data.draw(st.sampled_from(STORED)) for _ in before.blocks]
    found = with_kinds(before, stored)
    assert kinds(found) == [new or old for new, old in zip(stored, kinds(before), strict=True)]
    assert [row.pos for row in found.rows] == [row.pos for row in before.rows]
    is_cut = [block for block, row in enumerate(stored) if row == ("cut",)]
    assert all(row.text_block in is_cut or not stored[row.text_block] for row in found.rows if row.mark == "cut")
