"""The Compare page's advice: which LP to use for the control's model, from its measured runs or from a probe.

The same as `advise` in a terminal: what is advised, the reports' rule beside it, what each LP gave and cost, why, and
what nobody knows. It is about a model, not about the chosen runs: these only lend it their letters and colours.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import get_args

import streamlit as st

from engine.evidence.advice.document import document
from engine.evidence.advice.figures import Want
from engine.evidence.advice.settings import CANDIDATES, Setting, Wanted, model_name, models_of, settings_of
from engine.evidence.advice.words import count_of
from engine.evidence.advisor import Advice, Asked, advise
from engine.lp.catalogue import LPS
from engine.store.entries import Entry
from engine.store.store import Store
from pages._shared.compare import advice_probe as probe
from pages._shared.compare.advice_cost import show_cost
from pages._shared.compare.advice_table import show_table
from pages._shared.compare.state import Chosen
from pages._shared.errors import escape_markdown, shown_errors

WISHES: dict[str, Want] = {one.capitalize(): one for one in get_args(Want)}
ANY_SETTING = "The one with most LPs"
MOLECULES, MOST_MOLECULES = 10_000, 1_000_000_000
MOST_NAMED = 8
_EMPTY = """
An advice rests on runs that were measured here, and this store has none with samples and a time. Two ways to some:

- Start runs of one model under several LPs under **Manage**.
- From a terminal: `.venv/bin/python -m engine advise --model demo-qwen --probe 64`
"""
_HELP = "Clean: passed, and every number is whole. Passed is the reports' rule, under which junk and cut numbers pass."


def show(store: Store, chosen: Chosen | None) -> None:
    """Draw this section; ``chosen`` is None where no run is compared."""
    models = models_of(store.found().entries)
    if not models:
        st.info(_EMPTY, icon=":material/inbox:", title="Nothing to advise from yet")
        return
    _panel(store, chosen, models)
    probe.show_tasks(store)


@st.fragment
def _panel(store: Store, chosen: Chosen | None, models: dict[str, list[Entry]]) -> None:
    with shown_errors():
        model, asked, molecules = _inputs(models, _own_model(chosen, models))
        keys = tuple(entry.key for entry in models[model])
        advice = _advice(store, keys, model, asked)
        left, right = st.columns([3, 2], gap="small")
        with left:
            _words(advice)
        with right:
            _reports(advice)
        for caution in advice.cautions:
            st.warning(escape_markdown(caution), icon=":material/warning:")
        show_cost(advice, chosen)
        show_table(advice, molecules, chosen)
        _why(advice)
        _unknown(advice)
        st.download_button(
            "Advice as JSON",
            lambda: json.dumps(document(advice, molecules), indent=1),
            "advice.json",
            "application/json",
            icon=":material/download:",
            on_click="ignore",
            type="tertiary",
            key="advice-json",
            help="The same document as `advise --json`",
        )
        probe.offer(store, advice)


def _own_model(chosen: Chosen | None, models: dict[str, list[Entry]]) -> str:
    own = "" if chosen is None else model_name(chosen.control.row)
    return own if own in models else next(iter(models))


# --- what is asked ----------------------------------------------------------------------------------------------------


def _inputs(models: dict[str, list[Entry]], own: str) -> tuple[str, Asked, int]:
    names = [own, *(name for name in models if name != own)]
    with st.container(horizontal=True, vertical_alignment="bottom", key="advice-inputs"):
        model = st.selectbox(
            "Model", names, key="advice_model", bind="query-params", width=210,
            help="Models with measured runs; the control's first",
        )  # fmt: skip
        model = model if model in models else own
        setting = _setting_input(list(settings_of(models[model])))
        wish = st.segmented_control(
            "Usable means", list(WISHES), default="Clean", required=True, key="advice_want", bind="query-params",
            help=_HELP,
        )  # fmt: skip
        count = st.number_input(
            "Molecules to write", 1, MOST_MOLECULES, MOLECULES, key="advice_molecules", bind="query-params", width=150,
            help="What they take under each LP, in the table",
        )  # fmt: skip
    lps = st.multiselect(
        "LPs to choose from", list(LPS), list(CANDIDATES), key="advice_lps", bind="query-params",
        placeholder="The usual five",
    )  # fmt: skip
    asked = Asked(lps=tuple(lps or CANDIDATES), want=WISHES.get(wish or "", "clean"), wanted=setting)
    return model, asked, int(count or MOLECULES)


def _setting_input(settings: Sequence[Setting]) -> Wanted:
    """A choice, where there are runs of several settings; they are never mixed."""
    words = {ANY_SETTING: Wanted()} | {_setting_words(one): _wanted(one) for one in settings}
    chosen = st.selectbox(
        "Setting",
        list(words),
        key="advice_setting",
        bind="query-params",
        width=280,
        help="Sampling, batch, backend and device. Runs of different settings are never mixed.",
    )
    return words.get(chosen or "", Wanted())


def _setting_words(setting: Setting) -> str:
    parts = (setting.sampling, f"{setting.batch_size or '–'} rows", setting.backend, setting.device)
    return " · ".join(part or "–" for part in parts)


def _wanted(setting: Setting) -> Wanted:
    return Wanted(setting.sampling, setting.batch_size, setting.backend, setting.device)


@st.cache_resource(max_entries=48, show_spinner="Weighing LPs …")
def _advice(_store: Store, keys: tuple[tuple[str, ...], ...], model: str, asked: Asked) -> Advice:
    """``keys`` of the model's runs: what is computed holds as long as these are there."""
    return advise(_store, model, asked)


# --- what is told -----------------------------------------------------------------------------------------------------


def _words(advice: Advice) -> None:
    first, _, rest = advice.sentence.partition(". ")
    icon = ":material/recommend:" if advice.decision.lp else ":material/help:"
    setting = f"{advice.setting.words}; {count_of(advice.measured.molecules, 'molecule')} shared by all of these runs"
    with st.container(border=True, height="stretch", key="advice-sentence"):
        st.markdown(f"#### {icon} {escape_markdown(first.removesuffix('.'))}")
        if rest:
            st.markdown(escape_markdown(rest))
        st.caption(escape_markdown(f"Measured for {advice.model} with {setting}."))


def _reports(advice: Advice) -> None:
    agrees = advice.reports.agrees
    badge = {True: ":green-badge[:material/check: agrees]", False: ":orange-badge[:material/close: does not agree]"}
    with st.container(border=True, height="stretch", key="advice-reports"):
        st.markdown(
            f"**The reports' rule** {'' if agrees is None else badge[agrees]}",
            help="Use an LP when the model breaks structure without it, and leave it out when it does not. It is one "
            "input here; what each LP costs is the other. No figure of the reports is used.",
        )
        st.markdown(escape_markdown(advice.reports.sentence))


def _unknown(advice: Advice) -> None:
    with st.container(border=True, key="advice-unknown"):
        st.markdown("**What this does not know**")
        st.markdown("\n".join(f"- {escape_markdown(one)}" for one in advice.unknown))


def _why(advice: Advice) -> None:
    lps = zip(advice.measured.names, advice.reasons, strict=True)
    with st.expander("Why: the rule, and how each LP stands under it", icon=":material/rule:"):
        st.markdown(escape_markdown(advice.rule))
        st.markdown("\n".join(f"- **{escape_markdown(lp)}** {escape_markdown(reason)}" for lp, reason in lps))
        left = [f"{count_of(one.runs, 'run')} of another setting: {one.differs}" for one in advice.others[:MOST_NAMED]]
        left += [f"{len(advice.others) - MOST_NAMED} more settings"] if len(advice.others) > MOST_NAMED else []
        if left or advice.left_out:
            st.markdown("Left out, and never mixed in:")
            st.markdown("\n".join(f"- {escape_markdown(one)}" for one in (*left, *advice.left_out)))
