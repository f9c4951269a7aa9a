"""The geometry of conformers, beside PoseBusters: does each check agree, and how long does each side take?

``python -m tools.bench.geometry`` asks both of the same conformers, drawn by a seed: written by the demo's models,
embedded by ETKDG, mirrored, perturbed, pressed flat, shrunk, and collapsed to a point; of drug-like, small and odd
molecules.

``--many 1000`` then times a thousand conformers of 25 heavy atoms, in turn on both sides with as many processes: all of
a verdict but its strain here, from the text on; geometry alone there. ``--many 0`` leaves that out.
"""

from __future__ import annotations

import argparse
import logging
import math
import os
import random
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rdkit import Chem

from engine.chem.conformers import reference_conformers
from engine.chem.enriched import decode, encode
from engine.chem.frame import add_conformer
from engine.chem.geometry import MOST_FAILURES, judge_geometry, judged_with
from engine.chem.guard import MoleculeGuard
from engine.chem.judges import JudgePool, JudgeTask
from engine.chem.molecule_sets import load_molecule_set, load_named
from engine.chem.rdkit_log import captured_log
from engine.chem.smiles import parse_smiles, read_text_order
from engine.errors import DriftscopeError
from engine.records import MoleculeVerdict
from engine.store.store import DEMO, Store

CONFORMERS, MANY = 5_000, 1_000
HEAVY_ATOMS, EACH = 25, 8
GUARD_ATOMS, GUARDED = 30, 8
MOST_ATOMS = 60
ODD = (
    *"C CC N#N [H][H] [2H]O [CH3] [CH2] C[O] CN(C)[O] [Na+].[Cl-] CC(=O)[O-].[Na+] C[N+](=O)[O-] C[NH+](C)C".split(),
    *"F[P-](F)(F)(F)(F)F [NH3]->[Pt](Cl)(Cl)<-[NH3] O=C([O-])C(C(=O)[O-])[N+](=O)[O-] NC(=[NH2+])NCC(=O)[O-]".split(),
    *"O=C1CCCCCCCCCCCCCC1 C1CCCCCCCCCCCCCCCCCCC1 C1CC1 C12C3C4C1C5C2C3C45 OB(O)c1ccccc1 B1OBOBO1".split(),
    *"C12=C3C4=C1C5=C2C6=C3C4=C65 C1CC2CCC1C2 C1=CCCCC1 C1=CC=CCC1 O=C1C=CC(=O)C=C1 C1CCNCC1 S1CCOCC1".split(),
    *"CC(C)=C(C)C C/C=C/C(=O)O CC(=O)C(=C)C c1cc[nH]c1 c1ccc2ccccc2c1 [H]O[H] O=S(=O)([O-])c1ccccc1".split(),
    "B12B3B4B1B5B2B3B45",
)
KINDS = ("written", "etkdg", "mirrored", "perturbed", "collapsed")


def conformers(count: int, seed: int = 0) -> Iterator[tuple[str, Chem.Mol]]:
    """Kind and molecule with one conformer; the same for the same count and seed."""
    rng, noise = random.Random(seed), np.random.default_rng(seed)
    texts = _written()
    drawn = [entry.smiles for entry in load_molecule_set(400)] + [entry.smiles for entry in load_named()]
    pool = [rng.choice(drawn) for _ in range(max(10, count // 20))]
    while count:
        kind = rng.choice(KINDS)
        try:
            if kind == "written":
                yield kind, decode(rng.choice(texts)).mol
            else:
                smiles = rng.choice(ODD if rng.random() < 0.3 else pool)
                yield kind, _placed(smiles, kind, noise)
        except DriftscopeError:
            continue
        count -= 1


def bust(engine: Any, mol: Chem.Mol) -> dict[str, bool | None]:
    """Each check of PoseBusters, None for NaN."""
    with captured_log():
        row = engine.bust([mol]).iloc[0].to_dict()
    return {
        str(name): None if isinstance(value, float) and math.isnan(value) else bool(value)
        for name, value in row.items()
        if name != "mol_pred_loaded"
    }


def poses(max_workers: int = 0) -> Any:
    from posebusters import PoseBusters

    logging.getLogger("posebusters").setLevel(logging.ERROR)
    return PoseBusters(config="mol_fast", max_workers=max_workers, chunk_size=None)


@dataclass(slots=True)
class Agreement:
    """What both sides said of the same conformers."""

    conformers: Counter[str] = field(default_factory=Counter)  # by kind
    failed: Counter[str] = field(default_factory=Counter)  # by check, as PoseBusters says
    not_judged: Counter[str] = field(default_factory=Counter)
    differ: list[str] = field(default_factory=list)
    theirs_s: float = 0.0
    ours_s: float = 0.0

    def add(self, kind: str, mol: Chem.Mol, engine: Any) -> None:
        begin = time.process_time()
        theirs = bust(engine, mol)
        middle = time.process_time()
        verdict = judge_geometry(mol)
        self.ours_s += time.process_time() - middle
        self.theirs_s += middle - begin
        self.conformers[kind] += 1
        for check, expected in theirs.items():
            self.failed[check] += expected is False
            self.not_judged[check] += expected is None
            if verdict.of(check) is not expected:
                self.differ.append(f"{Chem.MolToSmiles(mol)} ({kind}): {check} is {expected} there")


def compare(count: int) -> Agreement:
    agreement, engine = Agreement(), poses()
    for done, (kind, mol) in enumerate(conformers(count), start=1):
        agreement.add(kind, mol, engine)
        if done % 100 == 0:
            sys.stderr.write(f"\r{done}/{count}")
    sys.stderr.write("\n")
    return agreement


def _written() -> list[str]:
    rows = Store.open(DEMO).rows("SELECT text FROM samples WHERE text <> '' ORDER BY run_id, sample_id")
    return [row["text"] for row in rows]


@cache
def _embedded(smiles: str) -> Chem.Mol:
    """A reference conformer, or the bare molecule where it cannot be embedded."""
    try:
        return reference_conformers(parse_smiles(smiles, most_heavy_atoms=MOST_ATOMS), max_seconds=5.0)
    except DriftscopeError:
        return read_text_order(smiles)


def _placed(smiles: str, kind: str, noise: np.random.Generator) -> Chem.Mol:
    mol = Chem.Mol(_embedded(smiles))
    if mol.GetNumConformers():
        positions = mol.GetConformer().GetPositions()
    else:
        positions = noise.normal(0.0, 2.0, (mol.GetNumAtoms(), 3))
    mol.RemoveAllConformers()
    add_conformer(mol, _deformed(positions, kind, noise))
    return mol


def _deformed(positions: NDArray[np.float64], kind: str, noise: np.random.Generator) -> NDArray[np.float64]:
    if kind == "mirrored":
        return np.asarray(positions * [-1.0, 1.0, 1.0])
    if kind == "perturbed":
        width = noise.choice([0.02, 0.05, 0.1, 0.2, 0.4, 0.8])
        return np.asarray(positions + noise.normal(0.0, width, positions.shape))
    if kind == "collapsed":
        return np.asarray(positions * [(1.0, 1.0, 0.0), (0.7, 0.7, 0.7), (0.0, 0.0, 0.0)][noise.integers(3)])
    return positions


def many(count: int, workers: int) -> str:
    """Times of both sides, and the memory of the processes here after a tenth of the work and at the end."""
    texts = _texts_of_size(count)
    begin, before_s = time.perf_counter(), _children_s()
    peaks: list[float] = []
    with JudgePool(workers=workers) as pool:
        waiting = (JudgeTask(key, text, smiles) for key, (text, smiles, _) in enumerate(texts))
        verdicts: dict[int, MoleculeVerdict] = {}
        while len(verdicts) < count:
            while pool.under_way < 4 * workers and (task := next(waiting, None)) is not None:
                pool.add(task)
            verdicts |= {task.key: verdict for task, verdict in pool.verdicts(wait=True)}
            if len(verdicts) >= count // 10 * (len(peaks) * 9 + 1):
                peaks.append(sum(_memory_mb(pid) for pid in pool.pids))
    ours_s, ours_cpu_s = time.perf_counter() - begin, _children_s() - before_s
    begin, before_s = time.perf_counter(), _children_s()
    table = poses(max_workers=workers).bust([mol for _, _, mol in texts])
    theirs_s, theirs_cpu_s = time.perf_counter() - begin, _children_s() - before_s
    right = sum(verdict.geometry_right is True for verdict in verdicts.values())
    return (
        f"{count:,} conformers of {HEAVY_ATOMS} heavy atoms, {len({smiles for _, smiles, _ in texts}):,} molecules, "
        f"{workers} processes: {ours_s:.1f} s here, {theirs_s:.1f} s there\n"
        f"CPU of these processes, their start included: {ours_cpu_s:.1f} s here, {theirs_cpu_s:.1f} s there\n"
        f"geometry right: {right} here, {int(table.all(axis=1).sum())} there\n"
        f"memory of the processes here: {peaks[0]:.0f} MB after a tenth, {peaks[-1]:.0f} MB at the end"
    )


def guard_time(atoms: int, rounds: int = 20) -> str:
    """What a guard takes of a closed block, every atom of right conformers in turn; and to be made."""
    molecules = [parse_smiles(entry.smiles) for entry in load_molecule_set()]
    chosen = [molecule for molecule in molecules if molecule.atoms == atoms][:GUARDED]
    places = [reference_conformers(molecule).GetConformer().GetPositions() for molecule in chosen]
    begin = time.process_time()
    guards = [MoleculeGuard(molecule.mol) for molecule in chosen]
    made_s = time.process_time() - begin
    begin = time.process_time()
    for _ in range(rounds):
        for guard, positions in zip(guards, places, strict=True):
            for atom in range(atoms):
                guard.wrong_places(positions, atom)
    asked_s = time.process_time() - begin
    block_ms, made_ms = asked_s / (rounds * len(chosen) * atoms) * 1e3, made_s / len(chosen) * 1e3
    return (
        f"guard, CPU at {atoms} atoms ({len(chosen)} molecules): {block_ms:.3f} ms per closed block, "
        f"{made_ms:.1f} ms per molecule to be made"
    )


def _texts_of_size(count: int) -> list[tuple[str, str, Chem.Mol]]:
    """Text, SMILES and molecule: embedded, half of them perturbed."""
    noise, texts = np.random.default_rng(0), []
    for entry in load_molecule_set():
        molecule = parse_smiles(entry.smiles)
        if molecule.atoms != HEAVY_ATOMS:
            continue
        for conformer in reference_conformers(molecule, EACH).GetConformers():
            mol = Chem.Mol(molecule.mol)
            moved = noise.normal(0.0, 0.1 * (conformer.GetId() % 2), (HEAVY_ATOMS, 3))
            add_conformer(mol, conformer.GetPositions() + moved)
            texts.append((encode(mol).text, molecule.smiles, decode(encode(mol).text).mol))
        if len(texts) >= count:
            return texts[:count]
    raise ValueError(f"only {len(texts)} conformers")


def _children_s() -> float:
    """CPU of the processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _memory_mb(pid: int) -> float:
    pages = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE") / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conformers", type=int, default=CONFORMERS)
    parser.add_argument("--many", type=int, default=MANY)
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    if args.conformers < 1 or args.workers < 1 or args.many < 0:
        parser.error("--conformers and --workers are at least 1, --many at least 0 (which leaves that part out)")
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
    if args.many:
        print(many(args.many, args.workers))


if __name__ == "__main__":
    main()
