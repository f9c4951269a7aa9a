"""All conformers of a run that can be read, with what is known of each: what a file of structures is made of."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rdkit import Chem

from engine.chem.enriched import decode
from engine.errors import DriftscopeError
from engine.store.store import Store

PROPERTIES = ("run_id", "sample_id", "smiles", "passed", "clean", "bad_blocks", "cut_blocks", "rmsd_ang")


def conformers_of(
    store: Store, run_id: str, sample_ids: Iterable[int] | None = None
) -> tuple[list[tuple[str, Chem.Mol]], list[dict[str, Any]]]:
    """Named molecules and their properties, in the order of the samples; a text that does not decode is left out."""
    rows = store.rows(
        f"SELECT text, {', '.join(PROPERTIES)} FROM samples WHERE run_id = $run ORDER BY sample_id", {"run": run_id}
    )
    wanted = None if sample_ids is None else set(sample_ids)
    mols, properties = [], []
    for row in rows:
        if wanted is not None and row["sample_id"] not in wanted:
            continue
        try:
            mols.append((f"{run_id} #{row['sample_id']}", decode(row["text"] or "").mol))
        except DriftscopeError:
            continue
        properties.append({name: row[name] for name in PROPERTIES if row[name] is not None})
    return mols, properties
