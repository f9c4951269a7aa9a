"""A report for each finding that the reports' conclusions rest on, of what ships: ``data/gallery.toml`` lists them."""

from __future__ import annotations

from pathlib import Path

import msgspec

from engine.evidence.claims import load_claims
from engine.handover.collecting import Asked, bundle_with, typed, worst_molecules
from engine.handover.records import Bundle
from engine.handover.writing import write_bundle
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
    runs = [shipped_run(store, name) for name in example.runs]
    traces = [store.entry(name, TRACE) for name in example.traces]
    ids = {"run": [run.id for run in runs], "trace": list(example.traces), "text": [example.text]}
    asked: list[Asked] = [("evidence_claims", [], {"claim": example.claim, "find": example.claim})]
    for key in example.questions:
        of = question_of(key).OF
        asked.append((key, ids[of.kind][-of.most :], {}))
    (claim,) = [claim for claim in load_claims() if claim.id == example.claim]
    samples = worst_molecules(store, runs) if example.molecules else []
    command = typed("bundle", "--gallery", "gallery")
    return bundle_with(store, claim.statement, asked, samples, [*runs, *traces], command, molecules=example.molecules)


def shipped_run(store: Store, name: str) -> Entry:
    """``demo-qwen exact``: the newest of this model and LP."""
    model, lp = name.split()
    runs = [
        entry
        for entry in store.listing().entries
        if (entry.row.get("model_alias"), entry.row.get("lp"), entry.row.get("label")) == (model, lp, SHIPS)
    ]
    return runs[-1]


def write_gallery(folder: Path) -> list[dict[str, object]]:
    """A row each, of the file that was written."""
    store, rows = Store(Files(DEMO)), list[dict[str, object]]()
    folder.mkdir(parents=True, exist_ok=True)
    for example in examples():
        path = folder / f"{example.file}.html"
        size = write_bundle(example_bundle(store, example), path)
        rows.append({"file": str(path), "bytes": size, "word": example.word, "claim": example.claim})
    return rows
