"""The Compare page: stored runs beside a control, what their differences are made of, and work on the store itself."""

import streamlit as st

from engine.store.store import Store
from pages._shared.compare import advice, charts, manage, sql, table
from pages._shared.compare.runs import chosen_runs
from pages._shared.errors import shown_errors
from pages._shared.frame import page
from pages._shared.sections import show_open

TITLE = "Compare runs"
ICON = ":material/compare_arrows:"
LEAD = (
    "A **control** and its **tests**, LP on against off, Qwen against LLaMA: every figure as it is and as a ratio, "
    "with what may be noise said. What a report states stands beside what was measured, and is never mixed into it."
)

SECTIONS = {
    "Side by side": table.show,
    "Charts": charts.show,
    "Advice": advice.show,
    "SQL": sql.show,
    "Manage": manage.show,
}
WITHOUT_CHOICE = ("SQL", "Manage")  # what these show does not hang on it

page(TITLE, ICON, LEAD)
with shown_errors():
    store = Store.open().still()
    chosen = chosen_runs(store, is_open=st.query_params.get("view") not in WITHOUT_CHOICE)
show_open(SECTIONS, store, chosen)
