"""Writers and readers of one store, a process each: ``python -m tests.engine.store.crowd PLACE WRITERS READERS RUNS``.

Every writer shows RUNS runs and, a while later, removes each third one of its own; readers look and ask until the last
writer is done, and once more. What a process finds wrong it says and ends with status 1. Printed is what readers met.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from engine.store.columns import Kind
from engine.store.entries import Entry
from engine.store.schema import RUN
from engine.store.staging import sweep
from engine.store.store import Store, damaged_parts
from engine.store.views import connect
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
    shown: list[str] = []
    for number in range(runs):
        sweep(store.home, RUN)  # as every new run does
        staging = begun(store.home, f"w{writer}-{number}", samples_of(number))
        staging.lock()
        add(staging, range(1))
        add(staging, range(1, samples_of(number)))
        entry = published(staging)
        if stays(number):
            store.annotate(entry.id, label=f"of {writer}")
        else:
            shown.append(entry.id)
        if len(shown) > 1:
            store.remove(shown.pop(0))
    for id_ in shown:
        store.remove(id_)


def read(store: Store, is_over: Callable[[], bool]) -> dict[str, int]:
    """One look after the other; a run that was seen and stays never goes again."""
    seen: set[str] = set()
    counts = {"looks": 0, "rows": 0, "gone": 0, "again": 0}

    def ask(found: Sequence[tuple[Kind, Sequence[Entry]]]) -> list[tuple[str, int, int, int]]:
        counts["again"] += 1
        with connect(found) as connection:
            return connection.sql(ASKED).fetchall()

    last = before = False
    ids: set[str] = set()
    while not last:
        last, before = before, is_over()  # the last look begins after the end
        found = store.found()
        assert found.damages == (), found.damages
        gone, ids = ids - {entry.id for entry in found.entries}, {entry.id for entry in found.entries}
        assert not gone & seen, gone
        for id_, said, samples, blocks in store.reading(ask):
            assert said == samples == samples_of(int(id_.partition("-")[2])), id_
            assert blocks == BLOCKS_EACH * samples, id_
            counts["rows"] += 1
        seen |= {id_ for id_ in ids if stays(int(id_.partition("-")[2]))}
        counts["looks"] += 1
        counts["gone"] += len(gone)
    for entry in found.entries:
        assert damaged_parts(entry) == []
    return counts | {"again": counts["again"] - counts["looks"]}


def forked(task: Callable[[], Any], told: int) -> int:
    number = os.fork()
    if number == 0:
        try:
            answer = task()
            if answer is not None:
                os.write(told, json.dumps(answer).encode() + b"\n")
        except BaseException as error:  # noqa: BLE001 - nothing of this process may run on
            sys.stderr.write(f"{error!r}\n")
            os._exit(1)
        os._exit(0)
    return number


def crowd(place: Path, writers: int, readers: int, runs: int) -> Iterator[dict[str, int]]:
    store = store_at(place)
    over, held = os.pipe()  # every writer holds an end of it, so that it ends with the last one
    answers, told = os.pipe()
    children = [forked(partial(write, store, writer, runs), told) for writer in range(writers)]
    os.close(held)

    def is_over() -> bool:
        return bool(select.select([over], [], [], 0)[0])

    children += [forked(lambda: read(store, is_over), told) for _ in range(readers)]
    os.close(told)
    while children:
        number, status = os.wait()
        children.remove(number)
        if status:
            for one in children:
                os.kill(one, signal.SIGKILL)
            raise SystemExit(f"a process ended with status {status}")
    with os.fdopen(answers) as lines:
        yield from map(json.loads, lines)


if __name__ == "__main__":
    place, *numbers = sys.argv[1:]
    print(json.dumps(list(crowd(Path(place), *map(int, numbers)))))
