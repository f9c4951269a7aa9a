"""What the Compare page's charts share: figures from the engine, cached for the next rerun, and their words.

Runs never change, so a run's checksums identify a result. Results are shared by all visitors and never written to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import streamlit as st

from engine.comparing.failures import Failures, TokenHistogram, failures, token_histogram
from engine.comparing.figures import RATIOS, ComparedRun, RunFigures, ratios_of
from engine.comparing.measures import MEASURES
from engine.comparing.paired import compare_entries
from engine.comparing.scatter import Scatter, scatter
from engine.comparing.templates import MaskSizes, mask_sizes_of_run
from engine.figures.statistics import wilson
from engine.figures.words import UNKNOWN, listed, percent, span
from engine.store.entries import Entry
from engine.store.store import Store
from pages._compare.runs import RunSelection
from pages._compare.table_cells import CLEAR, Mark, mark_of
from pages._compare.table_words import MARKS

UNREADABLE = "The samples of these runs are damaged; `engine verify` says how."


def compared_runs(store: Store, chosen: RunSelection) -> tuple[ComparedRun, ...]:
    """Every test's figures and ratios, without drift: no chart shows it, and it would have to be read."""
    control = RunFigures(chosen.control)
    compared = []
    with st.spinner("Comparing samples …"):
        for test in chosen.tests:
            figures, paired = RunFigures(test), compare_entries(store, chosen.control, test)  # cached by the engine
            compared.append(ComparedRun(figures, paired, ratios_of(control, figures, paired)))
    return tuple(compared)


# Arguments are hashed by the checksums of their runs.
_BY_CHECKSUM: dict[str | type[Any], Callable[[Any], Any]] = {Entry: lambda entry: entry.key}


@st.cache_resource(max_entries=24, show_spinner="Counting failures …", hash_funcs=_BY_CHECKSUM)
def failures_of(_store: Store, runs: Sequence[Entry]) -> Failures:
    return failures(_store, [run.id for run in runs])


@st.cache_resource(max_entries=24, show_spinner="Counting tokens …", hash_funcs=_BY_CHECKSUM)
def lengths_of(_store: Store, runs: Sequence[Entry]) -> TokenHistogram:
    return token_histogram(_store, [run.id for run in runs])


@st.cache_resource(max_entries=24, show_spinner="Pairing samples …", hash_funcs=_BY_CHECKSUM)
def scatter_of(_store: Store, control: Entry, test: Entry, measure: str) -> Scatter:
    return scatter(_store, control.id, test.id, measure)


def _mask_key(run: Entry) -> tuple[str, ...]:
    """With what a run's annotation may change of its model and LP."""
    columns = ("model_alias", "model_step", "tokenizer", "lp", "placeholder")
    return (*run.key, *(str(run.row.get(name) or "") for name in columns))


@st.cache_resource(max_entries=64, show_spinner=False, hash_funcs={Entry: _mask_key})
def masks_of(_store: Store, run: Entry) -> MaskSizes:
    """It takes seconds at first: the LP's tables are built."""
    return mask_sizes_of_run(_store, run.id)


# --- words ------------------------------------------------------------------------------------------------------------


def within(low: float, high: float) -> str:
    return span(low, high, percent)


def rate(part: int, whole: int) -> str:
    """A share of samples with Wilson's interval, 95 %."""
    return f"{percent(part / whole)}, {within(*wilson(part, whole))}" if whole else UNKNOWN


def mark(pair: ComparedRun, figure: str) -> Mark:
    """What a test's figure is worth against the control's: its mark in the page's table."""
    measure = RATIOS[figure]
    compared = pair.paired.measure(measure) if measure else None
    return mark_of(pair.ratio(figure), MEASURES.get(measure), compared)


def noise(value: Mark) -> str:
    """A mark in words: within noise, beyond it, too close to call, or that there is no interval."""
    return "beyond noise" if value in CLEAR else MARKS[value or "unknown"][1]


def unseen(chosen: RunSelection, damaged: Sequence[str] = ()) -> list[str]:
    """Which of the runs a chart of samples does not show."""
    without = [chosen.name(run.id) for run in chosen.entries if run not in chosen.measured]
    lost = [chosen.name(run_id) for run_id in damaged]
    return [
        f"Without samples: {listed(without)}." if without else "",
        f"Damaged: {listed(lost)}." if lost else "",
    ]
