"""Widgets for what a generation needs on every page that starts one: seed, samples per molecule, sampling, device."""

from __future__ import annotations

import streamlit as st

from engine.decode.presets import PRESETS, Sampling

FIRST_MODEL = "demo-llama:final"
FIRST_SAMPLING = "qwen3"
FILTERS = ("temperature", "top_k", "top_p", "min_p")


def quick_inputs() -> tuple[int, int]:
    """Seed and samples per molecule."""
    left, right = st.columns(2)
    seed = left.number_input("Seed", 0, 2**31 - 1, 0, key="seed", bind="query-params", help="The same in all lanes.")
    count = right.number_input("Samples", 1, 32, 1, key="n", bind="query-params", help="Per molecule.")
    return int(seed or 0), int(count or 1)


def sampling_input() -> tuple[Sampling, int | None, str]:
    """Sampling, the most new tokens, and the device."""
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
        "Max new tokens", 16, 20_000, None, key="most_tokens", placeholder="by the molecule's size", bind="query-params"
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
