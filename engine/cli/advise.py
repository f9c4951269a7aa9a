"""``advise``: which LP to use for a model, from stored runs or from a quick probe."""

from __future__ import annotations

import argparse
from contextlib import closing, nullcontext
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from engine.cli.options import (
    MOST_BATCH,
    MOST_SEED,
    add_command,
    add_molecule_option,
    add_rmsd_option,
    add_threads_option,
    finite,
    open_store,
    set_threads,
    whole,
)
from engine.cli.output import StatusLine, bar, emit_json, note, show, table, write
from engine.cli.progress_option import add_progress_options, reporting, typed_command
from engine.errors import RunError, one_line
from engine.figures.words import angstrom, duration, percent, times, with_interval

if TYPE_CHECKING:
    from engine.cli.progress_option import Say
    from engine.evidence.advice.probe import ProbeStep
    from engine.evidence.advisor import Advice
    from engine.store.references import ReferenceSet
    from engine.store.store import Store


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_command(
        commands,
        "advise",
        run,
        "which LP to use for a model",
        "Which LP to use for a model, from measured runs of the store, or from a quick probe. Without a model it lists "
        "those with measured runs.",
        store=True,
        rules=True,
    )
    parser.add_argument("--model", metavar="A", help="ALIAS or ALIAS:STEP")
    parser.add_argument("--lp", action="append", metavar="NAME", help="a candidate; may be repeated (default: six)")
    wanted = ("usable", "clean", "passed")
    parser.add_argument("--want", choices=wanted, help="what counts (usable where all answers are judged, else clean)")
    parser.add_argument("--least", type=finite(), default=0.9, metavar="SHARE", help="required share of these (0.9)")
    add_molecule_option(parser, "--molecules", "also: time and yield for N molecules")
    parser.add_argument(
        "--seed", type=whole(MOST_SEED, 0), default=0, help="of the bootstrap, and of a probe's samples"
    )
    what = "Default: the setting that most LPs have runs of; for a probe, the defaults of `run`."
    group = parser.add_argument_group("setting", what)
    group.add_argument("--sampling", default="", metavar="P", help="a preset, such as greedy")
    group.add_argument("--batch-size", type=whole(MOST_BATCH), metavar="N")
    group.add_argument("--backend", default="", metavar="B", help="fast or hf")
    group.add_argument("--device", default="", metavar="D", help="cpu, cuda or mps")
    group = parser.add_argument_group("probe")
    add_molecule_option(group, "--probe", "write N held-out molecules under each LP, and judge them")
    group.add_argument("--no-keep", action="store_true", help="do not keep the probe's runs in the store")
    add_rmsd_option(group)
    group.add_argument("--references", metavar="NAME", help="--rmsd is to conformers of this set of the store")
    add_threads_option(group)
    add_progress_options(parser)


def run(args: argparse.Namespace) -> int:
    from engine.evidence.advice.settings import CANDIDATES, SettingFilter
    from engine.evidence.advisor import ANY, AdviceRequest, advise
    from engine.lp_records import full_name

    if args.references and not args.rmsd:
        raise RunError("--references is what --rmsd is taken to", "Give --rmsd too, with --probe N")
    if args.probe is None and (args.no_keep or args.rmsd or args.threads or args.progress):
        what = "--no-keep, --rmsd, --threads and --progress belong to --probe"
        raise RunError(what, "Give --probe N, or leave them out")
    store = open_store(args)
    if args.model is None:
        if args.probe is not None:
            raise RunError("a probe needs a model", "Give --model; `models` lists those there are")
        return _list_models(store, is_json=args.json)
    lps = tuple(dict.fromkeys(full_name(lp) for lp in args.lp or CANDIDATES))
    setting = SettingFilter(args.sampling, args.batch_size, args.backend, "" if args.device == "auto" else args.device)
    request = AdviceRequest(lps=lps, want=args.want, least=args.least, filter=setting, seed=args.seed)
    if args.probe is None:
        _show(advise(store, args.model, request), args)
        return 0
    from engine.evidence.advice.probe import passing_store
    from engine.store.references import reference_set

    references = None if args.references is None else reference_set(store, args.references)
    with passing_store() if args.no_keep else nullcontext(store) as place:
        run_ids = _probe_runs(args, place, lps, references)
        _show(advise(place, args.model, replace(request, filter=ANY, runs=run_ids)), args)
    return 0


def _probe_runs(
    args: argparse.Namespace, store: Store, lps: tuple[str, ...], references: ReferenceSet | None
) -> tuple[str, ...]:
    """Writes a run for each LP, then judges them, with progress on standard error and in the progress file."""
    from engine.evidence.advice.probe import Probe, probe
    from engine.inspection.judging import judge_run
    from engine.models.loading import load_model
    from engine.models.registry import load_registry

    entry = load_registry().find(args.model)
    options = {"sampling": args.sampling, "batch_size": args.batch_size, "backend": args.backend, "device": args.device}
    given: dict[str, Any] = {name: value for name, value in options.items() if value}
    request = Probe(args.probe, lps, rmsd=args.rmsd or 0, references=references, seed=args.seed, **given)
    set_threads(args.threads)
    with reporting(args) as say:
        say_model = partial(say, model_alias=entry.alias, model_step=entry.step)
        display = _ProbeDisplay(say_model, len(lps), args.probe, is_quiet=args.json)
        steps = probe(store.home, load_model(entry, request.device), request, source=typed_command("advise"))
        try:
            with closing(steps):
                for step in steps:
                    display.step(step)
            for place, run_id in enumerate(display.kept):  # after the last time was taken: judging needs all cores
                judged = judge_run(store, run_id, workers=args.threads, progress=partial(display.judged, place))
                for words in judged.not_finished:
                    note(words)
            display.end()
        except KeyboardInterrupt:
            display.line.clear()
            lost = "the unfinished run was discarded" if len(display.kept) < len(lps) else "not every run was judged"
            ids = ", ".join(display.kept)
            note(f"{lost}; finished runs are kept: {ids}" if ids and not args.no_keep else lost)
            raise
        finally:
            display.line.clear()
    return tuple(display.kept)


class _ProbeDisplay:
    """How far a probe is: a line that is redrawn on a terminal, else one per LP; and the progress file.

    The file has a part for each LP, and a last one for judging what all of them wrote.
    """

    def __init__(self, say: Say, lps: int, molecules: int, *, is_quiet: bool) -> None:
        self.say, self.lps, self.samples, self.is_quiet = say, lps, lps * molecules, is_quiet
        self.line, self.last_number, self.kept = StatusLine(), -1, dict[str, str]()  # LPs by the ids of their runs

    def step(self, step: ProbeStep) -> None:
        progress = step.progress
        values = asdict(progress)
        del values["notes"]
        state = {"state": "done"} if step.is_kept else {}
        self.say(now=step.is_kept, part=step.number, parts=self.lps + 1, lp=step.lp, **values, **state)
        if step.is_kept:
            self.kept[progress.run_id] = step.lp
        name = f"{step.number + 1}/{self.lps} {step.lp}:"
        done = f"{name} {progress.done}/{progress.samples} samples"
        self.line.draw(f"{bar((step.number + progress.work) / self.lps)} {done}", now=progress.done == progress.samples)
        self._note(step.number, f"{name} {progress.samples} samples, {progress.run_id}")

    def judged(self, place: int, done: int, samples: int) -> None:
        done += place * samples
        self._say_judging(place, done)
        self.line.draw(f"{bar(done / self.samples)} {done}/{self.samples} samples judged", now=done == self.samples)
        self._note(self.lps, f"judging {self.samples} samples")

    def end(self) -> None:
        self._say_judging(self.lps - 1, self.samples, now=True, state="done")

    def _say_judging(self, place: int, done: int, **more: Any) -> None:
        run_id, lp = list(self.kept.items())[place]
        part = {"part": self.lps, "parts": self.lps + 1, "lp": lp, "run_id": run_id, "task": "judging"}
        self.say(**part, done=done, samples=self.samples, **more)

    def _note(self, number: int, words: str) -> None:
        """Once a number, where no line is redrawn."""
        if not self.line.is_shown and not self.is_quiet and number != self.last_number:
            self.last_number = number
            note(words)


def _list_models(store: Store, *, is_json: bool) -> int:
    from engine.evidence.advisor import models_with_data

    rows = [asdict(model) for model in models_with_data(store)]
    lps = ("LPs", lambda row: ", ".join(map(one_line, row["lps"])))
    show(rows, (("model", "model"), ("runs", "runs"), lps, ("setting with most LPs", "setting")), is_json=is_json)
    if not rows and not is_json:
        note("no model has measured runs; `python -m engine advise --model A --probe 64` makes some")
    return 0


def _show(advice: Advice, args: argparse.Namespace) -> None:
    from engine.evidence.advice.document import document

    if args.json:
        emit_json(document(advice, args.molecules))
        return
    write(one_line(f"{advice.model}: {advice.setting.words}; {advice.measured.molecules} molecules") + "\n")
    write("\n".join(map(one_line, [advice.sentence, *advice.cautions])) + "\n")
    if advice.measured.lps:
        write(table(_columns(advice, args.molecules), _rows(advice, args.molecules)) + "\n")
    lps = zip(advice.measured.names, advice.reasons, strict=True)
    parts = {
        "Why": [*(f"{lp}: {reason}" for lp, reason in lps), advice.rule],
        "The reports' rule": [sentence for sentence in (advice.reports.sentence, advice.reports.detail) if sentence],
        "Not known": advice.unknown,
        "Left out": [
            *(f"{other.runs} of another setting: {other.differs}" for other in advice.others),
            *advice.left_out,
        ],
        "To know more": advice.commands,
    }
    write("\n\n".join("\n  ".join([f"{title}:", *map(one_line, lines)]) for title, lines in parts.items() if lines))


def _columns(advice: Advice, molecules: int | None) -> tuple[str, ...]:
    more = () if molecules is None else (f"time for {molecules:,}", f"{advice.want} of them")
    rates = ("LP", "usable %", "clean %", "decodes %", "passed %", "s per sample")
    return (*rates, f"s per {advice.want} conformer", "vs best", "cut %", "letters %", "thrown %", "RMSD Å", *more)


def _rows(advice: Advice, molecules: int | None) -> list[list[str]]:
    from engine.evidence.advice import words

    rows = []
    for lp, standing in zip(advice.measured.lps, advice.decision.standings, strict=True):
        figures = (
            with_interval(lp.usable_rate, percent),
            with_interval(lp.clean_rate, percent),
            with_interval(lp.decodes_rate, percent),
            with_interval(lp.pass_rate, percent),
            words.cost_words(lp.seconds_a_sample),
            words.cost_words(lp.cost(advice.want)),
            "" if standing.over_least is None else with_interval(standing.over_least, times),
            with_interval(lp.cut_share, percent),
            with_interval(lp.letters_share, percent),
            "–" if lp.thrown_share is None else percent(lp.thrown_share),
            with_interval(lp.rmsd_ang, angstrom),
        )
        units = str.maketrans("", "", "%Å×")
        cells = [text.translate(units).replace(" s", "").replace("  ", " ").strip() for text in figures]
        if molecules is not None:
            expected = advice.expected_s(lp, molecules), advice.expected_usable(lp, molecules)
            cells += [duration(expected[0]), f"{expected[1]:,.0f}"]
        rows.append([lp.lp, *cells])
    return rows
