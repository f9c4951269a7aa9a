"""An advice in sentences: what is advised and why, what the reports' rule would say, what nobody knows.

Plain text: faces escape it. Every figure comes with its interval, and what ties is told as a tie.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from engine.comparing.bootstrap import ROUNDING
from engine.evidence.advice.figures import BASE, LpFigures, Measured, Want
from engine.evidence.advice.rule import Decision, Standing
from engine.evidence.advice.settings import Setting
from engine.inspection.statistics import Interval

SURE = 0.95
LIKELY = 0.8
NOTABLE = 0.05
"""Share of blocks from which on cut and junk are named as a caution."""


def percent(figure: Interval | None) -> str:
    return "–" if figure is None else _with_range(figure, _hundredths, " %")


def seconds(figure: Interval | None) -> str:
    return "–" if figure is None else "never" if math.isinf(figure.value) else _with_range(figure, number, " s")


def times(figure: Interval | None) -> str:
    return "–" if figure is None else "∞" if math.isinf(figure.value) else _with_range(figure, number, "×")


def angstrom(figure: Interval | None) -> str:
    return "–" if figure is None else _with_range(figure, lambda value: f"{value:.2f}", " Å")


def number(value: float) -> str:
    return "∞" if math.isinf(value) else f"{value:.3g}" if value < 1_000 else f"{value:,.0f}"


def duration(value: float) -> str:
    """A time for people."""
    if math.isinf(value):
        return "never"
    if value < 120:
        return f"{number(value)} s"
    return f"{value / 60:,.0f} min" if value < 7_200 else f"{value / 3_600:,.1f} h"


def _hundredths(value: float) -> str:
    return f"{100 * value:.1f}".removesuffix(".0")


def _with_range(figure: Interval, form: Callable[[float], str], unit: str) -> str:
    value = f"{form(figure.value)}{unit}"
    return value if figure.low is None or figure.high is None else f"{value} ({form(figure.low)}–{form(figure.high)})"


def rate_words(one: LpFigures, want: Want) -> str:
    """How many answers are usable."""
    count = one.usable(want)
    verb = ("is clean" if count == 1 else "are clean") if want == "clean" else ("passes" if count == 1 else "pass")
    return f"{count} of {one.answers} answers {verb}, {percent(one.rate(want))}"


def count_of(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def name_of(lp: str) -> str:
    return "no LP" if lp == BASE else lp


# --- what is advised --------------------------------------------------------------------------------------------------


def sentence(decision: Decision, measured: Measured, want: Want, least: float) -> str:
    if decision.verdict == "too little":
        return f"Nothing can be advised yet. {decision.why_too_little}"
    if decision.verdict == "none fits":
        return _none_fits(decision, measured, want, least)
    one = measured.figures(decision.lp)
    tied = joined([name_of(lp) for lp in decision.ties], "or")
    choice = f"Use {name_of(one.lp)}" + (f", or {tied}: they cost the same within noise." if tied else ".")
    lead = f"With {name_of(one.lp)} " if tied else ""
    rate = rate_words(one, want)
    cost = f"a {want} conformer takes {seconds(one.cost(want))}{_beside_none(one, measured, want)}"
    figures = f"{lead}{rate}, and {cost}."
    return " ".join(
        [choice, figures if lead else figures[0].upper() + figures[1:], _sureness(decision, measured, want)]
    )


def _none_fits(decision: Decision, measured: Measured, want: Want, least: float) -> str:
    said = f"No LP gives {100 * least:g} % {want} answers here, so none is advised."
    if not decision.cheapest:
        return f"{said} No answer of any LP is {want}."
    one = measured.figures(decision.cheapest)
    return (
        f"{said} The cheapest {want} conformer comes from {name_of(one.lp)}: {seconds(one.cost(want))}, but "
        f"{rate_words(one, want)}."
    )


def _beside_none(one: LpFigures, measured: Measured, want: Want) -> str:
    if one.lp == BASE or BASE not in measured.names:
        return ""
    base = measured.figures(BASE).cost(want).value
    return f", {number(one.cost(want).value / base)}× the time without an LP" if math.isfinite(base) else ""


def _sureness(decision: Decision, measured: Measured, want: Want) -> str:
    share = decision.sureness
    if share is None:
        return "Too few molecules tell how sure that is."
    told = "In every draw" if share == 1 else f"In {100 * share:.3g} % of draws"
    who = "of the molecules one of them wins" if decision.ties else "of the molecules it wins"
    doubt = "" if share >= SURE else ": likely, not sure" if share >= LIKELY else ": that is open"
    is_open = next(one for one in decision.standings if one.lp == decision.lp).fits == "open"
    few = (
        f" Whether its rate holds is open: {measured.figures(decision.lp).answers} answers are few." if is_open else ""
    )
    return f"{told} {who}{doubt}.{few}"


def reason(standing: Standing, measured: Measured, want: Want, least: float, decision: Decision) -> str:
    """Why this LP is advised, ties, costs more, or does not fit."""
    one = measured.figures(standing.lp)
    rate = rate_words(one, want)
    if not standing.counts:
        return f"does not fit: {rate}; {100 * least:g} % are wanted"
    doubt = " (open: too few answers to be sure)" if standing.fits == "open" else ""
    if standing.lp == decision.lp:
        return f"advised: {rate}{doubt}"
    if standing.lp in decision.ties:
        return f"ties: {rate}{doubt}; its cost is the same within noise"
    over = "the least " if standing.over_least is None else f"{times(standing.over_least)} the least "
    return f"fits: {rate}{doubt}; {over}seconds a {want} conformer"


def cautions(decision: Decision, measured: Measured, want: Want) -> tuple[str, ...]:
    """What the reader should know of the LP that is advised before following."""
    if not decision.lp:
        return ()
    one = measured.figures(decision.lp)
    found = []
    if want == "passed" and one.clean < one.passed:
        clean = f"{one.clean or 'none'} of {one.answers} answers of {name_of(one.lp)}"
        verb = "is" if one.clean == 1 else "are"
        found.append(f"Passed is the reports' rule, and junk and cut numbers pass: {clean} {verb} clean.")
    shares = (("cut", one.cut_share), ("broken by letters", one.letters_share))
    bad = [f"{percent(share)} of its blocks are {what}" for what, share in shares if share and share.value > NOTABLE]
    if bad:
        found.append(f"Of {name_of(one.lp)}, {joined(bad, 'and')}.")
    if one.rmsd_ratio is not None and (one.rmsd_ratio.low or 0) > 1 + ROUNDING:
        found.append(
            f"Its conformers lie farther from the references than those without an LP: RMSD {times(one.rmsd_ratio)}."
        )
    if one.unverified_share:
        found.append(
            f"{one.unverified_share:.1%} of its blocks are unverified: closed by force, and nobody asked what the "
            "model wanted. They count as clean."
        )
    return tuple(found)


# --- what nobody knows ------------------------------------------------------------------------------------------------


def unknown(measured: Measured, setting: Setting, missing: Sequence[str], versions: int) -> tuple[str, ...]:
    """What the figures do not say; ``missing`` LPs have no run, ``versions`` of the program wrote the others."""
    found = [
        f"What {joined([name_of(lp) for lp in missing], 'and')} would do: not measured." if missing else "",
        f"Any other setting: all of this is {setting.words}. Other batches share their passes otherwise, and what a "
        "full mask costs on a GPU is not what it costs on a CPU.",
        _rows(measured, setting.batch_size),
        _clock(measured),
        _molecules(measured),
        _rmsd(measured),
    ]
    if versions > 1:
        found.append(f"Whether the program itself became faster: {versions} versions of it wrote these runs.")
    if any(one.answers > measured.molecules for one in measured.lps):
        found.append("Intervals of rates take answers of one molecule as independent, so they are a little narrow.")
    return tuple(one for one in found if one)


def _rows(measured: Measured, batch_size: int | None) -> str:
    answers = min((one.answers for one in measured.lps), default=0)
    if batch_size is None or answers >= batch_size:
        return ""
    return f"A full batch: here at most {answers} of {batch_size} rows are in use, so many molecules cost less each."


def _clock(measured: Measured) -> str:
    spreads = [one.clock_spread for one in measured.lps if one.clock_spread is not None]
    if not spreads:
        return (
            "What else the machine did: each LP has one wall time. Intervals tell how much hangs on the molecules, so "
            "run it again before you believe a few per cent."
        )
    once = sum(one.clock_spread is None for one in measured.lps)
    told = f"What else the machine did: the very same work took up to {max(spreads):.2f} times as long another time"
    return f"{told}; {once} of these LPs ran once." if once else f"{told}."


def _molecules(measured: Measured) -> str:
    sizes = measured.heavy_atoms
    of = "" if sizes is None else f" of {sizes[0]} to {sizes[1]} heavy atoms"
    return f"Other molecules: here are {measured.molecules}{of}. Larger ones take longer than in proportion."


def _rmsd(measured: Measured) -> str:
    if not any(one.rmsd_answers for one in measured.lps):
        return "Whether an LP bends the conformers: no RMSD was asked for (--rmsd)."
    told = [one.rmsd_ratio for one in measured.lps if one.rmsd_ratio is not None]
    if told and all(
        one.low is None or one.high is None or (one.low <= 1 + ROUNDING and one.high >= 1 - ROUNDING) for one in told
    ):
        return "Whether an LP bends the conformers: RMSD, where known, differs from that without an LP by noise only."
    return ""


def joined(parts: list[str], word: str) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} {word} {parts[-1]}" if parts else ""
