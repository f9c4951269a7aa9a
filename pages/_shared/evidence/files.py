"""All claims with their verdicts as files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial

import streamlit as st

from engine.evidence.documents import FLAT, document, flat
from pages._shared.evidence.claims import Judged
from pages._shared.table_files import csv_text


def buttons(rows: Sequence[Judged]) -> None:
    """Whatever the filters are; side by side where there is room."""
    for label, make, name, mime in (
        ("All as CSV", csv_of, "claims.csv", "text/csv"),
        ("All as JSON", json_of, "claims.json", "application/json"),
    ):
        st.download_button(
            label, partial(make, rows), name, mime, icon=":material/download:", on_click="ignore", type="tertiary"
        )


def csv_of(rows: Sequence[Judged]) -> str:
    return csv_text(FLAT, [flat(row.claim, row.verdict) for row in rows])


def json_of(rows: Sequence[Judged]) -> str:
    documents = [document(row.claim, row.verdict) for row in rows]
    return json.dumps(documents, indent=1, ensure_ascii=False) + "\n"
