"""The lanes' figures side by side: a column a lane, so that all of them fit; with ratios to the first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from engine.figures.words import UNKNOWN, percent, times, whole
from engine.live.lane_state import LaneWatch
from engine.live.summary import figures_of, with_ratios
from engine.records import RULE_HELP
from pages._shared.html_table import ColumnGroup, TableCell, TableRow, grouped_table

OF_GUARD = {"redrawn_blocks", "thrown_tokens"}


def _with(unit: str, decimals: int) -> Callable[[float | None], str]:
    """As the lanes' own badges have it."""
    return lambda value: UNKNOWN if value is None else f"{value:,.{decimals}f} {unit}"


FIGURES: dict[str, tuple[str, Callable[[Any], str], str]] = {
    "seconds": ("Time", _with("s", 2), "Decoding time, from prompt to last token"),
    "time_ratio": ("Time, ratio", times, "Divided by the first lane's"),
    "tokens": ("Tokens", whole, "Of all samples, with the token that ends each"),
    "tokens_a_second": ("Tokens/s", whole, ""),
    "speed_ratio": ("Tokens/s, ratio", times, "Divided by the first lane's"),
    "forced_share": ("Forced", percent, "Tokens without a choice"),
    "forward_passes": ("Passes", whole, "Forward passes; forced tokens may need none"),
    "redrawn_blocks": ("Drawn anew", whole, "How often the guard found a block wrong"),
    "thrown_tokens": ("Thrown tokens", whole, "Cost of that; not among the tokens"),
    "samples": ("Samples", whole, ""),
    "passes": ("Passed", whole, RULE_HELP["passed"]),
    "decodes": ("Decodes", whole, RULE_HELP["decodes"]),
    "clean": ("Clean", whole, RULE_HELP["clean"]),
    "usable": ("Usable", whole, "Clean, stereo right, geometry right"),
    "stereo_right": ("Stereo right", whole, "All that the SMILES specifies, in space; – where it specifies nothing"),
    "geometry_right": ("Geometry right", whole, "No check of PoseBusters failed"),
    "strain_kcal": ("Strain", _with("kcal/mol", 1), "Above the relaxed conformer"),
    "bad_blocks": ("Damaged blocks", whole, "Neither exact nor unverified"),
    "cut_blocks": ("Cut blocks", whole, ""),
    "rmsd_ang": ("RMSD", _with("Å", 2), "To the nearest reference conformer (ETKDGv3); mean over the samples below"),
    "rmsd_samples": ("RMSD samples", whole, "Samples that the strict reader takes"),
}
NOTES = {"strain_kcal": "mean where geometry is right"}
"""In sight: a lane's badge has a strain also where the geometry is wrong."""


def figures_table(lanes: Sequence[tuple[str, LaneWatch, Mapping[str, Any] | None]]) -> str:
    """Of each lane its title, its state, and its row of ``runs``, None where it was not finished."""
    rows = [
        figures_of(watch, row) | {"rmsd_samples": None if row is None else row.get("rmsd_samples")}
        for _, watch, row in lanes
    ]
    figures = with_ratios(rows)
    is_guarded = any(watch.is_guarded for _, watch, _ in lanes)
    table = [
        TableRow(label, tuple(TableCell(form(lane[name])) for lane in figures), help=about, note=NOTES.get(name, ""))
        for name, (label, form, about) in FIGURES.items()
        if is_guarded or name not in OF_GUARD
    ]
    columns = [ColumnGroup(title) for title, _, _ in lanes]
    return grouped_table("Figure", columns, table, "Figures of the lanes, and ratios to the first")
