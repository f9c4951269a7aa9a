"""COV and MAT of whole runs against RDKit's conformers or a set of references of yours.

COV-R: share of a molecule's references with a generated conformer closer than the threshold; COV-P: share of generated
conformers with such a reference. MAT: mean least RMSD of either. Means over molecules, with 95 % bootstrap intervals
over them; a molecule without a single sample is left out (skip), or counts 0 in COV (zero). The baseline has as many
clustered RDKit conformers per molecule as the run has conformers of it. One answer per molecule seldom reaches ten
references, so COV-R is low there.

*By convention*: the same run as other programs count. They differ in molecules without a conformer (a miss, or left
out), failed conformers (a miss, dropped, or the molecule has no MAT), < or <=, how many samples count, and whether
atoms may be permuted. Published figures stand below a run only where references, split, samples, threshold, convention
and statistic agree; the card names what differs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from engine.comparing.evaluation import Evaluation, EvaluationRequest, evaluate_run, is_computed
from engine.comparing.measures import has_samples, run_names
from engine.comparing.published import shown_next_to
from engine.errors import RunError
from engine.figures.conventions import CONVENTIONS, LEGEND
from engine.figures.coverage_metrics import DRUG_LIKE_ANG, FIGURES, SMALL_ANG, THRESHOLDS_ANG, SetFigures
from engine.figures.statistics import LEAST_MOLECULES, Bootstrap, Interval
from engine.figures.words import agreeing, capitalised, counted, listed, percent, points, span
from engine.questions.question import Chart, Column, NeedsWork, Of, Option, Options, Tables, answer_text, rows_table
from engine.store.entries import Entry
from engine.store.references import reference_set
from engine.store.schema import REFERENCES
from engine.store.store import Store

TITLE = "How much of the references do the runs cover?"
OF = Of("run", least=1, most=41)
ETKDG = "RDKit (ETKDG), 10 per molecule"
THRESHOLDS = {f"{value:g} Å": value for value in (DRUG_LIKE_ANG, SMALL_ANG, 1.25)}
SIDES = {"cov_r": "COV-R", "cov_p": "COV-P"}
BASELINE = "RDKit, clustered"
CONVENTION_COLUMNS = (
    "whose", *FIGURES, "molecules", "missing", "left_out", "missing_rule", "failed_rule", "reached", "samples_rule",
    "permutation", "more", "by_atom_indices", *(f"{name}_median" for name in FIGURES), "convention",
)  # fmt: skip


def sets(store: Store, entries: Sequence[Entry]) -> list[str]:
    return [ETKDG, *(entry.id for entry in store.listing(REFERENCES).entries)]


OPTIONS = (
    Option("evaluation_references", ETKDG, "References", sets, help="Sets of the store; `references add` reads files"),
    Option("evaluation_threshold", "0.75 Å", "Threshold", list(THRESHOLDS)),
    Option("coverage_side", "cov_r", "Side", SIDES, help="Of the chart"),
)
COLUMNS = {
    "name": Column("run"),
    "missing_rule": Column("missing", help="Molecules without a sample are left out (skip), or count 0 in COV (zero)"),
    **{name: Column(f"COV-{name[-1].upper()}", "%", "Mean over molecules") for name in SIDES},
    **{f"mat_{s}_ang": Column(f"MAT-{s.upper()}", "Å", "Mean over molecules") for s in "rp"},
    **{f"{name}_median": Column(f"COV-{name[-1].upper()} median", "%") for name in SIDES},
    **{f"mat_{s}_ang_median": Column(f"MAT-{s.upper()} median", "Å") for s in "rp"},
    "low": Column("COV-R from", "%", "95 % bootstrap interval over molecules"),
    "high": Column("COV-R to", "%"),
    "difference": Column("COV-R, test less control", "points", "Over the molecules that both have, with its interval"),
    **dict.fromkeys(("difference_low", "difference_high", "without_references"), Column(is_hidden=True)),
    **dict.fromkeys(("incomplete", "without_rmsd", "by_index"), Column(is_hidden=True)),
    "whose": Column("by convention of"),
    "convention": Column(is_hidden=True),
    "failed_rule": Column("failed", help=capitalised(LEGEND)),
    "reached": Column("reached", help="How a least RMSD is held against the threshold"),
    "samples_rule": Column("samples counted", help="K: the molecule's references. The first ones count"),
    "permutation": Column("permutes", help="The RMSD is the least over symmetries; else atoms match by index"),
    "more": Column("and", help="What else it asks of a molecule"),
    "left_out": Column("left out", help="Molecules"),
    "by_atom_indices": Column("by index", help="Pairs without an RMSD over symmetries, taken by atom indices"),
    "published": Column("published figure"),
    "source": Column("source"),
    "differs": Column("differs in", help="Nothing: it is shown next to the run"),
    "threshold": Column("threshold", "Å"),
    "share": Column("covered", "%"),
    "samples": Column("conformers", help="That were read as the molecule that was asked for"),
    "conformers": Column("of conformers", help="Of all answers"),
    "asked": Column("answers", help="Samples of the run, each with one conformer or several"),
}
CHARTS = (Chart("lines", "threshold", "share", "curves", dash="is_baseline", hover=("name", "threshold", "share")),)
TABLES = ("main", "conventions")


def request_of(store: Store, options: Options, **more: Any) -> EvaluationRequest:
    name = options["evaluation_references"]
    references = None if name == ETKDG else reference_set(store, name)
    return EvaluationRequest(references, threshold_ang=THRESHOLDS[options["evaluation_threshold"]], **more)


def depends(store: Store, entries: Sequence[Entry], options: Options) -> tuple[object, ...]:
    return request_of(store, options).key


def tables(store: Store, entries: Sequence[Entry], options: Options) -> Tables:
    measured, names = [entry for entry in entries if has_samples(entry)], run_names(entries)
    if not measured:
        raise RunError("none of these runs has samples, so nothing can be evaluated", "Choose a measured run")
    request = request_of(store, options)
    check_computed(store, measured, request)
    rows: list[dict[str, Any]] = []
    curves: list[dict[str, Any]] = []
    conventions: list[dict[str, Any]] = []
    published: list[dict[str, Any]] = []
    control: dict[str, float] | None = None
    side = list(SIDES).index(options["coverage_side"])
    for entry in measured:
        result = evaluate_run(store, entry.id, request, workers=1)
        head = {"run": entry.id, "name": names[entry.id]}
        cov_r = cov_r_of(result)
        rows.append(head | run_row(result, cov_r, control))
        control = cov_r if control is None else control
        if result.figures.missing:
            zero = evaluate_run(store, entry.id, request_of(store, options, rule="zero"), workers=1)
            rows.append(head | {"missing_rule": "zero", **figures_row(zero.figures)})
        curves += curve_rows(head, result.figures, side)
        conventions += convention_rows(head, result)
        for figure, different in shown_next_to(result.setting()):
            of_figure = {"published": figure.name, "source": figure.source}
            published.append(head | of_figure | {"differs": "; ".join(different)})
        if result.baseline is not None:
            rows.append(head | {"name": f"{head['name']}: {BASELINE}", **figures_row(result.baseline)})
            curves += curve_rows(head | {"name": BASELINE}, result.baseline, side)
    without = [names[entry.id] for entry in entries if not has_samples(entry)]
    notes = [{"note": f"Left out, without samples: {listed(without)}."}] if without else []
    notes += [{"note": note} for note in (capitalised(LEGEND), *unknown_notes(conventions), *refused_notes(published))]
    return {
        "main": rows_table(rows),
        "curves": rows_table(curves),
        "conventions": rows_table(conventions),
        "published": rows_table(published),
        "notes": rows_table(notes, ["note"]),
    }


def convention_rows(head: dict[str, Any], result: Evaluation) -> Iterator[dict[str, Any]]:
    """The run by each convention; behind one, what is published by it and may stand next to the run."""
    published = [figure for figure, different in shown_next_to(result.setting()) if not different]
    computed = {figures.convention.name: figures.columns() for figures in result.conventions()}
    for convention in CONVENTIONS:
        row = computed.get(convention.name, {"convention": convention.name, "whose": convention.whose})
        yield head | {name: row.get(name) for name in CONVENTION_COLUMNS}
        for figure in published:
            if figure.convention == convention.name:
                of = {"name": figure.name, "source": figure.source, "convention": convention.name}
                yield of | {"whose": convention.whose, **figure.figures()}


def unknown_notes(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Runs whose RMSDs by atom indices were not computed."""
    runs = [row["name"] for row in rows if "run" in row and row["molecules"] is None]
    if runs:
        yield f"By atom indices: not computed for {listed(runs)}; `evaluate RUN --atom-indices` does it."


def refused_notes(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """A sentence for runs whose published figures differ in the same things: what all differ in, or each its own."""
    by_run: dict[str, dict[str, str]] = {}
    for row in rows:
        by_run.setdefault(row["name"], {})[row["published"]] = row["differs"]
    by_words: dict[str, list[str]] = {}
    for run, differs in by_run.items():
        reasons = [words.split("; ") for words in differs.values()]
        common = [reason for reason in reasons[0] if all(reason in of for of in reasons) and reason]
        refused = [f"{name} ({words})" for name, words in differs.items() if words]
        if common:
            words = f"none of {len(differs)} published figures ({'; '.join(common)})"
        else:
            words = f"not shown: {', '.join(refused)}" if refused else ""
        by_words.setdefault(words, []).append(run)
    for words, runs in by_words.items():
        if words:
            yield f"Published figures next to {listed(runs)}: {words}."


def check_computed(store: Store, runs: Sequence[Entry], request: EvaluationRequest) -> None:
    """NeedsWork where some of these are not evaluated yet."""
    missing = [entry.id for entry in runs if not is_computed(store, entry, request)]
    if missing:
        of = f"{len(missing)} of {counted(len(runs), 'run')} {agreeing(len(missing), 'is', 'are')}"
        problem = f"{of} not evaluated against these references yet"
        raise NeedsWork(problem, *(evaluation_command(run_id, request) for run_id in missing))


def evaluation_command(run_id: str, request: EvaluationRequest) -> list[str]:
    return ["evaluate", run_id, *(["--references", request.references.name] if request.references else [])]


def cov_r_of(result: Evaluation) -> dict[str, float]:
    """By SMILES, of the molecules that have a conformer."""
    pairs = zip(result.smiles, result.run.molecules, strict=True)
    return {smiles: float(molecule.figures[0]) for smiles, molecule in pairs if molecule is not None}


def run_row(result: Evaluation, cov_r: Mapping[str, float], control: Mapping[str, float] | None) -> dict[str, Any]:
    """A run's figures. ``control`` is the first run's COV-R by SMILES, None for that run itself."""
    control = control or {}
    mean = interval_of(list(cov_r.values()))
    gap = interval_of([cov_r[smiles] - control[smiles] for smiles in cov_r if smiles in control])
    fallbacks = result.fallbacks()
    return {
        "missing_rule": "skip",
        **figures_row(result.figures),
        **({} if mean is None else {"low": mean.low, "high": mean.high}),
        **({} if gap is None else {"difference": gap.value, "difference_low": gap.low, "difference_high": gap.high}),
        "samples": result.run.samples,
        "conformers": result.conformers,
        "asked": result.asked,
        "references": result.references,
        "without_references": result.without_references,
        "incomplete": fallbacks["symmetry_budget"],
        "without_rmsd": fallbacks["without_rmsd"],
        "by_index": fallbacks["atom_indices"],
    }


def curve_rows(head: dict[str, Any], figures: SetFigures, side: int) -> list[dict[str, Any]]:
    """A share by threshold; without those that no molecule has."""
    return [
        {**head, "is_baseline": head["name"] == BASELINE, "threshold": threshold, "share": float(share)}
        for threshold, share in zip(THRESHOLDS_ANG, figures.curves[side], strict=True)
        if np.isfinite(share)
    ]


def figures_row(figures: SetFigures) -> dict[str, Any]:
    columns = figures.columns()
    kept = (*FIGURES, *(f"{name}_median" for name in FIGURES), "molecules", "missing")
    return {name: columns[name] for name in kept}


def interval_of(shares: Sequence[float]) -> Interval | None:
    """A mean over molecules; None without any."""
    values = np.array(shares, np.float64)
    if 0 < len(values) < LEAST_MOLECULES:
        return Interval(float(values.mean()))
    return Bootstrap(len(values)).ratio(values, np.ones_like(values))


def answer(tables: Tables, options: Options) -> str:
    rows = tables["main"].to_pylist()
    parts, notes = [], []
    for row in rows:
        if row["missing_rule"] != "skip":
            continue
        words = f"{row['name']} {percent(row['cov_r'])}" if row["samples"] else f"{row['name']} has no conformer"
        if row.get("difference_low") is not None and row["samples"]:
            ends = span(row["difference_low"], row["difference_high"], points)
            words += f" ({points(row['difference'])}, {ends})"
        parts.append(words)
        notes.append(
            f"{row['name']}: {row['samples']:,} of {counted(row['conformers'], 'conformer')} "
            f"({counted(row['asked'], 'sample')}) against {row['references']:,} references."
        )
        if row["without_references"]:
            notes[-1] += f" {row['without_references']:,} molecules without references are left out."
        if row["incomplete"]:
            notes[-1] += f" {row['incomplete']:,} molecules have upper bounds: more symmetries than are tried."
        if row["without_rmsd"]:
            notes[-1] += f" {row['without_rmsd']:,} pairs have no RMSD, {row['by_index']:,} of them by index."
    base = {percent(row["cov_r"]) for row in rows if row["name"].endswith(BASELINE) and row["cov_r"] is not None}
    lead = f"Mean COV-R at {options['evaluation_threshold']} against {options['evaluation_references']}: "
    lead += f"{'; '.join(parts)}." + (f" Clustered RDKit conformers: {listed(sorted(base))}." if base else "")
    return answer_text([lead], [*notes, *tables["notes"]["note"].to_pylist()])
