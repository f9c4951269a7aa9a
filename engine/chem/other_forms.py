"""Texts of another known form than enriched text: named for what they are, called neither clean nor damaged.

Legacy text has atoms as a SMILES has them, most without brackets of their own: ``C<0.1,0.2,0.3>``, ``[nH]<...>``,
``[H<...>]``. Binned text has bin numbers in its blocks: ``[C]<0512,0498,0501>``. An LP summary is a file of the group's
runner that has figures and no texts.
"""

from __future__ import annotations

import json
import re
from typing import Any, Literal

OtherForm = Literal["legacy", "binned", "summary"]

OTHER_WORDS: dict[OtherForm, str] = {
    "legacy": "legacy text, an older format: atoms have no brackets of their own (O<...>)",
    "binned": "binned text, another number format: blocks hold numbers of bins (<0512,0498,0501>)",
    "summary": "an LP summary file: figures in a list of logs, without generated texts",
}

_BRACKETED = re.compile(r"(?<!\[CONFORMER)(?<!\[/SMILES)\]<(?!-[\[(])")
_IN_BRACKETS = re.compile(r"\[(?:CH?\d?|Cl|Br|[BNOPSFI]|[bcnops])\]<")  # of atoms that seldom have any in a SMILES
_BARE = re.compile(
    r"(?:(?<![A-Za-z])(?:Cl|Br|[BCNOPSFIbcnops])<[-.,\s]*+\d[-\d.,\s]*+>|\[H<[-.,\s]*+\d[-\d.,\s]*+>\])", re.ASCII
)
_LEGACY = re.compile(r"(?:[A-Za-z]|\[[^\[\]<>]++)<[-.,\s]*+\d[-\d.,\s]*+>", re.ASCII)
_BINS = re.compile(r"<(\d{3,12}),(\d{3,12}),(\d{3,12})>", re.ASCII)
_BLOCK = re.compile(r"<([^<>|\d]*+\d[^<>|]*+)>", re.ASCII)


def other_form(text: str) -> OtherForm | None:
    """Which of them a text is; None for enriched text, damaged or not, and for anything else."""
    if text.lstrip().startswith("{"):
        try:
            return "summary" if '"logs"' in text and is_summary(json.loads(text)) else None
        except (ValueError, RecursionError):
            return None
    answer = text.rpartition("[/SMILES]")[2]
    # Few atoms of a SMILES need brackets, as [nH] does; damaged enriched text lacks some, and has more.
    if _LEGACY.search(answer) and (
        not _BRACKETED.search(answer) or len(_BARE.findall(answer)) > len(_IN_BRACKETS.findall(answer))
    ):
        return "legacy"
    return "binned" if bin_digits(answer) else None


def bin_digits(text: str) -> int:
    """How many digits each number of a binned text has; 0 where it is none. A few of its blocks may be damaged.

    Two blocks of three digits each, none of which begins with 0, may as well hold whole numbers of ångström.
    """
    bins = _BINS.findall(text)
    numbers = [number for block in bins for number in block]
    if len({len(number) for number in numbers}) != 1:
        return 0
    blocks = _BLOCK.findall(text)
    if any("." in content for content in blocks) or 2 * len(bins) < len(blocks):
        return 0
    digits = len(numbers[0])
    return digits if digits > 3 or len(bins) >= 3 or any(number[0] == "0" for number in numbers) else 0


def is_summary(document: Any) -> bool:
    """Of the JSON of a file."""
    is_known = isinstance(document, dict) and isinstance(document.get("logs"), list)
    return is_known and not {"passes", "failures"} & set(document)
