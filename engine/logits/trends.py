"""Whether garbage goes with vocabulary size, precision or architecture, and what so few points could show at all.

Values are dealt out anew in every order (drawn orders, where there are too many): the share of orders with as strong a
link is the p-value. Rows of one model are one point, but for precision, which differs between them. A small p would say
that the link is no chance, never what makes it: models differ in all of these at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Literal, get_args

import numpy as np

from engine.figures.statistics import Array, ranks
from engine.figures.words import precision_name
from engine.logits.ranking import GarbageRate, family

By = Literal["vocab_size", "precision", "family"]
BYS: tuple[By, ...] = get_args(By)

MOST_IN_ALL_ORDERS = 7
DRAWN = 20_000
LEAST_POINTS = 3
NEAR = 1.05
"""Vocabularies whose sizes differ by less are as good as the same."""
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Point:
    model: str
    at: float | str  # a size, or a group's name
    share: float


@dataclass(frozen=True, slots=True)
class Trend:
    """``p`` is None where there are too few points, or no difference among them to explain."""

    by: By
    points: tuple[Point, ...]
    rho: float | None  # Spearman's, of a size
    p: float | None
    least_p: float | None  # the least that points of this kind can give, in the most telling order
    orders: int
    is_exact: bool

    @property
    def groups(self) -> dict[str, list[Point]]:
        found: dict[str, list[Point]] = {}
        for point in self.points:
            found.setdefault(str(point.at), []).append(point)
        return found


def trend(rates: Sequence[GarbageRate], by: By, share: Callable[[GarbageRate], float | None]) -> Trend:
    points = _points(rates, by, share)
    at = [point.at for point in points]
    y = ranks(np.array([point.share for point in points], dtype=float)) if points else np.zeros(0)
    if len(points) < LEAST_POINTS or len(set(at)) < 2 or len(set(y.tolist())) < 2:
        return Trend(by, points, None, None, None, 0, True)
    x = np.array(at, dtype=float) if by == "vocab_size" else None
    orders, is_exact = _orders(y)
    links = _correlations(x, orders) if x is not None else _between(at, orders)
    strength = np.abs(links)
    return Trend(
        by,
        points,
        None if x is None else float(links[0]),
        float((strength >= strength[0] - ROUNDING).mean()),
        float((strength >= strength.max() - ROUNDING).mean()),
        len(orders),
        is_exact,
    )


def place_of(rate: GarbageRate, by: By) -> int | str | None:
    """Its size or its group; None where it is not known."""
    if by == "vocab_size":
        return rate.vocab_size
    return family(rate.architecture) if by == "family" else precision_name(rate.precision)


def pair_alike(found: Trend) -> tuple[Point, Point] | None:
    """Two models of nearly the same vocabulary that differ most in garbage: what size cannot explain."""
    pairs = [
        (one, other)
        for place, one in enumerate(found.points)
        for other in found.points[place + 1 :]
        if max(float(one.at), float(other.at)) <= NEAR * min(float(one.at), float(other.at))
    ]
    return max(pairs, key=lambda pair: abs(pair[0].share - pair[1].share), default=None)


def at_several(found: Trend) -> dict[str, list[Point]]:
    """Models that were logged in more than one group: only these tell a group's part from the model's."""
    models: dict[str, list[Point]] = {}
    for point in found.points:
        models.setdefault(point.model, []).append(point)
    return {model: own for model, own in models.items() if len({one.at for one in own}) > 1}


def _points(rates: Sequence[GarbageRate], by: By, share: Callable[[GarbageRate], float | None]) -> tuple[Point, ...]:
    found: dict[tuple[str, float | str], list[float]] = {}
    for rate in rates:
        at, own = place_of(rate, by), share(rate)
        if at is not None and own is not None:
            found.setdefault((rate.model or rate.id, at), []).append(own)
    return tuple(Point(model, at, float(np.mean(shares))) for (model, at), shares in found.items())


def _orders(y: Array) -> tuple[Array, bool]:
    """[orders, points]; the first is the one that was found."""
    if len(y) <= MOST_IN_ALL_ORDERS:
        return y[np.array(list(permutations(range(len(y)))))], True
    rng = np.random.default_rng(0)
    return np.stack([y, *(rng.permutation(y) for _ in range(DRAWN))]), False


def _correlations(x: Array, orders: Array) -> Array:
    left, right = ranks(x), orders - orders.mean(axis=1, keepdims=True)
    left = left - left.mean()
    return np.asarray((right @ left) / np.sqrt((left @ left) * (right**2).sum(axis=1)))


def _between(at: Sequence[float | str], orders: Array) -> Array:
    """How far the groups' mean ranks are from the mean of all, weighted by their sizes (Kruskal and Wallis)."""
    found = np.zeros(len(orders))
    for name in set(at):
        is_in = np.array([one == name for one in at])
        found += is_in.sum() * (orders[:, is_in].mean(axis=1) - orders.mean(axis=1)) ** 2
    return found
