"""The token that lost a molecule, against the verdict (RDKit, PoseBusters' criteria) and numbers spelled out."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
from rdkit import Chem
from rdkit.Chem import AllChem

from engine.chem.enriched import encode
from engine.chem.smiles import parse_smiles
from engine.chem.verdict import judge_answer
from engine.inspection.lost_token import (
    SIGN,
    WHOLE,
    LostBlock,
    Splits,
    TextTokens,
    boxes_of,
    left_by,
    lost_blocks,
    splits_of,
    tokens_of,
)
from engine.inspection.runs import facts_of, number_format, run_tokenizer
from engine.inspection.sample import molecule_asked
from engine.lp.numbers import number_automaton
from engine.lp.prefixes import SAME_AXIS, Leaves
from engine.records import FIXED4, BinFormat, NumberFormat
from engine.store.store import DEMO, Store, files_at
from engine.text.blocks import find_blocks
from engine.text.tokenizers import load_tokenizer, number_ids
from tests.support import ROOT, sized

SHAPE_CHECKS = {
    *("bond_lengths", "bond_angles", "internal_steric_clash"),
    *("aromatic_ring_flatness", "non-aromatic_ring_non-flatness", "double_bond_flatness", "stereo"),
}
SMILES = (
    "CC=O",
    "C[C@H](N)C(=O)O",
    "C/C=C/C(=O)OC",
    "O=Cc1cnc([C@@H]2C[C@H](O)CO2)s1",
    "C[C@H]1CC[C@H](N)C[C@@H]1C",
    "O=C(O)[C@H](O)[C@H](O)C(=O)O",
    "CC(C)(C)c1ccccc1F",
    "C1CCCCC1",
)
TRIMMED = NumberFormat(0, 4, 3)


@lru_cache
def embedded(smiles: str) -> Chem.Mol:
    """Ten conformers without hydrogens."""
    whole = Chem.AddHs(Chem.MolFromSmiles(smiles))
    AllChem.EmbedMultipleConfs(whole, 10, randomSeed=7)
    return Chem.RemoveHs(whole)


def text_of(smiles: str, conformer: int, spoilt: float, draws: np.random.Generator, form: NumberFormat = FIXED4) -> str:
    """A conformer of which each atom is moved with this chance, by up to half an angstrom or so."""
    mol = Chem.Mol(embedded(smiles))
    placed = mol.GetConformer(conformer)
    positions = placed.GetPositions()
    is_moved = draws.random(len(positions)) < spoilt
    positions[is_moved] += draws.normal(scale=0.3, size=(int(is_moved.sum()), 3))
    if draws.random() < 0.2:
        positions[:, 2] *= -1  # the other hand
    placed.SetPositions(positions)
    return f"[CONFORMER]{encode(mol, form, conformer=conformer).text}[/CONFORMER]"


def lost_in(text: str, smiles: str, tokenizer: str = "") -> list[LostBlock]:
    return lost_blocks(text, smiles, tokens_of(text, load_tokenizer(tokenizer) if tokenizer else None), TRIMMED)


def is_wrong(text: str, smiles: str) -> bool:
    inside = text.removeprefix("[CONFORMER]").removesuffix("[/CONFORMER]")
    verdict = judge_answer(inside, parse_smiles(smiles).mol)
    return any(failed.check in SHAPE_CHECKS for failed in verdict.failed)


# --- a mark where the verdict finds something wrong, and nowhere else -------------------------------------------------


@pytest.mark.soak
def test_a_text_has_a_mark_if_and_only_if_the_verdict_finds_its_shape_wrong() -> None:
    draws, wrong = np.random.default_rng(3), 0
    texts = sized(160, 10_000)
    for number in range(texts):
        smiles = SMILES[number % len(SMILES)]
        form = (FIXED4, TRIMMED)[number // 3 % 2]
        text = text_of(smiles, number % 10, (0.0, 0.05, 0.15)[number % 3], draws, form)
        lost = lost_in(text, smiles, ("", "qwen3", "llama3")[number // 2 % 3])
        assert bool(lost) == is_wrong(text, smiles), text
        wrong += bool(lost)
    assert 0.2 * texts < wrong < 0.9 * texts


def molecules_of(file: str) -> Iterator[str]:
    for line in (ROOT / "data" / file).read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith(("#", "name\t")):
            yield line.split("\t")[file == "named.tsv"].split()[0]


@pytest.mark.soak
@pytest.mark.parametrize("file", ["heldout.smi", "named.tsv"])
def test_a_reference_conformer_that_is_right_has_no_mark(file: str) -> None:
    right = 0
    for smiles in itertools.islice(molecules_of(file), sized(12, 400)):
        whole = Chem.AddHs(Chem.MolFromSmiles(smiles))
        if AllChem.EmbedMolecule(whole, randomSeed=11) < 0:
            continue
        text, canonical = encode(whole).text, parse_smiles(smiles).smiles
        if not is_wrong(text, canonical):
            right += 1
            assert not lost_in(text, canonical, "qwen3"), text
        else:
            assert lost_in(text, canonical, "qwen3"), text
    assert right > sized(5, 50)


@pytest.mark.soak
def test_the_demo_stores_texts_have_marks_where_their_verdicts_say_so() -> None:
    store = Store(files_at(str(DEMO)))
    judged = wrong = 0
    for entry in [entry for entry in store.listing().entries if "samples" in entry.parts and entry.row.get("judged")]:
        run = facts_of(entry)
        tokenizer, _ = run_tokenizer(run)
        sql = "SELECT * FROM samples WHERE run_id = $run AND text IS NOT NULL ORDER BY sample_id"
        for row in store.rows(sql, {"run": entry.id})[: sized(16, 1_000)]:
            checks = {failed["check"] for failed in row["failed"]}
            if "loaded" in checks:
                continue
            tokens = tokens_of(row["text"], tokenizer, row["token_ids"])
            molecule, _, _ = molecule_asked(row, run.descriptors)
            lost = lost_blocks(row["text"], row["smiles"], tokens, number_format(run), molecule=molecule)
            assert bool(lost) == bool(checks & SHAPE_CHECKS), (entry.id, row["sample_id"])
            assert {mark.check for mark in lost} <= checks
            judged, wrong = judged + 1, wrong + bool(lost)
    assert judged > 80 and wrong > 20


# --- what a mark says is so -------------------------------------------------------------------------------------------


def at_last(failed: frozenset[tuple[str, tuple[int, ...]]], mol: Chem.Mol, atom: int) -> bool:
    """Whether a failed check has this atom as its last one: of an angle its ends, of stereo the neighbours too."""
    for check, atoms in failed:
        spanned = {atoms[0], atoms[-1]} if check == "bond_angles" else set(atoms)
        if check == "stereo":
            spanned |= {other.GetIdx() for site in atoms for other in mol.GetAtomWithIdx(site).GetNeighbors()}
        if check in SHAPE_CHECKS and spanned and max(spanned) == atom:
            return True
    return False


def failed_of(text: str, smiles: str) -> frozenset[tuple[str, tuple[int, ...]]]:
    return frozenset((failed.check, failed.atoms) for failed in judge_answer(text, parse_smiles(smiles).mol).failed)


def completions(prefix: str, content: str, near: np.ndarray, draws: random.Random) -> Iterator[str]:
    """Triples that begin with the prefix, near a place where that is possible: each axis has four decimals."""
    done = prefix.split(",")[:-1]
    begun = prefix.rpartition(",")[2]
    for _ in range(sized(100, 300)):
        numbers = list(done)
        for axis in range(len(done), 3):
            start = begun if axis == len(done) else ""
            value = near[axis] + draws.uniform(-2.2, 2.2)
            written = f"{value:.4f}"
            if not written.startswith(start):
                digits = start.removeprefix("-").partition(".")
                rest = "".join(draws.choice("0123456789") for _ in range(4 - len(digits[2])))
                written = f"{start}{rest}" if digits[1] else f"{start}.{rest}" if digits[0] else f"{start}0.{rest}"
            numbers.append(written)
        yield ",".join(numbers)


@pytest.mark.soak
def test_whatever_follows_a_mark_the_verdict_finds_that_atom_wrong() -> None:
    """A claim about all places, held against hundreds of drawn ones of each mark."""
    draws, words, marks = np.random.default_rng(17), random.Random(5), 0
    for number in range(sized(9, 60)):
        smiles = ("C[C@H](N)C(=O)O", "C/C=C/C(=O)OC", "O=Cc1cnc([C@@H]2C[C@H](O)CO2)s1")[number % 3]
        text = text_of(smiles, number % 10, 0.15, draws).removeprefix("[CONFORMER]").removesuffix("[/CONFORMER]")
        blocks = find_blocks(text)
        mol = Chem.MolFromSmiles(parse_smiles(smiles).smiles)
        for mark in lost_in(text, parse_smiles(smiles).smiles):
            block = blocks[mark.block]
            if mark.digit == WHOLE:
                continue
            marks += 1
            bonded = [other.GetIdx() for other in mol.GetAtomWithIdx(mark.atom).GetNeighbors()]
            parent = min(bonded)
            near = np.array([float(value) for value in blocks[parent].content.split(",")])
            prefix = "" if mark.is_before else text[block.start + 1 : mark.token + 1]
            for content in completions(prefix, block.content, near, words):
                changed = text[: block.start + 1] + content + text[block.end - 1 :]
                assert at_last(failed_of(changed, smiles), mol, mark.atom), (mark.words, changed)
    assert marks > sized(6, 30)


# --- what a token leaves ----------------------------------------------------------------------------------------------


SMALL = NumberFormat(1, 2, 2)
EVERY = sorted(
    {
        f"{sign}{whole}.{decimals}"
        for sign in ("", "-")
        for whole in range(100)
        for decimals in [*map(str, range(10)), *(f"{value:02d}" for value in range(100))]
    }
)


@pytest.mark.parametrize("begun", ["", "-", "1", "-1", "0", "-0", "12", "1.", "-1.", "1.2", "-0.0", "0.0", "9", "9.9"])
def test_what_a_prefix_leaves_are_the_numbers_that_begin_with_it(begun: str) -> None:
    """Spelled out, character by character: all of them lie within, and both ends of each interval are among them."""
    numbers = np.array([float(number) for number in EVERY if number.startswith(begun)])
    _, intervals = left_by(begun, "", Splits(), SMALL)
    low, high = np.array(intervals).T
    within = (numbers[:, None] >= low - 1e-9) & (numbers[:, None] <= high + 1e-9)
    assert within.any(axis=1).all()
    for end in (*low, *high):
        assert np.abs(numbers - end).min() < 1e-9, (begun, end)


@pytest.mark.parametrize("name", ["qwen3", "llama3"])
@pytest.mark.parametrize("form", [FIXED4, TRIMMED])
def test_what_a_token_leaves_is_what_the_automaton_of_the_lp_leaves(name: str, form: NumberFormat) -> None:
    tokenizer, draws = load_tokenizer(name), random.Random(1)
    ids = number_ids(tokenizer)
    assert ids.comma_minus is not None
    numbers = number_automaton(ids, form, tokenizer.vocab_size)
    columns = sorted([*itertools.chain(*ids.digits), ids.point, ids.comma, ids.comma_minus])
    classes = numbers.automaton.classes[columns].astype(np.int64)
    leaves, asked = Leaves(numbers, ids, columns, form), 0
    for _ in range(60):
        value = draws.choice([draws.uniform(0, 3), draws.uniform(9, 120)])
        content = f"{value:.{draws.randint(1 if form is TRIMMED else 4, 4)}f}"
        node, digits = numbers.starts["x unsigned"], 0
        prefix = ""
        for id_ in tokenizer.encode(content):
            low, high = leaves.of(node, classes, digits)
            column = columns.index(id_)
            kind = int(classes[column])
            prefix += tokenizer.piece(id_)
            if leaves.action[node, kind] == SAME_AXIS:
                known = sorted((a, b) for a, b in zip(low[column], high[column], strict=True) if not np.isnan(a))
                _, mine = left_by(prefix, "", splits_of(tokenizer), form)
                assert np.allclose(np.array(known), np.array(sorted(mine)), atol=1e-9), (prefix, known, mine)
                asked += 1
            digits = digits * 10 ** (len(piece) if (piece := tokenizer.piece(id_)).isdigit() else 0)
            digits += int(piece) if piece.isdigit() else 0
            node = int(numbers.automaton.goto[node, kind])
    assert asked > 150


def test_a_sign_is_open_until_its_token() -> None:
    by_tokens, by_characters = Splits(1, comma_decides=True), Splits()
    assert boxes_of("", "1", by_tokens, FIXED4)[0][0, 0] == -999.9999
    assert left_by("1.0000,", "2", by_tokens, FIXED4) == ([1.0], [(0.0, 999.9999)])
    assert left_by("1.0000,", "2", by_characters, FIXED4) == ([1.0], [(-999.9999, 999.9999)])
    assert left_by("1.0000,-", "2", by_tokens, FIXED4)[1] == [(-999.9999, -0.0)]
    # Ids need not be the tokenizer's own: what follows is never left out.
    assert left_by("1.0000,", "-2", by_tokens, FIXED4)[1] == [(-999.9999, 999.9999)]
    assert left_by("1", "2", Splits(3), FIXED4)[1] == left_by("1", "", by_characters, FIXED4)[1]


# --- which token ------------------------------------------------------------------------------------------------------


def marked(text: str, smiles: str, tokenizer: str = "") -> tuple[str, int, str, int]:
    (mark,) = lost_in(text, smiles, tokenizer)
    return mark.axis, mark.place, mark.piece, mark.digit


def test_the_token_depends_on_the_tokenizer() -> None:
    """The second carbon may be 1.9 Å away at most: 30 and 3 are too far, so Qwen's 3 loses it, and LLaMA's."""
    assert marked("[C]<0.0,0.0,0.0>[C]<3.1,0.0,0.0>", "CC", "qwen3") == ("x", 1, "3", 0)
    # Of LLaMA's 1 the first digit is all; of Qwen's it may be 10, and neither is right but 1 to 1.9.
    assert marked("[C]<0.0,0.0,0.0>[C]<1.5,2.5,0.0>", "CC", "qwen3") == ("y", 2, "2", 0)
    assert marked("[C]<0.0,0.0,0.0>[C]<12.5,0.0,0.0>", "CC", "qwen3") == ("x", 2, "2", 0)
    assert marked("[C]<0.0,0.0,0.0>[C]<12.5,0.0,0.0>", "CC", "llama3") == ("x", 1, "12", 0)
    assert marked("[C]<0.0,0.0,0.0>[C]<0.4,0.2,0.1>", "CC") == ("z", 2, "0", 0)  # the comma is its first


def test_the_sign_of_zero_is_not_lost() -> None:
    """-0 leaves nothing above zero, which is too far from 1.95 with it, and near enough to 1.6 without a sign."""
    far, near = "[C]<0.0,0.0,1.95>[C]<0.0,0.0,-0.9>", "[C]<0.0,0.0,1.6>[C]<0.0,0.0,{}>"
    assert marked(far, "CC", "qwen3") == ("z", 1, ",-", SIGN)
    assert marked(far, "CC") == ("z", 2, "-", SIGN)
    assert marked(near.format("-0.9"), "CC", "qwen3") == ("z", 4, "9", 1)
    assert not lost_in(near.format("0.1"), "CC", "qwen3") and not lost_in(near.format("-0.0"), "CC", "qwen3")
    assert marked(near.format("-0.0").replace("1.6", "2.6"), "CC", "qwen3") == ("z", 1, ",-", SIGN)


def test_sentences() -> None:
    (far,) = lost_in("[C]<0.0,0.0,0.0>[C]<3.1,0.0,0.0>", "CC", "qwen3")
    start = "C, atom 1: lost at the first token of x, `3`: atom 0, to which it is bonded, is then at least 3.00 Å away"
    assert far.words.startswith(start) and far.words.endswith("at most 1.91 is allowed"), far.words
    assert (far.check, far.atoms, far.is_certain, far.is_alone) == ("bond_lengths", (0, 1), True, True)
    (near,) = lost_in("[C]<0.0,0.0,0.0>[C]<0.1,0.0,0.0>", "CC")
    assert "is then at most 1.00 Å away" in near.words and "character of z" in near.words


def test_the_closing_token_is_judged_by_the_verdict() -> None:
    """What is wrong by its last digits alone."""
    text = "[C]<0.0,0.0,0.0>[C]<1.8,0.62,0.1>"
    (mark,) = lost_in(text, "CC", "qwen3")
    assert (mark.digit, mark.axis) in ((WHOLE, "z"), (1, "z"), (2, "y"))
    assert is_wrong(text, "CC")


def test_an_atom_may_be_lost_before_its_block() -> None:
    """Nothing can be bonded to two atoms that are six angstrom apart."""
    text = "[C]<0.0,0.0,0.0>1[C]<1.5,0.0,0.0>[C]<6.0,0.0,0.0>[C]<3.0,0.0,0.0>1"
    lost = lost_in(text, "C1CCC1", "qwen3")
    last = lost[-1]
    assert (last.atom, last.is_before, last.is_ring_closure) == (3, True, True)
    assert "no right place was left when its block began" in last.words and lost[0].atom == 2


# --- the texts that there are -----------------------------------------------------------------------------------------


def test_a_conformer_that_is_right_by_a_symmetry_of_the_graph_has_no_mark() -> None:
    """Meso tartaric acid, mirrored: both centres have the other one's hand."""
    smiles = "O=C(O)[C@H](O)[C@H](O)C(=O)O"
    mol = Chem.Mol(embedded(smiles))
    positions = mol.GetConformer(0).GetPositions()
    mol.GetConformer(0).SetPositions(positions * [1, 1, -1])
    text = encode(mol, conformer=0).text
    assert not is_wrong(text, smiles) and not lost_in(text, smiles)
    chiral = smiles.replace("[C@H](O)[C@H]", "[C@H](O)[C@@H]")
    assert is_wrong(text, chiral) and {mark.check for mark in lost_in(text, chiral)} == {"stereo"}


def test_several_conformers_have_marks_of_their_own() -> None:
    right, wrong = "[C]<0.0,0.0,0.0>[C]<1.5,0.0,0.0>", "[C]<0.0,0.0,0.0>[C]<3.1,0.0,0.0>"
    text = "".join(f"[CONFORMER]{part}[/CONFORMER]" for part in (right, wrong, right, wrong))
    lost = lost_in(text, "CC", "qwen3")
    assert [(mark.conformer, mark.block, mark.atom) for mark in lost] == [(2, 3, 1), (4, 7, 1)]
    assert {text[tokens_of(text).starts[0] :][mark.token] for mark in lost_in(text, "CC")} == {"3"}


@pytest.mark.parametrize("junk", ["1.2amen,0.0,0.0", "1.2,0.0", "", "1.2,0.0,"])
def test_a_block_that_is_not_three_numbers_is_passed_over(junk: str) -> None:
    """With what depends on it: the third atom's bond and the first pair; the angle of the others stays."""
    molecule = parse_smiles("CCC")
    text = f"[C]<0.0,0.0,0.0>[C]<{junk}>[C]<9.0,0.0,0.0>"
    found = lost_blocks(text, "CCC", tokens_of(text), TRIMMED, molecule=molecule)
    assert [(mark.atom, mark.check) for mark in found] == [(2, "bond_angles")]
    near = text.replace("9.0", "2.5")
    assert not lost_blocks(near, "CCC", tokens_of(near), TRIMMED, molecule=molecule)


def test_a_text_that_ends_in_a_block_is_read_up_to_it() -> None:
    molecule = parse_smiles("CCC")
    text = "[CONFORMER][C]<0.0,0.0,0.0>[C]<4.0,0.0,0.0>[C]<9.0,0."
    (mark,) = lost_blocks(text, "CCC", tokens_of(text), TRIMMED, molecule=molecule)
    assert mark.atom == 1
    other = "[CONFORMER][N]<0.0,0.0,0.0>[C]<4.0,0.0,0.0>[C]<9.0,0."
    assert not lost_blocks(other, "CCC", tokens_of(other), TRIMMED, molecule=molecule)


def test_hydrogens_and_fragments_are_as_in_the_verdict() -> None:
    with_hydrogen = "[H]<0.0,0.0,0.0>[C]<9.0,0.0,0.0>([H]<0.0,0.0,0.0>)([H]<0.0,0.0,0.0>)[C]<10.5,0.0,0.0>"
    for text, smiles in ((with_hydrogen, "CC"), (with_hydrogen.replace("10.5", "13.5"), "CC")):
        assert bool(lost_in(text, smiles)) == is_wrong(text, smiles)
    (mark,) = lost_in(with_hydrogen.replace("10.5", "13.5"), "CC")
    assert (mark.atom, mark.atoms) == (4, (1, 4))
    for distance in ("9.0", "0.1"):
        text = f"[O]<0.0,0.0,0.0>.[O]<{distance},0.0,0.0>"
        assert bool(lost_in(text, "O.O")) == is_wrong(text, "O.O") == (distance == "0.1")


def test_decimals_are_no_bins_and_a_flat_ring_may_be_left_out() -> None:
    text = "[C]<0.0,0.0,0.0>[C]<3.1,0.0,0.0>"
    assert lost_blocks(text, "CC", tokens_of(text), BinFormat.equal(-9, 9, 0.1)) == []
    mol = Chem.Mol(embedded("C1CCCCC1"))
    positions = mol.GetConformer(0).GetPositions()
    middle = positions.mean(axis=0)
    normal = np.linalg.svd(positions - middle)[2][-1]
    flat = positions - np.outer((positions - middle) @ normal, normal)
    mol.GetConformer(0).SetPositions(flat)
    text = encode(mol, conformer=0).text
    checks = {mark.check for mark in lost_in(text, "C1CCCCC1")}
    assert "non-aromatic_ring_non-flatness" in checks
    left_out = lost_blocks(text, "C1CCCCC1", tokens_of(text), TRIMMED, settings="group")
    assert "non-aromatic_ring_non-flatness" not in {mark.check for mark in left_out}


def test_tokens_are_those_that_were_written_where_they_spell_the_text() -> None:
    tokenizer = load_tokenizer("llama3")
    text = "[C]<0.0,0.0,0.0>[C]<31.5,0.0,0.0>"
    ids = tokenizer.encode(text)
    end = tokenizer.end_id
    assert tokens_of(text, tokenizer, [*ids, end]).by == "written"
    assert tokens_of(text, tokenizer, [*ids[:-1], None]).by == "retokenised" == tokens_of(text, tokenizer, ids[:3]).by
    assert tokens_of(text).by == "characters"
    one, three = tokenizer.encode("3")[0], tokenizer.encode("1")[0]
    place = ids.index(tokenizer.encode("31")[0])
    split = [*ids[:place], one, three, *ids[place + 1 :]]  # as a model may write it, though no tokenizer would
    (mark,) = lost_blocks(text, "CC", tokens_of(text, tokenizer, split), TRIMMED)
    assert mark.token == place and mark.piece == "3"  # 3, 30 to 39 and 300 to 399: all too far


def test_a_mark_says_how_it_is_named() -> None:
    (mark,) = lost_in("[C]<0.0,0.0,0.0>[C]<1.5,-2.5,0.0>", "CC", "qwen3")
    assert (mark.axis, mark.digit) == ("y", 0)
    unsure = replace(mark, is_certain=False)
    assert unsure.words.endswith("Not certain: the place may have been lost before")
    assert replace(mark, digit=SIGN, place=12).words.startswith("C, atom 1: lost at the 12th token of y")
    assert isinstance(tokens_of("[C]<1.0,1.0,1.0>"), TextTokens)
