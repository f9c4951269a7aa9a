"""Enriched text of reference conformers: coordinates that are known, so their drift is known.

Conformers are ETKDGv3's, placed in their principal-axis frame: the frame decides how often x is negative, and it is
the one that the embedded models are trained in.
"""

from __future__ import annotations

import functools

from engine.chem.conformers import reference_conformers
from engine.chem.enriched import encode
from engine.chem.frame import place_in_frame
from engine.chem.smiles import parse_smiles
from engine.records import FIXED4, Molecule, NumberFormat


def reference_texts(
    molecule: Molecule | str, form: NumberFormat = FIXED4, *, conformers: int = 1, seed: int = 0
) -> list[str]:
    """Enriched text of each reference conformer of a molecule."""
    if isinstance(molecule, str):
        molecule = parse_smiles(molecule)
    mol = place_in_frame(reference_conformers(molecule, conformers, seed=seed))
    return [encode(mol, form, conformer=conformer.GetId()).text for conformer in mol.GetConformers()]


@functools.lru_cache(maxsize=5_000)
def reference_text(smiles: str, form: NumberFormat) -> str:
    """Of the first conformer, remembered: to embed it takes ten times as long as to count its tokens."""
    return reference_texts(smiles, form)[0]
