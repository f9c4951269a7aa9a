"""A verdict as badges: text, stereo, geometry, RMSD and strain, each with its mark; what is wrong; what a guard did:
the tries that it threw away, and what it left wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import streamlit as st

from engine.chem.verdict import NOT_JUDGED, check_words, is_stereo_judged, strain_words
from engine.figures.words import angstrom, counted, listed, shortened
from engine.inspection.faults import failed_words
from engine.inspection.tries import WEIGHED, ThrownText
from engine.records import RULES_HELP
from pages._kit.errors import escaped
from pages._kit.words import glossed, unbroken, visible_text

MOST_TRIES, TRY_CHARS = 50, 400
MOST_UNMENDED = 3
_COLOURS = {True: "green", False: "yellow", None: "gray"}
_ICONS = {True: ":material/check:", False: ":material/warning:", None: ""}
_GEOMETRY = {True: "geometry right", False: "geometry wrong", None: "geometry not judged"}
_TEXT = {
    "clean": ("text clean", "green", ":material/check:"),
    "passed": ("text passed, damaged", "orange", ":material/warning:"),
    "undecoded": ("text passed, unreadable", "orange", ":material/warning:"),
    "failed": ("text failed", "red", ":material/close:"),
}


def text_badge(sample: Mapping[str, Any]) -> None:
    word = "failed"
    if sample["clean"]:
        word = "clean"
    elif sample["passed"]:
        word = "undecoded" if sample["decodes"] is False else "passed"
    badge(*_TEXT[word], help=RULES_HELP)


def molecule_badges(sample: Mapping[str, Any]) -> None:
    """What is not known has none."""
    if unjudged := [failed["check"] for failed in sample.get("failed") or () if failed["check"] in NOT_JUDGED]:
        _badge(check_words(unjudged[0]), False)
    elif sample.get("usable") is not None:
        sites, right = sample["stereo_sites"], sample["stereo_sites_right"]
        stereo = f"stereo {right} of {sites} right" if sites else "no stereo specified"
        _badge(stereo if is_stereo_judged(sample) else "stereo not judged", sample["stereo_right"])
        _badge(_GEOMETRY[sample["geometry_right"]], sample["geometry_right"])
    if sample.get("rmsd_ang") is not None:
        _badge(f"RMSD {angstrom(sample['rmsd_ang'])}", None)
    if words := strain_words(sample):  # lanes are narrow, and a badge has one line
        first, _, rest = words.partition("; ")
        _badge(f"strain {first}", None, help=rest or None)


def failed_checks(failed: Sequence[Mapping[str, Any]], most: int) -> None:
    for check in failed[:most]:
        st.caption(glossed(unbroken(escaped(failed_words(check)))), unsafe_allow_html=True)
    if len(failed) > most:
        st.caption(f"and {counted(len(failed) - most, 'more failed check')}")


def _badge(label: str, is_right: bool | None, help: str | None = None) -> None:
    badge(label, _COLOURS[is_right], _ICONS[is_right], help)


def badge(label: str, colour: str, icon: str = "", help: str | None = None) -> None:
    """As Streamlit's own, whose symbol would be read aloud."""
    symbol = f"<span aria-hidden='true'>{icon}</span> " if icon else ""
    st.markdown(f":{colour}-badge[{symbol}{escaped(label)}]", unsafe_allow_html=True, width="content", help=help)


def thrown_tries(
    tries: Sequence[ThrownText], descriptors: Sequence[str], *, key: str, block: int | None = None, kept: str = ""
) -> None:
    """One under the other, their text struck through; of ``block`` alone where it has some, with what was kept."""
    if not tries:
        return
    of_block = [thrown for thrown in tries if block is not None and block in thrown.blocks]
    shown = of_block or tries
    label = f"Tries thrown away ({len(tries):,})"
    if of_block:
        label = f"Tries of block {block} thrown away ({len(of_block):,} of {len(tries):,})"
    with st.expander(label, icon=":material/replay:", key=key):
        items = [f"<li>{_try(thrown, descriptors)}</li>" for thrown in shown[:MOST_TRIES]]
        if len(shown) > MOST_TRIES:
            items.append(
                f"<li style='list-style:none'>and {counted(len(shown) - MOST_TRIES, 'more try', 'more tries')}</li>"
            )
        if of_block:
            items.append(f"<li style='list-style:none'>kept: <code>{escape(visible_text(kept))}</code></li>")
        st.html(f'<ol style="font-size:0.875rem;overflow-wrap:anywhere">{"".join(items)}</ol>')


def _try(thrown: ThrownText, descriptors: Sequence[str]) -> str:
    """HTML: ``block 4, [C@@H]: stereo`` and the text."""
    first, last = thrown.blocks[0], thrown.blocks[-1]
    blocks = f"block {last}" if first == last else f"blocks {first} to {last}"
    atom = f", {descriptors[last]}" if last < len(descriptors) else ""
    why = "drawn again to weigh it" if thrown.check == WEIGHED else thrown.check
    text = escape(visible_text(shortened(thrown.text, TRY_CHARS)))
    return f"{escape(visible_text(f'{blocks}{atom}: {why}'))} <s><code>{text}</code></s>"


def still_wrong(wrong: Sequence[tuple[str, Sequence[int]]]) -> None:
    """Checks, with their atoms, that a guard left failing in the sample, since nothing more might be tried."""
    if not wrong:
        return
    parts = [f"{check} (atoms {listed([str(atom) for atom in sorted(atoms)])})" for check, atoms in wrong]
    parts[MOST_UNMENDED:] = [f"{len(wrong) - MOST_UNMENDED} more"] if len(wrong) > MOST_UNMENDED else []
    st.caption(f"Still wrong after all tries: {escaped(listed(parts))}.")
