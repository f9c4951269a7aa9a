"""Runs with planted rates and times for the advisor's tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.lp_records import stored_lp
from engine.store.store import Store
from tests.engine.inspection.made import block_row, sample_row, step_row, write_run

MODEL = "toy:one"
MANY = tuple("C" * length + end for length in range(1, 13) for end in ("", "O", "N", "F", "Cl"))
SAMPLING = {"sampling": "qwen3", "temperature": 0.7, "top_k": 20, "top_p": 0.8, "min_p": 0.0}
ABOUT: dict[str, Any] = {
    "model_alias": "toy",
    "model_step": "one",
    "tokenizer": "qwen3",
    **SAMPLING,
    "backend": "fast",
    "device": "cpu",
    "dtype": "float32",
    "attention": "sdpa",
    "batch_size": 32,
    "generations": 1,
    "seed": 0,
}


def add(
    store: Store,
    lp: str,
    each_s: float | Sequence[float] = 1.0,
    *,
    clean: int | None = None,
    passed: int | None = None,
    usable: int | None = None,
    smiles: Sequence[str] = MANY,
    run_id: str = "",
    cut: int = 0,
    log_w: float | None = None,
    **about: Any,
) -> str:
    """A run of one answer a molecule that takes so many seconds each. The first ``clean`` are clean, and so on.
    With ``usable`` they are judged.

    Where ``cut`` is given, each answer has two blocks, and the first of so many answers is cut. With ``log_w`` each
    has one step, at which the LP left so little.
    """
    count = len(smiles)
    spent = [each_s] * count if isinstance(each_s, int | float) else list(each_s)
    clean = count if clean is None else clean
    passed = max(clean, count if passed is None else passed)
    rows = []
    for number, smi in enumerate(smiles):
        row: dict[str, Any] = {"smiles": smi, "decode_s": spent[number], "tokens": 10, "heavy_atoms": len(smi)}
        row |= {"passed": number < passed, "clean": number < clean, "blocks": 2, "cut_blocks": int(number < cut)}
        row |= {"usable": None if usable is None else number < usable, "stop_reason": "end"}
        rows.append(sample_row(number, **row))
    blocks = [block_row(number, block) for number in range(count) for block in range(2)]
    name = run_id or lp.replace("+", "-")
    sums = {"molecules": count, "tokens": 10 * count}
    chances = {"ln_p": log_w, "ln_p_tempered": log_w, "ln_mass": log_w, "ln_q": 0.0}
    steps = [] if log_w is None else [step_row(number, 0, **chances) for number in range(count)]
    written = {"descriptors": stored_lp(lp).descriptors or "plain"}
    write_run(store, name, rows, blocks, steps, lp=lp, **{**ABOUT, **sums, **written, "wall_s": sum(spent), **about})
    return name
