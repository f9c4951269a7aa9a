"""The verdict on a molecule as badges: stereo, geometry, RMSD and strain, each with its mark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.chem.verdict import LOADED

_COLOURS = {True: "green", False: "yellow", None: "gray"}
_ICONS = {True: ":material/check:", False: ":material/warning:", None: None}


def molecule_badges(sample: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Arguments of ``st.badge``. What is not known has none."""
    badges = []
    if any(failed["check"] == LOADED for failed in sample.get("failed") or ()):
        badges = [_badge("no conformer to judge", False)]
    elif sample.get("usable") is not None:
        sites, right = sample["stereo_sites"], sample["stereo_sites_right"]
        words = {True: "geometry right", False: "geometry wrong", None: "geometry not judged"}
        badges = [
            _badge(f"stereo {right} of {sites} right" if sites else "no stereo specified", sample["stereo_right"]),
            _badge(words[sample["geometry_right"]], sample["geometry_right"]),
        ]
    for name, form in (("rmsd_ang", "RMSD {:.2f} Å"), ("strain_kcal", "strain {:.1f} kcal/mol")):
        if sample.get(name) is not None:
            badges.append(_badge(form.format(sample[name]), None))
    return badges


def _badge(label: str, is_right: bool | None) -> dict[str, Any]:
    return {"label": label, "color": _COLOURS[is_right], "icon": _ICONS[is_right]}
