"""One entry of the store, whatever its kind: its label, notes and tags, downloads, deletion, and all its facts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import streamlit as st

from engine.errors import DriftscopeError
from engine.store.columns import Kind
from engine.store.entries import Entry
from engine.store.store import MOST_TAG, MOST_TAGS, Store
from pages._shared.choices import by_name
from pages._shared.errors import escape_markdown
from pages._shared.managing import undo
from pages._shared.selection import Selection
from pages._shared.words import visible_text

MOST_LABEL, MOST_NOTES, MOST_NAME = 200, 10_000, 90


@dataclass(frozen=True, slots=True)
class EntryForm:
    """What the form of one kind of entry says and offers."""

    kind: Kind
    noun: str
    parameter: str  # of the address, which names the entry
    name: Callable[[Entry], str]
    loss: Callable[[Entry], str]  # what a deletion removes besides, and what stays, as Markdown
    leave_out: Callable[[str], None]  # takes a deleted entry out of what the page shows
    buttons: Callable[[Entry], None]  # downloads and links beside *Delete*
    links: Callable[[Store, Entry], None] = lambda store, entry: None  # below them
    caution: Callable[[Entry], str] = lambda entry: ""
    read_only: str = "it cannot be changed"
    hidden: Collection[str] = ()  # columns
    remove: Callable[[Store, str], object] | None = None  # for good; None: it can be undone

    def show(self, store: Store, chosen: Selection | None) -> None:
        """Draw the entry that the address names, else the control."""
        entries = store.found(self.kind).entries
        if not entries:
            st.info(f"The store holds no {self.noun} yet.", icon=":material/inbox:")
            return
        entry = self._choice(entries, chosen.control.id if chosen is not None else None)
        reason = why_read_only(store, entry, self.noun, self.read_only)
        if reason:
            st.info(reason, icon=":material/lock:")
        if caution := self.caution(entry):
            st.warning(escape_markdown(visible_text(caution)), icon=":material/warning:")
        left, right = st.columns([2, 3], gap="large")
        with left:
            self._user_form(store, entry, tags_in_use(entries), is_fixed=bool(reason))
            with st.container(horizontal=True):
                self.buttons(entry)
                self._deletion(store, entry, is_off=bool(reason))
            self.links(store, entry)
        with right:
            self._facts(entry)

    def _choice(self, entries: Sequence[Entry], usual: str | None) -> Entry:
        by_id = {entry.id: entry for entry in reversed(entries)}
        first = next(iter(by_id))
        id_ = by_name(
            self.noun.capitalize(),
            by_id,
            self.parameter,
            f"managed_{self.noun}",
            usual=usual if usual in by_id else first,
            format_func=lambda id_: option_text(by_id, id_, self.name),
            help="Newest first. The control of the page, until you choose another one.",
        )
        return by_id[id_ or first]

    def _deletion(self, store: Store, entry: Entry, *, is_off: bool) -> None:
        after = partial(self._leave_out, entry.id)
        if self.remove is not None:
            show_deletion(entry.id, self.loss(entry), partial(self.remove, store, entry.id), is_off=is_off, after=after)
            return
        loss = f"{self.loss(entry)} {undo.question(store)}"
        remove = partial(undo.delete, store, [entry.id], self.kind, escape_markdown(entry.id))
        show_deletion(entry.id, loss, remove, is_off=is_off, after=after, can_undo=True)

    def _user_form(self, store: Store, entry: Entry, known_tags: Sequence[str], *, is_fixed: bool) -> None:
        with st.form(f"label-and-notes-{entry.id}", border=False):
            label = st.text_input(
                "Label", (entry.row.get("label") or "")[:MOST_LABEL], max_chars=MOST_LABEL, disabled=is_fixed,
                help=f"A name for people. The {self.noun}’s id stays: links and queries use it.",
            )  # fmt: skip
            notes = st.text_area(
                "Notes", (entry.row.get("notes") or "")[:MOST_NOTES], max_chars=MOST_NOTES, disabled=is_fixed,
                height=140,
            )  # fmt: skip
            tags = tags_input(known_tags, entry.row.get("tags") or (), is_off=is_fixed)
            if st.form_submit_button("Save label, notes and tags", icon=":material/save:", disabled=is_fixed):
                try:
                    label = " ".join(label.split())
                    store.annotate(entry.id, self.kind, label=label, notes=notes.strip(), tags=tags)
                except DriftscopeError as error:
                    st.error(escape_markdown(str(error)), icon=":material/error:")
                else:
                    st.toast("Saved", icon=":material/save:")
                    st.rerun()

    def _leave_out(self, id_: str) -> None:
        self.leave_out(id_)
        if self.parameter in st.query_params:
            del st.query_params[self.parameter]

    def _facts(self, entry: Entry) -> None:
        """Every column that has a value, with what it means."""
        columns = [column for column in self.kind.main if column.name not in self.hidden]
        known = [column for column in columns if entry.row.get(column.name) is not None]
        texts = {
            "column": [column.name for column in known],
            "value": [_value(entry.row[column.name]) for column in known],
            "meaning": [column.what for column in known],
        }
        config = {name: st.column_config.TextColumn(width=width) for name, width in (("column", 140), ("value", 220))}
        st.dataframe(
            texts, hide_index=True, height=460, column_config=config, alt=f"All that is known of the {self.noun}"
        )


def tags_in_use(entries: Iterable[Entry]) -> list[str]:
    return sorted({tag for entry in entries for tag in entry.row.get("tags") or ()})


def tags_input(
    known: Sequence[str], chosen: Sequence[str] = (), key: str | None = None, *, is_off: bool = False
) -> list[str]:
    """Tags that are in use, and new ones that are typed."""
    return st.multiselect(
        "Tags", known, chosen, key=key, accept_new_options=True, disabled=is_off, format_func=visible_text,
        placeholder="choose or type",
        help=f"Short labels to filter by: at most {MOST_TAGS}, of at most {MOST_TAG} characters.",
    )  # fmt: skip


def show_deletion(
    id_: str,
    loss: str,
    remove: Callable[[], object],
    *,
    is_off: bool,
    after: Callable[[], None] = lambda: None,
    can_undo: bool = False,
) -> None:
    """A button that asks once more. ``loss`` is what goes with the entry and what stays, as Markdown."""

    def delete() -> None:
        try:
            remove()
        except DriftscopeError as error:
            st.toast(escape_markdown(str(error)), icon=":material/error:")
            return
        after()
        if not can_undo:  # else the offer to undo it says so
            st.toast(f"Deleted {escape_markdown(id_)}", icon=":material/delete:")

    with st.popover("Delete", icon=":material/delete:", disabled=is_off, key=f"removal-{id_}"):
        st.markdown(f"This deletes {escape_markdown(id_)}{loss}")
        st.button(
            "Delete it" if can_undo else "Delete permanently", key=f"remove-{id_}", type="primary",
            icon=":material/delete_forever:", on_click=delete,
        )  # fmt: skip


def why_read_only(store: Store, entry: Entry, noun: str, what: str = "it cannot be changed") -> str:
    """As Markdown; empty where the entry may be changed. ``what`` can be done with it then."""
    if entry.files is store.home:
        return ""
    return f"This {noun} ships with the project and lies in {escape_markdown(entry.files.where)}, read-only: {what}."


def option_text(by_id: dict[str, Entry], id_: str, name: Callable[[Entry], str]) -> str:
    """An entry in a select box; the widget may still ask for one that is deleted."""
    return f"{id_} · {visible_text(name(by_id[id_]))[:MOST_NAME]}" if id_ in by_id else str(id_)


def _value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1_000 or abs(value) >= 1e12 else f"{value:,.1f}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    text = ", ".join(value) if isinstance(value, list) else str(value)
    return visible_text(text)[:MOST_NOTES]
