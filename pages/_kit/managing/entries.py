"""One table of the store's entries of a kind: tick some, then rename, tag, export, resume or delete them.

What is ticked is ids in the address (``run=a&run=b``), never places of rows. A deletion asks once and is final. Entries
that ship with the project are read-only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st

from engine.errors import DriftscopeError
from engine.figures.words import counted, listed, number
from engine.jobs.commands import task_queue
from engine.models.devices import spare_cores
from engine.questions.question import Option
from engine.store.columns import Kind
from engine.store.entries import Entry, came_at, label_words
from engine.store.schema import RUN, SAMPLES
from engine.store.staging import Unfinished, abandon, unfinished_runs
from engine.store.store import MOST_TAG, MOST_TAGS, Store
from pages._kit.card import choose
from pages._kit.choices import complain
from pages._kit.errors import error_markdown, escaped, shown_errors
from pages._kit.managing import tasks
from pages._kit.rows import picked_rows, show_rows, table_height
from pages._kit.shown import put_shown
from pages._kit.words import visible_text

MOST_LABEL, MOST_NOTES, MOST_NAMED = 200, 10_000, 5
TICK_S = 2.0


@dataclass(frozen=True, slots=True)
class Managed:
    """What a page says and offers of its kind of entry."""

    kind: Kind
    noun: str
    parameter: str  # of the address: ids of those that are ticked
    columns: tuple[str, ...]  # of the table, by their names in the store
    loss: str  # what else goes with an entry that is deleted, and what stays
    buttons: Callable[[Store, Entry], None] = lambda store, entry: None  # of a single entry: export, links
    remove: Callable[[Store, str], object] | None = None


def switch(views: Mapping[str, Callable[[], None]], labels: Mapping[str, str], store: Store) -> None:
    """The part of the section that the address names, else the first; ``labels`` where a button says it otherwise."""
    option = Option("manage", help=f"Work on {escaped(store.home.where)}")
    first = next(iter(views))
    complain("part", {*views, *labels.values()}, option.name, labels.get(first, first))
    view = choose(option, "What to do", {name: labels.get(name, name) for name in views}, as_buttons=True)
    with shown_errors():
        views[view]()


def show(managed: Managed, store: Store) -> None:
    """Nothing is ticked where the address names none; runs that are being written are looked at again and again."""
    is_busy = managed.kind is RUN and any(run.state == "being written" for run in unfinished_runs(store.home))
    (st.fragment(run_every=TICK_S)(_table) if is_busy else _table)(managed, store)


def _table(managed: Managed, store: Store) -> None:
    begun = {run.run_id: run for run in unfinished_runs(store.home)[::-1]} if managed.kind is RUN else {}
    store = store.snapshot() if begun else store  # one of them may have ended since the page was drawn
    entries = {entry.id: entry for entry in sorted(store.listing(managed.kind).entries, key=came_at)[::-1]}
    if not entries and not begun:
        st.info(f"The store holds no {managed.noun} yet.", icon=":material/inbox:")
        return
    ids = _ticked(managed, _rows(managed, store, entries, begun))
    if ids:
        _work(managed, store, entries, begun, ids)
    else:
        st.info(f"Tick {managed.noun}s in the table.", icon=":material/checklist:")


def _rows(
    managed: Managed, store: Store, entries: Mapping[str, Entry], begun: Mapping[str, Unfinished]
) -> dict[str, dict[str, Any]]:
    """Of the table, by id: unfinished runs first."""
    rows = {}
    for id_, run in begun.items():
        of = "?" if run.samples is None else f"{run.samples:,}"
        state = run.state + ("" if run.samples_done is None else f": {run.samples_done:,} of {of} samples")
        rows[id_] = _row(managed, {**run.row, "created_at": None}, id_, state)  # the moment is still text
    for id_, entry in entries.items():
        rows[id_] = _row(
            managed, {**entry.row, "label": label_words(entry)}, id_, "" if entry.files is store.home else "read-only"
        )
    return rows


def _ticked(managed: Managed, rows: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Draw the table, and give the ids that the address names: none on arrival."""
    noun = managed.noun
    contains = st.text_input(
        "Contains", key="own_contains", bind="query-params", placeholder="any text of a row", width=280
    )
    wanted = (contains or "").casefold().split()
    shown = [id_ for id_, row in rows.items() if all(word in str(list(row.values())).casefold() for word in wanted)]
    ids = [id_ for id_ in st.query_params.get_all(managed.parameter) if id_ in rows]

    def pick() -> None:
        picked = picked_rows(key)
        if picked is not None:
            kept = [id_ for id_ in ids if id_ not in shown]  # a filter unticks nothing
            st.query_params[managed.parameter] = kept + [shown[row] for row in picked if row < len(shown)]

    key = show_rows(f"managed {noun}", shown, ids)
    config: dict[str, Any] = {column.name: st.column_config.Column(help=column.meaning) for column in managed.kind.main}
    config["tags"] = st.column_config.ListColumn() if any(row["tags"] for row in rows.values()) else None
    config["state"] = st.column_config.TextColumn() if any(row["state"] for row in rows.values()) else None
    st.dataframe(
        [rows[id_] for id_ in shown],
        hide_index=True,
        height=table_height(len(shown), 420),
        key=key,
        on_select=pick,
        selection_mode="multi-row",
        column_config=config,
        placeholder="–",
        alt=f"{noun}s of the store: tick some",
    )
    put_shown(**{managed.parameter: ids[0] if len(ids) == 1 else ids})
    return ids


def _work(
    managed: Managed, store: Store, entries: Mapping[str, Entry], begun: Mapping[str, Unfinished], ids: Sequence[str]
) -> None:
    """What can be done with those that are ticked."""
    chosen = [entries[id_] for id_ in ids if id_ in entries]
    unfinished = [begun[id_] for id_ in ids if id_ in begun]
    own = [entry for entry in chosen if entry.files is store.home]
    for where in {entry.files.where for entry in chosen if entry not in own}:
        words = f"What ships with the project is in {escaped(where)}: it can be exported, not changed."
        st.info(words, icon=":material/lock:")
    with st.container(horizontal=True, vertical_alignment="bottom", key="managed-buttons"):
        if len(ids) == 1 and chosen:
            managed.buttons(store, chosen[0])
        judge_button(store, own)
        _resume(unfinished)
        _deletion(managed, store, own, unfinished)
    if own:
        _tags(store, managed.kind, own, entries)
    if len(ids) == 1 and chosen:
        _details(managed, store, chosen[0], is_fixed=not own)


def _row(managed: Managed, row: Mapping[str, Any], id_: str, state: str) -> dict[str, Any]:
    cells = {name: row.get(name) for name in managed.columns}
    cells = {name: visible_text(value)[:400] if isinstance(value, str) else value for name, value in cells.items()}
    return {managed.noun: id_, "state": state, **cells, "tags": [visible_text(tag) for tag in row.get("tags") or ()]}


def judge_button(store: Store, entries: Sequence[Entry]) -> None:
    """For runs of the user's whose molecules have no verdict, such as imported ones."""
    own = [entry for entry in entries if entry.files is store.home and SAMPLES.name in entry.parts]
    unjudged = [entry for entry in own if entry.row.get("judged") is None]
    idle = [entry for entry in unjudged if not task_queue().is_at(f"judge {entry.id}")]
    about = "Stereo, geometry, and what is usable. It needs no model, and is stored with the run."
    if unjudged and st.button("Judge", key="judge", icon=":material/gavel:", disabled=not idle, help=about):
        for entry in idle:
            name = label_words(entry) or entry.id
            tasks.submit(f"Verdicts of {name}", ["judge", entry.id], about=f"judge {entry.id}")
        st.rerun(scope="app")


def _resume(runs: Sequence[Unfinished]) -> None:
    """After the last saved batch of each."""
    ready = [run for run in runs if run.can_resume and run.state == "stopped" and not task_queue().is_at(run.run_id)]
    if runs and st.button("Resume", key="resume-ticked", icon=":material/play_arrow:", disabled=not ready):
        for run in ready:
            words = ["run", f"--threads={spare_cores()}", "--resume", run.run_id]
            tasks.submit(f"Resume {run.run_id}", words, about=run.run_id)
        st.rerun(scope="app")


def _deletion(managed: Managed, store: Store, own: Sequence[Entry], runs: Sequence[Unfinished]) -> None:
    """A button that asks once. What a process writes, or is to write, is left alone."""
    idle = [run.run_id for run in runs if run.state != "being written" and not task_queue().is_at(run.run_id)]
    ids = [*(entry.id for entry in own), *idle]

    def delete() -> None:
        try:
            for id_ in ids:
                if id_ in idle:
                    abandon(store.home, id_)
                elif managed.remove is not None:
                    managed.remove(store, id_)
                else:
                    store.remove(id_, managed.kind)
                for name in ("control", "test", "log", "beside"):  # the next one is the control then
                    named = st.query_params.get_all(name)
                    if id_ in named:
                        st.query_params[name] = [other for other in named if other != id_]
        except DriftscopeError as error:
            st.toast(error_markdown(error), icon=":material/error:")
            return
        st.query_params.pop(managed.parameter, None)
        st.toast(f"Deleted {counted(len(ids), managed.noun)}", icon=":material/delete:")

    with st.popover("Delete", icon=":material/delete:", disabled=not ids, key="delete-ticked"):
        named = listed([*ids[:MOST_NAMED], *([f"{len(ids) - MOST_NAMED} more"] if len(ids) > MOST_NAMED else [])])
        samples = sum(entry.row.get("samples") or 0 for entry in own) if managed.kind is RUN else 0
        of = f" ({counted(samples, 'sample')})" if samples else ""
        subject = f"**{counted(len(ids), managed.noun)}**{of} permanently: {escaped(named)}."
        st.markdown(f"This deletes {subject} {managed.loss}")
        st.button("Delete permanently", key="remove-ticked", type="primary", disabled=not ids, on_click=delete)


def _details(managed: Managed, store: Store, entry: Entry, *, is_fixed: bool) -> None:
    """Its label and notes, and every column that has a value, with what it means."""
    row = entry.row
    left, right = st.columns([2, 3], gap="large")
    with left, st.form(f"label-and-notes-{entry.id}", border=False):
        label = st.text_input(
            "Label",
            (row.get("label") or "")[:MOST_LABEL],
            max_chars=MOST_LABEL,
            disabled=is_fixed,
            help=f"A name for people. The {managed.noun}’s id stays: links and queries use it.",
        )
        notes = st.text_area(
            "Notes", (row.get("notes") or "")[:MOST_NOTES], max_chars=MOST_NOTES, disabled=is_fixed, height=140
        )
        if st.form_submit_button("Save label and notes", icon=":material/save:", disabled=is_fixed):
            try:
                store.annotate(entry.id, managed.kind, label=" ".join(label.split()), notes=notes.strip())
            except DriftscopeError as error:
                st.error(error_markdown(error), icon=":material/error:")
            else:
                st.toast("Saved", icon=":material/save:")
                st.rerun()
    columns = [column for column in managed.kind.main if column.name not in ("findings", "rules")]  # JSON for programs
    values = {column: row[column.name] for column in columns if row.get(column.name) is not None}
    facts = {
        "column": [column.name for column in values],
        "value": [visible_text(number(v) if isinstance(v, float) else str(v))[:MOST_NOTES] for v in values.values()],
        "meaning": [column.meaning for column in values],
    }
    right.dataframe(facts, hide_index=True, height=420, alt=f"All that is known of the {managed.noun}")


def _tags(store: Store, kind: Kind, own: Sequence[Entry], entries: Mapping[str, Entry]) -> None:
    """Of all that are ticked; offered are those that any entry has."""
    in_use = sorted({tag for entry in entries.values() for tag in entry.row.get("tags") or ()})

    def change(add: Sequence[str] = (), take: Sequence[str] = ()) -> None:
        try:
            for entry in own:
                store.annotate(entry.id, kind, add=add, take=take)
        except DriftscopeError as error:
            st.toast(error_markdown(error), icon=":material/error:")
        else:
            st.toast("Saved", icon=":material/save:")

    with st.container(horizontal=True, vertical_alignment="bottom", key="managed-tags"):
        tags = st.multiselect(
            "Tags",
            in_use,
            key="tags-of-ticked",
            accept_new_options=True,
            format_func=visible_text,
            width=320,
            placeholder="choose or type",
            help=f"At most {MOST_TAGS} of at most {MOST_TAG} characters, to filter by.",
        )
        for label, word in (("Add tags", "add"), ("Remove tags", "take")):
            st.button(label, key=f"{word}-tags", disabled=not tags, on_click=change, kwargs={word: tags})
