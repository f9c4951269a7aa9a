"""A fault is planted again where its function is now."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults import draw
from tests.faults.draw import Fault

FAULT = Fault("engine/text/old.py", "Reader.lines", "constant", "most = 3", "most = 4", 1)
BOTH = "class Reader:\n    def lines(self):\n        most = 3\n        most = 3\n"


@pytest.mark.parametrize(
    ("modules", "expected"),
    [
        ({"engine/text/old.py": BOTH}, ("engine/text/old.py", 3)),
        ({"engine/text/old.py": "\n\ndef other():\n    most = 3\n"}, ("engine/text/old.py", 3)),
        ({"pages/new.py": "def lines(text):\n    most = 3\n", "engine/a.py": "most = 3\n"}, ("pages/new.py", 1)),
        ({"pages/new.py": "def lines():\n    most = 3\n", "engine/a.py": "def lines():\n    most = 3\n"}, None),
        ({"engine/text/old.py": "def lines():\n    most = 2\n"}, None),
    ],
)
def test_a_fault_is_found_where_its_function_is(
    modules: dict[str, str], expected: tuple[str, int] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, source in modules.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(source)
    monkeypatch.setattr(draw, "ROOT", tmp_path)
    place = draw.place_of(FAULT)
    assert (None if place is None else (str(place[0].relative_to(tmp_path)), place[1])) == expected
