"""``python -m engine``: reads the words, runs one command, turns errors into one line and exit status 2."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import typer
from typer.main import get_command

from engine import __version__
from engine.cli.terminal import new_app
from engine.errors import DEBUG, UNFORESEEN, DriftscopeError, one_line, raises_unforeseen, shown
from engine.figures.words import shortened
from engine.folders import keep_private

MODULES = {
    "text": ("tokens", "template", "drift", "junk", "encode", "decode"),
    "generate": ("models", "generate", "prepare"),
    "run": ("run",),
    "entries": ("runs", "annotate", "rm", "verify", "sql", "import", "export", "references"),
    "questions": ("ask", "show", "compare", "evaluate", "judge", "cost-of-lp", "advise", "claims", "trace", "logits"),
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


def main(argv: Sequence[str] | None = None) -> int:
    _make_streams_safe()
    keep_private()
    words = list(sys.argv[1:] if argv is None else argv)
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
        context = getattr(error, "ctx", None)
        program = context.command_path if context else PROGRAM
        message = shortened(one_line(error.format_message()), MOST_MESSAGE_CHARS)
        sys.stderr.write(f"{program}: {message} (see {program} --help)\n")
        return 2
    except DriftscopeError as error:
        return _fail(str(error))
    except BrokenPipeError:
        _drop_output()  # the reader, such as `head`, has ended
        return 0
    except OSError as error:
        _drop_output()
        name = f" {shown(error.filename, 200)}" if error.filename else ""
        return _fail(f"{error.strerror or error}{name}")
    except KeyboardInterrupt:
        return _fail("stopped", status=130)
    except UNFORESEEN as error:
        if raises_unforeseen():
            raise
        what = type(error).__name__  # its text may quote a file
        return _fail(f"an error that was not foreseen ({what}). `verify` finds damage; {DEBUG}=1 shows where", status=1)


def _fail(message: str, status: int = 2) -> int:
    sys.stderr.write(f"driftscope: {shortened(one_line(message), MOST_MESSAGE_CHARS)}\n")
    return status


def _drop_output() -> None:
    """Discards what could not be written, or the interpreter would try again at its end."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _make_streams_safe() -> None:
    if sys.stdout is None:  # closed by the parent process
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - as long as the process
    if sys.stderr is None:
        sys.stderr = sys.stdout
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)  # tests put plain StringIO in their place
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
