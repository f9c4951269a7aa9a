"""Samples as rows of the store's tables, and what a group of them adds up to.

Written by the engine or read from a report file, a sample is the same row. Nothing here knows the store's files.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from engine.chem.enriched import misread_ang
from engine.decode.samples import Guarding, Sample, ThrownTry
from engine.decode.steps import Diagnosis, Shaping
from engine.records import Block, Check, MoleculeVerdict, NumberFormat, is_open
from engine.store.columns import Table
from engine.store.reports import BEFORE
from engine.store.schema import BLOCKS, SAMPLES, STEPS, TRIES
from engine.text.align import AlignedToken
from engine.text.blocks import READ_FORMAT, SOUND, has_letter, has_nonnumeric

_MEANS = {"rmsd_ang": ("rmsd_samples", "rmsd_sum_ang"), "strain_kcal": ("strain_samples", "strain_sum_kcal")}
"""By column of ``runs``: what it is the mean of."""
SUMMED = ("decodes", "clean", "blocks", "bad_blocks", "cut_blocks", "conformers")
MOST_MEASURED = 1e15
"""Of an RMSD or a strain, in a damaged store: above it no molecule is."""
Row = dict[str, Any]


def sample_row(check: Check, blocks: Sequence[Block], extra: Mapping[str, Any], columns: Row) -> Row:
    """A row of ``samples``: what its text's check and its blocks say, and what else is known of it."""
    drifts = [block.drift for block in blocks if block.drift is not None]
    return {
        **columns,
        **_columns(check, SAMPLES),
        "blocks": len(blocks),
        "bad_blocks": sum(not SOUND.issuperset(block.kinds) for block in blocks),
        "cut_blocks": sum("cut" in block.kinds for block in blocks),
        "drift": sum(drifts) if drifts else None,
        "extra": json.dumps(extra, ensure_ascii=False, sort_keys=True) if extra else None,
    }


def written_row(sample: Sample, verdict: MoleculeVerdict | None = None, before: str = "", **more: Any) -> Row:
    """The row of what was written here. Its ``text`` is checked; its blocks speak of what was written. ``before``: all
    that it was asked with, where that is not the usual prompt."""
    known = {"raw_text": None if sample.raw_text == sample.text else sample.raw_text, BEFORE: before or None}
    extra = {name: text for name, text in known.items() if text is not None}
    check = sample.check
    verdicts = verdict_row(check.clean, verdict, check.clean_each)
    row = _columns(sample, SAMPLES) | _guarding_row(sample.guarding) | verdicts | more
    return sample_row(check, sample.blocks, extra, row)


def block_rows(sample_id: int, blocks: Iterable[Block], **unknown: None) -> list[Row]:
    """Rows of ``blocks``; ``unknown`` are columns of which nothing is known."""
    return [{"sample_id": sample_id, **_columns(block, BLOCKS), **unknown} for block in blocks]


def _columns(record: Any, table: Table) -> Row:
    """What a record has under the names of a table's columns; of None nothing."""
    return {name: getattr(record, name) for name in table.by_name if hasattr(record, name)}


def tables_of(run_id: str, samples: Sequence[Row], blocks: Sequence[Row]) -> dict[str, pa.Table]:
    each = ((SAMPLES, samples), (BLOCKS, blocks))
    return {table.name: table.rows([{"run_id": run_id, **row} for row in rows]) for table, rows in each}


def step_rows(
    sample_id: int,
    aligned: Iterable[AlignedToken],
    diagnoses: Sequence[Diagnosis],
    shapings: Mapping[int, Shaping] | None = None,
) -> Iterator[dict[str, Any]]:
    """The rows of ``steps`` of one sample: each of its tokens, with what the model thought there."""
    for token in aligned:
        if token.pos is None or token.token_id is None:
            continue
        diagnosis = diagnoses[token.pos] if token.pos < len(diagnoses) else None
        yield {
            "sample_id": sample_id,
            **_columns(token, STEPS),
            "role": token.role or token.text_role,
            **_columns(diagnosis, STEPS),
            "top_k": None if diagnosis is None else list(map(asdict, diagnosis.top_k)),
            **_columns((shapings or {}).get(token.pos), STEPS),  # its ln_q, where it has one
        }


def tries_table(run_id: str, tries: Iterable[tuple[int, int, ThrownTry, str]]) -> pa.Table:
    """Each try that was thrown away: its sample, its number there, itself, and its text."""
    rows = []
    for sample, number, thrown, text in tries:
        tokens = {"token_ids": [step.token_id for step in thrown.steps], "forced": [s.forced for s in thrown.steps]}
        why = _columns(thrown.back, TRIES) | _columns(thrown.back.reason, TRIES)
        rows.append({"run_id": run_id, "sample_id": sample, "number": number, **why, "text": text, **tokens})
    return TRIES.rows(rows)


def sums_of(samples: Sequence[Row], blocks: Sequence[Row], form: NumberFormat = READ_FORMAT) -> dict[str, float]:
    """What rows add up to, by column of ``runs``, and the largest figure of those of which a run has that."""
    chars = sum(len(row["text"]) for row in samples)
    has_ids = all(row.get("token_ids") is not None for row in samples)
    return {
        "samples": len(samples),
        "passes": _sum(samples, "passed"),
        **{name: _sum(samples, name) for name in SUMMED},
        **{f"{name}_conformers": sum(sum(row[f"{name}_each"]) for row in samples) for name in ("passed", "clean")},
        **_block_sums(blocks, form),
        "chars_raw": chars,
        "chars_clean": chars,
        **_sums_of_mean("rmsd_ang", [row.get("rmsd_ang") for row in samples]),
        **{name: _sum(samples, name) for name in ("tokens", "forced_tokens") if has_ids},
        **_guard_sums(samples),
        **verdict_sums(samples),
    }


def _block_sums(blocks: Sequence[Row], form: NumberFormat) -> dict[str, float]:
    damaged = (block for block in blocks if not SOUND.issuperset(block["kinds"]))  # a sound block is read as it is
    distances = (misread_ang(block["text"], (block["x"], block["y"], block["z"]), form) for block in damaged)
    misread = [ang for ang in distances if ang is not None]
    measured = _measured(misread)
    return {
        "junk_letters": sum(has_letter(block["text"]) for block in blocks),
        "junk_nonnumeric": sum(has_nonnumeric(block["text"]) for block in blocks),
        "unverified_blocks": sum("unverified" in block["kinds"] for block in blocks),
        "misread_blocks": len(misread),
        **({"misread_most_ang": max(measured)} if measured else {}),
    }


def _guard_sums(samples: Iterable[Row]) -> dict[str, float]:
    guarded = [row for row in samples if row.get("unmended") is not None]
    if not guarded:
        return {}
    shaped = [row for row in guarded if row.get("dead_ends") is not None]
    return {
        **{name: _sum(guarded, name) for name in ("redrawn_blocks", "thrown_tokens")},
        "unmended_samples": sum(bool(row["unmended"]) for row in guarded),
        **{name: _sum(shaped, name) for name in ("dead_ends", "struck_tokens") if shaped},
    }


def verdict_sums(samples: Iterable[Row]) -> dict[str, float]:
    """What the verdicts of these rows add up to; nothing where there are none."""
    seen = [row for row in samples if row.get("stereo_sites") is not None]
    if not seen:
        return {}
    judged = [row for row in seen if not _is_open(row)]
    each = [row["usable_each"] for row in judged if row.get("usable_each") is not None]
    counts = ("stereo_sites", "stereo_sites_right", "stereo_right", "geometry_right", "usable")
    return {
        "judged": len(judged),
        "stereo_judged": sum(row["stereo_right"] is not None for row in judged),
        "geometry_judged": sum(row["geometry_right"] is not None for row in judged),
        **{name: _sum(judged, name) for name in counts},
        **({"judged_conformers": sum(map(len, each)), "usable_conformers": sum(map(sum, each))} if each else {}),
        **_sums_of_mean("strain_kcal", [row["strain_kcal"] for row in judged if row["geometry_right"]]),
    }


def _is_open(row: Row) -> bool:
    return is_open(failed["check"] for failed in row.get("failed") or ())


def _sums_of_mean(mean: str, values: Iterable[float | None]) -> dict[str, float]:
    """What ``mean`` is of: how many values, and their sum; nothing where none is measured."""
    measured = _measured(values)
    return dict(zip(_MEANS[mean], (len(measured), math.fsum(measured)), strict=True)) if measured else {}


def run_columns(sums: Mapping[str, float]) -> dict[str, float]:
    """Sums of groups as columns of ``runs``: of RMSDs and strains the mean."""
    columns = dict(sums)
    for mean, (count, total) in _MEANS.items():
        if columns.pop(total, None) is not None:
            columns[mean] = sums[total] / sums[count]
    return columns


def _sum(rows: Iterable[Row], column: str) -> int:
    return sum(row[column] or 0 for row in rows)


def _measured(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None and abs(value) < MOST_MEASURED]


def verdict_row(
    clean: bool | None, verdict: MoleculeVerdict | None, clean_each: Sequence[bool] | None = None
) -> dict[str, Any]:
    """Columns of ``samples``; all null without a verdict. ``clean_each``: by conformer; None where there is one."""
    if verdict is None:
        return {}
    usable = each = None
    if clean is not None and not is_open(failed.check for failed in verdict.failed):
        usable, each = verdict.is_usable(clean), verdict.which_usable(clean_each or (clean,))
    more = {"failed": list(map(asdict, verdict.failed)), "usable": usable, "usable_each": each}
    return _columns(verdict, SAMPLES) | more


def _guarding_row(guarding: Guarding | None) -> dict[str, Any]:
    if guarding is None:
        return {}
    tokens: dict[str, list[int]] = {}  # thrown away, by check
    for thrown in guarding.thrown:
        tokens.setdefault(thrown.back.reason.check, []).append(len(thrown.steps))
    return {
        **guarding.figures,
        "thrown_by": [{"check": c, "times": len(n), "tokens": sum(n)} for c, n in sorted(tokens.items())],
        "unmended": [{"check": wrong.check, "atoms": wrong.atoms} for wrong in guarding.unmended],
    }
