"""Conformers of every kind, drawn by a seed, judged by PoseBusters and by ours: what both say, and how long each takes.

They are written by the demo's models, embedded by ETKDG, mirrored, perturbed, pressed flat, shrunk, and collapsed to a
point; of drug-like, small and odd molecules.
"""

from __future__ import annotations

import logging
import math
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from rdkit import Chem

from engine.chem.conformers import reference_conformers
from engine.chem.enriched import decode
from engine.chem.frame import add_conformer
from engine.chem.geometry import GeometryChecks, GeometryVerdict, SettingsName
from engine.chem.molecule_sets import load_molecule_set, load_named
from engine.chem.rdkit_log import captured_log
from engine.chem.smiles import parse_smiles, read_text_order
from engine.errors import DriftscopeError
from engine.store.store import DEMO, Store

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
    rows = Store.open(DEMO).rows("SELECT text FROM samples WHERE text <> '' ORDER BY run_id, sample_id")
    texts = [row["text"] for row in rows]
    drawn = [entry.smiles for entry in load_molecule_set(400)] + [*load_named().values()]
    pool = [rng.choice(drawn) for _ in range(max(10, count // 20))]
    while count:
        kind = rng.choice(KINDS)
        try:
            if kind == "written":
                yield kind, decode(rng.choice(texts)).mol
            else:
                mol = Chem.Mol(_embedded(rng.choice(ODD if rng.random() < 0.3 else pool)))
                if mol.GetNumConformers():
                    positions = mol.GetConformer().GetPositions()
                else:
                    positions = noise.normal(0.0, 2.0, (mol.GetNumAtoms(), 3))
                if kind == "mirrored":
                    positions = positions * [-1.0, 1.0, 1.0]
                elif kind == "perturbed":
                    width = noise.choice([0.02, 0.05, 0.1, 0.2, 0.4, 0.8])
                    positions = positions + noise.normal(0.0, width, positions.shape)
                elif kind == "collapsed":
                    shrunk = ((1.0, 1.0, 0.0), (0.7, 0.7, 0.7), (0.0, 0.0, 0.0))
                    positions = positions * shrunk[noise.integers(3)]
                mol.RemoveAllConformers()
                add_conformer(mol, positions)
                yield kind, mol
        except DriftscopeError:
            continue
        count -= 1


@cache
def _embedded(smiles: str) -> Chem.Mol:
    """A reference conformer, or the bare molecule where it cannot be embedded."""
    try:
        return reference_conformers(parse_smiles(smiles), max_seconds=1.0)
    except DriftscopeError:
        return read_text_order(smiles)


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


def judge_geometry(mol: Chem.Mol, settings: SettingsName = "mol_fast", *, energy: bool = False) -> GeometryVerdict:
    return GeometryChecks(mol, settings, energy=energy).judge(mol.GetConformer().GetPositions())


def of(verdict: GeometryVerdict, check: str) -> bool | None:
    return None if check in verdict.not_judged else all(failure.check != check for failure in verdict.failed)


@dataclass(slots=True)
class Agreement:
    """What both sides said of the same conformers."""

    conformers: Counter[str] = field(default_factory=Counter)  # by kind
    failed: Counter[str] = field(default_factory=Counter)  # by check, as PoseBusters says
    not_judged: Counter[str] = field(default_factory=Counter)
    differ: list[str] = field(default_factory=list)
    theirs_s: float = 0.0
    ours_s: float = 0.0


def compare(count: int) -> Agreement:
    agreement, engine = Agreement(), poses()
    for done, (kind, mol) in enumerate(conformers(count), start=1):
        begin = time.process_time()
        theirs = bust(engine, mol)
        middle = time.process_time()
        verdict = judge_geometry(mol)
        agreement.ours_s += time.process_time() - middle
        agreement.theirs_s += middle - begin
        agreement.conformers[kind] += 1
        for check, expected in theirs.items():
            agreement.failed[check] += expected is False
            agreement.not_judged[check] += expected is None
            if of(verdict, check) is not expected:
                agreement.differ.append(f"{Chem.MolToSmiles(mol)} ({kind}): {check} is {expected} there")
        if done % 100 == 0:
            sys.stderr.write(f"\r{done}/{count}")
    return agreement
