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
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from engine.errors import DriftscopeError, FileFormatError, StoreError, shown
from engine.figures.words import counted
from engine.logits.batches import MEASURED, BatchBuilder
from engine.logits.causes import CAUSES, CERTAINTIES, LogFinding, findings_of
from engine.logits.detect import Detector
from engine.logits.entries import LogLine, NoEntryError, clean_text, read_line
from engine.logits.lines import Bundle, bundles, fingerprint
from engine.logits.rules import UNKNOWN, load_rules
from engine.logits.tables import tables_of
from engine.logits.tally import DamageTally
from engine.store.entries import Entry
from engine.store.schema import LOGIT_LOG
from engine.store.staging import Staging
from engine.store.store import Store
from engine.store.writing import begin_anew
from engine.user_files import parsed_json

BATCH_VALUES = 500_000
"""Values that are judged together."""
MOST_LOGS = 64
"""Engines, models and precisions in one file."""
MOST_KNOWN = 10_000
"""Spellings of their names that are remembered."""
MOST_NAMED = 3
MOST_BAD_LINES = 100_000
"""Lines in a row, from the first one, of which none is an entry: the file is no log."""
MOST_ID = 40
FIGURES = (
    *("entries", "first_token", "last_token", "flagged_entries", "flagged_values"),
    *("garbage_entries", "least", "largest"),
)
"""Columns of ``logit_logs`` that a tally has under the same name."""

Progress = Callable[[int, float], None]
"""Called with the number of entries read, and the share of the file that they come from."""
Key = tuple[str, str | None, str | None]
"""Engine, model, precision."""


@dataclass(frozen=True, slots=True)
class LogNames:
    """Names that replace what entries say of themselves."""

    engine: str | None = None
    model: str | None = None
    precision: str | None = None
    label: str | None = None

    def key(self, line: LogLine) -> Key:
        engine = self.engine or clean_text(line.engine) or clean_text(line.team) or UNKNOWN
        return engine, self.model or clean_text(line.model), self.precision or clean_text(line.precision)


@dataclass(frozen=True, slots=True)
class AddedLog:
    """A log of a file; not new where the file was read before."""

    entry: Entry
    is_new: bool


def add_file(
    store: Store, path: Path, names: LogNames | None = None, progress: Progress | None = None
) -> list[AddedLog]:
    """Read a file into the store: its logs, in the order in which they begin."""
    file = _LogFile(store, path, names or LogNames())
    try:
        for bundle in bundles(path):
            file.read(bundle)
            if progress is not None:
                progress(file.entries, bundle.share)
        return file.publish()
    except BaseException:
        for log in file.logs.values():
            log.abandon()
        raise


class _LogFile:
    """A file that is being read: each line is added to the log that it belongs to."""

    def __init__(self, store: Store, path: Path, names: LogNames) -> None:
        self.store, self.path, self.names, self.rules = store, path, names, load_rules()
        self.sha256 = fingerprint(path)
        self.logs: dict[Key, _Log] = {}
        self.entries = self.left_out = 0
        self.reasons: list[str] = []
        self.is_cut = False
        self._by_words: dict[tuple[str | None, ...], _Log] = {}

    def read(self, bundle: Bundle) -> None:
        known = self._by_words
        for place, text in enumerate(bundle.lines):
            if not text or text.isspace():
                continue
            try:
                line = read_line(text)
                words = (line.engine, line.team, line.model, line.precision)
                log = known.get(words) or self._log(words, line)
                log.add(line, bundle.first + place)
            except NoEntryError as error:
                if bundle.is_last and bundle.is_open and place == len(bundle.lines) - 1:  # cut within its last line
                    self.is_cut = True
                else:
                    self._leave_out(bundle.first + place, str(error))
                continue
            self.entries += 1
        self.is_cut |= bundle.is_cut

    def publish(self) -> list[AddedLog]:
        if not self.logs:
            raise self._no_log("logit entry")
        return [log.publish() for log in self.logs.values()]

    def _no_log(self, lacks: str) -> FileFormatError:
        reason = f": {self.reasons[0]}" if self.reasons else ""
        return FileFormatError(f"{shown(self.path.name)} has no {lacks}{reason}", "A log has one JSON object per line")

    def _leave_out(self, number: int, reason: str) -> None:
        self.left_out += 1
        if len(self.reasons) < MOST_NAMED:
            self.reasons.append(f"line {number:,}: {reason}")
        if not self.logs and self.left_out == MOST_BAD_LINES:
            raise self._no_log(f"logit entry in its first {MOST_BAD_LINES:,} lines")

    def _log(self, words: tuple[str | None, ...], line: LogLine) -> _Log:
        key = self.names.key(line)
        if key not in self.logs:
            if len(self.logs) == MOST_LOGS:
                raise FileFormatError(
                    f"{shown(self.path.name)} has over {MOST_LOGS} engines, models and precisions",
                    "Give --engine, --model or --precision: they replace what entries say",
                )
            self.logs[key] = _Log(self, key)
        if len(self._by_words) == MOST_KNOWN:
            self._by_words.clear()
        log = self._by_words[words] = self.logs[key]
        return log


class _Log:
    """One log that is being written, unless the store has it."""

    def __init__(self, file: _LogFile, key: Key) -> None:
        self.file, self.key, self.id = file, key, log_id(file.sha256, key)
        self.lines, self.detector, self.tally = BatchBuilder(), Detector(file.rules), DamageTally(file.rules)
        places = file.store.places
        is_known = any(f"{LOGIT_LOG.key}={self.id}" in files.folders(LOGIT_LOG.folder) for files in places)
        self.known = file.store.entry(self.id, LOGIT_LOG) if is_known else None
        self.staging = None if self.known else begin_anew(file.store.home, LOGIT_LOG, self.id, {})

    def add(self, line: LogLine, number: int) -> None:
        if self.staging is None:
            return
        self.lines.add(line, number)
        if self.lines.values >= BATCH_VALUES:
            self._flush(self.staging)

    def publish(self) -> AddedLog:
        if self.known is not None:
            return AddedLog(self.known, is_new=False)
        assert self.staging is not None
        if self.lines.numbers:
            self._flush(self.staging)
        row = {key: value for key, value in self._row().items() if value is not None}
        return AddedLog(self.staging.publish(row), is_new=True)

    def abandon(self) -> None:
        if self.staging is not None:
            with suppress(DriftscopeError):
                self.staging.abandon()

    def _flush(self, staging: Staging) -> None:
        batch, first = self.lines.batch(), self.tally.entries
        flags = self.detector.judge(batch)
        self.tally.add(batch, flags)
        staging.add(tables_of(self.id, first, batch, flags, self.file.rules))

    def _row(self) -> dict[str, Any]:
        engine, model, precision = self.key
        lines, file, names = self.lines, self.file, self.file.names
        findings = findings_of(self.tally, lines.length)
        worst = next(iter(findings), None)
        is_named = any((names.engine, names.model, names.precision))
        return {
            "created_at": datetime.now(UTC).isoformat(),
            "origin": MEASURED if lines.is_measured and not is_named else "imported",
            "file": clean_text(file.path.name),
            "source": ", ".join(lines.sources) or None,
            "label": names.label,
            "engine": engine,
            "model": model,
            "precision": precision,
            "dtype": ", ".join(lines.dtypes) or None,
            "length": lines.length,
            "checkpoints": ", ".join(lines.checkpoints),
            "left_out": file.left_out,
            "is_cut": file.is_cut,
            "rules": file.rules.sha256,
            "notes": self._notes() or None,
            "cause": worst.cause if worst else None,
            "certainty": worst.certainty if worst else None,
            "findings": json.dumps([finding.sheet() for finding in findings]),
            "values_logged": self.tally.values,
            **{name: getattr(self.tally, name) for name in FIGURES},
        }

    def _notes(self) -> str:
        file, without_index = self.file, self.lines.counted
        notes = ["The file is truncated; what could be read is here."] if file.is_cut else []
        if file.left_out:
            notes.append(f"{counted(file.left_out, 'line')} could not be read ({'; '.join(file.reasons)}).")
        if without_index:
            have = counted(without_index, "entry has", "entries have")
            notes.append(f"{have} no token_idx; such entries were counted.")
        return " ".join(notes)


def findings_in(entry: Entry) -> list[LogFinding]:
    """As they were stored with a log; a sheet may say anything."""
    try:
        return [_finding(sheet) for sheet in parsed_json(entry.row.get("findings") or "[]")]
    except (ValueError, TypeError, KeyError) as error:
        raise StoreError(f"the findings of {entry.id} do not read", "Read its file in again, or remove it") from error


def _finding(sheet: Mapping[str, Any]) -> LogFinding:
    if sheet["cause"] not in CAUSES or sheet["certainty"] not in CERTAINTIES:
        raise ValueError("it names no cause")
    positions, evidence = tuple(sheet["positions"]), tuple(map(str, sheet["evidence"]))
    values, entries, places = sheet["values"], sheet["entries"], sheet.get("places", len(positions))
    if not all(type(count) is int and count >= 0 for count in (values, entries, places, *positions)):
        raise ValueError("its counts are no numbers")
    return LogFinding(sheet["cause"], sheet["certainty"], values, entries, positions, evidence, places)


def log_id(sha256: str, key: Key) -> str:
    """Readable, and the same for the same values under the same names."""
    name = re.sub(r"[^A-Za-z0-9.]+", "-", "-".join(filter(None, key))).strip("-.")[:MOST_ID].strip("-.") or UNKNOWN
    digest = hashlib.sha256("\0".join([sha256, *(part or "" for part in key)]).encode()).hexdigest()
    return f"{name}-{digest[:10]}"
