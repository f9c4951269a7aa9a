"""A report for each finding that the reports' conclusions rest on, of what ships: ``data/gallery.toml`` lists them."""

from __future__ import annotations

from pathlib import Path

import msgspec

from engine.errors import FileError, shown
from engine.evidence.claims import load_claims
from engine.handover.collecting import Asked, bundle_with, worst_molecules
from engine.handover.writing import Bundle, typed, write_bundle
from engine.paths import DATA, read_toml
from engine.questions import question_of
from engine.store.entries import Entry
from engine.store.files import Files
from engine.store.schema import TRACE
from engine.store.store import DEMO, Store

SHIPS = "ships with the project"


class Example(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``word`` is the glossary's that links to it; ``runs`` are model and LP."""

    file: str
    word: str
    claim: str
    questions: tuple[str, ...]
    runs: tuple[str, ...] = ()
    traces: tuple[str, ...] = ()
    text: str = ""
    molecules: int = 0


def examples() -> list[Example]:
    return read_toml(
        DATA / "gallery.toml", "list of examples", lambda read: msgspec.convert(read["example"], list[Example])
    )


def example_bundle(store: Store, example: Example) -> Bundle:
    """The claim with its verdict, then what shows it."""
    runs = [shipped_run(store, *name.split()) for name in example.runs]
    entries = [*runs, *(store.entry(name, TRACE) for name in example.traces)]
    ids = [entry.id for entry in entries] or [example.text]
    asked: list[Asked] = [("evidence_claims", [], {"claim": example.claim, "find": example.claim})]
    asked += [(key, ids[-question_of(key).OF.most :], {}) for key in example.questions]
    (claim,) = [claim for claim in load_claims() if claim.id == example.claim]
    samples = worst_molecules(store, runs) if example.molecules else []
    command = typed("bundle", "--gallery", "gallery")
    return bundle_with(store, claim.statement, asked, samples, entries, command, molecules=example.molecules)


def shipped_run(store: Store, model: str, lp: str) -> Entry:
    """The newest of this model and LP."""
    about = {"model_alias": model, "lp": lp, "label": SHIPS}
    return [entry for entry in store.listing().entries if about.items() <= entry.row.items()][-1]


def write_gallery(folder: Path) -> list[dict[str, object]]:
    """A row each, of the file that was written."""
    store, rows = Store(Files(DEMO)), list[dict[str, object]]()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"{shown(folder, 200)} is no folder ({error.strerror})", "Give another place") from error
    for example in examples():
        path = folder / f"{example.file}.html"
        size = write_bundle(example_bundle(store, example), path)
        rows.append({"file": str(path), "bytes": size, "word": example.word, "claim": example.claim})
    return rows
