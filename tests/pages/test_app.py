"""The app registers the files of ``pages/`` and nothing else."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from pages._shared.listing import FALLBACK_ICON, FOLDER, ORDER, page_files


def test_known_pages_come_in_their_order_and_others_after_them(tmp_path: Path) -> None:
    for name in ("zebra", "compare", "new_page", "_shared_by_none"):
        (tmp_path / f"{name}.py").write_text("")
    (tmp_path / "live.py").write_text(
        'TITLE = "Live"\nICON = ":material/bolt:"\nLEAD = "See it."\nraise SystemExit("imported")\n'
    )
    (tmp_path / "broken.py").write_text('TITLE = "Broken\n')
    (tmp_path / "_shared").mkdir()
    pages = page_files(tmp_path)
    assert [page.path.stem for page in pages] == ["live", "compare", "broken", "new_page", "zebra"]
    assert (pages[0].title, pages[0].icon, pages[0].lead) == ("Live", ":material/bolt:", "See it.")
    assert [(page.title, page.icon) for page in pages[2:4]] == [("Broken", FALLBACK_ICON), ("New page", FALLBACK_ICON)]


def test_what_names_a_page_is_read_as_python_reads_it_without_its_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parser fails at times where two threads are in it."""
    read = {path: _assigned(path) for path in FOLDER.glob("*.py")}
    monkeypatch.setattr("builtins.compile", lambda *_, **__: pytest.fail("the parser was called"))
    for page in page_files():
        assert (page.title, page.icon, page.lead) == tuple(map(read[page.path].get, ("TITLE", "ICON", "LEAD")))
        assert page.path.stem in ORDER and page.icon != FALLBACK_ICON and page.lead


def _assigned(path: Path) -> dict[str, object]:
    body = ast.parse(path.read_text(encoding="utf-8")).body
    assigned = [node for node in body if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)]
    return {ast.unparse(node.targets[0]): ast.literal_eval(node.value) for node in assigned}
