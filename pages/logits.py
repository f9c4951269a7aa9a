"""The Logit health page: damage in logit logs and its likely cause, and how far two engines agree."""

import streamlit as st

from engine.store.store import Store
from pages._shared.errors import shown_errors
from pages._shared.frame import page
from pages._shared.logits import health, manage, models, parity
from pages._shared.logits.logs import chosen_logs
from pages._shared.sections import show_open

TITLE = "Logit health"
ICON = ":material/monitor_heart:"
LEAD = (
    "Logits as an engine logged them: **garbage, dead buffers and masks told apart, each with its likely cause**, and "
    "how far two engines agree on the same prompt."
)

SECTIONS = {
    "Models": models.show,
    "Health": health.show,
    "Parity": parity.show,
    "Logs": manage.show,
}
WITHOUT_CHOICE = ("Models", "Logs")  # what these show does not hang on it

page(TITLE, ICON, LEAD)
with shown_errors():
    store = Store.open().still()
    chosen = chosen_logs(store, is_open=st.query_params.get("view") not in WITHOUT_CHOICE)
show_open(SECTIONS, store, chosen)
