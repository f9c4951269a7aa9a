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
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any

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

OPTIONS = (
    Option("advice_want", None, "Wanted", ("Usable", "Clean", "Passed"), help="Usable: clean and right in 3D; clean "
           f"where not all are judged. Clean: {RULE_HELP['clean']}. Passed: {RULE_HELP['passed']}."),
    Option("advice_least", 0.9, "Least share", bounds=(0.01, 1.0), help="Of wanted answers, for an LP to fit"),
    Option("advice_molecules", 10_000, "Molecules to write", bounds=(1, 1_000_000_000), help="For times in the table"),
    Option("advice_probe", 64, "Molecules per probe", bounds=(4, 2_000), help="With fewer than 35, a 90 % rate cannot "
           "be confirmed"),
    Option("advice_setting", ANY, "Setting",
           lambda _, entries: [ANY, *dict.fromkeys(map(setting_words, settings_of(entries)))],
           help="Sampling, batch, backend and device: never mixed"),
    Option("advice_lps", CANDIDATES, "LPs to choose from",
           lambda _, entries: list(dict.fromkeys([*LPS, *(e.row["lp"] for e in entries if e.row.get("lp"))])),
           is_many=True),
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
TABLES = ("main",)
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
Row = dict[str, Any]
"""Of an LP, by the keys of ``advise --json``; an Interval stays one."""

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
    return " · ".join(part or "–" for part in parts)


def runs_by_lp(entries: Sequence[Entry], lps: Sequence[str]) -> tuple[dict[str, list[Entry]], list[str]]:
    """Of one setting: for each LP the run that is read, then those that did the same work; and what is left out."""
    work = ("molecules", "samples", "generations", "seed", "tokens", "blocks")
    sizes: dict[tuple[int, int], set[str]] = {}
    own: dict[str, list[Entry]] = {}
    for entry in entries:
        row, lp = entry.row, str(entry.row.get("lp"))
        # The LP's own placeholder, descriptors and guard, as the advised one would run.
        name, placeholder = split_cleanup(lp)[0], row.get("placeholder") or ""
        record = stored_lp(name, is_former=not row.get("descriptors"))
        is_placed = record.needs_coordinates or placeholder in ("", record.placeholder or placeholder)
        is_written = record.descriptors in (None, row.get("descriptors")) and not record.name.startswith(FORMER)
        if is_placed and is_written and not guard_words(row.get("guard"), record):
            own.setdefault(lp, []).append(entry)
        sizes.setdefault((row.get("molecules") or 0, row["samples"]), set()).update({lp} & set(lps))
    usual = max(sizes, key=lambda size: (len(sizes[size]), size[1]), default=None)
    runs = {}
    for lp in (lp for lp in lps if lp in own):
        read = next((e for e in own[lp] if (e.row.get("molecules") or 0, e.row["samples"]) == usual), own[lp][0])
        same = [e for e in own[lp] if e is not read and all(e.row.get(name) == read.row.get(name) for name in work)]
        runs[lp] = [read, *same[:16]]
    counts = Counter(str(entry.row.get("lp")) for entry in entries)
    left_out = [f"{counted(counts[lp], 'run')} of {lp}, which is not a candidate" for lp in counts if lp not in lps]
    changed = {lp: counts[lp] - len(own.get(lp, ())) for lp in lps if lp in counts}
    left_out += [f"{counted(n, 'run')} of {lp} with non-default parameters" for lp, n in changed.items() if n]
    return runs, left_out


# --- figures ----------------------------------------------------------------------------------------------------------


def sums_of(store: Store, runs: Mapping[str, Sequence[Entry]]) -> tuple[list[str], dict[str, dict[str, Array]]]:
    """Molecules that all LPs were asked, and by LP each figure summed over a molecule's answers.

    The time is the mean of all runs of the same work. An LP that shares too few molecules is left out, `none` never.
    """
    shared: list[str] = []
    by_lp: dict[str, tuple[dict[str, int], dict[str, Array]]] = {}
    for lp in sorted(runs, key=lambda lp: lp != NO_LP):
        run, walls = samples_of(store, runs[lp][0]), [entry.row["wall_s"] for entry in runs[lp]]
        names, of = run.smiles.dictionary_encode(), run.columns
        by_block = {
            "blocks": "blocks",
            "letters": "junk_letters_share",
            "nonnumeric": "junk_nonnumeric_share",
            "cut": "cut_share",
        }
        is_counted = np.isfinite([of[name] for name in by_block.values()]).all(axis=0)
        figures = {
            "answers": np.ones(len(run)),
            "passed": of["pass_rate"],
            "clean": of["clean_rate"],
            "decodes": of["decodes_rate"],  # NaN of runs from before there was this rule
            "judged": np.isfinite(of["usable_rate"]),
            "usable": np.nan_to_num(of["usable_rate"]),
            "seconds": np.mean(walls) / walls[0] * of["wall_s_a_sample"],
            "rmsd": np.nan_to_num(of["rmsd_ang"]),
            "rmsd_known": np.isfinite(of["rmsd_ang"]),
            "heavy_atoms": np.nan_to_num(of["heavy_atoms"]),
            **{name: np.where(is_counted, of[column], 0) for name, column in by_block.items()},
        }
        molecule = names.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        sums = {name: np.bincount(molecule, column).astype(np.float64) for name, column in figures.items()}
        indexes: dict[str, int] = {smiles: index for index, smiles in enumerate(names.dictionary.to_pylist())}
        both = [smiles for smiles in shared if smiles in indexes] if by_lp else list(indexes)
        if (
            both
            and np.isfinite(sums["seconds"]).all()
            and (len(both) == len(shared) or len(both) >= max(LEAST_MOLECULES, len(shared) // 2) or not by_lp)
        ):
            shared, by_lp[lp] = both, (indexes, sums)
    rows = {lp: [by_lp[lp][0][smiles] for smiles in shared] for lp in runs if lp in by_lp}
    return shared, {lp: {name: sums[rows[lp]] for name, sums in by_lp[lp][1].items()} for lp in rows}


def ratio(test: Row, base: Row, name: str, units: int) -> Interval | None:
    """The first over the second; draws in which neither has a wanted answer tell nothing."""
    value, least, (mine, theirs) = test[name].value, base[name].value, (row["drawn"].get(name) for row in (test, base))
    if math.isinf(value) or not least:
        return None
    with np.errstate(invalid="ignore"):
        return interval(value / least, None if mine is None else mine / theirs, units)


def rows_of(store: Store, runs: Mapping[str, Sequence[Entry]]) -> tuple[list[Row], int, list[int]]:
    """A row an LP, how many molecules they share, and the sizes of the smallest and largest. Few: nothing is drawn."""
    # row["drawn"] has its bootstrap draws by figure, which no one prints.
    smiles, sums = sums_of(store, runs)
    drawn = None  # [draws, LPs, QUOTIENTS]: the same molecules for all
    if len(smiles) >= LEAST_MOLECULES and sums:
        pairs = [(of_lp[part], of_lp[whole]) for of_lp in sums.values() for part, whole in QUOTIENTS.values()]
        parts, wholes = (np.stack(side, axis=1) for side in zip(*pairs, strict=True))
        both = Sums(parts, wholes, wholes)
        drawn = statistics.paired_means(both, both)[0].reshape(statistics.RESAMPLES, len(sums), len(QUOTIENTS))
    rows: list[Row] = []
    for column, (lp, of_lp) in enumerate(sums.items()):
        entry, walls = runs[lp][0], np.array([run.row["wall_s"] for run in runs[lp]])
        counts = {name: float(of_lp[name].sum()) for name in COUNTS}
        row: Row = {name: None if math.isnan(count) else round(count) for name, count in counts.items()}
        row |= {"lp": lp, "run_id": entry.id, "repeats": len(walls) - 1, "drawn": {}, "time_ratio": None}
        row |= {"clock_spread": float(walls.max() / walls.min()) if len(walls) > 1 else None, "rmsd_ratio": None}
        if drawn is not None and len(walls) > 1:  # runs of the same work draw their clock as well
            again = np.random.default_rng(column + 1).integers(0, len(walls), (statistics.RESAMPLES, len(walls)))
            drawn[:, column, :4] *= (walls[again].mean(axis=1) / walls.mean())[:, None]
        for number, (name, (part, whole)) in enumerate(QUOTIENTS.items()):
            value, weight = float(of_lp[part].sum()), float(of_lp[whole].sum())
            if drawn is not None:
                row["drawn"][name] = drawn[:, column, number]
            draws = row["drawn"].get(name) if value else None  # of nothing every draw has nothing: no certainty
            row[name] = interval(value / weight, draws, len(smiles)) if weight else None
            if not weight and part == "seconds":
                row[name] = Interval(math.inf) if drawn is None else Interval(math.inf, math.inf, math.inf)
        for name, key in RATES.items():
            hits, answers = row[name], row["answers"]
            row[key] = None if hits is None else Interval(hits / answers, *statistics.wilson(hits, answers))
        if row["judged"] < row["answers"]:
            row |= dict.fromkeys(("usable", "usable_rate", "seconds_a_usable"))
        thrown, tokens, of = entry.row.get("thrown_tokens"), entry.row.get("tokens"), entry.row
        row["thrown_share"] = None if thrown is None or tokens is None else quotient(thrown, thrown + tokens)
        row["unverified_share"] = quotient(of.get("unverified_blocks"), of.get("blocks"))
        row["rmsd_answers"] = round(float(of_lp["rmsd_known"].sum()))
        row["rmsd_to"] = rmsd_references(entry) if of.get("rmsd_samples") else ""
        cost, why_not = (None, "") if lp == NO_LP else known_cost(store, entry)
        row["lp_cost"] = why_not if cost is None else cost.short_words(lp)
        rows.append(row)
    base = next((row for row in rows if row["lp"] == NO_LP), {})
    for row in (row for row in rows if base and row is not base):
        row["time_ratio"] = ratio(row, base, "seconds_a_sample", len(smiles))
        control, test = runs[NO_LP][0], runs[row["lp"]][0]
        if rmsd_references(control) == rmsd_references(test):
            row["rmsd_ratio"] = compare_entries(store, control, test).measure("rmsd_ang").ratio
    atoms = [of_lp["heavy_atoms"] / of_lp["answers"] for of_lp in list(sums.values())[:1] if len(smiles)]
    return rows, len(smiles), [round(float(end)) for of_lp in atoms for end in (of_lp.min(), of_lp.max())]


# --- the rule, and its words ------------------------------------------------------------------------------------------


def decide(rows: list[Row], units: int, want: str, least: float) -> Row:
    """The verdict by the rule in this module's second paragraph. ``named`` are the rows that are advised, in order."""
    cost, rate = f"seconds_a_{want}", RATES[want]
    for row in rows:
        low, high = row[rate].low, row[rate].high
        row |= {"cost": row[cost], "rate": row[rate], "wins": None, "over_least": None}
        row["fits"] = "yes" if low >= least else "no" if high < least else "open"
        row["counts"] = row["fits"] == "yes" or (row["fits"] == "open" and row[rate].value >= least)
    if rows and rows[0]["drawn"]:
        costs, rates = (np.stack([row["drawn"][name] for row in rows], axis=1) for name in (cost, rate))
        fits = rates >= least
        costs = np.where(np.isfinite(costs) & (fits | ~fits.any(axis=1, keepdims=True)), costs, math.inf)
        winner = np.where(np.isfinite(costs).any(axis=1), costs.argmin(axis=1), -1)
        for column, row in enumerate(rows):
            row["wins"] = float((winner == column).mean())
    finite = sorted((row for row in rows if math.isfinite(row["cost"].value)), key=lambda row: row["cost"].value)
    of_all = next(iter(finite), None)
    best = next((row for row in finite if row["counts"]), None)
    for row in rows:
        to = best or of_all
        row["over_least"] = None if to is None or row is to else ratio(row, to, cost, units)
    advice: Row = {"verdict": "none fits", "lp": None, "ties": [], "sureness": None, "named": []}
    advice["cheapest"] = of_all and of_all["lp"]
    if len(rows) < 2 or units < LEAST_MOLECULES:
        advice["verdict"] = "too little"
    elif best is not None:
        named = [row for row in rows if row["counts"] and (row is best or is_tie(row))]
        named.sort(key=lambda row: (-row["rate"].low, row["cost"].value))
        first, *ties = (row["lp"] for row in named)
        sureness = None if best["wins"] is None else min(1.0, sum(row["wins"] for row in named))
        advice |= {"verdict": "tie" if ties else "one", "lp": first, "ties": ties, "sureness": sureness, "named": named}
    elif of_all is not None:
        most = max(rows, key=lambda row: (row["rate"].value, row is of_all))
        advice["named"] = [of_all] if most is of_all else [most, of_all] if is_tie(most) else [of_all, most]
    for row in rows:
        word = "fits" if row["counts"] else "cheapest" if row is of_all else ""
        word = "advised" if row in advice["named"][:1] else "ties" if row["lp"] in advice["ties"] else word
        row["standing"] = ", ".join(filter(None, [word, "" if row["counts"] else f"below {100 * least:g} %"]))
    return advice


def is_tie(row: Row) -> bool:
    over = row["over_least"]
    return over is not None and (over.value < SAME_TIME or over.low is None or over.low <= 1)


def cost_words(cost: Interval | None) -> str:
    return "never" if cost is not None and math.isinf(cost.value) else with_interval(cost, seconds)


def pace_words(over: Interval | None) -> str:
    """``slower by 4.40× (4.34–4.46)`` than the best."""
    return UNKNOWN if over is None else speed(over.value, over.ends)


def sentence_of(decision: Row, rows: Sequence[Row], units: int, want: str, least: float) -> str:
    """What to use, what it gives and costs, and how sure that is."""
    if decision["verdict"] == "too little":
        return f"Nothing can be advised yet: too little is measured, {len(rows)} LPs over {counted(units, 'molecule')}."
    if not decision["named"]:
        return f"No LP gives a {want} answer."
    first = decision["named"][0]
    name, *more = ["no LP" if row["lp"] == NO_LP else row["lp"] for row in decision["named"]]
    text = f"{first[want]} of {first['answers']} answers are {want}, {with_interval(first['rate'], percent)}, at "
    text += f"{cost_words(first['cost'])} per {want} conformer"
    without = next((first["cost"].value / row["cost"].value for row in rows if row["lp"] == NO_LP), 0.0)
    text += f" ({speed(without, than='without an LP')})." if first["lp"] != NO_LP and without else "."
    usable, word = (first["clean"], "clean") if first["usable"] is None else (first["usable"], "usable")
    text += f" Only {usable} are {word}." if usable < min(first[want], least * first["answers"]) else ""
    if not decision["lp"]:
        why = "the cheapest" if decision["named"][-1]["lp"] == decision["cheapest"] else f"most {want} answers"
        other = f", or {more[0]} ({why})" if more else ""
        return f"Use {name}{other}: {text} Every LP is below {100 * least:g} % {want}."
    tied = f", or {listed(more, 'or')} (the same cost within noise)" if more else ""
    sure = "" if decision["sureness"] is None else f"{percent(decision['sureness'])} of bootstrap draws"
    wins = sure and f" {'One of them' if more else 'It'} is the cheapest in {sure}."
    end = f" Its rate is uncertain: there are only {first['answers']} answers." if first["fits"] == "open" else ""
    return f"Use {name}{tied}: {text}{wins}{end}"


def untried(decision: Row, want: str, missing: Sequence[str]) -> str:
    """A further sentence where no LP fits, and one that is made for usable answers was not measured."""
    names = [lp for lp in missing if stored_lp(lp).asks_tokens]
    if decision["verdict"] != "none fits" or want != "usable" or not names:
        return ""
    return f" {names[0]} is not measured: it strikes tokens that make a molecule wrong."


def reports_rule(decision: Row, rows: Sequence[Row], least: float) -> Row:
    """The reports give two cases and no threshold: the advice's own is used."""
    rate = next((row["pass_rate"] for row in rows if row["lp"] == NO_LP), None)
    if rate is None:
        sentence = "It does not apply: nothing was measured without an LP."
        return {"says": "unknown", "agrees": None, "pass_rate": None, "detail": "", "sentence": sentence}
    says, agrees = "no LP" if rate.low >= least else "use an LP" if rate.high < least else "open", None
    rule = "Open, it is too close" if says == "open" else f"Use {says.removeprefix('use ')}"
    sentence = f"{rule}: without one, {with_interval(rate, percent)} of answers pass. "
    sentence += "It looks at this pass rate alone, not at time or at molecules."
    if decision["lp"] and says != "open":
        advised = {decision["lp"], *decision["ties"]}
        agrees = NO_LP in advised if says == "no LP" else bool(advised - {NO_LP})
        sentence += f" The measured costs {'agree' if agrees else 'do not agree'}."
    return {"says": says, "agrees": agrees, "pass_rate": rate, "detail": "", "sentence": sentence}


def cautions_of(row: Row, rows: Sequence[Row]) -> list[str]:
    """What to know before using the advised LP."""
    shares = {"cut": row["cut_share"], "broken by letters": row["letters_share"]}
    cautions = [
        f"Of {row['lp']}, {with_interval(share, percent)} of its blocks are {words}."
        for words, share in shares.items()
        if share is not None and share.value > NOTABLE
    ]
    if row["rmsd_ratio"] is not None and (row["rmsd_ratio"].low or 0) > 1 + statistics.ROUNDING:
        over = f"{with_interval(row['rmsd_ratio'], times)}, to {row['rmsd_to'] or 'unnamed references'}"
        cautions.append(f"Its conformers are farther from the references than those without an LP: RMSD {over}.")
    costs = [of_lp["lp_cost"] for of_lp in rows if of_lp["lp_cost"]]
    return [*cautions, *([f"What the LP costs the model: {'; '.join(costs)}."] if costs else [])]


def former_counts_of(runs: Mapping[str, Sequence[Entry]]) -> str:
    """Of which LPs the run that is read has former counts; empty where none has."""
    former = [lp for lp, entries in runs.items() if has_former_counts(entries[0])]
    return f"Cut blocks of {listed(former)}: they have former counts, `verify --recount`." if former else ""


def command_of(setting: Row, model: str, words: Sequence[str]) -> str:
    """``python -m engine run --model demo-qwen:final --lp truncating --sample-size 64 --device cpu``"""
    sampling, device = setting["sampling"], setting["device"].partition(" ")[0]
    for option, value, usual in (
        ("--sampling", sampling if sampling in PRESETS else None, "qwen3"),
        ("--batch-size", setting["batch_size"], 32),
        ("--backend", setting["backend"], "fast"),  # which auto takes where it can
        ("--device", device, None),
        ("--max-new-tokens", setting["most_tokens"], None),
    ):
        words = words if value in (None, "", usual) else [*words, option, str(value)]
    is_known = any(entry.name == model for entry in load_registry().entries)
    which = ["--model", model] if is_known else ["--model-path", "FOLDER"]
    return shlex.join(["python", "-m", "engine", words[0], *which, *words[1:]])


def unmeasured(lps: Sequence[str], rows: Sequence[Row], entry: Entry) -> list[str]:
    """Those without a row that can write the numbers of this run's model."""
    form, measured = number_format_of(entry) or SHORTEST4, [row["lp"] for row in rows]
    return [lp for lp in lps if lp not in measured and stored_lp(lp).writes(form)]


# --- the question -----------------------------------------------------------------------------------------------------


def tables(store: Store, entries: Sequence[Entry], options: Options) -> Tables:
    """``entries`` are measured runs of one model, the newest first. ``advice`` is what ``advise --json`` prints."""
    model, least, molecules = model_name(entries[0].row), options["advice_least"], options["advice_molecules"]
    lps, all_settings = tuple(dict.fromkeys(map(full_name, options["advice_lps"]))), settings_of(entries)
    setting = next((s for s in all_settings if setting_words(s) == options["advice_setting"]), all_settings[0])
    runs, left_out = runs_by_lp([entry for entry in entries if setting_of(entry) == setting], lps)
    rows, units, sizes = rows_of(store, runs)
    unjudged = [row["run_id"] for row in rows if row["usable"] is None]
    want = str(options["advice_want"]).lower()
    want = "clean" if want == "usable" and unjudged else want
    decision = decide(rows, units, want, least)
    missing = unmeasured(lps, rows, entries[0])
    left_out += [f"{lp}: its run asked other molecules, or its answers have no times" for lp in runs if lp in missing]
    others, shown = list[Row](), list[Row]()
    for other in (other for other in all_settings if other != setting):
        names = [str(entry.row.get("lp")) for entry in entries if setting_of(entry) == other]
        differs = [f"{n.replace('_', ' ')} {other[n]}, not {setting[n]}" for n in setting if other[n] != setting[n]]
        runs_of = {"runs": len(names), "lps": list(dict.fromkeys(names))}
        others.append({"setting": other, **runs_of, "differs": "; ".join(differs)})
    spreads = [row["clock_spread"] for row in rows if row["clock_spread"]]
    unknown = [
        f"{listed(missing)}: not measured." if missing else "",
        f"Usable answers: not all are judged, python -m engine judge {unjudged[0]} does it." if unjudged else "",
        f"Other settings: all of this is for {setting_words(setting)}. The gain depends on batch, device and size.",
        f"Other load on the machine: the same work took up to {fixed(max(spreads), 2)} times as long in another run."
        if spreads
        else "Other load on the machine: each LP has one wall time; intervals are over molecules alone.",
        f"Other molecules: these are {units} of {listed(list(map(str, sizes)), 'to')} heavy atoms." if sizes else "",
        former_counts_of(runs),
    ]
    size = max((of_lp[0].row.get("molecules") or 0 for of_lp in runs.values()), default=0)
    smiles = ["--smiles-file", "FILE"]
    with suppress(DriftscopeError):  # more than ship
        prompts = {prompt for of_lp in runs.values() for prompt in samples_of(store, of_lp[0]).smiles.to_pylist()}
        smiles = ["--sample-size", str(size)] if size and prompts <= set(load_run_set(size)) else smiles
    named = [word for lp in lps for word in ("--lp", lp)] if lps != CANDIDATES else []
    more = [["run", *(word for lp in missing for word in ("--lp", lp)), *smiles]] if missing else []
    more += [["advise", "--probe", str(options["advice_probe"]), *named]]
    for row in rows:
        row["reason"] = f"{row['standing']}: {row[want]} of {row['answers']} answers are {want}"
        expected = molecules * row["seconds_a_sample"].value, molecules * row["rate"].value
        row["expected"] = {"molecules": molecules, "seconds": expected[0], "usable": expected[1]}
        rates = {words: with_interval(row[key], percent) for words, key in RATES.items()}
        shown.append(
            {  # what decides comes first
                "lp": row["lp"],
                "standing": row["standing"],
                want: rates[want],
                f"per {want} conformer": cost_words(row["cost"]),
                "vs best": pace_words(row["over_least"]),
                f"for {molecules:,}": duration(expected[0]),
                f"{want} of them": int(rounded(expected[1])),
                "cheapest in": row["wins"],
                **rates,
                "per sample": cost_words(row["seconds_a_sample"]),
                **{words: with_interval(row[key], percent) for words, key in SHARES.items()},
                "thrown away": row["thrown_share"],
                "RMSD": with_interval(row["rmsd_ang"], angstrom),
            }
        )
    advised, hidden = decision.pop("named"), ("drawn", "cost", "rate", "counts", "standing")
    advice = {
        "model": model,
        "setting": setting,
        "want": want,
        "least": least,
        **decision,
        "sentence": sentence_of(decision | {"named": advised}, rows, units, want, least)
        + untried(decision, want, missing),
        "rule": " ".join((__doc__ or "").split("\n\n")[1].split()),
        "reports": reports_rule(decision, rows, least),
        "molecules": units,
        "heavy_atoms": sizes,
        "lps": [{name: value for name, value in row.items() if name not in hidden} for row in rows],
        "cautions": cautions_of(advised[0], rows) if decision["lp"] else [],
        "unknown": [u for u in unknown if u],
        "missing": missing,
        "commands": [command_of(setting, model, words) for words in more],
        "others": others,
        "left_out": left_out,
    }
    costs = [
        {
            "lp": row["lp"],
            "standing": row["standing"],
            "cost": row["cost"].value,
            "low": row["cost"].low,
            "high": row["cost"].high,
        }
        for row in rows
        if math.isfinite(row["cost"].value)
    ]
    return {
        "main": rows_table(shown, ["lp"]),
        "commands": rows_table([{"command": command} for command in advice["commands"]]),
        "costs": rows_table(costs),
        "advice": rows_table([{"key": name, "value": json.dumps(of, default=in_json)} for name, of in advice.items()]),
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
