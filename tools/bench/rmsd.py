"""RMSD matrices next to a plain loop of RDKit's ``GetBestRMS``: equal, how much faster, and what 200,000 samples take.

``python -m tools.bench.rmsd`` takes drug-like molecules with 2K samples for K references each: K = 10, and K = 100 as
GEOM's test set has it. Conformers are by ETKDG; copies with noise are added to reach 100. The loop has its molecules
ready, without hydrogens; here (``engine/comparing/rmsd_matrices.py``, as ``evaluate``) texts are read, processes
started and matrices kept as well.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from contextlib import closing
from itertools import product

import numpy as np
from numpy.typing import NDArray
from rdkit import Chem
from rdkit.Chem import rdMolAlign

from engine.chem.conformers import reference_conformers
from engine.chem.enriched import encode
from engine.chem.frame import add_conformer
from engine.chem.molecule_sets import load_molecule_set
from engine.chem.smiles import parse_smiles
from engine.comparing.array_files import read_arrays
from engine.comparing.file_jobs import run_jobs
from engine.comparing.rmsd_matrices import given_references, texts_job
from engine.errors import DriftscopeError
from engine.records import WIDEST
from tools.bench._measure import children_s, machine, pin

HEAVY_ATOMS = range(20, 31)
WORKERS = 2
WHOLE = 200_000
NOISE_ANG = 0.3


def ensembles(count: int, references: int, copies: int = 1) -> list[tuple[str, Chem.Mol, Chem.Mol]]:
    """SMILES, references and samples, without hydrogens; ``copies`` of each conformer, all but the first with noise."""
    made: list[tuple[str, Chem.Mol, Chem.Mol]] = []
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
            for positions in [conformer.GetPositions() for conformer in side.GetConformers()]:
                for _ in range(copies - 1):
                    add_conformer(side, positions + rng.normal(0, NOISE_ANG, positions.shape))
        made.append((molecule.smiles, *map(Chem.RemoveAllHs, sides)))
        if len(made) == count:
            break
    return made


def plain_loop(ensemble: Chem.Mol, drawn: Chem.Mol) -> NDArray[np.float64]:
    pairs = product(ensemble.GetConformers(), drawn.GetConformers())
    rmsd = [rdMolAlign.GetBestRMS(drawn, ensemble, sample.GetId(), reference.GetId()) for reference, sample in pairs]
    return np.reshape(rmsd, (ensemble.GetNumConformers(), -1))


def compare(count: int, references: int, copies: int = 1) -> str:
    molecules = ensembles(count, references // copies, copies)
    begin = time.perf_counter()
    loop = [plain_loop(ensemble, drawn) for _, ensemble, drawn in molecules]
    loop_s = time.perf_counter() - begin
    jobs = []
    for smiles, ensemble, drawn in molecules:
        texts = [encode(drawn, WIDEST, conformer=conformer.GetId()).text for conformer in drawn.GetConformers()]
        jobs.append(texts_job(smiles, given_references(ensemble), texts))
    begin, cpu = time.perf_counter(), children_s()
    with closing(run_jobs(jobs, WORKERS)) as finished:
        done = list(finished)
    here_s, here_cpu_s = time.perf_counter() - begin, children_s() - cpu
    incomplete = sum(not job.meta["complete"] for job in done)
    matrices = [read_arrays(job.path)[1]["rmsd"] for job in done]
    worst = max(float(np.abs(slow - fast).max()) for slow, fast in zip(loop, matrices, strict=True))
    samples = sum(matrix.shape[1] for matrix in loop)
    whole_min, cpu_min, loop_min = (value * WHOLE / samples / 60 for value in (here_s, here_cpu_s, loop_s))
    return (
        f"{len(molecules)} molecules, {2 * references} samples for {references} references: "
        f"{sum(matrix.size for matrix in loop):,} pairs\n"
        f"  loop of GetBestRMS, one process: {loop_s:.1f} s\n"
        f"  here, {WORKERS} processes: {here_s:.1f} s, CPU with their start {here_cpu_s:.1f} s\n"
        f"  {loop_s / here_s:.1f} times as fast, {loop_s / here_cpu_s:.1f} times less CPU; "
        f"largest difference {worst:.1e} Å; {incomplete} molecules incomplete\n"
        f"  {WHOLE:,} samples at this rate: {whole_min:.1f} min here (CPU {cpu_min:.1f}), {loop_min:.0f} by the loop"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--molecules", type=int, default=100, help="for K = 10")
    parser.add_argument("--part", type=int, default=20, help="molecules for K = 100")
    args = parser.parse_args()
    pin(WORKERS)
    print(machine("rdkit", "numpy"))
    with tempfile.TemporaryDirectory() as cache:
        os.environ["DRIFTSCOPE_CACHE"] = cache  # nothing is there already
        print(compare(args.molecules, 10))
        print(compare(args.part, 100, copies=10))


if __name__ == "__main__":
    main()
