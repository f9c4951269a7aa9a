"""What tests of the live page share: a registry with a small model, quick and without sense, and pages on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from engine.jobs.service import Service
from pages._live import session
from pages._live.results import ALL_FIGURES
from tests.pages.apps import opened
from tests.service_harness import PATIENCE_S, ended
from tests.small_models import small_folder, write_registry

MODEL = "small:random"
Live = Callable[..., AppTest]


def small_registry(folder: Path) -> Path:
    """Qwen's tokenizer, and random weights: under no LP it writes anything that a vocabulary holds."""
    (folder / "small").mkdir()
    small_folder(folder / "small")
    lines = 'alias = "small"\nstep = "random"\nfolder = "small"\ntokenizer = "qwen3"\ndecimals = [1, 4]'
    return write_registry(folder, lines)


@pytest.fixture(scope="module")
def live_registry(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_registry(tmp_path_factory.mktemp("models"))


@pytest.fixture
def live_service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    made = Service()
    monkeypatch.setattr(session, "service", lambda: made)
    yield made
    made.close(PATIENCE_S)


@pytest.fixture
def live(live_service: Service, live_registry: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Live:
    monkeypatch.setenv("DRIFTSCOPE_MODELS", str(live_registry))
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(tmp_path / "store"))
    return lambda **query: opened("live", **query)


def begun(live: Live, **query: str) -> AppTest:
    app = live(**{"model": MODEL, "smiles": "CC=O", "most_tokens": "100", **query})
    return app.button(key="generate").click().run()


def generated(live: Live, **query: str) -> AppTest:
    """A page whose lanes have ended."""
    app = begun(live, **query)
    for lane in app.session_state["live_lanes"]:
        ended(lane.job)
    assert not app.run().exception
    return app


def all_figures(app: AppTest) -> dict[str, list[str]]:
    """Those of the folded table, or of the only one."""
    app.session_state[f"kept {ALL_FIGURES}"] = True
    app.run()
    return figures(app, next((alt for alt in (frame.proto.alt for frame in app.dataframe) if alt == "All figures"), ""))


def figures(app: AppTest, alt: str = "") -> dict[str, list[str]]:
    """A table of lanes: each figure's cells, and the lanes' titles under ``Figure``."""
    (table,) = [frame.value for frame in app.dataframe if frame.proto.alt == (alt or "Figures of the lanes")]
    lanes = table.columns[1:-1]
    return {"Figure": list(lanes)} | {row["Figure"]: list(row[lanes]) for _, row in table.iterrows()}
