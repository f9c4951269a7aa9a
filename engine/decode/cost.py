"""What a pass costs, and what an LP gains, from a model's shape and a machine's rates: predicted, not measured.

A *pass* runs the layers on what each row has written and not yet read, the output head on the rows that may be drawn,
and the sampler on their logits. Without an LP a pass is for one token a row. Under the exact LP a forced token takes
no pass of its own: with a share ``forced`` of all tokens, a pass is for ``1 / (1 - forced)`` tokens a row, the head
has the legal rows alone, and nothing large is sampled.

A part moves bytes and computes operations, each at the machine's rate. A CPU's products take the sum of both times, a
GPU's the longer one. The *roof* of a pass is the longer of all its bytes and all its operations, with no calls and no
slow attention. No torch here: ``machine_rates.py`` measures.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from engine.errors import ModelError, nearest, shown
from engine.models.tensor_table import BodySizes

DTYPE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
FORCED = {"qwen3": 0.20, "llama3": 0.39}
"""Share of forced tokens under the exact LP, by tokenizer: of the demo store's runs, four decimals at most."""
LEGAL_ROWS = {"qwen3": 18, "llama3": 1_118}
"""Rows of the head that the exact LP may allow, by tokenizer."""
LAYER_CALLS, STEP_CALLS = 70, 350
"""Small operations of a layer, and of a step besides its layers: fitted to models of 3 M weights, batch 1."""
ATTENTION = 0.25
"""Of the memory's rate: what a CPU's attention over few queries reaches."""
LEAST_PACKED = 3 * 2**17
"""Weights from which on a matrix is packed (``product.py``): one of 1,024 x 256 gains nothing for a single row yet."""
PARTS = ("layers", "attention", "head", "sampler", "calls")


@dataclass(frozen=True, slots=True)
class Machine:
    """Rates of a device. ``source`` says where they are from."""

    name: str
    source: str
    bytes_per_s: float  # that products read of their weights
    ops_per_s: Mapping[str, float]  # by dtype, of packed products
    plain_ops_per_s: float  # of small products, which are not packed
    sampled_per_s: float  # logits that the sampler looks through
    call_s: float  # of one small operation
    is_gpu: bool = False


_TENSOR_OPS = {"float32": 67e12, "bfloat16": 989e12, "float16": 989e12}
_GPU = (19.5e12, 1e11, 6e-7, True)
MACHINES = {
    machine.name: machine
    for machine in (
        Machine(
            "epyc-1", "measured by bench.sizes", 1.5e10, {"float32": 1.1e11, "bfloat16": 2.2e11}, 7.6e10, 2.5e9, 4.4e-6
        ),
        Machine(
            "xeon-1", "measured by bench.sizes", 1.8e10, {"float32": 1.5e11, "bfloat16": 8.6e10}, 1.2e11, 4.1e8, 4.3e-6
        ),
        Machine("a100", "data sheet", 2.0e12, {"float32": 19.5e12, "bfloat16": 312e12, "float16": 312e12}, *_GPU),
        Machine("h100", "data sheet", 3.35e12, _TENSOR_OPS, *_GPU),
        Machine("h200", "data sheet", 4.8e12, _TENSOR_OPS, *_GPU),
    )
}
"""Devices other than this one. A GPU's sampler and calls are assumed: nothing of this project was timed on one."""


@dataclass(frozen=True, slots=True)
class PassWork:
    """What is asked: rows at once, cache slots that a row sees, precision, and what the LP is expected to force."""

    forced: float
    legal_rows: int
    batch: int = 8
    seen: int = 300
    dtype: str = "float32"


@dataclass(frozen=True, slots=True)
class PassCost:
    """One pass. ``seconds`` by part of ``PARTS``; ``tokens`` are those that the pass is for."""

    tokens: float
    seconds: Mapping[str, float]
    roof_s: float

    @property
    def pass_s(self) -> float:
        return sum(self.seconds.values())

    @property
    def tokens_per_s(self) -> float:
        return self.tokens / self.pass_s

    def as_json(self) -> dict[str, Any]:
        return {
            "ms_per_pass": 1e3 * self.pass_s,
            "roof_ms": 1e3 * self.roof_s,
            "tokens_per_pass": self.tokens,
            "tokens_per_s": self.tokens_per_s,
            "ms": {part: 1e3 * seconds for part, seconds in self.seconds.items()},
        }


@dataclass(frozen=True, slots=True)
class Prediction:
    """A pass with the exact LP and one without. Nothing here was measured on the model."""

    machine: Machine
    work: PassWork
    body: int  # weights of the layers
    on: PassCost = field(repr=False)
    off: PassCost = field(repr=False)

    @property
    def ratio(self) -> float:
        """Tokens a second with the LP over those without."""
        return self.on.tokens_per_s / self.off.tokens_per_s

    @property
    def assumed(self) -> tuple[str, ...]:
        """What the figures rest on that was measured neither here nor on the model."""
        forced = f"{self.work.forced:.0%} of the tokens are forced by the exact LP, as in the demo's answers"
        gpu = "a GPU's rates are those of its data sheet, and its sampler and calls are guesses"
        return (forced, gpu) if self.machine.is_gpu else (forced,)

    @property
    def sentence(self) -> str:
        what = f"{self.body / 1e6:,.1f} M weights in the layers, {self.machine.name}"
        where = f"{what}, {self.work.dtype}, batches of {self.work.batch}"
        return f"Predicted, not measured: with the exact LP {self.ratio:.1f}x the tokens per second of no LP ({where})"

    def as_json(self) -> dict[str, Any]:
        return {
            "predicted": True,
            "machine": self.machine.name,
            "rates": self.machine.source,
            "batch_size": self.work.batch,
            "dtype": self.work.dtype,
            "seen": self.work.seen,
            "body_weights": self.body,
            "ratio": self.ratio,
            "exact": self.on.as_json(),
            "none": self.off.as_json(),
            "assumed": list(self.assumed),
        }


def predict(sizes: BodySizes, machine: Machine, work: PassWork) -> Prediction:
    if work.dtype not in machine.ops_per_s:
        raise ModelError(f"no rate of {machine.name} is known for {shown(work.dtype)}", "Use another --dtype")
    on, off = (_pass_cost(sizes, machine, work, is_on=is_on) for is_on in (True, False))
    return Prediction(machine, work, body_weights(sizes), on, off)


def _pass_cost(sizes: BodySizes, machine: Machine, work: PassWork, *, is_on: bool) -> PassCost:
    size, batch = DTYPE_BYTES[work.dtype], work.batch
    read = batch / (1 - work.forced) if is_on else float(batch)
    rows = work.legal_rows if is_on else sizes.vocab_rows
    weights = body_weights(sizes)
    slots = sizes.layers * sizes.head_dim * work.seen
    parts = {  # bytes, operations
        "layers": (size * weights, 2 * weights * read),
        "attention": (2 * size * slots * sizes.kv_heads * batch, 4 * slots * sizes.heads * read),
        "head": (size * rows * sizes.width, 2 * rows * sizes.width * batch),
    }
    packed = machine.ops_per_s[work.dtype]
    seconds = {}
    for part, (moved, computed) in parts.items():
        largest = rows * sizes.width if part == "head" else largest_matrix(sizes)
        rate = packed if largest >= LEAST_PACKED else machine.plain_ops_per_s
        seconds[part] = _seconds(machine, moved, computed, rate)
    if not machine.is_gpu:
        seconds["attention"] = parts["attention"][0] / (ATTENTION * machine.bytes_per_s)
    seconds["sampler"] = rows * batch / machine.sampled_per_s
    seconds["calls"] = (sizes.layers * LAYER_CALLS + STEP_CALLS) * machine.call_s
    moved, computed = (sum(column) for column in zip(*parts.values(), strict=True))
    return PassCost(read, seconds, max(moved / machine.bytes_per_s, computed / machine.ops_per_s[work.dtype]))


def _seconds(machine: Machine, moved: float, computed: float, rate: float) -> float:
    times = moved / machine.bytes_per_s, computed / rate
    return max(times) if machine.is_gpu else sum(times)


def body_weights(sizes: BodySizes) -> int:
    """Weights of the layers' matrices."""
    heads = sizes.heads + sizes.kv_heads
    return sizes.layers * sizes.width * (2 * heads * sizes.head_dim + 3 * sizes.inner)


def largest_matrix(sizes: BodySizes) -> int:
    return sizes.width * max(sizes.heads * sizes.head_dim, sizes.inner)


# --- shapes -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NamedShape:
    tokenizer: str
    sizes: BodySizes


def _shape(tokenizer: Literal["qwen3", "llama3"], *numbers: int) -> NamedShape:
    """Width, layers, heads, heads of keys and values, width of a head, width inside."""
    kind, rows = ("qwen3", 151_936) if tokenizer == "qwen3" else ("llama", 128_330)
    width, layers, heads, kv_heads, head_dim, inner = numbers
    return NamedShape(
        tokenizer, BodySizes(kind, rows, width, layers, heads, kv_heads, head_dim, inner, True, False, False)
    )


SHAPES = {
    "demo-qwen": _shape("qwen3", 256, 4, 4, 2, 64, 512),
    "qwen-3m": _shape("qwen3", 256, 5, 4, 2, 64, 512),
    "qwen-30m": _shape("qwen3", 640, 8, 10, 5, 64, 1_408),
    "llama-0.38b": _shape("llama3", 1_024, 16, 16, 8, 64, 4_096),
    "qwen3-0.6b": _shape("qwen3", 1_024, 28, 16, 8, 128, 3_072),
}
"""By name. The demo's, two between, and the reports' two: of their LLaMA only its 380 million weights are known."""


def work_of(shape: NamedShape, *, batch: int = 8, seen: int = 300, dtype: str = "float32") -> PassWork:
    """With what its tokenizer forces; of a tokenizer that is not known, what the one that forces less does."""
    name = shape.tokenizer if shape.tokenizer in FORCED else "qwen3"
    return PassWork(FORCED[name], LEGAL_ROWS[name], batch, seen, dtype)


def named_shape(name: str) -> NamedShape:
    if name not in SHAPES:
        raise ModelError(f"there is no shape {shown(name)}", nearest(name, list(SHAPES)))
    return SHAPES[name]


def named_machine(name: str) -> Machine:
    if name not in MACHINES:
        raise ModelError(f"there is no machine {shown(name)}", nearest(name, ["here", *MACHINES]))
    return MACHINES[name]
