"""Matching the atoms of a generated text with those of the template, in order, tolerant of missing and invented ones.

An atom is its descriptor and the bonds, branches and ring digits before it. Global alignment by dynamic programming
between an equal beginning and an equal end, which is all there is in most texts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Unit = tuple[str, str]  # descriptor, what stands before it

SAME, SAME_ATOM, OTHER, GAP = 4, 2, -3, -2
MOST_CELLS = 4_000_000


def match_units(template: Sequence[Unit], generated: Sequence[Unit]) -> list[int]:
    """For each generated atom the index of its template atom, rising; -1 where the template has none."""
    head, tail = shared_ends(template, generated)  # no tail after a missing one: what is there stands at the beginning
    middle = _align(template[head : len(template) - tail], generated[head : len(generated) - tail])
    matched = [index if index < 0 else index + head for index in middle]
    return [*range(head), *matched, *range(len(template) - tail, len(template))]


def shared_ends(left: Sequence[object], right: Sequence[object]) -> tuple[int, int]:
    """How many items both begin with, and how many of the rest both end with."""
    shortest = min(len(left), len(right))
    head = next((i for i in range(shortest) if left[i] != right[i]), shortest)
    tail = next((i for i in range(shortest - head) if left[-1 - i] != right[-1 - i]), shortest - head)
    return head, tail


def first_difference(left: Sequence[int], right: Sequence[int]) -> int | None:
    """The first place where they differ, which may be the end of one of them; None where they are equal."""
    head, _ = shared_ends(left, right)
    return None if head == len(left) == len(right) else head


def _align(template: Sequence[Unit], generated: Sequence[Unit]) -> list[int]:
    rows, columns = len(generated), len(template)
    if rows == 0 or columns == 0 or rows * columns > MOST_CELLS:
        # Text thousands of blocks long follows no template; pair from the left as far as both go.
        return [index if index < columns else -1 for index in range(rows)]
    similarity = _similarity(generated, template)
    return _trace_back(_scores(similarity), similarity)


def _similarity(generated: Sequence[Unit], template: Sequence[Unit]) -> NDArray[np.int32]:  # [generated, template]
    every = {*generated, *template}
    atoms, units = ({key: rank for rank, key in enumerate(keys)} for keys in ({unit[0] for unit in every}, every))
    mine, theirs = (np.array([(atoms[unit[0]], units[unit]) for unit in side]) for side in (generated, template))
    same = mine[:, None, :] == theirs[None, :, :]
    return np.where(same[..., 1], SAME, np.where(same[..., 0], SAME_ATOM, OTHER)).astype(np.int32)


def _scores(similarity: NDArray[np.int32]) -> NDArray[np.int32]:
    """Best score of each pair of beginnings: [generated + 1, template + 1]."""
    rows, columns = similarity.shape
    score = np.empty((rows + 1, columns + 1), dtype=np.int32)
    gaps = GAP * np.arange(columns + 1, dtype=np.int32)
    score[0] = gaps
    for i in range(rows):
        best = score[i] + GAP
        np.maximum(best[1:], score[i, :-1] + similarity[i], out=best[1:])
        # A gap may follow from any column to the left: the running maximum, each step to the right at the price of one.
        score[i + 1] = np.maximum.accumulate(best - gaps) + gaps
    return score


def _trace_back(score: NDArray[np.int32], similarity: NDArray[np.int32]) -> list[int]:
    i, j = similarity.shape
    matched = [-1] * i
    while i > 0 and j > 0:
        if score[i, j] == score[i - 1, j - 1] + similarity[i - 1, j - 1]:
            matched[i - 1] = j - 1
            i, j = i - 1, j - 1
        elif score[i, j] == score[i - 1, j] + GAP:
            i -= 1
        else:
            j -= 1
    return matched
