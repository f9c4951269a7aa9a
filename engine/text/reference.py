"""Enriched text of reference conformers: coordinates that are known, so their drift is known.

Conformers are ETKDGv3's, placed in their principal-axis frame: the frame decides how often x is negative, and it is
the one that the embedded models are trained in.
"""

from __future__ import annotations

import functools

from engine.chem.conformers import reference_conformers
from engine.chem.enriched import as_decimals, decode, encode
from engine.chem.file_forms import form_by_name
from engine.chem.frame import place_in_frame
from engine.chem.smiles import parse_smiles
from engine.chem.structure_files import read_molecules
from engine.errors import EnrichedError, FileFormatError, shown, unquoted
from engine.records import FIXED4, Molecule, NumberFormat
from engine.text.check import answer_of
from engine.user_files import path_of, read_text


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


def texts_of_file(path: str, form: NumberFormat) -> list[str]:
    """Of an SDF file's conformers, else of a file with a molecule's enriched text in each line (``-``: of standard
    input)."""
    if path != "-" and form_by_name(path_of(path)) == "sdf":
        return [encode(mol, form).text for mol in read_molecules(path_of(path))]
    texts: list[str] = []
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        texts.append(answer_of(line))
        try:
            decode(as_decimals(texts[-1], form))
        except EnrichedError as error:
            why = str(error) if path == "-" else unquoted(error)  # perhaps another kind of file
            raise FileFormatError(f"line {number} of {shown(path)}: {why}", "Write one molecule per line") from error
    if not texts:
        raise FileFormatError(f"{shown(path)} has no enriched text", "Write one molecule per line")
    return texts
