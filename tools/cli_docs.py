"""Write docs/cli.md from the command line's own help, and the table of docs/formats.md from the forms of files:
``python -m tools.cli_docs``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from engine.cli.main import PROGRAM, root
from engine.file_forms import COMMANDS, FORMS
from engine.paths import ROOT

FILE, FORMATS = ROOT / "docs" / "cli.md", ROOT / "docs" / "formats.md"
FORMS_HEAD = "| form | endings | becomes | read by | example below |\n|---|---|---|---|---|\n"
HEAD = f"""# The command line

Made from the command line's own help by `python -m tools.cli_docs`. `{PROGRAM} COMMAND --help` prints the same.

Each command exits 0, or 2 with one line on standard error that names the value and the remedy. With `--json` it prints
one JSON document on standard output; progress and logs go to standard error. A RUN is a run's id or a unique part of
it. `--store FOLDER` reads and writes another store than `data/store/`; `DRIFTSCOPE_STORE` does so for all commands.
"""
EVERYWHERE = {"--json", "--help", "--store"}


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in group.commands.items():
        if getattr(command, "commands", None):
            yield from commands(command, (*path, name))
        elif not command.hidden:
            yield (*path, name), command


def row(parameter: Any, context: Any) -> str:
    names, text = parameter.get_help_record(context)
    return f"| `{escaped(names)}` | {escaped(text).replace('<', '&lt;')} |"


def escaped(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def section(path: tuple[str, ...], command: Any) -> str:
    context = command.make_context(" ".join(path), [], resilient_parsing=True)
    parts = [f"## {' '.join(path)}", (command.help or "").strip()]
    shown = [param for param in command.params if not EVERYWHERE & {*param.opts} and param.get_help_record(context)]
    if shown:
        head = ("| argument or option | what it does |", "|---|---|")
        parts.append("\n".join((*head, *(row(param, context) for param in shown))))
    return "\n\n".join(parts)


def document() -> str:
    return "\n".join((HEAD, *(f"{section(*pair)}\n" for pair in commands(root([])))))


def forms_table() -> str:
    rows = []
    for form in FORMS:
        readers = ", ".join(f"`{COMMANDS[becomes]}`" for becomes in form.becomes)
        endings = " ".join(f"`{ending}`" for ending in form.endings)
        rows.append(f"| {form.words} | {endings} | {', '.join(form.becomes)} | {readers} | `{form.example}` |\n")
    return "".join(rows)


def with_forms_table(text: str) -> str:
    """The text of docs/formats.md with the rows that are true now."""
    before, head, rest = text.partition(FORMS_HEAD)
    return f"{before}{head}{forms_table()}{rest[rest.index(chr(10) * 2) + 1 :]}"


if __name__ == "__main__":
    FILE.write_text(document(), encoding="utf-8")
    FORMATS.write_text(with_forms_table(FORMATS.read_text(encoding="utf-8")), encoding="utf-8")
