"""An advice in sentences: what is advised and why, its cautions, and what is not known. Plain text: pages escape it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from engine.evidence.advice.figures import BASE, LpFigures, Measured, Want
from engine.evidence.advice.rule import Decision, Standing, named
from engine.evidence.advice.settings import Setting
from engine.figures.statistics import ROUNDING, Interval
from engine.figures.words import capitalised, counted, listed, percent, seconds, times, with_interval

SURE = 0.95
LIKELY = 0.8
NOTABLE = 0.05
"""Share of blocks from which on cut and junk are named as a caution."""


def cost_words(cost: Interval) -> str:
    return "never" if math.isinf(cost.value) else with_interval(cost, seconds)


def rate_words(figures: LpFigures, want: Want) -> str:
    count = figures.count(want)
    verb = ("passes" if count == 1 else "pass") if want == "passed" else f"{'is' if count == 1 else 'are'} {want}"
    return f"{count} of {figures.answers} answers {verb}, {with_interval(figures.rate(want), percent)}"


def name_of(lp: str) -> str:
    return "no LP" if lp == BASE else lp


# --- what is advised --------------------------------------------------------------------------------------------------


def sentence(decision: Decision, measured: Measured, want: Want, least: float) -> str:
    if decision.verdict == "too little":
        return f"Nothing can be advised yet. {decision.why_too_little}"
    if decision.verdict == "none fits":
        return _none_fits(decision, measured, want, least)
    figures = measured.figures(decision.lp)
    tied = listed([name_of(lp) for lp in decision.ties], "or")
    choice = f"Use {name_of(figures.lp)}{_though(figures, want, least)}"
    choice += f", or {tied}: they cost the same within noise." if tied else "."
    lead = f"With {name_of(figures.lp)} " if tied else ""
    rate = rate_words(figures, want)
    cost = f"a {want} conformer takes {cost_words(figures.cost(want))}{beside_base(figures, measured, want)}"
    statement = f"{lead}{rate}, and {cost}."
    return " ".join(
        [choice, statement if lead else statement[0].upper() + statement[1:], _sureness(decision, measured, want)]
    )


def _none_fits(decision: Decision, measured: Measured, want: Want, least: float) -> str:
    """The cheapest all the same, and the LP with most wanted answers: first where it costs the same within noise."""
    if not decision.cheapest:
        return f"No LP gives a {want} answer."
    lps = [measured.figures(lp) for lp in named(decision, measured, want)]
    first, last = lps[0], lps[-1]
    choice = f"{name_of(first.lp)}{_though(first, want, least)}"
    if first is last:
        choice += f": cheapest per {want} conformer, most {want} answers"
    elif last.lp == decision.cheapest:
        choice += f": most {want} answers, at the lowest cost within noise ({_over_words(decision, first, last)})"
    else:
        choice += f", or {name_of(last.lp)} for more {want} answers"
    figures = [
        f"{capitalised(name_of(lp.lp))}: {rate_words(lp, want)}, at {cost_words(lp.cost(want))} per {want} conformer"
        f"{beside_base(lp, measured, want)}."
        for lp in lps
    ]
    return " ".join([f"Use {choice}; every LP is below {100 * least:g} % {want}.", *figures])


def _over_words(decision: Decision, figures: LpFigures, cheapest: LpFigures) -> str:
    over = next(standing.over_least for standing in decision.standings if standing.lp == figures.lp)
    return f"{with_interval(over, times)} that of {name_of(cheapest.lp)}, the cheapest"


def _though(figures: LpFigures, want: Want, least: float) -> str:
    """What the wanted hides: too few answers are usable, or clean where they were not judged."""
    better: Want = "clean" if figures.usable is None else "usable"
    count = figures.count(better)
    if count >= min(figures.count(want), least * figures.answers):
        return ""
    some = "none" if not count else f"only {count}"
    return f", though {some} of its {figures.answers} answers {'is' if count < 2 else 'are'} {better}"


def beside_base(figures: LpFigures, measured: Measured, want: Want) -> str:
    """Its cost over that without an LP."""
    base = measured.figures(BASE).cost(want).value if figures.lp != BASE and BASE in measured.names else math.inf
    if math.isinf(base):
        return ""
    ratio = base / figures.cost(want).value
    return f", {times(ratio)} less than without an LP" if ratio > 1 else f", {times(1 / ratio)} that without an LP"


def _sureness(decision: Decision, measured: Measured, want: Want) -> str:
    share = decision.sureness
    if share is None:
        return "There are too few molecules to say how certain that is."
    chance = "every bootstrap draw" if share == 1 else f"{percent(share)} of bootstrap draws"
    winner = "One of them wins" if decision.ties else "It wins"
    doubt = "" if share >= SURE else ": likely, not certain" if share >= LIKELY else ": undecided"
    is_open = next(standing for standing in decision.standings if standing.lp == decision.lp).fits == "open"
    few = f" Its rate is uncertain: there are only {measured.figures(decision.lp).answers} answers." if is_open else ""
    return f"{winner} in {chance}{doubt}.{few}"


def reason(standing: Standing, measured: Measured, want: Want, least: float, decision: Decision) -> str:
    """Why this LP is advised, ties, costs more, or gives too few wanted answers."""
    figures = measured.figures(standing.lp)
    thrown = figures.thrown_share
    tail = "" if thrown is None else f"; its guard threw away {percent(thrown)} of the tokens, and their time counts"
    is_advised = standing.lp in named(decision, measured, want)[:1]
    return _standing_words(standing, figures, want, least, decision, is_advised) + tail


def _standing_words(
    standing: Standing, figures: LpFigures, want: Want, least: float, decision: Decision, is_advised: bool
) -> str:
    rate = rate_words(figures, want)
    if not standing.counts:
        head = ""
        if not decision.lp:
            parts = (("advised", is_advised), ("the cheapest", standing.lp == decision.cheapest))
            head = " and ".join(word for word, is_it in parts if is_it)
        return f"{head}{', but ' if head else ''}below {100 * least:g} %: {rate}"
    doubt = " (uncertain: too few answers)" if standing.fits == "open" else ""
    if standing.lp == decision.lp:
        return f"advised: {rate}{doubt}"
    if standing.lp in decision.ties:
        return f"tie: {rate}{doubt}; its cost is the same within noise"
    cost = (
        "the lowest time"
        if standing.over_least is None
        else f"{with_interval(standing.over_least, times)} the best time"
    )
    return f"fits: {rate}{doubt}; {cost} per {want} conformer"


def cautions(decision: Decision, measured: Measured, want: Want) -> tuple[str, ...]:
    """What the reader should know before using the advised LP."""
    if not decision.lp:
        return ()
    figures = measured.figures(decision.lp)
    sentences = []
    if want == "passed" and figures.clean < figures.passed:
        clean = f"{figures.clean or 'none'} of {figures.answers} answers of {name_of(figures.lp)}"
        verb = "is" if figures.clean == 1 else "are"
        sentences.append(f"Passed is the reports' rule, and junk and cut numbers pass: {clean} {verb} clean.")
    if want != "usable" and figures.usable is not None and figures.usable < figures.answers:
        right = f"{figures.usable or 'none'} of {figures.answers} answers"
        sentences.append(f"{want.capitalize()} is said of the text alone: the molecule is right, too, in {right}.")
    shares = (("cut", figures.cut_share), ("broken by letters", figures.letters_share))
    bad = [
        f"{with_interval(share, percent)} of its blocks are {what}"
        for what, share in shares
        if share and share.value > NOTABLE
    ]
    if bad:
        sentences.append(f"Of {name_of(figures.lp)}, {listed(bad)}.")
    if figures.rmsd_ratio is not None and (figures.rmsd_ratio.low or 0) > 1 + ROUNDING:
        sentences.append(
            "Its conformers are farther from the references than those without an LP: RMSD "
            f"{with_interval(figures.rmsd_ratio, times)}, to the nearest of {figures.rmsd_to or 'unnamed references'}."
        )
    if figures.unverified_share:
        sentences.append(
            f"{percent(figures.unverified_share)} of its blocks are unverified: closed by force, and the model's own "
            "choice was not recorded. They count as clean."
        )
    if costs := [figures.lp_cost for figures in measured.lps if figures.lp_cost]:
        meaning = "Log w is what the LP changes of an answer's log-probability; 0 is nothing."
        sentences.append(f"What the LP costs the model: {'; '.join(costs)}. {meaning}")
    return tuple(sentences)


# --- what is not known ------------------------------------------------------------------------------------------------


def unknown(measured: Measured, setting: Setting, missing: Sequence[str], versions: int, want: Want) -> tuple[str, ...]:
    """What the figures do not say; ``missing`` LPs have no run, ``versions`` of the program wrote the others."""
    unjudged = sum(figures.usable is None for figures in measured.lps)
    answers = min((figures.answers for figures in measured.lps), default=0)
    sizes = measured.heavy_atoms
    of = "" if sizes is None else f" of {sizes[0]} to {sizes[1]} heavy atoms"
    sentences = [
        f"{listed([name_of(lp) for lp in missing])}: not measured." if missing else "",
        f"Whether the molecules are right: {unjudged} of these {counted(len(measured.lps), 'run')} "
        f"{'has' if unjudged == 1 else 'have'} no verdict, so {want} answers count: `python -m engine judge RUN`."
        if unjudged
        else "",
        f"Other settings: all of this is for {setting.words}. The cost per answer depends on the batch size, and a "
        "full mask costs a different share of the time on a GPU than on a CPU.",
        f"A full batch: at most {answers} of {setting.batch_size} rows are used here, so larger runs cost less per "
        "molecule."
        if setting.batch_size is not None and answers < setting.batch_size
        else "",
        _clock(measured),
        f"Other molecules: these are {measured.molecules}{of}. Time grows faster than size.",
        _rmsd(measured),
    ]
    if versions > 1:
        sentences.append(f"Changes of the program: {versions} versions of it wrote these runs.")
    if any(figures.answers > measured.molecules for figures in measured.lps):
        sentences.append(
            "Intervals of rates treat the answers of one molecule as independent, so they are slightly too narrow."
        )
    return tuple(filter(None, sentences))


def _clock(measured: Measured) -> str:
    spreads = [figures.clock_spread for figures in measured.lps if figures.clock_spread is not None]
    if not spreads:
        return (
            "Other load on the machine: each LP has one wall time. Intervals cover the choice of molecules only, so "
            "run it again before you trust a difference of a few per cent."
        )
    once = sum(figures.clock_spread is None for figures in measured.lps)
    repeated = f"Other load on the machine: the same work took up to {max(spreads):.2f} times as long in another run"
    return f"{repeated}; {once} of these LPs ran once." if once else f"{repeated}."


def _rmsd(measured: Measured) -> str:
    if not any(figures.rmsd_answers for figures in measured.lps):
        return "Accuracy of the conformers: RMSD was not computed (--rmsd)."
    references = dict.fromkeys(figures.rmsd_to for figures in measured.lps if figures.rmsd_to)
    if len(references) > 1:
        return f"Accuracy of the conformers: RMSD was taken to different references ({', '.join(references)})."
    ratios = [figures.rmsd_ratio for figures in measured.lps if figures.rmsd_ratio is not None]
    if ratios and all(ratio.contains(1) is not False for ratio in ratios):
        what = f"RMSD to the nearest of {', '.join(references) or 'unnamed references'}"
        return f"Accuracy of the conformers: {what} differs from that without an LP by noise only, where known."
    return ""
