"""What the LP costs the model, as one number: how far its draws are from what the model would have written.

log w of a sample is the sum over its tokens of ln p - ln q: p the model's probability at the sampling's temperature, q
the one that the token was drawn with, 1 where it was forced. log p(C) is the model's own mass on all texts that the LP
admits; where filters or a guard leave some of these out it is a lower bound. With few effective samples, few carry the
weight: KL is then too small, and log p(C) uncertain. 95 % bootstrap intervals over molecules.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from engine.figures.statistics import Interval
from engine.figures.words import counted, with_interval
from engine.inspection.lp_cost import Row, RunCost, cost_of_run, effective_words, nat
from engine.inspection.runs import facts_of
from engine.questions.question import Chart, Column, NeedsWork, Of, Option, Options, Tables, answer_text, rows_table
from engine.store.entries import Entry
from engine.store.store import Store

TITLE = "What does the LP cost the model?"
OF = Of("run")
NEEDS_TEXTS = True
PLACES = {"along": "along the answer", "parts": "by segment and number", "elements": "by element"}
OPTIONS = (Option("cost_by", "along", "Cost", PLACES),)
PARTS = {
    "forced": "forced tokens",
    "free": "mask at free tokens",
    "places": "tokens that leave no right place",
    "filters": "sampling filters",
}
COLUMNS = {
    "place": Column("where"),
    **{name: Column(words, "nat") for name, words in PARTS.items()},
    "log_w": Column("log w", "nat", "The sum of the parts: per sample, by element per block"),
    "low": Column("from", "nat", "95 % bootstrap interval over molecules"),
    "high": Column("to", "nat"),
    "nat": Column("log w", "nat"),
}
CHARTS = (Chart("bars", "nat", "place", "bars", colour="part", hover=("place", "part", "nat", "tokens")),)
UNKNOWN = "What the LP costs the model is not known"
NO_STEPS = "no steps say with which probability tokens were drawn"


def cost_rows(costs: Sequence[Row]) -> list[Row]:
    return [
        {
            "place": cost["name"],
            "tokens": cost["tokens"],
            **{part: cost[part] for part in PARTS},
            "log_w": cost["whole"].value,
            "low": cost["whole"].low,
            "high": cost["whole"].high,
        }
        for cost in costs
    ]


def sign_words(value: Interval, more: str, less: str, open_words: str) -> str:
    """Which way a slope or a correlation goes, where its interval tells."""
    if not value.excludes_zero:
        return open_words
    return more if value.value > 0 else less


def tables(store: Store, entries: Sequence[Entry], options: Options) -> Tables:
    cost = cost_of_run(store, facts_of(entries[0]))
    if not cost.samples:
        raise NeedsWork(f"{UNKNOWN}: {NO_STEPS}", ["cost-of-lp", entries[0].id])
    by = options["cost_by"]
    rows = cost_rows({"along": cost.tenths, "parts": cost.parts, "elements": cost.elements}[by])
    bars = [
        {"place": row["place"], "tokens": row["tokens"], "part": words, "nat": row[part]}
        for part, words in PARTS.items()
        if any(abs(row[part]) >= 0.001 for row in rows)
        for row in rows
    ]
    lp = entries[0].row.get("lp") or "The LP"
    notes = [{"note": line} for line in sentences(cost, str(lp))]
    return {
        "main": rows_table(rows, ["place"]),
        "bars": rows_table(bars, ["place", "part", "nat"]),
        "notes": rows_table(notes),
    }


def _why_unknown(cost: RunCost) -> str:
    if not cost.samples:
        return NO_STEPS
    why = "none ended" if cost.is_guard_known else "what its guard does to the distribution was not estimated"
    return f"of {counted(cost.samples, 'sample')}, {why}"


def sentences(cost: RunCost, lp: str) -> list[str]:
    """The verdict first, then how far it can be trusted."""
    if not cost.counting or cost.log_w_tempered is None:
        return [f"{UNKNOWN}: {_why_unknown(cost)}."]

    def value(part: Interval | None) -> float:
        return 0.0 if part is None else part.value

    mask = value(cost.free) - value(cost.filters) - value(cost.places)
    parts = {
        "at forced tokens": value(cost.forced),
        "by the mask at free ones": mask,
        "where tokens leave no right place": value(cost.places),
        "by the sampling filters": value(cost.filters),
        "by the guard": cost.lp_part - value(cost.mask) - value(cost.places),
    }
    split = [f"{nat(part)} {where}" for where, part in parts.items() if abs(part) >= 0.005 or "at" in where.split()]
    trend, estimate = cost.disagreement, cost.tempered
    least = "at least " if cost.is_bound else ""
    lines = [
        f"{lp} {cost.verdict}: log w is {with_interval(cost.log_w_tempered, nat)} per sample, {', '.join(split)}.",
        f"log p(C) is {least}{with_interval(estimate.log_p, nat)}; {effective_words(estimate, cost.samples)}; KL "
        f"from the model conditioned on the LP's language {with_interval(estimate.kl, nat)} nat.",
    ]
    lines += _limits(cost)
    if trend.slope is not None:
        verdict = sign_words(trend.slope, "grows", "falls", "no trend")
        lines.append(f"−log w per block along the text: {verdict} ({with_interval(trend.slope, nat)} nat per block).")
    if trend.rmsd is not None:
        verdict = sign_words(trend.rmsd, "higher", "lower", "no relation shown")
        over = f"{counted(trend.rmsd_samples, 'sample')} of {counted(trend.rmsd_molecules, 'molecule')}"
        lines.append(
            f"−log w where RMSD is higher, within molecules: {verdict} (rank correlation "
            f"{with_interval(trend.rmsd, nat)}, {over})."
        )
    if cost.raw != cost.tempered:
        lines.append(
            f"With the raw p, at temperature 1: log w {with_interval(cost.log_w, nat)} per sample, log p(C) "
            f"{with_interval(cost.raw.log_p, nat)}, {effective_words(cost.raw, cost.samples)}."
        )
    return lines


def _limits(cost: RunCost) -> Iterator[str]:
    """What the figures do not know."""
    if cost.places_bounds is not None:
        least, most = map(nat, cost.places_bounds)
        yield f"Not every token was asked whether it leaves a right place: that part is from {least} to {most}."
    if not cost.tempered.is_reliable:
        yield "Unreliable: few samples carry the weight, so KL is too small and log p(C) uncertain."
    if left := cost.samples - cost.counting:
        yield f"{left:,} of {cost.samples:,} samples did not end, or have no weight: they count 0."


def answer(tables: Tables, options: Options) -> str:
    lead, *notes = tables["notes"]["note"].to_pylist()
    return answer_text([lead], notes)
