"""The molecules in ``data/``: what the tags say is found again in the SMILES, and the named ones are what they say."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

import pytest
from rdkit import Chem
from rdkit.Chem import Descriptors, rdCIPLabeler, rdMolDescriptors

from engine.chem.conformers import reference_conformers
from engine.chem.frame import principal_axis_frame
from engine.chem.molecule_sets import (
    MoleculeEntry,
    load_molecule_set,
    load_named,
)
from engine.chem.rdkit_log import captured_log
from engine.chem.smiles import parse_smiles
from tests.support import ROOT, sized

ORIGINS = {"moses", "fragment", "variant", "written"}
LEAST = {
    "stereo": 600,
    "ez": 150,
    "charged": 250,
    "isotope": 60,
    "percent": 25,
    "parts": 60,
    "dative": 15,
    "small": 500,
    "macrocycle": 10,
    "hydrogen": 20,
    "ps-stereo": 10,
    "nh": 100,
    "two-letter": 200,
    "wide": 20,
    "held-out": 1000,
}


@pytest.fixture(scope="module")
def entries() -> list[MoleculeEntry]:
    return load_molecule_set()


@pytest.fixture(scope="module")
def mols(entries: list[MoleculeEntry]) -> dict[str, Chem.Mol]:
    with captured_log():
        return {entry.smiles: Chem.MolFromSmiles(entry.smiles) for entry in entries}


def has_symbol(*symbols: str) -> Callable[[str, Chem.Mol], bool]:
    return lambda _, mol: any(atom.GetSymbol() in symbols for atom in mol.GetAtoms())


def in_text(pattern: str) -> Callable[[str, Chem.Mol], bool]:
    return lambda smiles, _: re.search(pattern, smiles) is not None


def is_cumulene(_: str, mol: Chem.Mol) -> bool:
    doubles = [[str(bond.GetBondType()) for bond in atom.GetBonds()].count("DOUBLE") for atom in mol.GetAtoms()]
    return any(count == 2 and atom.GetSymbol() == "C" for count, atom in zip(doubles, mol.GetAtoms(), strict=True))


def oxygens(atom: Chem.Atom) -> tuple[int, int]:
    """How many oxygens are bonded to an atom by a double bond, and how many lone O- by a single one."""
    bonds = [bond for bond in atom.GetBonds() if bond.GetOtherAtom(atom).GetSymbol() == "O"]
    double = [bond for bond in bonds if str(bond.GetBondType()) == "DOUBLE"]
    single = [bond for bond in bonds if bond.GetOtherAtom(atom).GetFormalCharge() == -1]
    return len(double), len(single)


def is_nitro(_: str, mol: Chem.Mol) -> bool:
    return any(oxygens(atom)[0] and oxygens(atom)[1] for atom in mol.GetAtoms() if atom.GetSymbol() == "N")


def is_n_oxide(_: str, mol: Chem.Mol) -> bool:
    nitrogens = [atom for atom in mol.GetAtoms() if atom.GetSymbol() == "N" and atom.GetFormalCharge() == 1]
    to_carbon = [atom for atom in nitrogens if any(other.GetSymbol() == "C" for other in atom.GetNeighbors())]
    return any(oxygens(atom) == (0, 1) for atom in to_carbon)


# Mostly from the text, so that a mistake in the builder's own reading of a molecule is not made twice.
RECOMPUTED: dict[str, Callable[[str, Chem.Mol], bool]] = {
    "small": lambda _, mol: mol.GetNumHeavyAtoms() <= 12,
    "stereo": in_text(r"[@/\\]"),
    "ez": in_text(r"[/\\]"),
    "ps-stereo": in_text(r"\[\d*[PS]@"),
    "charged": in_text(r"\[[^\]]*[+-]\d*\]"),
    "parts": in_text(r"\."),
    "isotope": in_text(r"\[\d"),
    "hydrogen": in_text(r"\[\d*H[+-]?\]"),
    "nh": in_text(r"\[\d*nH"),
    "two-letter": in_text(r"\[\d*[A-Z][a-z]|\[\d*(se|te|as|si)|Cl|Br"),
    "percent": in_text("%"),
    "macrocycle": lambda _, mol: any(len(ring) > 9 for ring in Chem.GetSSSR(mol)),
    "spiro": lambda _, mol: rdMolDescriptors.CalcNumSpiroAtoms(mol) > 0,
    "dative": in_text("->|<-"),
    "cumulene": is_cumulene,
    "triple": in_text("#"),
    "nitro": is_nitro,
    "n-oxide": is_n_oxide,
    "boron": has_symbol("B"),
    "iodine": has_symbol("I"),
}


@pytest.mark.parametrize("tag", RECOMPUTED)
def test_a_tag_says_what_the_smiles_says(tag: str, entries: list[MoleculeEntry], mols: dict[str, Chem.Mol]) -> None:
    wrong = [e.smiles for e in entries if RECOMPUTED[tag](e.smiles, mols[e.smiles]) != (tag in e.tags)]
    assert not wrong


@pytest.mark.parametrize("tag", LEAST)
def test_there_is_enough_of_each_kind(tag: str, entries: list[MoleculeEntry]) -> None:
    assert sum(tag in entry.tags for entry in entries) >= LEAST[tag]


def test_the_set_is_two_thousand_different_molecules(entries: list[MoleculeEntry]) -> None:
    assert len(entries) == len({entry.smiles for entry in entries}) == 2000


def test_every_smiles_is_its_own_canonical_form(entries: list[MoleculeEntry], mols: dict[str, Chem.Mol]) -> None:
    with captured_log():
        again = {smiles: Chem.MolToSmiles(Chem.RemoveHs(mol)) for smiles, mol in mols.items()}
    assert not [smiles for smiles, canonical in again.items() if smiles != canonical]


def test_every_molecule_has_an_enriched_form(entries: list[MoleculeEntry]) -> None:
    wrapped = re.compile(r"\[(B|C|N|O|P|S|F|Cl|Br|I|b|c|n|o|p|s)\]|\*")
    assert not [entry.smiles for entry in entries if wrapped.search(entry.smiles)]


def test_every_molecule_has_one_origin(entries: list[MoleculeEntry]) -> None:
    assert all(len(ORIGINS & set(entry.tags)) == 1 for entry in entries)
    assert all(len(entry.tags) == len(set(entry.tags)) for entry in entries)


def test_origins_are_what_they_say(entries: list[MoleculeEntry], mols: dict[str, Chem.Mol]) -> None:
    changed = {"stereo", "charged", "isotope", "parts"}
    for entry in entries:
        tags, mol = set(entry.tags), mols[entry.smiles]
        if "moses" in tags:
            assert not tags & changed
            assert 249.5 <= Descriptors.MolWt(mol) <= 350.5
        elif "fragment" in tags:
            assert 3 <= mol.GetNumHeavyAtoms() <= 12
        elif "variant" in tags:
            assert tags & changed
        if "written" not in tags:
            assert "held-out" in tags


def is_wide(smiles: str) -> bool:
    conformer = reference_conformers(parse_smiles(smiles), seed=0).GetConformer()
    return bool(abs(principal_axis_frame(conformer.GetPositions())).max() >= 10.0)


@pytest.mark.soak
def test_wide_molecules_reach_ten_angstrom(entries: list[MoleculeEntry]) -> None:
    wide = load_molecule_set(sized(12, None), tag="wide")
    assert all(is_wide(entry.smiles) for entry in wide)
    narrow = [entry for entry in entries if "wide" not in entry.tags]
    assert not [entry.smiles for entry in narrow[: sized(30, None)] if is_wide(entry.smiles)]


def test_the_readme_counts_are_the_files(entries: list[MoleculeEntry]) -> None:
    readme = (ROOT / "data" / "README.md").read_text(encoding="utf-8")
    stated = {tag: int(count) for tag, count in re.findall(r"^\| `([\w-]+)` \| (\d+) \|", readme, re.MULTILINE)}
    assert stated == Counter(tag for entry in entries for tag in entry.tags)


def test_limit_and_tag_choose() -> None:
    some = load_molecule_set(7, tag="isotope")
    assert len(some) == 7
    assert all("isotope" in entry.tags for entry in some)
    assert load_molecule_set(0) == []
    assert load_molecule_set(5) == load_molecule_set()[:5]


def test_the_start_of_the_file_is_a_sample_of_the_whole() -> None:
    start = load_molecule_set(200)
    for tag in ("moses", "fragment", "variant", "written", "stereo", "charged", "small"):
        share = sum(tag in entry.tags for entry in load_molecule_set()) / 2000
        assert 0.4 * share < sum(tag in entry.tags for entry in start) / 200 < 1.8 * share


# Name: formula, CIP labels of the stereocentres (sorted), labels of the double bonds, as formulas and IUPAC names say.
NAMED = {
    "acetaldehyde": ("C2H4O", "", ""),
    "ethanol": ("C2H6O", "", ""),
    "acetic acid": ("C2H4O2", "", ""),
    "benzene": ("C6H6", "", ""),
    "phenol": ("C6H6O", "", ""),
    "vanillin": ("C8H8O3", "", ""),
    "camphor": ("C10H16O", "RR", ""),
    "menthol": ("C10H20O", "RRS", ""),
    "limonene": ("C10H16", "R", ""),
    "glycine zwitterion": ("C2H5NO2", "", ""),
    "L-alanine": ("C3H7NO2", "S", ""),
    "L-tryptophan": ("C11H12N2O2", "S", ""),
    "dopamine": ("C8H11NO2", "", ""),
    "serotonin": ("C10H12N2O", "", ""),
    "melatonin": ("C13H16N2O2", "", ""),
    "adrenaline": ("C9H13NO3", "R", ""),
    "acetylcholine": ("C7H16NO2+", "", ""),
    "levodopa": ("C9H11NO4", "S", ""),
    "aspirin": ("C9H8O4", "", ""),
    "paracetamol": ("C8H9NO2", "", ""),
    "ibuprofen": ("C13H18O2", "S", ""),
    "naproxen": ("C14H14O3", "S", ""),
    "caffeine": ("C8H10N4O2", "", ""),
    "nicotine": ("C10H14N2", "S", ""),
    "metformin": ("C4H11N5", "", ""),
    "lidocaine hydrochloride": ("C14H23ClN2O", "", ""),
    "thalidomide": ("C13H10N2O4", "R", ""),
    "warfarin": ("C19H16O4", "S", ""),
    "diazepam": ("C16H13ClN2O", "", ""),
    "penicillin G": ("C16H18N2O4S", "RRS", ""),
    "esomeprazole": ("C17H19N3O3S", "S", ""),
    "oseltamivir": ("C16H28N2O4", "RRS", ""),
    "nirmatrelvir": ("C23H32F3N5O4", "RSSSSS", ""),
    "imatinib": ("C29H31N7O", "", ""),
    "sildenafil": ("C22H30N6O4S", "", ""),
    "atorvastatin": ("C33H35FN2O5", "RR", ""),
    "tamoxifen": ("C26H29NO", "", "Z"),
    "bortezomib": ("C19H25BN4O4", "RS", ""),
    "ebselen": ("C13H9NOSe", "", ""),
    "levothyroxine": ("C15H11I4NO4", "S", ""),
    "remdesivir": ("C27H35N6O8P", "RRRSSS", ""),
    "deutetrabenazine": ("C19H21D6NO3", "RR", ""),
    "fludeoxyglucose (18F)": ("C6H11O5[18F]", "RRSS", ""),
    "glucose": ("C6H12O6", "RRRSS", ""),
    "sucrose": ("C12H22O11", "RRRRSSSSS", ""),
    "ascorbic acid": ("C6H8O6", "RS", ""),
    "biotin": ("C10H16N2O3S", "RSS", ""),
    "thiamine": ("C12H17N4OS+", "", ""),
    "retinal": ("C20H28O", "", "EEEE"),
    "11-cis-retinal": ("C20H28O", "", "EEEZ"),
    "capsaicin": ("C18H27NO3", "", "E"),
    "resveratrol": ("C14H12O3", "", "E"),
    "adenosine": ("C10H13N5O4", "RRRS", ""),
    "ATP": ("C10H16N5O13P3", "RRRS", ""),
    "cholesterol": ("C27H46O", "RRRRSSSS", ""),
    "testosterone": ("C19H28O2", "RRSSSS", ""),
    "estradiol": ("C18H24O2", "RSSSS", ""),
    "hydrocortisone": ("C21H30O5", "RRSSSSS", ""),
    "artemisinin": ("C15H22O5", "RRRRSSS", ""),
    "morphine": ("C17H19NO3", "RRRSS", ""),
    "cocaine": ("C17H21NO4", "RRSS", ""),
    "quinine": ("C20H24N2O2", "RRSS", ""),
    "cubane": ("C8H8", "", ""),
    "adamantane": ("C10H16", "", ""),
    "dodecahedrane": ("C20H20", "", ""),
    "18-crown-6": ("C12H24O6", "", ""),
    "hexabenzocoronene": ("C42H18", "", ""),
    "phthalocyanine": ("C32H18N8", "", ""),
    "cisplatin": ("H6Cl2N2Pt", "", ""),
    "oxaliplatin": ("C8H14N2O4Pt", "RR", ""),
    "ferrocene": ("C10H10Fe", "", ""),
}


@pytest.fixture(scope="module")
def named() -> dict[str, str]:
    return load_named()


def cip_labels(items: object) -> str:
    return "".join(sorted(item.GetProp("_CIPCode") for item in items if item.HasProp("_CIPCode")))  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", NAMED)
def test_a_named_molecule_is_what_its_name_says(name: str, named: dict[str, str]) -> None:
    mol = parse_smiles(named[name]).mol
    rdCIPLabeler.AssignCIPLabels(mol)
    formula = rdMolDescriptors.CalcMolFormula(mol, separateIsotopes=True, abbreviateHIsotopes=True)
    assert (formula, cip_labels(mol.GetAtoms()), cip_labels(mol.GetBonds())) == NAMED[name]


def test_every_named_molecule_is_checked(named: dict[str, str]) -> None:
    assert set(named) == set(NAMED)


def test_cisplatin_is_cis(named: dict[str, str]) -> None:
    """Square-planar labels are easily mixed up: SP2 is transplatin."""
    molecule = parse_smiles(named["cisplatin"])
    xyz = reference_conformers(molecule, seed=0).GetConformer().GetPositions()
    chlorides = [index for index, element in enumerate(molecule.elements) if element == "Cl"]
    platinum = molecule.elements.index("Pt")
    first, second = (xyz[index] - xyz[platinum] for index in chlorides)
    assert abs(float(first @ second)) < 0.3 * float(first @ first)


@pytest.mark.soak
def test_named_molecules_embed(named: dict[str, str]) -> None:
    for smiles in list(named.values())[:: sized(4, 1)]:
        assert reference_conformers(parse_smiles(smiles), seed=0, max_seconds=60).GetNumConformers() == 1
