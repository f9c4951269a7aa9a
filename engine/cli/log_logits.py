"""``--log-logits`` of ``generate`` and ``run``: what it takes, the file that it writes, and what becomes of it then."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from engine.cli.output import path_of
from engine.errors import RunError

if TYPE_CHECKING:
    from engine.cli.watched import Say
    from engine.decode.generation import Generation
    from engine.logits.recorder import LogFile, Name, Recorded

FILE = "logits.jsonl.gz"
MOST_VALUES = 1_000_000


def add_log_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("logit log")
    group.add_argument(
        "--log-logits",
        type=_wanted,
        metavar="N",
        help="log the first N logits of every token, or those of token ids (as 17,24,25 or 17,); slower",
    )
    group.add_argument("--logit-log", metavar="FILE", help=f"where to; {FILE} without it, gz by its name")
    group.add_argument(
        "--add-log", action="store_true", help="read it into the store then, as `logits add` does; needs no file"
    )


def _wanted(text: str) -> tuple[int, tuple[int, ...]]:
    """A number of values and no ids, or ids and no number. A comma makes it ids."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts or not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number nor token ids such as 17,24,25")
    if "," in text:
        return 0, tuple(map(int, parts))
    if not 1 <= int(parts[0]) <= MOST_VALUES:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of values from 1 to {MOST_VALUES:,}")
    return int(parts[0]), ()


def check_log_options(args: argparse.Namespace) -> None:
    if args.logit_log and not args.log_logits:
        raise RunError("--logit-log belongs to --log-logits", "Give both, or leave it out")
    if args.add_log and not args.log_logits:
        raise RunError("--add-log belongs to --log-logits", "Give both, or leave it out")


def names_of(generation: Generation) -> Name:
    """A sample's SMILES, so that logs of two engines meet by it; with its number, where others have the same."""
    counts = Counter(molecule.smiles for molecule in generation.molecules)

    def name(sample_id: int) -> str:
        smiles = generation.molecule_of(sample_id).smiles
        is_alone = counts[smiles] == 1 and generation.plan.generations == 1
        return smiles if is_alone else f"{smiles} sample {sample_id}"

    return name


@contextmanager
def recording(args: argparse.Namespace, say: Say | None = None) -> Iterator[LogFile | None]:
    """The log that was asked for, open for as long as this lasts; what it has come to is said then."""
    check_log_options(args)
    if not args.log_logits:
        yield None
        return
    from engine.logits.recorder import LogFile, Wanted

    first, ids = args.log_logits
    with _place(args) as path:
        with LogFile(path, Wanted(first, ids)) as log:
            yield log
        tell(path if _is_kept(args) else "the log", log.recorded)
        if args.add_log:
            _add(args, path, say)


@contextmanager
def _place(args: argparse.Namespace) -> Iterator[Path]:
    """Where the log is written; a file that nobody asked for is gone once the store has it."""
    if _is_kept(args):
        yield path_of(args.logit_log or FILE)
        return
    with tempfile.TemporaryDirectory(prefix="driftscope-log-") as folder:
        yield Path(folder) / FILE


def _is_kept(args: argparse.Namespace) -> bool:
    return bool(args.logit_log) or not args.add_log


def _add(args: argparse.Namespace, path: Path, say: Say | None) -> None:
    """Into the store that the run is in. The first part of the run says what its log became."""
    from engine.logits.adding import AlreadyThere, Names, add_file
    from engine.store.store import Store

    store = Store.open(getattr(args, "store", None))
    found = add_file(store, path, Names(label=getattr(args, "label", None) or None))
    for entry in [one.entry if isinstance(one, AlreadyThere) else one for one in found]:
        sys.stderr.write(f"{entry.id} is in the store\n")
        if say is not None:
            say(now=True, part=0, parts=1, state="done", made=entry.id)


def tell(path: Path | str, recorded: Recorded) -> None:
    """On standard error; an error where the log is not what tokens were drawn from."""
    checked = f"{recorded.checked - recorded.differing:,} of {recorded.checked:,} tokens are drawn alike from it"
    if not recorded.is_sound:
        raise RunError(f"{path} is not what was sampled from: {checked}", "Do not use it, and report this")
    sys.stderr.write(f"{path}: logits of {recorded.entries:,} tokens; {checked}\n")
