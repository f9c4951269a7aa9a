"""What a number format costs and loses: tokens per atom, drift under the placeholder that fits best, RMSD as written.

``python -m tools.bench.number_formats`` writes reference conformers (ETKDG, seed 0, principal axes) of the first
molecules of ``data/molecules.tsv`` in each format. RMSD is between a conformer and its own text read back.
"""

from __future__ import annotations

import argparse

import numpy as np
from rdkit import Chem

from engine.chem.conformers import reference_conformers
from engine.chem.enriched import as_decimals, decode, encode
from engine.chem.frame import place_in_frame
from engine.chem.molecule_sets import load_molecule_set
from engine.chem.rmsd import best_rmsd
from engine.chem.smiles import parse_smiles
from engine.cli.output import table
from engine.errors import ConformerError, EmbedError
from engine.records import FIXED4, SHORTEST4, BinFormat, NumberFormat
from engine.text.drift import drift_summary
from engine.text.placeholder import fit_placeholder
from engine.text.tokenizers import BUILT_IN, load_tokenizer

FORMS = (FIXED4, SHORTEST4, NumberFormat(2, 2), BinFormat(), BinFormat(bin_ang=0.05, range_ang=9.0))
COLUMNS = ("format", "tokenizer", "tokens per atom", "placeholder", "exact", "junk-prone", "cut")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--molecules", type=int, default=300)
    mols = conformers(parser.parse_args().molecules)
    rows, losses = [], []
    for form in FORMS:
        texts, off, out = written(mols, form)
        losses.append((form.words, f"{form.floor_ang:.4f}", f"{np.mean(off):.4f}", f"{max(off):.4f}", out))
        for name in BUILT_IN:
            tokenizer = load_tokenizer(name)
            summary = drift_summary(texts, tokenizer, fit_placeholder(texts, tokenizer).placeholder)
            shares = (f"{summary.share(count):.1%}" for count in (summary.exact, summary.junk_prone, summary.cut))
            rows.append((form.words, name, f"{summary.tokens_per_atom:.2f}", summary.placeholder, *shares))
    print(table(COLUMNS, rows))
    print(table(("format", "floor, Å", "mean RMSD, Å", "largest", f"out of range, of {len(mols):,}"), losses))


def conformers(count: int) -> list[Chem.Mol]:
    """Those of the molecules that can be embedded."""
    mols = []
    for entry in load_molecule_set(count):
        try:
            mols.append(place_in_frame(reference_conformers(parse_smiles(entry.smiles), 1, seed=0)))
        except EmbedError:
            continue
    return mols


def written(mols: list[Chem.Mol], form: NumberFormat) -> tuple[list[str], list[float], int]:
    """The texts, how far each is from its conformer, and how many conformers do not fit the format."""
    texts, off = [], []
    for mol in mols:
        try:
            text = encode(mol, form).text
        except ConformerError:
            continue
        texts.append(text)
        off.append(best_rmsd(decode(as_decimals(text, form)).mol, mol).value_ang)
    return texts, off, len(mols) - len(texts)


if __name__ == "__main__":
    main()
