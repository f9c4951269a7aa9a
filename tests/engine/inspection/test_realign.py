"""Stored kinds over the alignment's own, and columns by atom."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.chem.enriched import skeleton_of
from engine.chem.smiles import parse_smiles
from engine.inspection.realign import atoms_of_columns, with_kinds
from engine.inspection.sample import inspect_sample
from engine.records import Kind
from engine.text.align import Alignment, align
from engine.text.template import build_template
from engine.text.tokenizers import load_tokenizer
from tests.engine.inspection.made import DEMO_STORE, demo_run

TOKENIZER = load_tokenizer("qwen3")
QWEN_TOKENS = TOKENIZER.vocab_size
STORED: list[tuple[Kind, ...]] = [("cut",), ("exact",), ("unverified",), ()]
TEXT = "[CONFORMER][C]<0.1234,0.2345,0.3456>[O]<1.2345,0.5678,1.0987>[/CONFORMER]"


def aligned(text: str = TEXT, smiles: str = "CO", lp: str = "group-v2.1") -> Alignment:
    template = build_template(skeleton_of(parse_smiles(smiles)), TOKENIZER, tags=True)
    return align(template, TOKENIZER.encode(text), TOKENIZER, lp=lp)


def marks(alignment: Alignment) -> list[tuple[int, str]]:
    return [(column, row.mark) for column, row in enumerate(alignment.rows) if row.mark]


def columns_of_atom(alignment: Alignment, atom: int) -> list[int]:
    return [column for column, of_column in enumerate(atoms_of_columns(alignment)) if of_column == atom]


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


def test_an_atom_is_its_descriptor_and_its_block() -> None:
    found = aligned(lp="none")
    pieces = {atom: "".join(found.rows[n].piece for n in columns_of_atom(found, atom)) for atom in (0, 1)}
    assert "C" in pieces[0] and "0.1234,0.2345,0.3456" in pieces[0] and "O" not in pieces[0]
    assert "O" in pieces[1] and pieces[1].count(">") == 1
    assert columns_of_atom(found, 2) == []


def test_every_column_of_an_atom_leads_back_to_it() -> None:
    found = aligned("[CONFORMER][C]<0.1,0.2,0.3的x>=[N]<1>[O]<1.2345", lp="none")
    atoms = atoms_of_columns(found)
    for atom in {one for one in atoms if one is not None}:
        assert [atoms_of_columns(found)[column] for column in columns_of_atom(found, atom)] == [atom] * atoms.count(
            atom
        )


def test_tags_and_bonds_have_no_atom() -> None:
    found = aligned("[CONFORMER][C]<0.1,0.2,0.3>=[O]<1.0,2.0,3.0>[/CONFORMER]", "C=O", lp="none")
    assert atoms_of_columns(found)[0] is None
    assert atoms_of_columns(found)[-1] is None


def test_what_was_not_written_is_the_templates_atom() -> None:
    found = aligned("[CONFORMER][C]<0.1,0.2,0.3>", lp="none")
    missing = [column for column, row in enumerate(found.rows) if row.pos is None and row.block == 1]
    assert missing and {atoms_of_columns(found)[column] for column in missing} == {1}


def test_an_invented_atom_is_no_atom_of_the_molecule() -> None:
    found = aligned("[CONFORMER][C]<0.1,0.2,0.3>[O]<1.0,2.0,3.0>[Br]<1.0,2.0,3.0>[/CONFORMER]", lp="none")
    invented = [column for column, row in enumerate(found.rows) if row.text_block == 2]
    assert invented and {atoms_of_columns(found)[column] for column in invented} == {None}


def test_each_atom_of_the_demo_has_one_run_of_columns() -> None:
    for lp in ("none", "group-v2.1", "exact"):
        found = inspect_sample(DEMO_STORE, demo_run("llama", lp), 7)
        assert found.alignment is not None
        for atom in range(found.molecule.atoms):
            columns = columns_of_atom(found.alignment, atom)
            assert columns == list(range(columns[0], columns[-1] + 1))
            assert (
                found.molecule.elements[atom].lower()
                in "".join(found.alignment.rows[column].piece for column in columns).lower()
            )


@given(st.lists(st.integers(0, QWEN_TOKENS - 1), max_size=80), st.sampled_from(["none", "group-v2.1"]), st.data())
def test_any_tokens_have_columns_and_atoms(ids: list[int], lp: str, data: st.DataObject) -> None:
    template = build_template(skeleton_of(parse_smiles("CC(=O)N")), TOKENIZER, tags=True)
    before = align(template, [*template.ids[:20].tolist(), *ids], TOKENIZER, lp=lp)
    stored = [data.draw(st.sampled_from(STORED)) for _ in before.blocks]
    found = with_kinds(before, stored)
    assert kinds(found) == [new or old for new, old in zip(stored, kinds(before), strict=True)]
    assert [row.pos for row in found.rows] == [row.pos for row in before.rows]
    is_cut = [block for block, row in enumerate(stored) if row == ("cut",)]
    assert all(row.text_block in is_cut or not stored[row.text_block] for row in found.rows if row.mark == "cut")
    atoms = atoms_of_columns(found)
    assert len(atoms) == len(found.rows)
    assert {atom for atom in atoms if atom is not None} <= set(range(4))
