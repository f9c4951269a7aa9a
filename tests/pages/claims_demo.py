"""The list of claims on a page of its own, with texts that could hurt: for the browser tests. Not a page of the app."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from engine.evidence.claims import load_claims
from pages._evidence.claims import judged_claims
from pages._evidence.words import list_groups, list_row
from pages._shared.components.claims_list import claims_list
from pages._shared.frame import page

HOSTILE = ("<img src=x onerror=alert(1)>", "\u202e`<script>alert(2)</script>`\u202c", "a\ud800b", "odd ` one")

page("Claims", ":material/fact_check:", "Texts that could hurt.")
claims = load_claims()[: len(HOSTILE)]
rows = judged_claims(
    [replace(one, statement=text, subject=text, reported=text) for one, text in zip(claims, HOSTILE, strict=True)], None
)
few = st.toggle("Only the first")


def take(place: int | None) -> None:
    st.session_state["place"] = place


claims_list(
    list_groups(rows),
    [list_row(row) for row in rows],
    [0] if few else range(len(rows)),
    key="list",
    selected=st.session_state.get("place"),
    on_pick=take,
)
st.text(f"selected: {st.session_state.get('place')}")
