"""What garbage against vocabulary size, precision and architecture shows, and what it cannot, in sentences.

``whose`` begins a sentence: ``The report's six models``, ``The logs here``.
"""

from __future__ import annotations

from itertools import chain
from math import comb

from engine.figures.words import counted, listed, percent, shortened
from engine.logits.trends import LEAST_POINTS, By, Trend, at_several, pair_alike

WORDS: dict[By, str] = {"vocab_size": "vocabulary size", "precision": "precision", "family": "architecture"}
TELLING = 0.05
MOST_NAMED = 3
MOST_CHARS = 40


def trend_sentences(trend: Trend, whose: str) -> list[str]:
    """The answer first, then what speaks for it or against it."""
    if len(trend.points) < LEAST_POINTS:
        return [f"{whose}: {_count(trend)} with a known {WORDS[trend.by]}, too few to test."]
    more = {"vocab_size": _of_sizes, "precision": _of_precisions, "family": _of_families}[trend.by](trend)
    return [_answer(trend, whose), *filter(None, (_figures(trend, whose), *more))]


def chance(share: float) -> str:
    return f"{100 * share:.2g} %" if share < 0.995 else "100 %"


def _answer(trend: Trend, whose: str) -> str:
    word = WORDS[trend.by]
    if trend.p is None or trend.least_p is None:
        alike = len({point.at for point in trend.points}) < 2
        return f"{whose} ({_count(trend)}) have the same {word if alike else 'garbage'}: there is no link to test."
    if trend.least_p > TELLING:
        return f"{whose} ({_count(trend)}) are too few to tell whether garbage goes with {word}."
    if trend.p <= TELLING:
        return f"{whose} ({_count(trend)}): garbage goes with {word}, for a reason that is open."
    return f"{whose} ({_count(trend)}) show no link of garbage with {word}. It may exist all the same."


def _figures(trend: Trend, whose: str) -> str:
    """How often chance does it, and what these points could have shown."""
    if trend.p is None:
        return ""
    word = WORDS[trend.by]
    rank = f", rank correlation {trend.rho:+.2f}".replace("-", "−") if trend.rho is not None else ""
    orders = f"{trend.orders:,} {'' if trend.is_exact else 'random '}permutations"
    link = f"{whose} ({_count(trend)}{rank}): a link with {word} at least as strong arises by chance"
    return f"{link} in {chance(trend.p)} of the {orders}. {_power(trend)}"


def _power(trend: Trend) -> str:
    """At best."""
    assert trend.p is not None and trend.least_p is not None
    if trend.least_p > TELLING:
        return (
            f"With so few points the smallest possible p-value is {chance(trend.least_p)}, so they can neither show a "
            "link nor rule one out."
        )
    if trend.p <= TELLING:
        return "That is a link, but its cause is open: the models differ in more than this."
    if trend.least_p > TELLING / 10:
        return (
            f"Only the strongest possible link would be significant (p = {chance(trend.least_p)}): "
            "none is shown, but one may exist."
        )
    return "No link is shown; a weak one may exist."


def _of_sizes(trend: Trend) -> list[str]:
    pair = pair_alike(trend) if trend.p is not None else None
    if pair is None or pair[0].share == pair[1].share:
        return []
    one, other = sorted(pair, key=lambda point: -point.share)
    sizes = f"{float(one.at):,.0f} and {float(other.at):,.0f}"
    names = listed([shortened(point.model, MOST_CHARS) for point in (one, other)])
    return [
        f"{names} have nearly the same vocabulary size ({sizes}), but {percent(one.share)} and "
        f"{percent(other.share)} garbage: size alone does not decide."
    ]


def _of_precisions(trend: Trend) -> list[str]:
    sentences = []
    for model, points in list(at_several(trend).items())[:MOST_NAMED]:
        shares = [f"{percent(point.share)} at {shortened(str(point.at), MOST_CHARS)}" for point in points[:MOST_NAMED]]
        name = shortened(model, MOST_CHARS)
        sentences.append(f"{name} has {listed(shares)}: the only model here that was logged in several precisions.")
    full = next((point for point in trend.points if point.share and point.at == "float32"), None)
    if full is not None:
        name = shortened(full.model, MOST_CHARS)
        sentences.append(f"{name} has {percent(full.share)} at {full.at}: garbage does not need quantisation.")
    return [*sentences, _alone(trend)]


def _of_families(trend: Trend) -> list[str]:
    shares = {name: [point.share for point in points] for name, points in trend.groups.items()}
    several = [name for name in shares if len(shares[name]) > 1]
    if not several:
        return [_alone(trend)]
    name = min(several, key=lambda name: sum(shares[name]) / len(shares[name]))
    least = shares.pop(name)
    first = ""
    if shares and max(least) < min(chain(*shares.values())):
        orders = comb(len(trend.points), len(least))
        first = (
            f"The {shortened(name, MOST_CHARS)} models have the least garbage "
            f"({listed([percent(share) for share in least])}). Any {len(least)} of {len(trend.points)} models rank "
            f"lowest by chance in 1 of {orders} cases, and these were picked after the figures were seen."
        )
    return [first, _alone(trend)]


def _alone(trend: Trend) -> str:
    """Groups of one model, whose part cannot be told from that model's."""
    alone = [name for name, points in trend.groups.items() if len({point.model for point in points}) == 1]
    if not alone:
        return ""
    named = [shortened(name, MOST_CHARS) for name in alone[:MOST_NAMED]]
    if len(alone) > MOST_NAMED:
        named.append(f"{len(alone) - MOST_NAMED} more")
    have = "have one model each" if len(alone) > 1 else "has one model"
    return f"{listed(named)} {have}: its tokenizer, its code or its prompt may be the reason as well."


def _count(trend: Trend) -> str:
    return (
        counted(len(trend.points), "pair of model and precision", "pairs of model and precision")
        if trend.by == "precision"
        else counted(len(trend.points), "model")
    )
