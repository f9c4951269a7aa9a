"""``generate``: molecules from SMILES, live, with any LP, from a terminal."""

from __future__ import annotations

import argparse

from engine.cli.generate_output import GenerationDisplay, document, write_sdf
from engine.cli.log_logits import add_log_options, names_of, recording
from engine.cli.options import (
    add_bins_option,
    add_command,
    add_model_options,
    add_plan_options,
    add_reader_option,
    entry_of,
    plan_of,
    read_molecules,
    set_threads,
    smiles_of,
)
from engine.cli.output import emit_json, path_of
from engine.cli.profile_options import add_profile_options, add_profile_store, check_profile, profiling


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_command(
        commands,
        "generate",
        run,
        "3D structures of molecules, written by a model under any LP",
        "A model writes the 3D structure of each molecule as text, under any LP or under none.",
        rules=True,
    )
    parser.add_argument("smiles", nargs="*", metavar="SMILES", help="molecules; - reads standard input, one per line")
    parser.add_argument("--file", help="a file with SMILES, one per line")
    add_model_options(parser)
    add_plan_options(parser)
    add_bins_option(parser)
    parser.add_argument("--sdf", metavar="FILE", help="write all readable conformers as SDF")
    add_reader_option(parser)
    add_profile_options(parser, "generate")
    add_profile_store(parser)
    add_log_options(parser)


def run(args: argparse.Namespace) -> int:
    entry = entry_of(args)
    plan = plan_of(args, entry.numbers)
    check_profile(args, elsewhere=False)
    molecules, skipped = read_molecules(smiles_of(args.smiles, args.file), args.file)
    # Imported here: every command of the terminal imports this module, and torch takes seconds.
    from engine.decode.generation import Generation
    from engine.models.loading import load_model
    from engine.profile.steps import aligned_samples

    sdf = None if args.sdf is None else path_of(args.sdf)
    set_threads(args.threads)
    loaded = load_model(entry, args.device, args.dtype, args.attention)
    stopped, label = False, f"{entry.name}, {plan.lp}"
    with (
        recording(args) as log,
        profiling(args, backend=plan.backend, label=label, align=lambda ids: aligned_samples(generation, ids)) as watch,
    ):
        generation = Generation(loaded, molecules, plan)
        generation.watch = watch
        display = GenerationDisplay(generation, is_quiet=args.json)
        if log is not None:
            generation.tap = log.tap(loaded, plan.sampling, plan.seed, names_of(generation))
        try:
            for event in generation.events():
                display.event(event)
        except KeyboardInterrupt:  # finished samples are kept
            stopped = True
        display.close()
    if sdf is not None:
        write_sdf(sdf, generation.in_order(), generation.form, args.reader)
    if args.json:
        emit_json(document(generation, skipped))
    if stopped:
        raise KeyboardInterrupt
    return 0
