"""One molecule in the Drift inspector: its verdict, and 2D, 3D, alignment strip and blocks that select one another.

The atom and the token that are selected live in the address; every view draws what it says there, and every pick
writes it. All of it is one fragment, so a pick draws nothing else anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import streamlit as st

from engine.chem.drawing import draw_svg
from engine.errors import DriftscopeError
from engine.inspection.estimates import BlockEstimate
from engine.inspection.retelling import atoms_of_columns
from engine.inspection.sample import Inspected
from pages._shared.components.alignment_strip import StepFacts, TopToken, alignment_strip
from pages._shared.components.molecule2d import molecule2d
from pages._shared.components.viewer3d import model_of, viewer3d
from pages._shared.drift import asking, files, state
from pages._shared.drift import blocks as drift_blocks
from pages._shared.drift.state import spot_of
from pages._shared.drift.words import Fault, block_words, faults, signed, verdict, visible_text
from pages._shared.errors import escape_markdown
from pages._shared.theme import DARK, palette

VIEW_HEIGHT = 340
NOTE_CHARS = 10
MOST_NOTES = 6
STRIP, DRAWING, SHAPE = "drift_strip", "drift_drawing", "drift_shape"
Badge = tuple[str, Literal["blue", "gray", "green", "red", "violet"]]
Faulty = tuple[int, Fault, str]
Blocks = Mapping[int, Mapping[str, Any]]


def show(one: Inspected) -> None:
    """Draw the heading and the linked views."""
    _heading(one)
    _linked(one)


# --- heading ------------------------------------------------------------------------------------------------------


def _heading(one: Inspected) -> None:
    sample = one.sample
    st.code(visible_text(sample["smiles"]), language=None, wrap_lines=True)
    with st.container(horizontal=True, gap="small", key="verdict"):
        for words, colour in _badges(one):
            st.badge(escape_markdown(words), color=colour)
    st.markdown(escape_markdown(verdict(sample, one.blocks)))


def _badges(one: Inspected) -> list[Badge]:
    sample = one.sample
    found = [faults(block) for block in one.blocks]
    junk, cut = sum("junk" in each for each in found), sum("cut" in each for each in found)
    forced = sample["forced_tokens"]
    tokens = sample["tokens"]
    return [
        badge
        for badge in (
            (one.run.model or one.run.model_family, "blue"),
            (f"LP {one.run.lp}" if one.run.lp else "", "blue"),
            (f"sample {sample['sample_id']}", "gray"),
            ("clean", "green") if sample["clean"] else ("passed", "gray") if sample["passed"] else ("failed", "red"),
            (f"{_blocks(junk)} with junk" if junk else "", "violet"),
            (f"{_blocks(cut)} cut" if cut else "", "red"),
            (f"drift {signed(sample['drift'])}" if sample["drift"] is not None else "", "gray"),
            (f"{tokens:,} tokens" if tokens else "", "gray"),
            (f"{forced / tokens:.0%} forced" if tokens and forced is not None else "", "gray"),
            (f"RMSD {sample['rmsd_ang']:.2f} Å" if sample["rmsd_ang"] is not None else "", "gray"),
        )
        if badge[0]
    ]


def _blocks(count: int) -> str:
    return "1 block" if count == 1 else f"{count} blocks"


# --- linked views -------------------------------------------------------------------------------------------------


@st.fragment
def _linked(one: Inspected) -> None:
    of_atom = _blocks_by_atom(one)
    steps, asked_of = asking.steps_of(one)
    estimates, estimated_by = asking.estimates_of(one)
    atom = state.number(state.ATOM)
    atom = atom if atom is not None and atom < one.molecule.atoms else None
    if one.molecule.atoms:
        left, right = st.columns(2, gap="medium")
        with left:
            _drawing(one, of_atom, atom)
        with right:
            _shape(one, of_atom, atom)
    _selected_words(one, of_atom, estimates, atom)
    _strip(one, steps, atom, asked_of)
    _missing(one, bool(steps))
    asking.offer(one, bool(steps))
    drift_blocks.show(one, estimates, atom, estimated_by)
    _text(one, steps)


def _blocks_by_atom(one: Inspected) -> Blocks:
    """An atom's first block: a model may write more than one."""
    found: dict[int, Mapping[str, Any]] = {}
    for block in one.blocks:
        if block["atom"] is not None and 0 <= block["atom"] < one.molecule.atoms:
            found.setdefault(block["atom"], block)
    return found


def _drawing(one: Inspected, of_atom: Blocks, atom: int | None) -> None:
    is_dark = palette() is DARK
    try:
        svg = _svg(one.molecule.smiles, one, tuple(_faulty(of_atom)), is_dark)
    except DriftscopeError as error:
        st.info(escape_markdown(str(error)), icon=":material/polyline:")
        return
    molecule2d(
        svg,
        key=DRAWING,
        label=f"2D drawing of {one.molecule.smiles}",
        atoms=_names(one, of_atom),
        selected=atom,
        on_pick=lambda picked: state.put_atom(spot_of(one), picked),
        height=VIEW_HEIGHT,
    )


def _faulty(of_atom: Blocks) -> list[Faulty]:
    """Atom, fault and note of each block that is not sound; junk that is also cut counts as junk, and says both."""
    found: list[Faulty] = []
    for atom, block in of_atom.items():
        of_block = faults(block)
        if of_block:
            junk = visible_text(block["junk_text"] or "")
            words = [f"! {junk}"[:NOTE_CHARS] if "junk" in of_block else "", "cut" if "cut" in of_block else ""]
            found.append((atom, of_block[0], " ".join(word for word in words if word)))
    if len(found) > MOST_NOTES:  # they would cover one another
        return [(atom, fault, "!" if fault == "junk" else "cut") for atom, fault, _ in found]
    return found


@st.cache_data(max_entries=200, show_spinner=False)
def _svg(smiles: str, _one: Inspected, faulty: tuple[Faulty, ...], is_dark: bool) -> str:
    colours = palette()
    return draw_svg(
        _one.molecule,
        highlights={atom: colours.junk if fault == "junk" else colours.cut for atom, fault, _ in faulty},
        notes={atom: note for atom, _, note in faulty},
        width=520,
        height=VIEW_HEIGHT,
        dark=is_dark,
    )


def _names(one: Inspected, of_atom: Blocks) -> list[str]:
    names = []
    for atom, descriptor in enumerate(one.molecule.descriptors):
        said = block_words(of_atom[atom]) if atom in of_atom else "no block"
        names.append(f"atom {atom}, {descriptor}: {said}")
    return names


def _shape(one: Inspected, of_atom: Blocks, atom: int | None) -> None:
    if one.conformer is None:
        st.info(escape_markdown(one.why_no_conformer), icon=":material/view_in_ar:", title="No conformer to show")
        return
    names = _names(one, of_atom)
    places = one.conformer_atoms  # the molecule's atom by the conformer's
    by_fault = {known: fault for known, fault, _ in _faulty(of_atom)}
    viewer3d(
        [model_of(one.conformer, "the conformer as written")],
        key=SHAPE,
        label=f"3D view of {one.molecule.smiles}",
        names=[names[known] if 0 <= known < len(names) else f"atom {n}" for n, known in enumerate(places)],
        selected=places.index(atom) if atom is not None and atom in places else None,
        marks={n: by_fault[known] for n, known in enumerate(places) if known in by_fault},
        on_pick=lambda picked: state.put_atom(spot_of(one), _known(places, picked)),
        height=VIEW_HEIGHT,
    )
    if one.why_no_conformer:
        st.caption(escape_markdown(one.why_no_conformer))


def _known(places: Sequence[int], picked: int | None) -> int | None:
    """The molecule's atom of one of the conformer."""
    return places[picked] if picked is not None and places[picked] >= 0 else None


def _selected_words(one: Inspected, of_atom: Blocks, estimates: Mapping[int, BlockEstimate], atom: int | None) -> None:
    if atom is None:
        st.caption("Click an atom, or a token of the strip: it lights up everywhere. Arrow keys walk, Escape lets go.")
        return
    name = f"Atom {atom}, {one.molecule.descriptors[atom]}"
    block = of_atom.get(atom)
    if block is None:
        st.markdown(f"**{escape_markdown(name)}** has no block in this text.")
        return
    said = [f"`<{_code(block['text'])}>`", escape_markdown(block_words(block))]
    if block["needed"] is not None and block["template_free"] is not None:
        said.append(f"needs {block['needed']} of {block['template_free']} FREE positions")
    estimate = estimates.get(block["block"])
    if estimate is not None:
        said.append(f"the model would have gone on to `<{_code(estimate.text)}>` (an estimate)")
    st.markdown(f"**{escape_markdown(name)}** · " + " · ".join(said))


def _code(text: str) -> str:
    """For Markdown's code span, which knows no escapes."""
    return visible_text(text or "").replace("`", "ʼ")


def _strip(one: Inspected, steps: Mapping[int, Mapping[str, Any]], atom: int | None, asked_of: str) -> None:
    if one.alignment is None:
        return
    columns = one.alignment.rows
    atoms = atoms_of_columns(one.alignment)
    token = state.number(state.TOKEN)
    alignment_strip(
        columns,
        key=STRIP,
        label="Template over generated text, position by position",
        steps={pos: step_facts(row) for pos, row in steps.items()},
        elements=one.molecule.elements,
        caption=_caption(one, bool(steps), asked_of),
        selected=token if token is not None and token < len(columns) else None,
        block=atom,
        on_pick=lambda column: state.put_atom(spot_of(one), None if column is None else atoms[column], column),
    )


def _caption(one: Inspected, has_steps: bool, asked_of: str) -> str:
    assert one.alignment is not None
    by = {
        "position": "by position, as the LP counts",
        "structure": "by structure: atoms to atoms, blocks to blocks",
    }[one.alignment.mode]
    kept = "steps as the run kept them" if has_steps else "no steps kept"
    return f"Aligned {by} · " + (f"steps asked just now of {asked_of}" if asked_of else kept)


def step_facts(row: Mapping[str, Any]) -> StepFacts:
    """A row of ``steps`` with the pieces of its likeliest tokens; a figure that was not kept is no number."""
    return StepFacts(
        rule=row["rule"] or "",
        p_raw=_figure(row["p_raw"]),
        p_lp=_figure(row["p_lp"]),
        allowed_mass=_figure(row["allowed_mass"]),
        rank_raw=row["rank_raw"] or 0,
        entropy_nat=_figure(row["entropy_nat"]),
        top_k=tuple(
            TopToken(top["token_id"], top.get("piece", ""), _figure(top["p_raw"]), bool(top["allowed"]))
            for top in row["top_k"] or ()
        ),
    )


def _figure(value: float | None) -> float:
    return float("nan") if value is None else value


# --- below the views ----------------------------------------------------------------------------------------------


def _missing(one: Inspected, has_steps: bool) -> None:
    said = [words for words in one.missing if not (has_steps and "A model can be asked" in words)]
    if said and one.can_score and len(said) == 1:
        st.caption(escape_markdown(said[0]))  # no more than the strip and the button below say
    elif said:
        st.info("\n".join(f"- {escape_markdown(words)}" for words in said), icon=":material/visibility_off:",
                title="What cannot be shown")  # fmt: skip


def _text(one: Inspected, steps: Mapping[int, Mapping[str, Any]]) -> None:
    with st.expander("The text as it was written", icon=":material/notes:"):
        if one.sample["text"]:
            st.code(one.sample["text"], language=None, wrap_lines=True)
        else:
            st.markdown("There is no text.")
    with st.container(horizontal=True):
        if one.conformer is not None:
            st.download_button(
                "Conformer as SDF",
                lambda: files.sdf_of_one(one),
                "conformer.sdf",
                "chemical/x-mdl-sdfile",
                icon=":material/download:",
                on_click="ignore",
                type="tertiary",
            )
        if steps:
            st.download_button(
                "Steps as Parquet",
                lambda: files.steps_of_one(one, steps),
                "steps.parquet",
                "application/vnd.apache.parquet",
                icon=":material/download:",
                on_click="ignore",
                type="tertiary",
            )
