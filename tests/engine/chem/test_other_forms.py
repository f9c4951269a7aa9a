"""Legacy text is named, whatever brackets it has, and enriched text never is."""

from __future__ import annotations

import itertools
import re

import pytest
from rdkit import Chem

from engine.chem.molecule_sets import load_molecule_set, load_named
from engine.chem.other_forms import other_form
from engine.chem.smiles import descriptor, split_smiles
from tests.support import sized

ATOM = re.compile(r"\[[^\]]+\]|Cl|Br|[BCNOPSFIbcnops]")
SMILES = [*load_named().values(), *(entry.smiles for entry in load_molecule_set(limit=sized(300, 2_000)))]
HARD = "[NH4+].[Cl-] C[N+](C)(C)CC(=O)[O-] [13CH3]c1c[nH]c2ccccc12 [2H]OC F[B-](F)(F)F C[Si](C)(C)C [H][H]".split()


def legacy(smiles: str) -> str:
    """Each atom with a block behind it, and hydrogens of their own around it."""
    numbers = itertools.count()

    def block(atom: str) -> str:
        xyz = f"<{next(numbers) * 0.7:.4f},-1.25,0.3333>"
        return f"[H{xyz}]" if atom == "[H]" else atom + xyz

    return ATOM.sub(lambda match: block(match[0]), smiles)


def enriched(smiles: str) -> str:
    return ATOM.sub(lambda match: f"[{match[0].strip('[]')}]<0.1,-1.25,0.3333>", smiles)


def with_hydrogens(smiles: str) -> str:
    return str(Chem.MolToSmiles(Chem.AddHs(Chem.MolFromSmiles(smiles))))


def test_legacy_text_is_named_also_with_atoms_in_brackets() -> None:
    """``[nH]<...>`` and ``[C@H]<...>`` once made it damaged enriched text."""
    spelt = [form(smiles) for smiles in (*SMILES, *HARD) for form in (str, with_hydrogens)]
    # Where every atom has brackets in a SMILES, legacy text is enriched text.
    texts = [legacy(smiles) for smiles in spelt if re.sub(r"\[[^\]H][^\]]*\]|\[H[^\]]+\]|[^A-Za-z]", "", smiles)]
    assert sum("]<" in text for text in texts) > 100
    assert [text for text in texts if other_form(text) != "legacy"] == []


def test_enriched_text_is_never_named_so() -> None:
    texts = [enriched(smiles) for smiles in (*SMILES, *HARD)]
    assert [text for text in texts if other_form(text)] == []
    cut = [text[: text.rindex("[")] + text[text.rindex("[") + 1 :] for text in texts]  # ``O]<...>`` ends it
    bare = [text.replace("[C]", "C", 1) for text in texts if text.count("[C]") > 1]  # one atom lost its brackets
    assert [text for text in (*cut, *bare) if other_form(text)] == []


def bins(smiles: str, end: str) -> str:
    """As the group's encoder of October 2026: three bin numbers behind each atom."""
    return ATOM.sub(lambda match: f"[{match[0].strip('[]')}]128130125{end}", smiles)


def codes(smiles: str) -> str:
    """One behind every token, bonds, branches and ring digits too."""
    pieces = [descriptor(piece.text) if piece.is_atom else piece.text for piece in split_smiles(smiles)]
    return "".join(f"{piece}<{37 * (place + 1) % 4096}>" for place, piece in enumerate(pieces))


def test_texts_of_bins_and_of_codes_are_named_also_damaged_ones() -> None:
    many = [smiles for smiles in SMILES if len(ATOM.findall(smiles)) > 3]
    for end in (";", ""):
        texts = [bins(smiles, end) for smiles in SMILES]
        assert [text for text in texts if other_form(text) != "bins"] == []
        assert {other_form(bins(smiles, end).replace("128130125", "12813", 1)) for smiles in many} == {"bins"}
    assert [smiles for smiles in many if other_form(codes(smiles)) != "codes"] == []
    assert {other_form(codes(smiles).replace("<37>", "<37,1>", 1)) for smiles in many} == {"codes"}


@pytest.mark.parametrize(
    "text", ["[C]<1>[C]<2>=[O]<0>", "[C]<12>", "[C]<1.5,2.5,3.5>[O]<123>", "[C]12<1,2,3>", "x<12> y<13>"]
)
def test_blocks_of_which_one_number_is_left_are_no_codes(text: str) -> None:
    assert other_form(text) is None


def test_long_texts_are_read_in_time() -> None:
    """Not in time with the square of their length: with it, these would not end."""
    assert other_form("a<" + 1_000_000 * "1") is None and other_form("a<" + 500_000 * "1\n") is None
    assert other_form("[" + 1_000_000 * "1") is None and other_form("[C]<1" * 200_000) is None
