"""Samples as rows of the store's tables, and what a group of them adds up to.

Written by the engine or read from a report file, samples come here as the same records. What a model was asked later
(masses, continuations, steps) is handed in beside them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from engine.decode.samples import Sample
from engine.decode.steps import Diagnosis
from engine.records import Block, Check
from engine.store.schema import BLOCKS, SAMPLES, STEPS
from engine.text.align import AlignedToken
from engine.text.blocks import has_letter, has_nonnumeric

RMSD_SUM = "rmsd_sum_ang"
"""No column: what ``rmsd_ang`` of a run is made of."""
SOUND = frozenset({"exact", "unverified"})


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
    has_template: bool = True  # a report file's tokenizer may be unknown

    @classmethod
    def of(cls, sample: Sample, heavy_atoms: int, **more: Any) -> StoredSample:
        extra = {} if sample.raw_text == sample.text else {"raw_text": sample.raw_text}
        return cls(
            sample_id=sample.sample_id,
            generation=sample.generation,
            smiles=sample.smiles,
            heavy_atoms=heavy_atoms,
            atoms=sample.atoms,
            text=sample.text,
            check=sample.check,
            blocks=sample.blocks,
            token_ids=sample.token_ids,
            forced=sample.forced,
            stop_reason=sample.stop_reason,
            raw_chars=len(sample.raw_text),
            extra=extra,
            **more,
        )

    @property
    def bad_blocks(self) -> int:
        return sum(not SOUND.issuperset(block.kinds) for block in self.blocks)

    @property
    def cut_blocks(self) -> int:
        return sum("cut" in block.kinds for block in self.blocks)


def tables_of(run_id: str, samples: Sequence[StoredSample]) -> dict[str, pa.Table]:
    """The rows of ``samples`` and ``blocks``."""
    return {
        SAMPLES.name: SAMPLES.rows([_sample_row(run_id, one) for one in samples]),
        BLOCKS.name: BLOCKS.rows([_block_row(run_id, one, block) for one in samples for block in one.blocks]),
    }


def steps_table(run_id: str, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    return STEPS.rows([{"run_id": run_id, **row} for row in rows])


def step_rows(
    sample_id: int, aligned: Iterable[AlignedToken], diagnoses: Sequence[Diagnosis]
) -> Iterator[dict[str, Any]]:
    """The rows of ``steps`` of one sample: each of its tokens, with what the model thought there."""
    for one in aligned:
        if one.pos is None or one.token_id is None:
            continue
        row: dict[str, Any] = {
            "sample_id": sample_id,
            "pos": one.pos,
            "token_id": one.token_id,
            "piece": one.piece,
            "role": one.role or one.text_role,
            "forced": one.forced,
            "template_id": one.template_id,
            "block": one.block,
        }
        yield row | (_diagnosis_columns(diagnoses[one.pos]) if one.pos < len(diagnoses) else {})


def sums_of(samples: Sequence[StoredSample]) -> dict[str, float]:
    """What the samples add up to, by column of ``runs``."""
    blocks = [block for one in samples for block in one.blocks]
    sums: dict[str, float] = {
        "samples": len(samples),
        "passes": sum(one.check.passed for one in samples),
        "clean": sum(one.check.clean for one in samples),
        "blocks": len(blocks),
        "junk_letters": sum(has_letter(block.text) for block in blocks),
        "junk_nonnumeric": sum(has_nonnumeric(block.text) for block in blocks),
        "bad_blocks": sum(one.bad_blocks for one in samples),
        "cut_blocks": sum(one.cut_blocks for one in samples),
        "unverified_blocks": sum("unverified" in block.kinds for block in blocks),
        "chars_raw": sum(len(one.text) if one.raw_chars is None else one.raw_chars for one in samples),
        "chars_clean": sum(len(one.text) for one in samples),
    }
    rmsds = [one.rmsd_ang for one in samples if one.rmsd_ang is not None and math.isfinite(one.rmsd_ang)]
    if rmsds:
        sums |= {"rmsd_samples": len(rmsds), RMSD_SUM: math.fsum(rmsds)}
    if all(one.token_ids is not None for one in samples):
        sums["tokens"] = sum(len(one.token_ids or ()) for one in samples)
        sums["forced_tokens"] = sum(sum(one.forced or ()) for one in samples)
    return sums


def _sample_row(run_id: str, one: StoredSample) -> dict[str, Any]:
    check = one.check
    drifts = [block.drift for block in one.blocks if block.drift is not None]
    return {
        "run_id": run_id,
        "sample_id": one.sample_id,
        "generation": one.generation,
        "smiles": one.smiles,
        "text": one.text,
        "token_ids": one.token_ids,
        "forced": one.forced,
        "stop_reason": one.stop_reason,
        "passed": check.passed,
        "clean": check.clean,
        "issues": check.issues,
        "parsed": check.parsed,
        "parse_error": check.parse_error,
        "same_graph": check.same_graph,
        "exact_match": check.exact_match,
        "generated_smiles": check.generated_smiles,
        "extracted_smiles": check.extracted_smiles,
        "has_real_coordinates": check.has_real_coordinates,
        "atoms": one.atoms,
        "heavy_atoms": one.heavy_atoms,
        "tokens": None if one.token_ids is None else len(one.token_ids),
        "forced_tokens": None if one.forced is None else sum(one.forced),
        "blocks": len(one.blocks),
        "bad_blocks": one.bad_blocks,
        "cut_blocks": one.cut_blocks,
        "drift": sum(drifts) if drifts else None,
        "decode_s": one.decode_s,
        "rmsd_ang": one.rmsd_ang,
        "extra": json.dumps(one.extra, ensure_ascii=False, sort_keys=True) if one.extra else None,
    }


def _block_row(run_id: str, one: StoredSample, block: Block) -> dict[str, Any]:
    return {
        "run_id": run_id,
        "sample_id": one.sample_id,
        "block": block.block,
        "atom": block.atom,
        "element": block.element,
        "text": block.text,
        "x": block.x,
        "y": block.y,
        "z": block.z,
        "template_free": block.template_free if one.has_template else None,
        "needed": block.needed,
        "drift": block.drift,
        "kinds": block.kinds,
        "junk_text": block.junk_text,
        "junk_tokens": None if one.token_ids is None else block.junk_tokens,  # text alone does not tell
        "continued_text": one.continued.get(block.block, block.continued_text),
    }


def _diagnosis_columns(one: Diagnosis) -> dict[str, Any]:
    return {
        "block": one.block,
        "rule": one.rule,
        "p_raw": one.p_raw,
        "p_lp": one.p_lp,
        "allowed_mass": one.allowed_mass,
        "rank_raw": one.rank_raw,
        "entropy_nat": one.entropy_nat,
        "top_k": [{"token_id": top.token_id, "p_raw": top.p_raw, "allowed": top.allowed} for top in one.top_k],
    }
