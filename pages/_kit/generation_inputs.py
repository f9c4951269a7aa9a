"""What a generation needs on every page that starts one: SMILES that are typed, seed, samples, sampling, device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import streamlit as st

from engine.chem.enriched import skeleton_of
from engine.chem.smiles import parse_smiles
from engine.decode.plan import BACKENDS, MOST_ASKED, PRESETS, BackendName, Sampling
from engine.errors import DriftscopeError, SmilesError
from engine.figures.words import counted
from engine.models.server import ADDRESS, is_server_set
from engine.records import Molecule
from pages._kit.choices import one_of
from pages._kit.errors import error_markdown

FIRST_MODEL = "demo-llama:final"
FIRST_SAMPLING = "qwen3"
MOST_EXAMPLES = 6_000
"""Characters: all of it is in the address."""
MOST_PROBLEMS = 3
"""Unreadable lines that are shown one by one."""
FILTERS = ("temperature", "top_k", "top_p", "min_p")


def first_words(text: str) -> list[tuple[int, str]]:
    """The first word of each line that has one, as in .smi files, and the line's number, from 1."""
    lines = enumerate(map(str.split, text.splitlines()), 1)
    return [(number, words[0]) for number, words in lines if words]


@st.cache_data(max_entries=4_000, show_spinner=False)
def read_smiles(smiles: str) -> Molecule | str:
    """The molecule, or Markdown that says what is wrong with it, with a mark below the position where that is known."""
    try:
        molecule = parse_smiles(smiles)
        skeleton_of(molecule)  # some molecules have no enriched form
    except DriftscopeError as error:
        words = error_markdown(error)
        position = error.position if isinstance(error, SmilesError) else None
        if position is None or not smiles.isascii() or not smiles.isprintable() or len(smiles) > 80:
            return words
        return f"{words}\n\n    {smiles}\n    {' ' * position}^"
    return molecule


def show_problems(problems: Sequence[str]) -> None:
    for problem in problems[:MOST_PROBLEMS]:
        st.error(problem, icon=":material/error:")
    if len(problems) > MOST_PROBLEMS:
        st.error(f"{counted(len(problems) - MOST_PROBLEMS, 'more line')} cannot be read.", icon=":material/error:")


def backend_input(key: str, help: str) -> BackendName:
    """``server`` is offered where the environment names one: no link does."""
    offered = [name for name in BACKENDS if name != "server" or is_server_set()]
    about = f" server: the one that {ADDRESS} names." if "server" in offered else ""
    return one_of("Backend", offered, key, help=help + about)


CONFORMERS_HELP = (
    "In one answer, for the LPs exact (each of them whole), none and group-conformers. Max new tokens grow with them."
)


def quick_inputs() -> tuple[int, int, int]:
    """Seed, samples of each molecule, conformers of each answer."""
    more: Any = {"bind": "query-params"}
    with st.container(horizontal=True, gap="xsmall"):  # a narrow window has two lines of them, not two of a label
        seed = st.number_input("Seed", 0, 2**31 - 1, 0, key="seed", width=80, help="The same in all lanes.", **more)
        count = st.number_input("Samples", 1, 32, 1, key="n", width=100, help="Per molecule.", **more)
        several = st.number_input(
            "Conformers", 1, MOST_ASKED, 1, key="conformers", width=120, help=CONFORMERS_HELP, **more
        )
    return int(seed or 0), int(count or 1), int(several or 1)


def bins_input(key: str) -> str:
    text = st.text_input(
        "Bins",
        key=key,
        bind="query-params",
        max_chars=MOST_EXAMPLES,
        placeholder="as registered",
        help="In place of what the model's entry says: a JSON file (mode, L, H, n_bins, edges) on the machine that the "
        "app runs on; or, of the older form in brackets, width and range: 0.042 21.",
    )
    return (text or "").strip()


def examples_input() -> str:
    """Examples before each prompt, as they are typed."""
    text = st.text_area(
        "Examples before each prompt",
        key="examples",
        height=68,
        max_chars=MOST_EXAMPLES,
        bind="query-params",
        placeholder="[SMILES]CO[/SMILES][CONFORMER][C]<...>[O]<...>[/CONFORMER]",
        help="Molecules with their conformers, which the model reads first; of a file: `generate --examples FILE`.",
    )
    return (text or "").strip()


def sampling_input() -> tuple[Sampling, int | None, str]:
    preset = st.selectbox(
        "Sampling preset",
        list(PRESETS),
        index=list(PRESETS).index(FIRST_SAMPLING),
        key="sampling",
        on_change=_take_preset,
        bind="query-params",
        help="The reports' presets. A preset sets the four numbers below; you can change them.",
    )
    chosen = PRESETS[preset or FIRST_SAMPLING]
    left, right = st.columns(2)
    with left:
        temperature = _real("Temperature", "temperature", 0.0, 5.0, chosen.temperature, "0 is greedy.")
        top_p = _real("Top-p", "top_p", 0.01, 1.0, chosen.top_p, "1 keeps all.")
    with right:
        top_k = st.number_input("Top-k", 0, 1_000, chosen.top_k, key="top_k", bind="query-params", help="0 keeps all.")
        min_p = _real("Min-p", "min_p", 0.0, 1.0, chosen.min_p, "0 keeps all.")
    sampling = Sampling(temperature, int(top_k), top_p, min_p)
    if sampling != chosen:
        st.caption(f"Changed from the preset {preset}.")
    left, right = st.columns(2)
    limit = left.number_input(
        "Max new tokens", 16, 20_000, None, key="most_tokens", placeholder="by the molecule's size", bind="query-params"
    )
    device = right.selectbox("Device", ["auto", "cpu", "cuda", "mps"], key="device", bind="query-params")
    return sampling, None if limit is None else int(limit), device or "auto"


def _real(label: str, key: str, least: float, most: float, default: float, help: str) -> float:
    return float(st.number_input(label, least, most, default, step=0.05, key=key, bind="query-params", help=help))


def _take_preset() -> None:
    chosen = PRESETS.get(st.session_state.get("sampling") or "")
    if chosen is not None:
        for name in FILTERS:
            st.session_state[name] = getattr(chosen, name)
