"""The Logit health page: damage in logit logs and its likely cause, and how far two engines agree."""

from pathlib import Path

import streamlit as st

from engine.store.store import Store
from pages._logits import health, manage, models, parity
from pages._logits.logs import chosen_logs
from pages._shared.errors import shown_errors
from pages._shared.frame import page
from pages._shared.sections import of_choice, show_open
from pages._shared.shown import put_shown

TITLE = "Logit health"
ICON = ":material/monitor_heart:"
LEAD = "Logits as an engine logged them: **garbage, dead buffers and masks told apart, each with its likely cause**."

SECTIONS = {
    "Models": models.show,
    "Health": of_choice(health.show),
    "Parity": of_choice(parity.show),
    "Logs": manage.show,
}

page(TITLE, ICON, LEAD)
st.html(Path(__file__).parent / "_logits" / "logits.css")
with shown_errors():
    store = Store.open().snapshot()
    chosen = chosen_logs(store)
show_open(SECTIONS, store, chosen)
put_shown(page="logits", logs=chosen.ids if chosen else ())
