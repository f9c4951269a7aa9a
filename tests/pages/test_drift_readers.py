"""Both readers of a damaged text in the Drift inspector: one conformer over the other, in words, and as files."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from streamlit.testing.v1 import AppTest

from engine.chem.group_reader import misread_ang
from engine.inspection.sample import inspect_sample
from engine.paths import ROOT
from pages._drift import files
from pages._drift.molecule import OTHER_READER
from tests.engine.inspection.made import DEMO_STORE
from tests.pages.component_tests import frames_of
from tests.pages.drift_stores import EXACT, WITH_JUNK

PAGE = str(ROOT / "pages" / "drift.py")
Open = Callable[..., AppTest]
BLOCKS = DEMO_STORE.rows(
    "SELECT sample_id, decodes, blocks.text AS content, [x, y, z] AS stated FROM blocks JOIN samples "
    "USING (run_id, sample_id) WHERE run_id = $1 ORDER BY sample_id",
    [WITH_JUNK],
)
MISREAD_MOST, MISREAD = max(
    (ang, row["sample_id"])
    for row in BLOCKS
    if row["decodes"] and (ang := misread_ang(row["content"], row["stated"])) is not None
)
REFUSED = next(row["sample_id"] for row in BLOCKS if not row["decodes"])


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


def toggles(app: AppTest) -> set[str | None]:
    return {toggle.key for toggle in app.toggle}


def test_the_group_readers_conformer_lies_over_ours_and_the_farthest_atom_is_named(opened: Open) -> None:
    app = opened(run=WITH_JUNK, sample=str(MISREAD))
    (told,) = re.findall(r"misreads \d+ of \d+ blocks: atom \d+ by (\d\.\d\d) Å, the most\.", captions(app))
    assert float(told) == pytest.approx(MISREAD_MOST, abs=0.005)
    (before,) = frames_of(app)
    (after,) = frames_of(opened(run=WITH_JUNK, sample=str(MISREAD), drift_other_reader="true"))  # as the switch puts it
    assert before.models == after.models[:1] and len(after.models) == 2 and after.models[1] != after.models[0]
    assert after.told["caption"].endswith("grey: the same text by the group's reader")


def test_a_text_that_the_group_refuses_or_that_is_whole_has_one_conformer(opened: Open) -> None:
    refused = opened(run=WITH_JUNK, sample=str(REFUSED))
    assert "The group's reader takes the last number of each part and stops at " in captions(refused)
    assert OTHER_READER not in toggles(refused)
    first = refused.button(key="failed-0").label.replace("\\", "")
    assert first.startswith("not judged in 3D: the strict reader stops at block ")
    assert "In 3D: " not in "\n".join(words.value for words in refused.markdown), "said once"
    assert OTHER_READER not in toggles(opened(run=EXACT, sample="0"))


def test_the_other_readers_conformer_is_downloaded_with_its_distance() -> None:
    inspection = inspect_sample(DEMO_STORE, WITH_JUNK, MISREAD)
    record = files.sdf_of_one(inspection, by_group=True)
    assert "misread_most_ang" in record and f"{MISREAD_MOST:.4f}" in record and record != files.sdf_of_one(inspection)
    assert files.sdf_of_one(inspect_sample(DEMO_STORE, WITH_JUNK, REFUSED), by_group=True) == ""
