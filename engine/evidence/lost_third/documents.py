"""What ``lost-third`` found, kept in the store as one document a model: ``lost_third/ALIAS.json``.

``figures`` gives each number of the documents a name, such as ``demo-qwen/fall/in all/cov_r``, so that claims can be
held against it; a number with an interval stands for all of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from engine.errors import FileFormatError, one_line, shown
from engine.evidence.formula import Range
from engine.evidence.lost_third.schema import check
from engine.store.files import Files
from engine.user_files import parsed_json

FOLDER = "lost_third"
MOST_BYTES, MOST_REASON = 2_000_000, 200
Document = dict[str, Any]


def save(document: Mapping[str, Any], home: Files) -> str:
    """The place that it was written to; an older one of the same model is replaced."""
    name = f"{FOLDER}/{str(document['model']).replace(':', '-')}.json"
    home.write(name, json.dumps(document, allow_nan=False).encode() + b"\n")
    return home.path(name)


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
        check(document)
        figures([document])  # of its costs too
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        where = shown(files.path(name), 200)
        raise FileFormatError(
            f"{where} is no result of `lost-third`: {one_line(str(error)[:MOST_REASON])}", "Remove it, or write it anew"
        ) from error
    return document
