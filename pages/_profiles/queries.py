"""The ready queries over traces, each with a link to the one SQL, which is Compare's."""

from __future__ import annotations

import streamlit as st

from engine.comparing.queries import ready_queries
from engine.store.store import Store
from pages._profiles.traces import TraceSelection
from pages._shared.choices import by_name
from pages._shared.errors import escape_markdown
from pages._shared.links import sql_address


def show(store: Store, chosen: TraceSelection | None) -> None:
    queries = {query.key: query for query in ready_queries() if "JOIN traces USING" in query.sql}
    first = next(iter(queries))
    key = by_name(
        "Question", queries, "question", "asked_question", usual=first, format_func=lambda key: queries[key].title
    )
    query = queries[key or first]
    st.markdown(escape_markdown(f"{query.about} See {query.beside}."))
    st.link_button(
        "Open in SQL", sql_address(f"saved:{query.key}"), icon=":material/database:", key="question_sql",
        help="In Compare runs: press Run there. Add WHERE trace_id = '...' for one trace.",
    )  # fmt: skip
    st.code(query.sql, language="sql", wrap_lines=True)
