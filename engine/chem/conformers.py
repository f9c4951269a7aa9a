"""Reference conformers: ETKDGv3 geometries of a molecule, the same for the same seed and version of RDKit.

Each conformer is embedded by a call of its own with a seed of its own, so conformer k depends neither on how many are
asked for nor on threads. Plain ETKDGv3 comes first; once it fails for a molecule, random coordinates take over, and
then, for closed cages, random coordinates without ETKDGv3's rule that rings are flat.
RDKit embeds fragments on top of each other; here they stand side by side, a convention that says nothing of physics.

What this module does not know: the lowest energy (ETKDGv3 samples, it does not search); the geometry of metals and of
hypervalent centres such as PF6- (distance bounds alone, square-planar and octahedral stereo is not kept); and the exact
time a call takes. RDKit looks at its clock between minimisations only: molecules of 600 atoms, hydrogens included, ran
up to a minute over a limit of five seconds. Where the limit is met, the machine's speed decides how many are found.
Stereo that the SMILES leaves open is drawn by lot, conformer by conformer.

RDKit takes Ctrl-C for itself while it embeds, and answers as if the seed had failed. So it embeds in a process that no
Ctrl-C reaches, while this one waits and can be interrupted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rdkit import Chem
from rdkit.Chem import rdDistGeom, rdForceFieldHelpers

from engine.chem.frame import add_conformer
from engine.chem.rdkit_log import captured_log
from engine.errors import EmbedError, shown
from engine.records import Molecule
from engine.sandbox import Answer, Sandbox, SandboxError, is_inside


@dataclass(frozen=True, slots=True)
class Way:
    """One way to embed a molecule, with the attempts that it gets for a seed."""

    attempts: int
    random_coordinates: bool = False
    basic_knowledge: bool = True  # flat rings and straight triple bonds


WAYS = (
    Way(attempts=10),
    Way(attempts=60, random_coordinates=True),
    # Closed cages such as C60 cannot have all their rings flat; tried for no other molecule.
    Way(attempts=10, random_coordinates=True, basic_knowledge=False),
)
HOPELESS_SEEDS = 3
FRAGMENT_GAP_ANG = 3.0
LEAST_DISTANCE_ANG = 0.3
LEAST_CONTACT_ANG = 1.0
RELAX_STEPS = 500
RELAX_SLICE = 50

FORCE_FIELD = "force_field"
"""Conformer property after relaxation: ``MMFF94``, ``UFF``, or ``none`` where the embedded geometry was kept."""
ENERGY = "energy_kcal_mol"
"""Conformer property after relaxation: the force field's energy; comparable within one molecule and field only."""


def reference_conformers(
    molecule: Molecule, count: int = 1, *, seed: int = 0, mmff: bool = False, max_seconds: float = 30.0
) -> Chem.Mol:
    """A copy of ``molecule.mol``, atoms in the same order, with ``count`` conformers, or fewer if fewer were found.

    With ``mmff`` each one is relaxed with MMFF94, with UFF where MMFF94 has no parameters, and left as it is where
    neither has any or atoms would clash; its properties ``force_field`` and ``energy_kcal_mol`` say which it was.
    """
    if count < 1:
        raise ValueError(f"count must be at least 1, got {count}")
    if seed < 0:
        raise ValueError(f"seed must not be negative, got {seed}")
    if not 0 < max_seconds < 1e6:
        raise ValueError(f"max_seconds must be positive, got {max_seconds}")
    if molecule.mol.GetNumAtoms() == 0:
        raise EmbedError("the molecule has no atoms", "Give one that has")
    conformers = Chem.Mol(molecule.mol)
    conformers.RemoveAllConformers()
    found = (_found if is_inside() else _found_in_child)(conformers, count, seed, mmff, max_seconds)
    for xyz, properties in found.conformers:
        conformer = add_conformer(conformers, xyz)
        for name, value in properties.items():
            (conformer.SetDoubleProp if isinstance(value, float) else conformer.SetProp)(name, value)
    if not found.conformers:
        raise _nothing_found(molecule, max_seconds, is_late=found.is_late)
    return conformers


@dataclass(frozen=True, slots=True)
class _Found:
    conformers: list[tuple[NDArray[np.float64], dict[str, str | float]]]  # [atoms of the text, 3], and its properties
    is_late: bool  # time ran out


def _found(mol: Chem.Mol, count: int, seed: int, mmff: bool, max_seconds: float) -> _Found:
    deadline = time.monotonic() + max_seconds
    conformers = []
    with captured_log():
        full = Chem.AddHs(mol)  # RDKit appends hydrogens, so the first atoms stay those of the text
        full.RemoveAllConformers()
        for embedded in _embeddings(full, count, seed, deadline, max_seconds):
            _set_apart(embedded)
            properties = _relax(embedded, deadline) if mmff else {}
            conformers.append((embedded.GetConformer().GetPositions()[: mol.GetNumAtoms()], properties))
    return _Found(conformers, time.monotonic() >= deadline)


_IDLE: list[Sandbox] = []  # each serves one thread at a time


def _found_in_child(mol: Chem.Mol, *asked: Any) -> _Found:
    try:
        child = _IDLE.pop()
    except IndexError:
        child = Sandbox(_embedder)
    try:
        (properties, is_late), content = child.ask(mol.ToBinary(int(Chem.PropertyPickleOptions.AllProps)), *asked)
    except SandboxError as error:
        raise EmbedError("the process that embeds ended", "Leave this molecule out, or free memory") from error
    _IDLE.append(child)  # one that Ctrl-C interrupts is never taken again
    xyz = np.frombuffer(content).reshape(len(properties), mol.GetNumAtoms(), 3)
    return _Found(list(zip(xyz, properties, strict=True)), is_late)


def _embedder() -> Callable[..., Answer]:
    def embed(content: bytes, *asked: Any) -> Answer:
        found = _found(Chem.Mol(content), *asked)
        xyz = b"".join(np.ascontiguousarray(one, dtype=np.float64).tobytes() for one, _ in found.conformers)
        return ([properties for _, properties in found.conformers], found.is_late), xyz

    return embed


def _embeddings(full: Chem.Mol, count: int, seed: int, deadline: float, max_seconds: float) -> Iterator[Chem.Mol]:
    """One embedded copy a conformer; seeds that fail are left out. Time that runs out ends the search, and so do
    the first seeds when none of them finds anything."""
    fragments = len(Chem.GetMolFrags(full))
    ways = [way for way in WAYS if way.basic_knowledge or _may_be_cage(full)]
    made = 0
    # RDKit takes 31 bits, draws its own seed for -1 and gives every conformer the same with 0.
    seeds = [int(word) % (2**31 - 2) + 1 for word in np.random.SeedSequence(seed).generate_state(count)]
    for tried, own_seed in enumerate(seeds):
        if time.monotonic() >= deadline or (tried == HOPELESS_SEEDS and not made):
            return
        embedded = None
        while embedded is None and len(ways) > 1:  # a hopeless way must leave time for the next one
            own_deadline = min(deadline, time.monotonic() + max_seconds / len(WAYS))
            embedded = _embed(full, own_seed, ways[0], own_deadline, fragments)
            if embedded is None:
                del ways[0]  # what failed for one seed is not tried for the next
        if embedded is None:
            embedded = _embed(full, own_seed, ways[0], deadline, fragments)
        if embedded is not None:
            made += 1
            yield embedded


def _may_be_cage(full: Chem.Mol) -> bool:
    """Whether aromatic rings may close to a ball. For other molecules, rings that cannot be flat are a mistake."""
    rings = full.GetRingInfo()
    return any(atom.GetIsAromatic() and rings.NumAtomRings(atom.GetIdx()) > 2 for atom in full.GetAtoms())


def _embed(full: Chem.Mol, seed: int, way: Way, deadline: float, fragments: int) -> Chem.Mol | None:
    """A copy with one conformer, or None when this seed finds none before the deadline."""
    left_s = deadline - time.monotonic()
    if left_s <= 0:
        return None
    parameters: Any = rdDistGeom.ETKDGv3()
    parameters.randomSeed = seed
    parameters.useRandomCoords = way.random_coordinates
    parameters.useBasicKnowledge = way.basic_knowledge
    parameters.maxIterations = way.attempts
    parameters.numThreads = 1
    parameters.timeout = max(1, int(left_s / fragments))  # whole seconds, per fragment; 0 would mean no limit
    embedded = Chem.Mol(full)
    try:
        ids = list(rdDistGeom.EmbedMultipleConfs(embedded, 1, parameters))
    except (RuntimeError, ValueError):
        return None
    # A run that timed out answers [-1], and leaves no conformer.
    return embedded if ids == [0] and _usable(embedded) else None


def _usable(embedded: Chem.Mol) -> bool:
    """Finite, and no two atoms of one fragment in one place: RDKit promises neither for unparametrised elements."""
    xyz = embedded.GetConformer().GetPositions()
    if not np.isfinite(xyz).all():
        return False
    fragments = map(list, Chem.GetMolFrags(embedded))
    return all(_distances(xyz[fragment]).min() > LEAST_DISTANCE_ANG for fragment in fragments)


def _relaxed_well(relaxed: Chem.Mol) -> bool:
    """No clash between atoms without a bond: UFF takes PF6- for tetrahedral and pushes fluorines into each other."""
    distances = _distances(relaxed.GetConformer().GetPositions())
    distances[Chem.GetAdjacencyMatrix(relaxed) > 0] = np.inf
    return bool(distances.min() > LEAST_CONTACT_ANG)


def _distances(xyz: NDArray[np.float64]) -> NDArray[np.float64]:
    distances = np.linalg.norm(xyz[:, None, :] - xyz[None, :, :], axis=-1)  # [atoms, atoms]
    np.fill_diagonal(distances, np.inf)
    return np.asarray(distances, dtype=np.float64)


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


def _relax(embedded: Chem.Mol, deadline: float) -> dict[str, str | float]:
    """Minimise in place, in slices, so that the deadline is seen; the properties for the conformer."""
    name, field = force_field(embedded)
    if field is None:
        return {FORCE_FIELD: name}
    before = embedded.GetConformer().GetPositions()
    try:
        field.Initialize()
        for _ in range(0, RELAX_STEPS, RELAX_SLICE):
            if field.Minimize(maxIts=RELAX_SLICE) == 0 or time.monotonic() >= deadline:
                break
        energy = float(field.CalcEnergy())
    except (RuntimeError, ValueError):
        energy = float("nan")
    if not (np.isfinite(energy) and _usable(embedded) and _relaxed_well(embedded)):
        embedded.GetConformer().SetPositions(before)
        return {FORCE_FIELD: "none"}
    return {FORCE_FIELD: name, ENERGY: energy}


def force_field(embedded: Chem.Mol) -> tuple[str, Any]:
    """MMFF94, UFF where that lacks parameters, or none; of the first conformer, hydrogens included."""
    parameters: Any = rdForceFieldHelpers.MMFFGetMoleculeProperties(embedded)
    if parameters is not None:
        return "MMFF94", rdForceFieldHelpers.MMFFGetMoleculeForceField(embedded, parameters)
    if rdForceFieldHelpers.UFFHasAllMoleculeParams(embedded):
        return "UFF", rdForceFieldHelpers.UFFGetMoleculeForceField(embedded)
    return "none", None


def _nothing_found(molecule: Molecule, max_seconds: float, *, is_late: bool) -> EmbedError:
    what = f"no conformer of {shown(molecule.smiles)} was found"
    if is_late:
        return EmbedError(f"{what} within {max_seconds:g} s", "Allow more seconds, or give a smaller molecule")
    return EmbedError(
        f"{what} in {sum(way.attempts for way in WAYS)} attempts a seed",
        "Its rings or its stereo may be impossible in three dimensions; check them",
    )
