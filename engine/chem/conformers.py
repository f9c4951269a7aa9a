"""Reference conformers: ETKDGv3 geometries of a molecule, the same for the same seed and version of RDKit.

Each has a seed of its own, so conformer k depends neither on how many are asked for nor on threads. Fragments stand
side by side, a convention that says nothing of physics. Stereo that the SMILES leaves open is drawn by lot. RDKit looks
at its clock between minimisations only.

RDKit takes Ctrl-C for itself while it embeds, and answers as if the seed had failed. So it embeds in a process that no
Ctrl-C reaches, while this one waits and can be interrupted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np
from rdkit import Chem
from rdkit.Chem import rdDistGeom, rdForceFieldHelpers

from engine.chem.frame import Array, add_conformer
from engine.chem.rdkit_log import captured_log
from engine.errors import EmbedError, shown
from engine.records import Molecule
from engine.sandbox import Answer, Sandbox, SandboxError, is_inside

WAYS: tuple[dict[str, Any], ...] = (
    {"maxIterations": 10},
    {"maxIterations": 60, "useRandomCoords": True},
    # Closed cages such as C60 cannot have all their rings flat; tried for no other molecule.
    {"maxIterations": 10, "useRandomCoords": True, "useBasicKnowledge": False},
)
HOPELESS_SEEDS, FRAGMENT_GAP_ANG = 3, 3.0
LEAST_DISTANCE_ANG, LEAST_CONTACT_ANG = 0.3, 1.0
RELAX_STEPS, RELAX_SLICE = 500, 50


def reference_conformers(
    molecule: Molecule, count: int = 1, *, seed: int = 0, mmff: bool = False, max_seconds: float = 30.0
) -> Chem.Mol:
    """A copy of ``molecule.mol``, atoms in the same order, with ``count`` conformers, or fewer if fewer were found.

    With ``mmff`` each one is relaxed with MMFF94, with UFF where MMFF94 has no parameters, and left as it is where
    neither has any or atoms would clash.
    """
    conformers = Chem.Mol(molecule.mol)
    conformers.RemoveAllConformers()
    content = conformers.ToBinary(int(Chem.PropertyPickleOptions.AllProps))
    try:
        is_late, xyz = (embed if is_inside() else EMBEDDER.ask)(content, count, seed, mmff, max_seconds)
    except SandboxError as error:
        raise EmbedError("the process that embeds ended", "Leave this molecule out, or free memory") from error
    for positions in np.frombuffer(xyz).reshape(-1, molecule.atoms, 3):
        add_conformer(conformers, positions)
    if not xyz:
        problem = f"no conformer of {shown(molecule.smiles)} was found"
        if is_late:
            raise EmbedError(f"{problem} within {max_seconds:g} s", "Allow more seconds, or give a smaller molecule")
        problem += f" in {sum(way['maxIterations'] for way in WAYS)} attempts per seed"
        raise EmbedError(problem, "Its rings or its stereo may be impossible in three dimensions; check them")
    return conformers


def _embedder() -> Callable[..., Answer]:
    return embed


EMBEDDER = Sandbox(_embedder)


def embed(content: bytes, count: int, seed: int, mmff: bool, max_seconds: float) -> Answer:
    """Whether time ran out; and positions [conformers, atoms of the text, 3]."""
    mol = Chem.Mol(content)
    deadline = time.monotonic() + max_seconds
    positions = b""
    with captured_log():
        full = Chem.AddHs(mol)  # RDKit appends hydrogens, so the first atoms stay those of the text
        for embedded in _embeddings(full, count, seed, deadline, max_seconds):
            _set_apart(embedded)
            if mmff:
                _relax(embedded, deadline)
            positions += embedded.GetConformer().GetPositions()[: mol.GetNumAtoms()].tobytes()
    return time.monotonic() >= deadline, positions


def _embeddings(full: Chem.Mol, count: int, seed: int, deadline: float, max_seconds: float) -> Iterator[Chem.Mol]:
    """One embedded copy a conformer; seeds that fail are left out. Time that runs out ends the search, and so do
    the first seeds when none of them finds anything."""
    rings = full.GetRingInfo()
    # Aromatic rings may close to a ball. For other molecules, rings that cannot be flat are a mistake.
    may_be_cage = any(atom.GetIsAromatic() and rings.NumAtomRings(atom.GetIdx()) > 2 for atom in full.GetAtoms())
    ways, made = list(WAYS if may_be_cage else WAYS[:2]), 0
    # RDKit takes 31 bits, draws its own seed for -1 and gives every conformer the same with 0.
    seeds = [int(word) % (2**31 - 2) + 1 for word in np.random.SeedSequence(seed).generate_state(count)]
    for tried, own_seed in enumerate(seeds):
        if time.monotonic() >= deadline or (tried == HOPELESS_SEEDS and not made):
            return
        own_deadline = deadline if len(ways) == 1 else min(deadline, time.monotonic() + max_seconds / len(WAYS))
        while (embedded := _embed(full, own_seed, ways[0], own_deadline)) is None and len(ways) > 1:
            del ways[0]  # what failed for one seed is not tried for the next; a hopeless way leaves time for the next
            own_deadline = deadline if len(ways) == 1 else min(deadline, time.monotonic() + max_seconds / len(WAYS))
        if embedded is not None:
            made += 1
            yield embedded


def _embed(full: Chem.Mol, seed: int, way: dict[str, Any], deadline: float) -> Chem.Mol | None:
    """A copy with one conformer, or None when this seed finds none before the deadline."""
    if (left_s := deadline - time.monotonic()) <= 0:
        return None
    parameters = rdDistGeom.ETKDGv3()
    # RDKit's timeout is in whole seconds, per fragment; 0 would mean no limit.
    timeout = max(1, int(left_s / len(Chem.GetMolFrags(full))))
    for name, value in {"randomSeed": seed, "numThreads": 1, "timeout": timeout, **way}.items():
        setattr(parameters, name, value)
    embedded = Chem.Mol(full)
    try:
        ids = list(rdDistGeom.EmbedMultipleConfs(embedded, 1, parameters))
    except (RuntimeError, ValueError):
        return None
    # A run that timed out answers [-1], and leaves no conformer.
    return embedded if ids == [0] and _is_usable(embedded) else None


def _is_usable(embedded: Chem.Mol) -> bool:
    """Finite, and no two atoms of one fragment in one place: RDKit promises neither for unparametrised elements."""
    xyz = embedded.GetConformer().GetPositions()
    fragments = map(list, Chem.GetMolFrags(embedded))
    return bool(np.isfinite(xyz).all()) and all(_distances(xyz[part]).min() > LEAST_DISTANCE_ANG for part in fragments)


def _distances(xyz: Array) -> Array:
    distances = np.linalg.norm(xyz[:, None, :] - xyz[None, :, :], axis=-1)  # [atoms, atoms]
    np.fill_diagonal(distances, np.inf)
    return np.asarray(distances)


def _set_apart(embedded: Chem.Mol) -> None:
    """Put the fragments side by side along x, in text order, each centred in y and z."""
    fragments = Chem.GetMolFrags(embedded)
    if len(fragments) == 1:
        return
    xyz = embedded.GetConformer().GetPositions()
    edge = 0.0
    for fragment in map(list, fragments):
        part = xyz[fragment] - xyz[fragment].mean(axis=0)
        part[:, 0] += edge - part[:, 0].min()
        edge = float(part[:, 0].max()) + FRAGMENT_GAP_ANG
        xyz[fragment] = part
    xyz -= xyz.mean(axis=0)
    embedded.GetConformer().SetPositions(xyz)


def _relax(embedded: Chem.Mol, deadline: float) -> None:
    """Minimise in place, in slices, so that the deadline is seen."""
    _, field = force_field(embedded)
    if field is None:
        return
    before, energy = embedded.GetConformer().GetPositions(), float("nan")
    with suppress(RuntimeError, ValueError):
        field.Initialize()
        for _ in range(0, RELAX_STEPS, RELAX_SLICE):
            if field.Minimize(maxIts=RELAX_SLICE) == 0 or time.monotonic() >= deadline:
                break
        energy = float(field.CalcEnergy())
    # No clash between atoms without a bond: UFF takes PF6- for tetrahedral and pushes fluorines into each other.
    distances = _distances(embedded.GetConformer().GetPositions())
    distances[Chem.GetAdjacencyMatrix(embedded) > 0] = np.inf
    if not (np.isfinite(energy) and _is_usable(embedded) and distances.min() > LEAST_CONTACT_ANG):
        embedded.GetConformer().SetPositions(before)


def force_field(embedded: Chem.Mol) -> tuple[str, Any]:
    """MMFF94, UFF where that lacks parameters, or none; of the first conformer, hydrogens included."""
    parameters: Any = rdForceFieldHelpers.MMFFGetMoleculeProperties(embedded)
    if parameters is not None:
        return "MMFF94", rdForceFieldHelpers.MMFFGetMoleculeForceField(embedded, parameters)
    if rdForceFieldHelpers.UFFHasAllMoleculeParams(embedded):
        return "UFF", rdForceFieldHelpers.UFFGetMoleculeForceField(embedded)
    return "none", None
