"""Log files into the store: read once, line by line, searched for damage on the way, one log for each engine in them.

A log's id is a hash of the file's text and of what it is called, so a file is stored once. What cannot be read is left
out, counted and named; a file that breaks off is kept up to there. Its values are linked to no run.

A log is ``measured`` where each of its lines says so, as those of ``--log-logits`` do, and nothing that they say of
themselves was replaced; else it is ``imported``. That is a word, not a proof: anybody can write such a line.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from engine.errors import DriftscopeError, FileFormatError, StoreError, shown
from engine.logits.blocks import MEASURED, Collected
from engine.logits.causes import CAUSES, CERTAINTIES, Finding, findings_of
from engine.logits.detect import Detector
from engine.logits.entries import Line, NoEntryError, clean_text, read_line
from engine.logits.lines import Bundle, bundles, fingerprint
from engine.logits.rules import UNKNOWN, Rules, load_rules
from engine.logits.tables import tables_of
from engine.logits.tally import Tally
from engine.store.entries import Entry
from engine.store.files import ASIDE
from engine.store.schema import LOGIT_LOG
from engine.store.staging import Staging
from engine.store.store import Store

log = logging.getLogger(__name__)

BLOCK_VALUES = 500_000
"""Values that are judged together."""
MOST_LOGS = 64
"""Engines, models and precisions in one file."""
MOST_NAMED = 3
MOST_ID = 40

Progress = Callable[[int, float], None]
"""Told how many entries are read, and the share of the file that they come from."""
Key = tuple[str, str | None, str | None]
"""Engine, model, precision."""


@dataclass(frozen=True, slots=True)
class Names:
    """What takes the place of what entries say of themselves."""

    engine: str | None = None
    model: str | None = None
    precision: str | None = None
    label: str | None = None

    @property
    def is_given(self) -> bool:
        return any((self.engine, self.model, self.precision))

    def key(self, line: Line) -> Key:
        engine = self.engine or clean_text(line.engine) or clean_text(line.team) or UNKNOWN
        return engine, self.model or clean_text(line.model), self.precision or clean_text(line.precision)


@dataclass(frozen=True, slots=True)
class AlreadyThere:
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

    def notes(self) -> list[str]:
        found = []
        if self.is_cut:
            found.append("The file breaks off; what stands before is here.")
        if self.left_out:
            lines = "1 line" if self.left_out == 1 else f"{self.left_out:,} lines"
            found.append(f"{lines} could not be read ({'; '.join(self.reasons)}).")
        return found


class _Log:
    """One log that is being written."""

    def __init__(self, store: Store, file: _File, key: Key, names: Names, rules: Rules) -> None:
        self.key, self.names, self.rules, self.file = key, names, rules, file
        self.id = log_id(file.sha256, key)
        self.there = _there(store, self.id)
        self.collected, self.detector, self.tally = Collected(), Detector(rules), Tally(rules)
        self.staging = None if self.there else _begun(store, self.id)

    def add(self, line: Line, number: int) -> None:
        if self.staging is None:
            return
        self.collected.add(line, number)
        if self.collected.values >= BLOCK_VALUES:
            self.flush()

    def flush(self) -> None:
        if self.staging is None or not self.collected.lines:
            return
        block, first = self.collected.block(), self.tally.entries
        judged = self.detector.judge(block)
        self.tally.add(block, judged)
        self.staging.add(tables_of(self.id, first, block, judged, self.rules))

    def publish(self) -> Entry | AlreadyThere:
        if self.there is not None:
            return AlreadyThere(self.there)
        assert self.staging is not None
        self.flush()
        return self.staging.publish({key: value for key, value in self._row().items() if value is not None})

    def abandon(self) -> None:
        if self.staging is not None:
            with suppress(DriftscopeError):
                self.staging.abandon()

    def _row(self) -> dict[str, Any]:
        engine, model, precision = self.key
        collected, tally = self.collected, self.tally
        findings = findings_of(tally, collected.length)
        worst = next(iter(findings), None)
        notes = [*self.file.notes(), *_counted(collected)]
        return {
            "created_at": datetime.now(UTC).isoformat(),
            "origin": MEASURED if collected.is_measured and not self.names.is_given else "imported",
            "file": clean_text(self.file.path.name),
            "source": ", ".join(collected.sources) or None,
            "label": self.names.label,
            "engine": engine,
            "model": model,
            "precision": precision,
            "dtype": ", ".join(collected.dtypes) or None,
            "length": collected.length,
            "checkpoints": ", ".join(collected.checkpoints),
            "left_out": self.file.left_out,
            "is_cut": self.file.is_cut,
            "rules": self.rules.sha256,
            "notes": " ".join(notes) or None,
            "cause": worst.cause if worst else None,
            "certainty": worst.certainty if worst else None,
            "findings": json.dumps([one.sheet() for one in findings]),
            **_figures(tally),
        }


def add_file(
    store: Store, path: Path, names: Names | None = None, progress: Progress | None = None
) -> list[Entry | AlreadyThere]:
    """Read a file into the store: its logs, in the order in which they begin."""
    reading = _Reading(store, _File(path, fingerprint(path)), names or Names())
    try:
        for bundle in bundles(path):
            reading.take(bundle)
            if progress is not None:
                progress(reading.file.entries, bundle.share)
        return reading.publish()
    except BaseException:
        for one in reading.logs.values():
            one.abandon()
        raise


class _Reading:
    """A file's lines, each to the log that it belongs to."""

    def __init__(self, store: Store, file: _File, names: Names) -> None:
        self.store, self.file, self.names, self.rules = store, file, names, load_rules()
        self.logs: dict[Key, _Log] = {}
        self._by_words: dict[tuple[str | None, ...], _Log] = {}

    def take(self, bundle: Bundle) -> None:
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
                if _breaks_off(bundle, place):
                    file.is_cut = True
                else:
                    file.leave_out(bundle.first + place, str(error))
                continue
            file.entries += 1
        file.is_cut |= bundle.is_cut

    def publish(self) -> list[Entry | AlreadyThere]:
        if not self.logs:
            reason = f": {self.file.reasons[0]}" if self.file.reasons else ""
            name = shown(self.file.path.name)
            raise FileFormatError(f"{name} has no logit entry{reason}", "A log has one JSON object a line")
        return [one.publish() for one in self.logs.values()]

    def _log(self, words: tuple[str | None, ...], line: Line) -> _Log:
        key = self.names.key(line)
        if key not in self.logs:
            if len(self.logs) == MOST_LOGS:
                raise FileFormatError(
                    f"{shown(self.file.path.name)} has over {MOST_LOGS} engines, models and precisions",
                    "Give --engine, --model or --precision, which take the place of what entries say",
                )
            self.logs[key] = _Log(self.store, self.file, key, self.names, self.rules)
        found = self._by_words[words] = self.logs[key]
        return found


def findings_in(entry: Entry) -> list[Finding]:
    """As they were stored with a log; a sheet may say anything."""
    try:
        return [_finding(one) for one in json.loads(entry.row.get("findings") or "[]")]
    except (ValueError, TypeError, KeyError) as error:
        raise StoreError(f"the findings of {entry.id} do not read", "Read its file in again, or remove it") from error


def _finding(said: Mapping[str, Any]) -> Finding:
    if said["cause"] not in CAUSES or said["certainty"] not in CERTAINTIES:
        raise ValueError("it names no cause")
    places, evidence = tuple(said["positions"]), tuple(map(str, said["evidence"]))
    count = said.get("places", len(places))
    counts = (said["values"], said["entries"], count, *places)
    if not all(type(one) is int and one >= 0 for one in counts):
        raise ValueError("its counts are no numbers")
    return Finding(said["cause"], said["certainty"], said["values"], said["entries"], places, evidence, count)


def log_id(sha256: str, key: Key) -> str:
    """Readable, and the same for the same values under the same names."""
    words = "-".join(filter(None, (key[0], key[1], key[2])))
    name = re.sub(r"[^A-Za-z0-9.]+", "-", words).strip("-.")[:MOST_ID].strip("-.") or UNKNOWN
    digest = hashlib.sha256("\0".join([sha256, *(part or "" for part in key)]).encode()).hexdigest()
    return f"{name}-{digest[:10]}"


def _breaks_off(bundle: Bundle, place: int) -> bool:
    return bundle.is_last and bundle.is_open and place == len(bundle.lines) - 1


def _there(store: Store, id_: str) -> Entry | None:
    if any(f"{LOGIT_LOG.key}={id_}" in files.folders(LOGIT_LOG.folder) for files in store.places):
        return store.entry(id_, LOGIT_LOG)
    return None


def _begun(store: Store, id_: str) -> Staging:
    """What an import that was killed left behind is thrown away; one that is at it goes on alone."""
    if id_ in store.home.folders(ASIDE):
        left = Staging(store.home, LOGIT_LOG, id_, {})
        left.lock()
        left.abandon()
    staging = Staging.create(store.home, LOGIT_LOG, id_, {})
    staging.lock()
    return staging


def _counted(collected: Collected) -> list[str]:
    if not collected.counted:
        return []
    have = "1 entry has" if collected.counted == 1 else f"{collected.counted:,} entries have"
    return [f"{have} no token_idx; such entries were counted."]


def _figures(tally: Tally) -> dict[str, Any]:
    return {
        "entries": tally.entries,
        "values_logged": tally.values,
        "first_token": tally.first_token,
        "last_token": tally.last_token,
        "flagged_entries": tally.flagged_entries,
        "flagged_values": tally.flagged_values,
        "garbage_entries": tally.garbage_entries,
        "least": tally.least,
        "largest": tally.largest,
    }
