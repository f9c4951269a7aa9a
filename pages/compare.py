"""The Compare page: stored runs with a control, what their differences are made of, and work on the store itself."""

from collections.abc import Callable, Sequence
from functools import partial

import streamlit as st

from engine.questions import PAGES, models_of, question_of
from engine.store.entries import model_name
from engine.store.store import Store
from pages._compare import manage, sql
from pages._kit.card import ALL_FIGURES, card, cards
from pages._kit.choices import complain, one_of
from pages._kit.components.charts_ready import charts_ready
from pages._kit.errors import shown_errors
from pages._kit.frame import page
from pages._kit.handover import report_button
from pages._kit.run_colours import run_colours
from pages._kit.sections import fold, is_unfolded, show_open
from pages._kit.shown import put_shown
from pages._kit.uploads import keep_upload, uploads

TITLE = "Compare runs"
ICON = ":material/compare_arrows:"
LEAD = "**Test** runs with a **control**: each figure with its ratio to the control, its interval, and noise flagged."
VIEWS = PAGES["compare"]


def side_by_side(store: Store, ids: Sequence[str]) -> None:
    matrix, *figures = VIEWS["Side by side", ""]
    cards([matrix], store, ids)
    if not ids:
        return
    label = "All figures of these runs, with their differences"
    of_a_link = any(option.name in st.query_params for key in figures for option in question_of(key).OPTIONS)
    is_open = of_a_link or is_unfolded(ALL_FIGURES, at_first=len(ids) <= 2)
    with fold(label, ALL_FIGURES, is_open, ":material/table_rows:"):
        if is_open:
            cards(figures, store, ids)


def charts(store: Store, ids: Sequence[str]) -> None:
    """A link that names a card's option and no question opens that card's question."""
    groups = {group: keys for (view, group), keys in VIEWS.items() if view == "Charts"}
    if "question" not in st.query_params:
        for group, keys in groups.items():
            if any(option.name in st.query_params for key in keys for option in question_of(key).OPTIONS):
                st.session_state.setdefault("question", group)
    if ids:
        cards(groups[one_of("Question", list(groups), "question", label_visibility="collapsed")], store, ids)


def log_probabilities(store: Store, ids: Sequence[str]) -> None:
    """Of the chosen runs, or of files, which come first."""
    about = "prime-rl's token_exports, NeMo-RL's train_data_step*.jsonl, or lines with token_ids and logprobs"
    files = uploads("Files in place of runs: one with two streams, or two", ["jsonl", "ndjson", "json"],
                    key="logprob_files", several=True, help=about)  # fmt: skip
    kept = [str(keep_upload(file.name, file.getvalue())) for file in files]
    has_files = bool(files or st.query_params.get("streams"))
    card("compare_logprobs", store, [] if has_files else ids, {"streams": kept} if files else {})


def advice(store: Store, ids: Sequence[str]) -> None:
    """About a model, not about the compared runs, which nothing shows meanwhile."""
    models = models_of(store.listing().entries)
    if models:
        first = model_name(store.entry(ids[0]).row) if ids else ""
        names = sorted(models, key=lambda name: name != first)  # the control's first
        complain("model with measured runs", names, "advice_model", names[0])
        about = "Models with measured runs; the control's first"
        model = st.selectbox("Model", names, key="advice_model", bind="query-params", width=260, help=about)
        cards(VIEWS["Advice", ""], store, [model or names[0]])
    else:
        title, command = "Nothing to advise from yet", ".venv/bin/python -m engine advise --model demo-qwen --probe 64"
        words = f"Start runs of one model under several LPs under **Manage**, or from a terminal: `{command}`"
        st.info(words, icon=":material/inbox:", title=title)


SECTIONS: dict[str, Callable[..., None]] = {
    "Side by side": side_by_side,
    "Charts": charts,
    "Coverage": partial(cards, VIEWS["Coverage", ""]),
    "Log-probabilities": log_probabilities,
    "Advice": advice,
    "SQL": sql.show,
    "Manage": manage.show,
}

page(TITLE, LEAD)
with shown_errors():
    store = Store.open().snapshot()
    with st.container(key="compared-runs"):
        is_about_a_model = st.query_params.get("view") == "Advice"
        listing, colours = store.listing(), run_colours(store)
        runs = manage.PICKER.read(listing)[0] if is_about_a_model else manage.PICKER.show(listing, colours)
        ids = [run.id for run in runs]
show_open(SECTIONS, store, ids)
if ids and not is_about_a_model:
    report_button(ids, key="report")
charts_ready()
put_shown(page="compare", runs=ids)
