"""Writers and readers of one store, a process each: ``python -m tests.engine.store.crowd PLACE WRITERS READERS RUNS``.

Every writer shows RUNS runs and, a while later, removes each third one of its own; readers look and ask until the last
writer is done, and once more. What a process finds wrong ends this one with status 1. Printed is what readers met.
"""

from __future__ import annotations

import json
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from engine.store.schema import RUN
from engine.store.staging import sweep
from engine.store.store import damaged_parts
from tests.engine.store.stored_runs import BLOCKS_EACH, add, begun, published, store_at

QUERY = """
SELECT runs.run_id, any_value(runs.samples) AS said, count(*) AS samples, any_value(n) AS blocks
FROM runs JOIN samples USING (run_id)
JOIN (SELECT run_id, count(*) AS n FROM blocks GROUP BY run_id) USING (run_id)
GROUP BY runs.run_id
"""


def samples_of(number: int) -> int:
    return 2 + number % 3


def stays(number: int) -> bool:
    return number % 3 != 2


def lasting(writers: int, runs: int) -> dict[str, int]:
    """The runs that are there in the end, with their samples."""
    names = ((writer, number) for writer in range(writers) for number in range(runs) if stays(number))
    return {f"w{writer}-{number}": samples_of(number) for writer, number in names}


def write(folder: Path, writer: int, runs: int) -> None:
    store = store_at(folder)
    for number in range(runs):
        sweep(store.home, RUN)  # as every new run does
        staging = begun(store.home, f"w{writer}-{number}", samples_of(number))
        staging.lock()
        add(staging, range(1))
        add(staging, range(1, samples_of(number)))
        entry = published(staging)
        if stays(number):
            store.annotate(entry.id, label=f"of {writer}")
        if number and not stays(number - 1):
            store.remove(f"w{writer}-{number - 1}")
    if not stays(runs - 1):
        store.remove(f"w{writer}-{runs - 1}")


def read(folder: Path, over: Path) -> dict[str, int]:
    """One look after the other; a run that was seen and stays never goes again."""
    store, seen, looks, rows, is_last = store_at(folder), set[str](), 0, 0, False
    while not is_last:
        is_last = over.exists()  # the last look begins after the end
        listing = store.listing()
        assert listing.damages == (), listing.damages
        ids = {entry.id for entry in listing.entries}
        assert seen <= ids, seen - ids
        for row in store.rows(QUERY):
            assert row["said"] == row["samples"] == samples_of(int(row["run_id"].partition("-")[2])), row
            assert row["blocks"] == BLOCKS_EACH * row["samples"], row
            rows += 1
        seen |= {id_ for id_ in ids if stays(int(id_.partition("-")[2]))}
        looks += 1
    assert not any(damaged_parts(entry) for entry in listing.entries)
    return {"looks": looks, "rows": rows}


if __name__ == "__main__":
    folder, over = Path(sys.argv[1], "store"), Path(sys.argv[1], "over")
    writers, readers, runs = map(int, sys.argv[2:])
    with ProcessPoolExecutor(writers + readers, get_context("fork")) as pool:
        reading = [pool.submit(read, folder, over) for _ in range(readers)]
        writing = [pool.submit(write, folder, writer, runs) for writer in range(writers)]
        try:
            for task in writing:
                task.result()
        finally:
            over.touch()
        print(json.dumps([task.result() for task in reading]))
