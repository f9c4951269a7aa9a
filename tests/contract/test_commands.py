"""Commands keep their options and defaults, and over the demo store their answers hold what was recorded."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.contract.black_box import answers, options
from tests.contract.expected import is_gone, missing, recorded
from tests.support import ROOT

OPTIONS, ANSWERS = recorded("options"), recorded("answers")


def test_commands_have_their_options_and_defaults() -> None:
    known = options()
    names = [name for name in OPTIONS if not is_gone("command", name)]
    assert not [name for name in names if name not in known]
    assert not [(name, found) for name in names for found in missing("command", name, OPTIONS[name], known[name])]


def test_answers_over_the_demo_store_hold_what_was_recorded(tmp_path: Path) -> None:
    demo = Path(shutil.copytree(ROOT / "data" / "demo", tmp_path / "demo"))  # some are kept where they were computed
    calls = {name: call for name, call in ANSWERS.items() if not is_gone("call", name)}
    found = answers(calls, demo)
    assert not [(name, lost) for name in calls for lost in missing("call", name, calls[name]["answer"], found[name])]
