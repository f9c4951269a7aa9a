"""What the first look at any page needs, made as the server starts: modules, both tokenizers, plotly's first
figure, the exact LP's tables, which of two logs was read late.

Without it the reader who opens a tab first waits for them, a second and more.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from engine.errors import DriftscopeError
from engine.logits.pairs import first_logs, late_in_store
from engine.lp.constraint import build_constraint
from engine.lp.vocabulary import vocabulary_of
from engine.store.schema import LOGIT_LOG
from engine.store.store import Store
from engine.text.tokenizers import BUILT_IN, load_tokenizer
from pages._shared.charts.chart import HeatmapCells, Marks, chart
from pages._shared.listing import FOLDER
from pages._shared.theme import LIGHT


def warm() -> Iterator[None]:
    """Step by step, none longer than a second. What fails here fails again, and is told, where a page needs it."""
    for path in sorted(FOLDER.glob("_*/**/*.py")):
        with suppress(ImportError, SyntaxError):
            parts = path.relative_to(FOLDER.parent).with_suffix("").parts
            importlib.import_module(".".join(parts).removesuffix(".__init__"))
        yield
    _draw()
    yield
    for name in BUILT_IN:
        with suppress(DriftscopeError):
            vocabulary_of(tokenizer := load_tokenizer(name))
            yield
            build_constraint("exact", tokenizer, tokenizer.vocab_size)
        yield
    with suppress(DriftscopeError):
        _look_at_logs()


def _look_at_logs() -> None:
    """At the two that Logit health opens with: each beside all others of its model."""
    store = Store.open().snapshot()
    for log in first_logs(store.found(LOGIT_LOG).entries):
        late_in_store(store, log)


def _draw() -> None:
    """One of each kind of mark: plotly imports and checks each as it is first used."""
    rows = [{"x": 1, "y": 1, "low": 0, "high": 2}]
    bars = Marks(kind="bars", rows=rows, name="bars", colour=LIGHT.copy, interval="y")
    cells = HeatmapCells(x=None, y=None, values=[[1]], scale=[[0, LIGHT.copy], [1, LIGHT.free]], high=1)
    chart(bars, replace(bars, kind="points"), replace(bars, kind="lines"), cells, height=100, alt="").figure(LIGHT)
