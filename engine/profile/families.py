"""Which family an operation of a trace belongs to: rules of a data file, the first that matches.

Rules are asked once for each distinct name, never for each event. What no rule catches is `other`: it is shown with its
share, so that nobody takes the families for all there is. Nothing here knows what a kernel does but its name.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from engine.errors import FileFormatError, shown
from engine.paths import DATA

Side = Literal["device", "call", "host", "python", "mark"]
SIDES: tuple[Side, ...] = get_args(Side)
FILE = DATA / "trace_families.toml"
VARIABLE = "DRIFTSCOPE_TRACE_FAMILIES"
OTHERS: Mapping[Side, str] = {
    "device": "other",
    "call": "other_call",
    "host": "other",
    "python": "python",
    "mark": "mark",
}
HOST_WORK = "cpu_op"
"""The family of operators where the work itself is on a device: there they only hand it on."""
PROFILER = "profiler"
"""Spans that the profiler made for itself. They are no part of what was measured."""
MOST_SHORT = 60
_CALL = re.compile(r"(?:cuda|cu|hip|ze)[A-Z]\w+")
_OPERATOR = re.compile(r"[A-Za-z_]\w*::[\w.]+")
_COPY = re.compile(r"Mem(cpy|set)\b", re.IGNORECASE)
_NOISE = re.compile(r"\bvoid |\(anonymous namespace\)::|\bat::native::|\bat::|\bc10::|\{lambda\([^{}]*\)#\d+\}")
_KEYS = {"side", "family", "pattern", "names", "categories"}


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of the file. With ``categories`` the name is not looked at."""

    side: Side
    family: str
    pattern: re.Pattern[str] | None
    categories: frozenset[str]

    def matches(self, category: str, name: str) -> bool:
        if self.categories:
            return category in self.categories
        return self.pattern is not None and self.pattern.search(name) is not None


@dataclass(frozen=True, slots=True)
class Families:
    """All rules, a user's own first."""

    rules: tuple[Rule, ...]
    categories: Mapping[str, Side]

    def side(self, category: str) -> Side:
        """Where a category lies; one that nobody named is host work unless it sounds like a runtime's."""
        known = self.categories.get(category.casefold())
        if known is not None:
            return known
        return "call" if category.casefold().endswith(("_runtime", "_driver")) else "host"

    def of(self, category: str, name: str, *, has_device: bool = True) -> tuple[Side, str]:
        """Side and family of an event. Operators count as work only where the trace has no device."""
        side = self.side(category)
        if side == "host" and has_device:
            return side, HOST_WORK
        return side, self._family(side, category.casefold(), name)

    def of_name(self, name: str) -> tuple[Side, str]:
        """The same where only a name is known, as in a table."""
        if _CALL.fullmatch(name):
            return "call", self._family("call", "", name)
        if copied := _COPY.match(name):
            return "device", f"mem{copied[1].lower()}"
        if _OPERATOR.fullmatch(name):
            return self.of("cpu_op", name)
        return "device", self._family("device", "", name)

    def _family(self, side: Side, category: str, name: str) -> str:
        found = (rule.family for rule in self.rules if rule.side == side and rule.matches(category, name))
        return next(found, OTHERS[side])


def load_families(path: Path = FILE, own: Path | None = None) -> Families:
    """The rules that ship, behind those of ``own`` (else of the file that DRIFTSCOPE_TRACE_FAMILIES names)."""
    named = os.environ.get(VARIABLE, "")
    extra = own or (Path(named) if named else None)
    parts = [_read(one) for one in (extra, path) if one is not None]
    categories: dict[str, Side] = {}
    for _, known in reversed(parts):
        categories |= known
    return Families(tuple(rule for rules, _ in parts for rule in rules), categories)


def short_name(name: str, most: int = MOST_SHORT) -> str:
    """A kernel's name without its templates and namespaces; the full one is kept beside it."""
    plain = _NOISE.sub("", name)
    head = _without_brackets(plain) or plain
    inner = next((word for word in re.findall(r"\w+", plain[len(head) :]) if _tells(word)), "")
    text = f"{head} [{inner}]" if inner and inner not in head else head
    return text if len(text) <= most else text[: most - 1] + "…"


def _without_brackets(name: str) -> str:
    """What stands before the first template or parameter list."""
    return re.split(r"[<(]", name, maxsplit=1)[0].strip()


def _tells(word: str) -> bool:
    """Of a generic kernel's template arguments, the one that says what it computes."""
    return word.endswith(("Functor", "_kernel_cuda", "_kernel", "_impl", "Op")) and "gpu_kernel" not in word


def _read(path: Path) -> tuple[list[Rule], dict[str, Side]]:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
        rules = [_rule(table) for table in document.get("rule", [])]
        categories = {key.casefold(): _side(side) for key, side in document.get("categories", {}).items()}
    except OSError as error:
        raise FileFormatError(f"{shown(path, 200)} cannot be read: {error.strerror}", "Check its path") from error
    except (ValueError, KeyError, TypeError, AttributeError, re.error) as error:
        raise FileFormatError(f"{shown(path, 200)} is no file of families: {error}", "Mend it there") from error
    return rules, categories


def _rule(table: Mapping[str, Any]) -> Rule:
    unknown = set(table) - _KEYS
    if unknown:
        raise ValueError(f"a rule has {shown(sorted(unknown)[0])}; known are {', '.join(sorted(_KEYS))}")
    side, family = _side(table["side"]), table["family"]
    names, categories = _texts(table, "names"), _texts(table, "categories")
    parts = [table["pattern"]] if "pattern" in table else []
    if names:
        parts.append(rf"::_?(?:{'|'.join(map(re.escape, names))})_?(?:_out)?$")
    if not family or not isinstance(family, str) or not (parts or categories):
        raise ValueError("a rule has a family, and a pattern, names or categories")
    pattern = re.compile("|".join(f"(?:{part})" for part in parts), re.IGNORECASE) if parts else None
    return Rule(side, family, pattern, frozenset(one.casefold() for one in categories))


def _texts(table: Mapping[str, Any], key: str) -> Sequence[str]:
    found = table.get(key, [])
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise TypeError(f"{key} is a list of texts")
    return found


def _side(name: object) -> Side:
    found = next((side for side in SIDES if side == name), None)
    if found is None:
        raise ValueError(f"{shown(name)} is no side; known are {', '.join(SIDES)}")
    return found
