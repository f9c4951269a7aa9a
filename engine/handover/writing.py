"""A report as one HTML file: its data as one block of JSON, which the file's own script draws.

The file's policy forbids every request, and lets no script or style run but those whose hashes it names. Where 3Dmol.js
is missing the file has drawings alone, and says so.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shlex
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from string import Template
from typing import Any

from engine.assets import three_d_mol
from engine.errors import AssetError, DriftscopeError, shown, visible
from engine.paths import DATA
from engine.user_files import writing

PARTS = [Path(__file__).parent / name for name in ("charts.js", "page.js", "page.css", "page.html")]
MOST_BYTES = 1_500_000
"""Of a file, with 3Dmol.js."""
Block = tuple[str, Any]
"""One of those that ``page.js`` names, and what it draws: ``("text", "All 64 pass.")``."""


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    parts: Sequence[Block]
    about: str = ""


@dataclass(frozen=True, slots=True)
class Bundle:
    """What a report holds: only what JSON can hold. Texts may be anybody's."""

    title: str
    sections: Sequence[Section]


def page_of(bundle: Bundle) -> bytes:
    """The file, which is at most `MOST_BYTES` long."""
    page = draft_of(bundle)
    if len(page) > MOST_BYTES:
        problem = f"{shown(bundle.title)} takes {len(page):,} bytes, and a report has at most {MOST_BYTES:,}"
        raise DriftscopeError(problem, "Choose fewer runs or traces")
    return page


def fitting(bundle: Bundle, views: Iterable[Block]) -> list[Block]:
    """Those of ``views`` that fit into the report as well, up to the first behind them that does not: each
    takes long to make."""
    room, kept = MOST_BYTES - len(draft_of(bundle)), list[Block]()
    for view in views:
        size = len(json_of(view).encode()) + 1  # and its comma
        if size <= room:
            kept.append(view)
            room -= size
        elif kept:
            break
    return kept


def write_bundle(bundle: Bundle, path: Path) -> int:
    """Its length in bytes. Written whole, or not at all."""
    content = page_of(bundle)
    with writing(path) as file:
        file.write(content)
    return len(content)


def draft_of(bundle: Bundle) -> bytes:
    library = licence = ""
    with suppress(AssetError):  # `make prepare` may bring it at any time
        library, licence = map(text_of, (three_d_mol(), DATA / "LICENSE-3Dmol.txt"))
    charts, page, style, frame = map(text_of, PARTS)
    script = f"{charts}{page}"
    allowed = f"script-src {hash_of(script)} {hash_of(library)}; style-src {hash_of(style)}"
    policy = f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"
    data = json_of({**asdict(bundle), "licence": licence})
    parts = {"policy": policy, "style": style, "data": data, "script": script, "library": library}
    return Template(frame).substitute(parts).encode()


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def hash_of(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def typed(*words: str) -> str:
    """A command, as a reader of the report types it."""
    return shlex.join(["python", "-m", "engine", *words])


def json_of(document: object) -> str:
    """JSON of visible characters that ends no script: in ``</script>`` and in ``<!--`` its ``<`` is escaped."""
    text = json.dumps(document, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    # What becomes visible is an escape of Python's, whose backslash JSON would take for its own.
    text = re.sub("[^ -~]", lambda match: visible(match[0]).replace("\\", "\\\\"), text)
    return text.replace("<", "\\u003c")
