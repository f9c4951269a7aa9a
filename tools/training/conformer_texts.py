"""One molecule of the plan to its training texts: conformers in the principal-axis frame, and the ways to write them.

A conformer's first text is canonical, further ones write the same atoms in random orders. The sources are flat: a share
of the molecules is written as one drawn isomer, every centre and double bond specified, the first that embeds. A chiral
conformer gives its mirror image too, as texts of their own. Every text is decoded again, compared, and its stereo
judged in space before it is used. Chance is a hash of the molecule and the seed.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rdkit import Chem

from engine.chem.conformers import reference_conformers
from engine.chem.enriched import Enriched, Numbers, decode, encode, enriched_text, format_number
from engine.chem.frame import place_in_frame
from engine.chem.smiles import enriched_descriptors, graph_key, molecule_of, parse_smiles, same_graph
from engine.chem.stereo import judge_stereo
from engine.comparing.array_files import Arrays, Meta
from engine.errors import DriftscopeError
from engine.records import TRIMMED4
from tools.training.molecules import EMBED_SECONDS, draw, skeleton, skeleton_is_held_out, stereoisomers

UNITS_PER_ANG = 10_000
_CENTRE = re.compile("@+")


class RefusedError(DriftscopeError):
    """A molecule that the corpus leaves out; the manifest counts the reasons."""


@dataclass(frozen=True, slots=True)
class TextRecipe:
    seed: int = 0
    conformers: int = 1
    random_orders: int = 0
    stereo_share: float = 0.9
    held_out: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class ConformerTexts:
    xyz: NDArray[np.int32]  # [atoms, 3]
    texts: tuple[tuple[str, tuple[int, ...]], ...]  # SMILES, and for each atom of it the row in xyz; canonical first


def texts_of(smiles: str, recipe: TextRecipe) -> list[ConformerTexts]:
    """The conformers of one molecule, or the ``DriftscopeError`` that says why it has none.

    Tried are drawn isomers where stereo is to be stated, then the molecule as it is.
    """
    flat = parse_smiles(smiles)
    tried = [flat]
    if draw("stereo", str(recipe.seed), flat.smiles) / 2**64 < recipe.stereo_share:
        isomers = stereoisomers(flat.mol, draw("isomer", str(recipe.seed), flat.smiles))
        tried = [*map(molecule_of, isomers), flat]
    refusals = []
    for molecule in tried:
        try:
            seed = draw("embed", str(recipe.seed), molecule.smiles) % 2**31
            embedded = reference_conformers(molecule, recipe.conformers, seed=seed, max_seconds=EMBED_SECONDS)
            alone = [Chem.Mol(embedded, False, conformer.GetId()) for conformer in embedded.GetConformers()]
            images = (image for mol in alone for image in (mol, _mirrored(mol)) if image is not None)
            return [_written(place_in_frame(image), recipe) for image in images]
        except DriftscopeError as error:  # not every isomer exists: norbornane's bridgeheads are tied
            refusals.append(error)
    raise refusals[0]


def make_conformers(payload: dict[str, Any]) -> tuple[Meta, Arrays]:
    """A job: the texts of a list of molecules, as arrays, with the refusals counted by their error's name."""
    recipe = TextRecipe(**payload["recipe"])
    made: list[ConformerTexts] = []
    refusals: Counter[str] = Counter()
    for smiles in payload["smiles"]:
        try:
            made += texts_of(smiles, recipe)
        except DriftscopeError as error:
            refusals[type(error).__name__] += 1
    sizes = Counter(len(conformer.xyz) for conformer in made)
    centres = Counter(len(_CENTRE.findall(smiles)) for conformer in made for smiles, _ in conformer.texts)
    meta = {
        "molecules": len(payload["smiles"]),
        "conformers": len(made),
        "texts": sum(len(conformer.texts) for conformer in made),
        "atoms": sum(len(conformer.xyz) for conformer in made),
        "sizes": {str(size): count for size, count in sorted(sizes.items())},
        "centres": {str(number): count for number, count in sorted(centres.items())},
        "refusals": dict(sorted(refusals.items())),
    }
    return meta, as_arrays(made)


def as_arrays(made: Sequence[ConformerTexts]) -> Arrays:
    texts = [text for conformer in made for text in conformer.texts]
    lines = "\n".join(smiles for smiles, _ in texts).encode()
    return {
        "atoms": np.array([len(conformer.xyz) for conformer in made], dtype=np.uint16),  # [conformers]
        "texts": np.array([len(conformer.texts) for conformer in made], dtype=np.uint16),  # [conformers]
        "xyz": np.concatenate(
            [conformer.xyz for conformer in made] or [np.zeros((0, 3), dtype=np.int32)]
        ),  # [atoms, 3]
        "smiles": np.frombuffer(lines, dtype=np.uint8),  # one a text, a line each
        "order": np.array([row for _, order in texts for row in order], dtype=np.uint16),  # one an atom of each text
    }


def from_arrays(arrays: Arrays) -> list[ConformerTexts]:
    lines = iter(arrays["smiles"].tobytes().decode().split("\n"))
    order = arrays["order"].tolist()
    made, row, used = [], 0, 0
    for atoms, texts in zip(arrays["atoms"].tolist(), arrays["texts"].tolist(), strict=True):
        of_conformer = [(next(lines), tuple(order[used + k * atoms : used + (k + 1) * atoms])) for k in range(texts)]
        made.append(ConformerTexts(arrays["xyz"][row : row + atoms], tuple(of_conformer)))
        row += atoms
        used += texts * atoms
    return made


def numbers_of(xyz: NDArray[np.int32]) -> Numbers:
    """The coordinates as the enriched text writes them: trailing zeros dropped, one decimal kept."""
    rows = ((format_number(unit / UNITS_PER_ANG, TRIMMED4) for unit in units) for units in xyz.tolist())
    return tuple((x, y, z) for x, y, z in rows)


def answer_of(conformer: ConformerTexts, text: int) -> str:
    smiles, order = conformer.texts[text]
    return enriched_text(smiles, enriched_descriptors(smiles), numbers_of(conformer.xyz[list(order)]))


def _mirrored(mol: Chem.Mol) -> Chem.Mol | None:
    image = Chem.Mol(mol)
    for atom in image.GetAtoms():
        atom.InvertChirality()
    conformer: Any = image.GetConformer()
    conformer.SetPositions(np.ascontiguousarray(conformer.GetPositions() * (-1.0, 1.0, 1.0)))
    return None if Chem.MolToSmiles(image) == Chem.MolToSmiles(mol) else image


def _written(mol: Chem.Mol, recipe: TextRecipe) -> ConformerTexts:
    enriched = encode(mol, TRIMMED4)
    if parse_smiles(enriched.smiles).smiles != enriched.smiles:
        raise RefusedError("the canonical form does not settle")
    if skeleton_is_held_out(skeleton(mol)) != recipe.held_out:
        raise RefusedError("the molecule belongs to the other side of the split")
    units = [[round(Decimal(number) * UNITS_PER_ANG) for number in triple] for triple in enriched.numbers]
    xyz = np.array(units, dtype=np.int32)
    first = decode(enriched.text)
    if not same_graph(first.mol, mol) or numbers_of(xyz) != enriched.numbers:
        raise RefusedError("the text does not decode to the molecule that it was made of")
    _check_stereo(first.mol)
    texts = {enriched.smiles: tuple(range(len(xyz)))}
    texts.update(_random_orders(first.mol, enriched, recipe))
    made = ConformerTexts(xyz, tuple(texts.items()))
    key = graph_key(first.mol)
    for text in range(1, len(made.texts)):
        decoded = decode(answer_of(made, text)).mol
        if graph_key(decoded) != key and not same_graph(decoded, first.mol):
            raise RefusedError("a random order of the atoms does not decode to the same graph")
        _check_stereo(decoded)
    return made


def _check_stereo(decoded: Chem.Mol) -> None:
    wrong = judge_stereo(decoded, decoded).wrong
    if wrong:
        raise RefusedError(f"the conformer has other stereo than its text: atom {wrong[0].atoms[0]} {wrong[0].word}")


def _random_orders(mol: Chem.Mol, enriched: Enriched, recipe: TextRecipe) -> dict[str, tuple[int, ...]]:
    """SMILES of the molecule (atoms in the order of ``xyz``) that walk it from other atoms along other branches."""
    rng = random.Random(draw("orders", str(recipe.seed), enriched.text))
    orders = {}
    for _ in range(recipe.random_orders):
        order = rng.sample(range(mol.GetNumAtoms()), mol.GetNumAtoms())
        shuffled = Chem.RenumberAtoms(mol, order)
        text = Chem.MolToSmiles(shuffled, canonical=False)
        walked = shuffled.GetPropsAsDict(True, True)["_smilesAtomOutputOrder"]
        orders[text] = tuple(order[index] for index in walked)
    orders.pop(enriched.smiles, None)
    return orders
