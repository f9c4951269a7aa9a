"""The Compare page: stored runs against a control, what their differences are made of, and work on the store itself."""

import streamlit as st

from engine.store.store import Store
from pages._compare import advice, charts, coverage, manage, sql, table
from pages._compare.runs import chosen_runs
from pages._shared.components.charts_ready import charts_ready
from pages._shared.errors import shown_errors
from pages._shared.frame import page
from pages._shared.sections import of_choice, show_open
from pages._shared.shown import put_shown

TITLE = "Compare runs"
ICON = ":material/compare_arrows:"
LEAD = "**Test** runs beside a **control**: each figure with its ratio to the control, its interval, and noise flagged."

SECTIONS = {
    "Side by side": of_choice(table.show),
    "Charts": of_choice(charts.show),
    "Coverage": of_choice(coverage.show),
    "Advice": advice.show,
    "SQL": sql.show,
    "Manage": manage.show,
}

page(TITLE, ICON, LEAD)
with shown_errors():
    store = Store.open().snapshot()
    with st.container(key="compared-runs"):
        chosen = chosen_runs(store)
show_open(SECTIONS, store, chosen)
charts_ready()
put_shown(page="compare", runs=chosen.ids if chosen else ())
