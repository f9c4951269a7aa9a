"""The token that lost a molecule in texts of bins: at the atoms where its decimals lost it, and every place asked."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from engine.chem.enriched import as_decimals, decode, encode
from engine.chem.geometry import SettingsName
from engine.inspection.bin_places import box_of, place_of, values_of
from engine.inspection.lost_token import lost_blocks, molecule_of_text, tokens_of
from engine.records import BinFormat
from engine.text.blocks import find_blocks
from engine.text.placeholder import reference_texts
from engine.text.tokenizers import load_tokenizer
from tests.support import sized

UNIFORM = BinFormat(edges=tuple(np.linspace(-10.5748, 10.5102, 257).tolist()), mode="uniform")
COARSE = BinFormat.equal(-9, 9, 0.3)  # 60 bins
OLD = BinFormat.in_brackets(0.05, 9)
SMILES = ("CC=O", "C[C@H](N)C(=O)O", "c1ccoc1", "F/C=C/F", "CC(=O)Oc1ccccc1C(=O)O")
SETTINGS: SettingsName = "mol_fast"


def text_of(smiles: str, form: BinFormat, off_ang: float, draws: np.random.Generator) -> str:
    """A reference conformer, moved atom by atom."""
    mol = decode(reference_texts(smiles)[0]).mol
    places = mol.GetConformer().GetPositions()
    mol.GetConformer().SetPositions(places + draws.normal(0, off_ang, places.shape))
    return encode(mol, form).text


@pytest.mark.soak
def test_marks_are_where_those_of_its_decimals_are() -> None:
    draws, lost, texts = np.random.default_rng(5), 0, sized(36, 500)
    for number in range(texts):
        form = (UNIFORM, OLD, COARSE)[number % 3]
        smiles = SMILES[number % len(SMILES)]
        text = text_of(smiles, form, (0.05, 0.25)[number // 3 % 2], draws)
        tokenizer = (None, load_tokenizer("qwen3"), load_tokenizer("llama3"))[number // 2 % 3]
        decimals = as_decimals(text, form)
        marks = lost_blocks(text, smiles, tokens_of(text, tokenizer), form)
        others = lost_blocks(decimals, smiles, tokens_of(decimals))
        assert [mark.atom for mark in marks] == [other.atom for other in others], text
        for mark in marks:
            assert mark.is_before or (text.find(mark.piece) >= 0 and mark.digit > 100)
        lost += bool(marks)
    assert 0.2 * texts < lost < 0.98 * texts


@pytest.mark.soak
@pytest.mark.parametrize("name", ["", "qwen3", "llama3"])
def test_behind_the_token_no_place_is_right_and_before_it_one_was(name: str) -> None:
    """Of all places on the grid, each asked for itself."""
    draws, asked = np.random.default_rng(1), 0
    tokenizer = load_tokenizer(name) if name else None
    for number in range(sized(20, 120)):
        smiles = SMILES[number % 4]
        text = text_of(smiles, COARSE, 0.25, draws)
        tokens = tokens_of(text, tokenizer)
        positions = np.array(decode(as_decimals(text, COARSE)).coordinates)
        molecule = molecule_of_text(smiles, SETTINGS)
        for mark in lost_blocks(text, smiles, tokens, COARSE):
            if mark.check == "stereo" or mark.is_centre:
                continue
            block = find_blocks(text, COARSE)[mark.block]
            checks = molecule.checks(mark.atom, positions, np.ones(len(positions), dtype=bool), [])
            end = min(int(tokens.ends[mark.token]), block.end - 1)
            prefix = "" if mark.is_before else text[block.content_start : end]
            assert not checks.is_right(all_places(prefix)).any()
            if mark.is_certain:
                begun = text[block.content_start : max(int(tokens.starts[mark.token]), block.content_start)]
                assert checks.is_right(all_places(begun)).any()
            asked += 1
    assert asked > 5


def all_places(prefix: str) -> np.ndarray:  # [N, 3]
    """Those of all numbers that begin so."""
    numbers = [f"{number:03d}" for number in range(COARSE.bins + 1)]
    axes = [[n for n in numbers if n.startswith(prefix[3 * axis : 3 * axis + 3])] for axis in range(3)]
    values = [[COARSE.value_ang(number) for number in axis] for axis in axes]
    return np.array(list(itertools.product(*values)), dtype=np.float64)


@pytest.mark.parametrize("form", [UNIFORM, COARSE, OLD])
def test_a_prefix_leaves_the_numbers_that_begin_so(form: BinFormat) -> None:
    first, values = values_of(form)
    assert first == min((*form.tails, 1)) and (np.diff(values) > 0).all()
    written = form.comma.join(["060", "031", "029"])
    for length in range(len(written) + 1):
        low, high = box_of(written[:length], form)
        for axis in range(3):
            begun = written[:length].replace(",", "")[3 * axis : 3 * axis + 3]
            known = [form.value_ang(f"{number:03d}") for number in range(first, first + len(values))]
            left = [v for number, v in enumerate(known, first) if f"{number:03d}".startswith(begun) and v is not None]
            assert (low[0, axis], high[0, axis]) == (min(left), max(left))
    assert place_of(written, form) == [form.value_ang(number) for number in ("060", "031", "029")]
    assert place_of(written[:-1], form) is None
