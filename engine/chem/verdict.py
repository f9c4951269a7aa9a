"""The verdict on an answer's molecule: stereo against the SMILES that was asked, geometry, and strain on request.

What the text says is for `engine.text.check`; whether both together make a usable conformer, `MoleculeVerdict` says.
Atoms are those of the text, in its order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from rdkit import Chem

from engine.chem.codes import WITHOUT_DECODER
from engine.chem.enriched import NEXT_CONFORMER, decode
from engine.chem.geometry import GeometryChecks, SettingsName
from engine.chem.heavy import heavy_of
from engine.chem.other_forms import other_form
from engine.chem.smiles import read_text_order
from engine.chem.stereo import StereoVerdict, judge_stereo
from engine.chem.strain import StrainMethod, strain_of
from engine.errors import DriftscopeError, EnrichedError, GraphMismatchError, RunError
from engine.figures.words import fixed
from engine.records import FailedCheck, MoleculeVerdict

LOADED, GRAPH, STEREO = "loaded", "graph", "stereo"
"""Checks besides those of `engine.chem.geometry`: a conformer could be read; it is of the molecule; hands and sides."""
CODES = "codes"
"""A conformer is of codes, and no decoder is there to say where its atoms are."""
TIME, CRASH = "time_limit", "crash"
"""Checks of answers that could not be judged to the end."""
NOT_JUDGED = {
    LOADED: "not read by the strict reader",
    TIME: "not judged in time",
    CRASH: "not judged, a library crashed",
    CODES: f"not judged: {WITHOUT_DECODER}",
}
"""Failures that leave everything else of a molecule open."""


@dataclass(frozen=True, slots=True)
class JudgeSettings:
    """What is judged besides stereo: by which checks, and what takes long and is done on request."""

    geometry: SettingsName = "mol_fast"
    energy: bool = False
    strain: StrainMethod | None = None

    def __post_init__(self) -> None:
        if self.energy and self.geometry == "mol_fast":
            raise RunError("the settings mol_fast have no energy ratio", "Give --settings mol or group")


MOST_STRAIN_KCAL = 10_000  # beyond it the figure says nothing of a molecule
PLAIN, WITH_STRAIN = JudgeSettings(), JudgeSettings(strain="force-field")


def judge_answer(text: str, expected: Chem.Mol | None, settings: JudgeSettings = PLAIN) -> MoleculeVerdict:
    """Of enriched text that should be ``expected``; where that is None, the text's own. Of several conformers each is
    judged, and the worst counts."""
    verdicts = [_judge_conformer(part, expected, settings) for part in text.split(NEXT_CONFORMER)]
    whole = verdicts[0] if len(verdicts) == 1 else _worst(verdicts)
    return replace(whole, right_each=tuple(verdict.is_right for verdict in verdicts))


def _worst(verdicts: Sequence[MoleculeVerdict]) -> MoleculeVerdict:
    """What is true of all conformers; a failed check names its conformer, from 1, and the strain is the largest."""
    strained = max(verdicts, key=lambda verdict: -1.0 if verdict.strain_kcal is None else verdict.strain_kcal)
    return replace(
        strained,
        stereo_sites=sum(verdict.stereo_sites for verdict in verdicts),
        stereo_sites_right=sum(verdict.stereo_sites_right for verdict in verdicts),
        stereo_right=_of_all([verdict.stereo_right for verdict in verdicts]),
        geometry_right=_of_all([verdict.geometry_right for verdict in verdicts]),
        failed=tuple(
            replace(failed, detail=f"conformer {number}: {failed.detail}")
            for number, verdict in enumerate(verdicts, 1)
            for failed in verdict.failed
        ),
    )


def _of_all(answers: Sequence[bool | None]) -> bool | None:
    if False in answers:
        return False
    return None if None in answers else True


def _judge_conformer(text: str, expected: Chem.Mol | None, settings: JudgeSettings) -> MoleculeVerdict:
    try:
        decoded = decode(text)
    except DriftscopeError as error:
        if text == WITHOUT_DECODER or other_form(text) == "codes":
            return MoleculeVerdict(0, 0, None, None, (FailedCheck(CODES, (), NOT_JUDGED[CODES]),))
        block = error.block if isinstance(error, EnrichedError) else None
        return MoleculeVerdict(0, 0, None, None, (FailedCheck(LOADED, () if block is None else (block,), error.what),))
    return judge_mol(decoded.mol, decoded.smiles, expected, settings)


def judge_mol(
    mol: Chem.Mol, smiles: str, expected: Chem.Mol | None, settings: JudgeSettings = PLAIN
) -> MoleculeVerdict:
    """Of a molecule with one conformer and its atoms in the order of ``smiles``, which is its own."""
    heavy, text_atoms = heavy_of(mol)
    failed: list[FailedCheck] = []
    stereo = StereoVerdict((), complete=True)
    try:
        if (
            expected is not None
            and len({Chem.MolToSmiles(each, isomericSmiles=False) for each in (expected, heavy)}) > 1
        ):
            raise GraphMismatchError("the answer is another molecule")
        stereo = judge_stereo(mol if expected is None else expected, heavy)
        failed += [FailedCheck(STEREO, site.answer_atoms, site.word) for site in stereo.wrong if stereo.complete]
    except GraphMismatchError:
        failed.append(FailedCheck(GRAPH, (), "another molecule than the one that was asked for"))
    geometry = _checks(smiles, settings.geometry, settings.energy).judge(heavy.GetConformer().GetPositions())
    strain = None if settings.strain is None else strain_of(heavy, settings.strain)
    return MoleculeVerdict(
        len(stereo.sites),
        len(stereo.sites) - len(stereo.wrong),
        stereo.right,
        geometry.right,
        tuple(
            FailedCheck(failure.check, tuple(text_atoms[atom] for atom in failure.atoms), failure.detail)
            for failure in (*failed, *geometry.failed)
        ),
        *(strain or ()),
    )


def check_words(check: str) -> str:
    """A failed check's name, as people read it."""
    return NOT_JUDGED.get(check, check.replace("_", " "))


def is_stereo_judged(sample: Mapping[str, Any]) -> bool:
    """Of a row of ``samples``: whether what the SMILES specifies was looked at, if anything, in every symmetry."""
    if sample["stereo_sites"] and sample["stereo_right"] is None:
        return False
    return all(failed["check"] not in (GRAPH, *NOT_JUDGED) for failed in sample["failed"] or ())


def strain_per_atom(sample: Mapping[str, Any]) -> float | None:
    """Of a row of ``samples``. Its heavy atoms are the asked molecule's, so another molecule has no such figure."""
    if sample["strain_kcal"] is None or not sample["heavy_atoms"] or sample["same_graph"] is False:
        return None
    return float(sample["strain_kcal"] / sample["heavy_atoms"])


def strain_words(sample: Mapping[str, Any]) -> str:
    """Of a row of ``samples``: ``7.5 kcal/mol; 1.25 per heavy atom; heavy atoms move 0.21 Å (MMFF94)``."""
    if sample["strain_kcal"] is None:
        return ""
    if sample["strain_kcal"] > MOST_STRAIN_KCAL:
        return f"over {MOST_STRAIN_KCAL:,} kcal/mol; atoms lie in one another"
    per_atom = strain_per_atom(sample)
    share = "" if per_atom is None else f"; {fixed(per_atom, 2)} per heavy atom"
    moved = sample["strain_moved_ang"]
    moves = "" if moved is None else f"; heavy atoms move {fixed(moved, 2)} Å ({sample['strain_field']})"
    return f"{fixed(sample['strain_kcal'], 1)} kcal/mol{share}{moves}"


@lru_cache(maxsize=64)
def _checks(smiles: str, settings: SettingsName, energy: bool) -> GeometryChecks:
    """Samples of one molecule come one after the other. ``smiles`` is the text's own, so atoms are in its order."""
    return GeometryChecks(heavy_of(read_text_order(smiles))[0], settings, energy=energy)
