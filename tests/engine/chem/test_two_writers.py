"""The field's two writers, byte for byte, against writers of text alone: cut the decimal form off, drop zeros, join."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable

import pytest
from rdkit import Chem
from rdkit.Chem import rdDistGeom

from engine.chem.enriched import encode
from engine.chem.molecule_sets import load_molecule_set
from engine.records import FIXED4, SHORTEST4
from tests.support import sized

_ATOM = re.compile(r"(\[[^\]]+\])|Cl|Br|[BCNOPSFIbcnops]")


def fixed(value: float) -> str:
    """Four decimals, always: ``0.25`` is ``0.2500``, and nothing is minus zero."""
    digits = f"{value:.20f}" if "e" in repr(value) else repr(value)
    whole, _, decimals = digits.partition(".")
    text = f"{whole}.{decimals[:4].ljust(4, '0')}"
    return text.removeprefix("-") if set(text) <= set("-0.") else text


def trimmed(value: float) -> str:
    """Trailing zeros go, and then a trailing point: ``0``, ``-2``, ``0.25``."""
    text = fixed(value)
    while text.endswith("0"):
        text = text[:-1]
    return text.removesuffix(".")


def written(heavy: Chem.Mol, conformer: int, number: Callable[[float], str]) -> str:
    """The SMILES with each atom in brackets and its numbers behind it."""
    smiles = Chem.MolToSmiles(heavy)
    order = iter(heavy.GetPropsAsDict(includePrivate=True, includeComputed=True)["_smilesAtomOutputOrder"])
    xyz = heavy.GetConformer(conformer)

    def atom(match: re.Match[str]) -> str:
        position = xyz.GetAtomPosition(next(order))
        numbers = ",".join(number(value) for value in (position.x, position.y, position.z))
        return f"{match.group(1) or f'[{match.group()}]'}<{numbers}>"

    return _ATOM.sub(atom, smiles)


@pytest.mark.soak
def test_both_writers_byte_for_byte() -> None:
    integers, parameters = 0, rdDistGeom.ETKDGv3()
    for seed, entry in enumerate(load_molecule_set(sized(12, 200), tag="small")):
        parameters.randomSeed = seed
        mol = Chem.AddHs(Chem.MolFromSmiles(entry.smiles))
        ids = list(rdDistGeom.EmbedMultipleConfs(mol, 10, parameters))
        heavy = Chem.RemoveHs(mol)  # as ETKDG places it: no frame of ours
        for conformer, (form, number) in itertools.product(ids, ((FIXED4, fixed), (SHORTEST4, trimmed))):
            encoded = encode(heavy, form, conformer=conformer)
            assert encoded.text == written(heavy, conformer, number)
            integers += any("." not in number for triple in encoded.numbers for number in triple)
    assert integers >= sized(0, 5)  # 30 of 3,480 conformers of ETKDG have one
