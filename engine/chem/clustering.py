"""Clustered RDKit conformers: the baseline that any model of conformers is held against (arXiv 2302.07061).

Several times as many ETKDGv3 conformers as are wanted are embedded and clustered by heavy-atom RMSD, around as many of
them as are wanted; these medoids are the baseline. Nothing is relaxed. Their seed is not that of references by ETKDG,
so that no conformer is on both sides; against such references they are of the same distribution all the same.
"""

from __future__ import annotations

import numpy as np
from rdkit import Chem

from engine.chem.conformers import reference_conformers
from engine.chem.frame import Array
from engine.chem.rmsd import rmsd_matrix
from engine.records import Molecule

MAX_SECONDS = 120.0


def clustered_conformers(molecule: Molecule, count: int, *, max_seconds: float = MAX_SECONDS) -> Chem.Mol:
    """A copy with ``count`` conformers, or fewer if fewer were found; ``EmbedError`` where none is."""
    embedded = max(min(5 * count, 200), 2 * count)
    pool = reference_conformers(molecule, embedded, seed=1, max_seconds=max_seconds)
    ids = np.array([conformer.GetId() for conformer in pool.GetConformers()])
    if len(ids) > count:
        distances, _ = rmsd_matrix(pool, pool, max_matches=100)
        for conformer in np.delete(ids, medoids(distances, count)).tolist():
            pool.RemoveConformer(conformer)
    return pool


def medoids(distances: Array, count: int) -> list[int]:
    """The places of the ``count`` points that are the middle of their clusters; distances are [points, points].

    Greedy to begin with, each taking away most of the distance that is left; then the clusters and their middles in
    turn, until neither changes. Nothing is drawn: the same distances give the same medoids.
    """
    chosen = [int(distances.sum(axis=0).argmin())]
    while len(chosen) < count:
        gain = np.maximum(distances[:, chosen].min(axis=1)[:, None] - distances, 0.0).sum(axis=0)
        gain[chosen] = -1.0
        chosen.append(int(gain.argmax()))
    for _ in range(50):
        cluster = distances[:, chosen].argmin(axis=1)
        cluster[chosen] = np.arange(count)  # points in one place: each stays in its own
        clusters = [np.flatnonzero(cluster == number) for number in range(count)]
        middles = [int(members[distances[np.ix_(members, members)].sum(axis=0).argmin()]) for members in clusters]
        if middles == chosen:
            break
        chosen = middles
    return sorted(chosen)
