"""llama.cpp through its public C calls: a file of weights, a context, tokens in, logits copied at the step.

Needs no torch. Pointers into llama.cpp's memory leave this module only through ``address``, for ``late``.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from engine.errors import ModelError, shown
from tools.llama_cpp import package

Row = NDArray[np.float32]

F32 = 0
"""ggml's number of single precision."""
AT_ONCE = 64
"""Tokens of a call that are computed together: memory for so many whole rows is set aside."""
NO_FLASH_ATTENTION = 0
WHOLE = "ALL_F32"
ERROR = 3
"""llama.cpp's level of a message that says what failed."""
MOST_SAID = 200


@dataclass(frozen=True, slots=True)
class LlamaSetting:
    """How llama.cpp computes. ``exact``: cache in single precision and plain attention, instead of its defaults."""

    name: str  # as logs have it in ``precision``
    file_type: str  # the end of one of its LLAMA_FTYPE_ names
    exact: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether the file is the converted one, not quantised by llama.cpp."""
        return self.file_type == WHOLE


SETTINGS = (
    LlamaSetting("f32", WHOLE, exact=True),
    LlamaSetting("f32 cache f16", WHOLE),
    LlamaSetting("f16", "MOSTLY_F16"),
    LlamaSetting("q8_0", "MOSTLY_Q8_0"),
    LlamaSetting("q6_K", "MOSTLY_Q6_K"),
    LlamaSetting("q5_K_M", "MOSTLY_Q5_K_M"),
    LlamaSetting("q4_K_M", "MOSTLY_Q4_K_M"),
    LlamaSetting("q4_0", "MOSTLY_Q4_0"),
)


@functools.cache
def library() -> Any:
    """Its functions, begun once per process; of its messages the last error is kept."""
    functions = package("llama_cpp")

    def keep(level: int, text: bytes, _: object) -> None:
        if level == ERROR:
            last_error[:] = [text.decode("utf-8", "replace").strip()]

    callbacks.append(functions.llama_log_callback(keep))  # the library keeps no reference
    functions.llama_log_set(callbacks[0], ctypes.c_void_p(0))
    functions.llama_backend_init()
    return functions


callbacks: list[Any] = []
last_error = [""]


def quantised(source: Path, target: Path, setting: LlamaSetting, threads: int) -> None:
    """Quantise a file with llama.cpp."""
    llama = library()
    params = llama.llama_model_quantize_default_params()
    params.ftype, params.nthread = getattr(llama, f"LLAMA_FTYPE_{setting.file_type}"), threads
    if llama.llama_model_quantize(str(source).encode(), str(target).encode(), ctypes.byref(params)):
        raise _failed(f"{shown(source, 200)} cannot be made {setting.name}")


class Weights:
    """A GGUF file in memory."""

    def __init__(self, path: Path) -> None:
        self.library = library()
        params = self.library.llama_model_default_params()
        params.n_gpu_layers = 0
        self.model = self.library.llama_model_load_from_file(str(path).encode(), params)
        if not self.model:
            raise _failed(f"{shown(path, 200)} cannot be loaded")
        self.rows = int(self.library.llama_vocab_n_tokens(self.library.llama_model_get_vocab(self.model)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.library.llama_model_free(self.model)
        self.model = None


class Session:
    """One text. The logits are for the token after the last one that was fed."""

    def __init__(self, weights: Weights, setting: LlamaSetting, *, positions: int, threads: int) -> None:
        self.weights, self.library, self.positions = weights, weights.library, positions
        params = self.library.llama_context_default_params()
        params.n_ctx = params.n_batch = positions
        params.n_ubatch = min(positions, AT_ONCE)
        params.n_threads = params.n_threads_batch = threads
        if setting.exact:
            params.type_k = params.type_v = F32
            params.flash_attn_type = NO_FLASH_ATTENTION
        self.context = self.library.llama_init_from_model(weights.model, params)
        if not self.context:
            raise _failed("llama.cpp makes no context")

    def feed(self, ids: Sequence[int]) -> None:
        """In one call, with logits after the last token only."""
        tokens = (self.library.llama_token * len(ids))(*ids)
        self._decode(self.library.llama_batch_get_one(tokens, len(ids)), len(ids))

    def feed_for_all(self, ids: Sequence[int], start: int) -> None:
        """In one call, with logits after every token. ``start`` tokens were fed before."""
        batch = self.library.llama_batch_init(len(ids), 0, 1)
        try:
            batch.n_tokens = len(ids)
            for index, id_ in enumerate(ids):
                batch.token[index], batch.pos[index], batch.logits[index] = id_, start + index, 1
                batch.n_seq_id[index], batch.seq_id[index][0] = 1, 0
            self._decode(batch, len(ids))
        finally:
            self.library.llama_batch_free(batch)

    def _decode(self, batch: Any, count: int) -> None:
        status = self.library.llama_decode(self.context, batch)
        if status:
            raise _failed(f"llama.cpp does not take {count} tokens (status {status})")

    def logits(self, index: int = -1) -> Row:
        pointer = self.library.llama_get_logits_ith(self.context, index)
        if not pointer:
            raise _failed("llama.cpp has no logits there")
        return np.array(np.ctypeslib.as_array(pointer, shape=(self.weights.rows,)), dtype=np.float32, copy=True)

    def address(self) -> int:
        """The current address of the logits after the last token."""
        pointer = self.library.llama_get_logits_ith(self.context, -1)
        return int(ctypes.cast(pointer, ctypes.c_void_p).value or 0)

    def along(self, prompt: Sequence[int], answer: Sequence[int]) -> Iterator[Row]:
        self.feed(prompt)
        for number, id_ in enumerate(answer):
            yield self.logits()
            if number < len(answer) - 1:
                self.feed([id_])

    def greedy(self, prompt: Sequence[int], limit: int, end: int, size: int) -> list[int]:
        """The likeliest of the first ``size`` tokens each time, up to the end token."""
        answer: list[int] = []
        self.feed(prompt)
        while len(answer) < limit:
            answer.append(int(self.logits()[:size].argmax()))
            if answer[-1] == end:
                break
            self.feed(answer[-1:])
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.library.llama_free(self.context)
        self.context = None


def _failed(problem: str) -> ModelError:
    last = last_error[0][:MOST_SAID]
    return ModelError(f"{problem} ({last})" if last else problem, "Look at the file and the version of llama.cpp")
