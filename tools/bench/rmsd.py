"""RMSD matrices beside a plain loop of RDKit's ``GetBestRMS``: equal, how much faster, and what 200,000 samples take.

``python -m tools.bench.rmsd`` takes drug-like molecules with 2K samples for K references each: K = 10, and K = 100 as
GEOM's test set has it. Conformers are by ETKDG; copies with noise are added to reach 100. The loop has its molecules
ready, without hydrogens; here (``engine/comparing/rmsd_matrices.py``, as ``evaluate``) texts are read, processes
started and matrices kept as well.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rdkit import Chem
from rdkit.Chem import rdMolAlign

from engine.array_files import read_arrays
from engine.chem.conformers import reference_conformers
from engine.chem.enriched import encode
from engine.chem.frame import add_conformer
from engine.chem.molecule_sets import load_molecule_set
from engine.chem.smiles import parse_smiles
from engine.comparing.rmsd_matrices import given_references, texts_job
from engine.errors import DriftscopeError
from engine.file_jobs import run_jobs
from engine.records import WIDEST
from tools.bench._machine import machine, pin

HEAVY_ATOMS = range(20, 31)
WORKERS = 2
WHOLE = 200_000
NOISE_ANG = 0.3
Matrices = list[NDArray[np.float64]]


@dataclass(frozen=True, slots=True)
class Ensemble:
    """A molecule's references and samples, without hydrogens."""

    smiles: str
    references: Chem.Mol
    samples: Chem.Mol

    @property
    def pairs(self) -> int:
        return int(self.references.GetNumConformers() * self.samples.GetNumConformers())

    def texts(self) -> list[str]:
        return [encode(self.samples, WIDEST, conformer=one.GetId()).text for one in self.samples.GetConformers()]


def ensembles(count: int, references: int, copies: int = 1) -> list[Ensemble]:
    """``copies`` times as many conformers, all but the first of each with noise."""
    made: list[Ensemble] = []
    rng = np.random.default_rng(0)
    for entry in load_molecule_set():
        molecule = parse_smiles(entry.smiles)
        if molecule.heavy_atoms not in HEAVY_ATOMS:
            continue
        try:
            sides = [
                reference_conformers(molecule, n, seed=seed) for seed, n in enumerate((references, 2 * references))
            ]
        except DriftscopeError:
            continue
        for side in sides:
            for positions in [one.GetPositions() for one in side.GetConformers()]:
                for _ in range(copies - 1):
                    add_conformer(side, positions + rng.normal(0, NOISE_ANG, positions.shape))
        made.append(Ensemble(molecule.smiles, *map(Chem.RemoveAllHs, sides)))
        if len(made) == count:
            break
    return made


def by_loop(some: Sequence[Ensemble]) -> Matrices:
    return [
        np.array(
            [
                [
                    rdMolAlign.GetBestRMS(one.samples, one.references, sample.GetId(), reference.GetId())
                    for sample in one.samples.GetConformers()
                ]
                for reference in one.references.GetConformers()
            ]
        )
        for one in some
    ]


def by_jobs(some: Sequence[Ensemble], workers: int) -> tuple[Matrices, int, float, float]:
    """Matrices, how many of them are not complete, seconds, and CPU seconds of the processes."""
    jobs = [texts_job(one.smiles, given_references(one.references), one.texts()) for one in some]
    begin, before_s = time.perf_counter(), _children_s()
    with closing(run_jobs(jobs, workers)) as finished:
        done = list(finished)
    seconds = time.perf_counter() - begin
    incomplete = sum(not job.meta["complete"] for job in done)
    return [read_arrays(job.path)[1]["rmsd"] for job in done], incomplete, seconds, _children_s() - before_s


def _children_s() -> float:
    """CPU of the processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def compare(count: int, references: int, copies: int = 1) -> str:
    some = ensembles(count, references // copies, copies)
    pairs, samples = sum(one.pairs for one in some), sum(int(one.samples.GetNumConformers()) for one in some)
    begin, cpu = time.perf_counter(), time.process_time()
    loop = by_loop(some)
    loop_s, loop_cpu_s = time.perf_counter() - begin, time.process_time() - cpu
    here, incomplete, here_s, here_cpu_s = by_jobs(some, WORKERS)
    worst = max(float(np.abs(one - other).max()) for one, other in zip(loop, here, strict=True))
    whole_min, cpu_min, loop_min = (value * WHOLE / samples / 60 for value in (here_s, here_cpu_s, loop_s))
    return (
        f"{len(some)} molecules, {2 * references} samples for {references} references: {pairs:,} pairs\n"
        f"  loop of GetBestRMS, one process: {loop_s:.1f} s, CPU {loop_cpu_s:.1f} s\n"
        f"  here, {WORKERS} processes: {here_s:.1f} s, CPU with their start {here_cpu_s:.1f} s\n"
        f"  {loop_s / here_s:.1f} times as fast, {loop_cpu_s / here_cpu_s:.1f} times less CPU; "
        f"largest difference {worst:.1e} Å; {incomplete} molecules incomplete\n"
        f"  {WHOLE:,} samples at this rate: {whole_min:.1f} min here (CPU {cpu_min:.1f}), {loop_min:.0f} by the loop"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--molecules", type=int, default=100, help="for K = 10")
    parser.add_argument("--part", type=int, default=20, help="molecules for K = 100")
    args = parser.parse_args()
    pin(WORKERS)
    print(machine(("rdkit", "numpy")))
    with tempfile.TemporaryDirectory() as cache:
        os.environ["DRIFTSCOPE_CACHE"] = cache  # nothing is there already
        print(compare(args.molecules, 10))
        print(compare(args.part, 100, copies=10))


if __name__ == "__main__":
    main()
