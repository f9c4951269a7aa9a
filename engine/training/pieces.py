"""Pieces of a flat molecule near a wanted size: whole rings and linkers that hang together, cut from the rest.

Bonds are cut outside rings between atoms that both have other neighbours, and hydrogens take their place. The same
molecule, size and random state give the same piece. What this module does not know: whether a piece was ever made.
``variants.fragments`` cuts one or two bonds for the shipped molecule set; here every size is reached that exists.
"""

from __future__ import annotations

from random import Random

from rdkit import Chem

from engine.training.variants import sanitised

_CUTTABLE = Chem.MolFromSmarts("[!D1]-;!@[!D1]")


def piece_near(mol: Chem.Mol, wanted: int, most: int, rng: Random) -> Chem.Mol | None:
    """A piece of at least ``wanted`` atoms where there is one of at most ``most``; a smaller one, or None, else."""
    blocks, neighbours = _blocks(mol)
    grown = [rng.randrange(len(blocks))]
    size = len(blocks[grown[0]])
    while size < wanted:
        border = {other for block in grown for other in neighbours[block]} - set(grown)
        fitting = sorted(block for block in border if size + len(blocks[block]) <= most)
        if not fitting:
            break
        grown.append(rng.choice(fitting))
        size += len(blocks[grown[-1]])
    return _cut_out(mol, {atom for block in grown for atom in blocks[block]}) if size <= most else None


def _blocks(mol: Chem.Mol) -> tuple[list[tuple[int, ...]], list[set[int]]]:
    """The atoms of each part that no cut divides, and which parts are bonded."""
    cut = Chem.RWMol(mol)
    bonds = mol.GetSubstructMatches(_CUTTABLE)
    for start, end in bonds:
        cut.RemoveBond(start, end)
    blocks = [tuple(block) for block in Chem.GetMolFrags(cut)]
    block_of = {atom: index for index, block in enumerate(blocks) for atom in block}
    neighbours: list[set[int]] = [set() for _ in blocks]
    for start, end in bonds:
        neighbours[block_of[start]].add(block_of[end])
        neighbours[block_of[end]].add(block_of[start])
    return blocks, neighbours


def _cut_out(mol: Chem.Mol, kept: set[int]) -> Chem.Mol | None:
    """The molecule of these atoms alone; None where it is no valid one."""
    cut = Chem.RWMol(mol)
    for start, end in mol.GetSubstructMatches(_CUTTABLE):
        if (start in kept) != (end in kept):
            atom = cut.GetAtomWithIdx(start if start in kept else end)
            if atom.GetNoImplicit() or (atom.GetIsAromatic() and atom.GetAtomicNum() != 6):
                atom.SetNumExplicitHs(atom.GetNumExplicitHs() + 1)  # nothing puts a hydrogen on [nH] by itself
    for index in sorted(set(range(mol.GetNumAtoms())) - kept, reverse=True):
        cut.RemoveAtom(index)
    return next(sanitised(cut), None)
