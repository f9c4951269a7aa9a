"""The runs that can be looked into: those with samples, and what is known of each without opening them.

Nothing is judged here: the figures are the sheet's own. Reported runs (a text states them) have no samples and are left
out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from engine.errors import StoreError, nearest, shown
from engine.lp_records import LpRecord, split_cleanup, stored_lp
from engine.store.entries import MOST_NAMED, Entry
from engine.store.schema import BLOCKS, SAMPLES, STEPS
from engine.store.store import Store

_IDS = "SELECT DISTINCT run_id FROM samples WHERE tokens IS NOT NULL"
_HAS_IDS: dict[tuple[str, ...], bool] = {}  # by a run's key


@dataclass(frozen=True, slots=True)
class RunFacts:
    """One run. Texts are empty and counts None where its maker did not say."""

    run_id: str
    label: str
    origin: str  # measured or imported
    model: str  # alias:step
    model_family: str
    tokenizer: str
    lp: str  # with +cleanup where texts were cleaned after
    placeholder: str
    backend: str
    sampling: str
    samples: int
    passes: int | None
    clean: int | None
    blocks: int | None
    bad_blocks: int | None
    cut_blocks: int | None
    unverified_blocks: int | None
    junk_letters: int | None
    junk_nonnumeric: int | None
    rmsd_ang: float | None
    rmsd_samples: int | None
    created_at: datetime | None
    has_blocks: bool
    has_steps: bool  # of some samples at least
    has_ids: bool  # of some samples at least
    notes: str
    key: tuple[str, ...]  # the run and its files' checksums: what is computed of it holds as long as this does

    @property
    def constraint(self) -> str:
        """The LP without its cleanup, as the run names it; empty where it names none."""
        return split_cleanup(self.lp)[0]

    @property
    def lp_record(self) -> LpRecord:
        """``UNKNOWN_LP`` where the run names no LP, or none of ours."""
        return stored_lp(self.lp)

    @property
    def name(self) -> str:
        """What a person calls it: model and LP, and the label where there is one."""
        parts = (self.model or self.model_family, self.lp, self.label)
        return " · ".join(part for part in parts if part) or self.run_id


def runs_with_samples(store: Store) -> list[RunFacts]:
    """Newest first."""
    return _with_ids(store, _all(store))


def run_facts(store: Store, run_id: str) -> RunFacts:
    """One run by its whole id, or by any part that no other has."""
    return _with_ids(store, choose(_all(store), [run_id]))[0]


def choose(runs: Sequence[RunFacts], names: Sequence[str]) -> list[RunFacts]:
    """The runs of these ids, each given whole or by any part that no other has; each once, in the order named."""
    return list({run.run_id: run for run in (_named(runs, name) for name in names)}.values())


def _all(store: Store) -> list[RunFacts]:
    """Newest first; of none it is known yet whether it has ids."""
    entries = [entry for entry in store.found().entries if SAMPLES.name in entry.parts]
    return [_facts(entry) for entry in reversed(entries)]


def _with_ids(store: Store, runs: Sequence[RunFacts]) -> list[RunFacts]:
    """Each run is asked once, since it never changes."""
    new = {run.run_id: run.key for run in runs if run.key not in _HAS_IDS}
    if new:
        having = set(store.table(_IDS, of=new)["run_id"].to_pylist())
        _HAS_IDS.update({key: run_id in having for run_id, key in new.items()})
    return [replace(run, has_ids=_HAS_IDS[run.key]) for run in runs]


def _named(runs: Sequence[RunFacts], name: str) -> RunFacts:
    whole = [run for run in runs if run.run_id == name]
    near = whole or [run for run in runs if name and name in run.run_id]
    if len(near) == 1:
        return near[0]
    if near:
        some = ", ".join(run.run_id for run in near[:MOST_NAMED])
        raise StoreError(f"there are {len(near)} runs like {shown(name)}", f"Give more of its name: {some}")
    known = [run.run_id for run in runs[:MOST_NAMED]]
    raise StoreError(f"there is no run {shown(name)} with samples", nearest(name, known))


def _facts(entry: Entry) -> RunFacts:
    row = entry.row
    return RunFacts(
        run_id=entry.id,
        label=row.get("label") or "",
        origin=row["origin"],
        model=_model(row),
        model_family=row.get("model_family") or "",
        tokenizer=row.get("tokenizer") or "",
        lp=row.get("lp") or "",
        placeholder=row.get("placeholder") or "",
        backend=row.get("backend") or "",
        sampling=row.get("sampling") or "",
        samples=entry.parts[SAMPLES.name].rows,
        passes=row.get("passes"),
        clean=row.get("clean"),
        blocks=row.get("blocks"),
        bad_blocks=row.get("bad_blocks"),
        cut_blocks=row.get("cut_blocks"),
        unverified_blocks=row.get("unverified_blocks"),
        junk_letters=row.get("junk_letters"),
        junk_nonnumeric=row.get("junk_nonnumeric"),
        rmsd_ang=row.get("rmsd_ang"),
        rmsd_samples=row.get("rmsd_samples"),
        created_at=row.get("created_at"),
        has_blocks=BLOCKS.name in entry.parts,
        has_steps=STEPS.name in entry.parts,
        has_ids=False,
        notes=row.get("notes") or "",
        key=entry.key,
    )


def _model(row: Any) -> str:
    alias, step = row.get("model_alias") or "", row.get("model_step") or ""
    return f"{alias}:{step}" if alias and step else alias
