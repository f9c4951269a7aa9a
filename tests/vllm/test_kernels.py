"""Our kernels for a GPU in Triton's interpreter, which comes with vLLM: ``make vllm``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support import ROOT
from tools.vllm_server import VLLM_PYTHON

ROUNDING = {"qwen3, float32": 1e-4, "llama, float16": 1e-2, "qwen2 with biases, float32": 1e-4}


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., list[dict[str, Any]]]:
    """What a script says, run by our own Python with Triton alone of vLLM's packages."""
    folder = tmp_path_factory.mktemp("packages")
    (triton,) = (VLLM_PYTHON.parent.parent / "lib").glob("python*/site-packages/triton")
    (folder / "triton").symlink_to(triton)

    def run(script: str, **variables: str) -> list[dict[str, Any]]:
        here = {"PYTHONPATH": os.pathsep.join((str(folder), str(ROOT))), "TRITON_CACHE_DIR": str(folder / "cache")}
        done = subprocess.run(
            [sys.executable, str(Path(__file__).with_name(script))],
            cwd=ROOT, env={**os.environ, **here, **variables}, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    return run


@pytest.fixture(scope="module")
def lines(said: Callable[..., list[dict[str, Any]]]) -> list[dict[str, Any]]:
    return said("interpreted.py", TRITON_INTERPRET="1")


def test_they_compile_for_cards_and_fit_their_shared_memory(said: Callable[..., list[dict[str, Any]]]) -> None:
    found = {
        (line["card"], line["kernel"]): line["shared"] for line in said("compiled.py", TRITON_BACKENDS_IN_TREE="1")
    }
    assert len(found) == 3 * 6
    assert 20_000 < max(found.values()) < 99 * 1024  # what the smallest card has; several tiles at once


def test_they_are_used_where_they_give_what_the_layers_do(lines: list[dict[str, Any]]) -> None:
    said = lines[0]
    assert said["right"] == ""
    assert said["wrong"].startswith("they differ from the plain layers by ")
    assert said["broken"] == "they do not run here ('no compiler')"
    assert said["odd"] == "its heads have 24 numbers, not a power of two"


def test_layers_and_caches_are_the_plain_ones(lines: list[dict[str, Any]]) -> None:
    shapes = {line["shape"]: line for line in lines if "shape" in line}
    assert shapes.keys() == ROUNDING.keys()
    for name, line in shapes.items():
        assert 0 < line["hidden"] < ROUNDING[name]
        assert 0 < line["one_row"] < ROUNDING[name] and 0 < line["run"] < ROUNDING[name]
        assert line["cache"] < 10 * ROUNDING[name]  # numbers of several units


@pytest.mark.parametrize("lp", ["none", "exact"])
def test_tokens_are_the_same_in_single_precision(lines: list[dict[str, Any]], lp: str) -> None:
    (line,) = (line for line in lines if line.get("lp") == lp)
    assert len(line["ours"]) == 12
    assert line["ours"] == line["plain"]
