"""xgrammar and llguidance inside ``generate``, with the exact LP's own task.

    processor = peer_processor("xgrammar", "qwen3", [AnswerGrammar.of(molecule, form, tokenizer)], 151_936, [300])
    model.generate(input_ids, attention_mask=mask, logits_processor=[processor])

Each library is used as its authors advise for batches: the tokenizer set up once, a grammar compiled once per molecule,
one matcher per row, the masks of the whole batch by one call into a bitmask that is applied in place. On a CPU both use
their own kernel for torch.compile, which needs seconds at its first call and then a tenth of the time of xgrammar's
kernel in C++ and a fifth of llguidance's in numpy; without a C++ compiler these two are used.
"""

from __future__ import annotations

import functools
import importlib
import json
import shutil
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from torch import Tensor, from_numpy
from transformers import LogitsProcessor, PreTrainedTokenizerFast

from engine.text import tokenizer_build
from tests.engine.lp.grammars import AnswerGrammar


class XGrammarMatchers:
    """Its batch interface; one thread on few cores, as it chooses itself."""

    def __init__(self, compiled: Sequence[Any], vocab_rows: int) -> None:
        self._library: Any = importlib.import_module("xgrammar")
        self._matchers = [self._library.GrammarMatcher(each) for each in compiled]
        self._batch = self._library.BatchGrammarMatcher()
        self.bitmask: Tensor = self._library.allocate_token_bitmask(len(compiled), vocab_rows)

    def accept(self, rows: Sequence[int], tokens: Sequence[int]) -> bool:
        matchers = [self._matchers[row] for row in rows]
        return all(self._library.BatchGrammarMatcher.batch_accept_token(matchers, list(tokens)))

    def fill(self, rows: Sequence[int]) -> None:
        matchers = [self._matchers[row] for row in rows]
        self._batch.batch_fill_next_token_bitmask(matchers, self.bitmask, list(rows))

    def is_complete(self, row: int) -> bool:
        return bool(self._matchers[row].is_completed())  # nothing may follow but the end token

    def apply(self, scores: Tensor) -> None:
        backend = "torch_compile" if has_compiler() else "auto"
        self._library.apply_token_bitmask_inplace(scores, self.bitmask, backend=backend)


class LlguidanceMatchers:
    """Its parallel executor, with as many threads as it chooses itself."""

    def __init__(self, compiled: Sequence[Any], vocab_rows: int) -> None:
        self._torch: Any = importlib.import_module("llguidance.torch")
        self._matchers = [each.deep_copy() for each in compiled]
        self._executor: Any = importlib.import_module("llguidance").LLExecutor()
        self.bitmask: Tensor = self._torch.allocate_token_bitmask(len(compiled), vocab_rows)

    def accept(self, rows: Sequence[int], tokens: Sequence[int]) -> bool:
        pairs = [(self._matchers[row], token) for row, token in zip(rows, tokens, strict=True)]
        return all(self._torch.consume_token_par(self._executor, pairs))

    def fill(self, rows: Sequence[int]) -> None:
        pairs = [(self._matchers[row], row) for row in rows]
        self._torch.fill_next_token_bitmask_par(self._executor, pairs, self.bitmask)

    def is_complete(self, row: int) -> bool:
        return bool(self._matchers[row].is_stopped())

    def apply(self, scores: Tensor) -> None:
        if has_compiler():
            self._torch.apply_token_bitmask_inplace(scores, self.bitmask)
        else:
            plain: Any = importlib.import_module("llguidance.numpy")
            plain.apply_token_bitmask_inplace(scores.numpy(), self.bitmask.numpy())


class PeerProcessor(LogitsProcessor):
    """One batch of answers, for one call of ``generate`` without beams.

    A row that has written its answer goes on freely, the end token being blocked, and ends with its ``until[row]``-th
    token (the end token counts), finished or not: the length is known beforehand.
    """

    def __init__(self, matchers: XGrammarMatchers | LlguidanceMatchers, tokenizer: Any, until: Sequence[int]) -> None:
        self._matchers, self._until = matchers, until
        self._busy = list(range(len(matchers.bitmask)))
        width, end = matchers.bitmask.shape[1], tokenizer.eos_token_id
        self._only_end = bits([end], width)
        self._free = bits([id_ for id_ in range(len(tokenizer)) if id_ != end], width)
        self._prompt: int | None = None

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        if self._prompt is None:
            self._prompt = input_ids.shape[1]
        elif self._busy:
            tokens = input_ids[:, -1].tolist()
            if not self._matchers.accept(self._busy, [tokens[row] for row in self._busy]):
                raise RuntimeError("a token came that its mask had not allowed")
            complete = [row for row in self._busy if self._matchers.is_complete(row)]
            self._settle(complete, self._free)
        written = input_ids.shape[1] - self._prompt
        self._settle([row for row, most in enumerate(self._until) if most == written + 1], self._only_end)
        if self._busy:
            self._matchers.fill(self._busy)
        self._matchers.apply(scores)
        return scores

    def _settle(self, rows: Sequence[int], mask: Tensor) -> None:
        """Rows with a mask that does not come from a matcher any more."""
        for row in rows:
            self._matchers.bitmask[row] = mask
        self._busy = [row for row in self._busy if row not in rows]


def peer_processor(
    name: str, tokenizer: str, grammars: Sequence[AnswerGrammar], vocab_rows: int, until: Sequence[int]
) -> PeerProcessor:
    """One grammar per row; ``until`` is each row's number of tokens, see ``PeerProcessor``."""
    compile_one = compiler(name, tokenizer, vocab_rows)
    compiled = {grammar: compile_one(grammar) for grammar in dict.fromkeys(grammars)}
    kind = XGrammarMatchers if name == "xgrammar" else LlguidanceMatchers
    matchers = kind([compiled[grammar] for grammar in grammars], vocab_rows)
    return PeerProcessor(matchers, hugging_face(tokenizer), until)


@functools.cache
def compiler(name: str, tokenizer: str, vocab_rows: int) -> Callable[[AnswerGrammar], Any]:
    """Sets the library up for the tokenizer."""
    library: Any = importlib.import_module(name)
    if name == "xgrammar":
        info = library.TokenizerInfo.from_huggingface(hugging_face(tokenizer), vocab_size=vocab_rows)
        made = library.GrammarCompiler(info)
        return lambda grammar: made.compile_grammar(ebnf(grammar))
    its: Any = importlib.import_module("llguidance.hf").from_tokenizer(hugging_face(tokenizer), n_vocab=vocab_rows)

    def matcher(grammar: AnswerGrammar) -> Any:
        compiled = library.LLMatcher(its, grammar.lark())
        if compiled.is_error():
            raise ValueError(compiled.get_error())
        return compiled

    return matcher


@functools.cache
def hugging_face(tokenizer: str) -> PreTrainedTokenizerFast:
    backend, end = tokenizer_build.built_in(tokenizer), tokenizer_build.RECIPES[tokenizer].end
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token=end)


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


@functools.cache
def has_compiler() -> bool:
    """Whether torch.compile finds what it compiles with for a CPU."""
    return any(shutil.which(name) for name in ("g++", "clang++", "c++"))


def bits(ids: Sequence[int], width: int) -> Tensor:
    """A row of a bitmask, int32 [V / 32], with these ids alone."""
    allowed = np.zeros(width * 32, dtype=np.bool_)
    allowed[list(ids)] = True
    return from_numpy(np.packbits(allowed, bitorder="little").view(np.int32))
