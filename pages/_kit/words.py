"""What pages say of samples and their blocks, and text without anything invisible."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from engine.comparing.measures import run_name
from engine.errors import visible
from engine.figures.words import signed
from engine.store.entries import Entry

Row = Mapping[str, Any]
HYPOTHETICAL_HELP = "Hypothetical: no template wrote this text, so its drift did nothing."
MOST_JUNK_SHOWN = 24
_BEFORE_UNIT = re.compile(r"(?<=\d) (?=\\?(?:%|[mµ]?s|min|h|Å|kcal)(?!\w))")


def visible_text(text: str) -> str:
    """Nothing invisible, so that a mark for another direction of writing turns nothing around."""
    return "".join(char if char == "\n" else visible(char) for char in text)


def unbroken(text: str) -> str:
    """Markdown in which no line ends between a number and its unit: ``54.7 %``."""
    return _BEFORE_UNIT.sub("\u00a0", text)


def run_title(entry: Entry) -> str:
    return " · ".join(part for part in (run_name(entry), entry.row.get("label")) if part)


def kind_words(block: Row) -> str:
    stored = (kind or "unknown" for kind in block["kinds"] or ())
    kinds = ("no z" if kind == "missing_z" else kind.replace("_", " ") for kind in stored)
    return ", ".join(kinds) or "unknown"


def block_words(block: Row) -> str:
    """One line on a block, for a name that is spoken or a line under a drawing."""
    parts = [kind_words(block)]
    if block["drift"]:
        parts.append(f"drift {signed(block['drift'])}")
    if block["junk_text"]:
        parts.append(f"junk “{visible_text(block['junk_text'])[:MOST_JUNK_SHOWN]}”")
    return ", ".join(parts)
