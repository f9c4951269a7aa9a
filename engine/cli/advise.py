"""``advise``: which LP to use for a model, from stored runs or from a quick probe."""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from contextlib import closing
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.cli.generate import MOST_BATCH, count, set_threads
from engine.cli.main import emit_json
from engine.cli.output import bar, json_option, table, write
from engine.cli.run import MOST_MOLECULES, add_store_option
from engine.cli.watched import add_watched_options, reporting, without_watching
from engine.errors import RunError, one_line

if TYPE_CHECKING:
    from engine.cli.watched import Say
    from engine.evidence.advice.figures import LpFigures
    from engine.evidence.advice.probe import Probe, Step
    from engine.evidence.advisor import Advice, Asked
    from engine.store.files import Files
    from engine.store.store import Store

DRAW_S = 0.2


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "advise",
        parents=[json_option()],
        help="which LP to use for a model",
        description="Which LP to use for a model, from measured runs of the store, or from a quick probe. Without a "
        "model it lists those with measured runs.",
    )
    parser.add_argument("--model", metavar="A", help="ALIAS or ALIAS:STEP")
    parser.add_argument(
        "--lp", action="append", metavar="NAME", help="a candidate; may be given several times (five without it)"
    )
    parser.add_argument("--want", choices=("clean", "passed"), default="clean", help="what counts as usable (clean)")
    parser.add_argument("--least", type=float, default=0.9, metavar="SHARE", help="usable answers that fit (0.9)")
    parser.add_argument("--molecules", type=count("molecules", MOST_MOLECULES), metavar="M", help="also: what M take")
    parser.add_argument("--seed", type=int, default=0, help="of the draws, and of a probe's texts")
    group = parser.add_argument_group(
        "setting", "Without these: the one that most LPs have runs of; of a probe: run's."
    )
    group.add_argument("--sampling", default="", metavar="P", help="a preset, such as greedy")
    group.add_argument("--batch-size", type=count("rows", MOST_BATCH), metavar="N")
    group.add_argument("--backend", default="", metavar="B", help="fast or hf")
    group.add_argument("--device", default="", metavar="D", help="cpu, cuda or mps")
    group = parser.add_argument_group("probe")
    group.add_argument(
        "--probe", type=count("molecules", MOST_MOLECULES), metavar="N", help="write N held-out molecules under each LP"
    )
    group.add_argument("--no-keep", action="store_true", help="do not keep the probe's runs in the store")
    group.add_argument(
        "--rmsd", type=count("conformers", 1_000), nargs="?", const=10, metavar="K", help="to the nearest of K (10)"
    )
    group.add_argument("--threads", type=count("threads", 4_096), metavar="N")
    add_store_option(parser)
    add_watched_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from engine.evidence.advisor import advise, models_with_data
    from engine.store.store import Store

    if args.probe is None and (args.no_keep or args.rmsd or args.threads or args.progress):
        raise RunError(
            "--no-keep, --rmsd, --threads and --progress belong to --probe", "Give --probe N, or leave them out"
        )
    store = Store.open(args.store)
    if args.model is None:
        if args.probe is not None:
            raise RunError("a probe needs a model", "Give --model; `models` lists those there are")
        return _list(models_with_data(store), is_json=args.json)
    asked = _asked(args)
    if args.probe is None:
        _show(advise(store, args.model, asked), args)
    else:
        _show(_probed(args, store, asked), args)
    return 0


def _asked(args: argparse.Namespace) -> Asked:
    from engine.evidence.advice.settings import CANDIDATES, Wanted
    from engine.evidence.advisor import Asked
    from engine.lp.catalogue import full_name

    lps = tuple(dict.fromkeys(full_name(lp) for lp in args.lp or CANDIDATES))
    wanted = Wanted(args.sampling, args.batch_size, args.backend, "" if args.device == "auto" else args.device)
    return Asked(lps=lps, want=args.want, least=args.least, wanted=wanted, seed=args.seed)


def _probed(args: argparse.Namespace, store: Store, asked: Asked) -> Advice:
    from engine.evidence.advice.probe import passing_store
    from engine.evidence.advisor import ANY, advise

    def advice_of(place: Store) -> Advice:
        run_ids = _written(args, place.home, asked.lps)
        return advise(place, args.model, replace(asked, wanted=ANY, runs=run_ids))

    if not args.no_keep:
        return advice_of(store)
    with passing_store() as passing:
        return advice_of(passing)


def _written(args: argparse.Namespace, files: Files, lps: tuple[str, ...]) -> tuple[str, ...]:
    """A run for each LP, with progress on standard error, and for a program that watches."""
    from engine.evidence.advice.probe import probe
    from engine.models.loading import load_model
    from engine.models.registry import load_registry

    entry = load_registry().find(args.model)
    asked = _probe(args, lps)
    set_threads(args.threads)
    with reporting(args) as say:
        shown = _Shown(partial(say, model_alias=entry.alias, model_step=entry.step), is_quiet=args.json)
        steps = probe(files, load_model(entry, asked.device), asked, source=_command())
        try:
            with closing(steps):
                for step in steps:
                    shown.step(step)
        except KeyboardInterrupt:
            shown.close()
            kept = f"; kept are {', '.join(shown.kept)}" if shown.kept and not args.no_keep else ""
            sys.stderr.write(f"the LP in work is thrown away{kept}\n")
            raise
        finally:
            shown.close()
    return tuple(shown.kept)


def _probe(args: argparse.Namespace, lps: tuple[str, ...]) -> Probe:
    from engine.evidence.advice.probe import Probe

    usual = {"sampling": args.sampling, "batch_size": args.batch_size, "backend": args.backend, "device": args.device}
    given: dict[str, Any] = {name: value for name, value in usual.items() if value}
    return Probe(args.probe, lps, rmsd=args.rmsd or 0, seed=args.seed, **given)


class _Shown:
    """How far a probe is: a line on a terminal that somebody watches, else one an LP; and for a program that does."""

    def __init__(self, say: Say, *, is_quiet: bool) -> None:
        self.is_watched, self.is_quiet, self.drawn, self.told = sys.stderr.isatty(), is_quiet, 0.0, -1
        self.say, self.kept = say, list[str]()

    def step(self, step: Step) -> None:
        now = step.progress
        self._tell(step)
        if step.is_kept:
            self.kept.append(now.run_id)
        if self.is_watched and (time.monotonic() - self.drawn > DRAW_S or now.done == now.samples):
            self.drawn = time.monotonic()
            told = f"{step.number + 1}/{step.lps} {step.lp}: {now.done}/{now.samples} samples"
            sys.stderr.write(f"\r{bar((step.number + now.work) / step.lps)} {told}\033[K")
            sys.stderr.flush()
        elif not self.is_watched and not self.is_quiet and step.number != self.told:
            self.told = step.number
            sys.stderr.write(f"{step.number + 1}/{step.lps} {step.lp}: {now.samples} samples, {now.run_id}\n")

    def _tell(self, step: Step) -> None:
        said = asdict(step.progress)
        del said["notes"]
        more = {"state": "done"} if step.is_kept else {}
        self.say(now=step.is_kept, part=step.number, parts=step.lps, lp=step.lp, **said, **more)

    def close(self) -> None:
        if self.is_watched:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()


def _list(models: Any, *, is_json: bool) -> int:
    if is_json:
        emit_json([asdict(one) for one in models])
    elif models:
        rows = [[one.model, one.runs, ", ".join(map(one_line, one.lps)), one_line(one.setting)] for one in models]
        write(table(("model", "runs", "LPs", "setting with most LPs"), rows))
    else:
        sys.stderr.write("no model has measured runs; `python -m engine advise --model A --probe 64` makes some\n")
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
        "The reports' rule": [advice.reports.sentence],
        "Not known": advice.unknown,
        "Left out": [*(f"{one.runs} of another setting: {one.differs}" for one in advice.others), *advice.left_out],
        "To know more": advice.commands,
    }
    write("\n\n".join("\n  ".join([f"{title}:", *map(one_line, lines)]) for title, lines in parts.items() if lines))


def _columns(advice: Advice, molecules: int | None) -> tuple[str, ...]:
    more = () if molecules is None else (f"{molecules:,} take", f"{advice.asked.want} of them")
    rates = ("LP", "clean %", "passed %", "s a sample")
    return (*rates, f"s a {advice.asked.want} one", "x the least", "cut %", "letters %", "RMSD Å", *more)


def _rows(advice: Advice, molecules: int | None) -> list[list[str]]:
    from engine.evidence.advice import words

    found = []
    for one, standing in zip(advice.measured.lps, advice.decision.standings, strict=True):
        over = "" if standing.over_least is None else words.times(standing.over_least)
        shares = [words.percent(one.clean_rate), words.percent(one.pass_rate)]
        cost = [words.seconds(one.seconds_a_sample), words.seconds(one.cost(advice.asked.want)), over]
        rest = [words.percent(one.cut_share), words.percent(one.letters_share), words.angstrom(one.rmsd_ang)]
        units = str.maketrans("", "", "%Å×")
        cells = [cell.translate(units).replace(" s", "").replace("  ", " ").strip() for cell in (*shares, *cost, *rest)]
        found.append([one.lp, *cells, *_expected(advice, one, molecules)])
    return found


def _expected(advice: Advice, one: LpFigures, molecules: int | None) -> list[str]:
    from engine.evidence.advice.words import duration

    if molecules is None:
        return []
    return [duration(advice.expected_s(one, molecules)), f"{advice.expected_usable(one, molecules):,.0f}"]


def _command() -> str:
    """What was typed, for the runs' source."""
    typed = without_watching(sys.argv[1:]) if Path(sys.argv[0]).name in ("__main__.py", "main.py") else ["advise"]
    return shlex.join(["python", "-m", "engine", *typed])
