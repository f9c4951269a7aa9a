"""Controls over the SQL editor: open a report's table, an example, one of the user's own queries or a past statement;
save, rename and delete one's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import streamlit as st

from engine.comparing.saved import MOST_NAME, OwnQueries
from engine.errors import DriftscopeError, one_line
from engine.store.store import Store
from pages._shared.compare import sql_state
from pages._shared.compare.sql_state import OWN, Named, Past, Statement
from pages._shared.components import sql_editor
from pages._shared.errors import escape_markdown

OPEN, SAVE_AS, RENAME_TO, SURE = "sql_open", "sql_save_as", "sql_rename_to", "sql_sure"
GROUPS = {"report": "Reports", "example": "Example", "own": "Yours"}
_TROUBLE, _DONE = "sql_trouble", "sql_done"
MOST_SHOWN = 80


def controls(store: Store, known: Sequence[Named], statement: Statement, trouble: DriftscopeError | None) -> None:
    """Draw them. ``trouble`` is why the user's own queries cannot be read, where they cannot."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        _opener(known, statement)
        with st.popover("Save", icon=":material/save:", key="sql_save", width="content"):
            _saving(store, known, statement)
        with st.popover("History", icon=":material/history:", key="sql_past", width="content"):
            _history(known)
    if trouble is not None:
        st.warning(f"Your own queries are not shown. {told(trouble)}", icon=":material/warning:")
    for key, show in ((_TROUBLE, st.error), (_DONE, st.toast)):
        if words := st.session_state.pop(key, None):
            show(words)


def title(named: Named) -> str:
    beside = f"{named.beside.removeprefix('report ')} · " if named.beside else ""
    return f"{GROUPS[named.group]} · {beside}{named.title}"


# --- opening ------------------------------------------------------------------------------------------------------


def _opener(known: Sequence[Named], statement: Statement) -> None:
    by_key = {one.key: one for one in known}
    st.session_state[OPEN] = statement.named.key if statement.named else None
    st.selectbox(
        "Open a query",
        list(by_key),
        index=None,
        format_func=lambda key: title(by_key[key]) if key in by_key else str(key),
        key=OPEN,
        placeholder="A report's table, an example, or one of yours",
        on_change=lambda: _open(by_key.get(st.session_state[OPEN]), known),
    )


def _open(named: Named | None, known: Sequence[Named]) -> None:
    sql_state.open_text("" if named is None else named.sql, known)


def _history(known: Sequence[Named]) -> None:
    past = sql_state.history()
    if not past:
        st.caption("Statements that you run are listed here until you close or reload the page.")
        return
    for place, one in enumerate(past):
        st.button(
            f"{':material/error: ' if one.is_error else ''}{escape_markdown(_short(one.sql))}",
            key=f"sql_past_{place}",
            help=f"{escape_markdown(_short(one.went))}",
            on_click=_open_past,
            args=(one, known),
            type="tertiary",
        )
    st.button("Forget them", key="sql_forget", icon=":material/delete:", on_click=sql_state.forget_history)


def _open_past(past: Past, known: Sequence[Named]) -> None:
    sql_state.open_text(past.sql, known)


def _short(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= MOST_SHOWN else line[: MOST_SHOWN - 1] + "…"


# --- one's own ----------------------------------------------------------------------------------------------------


def _saving(store: Store, known: Sequence[Named], statement: Statement) -> None:
    own, named = OwnQueries(store.home), statement.named
    st.caption(f"Kept in `{own.where.replace('`', '')}`, for everybody who opens this store.")
    st.text_input("Name", key=SAVE_AS, max_chars=MOST_NAME, placeholder="What it answers")
    name = (st.session_state.get(SAVE_AS) or "").strip()
    is_there = any(one.key == OWN + name for one in known)
    st.button(
        "Replace it" if is_there else "Save the statement",
        key="sql_save_now",
        type="primary",
        disabled=not name,
        help="A query of this name is there already" if is_there else None,
        on_click=_try,
        args=(lambda: _save(own, name, statement, known, is_there),),
    )
    if named is not None and named.group == "own":
        st.divider()
        st.markdown(f"**{escape_markdown(named.title)}**")
        st.text_input("New name", key=RENAME_TO, max_chars=MOST_NAME)
        new = (st.session_state.get(RENAME_TO) or "").strip()
        args = (lambda: _rename(own, named, new),)
        st.button("Rename", key="sql_rename", disabled=not new or new == named.title, on_click=_try, args=args)
        is_sure = st.checkbox("Delete it for good", key=SURE)
        args = (lambda: _delete(own, named),)
        st.button("Delete", key="sql_delete", icon=":material/delete:", disabled=not is_sure, on_click=_try, args=args)


def _save(own: OwnQueries, name: str, statement: Statement, known: Sequence[Named], replace: bool) -> str:
    """What stands in the editor, run or not."""
    draft = sql_editor.draft()
    query = own.save(name, statement.text if draft is None else draft, replace=replace)
    kept = Named(OWN + query.name, "own", query.name, "", query.sql)
    sql_state.put(query.sql, [kept, *(one for one in known if one.key != kept.key)])
    st.session_state[SAVE_AS] = ""
    return f"Saved as {escape_markdown(query.name)}"


def _rename(own: OwnQueries, named: Named, new: str) -> str:
    query = own.rename(named.title, new)
    sql_state.put(query.sql, [Named(OWN + query.name, "own", query.name, "", query.sql)])
    st.session_state[RENAME_TO] = ""
    return f"Renamed to {escape_markdown(query.name)}"


def _delete(own: OwnQueries, named: Named) -> str:
    own.delete(named.title)
    sql_state.put(named.sql)
    st.session_state[SURE] = False
    return f"Deleted {escape_markdown(named.title)}"


def _try(act: Callable[[], str]) -> None:
    try:
        st.session_state[_DONE] = act()
    except DriftscopeError as error:
        st.session_state[_TROUBLE] = told(error)


def told(error: DriftscopeError) -> str:
    words = str(error)
    return escape_markdown(words[:1].upper() + words[1:])
