"""Texts and files of another known form, named for what they are: neither clean nor damaged. It needs no RDKit."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Any, Literal

OtherForm = Literal["legacy", "binned", "bins", "codes", "summary"]
OTHER_WORDS: dict[OtherForm, str] = {
    "legacy": "legacy text, an older format: atoms have no brackets of their own (O<...>)",
    "binned": "binned text, another number format: blocks hold numbers of bins (<0512,0498,0501>)",
    "bins": "text of bins, another number format: digits of three bins follow each atom ([C]121129129;)",
    "codes": "text of codes, another format: a code follows each token of the SMILES ([C]<123>(<45>)",
    "summary": "an LP summary file: figures of a run and of logs, without generated texts",
}
NO_ATOM = r"\[SMILES\](?:[^\[]|\[(?!/?SMILES\]))*+\[/SMILES\]|\[SERIALIZATION\].*?\[/SERIALIZATION\]|\[/?[A-Z]{4,}\]"
"""What is in brackets and no atom of bare bins: a whole prompt, the group's note of the form, and tags."""
BARE_ATOM = r"\[[^\[\]<>]+\]"
SPECIAL = r"<(?:\|[^<>|]*\||/?s|bos|eos|pad|unk)>"
"""A token that begins or ends a text, and is no block."""
_IN_BRACKETS = re.compile(r"\[(?:CH?\d?|Cl|Br|[BNOPSFI]|[bcnops])\]<")  # of atoms that seldom have any in a SMILES
_BARE = re.compile(
    r"(?:(?<![A-Za-z[])(?:Cl|Br|[BCNOPSFIbcnops])<[-.,\s]*+\d[-\d.,\s]*+>|\[H<[-.,\s]*+\d[-\d.,\s]*+>\])", re.ASCII
)
_BINS = re.compile(r"<(\d{3,12}),(\d{3,12}),(\d{3,12})>", re.ASCII)
_DIGITS = re.compile(r"\[[^\[\]<>]{1,30}\]\d{9,}", re.ASCII)
_CODES = re.compile(r"(?<=[])(=#/\\.:\d+@-])<(\d{1,4})>", re.ASCII)
_CODE_OF_LINK = re.compile(r"[)(=#]<\d{1,4}>", re.ASCII)
_ANGLES = re.compile(r"<[^<>|]*>")
_BLOCK = re.compile(r"<([^<>|\d]*+\d[^<>|]*+)>", re.ASCII)


def other_form(text: str) -> OtherForm | None:
    """Which of them a text is; None for enriched text, damaged or not, and for anything else."""
    if text.lstrip().startswith("{"):
        with suppress(ValueError, RecursionError):
            may_be = '"logs"' in text or '"log_failures"' in text
            return "summary" if may_be and is_summary(json.loads(text)) else None
        return None
    answer = text.rpartition("[/SMILES]")[2]
    # Few atoms of a SMILES need brackets, as [nH] does; damaged enriched text lacks some, and has more.
    if len(_BARE.findall(answer)) > len(_IN_BRACKETS.findall(answer)):
        return "legacy"
    if len(_DIGITS.findall(answer)) > answer.count("]<"):
        return "bins"
    if _has_codes(answer):
        return "codes"
    return "binned" if bin_digits(answer) else None


def _has_codes(answer: str) -> bool:
    """Two codes or more, and hardly anything else in angle brackets. Of 4,096 few have one digit; a coordinate of two
    digits is seldom, so that blocks of which a cut left one number are none. Nor does any other form have one behind a
    branch or a bond."""
    codes = _CODES.findall(answer)
    is_most = len(codes) > 1 and 2 * len(codes) > len(_ANGLES.findall(answer))
    are_long = 2 * sum(len(code) > 1 for code in codes) > len(codes)
    return is_most and "]<" in answer and (are_long or _CODE_OF_LINK.search(answer) is not None)


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
    if not isinstance(document, dict) or {"passes", "failures"} & set(document):
        return False
    return isinstance(document.get("logs"), list) or {"log_failures", "intersections"} <= set(document)
