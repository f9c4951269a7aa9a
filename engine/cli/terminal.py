"""What the commands share: how they are declared and read, their input, tables and JSON, progress, the store."""

from __future__ import annotations

import contextlib
import inspect
import itertools
import json
import os
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

import typer

from engine.errors import DriftscopeError, FileError, one_line, shown, visible
from engine.figures.text_tables import text_lines
from engine.jobs.progress import Say as Say
from engine.jobs.progress import telling
from engine.processes import stop_at_end_of_input
from engine.records import RULES_HELP
from engine.user_files import read_text

if TYPE_CHECKING:
    from engine.store.store import Store

MOST_TEXT_BYTES = 1024 * 1024  # its tokens take 300 times as much memory
MOST_SEED = 2**63 - 1


# --- commands ---------------------------------------------------------------------------------------------------------


SPREAD = {("drift", "--smiles"), ("export", "--as")}
"""Commands and their options that take all values behind them."""
MODEL_COMMANDS = ("list", "add", "rm")


def spelled_out(words: Sequence[str]) -> list[str]:
    """What scripts rely on, as typer reads it: ``drift --smiles A B`` is ``--smiles A --smiles B``, ``--rmsd`` alone is
    ``--rmsd=10``, ``--bins FILE`` is a pair whose second is empty, and ``models MODEL`` is ``models list MODEL``."""
    spelled, rest = list(words[:1]), list(words[1:])
    if spelled == ["ask"]:  # its options are the question's
        return list(words)
    if spelled == ["models"] and _names_no_command(rest):
        spelled.append("list")
    while rest and rest[0] != "--":
        word = rest.pop(0)
        values = list(itertools.takewhile(lambda value: value[:1] != "-" or value == "-", rest))
        name = word.partition("=")[0]
        if name == "--bins":
            spelled += [name, *_pair(word.partition("=")[1:], rest)]
        elif word == "--rmsd" and not values:
            spelled.append("--rmsd=10")
        elif (words[0], word) in SPREAD and values:
            spelled += [part for value in values for part in (word, value)]
            del rest[: len(values)]
        else:
            spelled.append(word)
    return [*spelled, *rest]


def _names_no_command(rest: Sequence[str]) -> bool:
    """Of ``models``: its first word is none, but a model."""
    return next((word for word in rest if word[:1] != "-"), "list") not in MODEL_COMMANDS


def _pair(behind: Sequence[str], rest: list[str]) -> list[str]:
    """``FILE`` and an empty one, or ``0.05 9``: ``behind`` a ``=``, else taken from the words behind it."""
    sign, joined = behind
    if sign and not joined:  # of a script's empty variable
        return ["", ""]
    if joined:
        pair = joined.split(" ") if _is_number(joined.partition(" ")[0]) else [joined]
    else:
        pair = rest[: 2 if rest and _is_number(rest[0]) else 1]
        del rest[: len(pair)]
    return [*pair, ""] if len(pair) == 1 else pair


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def flat(work: Callable[..., int | None]) -> Callable[..., int | None]:
    """The function with the fields of dataclasses as parameters, where its own are of such a type."""
    hints = get_type_hints(work)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
    params = []
    for name, parameter in inspect.signature(work).parameters.items():
        kind = groups.get(name)
        defaults = {field.name: field.default for field in fields(kind)} if kind else {name: parameter.default}
        annotations = get_type_hints(kind) if kind else hints
        for part, default in defaults.items():
            info: Any = copy(default)
            if annotations[part] in (bool, bool | None) and not info.param_decls:
                info.param_decls = (f"--{part.replace('_', '-')}",)  # and no --no-...
            if kind and not issubclass(kind, Output):
                info.rich_help_panel = f"{kind.__name__} options"
            params.append(inspect.Parameter(part, parameter.KEYWORD_ONLY, default=info, annotation=annotations[part]))

    def call(**given: Any) -> int | None:
        for name, kind in groups.items():
            given[name] = kind(**{field.name: given.pop(field.name) for field in fields(kind)})
        return work(**given)

    call.__signature__ = inspect.Signature(params)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in params}
    call.__doc__ = work.__doc__
    return call


def command(app: typer.Typer, name: str, *, rules: bool = False) -> Callable[[Callable[..., Any]], Any]:
    """Registers a function of typer's parameters. One of a dataclass means the dataclass's fields.

    ``rules``: it says of texts whether they passed, decode and are clean, and its help what that means.
    """

    register = app.command(name, epilog=RULES_HELP if rules else None)
    return lambda work: register(flat(work))


def new_app(name: str = "", about: str = "") -> typer.Typer:
    both = {"help_option_names": ["-h", "--help"]}
    how: Any = {"add_completion": False, "rich_markup_mode": "markdown"}
    return typer.Typer(name=name or None, help=about, context_settings=both, **how)


def option(default: Any, about: str = "", *names: str, of: Any = None, metavar: str | None = None) -> Any:
    """``of`` reads its text, or has the limits of a number. Its name is the parameter's where no other is given."""
    how = of if isinstance(of, dict) else {"parser": of}
    return typer.Option(default, *names, help=about, metavar=metavar, **how)


def words(default: Any, metavar: str, about: str = "") -> Any:
    return typer.Argument(default, metavar=metavar, help=about)


def most(most: float, least: float = 1) -> dict[str, float]:
    return {"min": least, "max": most}


MANY_MOLECULES = most(10_000_000)
JSON = option(False, "one JSON document on standard output", "--json")
STORE = option(None, "a folder (default: DRIFTSCOPE_STORE, else data/store)", metavar="PLACE")
THREADS = option(None, "default: all cores that are idle now", of=most(4_096), metavar="N")
RMSD = option(None, "to the nearest of K by ETKDG (10), or of all of --references", of=most(1_000), metavar="[K=10]")
RUN_ID = words(..., "RUN", "its id, or a part of it that no other has")


@dataclass(frozen=True, slots=True)
class Output:
    """What every command has: one document, as JSON or as text."""

    is_json: bool = JSON

    def show(self, document: Any, columns: str = "") -> int:
        if self.is_json:
            return emit_json(document)
        if document:
            write("\n".join(text_lines(document, columns)))
        return 0


@dataclass(frozen=True, slots=True)
class Io(Output):
    store: str | None = STORE

    def opened(self, *, to_read: bool = False) -> Store:
        """``to_read``: an empty answer may come of a folder that is not there, and that is said."""
        from engine.store.store import Store

        store = Store.open(self.store)
        if to_read and self.store and not store.home.root.exists():
            note(f"{shown(store.home.where, 200)} does not exist: it reads as an empty store")
        return store


def only_with(owner: str, is_given: object, **options: object) -> None:
    """An error where an option is given without its owner: ``only_with("--fit", fit, junk_weight=2.0)``."""
    for name, value in options.items():
        if value and not is_given:
            raise DriftscopeError(f"--{name.replace('_', '-')} belongs to {owner}", "Give both, or leave it out")


def picked(record: Any, names: str) -> dict[str, Any]:
    return {name: getattr(record, name) for name in names.split()}


def given(kind: Any, options: Any) -> dict[str, Any]:
    """Of options those that a dataclass of the engine has by the same name, and that are not None: it has defaults."""
    values = {field.name: getattr(options, field.name, None) for field in fields(kind)}
    return {name: value for name, value in values.items() if value is not None}


def one_of(choices: str, *options: object, hint: str) -> None:
    if sum(option is not None for option in options) != 1:
        raise DriftscopeError(f"give either {choices}", hint)


# --- input ------------------------------------------------------------------------------------------------------------


def given_text(text: str | None, file: str | None = None) -> str:
    """TEXT or the content of --file, whichever was given; TEXT may be ``-`` for standard input."""
    from engine.text.tokenizers import check_text

    one_of("a text or --file", text, file, hint="`-` means standard input")
    if file is not None or text == "-":
        return _text_of(file or "-")
    typed = text or ""
    with contextlib.suppress(UnicodeError):  # without a UTF-8 locale non-ASCII comes as lone surrogates
        typed = os.fsencode(typed).decode("utf-8")
    check_text(typed)
    return typed


def _text_of(file: str) -> str:
    """A text file's; what is no such file is named for what it is, where it is known."""
    from engine.file_forms import INSTEAD, training_form

    try:
        return read_text(file, MOST_TEXT_BYTES)
    except FileError as error:
        if file != "-" and (form := training_form(Path(file))):
            raise FileError(f"{shown(file, 200)} is {form.words}", INSTEAD) from error
        raise


# --- output -----------------------------------------------------------------------------------------------------------


def emit_json(document: object) -> int:
    """One JSON document on standard output; ASCII, so that any text survives any terminal. All of it, or nothing."""
    sys.stdout.write(json.dumps(document, allow_nan=False) + "\n")
    return 0


def write(text: str) -> None:
    """Lines on standard output. What cannot be seen, as a terminal's commands in a user's file, is escaped."""
    lines = (line if line.isprintable() else "".join(map(visible, line)) for line in text.split("\n"))
    sys.stdout.write("\n".join(lines) + "\n")


def note(text: str) -> None:
    """One line for people, on standard error."""
    sys.stderr.write(("\r\033[K" if sys.stderr.isatty() else "") + one_line(text) + "\n")  # over a line of progress


def note_left_out(lines: Sequence[str], of: int = 0, rest: str = "") -> None:
    """The first of it, on standard error; ``of`` how many, where they are not all given."""
    for line in lines[:10]:
        note(f"left out: {line}")
    if (more := max(of, len(lines)) - 10) > 0:
        note(f"left out: {more:,} more{rest}")


# --- progress ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Progress:
    """For programs that start a command."""

    progress: str | None = option(None, "append progress to FILE: two JSON lines a second", metavar="FILE")
    until_eof: bool = option(False, "stop, as with Ctrl-C, when standard input ends")

    def reporting(self, *, is_quiet: bool = False) -> contextlib.AbstractContextManager[Say]:
        if self.until_eof:
            signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background has it ignored
            threading.Thread(target=stop_at_end_of_input, daemon=True).start()
        path = None if self.progress is None else Path(self.progress)
        return telling(path, is_shown=sys.stderr.isatty() and not is_quiet)


def counting(say: Say, label: str) -> Callable[[int, int], None]:
    """What work calls with how much is done, and of how much: ``3/9 samples judged``."""

    def seen(done: int, whole: int) -> None:
        counts = {"done": done, label.split()[0]: whole}
        say(f"{done:,}/{whole:,} {label}", now=done == whole, work=done / max(whole, 1), **counts)

    return seen


def status(*, is_quiet: bool) -> contextlib.AbstractContextManager[Say]:
    """A terminal's line of progress alone."""
    return telling(None, is_shown=sys.stderr.isatty() and not is_quiet)


def typed_command(default: str) -> str:
    """The command line as a person would type it, for a run's source; paths as they were given. Without a server's
    address, which no run keeps."""
    is_typed = Path(sys.argv[0]).name in ("__main__.py", "main.py")
    words = sys.argv[1:] if is_typed else [default]
    watched = [
        before in ("--progress", "--url") or word.startswith(("--progress", "--until-eof", "--url"))
        for before, word in zip(["", *words], words, strict=False)
    ]
    return shlex.join(["python", "-m", "engine", *itertools.compress(words, [not part for part in watched])])
