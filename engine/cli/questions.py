"""Questions from a terminal: ``ask`` has all that the pages answer; the others are older names for some, with JSON keys
that scripts rely on. ``evaluate``, ``judge``, ``cost-of-lp`` and ``advise --probe`` first compute what is missing.
"""

from __future__ import annotations

import csv
import json
import math
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from copy import copy
from dataclasses import asdict, is_dataclass, replace
from io import StringIO
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal, get_args

import typer

from engine.cli.entries import entry_row, logs_app, traces_app, without_damaged
from engine.cli.generate import set_threads
from engine.cli.terminal import (
    MANY_MOLECULES,
    MOST_SEED,
    RMSD,
    RUN_ID,
    THREADS,
    Command,
    Io,
    Progress,
    Row,
    command,
    emit_json,
    finite,
    flat,
    given_text,
    new_app,
    note,
    one_of,
    only_with,
    option,
    read_text,
    rows_lines,
    whole,
    words,
    write,
)
from engine.errors import DriftscopeError, nearest, one_line
from engine.lp_records import LPS, full_name
from engine.store.schema import LOGIT_LOG, RUN
from engine.store.trace_schema import TRACE

if TYPE_CHECKING:
    from engine.store.store import Store

app = new_app()
app.add_typer(traces_app)
app.add_typer(logs_app)
MOST_ROWS = 40  # of a question's table on a terminal; --json and --csv have all
WORKERS = option(None, "processes (default: all cores)", of=whole(256), metavar="N")
ONE_RUN = words(None, "RUN", "its id, or a part of it that no other has")


def write_answer(of: Store, key: str, ids: Sequence[str], given: Mapping[str, Any] | None = None) -> int:
    """The sentences of a question and the tables that its card shows."""
    from engine.questions import ask, question_of
    from engine.questions.question import Column

    question, answered = question_of(key), ask(of, key, ids, given)
    write(answered.answer)
    for name in [name for name in question.TABLES if answered.tables[name].num_rows] or ["main"]:
        table = answered.tables[name]
        about = {title: question.COLUMNS.get(title, Column()) for title in table.column_names}
        cells = [
            {
                title: f"{value:.1%}" if about[title].unit == "%" and value is not None else value
                for title, value in row.items()
                if not about[title].is_hidden
            }
            for row in table.slice(0, MOST_ROWS).to_pylist()
        ]
        write("\n".join(["", *rows_lines(cells)]))
        if table.num_rows > MOST_ROWS:
            write(f"... and {table.num_rows - MOST_ROWS:,} rows more: `ask {key}` has them as --json or --csv")
    return 0


class Asking(Command):
    """The options of ``ask QUESTION`` are the question's own."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        from engine.questions import KEYS, question_of

        if key := next((word for word in args if word in KEYS), None):
            question = question_of(key)
            self.help = f"{question.TITLE}\n\n{question.__doc__ or ''}"
            like = next(param for param in self.params if param.name == "store")
            for asked in question.OPTIONS:
                param: Any = copy(like)
                param.name, param.opts = asked.name, [f"--{asked.name.replace('_', '-')}"]
                param.help, param.expose_value = asked.help or asked.label, False
                self.params.append(param)
        return super().parse_args(ctx, args)


@app.command("ask", cls=Asking)
@flat
def ask_question(
    io: Io,
    ctx: typer.Context,
    key: str | None = words(None, "QUESTION", "`ask` alone lists them"),
    ids: list[str] | None = words(None, "ID", "of runs, traces, logs or models, the control first"),
    is_csv: bool = option(False, "the main table as CSV", "--csv"),
) -> int:
    """a question of the pages, answered here

    `ask QUESTION --help` has what it says and its options.
    """
    from engine.questions import KEYS, ask, question_of

    if key is None:
        questions = {key: question_of(key) for key in KEYS}
        rows = [
            {"key": key, "title": question.TITLE, "of": question.OF.kind, "options": [o.name for o in question.OPTIONS]}
            for key, question in questions.items()
        ]
        if io.is_json:
            return emit_json({"rows": rows})
        return io.show(rows)
    question = question_of(key)
    given = {o.name: value for o in question.OPTIONS if (value := ctx.meta.get(o.name)) is not None}
    if not io.is_json and not is_csv:
        return write_answer(io.opened(), key, ids or [], given)
    answered = ask(io.opened(), key, ids or [], given)
    main, columns = answered.tables["main"], question.COLUMNS
    if is_csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerows([main.column_names, *([row[name] for name in main.column_names] for row in main.to_pylist())])
        return 0
    return emit_json({
        "answer": answered.answer,
        "rows": main.to_pylist(),
        "tables": {name: found.to_pylist() for name, found in answered.tables.items() if name != "main"},
        "columns": {name: {"unit": column.unit, "help": column.help} for name, column in columns.items()},
    })  # fmt: skip


@command(app, "show", rules=True)
def show_run(io: Io, run_id: str = RUN_ID) -> int:
    """every column of a run, and its pace"""
    from engine.questions import ask

    of = io.opened()
    entry = of.entry(run_id)
    rows = ask(of, "compare_figures", [entry.id]).tables["main"].to_pylist()
    figures = {row["measure"]: row["value"] for row in rows}
    row = entry_row(entry) | {name: figures.get(name) for name in ("wall_s_a_sample", "ms_a_token")}
    if io.is_json:
        return emit_json([row])
    if row["strain_kcal"] is not None:  # what its samples say besides
        row |= {name: value for name, value in figures.items() if name.startswith("strain")}
    return io.show(row)


ROW_COLUMNS = (
    "origin label model_alias model_step model_family tokenizer lp backend sampling samples passes decodes clean "
    "blocks junk_letters junk_nonnumeric bad_blocks cut_blocks wall_s decode_s tokens forced_tokens forward_passes "
    "chars_raw chars_clean"
).split()
ROW_FIGURES = "pass_rate decodes_rate clean_rate usable_rate ms_a_token wall_s_a_sample forced_share".split()
ROW_RATIOS = "wall_s tokens ms_a_token forward_passes pass_rate wall_s_a_sample".split()


@command(app, "compare", rules=True)
def compare(io: Io, control: str = words(..., "CONTROL"), tests: list[str] = words(..., "TEST")) -> int:
    """runs beside a control, with ratios to it"""
    from engine.comparing.measures import BY_NAME, has_samples
    from engine.questions import ask

    of = io.opened()
    found = without_damaged(of.found())
    entries = [found.get(name, RUN) for name in (control, *tests)]
    if not io.is_json:
        return write_answer(of, "compare_figures", [entry.id for entry in entries])
    figures: dict[tuple[str, str], Row] = {}
    for entry in entries:  # one by one, so that a run may be compared with itself
        for row in ask(of, "compare_figures", [entries[0].id, entry.id]).tables["main"].to_pylist():
            figures[row["run"], row["measure"]] = row
    rows: list[dict[str, Any]] = []
    for place, entry in enumerate(entries):
        row = {"part": "test" if place else "control", "run_id": entry.id}
        row |= {name: entry.row.get(name) for name in ROW_COLUMNS}
        row |= {name: figures.get((entry.id, name), {}).get("value") for name in ROW_FIGURES}
        row |= {f"pass_rate_{end}": figures.get((entry.id, "pass_rate"), {}).get(end) for end in ("low", "high")}
        for name in ROW_RATIOS:
            of_run = figures.get((entry.id, name), {})
            for end in ("", "_low", "_high") if BY_NAME[name].sample else ("",):
                is_one = of_run.get("value") and (not end or has_samples(entry))
                to_itself = 1.0 if is_one else None
                row[f"{name}_ratio{end}"] = to_itself if entry.id == entries[0].id else of_run.get(f"ratio{end}")
        rows.append(row)
    return emit_json(rows)


@command(traces_app, "compare")
def compare_traces(io: Io, control: str = words(..., "CONTROL"), test: str = words(..., "TEST")) -> int:
    """two traces: how much longer the test takes, and what takes the time"""
    from engine.questions import ask

    of = io.opened()
    ids = [of.found(TRACE).get(name, TRACE).id for name in (control, test)]
    if not io.is_json:
        for key in ("families", "launches", "kernels"):
            write_answer(of, f"profiles_{key}", ids)
        return 0
    families, launches, kernels = (ask(of, f"profiles_{key}", ids) for key in ("families", "launches", "kernels"))
    rows = {name: families.tables[name].to_pylist() for name in ("main", "calls", "facts", "notes")}
    return emit_json({
        "control": ids[0],
        "test": ids[1],
        "work": dict(zip(("control", "test"), [fact["work_side"] for fact in rows["facts"]], strict=True)),
        "difference_us": sum(row["difference_us"] for row in rows["main"]),
        "families": rows["main"],
        "calls": rows["calls"],
        "figures": launches.tables["main"].to_pylist(),
        "kernels": kernels.tables["main"].to_pylist(),
        "notes": [row["note"] for row in rows["notes"]],
    })  # fmt: skip


@command(logs_app, "show")
def show_log(io: Io, log_id: str = words(..., "LOG")) -> int:
    """what is wrong with a log, and why"""
    from engine.logits.health import health
    from engine.logits.pairs import late_read

    of = io.opened()
    log = of.entry(log_id, LOGIT_LOG)
    if not io.is_json:
        return write_answer(of, "logits_health", [log.id])
    late = late_read(of, log)
    return emit_json(health(of, log) | {"read_late": None if late is None else asdict(late)})


@command(logs_app, "parity")
def parity(io: Io, control: str = words(..., "CONTROL"), test: str = words(..., "TEST")) -> int:
    """how far two engines agree on the same prompt"""
    from engine.logits.parity import compare_logs

    of = io.opened()
    logs = [of.found(LOGIT_LOG).get(name, LOGIT_LOG) for name in (control, test)]
    if io.is_json:
        return emit_json(compare_logs(of, *logs))
    return write_answer(of, "logits_parity", [log.id for log in logs])


# --- what is computed first -------------------------------------------------------------------------------------------


@command(app, "evaluate")
def evaluate(
    io: Io,
    progress: Progress,
    run_id: str | None = ONE_RUN,
    references: str | None = option(None, "references of the store (see `references`; default: ETKDG)"),
    per_molecule: int | None = option(None, "references by ETKDG where none are named (10)", of=whole(1_000)),
    matrices: str | None = option(None, "RMSD matrices in place of a run: JSON, {molecule: [[rmsd, ...] ...]}"),
    missing: Literal["skip", "zero"] = option("skip", "without a sample: left out, or 0 in COV"),
    threshold: float = option(0.75, "of COV", of=finite(100.0, above=0)),
    no_baseline: bool = option(False, "leave the clustered RDKit conformers out"),
    workers: int | None = WORKERS,
) -> int:
    """coverage (COV) and matching (MAT) of a run against reference conformers

    COV-R/P and MAT-R/P of a run's conformers against references, beside clustered RDKit conformers: mean and median
    over molecules, and curves over thresholds. A stopped call resumes.
    """
    from engine.comparing.evaluation import PER_MOLECULE, EvaluationRequest, evaluate_run
    from engine.comparing.matrices_file import read_matrices
    from engine.figures.coverage_metrics import figures_of, over_molecules
    from engine.store.references import reference_set

    head = {"threshold_ang": threshold, "missing_rule": missing}
    one_of("a run or --matrices", run_id, matrices, hint="`runs` lists the runs")
    if matrices is not None:
        read = read_matrices(read_text(matrices)).values()
        document = head | over_molecules([figures_of(matrix, threshold) for matrix in read], missing).columns()
    else:
        of = io.opened()
        only_with("references by ETKDG, not to --references", not references, per_molecule=per_molecule)
        request = EvaluationRequest(
            None if references is None else reference_set(of, references),
            per_molecule=per_molecule or PER_MOLECULE,
            threshold_ang=threshold,
            rule=missing,
            baseline=not no_baseline,
        )
        with progress.counting("molecules evaluated", is_quiet=io.is_json) as (seen, say):
            found = evaluate_run(of, str(run_id), request, workers=workers, progress=seen)
            say(now=True, run_id=found.entry.id, state="done")
        baseline = None
        if found.baseline is not None and found.clustered is not None:
            of_side = {"samples": found.clustered.samples, "incomplete": found.clustered.incomplete}
            baseline = found.baseline.columns() | of_side | {"method": "clustered RDKit conformers"}
        document = {  # shares are from 0 to 1, null where there is nothing to share
            "run_id": found.entry.id,
            "references": references and request.references and request.references.name,
            "etkdg_per_molecule": None if references else request.per_molecule,
            "reference_conformers": found.references,
            "without_references": found.without_references,
            "references_not_asked": found.not_asked,
            **head,
            **found.figures.columns(),
            "samples": found.run.samples,
            "incomplete": found.run.incomplete,
            "asked": found.asked,
            "baseline": baseline,
        }
    return io.show(document)


OF_SAMPLE = (
    "sample_id generation smiles heavy_atoms passed decodes clean stereo_right geometry_right usable failed "
    "strain_kcal strain_moved_ang strain_field"
).split()
RATES = {"passed": "samples", "decodes": "samples", "clean": "samples", "stereo_right": "stereo_judged",
         "geometry_right": "geometry_judged", "usable": "judged"}  # fmt: skip
"""Columns of a run, and what each is a share of."""


@command(app, "judge", rules=True)
def judge(
    io: Io,
    progress: Progress,
    run_id: str | None = ONE_RUN,
    text: str | None = option(None, "one answer in place of a run; - reads standard input"),
    smiles: str | None = option(None, "the molecule that the text should be (default: its own)"),
    strain: bool = option(False, "also the energy above the relaxed conformer (MMFF94)"),
    xtb: bool = option(False, "strain by GFN2-xTB, with tblite (requirements-xtb.txt)"),
    settings: Literal["mol_fast", "mol", "group"] = option("mol_fast", "PoseBusters' checks of geometry"),
    energy: bool = option(False, "its energy ratio too (settings mol, group; a second each)"),
    workers: int | None = WORKERS,
    limit: int | None = option(None, "seconds per molecule (default 60)", of=whole(86_400)),
) -> int:
    """whether molecules are right in space: stereo, geometry, strain

    Judges the molecules of a stored run, or of one text. What is judged of a run of your own is stored with it.
    """
    from engine.chem.judges import LIMIT_S
    from engine.chem.verdict import JudgeSettings, strain_per_atom
    from engine.inspection.judging import judge_run, judge_text

    one_of("a run or --text", run_id, text, hint="`runs` lists the runs")
    only_with("--text", text is not None, smiles=smiles)
    if energy and settings == "mol_fast":
        raise DriftscopeError("the settings mol_fast have no energy ratio", "Give --settings mol or group")
    by = JudgeSettings(settings, energy, "gfn2-xtb" if xtb else "force-field" if strain else None)
    if text is not None:
        return io.show(judge_text(given_text(text), smiles or "", by, limit_s=limit or LIMIT_S))
    with progress.counting("samples judged", is_quiet=io.is_json) as (seen, say):
        judged = judge_run(io.opened(), str(run_id), by, workers=workers, limit_s=limit or LIMIT_S, progress=seen)
        say(now=True, run_id=judged.entry.id, state="done")
    for unfinished in judged.not_finished:
        note(unfinished)
    if not judged.is_stored:
        where = judged.entry.files.where
        note(f"{judged.entry.id} lies in {where}, which is read-only: judged and printed, not stored")
    rows, of_texts = judged.rows, dict[str, Any]()
    for name in ("passed", "clean"):
        of_texts[name] = None if any(row[name] is None for row in rows) else sum(row[name] for row in rows)
    columns = {"samples": len(rows)} | of_texts | judged.columns
    right = [row for row in rows if row["geometry_right"] and "strain_kcal" in columns]
    shares = [share for row in right if (share := strain_per_atom(row)) is not None]
    moves = [row["strain_moved_ang"] for row in right if row["strain_moved_ang"] is not None]
    counts = ("judged", "stereo_judged", "stereo_sites", "stereo_sites_right", "geometry_judged")
    document = {
        "run_id": judged.entry.id,
        "stored": judged.is_stored,
        "judged_with": columns["judged_with"],
        **{name: columns.get(name, 0) for name in counts},
        **{
            name: columns[name] / columns[of] if columns.get(of) and columns.get(name) is not None else None
            for name, of in RATES.items()
        },  # from 0 to 1, null where there is nothing to share
        "strain_kcal": columns.get("strain_kcal"),  # means over samples with right geometry
        "strain_kcal_per_atom": fmean(shares) if shares else None,
        "strain_moved_ang": fmean(moves) if moves else None,
        "samples": [{name: row[name] for name in OF_SAMPLE} for row in rows],
    }
    return io.show(document)


@command(app, "cost-of-lp")
def cost_of_lp(
    io: Io,
    progress: Progress,
    run_id: str = RUN_ID,
    kept: bool = option(False, "only samples with kept steps; needs no model"),
    samples: int | None = option(None, "the first N (default: all)", of=whole(100_000)),
    batch_size: int = option(8, "samples that are scored at once", of=whole(4_096)),
    device: str = option("auto", "auto (a GPU if there is one), cpu, cuda, mps"),
    threads: int | None = THREADS,
) -> int:
    """how far the LP of a run moved its model: log w, log p(C), effective samples

    Reads the run's kept steps. Samples without them are scored by the run's model in one pass over their stored tokens;
    nothing is generated. What is scored of a run of your own is stored with it, as its steps.
    """
    from engine.inspection.lp_cost import cost_of_run
    from engine.inspection.runs import run_facts
    from engine.questions.drift_lp_cost import PLACES, places_rows, sentences

    of = io.opened()
    facts = run_facts(of, run_id)
    how: dict[str, Any] = {"samples": 0, "tokens": 0, "seconds": 0.0, "stored": False}
    if kept:
        cost = cost_of_run(of, facts)
    else:
        from engine.live.score_run import score_run

        set_threads(threads)
        with progress.counting("samples scored", is_quiet=io.is_json) as (seen, say):
            scored = score_run(of, facts.run_id, most=samples or 0, device=device, batch_size=batch_size, progress=seen)
            say(now=True, run_id=scored.entry.id, state="done")
        if scored.samples and not scored.is_stored:
            where = scored.entry.files.where
            note(f"{facts.run_id} lies in {where}, which is read-only: scored and printed, not stored")
        how = {name: getattr(scored, name) for name in ("samples", "tokens", "seconds")} | {"stored": scored.is_stored}
        cost = scored.cost
    if io.is_json:
        return emit_json({"run_id": facts.run_id, "lp": facts.lp, "scored": how, **_plain(cost)})
    write("\n".join(sentences(cost, facts.lp or "the LP")))
    for where, places in zip(PLACES.values(), (cost.tenths, cost.parts, cost.elements), strict=True):
        if rows := places_rows(places):
            write("\n".join(["", where, *rows_lines(rows)]))
    return 0


def _plain(value: Any) -> Any:
    """As JSON: what is not finite is null."""
    if is_dataclass(value) and not isinstance(value, type):
        return _plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


# --- advice and claims ------------------------------------------------------------------------------------------------


@command(app, "advise", rules=True)
def advise(
    io: Io,
    progress: Progress,
    model: str | None = option(None, "ALIAS or ALIAS:STEP"),
    lp: list[str] | None = option(None, "a candidate; may be repeated (default: six)"),
    want: Literal["usable", "clean", "passed"] | None = option(None, "what counts (usable if all are judged)"),
    least: float = option(0.9, "required share of these", of=finite()),
    molecules: int | None = option(None, "also: time and yield for N molecules", of=MANY_MOLECULES),
    seed: int = option(0, "of a probe's samples", of=whole(MOST_SEED, 0)),
    sampling: str = option("", "setting: a preset (default: that of most LPs; for a probe, as `run`)"),
    batch_size: int | None = option(None, "setting", of=whole(4_096)),
    backend: str = option("", "setting: fast or hf"),
    device: str = option("", "setting: cpu, cuda or mps"),
    probe: int | None = option(None, "write N held-out molecules under each LP, and judge", of=MANY_MOLECULES),
    no_keep: bool = option(False, "do not keep the probe's runs in the store"),
    rmsd: int | None = RMSD,
    references: str | None = option(None, "--rmsd is to conformers of this set of the store"),
    threads: int | None = THREADS,
) -> int:
    """which LP to use for a model

    From measured runs of the store, or from a quick probe. Without a model it lists those with measured runs.
    """
    from engine.questions import ask, runs_of_model
    from engine.questions.compare_advice import CANDIDATES, setting_words, settings_of

    only_with("--rmsd", rmsd, references=references)
    of_probe = {"no_keep": no_keep, "rmsd": rmsd, "threads": threads, "progress": progress.progress}
    only_with("--probe", probe, **of_probe)
    only_with("--model", model, probe=probe)
    if model is None:
        return _advisable(io)
    lps, ids = [full_name(name) for name in lp or CANDIDATES], [model]
    setting = {"sampling": sampling, "batch_size": batch_size, "backend": backend, "device": device}
    with tempfile.TemporaryDirectory(prefix="driftscope-probe-") as passing:
        if probe is not None:
            only_with("the store, which --no-keep leaves aside", not no_keep, references=references)
            io = replace(io, store=passing) if no_keep else io
            more = {"rmsd": rmsd, "references": references, "store": io.store, "progress": progress.progress}
            found = _probe(model, lps, probe, {**setting, "seed": seed, "threads": threads}, more, progress.until_eof)
            if isinstance(found, int):
                return found
            ids, setting = found, {}
        of = io.opened()
        known = settings_of([run for id_ in ids for run in runs_of_model(of, id_)])
        asked = {name: value for name, value in setting.items() if value not in (None, "", "auto")}
        fits = [s for s in known if all(str(s[name]).startswith(str(value)) for name, value in asked.items())]
        if not fits:
            there = "; ".join(map(setting_words, known[:3]))
            raise DriftscopeError(f"no run of {model} has this setting, but {there}", "Give --probe 64 to measure it")
        given = {"advice_lps": lps, "advice_least": least, "advice_molecules": molecules or 10_000}
        given |= {"advice_setting": setting_words(fits[0])} if asked else {}
        given |= {"advice_want": want.capitalize()} if want else {}
        answered = ask(of, "compare_advice", ids, given)
        advice = {row["key"]: json.loads(row["value"]) for row in answered.tables["advice"].to_pylist()}
        if want not in (None, advice["want"]):
            raise DriftscopeError("not all answers have a verdict on their molecule", "`judge RUN` makes them")
        if not io.is_json:
            write_answer(of, "compare_advice", ids, given)
            write("\nTo know more:\n" + "\n".join(f"  {one_line(command)}" for command in advice["commands"]))
            return 0
    for row in () if molecules else advice["lps"]:
        del row["expected"]
    return emit_json(advice)


def _advisable(io: Io) -> int:
    """Models with measured runs, and the LPs of the setting that has most; no file but the sheets is opened."""
    from engine.questions import models_of
    from engine.questions.compare_advice import setting_of, setting_words, settings_of

    rows = []
    for model, entries in models_of(io.opened().found().entries).items():
        settings = settings_of(entries)
        names = {str(entry.row.get("lp") or "") for entry in entries if setting_of(entry) == settings[0]}
        lps = [*(lp for lp in LPS if lp in names), *sorted(names - set(LPS))]
        counts = {"model": model, "runs": len(entries), "settings": len(settings)}
        rows.append(counts | {"lps": lps, "setting": setting_words(settings[0])})
    io.show(rows)
    if not rows and not io.is_json:
        note("no model has measured runs; `python -m engine advise --model A --probe 64` makes some")
    return 0


def _probe(model: str, lps: Sequence[str], count: int, options: Row, more: Row, until_eof: bool) -> list[str] | int:
    """Runs over the LPs, then `judge`: after the last LP's time was taken, since judging needs all cores. Before it
    each LP writes two molecules that are thrown away, so that none pays for the start of the process. Gives the ids of
    the runs; the status of a command that failed or was stopped."""
    from engine.chem.molecule_sets import load_run_set
    from engine.cli.main import main

    if count < 4:
        raise DriftscopeError(f"a probe of {count} molecules is too small", "Give 4 or more; 64 tell something")
    if len(lps) < 2:
        raise DriftscopeError("a probe of one LP has nothing to compare", "Give --lp twice or more, or leave it out")

    def words_of(given: Row) -> list[str]:
        return [f"--{n.replace('_', '-')}={value}" for n, value in given.items() if value not in (None, "")]

    asked = [f"--model={model}", *(f"--lp={lp}" for lp in lps), *words_of(options)]
    smiles = load_run_set(count) if more["references"] else ["--sample-size", str(count)]
    with tempfile.TemporaryDirectory() as warm, redirect_stdout(StringIO()) as out:
        status = main(["run", *asked, "--sample-size", "2", "--max-new-tokens", "24", "--store", warm, "--json"])
        eof = ["--until-eof"] if until_eof else []
        status = status or main(["run", *asked, *smiles, *words_of(more), *eof, "--label", "probe", "--json"])
    ids = [row["run_id"] for row in json.loads(out.getvalue().strip().splitlines()[-1])] if not status else []
    for run_id in ids:
        with redirect_stdout(StringIO()):
            of_judge = words_of({"store": more["store"], "progress": more["progress"]})
            status = status or main(["judge", run_id, *of_judge])
    return status or ids


Verdict = Literal[
    "reproduced", "contradicted", "internally inconsistent", "not shown on these models", "not testable here"
]  # fmt: skip


@command(app, "claims")
def claims(
    io: Io,
    ids: list[str] | None = words(None, "CLAIM", "only these claims, in detail (default: all)"),
    report: Literal["000", "001", "002", "003", "004", "005"] | None = option(None, "only this report's claims"),
    verdict: Verdict | None = option(None, "only this verdict"),
    save_all: bool = option(False, "re-check all claims, and save the verdicts in data/claims/", "--save"),
) -> int:  # fmt: skip
    """the reports' claims, each checked now

    Every claim of the reports with a verdict that is computed now.
    """
    from engine.evidence.claims import load_claims
    from engine.evidence.verdicts import FILE, document, judge, judge_all, save

    every = load_claims()
    known = [claim.id for claim in every]
    if unknown := sorted(set(ids or []) - set(known)):
        raise DriftscopeError(f"there is no claim {unknown[0]}", nearest(unknown[0], known))
    if save_all:
        judgement = judge_all(io.opened())
        save(judgement)
        return io.show({"file": str(FILE), "counts": {str(name): count for name, count in judgement.counts.items()}})
    chosen = [claim for claim in every if claim.id in (ids or known) and report in (None, claim.report)]
    pairs = zip(chosen, judge(chosen, io.opened()), strict=True)
    rows = [document(claim, found) for claim, found in pairs if verdict in (None, found.verdict)]
    if io.is_json:
        return emit_json(rows)
    for row in rows if ids else ():
        io.show(row)
    if not ids:
        io.show(rows, "id section verdict reported measured unit subject")
    counted = Counter(row["verdict"] for row in rows)
    note(f"{len(rows)} claims: {', '.join(f'{counted[name]} {name}' for name in get_args(Verdict) if counted[name])}")
    return 0
