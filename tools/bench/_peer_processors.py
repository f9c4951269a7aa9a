"""xgrammar and llguidance inside ``generate``, with the exact LP's own task.

    processor = xgrammar_processor("qwen3", [AnswerGrammar.of(molecule, form, tokenizer)] * 32, 151_936)
    model.generate(input_ids, attention_mask=mask, logits_processor=[processor])

Each library is used as its authors advise for batches: the tokenizer set up once, a grammar compiled once a molecule,
one matcher a row, the masks of the whole batch by one call into a bitmask that is applied in place. On a CPU both take
their own kernel for torch.compile, which needs seconds at its first call and then a tenth of the time of xgrammar's
kernel in C++ and a fifth of llguidance's in numpy; without a C++ compiler these two are taken.
"""

from __future__ import annotations

import functools
import importlib
import json
import shutil
import time
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor
from transformers import LogitsProcessor, PreTrainedTokenizerFast

from engine.text import tokenizer_build
from tests.engine.lp.grammars import AnswerGrammar

Made = TypeVar("Made")
Key = TypeVar("Key", bound=Hashable)
Tokenizer = str | PreTrainedTokenizerFast


class MissingPeer(ImportError):  # noqa: N818 - what it says is the error
    """A library that is compared with is not installed."""


class Matchers(Protocol):
    """One library's matchers, one a row, and the bitmask that they fill."""

    bitmask: Tensor  # int32 [R, V / 32], on the CPU

    def accept(self, rows: Sequence[int], tokens: Sequence[int]) -> bool: ...

    def fill(self, rows: Sequence[int]) -> None: ...

    def is_complete(self, row: int) -> bool:
        """Whether nothing may follow but the end token."""
        ...

    def apply(self, scores: Tensor) -> None: ...


class PeerProcessor(LogitsProcessor):
    """One batch of answers, for one call of ``generate`` without beams.

    A row that has written its answer may only end. With ``until`` it goes on freely, the end token being blocked, and
    ends with its ``until[row]``-th token (the end token counts), finished or not: the length is known beforehand.
    ``compile_ms`` has one entry a distinct grammar (xgrammar keeps what it has compiled: only the first time counts);
    ``matcher_s`` is the time in the matchers, all steps together: what is not in it went into applying their masks.
    """

    def __init__(
        self, matchers: Matchers, compile_ms: Sequence[float], tokenizer: Any, until: Sequence[int] | None
    ) -> None:
        self.compile_ms = tuple(compile_ms)
        self.matcher_s = 0.0
        self._matchers = matchers
        self._busy = list(range(len(matchers.bitmask)))
        self._until = until
        width = matchers.bitmask.shape[1]
        end = tokenizer.eos_token_id
        self._only_end = _bits([end], width)
        self._free = _bits([id_ for id_ in range(len(tokenizer)) if id_ != end], width)
        self._prompt: int | None = None
        if until is not None and len(until) != len(self._busy):
            raise ValueError(f"{len(until)} limits for {len(self._busy)} rows")

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        began = time.perf_counter()
        if self._prompt is None:
            self._prompt = input_ids.shape[1]
        else:
            self._follow(input_ids[:, -1].tolist())  # one copy from the device a step
        self._fill(input_ids.shape[1] - self._prompt)
        self.matcher_s += time.perf_counter() - began
        self._matchers.apply(scores)
        return scores

    def _follow(self, tokens: list[int]) -> None:
        if not self._busy:
            return
        if not self._matchers.accept(self._busy, [tokens[row] for row in self._busy]):
            raise RuntimeError("a token came that its mask had not allowed")
        complete = [row for row in self._busy if self._matchers.is_complete(row)]
        self._settle(complete, self._only_end if self._until is None else self._free)

    def _fill(self, written: int) -> None:
        last = [row for row, most in enumerate(self._until or ()) if most == written + 1]
        self._settle(last, self._only_end)
        if self._busy:
            self._matchers.fill(self._busy)

    def _settle(self, rows: Sequence[int], mask: Tensor) -> None:
        """Rows whose mask does not come from a matcher any more."""
        for row in rows:
            self._matchers.bitmask[row] = mask
        self._busy = [row for row in self._busy if row not in rows]


def xgrammar_processor(
    tokenizer: Tokenizer, grammars: Sequence[AnswerGrammar], vocab_rows: int, until: Sequence[int] | None = None
) -> PeerProcessor:
    """One grammar a row; ``until`` is each row's most tokens, see ``PeerProcessor``."""
    xgrammar = library("xgrammar")
    compiler = xgrammar_compiler(tokenizer, vocab_rows)
    compiled, times = made_once(grammars, lambda grammar: compiler.compile_grammar(ebnf(grammar)))
    matchers = _XGrammarMatchers(xgrammar, [compiled[grammar] for grammar in grammars], vocab_rows)
    return PeerProcessor(matchers, times, hugging_face(tokenizer), until)


def llguidance_processor(
    tokenizer: Tokenizer, grammars: Sequence[AnswerGrammar], vocab_rows: int, until: Sequence[int] | None = None
) -> PeerProcessor:
    """One grammar a row; ``until`` is each row's most tokens, see ``PeerProcessor``."""
    llguidance = library("llguidance")
    its_tokenizer = llguidance_tokenizer(tokenizer, vocab_rows)
    compiled, times = made_once(grammars, lambda grammar: llguidance.LLMatcher(its_tokenizer, grammar.lark()))
    for matcher in compiled.values():
        if matcher.is_error():
            raise ValueError(matcher.get_error())
    matchers = _LlguidanceMatchers([compiled[grammar].deep_copy() for grammar in grammars], vocab_rows)
    return PeerProcessor(matchers, times, hugging_face(tokenizer), until)


def ebnf(grammar: AnswerGrammar) -> str:
    """The grammar in xgrammar's notation, which has no negation: a negative number has a digit that is no zero."""
    form, (opening, closing) = grammar.form, grammar.tags
    body = " ".join("number" if piece is None else json.dumps(piece) for piece in grammar.pieces[1:-1])
    whole = f"[1-9] [0-9]{{0,{form.most_integer_digits - 1}}}"
    some = " | ".join(
        f'"{"0" * zeros}" [1-9] [0-9]{{{max(0, form.least_decimals - zeros - 1)},{form.most_decimals - zeros - 1}}}'
        for zeros in range(form.most_decimals)
    )
    return (
        f"root ::= Token({opening}) {body} Token({closing})\n"
        f'number ::= ("0" | "-"? {whole}) "." [0-9]{{{form.least_decimals},{form.most_decimals}}} | "-0." ({some})\n'
    )


class _XGrammarMatchers:
    """Its batch interface; one thread on few cores, as it chooses itself."""

    def __init__(self, xgrammar: Any, compiled: Sequence[Any], vocab_rows: int) -> None:
        self._library = xgrammar
        self._matchers = [xgrammar.GrammarMatcher(each) for each in compiled]
        self._batch = xgrammar.BatchGrammarMatcher()
        self.bitmask: Tensor = xgrammar.allocate_token_bitmask(len(compiled), vocab_rows)
        if torch.cuda.is_available():
            self.bitmask = self.bitmask.pin_memory()

    def accept(self, rows: Sequence[int], tokens: Sequence[int]) -> bool:
        matchers = [self._matchers[row] for row in rows]
        return all(self._library.BatchGrammarMatcher.batch_accept_token(matchers, list(tokens)))

    def fill(self, rows: Sequence[int]) -> None:
        matchers = [self._matchers[row] for row in rows]
        self._batch.batch_fill_next_token_bitmask(matchers, self.bitmask, list(rows))

    def is_complete(self, row: int) -> bool:
        return bool(self._matchers[row].is_completed())

    def apply(self, scores: Tensor) -> None:
        bitmask = self.bitmask.to(scores.device, non_blocking=True)
        backend = "torch_compile" if scores.device.type == "cpu" and _has_compiler() else "auto"
        self._library.apply_token_bitmask_inplace(scores, bitmask, backend=backend)


class _LlguidanceMatchers:
    """Its parallel executor, with as many threads as it chooses itself."""

    def __init__(self, matchers: Sequence[Any], vocab_rows: int) -> None:
        self._torch = importlib.import_module("llguidance.torch")
        self._matchers = matchers
        self._executor = library("llguidance").LLExecutor()
        self.bitmask: Tensor = self._torch.allocate_token_bitmask(len(matchers), vocab_rows)

    def accept(self, rows: Sequence[int], tokens: Sequence[int]) -> bool:
        pairs = [(self._matchers[row], token) for row, token in zip(rows, tokens, strict=True)]
        return all(self._torch.consume_token_par(self._executor, pairs))

    def fill(self, rows: Sequence[int]) -> None:
        pairs = [(self._matchers[row], row) for row in rows]
        self._torch.fill_next_token_bitmask_par(self._executor, pairs, self.bitmask)

    def is_complete(self, row: int) -> bool:
        return bool(self._matchers[row].is_stopped())

    def apply(self, scores: Tensor) -> None:
        if scores.device.type == "cpu" and not _has_compiler():
            plain = importlib.import_module("llguidance.numpy")
            plain.apply_token_bitmask_inplace(scores.numpy(), self.bitmask.numpy())
            return
        self._torch.apply_token_bitmask_inplace(scores, self.bitmask.to(scores.device, non_blocking=True))


@functools.lru_cache(maxsize=8)
def xgrammar_compiler(tokenizer: Tokenizer, vocab_rows: int) -> Any:
    xgrammar = library("xgrammar")
    info = xgrammar.TokenizerInfo.from_huggingface(hugging_face(tokenizer), vocab_size=vocab_rows)
    return xgrammar.GrammarCompiler(info)


@functools.lru_cache(maxsize=8)
def llguidance_tokenizer(tokenizer: Tokenizer, vocab_rows: int) -> Any:
    library("llguidance")
    return importlib.import_module("llguidance.hf").from_tokenizer(hugging_face(tokenizer), n_vocab=vocab_rows)


@functools.lru_cache(maxsize=8)
def hugging_face(tokenizer: Tokenizer) -> PreTrainedTokenizerFast:
    if not isinstance(tokenizer, str):
        return tokenizer
    backend, end = tokenizer_build.built_in(tokenizer), tokenizer_build.RECIPES[tokenizer].end
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token=end)


def library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise MissingPeer(
            f"{error.name} is not installed: run `pip install --no-deps -r requirements-bench.txt`"
        ) from error


@functools.cache
def _has_compiler() -> bool:
    """Whether torch.compile finds what it compiles with for a CPU."""
    return any(shutil.which(name) for name in ("g++", "clang++", "c++"))


def _bits(ids: Sequence[int], width: int) -> Tensor:
    """A row of a bitmask, int32 [V / 32], with these ids alone."""
    allowed = np.zeros(width * 32, dtype=np.bool_)
    allowed[list(ids)] = True
    return torch.from_numpy(np.packbits(allowed, bitorder="little").view(np.int32))


def made_once(keys: Sequence[Key], make: Callable[[Key], Made]) -> tuple[dict[Key, Made], list[float]]:
    """What is made of each distinct key, and the milliseconds of each."""
    found, times = {}, []
    for key in dict.fromkeys(keys):
        began = time.perf_counter()
        found[key] = make(key)
        times.append((time.perf_counter() - began) * 1e3)
    return found, times
