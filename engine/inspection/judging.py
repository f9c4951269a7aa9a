"""Stored answers judged: the verdicts on a run's molecules, into its own rows where it is the user's.

Needs no model, so old runs and imported reports are judged like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from rdkit import Chem

from engine.chem.enriched import CLOSE_TAG, NEXT_CONFORMER, OPEN_TAG, as_decimals
from engine.chem.geometry import judged_with
from engine.chem.judges import LIMIT_S, JudgeTask, judged
from engine.chem.other_forms import OTHER_WORDS, other_form
from engine.chem.pools import without_stereo
from engine.chem.smiles import parse_smiles
from engine.chem.verdict import CRASH, PLAIN, TIME, WITH_STRAIN, JudgeSettings, strain_per_atom
from engine.errors import DriftscopeError, StoreError
from engine.inspection.conformers import difference_columns
from engine.inspection.rollout_judging import judge_rollouts, nothing_to_judge
from engine.records import Alphabet, NumberFormat
from engine.store.entries import Entry, is_unjudged, without_samples
from engine.store.generations import conformer_texts
from engine.store.sample_rows import MOST_MEASURED, run_columns, verdict_row, verdict_sums
from engine.store.schema import SAMPLES
from engine.store.staging import rewrite_run
from engine.store.store import Store
from engine.text.blocks import READ_FORMAT
from engine.text.check import NOT_PARSED, check_sample, conformers_of_graph, extract_smiles, find_answer

Row = dict[str, Any]
OF_SAMPLE = (
    "sample_id generation smiles heavy_atoms passed decodes clean stereo_right geometry_right usable failed "
    "strain_kcal strain_moved_ang strain_field conformers clean_each usable_each differ_least_ang differ_mean_ang"
).split()
RATES, WHOLE = ("passed", "decodes", "clean", "usable", "stereo_right", "geometry_right"), 4
"""The first four are not known where that of a sample is not; not every molecule has the others."""
OF_TEXT = ("passed", "decodes", "clean", "same_graph")
OF_ROLLOUTS = ("passes", "decodes", "clean", "judged", "usable", "stereo_right", "geometry_right", "judged_with")
"""Columns of ``runs`` that are said of a training's step."""
ON_REQUEST = ("strain_kcal", "strain_moved_ang", "strain_field")
"""Stay null, or as they were, where strain is not asked for."""


@dataclass(frozen=True, slots=True)
class JudgedRun:
    """A run with its verdicts; ``rows`` are those of ``samples``."""

    entry: Entry
    rows: list[Row]
    columns: dict[str, Any]  # of ``runs``
    is_stored: bool

    @property
    def not_finished(self) -> list[str]:
        """Samples that a library could not judge, each in words."""
        return [
            f"sample {row['sample_id']} ({row['smiles']}): {failed['detail']}"
            for row in self.rows
            for failed in row["failed"]
            if failed["check"] in (TIME, CRASH)
        ]

    def samples(self) -> list[Row]:
        return [{name: row[name] for name in OF_SAMPLE} for row in self.rows]

    def rates(self) -> dict[str, float | None]:
        """Shares of the samples, and ``.._of_conformers`` of their conformers, from 0 to 1; and means of the strain
        where the geometry is right. An answer of several conformers is usable if all of them are."""

        def mean(values: Iterable[float | None]) -> float | None:
            measured = [value for value in values if value is not None and abs(value) < MOST_MEASURED]
            return fmean(measured) if measured else None

        def of_conformers(name: str) -> float | None:
            each = [one for row in self.rows for one in row[f"{name}_each"] or (row[name],)]
            return None if None in each else mean(each)

        right = [row for row in self.rows if row["geometry_right"]]
        not_known = [name for name in RATES[:WHOLE] if any(row[name] is None for row in self.rows)]
        return {
            **{name: mean(row[name] for row in self.rows) for name in RATES},
            **dict.fromkeys(not_known),
            "strain_kcal": mean(row["strain_kcal"] for row in right),
            "strain_moved_ang": mean(row["strain_moved_ang"] for row in right),
            "clean_of_conformers": of_conformers("clean"),
            "usable_of_conformers": of_conformers("usable"),
            "strain_kcal_per_atom": mean(map(strain_per_atom, right)),
        }


def judge_run(
    store: Store,
    run_id: str,
    settings: JudgeSettings = PLAIN,
    *,
    workers: int | None = None,
    limit_s: float = LIMIT_S,
    progress: Callable[[int, int], None] = lambda done, samples: None,
) -> JudgedRun:
    """Judge all samples of a run. One that is in a place which is only read is not changed."""
    entry = store.entry(run_id)
    if _is_waiting(store, entry):
        (entry,) = judge_rollouts([entry], settings, workers=workers, limit_s=limit_s, progress=progress)
        rows = entry.read(SAMPLES.name).to_pylist()
        return JudgedRun(entry, rows, {name: entry.row.get(name) for name in OF_ROLLOUTS}, is_stored=True)
    sql = f"SELECT {', '.join(SAMPLES.names)} FROM samples WHERE run_id = $run ORDER BY sample_id"
    rows = store.table(sql, {"run": entry.id}, of=[entry.id]).to_pylist()
    if not rows:
        raise without_samples(entry, "judge")
    texts = conformers_of(store, entry, rows)
    verdicts = {key: nothing_to_judge(rows[key]) for key, text in enumerate(texts) if not text}
    tasks = (JudgeTask(key, text, _asked_of(rows[key])) for key, text in enumerate(texts) if text)
    with closing(judged(tasks, settings, workers=workers, limit_s=limit_s)) as results:
        for task, verdict in results:
            kept = {} if settings.strain else {name: rows[task.key][name] for name in ON_REQUEST}
            verdicts[task.key] = replace(verdict, **kept)
            progress(len(verdicts), len(rows))
    rows = [
        {
            **row,
            **verdict_row(row["clean"], verdicts[key], row["clean_each"]),
            **difference_columns(_of_molecule(texts[key], row["smiles"])),
        }
        for key, row in enumerate(rows)
    ]
    columns: dict[str, Any] = {**run_columns(verdict_sums(rows)), "judged_with": judged_with(settings.geometry)}
    if any(row["clean"] is None for row in rows):
        del columns["usable"]  # without their texts
    is_own = entry.files is store.home
    if is_own:
        entry = rewrite_run(entry, {SAMPLES.name: SAMPLES.rows(rows)}, columns)
    return JudgedRun(entry, rows, columns, is_own)


def _is_waiting(store: Store, entry: Entry) -> bool:
    """Rollouts that were only opened, of a store that may be written."""
    return entry.files is store.home and is_unjudged(entry)


def conformers_of(store: Store, entry: Entry, rows: Iterable[Row]) -> list[str]:
    """What is judged of each sample; empty where there is nothing, an error where there is nothing at all."""
    stated = conformer_texts(store, entry)
    texts = [find_answer(stated.get(row["sample_id"]) or row["text"] or "").judged for row in rows]
    if not any(texts):
        fix = "Import its report with decoded_text, or a pickle whose molecules have a conformer"
        raise StoreError(f"{entry.id} has samples, but neither their texts nor their conformers", fix)
    return texts


def _asked_of(row: Row) -> str:
    """Where no SMILES was written with a conformer, its graph: the stereo was read from the same coordinates."""
    is_own_graph = row["text"] is None and row["parsed"] and row["same_graph"] is None
    return without_stereo(row["smiles"]) if is_own_graph else row["smiles"] or ""


def _of_molecule(judged_text: str, smiles: str | None) -> list[Chem.Mol]:
    """Of an answer of several conformers, those of the molecule that was asked for."""
    with suppress(DriftscopeError):
        if NEXT_CONFORMER in judged_text:
            each = conformers_of_graph(f"{OPEN_TAG}{judged_text}{CLOSE_TAG}", parse_smiles(smiles or "").mol)
            return [mol for mol in each if mol is not None]
    return []


def judge_text(
    text: str,
    smiles: str = "",
    settings: JudgeSettings = WITH_STRAIN,
    form: NumberFormat = READ_FORMAT,
    *,
    limit_s: float = LIMIT_S,
) -> Row:
    """What the table ``samples`` says of one text and the molecule that it should be: the one named, that of its
    prompt, or its own; and why it is not clean. It is judged in a process with a limit."""
    molecule = parse_smiles(smiles) if smiles else None
    answer = find_answer(text, molecule)
    if molecule is None:
        with suppress(DriftscopeError):
            molecule = parse_smiles(answer.prompted or extract_smiles(answer.conformers[0], form))
    other = None if isinstance(form, Alphabet) else other_form(answer.conformers[0])
    if molecule is None:
        about: Row = {"smiles": None, "heavy_atoms": None}
        rules: Row = {
            **dict.fromkeys(OF_TEXT, False),
            "issues": (OTHER_WORDS[other] if other else NOT_PARSED,),
            "conformers": len(answer.bodies),
            "why_not_clean": (),
            "clean_each": None,
        }
    else:
        check = check_sample(text, molecule, form=form)
        names = (*OF_TEXT, "issues", "conformers", "why_not_clean", "clean_each")
        rules = {name: getattr(check, name) for name in names}
        about = {"smiles": molecule.smiles, "heavy_atoms": molecule.heavy_atoms}
    task = JudgeTask(0, as_decimals(answer.judged, form, keep=True), about["smiles"] or "")
    ((_, verdict),) = judged([task], settings, workers=1, limit_s=limit_s)
    return about | rules | verdict_row(rules["clean"], verdict, rules["clean_each"])
