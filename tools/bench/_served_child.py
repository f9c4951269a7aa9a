"""vLLM's side of ``tools.bench.served``, run by vLLM's Python: each line of requests in, one line of JSON out.

python _served_child.py FOLDER DTYPE     lines of requests; tokens and seconds of each
python _served_child.py FOLDER           one line of regexes; seconds of each step of xgrammar's masks
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from typing import Any

import torch

LENGTH = 2_048


def parameters(request: dict[str, Any], sampling: dict[str, Any]) -> Any:
    from vllm import SamplingParams
    from vllm.sampling_params import StructuredOutputsParams

    asked: dict[str, Any] = {
        name: request[name] for name in ("max_tokens", "seed", "ignore_eos", "extra_args") if name in request
    }
    if "regex" in request:
        asked["structured_outputs"] = StructuredOutputsParams(regex=request["regex"])
    return SamplingParams(**asked, **sampling, skip_special_tokens=False, detokenize=False)


def answer(folder: str, dtype: str) -> None:
    from vllm import LLM

    llm = LLM(
        folder,
        dtype=dtype,
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


def masks(folder: str) -> None:
    """As vLLM has them: a matcher per row, one bitmask of the batch, applied in place. A row that is over begins
    again. Random scores choose, and are made before the clock runs."""
    from transformers import AutoTokenizer

    xgrammar: Any = importlib.import_module("xgrammar")
    asked = json.loads(sys.stdin.readline())
    rows, vocab = len(asked["regexes"]), asked["vocab_rows"]
    tokenizer = AutoTokenizer.from_pretrained(folder)
    compiler = xgrammar.GrammarCompiler(xgrammar.TokenizerInfo.from_huggingface(tokenizer, vocab_size=vocab))
    matchers = [xgrammar.GrammarMatcher(compiler.compile_regex(regex)) for regex in asked["regexes"]]
    bitmask = xgrammar.allocate_token_bitmask(rows, vocab)
    times = []
    for step in range(asked["steps"]):
        scores = torch.randn((rows, vocab), generator=torch.Generator().manual_seed(step))
        began = time.perf_counter()
        for row, matcher in enumerate(matchers):
            matcher.fill_next_token_bitmask(bitmask, row)
        filled = time.perf_counter()
        xgrammar.apply_token_bitmask_inplace(scores, bitmask)
        applied = time.perf_counter()
        ids = scores.argmax(dim=1).tolist()
        chosen = time.perf_counter()
        for matcher, id_ in zip(matchers, ids, strict=True):
            matcher.accept_token(id_)
        accepted = time.perf_counter()
        times.append({"fill": filled - began, "apply": applied - filled, "accept": accepted - chosen})
        for matcher in matchers:
            if matcher.is_terminated():
                matcher.reset()
    print(json.dumps({"times": times}))


if __name__ == "__main__":
    answer(*sys.argv[1:]) if len(sys.argv) > 2 else masks(sys.argv[1])
