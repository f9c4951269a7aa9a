"""``prepare``: what the app needs beyond its Python packages: the two tokenizers' caches, and 3Dmol.js.

Without 3Dmol.js the app works, except for its 3D view. Without a tokenizer it does not work.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict, dataclass
from pathlib import Path

from engine import assets
from engine.cli.options import add_command
from engine.cli.output import emit_json, note, write
from engine.errors import AssetError, DriftscopeError
from engine.paths import STATIC

TOKENIZERS = ("qwen3", "llama3")


@dataclass(frozen=True, slots=True)
class AppPart:
    """One thing that the app needs, and what is wrong with it ("" when it is ready)."""

    name: str
    needed: bool  # whether the app does not work without it
    problem: str = ""


def prepare(static: Path, *, bring: bool) -> list[AppPart]:
    """The state of every part; with ``bring``, missing ones are made or downloaded first."""
    return [*(_tokenizer(name, bring=bring) for name in TOKENIZERS), _three_d_mol(static, bring=bring)]


def add_commands(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    what = "build the tokenizers' caches and download 3Dmol.js"
    parser = add_command(subparsers, "prepare", run, what, f"{what.capitalize()}. Ready parts are left as they are.")
    parser.add_argument("--check", action="store_true", help="make nothing; exit 2 when anything is missing")


def run(args: argparse.Namespace) -> int:
    if not args.check:
        note("preparing the tokenizers and 3Dmol.js: up to a minute the first time")
    parts = prepare(STATIC, bring=not args.check)
    if args.json:
        emit_json({"ready": not any(part.problem for part in parts), "parts": [asdict(part) for part in parts]})
    for part in parts:
        if part.problem:
            note(f"{part.name}: {part.problem}")
        elif not args.json:
            write(f"{part.name}: ready")
    if any(part.problem and not part.needed for part in parts):
        note("the app works without it, except for the 3D view")
    missing = [part for part in parts if part.problem and (part.needed or args.check)]
    return 2 if missing else 0


def _tokenizer(name: str, *, bring: bool) -> AppPart:
    # Imported here since every command of the terminal imports this module, and few need a tokenizer.
    from engine.text.tokenizer_build import built_in, folder_of
    from engine.text.tokenizers import load_tokenizer

    try:
        if bring:
            built_in(name)
        elif not folder_of(name).is_dir():
            raise AssetError(f"the tokenizer {name} is not built yet", "Run `make prepare`")
        load_tokenizer(name)
    except DriftscopeError as error:
        return AppPart(name, needed=True, problem=str(error))
    return AppPart(name, needed=True)


def _three_d_mol(static: Path, *, bring: bool) -> AppPart:
    try:
        (assets.bring_three_d_mol if bring else assets.three_d_mol)(static)
    except AssetError as error:
        return AppPart(assets.FILE_NAME, needed=False, problem=str(error))
    return AppPart(assets.FILE_NAME, needed=False)
