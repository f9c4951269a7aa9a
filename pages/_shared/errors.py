"""An engine's error as one message on the page, and untrusted text as text.

Streamlit reads messages, labels and captions as Markdown. ``escape_markdown`` makes it show a text as it was written:
no link, picture, formula, colour or symbol, and nothing invisible.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import streamlit as st

from engine.errors import DriftscopeError, visible
from engine.figures.words import capitalised

_PUNCTUATION = re.compile(r"([!-/:-@\[-`{-~])")
_WORD_JOINER = "\u2060"  # no width, no line break, no letter

# Streamlit replaces these in the finished text, after Markdown's backslashes are gone, so only a character between can
# stop it: arrows and comparisons that stand alone (a dative bond `->`), two symbols, and links without a scheme's dot.
_REPLACED_LATER = re.compile(
    r"(?P<sign>(?:(?<=\s)|^)[<~>-](?=(?:->|[=>-])(?:\s|$)))"
    r"|(?P<symbol>:(?=material_\w+:|streamlit:))"
    r"|(?P<link>https?:(?=//)|www(?=\.))"
    r"|(?P<mail>(?<=[-.\w+])@(?=[-\w]+\.[-\w]))",
    re.IGNORECASE | re.MULTILINE,
)


@contextmanager
def shown_errors() -> Iterator[None]:
    """Show a ``DriftscopeError`` raised inside as one message and stop the page there."""
    try:
        yield
    except DriftscopeError as error:
        st.error(error_markdown(error), icon=":material/error:")
        st.stop()
    except OverflowError as error:
        if "infinity" not in str(error):
            raise
        # Streamlit makes the address's value a whole number before the page sees it, and lets no page change it.
        st.error("A number in the address is infinite. [Open the page without it](?)", icon=":material/error:")
        st.stop()


def error_markdown(error: DriftscopeError) -> str:
    return escape_markdown(capitalised(str(error)))


def escape_markdown(text: str) -> str:
    """``text`` as Markdown that shows just that text. What cannot be seen becomes a ``\\u202e``-like escape."""
    seen = "".join(char if char == "\n" else visible(char) for char in text)
    apart = _REPLACED_LATER.sub(lambda found: found[0] + _WORD_JOINER, seen)
    escaped = _PUNCTUATION.sub(r"\\\1", apart)
    return "\\\n".join(_margin(line) for line in escaped.split("\n"))


def _margin(line: str) -> str:
    """Markdown drops leading spaces, or takes four for code; a no-break space is text, on an empty line too."""
    bare = line.lstrip(" ")
    return "\u00a0" * (len(line) - len(bare)) + bare or "\u00a0"
