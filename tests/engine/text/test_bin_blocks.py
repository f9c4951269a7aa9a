"""Texts of bare bins: written and read back alike, and damage is found where it was planted and nowhere else.

The judge is the group's rule, written out here: `;` is dropped, then come a descriptor and so many digits.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rdkit import Chem
from tokenizers import Tokenizer
from tokenizers.models import BPE

from engine.chem.enriched import as_decimals, decode, encode, enriched_text, skeleton_of
from engine.chem.smiles import bare_form
from engine.errors import EnrichedError
from engine.records import BinFormat, Kind, Molecule
from engine.text.blocks import count_junk, find_blocks, read_block, read_blocks
from engine.text.check import check_sample, clean_up, decode_with
from engine.text.generated import read_generated
from engine.text.template import build_template, drift_summary, needed_tokens
from engine.text.tokenizers import TextTokenizer, bin_tokens, load_tokenizer
from tests.strategies import MOLECULES, molecules, seeds, shipped_smiles, small_molecules, with_conformer
from tests.strategies import molecule as molecule_of
from tests.support import sized

UNIFORM = BinFormat(edges=tuple(np.linspace(-10.5748, 10.5102, 257).tolist()), mode="uniform")
_INNER = np.sort(np.random.default_rng(3).normal(0, 2.0, 255)).tolist()
QUANTILE = BinFormat(edges=(-10.5748, *_INNER, 10.5102), mode="quantile")
EQUAL = BinFormat.equal(-13, 13, 0.104)
FINE = BinFormat(edges=tuple(np.linspace(-12, 12, 1025).tolist()), mode="uniform")  # four digits
FORMS = (UNIFORM, QUANTILE, EQUAL, FINE)
forms = st.sampled_from(FORMS)


def group_decodes(text: str, form: BinFormat) -> tuple[str, list[list[float]]]:
    """The SMILES and the places that the group's decoder takes from a text without tags."""
    rest, smiles, places = text.replace(";", ""), "", list[list[float]]()
    edges = np.array(form.edges)
    values = np.concatenate([[edges[0]], (edges[:-1] + edges[1:]) / 2, [edges[-1]]])
    if form.mode == "cartesian_binned":
        values = np.append(values[: form.bins], edges[-1])
    while rest:
        atom = re.match(rf"(\[[^\]]+\])(\d{{{3 * form.digits}}})", rest)
        if atom is None:
            smiles, rest = smiles + rest[0], rest[1:]
            continue
        digits = atom[2]
        numbers = [int(digits[at : at + form.digits]) for at in range(0, len(digits), form.digits)]
        places.append(values[numbers].tolist())
        smiles, rest = smiles + bare_form(atom[1]), rest[atom.end() :]
    return smiles, places


def random_text(molecule: Molecule, form: BinFormat, seed: int) -> str:
    rng = random.Random(seed)
    numbers = [tuple(f"{rng.randint(1, form.bins):0{form.digits}d}" for _ in "xyz") for _ in range(molecule.atoms)]
    return enriched_text(molecule.smiles, molecule.descriptors, tuple(numbers), form)  # type: ignore[arg-type]


@given(molecules(), forms, seeds())
def test_what_is_written_is_read_back(molecule: Molecule, form: BinFormat, seed: int) -> None:
    text = random_text(molecule, form, seed)
    found = find_blocks(text, form)
    readings = read_blocks(found, form=form, lp="none")
    assert len(found) == molecule.atoms and all(reading.kinds == ("exact",) for reading in readings)
    assert [block.descriptor for block in found] == list(molecule.descriptors)
    smiles, places = group_decodes(text, form)
    for reader in ("strict", "group"):
        decoded = decode_with(reader, f"[CONFORMER]{text}[/CONFORMER]", form)
        assert decoded.smiles == smiles == molecule.smiles
        assert np.allclose(decoded.coordinates, places, rtol=0, atol=2e-9)
        assert encode(decoded.mol, form).smiles == Chem.MolToSmiles(Chem.RemoveHs(decoded.mol))
    check = check_sample(f"[SMILES]{molecule.smiles}[/SMILES][CONFORMER]{text}[/CONFORMER]", molecule, form=form)
    assert check.passed and check.decodes and check.clean and check.exact_match and check.issues == ()


@given(molecules(), forms, seeds())
def test_a_conformer_is_written_by_the_groups_rule(molecule: Molecule, form: BinFormat, seed: int) -> None:
    mol = with_conformer(molecule, seed)  # some of it is outside
    xyz, edges = mol.GetConformer().GetPositions().ravel(), np.array(form.edges)
    if form.mode == "cartesian_binned":
        expected = np.digitize(xyz, edges[:-1])
    else:
        expected = np.searchsorted(edges, xyz, side="right")
    text = encode(mol, form).text
    digits = "".join(block.content for block in find_blocks(text, form))
    numbers = [int(digits[at : at + form.digits]) for at in range(0, len(digits), form.digits)]
    assert sorted(numbers) == sorted(expected.tolist())
    assert text.count(";") == mol.GetNumAtoms()


# --- damage -----------------------------------------------------------------------------------------------------------

Plant = Callable[[str, BinFormat, random.Random], str]
OUTSIDE = {UNIFORM: "258", QUANTILE: "999", EQUAL: "251", FINE: "1026"}


def other_number(content: str, form: BinFormat, rng: random.Random, number: str) -> str:
    at = form.digits * rng.randrange(3)
    return content[:at] + number + content[at + form.digits :]


PLANTS: dict[Kind, Plant] = {
    "outside_bins": lambda c, form, rng: other_number(c, form, rng, OUTSIDE[form]) + ";",
    "tail_bin": lambda c, form, rng: other_number(c, form, rng, str(rng.choice(form.tails)).zfill(form.digits)) + ";",
    "missing_z": lambda c, form, rng: c[: form.digits * rng.randrange(3)] + ";",
    "fourth_number": lambda c, form, rng: c + c[: form.digits] + ";",
    "missing_digit": lambda c, form, rng: c[:-1] + ";",
    "extra_digit": lambda c, form, rng: c + "7;",
    "missing_semicolon": lambda c, form, rng: c,
    "letters": lambda c, form, rng: c[: (at := rng.randrange(len(c)))] + rng.choice(["amen", "的", "x"]) + c[at:] + ";",
    "punctuation": lambda c, form, rng: c[: (at := rng.randrange(len(c)))] + rng.choice([",", " ", "-"]) + c[at:] + ";",
    "two_atoms": lambda c, form, rng: "",
}


@pytest.mark.soak
@pytest.mark.parametrize("kind", PLANTS)
def test_damage_is_found_where_it_was_planted(kind: Kind) -> None:
    """Ten kinds, 100 of each: 1,000 planted in all."""
    rng = random.Random(kind)
    every = [made for made in map(molecule_of, (*MOLECULES, *shipped_smiles()[:40])) if made.atoms > 1]
    for _ in range(sized(100, 1_000)):
        asked, form = rng.choice(every), rng.choice(FORMS)
        text = random_text(asked, form, rng.randrange(10**6))
        blocks = find_blocks(text, form)
        is_pair = kind == "two_atoms"  # the last atom has none behind it
        chosen = rng.randrange(len(blocks) - is_pair)
        block = blocks[chosen]
        damaged = text[: block.start] + PLANTS[kind](block.content, form, rng) + text[block.end :]
        answer = f"[CONFORMER]{damaged}[/CONFORMER]"
        readings = read_blocks(find_blocks(answer, form), form=form, lp="none")
        wrong = {index: reading.kinds for index, reading in enumerate(readings) if reading.kinds != ("exact",)}
        assert wrong == {chosen: (kind,)}, damaged
        assert len(readings) == len(blocks) - is_pair
        check = check_sample(answer, asked, form=form)
        assert not check.clean and check.why_not_clean[0].startswith(f"block {chosen} is {kind}: ")
        assert check.decodes == (kind in ("missing_semicolon", "tail_bin"))
        if kind != "tail_bin":
            with pytest.raises(EnrichedError, match=f"block {chosen}"):
                decode_with("strict", answer, form)


@given(molecules(), forms, seeds(), st.integers(0, 2**16))
def test_a_text_that_ends_early_is_cut_in_its_last_block(
    molecule: Molecule, form: BinFormat, seed: int, at: int
) -> None:
    text = random_text(molecule, form, seed)
    blocks = find_blocks(text, form)
    block = blocks[at % len(blocks)]
    end = block.start + 1 + at % (3 * form.digits)  # before its semicolon
    found = find_blocks(f"[CONFORMER]{text[:end]}", form)
    kinds = [reading.kinds for reading in read_blocks(found, form=form, lp="none")]
    assert kinds == [("exact",)] * (at % len(blocks)) + [("cut",)]
    check = check_sample(f"[CONFORMER]{text[:end]}", molecule, form=form)
    assert "conformer not closed" in check.issues and not check.clean


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("[CN]128130125;", ("two_atoms",)),
        ("[C][O]128130125;", ("two_atoms",)),
        ("[C]1[C]128130125;1", ("two_atoms",)),
        ("[Co]128130125;", ("exact",)),
        ("[C@@H]128130125;", ("exact",)),
        ("[13CH3]128130125;", ("exact",)),
        ("[C]128130999", ("outside_bins", "cut")),
        ("[C]128;", ("missing_z",)),
        ("[C];", ("missing_z",)),
        ("[C]128130125128130126;", ("fourth_number",)),
        ("[C]000257128;", ("tail_bin",)),
    ],
)
def test_kinds_of_single_blocks(text: str, kinds: tuple[Kind, ...]) -> None:
    (block,) = find_blocks(text, UNIFORM)
    (reading,) = read_blocks([block], form=UNIFORM, lp="none")
    assert set(reading.kinds) == set(kinds)


@pytest.mark.parametrize(
    ("content", "kinds", "junk", "numbers"),
    [
        ("128130125", "exact", "", "128 130 125"),
        ("128amen130125", "letters", "amen", "128 130 125"),
        ("12amen8130125", "letters", "amen", ""),  # no number that nobody wrote
        ("128130125amen", "letters", "amen", "128 130 125"),
        ("1281301251", "extra_digit", "1", "128 130 125"),
        ("128130125126", "fourth_number", "126", "128 130 125"),
        ("128,130,125", "punctuation missing_z", ",130,125", "128"),
        ("12813012", "missing_digit", "", "128 130"),
    ],
)
def test_what_a_block_says(content: str, kinds: str, junk: str, numbers: str) -> None:
    reading = read_block(content, form=UNIFORM)
    assert set(reading.kinds) == set(kinds.split())
    assert reading.junk_text == junk and reading.numbers == tuple(numbers.split())
    assert count_junk([reading]).not_triples == (kinds != "exact")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[C]128130125;;[C]128130130;", "1 semicolon too many"),
        ("[C]128130125;[C]128130130;[O]128130130;", "3 blocks for 2 atoms"),
        ("[C]128130125;[C]", "1 block for 2 atoms"),
    ],
)
def test_what_else_is_not_clean(text: str, words: str) -> None:
    check = check_sample(f"[CONFORMER]{text}[/CONFORMER]", molecule_of("CC"), form=UNIFORM)
    assert not check.clean and words in check.why_not_clean


def test_decimals_in_place_of_bins_are_named() -> None:
    check = check_sample("[CONFORMER][C]<0.0,0.0,0.0>[O]<1.4,0.0,0.0>[/CONFORMER]", molecule_of("CO"), form=UNIFORM)
    assert check.issues == ("decimals in brackets (<x,y,z>), where the numbers are those of bins",)
    assert not check.passed and not check.decodes and not check.clean


def test_the_note_of_the_form_is_stripped() -> None:
    text = "[SMILES]CO[/SMILES][SERIALIZATION]uniform[/SERIALIZATION][CONFORMER][C]128130125;[O]140130125;[/CONFORMER]"
    inside = "[CONFORMER][SERIALIZATION]uniform[/SERIALIZATION][C]128130125;[O]140130125;[/CONFORMER]"
    for answer in (text, inside):
        assert check_sample(answer, molecule_of("CO"), form=UNIFORM).clean
        assert len(find_blocks(answer, UNIFORM)) == 2
    assert decode_with("strict", inside, UNIFORM).smiles == "CO"


def test_a_prompt_has_no_blocks() -> None:
    text = "[SMILES]C[C@H](N)[nH]123;[/SMILES][CONFORMER][C]128130125;[/CONFORMER]"
    assert [block.descriptor for block in find_blocks(text, UNIFORM)] == ["[C]"]


def test_bins_of_the_older_form_are_outside_too() -> None:
    form = BinFormat.in_brackets(0.042, 21)
    assert read_block("0512,1001,0501", form=form).kinds == ("outside_bins",)
    assert read_block("0512,0000,0501", form=form).kinds == ("outside_bins",)


# --- tokens -----------------------------------------------------------------------------------------------------------


@given(small_molecules(), seeds())
def test_no_block_of_bins_drifts(molecule: Molecule, seed: int) -> None:
    texts = [random_text(molecule, UNIFORM, seed), random_text(molecule, UNIFORM, seed + 1)]
    for name, free in (("qwen3", 9), ("llama3", 3)):
        tokenizer = load_tokenizer(name)
        assert all((needed == free).all() for needed in needed_tokens(texts, tokenizer, UNIFORM))
        summary = drift_summary(texts, tokenizer, "000000000", UNIFORM)
        assert summary.exact == summary.blocks == 2 * molecule.atoms and summary.histogram == {0: summary.blocks}


@given(small_molecules(), seeds())
def test_a_text_is_aligned_atom_by_atom(molecule: Molecule, seed: int) -> None:
    tokenizer = load_tokenizer("qwen3")
    template = build_template(skeleton_of(molecule, form=UNIFORM), tokenizer, "000000000", tags=True, form=UNIFORM)
    text = f"[CONFORMER]{random_text(molecule, UNIFORM, seed)}[/CONFORMER]"
    read = read_generated(template, tokenizer.encode(text), tokenizer, lp="none", form=UNIFORM)
    assert read.template_block == list(range(molecule.atoms))
    free = [text[start:end] for start, end, role in zip(read.starts, read.ends, read.roles, strict=True) if role == 1]
    assert "".join(free) == "".join(block.content for block in read.blocks)
    assert template.free == 9 * molecule.atoms and not read.is_junk.any()


def test_junk_tokens_are_those_of_the_junk() -> None:
    tokenizer, molecule = load_tokenizer("qwen3"), molecule_of("CC")
    template = build_template(skeleton_of(molecule, form=UNIFORM), tokenizer, "000000000", tags=True, form=UNIFORM)
    text = "[CONFORMER][C]128amen130125;[C]128130125;[/CONFORMER]"
    read = read_generated(template, tokenizer.encode(text), tokenizer, lp="none", form=UNIFORM)
    junk = [text[start:end] for start, end, is_it in zip(read.starts, read.ends, read.is_junk, strict=True) if is_it]
    assert "".join(junk) == "amen" and read.template_block == [0, 1]


def test_cleanup_leaves_three_numbers() -> None:
    assert clean_up("[C]128130125amen;[O]128130;", UNIFORM) == "[C]128130125;[O]128130;"


def test_decimals_of_what_is_refused_are_kept() -> None:
    """So that a page has the atoms that are sound, and a reader of decimals names the block that is not."""
    text = as_decimals("[C]128130125;[O]128130;", UNIFORM, keep=True)
    assert text.startswith("[C]<") and text.endswith("[O]<128130>")
    with pytest.raises(EnrichedError, match="block 1"):
        decode(text)


@pytest.mark.parametrize(
    ("added", "words"),
    [
        ([f"{number:03d}" for number in range(258)], "258 added tokens 000 to 257"),
        ([f"{number:03d}" for number in range(250)], "250 added tokens 000 to 249"),
        (["[SMILES]", "[/SMILES]"], ""),
        (["000", "001", "003"], ""),  # no row
        (["<0>", "<1>"], ""),  # codes
    ],
)
def test_a_tokenizer_of_bins_is_known_by_its_added_tokens(added: list[str], words: str) -> None:
    backend = Tokenizer(BPE(vocab={"a": 0}, merges=[]))
    backend.add_tokens(added)
    assert bin_tokens(TextTokenizer("made", backend)) == words
