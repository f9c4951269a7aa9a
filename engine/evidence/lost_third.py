"""What ``python -m tools.lost_third`` found, kept in the store as one document per model: ``lost_third/ALIAS.json``.

``figures`` gives each number of the documents a name, such as ``demo-qwen/fall/in all/cov_r``, so that claims can be
held against it; a number with an interval stands for all of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec

from engine.errors import FileFormatError, one_line, shown
from engine.evidence.formula import Range
from engine.store.files import Files
from engine.user_files import parsed_json

FOLDER = "lost_third"
MOST_BYTES, MOST_REASON = 2_000_000, 200
Document = dict[str, Any]


NONE, EXACT, V43, REORDERED = "none", "exact", "v4.3", "exact-reordered"
LANES: Mapping[str, str] = {
    NONE: "no LP",
    EXACT: "the exact LP",
    V43: "v4.3 as it ran: 0.000 x 3, [OH]",
    "v4.3-plain": "v4.3 with plain descriptors, [O]",
    "v4.3-four": "v4.3 with 0.0000 x 3",
    "v4.3-fitted": "v4.3, fitted placeholder",
    "v3.9": "v3.9: blocklist, 0.000 x 3",
    "v3.8": "v3.8 (reconstructed): blocklist, 0.0000 x 3",
    "truncating": "truncating",
    "guarded": "the guarded LP",
    REORDERED: "the exact LP, another atom order",
}
"""What the experiment's lanes are called, in the order in which they ran."""

Number = Annotated[float, msgspec.Meta(ge=-1e9, le=1e9)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Name = Annotated[str, msgspec.Meta(max_length=200)]


class CoverageChange(msgspec.Struct):
    value: Number
    low: Number | None
    high: Number | None


class FallStepValues(msgspec.Struct):
    step: Literal["forcing the SMILES", "failed parses", "placeholder and cut", "in all"]
    cov_r: CoverageChange | None


class LaneFigures(msgspec.Struct):
    cov_r: Number | None
    cov_p: Number | None
    mat_r_ang: Number | None
    mat_p_ang: Number | None
    thresholds: list[Number]
    cov_r_curve: list[Number | None]
    missing: Count

    def __post_init__(self) -> None:
        if len(self.thresholds) != len(self.cov_r_curve):
            raise ValueError("a curve has not a share for each threshold")


class LaneResult(msgspec.Struct):
    lane: Name
    words: Name
    molecules: Count
    samples_per_molecule: Count
    samples: Count
    parsed: Count
    zero: LaneFigures
    skip: LaneFigures
    not_decoded: dict[str, Count]


class LostThird(msgspec.Struct):
    model: Name
    lanes: list[LaneResult]
    fall: list[FallStepValues] | None
    reordered: dict[str, CoverageChange | None] | None
    descriptors: dict[str, CoverageChange | None] | None = None
    beside_none: dict[str, dict[str, CoverageChange | None]] | None = None


def load_all(places: Sequence[Files]) -> list[Document]:
    """By model; where two places have one of the same model, the first place's. FileFormatError for a damaged one."""
    documents, damaged = load_usable(places)
    if damaged:
        raise damaged[0]
    return documents


def load_usable(places: Sequence[Files]) -> tuple[list[Document], list[FileFormatError]]:
    """The same without those that are damaged, and what is wrong with these."""
    found: dict[str, Document] = {}
    damaged = []
    for files in places:
        for name, size in sorted(files.sizes(FOLDER).items()):
            if name.endswith(".json") and not name.startswith("."):
                try:
                    document = _read(files, f"{FOLDER}/{name}", size)
                    found.setdefault(document["model"], document)
                except FileFormatError as error:
                    damaged.append(error)
    return [found[model] for model in sorted(found)], damaged


def figures(documents: Sequence[Mapping[str, Any]]) -> dict[str, Range]:
    return {
        f"{document['model']}/{name}": figure
        for document in documents
        for name, figure in (*_of_lanes(document), *_of_changes(document))
    }


def lane_of(document: Mapping[str, Any], key: str, molecules: int | None = None) -> Mapping[str, Any] | None:
    """The lane at a number of molecules; without one, at the most that it has."""
    lanes = [lane for lane in document["lanes"] if lane["lane"] == key and molecules in (None, lane["molecules"])]
    return max(lanes, key=lambda lane: lane["molecules"], default=None)


def rounded(value: Any) -> Any:
    """With six decimals: curves are long."""
    if isinstance(value, Mapping):
        return {name: rounded(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(part) for part in value]
    return round(value, 6) if isinstance(value, float) else value


def _of_lanes(document: Mapping[str, Any]) -> Iterator[tuple[str, Range]]:
    for lane in document["lanes"]:
        place = f"{lane['lane']}/{lane['molecules']}x{lane['samples_per_molecule']}"
        plain = {name: lane["zero"][name] for name in ("cov_r", "cov_p", "mat_r_ang", "mat_p_ang")}
        plain |= {"samples": lane["samples"], "parsed": lane["parsed"]}
        kinds = sorted(lane["not_decoded"].values(), reverse=True)
        plain |= {"failed": sum(kinds), "failed_most": kinds[0] if kinds else 0}
        for name, value in plain.items():
            if value is not None:
                yield f"{place}/{name}", Range.exact(float(value))
    for lane, cost in (document.get("cost") or {}).items():
        for name, found in {**cost, **(cost.get("disagreement") or {})}.items():
            if isinstance(found, Mapping):
                yield from _interval(f"{lane}/cost/{name}", found)
            elif type(found) in (int, float):
                yield f"{lane}/cost/{name}", Range.exact(float(found))


def _of_changes(document: Mapping[str, Any]) -> Iterator[tuple[str, Range]]:
    steps = {f"fall/{step['step']}": step for step in document["fall"] or ()}
    steps |= {change: document.get(change) or {} for change in ("reordered", "descriptors")}
    for lane, changes in (document.get("beside_none") or {}).items():
        steps[f"{lane}/beside none"] = changes
    for place, changes in steps.items():
        for name in ("cov_r", "cov_p", "mat_r_ang", "mat_p_ang"):
            if isinstance(changes.get(name), Mapping):
                yield from _interval(f"{place}/{name}", changes[name])


def _interval(name: str, found: Mapping[str, Any]) -> Iterator[tuple[str, Range]]:
    value, low, high = (found.get(key) for key in ("value", "low", "high"))
    if value is not None:
        ends = (value if end is None else end for end in (low, high))
        yield name, Range(min(value, low := next(ends)), value, max(value, next(ends), low))


def _read(files: Files, name: str, size: int) -> Document:
    try:
        if size > MOST_BYTES:
            raise ValueError(f"it has {size:,} bytes")
        document: Document = parsed_json(files.read(name))
        msgspec.convert(document, LostThird)  # ValueError names the place of what is wrong
        figures([document])  # of its costs too
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        where = shown(files.path(name), 200)
        raise FileFormatError(
            f"{where} is no result of `lost-third`: {one_line(str(error)[:MOST_REASON])}",
            "Remove it, or write it again",
        ) from error
    return document
