"""Log files into the store: read once, line by line, searched for damage on the way, one log for each engine in them.

A log's id is a hash of the file's text and of what it is called, so a file is stored once. What cannot be read is left
out, counted and named; a truncated file is kept up to its end. Values are linked to no run.

A log is ``measured`` where each of its lines says so, as those of ``--log-logits`` do, and none of their names were
replaced; else it is ``imported``. That is a statement of the file, not a proof.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec.structs import astuple

from engine.errors import FileError, shown
from engine.figures.words import counted
from engine.logits.causes import DamageTally, findings_of
from engine.logits.detect import judge
from engine.logits.entries import (
    BROKEN,
    MEASURED,
    MOST_INDEX,
    EntryBatch,
    LogLine,
    NoEntryError,
    clean_text,
    fingerprint,
    read_line,
    read_lines,
    row_length,
    tables_of,
)
from engine.logits.rules import LOGITS, UNKNOWN, load_rules
from engine.store.entries import Entry
from engine.store.schema import LOGIT_LOG
from engine.store.staging import begun_anew
from engine.store.store import Store

BATCH_VALUES, TAIL_VALUES = 500_000, 20_000  # that are judged together, with the last ones before them
MOST_LOGS = 64  # engines, models and precisions in one file
MOST_NAMED, MOST_ID, MOST_SOURCES, MOST_BAD_LINES = 3, 40, 5, 100_000
Key = tuple[str, str | None, str | None]  # engine, model, precision


@dataclass(frozen=True, slots=True)
class LogNames:
    """Names that replace what entries say of themselves."""

    engine: str | None = None
    model: str | None = None
    precision: str | None = None
    label: str | None = None

    def header(self, line: LogLine) -> LogLine:
        """What the line says of its log, clean, and under these names."""
        return LogLine(
            [],
            engine=self.engine or clean_text(line.engine) or clean_text(line.team) or UNKNOWN,
            model=self.model or clean_text(line.model),
            precision=self.precision or clean_text(line.precision),
            checkpoint=clean_text(line.checkpoint) or LOGITS,
            source=clean_text(line.source),
            dtype=clean_text(line.dtype),
            shape=row_length(line.shape),
            origin=line.origin,
        )


def add_file(
    store: Store, path: Path, names: LogNames | None = None, say: Callable[[int, float], None] = lambda *_: None
) -> list[Entry]:
    """Read a file into the store: its logs, in the order in which they begin."""
    names, sha256 = names or LogNames(), fingerprint(path)
    logs: dict[Key, _Log] = {}
    entries = left_out = 0
    reasons: list[str] = []
    about: tuple[object, ...] = ()
    is_cut = False
    with ExitStack() as stack:
        try:
            for number, text in enumerate(read_lines(path, say), start=1):
                if text.isspace():
                    continue
                try:
                    line = read_line(text)
                    if (now := astuple(line)[3:12]) != about:  # what most lines of a log have in common
                        about, header = now, names.header(line)
                    key = (header.engine, header.model, header.precision)
                    if key not in logs:
                        require_room(logs, path)
                        logs[key] = _Log(store, sha256, key, stack)
                    logs[key].add(line, header, number)
                    entries += 1
                except NoEntryError as error:
                    if logs and not text.endswith(b"\n"):
                        is_cut = True
                        break
                    left_out += 1
                    reasons += [f"line {number:,}: {error}"] if len(reasons) < MOST_NAMED else []
                    if not logs and left_out == MOST_BAD_LINES:  # the file is no log
                        break
        except BROKEN:
            is_cut = True
        say(entries, 1.0)
        if not logs:
            problem = ": ".join([f"{shown(path.name)} has no logit entry", *reasons[:1]])
            raise FileError(problem, "A log has one JSON object per line")
        notes = reading_notes(left_out, reasons, is_cut=is_cut)
        row = {"file": clean_text(path.name), "label": names.label, "left_out": left_out, "is_cut": is_cut}
        is_named = any((names.engine, names.model, names.precision))
        return [log.publish(row, notes, is_named=is_named) for log in logs.values()]


def require_room(logs: Mapping[Key, _Log], path: Path) -> None:
    if len(logs) == MOST_LOGS:
        problem = f"{shown(path.name)} has over {MOST_LOGS} engines, models and precisions"
        raise FileError(problem, "Name them by --engine, --model and --precision")


def reading_notes(left_out: int, reasons: Sequence[str], *, is_cut: bool) -> list[str]:
    notes = ["The file is truncated; what could be read is here."] if is_cut else []
    if left_out:
        notes.append(f"{counted(left_out, 'line')} could not be read ({'; '.join(reasons)}).")
    return notes


class _Log:
    """One log that is being written, unless the store has it. An error that leaves the stack throws it away."""

    def __init__(self, store: Store, sha256: str, key: Key, stack: ExitStack) -> None:
        self.key = key
        self.id = log_id(sha256, key)
        self.rules = load_rules()
        self.tally = DamageTally(self.rules)
        self.existing = store.entry(self.id, LOGIT_LOG) if store.has(self.id, LOGIT_LOG) else None
        begun = None if self.existing else begun_anew(store.home, LOGIT_LOG, self.id, {})
        self.staging = None if begun is None else stack.enter_context(begun)
        self.tail: list[LogLine] = []  # the last lines of the batch before: values may repeat theirs
        self.lines: list[LogLine] = []  # of the next batch, and how many values they have
        self.values = 0
        # Of all lines: the last token and sequence of each checkpoint and source, and how many texts a checkpoint has.
        self.texts: dict[tuple[str, str | None], tuple[int, int]] = {}
        self.checkpoints = Counter[str]()
        self.dtypes, self.sources = dict[str, None](), dict[str, None]()
        self.length = self.counted = 0
        self.is_measured = True  # every line says so

    def add(self, line: LogLine, header: LogLine, number: int) -> None:
        if self.staging is None:
            return
        line.line = number
        line.checkpoint = header.checkpoint
        line.source = header.source
        last, line.sequence = self.texts.get((header.checkpoint, header.source), (MOST_INDEX, -1))
        if line.token_idx is None:
            line.token_idx = 0 if line.sequence < 0 else min(last + 1, MOST_INDEX)
            self.counted = self.counted + 1
        if line.token_idx <= last:
            line.sequence = self.checkpoints[header.checkpoint]
            self.checkpoints[header.checkpoint] += 1
        self.texts[header.checkpoint, header.source] = line.token_idx, line.sequence
        for seen, name in ((self.sources, header.source), (self.dtypes, header.dtype)):
            if name is not None and len(seen) < MOST_SOURCES:
                seen[name] = None
        self.is_measured &= header.origin == MEASURED
        self.length = max(self.length, header.shape if LOGITS in header.checkpoint else 0)
        self.lines.append(line)
        self.values += len(line.values)
        if self.values >= BATCH_VALUES:
            self._flush()

    def _flush(self) -> None:
        assert self.staging is not None
        batch, first = EntryBatch.of(self.lines), self.tally.sums["entries"]
        self.tail += self.lines
        flags, middle, spread = judge(EntryBatch.of(self.tail), self.rules)
        flags = flags[-len(batch.values) :]
        middle = middle[-len(self.lines) :]
        spread = spread[-len(self.lines) :]
        self.tail = self.tail[-max(1, TAIL_VALUES // len(self.tail[-1].values)) :]
        self.lines, self.values = [], 0
        is_garbage = self.tally.add(batch, flags)
        self.staging.add(tables_of(self.id, first, batch, flags, middle, spread, is_garbage))

    def publish(self, row: dict[str, Any], notes: list[str], *, is_named: bool) -> Entry:
        if self.existing is not None:
            return self.existing
        assert self.staging is not None
        if self.lines:
            self._flush()
        if self.counted:
            have = counted(self.counted, "entry has", "entries have")
            notes = [*notes, f"{have} no token_idx; such entries were counted."]
        findings = findings_of(self.tally, self.length)
        engine, model, precision = self.key
        first = findings[0] if findings else {"cause": None, "certainty": None}
        row = {
            **row,
            "engine": engine,
            "model": model,
            "precision": precision,
            "created_at": datetime.now(UTC).isoformat(),
            "origin": MEASURED if self.is_measured and not is_named else "imported",
            "source": ", ".join(self.sources) or None,
            "dtype": ", ".join(self.dtypes) or None,
            "length": self.length or None,
            "checkpoints": ", ".join(self.checkpoints),
            "rules": self.rules.sha256,
            "notes": " ".join(notes) or None,
            "cause": first["cause"],
            "certainty": first["certainty"],
            "findings": json.dumps(findings),
            **self.tally.sums,
            **self.tally.ends,
        }
        return self.staging.publish({k: v for k, v in row.items() if v is not None})


def log_id(sha256: str, key: Key) -> str:
    """Readable, and the same for the same values under the same names."""
    name = re.sub(r"[^A-Za-z0-9.]+", "-", "-".join(filter(None, key))).strip("-.")[:MOST_ID].strip("-.") or UNKNOWN
    digest = hashlib.sha256("\0".join([sha256, *(part or "" for part in key)]).encode()).hexdigest()
    return f"{name}-{digest[:10]}"
