"""``--progress`` and ``--until-eof``: a command that another program started reports to it, and ends with it.

Each line of the progress file is one JSON object about one *part* of the work, a run or a report file: its number from
0 of how many, how far it is, and in the end its ``state`` (``done``, ``there`` before, ``failed``). ``task`` says what
is done with the runs, where they are not being written.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shlex
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from engine.cli.output import path_of

INTERVAL_S = 0.5
GRACE_S = 20.0
"""After the end of the input: longer than a step of any model. Then the process ends at once."""
STOPPED = 130
_WITH_VALUE, _ALONE = "--progress", "--until-eof"

Say = Callable[..., None]


def add_progress_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("for programs that start this command")
    group.add_argument("--progress", metavar="FILE", help="append progress to FILE: at most two JSON lines per second")
    group.add_argument("--until-eof", action="store_true", help="stop, as with Ctrl-C, when standard input ends")


@contextmanager
def reporting(args: argparse.Namespace) -> Iterator[Say]:
    """A function that writes its keywords as a line of progress; ``now=True`` is never left out."""
    if args.until_eof:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background has it ignored
        threading.Thread(target=_stop_at_eof, daemon=True).start()
    if not args.progress:
        yield lambda **_: None
        return
    written_s = 0.0
    with path_of(args.progress).open("a", encoding="utf-8", buffering=1) as file:

        def say(*, now: bool = False, **values: Any) -> None:
            nonlocal written_s
            if now or time.monotonic() - written_s >= INTERVAL_S:
                written_s = time.monotonic()
                with contextlib.suppress(OSError):  # a full disk stops the work where it writes samples, not here
                    file.write(json.dumps(values, allow_nan=False) + "\n")

        yield say


def typed_command(default: str) -> str:
    """The command line as a person would type it, for a run's source; paths as they were given."""
    is_typed = Path(sys.argv[0]).name in ("__main__.py", "main.py")
    return shlex.join(["python", "-m", "engine", *(_without_progress(sys.argv[1:]) if is_typed else [default])])


def _without_progress(words: Sequence[str]) -> list[str]:
    kept, rest = [], iter(words)
    for word in rest:
        if word == _WITH_VALUE:
            next(rest, None)
        elif word != _ALONE and not word.startswith(f"{_WITH_VALUE}="):
            kept.append(word)
    return kept


def _stop_at_eof() -> None:
    if sys.stdin is not None:
        with contextlib.suppress(OSError, ValueError):
            while os.read(sys.stdin.fileno(), 1 << 16):
                pass
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(GRACE_S)
    os._exit(STOPPED)
