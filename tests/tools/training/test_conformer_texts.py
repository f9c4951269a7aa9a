"""From a molecule to its training texts: they decode, orders agree, stereo is that of the conformer."""

from __future__ import annotations

import numpy as np
import pytest
from rdkit import Chem

from engine.chem.enriched import decode
from engine.chem.molecule_sets import load_molecule_set
from engine.chem.smiles import parse_smiles, same_graph
from engine.chem.stereo import Site, StereoVerdict, judge_stereo
from engine.errors import EmbedError
from tests.support import sized
from tools.training import conformer_texts
from tools.training.conformer_texts import (
    ConformerTexts,
    RefusedError,
    TextRecipe,
    answer_of,
    as_arrays,
    from_arrays,
    make_conformers,
    texts_of,
)
from tools.training.molecules import is_held_out

FLAT = "CC(O)C=CC(F)c1ccc(Cl)nc1"
SMILES = [entry.smiles for entry in load_molecule_set(sized(8, 60), tag="fragment")]


def made_of(smiles: str, **options: object) -> list[ConformerTexts]:
    return texts_of(smiles, TextRecipe(held_out=is_held_out(smiles), **options))  # type: ignore[arg-type]


@pytest.mark.soak
@pytest.mark.parametrize("smiles", SMILES)
def test_every_text_decodes_to_the_same_graph_and_the_same_places(smiles: str) -> None:
    for made in made_of(smiles, conformers=2, random_orders=3):
        first = decode(answer_of(made, 0))
        assert parse_smiles(first.smiles).smiles == first.smiles
        for text, (written, order) in enumerate(made.texts):
            decoded = decode(answer_of(made, text))
            assert decoded.smiles == written
            assert same_graph(decoded.mol, first.mol)
            assert sorted(order) == list(range(len(made.xyz)))
            assert decoded.numbers == tuple(first.numbers[row] for row in order)


def test_stereo_is_stated_or_left_out() -> None:
    stated = {made.texts[0][0] for seed in range(6) for made in made_of(FLAT, seed=seed, stereo_share=1.0)}
    assert len(stated) > 1
    assert all("@" in smiles and "/" in smiles for smiles in stated)
    (flat,) = made_of(FLAT, stereo_share=0.0)
    assert flat.texts[0][0] == parse_smiles(FLAT).smiles


def test_a_chiral_conformer_comes_with_its_mirror_image() -> None:
    made = made_of(FLAT, conformers=2, random_orders=1, stereo_share=1.0)
    assert len(made) == 4
    assert len({entry.texts[0][0] for entry in made}) == 2
    for original, image in (made[:2], made[2:]):
        assert Chem.CanonSmiles(_other_hand(original.texts[0][0])) == image.texts[0][0]
        assert (np.linalg.norm(original.xyz, axis=1).round(-2) == np.linalg.norm(image.xyz, axis=1).round(-2)).all()
        assert all(verdict_of(conformer, text).right for conformer in (original, image) for text in (0, 1))


def test_a_conformer_of_other_stereo_than_its_text_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = StereoVerdict((Site((1,), -0.7, "mirrored"),), complete=True)
    monkeypatch.setattr(conformer_texts, "judge_stereo", lambda expected, answer: verdict)
    with pytest.raises(RefusedError, match="other stereo than its text: atom 1 mirrored"):
        made_of(FLAT)


def verdict_of(made: ConformerTexts, text: int) -> StereoVerdict:
    return judge_stereo(parse_smiles(made.texts[text][0]).mol, decode(answer_of(made, text)).mol)


def _other_hand(smiles: str) -> str:
    return smiles.replace("@@", "!").replace("@", "@@").replace("!", "@")


def test_refusals_are_counted_and_arrays_give_all_back() -> None:
    job = {"recipe": {"held_out": is_held_out(FLAT), "random_orders": 2}, "smiles": [FLAT, "C1#CC1", "no molecule"]}
    meta, arrays = make_conformers(job)
    assert meta["molecules"] == 3 and meta["conformers"] == 2
    assert meta["centres"] == {"2": 6}
    assert meta["refusals"] == {EmbedError.__name__: 1, "SmilesError": 1}
    for restored, direct in zip(from_arrays(arrays), made_of(FLAT, random_orders=2), strict=True):
        assert restored.texts == direct.texts and (restored.xyz == direct.xyz).all()
    assert from_arrays(as_arrays([])) == []
