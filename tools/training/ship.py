"""Turns a checkpoint of a training into the shipped form: half precision, and the live ids written next to the rows.

python -m tools.training.ship --checkpoint SNAPSHOT --data PACKED --out data/models/demo-qwen-final.safetensors
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from engine.comparing.array_files import write_bytes
from engine.errors import DriftscopeError
from engine.models.shipped import ROWS, TAIL_ROW, Shipped
from engine.paths import cache_folder
from tools.terminal import ToolParser, run_tool
from tools.training import checkpoint
from tools.training.batches import LiveIds
from tools.training.packed import PackedCorpus
from tools.training.recipes import Recipe, recipe_of
from tools.training.shapes import INIT_STD, pack

log = logging.getLogger(__name__)

ABOUT = ("alias", "tokens", "texts", "steps", "spent_s", "hardware", "optimisers", "recipe")
"""The part of the training's state that ships with the model."""


def shipped_from(path: Path, packed: Path) -> Shipped:
    weights, state = checkpoint.load(path)
    recipe: Recipe = recipe_of(str(state["alias"]))
    live = LiveIds(PackedCorpus(packed, recipe.tokenizer))
    arrays = {name: value.numpy() for name, value in weights.items()}
    rows = arrays.pop(ROWS)
    if len(rows) != len(live):
        raise DriftscopeError(
            f"{path} has {len(rows):,} rows, {packed} has {len(live):,} live ids",
            "Give the packed corpus that the model was trained on",
        )
    tail = arrays.pop(TAIL_ROW)
    return Shipped(
        shape=asdict(recipe.shape),
        tokenizer=recipe.tokenizer,
        live_ids=live.ids.astype(np.int32),
        live_rows=rows.astype(np.float16),
        tail_row=tail.astype(np.float32),
        sigma=INIT_STD,
        seed=f"{recipe.alias} {recipe.seed}",
        body={name: value.astype(np.float16) for name, value in arrays.items()},
        about={name: state[name] for name in ABOUT if name in state},
    )


def main(argv: Sequence[str] | None = None) -> int:
    parser = ToolParser(prog="python -m tools.training.ship", description="Write a checkpoint's shipped form.")
    parser.add_argument("--checkpoint", required=True, type=Path, help="a training's checkpoint, or a snapshot of it")
    parser.add_argument(
        "--data", type=Path, default=cache_folder() / "packed", help="the packed corpus it was trained on"
    )
    parser.add_argument("--out", required=True, type=Path)
    args = parser.parse_args(argv)

    def action() -> None:
        content = pack(shipped_from(args.checkpoint, args.data))
        write_bytes(args.out, content)
        log.info("%s: %s bytes, sha256 = %s", args.out, f"{len(content):,}", hashlib.sha256(content).hexdigest())

    return run_tool(action)


if __name__ == "__main__":
    raise SystemExit(main())
