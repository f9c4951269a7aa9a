"""The Compare page's coverage: COV and MAT of whole runs, as `evaluate` has them, against references of choice.

The figures come from RMSD matrices that a task computes and keeps; what is there already shows at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import streamlit as st

from engine.comparing.evaluation import Evaluation, EvaluationRequest, evaluate_run, is_computed
from engine.figures.coverage_metrics import (
    DRUG_LIKE_ANG,
    FIGURES,
    MISSING_RULES,
    SMALL_ANG,
    THRESHOLDS_ANG,
    MissingRule,
    SetFigures,
)
from engine.figures.words import counted, listed, percent
from engine.models.devices import spare_cores
from engine.runner.background import Task, TaskSnapshot
from engine.store.entries import Entry
from engine.store.reference_schema import REFERENCES
from engine.store.references import reference_set
from engine.store.store import Store
from pages._compare.runs import RunSelection
from pages._shared.charts.card import card, choice
from pages._shared.charts.chart import Axis, Chart, Marks, chart
from pages._shared.managing import tasks
from pages._shared.rows import MORE_COLUMNS, PAGE_PX, fitting
from pages._shared.theme import palette

ETKDG = "RDKit (ETKDG), 10 per molecule"
THRESHOLDS = {f"{value:g} Å": value for value in (DRUG_LIKE_ANG, SMALL_ANG, 1.25)}
TITLES = ("COV-R", "COV-P", "MAT-R", "MAT-P")
SIDES = {"cov_r": "COV-R", "cov_p": "COV-P"}
RULES: dict[MissingRule, str] = {"skip": "left out", "zero": "count 0"}
BASELINE = "RDKit, clustered"
DIGITS = {"%": "%.1f", "Å": "%.3f"}
NOT_YET = (
    "Not evaluated against these references yet. *Evaluate* computes which share of them each run reproduces within "
    "the threshold (COV), and how close it comes (MAT)."
)
EDGES_PX = 34  # of the card around the table
HELP = (
    "COV-R: share of a molecule's references with a generated conformer closer than the threshold; COV-P: share of"
    " generated conformers with such a reference. MAT: mean least RMSD of either. Means over molecules; a molecule"
    " without a single sample is left out, or counts 0 in COV. The baseline has as many clustered RDKit conformers per"
    " molecule as the run has samples of it."
)


def _no_link(store: Store, task: Task, seen: TaskSnapshot) -> None:
    """The figures show on this page."""


EVALUATIONS = tasks.TaskKind(
    "evaluation",
    "evaluations",
    "molecules",
    lambda task: task.words[0] == "evaluate",
    lambda seen: sum(part.state == "done" for part in seen.parts),
    _no_link,
)


def show(store: Store, chosen: RunSelection) -> None:
    if not chosen.measured:
        st.info("None of these runs has samples, so nothing can be evaluated.", icon=":material/inbox:")
        return
    names = [ETKDG, *(entry.id for entry in store.found(REFERENCES).entries)]
    with st.container(horizontal=True, vertical_alignment="bottom", key="evaluation"):
        name = st.selectbox(
            "References", names, key="evaluation_references", bind="query-params", width=280,
            help="Sets of the store; `references add` reads files of conformers, `references make` makes sets",
        )  # fmt: skip
        threshold = st.selectbox(
            "Threshold", list(THRESHOLDS), key="evaluation_threshold", bind="query-params", width=130
        )
        name = name if name in names else ETKDG
        request = request_of(store, name, THRESHOLDS.get(threshold or "", DRUG_LIKE_ANG))
        missing = [entry for entry in chosen.measured if not is_computed(store, entry, request)]
        words = f"Evaluate {counted(len(missing), 'run')}"
        if missing and st.button(words, icon=":material/calculate:", key="evaluate"):
            for entry in missing:
                tasks.submit(f"COV and MAT of {chosen.short_name(entry)}", command_of(entry, name))
            st.rerun()
    known = {entry.id: entry for entry in chosen.measured if entry not in missing}
    both = {entry.id: _both_rules(store, entry, name, request.threshold_ang) for entry in known.values()}
    if both:
        _figures(chosen, both, name, request.threshold_ang)
    elif missing:
        st.info(NOT_YET, icon=":material/calculate:")
    tasks.show(store, EVALUATIONS)


def request_of(store: Store, name: str, threshold_ang: float, rule: MissingRule = "skip") -> EvaluationRequest:
    references = None if name == ETKDG else reference_set(store, name)
    return EvaluationRequest(references, threshold_ang=threshold_ang, rule=rule)


def command_of(entry: Entry, name: str) -> list[str]:
    references = [] if name == ETKDG else ["--references", name]
    return ["evaluate", entry.id, *references, "--workers", str(spare_cores())]


def _both_rules(store: Store, entry: Entry, name: str, threshold_ang: float) -> tuple[Evaluation, ...]:
    content = "" if name == ETKDG else reference_set(store, name).content
    return _evaluations(store, entry.id, entry.key, name, content, threshold_ang)


@st.cache_resource(max_entries=64, show_spinner="Reading RMSDs …")
def _evaluations(
    _store: Store, run_id: str, key: tuple[str, ...], name: str, content: str, threshold_ang: float
) -> tuple[Evaluation, ...]:
    """By rule, from matrices that are there; ``key`` and ``content`` say how long they hold."""
    requests = (request_of(_store, name, threshold_ang, rule) for rule in MISSING_RULES)
    return tuple(evaluate_run(_store, run_id, request, workers=1) for request in requests)


def _figures(chosen: RunSelection, both: dict[str, tuple[Evaluation, ...]], name: str, threshold_ang: float) -> None:
    with card("coverage-curves", "How much of the references do the runs cover?", HELP) as panel:
        firsts = {chosen.letter(run_id): found[0] for run_id, found in both.items()}
        panel.tell(answer(firsts, name))
        side = choice("Side", list(SIDES), "coverage_side", SIDES)
        table = [row for run_id, found in both.items() for row in rows_of(chosen.letter(run_id), found)]
        panel.data(lambda: [row for letter, found in firsts.items() for row in curve_rows(letter, found)])
        colours = {chosen.letter(run_id): chosen.colour(run_id, palette()) for run_id in both}
        panel.draw(curves_chart(firsts, side, colours))
        columns = _columns()
        st.dataframe(
            table,
            hide_index=True,
            column_config=columns,
            column_order=fitting(columns, columns, PAGE_PX - EDGES_PX),
            alt=f"COV at {threshold_ang:g} Å and MAT, by run and rule",
        )
        st.caption(MORE_COLUMNS)
        panel.leave_out(*(_counts(letter, found) for letter, found in firsts.items()))


def answer(firsts: dict[str, Evaluation], name: str) -> str:
    """``Against RDKit (ETKDG), closer than 0.75 Å, mean COV-R is A 44.0 % (clustered RDKit conformers: 80.1 %).``"""
    threshold = next(iter(firsts.values())).request.threshold_ang
    covered = {letter: found for letter, found in firsts.items() if found.run.samples}
    empty = [letter for letter in firsts if letter not in covered]
    without = f" {listed(empty)} {'has' if len(empty) == 1 else 'have'} no conformer of the molecules." if empty else ""
    shares = {letter: (_share(found.figures), _share(found.baseline)) for letter, found in covered.items()}
    baselines = {baseline for _, baseline in shares.values()}
    if not shares:
        return f"Against {name} nothing is covered.{without}"
    if len(baselines) == 1:
        words = listed([f"{letter} {share}" for letter, (share, _) in shares.items()])
        words += f" (clustered RDKit conformers: {baselines.pop()})"
    else:
        parts = (f"{letter} {share} (clustered RDKit conformers: {base})" for letter, (share, base) in shares.items())
        words = listed(list(parts))
    return f"Against {name}, closer than {threshold:g} Å, mean COV-R is {words}.{without}"


def _share(figures: SetFigures | None) -> str:
    return percent(None if figures is None else figures.columns()["cov_r"])


def rows_of(letter: str, found: Sequence[Evaluation]) -> list[dict[str, Any]]:
    """By both rules where they differ, and the baseline under each; COV in per cent."""
    rows = []
    for evaluation in found:
        if not (evaluation.run.samples if evaluation.request.rule == "skip" else evaluation.figures.missing):
            continue
        for who, figures in ((letter, evaluation.figures), (f"{letter}: {BASELINE}", evaluation.baseline)):
            if figures is None:
                continue
            columns = figures.columns()
            row: dict[str, Any] = {"run": who, "molecules without a sample": RULES[evaluation.request.rule]}
            for key, title in zip(FIGURES, TITLES, strict=True):
                for ending, words in (("", "mean"), ("_median", "median")):
                    value = columns[f"{key}{ending}"]
                    unit, scale, digits = ("%", 100, 1) if key.startswith("cov") else ("Å", 1, 3)
                    row[f"{title} {words} ({unit})"] = None if value is None else round(scale * value, digits)
            rows.append(row | {"molecules": figures.molecules, "without": figures.missing})
    return rows


def _columns() -> dict[str, Any]:
    """Of ``rows_of``, the most important first."""
    config = st.column_config
    means, medians = (
        {
            f"{title} {words} ({unit})": config.NumberColumn(
                f"{title}{short} ({unit})", width=width, format=DIGITS[unit]
            )
            for title, unit in zip(TITLES, "%%ÅÅ", strict=True)
        }
        for words, short, width in (("mean", "", 86), ("median", " median", 132))
    )
    return {
        "run": config.TextColumn(width=132, pinned=True),
        "molecules without a sample": config.TextColumn(
            "missing", width=68, help="Molecules without a sample are left out, or count 0 in COV"
        ),
        **means,
        "molecules": config.NumberColumn(width=80, format="localized"),
        "without": config.NumberColumn("without", width=66, help="Molecules without a sample"),
        **medians,
    }


def curve_rows(letter: str, found: Evaluation) -> list[dict[str, Any]]:
    """By threshold, in per cent, the run and its baseline; molecules without samples are left out."""
    rows = []
    for who, figures in ((letter, found.figures), (f"{letter}: {BASELINE}", found.baseline)):
        if figures is not None:
            columns = figures.columns()
            for place, threshold in enumerate(columns["thresholds"]):
                shares = {words: columns[f"{side}_curve"][place] for side, words in SIDES.items()}
                known = {words: None if share is None else 100 * share for words, share in shares.items()}
                rows.append({"run": who, "threshold_ang": threshold, **known})
    return rows


def curves_chart(firsts: dict[str, Evaluation], side: str, colours: dict[str, str]) -> Chart:
    """Under the rule that leaves molecules without samples out. Dashed are baselines, equal ones as one line."""
    lines: list[tuple[str, str, str, list[dict[str, Any]]]] = []
    baselines: dict[tuple[float, ...], list[str]] = {}
    known = {
        letter: [row for row in curve_rows(letter, found) if row[SIDES[side]] is not None]
        for letter, found in firsts.items()
    }
    for letter, rows in known.items():
        lines.append((letter, colours[letter], "solid", [row for row in rows if row["run"] == letter]))
        baseline = tuple(row[SIDES[side]] for row in rows if row["run"] != letter)
        if baseline:
            baselines.setdefault(baseline, []).append(letter)
    for letters in baselines.values():
        colour = colours[letters[0]] if len(letters) == 1 else palette().muted
        name = f"{', '.join(letters)}: {BASELINE}"
        dashed = [row | {"run": name} for row in known[letters[0]] if row["run"] != letters[0]]
        lines.append((name, colour, "dash", dashed))
    layers = [
        Marks(
            kind="lines",
            rows=rows,
            x="threshold_ang",
            y=SIDES[side],
            name=name,
            colour=colour,
            dash=dash,
            has_points=False,
            hover=lambda row: (row["run"], f"{row[SIDES[side]]:.1f} % below {row['threshold_ang']:g} Å"),
        )
        for name, colour, dash, rows in lines
    ]
    return chart(
        *layers,
        x=Axis(title="threshold (Å)", range=[0, THRESHOLDS_ANG[-1]]),
        y=Axis(title=f"{SIDES[side]} (%)", range=[0, 100]),
        height=320,
        alt=f"{SIDES[side]} by threshold, mean over molecules: {', '.join(firsts)}.",
    )


def _counts(letter: str, found: Evaluation) -> str:
    parts = [
        f"{letter}: {found.run.samples:,} conformers of {found.asked:,} samples against {found.references:,} references"
    ]
    if found.without_references:
        parts.append(f"{counted(found.without_references, 'molecule')} without references left out")
    if found.run.incomplete:
        parts.append(
            f"{counted(found.run.incomplete, 'molecule')} with upper bounds, since not all symmetries were tried"
        )
    return f"{', '.join(parts)}."
