"""The Logit health page: damage in logit logs and its likely causes, and how far two engines agree."""

from collections.abc import Callable, Sequence
from functools import partial

import streamlit as st

from engine.questions.logits_models import MOST
from engine.questions.question import Option
from engine.store.schema import LOGIT_LOG
from engine.store.store import Store
from pages._kit.card import cards, choose
from pages._kit.components.charts_ready import charts_ready
from pages._kit.errors import escaped, shown_errors
from pages._kit.frame import page
from pages._kit.sections import show_open
from pages._kit.shown import put_shown
from pages._kit.words import unbroken
from pages._logits.logs import LOGS, show, verdict

TITLE = "Logit health"
ICON = ":material/monitor_heart:"
LEAD = "Logits as an engine logged them: **garbage, dead buffers and masks distinguished, each with its likely cause**."


def models(store: Store, ids: Sequence[str]) -> None:
    """The newest logs of the store, whatever is chosen."""
    logs = [entry.id for entry in store.listing(LOGIT_LOG).entries]
    cards(["logits_models"], store, logs[-MOST:])
    if len(logs) > MOST:
        st.caption(f"The newest {MOST} of {len(logs):,} logs.")


def health(store: Store, ids: Sequence[str]) -> None:
    of = next(iter(ids), None)
    if len(ids) > 1:
        if letter := dict(zip("AB", ids, strict=True)).get(st.query_params.get("of", "")):
            st.query_params["of"] = letter  # as older links have it
        of = choose(Option("of"), "Log", names)
    cards(["logits_health"], store, [of] if of else [])


SECTIONS: dict[str, Callable[..., None]] = {
    "Models": models,
    "Health": health,
    "Parity": partial(cards, ["logits_parity"]),
    "Logs": show,
}

page(TITLE, LEAD)
with shown_errors():
    store = Store.open().snapshot()
    chosen = LOGS.show(store.listing(LOGIT_LOG))
    names = LOGS.names(chosen)
    if chosen:
        st.markdown("\n".join(f"- {unbroken(escaped(verdict(entry, names[entry.id])))}" for entry in chosen))
show_open(SECTIONS, store, list(names))
charts_ready()
put_shown(page="logits", logs=list(names))
