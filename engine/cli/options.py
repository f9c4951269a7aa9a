"""Options that several commands share, and what they stand for: a model, a plan of generation, molecules, a store."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from engine.cli.output import note, path_of, read_text
from engine.errors import ConstraintError, DriftscopeError, RegistryError, TextError, shown, unquoted
from engine.lp_records import LPS, GuardSettings, full_name, guard_checks, lp_record, split_cleanup
from engine.records import DESCRIPTORS, READER_HELP, READERS, RULES_HELP, BinFormat, NumberFormat

if TYPE_CHECKING:
    from engine.decode.plan import Plan
    from engine.models.registry import ModelEntry
    from engine.records import Molecule
    from engine.store.store import Store

Commands = argparse._SubParsersAction  # of argparse.ArgumentParser
Work = Callable[[argparse.Namespace], int | None]

MOST_GENERATIONS = 1_000
MOST_BATCH = 4_096
MOST_MOLECULES = 10_000_000
MOST_THREADS = 4_096
MOST_NUMBER = 1e9
MOST_COUNT = 1_000_000_000
MOST_SEED, MOST_DIGITS = 2**63 - 1, 19
MOST_SECONDS = 366 * 86_400
FILTERS = ("temperature", "top_k", "top_p", "min_p")


def add_command(
    commands: Commands[argparse.ArgumentParser],
    name: str,
    work: Work,
    what: str,
    description: str = "",
    *,
    store: bool = False,
    rules: bool = False,
) -> argparse.ArgumentParser:
    """A command with ``--json``, and with ``--store`` where it reads or writes a store.

    ``rules``: it says of texts whether they passed, decode and are clean, and its help what that means.
    """
    epilog = RULES_HELP if rules else None
    parser = commands.add_parser(name, help=what, description=description or what, epilog=epilog)
    parser.add_argument("--json", action="store_true", help="write one JSON document to standard output")
    if store:
        add_store_option(parser)
    parser.set_defaults(run=work, parser=type(parser))
    return parser


def whole(most: int, least: int = 1) -> Callable[[str], int]:
    """The type of an option that takes a whole number in this range."""

    def parse(text: str) -> int:
        digits = text.removeprefix("-") if least < 0 else text
        is_whole = digits.isascii() and digits.isdigit() and len(digits) <= MOST_DIGITS
        if not is_whole or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{shown(text)} is not a whole number from {least:,} to {most:,}")
        return int(text)

    return parse


def finite(
    most: float = MOST_NUMBER, *, least: float = -MOST_NUMBER, above: float = -math.inf
) -> Callable[[str], float]:
    """The type of an option that takes a number from ``least``, or above another, to ``most``; NaN is none."""
    lower = f"from {least:,.15g}" if above < least else f"above {above:,.15g}"

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not (least <= value <= most and value > above):  # so that NaN fails too
            raise argparse.ArgumentTypeError(f"{shown(text)} is not a number {lower} to {most:,.15g}")
        return value

    return parse


def _decimals(text: str) -> tuple[int, int]:
    least, _, most = text.partition("-")
    if not (least.isascii() and least.isdigit() and (not most or (most.isascii() and most.isdigit()))):
        raise argparse.ArgumentTypeError(f"{text!r} is not a range such as 1-4, or a number such as 4")
    return int(least), int(most or least)


# --- the options ------------------------------------------------------------------------------------------------------


def add_store_option(parser: Any) -> None:
    parser.add_argument(
        "--store", metavar="PLACE", help="a folder or s3://bucket/prefix (default: DRIFTSCOPE_STORE, else data/store)"
    )


def add_rmsd_option(group: Any) -> None:
    group.add_argument(
        "--rmsd",
        type=whole(1_000),
        nargs="?",
        const=10,
        metavar="K",
        help="RMSD to the nearest of K references by ETKDG (10), or of all that --references has",
    )


def add_molecule_option(group: Any, name: str, what: str) -> None:
    group.add_argument(name, type=whole(MOST_MOLECULES), metavar="N", help=what)


def add_decimals_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--least-decimals", type=int, choices=range(5), default=4, help="1 drops trailing zeros, 0 a trailing point too"
    )


def add_bins_option(parser: argparse.ArgumentParser) -> None:
    what = "binned numbers: bins of WIDTH angstrom from -RANGE to RANGE, such as 0.042 21"
    parser.add_argument("--bins", nargs=2, type=finite(), metavar=("WIDTH", "RANGE"), help=what)


def form_of(args: argparse.Namespace) -> NumberFormat:
    """The number format of --least-decimals, or of --bins where that is given."""
    if args.bins is None:
        return NumberFormat(least_decimals=args.least_decimals)
    try:
        return BinFormat(bin_ang=args.bins[0], range_ang=args.bins[1])
    except ValueError as error:
        raise TextError(str(error), "Give for example --bins 0.042 21") from error


def add_reader_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--reader", choices=READERS, default="strict", help=READER_HELP)


def add_threads_option(group: Any) -> None:
    group.add_argument("--threads", type=whole(MOST_THREADS), metavar="N", help="default: all cores that are idle now")


def add_model_options(parser: argparse.ArgumentParser, *, several: bool = False) -> None:
    group = parser.add_argument_group("model")
    action, more = ("append", "; may be repeated") if several else ("store", "")
    what = f"ALIAS or ALIAS:STEP (see `models`){more}"
    group.add_argument("--model", "--model-alias", metavar="A", action=action, help=what)
    group.add_argument("--step", "--model-step", metavar="S", help="the checkpoint (default: the last one)")
    group.add_argument("--model-path", metavar="DIR", help="folder of a checkpoint that is not registered")
    group.add_argument("--tokenizer-name", metavar="T", help="for --model-path: qwen3, llama3 or a path")
    group.add_argument("--device", default="auto", help="auto (a GPU if there is one), cpu, cuda, mps")
    add_threads_option(group)
    group.add_argument("--dtype", choices=("float32", "bfloat16", "float16"), help="default: as registered")
    group.add_argument("--attention", default="sdpa", choices=("sdpa", "eager"), help="for the backend hf")


def add_plan_options(parser: argparse.ArgumentParser, *, several: bool = False) -> None:
    group = parser.add_argument_group("generation")
    names, lps = ("--lp", "--processor-type"), f"{', '.join(LPS)}; default: exact"
    if several:
        group.add_argument(*names, action="append", metavar="NAME", help=f"{lps}; may be repeated")
        group.add_argument("--no-logit-processor", dest="lp", action="append_const", const="none", help="--lp none")
    else:
        lp = group.add_mutually_exclusive_group()
        lp.add_argument(*names, default="exact", metavar="NAME", help=f"{lps}; NAME+cleanup cleans up after")
        lp.add_argument("--no-logit-processor", dest="lp", action="store_const", const="none", help="--lp none")
    group.add_argument("--placeholder", default="", help="for a position LP (default: the LP's own)")
    group.add_argument("--decimals", type=_decimals, metavar="LEAST-MOST", help="such as 0-4 (default: the model's)")
    group.add_argument("--integer-digits", type=whole(6), metavar="N", help="at most (default: the model's)")
    about = "of bare heteroatoms in the text: [O], or [OH] with-hydrogens (default: the LP's own, else the model's)"
    group.add_argument("--descriptors", choices=DESCRIPTORS, help=about)
    guard = GuardSettings()
    for name, metavar, value, what in (
        ("--retries", "N", guard.retries, "how often a wrong block is drawn again"),
        ("--back", "N", guard.back, "how often a block may send the text back to an earlier one"),
        ("--most-thrown", "X", guard.most_thrown, "blocks that may be thrown away, for each that the molecule has"),
        ("--weigh", "N", guard.weigh, "draws per block that have to pass, 2 or more: estimates what share passes"),
        ("--guard", "CHECKS", ",".join(guard.checks), "what is checked of each block"),
    ):
        about = f"lp guarded: {what} (default: {value})"
        kind = {float: finite(), int: whole(MOST_COUNT, -MOST_COUNT)}.get(type(value), str)
        group.add_argument(name, type=kind, default=value, metavar=metavar, help=about)
    group.add_argument("--backend", default="fast", metavar="B", help="fast (ours) or hf (plain generate)")
    group.add_argument("--compile", action="store_true", help="compile the fast backend (takes minutes; for a GPU)")
    group.add_argument("--sampling", "--sampling-config", default="qwen3", metavar="P", help="a preset, such as greedy")
    for name in FILTERS:
        kind = whole(MOST_COUNT, -MOST_COUNT) if name == "top_k" else finite()
        group.add_argument(f"--{name.replace('_', '-')}", type=kind, metavar="X", help="overrides the preset")
    group.add_argument(
        "--n", "--num-generations", type=whole(MOST_GENERATIONS), default=1, metavar="N", help="samples per molecule"
    )
    group.add_argument("--seed", type=whole(MOST_SEED, -MOST_SEED), default=0)
    group.add_argument("--batch-size", type=whole(MOST_BATCH), default=32)
    group.add_argument("--max-new-tokens", type=int, metavar="N", help="default: by the molecule's size")
    group.add_argument(
        "--time-limit", type=finite(MOST_SECONDS), metavar="S", help="seconds for all molecules together"
    )
    group.add_argument("--equal-work", action="store_true", help="every sample as long as the exact LP's")
    group.add_argument(
        "--candidates", type=whole(1_000), default=10, metavar="N", help="likely tokens kept per step (10)"
    )
    group.add_argument("--diagnostics", action="store_true", help="token probabilities at each step; slower")


# --- what they stand for ----------------------------------------------------------------------------------------------


def open_store(args: argparse.Namespace, *, to_read: bool = False) -> Store:
    """``to_read``: an empty answer may come of a folder that is not there, and that is said."""
    from engine.store.files import LocalFiles
    from engine.store.store import Store

    store = Store.open(named := getattr(args, "store", None))
    if to_read and named and isinstance(store.home, LocalFiles) and not store.home.root.exists():
        note(f"{shown(store.home.where, 200)} does not exist: it reads as an empty store")
    return store


def set_threads(threads: int | None) -> None:
    import torch

    from engine.models.devices import idle_cores

    torch.set_num_threads(threads or min(torch.get_num_threads(), idle_cores()))


def entry_of(args: argparse.Namespace, model: str | None = None) -> ModelEntry:
    """The model of the command line; ``model`` picks one of several."""
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


def plan_of(args: argparse.Namespace, numbers: NumberFormat, lp: str | None = None) -> Plan:
    """The plan of the command line for a model that writes such ``numbers``; ``lp`` picks one of several."""
    from engine.decode.plan import Plan
    from engine.decode.presets import preset

    least, most = args.decimals or (numbers.least_decimals, numbers.most_decimals)
    try:
        form = NumberFormat(least, most, args.integer_digits or numbers.most_integer_digits)
    except ValueError as error:
        raise ConstraintError(f"there is no such number format: {error}", "Give for example --decimals 1-4") from error
    if getattr(args, "bins", None) is not None:
        form, record = form_of(args), lp_record(split_cleanup(lp or args.lp)[0])
        if record.is_guarded or record.name == "truncating":
            raise ConstraintError(f"the LP {record.name} reads decimals, no bins", "Use exact, or leave --bins out")
    filters = {name: getattr(args, name) for name in FILTERS if getattr(args, name) is not None}
    return Plan(
        lp=full_name(lp or args.lp),
        placeholder=args.placeholder,
        form=form,
        descriptors=args.descriptors,
        backend=args.backend,
        compile=args.compile,
        sampling=replace(preset(args.sampling), **filters),
        generations=args.n,
        seed=args.seed,
        batch_size=args.batch_size,
        limit=args.max_new_tokens,
        time_limit_s=args.time_limit,
        diagnostics=args.diagnostics,
        candidates=args.candidates,
        equal_work=args.equal_work,
        guard=GuardSettings(args.retries, args.back, guard_checks(args.guard), args.most_thrown, args.weigh),
    )


MOST_LINES = 100_000
"""All are held parsed, 20 KB each; ``run --smiles-file`` holds none."""
_LINE_ENDS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"


def smiles_of(words: Sequence[str], file: str | None = None) -> list[str]:
    """SMILES that were typed, piped in (``-``), or stand in a file; the first word of a line, as in .smi files."""
    texts = ([read_text("-")] if list(words) == ["-"] else []) + ([read_text(file)] if file else [])
    if any(text.count(end) > MOST_LINES for text in texts for end in _LINE_ENDS):
        raise DriftscopeError(f"over {MOST_LINES:,} lines of molecules are given", "Split them")
    smiles = [] if list(words) == ["-"] else list(words)
    smiles += [columns[0] for text in texts for line in text.splitlines() if (columns := line.split())]
    if not smiles:
        raise DriftscopeError("no molecule is given", "Give one SMILES or more, - for standard input, or --file")
    return smiles


def read_molecules(smiles: Sequence[str], file: str | None = None) -> tuple[list[Molecule], list[dict[str, str]]]:
    """The molecules that can be read, and the others with what is wrong; an error where none is left. A ``file`` may be
    of another kind, so nothing of it is quoted that is no SMILES."""
    from engine.chem.enriched import skeleton_of
    from engine.chem.smiles import parse_smiles

    molecules, skipped, last = [], [], None
    for number, text in enumerate(smiles, start=1):
        try:
            molecule = parse_smiles(text)
            skeleton_of(molecule)  # some molecules have no enriched form
            molecules.append(molecule)
        except DriftscopeError as error:
            last = error
            of_file = {"smiles": "", "error": f"molecule {number:,}: {unquoted(error)}"}
            skipped.append({"smiles": text, "error": str(error)} if file in (None, "-") else of_file)
    if file not in (None, "-") and not molecules:
        what = f"none of {len(smiles):,} lines of {shown(file)} is a molecule"
        raise DriftscopeError(what, "Give a file with SMILES, one per line")
    if last is not None and not molecules:
        raise last if len(smiles) == 1 else DriftscopeError(f"none of {len(smiles)} molecules can be read", str(last))
    for molecule_error in skipped:
        note(f"left out: {molecule_error['error']}")
    return molecules, skipped
