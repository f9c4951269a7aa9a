"""What our LPs take in vLLM, and what they are worth there: ``python -m tools.bench.served``.

First the time of a step at batch 32: of the plugin's rows, and of the masks of xgrammar, which vLLM uses, for the same
molecules' regexes. Then tokens a second of all ways to the same molecules' answers, one after the other in each round:
vLLM (from .venv-vllm, ``make vllm``) without an LP, with its own regex, with our plugin; our own decoding; plain
``generate``; llama.cpp with a grammar, where ``make parity`` has built it. Answers without an LP have the lengths that
``exact`` gives them. Without options: all that docs/benchmarks.md has.

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
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from engine.chem.smiles import parse_written
from engine.decode.generation import Generation
from engine.decode.plan import Plan, Sampling
from engine.errors import AssetError
from engine.lp.constraint import LpParameters, build_constraint
from engine.lp.grammar import GrammarConstraint
from engine.lp.served import ServedLp
from engine.lp.served_rows import Compiler, ServedBatch, ServedRow, of_list
from engine.models.loading import LoadedModel, load_model, model_folder
from engine.models.registry import entry_of_folder, load_registry
from engine.paths import ROOT
from engine.records import Molecule
from tools.bench._measure import figure, machine, note, show
from tools.bench._served_llama import LlamaServed
from tools.bench._sized import saved_model
from tools.bench.sizes import SHAPES
from tools.vllm_server import VLLM_PYTHON, environment

BATCH, FEW, STEPS, LIMIT = 32, 8, 150, 900
SEED = 7
FREE, FILTERED = Sampling(1.0), Sampling(0.7, 20, 0.8)
VLLM_ARMS = ("none", "regex", "exact", "shaped")
ARMS = (*(f"vLLM {arm}" for arm in VLLM_ARMS), "ours none", "ours exact", "generate", "llama.cpp grammar")


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
        note("`make vllm` makes the environment that vLLM and xgrammar need; without it they are left out")
    if not chosen.no_steps:
        loaded = load_model(load_registry().find((chosen.model or ["demo-qwen"])[0]), "cpu")
        head, title = "of a step|ms, median|ms, 95th of 100", f"A step of {BATCH} rows, {loaded.entry.alias}"
        show(title, head, step_times(loaded, molecules_of(BATCH), chosen.steps))
    if chosen.steps_only:
        return
    rows = []
    for case, paces in measured(cases_of(chosen), chosen.rounds):
        sampling = "T 1" if case.sampling == FREE else "T 0.7, top-k 20, top-p 0.8"
        cells = [figure(paces[arm]) if arm in paces else "–" for arm in ARMS]
        rows.append([case.model, case.dtype, str(case.batch), sampling, *cells])
    show("Tokens a second", "|".join(["model", "numbers", "batch", "sampling", *ARMS]), rows)


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


def step_times(loaded: LoadedModel, molecules: Sequence[Molecule], steps: int) -> list[list[str]]:
    """Of rows that follow random choices, with scores that are made before the clock runs."""
    compiler = Compiler(loaded.tokenizer, loaded.vocab_rows)
    table = []
    for lp in ("exact", "group-v2.1", "shaped"):
        asked = [ServedLp(lp, molecule.smiles, parameters=parameters_of(loaded)) for molecule in molecules]
        rows = [ServedRow(compiler.compiled(request)) for request in asked]
        batch = ServedBatch(rows[0].compiled.constraint, compiler.end_id, torch.device("cpu"))
        ids: list[list[int]] = [[] for _ in rows]
        times = []
        for step in range(steps):
            scores = _scores(len(rows), loaded.vocab_rows, step)
            began = time.perf_counter()
            for row, of_row in zip(rows, ids, strict=True):
                row.follow(len(of_row), of_list(of_row), compiler.end_id)
            scores = batch.apply(scores, range(len(rows)), rows)
            times.append(time.perf_counter() - began)
            for of_row, id_ in zip(ids, scores.argmax(dim=1).tolist(), strict=True):
                of_row.append(id_)
        assert not any(row.trouble for row in rows), "each wrote what its LP allows"
        table.append(_times(f"our plugin, {lp}", times))
    fill = []
    for step in range(steps):
        scores = _scores(len(molecules), loaded.vocab_rows, step)
        began = time.perf_counter()
        scores.fill_(-torch.inf)
        fill.append(time.perf_counter() - began)
    table.append(_times("minus infinity everywhere, alone", fill))
    if VLLM_PYTHON.exists():
        table += _xgrammar_times(loaded, molecules, steps)
    return table


def _scores(rows: int, vocab_rows: int, step: int) -> torch.Tensor:
    return torch.randn((rows, vocab_rows), generator=torch.Generator().manual_seed(step))


def _times(name: str, times: Sequence[float]) -> list[str]:
    """Without the first, in which all is read for the first time."""
    ordered = sorted(times[min(10, len(times) // 2) :])
    return [name, figure(1e3 * statistics.median(ordered)), figure(1e3 * ordered[int(0.95 * len(ordered))])]


def _xgrammar_times(loaded: LoadedModel, molecules: Sequence[Molecule], steps: int) -> list[list[str]]:
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
    whole = [step["fill"] + step["apply"] + step["accept"] for step in times]
    return [
        _times("xgrammar, whole", whole),
        _times("xgrammar, filling the bitmask", [step["fill"] for step in times]),
        _times("xgrammar, applying it", [step["apply"] for step in times]),
    ]


# --- tokens a second -------------------------------------------------------------------------------------------------


def measured(cases: Sequence[Case], rounds: int) -> Iterator[tuple[Case, dict[str, float]]]:
    """The median pace of each arm. A model is loaded once in each engine, for all of its cases."""
    for model, dtype in dict.fromkeys((case.model, case.dtype) for case in cases):
        of_model = [case for case in cases if (case.model, case.dtype) == (model, dtype)]
        with ExitStack() as stack:
            aside = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="driftscope-served-")))
            loaded = _loaded(of_model[0], aside)
            vllm = stack.enter_context(_Vllm(loaded, dtype)) if VLLM_PYTHON.exists() else None
            llama = _llama(loaded, aside, dtype, stack)
            for case in of_model:
                yield case, paces_of(case, loaded, vllm, llama, rounds)


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


def paces_of(
    case: Case, loaded: LoadedModel, vllm: _Vllm | None, llama: LlamaServed | None, rounds: int
) -> dict[str, float]:
    molecules = molecules_of(case.batch, smallest=case.is_shape)
    limits = [sample.tokens for sample in _generation(case, loaded, molecules, "exact", "fast").run()]
    works: dict[str, Callable[[], tuple[int, float]]] = {}
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
        works["llama.cpp grammar"] = lambda: llama.run(molecules, LIMIT, case.sampling)
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
