"""Commands for what was not measured yet: a run of the missing LPs under the same setting, or a probe."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from engine.decode.presets import PRESETS
from engine.errors import RegistryError
from engine.evidence.advice.figures import Want
from engine.evidence.advice.settings import CANDIDATES, Setting, SettingFilter
from engine.models.registry import load_registry

PROGRAM = ("python", "-m", "engine")
PROBED, LEAST_LPS = 64, 2
USUAL_SAMPLING, USUAL_BATCH, USUAL_BACKEND = "qwen3", 32, "fast"


def run_command(model: str, lps: Sequence[str], setting: Setting, molecules: int | None) -> str:
    """Over the first ``molecules`` held-out molecules; None: the runs used others, and the reader names their file."""
    which = ["--model", model] if is_registered(model) else ["--model-path", "FOLDER"]
    source = ["--smiles-file", "FILE"] if molecules is None else ["--sample-size", str(molecules)]
    limit = [] if setting.most_tokens is None else ["--max-new-tokens", str(setting.most_tokens)]
    compiled = ["--compile"] if setting.is_compiled else []
    return shlex.join([*PROGRAM, "run", *which, *_lps(lps), *source, *_options(setting), *limit, *compiled])


def probe_command(model: str, lps: Sequence[str], setting: Setting, want: Want | None) -> str:
    """A probe, or a run where a probe cannot have this setting or this model."""
    is_plain = setting.sampling in PRESETS and setting.most_tokens is None and not setting.is_compiled
    if not is_plain or not is_registered(model):
        return run_command(model, lps, setting, PROBED)
    return _probe(model, lps, want, _options(setting))


def first_command(model: str, lps: Sequence[str], wanted: SettingFilter, want: Want | None) -> str:
    """A probe under the filter's setting, for a model without runs."""
    values = {name: getattr(wanted, name) for name in ("sampling", "batch_size", "backend", "device")}
    options = [(f"--{name.replace('_', '-')}", str(value)) for name, value in values.items() if value]
    return _probe(model, lps, want, [word for option in options for word in option])


def is_registered(model: str) -> bool:
    try:
        load_registry().find(model)
    except RegistryError:
        return False
    return True


def _probe(model: str, lps: Sequence[str], want: Want | None, options: Sequence[str]) -> str:
    names = [] if tuple(lps) == CANDIDATES or len(lps) < LEAST_LPS else _lps(lps)
    wanted = [] if want is None else ["--want", want]
    return shlex.join([*PROGRAM, "advise", "--model", model, "--probe", str(PROBED), *names, *options, *wanted])


def _lps(lps: Sequence[str]) -> list[str]:
    return [word for lp in lps for word in ("--lp", lp)]


def _options(setting: Setting) -> list[str]:
    """Options that differ from the defaults of a run."""
    if setting.sampling in PRESETS:
        words = [] if setting.sampling == USUAL_SAMPLING else ["--sampling", setting.sampling]
    else:
        values = {name: getattr(setting, name) for name in ("temperature", "top_k", "top_p", "min_p")}
        known = {name: value for name, value in values.items() if value is not None}
        words = [word for name, value in known.items() for word in (f"--{name.replace('_', '-')}", f"{value:g}")]
    if setting.batch_size not in (None, USUAL_BATCH):
        words += ["--batch-size", str(setting.batch_size)]
    if setting.backend not in ("", USUAL_BACKEND):
        words += ["--backend", setting.backend]
    device = setting.device.partition(" ")[0]
    return [*words, "--device", device] if device else words
