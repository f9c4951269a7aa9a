"""The family of each operation of a trace: the first rule of a data file that matches.

Rules are applied once per distinct name, never per event. What no rule matches is `other`, and is shown with its share.
Of a kernel only its name is known; its templates and namespaces decide only where the name is a wrapper's.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from engine.errors import shown
from engine.figures.words import shortened
from engine.paths import DATA, read_toml, user_path

Side = Literal["device", "call", "host", "python", "mark"]
SIDES: tuple[Side, ...] = get_args(Side)
FILE = DATA / "trace_families.toml"
VARIABLE = "DRIFTSCOPE_TRACE_FAMILIES"
OTHERS: Mapping[Side, str] = dict(zip(SIDES, ("other", "other_call", "other", "python", "mark"), strict=True))
HOST_WORK = "cpu_op"  # family of operators in a trace with a device: there they only launch its work
PROFILER = "profiler"  # spans of the profiler itself, which are not counted
MOST_SHORT, MOST_FUSED = 60, 160
_CALL = re.compile(r"(?:cuda|cu|hip|ze)[A-Z]\w+")
_OPERATOR = re.compile(r"(?!(?:cudnn|cub|thrust|cutlass|cublas\w*)::)[A-Za-z_]\w*::[\w.]+")
_COPY = re.compile(r"\[?(?:(?:CUDA|HIP) )?mem(cpy|set)\b", re.IGNORECASE)
_CODE = re.compile(
    r"(?:void )?((?:(?:\(anonymous namespace\)|[A-Za-z_]\w*)::)*[A-Za-z_][\w$]*)(?:\.\d+|\.kd)*(?:\.{3}|…| ?[<(].*)?"
)
"""A name that code has, with its templates and parameters: no blank before them, no mark of a sentence."""
_COMPILED = re.compile(r"\w[<(]|k(?:erne?l|rn)|^_Z|^(?:triton|sm\d+|volta|turing|ampere|hopper)_|\dx\d", re.IGNORECASE)
_NOISE = re.compile(r"\bvoid |\(anonymous namespace\)::|\bat::native::|\bat::|\bc10::|\{lambda\([^{}]*\)#\d+\}")
_SPACE = r"(?:(?:\(anonymous namespace\)|<unnamed>|[A-Za-z_]\w*)::)*"
_KERNEL = re.compile(rf"(?:void |std::enable_if<.*?>::type )?({_SPACE})([^<(]+)(.*)", re.DOTALL)
"""A kernel's namespaces, its own name, its templates with its parameters."""
_SPACES = re.compile(r"(?:\b\w++|\(anonymous namespace\))::")
_TELLING = ("Functor", "_kernel_cuda", "_kernel", "_impl", "Op")
_FUSED = re.compile(r"triton_([a-z]+)_fused_(\w*?)(?:(?:_|(?<=fused_))(\d+))?(?:_0[\ddce]+)?(?:\.kd|\.\d+)*")
_KINDS = {"poi": "pointwise", "red": "reduction", "per": "persistent reduction", "for": "foreach", "tem": "template"}
_NEVER = re.compile("(?!)")
_KEYS = {"side", "family", "pattern", "names", "categories"}


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of the file. Where the category is known, a rule with ``categories`` ignores the name."""

    side: Side
    family: str
    pattern: re.Pattern[str] | None
    categories: frozenset[str]

    def matches(self, category: str, name: str) -> bool:
        if self.categories and category:
            return category in self.categories
        return self.pattern is not None and bool(self.pattern.search(name))


@dataclass(frozen=True, slots=True)
class Families:
    """All rules, a user's own first."""

    rules: tuple[Rule, ...]
    categories: Mapping[str, Side]
    own: int = 0  # how many of the rules are the user's
    wrappers: re.Pattern[str] = _NEVER
    operators: re.Pattern[str] = _NEVER  # each that torch.compile may have joined to a name

    def side(self, category: str) -> Side:
        """The side of a category; an unknown one is host work unless its name ends like a runtime's."""
        side = self.categories.get(category.casefold())
        if side is not None:
            return side
        return "call" if category.casefold().endswith(("_runtime", "_driver")) else "host"

    def of(self, category: str, name: str, *, has_device: bool = True) -> tuple[Side, str]:
        """Side and family of an event. Operators count as work only where the trace has no device."""
        side = self.side(category)
        if side == "host" and has_device:
            return side, HOST_WORK
        return side, self._family(side, category.casefold(), name)

    def of_name(self, name: str) -> tuple[Side, str]:
        """The same by the name alone, as in a table. What may be a span has side and family ``mark``."""
        kernel = self._rule("device", "", name)
        if kernel in self.rules[: self.own]:
            return "device", self._family("device", "", name)
        for side in ("mark", "python"):
            if rule := self._rule(side, "", name):
                return side, rule.family
        if _CALL.fullmatch(name):
            return "call", self._family("call", "", name)
        if copied := _COPY.match(name):
            return "device", f"mem{copied[1].lower()}"
        if _OPERATOR.fullmatch(name) and not _COMPILED.search(name):
            return self.of("cpu_op", name)
        if _CODE.fullmatch(name) and (kernel or _COMPILED.search(name)):
            return "device", self._family("device", "", name)
        return "mark", OTHERS["mark"]

    def short_name(self, name: str) -> str:
        """A kernel's name without its templates and namespaces, with the template argument that says what it does; of
        one that torch.compile made, its number, its kind and what it fuses."""
        if fused := _FUSED.fullmatch(name):
            kind, operators, number = fused.groups()
            what = ", ".join(self.operators.findall(operators))
            title = " ".join(filter(None, ("fused", number, _KINDS.get(kind, kind))))
            return shortened(f"{title}: {what}" if what else title, MOST_FUSED)
        plain = _NOISE.sub("", name)
        head = re.split(r"[<(]", plain, maxsplit=1)[0].strip() or plain
        words = re.findall(r"\w+", plain[len(head) :])
        telling = (word for word in words if word.endswith(_TELLING) and "gpu_kernel" not in word)
        inner = next(telling, "")
        return shortened(f"{head} [{inner}]" if inner and inner not in head else head, MOST_SHORT)

    def _family(self, side: Side, category: str, name: str) -> str:
        rule = self._rule(side, category, name)
        return OTHERS[side] if rule is None else rule.family

    def _rule(self, side: Side, category: str, name: str) -> Rule | None:
        rules = [rule for rule in self.rules if rule.side == side]
        texts = self._texts(name) if side == "device" else (name,)
        return next((rule for text in texts for rule in rules if rule.matches(category, text)), None)

    def _texts(self, name: str) -> Iterator[str]:
        """What says what a kernel does: its own name, or if that is a wrapper's, what it wraps, then its namespaces."""
        match = _KERNEL.fullmatch(name)
        if match is None:
            yield name
            return
        spaces, kernel, rest = match.groups()
        if not self.wrappers.fullmatch(kernel):
            yield kernel
            return
        yield _SPACES.sub("", rest)
        yield spaces + kernel


def load_families() -> Families:
    """The rules of the file that DRIFTSCOPE_TRACE_FAMILIES names, then those that ship."""
    shipped = read_toml(FILE, "file of families", _parsed)
    named = os.environ.get(VARIABLE)
    if not named:
        return shipped
    user = read_toml(user_path(named, VARIABLE), "file of families", _parsed)
    wrappers = shipped.wrappers if user.wrappers is _NEVER else user.wrappers
    operators = shipped.operators if user.operators is _NEVER else user.operators
    categories = {**shipped.categories, **user.categories}
    return Families((*user.rules, *shipped.rules), categories, len(user.rules), wrappers, operators)


def _parsed(document: Mapping[str, Any]) -> Families:
    rules = []
    for table in document.get("rule", []):
        if unknown := set(table) - _KEYS:
            raise ValueError(f"a rule has {shown(min(unknown))}; known are {', '.join(sorted(_KEYS))}")
        family = table["family"]
        names = table.get("names", [])
        categories = table.get("categories", [])
        if not isinstance(names, list) or not isinstance(categories, list):
            raise TypeError("names and categories are lists of texts")
        parts = [table["pattern"]] if "pattern" in table else []
        parts += [rf"::_?(?:{'|'.join(map(re.escape, names))})_?(?:_out)?$"] if names else []
        if not family or not isinstance(family, str) or not (parts or categories):
            raise ValueError("a rule has a family, and a pattern, names or categories")
        pattern = re.compile("|".join(f"(?:{part})" for part in parts), re.IGNORECASE) if parts else None
        rules.append(Rule(_side(table["side"]), family, pattern, frozenset(map(str.casefold, categories))))
    categories = {key.casefold(): _side(side) for key, side in document.get("categories", {}).items()}
    wrappers = re.compile(document["wrappers"], re.IGNORECASE) if "wrappers" in document else _NEVER
    operators = _operators(document.get("operators"))
    return Families(tuple(rules), categories, wrappers=wrappers, operators=operators)


def _operators(names: object) -> re.Pattern[str]:
    """Finds these, the longest first, and else single words: ``_to_copy``, ``mul``, ``silu`` in `_to_copy_mul_silu`."""
    if names is None:
        return _NEVER
    if not isinstance(names, list):
        raise TypeError("operators are a list of texts")
    known = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    return re.compile(rf"(?:{known})(?![^_])|[^_]+")


def _side(name: object) -> Side:
    if name not in SIDES:
        raise ValueError(f"{shown(name)} is no side; known are {', '.join(SIDES)}")
    return name
