"""Junk and cut blocks of a registered model under each LP, on the held-out molecules; added to the model's card.

    python -m tools.training.under_lps --model demo-qwen:final

The fast backend writes one answer a molecule under every LP. A block that a position LP closed by force is judged by
the model's own mass on closing it or going on, scored afterwards from the ids. A card is changed in one section only;
measuring the model anew (``measure``) writes a card without it.
"""

from __future__ import annotations

import json
import logging
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from engine.chem.molecule_sets import load_held_out
from engine.chem.smiles import parse_smiles
from engine.decode.generation import Generation
from engine.decode.plan import Plan
from engine.lp_records import LPS
from engine.models.loading import LoadedModel, load_model
from engine.models.registry import load_registry
from engine.records import Molecule
from engine.runner.group import GroupWork
from engine.runner.plan import ModelChoice, RunPlan
from engine.text.blocks import has_letter, has_nonnumeric
from tools.terminal import Progress, ToolParser, run_tool
from tools.training.card import put_section
from tools.training.training_card import table

log = logging.getLogger(__name__)

TITLE = "## Under the LPs"


@dataclass(frozen=True, slots=True)
class Rates:
    """Counts of one LP. The first two junk counts are the reports'."""

    lp: str
    samples: int
    passed: int
    decodes: int
    clean: int
    blocks: int
    letters: int  # blocks with a letter
    nonnumeric: int  # blocks with anything but digits . , -
    cut: int
    exact: int
    tokens: int


def measure_lp(loaded: LoadedModel, molecules: Sequence[Molecule], lp: str, batch: int = 32) -> Rates:
    """One answer a molecule under one LP."""
    plan = RunPlan(ModelChoice(loaded.entry.alias, loaded.entry.step), Plan(lp, batch_size=batch))
    work = GroupWork(Generation(loaded, molecules, plan.plan), "", plan)
    deque(work.events(lambda: False), maxlen=0)
    work.rows()  # scores the samples
    samples = work.judged
    blocks = [block for sample in samples for block in sample.blocks]
    return Rates(
        lp=lp,
        samples=len(samples),
        passed=sum(sample.check.passed for sample in samples),
        decodes=sum(sample.check.decodes for sample in samples),
        clean=sum(sample.check.clean for sample in samples),
        blocks=len(blocks),
        letters=sum(has_letter(block.text) for block in blocks),
        nonnumeric=sum(has_nonnumeric(block.text) for block in blocks),
        cut=sum("cut" in block.kinds for block in blocks),
        exact=sum(block.kinds == ("exact",) for block in blocks),
        tokens=sum(sample.tokens for sample in samples),
    )


def add_to_card(card: Path, rates: Sequence[Rates], command: str) -> None:
    """Put the table into the card, or in place of the one that is there, and the figures into its JSON."""
    figures = {"lps": {rate.lp: asdict(rate) for rate in rates}, "lps_by": command}
    put_section(card, list(section(rates, command)), figures)


def section(rates: Sequence[Rates], command: str) -> Iterator[str]:
    yield TITLE
    yield ""
    yield (
        "The same held-out molecules, each asked once under each LP: preset qwen3, seed 0, each LP's own placeholder. "
        "*Letters* and *not numeric* are the reports' two ways to count junk. *Cut*: the LP closed the block while "
        "more than half of the model's mass wanted to go on, or a number is missing or incomplete."
    )
    yield ""
    head = ("LP", "passed", "decodes", "clean", "blocks", "letters", "not numeric", "cut", "exact")
    rows = []
    for rate in rates:
        of_samples = [
            f"{100 * count / max(1, rate.samples):.1f} %" for count in (rate.passed, rate.decodes, rate.clean)
        ]
        counts = (rate.letters, rate.nonnumeric, rate.cut, rate.exact)
        of_blocks = [f"{100 * count / max(1, rate.blocks):.1f} %" for count in counts]
        rows.append((f"`{rate.lp}`", *of_samples, f"{rate.blocks:,}", *of_blocks))
    yield from table(head, rows)
    yield ""
    yield f"Measured by `{command}`."


def main(argv: Sequence[str] | None = None) -> int:
    parser = ToolParser(prog="python -m tools.training.under_lps", description="Junk and cut rates under each LP.")
    parser.add_argument("--model", required=True, help="ALIAS or ALIAS:STEP of the registry")
    parser.add_argument("--molecules", type=int, help="only the first so many; no card is changed then")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--device", default="auto")
    args = parser.parse_args(argv)

    def action() -> None:
        entry = load_registry().find(args.model)
        loaded = load_model(entry, args.device)
        molecules = [parse_smiles(molecule.smiles) for molecule in load_held_out()[: args.molecules]]
        bar, rates = Progress("LPs", len(LPS)), []
        for lp in LPS:
            rates.append(measure_lp(loaded, molecules, lp, batch=args.batch))
            log.info("%s", json.dumps(asdict(rates[-1])))
            bar.advance(1)
        if args.molecules is None and entry.card is not None:
            add_to_card(entry.card, rates, f"python -m tools.training.under_lps --model {entry.name}")
            log.info("%s", entry.card)

    return run_tool(action)


if __name__ == "__main__":
    sys.exit(main())
