"""The table of a store's entries, and what can be done with those that are ticked: rename, tag, export, resume, delete.

What is ticked is ids in the address (``run=a&run=b``), never places of rows. A deletion asks once and is final. Entries
that ship with the project are read-only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import streamlit as st

from engine.errors import DriftscopeError
from engine.figures.words import counted, listed, number
from engine.jobs.commands import task_queue
from engine.jobs.slurm import check_not_queued, listed_unfinished
from engine.models.devices import spare_cores
from engine.questions.question import Option
from engine.store.columns import Kind
from engine.store.entries import Entry, label_words
from engine.store.schema import RUN, SAMPLES
from engine.store.staging import Unfinished, abandon, unfinished_runs
from engine.store.store import MOST_TAG, MOST_TAGS, Store
from pages._kit.card import choose
from pages._kit.choices import complain
from pages._kit.entry_table import TAGS, EntryColumn, EntryTable
from pages._kit.errors import error_markdown, escaped, shown_errors
from pages._kit.managing import tasks
from pages._kit.run_colours import run_colours
from pages._kit.shown import put_shown
from pages._kit.words import visible_text

MOST_LABEL, MOST_NOTES, MOST_NAMED = 200, 10_000, 5
TICK_S = 2.0
COMPARED = ("control", "test", "log", "beside")  # parameters of the address that name entries


@dataclass(frozen=True, slots=True)
class Managed:
    """What a page says and offers of its kind of entry."""

    kind: Kind
    table: EntryTable
    parameter: str  # of the address: ids of those that are ticked
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
    noun, parameter = managed.table.noun, managed.parameter
    begun = {run.run_id: run for run in listed_unfinished(store.home)[::-1]} if managed.kind is RUN else {}
    store = store.snapshot() if begun else store  # one of them may have ended since the page was drawn
    entries = _entries(managed, store, begun.values())
    if not entries:
        st.info(f"The store holds no {noun} yet.", icon=":material/inbox:")
        return
    by_id = {entry.id: entry for entry in entries}
    ids = [id_ for id_ in st.query_params.get_all(parameter) if id_ in by_id]
    state = EntryColumn("state", "state", 120, partial(_state, store, begun))
    table = replace(managed.table, prefix="own_", has_all_steps=True, columns=(state, *managed.table.columns))
    colours = run_colours(store) if managed.kind is RUN else {}
    table.show(entries, ids, lambda ticked: st.query_params.update({parameter: ticked}), colours)
    put_shown(**{parameter: ids[0] if len(ids) == 1 else ids})
    if not ids:
        st.info(f"Tick {noun}s in the table.", icon=":material/checklist:")
        return
    chosen = [by_id[id_] for id_ in ids if id_ not in begun]
    Ticked(managed, store, chosen, [begun[id_] for id_ in ids if id_ in begun]).show(tags_of(entries))


def _state(store: Store, begun: Mapping[str, Unfinished], entry: Entry) -> str:
    run = begun.get(entry.id)
    if run is None:
        return "" if entry.files is store.home else "read-only"
    of = "?" if run.samples is None else f"{run.samples:,}"
    return run.state if run.samples_done is None else f"{run.state}: {run.samples_done:,} of {of} samples"


def _entries(managed: Managed, store: Store, begun: Iterable[Unfinished]) -> list[Entry]:
    """Unfinished runs first, with what is known of them so far. When they began is not shown: it is still text."""
    rows = [(run.run_id, {"origin": "", **run.row, "created_at": None}) for run in begun]
    finished = managed.table.in_order(store.listing(managed.kind).entries)
    return [*(Entry(id_, "", store.home, 0, row, {}, {}) for id_, row in rows), *finished]


@dataclass(frozen=True, slots=True)
class Ticked:
    """What can be done with the entries that are ticked, and with runs that are not finished."""

    managed: Managed
    store: Store
    entries: list[Entry]
    unfinished: list[Unfinished]

    @property
    def own(self) -> list[Entry]:
        """Those that may be changed."""
        return [entry for entry in self.entries if entry.files is self.store.home]

    def show(self, tags: Sequence[str]) -> None:
        """``tags`` are offered: those that any entry has."""
        entry = self.entries[0] if len(self.entries) == 1 and not self.unfinished else None
        for where in {entry.files.where for entry in self.entries if entry not in self.own}:
            words = f"What ships with the project is in {escaped(where)}: it can be exported, not changed."
            st.info(words, icon=":material/lock:")
        with st.container(horizontal=True, vertical_alignment="bottom", key="managed-buttons"):
            if entry is not None:
                self.managed.buttons(self.store, entry)
            judge_button(self.store, self.own)
            self._resume()
            self._deletion()
        if self.own:
            self._tags(tags)
        if entry is not None:
            _details(self.managed, self.store, entry, is_fixed=not self.own)

    def _resume(self) -> None:
        """After the last saved batch of each."""
        stopped = [run.run_id for run in self.unfinished if run.can_resume and run.state == "stopped"]
        ready = [id_ for id_ in stopped if not task_queue().is_at(id_)]
        if self.unfinished and st.button(
            "Resume", key="resume-ticked", icon=":material/play_arrow:", disabled=not ready
        ):
            for id_ in ready:
                tasks.submit(f"Resume {id_}", ["run", f"--threads={spare_cores()}", "--resume", id_], about=id_)
            st.rerun(scope="app")

    def _deletion(self) -> None:
        """A button that asks once. What a process writes, or is to write, is left alone."""
        idle = [run.run_id for run in self.unfinished if run.state in ("stopped", "damaged")]
        idle = [id_ for id_ in idle if not task_queue().is_at(id_)]
        ids = [*(entry.id for entry in self.own), *idle]
        what = counted(len(ids), self.managed.table.noun)
        with st.popover("Delete", icon=":material/delete:", disabled=not ids, key="delete-ticked"):
            named = listed([*ids[:MOST_NAMED], *([f"{len(ids) - MOST_NAMED} more"] if len(ids) > MOST_NAMED else [])])
            samples = sum(entry.row.get("samples") or 0 for entry in self.own) if self.managed.kind is RUN else 0
            of = f" ({counted(samples, 'sample')})" if samples else ""
            st.markdown(f"This deletes **{what}**{of} permanently: {escaped(named)}. {self.managed.loss}")
            st.button(
                "Delete permanently",
                key="remove-ticked",
                type="primary",
                disabled=not ids,
                on_click=lambda: _try(f"Deleted {what}", ":material/delete:", self._delete, ids, idle),
            )

    def _delete(self, ids: Sequence[str], idle: Sequence[str]) -> None:
        """``idle``: those of them that are unfinished runs."""
        for id_ in ids:
            if id_ in idle:
                check_not_queued(id_)  # the table's state may be some seconds old
                abandon(self.store.home, id_)
            elif self.managed.remove is not None:
                self.managed.remove(self.store, id_)
            else:
                self.store.remove(id_, self.managed.kind)
            for name in COMPARED:  # the next one is the control then
                named = st.query_params.get_all(name)
                if id_ in named:
                    st.query_params[name] = [other for other in named if other != id_]
        st.query_params.pop(self.managed.parameter, None)

    def _tags(self, in_use: Sequence[str]) -> None:
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
            for label, key, change in (("Add tags", "add-tags", (tags, ())), ("Remove tags", "take-tags", ((), tags))):
                args = ("Saved", ":material/save:", self._annotate, *change)
                st.button(label, key=key, disabled=not tags, on_click=_try, args=args)

    def _annotate(self, add: Sequence[str], take: Sequence[str]) -> None:
        for entry in self.own:
            self.store.annotate(entry.id, self.managed.kind, add=add, take=take)


def tags_of(entries: Sequence[Entry]) -> list[str]:
    return sorted({tag for entry in entries for tag in entry.row.get(TAGS) or ()})


def _try(done: str, icon: str, act: Callable[..., None], *args: Sequence[str]) -> None:
    """A toast says that it is done, or why it cannot be."""
    try:
        act(*args)
    except DriftscopeError as error:
        st.toast(error_markdown(error), icon=":material/error:")
    else:
        st.toast(done, icon=icon)


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
            help=f"A name for people. The {managed.table.noun}’s id stays: links and queries use it.",
        )
        notes = st.text_area(
            "Notes", (row.get("notes") or "")[:MOST_NOTES], max_chars=MOST_NOTES, disabled=is_fixed, height=140
        )
        if st.form_submit_button("Save label and notes", icon=":material/save:", disabled=is_fixed):
            with shown_errors("Its label", stops=False):
                store.annotate(entry.id, managed.kind, label=" ".join(label.split()), notes=notes.strip())
                st.toast("Saved", icon=":material/save:")
                st.rerun()
    columns = [column for column in managed.kind.main if column.name not in ("findings", "rules")]  # JSON for programs
    values = {column: row[column.name] for column in columns if row.get(column.name) is not None}
    facts = {
        "column": [column.name for column in values],
        "value": [visible_text(number(v) if isinstance(v, float) else str(v))[:MOST_NOTES] for v in values.values()],
        "meaning": [column.meaning for column in values],
    }
    right.dataframe(facts, hide_index=True, height=420, alt=f"All that is known of the {managed.table.noun}")
