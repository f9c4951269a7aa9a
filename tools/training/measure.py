"""Measures a registered model on the held-out molecules and writes its card next to its weights.

    python -m tools.training.measure --model demo-qwen:final --trained-by "python -m tools.training.train ..."

Minutes to a quarter of an hour on a CPU: plain ``generate`` sorts the whole vocabulary for every token. A user's own
checkpoint is measured in the same way; its figures are printed, and no card is written.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from pathlib import Path

from engine.chem.molecule_sets import load_run_set
from engine.errors import DriftscopeError
from engine.models.loading import model_folder
from engine.models.registry import OWN_TOKENIZER, load_registry
from engine.models.shipped import unpack
from engine.paths import cache_folder
from engine.text.tokenizers import load_tokenizer
from tools.terminal import ToolParser, run_tool
from tools.training.card import facts_from, write_card
from tools.training.quality import measure
from tools.training.recipes import recipe_of

log = logging.getLogger(__name__)


def main(argv: Sequence[str] | None = None) -> int:
    parser = ToolParser(prog="python -m tools.training.measure", description="Measure a model, write its card.")
    parser.add_argument("--model", required=True, help="ALIAS or ALIAS:STEP of the registry")
    parser.add_argument("--trained-by", default="", help="the command that trained it, for the card")
    parser.add_argument("--log", type=Path, help="the training's log.jsonl; the one in the cache without it")
    parser.add_argument("--molecules", type=int, help="only the first so many; no card is written then")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--device", default="auto")
    args = parser.parse_args(argv)

    def action() -> None:
        entry = load_registry().find(args.model)
        shipped = None if entry.shipped is None else unpack(entry.shipped, entry.sha256)
        log_path = args.log or cache_folder() / "training" / entry.alias / "log.jsonl"
        writes_card = shipped is not None and args.molecules is None
        if writes_card and not (args.trained_by and log_path.is_file()):
            raise DriftscopeError(
                f"a card tells how its model was trained, and {log_path} or --trained-by is missing",
                "Give both, or --molecules N to measure without a card",
            )
        smiles = load_run_set(200)[: args.molecules]
        folder = model_folder(entry)
        quality = measure(
            folder,
            load_tokenizer(str(folder) if entry.tokenizer == OWN_TOKENIZER else entry.tokenizer),
            smiles,
            batch=args.batch,
            seen_ids=None if shipped is None else shipped.live_ids.tolist(),
            device=args.device,
            form=entry.numbers,
        )
        log.info("%s: %s", entry.name, json.dumps(quality.as_json()["sizes"]))
        if shipped is not None and entry.shipped is not None and writes_card:
            recipe = recipe_of(str(shipped.about["alias"]))
            facts = facts_from(shipped.about, recipe, entry.alias, entry.step, args.trained_by)
            log.info("%s", write_card(entry.shipped.parent, f"{entry.alias}-{entry.step}", facts, quality, log_path))

    return run_tool(action)


if __name__ == "__main__":
    raise SystemExit(main())
