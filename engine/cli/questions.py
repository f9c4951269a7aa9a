"""Questions from a terminal: ``ask`` has all that the pages answer; the others are older names for some, with JSON keys
that scripts rely on. ``evaluate``, ``judge``, ``lost``, ``explain``, ``cost-of-lp`` and ``advise --probe`` first
compute what is missing.
"""

from __future__ import annotations

import csv
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from copy import copy
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import typer
from typer.core import TyperCommand

from engine.cli import terminal as cli
from engine.cli.entries import logs_app, traces_app
from engine.cli.text import BINS, Bins, form_of
from engine.comparing.measures import BY_NAME, has_samples
from engine.errors import DriftscopeError, RunError, nearest, one_line
from engine.figures.words import percent
from engine.file_forms import form_by_name
from engine.lp_records import LPS, full_name, lp_record
from engine.records import VerdictName
from engine.store.columns import rows_of
from engine.store.entries import Entry
from engine.store.schema import LOGIT_LOG, RUN, TRACE
from engine.text.blocks import READ_FORMAT
from engine.user_files import check_output, read_text

if TYPE_CHECKING:
    from engine.chem.strain import StrainMethod
    from engine.store.store import Store

app = cli.new_app()
app.add_typer(traces_app)
app.add_typer(logs_app)
WORKERS = cli.option(None, "processes (default: all cores)", of=cli.most(256), metavar="N")
ONE_RUN = cli.words(None, "RUN", "its id, or a part of it that no other has")
CONVENTION_COLUMNS = (
    "whose cov_r cov_p mat_r_ang mat_p_ang molecules missing left_out missing_rule failed_rule reached samples_rule "
    "permutation by_atom_indices more"
)
FALLBACKS = (
    "fallbacks (of an RMSD): symmetry_budget = molecules with more symmetries than are tried, upper bounds; "
    "without_rmsd = pairs; atom_indices, by_atom_indices = pairs of these that are taken by atom indices."
)
POOL_COLUMNS = "smiles conformers stereo_right geometry_right usable strain_kcal failed"
CONTROL, TEST = cli.words(..., "CONTROL"), cli.words(..., "TEST")


def write_answer(store: Store, key: str, ids: Sequence[str], options: dict[str, Any] | None = None) -> int:
    from engine.questions import ask, question_of
    from engine.questions.question import answer_lines

    cli.write("\n".join(answer_lines(question_of(key), ask(store, key, ids, options))))
    return 0


class Asking(TyperCommand):
    """The options of ``ask QUESTION`` are the question's own."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        from engine.questions import KEYS, question_of

        if key := next((word for word in args if word in KEYS), None):
            question = question_of(key)
            self.help = f"{question.TITLE}\n\n{question.help}"
            like = next(param for param in self.params if param.name == "store")
            for option in question.OPTIONS:
                param: Any = copy(like)
                param.name = option.name
                param.opts = [f"--{option.name.replace('_', '-')}"]
                param.metavar = "VALUE"
                param.help, param.expose_value = option.help or option.label, False
                param.callback = lambda ctx, param, value: ctx.meta.update({param.name: value})
                self.params.append(param)
        return super().parse_args(ctx, args)


@app.command("ask", cls=Asking)
@cli.flat
def ask_question(
    io: cli.Io,
    ctx: typer.Context,
    key: str | None = cli.words(None, "QUESTION", "`ask` alone lists them"),
    ids: list[str] | None = cli.words(
        None, "ID", "of runs (the control first), traces, logs, models, samples (RUN/NUMBER); or texts"
    ),
    is_csv: bool = cli.option(False, "the main table as CSV", "--csv"),
) -> int:
    """a question of the pages, answered here; `ask QUESTION --help` has what it says and its options"""
    from engine.questions import KEYS, ask, question_of

    if key is None:
        rows = [
            {
                "key": key,
                "title": question.TITLE,
                "of": question.OF.kind,
                "options": [option.name for option in question.OPTIONS],
            }
            for key, question in zip(KEYS, map(question_of, KEYS), strict=True)
        ]
        return io.show({"rows": rows} if io.is_json else rows)
    question, store = question_of(key), io.opened()
    options = {option.name: ctx.meta.get(option.name) for option in question.OPTIONS}
    if not io.is_json and not is_csv:
        return write_answer(store, key, ids or [], options)
    answered = ask(store, key, ids or [], options)
    tables = {name: list(rows_of(table)) for name, table in answered.tables.items()}
    main = tables.pop("main")
    if is_csv:
        writer = csv.DictWriter(sys.stdout, answered.tables["main"].column_names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(main)
        return 0
    columns = {name: {"unit": column.unit, "help": column.help} for name, column in question.COLUMNS.items()}
    return cli.emit_json({"answer": answered.answer, "rows": main, "tables": tables, "columns": columns})


def worked(io: cli.Io, progress: cli.Progress, label: str, work: Callable[..., Any], *of: Any, **how: Any) -> Any:
    with progress.reporting(is_quiet=io.is_json) as say:
        result = work(*of, **how, progress=cli.counting(say, label))
        entry = result[0] if isinstance(result, list) else getattr(result, "entry", result)
        say(now=True, run_id=entry.id, state="done")
    if not getattr(result, "is_stored", True) and result.samples:
        cli.note(f"{result.entry.id} is in {result.entry.files.where}, which is read-only: printed, not stored")
    return result


def figures_of(store: Store, entries: Sequence[Entry]) -> dict[str, dict[str, dict[str, Any]]]:
    """By run and measure: the value, and how it compares with that of the first, the control."""
    from engine.questions import ask

    figures: dict[Any, dict[Any, dict[str, Any]]] = {entry.id: {name: {} for name in BY_NAME} for entry in entries}
    control, *tests = figures
    for first in range(0, len(tests) or 1, 40):  # a card takes no more tests
        for row in rows_of(ask(store, "compare_figures", [control, *tests[first:][:40]]).tables["main"]):
            figures[row["run"]][row["measure"]] = row
    return figures


@cli.command(app, "show", rules=True)
def show_run(io: cli.Io, run_id: str = cli.RUN_ID) -> int:
    """every column of a run, and its figures"""
    store = io.opened()
    entry = store.entry(run_id)
    columns = entry.columns()
    figures = figures_of(store, [entry])[entry.id]
    row = {**columns, **{name: figure.get("value") for name, figure in figures.items() if name not in columns}}
    return io.show([row] if io.is_json else row)


@cli.command(app, "compare", rules=True)
def compare(io: cli.Io, control: str = CONTROL, tests: list[str] = TEST) -> int:
    """runs compared with a control, as ratios to it"""
    store = io.opened()
    entries = [store.entry(name) for name in (control, *tests)]
    if not io.is_json:
        return write_answer(store, "compare_figures", [entry.id for entry in entries])
    figures = figures_of(store, entries)
    rows: list[dict[str, Any]] = []
    for entry in entries:
        row: dict[str, Any] = {"part": "test" if rows else "control"}
        to_itself = {}
        if entry.id == entries[0].id:
            to_itself = dict.fromkeys(("ratio", "ratio_low", "ratio_high") if has_samples(entry) else ("ratio",), 1.0)
        for name, figure in figures[entry.id].items():
            compared = {**figure, **to_itself} if figure.get("value") else figure
            keys = ("low", "high", "ratio", "ratio_low", "ratio_high")
            row |= {name: compared.get("value"), **{f"{name}_{key}": compared.get(key) for key in keys}}
        rows.append(row | entry.columns())
    return cli.emit_json(rows)


@cli.command(traces_app, "compare")
def compare_traces(io: cli.Io, control: str = CONTROL, test: str = TEST) -> int:
    """two traces: how much longer the test takes, and what takes the time"""
    from engine.questions import ask

    store = io.opened()
    ids, keys = [store.entry(name, TRACE).id for name in (control, test)], ("families", "launches", "kernels")
    if not io.is_json:
        for caution in ask(store, "profiles_families", ids).tables["notes"]["note"].to_pylist():
            cli.note(caution)
        return max(write_answer(store, f"profiles_{key}", ids) for key in keys)
    families, launches, kernels = (ask(store, f"profiles_{key}", ids).tables for key in keys)
    return cli.emit_json(
        {
            "control": ids[0],
            "test": ids[1],
            "work": dict(zip(("control", "test"), families["facts"]["work_side"].to_pylist(), strict=True)),
            "difference_us": sum(families["main"]["difference_us"].to_pylist()),
            "families": list(rows_of(families["main"])),
            "calls": list(rows_of(families["calls"])),
            "figures": list(rows_of(launches["main"])),
            "kernels": list(rows_of(kernels["main"])),
            "notes": families["notes"]["note"].to_pylist(),
        }
    )


@cli.command(logs_app, "show")
def show_log(io: cli.Io, log_id: str = cli.words(..., "LOG")) -> int:
    """what is wrong with a log, and why"""
    from engine.logits.health import health
    from engine.logits.pairs import late_read

    store = io.opened()
    if not io.is_json:
        return write_answer(store, "logits_health", [log_id])
    log = store.entry(log_id, LOGIT_LOG)
    return cli.emit_json(health(store, log) | {"read_late": late_read(store, log)})


@cli.command(logs_app, "parity")
def parity(io: cli.Io, control: str = CONTROL, test: str = TEST) -> int:
    """how far two engines agree on the same prompt"""
    from engine.logits.parity import compare_logs

    store = io.opened()
    if not io.is_json:
        return write_answer(store, "logits_parity", [control, test])
    return cli.emit_json(compare_logs(store, store.entry(control, LOGIT_LOG), store.entry(test, LOGIT_LOG)))


@cli.command(app, "evaluate")
def evaluate(
    io: cli.Io,
    progress: cli.Progress,
    run_id: str | None = ONE_RUN,
    references: str | None = cli.option(None, "references of the store (see `references`; default: ETKDG)"),
    per_molecule: int | None = cli.option(None, "references by ETKDG where none are named (10)", of=cli.most(1_000)),
    matrices: str | None = cli.option(None, "RMSD matrices in place of a run: JSON, {molecule: [[rmsd, ...] ...]}"),
    missing: Literal["skip", "zero"] = cli.option("skip", "without a sample: left out, or 0 in COV"),
    threshold: float = cli.option(0.75, "of COV", of=cli.most(100, 0.01)),
    no_baseline: bool = cli.option(False, "leave the clustered RDKit conformers out"),
    atom_indices: bool = cli.option(False, "also RMSDs with atoms matched by index, for the conventions that use them"),
    steps: bool = cli.option(False, "RUN is a step of a training: all its steps that are judged"),
    workers: int | None = WORKERS,
) -> int:
    """coverage (COV) and matching (MAT) of a run against reference conformers

    With clustered RDKit conformers: mean and median over molecules, curves over thresholds. A stopped call resumes.
    The same run by the conventions of other programs is in `conventions`, with what each counts; published figures
    stand next to it only where references, split, samples, threshold, convention and statistic agree.
    """
    from engine.comparing.evaluation import PER_MOLECULE, EvaluationRequest, evaluate_run
    from engine.comparing.published import shown_next_to
    from engine.store.references import reference_set

    rule = {"threshold_ang": threshold, "missing_rule": missing}
    cli.one_of("a run or --matrices", run_id, matrices, hint="`runs` lists the runs")
    if matrices is not None:
        return _evaluate_matrices(io, matrices, threshold, missing, rule)
    store = io.opened()
    cli.only_with("references by ETKDG, not to --references", not references, per_molecule=per_molecule)
    of = None if references is None else reference_set(store, references)
    has_baseline = not (no_baseline or steps)
    request = EvaluationRequest(of, per_molecule or PER_MOLECULE, threshold, missing, has_baseline, atom_indices)
    if steps:
        return _evaluate_steps(io, progress, store, run_id or "", request, workers)
    evaluation = worked(io, progress, "molecules evaluated", evaluate_run, store, run_id, request, workers=workers)
    baseline = evaluation.clustered and {
        "method": "clustered RDKit conformers",
        **cli.picked(evaluation.clustered, "samples incomplete"),
        **evaluation.baseline.columns(),
    }
    document = {  # shares are from 0 to 1, null where there is nothing to share
        "run_id": evaluation.entry.id,
        "references": of and of.name,
        "etkdg_per_molecule": None if of else request.per_molecule,
        "reference_conformers": evaluation.references,
        **cli.picked(evaluation, "asked conformers without_references"),
        "references_not_asked": evaluation.not_asked,
        **rule,
        **evaluation.figures.columns(),
        **cli.picked(evaluation.run, "samples incomplete"),
        "fallbacks": evaluation.fallbacks(),
        "baseline": baseline,
    }
    published = [
        {
            "name": figure.name,
            "source": figure.source,
            "convention": figure.convention,
            "differs": "; ".join(different),
            **({} if different else figure.figures()),
        }
        for figure, different in shown_next_to(evaluation.setting())
    ]
    return show_evaluation(io, document, [figures.columns() for figures in evaluation.conventions()], published)


def _evaluate_matrices(io: cli.Io, file: str, threshold: float, missing: Any, rule: dict[str, Any]) -> int:
    from engine.comparing.rmsd_matrices import read_matrices
    from engine.figures import coverage_metrics as metrics
    from engine.figures.conventions import CONVENTIONS, MoleculeMatrix, figures_by

    given = read_matrices(read_text(file))
    each = [metrics.figures_of(rmsd, threshold) for rmsd in given.values()]
    stated = [MoleculeMatrix(name, rmsd) for name, rmsd in given.items()]
    by_name = (figures_by(convention, stated, threshold) for convention in CONVENTIONS)
    conventions = [figures.columns() for figures in by_name if figures is not None]
    return show_evaluation(io, rule | metrics.over_molecules(each, missing).columns(), conventions)


def _evaluate_steps(
    io: cli.Io, progress: cli.Progress, store: Store, run_id: str, request: Any, workers: int | None
) -> int:
    """A step whose molecules the references lack is named, and left out."""
    from engine.comparing.evaluation import evaluate_run
    from engine.questions.compare_steps import judged_steps

    rows = []
    ((_, steps),) = judged_steps(store, [store.entry(run_id)])[0].items()
    with progress.reporting(is_quiet=io.is_json) as say:
        for done, run in enumerate(steps):
            step = run.row.get("training_step")
            say(f"{done:,}/{len(steps):,} steps evaluated", now=True, work=done / len(steps), run_id=run.id)
            try:
                figures = evaluate_run(store, run.id, request, workers=workers).figures
                rows.append({"run_id": run.id, "step": step, **figures.columns()})
            except RunError as error:
                cli.note(f"left out: step {step}: {error}")
        say(now=True, work=1.0, state="done")
    return io.show(rows, "run_id step cov_r cov_p mat_r_ang mat_p_ang molecules missing")


def show_evaluation(
    io: cli.Io, document: dict[str, Any], conventions: list[dict[str, Any]], published: Sequence[dict[str, Any]] = ()
) -> int:
    """The conventions and what is published as tables below the figures."""
    from engine.figures.conventions import LEGEND

    if io.is_json:
        return cli.emit_json(document | {"conventions": conventions, "published": list(published)})
    io.show(document)
    cli.write("\nby convention")
    io.show(conventions, CONVENTION_COLUMNS)
    cli.write(f"{LEGEND}\n{FALLBACKS}")
    if published:
        cli.write("\npublished; figures only where nothing differs")
        io.show(published, "name convention cov_r cov_p mat_r_ang mat_p_ang differs")
    return 0


@cli.command(app, "judge", rules=True)
def judge(
    io: cli.Io,
    progress: cli.Progress,
    run_id: str | None = cli.words(
        None, "RUN", "its id, a part of it that no other has, or a file or folder of conformers"
    ),
    text: str | None = cli.option(None, "a text in place of a run; - reads standard input"),
    smiles: str | None = cli.option(None, "the molecule that the text should be (default: its own)"),
    bins: Bins = BINS,
    strain: bool = cli.option(False, "also the energy above the relaxed conformer (MMFF94)"),
    xtb: bool = cli.option(False, "strain by GFN2-xTB, with tblite (requirements-xtb.txt)"),
    settings: Literal["mol_fast", "mol", "group"] = cli.option("mol_fast", "PoseBusters' checks of geometry"),
    energy: bool = cli.option(False, "its energy ratio too (settings mol, group; a second each)"),
    workers: int | None = WORKERS,
    limit: int | None = cli.option(None, "seconds per molecule (default 60)", of=cli.most(86_400)),
    out: str | None = cli.option(None, "of a file of conformers: a row for each, .csv or .parquet", metavar="FILE"),
    report: str | None = cli.option(None, "of a file of conformers: one HTML file, as `bundle` writes", metavar="FILE"),
    steps: bool = cli.option(False, "RUN is a step of a training: all its steps that are not judged yet"),
) -> int:
    """whether molecules are right in space: stereo, geometry, strain; of a run of your own it is stored

    RUN may be a file of conformers that another program made (SDF, a folder of SDFs, Parquet, a pickle {smiles: [Mol,
    ...]}): no store and no model are needed. Stereo is judged against the SMILES that a record has as a property or as
    its title; where there is none, the molecule is the record's own graph, and stereo is not judged.
    """
    from engine.chem.judges import LIMIT_S
    from engine.chem.verdict import JudgeSettings
    from engine.inspection.judging import judge_run, judge_text

    cli.one_of("a run, a file of conformers or --text", run_id, text, hint="`runs` lists the runs")
    cli.only_with("--text", text is not None, smiles=smiles, bins=bins)
    pool = None if run_id is None else _pool_of(run_id)
    cli.only_with("a file of conformers", pool, out=out, report=report)
    strain_by: StrainMethod | None = "force-field" if strain else None
    if xtb:
        strain_by = "gfn2-xtb"
    by = JudgeSettings(settings, energy, strain_by)
    if text is not None:
        form = READ_FORMAT if bins is None else form_of(bins)
        document = judge_text(cli.given_text(text), smiles or "", by, form, limit_s=limit or LIMIT_S)
        if io.is_json:
            return io.show(document)
        a_line_each = [{"reason": reason} for reason in document["why_not_clean"]]
        return io.show({**document, "why_not_clean": a_line_each})
    how = {"workers": workers, "limit_s": limit or LIMIT_S}
    if pool is not None:
        return _judge_pool(io, progress, pool, out, report, by, **how)
    if steps:
        return _judge_steps(io, progress, run_id or "", by, **how)
    judged = worked(io, progress, "samples judged", judge_run, io.opened(), run_id, by, **how)
    for unfinished in judged.not_finished:
        cli.note(unfinished)
    about = {"run_id": judged.entry.id, "stored": judged.is_stored}
    return io.show(about | judged.columns | judged.rates() | {"samples": judged.samples()})


def _judge_steps(io: cli.Io, progress: cli.Progress, run_id: str, by: Any, **how: Any) -> int:
    from engine.cli.entries import show_entries
    from engine.inspection.rollout_judging import judge_rollouts, steps_of

    store = io.opened()
    steps = steps_of(store, store.writable(run_id))
    worked(io, progress, "samples judged", judge_rollouts, steps, by, **how)
    return show_entries(io, RUN, steps_of(io.opened(), steps[0]))


def _pool_of(word: str) -> Path | None:
    """A path, where the word is that of a file of conformers, or of a folder with some; else it names a run."""
    from engine.store.generations import is_pool_folder

    path = Path(word).expanduser()
    return path if path.is_file() or form_by_name(path, "pool") or is_pool_folder(path) else None


def _judge_pool(
    io: cli.Io, progress: cli.Progress, pool: Path, out: str | None, report: str | None, by: Any, **how: Any
) -> int:
    from engine.handover.pool import pool_bundle
    from engine.handover.writing import write_bundle
    from engine.inspection.pool_judging import FORMS, judge_pool, write_rows

    conformers: list[Any] = []
    if out is not None:
        check_output(Path(out), *FORMS)
    if report is not None:
        check_output(Path(report), ".html")
        how["each"] = conformers.append
    with progress.reporting(is_quiet=io.is_json) as say:
        seen = lambda done: say(f"{done:,} conformers judged", done=done, file=pool.name)  # noqa: E731
        judged = judge_pool(pool, by, progress=seen, **how)
    if out is not None:
        write_rows(judged.conformers, Path(out))
    if report is not None:
        write_bundle(pool_bundle(pool, conformers, by, report), Path(report))
    cli.note_left_out([f"{row['source']}: {row['reason']}" for row in judged.left_out])
    molecules, summary = judged.molecules(), judged.summary()
    if io.is_json:
        parts = {"conformers": judged.conformers, "molecules": molecules, "left_out": judged.left_out}
        return cli.emit_json({"file": str(pool), "summary": summary, **parts})
    io.show([_in_words(row) for row in molecules], POOL_COLUMNS)
    cli.write("")
    return io.show(_in_words(summary))


def _in_words(row: dict[str, Any]) -> dict[str, Any]:
    """Rates as percentages, counts by name in one line."""
    rates = {name: percent(row[name]) for name in ("stereo_right", "geometry_right", "usable") if row[name] is not None}
    counts = {
        name: ", ".join(f"{key} {count:,}" for key, count in row[name].items())
        for name in ("failed", "smiles_from")
        if name in row
    }
    return row | rates | counts


@cli.command(app, "lost", rules=True)
def lost(
    io: cli.Io,
    progress: cli.Progress,
    run_id: str = cli.RUN_ID,
    again: bool = cli.option(False, "search samples again that were searched"),
) -> int:
    """which token lost a molecule: the first after which no right place was left for its atom

    It needs no model, and numbers in decimals or bins. Proved by bounds, against the verdict's own tolerance. Of a run
    of your own the result is stored, and a search that was stopped goes on where it was.
    """
    from engine.inspection.lost_runs import lost_run

    found = worked(io, progress, "samples searched", lost_run, io.opened(), run_id, again=again)
    rows = list(rows_of(found.lost.drop_columns(["run_id"])))
    about = {"run_id": found.entry.id, "stored": found.is_stored, "searched": found.samples}
    return io.show(about | {"lost_samples": found.lost_samples, "lost_blocks": len(rows), "lost": rows})


@cli.command(app, "explain")
def explain(
    io: cli.Io,
    progress: cli.Progress,
    run_id: str = cli.RUN_ID,
    worst: int = cli.option(4, "samples, in Drift's order", of=cli.most(100_000, 0)),
    batch_size: int = cli.option(8, "samples that are scored at once", of=cli.most(4_096)),
    device: str = cli.option("auto", "auto (a GPU if there is one), cpu, cuda, mps"),
    threads: int | None = cli.THREADS,
) -> int:
    """store what explains a run's damage: how cut blocks would have gone on, and the worst samples' token probabilities

    The run's model reads the stored tokens. A cut block whose continuation is its own text lost nothing, and is
    counted so. Figures over samples, such as log w, are not made of samples that were chosen as the worst.
    """
    from engine.jobs.scoring import explain_run
    from engine.models.devices import set_threads

    set_threads(threads)
    how = {"worst": worst, "device": device, "batch_size": batch_size}
    explained = worked(io, progress, "samples scored", explain_run, io.opened(), run_id, **how)
    row = {"run_id": explained.entry.id, "samples_scored": explained.samples, "blocks_continued": explained.continued}
    changed = {} if explained.recounted is None else dict(explained.recounted.changed)
    return io.show(row | {"cut_blocks": explained.entry.row.get("cut_blocks"), "changed": changed})


@cli.command(app, "cost-of-lp")
def cost_of_lp(
    io: cli.Io,
    progress: cli.Progress,
    run_id: str = cli.RUN_ID,
    kept: bool = cli.option(False, "only samples with kept steps; needs no model"),
    samples: int | None = cli.option(None, "the first N (default: all)", of=cli.most(100_000)),
    batch_size: int = cli.option(8, "samples that are scored at once", of=cli.most(4_096)),
    device: str = cli.option("auto", "auto (a GPU if there is one), cpu, cuda, mps"),
    threads: int | None = cli.THREADS,
) -> int:
    """how far the LP of a run moved its model: log w, log p(C), effective samples

    Samples without kept steps are scored by the run's model in one pass over their tokens; nothing is generated. Of a
    run of your own that is stored, as its steps.
    """
    from engine.inspection.lp_cost import cost_of_run
    from engine.inspection.runs import run_facts
    from engine.jobs.scoring import ScoredRun, score_run
    from engine.models.devices import set_threads
    from engine.questions import question_of, with_texts
    from engine.questions.drift_lp_cost import PLACES, cost_rows, sentences

    facts = run_facts(store := io.opened(), run_id)
    with_texts(question_of("drift_lp_cost"), [store.entry(facts.run_id)])
    if kept:
        scored = ScoredRun(store.entry(facts.run_id), cost_of_run(store, facts), 0, 0, 0.0, is_stored=False)
    else:
        set_threads(threads)
        how = {"most": samples or 0, "device": device, "batch_size": batch_size}
        scored = worked(io, progress, "samples scored", score_run, store, facts.run_id, **how)
    cost = scored.cost
    if io.is_json:  # what is not finite is null
        how = cli.picked(scored, "samples tokens seconds") | {"stored": scored.is_stored}
        figures = json.loads(msgspec.json.encode(cost, enc_hook=float))
        return cli.emit_json({"run_id": facts.run_id, "lp": facts.lp, "scored": how, **figures})
    cli.write("\n".join(sentences(cost, facts.lp or "the LP")))
    tables = map(cost_rows, (cost.tenths, cost.parts, cost.elements))
    return io.show(dict(zip(PLACES.values(), tables, strict=True)))


def _candidates(model: str, names: Sequence[str] | None) -> list[str]:
    """The LPs to choose from; by default those that write the numbers of this model."""
    from engine.models.registry import load_registry
    from engine.questions.compare_advice import CANDIDATES

    if names:
        return [full_name(name) for name in names]
    forms = [entry.numbers for entry in load_registry().entries if model in (entry.alias, entry.name)]
    return [name for name in CANDIDATES if all(map(lp_record(name).writes, forms))]


@cli.command(app, "advise", rules=True)
def advise(
    io: cli.Io,
    progress: cli.Progress,
    model: str | None = cli.option(None, "ALIAS or ALIAS:STEP"),
    lp: list[str] | None = cli.option(None, "a candidate; may be repeated (default: six)"),
    want: Literal["usable", "clean", "passed"] | None = cli.option(None, "what counts (usable if all are judged)"),
    least: float = cli.option(0.9, "required share of these", of=cli.most(1, 0)),
    molecules: int | None = cli.option(None, "also: time and yield for N molecules", of=cli.MANY_MOLECULES),
    seed: int = cli.option(0, "of a probe's samples", of=cli.most(cli.MOST_SEED, 0)),
    sampling: str = cli.option("", "setting: a preset (default: that of most LPs; for a probe, as `run`)"),
    batch_size: int | None = cli.option(None, "setting", of=cli.most(4_096)),
    backend: str = cli.option("", "setting: fast or hf"),
    device: str = cli.option("", "setting: cpu, cuda or mps"),
    probe: int | None = cli.option(None, "write N held-out molecules under each LP, and judge", of=cli.most(10**7, 4)),
    no_keep: bool = cli.option(False, "do not keep the probe's runs in the store"),
    rmsd: int | None = cli.RMSD,
    references: str | None = cli.option(None, "--rmsd is to conformers of this set of the store"),
    threads: int | None = cli.THREADS,
) -> int:
    """which LP to use for a model, by measured runs or a quick probe; without a model it lists those with runs"""
    from engine.questions import ask

    cli.only_with("--rmsd", rmsd, references=references)
    cli.only_with("--probe", probe, no_keep=no_keep, rmsd=rmsd, threads=threads, progress=progress.progress)
    cli.only_with("--model", model, probe=probe)
    if model is None:
        return _show_models(io)
    candidates, ids = _candidates(model, lp), [model]
    setting = {"sampling": sampling, "batch_size": batch_size, "backend": backend, "device": device.replace("auto", "")}
    with tempfile.TemporaryDirectory(prefix="driftscope-probe-") as passing:
        if probe is not None:
            cli.only_with("the store, which --no-keep leaves aside", not no_keep, references=references)
            io = replace(io, store=passing) if no_keep else io
            how = words_of(seed=seed, threads=threads, **setting)
            ids = _probe(io, progress, model, candidates, probe, how, words_of(rmsd=rmsd, references=references))
            setting = {}
        store = io.opened()
        options = {
            "advice_lps": candidates,
            "advice_least": least,
            "advice_molecules": molecules,
            "advice_setting": _setting(store, model, ids, setting),
            "advice_want": want and want.capitalize(),
        }
        advised = ask(store, "compare_advice", ids, options).tables["advice"].to_pylist()
        advice = {row["key"]: json.loads(row["value"]) for row in advised}
        if want not in (None, advice["want"]):
            raise DriftscopeError("not all answers have a verdict on their molecule", "`judge RUN` makes them")
        if io.is_json:
            return cli.emit_json(advice)
        write_answer(store, "compare_advice", ids, options)
        cli.write("\n".join(["", "To know more:", *(f"  {one_line(command)}" for command in advice["commands"])]))
    return 0


def _show_models(io: cli.Io) -> int:
    """The models with measured runs, and the LPs of the setting that has most."""
    from engine.questions import models_of
    from engine.questions.compare_advice import setting_of, setting_words, settings_of

    rows = []
    for name, entries in models_of(io.opened().listing().entries).items():
        first, *others = settings_of(entries)
        lps = {str(entry.row.get("lp") or "") for entry in entries if setting_of(entry) == first}
        row = {"model": name, "runs": len(entries), "settings": 1 + len(others), "setting": setting_words(first)}
        rows.append(row | {"lps": sorted(lps, key=[*LPS, *sorted(lps)].index)})
    if not rows and not io.is_json:
        cli.note("no model has measured runs; `python -m engine advise --model A --probe 64` makes some")
    return io.show(rows)


def _setting(store: Store, model: str, ids: Sequence[str], asked: Mapping[str, object]) -> str:
    """The setting of the runs that has most and begins as it is asked for: ``cuda`` is also ``cuda:0``."""
    from engine.questions import runs_of_model
    from engine.questions.compare_advice import setting_words, settings_of

    stored = settings_of([run for id_ in ids for run in runs_of_model(store, id_)])
    for setting in stored:
        if all(str(setting[name]).startswith(str(part or "")) for name, part in asked.items()):
            return setting_words(setting)
    there = "; ".join(map(setting_words, stored[:3]))
    raise DriftscopeError(f"no run of {model} has this setting, but {there}", "Give --probe 64 to measure it")


def words_of(**options: object) -> list[str]:
    return [f"--{name.replace('_', '-')}={value}" for name, value in options.items() if value not in (None, "")]


def _probe(
    io: cli.Io, progress: cli.Progress, model: str, lps: list[str], count: int, how: list[str], rmsd: list[str]
) -> list[str]:
    """The ids of runs over the LPs, judged after the last LP's time was taken: judging needs all cores. Before it each
    LP writes two molecules that are thrown away, so that none pays for the start of the process."""
    from engine.chem.molecule_sets import load_run_set
    from engine.cli.main import main

    if len(lps) < 2:
        raise DriftscopeError("a probe of one LP has nothing to compare", "Give --lp twice or more, or leave it out")

    def done(*words: str) -> str:
        with redirect_stdout(StringIO()) as out:
            if status := main(words):
                raise typer.Exit(status)
        return out.getvalue()

    run = ["run", "--json", f"--model={model}", *(f"--lp={lp}" for lp in lps), *how]
    options = words_of(store=io.store, progress=progress.progress)
    with tempfile.TemporaryDirectory() as warm:
        done(*run, "--sample-size=2", "--max-new-tokens=24", f"--store={warm}")
    run += [*load_run_set(count), "--label=probe", *rmsd, *(["--until-eof"] if progress.until_eof else [])]
    ids = [row["run_id"] for row in json.loads(done(*run, *options))]
    for run_id in ids:
        done("judge", run_id, *options)
    return ids


@cli.command(app, "claims")
def claims(
    io: cli.Io,
    ids: list[str] | None = cli.words(None, "CLAIM", "only these claims, in detail (default: all)"),
    report: Literal["000", "001", "002", "003", "004", "005"] | None = cli.option(None, "only this report's claims"),
    verdict: VerdictName | None = cli.option(None, "only this verdict"),
    save_all: bool = cli.option(False, "re-check all claims, and save the verdicts in data/claims/", "--save"),
) -> int:
    """the reports' claims, each checked now"""
    from engine.evidence.claims import load_claims, with_speed
    from engine.evidence.verdicts import FILE, document, judge, judge_all, save

    every = [claim.id for claim in load_claims()]
    named = ids or every
    for unknown in sorted({*named} - {*every}):
        raise DriftscopeError(f"there is no claim {unknown}", nearest(unknown, every))
    if save_all:
        judgement = judge_all(io.opened())
        save(judgement)
        return io.show({"file": str(FILE), "counts": judgement.counts})
    chosen = [claim for claim in load_claims() if claim.id in named and report in (None, claim.report)]
    rows = list(map(document, chosen, judge(chosen, io.opened())))
    rows = [row for row in rows if verdict in (None, row["verdict"])]
    if io.is_json:
        return cli.emit_json(rows)
    words = list(map(with_speed, rows))
    if ids:
        for row in words:
            io.show(row)
    else:
        io.show(words, "id section verdict reported measured unit subject")
    counted = Counter(row["verdict"] for row in rows)
    cli.note(f"{len(rows)} claims: {', '.join(f'{count} {name}' for name, count in counted.most_common())}")
    return 0
