"""The figures of a report file in the columns of ``runs``, and the reader of its texts.

A value of the wrong kind is an error that names its place. What has no column, and what a column cannot reproduce
exactly, stays in ``extra``: unknown keys as they are, known ones under ``reported``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from engine.decode.plan import PRESETS
from engine.errors import FileFormatError, PlaceholderError
from engine.lp_records import DEFAULT_PLACEHOLDER, split_cleanup, stored_lp
from engine.records import DESCRIPTORS, NumberFormat
from engine.store.reports import format as keys
from engine.store.reports.texts import ReportItem, TextReader
from engine.text.blocks import READ_FORMAT, found_form
from engine.text.template import check_placeholder
from engine.text.tokenizers import BUILT_IN, TextTokenizer, load_tokenizer

_MOST = 2**53
_STAMP = re.compile(r"(\d{8})[_-](\d{6})", re.ASCII)
_FIRST_YEAR = 1970
_TEXTS = (
    *("model_alias", "model_path", "model_step", "attention", "kv_cache", "tokenizer_name", "placeholder"),
    *("descriptors", "processor_type", "version"),
)


@dataclass(frozen=True, slots=True)
class RunOfFile:
    """A run's row as far as the file gives it, and the reader of its texts."""

    row: Mapping[str, Any]
    reader: TextReader
    passes: int  # by the file
    form: NumberFormat | None  # as its texts show; None where they are too few
    rule: tuple[keys.RuleName, str]  # that the file goes by: our check of it, and in words
    extra: Mapping[str, Any]
    notes: tuple[str, ...]

    def late_columns(self, differing: Mapping[keys.RuleName, int]) -> dict[str, Any]:
        """The columns that are known after all samples were read; they replace sums over the samples.

        ``differing`` counts the file's items of which our checks say otherwise.
        """
        extra, notes = dict(self.extra), list(self.notes)
        check, rule = self.rule
        words = f"The file has {self.passes:,} passes, by {rule}"
        if differing["passed"]:
            extra[keys.REPORTED_PASSES] = self.passes
        if differing[check]:
            words += f"; of {differing[check]:,} samples our check of {check} says otherwise"
        notes.append(f"{words}.")
        columns = {key: self.row[key] for key in ("chars_raw", "chars_clean") if key in self.row}
        if extra:
            columns["extra"] = json.dumps(extra, ensure_ascii=False, sort_keys=True)
        return columns | {"notes": " ".join(notes)}


def read_run(
    metadata: Mapping[str, Any],
    top: Mapping[str, Any],
    items: Sequence[ReportItem],
    *,
    missing: Sequence[str] = (),
    tokenizer: str | None = None,
) -> RunOfFile:
    texts = {key: _text(metadata.get(key)) for key in _TEXTS}
    is_enabled = metadata.get("logit_processor_enabled")
    lp = keys.lp_of(is_enabled, texts["processor_type"] or "", texts["version"] or "")
    placeholder = _placeholder(texts["placeholder"]) or keys.placeholder_of(lp)
    name, loaded = _tokenizer(tokenizer, texts["tokenizer_name"])
    forced_close = stored_lp(lp).closed_by != "model"
    form, numbers = found_form((text for item in items for text in item.texts), forced_close=forced_close)
    given = next((name for name in DESCRIPTORS if name == texts["descriptors"]), None)
    passes = sum(item.passed for item in items)
    row = {
        "origin": "imported",
        "created_at": _moment(metadata.get("timestamp")),
        **{key: texts[key] for key in ("model_alias", "model_step", "attention", "kv_cache")},
        "model_family": keys.family_of(*(texts[key] or "" for key in ("model_alias", "model_path", "tokenizer_name"))),
        "tokenizer": name,
        "vocab_size": loaded.vocab_size if loaded else None,
        "lp": lp,
        "placeholder": placeholder,
        "descriptors": given or stored_lp(lp).descriptors,
        **_sampling(metadata.get("sampling")),
        "generations": _whole(metadata, "num_generations") or max(len(item.texts) for item in items),
        "batch_size": _whole(metadata, "batch_size"),
        "samples": sum(len(item.texts) for item in items),
        "wall_s": None if top.get("time_taken") is None else float(top["time_taken"]),
        "chars_raw": _whole(top, "total_chars_raw"),
        "chars_clean": _whole(top, "total_chars_clean"),
        "reported_passes": None if keys.PASSES in missing else passes,
        "reported_failures": None if keys.FAILURES in missing else len(items) - passes,
    }
    row = {key: value for key, value in row.items() if value is not None}
    return RunOfFile(
        row=row,
        reader=TextReader(lp and split_cleanup(lp)[0], placeholder or DEFAULT_PLACEHOLDER, loaded, form or READ_FORMAT),
        passes=passes,
        form=form,
        rule=keys.rule_of(texts["version"] or ""),
        extra=_extra(metadata, top, row, len(items), missing),
        notes=(
            *_notes(metadata, lp, name, loaded),
            *([f"Number format by {numbers:,} numbers of the texts: {form.words}."] if form else ()),
        ),
    )


def _extra(
    metadata: Mapping[str, Any], top: Mapping[str, Any], row: Mapping[str, Any], prompts: int, missing: Sequence[str]
) -> dict[str, Any]:
    ours = keys.metadata_of(row, prompts)
    unknown, differing = keys.differences(metadata, ours, keys.METADATA_COLUMNS)
    unknown_top, reported = keys.differences(top, keys.totals_of(row), keys.TOTALS, keys.RUN_OWN)
    if differing:
        reported[keys.METADATA] = differing
    lacking = {
        keys.METADATA: [key for key in ours if key not in metadata],
        keys.AT_TOP: [*missing, *(key for key in keys.TOTALS if key not in top)],
    }
    unreported = {part: keys for part, keys in lacking.items() if keys}
    kept = unknown_top | {keys.METADATA: unknown, keys.REPORTED: reported, keys.UNREPORTED: unreported}
    return {key: value for key, value in kept.items() if value or key in unknown_top}


def _notes(
    metadata: Mapping[str, Any], lp: str | None, name: str | None, tokenizer: TextTokenizer | None
) -> tuple[str, ...]:
    notes = []
    if lp is None:
        named = [f"{key} {metadata[key]}" for key in ("processor_type", "version") if metadata.get(key)]
        notes.append(
            f"Which LP made it is not known ({', '.join(named) or 'the file names none'}): "
            "blocks are read as closed by force, without drift."
        )
    if tokenizer is None:
        notes.append(f"The tokenizer is not known ({name or 'the file names none'}): without drift.")
    return tuple(notes)


# --- single values ------------------------------------------------------------------------------------------------


def _text(value: Any) -> str | None:
    """Null and an empty text are as good as nothing."""
    return None if value in (None, "") else value if isinstance(value, str) else keys.compact(value)


def _whole(values: Mapping[str, Any], key: str) -> int | None:
    return None if values.get(key) is None else int(values[key])


def _tokenizer(given: str | None, named: str | None) -> tuple[str | None, TextTokenizer | None]:
    """The name for the row and, where it is known, the tokenizer."""
    if given is not None:
        return given if given in BUILT_IN else Path(given).name, load_tokenizer(given)
    known = keys.tokenizer_of(named or "")
    return known or named, load_tokenizer(known) if known else None


def _placeholder(text: str | None) -> str | None:
    try:
        return check_placeholder(text) if text else None
    except PlaceholderError as error:
        raise FileFormatError(f"{keys.METADATA}.placeholder: {error.what}", error.fix) from error


def _sampling(sampling: Any) -> dict[str, Any]:
    """A preset's name, or an object of parameters."""
    if isinstance(sampling, Mapping):
        names = {"temperature": float, "top_k": int, "top_p": float, "min_p": float}
        numbers = {key: sampling[key] for key in names if type(sampling.get(key)) in (int, float)}
        fitting = {key: names[key](value) for key, value in numbers.items() if 0 <= value < _MOST}
        return {"sampling": keys.compact(sampling), **fitting}
    text = _text(sampling)
    if text not in PRESETS:
        return {"sampling": text}
    known = PRESETS[text]
    numbers = {"temperature": known.temperature, "top_p": known.top_p, "min_p": known.min_p}
    return {"sampling": text, "top_k": known.top_k or None, **numbers}


def _moment(value: Any) -> str | None:
    """The time in ISO form, UTC where the file names no zone; None where it is no time. ``20250131_174500`` is one."""
    try:
        if type(value) in (int, float):
            moment = datetime.fromtimestamp(value, UTC)
        else:
            stamp = _STAMP.fullmatch(str(value))
            moment = datetime.fromisoformat(f"{stamp[1]}T{stamp[2]}" if stamp else str(value))
        moment = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return moment.isoformat() if moment.year >= _FIRST_YEAR else None
