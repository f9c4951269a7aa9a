"""Samples as rows of the store's tables, and what a group of them adds up to.

Written by the engine or read from a report file, samples come here as the same records. What a model was asked later
(masses, continuations, steps) is handed in beside them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import pyarrow as pa

from engine.chem.group_reader import misread_ang
from engine.decode.samples import Guarding, Sample, ThrownTry
from engine.decode.steps import Diagnosis
from engine.records import CHECK_COLUMNS, VERDICT_COLUMNS, Block, Check, MoleculeVerdict
from engine.store.schema import BLOCKS, SAMPLES, TRIES
from engine.text.align import AlignedToken
from engine.text.blocks import SOUND, has_letter, has_nonnumeric

_MEANS = (("rmsd_ang", "rmsd_sum_ang", "rmsd_samples"), ("strain_kcal", "strain_sum_kcal", "strain_samples"))
MOST_MEASURED = 1e15
"""Of an RMSD or a strain, in a damaged store: above it no molecule is."""
_MEASURES = ("_s", "_mb", "_ang", "_kcal")
_NAMED = ("sample_id", "generation", "smiles", "atoms", "text", "token_ids", "forced", "stop_reason")
BLOCK_COLUMNS = tuple(field.name for field in fields(Block))
TOKEN_COLUMNS = ("pos", "token_id", "piece", "forced", "template_id", "block")
DIAGNOSIS_COLUMNS = (
    *("block", "rule", "p_raw", "p_lp", "allowed_mass", "rank_raw", "entropy_nat"),
    *("ln_p", "ln_p_tempered", "ln_mass", "ln_q"),
)


@dataclass(frozen=True, slots=True)
class StoredSample:
    """One sample on its way into the store. ``text`` is checked, ``blocks`` speak of what was written."""

    sample_id: int
    generation: int
    smiles: str
    heavy_atoms: int | None
    atoms: int | None
    text: str
    check: Check
    blocks: tuple[Block, ...]
    token_ids: tuple[int, ...] | None = None
    forced: tuple[bool, ...] | None = None
    stop_reason: str | None = None
    decode_s: float | None = None
    rmsd_ang: float | None = None
    raw_chars: int | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    continued: Mapping[int, str] = field(default_factory=dict)  # by block
    verdict: MoleculeVerdict | None = None
    guarding: Guarding | None = None  # None without a guard
    has_template: bool = True  # a report file's tokenizer may be unknown

    @classmethod
    def of(cls, sample: Sample, heavy_atoms: int, **more: Any) -> StoredSample:
        extra = {} if sample.raw_text == sample.text else {"raw_text": sample.raw_text}
        same = {name: getattr(sample, name) for name in (*_NAMED, "check", "blocks", "guarding")}
        return cls(**same, heavy_atoms=heavy_atoms, raw_chars=len(sample.raw_text), extra=extra, **more)

    @property
    def bad_blocks(self) -> int:
        return sum(not SOUND.issuperset(block.kinds) for block in self.blocks)

    @property
    def cut_blocks(self) -> int:
        return sum("cut" in block.kinds for block in self.blocks)


def tables_of(run_id: str, samples: Sequence[StoredSample]) -> dict[str, pa.Table]:
    """The rows of ``samples`` and ``blocks``."""
    return {
        SAMPLES.name: SAMPLES.rows([_sample_row(run_id, sample) for sample in samples]),
        BLOCKS.name: BLOCKS.rows([_block_row(run_id, sample, block) for sample in samples for block in sample.blocks]),
    }


def step_rows(
    sample_id: int, aligned: Iterable[AlignedToken], diagnoses: Sequence[Diagnosis]
) -> Iterator[dict[str, Any]]:
    """The rows of ``steps`` of one sample: each of its tokens, with what the model thought there."""
    for token in aligned:
        if token.pos is None or token.token_id is None:
            continue
        row: dict[str, Any] = {"sample_id": sample_id, **{name: getattr(token, name) for name in TOKEN_COLUMNS}}
        row["role"] = token.role or token.text_role
        if token.pos < len(diagnoses):
            diagnosis = diagnoses[token.pos]
            tops = [{"token_id": top.token_id, "p_raw": top.p_raw, "allowed": top.allowed} for top in diagnosis.top_k]
            row |= {name: getattr(diagnosis, name) for name in DIAGNOSIS_COLUMNS} | {"top_k": tops}
        yield row


def tries_table(run_id: str, tries: Iterable[tuple[int, int, ThrownTry, str]]) -> pa.Table:
    """Each try that was thrown away: its sample, its number there, itself, and its text."""
    rows = []
    for sample, number, thrown, text in tries:
        back, steps = thrown.back, thrown.steps
        rows.append({"run_id": run_id, "sample_id": sample, "number": number, "pos": back.pos, "block": back.block,
                     "check": back.reason.check, "atoms": back.reason.atoms, "text": text,
                     "token_ids": [step.token_id for step in steps],
                     "forced": [step.forced for step in steps]})  # fmt: skip
    return TRIES.rows(rows)


def sums_of(samples: Sequence[StoredSample]) -> dict[str, float]:
    """What the samples add up to, by column of ``runs``, and the largest figure of those of which a run has that."""
    blocks = [block for sample in samples for block in sample.blocks]
    # A sound block is read as it stands; one of bins is not for the group's reader.
    damaged = (block for block in blocks if not SOUND.issuperset(block.kinds))
    found = (misread_ang(block.text, (block.x, block.y, block.z)) for block in damaged)
    misread = [ang for ang in found if ang is not None]
    sums: dict[str, float] = {
        "samples": len(samples),
        "passes": sum(sample.check.passed for sample in samples),
        "decodes": sum(sample.check.decodes for sample in samples),
        "clean": sum(sample.check.clean for sample in samples),
        "blocks": len(blocks),
        "junk_letters": sum(has_letter(block.text) for block in blocks),
        "junk_nonnumeric": sum(has_nonnumeric(block.text) for block in blocks),
        "bad_blocks": sum(sample.bad_blocks for sample in samples),
        "cut_blocks": sum(sample.cut_blocks for sample in samples),
        "unverified_blocks": sum("unverified" in block.kinds for block in blocks),
        "misread_blocks": len(misread),
        "chars_raw": sum(len(sample.text) if sample.raw_chars is None else sample.raw_chars for sample in samples),
        "chars_clean": sum(len(sample.text) for sample in samples),
    }
    if known := _known(misread):
        sums["misread_most_ang"] = max(known)
    if rmsds := _known(sample.rmsd_ang for sample in samples):
        sums |= {"rmsd_samples": len(rmsds), "rmsd_sum_ang": math.fsum(rmsds)}
    sums |= verdict_sums((sample.check.clean, sample.verdict) for sample in samples if sample.verdict is not None)
    if guarded := [sample.guarding for sample in samples if sample.guarding is not None]:
        sums["redrawn_blocks"] = sum(one.redrawn_blocks for one in guarded)
        sums["thrown_tokens"] = sum(one.thrown_tokens for one in guarded)
        sums["unmended_samples"] = sum(bool(one.unmended) for one in guarded)
    if all(sample.token_ids is not None for sample in samples):
        sums["tokens"] = sum(len(sample.token_ids or ()) for sample in samples)
        sums["forced_tokens"] = sum(sum(sample.forced or ()) for sample in samples)
    return sums


def verdict_sums(judged: Iterable[tuple[bool | None, MoleculeVerdict]]) -> dict[str, float]:
    """What verdicts add up to, each with whether its text is clean (None: not known); nothing where there are none."""
    pairs = list(judged)
    verdicts = [verdict for _, verdict in pairs]
    if not verdicts:
        return {}
    sums: dict[str, float] = {
        "judged": len(verdicts),
        "stereo_judged": sum(verdict.stereo_right is not None for verdict in verdicts),
        "stereo_right": sum(verdict.stereo_right is True for verdict in verdicts),
        "stereo_sites": sum(verdict.stereo_sites for verdict in verdicts),
        "stereo_sites_right": sum(verdict.stereo_sites_right for verdict in verdicts),
        "geometry_judged": sum(verdict.geometry_right is not None for verdict in verdicts),
        "geometry_right": sum(verdict.geometry_right is True for verdict in verdicts),
        "usable": sum(clean is not None and verdict.is_usable(clean) for clean, verdict in pairs),
    }
    if strains := _known(verdict.strain_kcal for verdict in verdicts if verdict.geometry_right):
        sums |= {"strain_samples": len(strains), "strain_sum_kcal": math.fsum(strains)}
    return sums


def run_columns(sums: Mapping[str, float]) -> dict[str, float | int]:
    """Sums of groups as columns of ``runs``: measures as floats, counts as integers; of RMSDs and strains the mean."""
    columns = {name: value if name.endswith(_MEASURES) else int(value) for name, value in sums.items()}
    for mean, total, count in _MEANS:
        if columns.pop(total, None) is not None:
            columns[mean] = sums[total] / sums[count]
    return columns


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None and abs(value) < MOST_MEASURED]


def verdict_row(clean: bool | None, verdict: MoleculeVerdict | None) -> dict[str, Any]:
    """Columns of ``samples``; all null without a verdict."""
    if verdict is None:
        return {}
    row = {name: getattr(verdict, name) for name in VERDICT_COLUMNS}
    return row | {
        "failed": [asdict(failure) for failure in verdict.failed],
        "usable": None if clean is None else verdict.is_usable(clean),
    }


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


def _sample_row(run_id: str, sample: StoredSample) -> dict[str, Any]:
    drifts = [block.drift for block in sample.blocks if block.drift is not None]
    own = (*_NAMED, "heavy_atoms", "bad_blocks", "cut_blocks", "decode_s", "rmsd_ang")
    return {
        "run_id": run_id,
        **{name: getattr(sample, name) for name in own},
        **{name: getattr(sample.check, name) for name in CHECK_COLUMNS},
        "tokens": None if sample.token_ids is None else len(sample.token_ids),
        "forced_tokens": None if sample.forced is None else sum(sample.forced),
        "blocks": len(sample.blocks),
        "drift": sum(drifts) if drifts else None,
        **_guarding_row(sample.guarding),
        **verdict_row(sample.check.clean, sample.verdict),
        "extra": json.dumps(sample.extra, ensure_ascii=False, sort_keys=True) if sample.extra else None,
    }


def _block_row(run_id: str, sample: StoredSample, block: Block) -> dict[str, Any]:
    return {
        "run_id": run_id,
        "sample_id": sample.sample_id,
        **{name: getattr(block, name) for name in BLOCK_COLUMNS},
        "template_free": block.template_free if sample.has_template else None,
        "junk_tokens": None if sample.token_ids is None else block.junk_tokens,  # text alone does not tell
        "continued_text": sample.continued.get(block.block, block.continued_text),
    }
