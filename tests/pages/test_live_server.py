"""A server as a backend of the live page: offered where the environment names one, whatever a link says."""

from __future__ import annotations

import random
import threading
from typing import Any

import pytest

from engine.chem.smiles import parse_smiles
from engine.decode.generation import PROBED
from engine.lp.canonical import random_ids
from engine.models.server import ADDRESS
from engine.records import NumberFormat
from engine.store.schema import STEPS
from pages._kit.inspected import open_store
from tests.engine.decode.fake_server import Handler, serving
from tests.engine.decode.reference import made
from tests.pages.apps import words
from tests.pages.live_pages import Live, begun
from tests.service_harness import ended

FORM = NumberFormat(1, 4, 3)


def test_no_link_chooses_a_server(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ADDRESS, raising=False)
    app = live(backend1="server", lp1="grammar")
    field = app.segmented_control("backend1")
    assert not app.exception and field.value == "auto" and "server" not in field.options
    assert "grammar" not in app.selectbox(key="lp1").options
    assert "sends nothing anywhere" in words(app)
    monkeypatch.setenv(ADDRESS, "http://127.0.0.1:9")
    app = live(backend1="server", lp1="grammar")
    assert (app.segmented_control("backend1").value, app.selectbox(key="lp1").value) == ("server", "grammar")
    assert "live_lanes" not in app.session_state, "a link starts nothing"
    assert "asks the server of DRIFTSCOPE_SERVER alone" in words(app)


@pytest.mark.parametrize("silent", [1, 2, 3], ids=["first probe", "answer", "last probe"])
def test_a_lane_stops_while_its_server_is_silent(live: Live, monkeypatch: pytest.MonkeyPatch, silent: int) -> None:
    is_asked = threading.Event()

    def act(handler: Handler, body: dict[str, Any], number: int) -> None:
        if number < silent:
            writing_exact(handler, body, number)
            return
        is_asked.set()
        while handler.connection.recv(1):  # until the client hangs up
            pass
        handler.server.fake.hung_up.set()

    with serving(act, models=("theirs",)) as fake:
        monkeypatch.setenv(ADDRESS, fake.url)
        app = begun(live, lp1="exact", lp2="—", lp3="—", backend1="server")
        (lane,) = app.session_state["live_lanes"]
        assert is_asked.wait(60)
        lane.job.stop()
        assert fake.hung_up.wait(10)
        assert ended(lane.job) == "stopped" and lane.run_id is None


def writing_exact(handler: Handler, body: dict[str, Any], number: int) -> None:
    _, exact = made("exact", form=FORM)
    program = exact.compile(parse_smiles(body["vllm_xargs"]["driftscope_smiles"]))
    handler.written(body, random_ids(exact.automaton, program, random.Random(0)))


def test_a_lane_that_a_server_writes_streams_and_is_scored_here(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(writing_exact, models=("theirs",)) as fake:
        monkeypatch.setenv(ADDRESS, fake.url)
        app = begun(live, lp1="exact", lp2="—", lp3="—", backend1="server")
        (lane,) = app.session_state["live_lanes"]
        assert ended(lane.job) == "done", lane.job.error
    app.run()
    assert not app.exception and lane.title == "1 · exact · server"
    probe, answer, last = (body["vllm_xargs"]["driftscope_smiles"] for _, body, _ in fake.bodies)
    assert probe == last == PROBED[0] != answer  # whether the LP acts there, before what is written and behind it
    assert all(body["stream"] for _, body, _ in fake.bodies)
    text = words(app)
    assert "server · **" in text and "passes" not in text
    entry = open_store().entry(lane.run_id)
    assert [entry.row[name] for name in ("backend", "device", "clean", "constrained")] == ["server", "server", 1, "yes"]
    raw = entry.read(STEPS.name)["p_raw"].to_pylist()
    assert len(raw) == entry.row["tokens"] and all(0 < p <= 1 for p in raw)
