"""Devices by name, and the cores that a decoding may take."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from engine.errors import ModelError
from engine.models import devices
from engine.models.devices import idle_cores, pick_device, usable_cores


def test_a_gpu_is_taken_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for cuda, mps, found in ((True, True, "cuda"), (False, True, "mps"), (False, False, "cpu")):
        monkeypatch.setattr(torch.cuda, "is_available", lambda known=cuda: known)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda known=mps: known)
        assert pick_device("auto").type == found
    for name, told in (("cuda", "no CUDA device"), ("mps", "no MPS device"), ("meta", "'meta'")):
        with pytest.raises(ModelError, match=told):
            pick_device(name)


def ticks(busy: Sequence[int]) -> str:
    """Of cores whose clock ticked 20 times, so many of them for other programs."""
    lines = [f"cpu{core} {100 + used} 5 50 {10**6 + 19 - used} 1 0 0 0 7 0" for core, used in enumerate(busy)]
    return "\n".join(["cpu  1 2 3 4 5 6 7 8 9 0", *lines, "intr 1 2", ""])


def test_cores_that_others_use_now_are_left_to_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """The load average of the last minute counted a build that had ended: one core was taken of two idle ones."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.setattr(os, "getloadavg", lambda: (30.0, 30.0, 30.0))
    assert usable_cores() == 8
    start = "\n".join(f"cpu{core} 100 5 50 {10**6} 0 0 0 0 7 0" for core in range(9))
    for busy, idle in (([0] * 8, 8), ([20, 20, 14, *[0] * 5, 20], 5), ([20] * 9, 1), ([1] * 8, 8)):
        texts = iter([start, ticks(busy)])
        monkeypatch.setattr(Path, "read_text", lambda *_, **__: next(texts))  # noqa: B023 - read at once
        monkeypatch.setattr(devices, "MOMENT_S", 0.0)
        assert idle_cores() == idle
        assert not list(texts)


def test_all_cores_are_taken_where_nothing_tells_who_uses_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0}, raising=False)
    for stat in ("", "cpu0 0 0 0 0 0 0 0 0 0 0\n", "cpu0 x\n", "cpu 1 2\n"):
        monkeypatch.setattr(Path, "read_text", lambda *_, stat=stat, **__: stat)
        assert idle_cores() == usable_cores() == 1
