"""The app registers the files of ``pages/`` and nothing else."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from pages._shared.listing import FALLBACK_ICON, FOLDER, ORDER, page_files

ROOT = Path(__file__).resolve().parents[2]


def test_known_pages_come_in_their_order_and_others_after_them(tmp_path: Path) -> None:
    for name in ("zebra", "compare", "aside", "live", "tokenizer_lab", "_shared_by_none"):
        (tmp_path / f"{name}.py").write_text("")
    (tmp_path / "_shared").mkdir()
    assert [page.path.stem for page in page_files(tmp_path)] == ["live", "tokenizer_lab", "compare", "aside", "zebra"]


def test_a_page_names_itself_without_being_run(tmp_path: Path) -> None:
    (tmp_path / "live.py").write_text(
        'TITLE = "Live"\nICON = ":material/bolt:"\nLEAD = "See it."\nraise SystemExit("imported")\n'
    )
    page = page_files(tmp_path)[0]
    assert (page.title, page.icon, page.lead) == ("Live", ":material/bolt:", "See it.")


def test_a_file_without_names_or_with_a_slip_is_still_listed(tmp_path: Path) -> None:
    (tmp_path / "new_page.py").write_text("import streamlit\n")
    (tmp_path / "broken.py").write_text('TITLE = "Broken\n')
    assert [(page.title, page.icon) for page in page_files(tmp_path)] == [
        ("Broken", FALLBACK_ICON),
        ("New page", FALLBACK_ICON),
    ]


def test_what_names_a_page_is_read_as_python_reads_it_without_its_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parser fails at times where two threads are in it."""
    read = {path: _assigned(path) for path in FOLDER.glob("*.py")}
    monkeypatch.setattr("builtins.compile", lambda *_, **__: pytest.fail("the parser was called"))
    for page in page_files():
        assert (page.title, page.icon, page.lead) == tuple(map(read[page.path].get, ("TITLE", "ICON", "LEAD")))


def _assigned(path: Path) -> dict[str, object]:
    body = ast.parse(path.read_text(encoding="utf-8")).body
    assigned = [node for node in body if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)]
    return {ast.unparse(node.targets[0]): ast.literal_eval(node.value) for node in assigned}


def test_every_page_of_the_app_is_known_and_names_itself() -> None:
    for page in page_files():
        assert page.path.stem in ORDER
        assert page.icon != FALLBACK_ICON
        assert page.lead


def test_the_app_runs() -> None:
    assert page_files(), f"no page in {FOLDER}"
    app = AppTest.from_file(ROOT / "app.py", default_timeout=60).run()
    assert not app.exception
    assert app.title[0].value.endswith(page_files()[0].title)
