"""What a cut cost, and what is put together of an answer that does not decode."""

from __future__ import annotations

import math
from typing import Any

import pytest
from rdkit import Chem

from engine.chem.rmsd import least_rmsd
from engine.chem.smiles import parse_smiles
from engine.chem.verdict import judge_answer
from engine.inspection.conformers import conformer_of
from engine.inspection.sample import BlockEstimate, estimates_of
from engine.text.check import answer_of
from engine.text.tokenizers import TextTokenizer, load_tokenizer

MOLECULE = parse_smiles("CO")
QWEN = load_tokenizer("qwen3")
BROKEN = "[CONFORMER][C]<1.0,2.0,3.0>[O]<1.0>[/CONFORMER]"


def block(number: int, text: str, continued: str | None = None, **more: Any) -> dict[str, Any]:
    return {"block": number, "atom": number, "text": text, "continued_text": continued, **more}


def estimate(written: str, continued: str, tokenizer: TextTokenizer | None = None) -> BlockEstimate:
    return estimates_of([block(0, written, continued)], MOLECULE, tokenizer)[0]


def spot(atom: int | None, x: float | None, y: float | None = 0.0, z: float | None = 0.0) -> dict[str, Any]:
    return {"atom": atom, "x": x, "y": y, "z": z}


def test_lost_digits_and_the_way_an_atom_moved() -> None:
    found = estimate("1.2345,-0.5,3.1", "1.2345,-0.5,3.1415", QWEN)
    assert found.digits_lost == 3
    assert found.displacement_ang == pytest.approx(0.0415)
    assert found.needed == 17  # 6 for x, 4 for ",-" and 0.5, then a comma and 6


def test_a_number_that_was_cut_off_has_no_place() -> None:
    found = estimate("1.2345,-0.5,", "1.2345,-0.5,3.1", QWEN)
    assert (found.digits_lost, found.displacement_ang) == (2, None)


def test_a_continuation_of_another_text_tells_no_digits() -> None:
    found = estimate("1.0,2.0,3.0", "9.0,2.0,3.0")
    assert found == BlockEstimate("9.0,2.0,3.0", None, None, 8.0)


def test_junk_is_no_continuation() -> None:
    found = estimate("1.0,2.0,3.0", "的")
    assert (found.digits_lost, found.displacement_ang) == (None, None)


def test_estimates_are_of_blocks_that_were_continued() -> None:
    rows = [block(0, "1.0,2.0,3.0"), block(1, "1.0,2.0,3.", "1.0,2.0,3.5"), block(2, "1.0", "", atom=None)]
    found = estimates_of(rows, MOLECULE, QWEN)
    assert list(found) == [1]
    assert found[1].digits_lost == 1


# --- shapes -------------------------------------------------------------------------------------------------------


def test_whole_text_is_decoded() -> None:
    text = "[CONFORMER][C]<1.0,2.0,3.0>[O]<4.0,5.0,6.0>[/CONFORMER]"
    found = conformer_of({"text": text}, [spot(0, 1), spot(1, 4)], MOLECULE)
    assert found.mol is not None and found.why_not == "" and found.atoms == (0, 1)
    assert found.mol.GetConformer().GetPositions().tolist() == [[1, 2, 3], [4, 5, 6]]


def test_atoms_without_coordinates_are_left_out() -> None:
    found = conformer_of({"text": BROKEN}, [spot(0, 1.0, 2.0, 3.0), spot(1, 1.0, None, None)], MOLECULE)
    assert found.mol is not None and found.atoms == (0,)
    assert found.mol.GetConformer().GetPositions().tolist() == [[1, 2, 3]]
    assert found.why_not.endswith("Shown are 1 of 2 atoms, as far as their blocks can be read.")
    assert "1 numbers instead of three" in found.why_not


def test_the_place_of_an_error_is_that_of_the_verdict() -> None:
    """One page has the verdict's place, another the shape's: they were 11 characters apart, the opening tag's."""
    text = "[CONFORMER][C]<1.0,2.0,3.0>[O]<4.0,5.0amen>[/CONFORMER]"
    (failed,) = judge_answer(answer_of(text), None).failed
    assert failed.detail in conformer_of({"text": text}, [spot(0, 1)], MOLECULE).why_not


@pytest.mark.parametrize("kept", [(0, 1, 2), (3, 4, 5, 6), (0,), tuple(range(7))])
def test_part_of_a_ring_is_a_molecule_that_can_be_written(kept: tuple[int, ...]) -> None:
    toluene = parse_smiles("Cc1ccccc1")
    found = conformer_of({"text": "[C]<>"}, [spot(atom, float(atom)) for atom in kept], toluene)
    assert found.mol is not None and found.atoms == kept
    assert [point[0] for point in found.mol.GetConformer().GetPositions().tolist()] == list(kept)
    again = Chem.MolFromMolBlock(Chem.MolToMolBlock(found.mol))
    assert again is not None and again.GetNumAtoms() == len(kept)


def test_with_junk_beside_all_coordinates_it_is_the_molecule_itself() -> None:
    """So that it can be laid on a reference conformer of the same graph."""
    toluene = parse_smiles("Cc1ccccc1")
    found = conformer_of({"text": "[C]<>"}, [spot(atom, float(atom)) for atom in range(7)], toluene)
    assert found.mol is not None
    assert Chem.MolToSmiles(found.mol) == toluene.smiles
    assert least_rmsd(found.mol, found.mol) == pytest.approx(0)


def test_nothing_to_put_together() -> None:
    found = conformer_of({"text": BROKEN}, [spot(0, None), spot(None, 1.0), spot(9, 1.0), spot(-1, 1.0)], MOLECULE)
    assert found.mol is None and found.atoms == () and found.why_not.startswith("The strict reader refuses the text")
    assert conformer_of({"text": ""}, [], MOLECULE).why_not == "There is no text to read a conformer from."


def test_another_molecules_atoms_are_not_taken_for_these() -> None:
    """Decoded well, but of more atoms than were asked for, and without rows of blocks."""
    text = "[CONFORMER][C]<1.0,2.0,3.0>[C]<1.0,2.0,4.5>[O]<4.0,5.0,6.0>[/CONFORMER]"
    assert conformer_of({"text": text}, [], MOLECULE).atoms == (-1, -1, -1)


def test_distance_is_that_of_the_points() -> None:
    found = estimate("0.0,0.0,0.0", "0.01,0.02,0.03")
    assert found.displacement_ang == pytest.approx(math.sqrt(0.0014))
