"""The Evidence page: what the reports state, each claim beside what comes out here, and the query behind it."""

from engine.store.store import Store
from pages._evidence import browse, highlights, lost_third
from pages._evidence import state as evidence_state
from pages._evidence import store as evidence_store
from pages._evidence.claims import judged_claims
from pages._evidence.summary import counts, standing
from pages._shared.errors import shown_errors
from pages._shared.frame import page
from pages._shared.sections import show_open
from pages._shared.shown import put_shown

TITLE = "Evidence"
ICON = ":material/fact_check:"
LEAD = "Which claims of the group's reports hold? Each is quoted, beside the figure computed **here**."
MORE = (
    "Reports 000 to 004, and the group's result of December 2025 (005). Figures come from the real tokenizers, stored "
    "runs, the LPs' own tables, and arithmetic on the reports' figures. Every verdict is computed. The reports' pass "
    "rates go by their own rule (*passed*): junk may pass."
)

SECTIONS = {
    "In two minutes": highlights.show,
    evidence_state.LOST_THIRD: lost_third.show,
    evidence_state.ALL: browse.show,
}

page(TITLE, ICON, LEAD, MORE)
with shown_errors():
    store = Store.open().snapshot()
    claims = evidence_store.claims()
    last = evidence_store.last(store)
    rows = judged_claims(claims, last.judgement)
    counts(rows)
    standing(store, last)
evidence_state.open_named_claim()
show_open(SECTIONS, store, rows)
put_shown(page="evidence")
