"""The Profiles page's choice of traces: all of the store in one table, of which one or two are looked at.

Which they are is in the address. A filter hides rows and changes nothing about what is looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

import streamlit as st

from engine.errors import DriftscopeError
from engine.profile.cautions import cautions
from engine.store.entries import Entry, Found
from engine.store.store import Store
from engine.store.trace_schema import TRACE
from pages._shared.damages import show_damages
from pages._shared.drift.words import visible_text
from pages._shared.errors import escape_markdown
from pages._shared.managing.ticking import legend, ticked_ids, ticked_table
from pages._shared.profiles import state
from pages._shared.profiles.reading import trace_of
from pages._shared.profiles.state import Chosen, Runs
from pages._shared.theme import palette

KEY = "chosen_traces"
ORIGINS = ("measured", "imported", "reported")
FILTER_WIDTH, LEGEND_WIDTH = 260, 620
MANY = 8
MOST_NAME, MOST_WORDS = 120, 400
_RUN_NAME = r"control=([^&]+)"
_EMPTY = """
Three ways to a first trace:

- Profile two runs: `.venv/bin/python -m engine run --model demo-qwen --lp none --lp exact --sample-size 8 --profile`
- Read a file of torch's profiler: `.venv/bin/python -m engine trace add trace.json.gz`
- Upload one, or start a capture, in the *Traces* tab below.
"""


def chosen_traces(store: Store, *, is_open: bool = True) -> Chosen | None:
    """Draw the table of traces, folded away unless ``is_open``, and give those that are looked at."""
    found = store.found(TRACE)
    if not found.entries:
        st.info(_EMPTY, icon=":material/inbox:", title="There is no trace in this store yet")
        show_damages(found)
        return None
    runs = {entry.id: entry.row for entry in store.found().entries}
    chosen, complaints = state.choose(found, runs)
    for one in complaints:
        st.error(escape_markdown(one), icon=":material/error:")
    with st.expander(_heading(chosen), expanded=is_open, icon=":material/checklist:"):
        _choice(found, runs, chosen)
    if chosen is not None:
        _cautions(chosen)
    return chosen


def _heading(chosen: Chosen | None) -> str:
    if chosen is None:
        return "Traces"
    return "Traces: " + " beside ".join(_shown(chosen, one) for one in reversed(chosen.traces))


def _shown(chosen: Chosen, entry: Entry) -> str:
    return escape_markdown(visible_text(shortened(chosen.name(entry))))


def shortened(text: str, most: int = MOST_NAME) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _choice(found: Found, runs: Runs, chosen: Chosen | None) -> None:
    newest = list(reversed(found.entries))
    if len(newest) > MANY:
        _filters()
        newest = [one for one in newest if _is_wanted(one, runs, chosen)]
    _table(newest, runs, chosen)
    _roles(chosen)
    show_damages(found)


def say_nobody(store: Store, what: str) -> None:
    """In a section, where no trace is chosen; ``what`` would be there, in the plural."""
    if store.found(TRACE).entries:
        st.info(f"Tick a trace above, or two to compare: {what} come here.", icon=":material/arrow_upward:")
    else:
        st.caption(f"Once the store holds a trace, {what} come here.")


def _filters() -> None:
    with st.container(horizontal=True, vertical_alignment="bottom", key="trace-filters"):
        st.pills("Origin", ORIGINS, selection_mode="multi", key="origin", bind="query-params", width="content")
        st.text_input(
            "Contains",
            key="contains",
            placeholder="any",
            bind="query-params",
            max_chars=200,
            help="In a trace's name, label, notes, source or device, or in its run's model and LP",
            width=FILTER_WIDTH,
        )


def _is_wanted(entry: Entry, runs: Runs, chosen: Chosen | None) -> bool:
    asked = st.session_state
    if (origins := asked.get("origin")) and entry.row.get("origin") not in origins:
        return False
    names = ("label", "notes", "source", "device", "run_id")
    told = [entry.id, state.run_words(entry, runs), *(str(entry.row.get(name) or "") for name in names)]
    whole = " ".join(told).casefold()
    return all(word in whole for word in (asked.get("contains") or "").casefold().split())


def _table(entries: list[Entry], runs: Runs, chosen: Chosen | None) -> None:
    if not entries:
        st.info("No trace is like that. Take a filter away.", icon=":material/filter_alt_off:")
        return
    ids = chosen.ids if chosen is not None else ()
    rows = {entry.id: _row(entry, runs, chosen) for entry in entries}
    ticked_table(KEY, rows, ids, _take, columns=_columns(), alt="Traces of the store: tick one, or two to compare")


def _take(shown: Sequence[str], ids: Sequence[str]) -> None:
    """The first one ticked is the control; a third one takes the test's place. What a filter hides stays."""
    ticked = ticked_ids(KEY, shown, ids)
    if ticked is None:
        return
    control, *others = ticked or [""]
    state.put(control or None, others[-1] if others else None)


def _row(entry: Entry, runs: Runs, chosen: Chosen | None) -> dict[str, Any]:
    row = entry.row
    model, lp = state.model_and_lp(entry, runs)
    run_id = str(row.get("run_id") or "")
    return {
        "as": chosen.letter(entry) if chosen is not None and entry.id in chosen.ids else None,
        "label": visible_text(shortened(str(row.get("label") or row.get("source") or ""))),
        "origin": visible_text(str(row.get("origin"))),
        "lp": visible_text(lp) or None,
        "device": visible_text(shortened(str(row.get("device") or ""))) or _without_a_device(row),
        "span": _ms(row.get("span_us")),
        "work": _ms(row.get("device_us")),
        "idle": _idle(row),
        "tokens": row.get("tokens"),
        "passes": row.get("forward_passes"),
        "events": row.get("events"),
        "form": visible_text(str(row.get("form") or "")) or None,
        "model": visible_text(model) or None,
        "made": row.get("created_at"),
        "run": "compare?" + urlencode({"control": run_id}) if run_id in runs else None,
        "trace": entry.id,
    }


def _without_a_device(row: Any) -> str | None:
    return "CPU" if row.get("form") == "events" and row.get("device_us") is None else None


def _ms(time_us: float | None) -> float | None:
    return None if time_us is None else time_us / 1000


def _idle(row: Any) -> float | None:
    busy, idle = row.get("busy_us"), row.get("idle_us")
    return None if busy is None or idle is None or busy + idle <= 0 else 100 * idle / (busy + idle)


def _columns() -> dict[str, Any]:
    config = st.column_config
    return {
        "as": config.TextColumn("as", width=36, pinned=True, help="A is the control, B the test"),
        "label": config.TextColumn("label", width=230, help="Its own name, else the file or the text it comes from"),
        "origin": config.TextColumn(
            "origin", width=76, help="measured: captured here. imported: a file's. reported: what a text states"
        ),
        "form": config.TextColumn(
            "form", width=62, help="events: a whole trace. table: sums that somebody made of one, without times"
        ),
        "model": config.TextColumn("model", width=110, help="Of the run that it is of"),
        "lp": config.TextColumn("LP", width=120, help="Of the run that it is of"),
        "device": config.TextColumn("device", width=110),
        "events": config.NumberColumn("events", width=80, format="localized", help="With a duration"),
        "span": config.NumberColumn("span ms", width=80, format="%.1f", help="First event to last"),
        "work": config.NumberColumn("device ms", width=80, format="%.1f", help="Work of devices, added up"),
        "idle": config.NumberColumn(
            "idle", width=62, format="%.1f %%", help="Of the time between first and last work of a device"
        ),
        "tokens": config.NumberColumn("tokens", width=70, format="localized", help="That it covers"),
        "passes": config.NumberColumn("passes", width=66, format="localized", help="Forward passes that it covers"),
        "made": config.DatetimeColumn("made", width=120, format="D MMM YYYY HH:mm"),
        "run": config.LinkColumn("run", width=200, display_text=_RUN_NAME, help="Opens it in Compare runs"),
        "trace": config.TextColumn("trace", width=320),
    }


def _roles(chosen: Chosen | None) -> None:
    """Who is control and who is test, and the ways to change it."""
    if chosen is None:
        st.info("Tick one trace, or two. The first one is the control.", icon=":material/checklist:")
        return
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        st.html(_legend(chosen), width=LEGEND_WIDTH)
        with st.container(horizontal=True, width="content"):
            if chosen.test is not None:
                st.button(
                    "Swap",
                    icon=":material/swap_horiz:",
                    key="swap_traces",
                    type="tertiary",
                    help="The test becomes the control. Ratios are always test over control.",
                    on_click=state.put,
                    args=(chosen.test.id, chosen.control.id),
                )
            st.button(
                "Look at nothing",
                icon=":material/close:",
                key="no_trace",
                type="tertiary",
                on_click=state.put,
                args=(None,),
            )


def _legend(chosen: Chosen) -> str:
    """Letters in their colours, with names."""
    colours = palette()
    roles = ("control", "test") if chosen.test is not None else ("alone",)
    named = [
        (chosen.colour(one, colours), f"{visible_text(shortened(chosen.name(one)))} ({role})")
        for one, role in zip(chosen.traces, roles, strict=True)
    ]
    hint = "" if chosen.test is not None else "Tick a second trace to compare."
    return legend(named, "Traces that are looked at", hint)


def _cautions(chosen: Chosen) -> None:
    """What a reader has to know before any figure, once for all sections; a section says itself what does not read."""
    try:
        said = cautions(*map(trace_of, chosen.traces))
    except DriftscopeError:
        return
    if said:
        words = " ".join(escape_markdown(visible_text(shortened(one, MOST_WORDS))) for one in said)
        st.caption(f":material/info: {words}")
