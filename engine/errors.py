"""Every error that a user can meet: what happened, with which values, and what to do about it.

Messages are one line, so that a terminal and a page show the same. Values come from untrusted text
and pass through ``shown``, which escapes what would break a line and shortens what would flood it.
"""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable


def shown(value: object, limit: int = 60) -> str:
    """``value`` quoted, on one line, printable in any terminal, at most ``limit`` characters between the quotes."""
    text = str(value)
    seen = [visible(char) for char in text[: limit + 1]]
    if len(text) > limit or sum(map(len, seen)) > limit:
        while seen and sum(map(len, seen)) > limit - 1:
            seen.pop()
        seen.append("…")
    return "'" + "".join(seen) + "'"


def visible(char: str) -> str:
    """A character as it is, or as a ``\\u202e``-like escape where it cannot be seen or would reorder its neighbours."""
    if char.isprintable() and unicodedata.category(char) not in ("Cf", "Cs", "Co"):
        return char
    return char.encode("unicode_escape", "surrogatepass").decode("ascii")


def one_line(text: str) -> str:
    """``text`` without line breaks and without anything that cannot be seen."""
    line = " ".join(text.split())
    return line if line.isascii() and line.isprintable() else "".join(map(visible, line))


MOST_KNOWN = 40  # names in a message


def nearest(name: str, candidates: Iterable[str]) -> str:
    """``Did you mean ...?`` with the likeliest of the known names, or where none is near the known ones."""
    names = list(dict.fromkeys(name.replace("`", "'") for name in candidates if name))  # a page shows `this` as code
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.4)
    if near:
        return f"Did you mean {' or '.join(near)}?"
    more = f" and {len(names) - MOST_KNOWN} more" if len(names) > MOST_KNOWN else ""
    return f"Known are {', '.join(names[:MOST_KNOWN]) or 'none'}{more}"


UNFORESEEN = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RuntimeError, MemoryError)
"""What a program raises that met something it was not written for. Where a user is told of it in a sentence, its
traceback goes to the log."""
DEBUG = "DRIFTSCOPE_DEBUG"
"""As ``1`` in the environment: such an error ends what met it, with its traceback, as our tests want it."""


class DriftscopeError(Exception):
    """Base of all errors meant for users. ``str(error)`` is one line that ends with what to do."""

    def __init__(self, problem: str, fix: str = "") -> None:
        self.what = one_line(problem)
        self.fix = one_line(fix)
        super().__init__(f"{self.what}. {self.fix}" if self.fix else self.what)


class SmilesError(DriftscopeError):
    """A SMILES that does not parse. ``position`` counts characters from 0; None where RDKit names none."""

    def __init__(self, smiles: str, reason: str, position: int | None = None, fix: str = "") -> None:
        self.reason, self.position = one_line(reason), position
        where = "" if position is None else f" at position {position}"
        super().__init__(f"SMILES {shown(smiles)} cannot be read{where}: {reason}", fix)


class MoleculeSizeError(DriftscopeError):
    """A molecule over a size limit."""


class UnsupportedMoleculeError(DriftscopeError):
    """A molecule that parses but cannot be embedded or used, such as one with dummy atoms."""


class NoEnrichedFormError(DriftscopeError):
    """A molecule without an enriched form: a bracket atom that would read like a wrapped bare one."""


class EmbedError(DriftscopeError):
    """Conformer embedding found nothing within its budget."""


class ConformerError(DriftscopeError):
    """A molecule without a usable conformer (none at all, not finite, out of range)."""


class EnrichedError(DriftscopeError):
    """Enriched text that a reader refuses. ``block`` counts blocks from 0; None outside any block."""

    def __init__(self, reason: str, *, block: int | None = None, position: int | None = None, text: str = "") -> None:
        self.reason = one_line(reason)
        self.block = block
        self.position = position
        where = ("" if block is None else f", block {block}") + (
            "" if position is None else f", at position {position}"
        )
        super().__init__(f"enriched text{where}: {reason}" + (f" in {shown(text)}" if text else ""))


def unquoted(error: DriftscopeError) -> str:
    """What is wrong, with nothing of a text that does not read: a line of a file may be of another kind of file."""
    if not isinstance(error, SmilesError | EnrichedError):
        return str(error)
    kind = "SMILES" if isinstance(error, SmilesError) else "enriched text"
    where = "" if error.position is None else f" at position {error.position}"
    return f"it is no {kind} that can be read{where}" + ("" if "'" in error.reason else f": {error.reason}")


class GraphMismatchError(DriftscopeError):
    """Two molecules that had to be the same graph are not."""


class TokenizerError(DriftscopeError):
    """A tokenizer that is unknown, missing or unfit, or text that it cannot take, such as a lone surrogate."""


class PlaceholderError(DriftscopeError):
    """A placeholder that cannot stand inside a block."""


class FileError(DriftscopeError):
    """A file that cannot be read as what it was given for."""


class AssetError(DriftscopeError):
    """Something that set-up brings (3Dmol.js, a tokenizer's ranks) is missing or damaged."""


class RegistryError(DriftscopeError):
    """A model registry that does not read, or a model that it does not have."""


class ModelError(DriftscopeError):
    """A checkpoint that cannot be loaded, or does not fit its tokenizer, its config or the device."""


class ServerError(ModelError):
    """A server that cannot be reached, refuses a request, or answers with what cannot be used."""


class ConstraintError(DriftscopeError):
    """A constraint that is unknown, cannot be compiled, or is asked for what it does not have."""


class StoreError(DriftscopeError):
    """A store that cannot be read or written, or an entry that it does not have."""


class TakenError(StoreError):
    """An entry of that name is in the store already, or was put there meanwhile."""


class RunError(DriftscopeError):
    """A run that cannot be begun, gone on with, or brought to its end."""


class SqlError(DriftscopeError):
    """A user's SQL statement that was refused, failed or was stopped."""
