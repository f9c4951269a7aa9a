"""Our kernels compiled for cards that are not here: lines of JSON with the shared memory that each asks for, in bytes.

Needs Triton and ``TRITON_BACKENDS_IN_TREE=1``. Shapes are those of Qwen3-0.6B.
"""

from __future__ import annotations

import json
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from engine.decode import kernels

CARDS = {"A100": 80, "H200": 90, "RTX 5090": 120}
POINTER = "*bf16"
SHAPE = {"rows": "i32", "width": "i32", "outputs": "i32", "eps": "fp32"}
CACHE = {"positions": "*i64", "cache_rows": "*i64", "keys": POINTER, "values": POINTER, "row_stride": "i32"}
PRODUCT = {"source": POINTER, "weight": POINTER, "target": POINTER, **SHAPE}
FLAGS = {"HAS_NORM": False, "IS_LATE": False, "HAS_BIAS": False, "IS_ADDED": False, "IS_GATED": False}
FEW, MANY = {"ROWS": 32, "OUTPUTS": 16, "DEEP": 128}, {"ROWS": 64, "OUTPUTS": 64, "DEEP": 64}
HEADS = {"KV_HEADS": 8, "WIDTH": 128, "SPLITS": 4}
KERNELS: dict[str, tuple[Any, dict[str, str], dict[str, Any]]] = {
    **{
        f"gate and up, {name}": (
            kernels.driftscope_product,
            {**PRODUCT, "norm": POINTER},
            {**FLAGS, **tile, "HAS_NORM": True, "IS_LATE": True, "IS_GATED": True, "bias": None, "added": None},
        )
        for name, tile in (("few rows", FEW), ("many", MANY))
    },
    "down": (
        kernels.driftscope_product,
        {**PRODUCT, "added": POINTER},
        {**FLAGS, **FEW, "IS_ADDED": True, "norm": None, "bias": None},
    ),
    "turn": (
        kernels.driftscope_turn,
        {**CACHE, **dict.fromkeys(("mixed", "norm", "cos", "sin", "query"), POINTER), "last": "i32", "eps": "fp32"},
        {"HEADS": 16, "KV_HEADS": 8, "HALF": 64, "HAS_NORM": True},
    ),
    "attend": (
        kernels.driftscope_attend,
        {**CACHE, "query": POINTER, "target": "*fp32", "sums": "*fp32", "scale": "fp32"},
        {**HEADS, "GROUPS": 2, "QUERIES": 16, "SLOTS": kernels.SLOTS},
    ),
    "merge": (
        kernels.driftscope_merge,
        {"parts": "*fp32", "sums": "*fp32", "target": POINTER},
        {"WIDTH": 128, "SPLITS": 4},
    ),
}


def shared_bytes(kernel: Any, types: dict[str, str], constants: dict[str, Any], card: int) -> int:
    """Pointers and sizes are multiples of 16, as those of a model are."""
    names = kernel.arg_names
    even = [
        name for name, type_ in types.items() if type_.startswith("*") or name in ("width", "outputs", "row_stride")
    ]
    source = ASTSource(
        fn=kernel,
        signature={name: types.get(name, "constexpr") for name in names},
        constexprs={(names.index(name),): value for name, value in constants.items()},
        attrs={(names.index(name),): [["tt.divisibility", 16]] for name in even},
    )
    options = {"num_stages": 5} if constants.get("OUTPUTS") == FEW["OUTPUTS"] else {}
    return int(triton.compile(source, target=GPUTarget("cuda", card, 32), options=options).metadata.shared)


if __name__ == "__main__":
    for card, capability in CARDS.items():
        for name, kernel in KERNELS.items():
            print(json.dumps({"card": card, "kernel": name, "shared": shared_bytes(*kernel, capability)}), flush=True)
