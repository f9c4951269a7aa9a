"""The Logit health page: damage in logit logs and its likely causes, and how far two engines agree."""

import streamlit as st

from engine.questions.logits_models import MOST
from engine.store.schema import LOGIT_LOG
from engine.store.store import Store
from pages._kit.card import card
from pages._logits import manage
from pages._logits.logs import LogSelection, chosen_logs
from pages._shared.components.charts_ready import charts_ready
from pages._shared.errors import shown_errors
from pages._shared.frame import page
from pages._shared.sections import of_choice, show_open
from pages._shared.shown import put_shown

TITLE = "Logit health"
ICON = ":material/monitor_heart:"
LEAD = "Logits as an engine logged them: **garbage, dead buffers and masks told apart, each with its likely cause**."


def models(store: Store, chosen: LogSelection | None) -> None:
    """The newest logs of the store, whatever is chosen."""
    logs = [entry.id for entry in store.found(LOGIT_LOG).entries]
    card("logits_models", store, logs[-MOST:])
    if len(logs) > MOST:
        st.caption(f"The newest {MOST} of {len(logs):,} logs.")


def health(store: Store, chosen: LogSelection) -> None:
    of = chosen.control.id
    if chosen.tests:
        of = st.segmented_control("Log", chosen.ids, default=of, required=True, key="of", bind="query-params",
                                  format_func=chosen.letter_or_id) or of  # fmt: skip
    card("logits_health", store, [of])


def parity(store: Store, chosen: LogSelection) -> None:
    card("logits_parity", store, chosen.ids)


SECTIONS = {"Models": models, "Health": of_choice(health), "Parity": of_choice(parity), "Logs": manage.show}

page(TITLE, ICON, LEAD)
with shown_errors():
    store = Store.open().snapshot()
    chosen = chosen_logs(store)
show_open(SECTIONS, store, chosen)
charts_ready()
put_shown(page="logits", logs=chosen.ids if chosen else ())
