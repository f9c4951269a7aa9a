"""What an LP will gain on a registered model, from its shape alone: a prediction, marked as one. No run is needed."""

from __future__ import annotations

from collections.abc import Container

from engine.decode.cost import MACHINES, NamedShape, body_weights, predict, work_of
from engine.errors import DriftscopeError
from engine.evidence.advice.settings import Setting
from engine.models.registry import ModelEntry, load_registry
from engine.models.summary import body_sizes

CPU = "epyc-1"
"""Whose rates stand in for those of a CPU: a page measures nothing."""
USUAL_BATCH = 32


def predicted_gain(entry: ModelEntry, setting: Setting | None = None) -> str:
    """A sentence; empty where the model's shape cannot be read, or no rate is known for its precision."""
    device = "" if setting is None else setting.device.lower()
    machine = next((machine for name, machine in MACHINES.items() if name in device), MACHINES[CPU])
    if machine is MACHINES[CPU] and not device.startswith("cpu") and device:
        return ""
    batch, dtype = (USUAL_BATCH, "") if setting is None else (setting.batch_size or USUAL_BATCH, setting.dtype)
    try:
        shape = NamedShape(entry.tokenizer, body_sizes(entry))
        return predict(shape.sizes, machine, work_of(shape, batch=batch, dtype=dtype or entry.dtype)).sentence + "."
    except DriftscopeError:
        return ""


def predicted_of(model: str, setting: Setting | None = None) -> str:
    """The same of ``alias:step``; empty where it is not registered."""
    try:
        return predicted_gain(load_registry().find(model), setting)
    except DriftscopeError:
        return ""


def sized(model: str) -> str:
    """``alias:step`` and the size of its layers; the name alone where it is not registered."""
    try:
        return f"{model} ({body_weights(body_sizes(load_registry().find(model))) / 1e6:,.1f} M weights in the layers)"
    except DriftscopeError:
        return model


def unmeasured(measured: Container[str]) -> dict[str, str]:
    """Registered models without a measured run, with what an LP will gain on them."""
    gains = {entry.name: predicted_gain(entry) for entry in load_registry().entries if entry.name not in measured}
    return {name: gain for name, gain in gains.items() if gain}
