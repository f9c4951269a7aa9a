"""A stand-in for MOSES: flat molecules of the shipped set, in a file like MOSES's."""

from __future__ import annotations

import gzip
from pathlib import Path

from engine.chem.molecule_sets import load_molecule_set
from tools.training import packing
from tools.training.conformer_texts import TextRecipe
from tools.training.corpus import MoleculePlan, Settings, build_corpus
from tools.training.molecules import read_csv


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


def write_packed(folder: Path, molecules: int = 40) -> Path:
    """A small corpus, packed in several parts, made by the same code as the large one."""
    write_source(folder / "source.csv.gz")
    settings = Settings(MoleculePlan(molecules, 4, 12), TextRecipe(conformers=2, random_orders=2))
    build_corpus(folder / "corpus", settings, read_csv(folder / "source.csv.gz"))
    words = ["--corpus", str(folder / "corpus"), "--out", str(folder / "packed"), "--part-texts", "50"]
    assert packing.main(words) == 0
    return folder / "packed"
