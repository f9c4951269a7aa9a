"""Services for single tests; their workers end with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.desks import Desk


@pytest.fixture
def desk() -> Iterator[Desk]:
    made = Desk()
    yield made
    made.clean()


@pytest.fixture
def make_desk() -> Iterator[Callable[..., Desk]]:
    made: list[Desk] = []

    def make(**options: Any) -> Desk:
        made.append(Desk(**options))
        return made[-1]

    yield make
    for one in made:
        one.clean()
