"""What the laws of numbers cost per block: ``python -m tools.bench.number_laws`` (32 blocks or more at once)."""

from __future__ import annotations

import argparse
import statistics
import time

import torch

from engine.chem.molecule_sets import load_run_set
from engine.chem.smiles import parse_written
from engine.decode.generation import Generation
from engine.decode.number_laws import number_laws
from engine.decode.plan import Plan
from engine.decode.scoring import reader_of
from engine.models.loading import load_model
from engine.models.registry import load_registry


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="+", default=["demo-qwen", "demo-llama", "demo-bins"])
    parser.add_argument("--blocks", type=int, default=32)
    parser.add_argument("--decimals", type=int, default=2, help="of a cell of decimals: 1 is 0.1 Å")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    for name in chosen.models:
        loaded = load_model(load_registry().find(name), "cpu")
        molecules, blocks = [], 0
        for molecule in map(parse_written, load_run_set()):
            if blocks < chosen.blocks:
                molecules.append(molecule)
                blocks += molecule.atoms
        generation, reader = Generation(loaded, molecules, Plan("exact")), reader_of(loaded)
        stored = [generation.stored(sample.sample_id, sample.token_ids) for sample in generation.run()]
        times = []
        for _ in range(chosen.rounds + 1):
            began = time.perf_counter()
            number_laws(reader, generation.constraint, stored, decimals=chosen.decimals)
            times.append(1000 * (time.perf_counter() - began) / blocks)
        print(f"{name}: {statistics.median(times[1:]):.1f} ms per block, {blocks} blocks, {chosen.threads} threads")


if __name__ == "__main__":
    main()
