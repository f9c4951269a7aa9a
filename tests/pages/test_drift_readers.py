"""Both readers of a damaged text in the Drift inspector: one conformer over the other, in words, and as files."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from streamlit.testing.v1 import AppTest

from engine.inspection.sample import inspect_sample
from engine.paths import ROOT
from pages._drift import files
from pages._shared.components import viewer3d
from tests.engine.inspection.made import DEMO_STORE
from tests.pages.component_tests import messages_of
from tests.pages.drift_stores import EXACT, WITH_JUNK

PAGE = str(ROOT / "pages" / "drift.py")
Open = Callable[..., AppTest]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Open:
    """The page over the store that ships."""
    monkeypatch.delenv("DRIFTSCOPE_STORE", raising=False)
    return _open


def _open(**query: str) -> AppTest:
    app = AppTest.from_file(PAGE, default_timeout=120)
    for name, value in query.items():
        app.query_params[name] = value
    return app.run()


def captions(app: AppTest) -> str:
    return "\n".join(caption.value for caption in app.caption).replace("\\", "")


def test_the_group_readers_conformer_lies_over_ours_and_the_farthest_atom_is_named(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = messages_of(viewer3d._component, monkeypatch)
    app = opened(run=WITH_JUNK, sample="54")
    assert "misreads 2 of 9 blocks: atom 5 by 9.00 Å, the most." in captions(app)
    (ours,) = sent[-1]["large"]["models"]
    app.toggle(key="drift_other_reader").set_value(True).run()
    drawn, ghost = sent[-1]["large"]["models"]
    assert (drawn["block"], drawn["ghost"], ghost["ghost"]) == (ours["block"], False, True)
    assert "group's reader" in ghost["label"] and " 9.0000 " in ghost["block"]


def test_a_text_that_the_group_refuses_or_that_is_whole_has_one_conformer(opened: Open) -> None:
    refused = opened(run=WITH_JUNK, sample="15")
    assert "The group's reader refuses this text: " in captions(refused) and not refused.toggle
    assert not opened(run=EXACT, sample="0").toggle


def test_the_other_readers_conformer_is_downloaded_with_its_distance() -> None:
    inspection = inspect_sample(DEMO_STORE, WITH_JUNK, 54)
    record = files.sdf_by_group(inspection)
    assert "misread_most_ang" in record and "9.0000" in record and record != files.sdf_of_one(inspection)
    assert files.sdf_by_group(inspect_sample(DEMO_STORE, WITH_JUNK, 15)) == ""
