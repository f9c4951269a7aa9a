"""Which pages there are, read from the files of ``pages/`` without running them.

A page is a file; those with a leading ``_`` are none. It names itself in constants, texts in double quotes: ``TITLE``,
``ICON`` (a Material symbol) and ``LEAD`` (one line on what the page is for), so a new page is a new file and nothing
else. A file without them, or one that is no Python, is still listed under its file name: the page itself then says what
is wrong with it, and the other pages work.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent
ORDER = ("live", "drift", "tokenizer_lab", "compare", "evidence", "profiles", "logits")
FALLBACK_ICON = ":material/article:"
_CONSTANT = re.compile(r'^(TITLE|ICON|LEAD) = \(?\s*((?:"[^"\n]*"\s*)+)', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class PageFile:
    path: Path
    title: str
    icon: str
    lead: str


def page_files(folder: Path = FOLDER) -> list[PageFile]:
    """The pages in ``folder``: the known ones in their order, then others by name. The first is the landing page."""
    paths = [path for path in folder.glob("*.py") if not path.name.startswith("_")]
    paths.sort(key=lambda path: (ORDER.index(path.stem) if path.stem in ORDER else len(ORDER), path.stem))
    pages = []
    for path in paths:
        constants = _constants(path)
        title = constants.get("TITLE") or path.stem.replace("_", " ").capitalize()
        pages.append(PageFile(path, title, constants.get("ICON") or FALLBACK_ICON, constants.get("LEAD", "")))
    return pages


def _constants(path: Path) -> dict[str, str]:
    """``TITLE = "text"``. By its lines: importing a page would run it, and ``ast.parse`` fails at times where two
    threads are in it (a SystemError of CPython 3.11), as with two readers at once."""
    pairs = _CONSTANT.findall(path.read_text(encoding="utf-8", errors="replace"))
    return {name: "".join(re.findall('"(.*?)"', texts)) for name, texts in pairs}
