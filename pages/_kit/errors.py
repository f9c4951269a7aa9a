"""An engine's error as one message on the page, and untrusted text as text.

Streamlit reads messages, labels and captions as Markdown. ``escaped`` makes it show a text as it was written:
no link, picture, formula, colour or symbol, and nothing invisible.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

import streamlit as st

from engine.errors import DEBUG, UNFORESEEN, DriftscopeError, visible
from engine.figures.words import capitalised

log = logging.getLogger(__name__)
ADVICE = "Choose other entries, or look for damage with `verify`. The app's log says where it failed: please report it"
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
def shown_errors(name: str = "This page", *, stops: bool = True) -> Iterator[None]:
    """Show an error raised inside as one message, and stop the page there; or go on behind it.

    One that nobody foresaw, such as a stored figure that breaks a sum, is known by ``name`` and its kind, and goes to
    the log with its traceback."""
    try:
        yield
        return
    except DriftscopeError as error:
        message = error_markdown(error)
    except UNFORESEEN as error:
        if isinstance(error, OverflowError) and "infinity" in str(error):
            # Streamlit makes the address's value a whole number before the page sees it, and lets no page change it.
            message = "A number in the address is infinite. [Open the page without it](?)"
        elif os.environ.get(DEBUG) == "1":
            raise
        else:
            log.exception("%s", name)
            message = error_markdown(DriftscopeError(f"{name} cannot be shown: {type(error).__name__}", ADVICE))
    st.error(message, icon=":material/error:")
    if stops:
        st.stop()


def error_markdown(error: DriftscopeError) -> str:
    # What happened may quote anybody. What to do about it is ours: "Run `verify`".
    message = escaped(capitalised(error.what))
    return f"{message}\\. {escaped(error.fix, has_code=True)}" if error.fix else message


def escaped(text: str, *, has_code: bool = False) -> str:
    """``text`` as Markdown that shows just that text; in words of ours, which ``has_code``, `this` becomes code. What
    others wrote between two backticks would be code too, which shows as text."""
    seen = "".join(char if char == "\n" else visible(char) for char in text)
    apart = _REPLACED_LATER.sub(lambda match: match[0] + _WORD_JOINER, seen)
    marked = _PUNCTUATION.sub(r"\\\1", apart)
    if has_code:  # without backslashes; what is quoted may be anybody's
        # On one line: a line of its own that begins with a tag would be HTML, whatever is around it.
        code = r"((?<!\w)\\'.*\\')|\\`[^`\n]+\\`"
        marked = re.sub(code, lambda match: match[1] or re.sub(r"\\(.)", r"\1", match[0]), marked)
    return "\\\n".join(_margin(line) for line in marked.split("\n"))


def _margin(line: str) -> str:
    """Markdown drops leading spaces, or takes four for code; a no-break space is text, on an empty line too."""
    bare = line.lstrip(" ")
    return "\u00a0" * (len(line) - len(bare)) + bare or "\u00a0"
