"""A command that another program started: lines of progress in a file, and an end when that program is gone.

Each line is one JSON object about one *part* of the work, a run or a report file: its number from 0 of how many, how
far it is, and in the end its ``state`` (``done``, ``there`` before, ``failed``).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any

from engine.cli.output import path_of

INTERVAL_S = 0.5
LAST_WORDS_S = 20.0
"""After the end of the input: longer than a step of any model, and then nothing is waited for."""
STOPPED = 130
_WITH_VALUE, _ALONE = "--progress", "--until-eof"

Say = Callable[..., None]


def add_watched_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("for a program that starts this")
    group.add_argument("--progress", metavar="FILE", help="append how far it is: two JSON lines a second at most")
    group.add_argument("--until-eof", action="store_true", help="stop, as Ctrl-C does, when standard input ends")


@contextmanager
def reporting(args: argparse.Namespace) -> Iterator[Say]:
    """What a command says to who watches it; ``now=True`` is never left out. Nobody hears it without --progress."""
    if args.until_eof:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background has it ignored
        threading.Thread(target=_leave_with_input, daemon=True).start()
    if not args.progress:
        yield lambda **_: None
        return
    with path_of(args.progress).open("a", encoding="utf-8", buffering=1) as file:
        yield _Lines(file).say


class _Lines:
    def __init__(self, file: IO[str]) -> None:
        self.file, self.said_s = file, 0.0

    def say(self, *, now: bool = False, **said: Any) -> None:
        if not now and time.monotonic() - self.said_s < INTERVAL_S:
            return
        self.said_s = time.monotonic()
        with contextlib.suppress(OSError):  # a full disk stops the work where it writes samples, not here
            self.file.write(json.dumps(said, allow_nan=False) + "\n")


def without_watching(words: Sequence[str]) -> list[str]:
    """A command line as a person would type it."""
    kept, rest = [], iter(words)
    for word in rest:
        if word == _WITH_VALUE:
            next(rest, None)
        elif word != _ALONE and not word.startswith(f"{_WITH_VALUE}="):
            kept.append(word)
    return kept


def _leave_with_input() -> None:
    if sys.stdin is not None:
        with contextlib.suppress(OSError, ValueError):
            while os.read(sys.stdin.fileno(), 1 << 16):
                pass
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(LAST_WORDS_S)
    os._exit(STOPPED)
