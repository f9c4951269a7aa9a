"""Arithmetic among reported figures that minds how they were rounded.

A figure of 3.51 stands for anything from 3.505 to 3.515, so a formula over figures gives a range with the plain result
in its middle. It knows numbers only: which figure belongs where is the claims' business.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from engine.errors import FileFormatError, shown

WHOLE_WITHIN = 1e-9
NAMED = re.compile(r"\{([^{}]+)\}")


@dataclass(frozen=True, slots=True)
class Range:
    """A figure with what it may have been rounded from; ``least`` and ``most`` are inside."""

    least: float
    value: float
    most: float

    def __post_init__(self) -> None:
        if not self.least <= self.value <= self.most:
            raise ValueError(f"{self.value} does not lie between {self.least} and {self.most}")

    @classmethod
    def exact(cls, value: float) -> Range:
        return cls(value, value, value)

    def meets(self, other: Range) -> bool:
        """Whether both can be the same figure; a hair of floating point does not part them."""
        slack = WHOLE_WITHIN * max(abs(self.value), abs(other.value))
        return self.least <= other.most + slack and other.least <= self.most + slack


Outcome = Range | bool


def evaluate(formula: str, figures: Mapping[str, Range], where: Mapping[str, str] | None = None) -> Outcome:
    """The formula's range, or for a comparison whether it holds.

    ``{id}`` is a figure, a bare word one of ``where``, which are formulas themselves. There are ``+ - * /``,
    comparisons, ``and``, ``not``, and the functions ``min``, ``max``, ``mean``, ``abs`` and ``whole``.
    ``==`` asks whether rounding lets both be the same; ``<`` compares the plain values.
    """
    names: dict[str, Range] = {}
    for name, part in (where or {}).items():
        names[name] = _range(_outcome(part, figures, names), part)
    return _outcome(formula, figures, names)


def with_figures(formula: str, words: Mapping[str, str]) -> str:
    """The formula as a person writes it down, with each ``{id}`` as its figure."""
    return NAMED.sub(lambda match: words[match.group(1)], formula)


def figures_of(formula: str) -> list[str]:
    """The ids that a formula names."""
    return NAMED.findall(formula)


def _outcome(formula: str, figures: Mapping[str, Range], names: Mapping[str, Range]) -> Outcome:
    known = dict(names)

    def as_name(match: re.Match[str]) -> str:
        name = f"figure_{len(known)}"
        known[name] = figures[match.group(1)]
        return name

    try:
        return _value(ast.parse(NAMED.sub(as_name, formula), mode="eval").body, known)
    except (SyntaxError, KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise FileFormatError(f"the formula {shown(formula, 200)} cannot be computed: {error}") from error


def _value(node: ast.expr, names: Mapping[str, Range]) -> Outcome:
    match node:
        case ast.Constant(value=int() | float() as value):
            return Range.exact(float(value))
        case ast.Name(id=name):
            return names[name]
        case ast.UnaryOp(op=ast.USub()):
            return _combine(operator.sub, Range.exact(0.0), _number(node.operand, names))
        case ast.UnaryOp(op=ast.Not()):
            return not _value(node.operand, names)
        case ast.BinOp() if type(node.op) in _OPERATIONS:
            return _combine(_OPERATIONS[type(node.op)], _number(node.left, names), _number(node.right, names))
        case ast.BoolOp(op=ast.And()):
            return all(_value(value, names) for value in node.values)
        case ast.Compare():
            sides = [_number(comparator, names) for comparator in (node.left, *node.comparators)]
            pairs = zip(sides, node.ops, sides[1:], strict=False)
            return all(_COMPARISONS[type(how)](left, right) for left, how, right in pairs)
        case ast.Call(func=ast.Name(id="whole"), args=[argument]):
            value = _number(argument, names).value
            return abs(value - round(value)) <= WHOLE_WITHIN * max(1.0, abs(value))
        case ast.Call(func=ast.Name(id=name)) if name in _FUNCTIONS:
            sides = [_number(arg, names) for arg in node.args]
            plain = _FUNCTIONS[name]([side.value for side in sides])
            ends = [
                _FUNCTIONS[name](corner) for corner in ([side.least for side in sides], [side.most for side in sides])
            ]
            return Range(min(*ends, plain), plain, max(*ends, plain))
    raise TypeError(f"{ast.unparse(node)} is not allowed")


def _number(node: ast.expr, names: Mapping[str, Range]) -> Range:
    return _range(_value(node, names), ast.unparse(node))


def _range(outcome: Outcome, formula: str) -> Range:
    if isinstance(outcome, bool):
        raise FileFormatError(f"{shown(formula, 200)} is a comparison where a number belongs")
    return outcome


def _combine(how: Callable[[float, float], float], left: Range, right: Range) -> Range:
    if how is operator.truediv and right.least <= 0 <= right.most:
        raise ZeroDivisionError(f"a divisor from {right.least} to {right.most}")
    corners = [how(one, other) for one in (left.least, left.most) for other in (right.least, right.most)]
    middle = how(left.value, right.value)
    return Range(min(*corners, middle), middle, max(*corners, middle))


_OPERATIONS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[Range, Range], bool]] = {
    ast.Lt: lambda left, right: left.value < right.value,
    ast.LtE: lambda left, right: left.value <= right.value,
    ast.Gt: lambda left, right: left.value > right.value,
    ast.GtE: lambda left, right: left.value >= right.value,
    ast.Eq: lambda left, right: left.meets(right),
    ast.NotEq: lambda left, right: not left.meets(right),
}
_FUNCTIONS: dict[str, Callable[[list[float]], float]] = {
    "min": min,
    "max": max,
    "mean": lambda values: sum(values) / len(values),
    "abs": lambda values: abs(values[0]),
}
