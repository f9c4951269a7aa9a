"""A judged pool of conformers as a bundle: a run of a store that is thrown away, so that the same questions answer."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from engine.chem.pools import PoolConformer
from engine.chem.verdict import JudgeSettings
from engine.handover.collecting import bundle_of, typed
from engine.handover.records import Bundle
from engine.store.generations import import_pool
from engine.store.store import Store

ITS_RUN = "The run that its commands name is made by `{}`."


def pool_bundle(path: Path, conformers: Iterable[PoolConformer], settings: JudgeSettings, out: str) -> Bundle:
    """``conformers``: the file's, read and judged."""
    with tempfile.TemporaryDirectory(prefix="driftscope-report-") as folder:
        store = Store.open(folder)
        run = import_pool(store, path, settings=settings, conformers=conformers)
        bundle = bundle_of(store, [run.id])
    command = typed("judge", str(path), "--report", out)
    return replace(bundle, command=command, notes=[ITS_RUN.format(typed("import", str(path)))])
