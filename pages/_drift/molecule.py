"""One molecule in the Drift inspector: its verdict, its drawing and conformer, and next to them its text atom by atom.

The selected atom and token are in the address; every view draws them from there, and every pick writes them there. All
views are one fragment, so a pick redraws nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import streamlit as st
from rdkit.Chem import Mol

from engine.chem.drawing import draw_svg
from engine.chem.verdict import strain_words
from engine.errors import DriftscopeError
from engine.figures.words import angstrom, counted, percent, signed
from engine.inspection.conformers import GroupShape
from engine.inspection.faults import (
    Fault,
    atom_faults,
    check_line,
    failed_conformer,
    faults,
    is_unread,
    sample_words,
    stop_words,
)
from engine.inspection.runs import runs_with_samples
from engine.inspection.sample import BlockEstimate, Inspected
from engine.questions import drift_belief
from engine.questions.drift_atoms import AS_WRITTEN, WORST, atom_tables
from engine.questions.question import Tables
from engine.store.store import Store
from pages._drift import files, scoring, state
from pages._drift.number_curves import curves_of, ellipsoids_of
from pages._drift.state import spot_of
from pages._kit import branching
from pages._kit.card import cards
from pages._kit.choices import by_name, one_of
from pages._kit.components.atom_view import atom_view, rows_under, text_of, view_of
from pages._kit.components.molecule2d import molecule2d
from pages._kit.components.view3d import view3d
from pages._kit.errors import error_markdown, escaped
from pages._kit.handover import report_button
from pages._kit.inspected import inspected
from pages._kit.shown import put_shown
from pages._kit.table_files import file_button
from pages._kit.theme import DARK, palette
from pages._kit.verdict_badges import still_wrong, thrown_tries
from pages._kit.words import HYPOTHETICAL_HELP, block_words, glossed, unbroken, visible_text

VIEW_HEIGHT = 230  # so that drawing and conformer are in one screen
NOTE_CHARS = 10
NOTES: dict[Fault, str] = {"junk": "!", "cut": "cut", "wrong": "✗"}
GROUP_HELP = "The conformer as the group's runner reads it: the last number of each part, whatever is around it"
READERS_HELP = (
    "Three readers, each of which stops at its own first error. The *reports* name issues of a text; junk may pass. A "
    "text *decodes* where the group's *runner* takes every block: its reader takes the last number of each part. The "
    "*strict reader*, ours, takes blocks of three numbers and nothing else, and only what it reads is judged in 3D."
)
MOST_NOTES = 6
FACTS_HELP = (
    "Descriptors: how the LP writes an atom with hydrogens: [O] and [N] (plain), or [OH] and [NH2] (with-hydrogens), "
    "as the group's LPs do whatever the model was trained on. Drift: FREE positions minus the tokens that the numbers "
    "need, over the blocks of known need. Conformers differ by heavy-atom RMSD: least, and mean over all pairs."
)
SHAPED_HELP = (
    "Under shaped a token comes only if it leaves the atom a right place. Struck: likely tokens that leave none. "
    "Dead end: no token was left, so the text went back to an earlier block, or stayed wrong after all tries."
)
ELLIPSOID_WORDS = "; violet: mean ± spread, each axis given those before"
ATOMS, DRAWING, SHAPE = "drift_atoms", "drift_drawing", "drift_shape"
Faulty = tuple[int, Fault, str]
Blocks = Mapping[int, Mapping[str, Any]]


def show(store: Store, inspection: Inspected, lead: str) -> None:
    """``lead`` comes before the verdict."""
    with st.container(gap="xsmall", key="molecule"):
        st.code(visible_text(inspection.sample["smiles"]), language=None, wrap_lines=True)
        bold = f"**{escaped(lead)}** " if lead else ""
        words = escaped(sample_words(inspection.sample, inspection.blocks))
        st.markdown(bold + glossed(words), help=READERS_HELP, unsafe_allow_html=True)
        _failed(inspection)
        still_wrong([(wrong["check"], wrong["atoms"]) for wrong in inspection.sample["unmended"] or ()])
        _linked(store, inspection)


def rule_words(sample: Mapping[str, Any]) -> str:
    if sample["passed"] is None:
        return "no text was read"
    if not sample["passed"]:
        return "failed"
    return "passed, clean" if sample["clean"] else "passed"


def _failed(inspection: Inspected) -> None:
    """The checks that the molecule fails, the first in sight; each leads to its atom in every view."""
    failed = inspection.sample["failed"] or ()
    where = st.container(horizontal=True, vertical_alignment="center", key="failed")
    for index, check in enumerate(failed):
        if index == 1:
            where = where.popover(f"{counted(len(failed) - 1, 'more check')} failed", type="tertiary")
        atom = next((atom for atom in check["atoms"] if atom < inspection.molecule.atoms), None)
        where.button(
            unbroken(escaped(check_line(check))),
            key=f"failed-{index}",
            type="tertiary",
            icon=":material/warning:",
            disabled=atom is None,
            on_click=state.put_atom,
            args=(spot_of(inspection), atom, None, failed_conformer(check)),
            help="Show it in 2D, in 3D and in the tokens",
        )


# --- linked views -------------------------------------------------------------------------------------------------


@st.fragment
def _linked(store: Store, inspection: Inspected) -> None:
    inspection = _chosen_conformer(inspection)
    of_atom = _block_of_each(inspection, only=inspection.number)
    steps, steps_model = scoring.steps_of(inspection)
    estimates, estimated_by = scoring.estimates_of(inspection)
    beliefs = scoring.belief_tables_of(inspection)
    atom = state.number(state.ATOM)
    atom = atom if atom is not None and atom < inspection.molecule.atoms else None
    put_shown(atom=atom)
    branch = _branch(store, inspection)
    left, right = st.container(key="molecule-views").columns([5, 10], gap="small")
    if inspection.molecule.atoms:
        with left.container(gap="xsmall", key="pictures"):  # they stay in sight next to the rows
            with st.container():
                _drawing(inspection, of_atom, atom)
            with st.container(gap="xsmall"):
                _shape(inspection, of_atom, branch or _group_on_top(inspection), beliefs, is_branch=branch is not None)
                _readers(inspection)
                # Here a click moves none of the rows, and what it brings stays in sight.
                token = branching.position_of(inspection, state.number(state.TOKEN))
                branching.show(inspection, token, state.put_under)
    with right:
        if inspection.blocks or inspection.alignment is not None:
            _atoms(store, inspection, steps, estimates, atom, steps_model, estimated_by, beliefs)
        if branch is not None:
            cards(["drift_branches"], store, [_under().rpartition("/")[0]])
        kept = of_atom[atom]["text"] if atom in of_atom else ""
        thrown_tries(inspection.tries, inspection.molecule.descriptors, key="drift_tries", block=atom, kept=kept)
        _not_available(inspection, bool(steps))
        scoring.show(inspection, bool(steps))
        _details(inspection)
        _files(inspection, steps)


def _chosen_conformer(inspection: Inspected) -> Inspected:
    """Of several in the answer, the one to be seen in 2D, in 3D and atom by atom."""
    count = len(inspection.shapes)
    if count < 2:
        return inspection
    chosen = inspection.of_conformer(state.number(state.CONFORMER) or inspection.first_faulty)
    key = f"{state.CONFORMER}-{inspection.run.run_id}-{inspection.sample['sample_id']}"
    st.session_state[key] = chosen.number
    marks = [" ✓" if usable else " ✗" for usable in inspection.sample["usable_each"] or ()]
    marks += [""] * (count - len(marks))
    st.segmented_control(
        f"Conformer (of {count})",
        range(1, count + 1),
        required=True,
        key=key,
        format_func=lambda number: f"{number}{marks[number - 1]}",
        on_change=state.put_conformer,
        args=(spot_of(inspection), key),
        help="The answer has several. ✓: usable (clean, stereo and geometry right).",
    )
    put_shown(conformer=chosen.number)
    return chosen


def _not_available(inspection: Inspected, has_steps: bool) -> None:
    missing = [words for words in inspection.missing if not (has_steps and "A model can recompute" in words)]
    if len(missing) == 1 and inspection.can_score:
        st.caption(escaped(missing[0]))  # the rows and the button below say the same
    elif missing:
        words = "\n".join(f"- {escaped(words)}" for words in missing)
        st.info(words, icon=":material/visibility_off:", title="Not available")


def _block_of_each(inspection: Inspected, only: int = 0) -> dict[int, Mapping[str, Any]]:
    """By atom the block that a drawing marks: of one conformer, or the first with a fault."""
    of_atom: dict[int, Mapping[str, Any]] = {}
    for block in sorted(inspection.blocks, key=lambda block: not faults(block)):
        is_atom = block["atom"] is not None and 0 <= block["atom"] < inspection.molecule.atoms
        if is_atom and only in (0, block["conformer"]):
            of_atom.setdefault(block["atom"], block)
    return of_atom


def _drawing(inspection: Inspected, of_atom: Blocks, atom: int | None) -> None:
    is_dark = palette() is DARK
    try:
        svg = _svg(inspection.molecule.smiles, inspection, tuple(_faulty(inspection, of_atom)), is_dark)
    except DriftscopeError as error:
        st.info(error_markdown(error), icon=":material/polyline:")
        return
    molecule2d(
        svg,
        key=DRAWING,
        label=f"2D drawing of {inspection.molecule.smiles}",
        atoms=_names(inspection, of_atom),
        selected=atom,
        on_pick=lambda picked: state.put_atom(spot_of(inspection), picked),
        height=VIEW_HEIGHT,
    )


def _faulty(inspection: Inspected, of_atom: Blocks) -> list[Faulty]:
    """Atom, fault and note. A block that is junk and cut counts as junk; its note has both."""
    fault_of = {
        atom: fault
        for atom, fault in atom_faults(inspection.sample, of_atom.values(), only=inspection.number).items()
        if 0 <= atom < inspection.molecule.atoms
    }
    faulty: list[Faulty] = []
    for atom, fault in fault_of.items():
        note = NOTES[fault]
        if fault == "junk" and len(fault_of) <= MOST_NOTES:  # more long ones would cover one another
            note = f"! {visible_text(of_atom[atom]['junk_text'] or '')}"[:NOTE_CHARS]
            note += " cut" if "cut" in faults(of_atom[atom]) else ""
        faulty.append((atom, fault, note))
    return faulty


@st.cache_data(max_entries=200, show_spinner=False)
def _svg(smiles: str, _inspection: Inspected, faulty: tuple[Faulty, ...], is_dark: bool) -> str:
    colours = palette()
    return draw_svg(
        _inspection.molecule,
        highlights={atom: getattr(colours, fault) for atom, fault, _ in faulty},
        notes={atom: note for atom, _, note in faulty},
        width=520,
        height=VIEW_HEIGHT,
        dark=is_dark,
    )


def _names(inspection: Inspected, of_atom: Blocks) -> list[str]:
    names = []
    for atom, descriptor in enumerate(inspection.molecule.descriptors):
        words = block_words(of_atom[atom]) if atom in of_atom else "no block"
        names.append(f"atom {atom}, {descriptor}: {words}")
    return names


def _group_on_top(inspection: Inspected) -> Mol | None:
    """What the group's reader makes of the text, to be drawn over ours: unless switched off, where atoms lie elsewhere
    in it. Each sample has a switch of its own; the address has what was chosen."""
    group = inspection.by_group
    if inspection.conformer is None or group is None or group.mol is None:
        return None
    key, chosen = f"{state.OTHER_READER}-{inspection.run.run_id}-{inspection.sample['sample_id']}", state.other_reader()
    is_on = group.farthest is not None if chosen is None else chosen
    words = "Group's reader on top"
    return group.mol if st.toggle(words, is_on, key=key, on_change=state.put_other_reader, args=(key,)) else None


def _shape(
    inspection: Inspected, of_atom: Blocks, on_top: Mol | None, beliefs: Tables | None, *, is_branch: bool
) -> None:
    if inspection.conformer is None:
        st.info(escaped(inspection.why_no_conformer), icon=":material/view_in_ar:", title="No conformer to show")
        return
    ellipsoids = {} if beliefs is None else ellipsoids_of(beliefs, *_blocks_in_view(inspection))
    view3d(
        inspection.conformer,
        key=SHAPE,
        label=f"3D view of {inspection.molecule.smiles}",
        ghost=on_top,
        atoms=inspection.conformer_atoms,
        names=_names(inspection, of_atom),
        marks=atom_faults(inspection.sample, of_atom.values(), only=inspection.number),
        caption=_shape_caption(inspection, on_top, is_branch=is_branch) + (ELLIPSOID_WORDS if ellipsoids else ""),
        ellipsoids=ellipsoids,
        height=VIEW_HEIGHT,
    )


def _shape_caption(inspection: Inspected, on_top: Mol | None, *, is_branch: bool) -> str:
    """One line of a narrow view: a second conformer in it leaves room for few words on the first."""
    conformers = len(inspection.shapes)
    if inspection.conformer is not None and inspection.why_no_conformer:
        words, more = f"{inspection.conformer.GetNumAtoms()} of {inspection.molecule.atoms} atoms", " readable"
    elif conformers < 2:
        words, more = "Generated conformer", ""
    else:
        words, more = f"Conformer {inspection.number} of {conformers}", " in this answer"
    grey = "branch" if is_branch else "group's reader"
    return f"{words}{more}" if on_top is None else f"{words}; grey: {grey}"


def _readers(inspection: Inspected) -> None:
    """What the two readers made of the text. Why it has no conformer is above where its molecule was judged."""
    is_partial = inspection.conformer is not None and inspection.why_no_conformer
    words = [inspection.why_no_conformer] if is_partial and not is_unread(inspection.sample) else []
    words += [_group_words(inspection, inspection.by_group)] if inspection.by_group is not None else []
    if words:
        st.caption(glossed(escaped(" ".join(words))), unsafe_allow_html=True)


def _group_words(inspection: Inspected, group: GroupShape) -> str:
    """How the group's reader differs from ours in this text."""
    if group.mol is None:
        return f"The group's reader takes the last number of each part and {stop_words(group.why_not)}."
    if not group.misread:
        return "The group's reader takes this text, and every atom is where its numbers put it."
    blocks = [block for block in inspection.blocks if block["conformer"] == inspection.number]
    count = f"The group's reader takes this text, and misreads {len(group.misread)} of {len(blocks)} blocks"
    if group.farthest is None:
        return f"{count}, which state no three numbers."
    atom = blocks[group.farthest]["atom"]
    name = f"atom {atom}" if atom is not None and atom >= 0 else f"block {group.farthest}"
    return f"{count}: {name} by {angstrom(group.misread[group.farthest])}, the most."


def _atoms(
    store: Store,
    inspection: Inspected,
    steps: Mapping[int, Mapping[str, Any]],
    estimates: Mapping[int, BlockEstimate],
    atom: int | None,
    steps_model: str,
    estimated_by: str,
    beliefs: Tables | None,
) -> None:
    """The molecule atom by atom, the worst first, and another run's rows under it on request."""
    with st.container(horizontal=True, vertical_alignment="bottom", key="atom-order"):
        order = one_of("Order", [WORST, AS_WRITTEN], "rows", label_visibility="collapsed")
        other = _other_sample(store, inspection)
    by = (steps_model or "the run", estimated_by or "the model")
    tables = atom_tables(inspection, order, steps, estimates, *by)
    shown = view_of(tables)
    about = tables["about"]["about"].to_pylist()
    if beliefs is not None:
        curves, (first, _) = curves_of(beliefs), _blocks_in_view(inspection)
        shown = [
            row if row.atom is None else replace(row, curves=tuple(curves.get(first + row.atom, ()))) for row in shown
        ]
        (of,) = beliefs["about"].to_pylist()
        words = f"curves: what {of['model']} believes of x, y and z, each given the numbers before it"
        about += filter(None, [words, of["check"]]) if curves else [drift_belief.answer(beliefs, {})]
    if other is not None:
        of_other = atom_tables(other, order, other.steps, other.estimates)
        other_view = view_of(of_other, other.run.lp_words or other.run.run_id)
        shown = rows_under(shown, other_view)
    token = state.number(state.TOKEN)
    token = token if token is not None and token < tables["tokens"].num_rows else None
    put_shown(token=token)
    atom_view(
        shown,
        key=ATOMS,
        label="Atom by atom",
        caption=" · ".join(about),
        text=text_of(tables),
        atom=atom,
        token=token,
        on_pick=lambda picked, column: _pick(inspection, picked, column),
    )


def _pick(inspection: Inspected, atom: int | None, column: int | None) -> None:
    """A click on a token also asks for its alternatives."""
    state.put_atom(spot_of(inspection), atom, column)
    branching.ask(inspection, branching.position_of(inspection, column))


def _blocks_in_view(inspection: Inspected) -> tuple[int, int]:
    """The first block of the conformer, and how many it has."""
    return (inspection.number - 1) * inspection.molecule.atoms, inspection.molecule.atoms


OF_OTHER_RUNS = """
SELECT run_id, min(sample_id) AS sample_id FROM samples
WHERE smiles = $smiles AND generation IS NOT DISTINCT FROM $generation
GROUP BY ALL ORDER BY ALL
"""


def _other_sample(store: Store, inspection: Inspected) -> Inspected | None:
    """Of another run, the sample of the same molecule and generation that the reader asks for."""
    run, sample = inspection.run, inspection.sample
    branches = branching.branches_of(store, inspection)
    without = {run.run_id, *(name.rpartition("/")[0] for name in branches)}
    runs = {other.run_id: other for other in runs_with_samples(store) if other.run_id not in without}
    rows = store.rows(OF_OTHER_RUNS, {"smiles": sample["smiles"], "generation": sample["generation"]})
    sample_ids = {row["run_id"]: row["sample_id"] for row in rows if row["run_id"] in runs}
    if not sample_ids and not branches:
        return None
    name = by_name(
        "Another run's tokens under each row",
        [*branches, *sample_ids],
        state.UNDER,
        "drift_under",
        width=230,
        index=None,
        placeholder="Another run under each row",
        label_visibility="collapsed",
        format_func=lambda name: branches.get(name) or f"{runs[name].model} · {runs[name].lp_words}",
    )
    if name in branches:
        return branching.inspected_branch(store, name, inspection.number)
    return None if name is None else inspected(store, runs[name], sample_ids[name])


def _under() -> str:
    return st.query_params.get(state.UNDER) or ""


def _branch(store: Store, inspection: Inspected) -> Mol | None:
    """The conformer of the branch whose tokens are under the rows, in the frame of what they share."""
    if _under() not in branching.branches_of(store, inspection):
        return None
    return branching.inspected_branch(store, _under(), inspection.number).conformer


# --- figures ------------------------------------------------------------------------------------------------------


def tokens_words(sample: Mapping[str, Any]) -> str:
    """``272 tokens (271 and the end)``: the strip has a column for each of the 271."""
    if not sample["tokens"]:
        return ""
    end = f" ({sample['tokens'] - 1:,} and the end)" if sample["stop_reason"] == "end" else ""
    return f"{counted(sample['tokens'], 'token')}{end}"


def forced_share(sample: Mapping[str, Any]) -> str:
    """Empty where it is not known."""
    forced, tokens = sample["forced_tokens"], sample["tokens"]
    return percent(forced / tokens) if tokens and forced is not None else ""


def guard_words(sample: Mapping[str, Any]) -> str:
    """``redrawn 3 times``, or ``2 dead ends, went back once, 31 tokens struck``; empty where no guard did anything."""
    redrawn, dead_ends, struck = (sample[name] for name in ("redrawn_blocks", "dead_ends", "struck_tokens"))
    if dead_ends is None:
        return f"redrawn {counted(redrawn, 'time')}" if redrawn else ""
    went_back = ""
    if redrawn:
        went_back = ", went back once" if redrawn == 1 else f", went back {redrawn:,} times"
    return f"{counted(dead_ends, 'dead end')}{went_back}, {counted(struck, 'token')} struck"


def differ_words(sample: Mapping[str, Any]) -> str:
    """``conformers differ by 0.41 Å at least, 0.97 Å on average``; empty where that was not asked for."""
    least, mean = sample["differ_least_ang"], sample["differ_mean_ang"]
    return "" if least is None else f"conformers differ by {angstrom(least)} at least, {angstrom(mean)} on average"


def drift_words(inspection: Inspected) -> str:
    """``drift +7 in 7 of 15 blocks``: how many tokens the others need is not known."""
    drift = inspection.sample["drift"]
    if drift is None:
        return ""
    measured, blocks = (sum(block["drift"] is not None for block in inspection.blocks), len(inspection.blocks))
    name = "hypothetical drift" if inspection.run.is_hypothetical else "drift"
    of = f"in {measured} of {blocks} blocks" if measured < blocks else f"in {counted(blocks, 'block')}"
    return f"{name} {signed(drift)} {of}"


def _facts(inspection: Inspected) -> None:
    """What the verdict's sentence does not say.

    Tokens count as the run counts them: with the one that ends the answer, which is no column of the strip.
    """
    sample, run = inspection.sample, inspection.run
    against = run.rmsd_to or "references that are not named"
    forced, strain = forced_share(sample), strain_words(sample)
    facts = [
        run.model or run.model_family,
        f"LP {run.lp_words}" if run.lp else "",
        f"constrained: {run.constrained}" if run.constrained not in ("", "no LP") else "",
        f"descriptors {inspection.descriptors}" if run.lp_record.placeholder else "",
        f"sample {sample['sample_id']}",
        drift_words(inspection),
        tokens_words(sample),
        f"{forced} forced" if forced else "",
        guard_words(sample),
        f"RMSD {angstrom(sample['rmsd_ang'])} to {against}" if sample["rmsd_ang"] is not None else "",
        differ_words(sample),
        f"strain {strain}" if strain else "",
    ]
    about = [HYPOTHETICAL_HELP] if run.is_hypothetical else []
    about += [FACTS_HELP, *([SHAPED_HELP] if sample["dead_ends"] is not None else [])]
    words = glossed(escaped(" · ".join(filter(None, facts))))
    st.caption(words, help="\n\n".join(about), unsafe_allow_html=True)


# --- below the views ----------------------------------------------------------------------------------------------


def _details(inspection: Inspected) -> None:
    with st.expander("Details", icon=":material/notes:"):
        _facts(inspection)
        if inspection.sample["text"]:
            st.code(inspection.sample["text"], language=None, wrap_lines=True)


def _files(inspection: Inspected, steps: Mapping[int, Mapping[str, Any]]) -> None:
    with st.container(horizontal=True):
        if inspection.conformer is not None:
            file_button("Conformer as SDF", lambda: files.sdf_of_one(inspection), "conformer.sdf")
        if inspection.by_group is not None and inspection.by_group.mol is not None:
            file_button(
                "By the group's reader",
                lambda: files.sdf_of_one(inspection, by_group=True),
                "conformer-group.sdf",
                help=GROUP_HELP,
            )
        if steps:
            file_button("Steps as Parquet", lambda: files.steps_of_one(inspection, steps), "steps.parquet")
        report_button([f"{inspection.run.run_id}/{inspection.sample['sample_id']}"], key="report")
