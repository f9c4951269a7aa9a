"""The molecules in ``data/``: two thousand, canonical, tagged as stated; and named ones that are as named."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from rdkit import Chem
from rdkit.Chem import Descriptors, rdCIPLabeler, rdMolDescriptors

from engine.chem.conformers import reference_conformers
from engine.chem.frame import principal_axis_frame
from engine.chem.molecule_sets import load_molecule_set, load_named
from engine.chem.rdkit_log import captured_log
from engine.chem.smiles import parse_smiles
from tests.support import ROOT, sized

ENTRIES = load_molecule_set()


def test_the_set_is_two_thousand_different_canonical_molecules() -> None:
    assert len({entry.smiles for entry in ENTRIES}) == len(ENTRIES) == 2000
    with captured_log():
        mols = {entry: Chem.MolFromSmiles(entry.smiles) for entry in ENTRIES}
        canonical = [Chem.MolToSmiles(Chem.RemoveHs(mol)) for mol in mols.values()]
    assert canonical == [entry.smiles for entry in ENTRIES]
    for entry, mol in mols.items():
        assert ("small" in entry.tags) == (mol.GetNumHeavyAtoms() <= 12)
        assert len({"moses", "fragment", "variant", "written"} & set(entry.tags)) == 1
        assert "moses" not in entry.tags or 249.5 <= Descriptors.MolWt(mol) <= 350.5
        assert "written" in entry.tags or "held-out" in entry.tags


def is_wide(smiles: str) -> bool:
    conformer = reference_conformers(parse_smiles(smiles), seed=0).GetConformer()
    return bool(abs(principal_axis_frame(conformer.GetPositions())).max() >= 10.0)


@pytest.mark.soak
def test_wide_molecules_reach_ten_angstrom() -> None:
    wide = load_molecule_set(sized(4, None), tag="wide")
    assert all(is_wide(entry.smiles) for entry in wide)
    narrow = [entry for entry in ENTRIES if "wide" not in entry.tags]
    assert not [entry.smiles for entry in narrow[: sized(10, 300)] if is_wide(entry.smiles)]


def test_the_readme_counts_are_the_files() -> None:
    readme = (ROOT / "data" / "README.md").read_text(encoding="utf-8")
    stated = {tag: int(count) for tag, count in re.findall(r"^\| `([\w-]+)` \| (\d+) \|", readme, re.MULTILINE)}
    assert stated == Counter(tag for entry in ENTRIES for tag in entry.tags)


def test_limit_and_tag_choose_and_the_start_of_the_file_is_a_sample_of_the_whole() -> None:
    some = load_molecule_set(7, tag="isotope")
    assert len(some) == 7 and all("isotope" in entry.tags for entry in some)
    assert load_molecule_set(0) == []
    start = load_molecule_set(200)
    assert start == ENTRIES[:200]
    for tag in ("moses", "fragment", "variant", "written", "stereo", "charged", "small"):
        share = sum(tag in entry.tags for entry in ENTRIES) / 2000
        assert 0.4 * share < sum(tag in entry.tags for entry in start) / 200 < 1.8 * share


def cip_labels(items: object) -> str:
    return "".join(sorted(item.GetProp("_CIPCode") for item in items if item.HasProp("_CIPCode")))  # type: ignore[attr-defined]


# Formula, CIP labels of the stereocentres (sorted), labels of the double bonds, as formulas and IUPAC names say.
@pytest.mark.parametrize(
    ("name", "formula", "centres", "bonds"),
    [
        ("L-alanine", "C3H7NO2", "S", ""),
        ("penicillin G", "C16H18N2O4S", "RRS", ""),
        ("nirmatrelvir", "C23H32F3N5O4", "RSSSSS", ""),
        ("tamoxifen", "C26H29NO", "", "Z"),
        ("remdesivir", "C27H35N6O8P", "RRRSSS", ""),
        ("deutetrabenazine", "C19H21D6NO3", "RR", ""),
        ("fludeoxyglucose (18F)", "C6H11O5[18F]", "RRSS", ""),
        ("retinal", "C20H28O", "", "EEEE"),
        ("11-cis-retinal", "C20H28O", "", "EEEZ"),
        ("cholesterol", "C27H46O", "RRRRSSSS", ""),
        ("oxaliplatin", "C8H14N2O4Pt", "RR", ""),
    ],
)
def test_a_named_molecule_is_what_its_name_says(name: str, formula: str, centres: str, bonds: str) -> None:
    mol = parse_smiles(load_named()[name]).mol
    rdCIPLabeler.AssignCIPLabels(mol)
    computed = rdMolDescriptors.CalcMolFormula(mol, separateIsotopes=True, abbreviateHIsotopes=True)
    assert (computed, cip_labels(mol.GetAtoms()), cip_labels(mol.GetBonds())) == (formula, centres, bonds)


def test_cisplatin_is_cis() -> None:
    """Square-planar labels are easily mixed up: SP2 is transplatin."""
    molecule = parse_smiles(load_named()["cisplatin"])
    xyz = reference_conformers(molecule, seed=0).GetConformer().GetPositions()
    platinum = molecule.elements.index("Pt")
    first, second = (xyz[atom] - xyz[platinum] for atom, element in enumerate(molecule.elements) if element == "Cl")
    assert abs(float(first @ second)) < 0.3 * float(first @ first)
