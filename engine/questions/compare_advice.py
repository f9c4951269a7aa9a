"""Which LP to use for a model, by what a usable conformer takes under each, from runs that were measured here.

An LP fits where at least the least share of its answers is as wanted. Of those that fit, the one with the fewest
seconds per wanted conformer wins. A ratio to the winner is a tie if its interval contains 1 or it is under 1.1, because
no interval covers other load on the machine; of ties, the surest rate comes first. Where none fits, the cheapest is
named all the same, and the LP with most wanted answers, which comes first where the two tie.

Seconds are a run's wall time over its wanted answers: rejected ones count in the time. All LPs over the same molecules
and under one setting. Rates have Wilson's interval, all else a 95 % bootstrap interval over molecules. The rule of the
group's reports, shown for comparison, knows only the pass rate without an LP: use one where that is low.
"""

from __future__ import annotations

import json
import math
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np

from engine.chem.molecule_sets import load_run_set
from engine.comparing.paired import compare_entries, samples_of
from engine.decode.plan import PRESETS
from engine.errors import DriftscopeError
from engine.figures import statistics
from engine.figures.statistics import LEAST_MOLECULES, Array, Interval, Sums, interval, quotient
from engine.figures.words import (
    UNKNOWN,
    angstrom,
    counted,
    duration,
    fixed,
    listed,
    percent,
    rounded,
    seconds,
    speed,
    times,
    with_interval,
)
from engine.inspection.lp_cost import known_cost
from engine.lp_records import FORMER, LPS, NO_LP, full_name, guard_words, split_cleanup, stored_lp
from engine.models.registry import load_registry
from engine.questions.question import Chart, Column, Of, Option, Options, Tables, answer_text, rows_table
from engine.records import RULE_HELP, SHORTEST4
from engine.store.entries import Entry, has_former_counts, model_name, number_format_of, rmsd_references
from engine.store.store import Store

TITLE = "Which LP should I use?"
OF = Of("model", most=100_000)
CANDIDATES = tuple(name for name, record in LPS.items() if record.is_candidate)
ANY = "Setting with most LPs measured"
SAME_TIME, NOTABLE = 1.1, 0.05


def setting_choices(_: Store, entries: Sequence[Entry]) -> list[str]:
    return [ANY, *dict.fromkeys(map(setting_words, settings_of(entries)))]


def lp_choices(_: Store, entries: Sequence[Entry]) -> list[str]:
    stored = [entry.row["lp"] for entry in entries if entry.row.get("lp")]
    return list(dict.fromkeys([*LPS, *stored]))


OPTIONS = (
    Option("advice_want", None, "Wanted", ("Usable", "Clean", "Passed"), help="Usable: clean and right in 3D; clean "
           f"where not all are judged. Clean: {RULE_HELP['clean']}. Passed: {RULE_HELP['passed']}."),
    Option("advice_least", 0.9, "Least share", bounds=(0.01, 1.0), help="Of wanted answers, for an LP to fit"),
    Option("advice_molecules", 10_000, "Molecules to write", bounds=(1, 1_000_000_000), help="For times in the table"),
    Option("advice_probe", 64, "Molecules per probe", bounds=(4, 2_000), help="With fewer than 35, a 90 % rate cannot "
           "be confirmed"),
    Option("advice_setting", ANY, "Setting", setting_choices, help="Sampling, batch, backend and device: never mixed"),
    Option("advice_lps", CANDIDATES, "LPs to choose from", lp_choices, is_many=True),
)  # fmt: skip
COLUMNS = {
    "lp": Column("LP", is_pinned=True),
    "standing": Column("result", help="Below: too few of its answers are as wanted"),
    "cost": Column("per wanted conformer", "s", "Wall time over wanted answers; rejected ones count in the time"),
    "vs best": Column(help="By its cost, against the lowest: of the LPs that fit, else of all"),
    "cheapest in": Column("", "%", "Share of bootstrap draws in which it is the cheapest of those that fit"),
    "letters": Column("with letters", help="Blocks with a letter: the reports' first count of junk"),
    "not numeric": Column(help="Blocks with anything but digits . , -: their second count"),
    "thrown away": Column("", "%", "Tokens that guarded or shaped threw away, of all; their time counts in all costs"),
    "RMSD": Column(help="Mean over answers: heavy atoms, to the nearest of the references"),
    **{word: Column(help=RULE_HELP[word]) for word in ("passed", "clean", "decodes")},
}
CHARTS = (
    Chart("points", "cost", "lp", "costs", colour="standing", low="low", high="high", log="x",
          hover=("lp", "standing", "cost", "low", "high")),
)  # fmt: skip
RATES = {"usable": "usable_rate", "clean": "clean_rate", "decodes": "decodes_rate", "passed": "pass_rate"}
SHARES = {"cut": "cut_share", "letters": "letters_share", "not numeric": "nonnumeric_share"}
QUOTIENTS = {  # one sum over another; times first
    "seconds_a_sample": ("seconds", "answers"),
    **{f"seconds_a_{outcome}": ("seconds", outcome) for outcome in ("usable", "clean", "passed")},
    **{RATES[outcome]: (outcome, "answers") for outcome in ("usable", "clean", "passed")},
    **{name: (name.removesuffix("_share"), "blocks") for name in SHARES.values()},
    "rmsd_ang": ("rmsd", "rmsd_known"),
}
COUNTS = ("answers", "passed", "clean", "decodes", "judged", "usable")
SAME_WORK = ("molecules", "samples", "generations", "seed", "tokens", "blocks")
MOST_REPEATS = 16
BY_BLOCK = {
    "blocks": "blocks",
    "letters": "junk_letters_share",
    "nonnumeric": "junk_nonnumeric_share",
    "cut": "cut_share",
}
Row = dict[str, Any]
Fit = Literal["yes", "no", "open"]
Verdict = Literal["too little", "none fits", "tie", "one"]


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """What an LP's run says of the molecules that all LPs were asked."""

    lp: str
    entry: Entry  # the run that is read
    walls_s: Array  # its own, then those of runs of the same work
    counts: Row  # of COUNTS
    figures: Row  # Intervals of QUOTIENTS and RATES; infinite seconds: no such answer
    drawn: Mapping[str, Array]  # [draws] of QUOTIENTS; empty where few molecules are shared
    rmsd_answers: int
    lp_cost: str
    time_ratio: Interval | None = None  # to the run without an LP
    rmsd_ratio: Interval | None = None

    @property
    def clock_spread(self) -> float | None:
        return float(self.walls_s.max() / self.walls_s.min()) if len(self.walls_s) > 1 else None

    @property
    def thrown_share(self) -> float | None:
        thrown, tokens = self.entry.row.get("thrown_tokens"), self.entry.row.get("tokens")
        return None if thrown is None or tokens is None else quotient(thrown, thrown + tokens)

    @property
    def rmsd_to(self) -> str:
        return rmsd_references(self.entry) if self.entry.row.get("rmsd_samples") else ""


@dataclass(frozen=True, slots=True, eq=False)
class Ranked:
    """A measured LP, by what is wanted."""

    of: Measured
    cost: Interval  # seconds per wanted answer
    rate: Interval
    wins: float | None  # share of draws in which it is the cheapest
    over_least: Interval | None  # its cost over the lowest one; None of the lowest itself

    @property
    def is_tie(self) -> bool:
        over = self.over_least
        return over is not None and (over.value < SAME_TIME or over.low is None or over.low <= 1)


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """The verdict by the rule in this module's second paragraph."""

    verdict: Verdict
    named: Sequence[Ranked]  # what is advised, in order
    ranked: Sequence[Ranked]  # all LPs
    cheapest: Ranked | None
    want: str
    least: float

    @property
    def lps(self) -> list[str]:
        """Those that are advised, where one fits."""
        return [row.of.lp for row in self.named] if self.verdict in ("tie", "one") else []

    @property
    def sureness(self) -> float | None:
        """Share of draws in which one of those is the cheapest."""
        wins = [row.wins for row in self.named if row.wins is not None]
        return min(1.0, sum(wins)) if wins and self.lps else None

    def standing(self, row: Ranked) -> str:
        fits = row.rate.value >= self.least
        word = ""
        if row in self.named[:1]:
            word = "advised"
        elif row.of.lp in self.lps:
            word = "ties"
        elif fits:
            word = "fits"
        elif row is self.cheapest:
            word = "cheapest"
        below = "" if fits else f"below {100 * self.least:g} %"
        return ", ".join(filter(None, (word, below)))

    def document(self) -> Row:
        cheapest = self.cheapest and self.cheapest.of.lp
        first = next(iter(self.lps), None)
        about = {"verdict": self.verdict, "lp": first, "ties": self.lps[1:]}
        return {**about, "sureness": self.sureness, "cheapest": cheapest}


# --- which runs may be compared ---------------------------------------------------------------------------------------


def setting_of(entry: Entry) -> Row:
    """All that changes time or text besides the LP; a text is empty and a figure None where its maker did not say."""
    row, plan = entry.row, (entry.sheet.get("plan") or {}).get("plan") or {}
    form = plan.get("form") or {}
    devices = {re.sub(r"\b(\w++):\d+", r"\1", name.strip()) for name in (row.get("device") or "").split(",")}
    texts = ("sampling", "backend", "dtype", "attention", "tokenizer", "weights")
    figures = ("temperature", "top_k", "top_p", "min_p", "batch_size", "most_tokens")
    return {
        **{name: row.get(name) or "" for name in texts},
        **{name: row.get(name) for name in figures},
        "conformers_per_answer": row.get("conformers_per_answer") or 1,
        "examples": row.get("examples") or 0,
        "device": ", ".join(sorted(devices)),
        "is_compiled": plan.get("compile") is True,
        "numbers": ", ".join(f"{key} {form[key]}" for key in sorted(form)),
    }


def settings_of(entries: Sequence[Entry]) -> list[Row]:
    """Those with most LPs first, then those with most samples, then the newest."""
    rows: dict[str, list[Row]] = {}
    for entry in entries:
        rows.setdefault(json.dumps(setting_of(entry)), []).append(dict(entry.row))
    rank = {key: (-len({row.get("lp") for row in of}), -max(row["samples"] for row in of)) for key, of in rows.items()}
    return [json.loads(key) for key in sorted(rank, key=lambda key: rank[key])]


def setting_words(setting: Row) -> str:
    """``qwen3 · 32 rows · fast · cpu``"""
    parts = [setting["sampling"], f"{setting['batch_size'] or '–'} rows", setting["backend"], setting["device"]]
    if setting["conformers_per_answer"] > 1:
        parts.append(f"{setting['conformers_per_answer']} conformers per answer")
    if setting["examples"]:
        parts.append(counted(setting["examples"], "example"))
    return " · ".join(part or "–" for part in parts)


def lp_of(entry: Entry) -> str:
    return str(entry.row.get("lp"))


def size_of(entry: Entry) -> tuple[int, int]:
    return entry.row.get("molecules") or 0, entry.row["samples"]


def is_usual(entry: Entry) -> bool:
    """With the LP's own placeholder, descriptors and guard, as the advised one would run."""
    row = entry.row
    record = stored_lp(split_cleanup(lp_of(entry))[0], is_former=not row.get("descriptors"))
    placeholder = row.get("placeholder") or ""
    is_placed = record.needs_coordinates or placeholder in ("", record.placeholder or placeholder)
    is_written = record.descriptors in (None, row.get("descriptors")) and not record.name.startswith(FORMER)
    return is_placed and is_written and not guard_words(row.get("guard"), record)


def runs_by_lp(entries: Sequence[Entry], lps: Sequence[str]) -> dict[str, list[Entry]]:
    """Of one setting: for each LP the run that is read, then those that did the same work.

    Read is a run of the size that most LPs have; where an LP has none of it, its newest one.
    """
    sizes: dict[tuple[int, int], set[str]] = {}
    for entry in entries:
        sizes.setdefault(size_of(entry), set()).update({lp_of(entry)} & set(lps))
    usual = max(sizes, key=lambda size: (len(sizes[size]), size[1]), default=None)
    runs = {}
    for lp in lps:
        of_lp = [entry for entry in entries if lp_of(entry) == lp and is_usual(entry)]
        if not of_lp:
            continue
        read = next((entry for entry in of_lp if size_of(entry) == usual), of_lp[0])
        work = [read.row.get(name) for name in SAME_WORK]
        same = [e for e in of_lp if e is not read and [e.row.get(name) for name in SAME_WORK] == work]
        runs[lp] = [read, *same[:MOST_REPEATS]]
    return runs


def left_out_of(entries: Sequence[Entry], lps: Sequence[str]) -> list[str]:
    """Runs of the setting that are no evidence, by LP."""
    counts, usual = Counter(map(lp_of, entries)), Counter(map(lp_of, filter(is_usual, entries)))
    others = [f"{counted(counts[lp], 'run')} of {lp}, which is not a candidate" for lp in counts if lp not in lps]
    changed = {lp: counts[lp] - usual[lp] for lp in lps}
    return [*others, *(f"{counted(n, 'run')} of {lp} with non-default parameters" for lp, n in changed.items() if n)]


# --- figures ----------------------------------------------------------------------------------------------------------


def sums_of(store: Store, runs: Mapping[str, Sequence[Entry]]) -> tuple[list[str], dict[str, dict[str, Array]]]:
    """Molecules that all LPs were asked, and by LP each figure summed over a molecule's answers.

    An LP that shares too few molecules is left out, `none` never.
    """
    shared: list[str] = []
    by_lp: dict[str, tuple[dict[str, int], dict[str, Array]]] = {}
    for lp in sorted(runs, key=lambda lp: lp != NO_LP):
        run = samples_of(store, runs[lp][0])
        names = run.smiles.dictionary_encode()
        molecule = names.indices.to_numpy(zero_copy_only=False).astype(np.int64)  # [answers]
        figures = figures_of(run.columns, walls_of(runs[lp]))
        sums = {name: np.bincount(molecule, column).astype(np.float64) for name, column in figures.items()}
        indexes: dict[str, int] = {smiles: index for index, smiles in enumerate(names.dictionary.to_pylist())}
        both = [smiles for smiles in shared if smiles in indexes] if by_lp else list(indexes)
        least = min(len(shared), max(LEAST_MOLECULES, len(shared) // 2))
        if both and len(both) >= least and np.isfinite(sums["seconds"]).all():
            shared, by_lp[lp] = both, (indexes, sums)
    rows = {lp: [by_lp[lp][0][smiles] for smiles in shared] for lp in runs if lp in by_lp}
    return shared, {lp: {name: sums[rows[lp]] for name, sums in by_lp[lp][1].items()} for lp in rows}


def walls_of(runs: Sequence[Entry]) -> Array:
    return np.array([run.row["wall_s"] for run in runs])


def figures_of(columns: Mapping[str, Array], walls_s: Array) -> dict[str, Any]:
    """[answers] each; the time is the mean of all runs of the same work."""
    is_counted = np.isfinite([columns[name] for name in BY_BLOCK.values()]).all(axis=0)
    return {
        "answers": np.ones_like(columns["pass_rate"]),
        "passed": columns["pass_rate"],
        "clean": columns["clean_rate"],
        "decodes": columns["decodes_rate"],  # NaN of runs from before there was this rule
        "judged": np.isfinite(columns["usable_rate"]),
        "usable": np.nan_to_num(columns["usable_rate"]),
        "seconds": np.mean(walls_s) / walls_s[0] * columns["wall_s_a_sample"],
        "rmsd": np.nan_to_num(columns["rmsd_ang"]),
        "rmsd_known": np.isfinite(columns["rmsd_ang"]),
        "heavy_atoms": np.nan_to_num(columns["heavy_atoms"]),
        **{name: np.where(is_counted, columns[column], 0) for name, column in BY_BLOCK.items()},
    }


def measured_of(store: Store, runs: Mapping[str, Sequence[Entry]]) -> tuple[list[Measured], int, list[int]]:
    """Each LP, how many molecules they share, and the sizes of the smallest and largest. Few: nothing is drawn."""
    smiles, sums = sums_of(store, runs)
    drawn = draws_of(sums, runs) if len(smiles) >= LEAST_MOLECULES else {}
    rows = [measured(store, runs[lp], of_lp, drawn.get(lp, {})) for lp, of_lp in sums.items()]
    base = next((row for row in rows if row.lp == NO_LP), None)
    if base is not None:
        rows = [row if row is base else against(store, base, row, len(smiles)) for row in rows]
    atoms = [of_lp["heavy_atoms"] / of_lp["answers"] for of_lp in list(sums.values())[:1] if len(smiles)]
    return rows, len(smiles), [round(float(end)) for of_lp in atoms for end in (of_lp.min(), of_lp.max())]


def draws_of(
    sums: Mapping[str, Mapping[str, Array]], runs: Mapping[str, Sequence[Entry]]
) -> dict[str, dict[str, Array]]:
    """By LP and figure, [draws]: the same molecules for all, and of runs of the same work their clocks as well."""
    pairs = [(of_lp[part], of_lp[whole]) for of_lp in sums.values() for part, whole in QUOTIENTS.values()]
    parts, wholes = (np.stack(side, axis=1) for side in zip(*pairs, strict=True))
    both = Sums(parts, wholes, wholes)
    means = statistics.paired_means(both, both)[0].reshape(statistics.RESAMPLES, len(sums), len(QUOTIENTS))
    drawn = {}
    for column, lp in enumerate(sums):
        walls = walls_of(runs[lp])
        clock = np.ones(1)  # of one run; of several [resamples], how their wall times vary
        if len(walls) > 1:
            again = np.random.default_rng(column + 1).integers(0, len(walls), (statistics.RESAMPLES, len(walls)))
            clock = walls[again].mean(axis=1) / walls.mean()
        quotients = zip(QUOTIENTS.items(), means[:, column].T, strict=True)
        drawn[lp] = {name: draws * (clock if part == "seconds" else 1.0) for (name, (part, _)), draws in quotients}
    return drawn


def measured(store: Store, runs: Sequence[Entry], sums: Mapping[str, Array], drawn: Mapping[str, Array]) -> Measured:
    entry = runs[0]
    totals = {name: float(sums[name].sum()) for name in COUNTS}
    counts = {name: None if math.isnan(total) else round(total) for name, total in totals.items()}
    answers = round(totals["answers"])
    figures = {name: quotient_of(name, sums, drawn) for name in QUOTIENTS}
    for name, key in RATES.items():
        hits = counts[name]
        figures[key] = None if hits is None else Interval(hits / answers, *statistics.wilson(hits, answers))
    if totals["judged"] < totals["answers"]:
        counts["usable"] = figures["usable_rate"] = figures["seconds_a_usable"] = None
    cost, why_not = (None, "") if lp_of(entry) == NO_LP else known_cost(store, entry)
    lp_cost = why_not if cost is None else cost.short_words(lp_of(entry))
    rmsd_answers = round(float(sums["rmsd_known"].sum()))
    return Measured(lp_of(entry), entry, walls_of(runs), counts, figures, drawn, rmsd_answers, lp_cost)


def quotient_of(name: str, sums: Mapping[str, Array], drawn: Mapping[str, Array]) -> Interval | None:
    """None of nothing; seconds of nothing are infinite."""
    part, whole = QUOTIENTS[name]
    value, weight = float(sums[part].sum()), float(sums[whole].sum())
    if weight:
        draws = drawn.get(name) if value else None  # of nothing every draw has nothing: no certainty
        return interval(value / weight, draws, len(sums[part]))
    if part != "seconds":
        return None
    return Interval(math.inf, math.inf, math.inf) if drawn else Interval(math.inf)


def against(store: Store, base: Measured, row: Measured, units: int) -> Measured:
    """With its ratios to the run without an LP."""
    time_ratio, rmsd_ratio = ratio(row, base, "seconds_a_sample", units), None
    if rmsd_references(base.entry) == rmsd_references(row.entry):
        rmsd_ratio = compare_entries(store, base.entry, row.entry).measure("rmsd_ang").ratio
    return replace(row, time_ratio=time_ratio, rmsd_ratio=rmsd_ratio)


def ratio(test: Measured, base: Measured, name: str, units: int) -> Interval | None:
    """The first over the second; draws in which neither has a wanted answer tell nothing."""
    value, least = test.figures[name], base.figures[name]
    if value is None or least is None or math.isinf(value.value) or not least.value:
        return None
    with np.errstate(invalid="ignore"):
        drawn = test.drawn[name] / base.drawn[name] if test.drawn else None
        return interval(value.value / least.value, drawn, units)


# --- the rule, and its words ------------------------------------------------------------------------------------------


def decide(rows: Sequence[Measured], units: int, want: str, least: float) -> Decision:
    ranked = ranked_of(rows, units, want, least)
    finite = [row for row in ranked if math.isfinite(row.cost.value)]
    cheapest = min(finite, key=lambda row: row.cost.value, default=None)
    named = [row for row in finite if row.rate.value >= least and (row.over_least is None or row.is_tie)]
    named.sort(key=lambda row: (-(row.rate.low or 0), row.cost.value))
    verdict: Verdict = "tie" if len(named) > 1 else "one"
    if len(rows) < 2 or units < LEAST_MOLECULES:
        verdict, named = "too little", []
    elif not named:
        verdict, named = "none fits", most_wanted(ranked, cheapest)
    return Decision(verdict, named, ranked, cheapest, want, least)


def ranked_of(rows: Sequence[Measured], units: int, want: str, least: float) -> list[Ranked]:
    """Against the lowest cost of those that fit, where none does of all."""
    cost, rate = f"seconds_a_{want}", RATES[want]
    finite = [row for row in rows if math.isfinite(row.figures[cost].value)]
    fitting = [row for row in finite if row.figures[rate].value >= least]
    lowest = min(fitting or finite, key=lambda row: row.figures[cost].value, default=None)
    wins = wins_of(rows, cost, rate, least)
    ranked = []
    for row in rows:
        over = None if lowest is None or row is lowest else ratio(row, lowest, cost, units)
        ranked.append(Ranked(row, row.figures[cost], row.figures[rate], wins.get(row.lp), over))
    return ranked


def most_wanted(ranked: Sequence[Ranked], cheapest: Ranked | None) -> list[Ranked]:
    """Where none fits: the cheapest, and the LP with most wanted answers, which comes first where the two tie."""
    if cheapest is None:
        return []
    most = max(ranked, key=lambda row: (row.rate.value, row is cheapest))
    if most is cheapest:
        return [cheapest]
    return [most, cheapest] if most.is_tie else [cheapest, most]


def fit_of(rate: Interval, least: float) -> Fit:
    """Whether at least so many answers are as wanted: open where the rate's interval has both."""
    low, high = rate.ends or (0.0, 1.0)
    if low >= least:
        return "yes"
    return "no" if high < least else "open"


def wins_of(rows: Sequence[Measured], cost: str, rate: str, least: float) -> dict[str, float]:
    """Share of draws in which an LP is the cheapest of those that fit, else of all; empty without draws."""
    if not rows or not rows[0].drawn:
        return {}
    costs, rates = (np.stack([row.drawn[name] for row in rows], axis=1) for name in (cost, rate))  # [draws, LPs]
    fits = rates >= least
    costs = np.where(np.isfinite(costs) & (fits | ~fits.any(axis=1, keepdims=True)), costs, math.inf)
    winner = np.where(np.isfinite(costs).any(axis=1), costs.argmin(axis=1), -1)
    return {row.lp: float((winner == column).mean()) for column, row in enumerate(rows)}


def cost_words(cost: Interval | None) -> str:
    return "never" if cost is not None and math.isinf(cost.value) else with_interval(cost, seconds)


def pace_words(over: Interval | None) -> str:
    """``slower by 4.40× (4.34–4.46)`` than the best."""
    return UNKNOWN if over is None else speed(over.value, over.ends)


def sentence_of(decision: Decision, units: int) -> str:
    """What to use, what it gives and costs, and how sure that is."""
    want, least = decision.want, decision.least
    if decision.verdict == "too little":
        measured = f"{len(decision.ranked)} LPs over {counted(units, 'molecule')}"
        return f"Nothing can be advised yet: too little is measured, {measured}."
    if not decision.named:
        return f"No LP gives a {want} answer."
    first = decision.named[0]
    name, *more = ["no LP" if row.of.lp == NO_LP else row.of.lp for row in decision.named]
    text = gain_words(first, decision)
    if not decision.lps:
        why = "the cheapest" if decision.named[-1] is decision.cheapest else f"most {want} answers"
        other = f", or {more[0]} ({why})" if more else ""
        return f"Use {name}{other}: {text} Every LP is below {100 * least:g} % {want}."
    parts = [f"Use {name}: {text}"]
    if more:
        parts = [f"Use {name}, or {listed(more, 'or')} (the same cost within noise): {text}"]
    if decision.sureness is not None:
        which = "One of them" if more else "It"
        parts.append(f"{which} is the cheapest in {percent(decision.sureness)} of bootstrap draws.")
    if fit_of(first.rate, least) == "open":
        parts.append(f"Its rate is uncertain: there are only {first.of.counts['answers']} answers.")
    return " ".join(parts)


def gain_words(row: Ranked, decision: Decision) -> str:
    """``64 of 64 answers are clean, 100 % (94–100), at 0.5 s per clean conformer.``"""
    counts, want = row.of.counts, decision.want
    text = f"{counts[want]} of {counts['answers']} answers are {want}, {with_interval(row.rate, percent)}, at "
    text += f"{cost_words(row.cost)} per {want} conformer"
    without = next((other.cost for other in decision.ranked if other.of.lp == NO_LP), None)
    if without is not None and math.isfinite(without.value) and row.of.lp != NO_LP:
        text += f" ({speed(row.cost.value / without.value, than='without an LP')})"
    word = "clean" if counts["usable"] is None else "usable"
    is_few = counts[word] < min(counts[want], decision.least * counts["answers"])
    return f"{text}. Only {counts[word]} are {word}." if is_few else f"{text}."


def untried(decision: Decision, missing: Sequence[str]) -> str:
    """A further sentence where no LP fits, and one that is made for usable answers was not measured."""
    names = [lp for lp in missing if stored_lp(lp).asks_tokens]
    if decision.verdict != "none fits" or decision.want != "usable" or not names:
        return ""
    return f" {names[0]} is not measured: it strikes tokens that make a molecule wrong."


def reports_rule(decision: Decision) -> Row:
    """The reports give two cases and no threshold: the advice's own is used."""
    rate = next((row.of.figures["pass_rate"] for row in decision.ranked if row.of.lp == NO_LP), None)
    if rate is None:
        sentence = "It does not apply: nothing was measured without an LP."
        return {"says": "unknown", "agrees": None, "pass_rate": None, "detail": "", "sentence": sentence}
    says = {"yes": "no LP", "no": "use an LP", "open": "open"}[fit_of(rate, decision.least)]
    agrees = None
    rule = "Open, it is too close" if says == "open" else f"Use {says.removeprefix('use ')}"
    sentence = f"{rule}: without one, {with_interval(rate, percent)} of answers pass. "
    sentence += "It looks at this pass rate alone, not at time or at molecules."
    if decision.lps and says != "open":
        agrees = NO_LP in decision.lps if says == "no LP" else set(decision.lps) != {NO_LP}
        sentence += f" The measured costs {'agree' if agrees else 'do not agree'}."
    return {"says": says, "agrees": agrees, "pass_rate": rate, "detail": "", "sentence": sentence}


def cautions_of(decision: Decision) -> list[str]:
    """What to know before using the advised LP."""
    row = decision.named[0].of
    cautions = []
    for words, name in (("cut", "cut_share"), ("broken by letters", "letters_share")):
        share = row.figures[name]
        if share is not None and share.value > NOTABLE:
            cautions.append(f"Of {row.lp}, {with_interval(share, percent)} of its blocks are {words}.")
    if row.rmsd_ratio is not None and (row.rmsd_ratio.low or 0) > 1 + statistics.ROUNDING:
        over = f"{with_interval(row.rmsd_ratio, times)}, to {row.rmsd_to or 'unnamed references'}"
        cautions.append(f"Its conformers are farther from the references than those without an LP: RMSD {over}.")
    costs = [other.of.lp_cost for other in decision.ranked if other.of.lp_cost]
    return [*cautions, *([f"What the LP costs the model: {'; '.join(costs)}."] if costs else [])]


def command_of(setting: Row, model: str, words: Sequence[str]) -> str:
    """``python -m engine run --model demo-qwen:final --lp truncating --sample-size 64 --device cpu``"""
    sampling, device = setting["sampling"], setting["device"].partition(" ")[0]
    device = "" if setting["backend"] == "server" else device  # its address is the environment's
    of_run = (  # which a probe has not
        ("--max-new-tokens", setting["most_tokens"], None),
        ("--conformers", setting["conformers_per_answer"], 1),
        ("--examples", "FILE" if setting["examples"] else None, None),
    )
    for option, value, usual in (
        ("--sampling", sampling if sampling in PRESETS else None, "qwen3"),
        ("--batch-size", setting["batch_size"], 32),
        ("--backend", setting["backend"], "fast"),  # which auto takes where it can
        ("--device", device, None),
        *(of_run if words[0] == "run" else ()),
    ):
        words = words if value in (None, "", usual) else [*words, option, str(value)]
    is_known = any(entry.name == model for entry in load_registry().entries)
    which = ["--model", model] if is_known else ["--model-path", "FOLDER"]
    return shlex.join(["python", "-m", "engine", words[0], *which, *words[1:]])


def unmeasured(lps: Sequence[str], rows: Sequence[Measured], entry: Entry) -> list[str]:
    """Those without a row that can write the numbers of this run's model."""
    form, known = number_format_of(entry) or SHORTEST4, [row.lp for row in rows]
    return [lp for lp in lps if lp not in known and stored_lp(lp).writes(form)]


# --- the question -----------------------------------------------------------------------------------------------------


def tables(store: Store, entries: Sequence[Entry], options: Options) -> Tables:
    """``entries`` are measured runs of one model, the newest first. ``advice`` is what ``advise --json`` prints."""
    model, molecules = model_name(entries[0].row), options["advice_molecules"]
    lps, settings = tuple(dict.fromkeys(map(full_name, options["advice_lps"]))), settings_of(entries)
    setting = next((s for s in settings if setting_words(s) == options["advice_setting"]), settings[0])
    of_setting = [entry for entry in entries if setting_of(entry) == setting]
    runs = runs_by_lp(of_setting, lps)
    rows, units, sizes = measured_of(store, runs)
    molecule_sizes = f"{units} of {listed(list(map(str, sizes)), 'to')}" if sizes else ""
    decision = decide(rows, units, wanted(options, rows), options["advice_least"])
    missing = unmeasured(lps, rows, entries[0])
    unread = [f"{lp}: its run asked other molecules, or its answers have no times" for lp in runs if lp in missing]
    advice = {
        "model": model,
        "setting": setting,
        "want": decision.want,
        "least": decision.least,
        **decision.document(),
        "sentence": sentence_of(decision, units) + untried(decision, missing),
        "rule": " ".join((__doc__ or "").split("\n\n")[1].split()),
        "reports": reports_rule(decision),
        "molecules": units,
        "heavy_atoms": sizes,
        "lps": [lp_document(decision, row, molecules) for row in decision.ranked],
        "cautions": cautions_of(decision) if decision.lps else [],
        "unknown": unknown_of(runs, rows, missing, setting, molecule_sizes),
        "missing": missing,
        "commands": [command_of(setting, model, words) for words in further(store, options, lps, missing, runs)],
        "others": others_of(entries, setting, settings),
        "left_out": [*left_out_of(of_setting, lps), *unread],
    }
    return {
        "main": rows_table([shown_row(decision, row, molecules) for row in decision.ranked], ["lp"]),
        "commands": rows_table([{"command": command} for command in advice["commands"]]),
        "costs": rows_table(cost_rows(decision)),
        "advice": rows_table([{"key": name, "value": json.dumps(of, default=in_json)} for name, of in advice.items()]),
    }


def others_of(entries: Sequence[Entry], setting: Row, settings: Sequence[Row]) -> list[Row]:
    """Runs of other settings, and in what these differ."""
    rows = []
    for other in settings:
        lps = [lp_of(entry) for entry in entries if setting_of(entry) == other]
        known = [name for name in setting if other[name] not in ("", None)]  # a server tells no dtype
        differs = [f"{n.replace('_', ' ')} {other[n]}, not {setting[n]}" for n in known if other[n] != setting[n]]
        row = {"setting": other, "runs": len(lps), "lps": list(dict.fromkeys(lps)), "differs": "; ".join(differs)}
        rows += [row] if differs else []
    return rows


def unknown_of(
    runs: Mapping[str, Sequence[Entry]], rows: Sequence[Measured], missing: Sequence[str], setting: Row, molecules: str
) -> list[str]:
    """What these runs cannot tell."""
    gaps = [f"{listed(missing)}: not measured."] if missing else []
    unjudged = [row.entry.id for row in rows if row.counts["usable"] is None]
    if unjudged:
        gaps.append(f"Usable answers: not all are judged, python -m engine judge {unjudged[0]} does it.")
    gaps.append(
        f"Other settings: all of this is for {setting_words(setting)}. The gain depends on batch, device and size."
    )
    spreads = [row.clock_spread for row in rows if row.clock_spread]
    load = "each LP has one wall time; intervals are over molecules alone"
    if spreads:
        load = f"the same work took up to {fixed(max(spreads), 2)} times as long in another run"
    gaps.append(f"Other load on the machine: {load}.")
    gaps += [f"Other molecules: these are {molecules} heavy atoms."] if molecules else []
    if setting["conformers_per_answer"] > 1:
        gaps.append("Single conformers: an answer counts as a whole, with all that it holds.")
    if former := [lp for lp, entries in runs.items() if has_former_counts(entries[0])]:
        gaps.append(f"Cut blocks of {listed(former)}: they have former counts, `verify --recount`.")
    return gaps


def wanted(options: Options, rows: Sequence[Measured]) -> str:
    want = str(options["advice_want"]).lower()
    is_judged = all(row.counts["usable"] is not None for row in rows)
    return want if is_judged or want != "usable" else "clean"


def further(
    store: Store, options: Options, lps: Sequence[str], missing: Sequence[str], runs: Mapping[str, Sequence[Entry]]
) -> Iterator[list[str]]:
    """Words of commands that would tell more: the LPs that are missing, then a probe of all."""
    if missing:
        yield ["run", *repeated("--lp", missing), *molecule_words(store, [of_lp[0] for of_lp in runs.values()])]
    yield ["advise", "--probe", str(options["advice_probe"]), *repeated("--lp", lps if lps != CANDIDATES else ())]


def molecule_words(store: Store, runs: Sequence[Entry]) -> list[str]:
    """The same molecules for another run: those that ship by their number, others from a file."""
    size = max((run.row.get("molecules") or 0 for run in runs), default=0)
    with suppress(DriftscopeError):  # more than ship
        prompts = {prompt for run in runs for prompt in samples_of(store, run).smiles.to_pylist()}
        if size and prompts <= set(load_run_set(size)):
            return ["--sample-size", str(size)]
    return ["--smiles-file", "FILE"]


def repeated(option: str, values: Iterable[str]) -> list[str]:
    return [word for value in values for word in (option, value)]


def expected(row: Ranked, molecules: int) -> tuple[float, float]:
    """Seconds for so many molecules, and how many wanted answers these give."""
    return molecules * row.of.figures["seconds_a_sample"].value, molecules * row.rate.value


def shown_row(decision: Decision, row: Ranked, molecules: int) -> Row:
    """What decides comes first."""
    want, figures = decision.want, row.of.figures
    seconds_for, wanted = expected(row, molecules)
    rates = {words: with_interval(figures[key], percent) for words, key in RATES.items()}
    return {
        "lp": row.of.lp,
        "standing": decision.standing(row),
        want: rates[want],
        f"per {want} conformer": cost_words(row.cost),
        "vs best": pace_words(row.over_least),
        f"for {molecules:,}": duration(seconds_for),
        f"{want} of them": int(rounded(wanted)),
        "cheapest in": row.wins,
        **rates,
        "per sample": cost_words(figures["seconds_a_sample"]),
        **{words: with_interval(figures[key], percent) for words, key in SHARES.items()},
        "thrown away": row.of.thrown_share,
        "RMSD": with_interval(figures["rmsd_ang"], angstrom),
    }


def cost_rows(decision: Decision) -> list[Row]:
    return [
        {"lp": row.of.lp, "standing": decision.standing(row), "cost": cost.value, "low": cost.low, "high": cost.high}
        for row, cost in ((row, row.cost) for row in decision.ranked)
        if math.isfinite(cost.value)
    ]


def lp_document(decision: Decision, row: Ranked, molecules: int) -> Row:
    """As ``advise --json`` has an LP; an Interval stays one."""
    of = row.of
    about = row.of.entry.row
    want = decision.want
    seconds_for, wanted = expected(row, molecules)
    return {
        **of.counts,
        "lp": of.lp,
        "run_id": of.entry.id,
        "repeats": len(of.walls_s) - 1,
        "time_ratio": of.time_ratio,
        "clock_spread": of.clock_spread,
        "rmsd_ratio": of.rmsd_ratio,
        **of.figures,
        "thrown_share": of.thrown_share,
        "unverified_share": quotient(about.get("unverified_blocks"), about.get("blocks")),
        "rmsd_answers": of.rmsd_answers,
        "rmsd_to": of.rmsd_to,
        "lp_cost": of.lp_cost,
        "wins": row.wins,
        "over_least": row.over_least,
        "fits": fit_of(row.rate, decision.least),
        "reason": f"{decision.standing(row)}: {of.counts[want]} of {of.counts['answers']} answers are {want}",
        "expected": {"molecules": molecules, "seconds": seconds_for, "usable": wanted},
    }


def in_json(interval: Interval) -> Row:
    """``{value, low, high}``, infinite where there is no wanted answer."""
    return {name: "inf" if end is not None and math.isinf(end) else end for name, end in asdict(interval).items()}


def answer(tables: Tables, options: Options) -> str:
    advice = {row["key"]: json.loads(row["value"]) for row in tables["advice"].to_pylist()}
    lead = f"With {advice['model']}, over {counted(advice['molecules'], 'molecule')}: {advice['sentence']}"
    notes = [*advice["cautions"], *(f"Not known: {gap}" for gap in advice["unknown"])]
    others = [f"{counted(row['runs'], 'run')} of another setting: {row['differs']}" for row in advice["others"]]
    notes += [f"Left out: {runs}." for runs in (*others, *advice["left_out"])]
    return answer_text([lead, f"The group's reports would advise: {advice['reports']['sentence']}"], notes)
