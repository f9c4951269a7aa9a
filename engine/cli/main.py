"""``python -m engine``: reads the words, runs one command, turns errors into one line and exit status 2."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import typer
from typer.main import get_command

from engine import __version__
from engine.cli.terminal import new_app, spelled_out
from engine.errors import DEBUG, UNFORESEEN, DriftscopeError, one_line, shown
from engine.figures.words import shortened
from engine.processes import raise_open_files
from engine.user_files import keep_private

MODULES = {
    "text": "tokens template drift junk encode decode".split(),
    "models": ["models"],
    "generate": "generate run branch prepare".split(),
    "entries": "runs annotate rm verify sql import export references".split(),
    "handover": ["bundle"],
    "questions": "ask show compare evaluate judge lost explain cost-of-lp advise claims trace logits".split(),
    "beliefs": "belief resolution alphabets logprobs".split(),
}
"""Modules of this package, each an ``app`` with these commands; only the one that is asked for is imported."""
PROGRAM = "python -m engine"
MOST_MESSAGE_CHARS = 1_000


def root(argv: Sequence[str]) -> Any:
    """The commands: those of one module where ``argv`` begins with one of them, else all."""
    app = new_app(about="Driftscope's engine from a terminal.")

    def say(is_asked: bool) -> None:
        if is_asked:
            print(f"driftscope {__version__}")
            raise typer.Exit

    @app.callback()
    def engine(version: bool = typer.Option(False, "--version", is_eager=True, callback=say)) -> None: ...

    for name in [name for name, words in MODULES.items() if argv[:1] and argv[0] in words] or MODULES:
        app.add_typer(import_module(f"engine.cli.{name}").app)
    return get_command(app)


class _Stream(io.FileIO):
    """Standard output or standard error. What is lost by such an error is dropped, and the work goes on: a log that
    cannot be written ends no run, nor does a reader, such as ``head``, that has seen enough."""

    def __init__(self, number: int, dropped: type[OSError]) -> None:
        super().__init__(number, "w", closefd=False)
        self.dropped = dropped

    def write(self, content: Any) -> int:
        with contextlib.suppress(self.dropped):
            if (written := super().write(content)) is None:
                raise BlockingIOError(errno.EAGAIN, "it takes no more at present")
            return written
        return len(content)


def _open_streams(*, is_process: bool) -> None:
    """Of a process of its own, not of one that only calls `main`."""
    for name, dropped in (("stdout", BrokenPipeError), ("stderr", OSError)):
        stream = getattr(sys, name)
        if stream is None:  # closed by the parent process
            stream = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
        elif is_process:
            how = {"encoding": stream.encoding, "line_buffering": stream.line_buffering}
            stream = io.TextIOWrapper(io.BufferedWriter(_Stream(stream.fileno(), dropped)), **how)
        with contextlib.suppress(AttributeError):  # tests put plain StringIO in their place
            stream.reconfigure(errors="backslashreplace")
        setattr(sys, name, stream)


def main(argv: Sequence[str] | None = None) -> int:
    _open_streams(is_process=argv is None)
    keep_private()
    raise_open_files()
    words = spelled_out(sys.argv[1:] if argv is None else argv)
    status, program = 2, "driftscope"
    try:
        try:
            group = root(words)
            with group.make_context(PROGRAM, words) as context:
                return int(group.invoke(context) or 0)
        finally:
            sys.stdout.flush()  # here, where a failure can still be reported
    except typer.Exit as end:
        return end.exit_code
    except typer.TyperException as error:
        program = context.command_path if (context := getattr(error, "ctx", None)) else PROGRAM
        text = error.format_message().replace("Value error, ", "")
        message = f"{shortened(text, MOST_MESSAGE_CHARS - 100)} (see {program} --help)"
    except DriftscopeError as error:
        message = str(error)
    except OSError as error:
        _drop_output()
        if isinstance(error, BrokenPipeError) and str(error.filename).startswith("/dev/"):
            return 0  # an output that was named: /dev/stdout
        message = f"{error.strerror or error}{f' {shown(error.filename, 200)}' if error.filename else ''}"
    except KeyboardInterrupt:
        status, message = 130, "stopped"
    except UNFORESEEN as error:
        if os.environ.get(DEBUG) == "1":
            raise
        kind = type(error).__name__  # its text may quote a file
        status, message = 1, f"an error that was not foreseen ({kind}). `verify` finds damage; {DEBUG}=1 shows where"
    sys.stderr.write(f"{program}: {shortened(one_line(message), MOST_MESSAGE_CHARS)}\n")
    return status


def _drop_output() -> None:
    """Discards what could not be written, or the interpreter would try again at its end."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
