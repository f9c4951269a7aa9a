"""Fill a list of faults up: ``python -m tests.faults.draw [hundred | fifty]``. One seed and one tree give one list.

A fault is one changed line of ``engine/`` or ``pages/``: an operator, a constant or a condition that is wrong, or a
statement that is missing. It is stored with its line's text, not its number, so that it is found again when the code
around it changes. The committed lists are the yardsticks: a fault is kept while its line is there, and for one that
went its like is drawn. None of the hundred is among the fifty.
"""

from __future__ import annotations

import ast
import json
import random
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.support import ROOT

LIST, FIFTY = (Path(__file__).with_name(f"{name}.json") for name in ("faults", "fifty"))
DRAWN = {LIST: (100, 9, 2), FIFTY: (50, 17, 1)}  # how many, the seed, and how many each folder has at least

COMPARISONS = {"Lt": "<=", "LtE": "<", "Gt": ">=", "GtE": ">", "Eq": "!=", "NotEq": "==", "In": "not in"}
COMPARISONS |= {"NotIn": "in", "Is": "is not", "IsNot": "is"}
ARITHMETIC = {"Add": ("+", "-"), "Sub": ("-", "+"), "Mult": ("*", "+"), "FloorDiv": ("//", "*"), "Div": ("/", "*")}


@dataclass(frozen=True, slots=True)
class Fault:
    file: str
    function: str  # its qualified name; empty at module level
    kind: str  # operator | constant | condition | dropped
    before: str  # the whole line, without its indentation
    after: str
    nth: int  # which of the equal lines of that function, from 0


def draw(count: int, seed: int, least: int, kept: Sequence[Fault] = (), without: Sequence[Fault] = ()) -> list[Fault]:
    """``kept`` and others, ``count`` in all: each folder gives its share by lines, and each at least ``least``."""
    chance = random.Random(seed)
    folders: dict[str, list[Path]] = defaultdict(list)
    for path in sorted((*(ROOT / "engine").rglob("*.py"), *(ROOT / "pages").rglob("*.py"))):
        folders[str(path.parent.relative_to(ROOT))].append(path)
    weights = {folder: sum(len(path.read_text().splitlines()) for path in paths) for folder, paths in folders.items()}
    slots = [folder for folder in folders for _ in range(least)]
    slots += chance.choices(list(weights), list(weights.values()), k=max(0, count - len(slots)))
    for fault in kept:
        if (folder := str(Path(fault.file).parent)) in slots:
            slots.remove(folder)
    drawn = list(kept)
    taken = {*kept, *without}
    for folder in sorted(chance.sample(slots, min(len(slots), count - len(kept)))):
        choices = [fault for path in folders[folder] for fault, _ in faults_of(path) if fault not in taken]
        kind = chance.choice(sorted({fault.kind for fault in choices} or [""]))
        drawn += chance.sample([fault for fault in choices if fault.kind == kind], 1 if choices else 0)
        taken |= set(drawn[-1:])
    return sorted(drawn, key=lambda fault: (fault.file, fault.function, fault.before, fault.nth))


def faults_of(path: Path) -> Iterator[tuple[Fault, int]]:
    """All that can be planted, and the number of each one's line, from 0."""
    source = path.read_text(encoding="utf-8")
    lines = source.splitlines()
    for function, node in _nodes(ast.parse(source), ""):
        line = lines[node.lineno - 1]
        for kind, start, end, text in _changes(node, line):
            first = function.lineno if function else 1
            nth = sum(other.strip() == line.strip() for other in lines[first - 1 : node.lineno - 1])
            name = getattr(function, "qualified", "")
            changed = line[:start] + text + line[end:]
            fault = Fault(str(path.relative_to(ROOT)), name, kind, line.strip(), changed.strip(), nth)
            yield fault, node.lineno - 1


def _nodes(node: Any, inside: str, function: Any = None) -> Iterator[tuple[Any, Any]]:
    """Every node that stands on one line and runs, with the function around it."""
    children: list[Any] = list(ast.iter_child_nodes(node))
    for child in children:
        kind = type(child).__name__
        if kind in ("FunctionDef", "AsyncFunctionDef", "ClassDef"):
            child.qualified = f"{inside}.{child.name}".lstrip(".")
            around = function if kind == "ClassDef" else child
            for statement in child.body:
                yield from _nodes(ast.Module([statement], []), child.qualified, around)
        elif kind in ("AnnAssign", "arg"):  # types are no code
            if (value := getattr(child, "value", None)) is not None:
                yield from _nodes(ast.Module([value], []), inside, function)
        else:
            if function is not None and hasattr(child, "lineno") and child.lineno == child.end_lineno:
                yield function, child
            yield from _nodes(child, inside, function)


def _changes(node: Any, line: str) -> Iterator[tuple[str, int, int, str]]:
    """Kind, columns, and the text that replaces them."""
    if not line.isascii():  # columns of the tree are bytes
        return
    match node:
        case ast.Compare(left=left, ops=[operator], comparators=[right]):
            yield "operator", left.end_col_offset or 0, right.col_offset, f" {COMPARISONS[type(operator).__name__]} "
        case ast.BinOp(left=left, op=operator, right=right) if type(operator).__name__ in ARITHMETIC:
            old, new = ARITHMETIC[type(operator).__name__]
            between = line[left.end_col_offset : right.col_offset]
            yield "operator", left.end_col_offset or 0, right.col_offset, between.replace(old, new, 1)
        case ast.Constant(value=bool() as value):
            yield "constant", node.col_offset, node.end_col_offset or 0, str(not value)
        case ast.Constant(value=int() as value):
            yield "constant", node.col_offset, node.end_col_offset or 0, str(value + 1)
        case ast.BoolOp(op=operator, values=[first, second]):
            other = " or " if isinstance(operator, ast.And) else " and "
            yield "condition", first.end_col_offset or 0, second.col_offset, other
        case ast.If(test=test) | ast.IfExp(test=test) if test.lineno == test.end_lineno:
            yield "condition", test.col_offset, test.col_offset, "not "
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield "condition", node.col_offset, operand.col_offset, ""
        case ast.Expr(value=ast.Call()) | ast.AugAssign():
            yield "dropped", node.col_offset, node.end_col_offset or 0, "pass"


def listed(path: Path) -> list[Fault]:
    return [Fault(**entry) for entry in json.loads(path.read_text(encoding="utf-8"))]


def location_of(fault: Fault) -> tuple[Path, int] | None:
    """The file and line of a fault, also where its function moved to another module; None where it is gone."""

    def hits(path: Path) -> list[tuple[Path, int, Fault]]:
        if not path.is_file() or fault.before not in path.read_text(encoding="utf-8"):
            return []
        same = [(path, line, candidate) for candidate, line in faults_of(path)]
        return [hit for hit in same if (hit[2].before, hit[2].after) == (fault.before, fault.after)]

    here = hits(ROOT / fault.file)
    exact = [hit for hit in here if (hit[2].function, hit[2].nth) == (fault.function, fault.nth)]
    if not (chosen := exact or here):
        others = (path for top in ("engine", "pages", "tools") for path in sorted((ROOT / top).rglob("*.py")))
        name = fault.function.rpartition(".")[2]
        chosen = [hit for path in others for hit in hits(path) if hit[2].function.rpartition(".")[2] == name]
    lines = {hit[:2] for hit in chosen}
    return lines.pop() if len(lines) == 1 else None


if __name__ == "__main__":
    path, other = (FIFTY, LIST) if sys.argv[1:] == ["fifty"] else (LIST, FIFTY)
    still = [fault for fault in listed(path) if location_of(fault)]
    drawn = draw(*DRAWN[path], still, listed(other))
    rows = ",\n".join(json.dumps(asdict(fault)) for fault in drawn)
    path.write_text(f"[\n{rows}\n]\n", encoding="utf-8")
    print(f"{len(still)} kept, {len(drawn) - len(still)} drawn")
