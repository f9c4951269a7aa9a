"""Texts of another known form, named for what they are: neither clean nor damaged. It needs no RDKit."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Any, Literal

OtherForm = Literal["legacy", "binned", "summary"]
OTHER_WORDS: dict[OtherForm, str] = {
    "legacy": "legacy text, an older format: atoms have no brackets of their own (O<...>)",
    "binned": "binned text, another number format: blocks hold numbers of bins (<0512,0498,0501>)",
    "summary": "an LP summary file: figures in a list of logs, without generated texts",
}
_IN_BRACKETS = re.compile(r"\[(?:CH?\d?|Cl|Br|[BNOPSFI]|[bcnops])\]<")  # of atoms that seldom have any in a SMILES
_BARE = re.compile(
    r"(?:(?<![A-Za-z])(?:Cl|Br|[BCNOPSFIbcnops])<[-.,\s]*+\d[-\d.,\s]*+>|\[H<[-.,\s]*+\d[-\d.,\s]*+>\])", re.ASCII
)
_BINS = re.compile(r"<(\d{3,12}),(\d{3,12}),(\d{3,12})>", re.ASCII)
_BLOCK = re.compile(r"<([^<>|\d]*+\d[^<>|]*+)>", re.ASCII)


def other_form(text: str) -> OtherForm | None:
    """Which of them a text is; None for enriched text, damaged or not, and for anything else."""
    if text.lstrip().startswith("{"):
        with suppress(ValueError, RecursionError):
            return "summary" if '"logs"' in text and is_summary(json.loads(text)) else None
        return None
    answer = text.rpartition("[/SMILES]")[2]
    # Few atoms of a SMILES need brackets, as [nH] does; damaged enriched text lacks some, and has more.
    if len(_BARE.findall(answer)) > len(_IN_BRACKETS.findall(answer)):
        return "legacy"
    return "binned" if bin_digits(answer) else None


def bin_digits(text: str) -> int:
    """How many digits each number of a binned text has, of which a few blocks may be damaged; 0 where it is none: two
    blocks of three digits each, none of which begins with 0, may as well hold whole numbers of ångström."""
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
