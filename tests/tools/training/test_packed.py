"""The packed corpus against the real tokenizers: the same ids for any molecule, number and number of decimals."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.chem.enriched import enriched_text, fill_blocks, format_number
from engine.chem.molecule_sets import load_molecule_set
from engine.chem.smiles import enriched_descriptors, split_smiles
from engine.records import GROUP_UNIFORM, NumberFormat
from engine.text.tokenizer_build import QWEN_BINS, built_in
from engine.text.tokenizers import load_tokenizer, number_ids
from tests.support import sized
from tools.training.conformer_texts import ConformerTexts
from tools.training.corpus import read_corpus
from tools.training.packed import BinIds, PackedCorpus, PackedPart, packed_xyz, unpacked_xyz
from tools.training.packing import full_text, part_arrays, stereo_atoms
from tools.training.text_frame import text_frame

TOKENIZERS = ("qwen3", "llama3")
ODD = ("[Ca++].[O-][N+](=O)[O-]", "[NH3+]C[Fe++]C%12CC%12", "[13CH4]", "[H][H]", "F/C=C\\F", "[2H]O[3H]", "C")
EDGES = (0, 1, -1, 9, -9, 10, -10, 99, 100, -100, 999, 1000, -1000, 9999, 10_000, -10_000, 99_999, 100_000, -123_456)


def conformer(smiles: str, units: list[int]) -> ConformerTexts:
    """Any numbers at all: what stands in a block is no business of chemistry here."""
    xyz = np.array(units, dtype=np.int32).reshape(-1, 3)
    return ConformerTexts(xyz, ((smiles, tuple(range(len(xyz)))),))


@pytest.fixture(scope="module")
def drawn() -> list[ConformerTexts]:
    rng = random.Random(0)
    made = []
    for smiles in [*ODD, *(entry.smiles for entry in load_molecule_set(sized(60, 500)))]:
        atoms = sum(piece.is_atom for piece in split_smiles(smiles))
        widest = rng.choice([30, 3_000, 60_000, 160_000, 3_000_000])
        units = [rng.choice([rng.randint(-widest, widest), *EDGES[: rng.randint(0, 19)]]) for _ in range(3 * atoms)]
        made.append(conformer(smiles, units))
    return made


def reader(part: list[ConformerTexts], name: str, *, keep_zeros: bool = False) -> PackedPart:
    tokenizer = load_tokenizer(name)
    arrays, _ = part_arrays(part, [tokenizer])
    end = tokenizer.end_id
    assert end is not None
    return PackedPart(arrays, "t0", number_ids(tokenizer), end, keep_zeros=keep_zeros)


def written(entry: ConformerTexts, text: int, decimals: int, least: int = 1) -> str:
    """The whole text, its numbers written by the codec."""
    smiles, order = entry.texts[text]
    form = NumberFormat(least, decimals)
    rows = [tuple(format_number(unit / 10_000, form) for unit in entry.xyz[row].tolist()) for row in order]
    answer = enriched_text(smiles, enriched_descriptors(smiles), tuple((x, y, z) for x, y, z in rows))
    return f"[SMILES]{smiles}[/SMILES][CONFORMER]{answer}[/CONFORMER]"


def expected(part: list[ConformerTexts], name: str, decimals: int, least: int = 1) -> list[list[int]]:
    tokenizer = load_tokenizer(name)
    texts = [written(entry, text, decimals, least) for entry in part for text in range(len(entry.texts))]
    return [[*ids, tokenizer.end_id or 0] for ids in tokenizer.encode_batch(texts)]


@pytest.mark.soak
@pytest.mark.parametrize("name", TOKENIZERS)
@pytest.mark.parametrize("decimals", [1, 2, 3, 4])
def test_any_molecule_and_number_gives_the_tokenizers_ids(
    drawn: list[ConformerTexts], name: str, decimals: int
) -> None:
    batch = reader(drawn, name).tokens(decimals=decimals)
    ids = [batch.text(row)[0].tolist() for row in range(len(drawn))]
    assert ids == expected(drawn, name, decimals)


@pytest.mark.soak
def test_texts_of_bins_give_the_tokenizers_ids(drawn: list[ConformerTexts]) -> None:
    """Numbers beyond the range are those of its tails, and such texts are known: a model should not learn them."""
    tokenizer, by_hugging_face = load_tokenizer(QWEN_BINS), built_in(QWEN_BINS)
    numbers = BinIds(
        tuple(tokenizer.id_of(f"{number:03d}") or 0 for number in range(258)),
        GROUP_UNIFORM.low_ang,
        GROUP_UNIFORM.high_ang,
    )
    arrays, _ = part_arrays(drawn, [tokenizer])
    part = PackedPart(arrays, "t0", numbers, tokenizer.end_id or 0)
    batch = part.tokens()
    for row, entry in enumerate(drawn):
        ((smiles, _),) = entry.texts
        triples = [tuple(map(GROUP_UNIFORM.number_of, xyz)) for xyz in (entry.xyz / 10_000).tolist()]
        contents = ["".join(triple) for triple in triples]
        answer = fill_blocks(smiles, enriched_descriptors(smiles), contents, GROUP_UNIFORM)
        text = f"[SMILES]{smiles}[/SMILES][CONFORMER]{answer}[/CONFORMER]"
        encoded = by_hugging_face.encode(text, add_special_tokens=False).ids
        assert batch.text(row)[0].tolist() == [*encoded, tokenizer.end_id]
        assert part.is_within[row] == ({"000", "257"}.isdisjoint(number for triple in triples for number in triple))


def ids_of(corpus: PackedCorpus, decimals: int) -> list[list[int]]:
    """Every text, in order."""
    batches = [part.tokens(decimals=decimals) for part in corpus.parts]
    return [batch.text(row)[0].tolist() for batch in batches for row in range(len(batch.starts) - 1)]


@pytest.mark.soak
@pytest.mark.parametrize("name", TOKENIZERS)
def test_a_packed_corpus_gives_the_tokenizers_ids(small_packed: Path, name: str) -> None:
    made = list(read_corpus(small_packed.parent / "corpus"))
    read = PackedCorpus(small_packed, name)
    assert len(read.parts) > 1 and len(read) == sum(len(entry.texts) for entry in made)
    for decimals in (1, 2, 3, 4):
        assert ids_of(read, decimals) == expected(made, name, decimals)
    texts = [(entry, text) for entry in made for text in range(len(entry.texts))]
    assert [full_text(*pair) for pair in texts] == [written(*pair, 4) for pair in texts]
    canonical = np.concatenate([part.is_canonical for part in read.parts])
    assert canonical.tolist() == [text == 0 for _, text in texts]
    atoms = np.concatenate([part.atoms for part in read.parts])
    assert atoms.tolist() == [len(entry.xyz) for entry, _ in texts]


def test_coordinates_come_back_whatever_their_size() -> None:
    rng = np.random.default_rng(0)
    atoms = rng.integers(1, 40, 200)
    for widest in (1, 40_000, 160_000, 4_000_000):
        xyz = rng.integers(-widest, widest, (int(atoms.sum()), 3)).astype(np.int32)
        assert (unpacked_xyz(packed_xyz(xyz, atoms), atoms) == xyz).all()
    with pytest.raises(ValueError, match="838 angstrom"):
        packed_xyz(np.array([[1 << 23, 0, 0]], dtype=np.int32), np.array([1]))


@pytest.mark.parametrize(
    ("smiles", "deciding"),
    [
        ("CCO", []),
        ("C[C@H](N)O", [3]),
        ("C[C@](N)(O)F", [3]),  # the fifth atom goes where the four others leave room
        ("N[C@@H]1CCO[C@@H]1F", [5, 6]),  # the first centre's ring is closed by atom 5
        ("F/C=C/Cl", [3]),
        ("[O-][S@@+](C)CC", [3]),
    ],
)
def test_the_fourth_atom_written_of_a_site_decides_it(smiles: str, deciding: list[int]) -> None:
    assert np.flatnonzero(stereo_atoms(smiles).deciding).tolist() == deciding


SIZES = np.array([1, 2, 5, 9, 3])
RANDOM = np.random.Generator(np.random.PCG64(3))


def points() -> NDArray[np.int64]:
    xyz = RANDOM.integers(-60_000, 60_000, (SIZES.sum(), 3))
    xyz[-3:] = [[0, 0, 0], [10_000, 0, 0], [-20_000, 0, 0]]  # a straight molecule
    return xyz


def test_a_turned_molecule_has_the_same_numbers_and_a_mirrored_one_other_z() -> None:
    xyz = points()
    placed = text_frame(xyz, SIZES)
    axes, _ = np.linalg.qr(RANDOM.standard_normal((3, 3)))
    turned = np.rint(xyz @ (axes * np.linalg.det(axes))).astype(np.int64) + 777
    np.testing.assert_allclose(text_frame(turned, SIZES), placed, atol=20)  # of 1e-4 angstrom
    np.testing.assert_array_equal(text_frame(xyz * np.array([1, -1, 1]), SIZES), placed * [1, 1, -1])
