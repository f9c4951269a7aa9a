"""Train one of the embedded models, or continue its training.

python -m tools.training.train --model demo-qwen --hours 1
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from engine.errors import DriftscopeError
from engine.paths import cache_folder
from tools.terminal import ToolParser, emit_json, run_tool
from tools.training.recipes import recipe_of
from tools.training.trainer import Options, Training


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
        if args.json:
            names = ("alias", "tokens", "texts", "steps", "spent_s", "pass_rate")
            emit_json({name: getattr(state, name) for name in names})
        else:
            print(f"{state.tokens:,} tokens, {state.pass_rate:.1%} of the held-out prompts right, in {out}")

    return run_tool(train)


def _folder(given: Path | None, name: str) -> Path:
    folder = given or cache_folder() / name
    if not folder.is_dir():
        maker = "python -m tools.training.packing"
        raise DriftscopeError(f"no packed corpus at {folder}", f"Make one with `{maker}`; docs/training.md says how")
    return folder


if __name__ == "__main__":
    sys.exit(main())
