"""How often a live page is redrawn: less often the more readers there are."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pages._live import session
from pages._live.results import TICK_S, tick_s
from tests.service_harness import ServiceHarness, ended


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> Iterator[ServiceHarness]:
    made = ServiceHarness()
    monkeypatch.setattr(session, "service", lambda: made.service)
    yield made
    made.clean()


def test_all_tabs_together_are_redrawn_no_more_often_than_one(harness: ServiceHarness) -> None:
    """Eleven tabs at the pace of one took nine tenths of the process: a first token came after a minute, or later."""
    assert tick_s() == TICK_S
    job, hand = harness.busy("first")
    assert tick_s() == TICK_S
    tabs = ("second", "second", "third")  # who has two jobs has one tab
    others = [harness.service.submit(owner, harness.hand()) for owner in tabs]
    assert harness.service.owners() == 3 and tick_s() == 3 * TICK_S
    for other in others:
        other.stop()
    hand.let_go()
    assert ended(job) == "done" and tick_s() == TICK_S
