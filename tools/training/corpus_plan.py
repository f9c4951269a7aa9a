"""Which molecules the corpus holds: whole MOSES molecules, pieces of them, and ions of both, each once.

The source is read in an order drawn by hash. Each of its molecules is offered whole where it is small enough, and as a
few pieces of drawn sizes. Few of these have a stereocentre: a share of them gets groups that make some, and a share
becomes ions. Those on the wrong side of the held-out split are dropped. The offers are then taken in order until both
quotas are full, and shuffled, so that any slice of the plan is a fair sample.
What this module does not know: which of them embed.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rdkit import Chem

from engine.array_files import Arrays, Meta, read_arrays
from engine.chem.rdkit_log import captured_log
from engine.errors import DriftscopeError
from engine.file_jobs import FileJob, run_jobs
from tools.terminal import Progress
from tools.training.held_out import skeleton, skeleton_is_held_out
from tools.training.molecule_sets import draw
from tools.training.variants import branched, charged, piece_near

SOURCES_A_JOB = 1_000
WHOLE, PIECE = "whole", "piece"


@dataclass(frozen=True, slots=True)
class MoleculePlan:
    molecules: int = 100_000
    least_atoms: int = 4
    most_atoms: int = 18
    fragment_share: float = 0.8
    charged_share: float = 0.1
    seed: int = 0
    held_out: bool = False
    pieces_each: int = 3
    branched_share: float = 0.8

    def __post_init__(self) -> None:
        if self.molecules < 1:
            raise DriftscopeError(f"{self.molecules} molecules were asked for", "Ask for one or more")
        if not 1 <= self.least_atoms <= self.most_atoms <= 100:
            raise DriftscopeError(
                f"sizes of {self.least_atoms} to {self.most_atoms} heavy atoms were asked for",
                "Give 1 <= least <= most <= 100",
            )
        for name, share in (
            ("fragment", self.fragment_share),
            ("charged", self.charged_share),
            ("branched", self.branched_share),
        ):
            if not 0 <= share <= 1:
                raise DriftscopeError(f"the {name} share is {share:g}", "Give a number from 0 to 1")
        if self.seed < 0:
            raise DriftscopeError(f"the seed is {self.seed}", "Give 0 or more")

    @property
    def quotas(self) -> dict[str, int]:
        pieces = round(self.molecules * self.fragment_share)
        return {WHOLE: self.molecules - pieces, PIECE: pieces}


def plan_molecules(
    source: Iterable[str], wanted: MoleculePlan, folder: Path, versions: Mapping[str, str], workers: int
) -> list[tuple[str, str]]:
    """Kind and SMILES of each molecule, in drawn order; fewer than wanted where the source has no more."""
    quotas = wanted.quotas
    taken: dict[str, str] = {}
    drawn = sorted(set(source), key=lambda smiles: draw("source", str(wanted.seed), smiles))
    parts = [drawn[start : start + SOURCES_A_JOB] for start in range(0, len(drawn), SOURCES_A_JOB)]
    progress = Progress("plan", wanted.molecules)
    used = 0
    while used < len(parts) and any(quotas.values()):
        kinds = [kind for kind, quota in quotas.items() if quota]  # what is full costs no more time
        jobs = (
            FileJob(
                folder / f"offers-{index:05d}.arrays",
                make_offers,
                {"wanted": asdict(wanted), "kinds": kinds, "smiles": parts[index]},
                versions,
            )
            for index in range(used, len(parts))
        )
        with closing(run_jobs(jobs, workers)) as finished:
            for done in finished:
                used += 1
                before = len(taken)
                for line in read_arrays(done.path)[1]["lines"].tobytes().decode().splitlines():
                    kind, _, smiles = line.partition("\t")
                    if quotas[kind] and smiles not in taken:
                        taken[smiles] = kind
                        quotas[kind] -= 1
                progress.advance(len(taken) - before)
                if not all(quotas[kind] for kind in kinds):
                    break
    shuffled = sorted(taken, key=lambda smiles: draw("plan", str(wanted.seed), smiles))
    return [(taken[smiles], smiles) for smiles in shuffled]


def make_offers(payload: dict[str, Any]) -> tuple[Meta, Arrays]:
    """A job: what a list of source molecules offers, one line each: kind, tab, SMILES."""
    wanted, kinds = MoleculePlan(**payload["wanted"]), payload["kinds"]
    with captured_log():
        lines = [f"{kind}\t{smiles}" for text in payload["smiles"] for kind, smiles in offers(text, wanted, kinds)]
    return {"offers": len(lines)}, {"lines": np.frombuffer("\n".join(lines).encode(), dtype=np.uint8)}


def offers(source: str, wanted: MoleculePlan, kinds: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Kind and SMILES of what one source molecule gives of these kinds."""
    mol = Chem.MolFromSmiles(source)
    if mol is None:
        return
    rng = random.Random(draw("offers", str(wanted.seed), source))
    if WHOLE in kinds and wanted.least_atoms <= mol.GetNumAtoms() <= wanted.most_atoms:
        yield from _fit(WHOLE, mol, wanted, rng)
    for _ in range(wanted.pieces_each if PIECE in kinds else 0):
        size = rng.randint(wanted.least_atoms, wanted.most_atoms)
        piece = piece_near(mol, size, wanted.most_atoms, rng)
        if piece is not None:
            yield from _fit(PIECE, piece, wanted, rng)


def _fit(kind: str, mol: Chem.Mol, wanted: MoleculePlan, rng: random.Random) -> Iterator[tuple[str, str]]:
    """The molecule, with groups that make stereocentres, or an ion of it, if it may be used."""
    if rng.random() < wanted.branched_share:
        mol = branched(mol, wanted.most_atoms, rng)
    if rng.random() < wanted.charged_share:
        mol = next(charged(mol, rng.getrandbits(32)), mol)
    is_sized = wanted.least_atoms <= mol.GetNumHeavyAtoms() <= wanted.most_atoms
    if is_sized and skeleton_is_held_out(skeleton(mol)) == wanted.held_out:
        yield kind, Chem.MolToSmiles(mol)
