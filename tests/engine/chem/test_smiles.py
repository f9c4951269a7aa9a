"""SMILES in: canonical forms, the reason and place of every refusal, and graphs compared whatever their spelling."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations, count

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rdkit import Chem

from engine.chem.smiles import (
    MOST_RINGS,
    MOST_SMALLEST_RINGS,
    bare_form,
    descriptor,
    element_of,
    graph_key,
    parse_smiles,
    read_text_order,
    same_graph,
    split_smiles,
)
from engine.errors import DriftscopeError, MoleculeSizeError, NoEnrichedFormError, SmilesError, UnsupportedMoleculeError
from engine.records import Molecule
from tests.strategies import any_text, damaged, molecules, seeds


@pytest.mark.parametrize(
    ("text", "smiles", "descriptors"),
    [
        ("O=CC", "CC=O", "[C] [C] [O]"),
        ("N[C@@H](C)C(O)=O", "C[C@H](N)C(=O)O", "[C] [C@H] [N] [C] [O] [O]"),
        ("c1cc[nH]c1", "c1cc[nH]c1", "[c] [c] [c] [nH] [c]"),
        ("[13CH3][NH3+]", "[13CH3][NH3+]", "[13CH3] [NH3+]"),
    ],
)
def test_smiles_become_canonical_with_a_descriptor_an_atom(text: str, smiles: str, descriptors: str) -> None:
    molecule = parse_smiles(text)
    assert molecule.smiles == smiles
    assert molecule.descriptors == tuple(descriptors.split())
    assert molecule.source == text.strip()
    assert molecule.atoms == len(molecule.elements) == molecule.mol.GetNumAtoms()


@pytest.mark.parametrize(
    ("text", "position", "reason"),
    [
        ("C(C", 1, "extra open parentheses"),
        ("CC1CC", None, "unclosed ring"),
        ("CC(C)(C)(C)C", 1, "valence"),
        ("CCc", 2, "non-ring atom 2 marked aromatic"),
        ("C[C+30]", 1, "an isotope or a charge is out of range"),
        ("CÉ", 1, "character 'É' is not allowed"),
        ("", None, "there is nothing in it"),
    ],
)
def test_a_bad_smiles_is_refused_with_position_and_reason(text: str, position: int | None, reason: str) -> None:
    with pytest.raises(SmilesError) as caught:
        parse_smiles(text)
    assert caught.value.position == position
    assert reason in caught.value.reason
    assert caught.value.reason in str(caught.value)


@pytest.mark.parametrize(
    ("text", "error", "reason"),
    [
        ("C*", UnsupportedMoleculeError, "is a wildcard.*real atom"),
        ("[C]", NoEnrichedFormError, "atom 0 .* is '\\[C\\]'"),
        ("N[Pt](N)(Cl)Cl", NoEnrichedFormError, "is '\\[Cl\\]'"),  # RDKit brackets what is bound to a metal
        ("C" * 201, MoleculeSizeError, "has 201 heavy atoms, the limit is 200"),
        ("C" * 4_001, MoleculeSizeError, "4,001 characters"),
    ],
)
def test_what_has_no_enriched_form_is_refused_by_name(text: str, error: type[Exception], reason: str) -> None:
    with pytest.raises(error, match=reason):
        parse_smiles(text)
    assert parse_smiles("C" * 199 + "[2H]").heavy_atoms == 199


def complete_graph(atoms: int) -> str:
    """Every atom bound to every other: RDKit's search for rings would take minutes, then hours."""
    labels = {pair: next(numbers) for numbers in [count(10)] for pair in combinations(range(atoms), 2)}
    rings = [[f"%({labels[pair]})" for pair in labels if atom in pair] for atom in range(atoms)]
    return ".".join("[U]" + "".join(closures) for closures in rings)


def test_dense_graphs_are_refused_before_their_rings_are_searched() -> None:
    assert parse_smiles(complete_graph(8)).atoms == 8
    dense = complete_graph(16) + ".C" * 20  # more parts do not hide its rings
    for read, smiles in ((read_text_order, complete_graph(60)), (parse_smiles, dense)):
        with pytest.raises(MoleculeSizeError, match=f"has over {MOST_RINGS} rings"):
            read(smiles)


def test_graphs_whose_rings_are_choices_without_end_are_refused_before_they_are_drawn() -> None:
    bridges = "".join(f"[U]%({bridge})%({bridge + 100})." for bridge in range(10, 60))
    ends = ["".join(f"%({bridge + more})" for bridge in range(10, 60)) for more in (0, 100)]
    for read in (read_text_order, parse_smiles):
        with pytest.raises(MoleculeSizeError, match=f"or {MOST_SMALLEST_RINGS} smallest"):
            read(f"{bridges}[U]{ends[0]}.[U]{ends[1]}")  # 49 by count, and 1,225 of four atoms


@pytest.mark.soak
@given(molecules())
def test_pieces_are_the_text_and_descriptors_turn_back(molecule: Molecule) -> None:
    pieces = split_smiles(molecule.smiles)
    assert "".join(piece.text for piece in pieces) == molecule.smiles
    assert all(molecule.smiles.startswith(piece.text, piece.start) for piece in pieces)
    atoms = [piece.text for piece in pieces if piece.is_atom]
    assert [bare_form(bracketed) for bracketed in molecule.descriptors] == atoms
    assert [descriptor(atom) for atom in atoms] == list(molecule.descriptors)
    assert tuple(map(element_of, molecule.descriptors)) == molecule.elements


# --- anything at all ------------------------------------------------------------------------------------------------


@pytest.mark.soak
def test_any_or_damaged_text_is_a_molecule_or_a_named_error(capfd: pytest.CaptureFixture[str]) -> None:
    @given(any_text() | st.builds(lambda molecule, seed: damaged(molecule.smiles, seed), molecules(), seeds()))
    def check(text: str) -> None:
        try:
            molecule = parse_smiles(text)
        except DriftscopeError as error:
            message, position = str(error), getattr(error, "position", None)
        else:
            message, position = "", None
            assert same_graph(molecule.mol, parse_smiles(molecule.smiles).mol)
        assert message.isprintable() and len(message) < 600
        assert position is None or 0 <= position <= len(text)

    check()
    assert capfd.readouterr() == ("", "")


def test_huge_texts_are_refused_at_once() -> None:
    for piece in ("(", "[", "C1", "[C", "é"):
        for length in (3_900, 1_000_000):
            with pytest.raises(DriftscopeError):
                parse_smiles("C" + piece * (length // len(piece)))
    for template in ("[{}C]", "[C+{}]", "C%({})"):
        with pytest.raises(DriftscopeError):
            parse_smiles(template.format("9" * 3_900))


def test_messages_of_concurrent_parses_do_not_mix() -> None:
    bad = {"C(C": "extra open parentheses", "C1CC": "unclosed ring", "CCc": "marked aromatic", "C==C": "syntax error"}

    def reason(text: str) -> tuple[str, str]:
        with pytest.raises(SmilesError) as caught:
            parse_smiles(text)
        return text, caught.value.reason

    with ThreadPoolExecutor(4) as pool:
        for text, message in pool.map(reason, list(bad) * 30):
            assert bad[text] in message


# --- the same graph -------------------------------------------------------------------------------------------------


@pytest.mark.soak
@given(molecules(), seeds())
def test_a_graph_is_the_same_however_it_is_written(molecule: Molecule, seed: int) -> None:
    order = random.Random(seed).sample(range(molecule.atoms), molecule.atoms)
    assert same_graph(molecule.mol, Chem.RenumberAtoms(molecule.mol, order))
    random_spelling = Chem.MolToRandomSmilesVect(molecule.mol, 1, randomSeed=seed % 2**31)[0]
    assert same_graph(molecule.mol, read_text_order(random_spelling))
    assert same_graph(Chem.AddHs(molecule.mol), molecule.mol)
    kekulised = Chem.Mol(molecule.mol)
    Chem.Kekulize(kekulised, clearAromaticFlags=True)
    assert same_graph(molecule.mol, read_text_order(Chem.MolToSmiles(kekulised)))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("C[C@H](N)O", "C[C@@H](N)O"),
        ("F/C=C/F", "F/C=C\\F"),
        ("[13CH3]CO", "C[13CH2]O"),
        ("O=c1cc[nH]cc1", "Oc1ccncc1"),  # tautomers are other graphs
    ],
)
def test_different_graphs_differ(first: str, second: str) -> None:
    left, right = Chem.MolFromSmiles(first), Chem.MolFromSmiles(second)
    assert same_graph(left, right) is same_graph(right, left) is False
    assert graph_key(left) != graph_key(right)


def test_ties_that_canonical_ranking_breaks_by_input_order_are_no_difference() -> None:
    """RDKit writes cisplatin in two ways; the key alone would call one molecule two."""
    cis = Chem.MolFromSmiles("[NH3]->[Pt@SP1+2](<-[NH3])(<-[Cl-])<-[Cl-]")
    trans = Chem.MolFromSmiles("[NH3]->[Pt@SP2+2](<-[NH3])(<-[Cl-])<-[Cl-]")
    rng, keys = random.Random(1), set()
    for _ in range(20):
        renumbered = Chem.RenumberAtoms(cis, rng.sample(range(cis.GetNumAtoms()), cis.GetNumAtoms()))
        keys.add(graph_key(renumbered))
        assert same_graph(cis, renumbered)
        assert not same_graph(trans, renumbered)  # RDKit's matching sees no difference between the two
    assert len(keys) > 1


def test_a_wrong_stereocentre_among_symmetric_groups_is_found_in_bounded_time() -> None:
    """RDKit tried all 6 ** 12 ways to match the tert-butyl groups before it would say no."""
    groups = "C(C(C(C)(C)C)" * 12 + ")" * 12
    left, right, neither = (Chem.MolFromSmiles(f"C[{centre}](F)(Cl){groups}") for centre in ("C@", "C@@", "C"))
    assert not same_graph(left, right)
    assert not same_graph(left, neither)
    assert same_graph(left, Chem.RenumberAtoms(left, list(reversed(range(left.GetNumAtoms())))))
