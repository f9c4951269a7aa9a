"""COV and MAT against the definitions of the field's evaluations, written here once more as plain loops."""

from __future__ import annotations

import json
import math
import random
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.figures.coverage_metrics import FIGURES, THRESHOLDS_ANG, figures_of, over_molecules
from tests.cli import run_json
from tests.support import sized

Rows = list[list[float | None]]
NAN = math.nan


def random_matrices(count: int, seed: int) -> list[Rows]:
    """With gaps, rows and columns of gaps alone, values on a threshold, and molecules without samples."""
    rng = random.Random(seed)
    matrices: list[Rows] = []
    for _ in range(count):
        references, samples = rng.randint(1, 7), rng.choice([0, 1, 2, 4, 14])
        gaps = rng.choice([0.0, 0.1, 0.5, 0.9])
        matrices.append(
            [
                [
                    None if rng.random() < gaps else rng.choice([rng.uniform(0, 3.5), rng.randint(0, 70) / 20])
                    for _ in range(samples)
                ]
                for _ in range(references)
            ]
        )
    return matrices


def least(values: list[float | None]) -> float | None:
    present = [value for value in values if value is not None]
    return min(present) if present else None


def by_definition(matrix: Rows, threshold: float) -> tuple[float, float, float | None, float | None]:
    """COV-R, COV-P, MAT-R, MAT-P of a molecule with samples."""
    sides = [[least(row) for row in matrix], [least([row[k] for row in matrix]) for k in range(len(matrix[0]))]]
    covered, matched = [], []
    for side in sides:
        covered.append(sum(value is not None and value < threshold for value in side) / len(side))
        present = [value for value in side if value is not None]
        matched.append(sum(present) / len(present) if present else None)
    return covered[0], covered[1], matched[0], matched[1]


def set_by_definition(matrices: list[Rows], threshold: float, rule: str) -> dict[str, float | None]:
    rows: list[tuple[float, float, float | None, float | None]] = []
    for matrix in matrices:
        if matrix[0]:
            rows.append(by_definition(matrix, threshold))
        elif rule == "zero":
            rows.append((0.0, 0.0, None, None))
    figures: dict[str, float | None] = {}
    for column, name in enumerate(("cov_r", "cov_p", "mat_r_ang", "mat_p_ang")):
        present = [value for row in rows if (value := row[column]) is not None]
        figures[name] = statistics.fmean(present) if present else None
        figures[f"{name}_median"] = statistics.median(present) if present else None
    return figures


@pytest.mark.soak
@pytest.mark.parametrize("rule", ["skip", "zero"])
def test_random_matrices_by_the_definitions(rule: str, tmp_path: Path) -> None:
    """As anyone can check it: by the command."""
    matrices = random_matrices(sized(150, 500), seed=19)
    missing = sum(not matrix[0] for matrix in matrices)
    assert len(matrices) / 10 < missing < len(matrices) / 3
    file = tmp_path / "matrices.json"
    file.write_text(json.dumps({f"m{number}": matrix for number, matrix in enumerate(matrices)}))
    for threshold in (0.5, 0.75, 1.0):
        metrics = run_json("evaluate", "--matrices", str(file), "--missing", rule, "--threshold", str(threshold))
        expected = set_by_definition(matrices, threshold, rule)
        assert {name: metrics[name] for name in expected} == pytest.approx(expected, abs=1e-9)
        assert (metrics["molecules"], metrics["missing"]) == (len(matrices), missing)
    assert metrics["thresholds"] == [round(0.05 * step, 2) for step in range(1, 61)]
    for index, threshold in list(enumerate(metrics["thresholds"]))[:: sized(6, 1)]:
        point = set_by_definition(matrices, threshold, rule)
        for name in ("cov_r", "cov_p"):
            assert metrics[f"{name}_curve"][index] == pytest.approx(point[name], abs=1e-9)


def test_a_threshold_is_not_reached_by_itself() -> None:
    """Strictly less, for each threshold of the curves."""
    for index, threshold in enumerate(THRESHOLDS_ANG):
        metrics: Any = figures_of(np.array([[threshold]]), threshold)
        assert metrics.figures[:2].tolist() == [0.0, 0.0]
        assert metrics.curves[0].tolist() == [0.0] * (index + 1) + [1.0] * (59 - index)


def test_where_nothing_is_known_columns_are_null() -> None:
    columns: dict[str, Any] = over_molecules([None]).columns()
    assert [columns[name] for name in FIGURES] == [columns[f"{name}_median"] for name in FIGURES] == [None] * 4
    assert columns["cov_r_curve"] == [None] * 60
    zero = over_molecules([None], "zero").columns()
    assert [zero[name] for name in FIGURES] == [0.0, 0.0, None, None]
