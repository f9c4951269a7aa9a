"""``prepare``: what the app needs beyond its Python packages, made or brought once.

The two tokenizers' caches are built, and 3Dmol.js is brought. Without 3Dmol.js the app works all the same, but for
its 3D view; without a tokenizer it does not.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from engine import assets
from engine.cli.main import emit_json
from engine.cli.output import json_option, write
from engine.errors import AssetError, DriftscopeError
from engine.paths import STATIC

TOKENIZERS = ("qwen3", "llama3")


@dataclass(frozen=True, slots=True)
class Part:
    """One thing that the app needs, and what is wrong with it ("" when it is ready)."""

    name: str
    needed: bool  # whether the app is of no use without it
    problem: str = ""


def prepare(static: Path, *, bring: bool) -> list[Part]:
    """Look at every part; with ``bring``, make or fetch what is missing first."""
    return [*(_tokenizer(name, bring=bring) for name in TOKENIZERS), _three_d_mol(static, bring=bring)]


def add_commands(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "prepare",
        parents=[json_option()],
        help="build the tokenizers' caches and bring 3Dmol.js",
        description="Build the tokenizers' caches and bring 3Dmol.js. What is ready already is left alone.",
    )
    parser.add_argument("--check", action="store_true", help="make nothing; exit 2 when anything is missing")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    if not args.check:
        print("preparing the tokenizers and 3Dmol.js: up to a minute the first time", file=sys.stderr)
    parts = prepare(STATIC, bring=not args.check)
    _report(parts, as_json=args.json)
    missing = [part for part in parts if part.problem and (part.needed or args.check)]
    return 2 if missing else 0


def _tokenizer(name: str, *, bring: bool) -> Part:
    # Imported here since every command of the terminal imports this module, and few need a tokenizer.
    from engine.text.tokenizer_build import folder_of
    from engine.text.tokenizers import load_tokenizer

    try:
        if not bring and not folder_of(name).is_dir():
            raise AssetError(f"the tokenizer {name} is not built yet", "Run `make prepare`")
        load_tokenizer(name)
    except DriftscopeError as error:
        return Part(name, needed=True, problem=str(error))
    return Part(name, needed=True)


def _three_d_mol(static: Path, *, bring: bool) -> Part:
    try:
        (assets.bring_three_d_mol if bring else assets.three_d_mol)(static)
    except AssetError as error:
        return Part(assets.FILE_NAME, needed=False, problem=str(error))
    return Part(assets.FILE_NAME, needed=False)


def _report(parts: list[Part], *, as_json: bool) -> None:
    if as_json:
        ready = not any(part.problem for part in parts)
        emit_json({"ready": ready, "parts": [asdict(part) for part in parts]})
    for part in parts:
        if part.problem:
            print(f"{part.name}: {part.problem}", file=sys.stderr)
        elif not as_json:
            write(f"{part.name}: ready")
    if any(part.problem and not part.needed for part in parts):
        print("the app works without it, but for the 3D view", file=sys.stderr)
