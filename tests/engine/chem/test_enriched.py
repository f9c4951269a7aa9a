"""The enriched text codec, and the group's decoder by a table that was derived from its description in FORMATS.md."""

from __future__ import annotations

import math
import random
from decimal import ROUND_DOWN, Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rdkit import Chem
from rdkit.Chem import AllChem

from engine.chem.enriched import (
    BAD_FLOAT,
    BAD_TRIPLET,
    Decoded,
    decode,
    encode,
    enriched_text,
    format_number,
    misread_ang,
    numbers_taken,
    skeleton_of,
    truncated_number,
    why_not_a_triple,
    why_not_taken,
)
from engine.chem.frame import add_conformer
from engine.chem.smiles import descriptor, parse_smiles, same_graph, split_smiles
from engine.errors import ConformerError, DriftscopeError, EnrichedError, NoEnrichedFormError, UnsupportedMoleculeError
from engine.records import FIXED4, SHORTEST4, TRIMMED4, WIDEST, BinFormat, Molecule, NumberFormat
from engine.text.blocks import read_block
from engine.text.check import check_sample, decode_as_group
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


# --- numbers ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("value", "form", "text"),
    [
        (1.2034, FIXED4, "1.2034"),
        (0.1 + 0.2, FIXED4, "0.3000"),
        (-0.00009, FIXED4, "0.0000"),
        (-0.0001, FIXED4, "-0.0001"),
        (-0.00001, TRIMMED4, "0.0"),
        (-0.00001, SHORTEST4, "0"),
        (100.00004, SHORTEST4, "100"),
        (1.23456789, NumberFormat(2, 3, 2), "1.234"),
        (np.float32(0.5), FIXED4, "0.5000"),
    ],
)
def test_numbers_are_truncated_and_never_minus_zero(value: float, form: NumberFormat, text: str) -> None:
    assert format_number(value, form) == text


@pytest.mark.parametrize(
    ("value", "form", "text"),
    [
        (8.54, FIXED4, "8.5399"),
        (8.54, SHORTEST4, "8.5399"),
        (-2.3001, FIXED4, "-2.3001"),
        (-2.3, TRIMMED4, "-2.3"),
        (4.35, NumberFormat(2, 2, 3), "4.34"),  # 434.99999999999994
        (-0.57, FIXED4, "-0.5699"),
        (-0.00009, FIXED4, "0.0000"),
        (4.35, BinFormat.in_brackets(0.05, 9), BinFormat.in_brackets(0.05, 9).number_of(4.35)),
    ],
)
def test_a_coordinate_is_truncated_in_floats_as_by_the_group(value: float, form: NumberFormat, text: str) -> None:
    """98 of 100 texts of files with four decimals were 0.0001 Å off."""
    assert truncated_number(value, form) == text
    if not isinstance(form, BinFormat):
        assert format_number(float(text), form) == text  # read from a text, it is written back as it stands
    mol = with_xyz("CC", [(value, 0.0, 0.0), (0.0, value, 1.0)])
    assert encode(mol, form).numbers[0][0] == encode(mol, form).numbers[1][1] == text


@pytest.mark.soak
@given(st.floats(-999, 999), formats())
def test_numbers_are_their_decimal_form_cut_off(value: float, form: NumberFormat) -> None:
    value = math.fmod(value, form.most_ang)
    text = format_number(value, form)
    exact = Decimal(repr(value))
    assert Decimal(text) == exact.quantize(Decimal(1).scaleb(-form.most_decimals), rounding=ROUND_DOWN)
    assert not text.startswith("-") or float(text) < 0
    decimals = text.partition(".")[2]
    assert form.least_decimals <= len(decimals) <= form.most_decimals
    assert len(decimals) == form.least_decimals or decimals[-1] != "0"
    assert format_number(float(text), form) == text


# --- there and back ---------------------------------------------------------------------------------------------------
def test_the_format_is_that_of_the_field() -> None:
    written = encode(with_xyz("CC=O", [(1.23456, -0.5, 0.00001), (-1, 2, 3), (12.3456789, -0.00009, 7)]))
    assert written.text == "[C]<1.2345,-0.5000,0.0000>[C]<-1.0000,2.0000,3.0000>=[O]<12.3456,0.0000,7.0000>"
    assert written.smiles == "CC=O"
    decoded = decode(written.text)
    assert decoded.coordinates == [[1.2345, -0.5, 0.0], [-1.0, 2.0, 3.0], [12.3456, 0.0, 7.0]]
    assert decoded.smiles == "CC=O"
    shortest = encode(with_xyz("CC=O", [(1.5, -0.25, 0), (1, -2, 10), (0, 0, 0)]), SHORTEST4)
    assert shortest.text == "[C]<1.5,-0.25,0>[C]<1,-2,10>=[O]<0,0,0>"
    assert decode(shortest.text).coordinates == [[1.5, -0.25, 0.0], [1.0, -2.0, 10.0], [0.0, 0.0, 0.0]]


@pytest.mark.parametrize(
    ("smiles", "skeleton"),
    [
        ("C[C@@H](N)C(=O)[O-]", "[C]<>[C@@H]<>([N]<>)[C]<>(=[O]<>)[O-]<>"),
        ("c1cc[nH]c1", "[c]<>1[c]<>[c]<>[nH]<>[c]<>1"),
        ("[OH2]->[Na+]<-[OH2]", "[OH2]<>->[Na+]<><-[OH2]<>"),
    ],
)
def test_all_but_the_atoms_is_copied(smiles: str, skeleton: str) -> None:
    assert skeleton_of(parse_smiles(smiles)) == skeleton


def with_xyz(smiles: str, xyz: list[tuple[float, float, float]]) -> Chem.Mol:
    mol = Chem.Mol(parse_smiles(smiles).mol)
    add_conformer(mol, np.array(xyz, dtype=float))
    return mol


def check_round_trip(molecule: Molecule, seed: int, form: NumberFormat) -> None:
    mol = with_conformer(molecule, seed, scale=2.0)
    written = encode(Chem.RenumberAtoms(mol, random.Random(seed).sample(range(molecule.atoms), molecule.atoms)), form)
    decoded = decode(written.text)
    assert decoded.numbers == written.numbers
    assert decoded.smiles == written.smiles
    assert same_graph(decoded.mol, mol)
    # Each atom has its own coordinates, so they tell which atom of the text is which of the molecule.
    xyz = mol.GetConformer().GetPositions()
    expected = {tuple(truncated_number(value, form) for value in row): atom for atom, row in enumerate(xyz)}
    atoms = [expected[triple] for triple in decoded.numbers]
    assert sorted(atoms) == list(range(molecule.atoms))
    check_same_bonds(decoded, Chem.RenumberAtoms(mol, atoms))


def check_same_bonds(decoded: Decoded, renumbered: Chem.Mol) -> None:
    """Both molecules have their atoms in the text's order: bond by bond and atom by atom they are one."""
    adjacency = [Chem.GetAdjacencyMatrix(mol).tolist() for mol in (decoded.mol, renumbered)]
    assert adjacency[0] == adjacency[1]
    for mine, theirs in zip(decoded.mol.GetAtoms(), renumbered.GetAtoms(), strict=True):
        assert (mine.GetAtomicNum(), mine.GetIsotope()) == (theirs.GetAtomicNum(), theirs.GetIsotope())
        assert (mine.GetFormalCharge(), mine.GetTotalNumHs()) == (theirs.GetFormalCharge(), theirs.GetTotalNumHs())


@pytest.mark.soak
def test_molecules_of_every_kind_and_shipped_ones_survive() -> None:
    for seed, smiles in enumerate([*MOLECULES, *shipped_smiles()[: sized(60, 2000)]]):
        check_round_trip(molecule(smiles), seed, (FIXED4, TRIMMED4, SHORTEST4, NumberFormat(1, 12, 6))[seed % 4])


@pytest.mark.soak
@given(molecules(), seeds())
def test_any_spelling_of_a_molecule_decodes(molecule: Molecule, seed: int) -> None:
    """Models do not always write the canonical SMILES; any SMILES with blocks is enriched text."""
    spelling = Chem.MolToRandomSmilesVect(molecule.mol, 1, randomSeed=seed % 2**31)[0]
    atoms = [piece.text for piece in split_smiles(spelling) if piece.is_atom]
    if any(atom.startswith("[") and atom[1:-1] in "BCNOPSFI" for atom in atoms):
        return  # it has no enriched form in this spelling
    numbers = random_triples(molecule.atoms, seed)
    text = enriched_text(spelling, tuple(map(descriptor, atoms)), numbers)
    decoded = decode(f"[CONFORMER]{text}[/CONFORMER]")
    assert decoded.smiles == spelling
    assert decoded.numbers == numbers
    assert same_graph(decoded.mol, molecule.mol)


@pytest.mark.parametrize(
    ("mol", "error", "reason"),
    [
        (Chem.Mol(), UnsupportedMoleculeError, "has no atoms"),
        (Chem.MolFromSmiles("C*"), UnsupportedMoleculeError, "wildcard"),
        (with_xyz("C", [(math.nan, 0, 0)]), ConformerError, "a coordinate is nan"),
        (with_xyz("CC", [(0, 0, 0), (0, -1000, 0)]), ConformerError, "a coordinate is -1000"),
        (Chem.MolFromSmiles("C[N](C)[O]"), NoEnrichedFormError, r"'\[O\]'"),
    ],
)
def test_what_cannot_be_encoded_is_refused(mol: Chem.Mol, error: type[Exception], reason: str) -> None:
    with pytest.raises(error, match=reason):
        encode(mol)


def test_a_flat_drawing_is_refused_and_a_flat_conformer_is_not() -> None:
    mol = Chem.MolFromSmiles("c1ccccc1")
    AllChem.Compute2DCoords(mol)
    with pytest.raises(ConformerError, match="flat drawing"):
        encode(mol)
    mol.GetConformer().Set3D(True)
    assert encode(mol).text.count(",0.0000>") == 6


B = "<1.0000,-2.0000,0.5000>"


@pytest.mark.parametrize(
    ("text", "block", "position", "reason"),
    [
        ("", None, None, "there is nothing in it"),
        ("[C]", 0, 3, "atom '[C]' has no block"),
        (f"[C]<1.0,2.0,3.0[O]{B}", 0, 3, "the block is not closed by '>'"),
        ("[C]<1.026,0.6438,-0.4296[c>", 0, 3, "z is '-0.4296[c', which is no number"),  # an example of the reports
        ("[C]<1.0,2.,3.0>", 0, 3, "y is '2.', which is no number"),
        (f"[C{B}", None, 0, "'[' begins no atom"),
        (f"[C]{B}{B}", None, 26, "'<' begins no atom"),
        (f"[C]{B}[Q]{B}", None, None, "its SMILES is not a molecule: syntax error"),
        (f"[C]{B}=[F]{B}", 1, None, "its SMILES is not a molecule: Explicit valence"),
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


def check_decodes_or_says_why(text: str) -> None:
    try:
        decoded = decode(text)
    except DriftscopeError as error:
        message = str(error)
    else:
        message = ""
        assert len(decoded.numbers) == decoded.mol.GetNumAtoms() == len(decoded.coordinates) > 0
        assert np.isfinite(decoded.coordinates).all()
    assert message.isprintable() and len(message) < 600


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


# --- the group's decoder ----------------------------------------------------------------------------------------------
INF = math.inf
METHANE, ACETALDEHYDE = parse_smiles("C"), parse_smiles("CC=O")
T, F = BAD_TRIPLET, BAD_FLOAT

CONTENTS: list[tuple[str, tuple[float, float, float] | str, str]] = [
    # numbers as models write them
    ("1.6656,-0.2551,0.0000", (1.6656, -0.2551, 0.0), "the fixed writer"),
    ("-0.0000,0.0,0.0", (-0.0, 0.0, 0.0), "a negative zero is a number"),
    # forms of a float that no writer uses
    ("1.,2.,3.", (1.0, 2.0, 3.0), "a point without decimals"),
    ("007.5,00.0,01", (7.5, 0.0, 1.0), "leading zeros"),
    ("1e2,1.5E-1,2e+0", (100.0, 0.15, 2.0), "exponents, with and without a sign"),
    ("1e999,0.0,0.0", (INF, 0.0, 0.0), "float makes an infinity of it, and no exception"),
    # the last number of a part
    ("-0.2623(cc6,0.0,0.0", (6.0, 0.0, 0.0), "the description's own example"),
    ("0.8415amen7,0.0,0.0", (7.0, 0.0, 0.0), "junk that ends in a digit"),
    ("1.0,0.<5,0.0", (1.0, 5.0, 0.0), "a block ends at '>' alone: '<' is junk as any other"),
    ("1.0,0.0,0.5[O]<2.0", (1.0, 0.0, 2.0), "and so is the next atom where '>' is missing"),
    # white space, and other scripts
    ("\u0661\u0662.\u0665,0.0,0.0", (12.5, 0.0, 0.0), "Arabic-Indic digits are digits to the expression and to float"),
    # not three parts
    ("", T, "nothing: one part"),
    ("1.0,2.0", T, "z is missing"),
    # a part without a number
    ("1.0,2.0,abra", F, "letters alone"),
    ("nan,0.0,0.0", F, "float would take it, the expression does not"),
]


@pytest.mark.parametrize(("content", "expected", "why"), CONTENTS)
def test_what_the_decoder_takes_of_a_block(content: str, expected: tuple[float, float, float] | str, why: str) -> None:
    sample = check_sample(f"[CONFORMER][C]<{content}>[/CONFORMER]", METHANE)
    if isinstance(expected, str):
        assert why_not_taken(content) == expected, why
        assert not sample.decodes
        with pytest.raises(EnrichedError, match=f"block 0: {expected}"):
            decode_as_group(f"[C]<{content}>")
        return
    assert why_not_taken(content) is None, why
    assert tuple(map(float, numbers_taken(content))) == expected, why
    assert sample.decodes
    assert decode_as_group(f"[C]<{content}>").coordinates == [list(expected)]


SHORT = "<1.0,-2.0,0.5>"
GOOD = f"[C]{SHORT}[C]{SHORT}=[O]{SHORT}"
TAGGED = f"[CONFORMER]{GOOD}[/CONFORMER]"
TEXTS: list[tuple[str, bool, str]] = [
    (TAGGED, True, "as a model writes it"),
    (f"[SMILES]CC=O[/SMILES]{TAGGED}<|im_end|><|endoftext|>", True, "with its prompt and padding"),
    (f"[CONFORMER][C]{SHORT} [C]{SHORT}=[O]{SHORT}[/CONFORMER]", False, "a space between atoms is no SMILES"),
    (TAGGED.replace(SHORT, "<0.0,0.0,0.0>"), True, "zeros alone: none of the runner's issues"),
    ("[CONFORMER]CC=O[/CONFORMER]", False, "no block, though the SMILES is there"),
    (f"[CONFORMER]{GOOD}", False, "no conformer block: its end is missing"),
    (TAGGED.replace("[O]", "[N]"), False, "another graph"),
    (f"[CONFORMER][O]{SHORT}=[C]{SHORT}[C]{SHORT}[/CONFORMER]", True, "the same graph from its other end"),
    (f"[CONFORMER][C]{SHORT}[C]{SHORT}([H]{SHORT})=[O]{SHORT}[/CONFORMER]", True, "a hydrogen with a block of its own"),
    (f"[CONFORMER][C]{SHORT}{SHORT}[C]{SHORT}=[O]{SHORT}[/CONFORMER]", False, "a block too many"),
    (TAGGED.replace("[/CONF", "<unk>[/CONF"), False, "an unknown token"),
    (f"[CONFORMER]C{SHORT}C{SHORT}=O{SHORT}[/CONFORMER]", False, "legacy text: bare atoms are none to it"),
    (f"[CONFORMER][C]-{SHORT}[C]{SHORT}=[O]{SHORT}[/CONFORMER]", False, "a bond between an atom and its block"),
    (f"[CONFORMER][C]{SHORT}~[C]{SHORT}=[O]{SHORT}[/CONFORMER]", False, "a bond that its expression lacks"),
    (f"[CONFORMER][C]{SHORT}C{SHORT}=[O]{SHORT}[/CONFORMER]", False, "one atom is not in brackets"),
    (TAGGED.replace(",0.5>[/", ",-0.2623(cc6>[/"), True, "taken, and 6 angstrom off"),
]


@pytest.mark.parametrize(("text", "decodes", "why"), TEXTS)
def test_which_answers_decode(text: str, decodes: bool, why: str) -> None:
    check = check_sample(text, ACETALDEHYDE)
    assert check.decodes == decodes, why
    if decodes:
        decode_as_group(text)
    elif "brackets" in why:
        with pytest.raises(EnrichedError, match="finds no atom with its block"):
            decode_as_group(text)


@given(enriched_texts(form=TRIMMED4))
def test_text_without_damage_reads_the_same_in_both_decoders(written: Written) -> None:
    theirs, ours = decode_as_group(written.text), decode(written.text)
    assert (theirs.smiles, theirs.numbers) == (ours.smiles, ours.numbers)
    assert all(misread_ang(",".join(triple), list(map(float, triple))) is None for triple in ours.numbers)


@pytest.mark.parametrize(
    ("content", "misread", "by"),
    [
        ("1.0,2.0,-0.2623(cc6", True, 6.2623),
        ("1.0,2.0,0.5a0.511", True, 0.011),
        ("1.0,2.0,0.5e999", True, INF),
        ("1.0,2.0,abra", False, None),  # refused: nothing is misread
        ("1.0,2.0,abra6", True, None),  # a number taken where none is stated
        ("1.0,2.0,1e3", True, None),  # no number of the format
    ],
)
def test_what_the_decoder_misreads(content: str, misread: bool, by: float | None) -> None:
    numbers = [float(number) for number in read_block(content, form=TRIMMED4).numbers]
    stated = [*numbers, *[None] * (3 - len(numbers))]
    misread_by = misread_ang(content, stated)
    assert (misread_by is not None) == misread
    if by is not None:
        assert misread_by == pytest.approx(by, abs=1e-9)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("[C]<0,0,0>(" * 20_000, "220,000 characters"),  # before RDKit reads it
        ("[C]<0,0,0>(" * 6_000, "6,000 blocks, the limit is 5,000"),
        ("[C]<0,0,0>([C]<0,0,0>", "not a molecule"),
        ("[C]<0,0,0>C", "block 1, at position 10: the group's reader finds no atom with its block"),
        ("[C]<0,0,0>[C]=<0,0,0>", "block 1, at position 10"),
        ("[C]<0,0,0>1[C]<0,0,0>", "not a molecule"),
        (f"[C]{SHORT}[C]<1.0,2.0", "block 1, at position 17: the block is not closed by '>'"),
        ("CC", "block 0, at position 0"),
        ("=1", "no block"),
    ],
)
def test_texts_that_are_refused(text: str, error: str) -> None:
    with pytest.raises(EnrichedError, match=error):
        decode_as_group(text)
