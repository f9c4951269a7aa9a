"""Services for single tests; their workers end with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.service_harness import ServiceHarness


@pytest.fixture
def harness() -> Iterator[ServiceHarness]:
    made = ServiceHarness()
    yield made
    made.clean()


@pytest.fixture
def make_harness() -> Iterator[Callable[..., ServiceHarness]]:
    made: list[ServiceHarness] = []

    def make(**options: Any) -> ServiceHarness:
        made.append(ServiceHarness(**options))
        return made[-1]

    yield make
    for one in made:
        one.clean()
