"""The live page's inputs: molecules, the model, lanes, and sampling. All of them are in the address."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from engine.chem.molecule_sets import load_named
from engine.chem.structure_files import smiles_of_mol_blocks
from engine.decode.plan import BackendName, Plan
from engine.errors import DriftscopeError
from engine.figures.words import counted, shortened
from engine.jobs.lane import MOST_MOLECULES
from engine.jobs.plan import ModelChoice, RunPlan
from engine.lp_records import GuardSettings, LpRecord, lp_choices, lp_record, split_cleanup
from engine.models.registry import ModelEntry, load_registry
from engine.models.server import is_server_set
from engine.records import DESCRIPTORS, Descriptors, Molecule
from pages._kit.choices import complain
from pages._kit.errors import error_markdown, escaped
from pages._kit.generation_inputs import FIRST_MODEL, backend_input, first_words, read_smiles, show_problems
from pages._live.add_checkpoint import add_button, newly_added

MOST_LANES, MOST_SHOWN = 4, 60
NO_LANE = "—"
FIRST_LANES = ("none", "group-v2.1", "exact", NO_LANE)
FIRST_MOLECULE = "CNC[C@H](O)c1ccc(O)c(O)c1"
"""Adrenaline, which both embedded models write well."""
REFERENCES = 10
"""Reference conformers that a sample is compared with."""
MOST_SCORED_BLOCKS = 250
"""The first samples keep their steps, with token probabilities, up to so many blocks of a lane."""
MOST_TRIES = 100
OWN = "own"
BACKEND_HELP = (
    "fast: this project's loop, 4 times as fast with the exact LP as without one at the demo's size (2.4 M weights in "
    "the layers), 1.2 to 1.7 times at Qwen3-0.6B's (440 M). hf: plain `generate` of transformers, for any model. "
    "auto: fast where it can run the model, else hf; the lane says which, and why."
)
SOURCE = "live page"
RETRIES_HELP = "How often a wrong block is drawn again, until as many blocks were thrown away as there are atoms."
BACK_HELP = "When a block's retries are used up: how often it may send the text back to an earlier block."
WAY_HELP = "How often a block is drawn again behind which no way is found to the end of its rings."
DEAD_END_HELP = "At a dead end (no token leaves a right place): how often it may go back, one block farther each time."

LaneChoice: TypeAlias = tuple[str, BackendName, str, Descriptors | None, GuardSettings]
"""LP, backend, placeholder, descriptors, and the guard's settings, the usual ones where there is no guard."""


def folded_words() -> str:
    """What the folded form holds, before its widgets are there: ``CCO · demo-llama:final · none, exact``"""
    if (added := newly_added()) is not None:
        st.session_state["model"] = added
    molecules, _ = read_lines(_chosen("smiles", FIRST_MOLECULE))
    one = len(molecules) == 1
    molecule = shortened(molecules[0].smiles, MOST_SHOWN) if one else counted(len(molecules), "molecule")
    lps = [
        _chosen(f"lp{number}", usual, lp_choices(has_server=is_server_set()))
        for number, usual in enumerate(FIRST_LANES, start=1)
    ]
    lanes = ", ".join(lp for lp in lps if lp != NO_LANE)
    model = _chosen("model", _first_model(), [entry.name for entry in load_registry().entries])
    return f"**{escaped(molecule)}** · {escaped(model)} · {escaped(lanes)}"


def _chosen(key: str, usual: str, options: Sequence[str] = ()) -> str:
    """By its widget, by the address where that was not drawn yet."""
    chosen = str(st.session_state.get(key, st.query_params.get(key, usual)))
    return usual if options and chosen not in (NO_LANE, *options) else chosen


def _first_model() -> str:
    names = [entry.name for entry in load_registry().entries]
    return FIRST_MODEL if FIRST_MODEL in names else names[0]


def molecule_inputs(wrong: DeltaGenerator) -> tuple[Molecule, ...]:
    """``wrong`` is where unreadable lines are named, and a button that mends one."""
    left, right = st.columns([2, 3])
    left.selectbox(
        "A named molecule",
        list(load_named()),
        index=None,
        key="named",
        on_change=_take_named,
        placeholder="Choose one",
        help="Adds its SMILES.",
    )
    text = right.text_area(
        "SMILES",
        FIRST_MOLECULE,  # as its default, not as state: the browser's Back restores defaults only
        key="smiles",
        height=68,
        on_change=lambda: st.session_state.update(named=None),  # or the same name could not be chosen twice in a row
        bind="query-params",
        help=f"One per line, up to {MOST_MOLECULES}, or pasted mol blocks. Leave the field to see the drawing; "
        "Ctrl+Enter generates at once.",
    )
    molecules, problems = read_lines(text or "")
    with wrong:
        show_problems(problems)
        if name := _name_in(text or ""):
            st.button(f"Use the SMILES of {name}", key="use-named", on_click=_replace_name, args=(name,))
        if not molecules and not problems:  # next to an error a hint would be one thing too many
            st.info("Type a SMILES, or choose a named molecule.", icon=":material/edit:")
    return molecules


def _name_in(text: str) -> str:
    """The first line that is the name of a named molecule, as that is spelt; empty where there is none."""
    names = {name.lower(): name for name in load_named()}
    return next((names[line] for line in map(_plain, text.splitlines()) if line in names), "")


def _plain(line: str) -> str:
    return line.strip().lower()


def _replace_name(name: str) -> None:
    lines, smiles = (str(st.session_state.get("smiles") or "").splitlines(), load_named()[name])
    st.session_state["smiles"] = "\n".join(smiles if _plain(line) == name.lower() else line for line in lines)


def _take_named() -> None:
    """In place of the first molecule, below others."""
    if chosen := st.session_state.get("named"):
        lines = [line for line in str(st.session_state.get("smiles") or "").splitlines() if line.strip()]
        kept = [] if lines in ([], [FIRST_MOLECULE]) else lines
        st.session_state["smiles"] = "\n".join(dict.fromkeys([*kept, load_named()[chosen]]))


def read_lines(text: str) -> tuple[tuple[Molecule, ...], list[str]]:
    """Of mol blocks, or of the first word of each line, as in .smi files; a bad one of several is numbered."""
    try:
        text = "\n".join(smiles_of_mol_blocks(text, most=MOST_MOLECULES)) or text
    except DriftscopeError as error:
        return (), [error_markdown(error)]
    lines = first_words(text)
    if len(lines) > MOST_MOLECULES:
        return (), [
            f"Limit: {MOST_MOLECULES} molecules, got {len(lines):,}. Use `.venv/bin/python -m engine run` for more."
        ]
    results = [(number, read_smiles(line)) for number, line in lines]
    problems = [
        f"Line {number}: {result}" if len(lines) > 1 else result
        for number, result in results
        if isinstance(result, str)
    ]
    return tuple(result for _, result in results if isinstance(result, Molecule)), problems


# --- the model and the lanes --------------------------------------------------------------------------------------


def model_input(problems: DeltaGenerator) -> ModelEntry | None:
    """``problems`` is where a sentence on an unknown model is."""
    entries = {entry.name: entry for entry in load_registry().entries}
    names, first = list(entries), _first_model()
    with problems:
        complain("model", names, "model", first)
    chosen = st.selectbox(
        "Model",
        names,
        index=names.index(first),
        key="model",
        bind="query-params",
        help="The embedded models, and those that you added.",
    )
    add_button()
    return entries.get(chosen or "")


def lane_inputs() -> list[LaneChoice]:
    """Of each lane in use."""
    with st.container(key="lane-inputs"):
        columns = st.columns(MOST_LANES, gap="xsmall")
    lanes = [_lane_input(number, column) for number, column in enumerate(columns, start=1)]
    return [lane for lane in lanes if lane[0] != NO_LANE]


def _lane_input(number: int, column: DeltaGenerator) -> LaneChoice:
    lps = lp_choices(has_server=is_server_set())
    options = lps if number == 1 else [NO_LANE, *lps]
    row = column.container(
        horizontal=True, wrap=False, gap="xsmall", vertical_alignment="bottom", key=f"lane-input-{number}"
    )
    lp = row.selectbox(
        f"Lane {number}: LP",
        options,
        index=options.index(FIRST_LANES[number - 1]),
        key=f"lp{number}",
        bind="query-params",
        help="The logits processor. " + ("" if number == 1 else f"{NO_LANE}: no lane."),
    )
    info = None if lp == NO_LANE else lp_record(split_cleanup(lp)[0])
    is_guarded = info is not None and info.is_guarded
    own_placeholder = "" if info is None else info.placeholder
    about = "Backend, guard" if is_guarded else "Backend, placeholder, descriptors"
    name = f"Settings of lane {number}"  # read aloud; the style sheet hides it
    with row.popover(name, icon=":material/tune:", disabled=info is None, width="content", help=about):
        if info is not None:
            st.caption(f"{info.name}: {info.help}.")
        backend = backend_input(f"backend{number}", BACKEND_HELP)
        placeholder = st.text_input(
            "Placeholder",
            key=f"placeholder{number}",
            placeholder=own_placeholder or "none",
            disabled=not own_placeholder,
            bind="query-params",
            help="The coordinates whose tokens a position LP counts. Default: the LP's own.",
        )
        own_label = "as the LP" if info is not None and info.descriptors else "as the model"
        how = st.selectbox(
            "Descriptors",
            [OWN, *DESCRIPTORS],
            key=f"descriptors{number}",
            bind="query-params",
            format_func=lambda name: own_label if name == OWN else name,
            help="How a heteroatom with hydrogens is written: [O] and [N] (plain), or [OH] and [NH2]. The group's LPs "
            "force the second, whatever the model was trained on.",
        )
        guard = _guard_inputs(number, info)
    chosen: Descriptors | None = next((name for name in DESCRIPTORS if name == how), None)
    return lp, backend, placeholder.strip() if own_placeholder else "", chosen, guard


def _guard_inputs(number: int, info: LpRecord | None) -> GuardSettings:
    """Ways back have a name for each kind of guard: one that was usual for the LP before would stay."""
    if info is None or not info.is_guarded:
        return GuardSettings()
    usual = info.guard
    of_ways = (f"ways{number}", DEAD_END_HELP) if info.asks_tokens else (f"back{number}", BACK_HELP)
    with st.container(horizontal=True):
        about = WAY_HELP if info.asks_tokens else RETRIES_HELP
        retries = _tries("Retries", usual.retries, f"retries{number}", about)
        return replace(usual, retries=retries, back=_tries("Steps back", usual.back, *of_ways))


def _tries(label: str, usual: int, key: str, about: str) -> int:
    return int(st.number_input(label, 0, MOST_TRIES, usual, key=key, bind="query-params", help=about))


# --- all of it ----------------------------------------------------------------------------------------------------


def lanes_of(
    molecules: Sequence[Molecule], model: ModelChoice, plan: Plan, lanes: Sequence[LaneChoice]
) -> list[RunPlan]:
    """One lane each; they differ in LP, backend, placeholder, descriptors and guard only."""
    blocks = plan.conformers * max(molecule.atoms for molecule in molecules)
    plans = [
        replace(plan, lp=lp, backend=backend, placeholder=placeholder, descriptors=descriptors, guard=guard)
        for lp, backend, placeholder, descriptors, guard in lanes
    ]
    keep_steps = max(1, MOST_SCORED_BLOCKS // blocks)
    return [RunPlan(model, plan, keep_steps, rmsd=REFERENCES, strain=True, source=SOURCE) for plan in plans]
