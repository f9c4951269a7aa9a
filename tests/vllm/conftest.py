"""A real vLLM with our LPs, started once: ``make vllm``. Else these tests are skipped."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from engine.models.loading import model_folder
from engine.models.registry import load_registry
from tests.support import ROOT

VLLM_PYTHON = ROOT / ".venv-vllm" / "bin" / "python"
START_S, ANSWER_S = 400, 300
TIGHT = (
    "--enforce-eager --dtype float32 --max-model-len 1024 --max-num-seqs 24 --max-num-batched-tokens 64 "
    "--enable-chunked-prefill --enable-prefix-caching --num-gpu-blocks-override 24 --block-size 128"
).split()
"""Little room, so that prompts are read in parts, shared, and rows are thrown out and taken up again."""


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    if os.environ.get("DRIFTSCOPE_VLLM"):
        return
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.skip(reason="in `make vllm` only"))


def environment() -> dict[str, str]:
    """Of one on a CPU, which asks the net for nothing."""
    own = {
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "PYTHONPATH": str(ROOT),
    }
    return os.environ | own


def demo_folder(alias: str) -> Path:
    return model_folder(next(entry for entry in load_registry().entries if entry.alias == alias))


@dataclass(frozen=True)
class Server:
    url: str
    log: Path

    def post(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        """Status and document, also of a refusal."""
        request = urllib.request.Request(f"{self.url}{path}", json.dumps(body).encode())
        request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=ANSWER_S) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def complete(self, smiles: str, arguments: dict[str, Any], **more: Any) -> tuple[int, Any]:
        """Greedy, and with ids, for the prompt of this molecule."""
        body = {
            "model": "demo",
            "prompt": f"[SMILES]{smiles}[/SMILES]",
            "max_tokens": 900,
            "temperature": 0.0,
            "skip_special_tokens": False,
            "return_token_ids": True,
            "vllm_xargs": arguments,
        }
        return self.post("/v1/completions", body | more)

    def ids(self, smiles: str, arguments: dict[str, Any], **more: Any) -> list[int]:
        status, document = self.complete(smiles, arguments, **more)
        assert status == 200, document
        ids: list[int] = document["choices"][0]["token_ids"]
        return ids

    def all_ids(self, asked: Sequence[tuple[str, dict[str, Any], dict[str, Any]]]) -> list[list[int]]:
        """Of many requests at once."""
        with ThreadPoolExecutor(32) as threads:
            return list(threads.map(lambda one: self.ids(one[0], one[1], **one[2]), asked))


def lp_of(lp: str, smiles: str, **more: Any) -> dict[str, Any]:
    return {"driftscope_lp": lp, "driftscope_smiles": smiles} | {f"driftscope_{key}": more[key] for key in more}


@contextlib.contextmanager
def serving(folder: Path, log: Path, *options: str) -> Iterator[Server]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(VLLM_PYTHON), "-m", "vllm.entrypoints.openai.api_server", "--model", str(folder)]
    command += ["--served-model-name", "demo", "--host", "127.0.0.1", "--port", str(port), *TIGHT, *options]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            env=environment(),
            cwd=log.parent,
            stdout=output,
            stderr=output,
            start_new_session=True,
            preexec_fn=_end_with_the_tests,
        )
    try:
        _wait_for(f"http://127.0.0.1:{port}/health", process, log)
        yield Server(f"http://127.0.0.1:{port}", log)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(30)


def _end_with_the_tests() -> None:
    """Also where these are killed."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)


def _wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5) as answer:
            if answer.status == 200:
                return
        time.sleep(1)
    pytest.fail(f"vLLM did not start:\n{log.read_text(errors='replace')[-3_000:]}")


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """demo-qwen with the plugin."""
    log = tmp_path_factory.mktemp("vllm") / "server.log"
    with serving(demo_folder("demo-qwen"), log, "--logits-processors", "engine.lp.vllm:DriftscopeLp") as started:
        yield started
