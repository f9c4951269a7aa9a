"""Blocks on which RDKit ends, or for which it takes too long, cost its process and a sentence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from rdkit import Chem

from engine.chem import mol_blocks, structure_files
from engine.chem.conformers import reference_conformers
from engine.chem.mol_blocks import BlockError, mol_of_block
from engine.chem.smiles import parse_smiles
from engine.chem.structure_files import mol_of, sdf_records, smiles_of_mol_blocks
from engine.errors import FileFormatError
from engine.sandbox import Answer, Limits, Sandbox

ETHANOL = reference_conformers(parse_smiles("CCO"), 1)


def test_a_block_on_which_the_reader_ends_costs_that_block() -> None:
    """Read here, the elements ended this process, and so many atoms took 1.6 GB of it."""
    block = str(Chem.MolToV3KMolBlock(Chem.MolFromSmiles("CCO")))
    hostile = {
        block.replace("V30 1 C ", f"V30 1 [C,N{200_000 * ',C'}] "): "its reader ended on it",
        block.replace("COUNTS 3 2", "COUNTS 200000000 0"): "it is no molecule",
    }
    for text, reason in hostile.items():
        with pytest.raises(BlockError, match=reason):
            mol_of_block(text)
        assert mol_of_block(block).GetNumAtoms() == 3


def test_a_reader_that_ended_after_an_earlier_block_is_begun_anew() -> None:
    block = str(Chem.MolToMolBlock(ETHANOL))
    mol_of_block(block)
    process = mol_blocks.READER._process
    assert process is not None
    process.kill()
    mol = mol_of_block(block)
    assert (
        mol.GetConformer().GetPositions().tolist() == Chem.MolFromMolBlock(block).GetConformer().GetPositions().tolist()
    )


def test_a_block_that_takes_too_long_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mol_blocks, "READER", Sandbox(_slow_reader, limits=Limits(0.5, is_cpu=True, is_closed=True)))
    with pytest.raises(BlockError, match=r"it takes over 0\.5 s to read"):
        mol_of_block("for ever")


def test_what_all_blocks_of_a_text_may_cost_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each within its limit: 60 of them held a page for four minutes."""
    block = str(Chem.MolToMolBlock(ETHANOL))
    file = tmp_path / "three.sdf"
    file.write_text(3 * f"{block}$$$$\n")
    monkeypatch.setattr(mol_blocks.READER, "ask", lambda block: ((5.0, "it is no molecule"), b""))
    monkeypatch.setattr(structure_files, "LEAST_SECONDS", 9.0)
    records = sdf_records(file)
    for number in (1, 2):
        with pytest.raises(FileFormatError, match="it is no molecule"):
            mol_of(file, number, next(records))
    with pytest.raises(FileFormatError, match=r"the molecules of 'three\.sdf' take over 9 s to read"):
        next(records)
    monkeypatch.setattr(mol_blocks.READER, "ask", lambda block: ((5.0, ""), ETHANOL.ToBinary()))
    with pytest.raises(FileFormatError, match="the molecules of 'the pasted text' take over 4 s to read"):
        smiles_of_mol_blocks(3 * block, most=3)


def _slow_reader() -> Callable[[str], Answer]:
    def answer(block: str) -> Answer:
        while True:
            pass

    return answer
