"""Devices by name, and the cores that a decoding may take."""

from __future__ import annotations

import os

import pytest
import torch

from engine.errors import ModelError
from engine.models.devices import idle_cores, pick_device, usable_cores


def test_a_gpu_is_taken_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for cuda, mps, found in ((True, True, "cuda"), (False, True, "mps"), (False, False, "cpu")):
        monkeypatch.setattr(torch.cuda, "is_available", lambda known=cuda: known)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda known=mps: known)
        assert pick_device("auto").type == found


@pytest.mark.parametrize(("name", "told"), [("cuda", "no CUDA device"), ("mps", "no MPS device"), ("tpu9", "'tpu9'")])
def test_a_device_that_is_not_there(name: str, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(ModelError, match=told):
        pick_device(name)


def test_cores_that_others_use_are_left_to_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    assert usable_cores() == 8
    for load, idle in ((0.2, 8), (2.6, 5), (30.0, 1)):
        monkeypatch.setattr(os, "getloadavg", lambda known=load: (known, 0.0, 0.0))
        assert idle_cores() == idle
