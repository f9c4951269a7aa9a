"""The lanes of the experiment: which LP, placeholder and atom order, how many molecules and samples.

A lane whose every pass needs the full vocabulary is dear, and writes fewer. Lanes are told apart by their run's label,
so that a stopped experiment resumes and nothing is written twice. What this module does not know: what the runs show.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from rdkit import Chem

from engine.chem.smiles import in_text_order, molecule_of, parse_smiles
from engine.errors import DriftscopeError
from engine.records import Descriptors

PREFIX = "lost-third"
SAMPLING = "p1.0_t1.0"
FITTED = "fitted"


@dataclass(frozen=True, slots=True)
class LaneSize:
    """``samples`` per molecule; ``references`` by ETKDG: half as many, as published evaluations have it."""

    molecules: int
    samples: int

    def __post_init__(self) -> None:
        if self.molecules < 1 or self.samples < 2 or self.samples % 2:
            raise DriftscopeError(
                f"{self.molecules} molecules with {self.samples} samples each cannot be compared",
                "Give one molecule or more, and an even number of samples",
            )

    @property
    def references(self) -> int:
        return self.samples // 2


@dataclass(frozen=True, slots=True)
class LanePlan:
    key: str
    words: str
    lp: str
    placeholder: str = ""  # FITTED: to the texts of the lane `exact`
    full_vocabulary: bool = False
    order: Literal["canonical", "written"] = "canonical"
    descriptors: Descriptors | None = None  # None: the LP's own

    def label(self, model: str, size: LaneSize) -> str:
        """Of the lane's run: with its size, so that a smaller trial is no part of the experiment."""
        return f"{PREFIX} {model} {self.key} {size.molecules}x{size.samples}"

    def options(self, size: LaneSize, placeholder: str) -> list[str]:
        """Of the command ``run``, without model, molecules and store."""
        chosen = ["--placeholder", placeholder] if placeholder else []
        chosen += ["--descriptors", self.descriptors] if self.descriptors else []
        return [
            *("--lp", self.lp, *chosen, "--order", self.order, "--sampling", SAMPLING),
            *("--n", str(size.samples), "--seed", "0", "--no-closing"),
        ]


NONE, EXACT, V43, PLAIN, REORDERED = "none", "exact", "v4.3", "v4.3-plain", "exact-reordered"
LANES: Mapping[str, LanePlan] = {
    lane.key: lane
    for lane in (
        LanePlan(NONE, "no LP", "none", full_vocabulary=True),
        LanePlan(EXACT, "the exact LP", "exact"),
        LanePlan(V43, "v4.3 as it ran: 0.000 x 3, [OH]", "group-v4.3", "0.000,0.000,0.000"),
        LanePlan(PLAIN, "v4.3 with plain descriptors, [O]", "group-v4.3", "0.000,0.000,0.000", descriptors="plain"),
        LanePlan("v4.3-four", "v4.3 with 0.0000 x 3", "group-v4.3", "0.0000,0.0000,0.0000"),
        LanePlan("v4.3-fitted", "v4.3, fitted placeholder", "group-v4.3", FITTED),
        LanePlan("v3.9", "v3.9: blocklist, 0.000 x 3", "group-v3.9", full_vocabulary=True),
        LanePlan("v3.8", "v3.8 (reconstructed): blocklist, 0.0000 x 3", "group-v3.8", full_vocabulary=True),
        LanePlan("truncating", "truncating", "truncating", full_vocabulary=True),
        LanePlan("guarded", "the guarded LP", "guarded"),
        LanePlan(REORDERED, "the exact LP, another atom order", "exact", order="written"),
    )
}
"""In the order in which they run; v4.3-fitted needs the texts of ``exact``."""
COSTED, MOST_COSTED = (EXACT, V43, "v4.3-fitted"), 8
"""Lanes whose log w is computed, over so many of their molecules: a scoring pass is dearer than the lane."""


def other_order(smiles: str, seed: int = 0) -> str:
    """The molecule's SMILES walked from other atoms along other branches, drawn by the seed and the molecule.

    A molecule of one or two atoms may have no other.
    """
    molecule = parse_smiles(smiles)
    rng = random.Random(f"{seed} {molecule.smiles}")
    for _ in range(20):
        order = rng.sample(range(molecule.atoms), molecule.atoms)
        text: str = Chem.MolToSmiles(Chem.RenumberAtoms(molecule.mol, order), canonical=False)
        try:
            reordered = in_text_order(molecule, text)
        except DriftscopeError:  # RDKit does not read it back
            continue
        if text != molecule.smiles and molecule_of(reordered.mol).smiles == molecule.smiles:
            return text
    return molecule.smiles
