"""A judged pool of conformers as a report: a run of a store that is thrown away, so that the same questions answer."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

from engine.chem.pools import PoolConformer
from engine.chem.verdict import PLAIN, JudgeSettings
from engine.handover.collecting import bundle_of
from engine.handover.writing import Bundle, Section, typed
from engine.store.generations import import_pool
from engine.store.store import Store

STRAIN_BY = {None: (), "force-field": ("--strain",), "gfn2-xtb": ("--xtb",)}


def pool_bundle(path: Path, conformers: Iterable[PoolConformer], settings: JudgeSettings, out: str) -> Bundle:
    """``conformers``: the file's, read and judged."""
    with tempfile.TemporaryDirectory(prefix="driftscope-report-") as folder:
        store = Store.open(folder)
        run = import_pool(store, path, settings=settings, conformers=conformers)
        bundle = bundle_of(store, [run.id])
    geometry = () if settings.geometry == PLAIN.geometry else (f"--settings={settings.geometry}",)
    options = [*geometry, *["--energy"] * settings.energy, *STRAIN_BY[settings.strain]]
    commands = typed("import", str(path)), typed("judge", run.id, *options)
    note = f"The run that the commands above name is made by `{commands[0]}` and then `{commands[1]}`."
    made = Section("The file", [("code", typed("judge", str(path), *options, "--report", out)), ("note", note)])
    return Bundle(bundle.title, [*bundle.sections, made])
