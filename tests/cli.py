"""Running the command line inside the test's own process, where starting Python for each call would take minutes."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from unittest import mock

from typer.core import TyperCommand

from engine.cli.main import main, root
from engine.cli.terminal import spelled_out


class Typed(io.TextIOWrapper):
    """What somebody types."""

    def isatty(self) -> bool:
        return True


@dataclass(frozen=True)
class Result:
    """What one call left behind."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> str:
        """The one line of a refused call."""
        assert self.code == 2, self
        assert self.out == ""
        assert self.err.endswith("\n")
        (line,) = self.err.splitlines()
        assert line.isprintable()
        return line


def run(*argv: str, stdin: bytes = b"", is_typed: bool = False, main: Callable[[Sequence[str]], int] = main) -> Result:
    out, err = io.StringIO(), io.StringIO()
    given = (Typed if is_typed else io.TextIOWrapper)(io.BytesIO(stdin), encoding="utf-8")
    umask = os.umask(0o022)  # as a system has it; a command takes more away, from its own process on
    with mock.patch.multiple(sys, stdout=out, stderr=err, stdin=given):
        try:
            code = main(argv)
        except SystemExit as stop:  # a command may end by itself
            code = stop.code if isinstance(stop.code, int) else 1
        finally:
            os.umask(umask)
    return Result(code, out.getvalue(), err.getvalue())


def run_json(*argv: str, stdin: bytes = b"") -> Any:
    result = run(*argv, "--json", stdin=stdin)
    assert (result.code, result.err) == (0, ""), result
    assert result.out.isascii()
    assert result.out.endswith("\n")
    assert len(result.out.splitlines()) == 1
    return result.document


def parsed(argv: Sequence[str]) -> SimpleNamespace:
    """The values of a command's parameters, which is not run."""
    with mock.patch.object(TyperCommand, "invoke", lambda self, ctx: ctx.params):
        words = spelled_out(argv)
        with root(words).make_context("engine", words) as context:
            return SimpleNamespace(**context.command.invoke(context))


def keys(document: Any, expected: Sequence[str]) -> bool:
    """Whether the document has at least these keys: those of the contract stay, others may come."""
    return set(expected) <= set(document)
