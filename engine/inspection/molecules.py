"""The table of samples: a row each, with what its blocks add up to, filtered and ordered.

Kinds of blocks fall into four heaps. *Sound* are ``exact`` and ``unverified``. *Junk* kinds are of what is not three
numbers: letters, punctuation, an extra digit, a fourth number, a missing comma, a trailing mark; a block has junk where
a text of it is too many, which a cut number's last mark is not. *Cut* was closed by force, or by the end of the text,
in the middle of its numbers. ``missing_z`` alone is neither: the model itself ended its block early; nor is
``integer``: it ended a number before its decimals. A block may be junk and cut at once.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.chem.enriched import misread_ang
from engine.chem.verdict import GRAPH
from engine.inspection.axes import AXES, axis_drifts
from engine.inspection.runs import facts_of, number_format
from engine.store.entries import Entry
from engine.store.memo import computed_once
from engine.store.schema import SAMPLES
from engine.store.store import Store
from engine.store.views import WALL_PART_S
from engine.text.blocks import SOUND, displacement_ang

MOST_KEPT = 4
"""Tables that are kept, so that another filter need not read a million blocks again."""

SHOWS: dict[str, Any] = {
    "With junk": pc.field("junk_blocks") > 0,
    "Cut": pc.field("cut_blocks") > 0,
    "Failed": ~pc.field("passed"),
    "Does not decode": ~pc.field("decodes"),
    "Unverified": pc.field("unverified_blocks") > 0,
    "Clean": pc.field("clean"),
}
JUDGED: dict[str, Any] = {
    "Usable": pc.field("usable"),
    "Molecule wrong": ~pc.field("stereo_right")
    | ~pc.field("geometry_right")
    | pc.match_substring(pc.field("checks"), GRAPH),
    "Stereo wrong": ~pc.field("stereo_right"),
    "Geometry wrong": ~pc.field("geometry_right"),
    "Clash": pc.match_substring(pc.field("checks"), "clash"),
}
"""Only true of samples with a judged molecule: without a conformer there is nothing wrong."""

By = Literal["run", "tokenizer", "lp", "element", "axis"]
BYS: tuple[By, ...] = get_args(By)
CUT_BAR = "cut"
"""The bar of cut blocks, which are in no other since their drift is unknown."""
UNKNOWN = "unknown"  # the group of blocks of an unknown tokenizer, LP or element

GROUPS: dict[By, str] = {
    "run": "blocks.run_id",
    "tokenizer": f"coalesce(nullif(tokenizer, ''), '{UNKNOWN}')",
    "lp": f"coalesce(nullif(lp, ''), '{UNKNOWN}')",
    "element": f"coalesce(nullif(element, ''), '{UNKNOWN}')",
}


@dataclass(frozen=True, slots=True)
class DriftBin:
    """One bar of a histogram: a group and a drift."""

    by: By
    group: str
    drift: int

    @classmethod
    def read(cls, text: str) -> DriftBin | None:
        """Of ``lp~exact~-1``, in which a group may have the mark, too; None where it names no bar."""
        match = re.fullmatch(rf"({'|'.join(BYS)})~(.*)~(-?\d{{1,9}})", text, re.ASCII | re.DOTALL)
        return None if match is None else cls(cast(By, match[1]), match[2], int(match[3]))


_BLOCKS = """
    SELECT run_id, sample_id,
           count_if(junk_text <> '') AS junk_blocks,
           coalesce(sum(junk_tokens), 0) AS junk_tokens,
           count_if(kinds[1] = 'unverified') AS unverified_blocks,
           min(drift) AS drift_min, max(drift) AS drift_max,
           list(drift ORDER BY block) AS drifts
    FROM blocks WHERE list_contains($runs, run_id) GROUP BY ALL
"""
_TABLE = f"""
WITH of_blocks AS ({_BLOCKS}),
     with_steps AS (SELECT DISTINCT run_id, sample_id FROM steps WHERE list_contains($runs, run_id))
SELECT samples.run_id, samples.sample_id, generation, smiles,
       CASE WHEN model_step IS NULL THEN coalesce(model_alias, '')
            ELSE coalesce(model_alias, '') || ':' || model_step END AS model,
       coalesce(lp, '') AS lp, coalesce(tokenizer, '') AS tokenizer,
       passed, samples.decodes, samples.clean, samples.usable, samples.stereo_right, samples.geometry_right,
       array_to_string(list_sort(list_distinct(list_transform(failed, lambda found: found['check']))), ', ') AS checks,
       samples.strain_kcal,
       CASE WHEN same_graph IS NOT FALSE THEN samples.strain_kcal / nullif(heavy_atoms, 0) END AS strain_kcal_per_atom,
       samples.strain_moved_ang, stop_reason, issues, atoms, heavy_atoms, samples.tokens,
       samples.forced_tokens / nullif(samples.tokens, 0) AS forced_share,
       coalesce(samples.blocks, 0) AS blocks,
       coalesce(junk_blocks, 0)::INT AS junk_blocks,
       CASE WHEN samples.tokens IS NULL THEN NULL ELSE coalesce(junk_tokens, 0) END::INT AS junk_tokens,
       coalesce(samples.cut_blocks, 0) AS cut_blocks,
       coalesce(samples.bad_blocks, 0) AS bad_blocks,
       coalesce(of_blocks.unverified_blocks, 0)::INT AS unverified_blocks,
       drift, drift_min, drift_max, coalesce(drifts, []) AS drifts, samples.redrawn_blocks, samples.dead_ends,
       samples.rmsd_ang, samples.conformers, list_sum(usable_each::INT[])::INT AS usable_conformers,
       differ_least_ang, differ_mean_ang, {WALL_PART_S} AS wall_part_s,
       with_steps.run_id IS NOT NULL AS has_steps, samples.tokens IS NOT NULL AS has_ids
FROM samples JOIN runs USING (run_id)
     LEFT JOIN of_blocks ON of_blocks.run_id = samples.run_id AND of_blocks.sample_id = samples.sample_id
     LEFT JOIN with_steps ON with_steps.run_id = samples.run_id AND with_steps.sample_id = samples.sample_id
WHERE list_contains($runs, samples.run_id) ORDER BY list_position($runs, samples.run_id), samples.sample_id
"""
# Three plain numbers are the same to every reader.
_LOST = r"""
SELECT run_id, sample_id, coalesce(text, '') AS text, x, y, z, continued_text FROM blocks
WHERE list_contains($runs, run_id) AND NOT list_contains($sound, kinds[1])
      AND (continued_text IS NOT NULL OR NOT regexp_full_match(text, '(-?\d+(\.\d*)?,){2}-?\d+(\.\d*)?'))
ORDER BY run_id, sample_id, block
"""


def sample_table(
    store: Store,
    run_ids: Sequence[str],
    show: str = "",
    smiles: str = "",
    bar: str = "",
    *,
    is_worst_first: bool = False,
) -> pa.Table:
    """One row per sample: see the columns of ``samples``, and next to them what only its run and its blocks say.

    ``model`` is ``alias:step``, ``forced_share`` the share of forced tokens, ``checks`` what the molecule fails (null
    where not judged), ``strain_kcal_per_atom`` its strain per heavy atom, ``junk_tokens`` null where ids are not known,
    ``wall_part_s`` its part of the run's wall time, ``lost_ang`` how far damage puts its atoms off, added up over its
    blocks where known, ``drift`` the sum over its blocks with ``drift_min`` and ``drift_max``, ``drifts`` one a block
    in their order and null where not known. Unless the worst come first, the order is that of the runs given, then of
    their samples. ``show`` is of ``SHOWS`` or ``JUDGED``, or all; ``smiles`` a part of the SMILES as it is written, so
    ``c`` is not ``C``; of ``bar`` are the samples with a block in this bar of the histogram.
    """
    entries = {entry.id: entry for entry in store.listing().entries if SAMPLES.name in entry.parts}
    chosen = [entries[run_id] for run_id in dict.fromkeys(run_ids) if run_id in entries]
    table = _whole_table(store, *chosen).filter((SHOWS | JUDGED).get(show, pc.scalar(True)))
    if smiles:
        table = table.filter(pc.match_substring(table["smiles"], smiles))
    if bar == CUT_BAR:
        table = table.filter(pc.greater(table["cut_blocks"], 0))
    elif (bin := DriftBin.read(bar)) is not None:
        inside = members(store, chosen, bin)
        table = table.filter(pa.array([key in inside for key in _keys(table)], pa.bool_()))
    return _worst_first(table) if is_worst_first else table


def members(store: Store, runs: Sequence[Entry], bin: DriftBin) -> set[tuple[str, int]]:
    """The samples, by run, that have a block, or a coordinate, of this bar."""
    if bin.by == "axis":
        drifts = [(run.id, axis_drifts(store, facts_of(run))) for run in runs if bin.group in AXES]
        matches = ((run_id, of_run.filter(pc.field(bin.group) == bin.drift)["sample_id"]) for run_id, of_run in drifts)
        return {(run_id, sample) for run_id, samples in matches for sample in samples.to_pylist()}
    sql = f"""SELECT DISTINCT blocks.run_id, sample_id FROM blocks JOIN runs USING (run_id)
        WHERE list_contains($runs, blocks.run_id) AND {GROUPS[bin.by]} = $group AND drift = $drift"""
    parameters = {"runs": [run.id for run in runs], "group": bin.group, "drift": bin.drift}
    return set(_keys(store.table(sql, parameters)))


def _keys(table: pa.Table) -> Iterator[tuple[str, int]]:
    return zip(table["run_id"].to_pylist(), table["sample_id"].to_pylist(), strict=True)


@computed_once(MOST_KEPT)
def _whole_table(store: Store, *runs: Entry) -> pa.Table:
    ids = [run.id for run in runs]
    forms = {run.id: number_format(facts_of(run)) for run in runs}
    lost: dict[tuple[str, int], float] = {}  # angstrom by run and sample
    for row in store.table(_LOST, {"runs": ids, "sound": sorted(SOUND)}, of=ids).to_pylist():
        misread = misread_ang(row["text"], (row["x"], row["y"], row["z"]), forms[row["run_id"]])
        cut = displacement_ang(row["text"], row["continued_text"]) if row["continued_text"] else None
        finite = [ang for ang in (misread, cut) if ang is not None and math.isfinite(ang)]
        if finite:  # a block may be off to the group's reader, and by its cut: by an estimate
            key = (row["run_id"], row["sample_id"])
            lost[key] = lost.get(key, 0.0) + max(finite)
    table = store.table(_TABLE, {"runs": ids})
    return table.append_column("lost_ang", pa.array([lost.get(key) for key in _keys(table)], pa.float64()))


def _worst_first(table: pa.Table) -> pa.Table:
    """By harm: those that are not usable first (not clean where not judged, wrong in 3D where there is no text), then
    by how far their atoms are off, then by damaged and cut blocks; what fails the reports' rule and the largest RMSD
    first among equals."""
    in_3d = pc.and_kleene(table["stereo_right"], table["geometry_right"])
    harm = pa.table(
        {
            "usable": pc.coalesce(table["usable"], table["clean"], in_3d).cast(pa.int8()),
            "lost": pc.negate(pc.round(pc.coalesce(table["lost_ang"], 0.0), 2)),
            "bad": pc.negate(table["bad_blocks"]),
            "cut": pc.negate(table["cut_blocks"]),
            "passed": table["passed"].cast(pa.int8()),
            "rmsd": pc.negate(table["rmsd_ang"]),
            "place": np.arange(table.num_rows),
        }
    )
    return table.take(pc.sort_indices(harm, sort_keys=[(name, "ascending") for name in harm.column_names]))
