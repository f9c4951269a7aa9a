"""How fast a store of a thousand runs answers: opening it, comparing models and LPs, one run, its blocks, verifying.

``python -m tools.bench.store`` writes the store into a folder of its own first, which takes a minute or two and some
GB, and removes it in the end. Every question is asked several times in turn of files that the system has in memory; the
table has medians and their spread.

    --runs N --samples N --blocks N   the size: runs, samples a run, blocks a sample
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from engine.store.files import Files
from engine.store.schema import BLOCKS, KINDS, RUN, SAMPLES
from engine.store.staging import write_entry
from engine.store.store import Store, damaged_parts
from engine.store.views import connect
from tools.bench._measure import in_turn, machine, note, pin, show, spread

REPEATS, SEED = 5, 0
MODELS = ("demo-qwen", "demo-qwen-l3", "demo-llama")
LPS = {"none": 0.93, "group-v2.1": 0.71, "truncating": 0.9, "exact": 0.97}
"""With the share of samples that pass."""
KINDS_OF = {"none": ("letters", "extra_digit"), "group-v2.1": ("cut", "letters")}
TOKENS_A_BLOCK = 16
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)

COMPARE = """
SELECT model_alias, lp, count(*) AS samples, avg(passed::INT) AS pass_rate, sum(samples.tokens) AS tokens,
       sum(samples.decode_s) AS decode_s
FROM samples JOIN runs USING (run_id) GROUP BY ALL ORDER BY ALL
"""
BY_KIND = """
SELECT lp, kind, count(*) AS blocks
FROM (SELECT run_id, unnest(kinds) AS kind FROM blocks) JOIN runs USING (run_id) GROUP BY ALL ORDER BY ALL
"""
ONE_RUN = "SELECT * FROM samples WHERE run_id = $id ORDER BY sample_id"


def build(folder: Path, runs: int, samples: int, blocks: int) -> None:
    """Each LP's rows are made once; a run has them under its own id, with passes and seconds of its own."""
    files, rng, pairs = Files(folder), np.random.default_rng(SEED), [(m, lp) for m in MODELS for lp in LPS]
    rows = {lp: rows_of(lp, samples, blocks) for lp in LPS}
    for number in range(runs):
        model, lp = pairs[number % len(pairs)]
        run_id = f"{number:05d}-{model}-{lp}"
        of_samples, of_blocks = rows[lp]
        passed = rng.random(samples) < LPS[lp]
        columns = {"run_id": pa.repeat(run_id, samples), "passed": pa.array(passed)}
        columns["decode_s"] = pa.array(rng.gamma(4.0, 0.05, samples))
        ids = {"run_id": pa.repeat(run_id, len(of_blocks))}
        tables = {SAMPLES.name: _with(of_samples, columns), BLOCKS.name: _with(of_blocks, ids)}
        row = {
            "created_at": (BEGAN + timedelta(minutes=number)).isoformat(),
            "origin": "measured",
            "model_alias": model,
            "model_step": "final",
            "lp": lp,
            "samples": samples,
            "passes": int(passed.sum()),
            "tokens": samples * blocks * TOKENS_A_BLOCK,
            "wall_s": float(number),
            "versions": json.dumps({"python": "3.11", "torch": "2.13"}),
        }
        write_entry(files, RUN, run_id, row, [tables])
        if number % 50 == 49:
            note(f"{number + 1:,} of {runs:,} runs written")


def _with(rows: pa.Table, columns: Mapping[str, pa.Array]) -> pa.Table:
    for name, values in columns.items():
        index = rows.schema.get_field_index(name)
        rows = rows.set_column(index, rows.schema.field(index), values)
    return rows


def rows_of(lp: str, samples: int, blocks: int) -> tuple[pa.Table, pa.Table]:
    """Samples and blocks of a run under this LP."""
    rng, ids, tokens = random.Random(SEED), np.random.default_rng(SEED), blocks * TOKENS_A_BLOCK
    wrong = KINDS_OF.get(lp, ("unverified",))

    def numbers() -> str:
        return ",".join(f"{rng.uniform(-9, 9):.4f}" for _ in range(3))

    of_samples = [
        {
            "run_id": "",
            "sample_id": number,
            "generation": 0,
            "smiles": "C" * blocks,
            "text": "[CONFORMER]" + "".join(f"[C]<{numbers()}>" for _ in range(blocks)),
            "token_ids": ids.integers(0, 100_000, tokens),
            "forced": ids.random(tokens) < 0.3,
            "stop_reason": "end",
            "passed": True,
            "clean": lp == "exact",
            "issues": [],
            "tokens": tokens,
            "blocks": blocks,
        }
        for number in range(samples)
    ]
    of_blocks = [
        {
            "run_id": "",
            "sample_id": number // blocks,
            "block": number % blocks,
            "atom": number % blocks,
            "element": "C",
            "text": numbers(),
            **{axis: rng.uniform(-9, 9) for axis in "xyz"},
            "template_free": TOKENS_A_BLOCK,
            "needed": TOKENS_A_BLOCK,
            "drift": 0,
            "kinds": [rng.choice(wrong)] if rng.random() < 0.1 else ["exact"],
            "junk_text": "",
        }
        for number in range(samples * blocks)
    ]
    return SAMPLES.rows(of_samples), BLOCKS.rows(of_blocks)


def measure(folder: Path) -> None:
    store = Store.open(folder)
    entries = store.listing().entries
    connection = connect([(kind, store.listing(kind).entries) for kind in KINDS])
    middle = entries[len(entries) // 2]

    def opened() -> None:
        fresh = Store.open(folder)
        connect([(kind, fresh.listing(kind).entries) for kind in KINDS]).close()

    def of_one() -> object:
        with connect([(RUN, [middle])]) as alone:
            return alone.sql(ONE_RUN, params={"id": middle.id}).to_arrow_table()

    def asking(sql: str, **parameters: Any) -> Callable[[], object]:
        return lambda: connection.sql(sql, params=parameters or None).to_arrow_table()

    limits = {
        "open the store: every run's sheet, and the views": "<= 0.3 s",
        "compare: pass rate, tokens and seconds by model and LP": "<= 1 s",
    }
    seconds = in_turn(
        dict(zip(limits, (opened, asking(COMPARE)), strict=True))
        | {
            "the same with opening, as a command does": lambda: Store.open(folder).rows(COMPARE),
            "block kinds by LP": asking(BY_KIND),
            "one run's samples, by its files": of_one,
            "one run's samples, by asking all": asking(ONE_RUN, id=middle.id),
            "verify: every byte of every file": lambda: [damaged_parts(entry) for entry in entries],
        },
        REPEATS,
    )
    rows = {table.name: sum(entry.parts[table.name].rows for entry in entries) for table in (SAMPLES, BLOCKS)}
    total = sum(part.bytes for entry in entries for part in entry.parts.values())
    title = f"{len(entries):,} runs, {rows['samples']:,} samples, {rows['blocks']:,} blocks in {total / 1e9:.2f} GB"
    lines = [(name, *spread(times), limits.get(name, "")) for name, times in seconds.items()]
    show(title, "what|s|least .. most|asked", lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="The benchmark of the store.")
    for name, default in {"runs": 1_000, "samples": 1_000, "blocks": 25}.items():
        parser.add_argument(f"--{name}", type=int, default=default, metavar="N")
    args = parser.parse_args()
    pin(2)
    print(f"{machine('duckdb', 'pyarrow')}\n")
    with tempfile.TemporaryDirectory(prefix="driftscope-bench-") as folder:
        build(Path(folder), args.runs, args.samples, args.blocks)
        measure(Path(folder))


if __name__ == "__main__":
    main()
