"""One sample's figures in the Drift inspector: badges under the views, and what the strip says of the whole text.

Tokens and forced ones count as the run counts them: with the token that ends the answer, which is no column of the
strip.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import streamlit as st

from engine.chem.verdict import strain_words
from engine.figures.words import counted, percent
from engine.inspection.sample import Inspected
from pages._shared.errors import escape_markdown
from pages._shared.words import HYPOTHETICAL_HELP, signed

Badge = tuple[str, Literal["blue", "gray"], str | None]
DESCRIPTORS_HELP = (
    "How the LP writes an atom with hydrogens: [O] and [N] (plain), or [OH] and [NH2] (with-hydrogens), as the group's "
    "LPs do whatever the model was trained on."
)
DRIFT_HELP = (
    "FREE positions minus the tokens that the numbers need, over the blocks whose need is known. The strip counts the "
    "tokens as they were sampled, in all blocks, so its drift may differ."
)


def tokens_words(sample: Mapping[str, Any]) -> str:
    """``272 tokens (271 and the end)``: the strip has a column for each of the 271."""
    if not sample["tokens"]:
        return ""
    end = f" ({sample['tokens'] - 1:,} and the end)" if sample["stop_reason"] == "end" else ""
    return f"{counted(sample['tokens'], 'token')}{end}"


def forced_share(sample: Mapping[str, Any]) -> str:
    """Empty where it is not known."""
    forced, tokens = sample["forced_tokens"], sample["tokens"]
    return percent(forced / tokens) if tokens and forced is not None else ""


def totals(inspection: Inspected) -> list[tuple[str, str]]:
    """Of the whole text, for the strip: a name and a figure each."""
    sample = inspection.sample
    columns = () if inspection.alignment is None else inspection.alignment.rows
    split = counted(sum(row.pos is not None for row in columns), "token")  # of a text without ids
    forced = forced_share(sample)
    rows = [("Generated", tokens_words(sample) or split)]
    if not forced:
        return rows
    end = ", the end too" if sample["forced_tokens"] > sum(bool(row.forced) for row in columns) else ""
    return [*rows, ("Forced", f"{sample['forced_tokens']:,} of {sample['tokens']:,} ({forced}){end}")]


def drift_words(inspection: Inspected) -> str:
    """``drift +7 (known in 7 of 15 blocks)``: how many tokens the others need is not known."""
    drift = inspection.sample["drift"]
    if drift is None:
        return ""
    known, blocks = sum(block["drift"] is not None for block in inspection.blocks), len(inspection.blocks)
    name = "hypothetical drift" if inspection.run.is_hypothetical else "drift"
    of = f"(known in {known} of {blocks} blocks)" if known < blocks else f"over {counted(blocks, 'block')}"
    return f"{name} {signed(drift)} {of}"


def show_badges(inspection: Inspected) -> None:
    with st.container(horizontal=True, gap="small", key="facts"):
        for text, colour, about in _badges(inspection):
            if text:
                st.badge(escape_markdown(text), color=colour, help=about)


def _badges(inspection: Inspected) -> list[Badge]:
    """What the verdict's sentence does not say; an empty one is left out."""
    sample, run = inspection.sample, inspection.run
    against = run.rmsd_to or "references that are not named"
    forced, strain, redrawn = forced_share(sample), strain_words(sample), sample["redrawn_blocks"]
    drift_help = f"{HYPOTHETICAL_HELP} {DRIFT_HELP}" if run.is_hypothetical else DRIFT_HELP
    return [
        (run.model or run.model_family, "blue", None),
        (f"LP {run.lp_words}" if run.lp else "", "blue", run.lp_record.help),
        (f"descriptors {run.descriptors}" if run.lp_record.placeholder else "", "gray", DESCRIPTORS_HELP),
        (f"sample {sample['sample_id']}", "gray", None),
        (drift_words(inspection), "gray", drift_help),
        (tokens_words(sample), "gray", None),
        (f"{forced} forced" if forced else "", "gray", None),
        (f"drawn anew {counted(redrawn, 'time')}" if redrawn else "", "gray", None),
        (f"RMSD {sample['rmsd_ang']:.2f} Å to {against}" if sample["rmsd_ang"] is not None else "", "gray", None),
        (f"strain {strain}" if strain else "", "gray", None),
    ]
