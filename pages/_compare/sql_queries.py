"""Controls above the SQL editor: open a report's table, an example, a saved query or a past statement; save, rename and
delete saved queries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import streamlit as st

from engine.comparing.own_queries import MOST_NAME, OwnQueries
from engine.errors import DriftscopeError, one_line
from engine.figures.words import shortened
from engine.store.store import Store
from pages._compare import sql_state
from pages._compare.sql_state import OWN, NamedQuery, ShownStatement
from pages._shared.components import sql_editor
from pages._shared.errors import error_markdown, escape_markdown

OPEN, SAVE_AS, RENAME_TO, SURE = "sql_open", "sql_save_as", "sql_rename_to", "sql_sure"
GROUPS = {"report": "Reports", "example": "Example", "own": "Yours"}
_TROUBLE, _DONE = "sql_trouble", "sql_done"
MOST_SHOWN = 80


def controls(
    store: Store, queries: Sequence[NamedQuery], statement: ShownStatement, trouble: DriftscopeError | None
) -> None:
    """Draw them. ``trouble`` is why the user's own queries cannot be read, or None."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        by_key = {query.key: query for query in queries}

        def open_chosen() -> None:
            query = by_key.get(st.session_state[OPEN])
            sql_state.open_text("" if query is None else query.sql, queries)

        st.session_state[OPEN] = statement.named.key if statement.named else None
        st.selectbox(
            "Open a query",
            list(by_key),
            index=None,
            format_func=lambda key: _title(by_key[key]) if key in by_key else str(key),
            key=OPEN,
            placeholder="A report's table, an example, or one of yours",
            on_change=open_chosen,
        )
        with st.popover("Save", icon=":material/save:", key="sql_save", width="content"):
            _saving(store, queries, statement)
        with st.popover("History", icon=":material/history:", key="sql_past", width="content"):
            _history(queries)
    if trouble is not None:
        st.warning(f"Your own queries are not shown. {error_markdown(trouble)}", icon=":material/warning:")
    for key, show in ((_TROUBLE, st.error), (_DONE, st.toast)):
        if message := st.session_state.pop(key, None):
            show(message)


def _title(query: NamedQuery) -> str:
    beside = f"{query.beside.removeprefix('report ')} · " if query.beside else ""
    return f"{GROUPS[query.group]} · {beside}{query.title}"


def _history(queries: Sequence[NamedQuery]) -> None:
    history = sql_state.history()
    if not history:
        st.caption("Statements that you run are listed here until you close or reload the page.")
        return
    for place, past in enumerate(history):
        st.button(
            (":material/error: " if past.is_error else "") + escape_markdown(shortened(one_line(past.sql), MOST_SHOWN)),
            key=f"sql_past_{place}",
            help=escape_markdown(shortened(one_line(past.result), MOST_SHOWN)),
            on_click=sql_state.open_text,
            args=(past.sql, queries),
            type="tertiary",
        )
    st.button("Clear history", key="sql_forget", icon=":material/delete:", on_click=sql_state.clear_history)


def _saving(store: Store, queries: Sequence[NamedQuery], statement: ShownStatement) -> None:
    own, named = OwnQueries(store.home), statement.named
    st.caption(f"Saved in `{own.where.replace('`', '')}`, for all users of this store.")
    st.text_input("Name", key=SAVE_AS, max_chars=MOST_NAME, placeholder="The question it answers")
    name = (st.session_state.get(SAVE_AS) or "").strip()
    is_there = any(query.key == OWN + name for query in queries)

    def save() -> str:
        """The text in the editor, run or not."""
        draft = sql_editor.draft()
        query = NamedQuery.own(own.save(name, statement.text if draft is None else draft, replace=is_there))
        sql_state.put(query.sql, [query, *(other for other in queries if other.key != query.key)])
        st.session_state[SAVE_AS] = ""
        return f"Saved as {escape_markdown(query.title)}"

    st.button(
        "Replace" if is_there else "Save query",
        key="sql_save_now",
        type="primary",
        disabled=not name,
        help="A query of this name exists" if is_there else None,
        on_click=_try,
        args=(save,),
    )
    if named is not None and named.group == "own":
        _changing(own, named)


def _changing(own: OwnQueries, named: NamedQuery) -> None:
    st.divider()
    st.markdown(f"**{escape_markdown(named.title)}**")
    st.text_input("New name", key=RENAME_TO, max_chars=MOST_NAME)
    name = (st.session_state.get(RENAME_TO) or "").strip()

    def rename() -> str:
        query = NamedQuery.own(own.rename(named.title, name))
        sql_state.put(query.sql, [query])
        st.session_state[RENAME_TO] = ""
        return f"Renamed to {escape_markdown(query.title)}"

    def delete() -> str:
        own.delete(named.title)
        sql_state.put(named.sql)
        st.session_state[SURE] = False
        return f"Deleted {escape_markdown(named.title)}"

    is_new = bool(name) and name != named.title
    st.button("Rename", key="sql_rename", disabled=not is_new, on_click=_try, args=(rename,))
    is_sure = st.checkbox("Delete permanently", key=SURE)
    st.button("Delete", key="sql_delete", icon=":material/delete:", disabled=not is_sure, on_click=_try, args=(delete,))


def _try(act: Callable[[], str]) -> None:
    try:
        st.session_state[_DONE] = act()
    except DriftscopeError as error:
        st.session_state[_TROUBLE] = error_markdown(error)
