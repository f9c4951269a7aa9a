"""Writers and readers of one store, a process each: ``python -m tests.engine.store.crowd PLACE WRITERS READERS RUNS``.

Every writer shows RUNS runs and, a while later, removes each third one of its own; readers look and ask until the last
writer is done, and once more. What a process finds wrong it says and ends with status 1. Printed is what readers met.
"""

from __future__ import annotations

import json
import os
import select
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from engine.store.schema import RUN
from engine.store.staging import sweep
from engine.store.store import Store, damaged_parts
from tests.engine.store.stored_runs import BLOCKS_EACH, add, begun, published, store_at

ASKED = """
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


def write(store: Store, writer: int, runs: int) -> None:
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


def read(store: Store, is_over: Callable[[], bool], told: int) -> None:
    """One look after the other; a run that was seen and stays never goes again."""
    seen: set[str] = set()
    looks = rows = 0
    last = before = False
    while not last:
        last, before = before, is_over()  # the last look begins after the end
        found = store.found()
        assert found.damages == (), found.damages
        ids = {entry.id for entry in found.entries}
        assert seen <= ids, seen - ids
        for row in store.rows(ASKED):
            number = int(row["run_id"].partition("-")[2])
            assert row["said"] == row["samples"] == samples_of(number), row
            assert row["blocks"] == BLOCKS_EACH * row["samples"], row
            rows += 1
        seen |= {id_ for id_ in ids if stays(int(id_.partition("-")[2]))}
        looks += 1
    assert not any(damaged_parts(entry) for entry in found.entries)
    os.write(told, json.dumps({"looks": looks, "rows": rows}).encode() + b"\n")


def forked(task: Callable[[], object]) -> None:
    if os.fork() == 0:
        try:
            task()
        except BaseException as error:  # noqa: BLE001 - nothing of this process may run on
            sys.stderr.write(f"{error!r}\n")
            os._exit(1)
        os._exit(0)


if __name__ == "__main__":
    store = store_at(Path(sys.argv[1]))
    writers, readers, runs = map(int, sys.argv[2:])
    over, held = os.pipe()  # every writer holds an end of it, so that it ends with the last one
    answers, told = os.pipe()
    for writer in range(writers):
        forked(partial(write, store, writer, runs))
    os.close(held)
    for _ in range(readers):
        forked(lambda: read(store, lambda: bool(select.select([over], [], [], 0)[0]), told))
    os.close(told)
    assert [os.wait()[1] for _ in range(writers + readers)] == [0] * (writers + readers)
    with os.fdopen(answers) as lines:
        print(json.dumps(list(map(json.loads, lines))))
