"""Why coverage falls under an LP: what was found, one document per model in the store, ``lost_third/ALIAS.json``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import msgspec

from engine.errors import FileError, one_line, shown
from engine.store.files import Files
from engine.user_files import parsed_json

FOLDER = "lost_third"
MOST_BYTES, MOST_REASON = 2_000_000, 200
KEYS = ("step", "lane", "molecules", "samples_per_molecule")

Number = Annotated[float, msgspec.Meta(ge=-1e9, le=1e9)] | None
Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class Change(msgspec.Struct):
    value: Number
    low: Number
    high: Number


class Step(msgspec.Struct):
    step: str
    cov_r: Change | None


class Figures(msgspec.Struct):
    cov_r: Number
    cov_p: Number
    mat_r_ang: Number
    mat_p_ang: Number
    thresholds: list[float]
    cov_r_curve: list[Number]
    missing: Count


class Lane(msgspec.Struct):
    lane: str
    words: str
    molecules: Count
    samples_per_molecule: Count
    samples: Count
    parsed: Count
    zero: Figures  # molecules without an answer count as 0
    skip: Figures  # or are left out
    not_decoded: dict[str, Count]


class LostThird(msgspec.Struct):
    """What the page shows of a document; it has more, such as costs."""

    model: str
    lanes: list[Lane]
    fall: list[Step] | None
    reordered: dict[str, Change | None] | None
    descriptors: dict[str, Change | None] | None = None
    beside_none: dict[str, dict[str, Change | None]] | None = None


def load_usable(locations: Sequence[Files]) -> tuple[list[dict[str, Any]], list[FileError]]:
    """Those with a fall first, and what is wrong with those that are damaged; where two places have one of the same
    model, the first place's."""
    documents: dict[str, dict[str, Any]] = {}
    damaged = []
    for files in locations:
        for name, size in sorted(files.sizes(FOLDER).items()):
            if not name.endswith(".json") or name.startswith("."):
                continue
            try:
                if size > MOST_BYTES:
                    raise ValueError(f"it has {size:,} bytes")
                document = parsed_json(files.read(f"{FOLDER}/{name}"))
                documents.setdefault(msgspec.convert(document, LostThird).model, document)
            except (OSError, ValueError) as error:
                where, reason = shown(files.path(f"{FOLDER}/{name}"), 200), one_line(str(error)[:MOST_REASON])
                problem = f"{where} is no result of `lost-third`: {reason}"
                damaged.append(FileError(problem, "Remove it, or write it again"))
    return sorted(documents.values(), key=lambda document: (not document["fall"], document["model"])), damaged


def figures(part: Any, path: str) -> Iterator[tuple[str, float]]:
    """Each number by its path: ``demo-qwen/fall/in all/cov_r/value``, ``demo-qwen/lanes/v4.3 200 20/samples``."""
    if isinstance(part, Mapping):
        for name, inner in part.items():
            yield from figures(inner, f"{path}/{name}")
    elif isinstance(part, list):
        for inner in part:
            if isinstance(inner, Mapping):
                name = " ".join(str(inner[key]) for key in KEYS if key in inner)
                yield from figures(inner, f"{path}/{name}")
    elif type(part) in (int, float):
        yield path, float(part)
