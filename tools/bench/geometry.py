"""The geometry of conformers, next to PoseBusters: does each check agree, and how long does each side take?

``python -m tools.bench.geometry`` asks both of the same conformers: ``tests/engine/chem/posebusters_beside.py`` draws
them. It tells what a guard costs, too.
"""

from __future__ import annotations

import argparse
import time

from engine.chem.conformers import reference_conformers
from engine.chem.geometry import MOST_FAILURES, judged_with
from engine.chem.guard import MoleculeGuard
from engine.chem.molecule_sets import load_molecule_set
from engine.chem.smiles import parse_smiles
from tests.engine.chem.posebusters_beside import compare

CONFORMERS = 5_000
GUARD_ATOMS, GUARDED = 30, 8


def guard_time(atoms: int, rounds: int = 20) -> str:
    """What a guard takes of a closed block, every atom of right conformers in turn; and to be made."""
    molecules = [parse_smiles(entry.smiles) for entry in load_molecule_set()]
    chosen = [molecule for molecule in molecules if molecule.atoms == atoms][:GUARDED]
    coordinates = [reference_conformers(molecule).GetConformer().GetPositions() for molecule in chosen]
    begin = time.process_time()
    guards = [MoleculeGuard(molecule.mol) for molecule in chosen]
    made_s = time.process_time() - begin
    begin = time.process_time()
    for _ in range(rounds):
        for guard, positions in zip(guards, coordinates, strict=True):
            for atom in range(atoms):
                guard.wrong_places(positions, atom)
    asked_s = time.process_time() - begin
    block_ms, made_ms = asked_s / (rounds * len(chosen) * atoms) * 1e3, made_s / len(chosen) * 1e3
    return (
        f"guard, CPU at {atoms} atoms ({len(chosen)} molecules): {block_ms:.3f} ms per closed block, "
        f"{made_ms:.1f} ms per molecule to be made"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conformers", type=int, default=CONFORMERS)
    args = parser.parse_args()
    agreement = compare(args.conformers)
    print(f"{judged_with('mol_fast')}; at most {MOST_FAILURES} failures of a check are listed")
    print(", ".join(f"{kind} {count:,}" for kind, count in sorted(agreement.conformers.items())))
    print(f"{'check':<32}{'failed':>8}{'not judged':>12}")
    for check in agreement.failed:
        print(f"{check:<32}{agreement.failed[check]:>8,}{agreement.not_judged[check]:>12,}")
    print(f"answers that differ: {len(agreement.differ)} of {len(agreement.failed) * args.conformers:,}")
    print("\n".join(agreement.differ[:20]))
    each = [seconds / args.conformers * 1e3 for seconds in (agreement.theirs_s, agreement.ours_s)]
    print(f"CPU per conformer, each molecule taken for new: {each[0]:.1f} ms there, {each[1]:.1f} ms here")
    print(guard_time(GUARD_ATOMS))


if __name__ == "__main__":
    main()
