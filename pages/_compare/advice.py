"""The Compare page's advice: which LP to use for the control's model, from its measured runs or from a probe.

The same as `advise` in a terminal: the advice, the reports' rule, what each LP gave and cost, the reasons, and what is
not known. It is about a model, not about the compared runs, so their names and their list are hidden meanwhile.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence

import streamlit as st

from engine.evidence.advice.commands import PROBED
from engine.evidence.advice.document import document
from engine.evidence.advice.figures import Want
from engine.evidence.advice.predicted import unmeasured
from engine.evidence.advice.settings import CANDIDATES, Setting, SettingFilter, models_of, settings_of
from engine.evidence.advisor import Advice, AdviceRequest, advise
from engine.figures.words import counted
from engine.lp_records import LPS
from engine.models.devices import spare_cores
from engine.records import RULE_HELP
from engine.runner.background import task_queue
from engine.store.entries import Entry, model_name
from engine.store.store import Store
from pages._compare.advice_figures import show_cost, show_table
from pages._compare.runs import RunSelection
from pages._shared.choices import complain, one_of
from pages._shared.errors import escape_markdown, shown_errors
from pages._shared.managing import tasks
from pages._shared.table_files import file_button
from pages._shared.words import unbroken

RATE_WORDS = {
    "passed": "Passed: no issue by the reports' rule; junk may pass.",
    "clean": "Clean: passed, decodes, and no block known to be damaged.",
    "usable": "Usable: a clean text, and the molecule right in 3D; of judged answers.",
}
WANTS: dict[str, Want | None] = {"Usable": None, "Clean": "clean", "Passed": "passed"}
ANY_SETTING = "Setting with most LPs measured"
MOLECULES, MOST_MOLECULES = 10_000, 1_000_000_000
MOST_NAMED = 8
PYTHON = ("python", "-m", "engine")
LEAST_PROBED, MOST_PROBED = 4, 2_000
_SIZE = re.compile(r"(--(?:probe|sample-size) )\d+")
_EMPTY = """
Advice needs runs that were measured here, with samples and times; this store has none. Two ways to get some:

- Start runs of one model under several LPs under **Manage**.
- From a terminal: `.venv/bin/python -m engine advise --model demo-qwen --probe 64`
"""
_HIDDEN = "<style>.st-key-compared-runs { display: none; }</style>"
_HELP = (
    "Usable: clean, with the molecule right in 3D; clean where answers are not judged. "
    f"Clean: {RULE_HELP['clean']}. Passed: {RULE_HELP['passed']}."
)

_REPORTS_HELP = (
    "The rule of the group's reports: use an LP when the model breaks structure without it, and none when it does not. "
    "Shown for comparison: the advice itself uses measured costs only."
)


def show(store: Store, chosen: RunSelection | None) -> None:
    st.html(_HIDDEN)
    models = models_of(store.found().entries)
    if not models:
        st.info(_EMPTY, icon=":material/inbox:", title="Nothing to advise from yet")
        _unmeasured(models)
        return
    _panel(store, chosen, models)
    _unmeasured(models)
    tasks.show(store)


def _unmeasured(models: dict[str, list[Entry]]) -> None:
    gains = unmeasured(models)
    if gains:
        with st.expander("Models without a run: what an LP will gain", icon=":material/speed:"):
            st.markdown("\n".join(f"- **{escape_markdown(name)}** {escape_markdown(gains[name])}" for name in gains))


@st.fragment
def _panel(store: Store, chosen: RunSelection | None, models: dict[str, list[Entry]]) -> None:
    with shown_errors():
        above = st.container(key="advice-answer")
        model, request, molecules = _inputs(models, chosen)
        keys = tuple(entry.key for entry in models[model])
        advice = _advice(store, keys, model, request)
        with above:
            _words(advice)
        _reports(advice)
        if advice.cautions:
            lines = [f"- {escape_markdown(caution)}" for caution in advice.cautions]
            st.warning("\n".join(lines), icon=":material/warning:")
        show_table(advice, molecules)
        show_cost(advice)
        _why(advice)
        with st.container(border=True, key="advice-unknown"):
            st.markdown("**Not known**")
            st.markdown("\n".join(f"- {escape_markdown(gap)}" for gap in advice.unknown))
        file_button(
            "Advice as JSON", lambda: json.dumps(document(advice, molecules), indent=1), "advice.json",
            key="advice-json", help="The same document as `advise --json`",
        )  # fmt: skip
        _probe(store, advice)


# --- the request ------------------------------------------------------------------------------------------------------


def _inputs(models: dict[str, list[Entry]], chosen: RunSelection | None) -> tuple[str, AdviceRequest, int]:
    first = "" if chosen is None else model_name(chosen.control.row)
    first = first if first in models else next(iter(models))
    names = [first, *(name for name in models if name != first)]
    complain("model with measured runs", names, "advice_model", first)
    with st.container(horizontal=True, vertical_alignment="bottom", key="advice-inputs"):
        model = st.selectbox(
            "Model", names, key="advice_model", bind="query-params", width=210,
            help="Models with measured runs; the control's first",
        )  # fmt: skip
        model = model if model in models else first
        want = WANTS[one_of("Wanted", list(WANTS), "advice_want", help=_HELP)]
        with st.popover("LPs, setting, molecules", icon=":material/tune:"):
            lps = st.multiselect(
                "LPs to choose from", list(LPS), list(CANDIDATES), key="advice_lps", bind="query-params",
                placeholder="The usual six",
            )  # fmt: skip
            setting = _setting_input(list(settings_of(models[model])))
            count = st.number_input(
                "Molecules to write", 1, MOST_MOLECULES, MOLECULES, key="advice_molecules", bind="query-params",
                help="The table shows the time for this many under each LP",
            )  # fmt: skip
    request = AdviceRequest(lps=tuple(lps or CANDIDATES), want=want, filter=setting)
    return model, request, int(count or MOLECULES)


def _setting_input(settings: Sequence[Setting]) -> SettingFilter:
    """A choice, where there are runs of several settings; they are never mixed."""
    filters = {ANY_SETTING: SettingFilter()}
    for setting in settings:
        parts = (setting.sampling, f"{setting.batch_size or '–'} rows", setting.backend, setting.device)
        words = " · ".join(part or "–" for part in parts)
        filters[words] = SettingFilter(setting.sampling, setting.batch_size, setting.backend, setting.device)
    chosen = st.selectbox(
        "Setting",
        list(filters),
        key="advice_setting",
        bind="query-params",
        width=280,
        help="Sampling, batch, backend and device. Runs of different settings are never mixed.",
    )
    return filters.get(chosen or "", SettingFilter())


@st.cache_resource(max_entries=48, show_spinner="Comparing LPs …")
def _advice(_store: Store, keys: tuple[tuple[str, ...], ...], model: str, request: AdviceRequest) -> Advice:
    """``keys`` of the model's runs: the advice is valid as long as these do not change."""
    return advise(_store, model, request)


# --- the advice -------------------------------------------------------------------------------------------------------


def _words(advice: Advice) -> None:
    first, _, rest = advice.sentence.partition(". ")
    icon = ":material/recommend:" if first.startswith("Use ") else ":material/info:"
    headline = f"With {advice.model}, {first[:1].lower()}{first[1:].removesuffix('.')}"
    setting = f"{advice.setting.words}, over the same {counted(advice.measured.molecules, 'molecule')}"
    with st.container(border=True, key="advice-sentence"):
        st.markdown(f"#### {icon} {unbroken(escape_markdown(headline))}")
        if rest:
            st.markdown(unbroken(escape_markdown(rest)))
        st.caption(escape_markdown(f"{RATE_WORDS[advice.want]} Measured with {setting}."))


def _reports(advice: Advice) -> None:
    agrees = advice.reports.agrees
    badge = {True: ":green-badge[:material/check: agrees]", False: ":orange-badge[:material/close: does not agree]"}
    with st.container(key="advice-reports"):
        st.markdown(
            f"**What the group's reports would advise.** {'' if agrees is None else badge[agrees]} "
            + unbroken(escape_markdown(advice.reports.sentence)),
            help=f"{_REPORTS_HELP} {escape_markdown(advice.reports.detail)}",
        )


def _why(advice: Advice) -> None:
    lps = zip(advice.measured.names, advice.reasons, strict=True)
    with st.expander("Why: the rule, and how each LP scores", icon=":material/rule:"):
        st.markdown(escape_markdown(advice.rule))
        st.markdown("\n".join(f"- **{escape_markdown(lp)}** {escape_markdown(reason)}" for lp, reason in lps))
        left = [
            f"{counted(other.runs, 'run')} of another setting: {other.differs}" for other in advice.others[:MOST_NAMED]
        ]
        left += [f"{len(advice.others) - MOST_NAMED} more settings"] if len(advice.others) > MOST_NAMED else []
        if left or advice.left_out:
            st.markdown("Left out:")
            st.markdown("\n".join(f"- {escape_markdown(runs)}" for runs in (*left, *advice.left_out)))


# --- the probe --------------------------------------------------------------------------------------------------------


def _probe(store: Store, advice: Advice) -> None:
    """The commands that measure what is missing, and a button that starts the probe, the last of them."""
    with st.container(border=True, key="advice-probe"):
        st.markdown("**Measure now**")
        missing = ", ".join(advice.missing)
        st.markdown(
            f"Not measured under this setting: {escape_markdown(missing)}."
            if missing
            else "A probe writes the same held-out molecules under each LP, one LP after the other, into the store, "
            "and then judges them."
        )
        size = st.number_input(
            "Molecules per probe run", LEAST_PROBED, MOST_PROBED, PROBED, key="advice_probe", bind="query-params",
            width=180,
            help="From the held-out molecules that ship. With fewer than 35, a 90 % rate cannot be confirmed.",
        )  # fmt: skip
        probe = of_size(advice.probe, int(size or PROBED))
        for command in (*advice.commands[:-1], probe):
            st.code(f".venv/bin/{command}", language=None, wrap_lines=True)
        words = words_of(probe)
        about = shlex.join(words)
        if words and st.button(
            "Probe now",
            icon=":material/play_arrow:",
            key="advice-start",
            disabled=task_queue().is_at(about),
            help=f"Starts the last command above. Its runs go to {escape_markdown(store.home.where)}.",
        ):
            command_words = [words[0], f"--threads={spare_cores()}", *words[1:]]
            if tasks.submit(f"Probe of {advice.model}", command_words, about=about):
                st.rerun()


def of_size(command: str, molecules: int) -> str:
    return _SIZE.sub(rf"\g<1>{molecules}", command)


def words_of(command: str) -> list[str]:
    """The arguments after `python -m engine`; none where the command cannot be started without the user's own path."""
    words = shlex.split(command)
    return words[len(PYTHON) :] if tuple(words[: len(PYTHON)]) == PYTHON and "--model-path" not in words else []
