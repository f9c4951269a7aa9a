"""What tests share: the sizes of large properties, what `make test` leaves to soak, the checkout's root."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, TypeVar

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOAK = "DRIFTSCOPE_SOAK"
Size = TypeVar("Size")


def soaking() -> bool:
    """Whether large properties run at full size: ``make soak``, ``pytest -m soak`` or ``DRIFTSCOPE_SOAK=1``."""
    return os.environ.get(SOAK, "").lower() not in ("", "0", "false", "no")


def sized(small: Size, full: Size) -> Size:
    """``small`` in ``make test``, ``full`` under soak. Mark the test ``soak``, or ``make soak`` passes it by."""
    return full if soaking() else small


def of_soak(test: Any) -> Any:
    """A test that takes long and whose parts are tested on their own: in ``make soak`` only."""
    return pytest.mark.soak(pytest.mark.skipif(not soaking(), reason="in `make soak` only")(test))
