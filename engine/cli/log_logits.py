"""``--log-logits`` of ``generate`` and ``run``: what it takes, the file that it writes, and what is said of it then."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from engine.cli.output import path_of
from engine.errors import RunError

if TYPE_CHECKING:
    from engine.logits.recorder import LogFile, Recorded

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


@contextmanager
def recording(args: argparse.Namespace) -> Iterator[LogFile | None]:
    """The log that was asked for, open for as long as this lasts; what it has come to is said then."""
    check_log_options(args)
    if not args.log_logits:
        yield None
        return
    from engine.logits.recorder import LogFile, Wanted

    first, ids = args.log_logits
    path = path_of(args.logit_log or FILE)
    with LogFile(path, Wanted(first, ids)) as log:
        yield log
    tell(path, log.recorded)


def tell(path: Path, recorded: Recorded) -> None:
    """On standard error; an error where the log is not what tokens were drawn from."""
    checked = f"{recorded.checked - recorded.differing:,} of {recorded.checked:,} tokens are drawn alike from it"
    if not recorded.is_sound:
        raise RunError(f"{path} is not what was sampled from: {checked}", "Do not use it, and report this")
    sys.stderr.write(f"{path}: logits of {recorded.entries:,} tokens; {checked}\n")
