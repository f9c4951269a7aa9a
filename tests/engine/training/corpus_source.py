"""A stand-in for MOSES: flat molecules of the shipped set, in a file like MOSES's."""

from __future__ import annotations

import gzip
from pathlib import Path

from engine.chem.molecule_sets import load_molecule_set


def write_source(path: Path) -> list[str]:
    """The SMILES written: drug-like ones, all of them held out as whole molecules, and small common ones."""
    drugs = [entry.smiles for entry in load_molecule_set(40, tag="moses")]
    small = [
        entry.smiles
        for entry in load_molecule_set(tag="written")
        if "small" in entry.tags and not {"charged", "parts", "dative", "isotope", "stereo", "hydrogen"} & {*entry.tags}
    ]
    content = "".join(f"{smiles},train\n" for smiles in [*drugs, *small[:80]])
    path.write_bytes(gzip.compress(f"SMILES,SPLIT\n{content}".encode(), mtime=0))
    return [*drugs, *small[:80]]
