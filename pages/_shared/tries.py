"""What a guard did to a sample, in words: the tries that it threw away, and what it left wrong."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import streamlit as st

from engine.figures.words import counted, listed, shortened
from engine.inspection.tries import WEIGHED, ThrownText
from pages._shared.errors import escape_markdown
from pages._shared.words import visible_text

MOST_TRIES, TRY_CHARS = 50, 400
MOST_UNMENDED = 3


def thrown_tries(
    tries: Sequence[ThrownText], descriptors: Sequence[str], *, key: str, block: int | None = None, kept: str = ""
) -> None:
    """One under the other, their text struck through; of ``block`` alone where it has some, with what was kept."""
    if not tries:
        return
    of_block = [thrown for thrown in tries if block is not None and block in thrown.blocks]
    some = of_block or tries
    label = f"Tries thrown away ({len(tries):,})"
    if of_block:
        label = f"Tries of block {block} thrown away ({len(of_block):,} of {len(tries):,})"
    with st.expander(label, icon=":material/replay:", key=key):
        items = [f"<li>{_try(thrown, descriptors)}</li>" for thrown in some[:MOST_TRIES]]
        if len(some) > MOST_TRIES:
            items.append(
                f"<li style='list-style:none'>and {counted(len(some) - MOST_TRIES, 'more try', 'more tries')}</li>"
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
    """Checks, with their atoms, that the guard left failing in the sample, since nothing more might be tried."""
    if not wrong:
        return
    parts = [f"{check} (atoms {listed([str(atom) for atom in sorted(atoms)])})" for check, atoms in wrong]
    parts[MOST_UNMENDED:] = [f"{len(wrong) - MOST_UNMENDED} more"] if len(wrong) > MOST_UNMENDED else []
    st.caption(f":material/build_circle: Still wrong after all tries of the guard: {escape_markdown(listed(parts))}.")
