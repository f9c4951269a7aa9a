"""vLLM of .venv-vllm (``make vllm``) on a processor: its environment, and a server with our LPs for some moments."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from engine.errors import ServerError
from engine.models.loading import model_folder
from engine.models.registry import load_registry
from engine.paths import ROOT

VLLM_PYTHON = ROOT / ".venv-vllm" / "bin" / "python"
PLUGIN = "engine.lp.vllm:DriftscopeLp"
START_S = 400
ROOMY = ("--enforce-eager", "--dtype", "float32", "--max-model-len", "2048", "--no-enable-chunked-prefill")
"""As --backend server needs it on a processor: a prompt with a seed is not read in parts."""


def environment(threads: int = 1, cache_gb: int = 1) -> dict[str, str]:
    """Of one on a CPU, which asks the net for nothing."""
    own = {
        "VLLM_CPU_KVCACHE_SPACE": str(cache_gb),
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "OMP_NUM_THREADS": str(threads),
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "PYTHONPATH": str(ROOT),
    }
    return os.environ | own


def demo_folder(alias: str) -> Path:
    return model_folder(load_registry().find(alias))


@contextlib.contextmanager
def serving(folder: Path, log: Path, *options: str, threads: int = 1) -> Iterator[str]:
    """The address of a server of this model, called ``demo``, which ends with the block and with this process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(VLLM_PYTHON), "-m", "vllm.entrypoints.openai.api_server", "--model", str(folder)]
    command += ["--served-model-name", "demo", "--host", "127.0.0.1", "--port", str(port), *options]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            env=environment(threads),
            cwd=log.parent,
            stdout=output,
            stderr=output,
            start_new_session=True,
            preexec_fn=_end_with_the_parent,
        )
    try:
        _wait_for(f"http://127.0.0.1:{port}/health", process, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(30)


def _end_with_the_parent() -> None:
    """Also where that is killed."""
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
    raise ServerError(f"vLLM did not start:\n{log.read_text(errors='replace')[-3_000:]}")
