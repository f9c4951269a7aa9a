"""``advise``: which LP to use for a model, from stored runs, or from a probe that writes and judges some first.

A probe is `run` over the LPs, then `judge`: after the last LP's time was taken, since judging needs all cores. Before
it each LP writes two molecules that are thrown away, so that none pays for the start of the process.
"""

from __future__ import annotations

import argparse
import io
import json
import tempfile
from collections.abc import Sequence
from contextlib import redirect_stdout
from typing import TYPE_CHECKING

from engine.cli.options import (
    MOST_BATCH,
    MOST_SEED,
    add_command,
    add_molecule_option,
    add_rmsd_option,
    add_threads_option,
    finite,
    open_store,
    whole,
)
from engine.cli.output import cell, emit_json, note, show, table, write
from engine.cli.progress_option import add_progress_options
from engine.errors import RunError, one_line

if TYPE_CHECKING:
    from engine.store.store import Store


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    about = "Which LP to use for a model, from measured runs of the store, or from a quick probe. Without a model it "
    about += "lists those with measured runs."
    parser = add_command(commands, "advise", run, "which LP to use for a model", about, store=True, rules=True)
    parser.add_argument("--model", metavar="A", help="ALIAS or ALIAS:STEP")
    parser.add_argument("--lp", action="append", metavar="NAME", help="a candidate; may be repeated (default: six)")
    wanted = ("usable", "clean", "passed")
    parser.add_argument("--want", choices=wanted, help="what counts (usable where all answers are judged, else clean)")
    parser.add_argument("--least", type=finite(), default=0.9, metavar="SHARE", help="required share of these (0.9)")
    add_molecule_option(parser, "--molecules", "also: time and yield for N molecules")
    parser.add_argument("--seed", type=whole(MOST_SEED, 0), default=0, help="of a probe's samples")
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
    from engine.questions.compare_advice import CANDIDATES, setting_words, settings_of

    if args.references and not args.rmsd:
        raise RunError("--references is what --rmsd is taken to", "Give --rmsd too, with --probe N")
    if args.probe is None and (args.no_keep or args.rmsd or args.threads or args.progress):
        what = "--no-keep, --rmsd, --threads and --progress belong to --probe"
        raise RunError(what, "Give --probe N, or leave them out")
    store = open_store(args)
    if args.model is None:
        if args.probe is not None:
            raise RunError("a probe needs a model", "Give --model; `models` lists those there are")
        return list_models(store, is_json=args.json)
    from engine.lp_records import full_name
    from engine.questions import ask, runs_of_model

    lps, ids = [full_name(lp) for lp in args.lp or CANDIDATES], [args.model]
    with tempfile.TemporaryDirectory(prefix="driftscope-probe-") as passing:
        if args.probe is not None:
            args.store = passing if args.no_keep else args.store
            if isinstance(found := probe(args, lps), int):
                return found
            store, ids = open_store(args), found
        known = settings_of([run for id_ in ids for run in runs_of_model(store, id_)])
        names = () if args.probe else ("sampling", "batch_size", "backend", "device")
        asked = {name: value for name in names if (value := getattr(args, name)) not in (None, "", "auto")}
        fits = [s for s in known if all(str(s[name]).startswith(str(value)) for name, value in asked.items())]
        if not fits:
            there = "; ".join(map(setting_words, known[:3]))
            raise RunError(f"no run of {args.model} has this setting, but {there}", "Give --probe 64 to measure it")
        given = {"advice_lps": lps, "advice_least": args.least, "advice_molecules": args.molecules or 10_000}
        given |= {"advice_setting": setting_words(fits[0])} if asked else {}
        given |= {"advice_want": args.want.capitalize()} if args.want else {}
        answered = ask(store, "compare_advice", ids, given)
    advice = {row["key"]: json.loads(row["value"]) for row in answered.tables["advice"].to_pylist()}
    if args.want not in (None, advice["want"]):
        raise RunError("not all answers have a verdict on their molecule", "`judge RUN` makes them; or --want clean")
    if args.json:
        for row in () if args.molecules else advice["lps"]:
            del row["expected"]
        emit_json(advice)
        return 0
    rows = answered.tables["each LP"].to_pylist()
    lead, _, notes = answered.answer.partition("\n\n")
    figures = table(list(rows[0]), [[cell(value) for value in row.values()] for row in rows]) if rows else ""
    commands = "\n".join(f"  {one_line(command)}" for command in advice["commands"])
    write(f"{lead}\n\n{figures}\n\n{notes}\nTo know more:\n{commands}")
    return 0


def list_models(store: Store, *, is_json: bool) -> int:
    """With the LPs of the setting that has most of them; no file but the sheets is opened."""
    from engine.lp_records import LPS
    from engine.questions import models_of
    from engine.questions.compare_advice import setting_of, setting_words, settings_of

    rows = []
    for model, entries in models_of(store.found().entries).items():
        settings = settings_of(entries)
        names = {str(entry.row.get("lp") or "") for entry in entries if setting_of(entry) == settings[0]}
        lps = [*(lp for lp in LPS if lp in names), *sorted(names - set(LPS))]
        counts = {"model": model, "runs": len(entries), "settings": len(settings)}
        rows.append(counts | {"lps": lps, "setting": setting_words(settings[0])})
    lps_column = ("LPs", lambda row: ", ".join(map(one_line, row["lps"])))
    show(rows, (("model", "model"), ("runs", "runs"), lps_column, ("most LPs under", "setting")), is_json=is_json)
    if not rows and not is_json:
        note("no model has measured runs; `python -m engine advise --model A --probe 64` makes some")
    return 0


def probe(args: argparse.Namespace, lps: Sequence[str]) -> list[str] | int:
    """The ids of the runs; the status of a command that failed or was stopped."""
    from engine.chem.molecule_sets import load_run_set
    from engine.cli.main import main

    if args.probe < 4:
        raise RunError(f"a probe of {args.probe} molecules is too small", "Give 4 or more; 64 tell something")
    if len(lps) < 2:
        raise RunError("a probe of one LP has nothing to compare", "Give --lp twice or more, or leave it out")
    if args.no_keep and args.references:
        raise RunError("--references are of the store, which --no-keep leaves aside", "Leave one of them out")
    model = ["--model", args.model, *(word for lp in lps for word in ("--lp", lp))]
    options = {"sampling": args.sampling, "batch_size": args.batch_size, "backend": args.backend, "seed": args.seed,
               "device": args.device, "threads": args.threads}  # fmt: skip
    model += [w for n, v in options.items() if v not in (None, "") for w in (f"--{n.replace('_', '-')}", str(v))]
    more = {"rmsd": args.rmsd, "references": args.references, "progress": args.progress, "store": args.store}
    words = [word for name, value in more.items() if value is not None for word in (f"--{name}", str(value))]
    words += ["--until-eof"] if args.until_eof else []
    smiles = load_run_set(args.probe) if args.references else ["--sample-size", str(args.probe)]
    with tempfile.TemporaryDirectory() as warm, redirect_stdout(io.StringIO()) as out:
        warm_up = ["run", *model, "--sample-size", "2", "--max-new-tokens", "24", "--store", warm, "--json"]
        status = main(warm_up) or main(["run", *model, *smiles, *words, "--label", "probe", "--json"][:])
    ids = [row["run_id"] for row in json.loads(out.getvalue().strip().splitlines()[-1])] if not status else []
    for run_id in ids:
        judge = ["judge", run_id, *(["--store", str(args.store)] if args.store else [])]
        with redirect_stdout(io.StringIO()):
            status = status or main([*judge, *(["--progress", args.progress] if args.progress else [])])
    return status or ids
