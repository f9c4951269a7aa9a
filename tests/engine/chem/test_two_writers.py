"""The field's two writers, byte for byte, against writers of text alone: cut the decimal form off, drop zeros, join."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from rdkit import Chem
from rdkit.Chem import rdDistGeom

from engine.chem.enriched import decode, encode
from engine.chem.molecule_sets import load_molecule_set
from engine.records import FIXED4, SHORTEST4
from tests.support import sized

CONFORMERS = 10
"""Of each molecule."""
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


def conformers(molecules: int) -> Iterator[tuple[Chem.Mol, int]]:
    """Without their hydrogens, as ETKDG places them: no frame of ours."""
    for seed, entry in enumerate(load_molecule_set(molecules, tag="small")):
        parameters = rdDistGeom.ETKDGv3()
        parameters.randomSeed = seed
        mol = Chem.AddHs(Chem.MolFromSmiles(entry.smiles))
        ids = list(rdDistGeom.EmbedMultipleConfs(mol, CONFORMERS, parameters))
        heavy = Chem.RemoveHs(mol)
        yield from ((heavy, conformer) for conformer in ids)


@pytest.mark.soak
def test_both_writers_byte_for_byte() -> None:
    seen, integers = 0, 0
    for heavy, conformer in conformers(sized(12, 420)):
        for form, number in ((FIXED4, fixed), (SHORTEST4, trimmed)):
            encoded = encode(heavy, form, conformer=conformer)
            assert encoded.text == written(heavy, conformer, number)
            assert decode(encoded.text).numbers == encoded.numbers
        integers += any("." not in number for triple in encoded.numbers for number in triple)
        seen += 1
    assert seen >= sized(100, 4_000)
    assert integers >= sized(0, 20)  # 30 of 3,480 conformers of ETKDG have one
