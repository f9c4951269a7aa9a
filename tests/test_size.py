"""How many lines each room has. A gauge: a room may be 3 % larger than its figure here.

``python -m tests.test_size`` prints the figures. Whoever needs more changes the figure here, and says why.

A line counts unless it is only a ``#`` or ``//`` comment; every tracked text file counts, whatever its suffix.
"""

from __future__ import annotations

import re
import subprocess
from fnmatch import fnmatch

import pytest

from tests.support import ROOT

PLAY = 0.03
COMMENTS = {".css": "(?!)", ".html": "(?!)", ".js": r"\s*//"}  # by suffix; elsewhere a line with # alone
PAGES = ("compare", "drift", "evidence", "live", "logits", "profiles", "tokenizer_lab")
GROUND = ("__init__", "assets", "errors", "installed", "paths", "processes", "records", "sandbox")

# The rooms of docs/architecture.md in their order: how many lines each has, about, and what belongs to it. The first
# has all of pages/, the second the folders of single pages, the third scripts and styles, most of them the kit's.
ROOMS: dict[str, tuple[int, tuple[str, ...]]] = {
    "app.py, pages/*.py": (11_840, ("app.py", "pages/*")),
    "pages/_live/, _drift/, ...": (4_250, tuple(f"pages/_{page}/*" for page in PAGES)),
    "pages/_kit/": (2_310, ("pages/*.js", "pages/*.css", "pages/*.html")),
    "engine/cli/": (2_810, ("engine/cli/*", "engine/__main__.py")),
    "engine/handover/": (1_150, ("engine/handover/*",)),
    "engine/questions/": (8_340, ("engine/questions/*",)),
    "engine/evidence/, engine/comparing/": (2_060, ("engine/evidence/*", "engine/comparing/*")),
    "engine/jobs/": (3_210, ("engine/jobs/*",)),
    "engine/inspection/": (5_180, ("engine/inspection/*",)),
    "engine/profile/, engine/logits/": (3_630, ("engine/profile/*", "engine/logits/*")),
    "engine/store/": (4_630, ("engine/store/*", "engine/user_files.py", "engine/file_forms.py")),
    "engine/decode/": (5_390, ("engine/decode/*",)),
    "engine/lp/, engine/models/": (5_880, ("engine/lp/*", "engine/lp_records.py", "engine/models/*")),
    "engine/text/": (2_870, ("engine/text/*",)),
    "engine/chem/": (4_220, ("engine/chem/*",)),
    "engine/figures/, sandbox.py, errors.py, records.py, paths.py": (
        2_320,
        ("engine/figures/*", *(f"engine/{name}.py" for name in GROUND)),
    ),
    "the product": (63_230, ("app.py", "pages/*", "engine/*")),
    "tools/": (9_790, ("tools/*",)),
    "tests/": (48_950, ("tests/*",)),
}


def tracked() -> list[str]:
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [name for name in names.split("\0") if name]


def lines(name: str) -> int:
    path = ROOT / name
    # A file may be deleted and not yet committed; a picture or an archive has NUL bytes, text has none.
    if not path.is_file() or b"\0" in path.read_bytes():
        return 0
    comment = re.compile(COMMENTS.get(path.suffix, r"\s*#"))
    return sum(not comment.match(line) for line in path.read_text(encoding="utf-8").splitlines())


def lines_of(globs: tuple[str, ...]) -> int:
    """Of all files that one of ``globs`` matches, in which a ``*`` stands for folders, too."""
    return sum(lines(name) for name in tracked() if any(fnmatch(name, glob) for glob in globs))


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_keeps_to_its_size(room: str) -> None:
    about, globs = ROOMS[room]
    assert lines_of(globs) <= about * (1 + PLAY), "simplify it, or change its figure here and say why in the commit"


def test_each_file_of_the_product_is_in_one_room() -> None:
    rooms = [globs for room, (_, globs) in ROOMS.items() if room.startswith(("app.py", "engine/"))]
    files = [name for name in tracked() if any(fnmatch(name, glob) for glob in ROOMS["the product"][1])]
    assert {
        name: sum(any(fnmatch(name, glob) for glob in globs) for globs in rooms) for name in files
    } == dict.fromkeys(files, 1)


if __name__ == "__main__":
    for room, (about, globs) in ROOMS.items():
        print(f"{lines_of(globs):7,} of about {about:7,}  {room}")
