"""Where tokens stand in their texts, of steps that anybody may have written."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pyarrow as pa

from engine.inspection.lp_cost import PARTS, _places_of


def test_what_is_counted_of_pieces_takes_no_memory_of_its_own() -> None:
    """The bug: a table with a row for each closed block of the longest text, in every sample."""
    pieces = ["[C]", "<", "1", ",", "2", ">" * 100_000, "<" * 100_000, "3"] * 100
    sample = np.repeat(np.arange(100), 8)
    tracemalloc.start()
    block, part, segment = _places_of(pa.chunked_array([pieces]), sample)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 5_000_000
    assert block[:8].tolist() == block[-8:].tolist() == [-1, 0, 0, 0, 0, 0, 100_000, 100_000]
    assert segment[:8].tolist() == [0, 0, 0, 0, 0, 0, 100_000, 100_000]
    assert [PARTS[number] for number in part[2:5]] == ["x", "x", "y"]
