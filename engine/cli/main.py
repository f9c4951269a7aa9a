"""``python -m engine``: parses arguments, runs one command, turns errors into one line and exit status 2."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

from engine import __version__
from engine.errors import DEBUG, UNFORESEEN, DriftscopeError, one_line, raises_unforeseen, shown
from engine.figures.words import shortened
from engine.folders import keep_private

GROUPS = (
    "tokens",
    "molecules",
    "models",
    "generate",
    "logits",
    "run",
    "judge",
    "evaluate",
    "cost_of_lp",
    "ask",
    "runs",
    "references",
    "sql",
    "reports",
    "claims",
    "advise",
    "trace",
    "prepare",
    "lost_third",
    "train",
)
"""Modules of this package, each with ``add_commands(subparsers)``."""
MOST_MESSAGE_CHARS = 1_000


class OneLineParser(argparse.ArgumentParser):
    """argparse, but a mistake is one line on standard error instead of the usage text."""

    def error(self, message: str) -> NoReturn:
        sys.stderr.write(f"{self.prog}: {shortened(one_line(message), MOST_MESSAGE_CHARS)} (see {self.prog} --help)\n")
        sys.exit(2)

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        """argparse drops the value of ``--option=--`` and hands on an empty list, whatever the option's type."""
        if action.option_strings and "--" in arg_strings:
            raise argparse.ArgumentError(action, "'--' is no value")
        return super()._get_values(action, arg_strings)


def build_parser() -> argparse.ArgumentParser:
    parser = OneLineParser(prog="python -m engine", description="Driftscope's engine from a terminal.")
    parser.add_argument("--version", action="version", version=f"driftscope {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=OneLineParser)
    for group in GROUPS:
        import_module(f"engine.cli.{group}").add_commands(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    _make_streams_safe()
    keep_private()
    try:
        try:
            args = build_parser().parse_args(argv)
            return int(args.run(args) or 0)
        finally:
            sys.stdout.flush()  # here, where a failure can still be reported
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
