"""A bundle as one HTML file: data as one block of JSON, scripts and style that its policy allows by their hashes.

The policy forbids every request. Where 3Dmol.js is missing the file has drawings alone, and says so.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import cache
from html import escape
from pathlib import Path
from string import Template

from engine.assets import three_d_mol
from engine.errors import AssetError, DriftscopeError, FileError, shown
from engine.handover.records import MOST_BYTES, Bundle
from engine.paths import DATA
from engine.user_files import writing

HERE = Path(__file__).parent
NO_3D = "This file was made without 3Dmol.js, so molecules are drawn in 2D alone. `make prepare` brings it."


def html_of(bundle: Bundle) -> bytes:
    """The file, at most `MOST_BYTES` long: the last molecules are left out until it fits, and counted."""
    library, licence = three_d_library()
    if not library:
        bundle = replace(bundle, notes=[*bundle.notes, NO_3D])
    while True:
        page = page_of(bundle, library, licence)
        too_long = len(page) - MOST_BYTES
        if too_long <= 0:
            return page
        if not bundle.molecules:
            problem = f"{shown(bundle.title)} takes {len(page):,} bytes, and a bundle has at most {MOST_BYTES:,}"
            raise DriftscopeError(problem, "Choose fewer runs or traces")
        bundle = shortened_by(bundle, too_long)


def shortened_by(bundle: Bundle, too_long: int) -> Bundle:
    """Without as many of the last molecules as take so many bytes, and at least without one."""
    kept = list(bundle.molecules)
    while kept and too_long > 0:
        too_long -= len(json_of(asdict(kept.pop())))
    gone = len(bundle.molecules) - len(kept)
    return replace(bundle, molecules=kept, molecules_left_out=bundle.molecules_left_out + gone)


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


@cache
def three_d_library() -> tuple[str, str]:
    """3Dmol.js and its licence; both empty where it is missing."""
    try:
        path = three_d_mol()
    except AssetError:
        return "", ""
    return path.read_text(encoding="utf-8"), (DATA / "LICENSE-3Dmol.txt").read_text(encoding="utf-8")


def page_of(bundle: Bundle, library: str, licence: str) -> bytes:
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
