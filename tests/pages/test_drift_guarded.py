"""What a guard did to a sample in the Drift inspector: its tries one under the other, and what it left wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from engine.inspection.sample import inspect_sample
from engine.paths import ROOT
from pages._drift.molecules import FOLD
from tests.pages.drift_stores import HOSTILE_JUNK, add_guarded, store_at

PAGE = str(ROOT / "pages" / "drift.py")


def _open(**query: str) -> AppTest:
    app = AppTest.from_file(PAGE, default_timeout=120)
    app.session_state[f"kept {FOLD}"] = True
    for name, value in query.items():
        app.query_params[name] = value
    app.run()
    assert not app.exception
    return app


def words(app: AppTest) -> str:
    return "\n".join(one.value for one in (*app.markdown, *app.caption, *app.info)).replace("\\", "")


def test_tries_of_a_guard_stand_one_under_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(tmp_path))
    run_id = add_guarded(store_at(tmp_path))
    app = _open(run=run_id, sample="0")
    label, body = tries_of(app)
    assert label == "Tries thrown away (2)" and body.count("<s>") == 2 and "kept" not in body
    assert HOSTILE_JUNK not in body and "drawn anew 2 times" in words(app)
    kept = inspect_sample(store_at(tmp_path), run_id, 0).blocks[1]["text"]
    label, body = tries_of(_open(run=run_id, sample="0", atom="1"))
    assert label == "Tries of block 1 thrown away (1 of 2)"
    assert "blocks 1 to 2, " in body and body.count("<s>") == 1 and f"kept: <code>{kept}</code>" in body
    assert tries_of(_open(run=run_id, sample="0", atom="3"))[0] == "Tries thrown away (2)"
    app = _open(run=run_id, sample="1", order="Most drawn anew")
    frames = [frame.value for frame in app.dataframe if "redrawn_blocks" in frame.value]
    assert [list(frame["redrawn_blocks"]) for frame in frames] == [[3, 2]]
    assert "Still wrong after all tries of the guard: clash (atoms 0 and 4)." in words(app)
    assert "Tries are stored only of samples that keep their steps" in words(app)
    assert not any(one.label.startswith("Tries") for one in app.expander)


def tries_of(app: AppTest) -> tuple[str, str]:
    (expander,) = [one for one in app.expander if one.label.startswith("Tries")]
    return expander.label, expander.get("html")[0].proto.body
