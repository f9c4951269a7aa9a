"""What our LPs take in vLLM, and what they are worth there: ``python -m tools.bench.served``.

First the time of a step of the plugin's rows at batch 32, alone in this process, beside an xgrammar mask of the same
batch (with requirements-bench.txt). Then, where ``make vllm`` has made .venv-vllm, tokens a second of vLLM and of our
own decoding for the same molecules, one after the other in each round, with the same tokens asked for.

    --model ALIAS      demo-qwen (default) or demo-llama
    --batch N          may be repeated (1 and 32)
    --rounds N         of each arm (3); printed is the median
    --filters          temperature 0.7, top-k 20, top-p 0.8 in place of temperature 1 without filters
    --steps N          of rows whose time is taken (150)
    --steps-only       not vLLM
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from engine.chem.smiles import parse_written
from engine.decode.generation import Generation
from engine.decode.plan import Plan, Sampling
from engine.lp.served import ServedLp
from engine.lp.served_rows import Compiler, ServedBatch, ServedRow, of_list
from engine.models.loading import LoadedModel, load_model, model_folder
from engine.models.registry import load_registry
from engine.paths import ROOT
from engine.records import Molecule
from tests.engine.lp.grammars import AnswerGrammar
from tools.bench._measure import figure, machine, note, show

VLLM_PYTHON = ROOT / ".venv-vllm/bin/python"
BATCH, STEPS, LIMIT = 32, 150, 900
SEED = 7


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="demo-qwen")
    parser.add_argument("--batch", type=int, action="append")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--filters", action="store_true")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--steps-only", action="store_true")
    chosen = parser.parse_args()
    entry = next(entry for entry in load_registry().entries if entry.alias == chosen.model)
    loaded = load_model(entry, "cpu")
    lines = (ROOT / "data/heldout.smi").read_text(encoding="utf-8").splitlines()
    molecules = [parse_written(line.split()[0]) for line in lines[:BATCH]]
    note(machine())
    show(
        f"A step of {BATCH} rows, {chosen.model}",
        "LP|ms, median|ms, 95th of 100",
        step_times(loaded, molecules, chosen.steps),
    )
    if chosen.steps_only:
        return
    if not VLLM_PYTHON.exists():
        note("`make vllm` makes the environment that the rest needs")
        return
    sampling = Sampling(0.7, 20, 0.8) if chosen.filters else Sampling(1.0)
    for batch in chosen.batch or [1, BATCH]:
        rows = speeds(loaded, molecules[:batch], sampling, chosen.rounds)
        show(f"{chosen.model}, batch {batch}, float32", "engine, LP|tokens a second|of", rows)


def step_times(loaded: LoadedModel, molecules: Sequence[Molecule], steps: int) -> list[list[str]]:
    """Of rows that follow random choices, with scores that are made before the clock runs."""
    compiler = Compiler(loaded.tokenizer, loaded.vocab_rows)
    table = []
    for lp in ("exact", "group-v4.3", "shaped"):
        rows = [ServedRow(compiler.compiled(ServedLp(lp, molecule.smiles))) for molecule in molecules]
        batch = ServedBatch(rows[0].compiled.constraint, compiler.end_id, torch.device("cpu"))
        ids: list[list[int]] = [[] for _ in rows]
        times = []
        for step in range(steps):
            scores = torch.randn((len(rows), loaded.vocab_rows), generator=torch.Generator().manual_seed(step))
            began = time.perf_counter()
            for row, of_row in zip(rows, ids, strict=True):
                row.follow(len(of_row), of_list(of_row), compiler.end_id)
            batch.apply(scores, range(len(rows)), rows)
            times.append(time.perf_counter() - began)
            for of_row, chosen in zip(ids, scores.argmax(dim=1).tolist(), strict=True):
                of_row.append(chosen)
        table.append(_times(lp, times))
    table.append(_times("minus infinity everywhere, alone", _fill_times(loaded, len(molecules), steps)))
    peer = _xgrammar_times(loaded, molecules, steps)
    return [*table, peer] if peer else table


def _fill_times(loaded: LoadedModel, rows: int, steps: int) -> list[float]:
    """What any mask of a whole vocabulary writes."""
    times = []
    for step in range(steps):
        scores = torch.randn((rows, loaded.vocab_rows), generator=torch.Generator().manual_seed(step))
        began = time.perf_counter()
        scores.fill_(-torch.inf)
        times.append(time.perf_counter() - began)
    return times


def _times(name: str, times: Sequence[float]) -> list[str]:
    """Without the first, in which all is read for the first time."""
    ordered = sorted(times[min(10, len(times) // 2) :])
    return [name, figure(1e3 * statistics.median(ordered)), figure(1e3 * ordered[int(0.95 * len(ordered))])]


def _xgrammar_times(loaded: LoadedModel, molecules: Sequence[Molecule], steps: int) -> list[str] | None:
    try:
        from tools.bench._peers import peer_processor

        name = loaded.tokenizer.name
        grammars = [AnswerGrammar.of(molecule, loaded.entry.numbers, loaded.tokenizer) for molecule in molecules]
        processor = peer_processor("xgrammar", name, grammars, loaded.vocab_rows, [LIMIT] * len(molecules))
    except ImportError:
        return None
    ids, times = torch.zeros((len(molecules), 1), dtype=torch.int64), []
    for step in range(steps):
        scores = torch.randn((len(molecules), loaded.vocab_rows), generator=torch.Generator().manual_seed(step))
        began = time.perf_counter()
        scores = processor(ids, scores)
        times.append(time.perf_counter() - began)
        ids = torch.cat([ids, scores.argmax(dim=1, keepdim=True)], dim=1)
    return _times("xgrammar's mask", times)


def speeds(loaded: LoadedModel, molecules: Sequence[Molecule], sampling: Sampling, rounds: int) -> list[list[str]]:
    """Tokens a second, the rounds of the arms in turn; answers of ``none`` have the tokens of ``exact``."""
    limits = [sample.tokens for sample in Generation(loaded, molecules, _plan("exact", sampling)).run()]
    arms: dict[str, list[tuple[int, float]]] = {}
    with _Vllm(loaded, sampling) as vllm:
        for round_ in range(rounds + 1):
            for arm in ("none", "regex", "exact", "shaped"):
                found = vllm.run(arm, molecules, limits)
                arms.setdefault(f"vLLM, {arm}", []).append(found)
            for lp in ("none", "exact"):
                # Where the work is to be equal, the lengths are found here, before the clock runs.
                generation = Generation(loaded, molecules, _plan(lp, sampling, equal_work=lp == "none"))
                began = time.perf_counter()
                tokens = sum(sample.tokens for sample in generation.run())
                arms.setdefault(f"ours, {lp}", []).append((tokens, time.perf_counter() - began))
            note(f"round {round_}: done")
    rows = []
    for name, of_arm in arms.items():
        measured = of_arm[1:]  # the first round warms
        pace = statistics.median(tokens / seconds for tokens, seconds in measured)
        rows.append([name, figure(pace), f"{measured[0][0]:,} tokens"])
    return rows


def _plan(lp: str, sampling: Sampling, *, equal_work: bool = False) -> Plan:
    return Plan(lp, sampling=sampling, seed=SEED, equal_work=equal_work, limit=None if equal_work else LIMIT)


class _Vllm:
    """vLLM offline in a child of its own, which loads the model once."""

    def __init__(self, loaded: LoadedModel, sampling: Sampling) -> None:
        self._loaded, self._sampling = loaded, sampling
        self._threads = torch.get_num_threads()

    def __enter__(self) -> _Vllm:
        own = {
            "VLLM_CPU_KVCACHE_SPACE": "2",
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "OMP_NUM_THREADS": str(self._threads),
            "HF_HUB_OFFLINE": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "VLLM_LOGGING_LEVEL": "ERROR",
            "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
            "PYTHONPATH": str(ROOT),
        }
        child = str(Path(__file__).with_name("_served_child.py"))
        self._process = subprocess.Popen(
            [VLLM_PYTHON, child, str(model_folder(self._loaded.entry))],
            env=os.environ | own, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        return self

    def run(self, arm: str, molecules: Sequence[Molecule], limits: Sequence[int]) -> tuple[int, float]:
        """Tokens and seconds."""
        requests = [
            {
                "prompt": f"[SMILES]{molecule.smiles}[/SMILES]",
                **_asked(arm, molecule, limit, self._loaded),
                "seed": number,
            }
            for number, (molecule, limit) in enumerate(zip(molecules, limits, strict=True))
        ]
        sampling = {name: getattr(self._sampling, name) for name in ("temperature", "top_p", "top_k")}
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps({"sampling": sampling, "requests": requests}) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith('{"tokens"'):
                answer = json.loads(line)
                return answer["tokens"], answer["seconds"]
        raise RuntimeError(f"vLLM ended with {self._process.wait()}")

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()


def _asked(arm: str, molecule: Molecule, limit: int, loaded: LoadedModel) -> dict[str, Any]:
    if arm == "none":
        return {"max_tokens": limit, "ignore_eos": True}
    if arm == "regex":
        return {"max_tokens": LIMIT, "regex": regex_of(molecule, loaded)}
    return {"max_tokens": LIMIT, "extra_args": ServedLp(arm, molecule.smiles).arguments()}


def regex_of(molecule: Molecule, loaded: LoadedModel) -> str:
    """The molecule's own text with any numbers; the tags are named by their letters, which the model has tokens for."""
    number = r"-?[0-9]{1,3}\.[0-9]{1,4}"
    pieces = AnswerGrammar.of(molecule, loaded.entry.numbers, loaded.tokenizer).pieces
    return "".join(number if piece is None else re.sub(r"([][(){}.+*?^$|\\/])", r"\\\1", piece) for piece in pieces)


if __name__ == "__main__":
    main()
