"""What pages say of samples and their blocks, text without anything invisible, and the glossary's words.

A word's meaning is the glossary's (``docs/glossary.md``) and stands nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from html import escape
from typing import Any

from engine.comparing.measures import run_name
from engine.errors import visible
from engine.figures.words import signed
from engine.paths import ROOT
from engine.store.entries import Entry

Row = Mapping[str, Any]
HYPOTHETICAL_HELP = "Hypothetical: no template wrote this text, so its drift did nothing."
MOST_JUNK_SHOWN = 24
GLOSSARY = ROOT / "docs" / "glossary.md"
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


@cache
def glossary() -> str:
    """As Markdown, without links: they lead to files next to it, and examples are there once somebody has made them."""
    text = re.sub(r"\s\(\[an example\]\([^)]*\)\)", "", GLOSSARY.read_text(encoding="utf-8"))
    return re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text)


@cache
def meanings() -> dict[str, str]:
    """By word: an entry such as *Forced, free* explains each of its words."""
    entries = re.findall(r"^\*\*([^*]+)\*\*: ((?:.+\n)+)", glossary(), re.MULTILINE)
    return {word: " ".join(meaning.split()) for words, meaning in entries for word in words.split(", ")}


EVERYDAY = {"free"}  # explained with *forced*; elsewhere it has its usual meaning: use after free


@cache
def _spellings() -> dict[str, str]:
    """The glossary's word by each form that occurs in a text: ``cut`` and ``Cut``, but ``LP`` alone."""
    spellings = {}
    for word in meanings().keys() - EVERYDAY:
        spellings[word] = word
        if not word.isupper():
            spellings |= {word[0].lower() + word[1:]: word, word[0].upper() + word[1:]: word}
    return spellings


@cache
def _words_in_markdown() -> re.Pattern[str]:
    """A word of the glossary, its plural too; or, without a group, what is left alone: code, links, symbols.

    Escaped text has backslashes: ``COV\\-R``.
    """
    by_length = sorted(_spellings(), key=len, reverse=True)
    words = "|".join(word.replace("-", r"\\?-").replace("'", r"\\?'") for word in by_length)
    left_alone = r"`[^`]*`|\[[^]]*\]\([^)]*\)|:[\w/-]+(?:\[|:)|<[^>]*>"
    return re.compile(rf"{left_alone}|(?<![\w-])(?P<word>{words})s?(?!\w|\\?-\w)")


def _word_of(match: re.Match[str]) -> str:
    return _spellings()[match["word"].replace("\\", "")] if match["word"] else ""


def glossed(markdown: str) -> str:
    """With the meaning on hover of each word of the glossary, where it first occurs.

    It takes ``unsafe_allow_html`` to draw it: texts of others must be escaped before.
    """
    seen: set[str] = set()

    def marked(match: re.Match[str]) -> str:
        word = _word_of(match)
        if not word or word in seen:
            return match[0]
        seen.add(word)
        meaning = escape(re.sub(r"[*`]", "", meanings()[word]))
        return f'<abbr title="{meaning}">{match[0]}</abbr>'

    return _words_in_markdown().sub(marked, markdown)


def help_with_words(text: str, about: str = "") -> str | None:
    """For a title or a head of a column: what it is about, and the meaning of the glossary's words in it."""
    words = dict.fromkeys(filter(None, map(_word_of, _words_in_markdown().finditer(text))))
    return "\n\n".join(filter(None, [about, *(f"**{word}**: {meanings()[word]}" for word in words)])) or None
