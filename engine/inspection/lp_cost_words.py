"""What an LP costs a model, in sentences. Bounds that a judgement rests on stand here, not in the words."""

from __future__ import annotations

from engine.figures.statistics import Interval
from engine.figures.words import counted, number, with_interval
from engine.inspection.lp_cost import Estimate, RunCost

LITTLE, MUCH = 0.5, 5.0
"""Nat per sample that mask and guard take: up to the first the model keeps more than half of its mass, from the second
on less than one text in a hundred of its own is in the LP's language."""
NO_CHANCES = "the steps do not say with which probability tokens were drawn"


def verdict_of(cost: RunCost) -> str:
    """Of mask and guard alone: filters take from a run without an LP as well."""
    taken = -_lp_part(cost)
    if taken <= LITTLE:
        return "leaves the model what it would have written"
    return "draws from another distribution" if taken >= MUCH else "shifts what the model would have written"


def short_words(cost: RunCost, lp: str) -> str:
    """``exact leaves the model what it would have written (log w −0.05 per sample, effective sample size 16 of 16)``"""
    return f"{lp} {verdict_of(cost)} ({figures_words(cost)})"


def figures_words(cost: RunCost) -> str:
    """``log w −0.05 per sample, effective sample size 16 of 16``; the size is of LP and filters."""
    if cost.log_w_tempered is None:
        return "no sample counts"
    if _is_filtered(cost):
        return f"log w {nat(_lp_part(cost))} per sample without the sampling filters"
    return f"log w {nat(cost.log_w_tempered.value)} per sample, {effective_words(cost.tempered, cost.samples)}"


def effective_words(estimate: Estimate, samples: int) -> str:
    size = 0 if estimate.effective is None else max(1, round(estimate.effective.value))
    return f"effective sample size {size:,} of {samples:,}"


def sentences_of(cost: RunCost, lp: str) -> tuple[str, ...]:
    """The verdict with its intervals, then how far it can be trusted."""
    if not cost.samples:
        return (f"What the LP costs the model is not known: {NO_CHANCES}.",)
    if not cost.counting or cost.log_w_tempered is None:
        why = "none ended" if cost.is_guard_known else "no weight of its guard is known (`run --weigh 3` estimates it)"
        return (f"What the LP costs the model is not known: of {counted(cost.samples, 'sample')}, {why}.",)
    estimate = cost.tempered
    parts = [
        f"{lp} {verdict_of(cost)}: log w is {with_interval(cost.log_w_tempered, nat)} per sample, {_split(cost)}.",
        f"{_log_p(cost)}; {effective_words(estimate, cost.samples)}. From the model conditioned on the LP's language, "
        f"the draws are {with_interval(estimate.kl, nat)} nat away (KL).",
    ]
    if not estimate.is_reliable:
        parts.append("Unreliable: few samples carry the weight, so KL is too small and log p(C) uncertain.")
    if left := cost.samples - cost.counting:
        parts.append(f"{left:,} of {cost.samples:,} samples did not end, or have no weight: they count 0.")
    if cost.samples > 1:
        units = (len(cost.molecules), "molecule") if len(cost.molecules) > 1 else (cost.samples, "sample")
        parts.append(f"In brackets: 95 % intervals over {counted(*units)}.")
    return tuple(parts)


def disagreement_words(cost: RunCost) -> str:
    """Whether -log w grows along the text and goes with RMSD; empty where neither is known."""
    known, parts = cost.disagreement, []
    if known.slope is not None:
        verdict = "no trend along the text"
        if known.slope.excludes_zero:
            verdict = "grows along the text" if known.slope.value > 0 else "falls along the text"
        parts.append(f"−log w per block: {verdict} ({with_interval(known.slope, _fine_nat)} nat per block further).")
    if known.rmsd is not None:
        verdict = "no relation to RMSD shown"
        if known.rmsd.excludes_zero:
            verdict = "higher where RMSD is higher" if known.rmsd.value > 0 else "higher where RMSD is lower"
        over = f"{counted(known.rmsd_samples, 'sample')} of {counted(known.rmsd_molecules, 'molecule')}"
        parts.append(
            f"Within molecules, −log w of samples: {verdict} (rank correlation {with_interval(known.rmsd, nat)},"
            f" {over})."
        )
    return " ".join(parts)


def nat(value: float) -> str:
    """Two decimals tell enough of a logarithm."""
    rounded = round(value, 2)
    if not rounded:
        return "0"
    return f"{rounded:.2f}".replace("-", "−") if abs(rounded) < 10 else number(rounded)


def _fine_nat(value: float) -> str:
    return f"{value:.2g}".replace("-", "−") if 1e-4 <= abs(value) < 0.1 else nat(value)


def _lp_part(cost: RunCost) -> float:
    """Of log w, without what the filters took."""
    if cost.log_w_tempered is None or cost.filters is None:
        return 0.0
    return cost.log_w_tempered.value - cost.filters.value


def _is_filtered(cost: RunCost) -> bool:
    return cost.filters is not None and abs(cost.filters.value) >= 0.005


def _split(cost: RunCost) -> str:
    def of(part: Interval | None) -> str:
        return nat(0.0 if part is None else part.value)

    free = 0.0 if cost.free is None or cost.filters is None else cost.free.value - cost.filters.value
    parts = [f"{of(cost.forced)} at forced tokens", f"{nat(free)} by the mask at free ones"]
    if _is_filtered(cost):
        parts.append(f"{of(cost.filters)} by the sampling filters")
    guard = _lp_part(cost) - (0.0 if cost.mask is None else cost.mask.value)
    if abs(guard) >= 0.005:
        parts.append(f"{nat(guard)} by the guard")
    return ", ".join(parts)


def _log_p(cost: RunCost) -> str:
    figure = with_interval(cost.tempered.log_p, nat)
    if not cost.is_bound:
        return f"log p(C) is {figure}"
    return f"log p(C) is at least {figure}: a lower bound, since filters or a guard leave out texts that the LP admits"
