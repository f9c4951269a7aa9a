"""vLLM's side of ``tools.bench.served``, run by vLLM's Python: lines of requests in, tokens and seconds out."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from vllm import LLM, SamplingParams
from vllm.sampling_params import StructuredOutputsParams

LENGTH = 2_048


def parameters(request: dict[str, Any], sampling: dict[str, Any]) -> SamplingParams:
    asked: dict[str, Any] = {
        name: request[name] for name in ("max_tokens", "seed", "ignore_eos", "extra_args") if name in request
    }
    if "regex" in request:
        asked["structured_outputs"] = StructuredOutputsParams(regex=request["regex"])
    return SamplingParams(**asked, **sampling, skip_special_tokens=False, detokenize=False)


def main(folder: str) -> None:
    llm = LLM(
        folder,
        dtype="float32",
        enforce_eager=True,
        max_model_len=LENGTH,
        enable_prefix_caching=False,
        logits_processors=["engine.lp.vllm:DriftscopeLp"],
    )
    for line in sys.stdin:
        asked = json.loads(line)
        prompts = [request["prompt"] for request in asked["requests"]]
        each = [parameters(request, asked["sampling"]) for request in asked["requests"]]
        began = time.perf_counter()
        outputs = llm.generate(prompts, each, use_tqdm=False)
        seconds = time.perf_counter() - began
        tokens = sum(len(output.outputs[0].token_ids) for output in outputs)
        print(json.dumps({"tokens": tokens, "seconds": seconds}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
