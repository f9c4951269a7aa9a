"""Comparisons of runs by their ids, as a person names them."""

from __future__ import annotations

from collections.abc import Sequence

from engine.comparing.figures import Comparison, compare_entries_with
from engine.comparing.paired import PairedRuns, compare_entries
from engine.store.store import Store


def compare_with(store: Store, control: str, tests: Sequence[str]) -> Comparison:
    return compare_entries_with(store, store.entry(control), [store.entry(test) for test in tests])


def compare_runs(store: Store, control: str, test: str, seed: int = 0) -> PairedRuns:
    return compare_entries(store, store.entry(control), store.entry(test), seed)
