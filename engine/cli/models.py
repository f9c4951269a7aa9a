"""``models``: the registered models, from a terminal."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from engine.cli.options import add_command
from engine.cli.output import emit_json, note, table, write
from engine.errors import one_line

if TYPE_CHECKING:
    from engine.models.summary import ModelSummary

COLUMNS = ("model", "family", "tokenizer", "rows", "parameters", "on disk", "fits", "card")


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_command(
        commands,
        "models",
        run,
        "the registered models",
        "The registered models: size, tokenizer, the devices with room for them, their cards. "
        "DRIFTSCOPE_MODELS names a file with more; README.md shows one.",
    )
    parser.add_argument("model", nargs="?", help="only this model: ALIAS or ALIAS:STEP")


def run(args: argparse.Namespace) -> int:
    # Imported here since every command of the terminal imports this module.
    from engine.models.registry import load_registry
    from engine.models.summary import summarise

    registry = load_registry()
    entries = [registry.find(args.model)] if args.model else registry.entries
    summaries = [summarise(entry) for entry in entries]
    if args.json:
        emit_json([summary.as_json() for summary in summaries])
    elif summaries:
        write(table(COLUMNS, ([one_line(text) for text in _row(summary)] for summary in summaries)))
        for summary in summaries:
            about = [summary.entry.notes, "" if summary.problem else f"numbers: {summary.entry.numbers.words}"]
            if any(about):
                write(one_line(f"{summary.entry.name}: {'; '.join(filter(None, about))}"))
    else:
        write("no model is registered")
    for summary in summaries:
        for warning in summary.warnings:
            note(f"warning: {warning}")
        if summary.problem:
            name = summary.entry.name
            note(summary.problem if summary.problem.startswith(name) else f"{name}: {summary.problem}")
    return 2 if args.model and summaries[0].problem else 0


def _row(summary: ModelSummary) -> tuple[str, ...]:
    entry = summary.entry
    here = Path.cwd()
    card = (
        "-" if not entry.card else str(entry.card.relative_to(here) if entry.card.is_relative_to(here) else entry.card)
    )
    if summary.problem:
        return (entry.name, "-", entry.tokenizer, "-", "-", "-", "cannot be loaded", card)
    return (
        entry.name,
        summary.family or "-",
        entry.tokenizer,
        f"{summary.vocab_size:,}",
        f"{(summary.parameters or 0) / 1e6:.1f} M",
        f"{summary.size_mb:.1f} MB",
        ", ".join(summary.fits) or "no device",
        card,
    )
