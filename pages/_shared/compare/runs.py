"""The Compare page's choice of runs: all of the store in one table with filters, of which some are compared.

Which are compared is in the address. A filter hides rows and changes nothing about what is compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import streamlit as st

from engine.comparing.figures import RunFigures, run_figures
from engine.store.store import Store
from pages._shared.compare import state
from pages._shared.compare.state import Chosen
from pages._shared.damages import show_damages
from pages._shared.drift.words import visible_text
from pages._shared.errors import escape_markdown
from pages._shared.managing.ticking import legend, ticked_ids, ticked_table
from pages._shared.theme import palette

KEY = "compared_runs"
ORIGINS = ("measured", "imported", "reported")
FILTER_WIDTH, CONTROL_WIDTH, TESTS_WIDTH = 150, 280, 400
_EMPTY = """
Three ways to a first run:

- Start one below, under *Manage*, or from a terminal:
  `.venv/bin/python -m engine run --model demo-qwen --lp none --lp position-blocklist --lp exact`
- Generate a molecule on the **Live generation** page and press *Keep as run*.
- Bring the reports' files in: `.venv/bin/python -m engine import 'outputs/smoke/*.json.gz'`
"""


def chosen_runs(store: Store, *, is_open: bool = True) -> Chosen | None:
    """Draw the table, folded away unless ``is_open``, and give what is compared."""
    found = store.found()
    if not found.entries:
        st.info(_EMPTY, icon=":material/inbox:", title="There is no run in this store yet")
        show_damages(found)
        return None
    chosen, complaints = state.choose(found)
    for one in complaints:
        st.error(escape_markdown(one), icon=":material/error:")
    with st.expander(_heading(chosen), expanded=is_open, icon=":material/checklist:"):
        runs = [run_figures(entry) for entry in reversed(found.entries)]
        _filters(runs, chosen)
        _table([run for run in runs if _is_wanted(run, chosen)], chosen)
        _control(chosen)
        show_damages(found)
    return chosen


def _heading(chosen: Chosen | None) -> str:
    if chosen is None:
        return "Runs"
    control = escape_markdown(visible_text(chosen.name(chosen.control.id)))
    count = len(chosen.tests)
    return f"Runs: {control}, beside {count or 'no'} test{'s' if count != 1 else ''}"


def _filters(runs: Sequence[RunFigures], chosen: Chosen | None) -> None:
    with st.container(horizontal=True, vertical_alignment="bottom", key="run-filters"):
        st.pills("Origin", ORIGINS, selection_mode="multi", key="origin", bind="query-params", width="content")
        for label, name in (("Model", "model"), ("LP", "lp")):
            st.multiselect(
                label,
                _values(runs, name),
                key=name,
                placeholder="any",
                bind="query-params",
                format_func=visible_text,
                width=FILTER_WIDTH,
            )
        st.text_input(
            "Contains",
            key="contains",
            placeholder="any",
            bind="query-params",
            max_chars=200,
            help="In a run's name, label, notes, source, tokenizer, sampling or device",
            width=FILTER_WIDTH,
        )
        st.toggle("Ticked", key="only", bind="query-params", disabled=chosen is None, width="content")


def _values(runs: Sequence[RunFigures], name: str) -> list[str]:
    return sorted({value for run in runs if (value := getattr(run, name))})


def _is_wanted(run: RunFigures, chosen: Chosen | None) -> bool:
    asked = st.session_state
    if asked.get("only") and chosen is not None and run.run_id not in chosen.ids:
        return False
    for name in ("origin", "model", "lp"):
        if (values := asked.get(name)) and getattr(run, name) not in values:
            return False
    words = (asked.get("contains") or "").casefold().split()
    told = (run.run_id, run.label, run.notes, run.source, run.tokenizer, run.sampling, run.device, run.model, run.lp)
    whole = " ".join(told).casefold()
    return all(word in whole for word in words)


def _table(runs: list[RunFigures], chosen: Chosen | None) -> None:
    if not runs:
        st.info("No run is like that. Take a filter away.", icon=":material/filter_alt_off:")
        return
    ids = chosen.ids if chosen is not None else ()
    rows = {run.run_id: _row(run, chosen) for run in runs}
    ticked_table(KEY, rows, ids, _take, columns=_columns(), alt="Runs of the store: tick those to compare")


def _take(shown: Sequence[str], ids: Sequence[str]) -> None:
    """Rows ticked are compared, beside what the filters hide; who was compared keeps his place."""
    compared = ticked_ids(KEY, shown, ids)
    if compared is None:
        return
    if len(compared) > state.MOST_TESTS + 1:
        st.toast(f"A control and {state.MOST_TESTS} tests are the most.", icon=":material/warning:")
    state.put(compared[0] if compared else None, compared[1 : state.MOST_TESTS + 1])


def _row(run: RunFigures, chosen: Chosen | None) -> dict[str, Any]:
    is_compared = chosen is not None and run.run_id in chosen.ids
    return {
        "as": chosen.letter(run.run_id) if is_compared and chosen is not None else None,
        "model": visible_text(run.model),
        "lp": visible_text(run.lp),
        "origin": run.origin,
        "samples": run.samples,
        "pass": _per_cent(run.pass_rate),
        "clean": _per_cent(run.clean_rate),
        "junk": _per_cent(run.junk_letters_share),
        "cut": _per_cent(run.cut_share),
        "s": run.wall_s_a_sample,
        "ms": run.ms_a_token,
        "tokens": run.tokens_a_sample,
        "label": visible_text(run.label),
        "tokenizer": visible_text(run.tokenizer),
        "sampling": visible_text(run.sampling),
        "batch": run.batch_size,
        "device": visible_text(run.device),
        "made": run.created_at,
        "run": run.run_id,
    }


def _per_cent(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _columns() -> dict[str, Any]:
    config = st.column_config
    return {
        "as": config.TextColumn("as", width=36, pinned=True, help="A is the control"),
        "model": config.TextColumn("model", width=130),
        "lp": config.TextColumn("LP", width=130),
        "origin": config.TextColumn(
            "origin", width=76, help="measured: by this program. imported: a file's. reported: what a text states"
        ),
        "samples": config.NumberColumn("samples", width=66, format="localized"),
        "pass": _rate("pass", "Samples without an issue, by the reports' rule"),
        "clean": _rate("clean", "Passed, with no block that is junk or cut", "green"),
        "junk": config.NumberColumn("junk", width=62, help="Blocks with a letter in them", format="%.1f %%"),
        "cut": config.NumberColumn("cut", width=62, help="Blocks closed inside their numbers", format="%.1f %%"),
        "s": config.NumberColumn("s / sample", width=76, help="Wall time over samples", format="%.3f"),
        "ms": config.NumberColumn("ms / token", width=76, format="%.3f"),
        "tokens": config.NumberColumn("tokens / sample", width=104, format="%.0f"),
        "label": config.TextColumn("label", width=150),
        "tokenizer": config.TextColumn("tokenizer", width=80),
        "sampling": config.TextColumn("sampling", width=80),
        "batch": config.NumberColumn("batch", width=54),
        "device": config.TextColumn("device", width=110),
        "made": config.DatetimeColumn("made", width=120, format="D MMM YYYY HH:mm"),
        "run": config.TextColumn("run", width=320),
    }


def _rate(name: str, what: str, color: str | None = None) -> Any:
    return st.column_config.ProgressColumn(
        name, width=92, help=what, format="%.1f %%", min_value=0, max_value=100, color=color
    )


def _control(chosen: Chosen | None) -> None:
    """Who the control is, and what is compared though no row shows it."""
    if chosen is None:
        st.info("Tick runs in the table. The first one is the control.", icon=":material/checklist:")
        return
    st.session_state["control_run"] = chosen.control.id
    with st.container(horizontal=True, vertical_alignment="bottom", horizontal_alignment="distribute", key="run-roles"):
        st.selectbox(
            "Control",
            list(chosen.ids),
            key="control_run",
            format_func=lambda run_id: visible_text(chosen.name(run_id)),
            on_change=_other_control,
            args=(chosen.ids,),
            help="Ratios are each test's over the control's",
            width=CONTROL_WIDTH,
        )
        st.html(_legend(chosen), width=TESTS_WIDTH)
        st.button(
            "Compare nothing", icon=":material/close:", key="nothing", type="tertiary", on_click=state.put, args=(None,)
        )


def _legend(chosen: Chosen) -> str:
    """The tests' letters in their colours, with their names."""
    if not chosen.tests:
        return "<p class='chosen-entries'>No test yet: tick more runs above.</p>"
    colours = palette()
    return legend(
        [(chosen.colour(one.id, colours), visible_text(chosen.name(one.id))) for one in chosen.tests], "Tests"
    )


def _other_control(ids: tuple[str, ...]) -> None:
    control = st.session_state["control_run"]
    state.put(control, [one for one in ids if one != control])
