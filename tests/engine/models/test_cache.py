"""Loaded models are kept by use, and make room before the next one comes."""

from __future__ import annotations

import weakref
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from engine.errors import ModelError
from engine.models import loading
from engine.models.cache import Models
from engine.models.registry import ModelEntry, load_registry


class FakeModel:
    device = SimpleNamespace(type="cpu")


class Loader:
    """Stands in for what loads: it notes what it was asked for, and which of its models live at that moment."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, str]] = []
        self.alive: list[int] = []
        self.broken = False
        self._made: list[weakref.ref] = []

    def __call__(self, entry: ModelEntry, device: str, dtype: str) -> Any:
        self.asked.append((entry.name, device, dtype))
        self.alive.append(sum(made() is not None for made in self._made))
        if self.broken:
            raise ModelError("the weights are gone", "Bring them back")
        model = FakeModel()
        self._made.append(weakref.ref(model))
        return model


@pytest.fixture
def loader(monkeypatch: pytest.MonkeyPatch) -> Loader:
    made = Loader()
    monkeypatch.setattr(loading, "load_model", made)
    return made


def entries() -> list[ModelEntry]:
    return [replace(load_registry().entries[0], alias=alias) for alias in "abc"]


def test_a_model_is_loaded_once_for_its_device_and_dtype(loader: Loader) -> None:
    models, (a, *_) = Models(), entries()
    assert models.get(a) is models.get(a) is models.get(a, "auto", a.dtype)
    assert models.get(a, "cpu") is not models.get(a)
    assert models.get(a, "auto", "bfloat16") is not models.get(a)
    name = a.name
    assert loader.asked == [(name, "auto", "float32"), (name, "cpu", "float32"), (name, "auto", "bfloat16")]


def test_an_edited_entry_is_loaded_anew(loader: Loader) -> None:
    models, (a, *_) = Models(), entries()
    _ = models.get(a), models.get(replace(a, sha256="0" * 64))
    assert len(loader.asked) == 2


def test_the_least_recently_used_goes_before_the_next_is_loaded(loader: Loader) -> None:
    models, (a, b, c) = Models(), entries()
    for entry in (a, b, a, c, a, b):
        models.get(entry)
    assert [name[0] for name, *_ in loader.asked] == ["a", "b", "c", "b"]
    assert loader.alive == [0, 1, 1, 1]


def test_a_failed_load_is_not_remembered(loader: Loader) -> None:
    models, (a, *_) = Models(), entries()
    loader.broken = True
    with pytest.raises(ModelError, match="the weights are gone"):
        models.get(a)
    loader.broken = False
    assert models.get(a) is models.get(a)
    assert len(loader.asked) == 2
