"""What the first look at any page needs, made as the server starts: modules, both tokenizers, plotly's first
figure, the exact LP's tables, which of two logs was read late.

Without it the reader who opens a tab first waits for them, a second and more.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import suppress

from engine.errors import DriftscopeError
from engine.logits.pairs import first_logs, late_read
from engine.lp.constraint import build_constraint
from engine.lp.vocabulary import vocabulary_of
from engine.questions import KEYS, question_of
from engine.questions.question import Chart
from engine.store.schema import LOGIT_LOG
from engine.store.store import Store
from engine.text.tokenizers import BUILT_IN, load_tokenizer
from pages._app.listing import FOLDER
from pages._kit.chart import figure_of


def warm() -> Iterator[None]:
    """Step by step, none longer than a second. What fails here fails again, and says so, where a page needs it."""
    for path in sorted(FOLDER.glob("_*/**/*.py")):
        with suppress(ImportError, SyntaxError):
            parts = path.relative_to(FOLDER.parent).with_suffix("").parts
            importlib.import_module(".".join(parts).removesuffix(".__init__"))
        yield
    for key in KEYS:
        with suppress(ImportError, SyntaxError):
            question_of(key)
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
    """At the two that Logit health opens with: each next to all others of its model."""
    store = Store.open().snapshot()
    for log in first_logs(store.listing(LOGIT_LOG).entries):
        late_read(store, log)


def _draw() -> None:
    """One of each kind of mark: plotly imports and checks each as it is first used."""
    rows = [{"run": "a", "x": 1.0, "y": 1.0, "low": 0.0, "high": 2.0}]
    for kind in ("points", "bars", "lines", "heat"):
        figure_of(Chart(kind, "x", "y", size="high", text="low"), rows, {}, {"a": "a"})
