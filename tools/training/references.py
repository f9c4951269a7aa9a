"""Writes ``data/references.tsv``, the places that laws of numbers are compared with: of each of the first held-out
molecules one conformer by ETKDG, in the frame in which texts are trained. ``python -m tools.training.references``
"""

from __future__ import annotations

import argparse
from contextlib import suppress
from pathlib import Path

import numpy as np

from engine.chem.conformers import reference_conformers
from engine.chem.molecule_sets import load_run_set
from engine.chem.smiles import parse_smiles
from engine.errors import EmbedError
from engine.paths import DATA
from tools.training.text_frame import UNITS_PER_ANG, anchors_of, text_frame

MOLECULES, SEED = 100, 0


def main() -> None:
    parser = argparse.ArgumentParser(description="Places that laws of numbers are held against.")
    parser.add_argument("--molecules", type=int, default=MOLECULES)
    parser.add_argument("--out", type=Path, default=DATA / "references.tsv", metavar="FILE")
    chosen = parser.parse_args()
    lines = ["SMILES\tplaces in angstrom"]
    for smiles in load_run_set(chosen.molecules):
        molecule = parse_smiles(smiles)
        with suppress(EmbedError):  # one without a conformer is left out
            positions = reference_conformers(molecule, seed=SEED).GetConformer().GetPositions()
            units = np.rint(positions * UNITS_PER_ANG).astype(np.int64)
            placed = text_frame(units, np.array([len(units)]), np.array([anchors_of(molecule.mol)])) / UNITS_PER_ANG
            places = " ".join(",".join(f"{number:.4f}" for number in place) for place in placed.tolist())
            lines.append(f"{molecule.smiles}\t{places}")
    chosen.out.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{chosen.out}: {len(lines) - 1} molecules")


if __name__ == "__main__":
    main()
