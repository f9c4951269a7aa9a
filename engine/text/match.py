"""Matching the atoms of a generated text with those of the template, in order, tolerant of missing and invented ones.

An atom is its descriptor and the bonds, branches and ring digits before it. Global alignment by dynamic programming
between an equal beginning and an equal end, which is all there is in most texts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Unit = tuple[str, str]  # descriptor, what stands before it

SAME, SAME_ATOM, OTHER, GAP = 4, 2, -3, -2
MOST_CELLS = 4_000_000


def match_units(template: Sequence[Unit], generated: Sequence[Unit]) -> list[int]:
    """For each generated atom the index of its template atom, rising; -1 where the template has none."""
    shortest = min(len(template), len(generated))
    head = next((i for i in range(shortest) if template[i] != generated[i]), shortest)
    rest = shortest - head
    tail = next((i for i in range(rest) if template[-1 - i] != generated[-1 - i]), rest)
    if len(template) > len(generated) == head:
        tail = 0  # a missing tail: what is there stands at the beginning
    middle = _align(template[head : len(template) - tail], generated[head : len(generated) - tail])
    matched = [index if index < 0 else index + head for index in middle]
    return [*range(head), *matched, *range(len(template) - tail, len(template))]


def _align(template: Sequence[Unit], generated: Sequence[Unit]) -> list[int]:
    rows, columns = len(generated), len(template)
    if rows == 0 or columns == 0 or rows * columns > MOST_CELLS:
        # Text thousands of blocks long follows no template; pair from the left as far as both go.
        return [index if index < columns else -1 for index in range(rows)]
    score = np.zeros((rows + 1, columns + 1), dtype=np.int32)
    score[:, 0] = GAP * np.arange(rows + 1)
    score[0, :] = GAP * np.arange(columns + 1)
    for i in range(1, rows + 1):
        for j in range(1, columns + 1):
            diagonal = score[i - 1, j - 1] + _similarity(generated[i - 1], template[j - 1])
            score[i, j] = max(diagonal, score[i - 1, j] + GAP, score[i, j - 1] + GAP)
    return _trace_back(score, template, generated)


def _trace_back(score: np.ndarray, template: Sequence[Unit], generated: Sequence[Unit]) -> list[int]:
    matched = [-1] * len(generated)
    i, j = len(generated), len(template)
    while i > 0 and j > 0:
        if score[i, j] == score[i - 1, j - 1] + _similarity(generated[i - 1], template[j - 1]):
            matched[i - 1] = j - 1
            i, j = i - 1, j - 1
        elif score[i, j] == score[i - 1, j] + GAP:
            i -= 1
        else:
            j -= 1
    return matched


def _similarity(one: Unit, other: Unit) -> int:
    if one == other:
        return SAME
    return SAME_ATOM if one[0] == other[0] else OTHER
