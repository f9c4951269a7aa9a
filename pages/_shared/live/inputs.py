"""What the live page is asked for: molecules, the model, lanes, and how tokens are drawn. All of it is in the address.

It knows nothing of running, and of what a lane shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from engine.chem.enriched import skeleton_of
from engine.chem.molecule_sets import load_named
from engine.chem.smiles import parse_smiles
from engine.decode.plan import BACKENDS, BackendName, Plan
from engine.decode.presets import PRESETS, Sampling
from engine.errors import DriftscopeError, SmilesError
from engine.live.lane import MOST_MOLECULES, Lane, scored_answers
from engine.lp.catalogue import LPS, lp_info, split_cleanup
from engine.models.registry import Dtype, ModelEntry, load_registry
from engine.records import Molecule
from engine.runner.plan import ModelChoice, RunPlan
from pages._shared.errors import escape_markdown

MOST_LANES = 4
MOST_PROBLEMS = 3
"""Bad lines that are shown one by one."""
NO_LANE = "—"
FIRST_LANES = ("none", "position-blocklist", "exact", NO_LANE)
FIRST_MOLECULE = "Cn1cnc2c1c(=O)n(C)c(=O)n2C"
FIRST_MODEL = "demo-llama:final"
FIRST_SAMPLING = "qwen3"
FILTERS = ("temperature", "top_k", "top_p", "min_p")
CLEANED = ("position-blocklist", "position-blocklist-short")
REFERENCES = 10
"""Reference conformers that an answer is compared with."""
SOURCE = "live page"


def molecule_inputs() -> tuple[tuple[Molecule, ...], list[str]]:
    """The molecules that are typed in, and what is wrong with the other lines, as Markdown."""
    left, right = st.columns([2, 3])
    left.selectbox(
        "A named molecule",
        list(_named()),
        index=None,
        key="named",
        on_change=_take_named,
        placeholder="Choose one",
        help="Puts its SMILES into the field beside.",
    )
    text = right.text_area(
        "SMILES",
        FIRST_MOLECULE,  # as its default, not as state: the browser's Back restores defaults only
        key="smiles",
        height=68,
        on_change=_let_go_of_named,
        bind="query-params",
        help=f"One a line, up to {MOST_MOLECULES}. Leave the field to see the drawing; Ctrl+Enter generates at once.",
    )
    return read_lines(text or "")


def _take_named() -> None:
    chosen = st.session_state.get("named")
    if chosen:
        st.session_state["smiles"] = _named()[chosen]


def _let_go_of_named() -> None:
    """What is typed has no name, and a name that stands there already could not be chosen again."""
    st.session_state["named"] = None


@st.cache_data(show_spinner=False)
def _named() -> dict[str, str]:
    return {one.name: one.smiles for one in load_named()}


@st.cache_data(max_entries=200, show_spinner=False)
def _read(smiles: str) -> Molecule | str:
    """The molecule, or Markdown that says what is wrong with the line."""
    try:
        molecule = parse_smiles(smiles)
        skeleton_of(molecule)  # some molecules have no enriched form
    except SmilesError as error:
        return _pointed_at(smiles, error)
    except DriftscopeError as error:
        words = str(error)
        return escape_markdown(words[:1].upper() + words[1:])
    return molecule


def _pointed_at(smiles: str, error: SmilesError) -> str:
    """The reason, and where it is known the place in the line."""
    words = escape_markdown(str(error))
    if error.position is None or not smiles.isascii() or not smiles.isprintable() or len(smiles) > 80:
        return words
    return f"{words}\n\n    {smiles}\n    {' ' * error.position}^"


def read_lines(text: str) -> tuple[tuple[Molecule, ...], list[str]]:
    """Blank lines and what follows the SMILES on a line are passed over, as in .smi files."""
    lines = [words[0] for line in text.splitlines() if (words := line.split())]
    if len(lines) > MOST_MOLECULES:
        more = f"{len(lines):,} molecules are more than the {MOST_MOLECULES} that fit a page."
        return (), [f"{more} Use `python -m engine run` for them."]
    found = [_read(line) for line in lines]
    problems = [one for one in found if isinstance(one, str)]
    if len(problems) > MOST_PROBLEMS:
        left = len(problems) - MOST_PROBLEMS
        problems[MOST_PROBLEMS:] = [f"{left} more {'line' if left == 1 else 'lines'} cannot be read."]
    return tuple(one for one in found if isinstance(one, Molecule)), problems


# --- the model and the lanes --------------------------------------------------------------------------------------


def model_input() -> ModelEntry | None:
    """The model that is chosen; the page says so where there is none."""
    entries = {entry.name: entry for entry in load_registry().entries}
    names = list(entries)
    chosen = st.selectbox(
        "Model",
        names,
        index=names.index(FIRST_MODEL) if FIRST_MODEL in names else 0,
        key="model",
        bind="query-params",
        help="The embedded ones, and those of the file that DRIFTSCOPE_MODELS names.",
    )
    return entries.get(chosen or "")


def lane_inputs() -> list[tuple[str, BackendName, str]]:
    """LP, backend and placeholder of each lane that is on."""
    found = [_lane_input(number, column) for number, column in enumerate(st.columns(MOST_LANES, gap="medium"), start=1)]
    return [one for one in found if one[0] != NO_LANE]


def _lane_input(number: int, column: DeltaGenerator) -> tuple[str, BackendName, str]:
    lps = [*LPS, *(f"{name}+cleanup" for name in CLEANED), "cleanup"]
    options = lps if number == 1 else [NO_LANE, *lps]
    choice, more = column.columns([4, 1], gap="xsmall", vertical_alignment="bottom")
    lp = choice.selectbox(
        f"Lane {number}: LP",
        options,
        index=options.index(FIRST_LANES[number - 1]),
        key=f"lp{number}",
        bind="query-params",
        help="The logits processor. " + ("" if number == 1 else f"{NO_LANE} leaves the lane out."),
    )
    with more.popover("", icon=":material/tune:", disabled=lp == NO_LANE, width="stretch", help="Backend, placeholder"):
        return (lp, *_lane_options(number, lp))


def _lane_options(number: int, lp: str) -> tuple[BackendName, str]:
    info = None if lp == NO_LANE else lp_info(split_cleanup(lp)[0])
    if info is not None:
        st.caption(f"{info.name}: {info.what}.")
    backend = st.segmented_control(
        "Backend",
        list(BACKENDS),
        default=BACKENDS[0],
        required=True,
        key=f"backend{number}",
        bind="query-params",
        help="fast is the loop of this project, hf is the plain `generate` of transformers.",
    )
    has_placeholder = info is not None and bool(info.placeholder)
    placeholder = st.text_input(
        "Placeholder",
        key=f"placeholder{number}",
        placeholder=info.placeholder if info is not None and has_placeholder else "none",
        disabled=not has_placeholder,
        bind="query-params",
        help="What a position LP counts with; its own without one.",
    )
    return backend, placeholder.strip() if has_placeholder else ""


def quick_inputs() -> tuple[int, int]:
    """Seed and samples a molecule."""
    left, right = st.columns(2)
    seed = left.number_input("Seed", 0, 2**31 - 1, 0, key="seed", bind="query-params", help="The same in all lanes.")
    count = right.number_input("Samples", 1, 32, 1, key="n", bind="query-params", help="Answers for each molecule.")
    return int(seed or 0), int(count or 1)


def sampling_input() -> tuple[Sampling, int | None, str]:
    """How tokens are drawn, the most tokens of an answer, and the device."""
    preset = st.selectbox(
        "Sampling preset",
        list(PRESETS),
        index=list(PRESETS).index(FIRST_SAMPLING),
        key="sampling",
        on_change=_take_preset,
        bind="query-params",
        help="The reports' presets. Choosing one sets the four numbers below, which may then be changed.",
    )
    chosen = PRESETS[preset or FIRST_SAMPLING]
    one, two = st.columns(2)
    with one:
        temperature = _real("Temperature", "temperature", 0.0, 5.0, chosen.temperature, "0 is greedy.")
        top_p = _real("Top-p", "top_p", 0.01, 1.0, chosen.top_p, "1 keeps all.")
    with two:
        top_k = st.number_input("Top-k", 0, 1_000, chosen.top_k, key="top_k", bind="query-params", help="0 keeps all.")
        min_p = _real("Min-p", "min_p", 0.0, 1.0, chosen.min_p, "0 keeps all.")
    sampling = Sampling(temperature, int(top_k), top_p, min_p)
    if sampling != chosen:
        st.caption(f"Changed from the preset {preset}.")
    one, two = st.columns(2)
    limit = one.number_input(
        "Most tokens", 16, 20_000, None, key="most_tokens", placeholder="by the molecule's size", bind="query-params"
    )
    device = two.selectbox("Device", ["auto", "cpu", "cuda", "mps"], key="device", bind="query-params")
    return sampling, None if limit is None else int(limit), device or "auto"


def _real(label: str, key: str, least: float, most: float, default: float, help: str) -> float:
    return float(st.number_input(label, least, most, default, step=0.05, key=key, bind="query-params", help=help))


def _take_preset() -> None:
    chosen = PRESETS.get(st.session_state.get("sampling") or "")
    if chosen is not None:
        for name in FILTERS:
            st.session_state[name] = getattr(chosen, name)


# --- all of it ----------------------------------------------------------------------------------------------------


def lanes_of(
    molecules: Sequence[Molecule],
    entry: ModelEntry,
    lanes: Sequence[tuple[str, BackendName, str]],
    sampling: Sampling,
    *,
    seed: int,
    samples: int,
    limit: int | None = None,
    device: str = "auto",
    dtype: Dtype | None = None,
) -> tuple[Lane, ...]:
    """One lane each, alike but for LP, backend and placeholder."""
    kept = scored_answers([molecule.atoms for molecule in molecules], samples)
    model = ModelChoice(entry.alias, entry.step, device=device, dtype=dtype)
    plan = Plan(sampling=sampling, generations=samples, seed=seed, limit=limit)
    smiles = tuple(molecule.smiles for molecule in molecules)
    return tuple(
        Lane(
            smiles,
            RunPlan(
                model,
                replace(plan, lp=lp, backend=backend, placeholder=placeholder),
                keep_steps=kept,
                rmsd=REFERENCES,
                source=SOURCE,
            ),
        )
        for lp, backend, placeholder in lanes
    )
