"""Builds ``data/held_out.tsv``, 200 molecules that no embedded model was trained on and on which each is measured, and
``data/heldout.smi``: these and all others of the same corpus, for runs.

    python -m tools.training.held_out_set --corpus FOLDER --out data/held_out.tsv --all data/heldout.smi

The folder is a corpus that was built with ``--held-out``, so each of its molecules has a conformer and a text that
reads back. Of each size class those come first whose SMILES has the smallest hash: the same corpus gives the same file.
What this module does not know: whether a molecule is easy.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from pathlib import Path

from engine.array_files import write_bytes, write_table
from engine.chem.molecule_sets import HELD_OUT_COLUMNS, HELD_OUT_FILE, HeldOutMolecule
from engine.chem.smiles import parse_smiles
from engine.errors import DriftscopeError, shown
from engine.paths import cache_folder
from tools.terminal import ToolParser, run_tool
from tools.training.corpus import read_corpus
from tools.training.held_out import is_held_out
from tools.training.molecule_sets import draw

log = logging.getLogger(__name__)

WANTED = {(4, 12): 100, (13, 16): 100}
"""How many molecules of each range of heavy atoms, both ends included."""


def choose(offered: Iterable[str]) -> list[HeldOutMolecule]:
    """So many of each size as are wanted, shuffled; in whatever order they are offered, the same ones."""
    chosen: list[HeldOutMolecule] = []
    left = dict(WANTED)
    for smiles in sorted(set(offered), key=_place):
        atoms = parse_smiles(smiles).heavy_atoms
        size = next(((least, most) for least, most in left if least <= atoms <= most), None)
        if size is None or not left[size]:
            continue
        _check(smiles)
        left[size] -= 1
        chosen.append(HeldOutMolecule(smiles, atoms))
    for (least, most), missing in left.items():
        if missing:
            raise DriftscopeError(
                f"the corpus lacks {missing} molecules of {least} to {most} heavy atoms",
                "Build one with --held-out and more --molecules",
            )
    return chosen


def write_all(first: Iterable[HeldOutMolecule], offered: Iterable[str], path: Path) -> int:
    """The chosen ones, then the others, in an order that no other property explains."""
    head = [molecule.smiles for molecule in first]
    known = set(head)
    rest = sorted((smiles for smiles in set(offered) if smiles not in known), key=_place)
    for smiles in rest:
        _check(smiles)
    write_bytes(path, "".join(f"{smiles}\n" for smiles in [*head, *rest]).encode())
    return len(head) + len(rest)


def write(molecules: Iterable[HeldOutMolecule], path: Path) -> None:
    write_table(path, HELD_OUT_COLUMNS, ((molecule.smiles, str(molecule.atoms)) for molecule in molecules))


def _place(smiles: str) -> int:
    return draw("held-out set", smiles)


def _check(smiles: str) -> None:
    if not is_held_out(smiles):
        raise DriftscopeError(
            f"{shown(smiles)} is not held out: models may have been trained on it",
            "Give a corpus that was built with --held-out",
        )
    if parse_smiles(smiles).smiles != smiles:
        raise DriftscopeError(
            f"{shown(smiles)} is not its own canonical form", "Build the corpus again with the pinned version of RDKit"
        )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = ToolParser(prog="python -m tools.training.held_out_set", description="Build held_out.tsv.")
    add = parser.add_argument
    add("--corpus", type=Path, metavar="FOLDER", help="built with --held-out (corpus-held-out/ in the cache folder)")
    add("--out", type=Path, default=HELD_OUT_FILE, metavar="FILE", help="the file to write (data/held_out.tsv)")
    add("--all", type=Path, metavar="FILE", help="also write all of the corpus, these first (data/heldout.smi)")
    chosen = parser.parse_args(arguments)

    def build() -> None:
        folder = chosen.corpus or cache_folder() / "corpus-held-out"
        offered = [conformer.texts[0][0] for conformer in read_corpus(folder)]
        molecules = choose(offered)
        write(molecules, chosen.out)
        log.info("%s: %d molecules", chosen.out, len(molecules))
        if chosen.all is not None:
            log.info("%s: %d molecules", chosen.all, write_all(molecules, offered, chosen.all))

    return run_tool(build)


if __name__ == "__main__":
    raise SystemExit(main())
