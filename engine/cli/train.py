"""``train``: train one of the embedded models, or continue its training."""

from __future__ import annotations

import argparse
import logging
import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING

from engine.cli.options import MOST_SECONDS, add_command, finite
from engine.cli.output import emit_json, write
from engine.errors import DriftscopeError
from engine.paths import cache_folder

if TYPE_CHECKING:
    from engine.training.recipes import Recipe
    from engine.training.trainer import TrainingState


def add_commands(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    description = "Train an embedded model on the packed corpus, or continue where the last call stopped."
    parser = add_command(subparsers, "train", run, "train an embedded model", description)
    parser.add_argument("--model", required=True, help="alias of a recipe in engine/training/recipes.py, as demo-qwen")
    end = parser.add_mutually_exclusive_group(required=True)
    end.add_argument("--hours", type=finite(), default=0.0, help="time of the whole training, over all calls")
    end.add_argument("--texts", type=int, default=0, help="or its length in texts, over all calls")
    parser.add_argument("--data", type=Path, help="the packed corpus (default: in the cache)")
    parser.add_argument("--held-out", type=Path, help="the packed held-out molecules (default: in the cache)")
    parser.add_argument("--out", type=Path, help="folder of the training (default: in the cache)")
    parser.add_argument("--start", type=Path, metavar="FILE", help="begin from another recipe's checkpoint")
    parser.add_argument("--device", default="auto", help="auto (a GPU if there is one), cpu, cuda")
    parser.add_argument("--precision", default="auto", choices=("auto", "fp32", "bf16"), help="auto: the faster one")
    parser.add_argument("--threads", type=int, default=0, help="0: one per core")
    parser.add_argument("--compile", action="store_true", help="compile the body: faster, needs a C++ compiler")
    parser.add_argument("--optimiser", default="muon", choices=("muon", "adamw"), help="of the body's matrices")
    parser.add_argument("--tokens-a-step", type=int, default=0, help="0: the recipe's; more on a GPU")
    parser.add_argument(
        "--examine-every",
        type=finite(MOST_SECONDS),
        default=240.0,
        dest="examine_s",
        metavar="S",
        help="seconds between evaluations",
    )
    parser.add_argument("--prompts", type=int, default=96, help="held-out molecules per evaluation")
    parser.add_argument("--snapshots", type=int, default=0, help="how many of the newest to keep; 0 keeps all")


def run(args: argparse.Namespace) -> int:
    # Imported here: every command of the terminal imports this module, and torch takes seconds.
    from engine.training.recipes import recipe_of
    from engine.training.trainer import Options, Training

    recipe = recipe_of(args.model)
    packed = _folder(args.data, "packed", "python -m engine.training.packing")
    held_out = _folder(args.held_out, "packed-held-out", "python -m engine.training.packing")
    out = args.out or cache_folder() / "training" / recipe.alias
    options = Options(**{field.name: getattr(args, field.name) for field in fields(Options)})
    with _logs_shown(), _sigterm_as_ctrl_c():
        state = Training(recipe, packed, held_out, out, options).run()
    card = _card(state, recipe, out)
    if args.json:
        emit_json(
            {name: getattr(state, name) for name in ("alias", "tokens", "texts", "steps", "spent_s", "pass_rate")}
        )
    else:
        write(f"{state.alias}: {state.tokens:,} tokens, {100 * state.pass_rate:.1f} % of the held-out prompts right")
        write(f"in {out}{f', card {card}' if card else ''}")
    return 0


def _card(state: TrainingState, recipe: Recipe, out: Path) -> Path | None:
    """The training's card; None where Pillow is missing, as on a machine that only trains."""
    from engine.training.trainer import LOG

    try:
        from engine.training.training_card import facts_from, write_training_card
    except ImportError as error:
        sys.stderr.write(f"no card was written: {error}\n")
        return None
    if not (out / LOG).is_file():
        return None
    command = f"python -m engine {shlex.join(sys.argv[1:])}"
    return write_training_card(out, facts_from(asdict(state), recipe, recipe.alias, "checkpoint", command), out / LOG)


@contextmanager
def _logs_shown() -> Iterator[None]:
    """The engine's log on standard error."""
    log, handler = logging.getLogger("engine"), logging.StreamHandler(sys.stderr)
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)


@contextmanager
def _sigterm_as_ctrl_c() -> Iterator[None]:
    """With SIGTERM a batch system ends a job's time: the training saves, and ends."""

    def stop(_signal: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _folder(given: Path | None, name: str, maker: str) -> Path:
    folder = given or cache_folder() / name
    if not folder.is_dir():
        raise DriftscopeError(f"no packed corpus at {folder}", f"Make one with `{maker}`; docs/training.md says how")
    return folder
