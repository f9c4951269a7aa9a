"""Commands keep their options and defaults, and over the demo store their answers hold what was recorded."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.contract.black_box import answer, options
from tests.contract.expected import is_gone, missing, recorded
from tests.support import ROOT

OPTIONS, ANSWERS = recorded("options"), recorded("answers")


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy: some answers are kept where they were computed."""
    return Path(shutil.copytree(ROOT / "data" / "demo", tmp_path_factory.mktemp("contract") / "demo"))


def test_commands_have_their_options_and_defaults() -> None:
    known = options()
    names = [name for name in OPTIONS if not is_gone("command", name)]
    assert not [name for name in names if name not in known]
    assert not [(name, found) for name in names for found in missing("command", name, OPTIONS[name], known[name])]


@pytest.mark.parametrize("name", [name for name in ANSWERS if not is_gone("call", name)])
def test_an_answer_over_the_demo_store_holds_what_was_recorded(name: str, demo: Path) -> None:
    call = ANSWERS[name]
    assert not missing("call", name, call["answer"], answer(call["args"], demo, call.get("reads")))
