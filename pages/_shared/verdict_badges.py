"""A verdict as badges: text, stereo, geometry, RMSD and strain, each with its mark; then what is wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import streamlit as st

from engine.chem.verdict import NOT_JUDGED, check_words, is_stereo_judged, strain_words
from engine.figures.words import counted
from engine.records import RULES_HELP
from pages._shared.errors import escape_markdown
from pages._shared.words import failed_words, unbroken

_COLOURS: dict[bool | None, Literal["green", "yellow", "gray"]] = {True: "green", False: "yellow", None: "gray"}
_ICONS = {True: ":material/check:", False: ":material/warning:", None: None}
_GEOMETRY = {True: "geometry right", False: "geometry wrong", None: "geometry not judged"}
_TEXT: dict[str, Any] = {
    "clean": {"label": "text clean", "color": "green", "icon": ":material/check:"},
    "passed": {"label": "text passed, damaged", "color": "orange", "icon": ":material/warning:"},
    "undecoded": {"label": "passed, does not decode", "color": "orange", "icon": ":material/warning:"},
    "failed": {"label": "text failed", "color": "red", "icon": ":material/close:"},
}


def text_badge(sample: Mapping[str, Any]) -> None:
    word = "clean" if sample["clean"] else "passed" if sample["passed"] else "failed"
    if word == "passed" and sample["decodes"] is False:
        word = "undecoded"
    st.badge(**_TEXT[word], help=RULES_HELP)


def molecule_badges(sample: Mapping[str, Any]) -> None:
    """What is not known has none."""
    if unjudged := [failed["check"] for failed in sample.get("failed") or () if failed["check"] in NOT_JUDGED]:
        _badge(check_words(unjudged[0]), False)
    elif sample.get("usable") is not None:
        sites, right = sample["stereo_sites"], sample["stereo_sites_right"]
        found = f"stereo {right} of {sites} right" if sites else "no stereo specified"
        _badge(found if is_stereo_judged(sample) else "stereo not judged", sample["stereo_right"])
        _badge(_GEOMETRY[sample["geometry_right"]], sample["geometry_right"])
    if sample.get("rmsd_ang") is not None:
        _badge(f"RMSD {sample['rmsd_ang']:.2f} Å", None)
    if words := strain_words(sample):  # lanes are narrow, and a badge has one line
        first, _, rest = words.partition("; ")
        _badge(f"strain {first}", None, help=rest or None)


def failed_checks(failed: Sequence[Mapping[str, Any]], most: int) -> None:
    for check in failed[:most]:
        st.caption(f":material/warning: {unbroken(escape_markdown(failed_words(check)))}")
    if len(failed) > most:
        st.caption(f"and {counted(len(failed) - most, 'more failed check')}")


def _badge(label: str, is_right: bool | None, help: str | None = None) -> None:
    st.badge(label, color=_COLOURS[is_right], icon=_ICONS[is_right], help=help)
