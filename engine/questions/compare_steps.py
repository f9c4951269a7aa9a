"""Answers of a training step by step: how many pass, are usable, cover references, are alike, and what they are paid.

One run stands for all steps of its training. *Passed* is the reports' rule, *usable* what is clean with stereo and
geometry right; codes without a decoder are not judged, and left out of it. *Collapsed* is the share of answers within
0.1 Å of another one of their prompt, by the distances between their atoms; a molecule that cannot bend always is, so
what counts is the change over steps. *Coverage* is COV-R of steps that were evaluated (`evaluate RUN --steps`). A
chosen reward is drawn for answers that are usable and for those that are not: training by it makes more of what is paid
more. How many samples a step has is the training's choice, and the difference of two steps may be noise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from engine.chem.verdict import CODES, NOT_JUDGED
from engine.comparing.evaluation import EvaluationRequest, computed_cov_r
from engine.errors import RunError
from engine.figures.words import counted, number, percent
from engine.inspection.rollout_judging import steps_of
from engine.questions.compare_coverage import OPTIONS as COVERAGE_OPTIONS
from engine.questions.compare_coverage import evaluation_command, request_of
from engine.questions.question import Chart, Column, NeedsWork, Of, Option, Options, Tables, answer_text, rows_table
from engine.store.entries import Entry, is_unjudged
from engine.store.schema import ROLLOUTS
from engine.store.store import Store

TITLE = "How do answers change over the steps of a training?"
OF = Of("run", least=1, most=41)
Row = dict[str, Any]
COLLAPSED_ANG = 0.1
IS_OPEN = f"coalesce(list_distinct(list_transform(failed, lambda found: found['check'])) = ['{CODES}'], false)"
"""Of a sample, in SQL: nothing of its molecule was judged. A text that cannot be read is judged, and not usable."""
NAMES = """
SELECT DISTINCT given.name AS name FROM (SELECT unnest(rewards) AS given FROM rollouts) ORDER BY name
"""


def trainings_of(store: Store, entries: Sequence[Entry]) -> dict[str, list[Entry]]:
    """By training, all its steps, in their order; an error where no run is such a step."""
    by_training = {str(entry.row["training"]): entry for entry in entries if is_step(entry)}
    if not by_training:
        problem = "none of these runs is a step of a training"
        if any(entry.row.get("reported_failures") is not None for entry in entries):
            problem += ": a validation's list has only failures, and so no shares"
        raise RunError(problem, "Import completions that TRL logs, and choose one")
    return {name: [run for run in steps_of(store, entry) if is_step(run)] for name, entry in by_training.items()}


def is_step(run: Entry) -> bool:
    """With its completions. A list of failures is none: it has no others to compare with."""
    return ROLLOUTS.name in run.parts and run.row.get("reported_failures") is None


def judged_steps(store: Store, entries: Sequence[Entry]) -> tuple[dict[str, list[Entry]], list[Row]]:
    """The steps that are judged, and a command for each training with others; NeedsWork where none is."""
    trainings = trainings_of(store, entries)
    waiting = {name: [run for run in steps if is_unjudged(run)] for name, steps in trainings.items()}
    commands = [["judge", runs[0].id, "--steps"] for runs in waiting.values() if runs]
    judged = {name: [run for run in steps if not is_unjudged(run)] for name, steps in trainings.items()}
    if not any(judged.values()):
        count = sum(map(len, waiting.values()))
        raise NeedsWork(f"the texts of {counted(count, 'step')} are not read and judged yet", *commands)
    return judged, [{"command": f"python -m engine {' '.join(command)}"} for command in commands]


def notes_of(tables: Tables) -> list[str]:
    return ["Steps that are not judged yet are left out."] if "commands" in tables else []


def keys_of(store: Store, entries: Sequence[Entry], *_: object) -> tuple[Any, ...]:
    """What is computed of these trainings holds as long as these do."""
    return tuple(run.key for steps in trainings_of(store, entries).values() for run in steps)


def depends(store: Store, entries: Sequence[Entry], options: Options) -> tuple[Any, ...]:
    return keys_of(store, entries), request_of(store, options).key


def reward_names(store: Store, entries: Sequence[Entry]) -> list[str]:
    steps = [run.id for run in entries if is_step(run)]
    return store.table(NAMES, of=steps)["name"].to_pylist() if steps else []


OPTIONS = (
    Option("reward", None, "Reward", reward_names),
    Option("step_coverage", False, "Coverage", help="COV-R of the steps that were evaluated"),
    *COVERAGE_OPTIONS[:2],
)
MEASURES = {"passed": "passed", "usable": "usable", "collapsed": "collapsed", "cov_r": "COV-R"}
PAID = {"paid_usable": "usable", "paid_unusable": "not usable"}
COLUMNS = {
    "run": Column(is_hidden=True),
    "training": Column("training"),
    "step": Column("step"),
    "answers": Column("answers"),
    "passed": Column("passed", "%", "By the reports' rule"),
    "clean": Column("clean", "%"),
    "usable": Column("usable", "%", "Clean, stereo and geometry right"),
    "not_judged": Column("not judged", help="Answers in codes without a decoder"),
    "collapsed": Column(
        "collapsed", "%", "Within 0.1 Å of another answer of the prompt, of those that can be compared"
    ),
    "nearest_ang": Column("nearest", "Å", "Median difference to the nearest other answer of the prompt"),
    "cov_r": Column("COV-R", "%", "Where the step was evaluated"),
    "paid": Column("reward", help="Mean of all answers"),
    "paid_usable": Column("reward, usable", help="Mean of the usable answers"),
    "paid_unusable": Column("reward, not usable"),
    "share": Column("share", "%"),
    "measure": Column("measure"),
    "mean": Column("mean reward"),
    "answers_that": Column("answers"),
}
SHOWN = tuple(COLUMNS)[: tuple(COLUMNS).index("share")]
CHARTS = (
    Chart("lines", "step", "share", "curves", colour="measure", hover=("training", "step", "measure", "share")),
    Chart("lines", "step", "mean", "paid", colour="answers_that", hover=("training", "step", "answers_that", "mean")),
)
TABLES = ("main",)
SQL = f"""
WITH answers AS (
    SELECT run_id, passed, clean, nearest_ang, {IS_OPEN} AS is_open,
           CASE WHEN NOT is_open THEN coalesce(usable, false) END AS usable,
           list_extract(list_filter(rewards, lambda given: given.name = $reward), 1).value AS paid
    FROM samples JOIN rollouts USING (run_id, sample_id) WHERE passed IS NOT NULL
)
SELECT run_id, count(*)::BIGINT AS answers, avg(passed::INT) AS passed, avg(clean::INT) AS clean,
       avg(usable::INT) AS usable, nullif(count_if(is_open), 0)::BIGINT AS not_judged,
       avg((nearest_ang < {COLLAPSED_ANG})::INT) AS collapsed, round(median(nearest_ang), 4) AS nearest_ang,
       avg(paid) AS paid, avg(paid) FILTER (usable) AS paid_usable,
       avg(paid) FILTER (NOT usable) AS paid_unusable
FROM answers GROUP BY run_id
"""


def tables(store: Store, entries: Sequence[Entry], options: Options) -> Tables:
    judged, commands = judged_steps(store, entries)
    rows: list[Row] = []
    for training, steps in judged.items():
        ids = [run.id for run in steps]
        found = store.table(SQL, {"reward": options["reward"] or ""}, of=ids).to_pylist() if ids else []
        figures = {row["run_id"]: row for row in found}
        coverage = coverage_of(store, steps, request_of(store, options)) if options["step_coverage"] else {}
        for run in steps:
            step = {"run": run.id, "training": training, "step": run.row.get("training_step")}
            rows.append({**step, **figures.get(run.id, {}), "cov_r": coverage.get(run.id)})
    return {
        "main": rows_table([{name: row.get(name) for name in SHOWN} for row in rows], SHOWN),
        "curves": rows_table(list(lines_of(rows, MEASURES, "measure", "share")), ["measure", "step", "share"]),
        "paid": rows_table(list(lines_of(rows, PAID, "answers_that", "mean")), ["answers_that", "step", "mean"]),
        **({"commands": rows_table(commands)} if commands else {}),
    }


def lines_of(rows: Sequence[Row], names: Mapping[str, str], colour: str, value: str) -> Iterator[Row]:
    """Of a chart: each figure of these that a step has."""
    is_of_several = len({row["training"] for row in rows}) > 1
    for name, words in names.items():
        for row in rows:
            if row.get(name) is not None:
                about = {"run": row["run"], "training": row["training"], "step": row["step"]}
                yield {**about, colour: f"{row['training']}: {words}" if is_of_several else words, value: row[name]}


def coverage_of(store: Store, steps: Sequence[Entry], request: EvaluationRequest) -> dict[str, float | None]:
    """COV-R by id; NeedsWork where a step is not evaluated, which takes minutes."""
    try:
        return {run.id: computed_cov_r(store, run, request) for run in steps}
    except LookupError as error:
        command = [*evaluation_command(steps[0].id, request), "--steps"]
        raise NeedsWork("not all steps are evaluated against these references yet", command) from error


def answer(tables: Tables, options: Options) -> str:
    by_training: dict[str, list[Row]] = {}
    for row in tables["main"].to_pylist():
        by_training.setdefault(row["training"], []).append(row)
    lines = []
    for training, rows in by_training.items():
        first, last = rows[0], rows[-1]
        ends = {name: (first[name], last[name]) for name in MEASURES if None not in (first[name], last[name])}
        if len(rows) > 1:
            moves = [f"{MEASURES[name]} {percent(start)} to {percent(end)}" for name, (start, end) in ends.items()]
            lines.append(f"{training}, step {first['step']} to {last['step']}: {', '.join(moves)}.")
        else:
            shares = [f"{MEASURES[name]} {percent(end)}" for name, (_, end) in ends.items()]
            lines.append(f"{training}, step {last['step']}: {', '.join(shares)}.")
        if open_ := sum(row["not_judged"] or 0 for row in rows):
            answers = counted(sum(row["answers"] or 0 for row in rows), "answer")
            lines.append(f"{open_:,} of {answers} {NOT_JUDGED[CODES]}.")
        if None not in (last["paid_usable"], last["paid_unusable"]):
            pays = f"{number(last['paid_usable'])} for usable answers and {number(last['paid_unusable'])} for others"
            lines.append(f"At step {last['step']} `{options['reward']}` pays {pays}.")
    return answer_text(lines, notes_of(tables))
