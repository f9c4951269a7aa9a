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
from dataclasses import dataclass, field
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
from engine.logits.rules import UNKNOWN, Rules, load_rules
from engine.logits.tables import tables_of
from engine.logits.tally import DamageTally
from engine.store.entries import Entry
from engine.store.files import ASIDE
from engine.store.schema import LOGIT_LOG
from engine.store.staging import Staging
from engine.store.store import Store

BATCH_VALUES = 500_000
"""Values that are judged together."""
MOST_LOGS = 64
"""Engines, models and precisions in one file."""
MOST_NAMED = 3
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
class KnownLog:
    """The file was read before, as this entry."""

    entry: Entry


@dataclass(slots=True)
class _File:
    """What is known of a file as a whole."""

    path: Path
    sha256: str
    left_out: int = 0
    reasons: list[str] = field(default_factory=list)
    is_cut: bool = False
    entries: int = 0

    def leave_out(self, number: int, reason: str) -> None:
        self.left_out += 1
        if len(self.reasons) < MOST_NAMED:
            self.reasons.append(f"line {number:,}: {reason}")


class _Log:
    """One log that is being written."""

    def __init__(self, store: Store, file: _File, key: Key, names: LogNames, rules: Rules) -> None:
        self.key, self.names, self.rules, self.file = key, names, rules, file
        self.id = log_id(file.sha256, key)
        is_known = any(f"{LOGIT_LOG.key}={self.id}" in files.folders(LOGIT_LOG.folder) for files in store.places)
        self.known = store.entry(self.id, LOGIT_LOG) if is_known else None
        self.lines, self.detector, self.tally = BatchBuilder(), Detector(rules), DamageTally(rules)
        self.staging = None if self.known else _staging(store, self.id)

    def add(self, line: LogLine, number: int) -> None:
        if self.staging is None:
            return
        self.lines.add(line, number)
        if self.lines.values >= BATCH_VALUES:
            self.flush()

    def flush(self) -> None:
        if self.staging is None or not self.lines.lines:
            return
        batch, first = self.lines.batch(), self.tally.entries
        flags = self.detector.judge(batch)
        self.tally.add(batch, flags)
        self.staging.add(tables_of(self.id, first, batch, flags, self.rules))

    def publish(self) -> Entry | KnownLog:
        if self.known is not None:
            return KnownLog(self.known)
        assert self.staging is not None
        self.flush()
        return self.staging.publish({key: value for key, value in self._row().items() if value is not None})

    def abandon(self) -> None:
        if self.staging is not None:
            with suppress(DriftscopeError):
                self.staging.abandon()

    def _row(self) -> dict[str, Any]:
        engine, model, precision = self.key
        lines, file = self.lines, self.file
        findings = findings_of(self.tally, lines.length)
        worst = next(iter(findings), None)
        is_named = any((self.names.engine, self.names.model, self.names.precision))
        return {
            "created_at": datetime.now(UTC).isoformat(),
            "origin": MEASURED if lines.is_measured and not is_named else "imported",
            "file": clean_text(file.path.name),
            "source": ", ".join(lines.sources) or None,
            "label": self.names.label,
            "engine": engine,
            "model": model,
            "precision": precision,
            "dtype": ", ".join(lines.dtypes) or None,
            "length": lines.length,
            "checkpoints": ", ".join(lines.checkpoints),
            "left_out": file.left_out,
            "is_cut": file.is_cut,
            "rules": self.rules.sha256,
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


def add_file(
    store: Store, path: Path, names: LogNames | None = None, progress: Progress | None = None
) -> list[Entry | KnownLog]:
    """Read a file into the store: its logs, in the order in which they begin."""
    reader = _FileReader(store, _File(path, fingerprint(path)), names or LogNames())
    try:
        for bundle in bundles(path):
            reader.read(bundle)
            if progress is not None:
                progress(reader.file.entries, bundle.share)
        return reader.publish()
    except BaseException:
        for log in reader.logs.values():
            log.abandon()
        raise


class _FileReader:
    """A file's lines, each added to the log that it belongs to."""

    def __init__(self, store: Store, file: _File, names: LogNames) -> None:
        self.store, self.file, self.names, self.rules = store, file, names, load_rules()
        self.logs: dict[Key, _Log] = {}
        self._by_words: dict[tuple[str | None, ...], _Log] = {}

    def read(self, bundle: Bundle) -> None:
        known, file = self._by_words, self.file
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
                    file.is_cut = True
                else:
                    file.leave_out(bundle.first + place, str(error))
                continue
            file.entries += 1
        file.is_cut |= bundle.is_cut

    def publish(self) -> list[Entry | KnownLog]:
        if not self.logs:
            reason = f": {self.file.reasons[0]}" if self.file.reasons else ""
            name = shown(self.file.path.name)
            raise FileFormatError(f"{name} has no logit entry{reason}", "A log has one JSON object per line")
        return [log.publish() for log in self.logs.values()]

    def _log(self, words: tuple[str | None, ...], line: LogLine) -> _Log:
        key = self.names.key(line)
        if key not in self.logs:
            if len(self.logs) == MOST_LOGS:
                raise FileFormatError(
                    f"{shown(self.file.path.name)} has over {MOST_LOGS} engines, models and precisions",
                    "Give --engine, --model or --precision: they replace what entries say",
                )
            self.logs[key] = _Log(self.store, self.file, key, self.names, self.rules)
        log = self._by_words[words] = self.logs[key]
        return log


def findings_in(entry: Entry) -> list[LogFinding]:
    """As they were stored with a log; a sheet may say anything."""
    try:
        return [_finding(sheet) for sheet in json.loads(entry.row.get("findings") or "[]")]
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


def _staging(store: Store, id_: str) -> Staging:
    """Of a new log. What a killed import left is thrown away; one that still runs keeps its lock, an error here."""
    if id_ in store.home.folders(ASIDE):
        left = Staging(store.home, LOGIT_LOG, id_, {})
        left.lock()
        left.abandon()
    staging = Staging.create(store.home, LOGIT_LOG, id_, {})
    staging.lock()
    return staging
