"""The process that runs one user's SQL for ``engine.store.sql.guard``.

A separate process, because no setting of DuckDB 2.0 prevents some attacks: parsing ten nested WITH takes gigabytes,
``repeat`` and similar functions bypass ``memory_limit``, and one ``levenshtein`` call on long text ignores interrupts.
The kernel limits what DuckDB does not: address space, time, and writing files. Where a system does not report a
process's size (macOS), only DuckDB's own limit holds memory.

Reads pickles and Arrow streams from its parent; what it sends back is JSON and Arrow, which carry no code.
"""

from __future__ import annotations

import json
import os
import pickle
import resource
import signal
import sys
import time
from typing import BinaryIO

import duckdb
import pyarrow as pa

from engine.errors import SqlError
from engine.processes import address_space
from engine.store.sql.database import Database, Parameters
from engine.store.sql.failures import Failure, failure_of
from engine.store.sql.process import Limits, Setup

MB = 1 << 20
GRACE_S = 1.0  # after which a statement that ignores interrupts ends the process
MOST_LEVELS = 10_000  # of JSON; what nests deeper ends in RecursionError, long before the stack does
EXPECTED = (duckdb.Error, pa.ArrowException, OSError, RuntimeError, MemoryError, ValueError, TypeError, SqlError)


def main() -> None:
    answer_all(sys.stdin.buffer, take_stdout())
    os._exit(0)  # without the leak reports of DuckDB's bindings at an ordinary exit


def answer_all(source: BinaryIO, sink: BinaryIO) -> None:
    """Set up, then answer statements until there are no more or the process is no longer fit for another."""
    sys.setrecursionlimit(MOST_LEVELS)
    setup: Setup = pickle.load(source)
    limits = setup.limits
    pa.set_cpu_count(limits.threads)
    try:
        tables = {name: pa.ipc.open_stream(source).read_all() for name in setup.tables}
        database = Database(setup, tables)
    except EXPECTED as error:
        send(sink, failure_of(error, seconds=limits.seconds, memory_mb=limits.memory_mb))
        return
    most = hold(limits)
    send(sink)
    while True:
        try:
            sql, parameters = pickle.load(source)
        except EOFError:
            return
        if not serve(sink, database, limits, sql, parameters, most):
            return


def take_stdout() -> BinaryIO:
    """The pipe to the parent, for answers only. Other output is discarded: DuckDB prints its progress bar there."""
    sink = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return sink


def hold(limits: Limits) -> int | None:
    """Limit this process's memory and file writes. Returns the size at which it should be replaced."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    size = address_space()
    if size is None:
        return None
    room = limits.memory_mb * MB * 3 // 2 + 64 * MB  # a heap's address space is larger than what is in use of it
    resource.setrlimit(resource.RLIMIT_AS, (size + room, size + room))
    return size + room // 2


def serve(
    sink: BinaryIO, database: Database, limits: Limits, sql: str, parameters: Parameters, most: int | None
) -> bool:
    """Answer one statement. Returns whether the process can take another: a grown heap leaves less room."""
    started = time.monotonic()
    signal.setitimer(signal.ITIMER_REAL, limits.seconds + GRACE_S)  # the default of its signal ends the process
    try:
        table, is_cut = database.answer(sql, parameters)
        body = pa.BufferOutputStream()
        with pa.ipc.new_stream(body, table.schema) as stream:
            stream.write_table(table)
    except EXPECTED as error:
        signal.setitimer(signal.ITIMER_REAL, 0)
        failure = failure_of(error, seconds=limits.seconds, memory_mb=limits.memory_mb)
        send(sink, failure)
        return not failure.is_last
    signal.setitimer(signal.ITIMER_REAL, 0)
    seconds = time.monotonic() - started
    size = address_space()
    is_last = most is not None and size is not None and size > most
    send(sink, body=body.getvalue(), is_cut=is_cut, seconds=seconds, is_last=is_last)
    return not is_last


def send(sink: BinaryIO, failure: Failure | None = None, body: pa.Buffer | bytes = b"", **more: object) -> None:
    head: dict[str, object] = {"bytes": len(body), "is_last": False} | more
    if failure is not None:
        head |= {"what": failure.error.what, "fix": failure.error.fix}
        head |= {"detail": failure.detail, "is_last": failure.is_last}
    sink.write(json.dumps(head).encode("ascii") + b"\n")
    sink.write(body)
    sink.flush()
