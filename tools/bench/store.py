"""How fast a store of a thousand runs answers: opening it, comparing models and LPs, one run, its blocks, verifying.

``python -m tools.bench.store`` writes the store into a folder of its own first, which takes a minute or two and some
GB, and removes it in the end. Every question is asked several times in turn of files that the system has in memory; the
table has medians and their spread. What was asked for stands in the column *asked*. Nothing here is a test.

    --runs N --samples N --blocks N   the size: runs, samples a run, blocks a sample
    --keep DIR                        write the store there, or take the one that is there, and keep it
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from engine.store.entries import entry_folder
from engine.store.files import LocalFiles
from engine.store.groups import write_part
from engine.store.schema import BLOCKS, KINDS, RUN, SAMPLES, VERSION
from engine.store.store import Store, damaged_parts
from engine.store.views import connect
from tools.bench._decode_table import Row, Spread, Table, asked
from tools.bench._machine import machine, pin

CORES, REPEATS, SEED = 2, 5, 0
MODELS = ("demo-qwen", "demo-qwen-l3", "demo-llama")
LPS = {"none": 0.93, "group-v2.1": 0.71, "truncating": 0.9, "exact": 0.97}
"""With the share of samples that pass."""
KINDS_OF = {"none": ("letters", "extra_digit"), "group-v2.1": ("cut", "letters")}
TOKENS_A_BLOCK = 16
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
ASKED = {"open": 0.3, "compare": 1.0}

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


@dataclass(frozen=True, slots=True)
class Size:
    runs: int
    samples: int
    blocks: int


# --- the store ----------------------------------------------------------------------------------------------------


def build(place: Path, size: Size) -> None:
    """Each LP's rows are made once; a run has them under its own id, with passes and seconds of its own."""
    files, rng = LocalFiles(place), np.random.default_rng(SEED)
    rows = {lp: (_samples(lp, size), _blocks(lp, size)) for lp in LPS}
    pairs = [(model, lp) for model in MODELS for lp in LPS]
    for number in range(size.runs):
        model, lp = pairs[number % len(pairs)]
        run_id = f"{number:05d}-{model}-{lp}"
        folder, (samples, blocks) = entry_folder(RUN, run_id), rows[lp]
        passed = rng.random(size.samples) < LPS[lp]
        own = {"run_id": pa.repeat(run_id, size.samples), "passed": pa.array(passed)}
        own["decode_s"] = pa.array(rng.gamma(4.0, 0.05, size.samples))
        parts = {
            SAMPLES.name: write_part(files, folder, "samples.parquet", _with(samples, own)),
            BLOCKS.name: write_part(
                files, folder, "blocks.parquet", _with(blocks, {"run_id": pa.repeat(run_id, len(blocks))})
            ),
        }
        row = {
            "run_id": run_id,
            "created_at": (BEGAN + timedelta(minutes=number)).isoformat(),
            "origin": "measured",
            "model_alias": model,
            "model_step": "final",
            "lp": lp,
            "samples": size.samples,
            "passes": int(passed.sum()),
            "tokens": size.samples * size.blocks * TOKENS_A_BLOCK,
            "wall_s": float(number),
            "versions": json.dumps({"python": "3.11", "torch": "2.13"}),
        }
        tables = {name: part.sheet() for name, part in parts.items()}
        sheet = {"schema": VERSION, "kind": RUN.folder, "row": row, "tables": tables}
        files.write(f"{folder}/{RUN.sheet}", json.dumps(sheet).encode())
        if number % 50 == 49:
            sys.stderr.write(f"\r{number + 1:,} of {size.runs:,} runs written")
    sys.stderr.write("\n")


def _with(rows: pa.Table, columns: Mapping[str, pa.Array]) -> pa.Table:
    for name, values in columns.items():
        place = rows.schema.get_field_index(name)
        rows = rows.set_column(place, rows.schema.field(place), values)
    return rows


def _numbers(rng: random.Random) -> str:
    return ",".join(f"{rng.uniform(-9, 9):.4f}" for _ in range(3))


def _samples(lp: str, size: Size) -> pa.Table:
    rng, ids = random.Random(SEED), np.random.default_rng(SEED)
    tokens = size.blocks * TOKENS_A_BLOCK
    return SAMPLES.rows(
        [
            {
                "run_id": "",
                "sample_id": number,
                "generation": 0,
                "smiles": "C" * size.blocks,
                "text": "[CONFORMER]" + "".join(f"[C]<{_numbers(rng)}>" for _ in range(size.blocks)),
                "token_ids": ids.integers(0, 100_000, tokens),
                "forced": ids.random(tokens) < 0.3,
                "stop_reason": "end",
                "passed": True,
                "clean": lp == "exact",
                "issues": [],
                "tokens": tokens,
                "blocks": size.blocks,
            }
            for number in range(size.samples)
        ]
    )


def _blocks(lp: str, size: Size) -> pa.Table:
    rng, wrong = random.Random(SEED), KINDS_OF.get(lp, ("unverified",))
    return BLOCKS.rows(
        [
            {
                "run_id": "",
                "sample_id": number // size.blocks,
                "block": number % size.blocks,
                "atom": number % size.blocks,
                "element": "C",
                "text": _numbers(rng),
                "x": rng.uniform(-9, 9),
                "y": rng.uniform(-9, 9),
                "z": rng.uniform(-9, 9),
                "template_free": TOKENS_A_BLOCK,
                "needed": TOKENS_A_BLOCK,
                "drift": 0,
                "kinds": [rng.choice(wrong)] if rng.random() < 0.1 else ["exact"],
                "junk_text": "",
            }
            for number in range(size.samples * size.blocks)
        ]
    )


# --- the questions ------------------------------------------------------------------------------------------------


def questions(place: Path) -> Iterator[tuple[str, Callable[[], object], float | None]]:
    """What it is called, what it does, and the seconds that were asked for."""
    store = Store.open(place)
    found = [(kind, store.found(kind).entries) for kind in KINDS]
    entries = store.found().entries
    middle = entries[len(entries) // 2]
    connection = connect(found)

    def opened() -> None:
        fresh = Store.open(place)
        connect([(kind, fresh.found(kind).entries) for kind in KINDS]).close()

    def of_one() -> object:
        with connect([(RUN, [middle])]) as alone:
            return alone.sql(ONE_RUN, params={"id": middle.id}).to_arrow_table()

    def asking(sql: str, **given: Any) -> Callable[[], object]:
        return lambda: connection.sql(sql, params=given or None).to_arrow_table()

    yield "open the store: every run's sheet, and the views", opened, ASKED["open"]
    yield "compare: pass rate, tokens and seconds by model and LP", asking(COMPARE), ASKED["compare"]
    yield "the same with opening, as a command does", lambda: Store.open(place).rows(COMPARE), None
    yield "block kinds by LP", asking(BY_KIND), None
    yield "one run's samples, by its files", of_one, None
    yield "one run's samples, by asking all", asking(ONE_RUN, id=middle.id), None
    yield "verify: every byte of every file", lambda: [damaged_parts(entry) for entry in entries], None


def measured(place: Path) -> list[Row]:
    every = list(questions(place))
    seconds: dict[str, list[float]] = {name: [] for name, _, _ in every}
    for repeat in range(REPEATS + 1):
        for name, work, _ in every:
            if repeat == REPEATS and name.startswith("verify"):
                continue
            begin = time.perf_counter()
            work()
            if repeat:
                seconds[name].append(time.perf_counter() - begin)
        sys.stderr.write(f"\rround {repeat} of {REPEATS}")
    sys.stderr.write("\n")
    return [
        (name, *Spread.of(seconds[name]).cells(), "" if limit is None else asked(limit, "s", at_least=False))
        for name, _, limit in every
    ]


def title(place: Path) -> str:
    entries = Store.open(place).found().entries
    rows = {table.name: sum(entry.parts[table.name].rows for entry in entries) for table in (SAMPLES, BLOCKS)}
    total = sum(part.bytes for entry in entries for part in entry.parts.values())
    return f"{len(entries):,} runs, {rows['samples']:,} samples, {rows['blocks']:,} blocks in {total / 1e9:.2f} GB"


@contextmanager
def folder(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        yield keep
        return
    place = Path(tempfile.mkdtemp(prefix="driftscope-bench-"))
    try:
        yield place
    finally:
        shutil.rmtree(place)


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="The benchmark of the store.")
    for name, default in {"runs": 1_000, "samples": 1_000, "blocks": 25}.items():
        parser.add_argument(f"--{name}", type=int, default=default, metavar="N")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="write the store there, or take it from there")
    args = parser.parse_args(argv)
    if min(args.runs, args.samples, args.blocks) < 1:
        parser.error("--runs, --samples and --blocks are at least 1")
    return args


def main() -> None:
    args = arguments()
    pin(CORES)
    print(f"{machine(('duckdb', 'pyarrow'))}\n")
    with folder(args.keep) as place:
        if not (place / RUN.folder).is_dir():
            build(place, Size(args.runs, args.samples, args.blocks))
        print(Table(title(place), ("what", "s", "least .. most", "asked"), tuple(measured(place))).markdown())


if __name__ == "__main__":
    main()
