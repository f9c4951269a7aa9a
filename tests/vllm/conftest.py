"""A real vLLM with our LPs, started once: ``make vllm``. Else these tests are skipped."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tools.vllm_server import PLUGIN, demo_folder, serving

ANSWER_S = 300
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


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """demo-qwen with the plugin."""
    log = tmp_path_factory.mktemp("vllm") / "server.log"
    with serving(demo_folder("demo-qwen"), log, *TIGHT, "--logits-processors", PLUGIN) as url:
        yield Server(url, log)
