"""A bundle as one HTML file: data as one block of JSON, scripts and style that its policy allows by their hashes.

The policy forbids every request. Where 3Dmol.js is missing the file has drawings alone, and says so.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from html import escape
from pathlib import Path
from string import Template

from engine.assets import three_d_mol
from engine.errors import AssetError, DriftscopeError, FileError, shown
from engine.handover.records import MOST_BYTES, Bundle, MoleculeView
from engine.paths import DATA
from engine.user_files import writing

HERE = Path(__file__).parent
NO_3D = "This file was made without 3Dmol.js, so molecules are drawn in 2D alone. `make prepare` brings it."
MOST_MISSES = 4


def html_of(bundle: Bundle) -> bytes:
    """The file, which is at most `MOST_BYTES` long."""
    page = page_of(bundle)
    if len(page) > MOST_BYTES:
        problem = f"{shown(bundle.title)} takes {len(page):,} bytes, and a bundle has at most {MOST_BYTES:,}"
        raise DriftscopeError(problem, "Choose fewer runs or traces")
    return page


def with_molecules(bundle: Bundle, views: Iterable[MoleculeView]) -> Bundle:
    """With those of ``views`` that fit, which ``bundle`` counts as left out. Each takes long to make, so that the last
    is the one after which `MOST_MISSES` did not fit; smaller ones behind a large one may."""
    room, kept, misses = MOST_BYTES - len(page_of(bundle)), list[MoleculeView](), 0
    for view in views:
        size = len(json_of(asdict(view))) + 1  # and its comma
        if size <= room:
            kept.append(view)
            room -= size
        else:
            misses += 1
        if misses == MOST_MISSES:
            break
    return replace(bundle, molecules=kept, molecules_left_out=bundle.molecules_left_out - len(kept))


def write_bundle(bundle: Bundle, path: Path) -> int:
    """Its length in bytes. Written whole, or not at all."""
    content = html_of(bundle)
    with writing(path) as file:
        file.write(content)
    return len(content)


def check_output(path: Path) -> None:
    """Before any work."""
    if path.suffix.lower() not in (".html", ".htm"):
        raise FileError(f"{shown(path.name, 200)} is no name of an HTML file", "Give a name that ends in .html")
    if not path.parent.is_dir():
        raise FileError(f"{shown(path.parent, 200)} is no folder", "Make it, or give another place")


def three_d_library() -> tuple[str, str]:
    """3Dmol.js and its licence; both empty where it is missing. `make prepare` may bring it at any time."""
    try:
        path = three_d_mol()
    except AssetError:
        return "", ""
    return path.read_text(encoding="utf-8"), (DATA / "LICENSE-3Dmol.txt").read_text(encoding="utf-8")


def page_of(bundle: Bundle) -> bytes:
    library, licence = three_d_library()
    if not library:
        bundle = replace(bundle, notes=[*bundle.notes, NO_3D])
    script, style = ((HERE / name).read_text(encoding="utf-8") for name in ("page.js", "page.css"))
    page = Template((HERE / "page.html").read_text(encoding="utf-8"))
    return page.substitute(
        policy=policy([script, library], style),
        title=escape(bundle.title),
        style=style,
        script=script,
        library=library,
        data=json_of(asdict(bundle)),
        licence=escape(licence),
    ).encode()


def policy(scripts: Sequence[str], style: str) -> str:
    """Nothing is loaded, nothing is sent, and no other script or style is run."""
    hashes = " ".join(map(hash_of, scripts))
    return f"default-src 'none'; script-src {hashes}; style-src {hash_of(style)}; base-uri 'none'; form-action 'none'"


def hash_of(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def json_of(document: object) -> str:
    """JSON that ends no script: in ``</script>`` and in ``<!--`` its ``<`` is escaped."""
    return json.dumps(document, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
