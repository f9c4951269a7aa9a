"""A judged pool of conformers as a bundle: a run of a store that is thrown away, so that the same questions answer."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from engine.chem.pools import PoolConformer
from engine.chem.verdict import PLAIN, JudgeSettings
from engine.handover.collecting import bundle_of, typed
from engine.handover.records import Bundle
from engine.store.generations import import_pool
from engine.store.store import Store

ITS_RUN = "The run that its commands name is made by `{}`."
STRAIN_BY = {"force-field": "--strain", "gfn2-xtb": "--xtb"}


def pool_bundle(path: Path, conformers: Iterable[PoolConformer], settings: JudgeSettings, out: str) -> Bundle:
    """``conformers``: the file's, read and judged."""
    with tempfile.TemporaryDirectory(prefix="driftscope-report-") as folder:
        store = Store.open(folder)
        run = import_pool(store, path, settings=settings, conformers=conformers)
        bundle = bundle_of(store, [run.id])
    options = [] if settings.geometry == PLAIN.geometry else [f"--settings={settings.geometry}"]
    options += ["--energy"] if settings.energy else []
    options += [STRAIN_BY[settings.strain]] if settings.strain else []
    is_plain = options in ([], ["--strain"])  # `import` judges so, too
    note = ITS_RUN.format(typed("import", str(path), *(options if is_plain else [])))
    note += "" if is_plain else f" Then its verdict by `{typed('judge', run.id, *options)}`."
    return replace(bundle, command=typed("judge", str(path), *options, "--report", out), notes=[note])
