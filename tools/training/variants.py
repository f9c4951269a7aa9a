"""Molecules made out of flat, neutral ones: stereoisomers, ions, labelled forms, salts and fragments.

Most functions take a sanitised molecule and a ``draw``, a large integer that stands for chance, and yield sanitised
candidates, the preferred one first; ``branched`` and ``piece_near`` take a generator and give one molecule. The same
molecule and chance give the same candidates in the same order. ``fragments`` cuts one or two bonds, for the shipped
molecule set; ``piece_near`` reaches every size. What this module does not know: whether a candidate can exist in three
dimensions or can be synthesised; the builder embeds it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice, pairwise
from random import Random
from typing import Any, TypeVar

from rdkit import Chem
from rdkit.Chem.EnumerateStereoisomers import EnumerateStereoisomers, StereoEnumerationOptions

MOST_ISOMERS = 4
FRAGMENT_ATOMS = (3, 12)

Make = Callable[[Chem.Mol, int], Iterator[Chem.Mol]]
Item = TypeVar("Item")


def unchanged(mol: Chem.Mol, draw: int) -> Iterator[Chem.Mol]:
    yield mol


def stereoisomers(mol: Chem.Mol, draw: int) -> Iterator[Chem.Mol]:
    """A few of the isomers of a molecule with unspecified stereo, every centre and double bond specified."""
    if not any(element.specified == Chem.StereoSpecified.Unspecified for element in Chem.FindPotentialStereo(mol)):
        return
    options: Any = StereoEnumerationOptions(unique=True, maxIsomers=4 * MOST_ISOMERS, rand=draw % 2**31)
    yield from turned(list(EnumerateStereoisomers(mol, options=options)), draw)[:MOST_ISOMERS]


def double_bond_isomers(mol: Chem.Mol, draw: int) -> Iterator[Chem.Mol]:
    """Isomers of a molecule that has stereo double bonds."""
    if any(element.type == Chem.StereoType.Bond_Double for element in Chem.FindPotentialStereo(mol)):
        yield from stereoisomers(mol, draw)


def dehydrogenated(mol: Chem.Mol, draw: int) -> Iterator[Chem.Mol]:
    """One single bond of a chain becomes an alkene's or an imine's double bond, with its stereo stated."""
    for start, end in turned(list(mol.GetSubstructMatches(_CHAIN_BOND)), draw):
        changed = Chem.RWMol(mol)
        changed.GetBondBetweenAtoms(start, end).SetBondType(Chem.BondType.DOUBLE)
        for flat in sanitised(changed):
            yield from double_bond_isomers(flat, draw)


def branched(mol: Chem.Mol, most: int, rng: Random) -> Chem.Mol:
    """The molecule with one to three small groups on carbons of two hydrogens, up to ``most`` atoms in all.

    Such a carbon is a stereocentre from then on, unless its neighbours are alike. The same random state gives the same.
    """
    for _ in range(rng.choice((1, 1, 2, 2, 3))):
        carbons = [atom for (atom,) in mol.GetSubstructMatches(_CH2)]
        if not carbons or mol.GetNumAtoms() >= most:
            break
        carbon = rng.choice(carbons)
        plain = all(neighbour.GetAtomicNum() == 6 for neighbour in mol.GetAtomWithIdx(carbon).GetNeighbors())
        changed = Chem.RWMol(mol)
        group = changed.AddAtom(Chem.Atom(rng.choice((6, 6, 7, 8, 9, 17) if plain else (6,))))
        changed.AddBond(carbon, group, Chem.BondType.SINGLE)
        mol = next(sanitised(changed), mol)
    return mol


def charged(mol: Chem.Mol, draw: int) -> Iterator[Chem.Mol]:
    """Cations, anions and zwitterions of a molecule, its stereo specified."""
    for base in _bases(mol, draw):
        yield from _charged_forms(base, draw)


def salts(mol: Chem.Mol, draw: int) -> Iterator[Chem.Mol]:
    """A molecule or one of its ions with counter-ions or a solvent molecule."""
    for base in _bases(mol, draw):
        ions = [ion for ion in _charged_forms(base, draw) if abs(Chem.GetFormalCharge(ion)) == 1]
        if ions:
            partners = ANIONS if Chem.GetFormalCharge(ions[0]) > 0 else CATIONS
            yield from sanitised(Chem.CombineMols(ions[0], turned(partners, draw)[0]))
        yield from sanitised(Chem.CombineMols(base, turned(SOLVENTS, draw)[0]))


def labelled(mol: Chem.Mol, draw: int) -> Iterator[Chem.Mol]:
    """A molecule, its stereo specified, with one to three labelled atoms, or with deuterium or tritium at a carbon."""
    for base in _bases(mol, draw):
        yield from turned([*_heavy_label(base, draw), *_hydrogen_label(base, draw)], draw)


def fragments(mol: Chem.Mol, draw: int) -> Iterator[Chem.Mol]:
    """Pieces of 3 to 12 heavy atoms: one or two bonds outside rings cut, hydrogens put in their place."""
    bonds = [mol.GetBondBetweenAtoms(*ends).GetIdx() for ends in mol.GetSubstructMatches(_CUTTABLE)]
    least, most = FRAGMENT_ATOMS
    for cut in turned([*((bond,) for bond in bonds), *pairwise(bonds)], draw):  # one bond, or it and the next one
        for piece in turned(_pieces(mol, cut), draw):
            if least <= piece.GetNumHeavyAtoms() <= most:
                # A piece of a molecule without stereo is flat again, and half of them may stay so.
                yield from _bases(piece, draw) if draw % 2 else unchanged(piece, draw)


def turned(items: Sequence[Item], draw: int) -> list[Item]:
    """The items, rotated by the draw."""
    start = draw % len(items) if items else 0
    return [*items[start:], *items[:start]]


def sanitised(mol: Chem.Mol) -> Iterator[Chem.Mol]:
    """The molecule, re-read from its SMILES so that nothing of its history is left; nothing where it is not valid."""
    try:
        Chem.SanitizeMol(mol)
    except Chem.MolSanitizeException:
        return
    again = Chem.MolFromSmiles(Chem.MolToSmiles(mol))
    if again is not None:
        yield again


_CHAIN_BOND = Chem.MolFromSmarts("[CX4;!R;!H0;!H3]-;!@[CX4,$([NX3;!$(N-[CX3]);!$(N-S)]);!R;!H0;!H3]")
_CH2 = Chem.MolFromSmarts("[CX4H2]")
_CUTTABLE = Chem.MolFromSmarts("[!D1]-;!@[!D1]")

_AMINE = "[NX3;+0;!$(N-[!#6]);!$(N~[#6;!X4])]"
# Name, pattern of the atom, its new charge, methyl groups put on it.
_CHARGES = (
    ("ammonium", Chem.MolFromSmarts(_AMINE), 1, 0),
    ("carboxylate", Chem.MolFromSmarts("[OX2H1;+0;$(O-[#6,#15,#16]=O)]"), -1, 0),
    ("pyridinium", Chem.MolFromSmarts("[n;X2;+0;r6]"), 1, 0),
    ("quaternary ammonium", Chem.MolFromSmarts(_AMINE), 1, 1),
    ("sulfonamide anion", Chem.MolFromSmarts("[NX3;!H0;+0;$(N-S(=O)=O)]"), -1, 0),
    ("N-methylpyridinium", Chem.MolFromSmarts("[n;X2;+0;r6]"), 1, 1),
    ("azolium", Chem.MolFromSmarts("[n;X2;+0;r5;$(n:[#6]:[n;X3])]"), 1, 0),
    ("phenolate", Chem.MolFromSmarts("[OX2H1;+0;$(O-c)]"), -1, 0),
    ("amidinium", Chem.MolFromSmarts("[NX2;+0;$(N=C-[NX3])]"), 1, 0),
    ("azolide", Chem.MolFromSmarts("[nH;+0;$(n:n:n),$(n:[#6]:n)]"), -1, 0),
    ("thiolate", Chem.MolFromSmarts("[SX2H1;+0]"), -1, 0),
)


def _bases(mol: Chem.Mol, draw: int) -> Iterator[Chem.Mol]:
    """The first two stereoisomers, or the molecule itself where it has no stereo to specify."""
    yield from islice(stereoisomers(mol, draw), 2)
    if all(element.specified != Chem.StereoSpecified.Unspecified for element in Chem.FindPotentialStereo(mol)):
        yield mol


def _charged_forms(mol: Chem.Mol, draw: int) -> Iterator[Chem.Mol]:
    """Both charges where the molecule offers both, else one, by kinds in drawn order."""
    plus, minus = _sites(mol, 1), _sites(mol, -1)
    if plus and minus:
        yield from _edited(mol, [turned(plus, draw)[0], turned(minus, draw)[0]])
    for site in turned([*plus, *minus], draw):
        yield from _edited(mol, [site])


def _sites(mol: Chem.Mol, sign: int) -> list[tuple[int, int, int]]:
    """Atom, charge and methyl groups of each place that can take a charge of this sign."""
    return [
        (atom, charge, methyls)
        for _, pattern, charge, methyls in _CHARGES
        if charge == sign
        for (atom,) in mol.GetSubstructMatches(pattern)
    ]


def _edited(mol: Chem.Mol, sites: list[tuple[int, int, int]]) -> Iterator[Chem.Mol]:
    changed = Chem.RWMol(mol)
    for index, charge, methyls in sites:
        atom = changed.GetAtomWithIdx(index)
        atom.SetFormalCharge(atom.GetFormalCharge() + charge)
        if atom.GetNoImplicit() or atom.GetIsAromatic():
            atom.SetNumExplicitHs(atom.GetNumExplicitHs() + (0 if methyls else charge))
        for _ in range(methyls):
            changed.AddBond(index, changed.AddAtom(Chem.Atom(6)), Chem.BondType.SINGLE)
    yield from sanitised(changed)


def _molecules(smiles: str) -> list[Chem.Mol]:
    return [Chem.MolFromSmiles(text) for text in smiles.split()]


ANIONS = _molecules(
    "[Cl-] [Br-] [I-] CC(=O)[O-] CS(=O)(=O)[O-] O=C([O-])C(F)(F)F O=C([O-])/C=C/C(=O)O O=C([O-])/C=C\\C(=O)O "
    "O=C(O)[C@H](O)[C@@H](O)C(=O)[O-] O=[N+]([O-])[O-] O=S(=O)([O-])O O=P([O-])(O)O Cc1ccc(S(=O)(=O)[O-])cc1"
)
CATIONS = _molecules("[Na+] [K+] [Li+] [NH4+] C[N+](C)(C)C OCC[NH3+] C[NH+](C)CCO [Cs+]")
SOLVENTS = _molecules("O CO CCO CS(C)=O CC#N CC(=O)O Cl Br ClCCl OC(=O)C(F)(F)F C1CCOC1 O=C(O)CC(=O)O")

_ISOTOPES = {6: (13, 14, 11), 7: (15, 13), 8: (18, 17, 15), 9: (18,), 16: (35, 34), 17: (37, 35), 35: (81, 76, 79)}


def _heavy_label(mol: Chem.Mol, draw: int) -> list[Chem.Mol]:
    atoms = [atom.GetIdx() for atom in mol.GetAtoms() if atom.GetAtomicNum() in _ISOTOPES]
    changed = Chem.RWMol(mol)
    for index in turned(atoms, draw)[: 1 + draw % 3]:
        atom = changed.GetAtomWithIdx(index)
        atom.SetIsotope(turned(_ISOTOPES[atom.GetAtomicNum()], draw // 7)[0])
    return list(sanitised(changed))


def _hydrogen_label(mol: Chem.Mol, draw: int) -> list[Chem.Mol]:
    carbons = [atom.GetIdx() for atom in mol.GetAtoms() if atom.GetAtomicNum() == 6 and atom.GetTotalNumHs()]
    if not carbons:
        return []
    changed = Chem.AddHs(mol)
    isotope = 3 if draw % 5 == 0 else 2
    for neighbour in changed.GetAtomWithIdx(turned(carbons, draw // 3)[0]).GetNeighbors():
        if neighbour.GetAtomicNum() == 1:
            neighbour.SetIsotope(isotope)
    return list(sanitised(Chem.RemoveHs(changed)))


def _pieces(mol: Chem.Mol, bonds: tuple[int, ...]) -> list[Chem.Mol]:
    cut = Chem.RWMol(mol)
    ends = [(mol.GetBondWithIdx(bond).GetBeginAtomIdx(), mol.GetBondWithIdx(bond).GetEndAtomIdx()) for bond in bonds]
    for pair in ends:
        cut.RemoveBond(*pair)
        for index in pair:
            atom = cut.GetAtomWithIdx(index)
            if atom.GetIsAromatic() and atom.GetAtomicNum() != 6:
                atom.SetNumExplicitHs(atom.GetNumExplicitHs() + 1)  # nothing puts a hydrogen on [nH] by itself
    pieces = Chem.GetMolFrags(cut, asMols=True, sanitizeFrags=False)
    return [whole for piece in pieces for whole in sanitised(piece)]


# --- pieces near a wanted size ----------------------------------------------------------------------------------------


def piece_near(mol: Chem.Mol, wanted: int, most: int, rng: Random) -> Chem.Mol | None:
    """Whole rings and linkers that hang together: at least ``wanted`` atoms where there is such a piece of at most
    ``most``, else a smaller one or None. Cut bonds get hydrogens. The same random state gives the same piece."""
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
