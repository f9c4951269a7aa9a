"""``generate``: molecules from SMILES, live, with any LP, from a terminal."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from engine.cli.generate_output import Show, document, write_sdf
from engine.cli.log_logits import add_log_options, names_of, recording
from engine.cli.main import emit_json
from engine.cli.output import json_option, path_of, read_text
from engine.cli.profiled import add_profile_options, add_profile_store, check_profile, profiling
from engine.errors import ConstraintError, DriftscopeError, RegistryError
from engine.records import NumberFormat

if TYPE_CHECKING:
    from engine.decode.plan import Plan
    from engine.models.registry import ModelEntry
    from engine.records import Molecule

MOST_GENERATIONS = 1_000
MOST_BATCH = 4_096
FILTERS = ("temperature", "top_k", "top_p", "min_p")


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "generate",
        parents=[json_option()],
        help="3D structures of molecules, written by a model under any LP",
        description="A model writes the 3D structure of each molecule as text, under any LP or under none.",
    )
    parser.add_argument("smiles", nargs="*", metavar="SMILES", help="molecules; - reads standard input, one a line")
    parser.add_argument("--file", help="SMILES from a file, one a line")
    add_model_options(parser)
    add_plan_options(parser)
    parser.add_argument("--sdf", metavar="FILE", help="write all conformers that can be read as SDF")
    add_profile_options(parser, "generate")
    add_profile_store(parser)
    add_log_options(parser)
    parser.set_defaults(run=run)


def add_model_options(parser: argparse.ArgumentParser, *, several: bool = False) -> None:
    group = parser.add_argument_group("model")
    action, more = ("append", "; may be given several times") if several else ("store", "")
    what = f"ALIAS or ALIAS:STEP (see `models`){more}"
    group.add_argument("--model", "--model-alias", metavar="A", action=action, help=what)
    group.add_argument("--step", "--model-step", metavar="S", help="the checkpoint; the alias's last one without it")
    group.add_argument("--model-path", metavar="DIR", help="a checkpoint's folder that no registry names")
    group.add_argument("--tokenizer-name", metavar="T", help="of --model-path: qwen3, llama3, a path; its own without")
    group.add_argument("--device", default="auto", help="auto (a GPU when there is one), cpu, cuda, mps")
    group.add_argument(
        "--threads", type=count("threads", 4_096), metavar="N", help="the cores that are idle without it"
    )
    group.add_argument("--dtype", choices=("float32", "bfloat16", "float16"), help="the registry's without it")
    group.add_argument("--attention", default="sdpa", choices=("sdpa", "eager"), help="of the backend hf")


def add_plan_options(parser: argparse.ArgumentParser, *, several: bool = False) -> None:
    group = parser.add_argument_group("generation")
    names = ("--lp", "--processor-type")
    if several:
        group.add_argument(*names, action="append", metavar="NAME", help="exact without it; may be given several times")
        group.add_argument("--no-logit-processor", dest="lp", action="append_const", const="none", help="--lp none")
    else:
        lp = group.add_mutually_exclusive_group()
        lp.add_argument(*names, default="exact", metavar="NAME", help="exact without it; +cleanup after")
        lp.add_argument("--no-logit-processor", dest="lp", action="store_const", const="none", help="--lp none")
    group.add_argument("--placeholder", default="", help="of a position LP; its own without it")
    group.add_argument("--decimals", type=_decimals, metavar="LEAST-MOST", help="of a number; the model's without it")
    group.add_argument("--integer-digits", type=count("digits", 6), metavar="N", help="at most; the model's without it")
    group.add_argument("--last-positions", type=int, default=2, metavar="N", help="kept free of , and - in a block")
    group.add_argument("--backend", default="fast", metavar="B", help="fast (ours) or hf (plain generate)")
    group.add_argument("--compile", action="store_true", help="the fast backend's layers: minutes first, for a GPU")
    group.add_argument("--sampling", "--sampling-config", default="qwen3", metavar="P", help="a preset, such as greedy")
    for name in FILTERS:
        kind = int if name == "top_k" else float
        group.add_argument(f"--{name.replace('_', '-')}", type=kind, metavar="X", help="in place of the preset's")
    group.add_argument("--n", "--num-generations", type=count("answers", MOST_GENERATIONS), default=1, metavar="N")
    group.add_argument("--seed", type=int, default=0)
    group.add_argument("--batch-size", type=count("rows", MOST_BATCH), default=32)
    group.add_argument("--max-new-tokens", type=int, metavar="N", help="by the molecule's size without it")
    group.add_argument("--time-limit", type=float, metavar="S", help="seconds, of all molecules together")
    group.add_argument("--equal-work", action="store_true", help="each answer as long as the exact LP's")
    group.add_argument(
        "--candidates", type=count("tokens", 1_000), default=10, metavar="N", help="likely tokens told of a step (10)"
    )
    group.add_argument("--diagnostics", action="store_true", help="what the model thought at each step; slower")


def count(what: str, most: int) -> Any:
    def parse(text: str) -> int:
        if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is no number of {what} from 1 to {most:,}")
        return int(text)

    return parse


def _decimals(text: str) -> tuple[int, int]:
    least, _, most = text.partition("-")
    if not (least.isascii() and least.isdigit() and (not most or (most.isascii() and most.isdigit()))):
        raise argparse.ArgumentTypeError(f"{text!r} is not like 1-4 or 4")
    return int(least), int(most or least)


def run(args: argparse.Namespace) -> int:
    entry = entry_of(args)
    plan = plan_of(args, entry.numbers)
    check_profile(args, elsewhere=False)
    molecules, skipped = read_molecules(smiles_of(args))
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
        show = Show(generation, is_quiet=args.json)
        if log is not None:
            generation.tap = log.tap(loaded, plan.sampling, plan.seed, names_of(generation))
        try:
            for event in generation.events():
                show.event(event)
        except KeyboardInterrupt:  # what is finished is not lost
            stopped = True
        show.close()
    if sdf is not None:
        write_sdf(sdf, generation.in_order())
    if args.json:
        emit_json(document(generation, skipped))
    if stopped:
        raise KeyboardInterrupt
    return 0


def set_threads(threads: int | None) -> None:
    import torch

    from engine.models.devices import idle_cores

    torch.set_num_threads(threads or min(torch.get_num_threads(), idle_cores()))


def entry_of(args: argparse.Namespace, model: str | None = None) -> ModelEntry:
    """The model that was asked for; ``model`` is one of several."""
    from engine.models.registry import entry_of_folder, load_registry

    if (args.model is None) == (args.model_path is None):
        raise RegistryError("give either --model or --model-path", "`models` lists the registered ones")
    if args.model_path is not None:
        if args.step:
            raise RegistryError("--step belongs to --model", "Leave it out, or name the checkpoint's own folder")
        return entry_of_folder(path_of(args.model_path), args.tokenizer_name)
    if args.tokenizer_name is not None:
        raise RegistryError("--tokenizer-name belongs to --model-path", "A registered model names its tokenizer")
    return load_registry().find(model or args.model, args.step)


def form_of(args: argparse.Namespace, own: NumberFormat) -> NumberFormat:
    least, most = args.decimals or (own.least_decimals, own.most_decimals)
    try:
        return NumberFormat(least, most, args.integer_digits or own.most_integer_digits)
    except ValueError as error:
        raise ConstraintError(f"there is no such number format: {error}", "Give for example --decimals 1-4") from error


def plan_of(args: argparse.Namespace, numbers: NumberFormat, lp: str | None = None) -> Plan:
    """What was asked for; ``lp`` is one of several."""
    from engine.decode.plan import Plan
    from engine.decode.presets import preset

    given = {name: getattr(args, name) for name in FILTERS if getattr(args, name) is not None}
    return Plan(
        lp=lp or args.lp,
        placeholder=args.placeholder,
        form=form_of(args, numbers),
        last_positions=args.last_positions,
        backend=args.backend,
        compile=args.compile,
        sampling=replace(preset(args.sampling), **given),
        generations=args.n,
        seed=args.seed,
        batch_size=args.batch_size,
        limit=args.max_new_tokens,
        time_limit_s=args.time_limit,
        diagnostics=args.diagnostics,
        candidates=args.candidates,
        equal_work=args.equal_work,
    )


def smiles_of(args: argparse.Namespace) -> list[str]:
    """What was typed, piped in, or stands in a file; the first word of a line, as in .smi files."""
    given = [] if args.smiles == ["-"] else list(args.smiles)
    texts = ([read_text("-")] if args.smiles == ["-"] else []) + ([read_text(args.file)] if args.file else [])
    given += [words[0] for text in texts for line in text.splitlines() if (words := line.split())]
    if not given:
        raise DriftscopeError("no molecule is given", "Give one SMILES or more, - for standard input, or --file")
    return given


def read_molecules(smiles: Sequence[str]) -> tuple[list[Molecule], list[dict[str, str]]]:
    """The molecules that can be read, and the others with what is wrong; an error where none is left."""
    from engine.chem.enriched import skeleton_of
    from engine.chem.smiles import parse_smiles

    molecules, skipped, last = [], [], None
    for text in smiles:
        try:
            molecule = parse_smiles(text)
            skeleton_of(molecule)  # some molecules have no enriched form
            molecules.append(molecule)
        except DriftscopeError as error:
            last = error
            skipped.append({"smiles": text, "error": str(error)})
    if last is not None and not molecules:
        raise last if len(smiles) == 1 else DriftscopeError(f"none of {len(smiles)} molecules can be read", str(last))
    for one in skipped:
        sys.stderr.write(f"left out: {one['error']}\n")
    return molecules, skipped
