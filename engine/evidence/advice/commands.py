"""What to type for what was not measured yet: a run of the missing LPs under the same setting, or a probe."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from engine.decode.presets import PRESETS
from engine.errors import RegistryError
from engine.evidence.advice.figures import WANTS, Want
from engine.evidence.advice.settings import CANDIDATES, Setting, Wanted
from engine.models.registry import load_registry

PROGRAM = ("python", "-m", "engine")
PROBED, LEAST_LPS = 64, 2
USUAL_SAMPLING, USUAL_BATCH, USUAL_BACKEND = "qwen3", 32, "fast"


def run_command(model: str, lps: Sequence[str], setting: Setting, molecules: int | None) -> str:
    """``molecules`` of the held-out ones; None where the runs asked others, which the reader has to name."""
    which = ["--model", model] if is_registered(model) else ["--model-path", "FOLDER"]  # or is not any more
    asked = ["--smiles-file", "FILE"] if molecules is None else ["--sample-size", str(molecules)]
    limit = [] if setting.most_tokens is None else ["--max-new-tokens", str(setting.most_tokens)]
    compiled = ["--compile"] if setting.is_compiled else []
    return shlex.join([*PROGRAM, "run", *which, *_lps(lps), *asked, *_options(setting), *limit, *compiled])


def probe_command(model: str, lps: Sequence[str], setting: Setting, want: Want) -> str:
    """A run, where a probe cannot have the setting or the model."""
    is_plain = setting.sampling in PRESETS and setting.most_tokens is None and not setting.is_compiled
    if not is_plain or not is_registered(model):
        return run_command(model, lps, setting, PROBED)
    return _probe(model, lps, want, _options(setting))


def first_command(model: str, lps: Sequence[str], wanted: Wanted, want: Want) -> str:
    """Where there is no run yet whose setting could be taken."""
    said = {
        "--sampling": wanted.sampling,
        "--batch-size": wanted.batch_size,
        "--backend": wanted.backend,
        "--device": wanted.device,
    }
    return _probe(model, lps, want, [word for name, value in said.items() if value for word in (name, str(value))])


def is_registered(model: str) -> bool:
    try:
        load_registry().find(model)
    except RegistryError:
        return False
    return True


def _probe(model: str, lps: Sequence[str], want: Want, options: Sequence[str]) -> str:
    names = [] if tuple(lps) == CANDIDATES or len(lps) < LEAST_LPS else _lps(lps)  # one alone compares with nothing
    wish = [] if want == WANTS[0] else ["--want", want]
    return shlex.join([*PROGRAM, "advise", "--model", model, "--probe", str(PROBED), *names, *options, *wish])


def _lps(lps: Sequence[str]) -> list[str]:
    return [word for lp in lps for word in ("--lp", lp)]


def _options(setting: Setting) -> list[str]:
    """Only what differs from what a run does without being told."""
    found = _sampling(setting)
    if setting.batch_size not in (None, USUAL_BATCH):
        found += ["--batch-size", str(setting.batch_size)]
    if setting.backend not in ("", USUAL_BACKEND):
        found += ["--backend", setting.backend]
    device = setting.device.partition(" ")[0]
    return [*found, "--device", device] if device else found


def _sampling(setting: Setting) -> list[str]:
    if setting.sampling in PRESETS:
        return [] if setting.sampling == USUAL_SAMPLING else ["--sampling", setting.sampling]
    given = {"temperature": setting.temperature, "top-k": setting.top_k, "top-p": setting.top_p, "min-p": setting.min_p}
    return [word for name, value in given.items() if value is not None for word in (f"--{name}", f"{value:g}")]
