"""Blocks on which RDKit ends, or for which it takes too long, cost its process and a sentence."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from rdkit import Chem

from engine.chem import file_forms
from engine.chem.conformers import reference_conformers
from engine.chem.file_forms import mol_of
from engine.chem.smiles import parse_smiles
from engine.errors import FileFormatError
from engine.sandbox import Answer, Limits, Sandbox

ETHANOL = reference_conformers(parse_smiles("CCO"), 1)


def mol_of_block(block: str) -> Chem.Mol:
    return mol_of("a.mol", 1, block.splitlines())


def test_a_block_on_which_the_reader_ends_costs_that_block() -> None:
    """Read here, the elements ended this process, and so many atoms took 1.6 GB of it."""
    block = str(Chem.MolToV3KMolBlock(Chem.MolFromSmiles("CCO")))
    hostile = {
        block.replace("V30 1 C ", f"V30 1 [C,N{200_000 * ',C'}] "): "its reader ended on it",
        block.replace("COUNTS 3 2", "COUNTS 200000000 0"): "cannot be read",
    }
    for text, reason in hostile.items():
        with pytest.raises(FileFormatError, match=reason):
            mol_of_block(text)
        assert mol_of_block(block).GetNumAtoms() == 3


def test_a_reader_that_ended_after_an_earlier_block_is_begun_anew() -> None:
    block = str(Chem.MolToMolBlock(ETHANOL))
    mol_of_block(block)
    process = file_forms.BLOCK_READER._process
    assert process is not None
    process.kill()
    mol = mol_of_block(block)
    assert (
        mol.GetConformer().GetPositions().tolist() == Chem.MolFromMolBlock(block).GetConformer().GetPositions().tolist()
    )


def test_a_block_that_takes_too_long_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        file_forms, "BLOCK_READER", Sandbox(_slow_reader, limits=Limits(0.5, is_cpu=True, is_closed=True))
    )
    with pytest.raises(FileFormatError, match=r"it takes over 0\.5 s to read"):
        mol_of_block("for ever")


def _slow_reader() -> Callable[[str], Answer]:
    def answer(block: str) -> Answer:
        while True:
            pass

    return answer
