"""xgrammar and llguidance inside ``generate``, with the exact LP's own task: what it can be timed against.

    processor = xgrammar_processor("qwen3", [AnswerGrammar.of(molecule, form, tokenizer)] * 32, 151_936)
    model.generate(input_ids, attention_mask=mask, logits_processor=[processor])

Each library is used as its authors advise for batches: the tokenizer set up once, a grammar compiled once a molecule,
one matcher a row, the masks of the whole batch by one call into a bitmask that is applied in place. On a CPU both take
their own kernel for torch.compile, which needs seconds at its first call and then a tenth of the time of xgrammar's
kernel in C++ and a fifth of llguidance's in numpy; without a C++ compiler these two are taken.

``python -m bench.peers`` samples evenly from each one's masks and prints times, and how many of the texts are cut as
the tokenizer would cut them; then what a mask costs along an answer of 2,000 tokens (``--long``: this alone). Both
libraries are in requirements-bench.txt.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import importlib.metadata
import json
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor
from transformers import LogitsProcessor, PreTrainedTokenizerFast

from engine.chem.enriched import decode
from engine.chem.smiles import parse_smiles, read_text_order, same_graph
from engine.lp.constraint import build_constraint
from engine.lp.processor import ConstraintProcessor
from engine.records import TRIMMED4, Molecule, NumberFormat
from engine.text import tokenizer_build
from engine.text.tokenizers import load_tokenizer
from tests.engine.lp.grammars import AnswerGrammar, is_number

ROWS = {"qwen3": 151_936, "llama3": 128_330}
SMILES = ("CC=O", "CC(=O)N1CCC[C@H]1C(N)=O", "CC(C)Cc1ccc(cc1)[C@@H](C)C(=O)O")
LONG, SPANS = "C" * 120, 5
"""A molecule whose answers have more than ``MOST_STEPS`` tokens, and the parts of an answer that are looked at."""
BATCH = 32
ROUNDS = 2
MOST_STEPS = 2_000
HEAD = (
    f"{'tokenizer':<10} {'library':<18} {'set-up s':>8} {'compile ms':>18} {'mask ms':>8} {'matchers ms':>12} canonical"
)
LONG_HEAD = f"{'tokenizer':<10} {'library':<18} {'tokens':>8} {'ms of a mask, by fifths':>44} {'last / first':>12}"
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
    xgrammar = _library("xgrammar")
    compiler = _xgrammar_compiler(tokenizer, vocab_rows)
    compiled, times = _made_once(grammars, lambda grammar: compiler.compile_grammar(ebnf(grammar)))
    matchers = _XGrammarMatchers(xgrammar, [compiled[grammar] for grammar in grammars], vocab_rows)
    return PeerProcessor(matchers, times, _hugging_face(tokenizer), until)


def llguidance_processor(
    tokenizer: Tokenizer, grammars: Sequence[AnswerGrammar], vocab_rows: int, until: Sequence[int] | None = None
) -> PeerProcessor:
    """One grammar a row; ``until`` is each row's most tokens, see ``PeerProcessor``."""
    llguidance = _library("llguidance")
    its_tokenizer = _llguidance_tokenizer(tokenizer, vocab_rows)
    compiled, times = _made_once(grammars, lambda grammar: llguidance.LLMatcher(its_tokenizer, grammar.lark()))
    for matcher in compiled.values():
        if matcher.is_error():
            raise ValueError(matcher.get_error())
    matchers = _LlguidanceMatchers([compiled[grammar].deep_copy() for grammar in grammars], vocab_rows)
    return PeerProcessor(matchers, times, _hugging_face(tokenizer), until)


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
        self._executor = _library("llguidance").LLExecutor()
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
def _xgrammar_compiler(tokenizer: Tokenizer, vocab_rows: int) -> Any:
    xgrammar = _library("xgrammar")
    info = xgrammar.TokenizerInfo.from_huggingface(_hugging_face(tokenizer), vocab_size=vocab_rows)
    return xgrammar.GrammarCompiler(info)


@functools.lru_cache(maxsize=8)
def _llguidance_tokenizer(tokenizer: Tokenizer, vocab_rows: int) -> Any:
    _library("llguidance")
    return importlib.import_module("llguidance.hf").from_tokenizer(_hugging_face(tokenizer), n_vocab=vocab_rows)


@functools.lru_cache(maxsize=8)
def _hugging_face(tokenizer: Tokenizer) -> PreTrainedTokenizerFast:
    if not isinstance(tokenizer, str):
        return tokenizer
    backend, end = tokenizer_build.built_in(tokenizer), tokenizer_build.RECIPES[tokenizer].end
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token=end)


def _library(name: str) -> Any:
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


def _made_once(keys: Sequence[Key], make: Callable[[Key], Made]) -> tuple[dict[Key, Made], list[float]]:
    """What is made of each distinct key, and the milliseconds of each."""
    found, times = {}, []
    for key in dict.fromkeys(keys):
        began = time.perf_counter()
        found[key] = make(key)
        times.append((time.perf_counter() - began) * 1e3)
    return found, times


@dataclass(frozen=True)
class Sampled:
    """Texts that were drawn under a processor, and what its calls took."""

    ids: list[list[int]]
    call_ms: list[float]


def sample(processor: LogitsProcessor, rows: int, vocab_rows: int, end: int, seed: int) -> Sampled:
    """Each token is drawn evenly from its mask, until all rows have ended."""
    generator = torch.Generator().manual_seed(seed)
    ids, scores = torch.zeros((rows, 1), dtype=torch.long), torch.empty(rows, vocab_rows)
    times: list[float] = []
    while not bool((ids == end).any(dim=1).all()) and len(times) < MOST_STEPS:
        scores.uniform_(generator=generator)
        began = time.perf_counter()
        masked = processor(ids, scores)
        times.append((time.perf_counter() - began) * 1e3)
        ids = torch.cat([ids, masked.argmax(dim=1, keepdim=True)], dim=1)
    answers = [row[1 : row.index(end) if end in row else None] for row in ids.tolist()]
    return Sampled(answers, times)


def is_canonical(name: str, molecule: Molecule, form: NumberFormat, ids: Sequence[int]) -> bool:
    """Whether the tokenizer cuts the text just so; a text that is no answer is a fault of the grammar."""
    tokenizer = load_tokenizer(name)
    text = tokenizer.decode(ids)
    found = decode(text)
    if not all(is_number(form, number) for triple in found.numbers for number in triple):
        raise ValueError(f"a number in {text} does not fit the format")
    if not same_graph(found.mol, read_text_order(molecule.smiles)):
        raise ValueError(f"{text} is another molecule than {molecule.smiles}")
    return tokenizer.encode(text) == list(ids)


def check(
    label: str, name: str, set_up_s: float, make: Callable[[], LogitsProcessor], compile_ms: Sequence[float] | None
) -> None:
    """One line of the table. The first round, whose kernels are compiled, counts for the texts alone."""
    molecules = batch()
    drawn, matcher_ms, times = [], [], list(compile_ms or ())
    end = load_tokenizer(name).end_id
    assert end is not None
    for seed in range(ROUNDS):
        processor = make()
        drawn.append(sample(processor, BATCH, ROWS[name], end, seed))
        if isinstance(processor, PeerProcessor):
            times = times or list(processor.compile_ms)
            matcher_ms.append(processor.matcher_s * 1e3 / len(drawn[-1].call_ms))
    right = [
        is_canonical(name, molecule, TRIMMED4, ids)
        for each in drawn
        for molecule, ids in zip(molecules, each.ids, strict=True)
    ]
    shown = " ".join(f"{one:.2f}" for one in times)
    matching = f"{matcher_ms[-1]:.2f}" if matcher_ms else ""
    mask_ms = statistics.median(drawn[-1].call_ms)
    print(
        f"{name:<10} {label:<18} {set_up_s:>8.2f} {shown:>18} {mask_ms:>8.2f} {matching:>12} {sum(right)}/{len(right)}"
    )


def batch() -> list[Molecule]:
    return list(islice(cycle([parse_smiles(smiles) for smiles in SMILES]), BATCH))


def timed(make: Callable[[], Made]) -> tuple[Made, float]:
    began = time.perf_counter()
    made = make()
    return made, time.perf_counter() - began


def check_long(name: str) -> None:
    """Milliseconds of a mask in each part of a long answer: the first call, which may compile a kernel, is left out."""
    molecules, tokenizer = [parse_smiles(LONG)] * BATCH, load_tokenizer(name)
    grammars = [AnswerGrammar.of(molecule, TRIMMED4, tokenizer) for molecule in molecules]
    exact = build_constraint("exact", tokenizer, ROWS[name])
    made: dict[str, LogitsProcessor] = {
        "xgrammar": xgrammar_processor(name, grammars, ROWS[name]),
        "llguidance": llguidance_processor(name, grammars, ROWS[name]),
        "exact": ConstraintProcessor(exact, molecules, tokenizer.end_id or 0),
    }
    for label, processor in made.items():
        ms = sample(processor, BATCH, ROWS[name], tokenizer.end_id or 0, seed=0).call_ms[1:]
        parts = [statistics.median(part) for part in np.array_split(ms, SPANS)]
        shown = " ".join(f"{part:>8.2f}" for part in parts)
        print(f"{name:<10} {label:<18} {len(ms) + 1:>8} {shown} {parts[-1] / parts[0]:>12.2f}")


def check_peer(library: str, name: str, set_up: Callable[..., Any], make: Callable[..., PeerProcessor]) -> None:
    grammars = [AnswerGrammar.of(molecule, TRIMMED4, load_tokenizer(name)) for molecule in batch()]
    version = importlib.metadata.version(_library(library).__name__)
    _hugging_face(name)
    _, set_up_s = timed(lambda: set_up(name, ROWS[name]))
    check(f"{library} {version}", name, set_up_s, lambda: make(name, grammars, ROWS[name]), None)


def check_exact(name: str) -> None:
    tokenizer = load_tokenizer(name)
    constraint, set_up_s = timed(lambda: build_constraint("exact", tokenizer, ROWS[name]))
    _, times = _made_once(batch()[: len(SMILES)], constraint.compile)
    check("exact", name, set_up_s, lambda: ConstraintProcessor(constraint, batch(), tokenizer.end_id or 0), times)


def check_all(name: str) -> None:
    check_peer("xgrammar", name, _xgrammar_compiler, xgrammar_processor)
    check_peer("llguidance", name, _llguidance_tokenizer, llguidance_processor)
    check_exact(name)


def main() -> None:
    parser = argparse.ArgumentParser(description="The masks of xgrammar, llguidance and the exact LP.")
    parser.add_argument("--long", action="store_true", help="only what a mask costs along an answer of 2,000 tokens")
    tables = [(LONG_HEAD, check_long)] if parser.parse_args().long else [(HEAD, check_all), (LONG_HEAD, check_long)]
    try:
        for head, check_one in tables:
            print(head)
            for name in tokenizer_build.NAMES:
                check_one(name)
    except MissingPeer as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
