"""llama.cpp with a grammar, for ``tools.bench.served``: many texts at once through its public C calls.

The grammar is the molecule's text with any numbers, in llama.cpp's own notation. It draws as llama.cpp's own programs
do: a token is drawn without the grammar, and only where the grammar refuses it from what the grammar leaves. So the
file of weights holds the vocabulary too, which ``tools.llama_cpp`` leaves out.
"""

from __future__ import annotations

import ctypes
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.chem.enriched import prompt_of, segments_of
from engine.decode.plan import Sampling
from engine.lp.numbers import AXES
from engine.models.loading import LoadedModel
from engine.records import BinFormat, Molecule, NumberFormat
from tools.llama_cpp import package
from tools.llama_cpp.converting import write_gguf
from tools.llama_cpp.session import LlamaSetting, Weights, library, quantised

PRE = {"qwen3": "qwen2", "qwen3-bins": "qwen2", "llama3": "llama-bpe"}
"""Of our tokenizers, how llama.cpp calls the cutting of text before the merges."""
NORMAL, USER_DEFINED, UNUSED = 1, 4, 5
LENGTH = 1_400


def write_vocabulary(loaded: LoadedModel, writer: Any) -> None:
    """Into a file of weights, by the package's writer."""
    backend = loaded.tokenizer.backend
    model = json.loads(backend.to_str())["model"]
    added = backend.get_added_tokens_decoder()
    names = {id_: text for text, id_ in backend.get_vocab(with_added_tokens=True).items()}
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(PRE[loaded.tokenizer.name])
    writer.add_token_list([names.get(id_, f"[PAD{id_}]") for id_ in range(loaded.vocab_rows)])
    kinds = [
        UNUSED if id_ not in names else USER_DEFINED if id_ in added else NORMAL for id_ in range(loaded.vocab_rows)
    ]
    writer.add_token_types(kinds)
    writer.add_token_merges([pair if isinstance(pair, str) else " ".join(pair) for pair in model["merges"]])
    assert loaded.tokenizer.end_id is not None
    writer.add_eos_token_id(loaded.tokenizer.end_id)
    writer.add_add_bos_token(False)


def grammar_of(molecule: Molecule, form: NumberFormat) -> str:
    """Literal text between numbers. ``json.dumps`` quotes as llama.cpp does."""
    comma = f" {json.dumps(form.comma)} " if form.comma else " "
    block = f" {comma.join(['number'] * len(AXES))} "
    root = block.join(json.dumps(text) for text in segments_of(molecule.smiles, molecule.descriptors, form))
    if isinstance(form, BinFormat):
        return f"root ::= {root}\nnumber ::= [0-9]{{{form.digits}}}\n"
    decimals = f'"." [0-9]{{{max(1, form.least_decimals)},{form.most_decimals}}}'
    decimals = decimals if form.least_decimals else f"({decimals})?"
    return f'root ::= {root}\nnumber ::= "-"? ("0" | [1-9] [0-9]{{0,{form.most_integer_digits - 1}}}) {decimals}\n'


@dataclass(slots=True)
class _Row:
    """One text. ``place``: of its next row of scores in the last batch."""

    number: int
    grammar: Any
    chain: Any
    position: int
    limit: int
    place: int
    written: list[int] = field(default_factory=list)


class LlamaServed:
    """A model in llama.cpp, in single precision or bfloat16."""

    def __init__(self, loaded: LoadedModel, aside: Path, dtype: str, threads: int) -> None:
        package("llama_cpp"), package("gguf")  # before hundreds of megabytes are written
        self._loaded, self._threads = loaded, threads
        path = aside / "model.gguf"
        write_gguf(loaded, path, write_vocabulary)
        if dtype == "bfloat16":
            whole, path = path, aside / "model-bf16.gguf"
            quantised(whole, path, LlamaSetting("bf16", "MOSTLY_BF16"), threads)
            whole.unlink()
        self._weights = Weights(path)

    def __enter__(self) -> LlamaServed:
        return self

    def __exit__(self, *_: object) -> None:
        self._weights.__exit__()

    def run(self, molecules: Sequence[Molecule], limit: int, sampling: Sampling) -> tuple[int, float]:
        """Tokens and seconds; grammars are parsed while the clock runs, as vLLM's are."""
        llama = library()
        prompts = [self._loaded.tokenizer.encode(prompt_of(molecule.smiles)) for molecule in molecules]
        params = llama.llama_context_default_params()
        params.n_ctx, params.n_seq_max = LENGTH * len(molecules), len(molecules)
        params.n_batch = max(512, sum(map(len, prompts)))
        params.n_threads = params.n_threads_batch = self._threads
        context = llama.llama_init_from_model(self._weights.model, params)
        batch = llama.llama_batch_init(params.n_batch, 0, 1)
        began = time.perf_counter()
        try:
            rows = self._started(context, batch, molecules, prompts, limit, sampling)
            tokens = self._written(context, batch, rows)
            return tokens, time.perf_counter() - began
        finally:
            llama.llama_batch_free(batch)
            llama.llama_free(context)

    def _started(
        self, context: Any, batch: Any, molecules: Sequence[Molecule], prompts: Sequence[Any], limit: int,
        sampling: Sampling,
    ) -> list[_Row]:  # fmt: skip
        llama, form = library(), self._loaded.entry.numbers
        vocabulary = llama.llama_model_get_vocab(self._weights.model)
        batch.n_tokens, rows = 0, []
        for number, (molecule, prompt) in enumerate(zip(molecules, prompts, strict=True)):
            text = grammar_of(molecule, form).encode()
            grammar = llama.llama_sampler_init_grammar(vocabulary, text, b"root")
            assert grammar, "llama.cpp does not take the grammar"
            for position, id_ in enumerate(prompt):
                _add(batch, id_, position, number, is_last=position == len(prompt) - 1)
            place = batch.n_tokens - 1
            rows.append(_Row(number, grammar, _chain(sampling, number), len(prompt), limit, place))
        assert llama.llama_decode(context, batch) == 0
        return rows

    def _written(self, context: Any, batch: Any, rows: list[_Row]) -> int:
        llama, end, tokens = library(), self._loaded.tokenizer.end_id, 0
        candidates = (llama.llama_token_data * self._weights.rows)()
        while rows:
            batch_ids = []
            for row in rows:
                id_ = self._drawn(context, candidates, row)
                llama.llama_sampler_accept(row.grammar, id_)
                row.written.append(id_)
                tokens += 1
                batch_ids.append(id_)
            batch.n_tokens, left = 0, []
            for row, id_ in zip(rows, batch_ids, strict=True):
                if id_ == end or len(row.written) >= row.limit:
                    llama.llama_sampler_free(row.grammar)
                    llama.llama_sampler_free(row.chain)
                    continue
                row.place = batch.n_tokens
                _add(batch, id_, row.position, row.number, is_last=True)
                row.position += 1
                left.append(row)
            rows = left
            if rows:
                assert llama.llama_decode(context, batch) == 0
        return tokens

    def _drawn(self, context: Any, candidates: Any, row: _Row) -> int:
        """Without the grammar; where that refuses it, once more with it."""
        llama = library()
        id_ = self._applied(context, candidates, row, (row.chain,))
        single = (llama.llama_token_data * 1)(llama.llama_token_data(id_, 1.0, 0.0))
        array = llama.llama_token_data_array(single, 1, -1, False)
        llama.llama_sampler_apply(row.grammar, ctypes.byref(array))
        if single[0].logit != float("-inf"):
            return id_
        return self._applied(context, candidates, row, (row.grammar, row.chain))

    def _applied(self, context: Any, candidates: Any, row: _Row, samplers: Sequence[Any]) -> int:
        import numpy as np

        llama, count = library(), self._weights.rows
        logits = np.ctypeslib.as_array(llama.llama_get_logits_ith(context, row.place), shape=(count,))
        view = np.ctypeslib.as_array(candidates)
        view["id"], view["logit"], view["p"] = np.arange(count), logits, 0.0
        array = llama.llama_token_data_array(candidates, count, -1, False)
        for sampler in samplers:
            llama.llama_sampler_apply(sampler, ctypes.byref(array))
        return int(array.data[array.selected].id)


def _add(batch: Any, id_: int, position: int, row: int, *, is_last: bool) -> None:
    at = batch.n_tokens
    batch.token[at], batch.pos[at], batch.logits[at] = id_, position, int(is_last)
    batch.n_seq_id[at], batch.seq_id[at][0] = 1, row
    batch.n_tokens = at + 1


def _chain(sampling: Sampling, seed: int) -> Any:
    llama = library()
    chain = llama.llama_sampler_chain_init(llama.llama_sampler_chain_default_params())
    if sampling.top_k:
        llama.llama_sampler_chain_add(chain, llama.llama_sampler_init_top_k(sampling.top_k))
    if sampling.top_p < 1:
        llama.llama_sampler_chain_add(chain, llama.llama_sampler_init_top_p(sampling.top_p, 1))
    llama.llama_sampler_chain_add(chain, llama.llama_sampler_init_temp(sampling.temperature))
    llama.llama_sampler_chain_add(chain, llama.llama_sampler_init_dist(seed))
    return chain
