"""The Compare page: stored runs against a control, what their differences are made of, and work on the store itself."""

import streamlit as st

from engine.store.store import Store
from pages._compare import advice, charts, coverage, manage, sql, table
from pages._compare.runs import chosen_runs
from pages._shared.errors import shown_errors
from pages._shared.frame import page
from pages._shared.sections import of_choice, show_open

TITLE = "Compare runs"
ICON = ":material/compare_arrows:"
LEAD = (
    "Compare a **control** run with **test** runs: LP on or off, Qwen or LLaMA. Each figure comes with its ratio to "
    "the control, and noise is flagged. Reported figures are shown beside measured ones, never mixed into them."
)

SECTIONS = {
    "Side by side": of_choice(table.show),
    "Charts": of_choice(charts.show),
    "Coverage": of_choice(coverage.show),
    "Advice": advice.show,
    "SQL": sql.show,
    "Manage": manage.show,
}
WITHOUT_CHOICE = ("SQL", "Manage")  # these do not depend on it

page(TITLE, ICON, LEAD)
with shown_errors():
    store = Store.open().snapshot()
    chosen = chosen_runs(store, is_open=st.query_params.get("view") not in WITHOUT_CHOICE)
show_open(SECTIONS, store, chosen)
