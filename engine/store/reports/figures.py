"""The metadata and totals of a report file in the columns of ``runs``; what has no column goes into ``extra``."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from engine.decode.plan import PRESETS
from engine.lp_records import ALIASES, DEFAULT_PLACEHOLDER, LPS, full_name, split_cleanup, stored_lp
from engine.records import DESCRIPTORS, NumberFormat
from engine.store.reports.texts import FAILURES, PASSES, ReportItem, TextReader
from engine.text.blocks import READ_FORMAT, found_form
from engine.text.template import check_placeholder
from engine.text.tokenizers import BUILT_IN, TextTokenizer, load_tokenizer

METADATA = "metadata"
SAME = ("model_alias", "model_step", "placeholder", "descriptors", "sampling", "batch_size", "kv_cache", "attention")
METADATA_COLUMNS = {
    **{name: name for name in SAME},
    "timestamp": "created_at",
    "tokenizer_name": "tokenizer",
    "num_generations": "generations",
    "total_generations": "samples",
}
"""What a file's metadata and our columns share, with the column."""
TOTALS = {"time_taken": "wall_s", "total_chars_raw": "chars_raw", "total_chars_clean": "chars_clean"}

RuleName = Literal["passed", "decodes"]
_VERSION = re.compile(r"\D*(\d)[._]?(\d)(?:\.\d+)*\D*", re.ASCII)
_FAMILIES = (("qwen", "Qwen"), ("llama", "LLaMA"), ("m380", "LLaMA"))
_TOKENIZERS = ("qwen3", "llama3")
_MOST = 2**53
_STAMP = re.compile(r"(\d{8})[_-](\d{6})", re.ASCII)
_FIRST_YEAR = 1970


@dataclass(frozen=True, slots=True)
class RunOfFile:
    """A run's row as far as the file gives it, and the reader of its texts."""

    row: Mapping[str, Any]
    reader: TextReader
    form: NumberFormat | None  # as its texts show; None where they are too few
    rule: tuple[RuleName, str]  # that the file goes by: our check of it, and in words


def read_run(document: Mapping[str, Any], items: Sequence[ReportItem], tokenizer: str | None = None) -> RunOfFile:
    """``document`` has values of the right kinds. ``tokenizer`` replaces the one that it names."""
    metadata = document.get(METADATA, {})
    alias, step, path, named, processor, version = (
        _text(metadata.get(key)) or ""
        for key in ("model_alias", "model_step", "model_path", "tokenizer_name", "processor_type", "version")
    )
    lp = lp_of(metadata.get("logit_processor_enabled"), processor, version)
    record = stored_lp(lp)
    placeholder = _text(metadata.get("placeholder"))
    placeholder = check_placeholder(placeholder) if placeholder else record.placeholder or None
    name, loaded = _tokenizer(tokenizer, named)
    texts = (text for item in items for text in item.texts)
    form, numbers = found_form(texts, forced_close=record.closed_by != "model")
    extra = {key: value for key, value in document.items() if key not in {METADATA, PASSES, FAILURES, *TOTALS}}
    if rest := {key: value for key, value in metadata.items() if key not in METADATA_COLUMNS}:
        extra[METADATA] = rest
    passes, rule = sum(item.passed for item in items), rule_of(version)
    notes = [f"The file has {passes:,} passes, by {rule[1]}."]
    if form is not None:
        notes.insert(0, f"Number format by {numbers:,} numbers of the texts: {form.words}.")
    if loaded is None:
        notes.insert(0, f"The tokenizer is not known ({name or 'the file names none'}): without drift.")
    if lp is None:
        told = ", ".join(f"{key} {metadata[key]}" for key in ("processor_type", "version") if metadata.get(key))
        what = f"Which LP made it is not known ({told or 'the file names none'})"
        notes.insert(0, f"{what}: blocks are read as closed by force, without drift.")
    row = {
        "origin": "imported",
        "created_at": _moment(metadata.get("timestamp")),
        "model_alias": alias or None,
        "model_step": step or None,
        **{key: _text(metadata.get(key)) for key in ("attention", "kv_cache")},
        "model_family": family_of(alias, path, named),
        "tokenizer": name,
        "vocab_size": loaded.vocab_size if loaded else None,
        "lp": lp,
        "placeholder": placeholder,
        "descriptors": next((one for one in DESCRIPTORS if one == metadata.get("descriptors")), record.descriptors),
        **_sampling(metadata.get("sampling")),
        "generations": metadata.get("num_generations") or max(len(item.texts) for item in items),
        "batch_size": metadata.get("batch_size"),
        "samples": sum(len(item.texts) for item in items),
        "wall_s": document.get("time_taken"),
        "chars_raw": document.get("total_chars_raw"),
        "chars_clean": document.get("total_chars_clean"),
        "reported_passes": passes if PASSES in document else None,
        "reported_failures": len(items) - passes if FAILURES in document else None,
        "notes": " ".join(notes),
        "extra": json.dumps(extra, ensure_ascii=False, sort_keys=True) if extra else None,
    }
    base = lp and split_cleanup(lp)[0]
    reader = TextReader(base, placeholder or DEFAULT_PLACEHOLDER, loaded, form or READ_FORMAT)
    return RunOfFile({key: value for key, value in row.items() if value is not None}, reader, form, rule)


# --- the reports' names -------------------------------------------------------------------------------------------


def lp_of(enabled: bool | None, processor: str, version: str) -> str | None:
    """The LP by our name; None where the file names none, or one that the reports do not describe."""
    name = processor.strip().lower()
    if enabled is False:
        return "none"
    if split_cleanup(name)[0] in LPS:
        return full_name(name)
    if name == "qwen":
        digits = _VERSION.fullmatch(version.strip())
        return ALIASES.get(f"v{digits[1]}.{digits[2]}") if digits else None
    return ALIASES.get(name)


def rule_of(version: str) -> tuple[RuleName, str]:
    """By which rule the program of this version told passes from failures, as our check of it and in words."""
    digits = _VERSION.fullmatch(version.strip())
    if digits is None:
        return "passed", "a rule that it does not name"
    is_runners = (int(digits[1]), int(digits[2])) >= (3, 9)
    return ("decodes", "the runner's rule (decodes)") if is_runners else ("passed", "the reports' rule (passed)")


def family_of(*names: str) -> str | None:
    """Qwen or LLaMA, by the first of the names that tells."""
    return next((family for name in names for part, family in _FAMILIES if part in name.lower()), None)


def tokenizer_of(name: str) -> str | None:
    """Which of the field's tokenizers goes by this name: ``qwen3_0.6b_custom``, ``LLaMA-3.2-chem``."""
    letters = re.sub(r"[^a-z0-9]", "", name.lower())
    return next((known for known in _TOKENIZERS if known in letters), None)


# --- single values ------------------------------------------------------------------------------------------------


def _text(value: Any) -> str | None:
    """Null and an empty text are as good as nothing."""
    return None if value in (None, "") else value if isinstance(value, str) else _compact(value)


def _compact(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _tokenizer(given: str | None, named: str) -> tuple[str | None, TextTokenizer | None]:
    """The name for the row and, where it is known, the tokenizer."""
    if given is not None:
        return given if given in BUILT_IN else Path(given).name, load_tokenizer(given)
    known = tokenizer_of(named)
    return known or named or None, load_tokenizer(known) if known else None


def _sampling(sampling: Any) -> dict[str, Any]:
    """A preset's name, or an object of parameters."""
    if isinstance(sampling, Mapping):
        names = {"temperature": float, "top_k": int, "top_p": float, "min_p": float}
        numbers = {key: sampling[key] for key in names if type(sampling.get(key)) in (int, float)}
        fitting = {key: names[key](value) for key, value in numbers.items() if 0 <= value < _MOST}
        return {"sampling": _compact(sampling), **fitting}
    text = _text(sampling)
    if (known := PRESETS.get(text or "")) is None:
        return {"sampling": text}
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
