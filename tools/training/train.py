"""Train one of the embedded models, or continue its training.

python -m tools.training.train --model demo-qwen --hours 1
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path

from engine.errors import DriftscopeError
from engine.paths import cache_folder
from tools.terminal import ToolParser, emit_json, run_tool
from tools.training.recipes import Recipe, recipe_of
from tools.training.trainer import LOG, Options, Training, TrainingState


def main(argv: Sequence[str] | None = None) -> int:
    description = "Train an embedded model on the packed corpus, or continue where the last call stopped."
    parser = ToolParser(prog="python -m tools.training.train", description=description)
    add = parser.add_argument
    add("--model", required=True, help="alias of a recipe in tools/training/recipes.py, as demo-qwen")
    end = parser.add_mutually_exclusive_group(required=True)
    end.add_argument("--hours", type=float, default=0.0, help="time of the whole training, over all calls")
    end.add_argument("--texts", type=int, default=0, help="or its length in texts, over all calls")
    add("--data", type=Path, help="the packed corpus (default: in the cache)")
    add("--held-out", type=Path, help="the packed held-out molecules (default: in the cache)")
    add("--out", type=Path, help="folder of the training (default: in the cache)")
    add("--start", type=Path, metavar="FILE", help="begin from another recipe's checkpoint")
    add("--device", default="auto", help="auto (a GPU if there is one), cpu, cuda")
    add("--precision", default="auto", choices=("auto", "fp32", "bf16"), help="auto: the faster one")
    add("--threads", type=int, default=0, help="0: one per core")
    add("--compile", action="store_true", help="compile the body: faster, needs a C++ compiler")
    add("--optimiser", default="muon", choices=("muon", "adamw"), help="of the body's matrices")
    add("--tokens-a-step", type=int, default=0, help="0: the recipe's; more on a GPU")
    add("--examine-every", type=float, default=240.0, dest="examine_s", metavar="S", help="seconds between evaluations")
    add("--prompts", type=int, default=96, help="held-out molecules per evaluation")
    add("--snapshots", type=int, default=0, help="how many of the newest to keep; 0 keeps all")
    add("--json", action="store_true", help="the result as JSON")
    args = parser.parse_args(argv)

    def train() -> None:
        recipe = recipe_of(args.model)
        packed, held_out = _folder(args.data, "packed"), _folder(args.held_out, "packed-held-out")
        out = args.out or cache_folder() / "training" / recipe.alias
        options = Options(**{field.name: getattr(args, field.name) for field in fields(Options)})
        state = Training(recipe, packed, held_out, out, options).run()
        card = _card(state, recipe, out)
        if args.json:
            names = ("alias", "tokens", "texts", "steps", "spent_s", "pass_rate")
            emit_json({name: getattr(state, name) for name in names})
        else:
            print(
                f"{state.alias}: {state.tokens:,} tokens, {100 * state.pass_rate:.1f} % of the held-out prompts right"
            )
            print(f"in {out}{f', card {card}' if card else ''}")

    return run_tool(train)


def _card(state: TrainingState, recipe: Recipe, out: Path) -> Path | None:
    """The training's card; None where Pillow is missing, as on a machine that only trains."""
    try:
        from tools.training.training_card import facts_from, write_training_card
    except ImportError as error:
        sys.stderr.write(f"no card was written: {error}\n")
        return None
    if not (out / LOG).is_file():
        return None
    command = f"python -m tools.training.train {shlex.join(sys.argv[1:])}"
    return write_training_card(out, facts_from(asdict(state), recipe, recipe.alias, "checkpoint", command), out / LOG)


def _folder(given: Path | None, name: str) -> Path:
    folder = given or cache_folder() / name
    if not folder.is_dir():
        maker = "python -m tools.training.packing"
        raise DriftscopeError(f"no packed corpus at {folder}", f"Make one with `{maker}`; docs/training.md says how")
    return folder


if __name__ == "__main__":
    sys.exit(main())
