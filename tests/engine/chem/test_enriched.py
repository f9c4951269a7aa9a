"""The enriched text codec: lossless both ways, strict about damage, and never surprised by any text."""

from __future__ import annotations

import math
import random
from decimal import ROUND_DOWN, Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rdkit import Chem

from engine.chem.enriched import (
    MOST_ATOMS,
    Decoded,
    decode,
    encode,
    enriched_text,
    format_number,
    skeleton_of,
    why_not_a_triple,
)
from engine.chem.smiles import descriptor, parse_smiles, same_graph, split_smiles
from engine.errors import (
    ConformerError,
    DriftscopeError,
    EnrichedError,
    MoleculeSizeError,
    NoEnrichedFormError,
    UnsupportedMoleculeError,
)
from engine.records import FIXED4, TRIMMED4, WIDEST, Molecule, NumberFormat
from engine.text.blocks import read_block
from tests.strategies import (
    MOLECULES,
    Written,
    any_text,
    damaged,
    enriched_texts,
    formats,
    molecule,
    molecules,
    random_triples,
    seeds,
    shipped_smiles,
    with_conformer,
)
from tests.support import sized

B = "<1.0000,-2.0000,0.5000>"


# --- numbers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "form", "text"),
    [
        (1.2034, FIXED4, "1.2034"),
        (1.20349999, FIXED4, "1.2034"),
        (-1.20349999, FIXED4, "-1.2034"),
        (0.1 + 0.2, FIXED4, "0.3000"),
        (0.3, FIXED4, "0.3000"),  # 0.29999999999999998 in binary
        (-0.00009, FIXED4, "0.0000"),
        (-0.0, FIXED4, "0.0000"),
        (-0.0001, FIXED4, "-0.0001"),
        (1e-300, FIXED4, "0.0000"),
        (999.99999, FIXED4, "999.9999"),
        (12.5, FIXED4, "12.5000"),
        (12.5, TRIMMED4, "12.5"),
        (12.0, TRIMMED4, "12.0"),
        (0.1204, TRIMMED4, "0.1204"),
        (0.12, TRIMMED4, "0.12"),
        (-0.00001, TRIMMED4, "0.0"),
        (1.23456789, NumberFormat(2, 3, 2), "1.234"),
        (1.2, NumberFormat(2, 3, 2), "1.20"),
        (np.float32(0.5), FIXED4, "0.5000"),
    ],
)
def test_numbers_are_truncated_and_never_minus_zero(value: float, form: NumberFormat, text: str) -> None:
    assert format_number(value, form) == text


@pytest.mark.soak
@given(st.floats(-999, 999), formats())
def test_numbers_are_their_decimal_form_cut_off(value: float, form: NumberFormat) -> None:
    text = format_number(value, form)
    exact = Decimal(repr(value))
    assert Decimal(text) == exact.quantize(Decimal(1).scaleb(-form.most_decimals), rounding=ROUND_DOWN)
    assert abs(Decimal(text)) <= abs(exact)
    assert not text.startswith("-") or float(text) < 0
    decimals = text.partition(".")[2]
    assert form.least_decimals <= len(decimals) <= form.most_decimals
    assert len(decimals) == form.least_decimals or decimals[-1] != "0"
    assert format_number(float(text), form) == text


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e6, -1e300])
def test_what_is_no_coordinate_is_refused(value: float) -> None:
    with pytest.raises(ConformerError, match="must be finite"):
        format_number(value)


# --- there and back -------------------------------------------------------------------------------------------------


def test_the_format_is_that_of_the_field() -> None:
    written = encode(with_xyz("CC=O", [(1.23456, -0.5, 0.00001), (-1, 2, 3), (12.3456789, -0.00009, 7)]))
    assert written.text == "[C]<1.2345,-0.5000,0.0000>[C]<-1.0000,2.0000,3.0000>=[O]<12.3456,0.0000,7.0000>"
    assert written.smiles == "CC=O"
    decoded = decode(written.text)
    assert decoded.coordinates == [[1.2345, -0.5, 0.0], [-1.0, 2.0, 3.0], [12.3456, 0.0, 7.0]]
    assert decoded.smiles == "CC=O"
    short = encode(with_xyz("CC=O", [(1.5, -0.25, 0), (1, 2, 3), (0, 0, 0)]), TRIMMED4)
    assert short.text == "[C]<1.5,-0.25,0.0>[C]<1.0,2.0,3.0>=[O]<0.0,0.0,0.0>"


@pytest.mark.parametrize(
    ("smiles", "skeleton"),
    [
        ("C[C@@H](N)C(=O)[O-]", "[C]<>[C@@H]<>([N]<>)[C]<>(=[O]<>)[O-]<>"),
        ("F/C=C/Cl", "[F]<>/[C]<>=[C]<>/[Cl]<>"),
        ("c1cc[nH]c1", "[c]<>1[c]<>[c]<>[nH]<>[c]<>1"),
        ("[13CH3][2H]", "[2H]<>[13CH3]<>"),
        ("[Cl-].[NH4+]", "[Cl-]<>.[NH4+]<>"),
        ("[Fe]<-N", "[NH3]<>->[Fe]<>"),
        ("[OH2]->[Na+]<-[OH2]", "[OH2]<>->[Na+]<><-[OH2]<>"),
    ],
)
def test_all_but_the_atoms_is_copied(smiles: str, skeleton: str) -> None:
    assert skeleton_of(parse_smiles(smiles)) == skeleton


def with_xyz(smiles: str, xyz: list[tuple[float, float, float]]) -> Chem.Mol:
    mol = Chem.Mol(parse_smiles(smiles).mol)
    conformer = Chem.Conformer(mol.GetNumAtoms())
    for atom, position in enumerate(xyz):
        conformer.SetAtomPosition(atom, [float(value) for value in position])
    mol.AddConformer(conformer, assignId=True)
    return mol


def check_round_trip(one: Molecule, seed: int, form: NumberFormat) -> None:
    mol = with_conformer(one, seed, scale=2.0)
    order = list(range(one.atoms))
    random.Random(seed).shuffle(order)
    written = encode(Chem.RenumberAtoms(mol, order), form)
    decoded = decode(written.text)
    assert decoded.numbers == written.numbers
    assert decoded.smiles == written.smiles
    assert same_graph(decoded.mol, mol)
    # Each atom has its own coordinates, so they tell which atom of the text is which of the molecule.
    xyz = mol.GetConformer().GetPositions()
    expected = {tuple(format_number(value, form) for value in row): atom for atom, row in enumerate(xyz)}
    atoms = [expected[triple] for triple in decoded.numbers]
    assert sorted(atoms) == list(range(one.atoms))
    check_same_bonds(decoded, Chem.RenumberAtoms(mol, atoms))
    check_second_writing(decoded, form)


def check_same_bonds(decoded: Decoded, renumbered: Chem.Mol) -> None:
    """Both molecules have their atoms in the text's order: bond by bond and atom by atom they are one."""
    assert bonds_of(decoded.mol) == bonds_of(renumbered)
    for mine, theirs in zip(decoded.mol.GetAtoms(), renumbered.GetAtoms(), strict=True):
        assert mine.GetAtomicNum() == theirs.GetAtomicNum()
        assert mine.GetFormalCharge() == theirs.GetFormalCharge()
        assert mine.GetIsotope() == theirs.GetIsotope()
        assert mine.GetTotalNumHs() == theirs.GetTotalNumHs()


def bonds_of(mol: Chem.Mol) -> set[tuple[int, int]]:
    pairs = ((bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in mol.GetBonds())
    return {(min(pair), max(pair)) for pair in pairs}


def check_second_writing(decoded: Decoded, form: NumberFormat) -> None:
    """Encoding what was decoded gives the text again, but for the order of atoms that symmetry makes alike.

    RDKit breaks such ties by the order of the atoms it is given, so 3 % of the shipped molecules (cyclohexane, a
    crown ether) come out with equivalent atoms exchanged: the same SMILES, the same atoms, each with its own numbers.
    """
    again = encode(decoded.mol, form)
    if again.numbers == decoded.numbers:
        assert again.smiles == decoded.smiles
        return
    assert sorted(again.numbers) == sorted(decoded.numbers)
    where = {triple: atom for atom, triple in enumerate(decoded.numbers)}
    check_same_bonds(decode(again.text), Chem.RenumberAtoms(decoded.mol, [where[one] for one in again.numbers]))


@pytest.mark.soak
def test_shipped_molecules_survive() -> None:
    for seed, smiles in enumerate(shipped_smiles()[: sized(100, 2000)]):
        check_round_trip(parse_smiles(smiles), seed, (FIXED4, TRIMMED4)[seed % 2])


@pytest.mark.parametrize("smiles", MOLECULES)
def test_every_kind_of_molecule_survives(smiles: str) -> None:
    for seed, form in enumerate((FIXED4, TRIMMED4, NumberFormat(1, 12, 6))):
        check_round_trip(molecule(smiles), seed, form)


@pytest.mark.soak
@given(molecules(), seeds(), formats())
def test_random_molecules_survive(one: Molecule, seed: int, form: NumberFormat) -> None:
    check_round_trip(one, seed, form)


@pytest.mark.soak
@given(molecules(), seeds())
def test_any_spelling_of_a_molecule_decodes(one: Molecule, seed: int) -> None:
    """Models do not always write the canonical SMILES; any SMILES with blocks is enriched text."""
    spelling = Chem.MolToRandomSmilesVect(one.mol, 1, randomSeed=seed % 2**31)[0]
    kept = [piece for piece in split_atoms(spelling) if piece.startswith("[") and piece[1:-1] in "BCNOPSFI"]
    if kept:  # what has no enriched form in this spelling
        return
    numbers = random_triples(one.atoms, seed)
    text = enriched_text(spelling, tuple(map(descriptor, split_atoms(spelling))), numbers)
    decoded = decode(f"[CONFORMER]{text}[/CONFORMER]")
    assert decoded.smiles == spelling
    assert decoded.numbers == numbers
    assert same_graph(decoded.mol, one.mol)


def split_atoms(smiles: str) -> list[str]:
    return [piece.text for piece in split_smiles(smiles) if piece.is_atom]


def test_hydrogens_of_a_file_are_dropped_with_their_coordinates() -> None:
    heavy = with_conformer(parse_smiles("C[C@H](N)O"), 3)
    assert encode(Chem.AddHs(heavy, addCoords=True)).text == encode(heavy).text


def test_one_conformer_is_chosen_by_its_id() -> None:
    mol = with_xyz("C", [(1, 2, 3)])
    second = Chem.Conformer(1)
    second.SetAtomPosition(0, [4.0, 5.0, 6.0])
    mol.AddConformer(second, assignId=True)
    assert encode(mol, conformer=1).text == "[C]<4.0000,5.0000,6.0000>"
    with pytest.raises(ConformerError, match=r"no conformer 7.*\[0, 1\]"):
        encode(mol, conformer=7)


def test_properties_of_a_molecule_do_not_matter() -> None:
    mol = with_xyz("CO", [(1, 2, 3), (4, 5, 6)])
    mol.SetProp("energy", "1e999")
    mol.SetProp("_smilesAtomOutputOrder", "none")
    assert encode(mol).text == "[C]<1.0000,2.0000,3.0000>[O]<4.0000,5.0000,6.0000>"


@pytest.mark.parametrize(
    ("mol", "error", "reason"),
    [
        (Chem.MolFromSmiles("CC"), ConformerError, "has no conformer"),
        (Chem.Mol(), UnsupportedMoleculeError, "has no atoms"),
        (Chem.MolFromSmiles("C*"), UnsupportedMoleculeError, "wildcard"),
        (with_xyz("C", [(math.nan, 0, 0)]), ConformerError, "x of atom 0 is nan"),
        (with_xyz("CC", [(0, 0, 0), (0, 0, math.inf)]), ConformerError, "z of atom 1 is inf"),
        (with_xyz("CC", [(0, 0, 0), (0, -1000, 0)]), ConformerError, "y of atom 1 is -1000"),
        (Chem.MolFromSmiles("C[N](C)[O]"), NoEnrichedFormError, r"'\[O\]'"),
        (Chem.MolFromSmiles("C" * (MOST_ATOMS + 1)), MoleculeSizeError, "5,001 atoms"),
    ],
)
def test_what_cannot_be_encoded_is_refused(mol: Chem.Mol, error: type[Exception], reason: str) -> None:
    with pytest.raises(error, match=reason):
        encode(mol)


# --- damage ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "block", "position", "reason"),
    [
        ("", None, None, "there is nothing in it"),
        (" \n ", None, None, "there is nothing in it"),
        ("[CONFORMER][/CONFORMER]", None, None, "there is nothing in it"),
        ("[C]", 0, 3, "atom '[C]' has no block"),
        (f"[C]{B}[O]1", 1, 29, "atom '[O]' has no block"),
        ("[C]<1.0,2.0,3.0", 0, 3, "the block is not closed by '>'"),
        (f"[C]<1.0,2.0,3.0[O]{B}", 0, 3, "the block is not closed by '>'"),
        (f"[C]<1.0,2.0<{B}", 0, 3, "the block is not closed by '>'"),
        ("[C]<>", 0, 3, "the block is empty"),
        (f"[C]{B}[O]<1.0,2.0>", 1, 29, "2 numbers instead of three"),
        ("[C]<1.0,2.0,3.0,4.0>", 0, 3, "4 numbers instead of three"),
        ("[C]<1.0,,3.0>", 0, 3, "y is missing"),
        ("[C]<1.0,2.0,3>", 0, 3, "z is '3', which is no decimal number"),
        ("[C]<1.0,2.,3.0>", 0, 3, "y is '2.', which is no decimal number"),
        ("[C]<01.0,2.0,3.0>", 0, 3, "x is '01.0', which is no decimal number"),
        ("[C]<--1.0,2.0,3.0>", 0, 3, "x is '--1.0'"),
        ("[C]<1.0,2.0,0.8415amen>", 0, 3, "character 'a' is no part of a number"),
        ("[C]<1.0,2.0,3.0 （C>", 0, 3, "character ' ' is no part of a number"),
        ("[C]<1.0,2.0,\u0663.0>", 0, 3, "character '\u0663' is no part of a number"),
        ("[C]<1234567.0,2.0,3.0>", 0, 3, "x is '1234567.0'"),
        ("[C]<1.0,2.0,0.1234567890123>", 0, 3, "z is '0.1234567890123'"),
        (f"[C{B}", 0, 0, "the atom descriptor is not closed by ']'"),
        (f"[C\0]{B}", 0, 0, "the atom descriptor is no SMILES atom"),
        (f"[]{B}", 0, 0, "the atom descriptor is no SMILES atom"),
        (f"[C\udcff]{B}", 0, 0, "the atom descriptor is no SMILES atom"),
        (f"[C H]{B}", 0, 0, "the atom descriptor is no SMILES atom"),
        (f"C[C]{B}", None, 0, "'C' stands outside brackets"),
        (f"[C]{B}C[O]{B}", None, 26, "'C' stands outside brackets"),
        (f"{B}", None, 0, "a block that follows no atom descriptor"),
        (f"[C]{B}{B}", None, 26, "a block that follows no atom descriptor"),
        (f"[C]{B} [C]{B}", None, 26, "' ' is no part of enriched text"),
        (f"[C]{B}\0", None, 26, "'\\x00' is no part of enriched text"),
        (f"[C]{B}[Q]{B}", 1, 26, "its SMILES is not a molecule: syntax error"),
        (f"[C]{B}[c]{B}", 1, 26, "its SMILES is not a molecule: non-ring atom 1 marked aromatic"),
        (f"[C]{B}1[C]{B}", None, 26, "its SMILES is not a molecule: unclosed ring"),
        (f"[C]{B}([C]{B}", None, 26, "its SMILES is not a molecule: extra open parentheses"),
        (f"[C]{B}=[F]{B}", 1, 27, "its SMILES is not a molecule: Explicit valence"),
        (f"[C]{B}[C+99]{B}", 1, 26, "its SMILES is not a molecule: charge '+99' is out of range"),
        (f"[C]{B}[#200]{B}", None, None, "its SMILES is not a molecule: Atomic number not found"),
        (f"[C]{B}[*]{B}", 1, None, "the atom is a wildcard"),
        (f"  [CONFORMER] [C]{B}[O]<1.0> [/CONFORMER]", 1, 43, "1 numbers instead of three"),
        ("[C]<1.0,2.0,3.0>" * 20_000, None, None, "320,000 characters, the limit is 200,000"),
    ],
)
def test_damage_is_named_with_block_position_and_reason(
    text: str, block: int | None, position: int | None, reason: str
) -> None:
    with pytest.raises(EnrichedError) as caught:
        decode(text)
    assert caught.value.reason.startswith(reason)
    assert (caught.value.block, caught.value.position) == (block, position)
    assert caught.value.reason in str(caught.value)


def test_more_atoms_than_the_limit_are_refused() -> None:
    assert decode("[C]<0.0,0.0,0.0>" * MOST_ATOMS).mol.GetNumAtoms() == MOST_ATOMS
    with pytest.raises(MoleculeSizeError, match="5,001 atoms, the limit is 5,000"):
        decode("[C]<0.0,0.0,0.0>" * (MOST_ATOMS + 1))


@pytest.mark.parametrize(
    "around", ["{}", "[CONFORMER]{}[/CONFORMER]", "\n [CONFORMER]\n{}\n[/CONFORMER]\t", "[CONFORMER]{}"]
)
def test_tags_and_white_space_around_are_allowed(around: str) -> None:
    assert decode(around.format(f"[C]{B}")).coordinates == [[1.0, -2.0, 0.5]]


def check_message(error: DriftscopeError) -> None:
    assert str(error).isprintable()
    assert len(str(error)) < 600


def check_decodes_or_says_why(text: str) -> None:
    try:
        decoded = decode(text)
    except DriftscopeError as error:
        check_message(error)
        return
    assert len(decoded.numbers) == decoded.mol.GetNumAtoms() == len(decoded.coordinates) > 0
    assert np.isfinite(decoded.coordinates).all()
    assert decoded.mol.GetConformer().Is3D()


@pytest.mark.soak
def test_damaged_texts_decode_or_name_an_error(capfd: pytest.CaptureFixture[str]) -> None:
    @given(enriched_texts(), seeds())
    def check(written: Written, seed: int) -> None:
        check_decodes_or_says_why(damaged(written.text, seed))

    check()
    assert capfd.readouterr() == ("", "")


@given(any_text())
def test_any_text_decodes_or_names_an_error(text: str) -> None:
    check_decodes_or_says_why(text)
    check_decodes_or_says_why(f"[C]<{text}>")
    check_decodes_or_says_why(f"[{text}]{B}")


@pytest.mark.parametrize(
    "piece", ["(", "[", "<", "[C]<", "[C]", "%", "\0", "é", "[C]<1.0,", ">", "1", "[[", "[/CONFORMER]"]
)
def test_huge_texts_are_refused_at_once(piece: str) -> None:
    for length in (150_000, 3_000_000):
        with pytest.raises(DriftscopeError):
            decode(f"[C]{B}" + piece * (length // len(piece)))
    with pytest.raises(DriftscopeError):
        decode(f"[C]<{piece * (150_000 // len(piece))}>")


def damaged_triple(seed: int) -> str:
    (triple,) = random_triples(1, seed, NumberFormat(1, 12, 6))
    return damaged(",".join(triple), seed, edits=1)


@pytest.mark.soak
@given(st.one_of(any_text(), st.text("0123456789.,-", max_size=30), seeds().map(damaged_triple)))
def test_the_codec_and_the_reader_of_blocks_agree_on_triples(content: str) -> None:
    """``why_not_a_triple`` and ``read_block`` know the number format each on its own; they must know the same."""
    is_clean = read_block(content, form=WIDEST).is_clean_triple
    assert (why_not_a_triple(content) is None) == is_clean
    if not {"<", "[", ">"} & set(content):  # those may end or begin something else
        try:
            decode(f"[C]<{content}>")
        except EnrichedError:
            assert not is_clean
        else:
            assert is_clean
