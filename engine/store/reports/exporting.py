"""Runs out as report files: the JSON of the reports' runner, written from any run that has samples.

An imported run is written as its file was, byte for byte. Of a measured run, and of one that was imported before files
were kept, what the format has a key for is written: not token ids, forced flags, seeds and timings of parts. Several
generations of a molecule become one item, a cleaned text is written next to its raw text, and a key without a value is
left out.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from engine.chem.enriched import prompt_of
from engine.errors import FileError
from engine.lp_records import ALIASES, stored_lp
from engine.records import CHECK_COLUMNS
from engine.store import reports as keys
from engine.store.entries import Entry, alphabet_of, is_unjudged, without_samples
from engine.store.files import writing_errors
from engine.store.schema import REPORT_FILES, SAMPLES
from engine.user_files import writing

_OF_CHECK = (name for name in CHECK_COLUMNS if name != "decodes")  # the format has no key for it, old runs no column
COLUMNS = ("sample_id", "generation", "smiles", "text", *_OF_CHECK, "extra")
_REPORTED, _AFTER = "reported", "text_after"
_OURS = {keys.METADATA, keys.BEFORE, keys.REPORTED_PASSED, keys.GENERATIONS, "reported_passes"}
_OURS |= {_REPORTED, _AFTER, "unreported", "main", "entry"}
"""Keys of ``extra`` that are not the file's; before files were kept, ``reported`` had what differs from our columns."""
_QWEN_VERSIONS = {
    **{lp: alias for alias, lp in reversed(ALIASES.items()) if alias.startswith("v")},
    "position-blocklist": "v3.8",
    "position-blocklist-short": "v3.9",
    "position-allowlist": "v4.3",
}
"""Of our LPs by name, those of runs that were stored before they had the group's names too."""

Row = Mapping[str, Any]


def export_report(entry: Entry, path: Path) -> None:
    """Write the run's report file, gz by its suffix; it is there whole or not at all."""
    content = report_bytes(entry)
    with writing_errors(path, "Give another place"), writing(path) as file:
        file.write(gzip.compress(content, mtime=0) if path.name.lower().endswith(".gz") else content)


def report_bytes(entry: Entry) -> bytes:
    try:
        if REPORT_FILES.name in entry.parts:
            return str(entry.read(REPORT_FILES.name)["content"][0]).encode()
        if (alphabet := alphabet_of(entry)) is not None:
            problem = f"{entry.id} has texts of {alphabet.name}, and the report format does not say what these mean"
            raise FileError(problem, "Give --as generations.pickle or --as sdf")
        if is_unjudged(entry):
            raise FileError(f"which texts of {entry.id} pass is not known yet", f"`judge {entry.id}` reads them")
        if SAMPLES.name not in entry.parts:
            raise without_samples(entry, "export")
        samples = entry.read(SAMPLES.name, COLUMNS).to_pylist()
    except (OSError, pa.ArrowException) as error:
        raise without_samples(entry, "export") from error
    return json.dumps(_document(entry, samples), ensure_ascii=False, indent=2).encode() + b"\n"


def _document(entry: Entry, samples: Sequence[Row]) -> dict[str, Any]:
    items = defaultdict[tuple[str, int], list[Row]](list)  # by molecule, and how often it was asked for before
    times: Counter[tuple[str, int]] = Counter()
    for sample in samples:
        smiles, generation = sample["smiles"], sample["generation"] or 0
        extra = json.loads(sample["extra"] or "{}")
        decoded = f"{extra.get(keys.BEFORE, prompt_of(smiles))}{sample['text']}{extra.get(_AFTER, '')}"
        items[smiles, times[smiles, generation]].append({**sample, "extra": extra, keys.TEXT: decoded})
        times[smiles, generation] += 1
    row, extra = entry.sheet["row"], json.loads(entry.row.get("extra") or "{}")
    reported = dict(extra.get(_REPORTED, {}))
    metadata = _metadata(row, len(items)) | extra.get(keys.METADATA, {}) | reported.pop(keys.METADATA, {})
    wall_s, chars = row.get("wall_s"), row.get("chars_raw")
    rate = {"throughput_chars_per_sec": chars / wall_s} if chars is not None and wall_s else {}
    figures = {key: row[column] for key, column in keys.TOTALS.items() if row.get(column) is not None}
    lists: dict[str, list[dict[str, Any]]] = {keys.PASSES: [], keys.FAILURES: []}
    for members in items.values():
        passed, item = _item(members)
        lists[keys.PASSES if passed else keys.FAILURES].append(item)
    return {keys.METADATA: metadata, **figures, **rate, **_unknown(extra), **reported, **lists}


def _unknown(extra: Row) -> dict[str, Any]:
    return {key: value for key, value in extra.items() if key not in _OURS}


def _metadata(row: Row, prompts: int) -> dict[str, Any]:
    lp = row.get("lp")
    stored = {key: row.get(column) for key, column in keys.METADATA_COLUMNS.items()}
    usual = {"placeholder": stored_lp(lp).placeholder or None, "descriptors": stored_lp(lp).descriptors}
    values = {
        **{key: value for key, value in stored.items() if key not in usual or value != usual[key]},
        "sample_size": prompts,
        **({} if lp is None else _processor(lp, row.get("model_family"))),
    }
    return {key: value for key, value in values.items() if value is not None}


def _processor(lp: str, model_family: str | None) -> dict[str, Any]:
    """An LP as the reports name it: by its type, and of Qwen's by a version."""
    if lp == "none":
        return {"logit_processor_enabled": False}
    if lp in (ALIASES["generic"], "position-blocklist") and model_family != "Qwen":
        return {"logit_processor_enabled": True, "processor_type": "generic"}
    if lp in _QWEN_VERSIONS:
        return {"logit_processor_enabled": True, "processor_type": "qwen", "version": _QWEN_VERSIONS[lp]}
    return {"logit_processor_enabled": True, "processor_type": lp}


def _item(samples: Sequence[Row]) -> tuple[bool, dict[str, Any]]:
    """Generations of one prompt as an item; it speaks of the first that passed, else of the first."""
    main = next((sample for sample in samples if sample["passed"]), samples[0])
    extra = main["extra"]
    passed = bool(extra.get(keys.REPORTED_PASSED, main["passed"]))
    columns = keys.OF_PASS if passed else keys.OF_FAILURE
    item = {
        **{key: main[column] for key, column in columns.items() if main[column] not in (None, "")},
        **_unknown(extra),
        **extra.get(_REPORTED, {}),
    }
    if len(samples) > 1:
        rests = [{} if sample is main else _unknown(sample["extra"]) for sample in samples]
        each = zip(samples, rests, strict=True)  # a text alone where nothing else is said of it
        texts = [{keys.TEXT: row[keys.TEXT], **rest} if rest else row[keys.TEXT] for row, rest in each]
        item = {**item, keys.GENERATIONS: texts}
    return passed, item
