"""The keys of a report file and the columns of the store: how our runs and samples are written in such a file.

Besides our rows, the store keeps of an imported file only what differs from our values, what is extra, and which keys
are missing; ``restored`` puts that back, so that a file is exported as it was imported. Rows are plain mappings here,
by the columns of ``engine.store.schema``. What this module does not know: what the keys mean, how files are read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

from engine.lp_records import ALIASES, LPS, full_name, split_cleanup, stored_lp

METADATA, PASSES, FAILURES, GENERATIONS = "metadata", "passes", "failures", "all_generations"
TEXT = "decoded_text"
TOTALS = ("time_taken", "throughput_chars_per_sec", "total_chars_raw", "total_chars_clean")
_SAME = ("model_alias", "model_step", "placeholder", "descriptors", "sampling", "batch_size", "kv_cache", "attention")
METADATA_COLUMNS = {
    **dict.fromkeys(("version", "processor_type", "logit_processor_enabled", "sample_size"), ""),  # have no column
    **{name: name for name in _SAME},
    "timestamp": "created_at",
    "tokenizer_name": "tokenizer",
    "num_generations": "generations",
    "total_generations": "samples",
}
"""What a file's metadata and our columns share, with the column; all else is kept as it stands."""
OF_PASS = ("prompt_smiles", "generated_smiles", "smiles_exact_match", "has_real_coordinates", "parse_success", TEXT)
OF_FAILURE = ("prompt_smiles", "issues", TEXT, "parse_error", "generation_has_same_molecular_graph", "extracted_smiles")
OF_ITEM = frozenset((*OF_PASS, *OF_FAILURE, "generated_smiles_from_conformer"))

RuleName = Literal["passed", "decodes"]
REPORTED, UNREPORTED = "reported", "unreported"
REPORTED_PASSED, REPORTED_PASSES = "reported_passed", "reported_passes"
BEFORE, AFTER, MAIN, ENTRY = "text_before", "text_after", "main", "entry"
OWN = frozenset((REPORTED, UNREPORTED, REPORTED_PASSED, BEFORE, AFTER, MAIN, ENTRY, GENERATIONS))
"""Keys of a sample's ``extra`` that are not from the file's item: what it says otherwise and leaves out, the file's own
verdict where ours is another, what stands before and after the answer, whether the item speaks of this one of several
generations, what else that list says of it, and how the list is written."""
BESIDE = "beside"
"""``all_generations`` does not hold the item's own text."""
ALONE = "alone"
"""``all_generations`` is there though it holds no other text."""

AT_TOP = "totals"
"""Where ``unreported`` of a run lists keys of the file's own level; those of its metadata stand under that name."""
RUN_OWN = frozenset((METADATA, REPORTED, UNREPORTED, REPORTED_PASSES))
"""The same for a run's ``extra``: unknown metadata, what the file says otherwise or leaves out, its count of passes."""

_VERSION = re.compile(r"\D*(\d)[._]?(\d)(?:\.\d+)*\D*", re.ASCII)
_QWEN_VERSIONS = {
    **{lp: alias for alias, lp in reversed(ALIASES.items()) if alias.startswith("v")},
    "position-blocklist": "v3.8",
    "position-blocklist-short": "v3.9",
    "position-allowlist": "v4.3",
}
"""Of our LPs by name, those of runs that were stored before they had the group's names too."""
_FAMILIES = (("qwen", "Qwen"), ("llama", "LLaMA"), ("m380", "LLaMA"))
_TOKENIZERS = ("qwen3", "llama3")


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
    for name in names:
        for part, family in _FAMILIES:
            if part in name.lower():
                return family
    return None


def tokenizer_of(name: str) -> str | None:
    """Which of the field's tokenizers goes by this name: ``qwen3_0.6b_custom``, ``LLaMA-3.2-chem``."""
    letters = re.sub(r"[^a-z0-9]", "", name.lower())
    return next((known for known in _TOKENIZERS if known in letters), None)


def placeholder_of(lp: str | None) -> str | None:
    """What the LP counts with unless it is told otherwise."""
    return stored_lp(lp).placeholder or None


# --- what we would say --------------------------------------------------------------------------------------------


def metadata_of(row: Mapping[str, Any], prompts: int) -> dict[str, Any]:
    values = {key: row.get(column) for key, column in METADATA_COLUMNS.items()}
    values |= _processor(row.get("lp"), row.get("model_family")) | {"sample_size": prompts}
    usual = {"placeholder": placeholder_of(row.get("lp")), "descriptors": stored_lp(row.get("lp")).descriptors}
    values = {key: value for key, value in values.items() if key not in usual or value != usual[key]}
    return {key: value for key, value in values.items() if value is not None}


def totals_of(row: Mapping[str, Any]) -> dict[str, Any]:
    wall_s, chars = row.get("wall_s"), row.get("chars_raw")
    rate = chars / wall_s if chars is not None and wall_s else None
    values = dict(zip(TOTALS, (wall_s, rate, chars, row.get("chars_clean")), strict=True))
    return {key: value for key, value in values.items() if value is not None}


def item_of(row: Mapping[str, Any], *, passed: bool, before: str, after: str) -> dict[str, Any]:
    """A sample as an item of ``passes`` or ``failures``; ``row`` has the columns of ``samples``."""
    values = {
        "prompt_smiles": row["smiles"],
        "generated_smiles": row["generated_smiles"],
        "smiles_exact_match": row["exact_match"],
        "has_real_coordinates": row["has_real_coordinates"],
        "parse_success": row["parsed"],
        "issues": list(row["issues"] or ()),
        TEXT: f"{before}{row['text']}{after}",
        "parse_error": row["parse_error"],
        "generation_has_same_molecular_graph": row["same_graph"],
        "extracted_smiles": row["extracted_smiles"] or None,
    }
    return {key: values[key] for key in (OF_PASS if passed else OF_FAILURE) if values[key] is not None}


def main_of(passed: Sequence[bool]) -> int:
    """Of which generation an item speaks, unless a file says so: the first that passed, else the first."""
    return next((index for index, has_passed in enumerate(passed) if has_passed), 0)


def _processor(lp: str | None, family: str | None) -> dict[str, Any]:
    if lp is None:
        return {}
    if lp == "none":
        return {"logit_processor_enabled": False}
    values: dict[str, Any] = {"logit_processor_enabled": True, "processor_type": lp}
    if lp in (ALIASES["generic"], "position-blocklist") and family != "Qwen":
        values["processor_type"] = "generic"
    elif lp in _QWEN_VERSIONS:
        values |= {"processor_type": "qwen", "version": _QWEN_VERSIONS[lp]}
    return values


# --- what a file says otherwise -----------------------------------------------------------------------------------


def differences(
    content: Mapping[str, Any], ours: Mapping[str, Any], known: Collection[str], taken: Collection[str] = ()
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a file says under keys that are neither the format's nor ours, and what it says otherwise than ``ours``."""
    unknown = {key: value for key, value in content.items() if key not in known and key not in taken}
    said = {**ours, **unknown}  # compared as JSON: 1, 1.0 and true are three values in a file
    is_same = {key for key, value in content.items() if key in said and compact(value) == compact(said[key])}
    return unknown, {key: value for key, value in content.items() if key not in is_same}


def restored(
    ours: Mapping[str, Any], extra: Mapping[str, Any], reported: Mapping[str, Any], unreported: Collection[str]
) -> dict[str, Any]:
    """The words of a file: ours, less what it left out, and with what it said otherwise and beyond."""
    return {key: value for key, value in ours.items() if key not in unreported} | {**extra, **reported}


def compact(value: Any) -> str:
    """JSON in the one form that equal values share."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
