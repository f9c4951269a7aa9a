"""What our LPs take in vLLM, and what they are worth there: ``python -m tools.bench.served``.

First the time of a step at batch 32: of the plugin's rows while the model writes under them in plain ``generate``, of
our own decoding, and of the masks of xgrammar, which vLLM uses, for the same molecules' regexes. Then tokens a second
of all ways to the same molecules' answers, one after the other in each round: vLLM without an LP, with its own regex,
with our plugin (``make vllm-environment``); our own decoding; plain ``generate``; llama.cpp with a grammar (``make
parity``). Answers without an LP have the lengths that ``exact`` gives them. Without options: all that is in
docs/benchmarks.md.

    --model ALIAS      demo-qwen, demo-llama, demo-bins; may be repeated
    --shape NAME       random weights in this shape (such as qwen3-0.6b), asked for the smallest held-out molecules
    --dtype NAME       float32 (default) or bfloat16; may be repeated
    --batch N          may be repeated (1 and 32, of a shape 1 and 8)
    --filters          temperature 0.7, top-k 20, top-p 0.8 in place of temperature 1 without filters
    --rounds N         of each arm (3); printed is the median
    --steps N          whose time is taken (150)
    --steps-only, --no-steps
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import LogitsProcessor

from engine.chem.enriched import prompt_of
from engine.chem.smiles import parse_written
from engine.decode.generation import Generation
from engine.decode.plan import Plan, Sampling
from engine.errors import AssetError
from engine.lp.constraint import LpParameters, build_constraint
from engine.lp.grammar import GrammarConstraint
from engine.lp.served import ServedLp
from engine.lp.served_rows import Compiler, ServedBatch, ServedRow, of_list
from engine.lp.table import live_columns
from engine.models.loading import LoadedModel, load_model, model_folder
from engine.models.registry import entry_of_folder, load_registry
from engine.paths import ROOT
from engine.records import Molecule
from tools.bench._measure import figure, machine, note, show
from tools.bench._served_llama import LlamaServed
from tools.bench._sized import saved_model
from tools.bench.processor import SAMPLING
from tools.bench.sizes import SHAPES
from tools.training.evaluate import answers_of
from tools.vllm_server import VLLM_PYTHON, environment

BATCH, FEW, STEPS, LIMIT = 32, 8, 150, 900
SEED = 7
Work = Callable[[], tuple[int, float]]
"""Tokens and seconds."""
FREE, FILTERED = Sampling(1.0), Sampling(0.7, 20, 0.8)
VLLM_ARMS = ("none", "regex", "exact", "shaped")
LLAMA = "llama.cpp grammar"
ARMS = (*(f"vLLM {arm}" for arm in VLLM_ARMS), "ours none", "ours exact", "generate", LLAMA)
STEP_LPS = ("exact", "group-v2.1", "shaped")
STEP_HEAD = "model|of a step|candidates|ms, median|ms, 95th of 100|in our decoding, ms, mean"


@dataclass(frozen=True, slots=True)
class Case:
    """A row of the table. ``model`` is an alias or a shape's name."""

    model: str
    dtype: str
    batch: int
    sampling: Sampling

    @property
    def is_shape(self) -> bool:
        return self.model in SHAPES

    @property
    def words(self) -> list[str]:
        sampling = "T 1" if self.sampling == FREE else "T 0.7, top-k 20, top-p 0.8"
        return [self.model, self.dtype, str(self.batch), sampling]


CASE_HEAD = "model|numbers|batch|sampling"


WHOLE = (
    Case("demo-qwen", "float32", 1, FREE),
    Case("demo-qwen", "float32", BATCH, FREE),
    Case("demo-qwen", "float32", BATCH, FILTERED),
    Case("demo-bins", "float32", BATCH, FREE),
    *(Case("qwen3-0.6b", dtype, batch, FREE) for dtype in ("float32", "bfloat16") for batch in (1, FEW)),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", action="append", default=[])
    parser.add_argument("--shape", action="append", default=[], choices=list(SHAPES))
    parser.add_argument("--dtype", action="append", choices=["float32", "bfloat16"])
    parser.add_argument("--batch", type=int, action="append")
    parser.add_argument("--filters", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--steps-only", action="store_true")
    parser.add_argument("--no-steps", action="store_true")
    chosen = parser.parse_args()
    note(machine("torch", "transformers"))
    if not VLLM_PYTHON.exists():
        note("`make vllm-environment` makes the environment that vLLM and xgrammar need; without it they are left out")
    if not chosen.no_steps:
        loaded = load_model(load_registry().find((chosen.model or ["demo-qwen"])[0]), "cpu")
        molecules = molecules_of(BATCH)
        rows = step_times(loaded, molecules, chosen.steps, STEP_LPS) + mask_times(loaded, molecules, chosen.steps)
        show(f"A step of {BATCH} rows", STEP_HEAD, rows)
    if chosen.steps_only:
        return
    rows = []
    for case, paces in measured(cases_of(chosen), chosen.rounds):
        rows.append([*case.words, *(figure(paces[arm]) if arm in paces else "–" for arm in ARMS)])
    show("Tokens a second", "|".join([CASE_HEAD, *ARMS]), rows)


def cases_of(chosen: argparse.Namespace) -> list[Case]:
    if not (chosen.model or chosen.shape or chosen.dtype or chosen.batch or chosen.filters):
        return list(WHOLE)
    models = chosen.model or ([] if chosen.shape else ["demo-qwen"])
    sampling = FILTERED if chosen.filters else FREE
    return [
        Case(model, dtype, batch, sampling)
        for model in (*models, *chosen.shape)
        for dtype in chosen.dtype or ["float32"]
        for batch in chosen.batch or [1, FEW if model in chosen.shape else BATCH]
    ]


def molecules_of(count: int, *, smallest: bool = False) -> list[Molecule]:
    """The first held-out ones, or those with the fewest heavy atoms."""
    lines = (ROOT / "data/heldout.smi").read_text(encoding="utf-8").splitlines()
    if not smallest:
        return [parse_written(line.split()[0]) for line in lines[:count]]
    every = sorted((parse_written(line.split()[0]) for line in lines), key=lambda molecule: molecule.heavy_atoms)
    return every[:count]


# --- a step ----------------------------------------------------------------------------------------------------------


class _ClockedRows(LogitsProcessor):
    """The plugin's rows in plain ``generate``, and the time of each of their steps."""

    def __init__(self, compiler: Compiler, requests: Sequence[ServedLp], prompt: int) -> None:
        self._end, self._prompt = compiler.end_id, prompt
        self.rows = [ServedRow(compiler.compiled(request)) for request in requests]
        self._batch = ServedBatch(self.rows[0].compiled.constraint, compiler.end_id, torch.device("cpu"))
        self.times: list[float] = []

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        ids = input_ids[:, self._prompt :].tolist()
        began = time.perf_counter()
        for row, of_row in zip(self.rows, ids, strict=True):
            row.follow(len(of_row), of_list(of_row), self._end)
        masked = self._batch.apply(scores, range(len(self.rows)), self.rows)
        self.times.append(time.perf_counter() - began)
        return masked


def step_times(loaded: LoadedModel, molecules: Sequence[Molecule], steps: int, lps: Sequence[str]) -> list[list[str]]:
    """Of rows that follow what the model draws from its own scores: how many tokens ``shaped`` asks depends on both."""
    compiler = Compiler(loaded.tokenizer, loaded.vocab_rows)
    prompts = [loaded.tokenizer.encode(prompt_of(molecule.smiles)) for molecule in molecules]
    table = []
    for lp in lps:
        requests = [ServedLp(lp, molecule.smiles, parameters=parameters_of(loaded)) for molecule in molecules]
        clocked = _ClockedRows(compiler, requests, max(map(len, prompts)))
        limits = [steps] * len(prompts)
        with torch.inference_mode():
            torch.manual_seed(SEED)
            answers_of(loaded.model, prompts, limits, [compiler.end_id], logits_processor=[clocked], **SAMPLING)
        assert not any(row.trouble for row in clocked.rows), "each wrote what its LP allows"
        compiled = [row.compiled for row in clocked.rows]
        live = live_columns(compiled[0].constraint.automaton, [each.program for each in compiled])
        own = figure(own_step_ms(loaded, molecules, steps, lp))
        table.append([loaded.entry.alias, f"our plugin, {lp}", f"{len(live):,}", *_times(clocked.times), own])
    return table


def own_step_ms(loaded: LoadedModel, molecules: Sequence[Molecule], steps: int, lp: str) -> float:
    """What the LP and the draw take of a pass of our own decoding, in the mean."""
    generation = Generation(loaded, molecules, Plan(lp, sampling=FREE, seed=SEED, limit=steps))
    generation.run()
    counters = generation.counters
    return 1e3 * (counters.constraint_s + counters.sampling_s) / counters.forward_passes


def mask_times(loaded: LoadedModel, molecules: Sequence[Molecule], steps: int) -> list[list[str]]:
    """Of a mask over all scores: what filling them with minus infinity takes alone, and xgrammar, where it is."""
    fill = []
    for step in range(steps):
        scores = torch.randn((len(molecules), loaded.vocab_rows), generator=torch.Generator().manual_seed(step))
        began = time.perf_counter()
        scores.fill_(-torch.inf)
        fill.append(time.perf_counter() - began)
    times = {"minus infinity everywhere, alone": fill}
    if VLLM_PYTHON.exists():
        times |= _xgrammar_times(loaded, molecules, steps)
    return [[loaded.entry.alias, name, "", *_times(of_steps), ""] for name, of_steps in times.items()]


def _times(times: Sequence[float]) -> list[str]:
    """Without the first, in which all is read for the first time."""
    ordered = sorted(times[min(10, len(times) // 2) :])
    return [figure(1e3 * statistics.median(ordered)), figure(1e3 * ordered[int(0.95 * len(ordered))])]


def _xgrammar_times(loaded: LoadedModel, molecules: Sequence[Molecule], steps: int) -> dict[str, list[float]]:
    """By the version that vLLM brings."""
    asked = {
        "regexes": [regex_of(molecule, loaded) for molecule in molecules],
        "vocab_rows": loaded.vocab_rows,
        "steps": steps,
    }
    command = [str(VLLM_PYTHON), str(Path(__file__).with_name("_served_child.py")), str(model_folder(loaded.entry))]
    child = subprocess.run(
        command, env=_environment(), input=json.dumps(asked) + "\n", capture_output=True, text=True, check=True
    )
    times = json.loads(child.stdout.splitlines()[-1])["times"]
    return {
        "xgrammar, whole": [step["fill"] + step["apply"] + step["accept"] for step in times],
        "xgrammar, filling the bitmask": [step["fill"] for step in times],
        "xgrammar, applying it": [step["apply"] for step in times],
    }


# --- tokens a second -------------------------------------------------------------------------------------------------


def measured(cases: Sequence[Case], rounds: int, arms: Sequence[str] = ARMS) -> Iterator[tuple[Case, dict[str, float]]]:
    """The median pace of each arm that can run. A model is loaded once in each engine, for all of its cases."""
    for model, dtype in dict.fromkeys((case.model, case.dtype) for case in cases):
        of_model = [case for case in cases if (case.model, case.dtype) == (model, dtype)]
        with ExitStack() as stack:
            aside = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="driftscope-served-")))
            loaded = _loaded(of_model[0], aside)
            has_vllm = VLLM_PYTHON.exists() and any(arm.startswith("vLLM") for arm in arms)
            vllm = stack.enter_context(_Vllm(loaded, dtype)) if has_vllm else None
            llama = _llama(loaded, aside, dtype, stack) if LLAMA in arms else None
            for case in of_model:
                works = works_of(case, loaded, vllm, llama)
                yield case, paces_of(case, {arm: works[arm] for arm in arms if arm in works}, rounds)


def _loaded(case: Case, aside: Path) -> LoadedModel:
    if not case.is_shape:
        return load_model(load_registry().find(case.model), "cpu", case.dtype)
    shape = SHAPES[case.model]
    saved_model(shape, getattr(torch, case.dtype), aside / shape.name)
    return load_model(entry_of_folder(aside / shape.name, "qwen3"), "cpu", case.dtype)


def _llama(loaded: LoadedModel, aside: Path, dtype: str, stack: ExitStack) -> LlamaServed | None:
    try:
        return stack.enter_context(LlamaServed(loaded, aside, dtype, torch.get_num_threads()))
    except AssetError as error:
        note(f"llama.cpp is left out: {error}")
        return None


def works_of(case: Case, loaded: LoadedModel, vllm: _Vllm | None, llama: LlamaServed | None) -> dict[str, Work]:
    """By arm."""
    molecules = molecules_of(case.batch, smallest=case.is_shape)
    limits = [sample.tokens for sample in _generation(case, loaded, molecules, "exact", "fast").run()]
    works: dict[str, Work] = {}
    if vllm is not None:
        for arm in VLLM_ARMS:
            works[f"vLLM {arm}"] = lambda arm=arm: vllm.run(arm, molecules, limits, case.sampling)  # type: ignore[misc]
    for name, lp, backend in (
        ("ours none", "none", "fast"),
        ("ours exact", "exact", "fast"),
        ("generate", "none", "hf"),
    ):
        works[name] = lambda lp=lp, backend=backend: _ours(case, loaded, molecules, lp, backend)  # type: ignore[misc]
    if llama is not None:
        works[LLAMA] = lambda: llama.run(molecules, LIMIT, case.sampling)
    return works


def paces_of(case: Case, works: Mapping[str, Work], rounds: int) -> dict[str, float]:
    paces: dict[str, list[float]] = {name: [] for name in works}
    for round_ in range(rounds + 1):  # the first one warms
        for name, work in works.items():
            tokens, seconds = work()
            if round_ or rounds == 0:
                paces[name].append(tokens / seconds)
            note(
                f"{case.model}, {case.dtype}, batch {case.batch}, round {round_}: {name} {tokens:,} in {seconds:.2f} s"
            )
    return {name: statistics.median(of_arm) for name, of_arm in paces.items()}


def _ours(case: Case, loaded: LoadedModel, molecules: Sequence[Molecule], lp: str, backend: str) -> tuple[int, float]:
    # Where the work is to be equal, the lengths are found here, before the clock runs.
    generation = _generation(case, loaded, molecules, lp, backend)
    began = time.perf_counter()
    tokens = sum(sample.tokens for sample in generation.run())
    return tokens, time.perf_counter() - began


def _generation(case: Case, loaded: LoadedModel, molecules: Sequence[Molecule], lp: str, backend: Any) -> Generation:
    equal = lp == "none"
    limit = None if equal else LIMIT
    plan = Plan(lp, backend=backend, sampling=case.sampling, seed=SEED, equal_work=equal, limit=limit)
    return Generation(loaded, molecules, plan)


def _environment() -> dict[str, str]:
    own = {"VLLM_LOGGING_LEVEL": "ERROR", "VLLM_ENABLE_V1_MULTIPROCESSING": "0"}
    return environment(torch.get_num_threads(), cache_gb=2) | own


class _Vllm:
    """vLLM offline in a child of its own, which loads the model once."""

    def __init__(self, loaded: LoadedModel, dtype: str) -> None:
        self._loaded, self._dtype = loaded, dtype

    def __enter__(self) -> _Vllm:
        child = str(Path(__file__).with_name("_served_child.py"))
        self._errors = tempfile.TemporaryFile("w+")
        self._process = subprocess.Popen(
            [VLLM_PYTHON, child, str(model_folder(self._loaded.entry)), self._dtype],
            env=_environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True,
        )  # fmt: skip
        return self

    def run(
        self, arm: str, molecules: Sequence[Molecule], limits: Sequence[int], sampling: Sampling
    ) -> tuple[int, float]:
        """Tokens and seconds."""
        requests = [
            {
                "prompt": f"[SMILES]{molecule.smiles}[/SMILES]",
                **_asked(arm, molecule, limit, self._loaded),
                "seed": number,
            }
            for number, (molecule, limit) in enumerate(zip(molecules, limits, strict=True))
        ]
        options = {name: getattr(sampling, name) for name in ("temperature", "top_p", "top_k")}
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps({"sampling": options, "requests": requests}) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith('{"tokens"'):
                answer = json.loads(line)
                return answer["tokens"], answer["seconds"]
        self._errors.seek(0)
        raise RuntimeError(f"vLLM ended with {self._process.wait()}:\n{self._errors.read()[-2_000:]}")

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._errors.close()


def _asked(arm: str, molecule: Molecule, limit: int, loaded: LoadedModel) -> dict[str, Any]:
    if arm == "none":
        return {"max_tokens": limit, "ignore_eos": True}
    if arm == "regex":
        return {"max_tokens": LIMIT, "regex": regex_of(molecule, loaded)}
    request = ServedLp(arm, molecule.smiles, parameters=parameters_of(loaded))
    return {"max_tokens": LIMIT, "extra_args": request.arguments()}


def parameters_of(loaded: LoadedModel) -> LpParameters:
    return LpParameters(form=loaded.entry.numbers)


def regex_of(molecule: Molecule, loaded: LoadedModel) -> str:
    """What ``--lp grammar`` asks for; the tags are named by their letters, which the model has tokens for."""
    grammar = build_constraint("grammar", loaded.tokenizer, loaded.vocab_rows, parameters_of(loaded))
    assert isinstance(grammar, GrammarConstraint)
    return grammar.pattern(molecule)


if __name__ == "__main__":
    main()
