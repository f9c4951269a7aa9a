"""What the store keeps of a trace's events: sums by operation, a timeline, idle gaps, launches joined to kernels, and
marks, besides the trace's own row.

Events are in a database of their own, in memory, which spills into a folder, so that a trace of any length fits. Times
are whole nanoseconds, so sums are exact. All but the sums leaves out events without a plausible time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import pyarrow as pa

from engine.errors import FileError, shown
from engine.profile.families import SIDES, Families
from engine.store.columns import Table
from engine.store.schema import TRACE_EVENTS, TRACE_GAPS, TRACE_MARKS, TRACE_OPS, TRACE_TIMELINE

BINS, MOST_GAPS, MOST_MARKS, SHORT_NS = 4096, 1_000, 100_000, 50_000
EVENTS_A_GROUP, LOOP_ROWS = 1_000_000, 100_000
SETTINGS = {"memory_limit": "300MB", "threads": "1"}
TIMED = """
CREATE VIEW timed AS
SELECT e.rowid AS row, o.*, thread, start, start + greatest(dur, 0) AS until, dur, correlation
FROM events e JOIN ops o USING (kind) WHERE start IS NOT NULL
"""
BOUNDS = "SELECT coalesce(min(start), 0), coalesce(max(until), 0) FROM timed WHERE family <> 'profiler'"
HOST = "SELECT kind, thread, start, until FROM timed WHERE side = 'host' ORDER BY thread, start, until DESC, row"
# The time of a launch of several (a graph) is divided among them. Of two calls with one number, it is the launch.
OPS = """
CREATE TABLE summed AS
WITH sums AS (
    SELECT kind, count(*) AS calls, sum(dur)::BIGINT AS total_ns, min(dur) AS least_ns, max(dur) AS most_ns,
           count(*) FILTER (dur < $short) AS short_calls
    FROM events GROUP BY kind
), calls AS (
    SELECT correlation, arg_min((start, dur), (family NOT IN ('launch', 'graph_launch'), row)) AS first
    FROM timed WHERE side = 'call' AND correlation IS NOT NULL GROUP BY correlation
), joined AS (
    SELECT kind, start - first[1] AS delay_ns, first[2] / count(*) OVER (PARTITION BY correlation) AS call_ns
    FROM timed JOIN calls USING (correlation) WHERE side = 'device'
), launches AS (
    SELECT kind, count(*) AS launched, sum(call_ns) / 1000 AS launch_us, sum(delay_ns) / 1000 AS delay_us
    FROM joined GROUP BY kind
), inner_sums AS (SELECT kind, sum(until - start) AS inner_ns FROM holes GROUP BY kind)
SELECT row_number() OVER (ORDER BY place, total_ns DESC, kind) - 1 AS op, kind, side, family, name, short_name,
       category, stream, device, calls, total_ns, total_ns / 1000 AS total_us,
       (total_ns - coalesce(inner_ns, 0)) / 1000 AS self_us, least_ns / 1000 AS min_us, most_ns / 1000 AS max_us,
       short_calls, if(side = 'device', coalesce(launched, 0), NULL) AS launched,
       if(side = 'device', coalesce(launch_us, 0), NULL) AS launch_us,
       if(side = 'device', coalesce(delay_us, 0), NULL) AS delay_us
FROM ops JOIN sums USING (kind) LEFT JOIN launches USING (kind) LEFT JOIN inner_sums USING (kind)
"""
# Time in a bin: what was open before it takes all of it, what begins or ends in it the part until the bin's end. The
# time of operators inside an operator is subtracted from its family.
TIMELINE = """
WITH spans AS (
    SELECT side, family, start, until, 1 AS sign FROM timed WHERE side IN ('device', 'call', 'host')
    UNION ALL
    SELECT side, family, start, until, -1 FROM holes JOIN summed USING (kind)
), ends AS (
    SELECT side, family, unnest([start, until]) - $zero AS since, unnest([sign, -sign]) AS sign FROM spans
), parts AS (
    SELECT side, family, since - since % $width AS bin_ns, sum(sign) AS opened,
           sum(sign * ($width - since % $width)) AS ns
    FROM ends GROUP BY ALL
), bins AS (
    SELECT side, family, bin_ns, coalesce(ns, 0) + $width * coalesce(sum(opened) OVER before, 0) AS busy_ns
    FROM (SELECT DISTINCT side, family FROM parts) CROSS JOIN range(0, $until, $width) AS numbers(bin_ns)
    LEFT JOIN parts USING (side, family, bin_ns)
    WINDOW before AS (PARTITION BY side, family ORDER BY bin_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
)
SELECT side, family, bin_ns / $width AS bin, bin_ns / 1000 AS start_us, $width / 1000 AS width_us,
       busy_ns / 1000 AS busy_us
FROM bins WHERE busy_ns <> 0 ORDER BY side, family, bin_ns
"""
MARKS = """
SELECT family, name, thread, (start - $zero) / 1000 AS start_us, dur / 1000 AS dur_us
FROM timed WHERE family IN ('annotation', 'gpu_annotation') ORDER BY start, row LIMIT $most
"""
# `reached`: until when an earlier span of the device lasts, and `holder` is the one that does.
DEVICES = """
CREATE TABLE spans AS
SELECT device, kind, family IN ('memcpy', 'memset') AS is_copy, start, until, max(until) OVER before AS reached,
       arg_max(kind, until) OVER before AS holder
FROM timed WHERE side = 'device'
WINDOW before AS (PARTITION BY device ORDER BY start, row ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
"""
# What two spans share is what one has before the end of all earlier ones.
COVERED = """
WITH groups AS (
    SELECT 'busy' AS what, device, start, until FROM spans
    UNION ALL SELECT if(is_copy, 'copy', 'compute'), device, start, until FROM spans
    UNION ALL SELECT 'overlap', device, start, least(until, reached) FROM spans WHERE reached > start
), reached AS (
    SELECT *, max(until) OVER (PARTITION BY what, device ORDER BY start
                               ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
    FROM groups
)
SELECT what, sum(greatest(0, until - greatest(start, before)))::BIGINT AS ns FROM reached GROUP BY what
UNION ALL SELECT 'idle', coalesce(sum(start - reached), 0)::BIGINT FROM spans WHERE start > reached
UNION ALL SELECT 'gaps', count(*) FROM spans WHERE start > reached
"""
GAPS = """
WITH gaps AS (FROM spans WHERE start > reached ORDER BY start - reached DESC, device, reached LIMIT $most)
SELECT gaps.device, (reached - $zero) / 1000 AS start_us, (start - reached) / 1000 AS gap_us, before.op AS before_op,
       after.op AS after_op
FROM gaps JOIN summed before ON before.kind = holder JOIN summed after ON after.kind = gaps.kind
ORDER BY start_us, gap_us DESC
"""
# Work is that of devices, or where there is none, of operators.
FIGURES = """
SELECT sum(calls)::BIGINT AS events, coalesce(sum(launched), 0)::BIGINT AS joined,
       sum(total_ns) FILTER (side = 'device') / 1000 AS device_us,
       coalesce(sum(self_us) FILTER (side = $work AND family = 'other'), 0)
           / nullif(greatest(sum(self_us) FILTER (side = $work), 0), 0) AS other_share
FROM summed
"""
EVENTS = """
SELECT summed.op, thread, (start - $zero) / 1000 AS start_us, dur / 1000 AS dur_us, correlation
FROM events JOIN summed USING (kind) ORDER BY events.rowid
"""


@contextmanager
def event_table() -> Iterator[duckdb.DuckDBPyConnection]:
    """An empty database."""
    with TemporaryDirectory() as folder, duckdb.connect(config={**SETTINGS, "temp_directory": folder}) as db:
        try:
            yield db
        except (duckdb.ConversionException, duckdb.OutOfRangeException) as error:
            raise FileError("times of this trace add up to over 292 years", "Record it again") from error
        except (duckdb.OutOfMemoryException, duckdb.IOException) as error:
            raise FileError(f"the trace does not fit: {shown(error, 200)}", f"Free room in {folder}") from error


class Summary:
    """Of a filled ``events`` and ``ops``: kind, category, name, stream, device."""

    def __init__(self, db: duckdb.DuckDBPyConnection, trace_id: str, families: Families) -> None:
        self.db, self.trace_id = db, trace_id
        operations: list[dict[str, Any]] = db.sql("FROM ops ORDER BY kind").to_arrow_table().to_pylist()
        self.sides = {families.side(op["category"]) for op in operations}
        self.operations: list[dict[str, Any]] = []
        for op in operations:
            side, family = families.of(op["category"], op["name"], has_device="device" in self.sides)
            short = families.short_name(op["name"])
            place = SIDES.index(side)
            self.operations.append({**op, "side": side, "place": place, "family": family, "short_name": short})
        db.register("named", pa.Table.from_pylist(self.operations))
        db.execute("CREATE OR REPLACE TABLE ops AS FROM named")
        db.execute(TIMED)
        self.zero, self.last = db.sql(BOUNDS).fetchall()[0]

    def summary(self) -> tuple[dict[str, Any], Mapping[str, pa.Table]]:
        """Columns of ``traces``, and the tables."""
        self._find_holes()
        self.db.execute(OPS, {"short": SHORT_NS})
        span = max(self.last - self.zero, 1)
        width = -(-span // BINS)  # the last bin may reach beyond the end
        tables = [
            self._table(TRACE_OPS, "FROM summed ORDER BY op"),
            self._table(TRACE_TIMELINE, TIMELINE, zero=self.zero, width=width, until=span),
            self._table(TRACE_MARKS, MARKS, zero=self.zero, most=MOST_MARKS),
        ]
        work = {"work": "device" if "device" in self.sides else "host"}
        (figures,) = self.db.sql(FIGURES, params=work).to_arrow_table().to_pylist()
        of_device: dict[str, Any] = {}
        if "device" in self.sides:
            self.db.execute(DEVICES)
            tables.append(self._table(TRACE_GAPS, GAPS, zero=self.zero, most=MOST_GAPS))
            of_device = self._covered()
        columns = {**figures, "span_us": (self.last - self.zero) / 1000, **of_device}
        return columns, {table.name: rows for table, rows in tables if rows.num_rows}

    def _covered(self) -> dict[str, Any]:
        """How long the device worked and waited; a copy while it computes is in both."""
        ns = dict(self.db.sql(COVERED).fetchall())
        both = ns.get("copy", 0) + ns.get("compute", 0) - ns.get("busy", 0)
        return {
            **{f"{name}_us": ns.get(name, 0) / 1000 for name in ("busy", "idle", "overlap")},
            "copy_overlap_us": both / 1000,
            "gaps": ns["gaps"],
        }

    def events(self) -> Iterator[pa.Table]:
        """Every event, a million at a time."""
        for batch in self.db.sql(EVENTS, params={"zero": self.zero}).to_arrow_reader(EVENTS_A_GROUP):
            yield self._filled(TRACE_EVENTS, pa.Table.from_batches([batch]))

    def _find_holes(self) -> None:
        """Where operators have others inside them, by time on their thread. One that ends after the operator that it is
        in, as rounding makes it, counts there up to that one's end only."""
        self.db.execute("CREATE TABLE holes (kind INTEGER, start BIGINT, until BIGINT)")
        stack: list[tuple[int, int]] = []  # end, kind
        lane = None
        for batch in self.db.cursor().sql(HOST).to_arrow_reader(LOOP_ROWS):
            holes = []
            for kind, thread, start, until in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                if thread != lane:
                    stack, lane = [], thread
                while stack and stack[-1][0] <= start:
                    stack.pop()
                if stack:
                    holes.append((stack[-1][1], start, min(until, stack[-1][0])))
                stack.append((until, kind))
            if holes:
                columns = [*map(pa.array, zip(*holes, strict=True))]
                self.db.register("new_holes", pa.table(columns, ["kind", "start", "until"]))
                self.db.execute("INSERT INTO holes FROM new_holes")

    def _table(self, table: Table, sql: str, **parameters: Any) -> tuple[Table, pa.Table]:
        return table, self._filled(table, self.db.sql(sql, params=parameters or None).to_arrow_table())

    def _filled(self, table: Table, rows: pa.Table) -> pa.Table:
        rows = rows.append_column("trace_id", pa.repeat(self.trace_id, len(rows)))
        return rows.select(table.names).cast(table.schema)
