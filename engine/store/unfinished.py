"""Runs that were begun and are not in the store yet: how far each is, whether a process writes it, how to remove it;
and the state of all that a store holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.errors import RunError, StoreError
from engine.store.columns import Kind
from engine.store.files import Files
from engine.store.schema import KINDS, RUN
from engine.store.staging import Staging, unfinished_ids
from engine.store.store import Store, damaged_parts


@dataclass(frozen=True, slots=True)
class Unfinished:
    """``row`` is what was known of the run before its first sample; counts are None where its sheet does not read."""

    run_id: str
    state: str  # being written, stopped or damaged
    samples_done: int | None
    samples: int | None  # asked for
    row: Mapping[str, Any]
    can_resume: bool  # an import begins anew


def unfinished_runs(files: Files) -> list[Unfinished]:
    """Oldest first. One that is finished or removed while this looks is left out."""
    runs = []
    for id_ in unfinished_ids(files, RUN):
        try:
            staging = Staging.open(files, RUN, id_)
            done = len({member for group in staging.groups() for member in group.members})
        except (RunError, FileNotFoundError):  # finished or removed meanwhile
            continue
        except (StoreError, OSError):
            runs.append(Unfinished(id_, "damaged", None, None, {}, can_resume=False))
            continue
        sheet, state = staging.sheet, "being written" if staging.is_being_written else "stopped"
        runs.append(Unfinished(id_, state, done, sheet.get("samples"), sheet["row"], can_resume="plan" in sheet))
    return runs


def check_idle(files: Files, id_: str) -> None:
    """An error where another process writes the run."""
    if Staging(files, RUN, id_, {}).is_being_written:
        raise RunError(f"{id_} is being written by another process", "Stop that first")


def abandon(files: Files, id_: str) -> None:
    """Throw away what was written of an unfinished run, also of a damaged one."""
    if id_ not in unfinished_ids(files, RUN):
        raise RunError(f"{id_} is not unfinished any more", "See the runs of the store")
    check_idle(files, id_)
    Staging(files, RUN, id_, {}).abandon()


def state_rows(store: Store) -> list[dict[str, Any]]:
    """Of each entry whether it is whole, damaged or unfinished, every byte of it read; its kind, id, place, and what is
    wrong."""
    rows: list[dict[str, Any]] = []

    def add(state: str, kind: Kind, id_: str | None, where: str, what: str | None = None) -> None:
        row = {"state": state, "kind": kind.folder, "id": id_, "where": where, "what": what}
        rows.append(row | {"run_id": id_ if kind is RUN else None})

    for kind in KINDS:
        try:
            found = store.found(kind)
            damages = [*found.damages, *(damage for entry in found.entries for damage in damaged_parts(entry))]
            for damage in damages:
                add("damaged", kind, damage.id, damage.where, damage.what)
            for entry in found.entries:
                if all(damage.id != entry.id for damage in damages):
                    add("whole", kind, entry.id, entry.files.where)
            for run in unfinished_runs(store.home) if kind is RUN else ():
                done = "" if run.samples_done is None else f"{run.samples_done} of {run.samples or '?'} samples; "
                add("unfinished", kind, run.run_id, store.home.where, done + run.state)
        except StoreError as error:  # a file where a folder of the store should be; the others are looked at
            add("damaged", kind, None, store.home.where, error.what)
    return rows
