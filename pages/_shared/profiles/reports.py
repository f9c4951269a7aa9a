"""What the reports say of their two traces: their counts beside those of the traces that are looked at, and the figures
that they derived wrongly, each with what their own counts give, and why.

Theirs are always marked as reported. Whether their counts are right is not known here.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import streamlit as st

from engine.profile.reported import load_reported
from engine.store.store import Store
from pages._shared.errors import escape_markdown
from pages._shared.profiles import families_html as html
from pages._shared.profiles import reports_table as tables
from pages._shared.profiles.reading import trace_of
from pages._shared.profiles.state import Chosen
from pages._shared.table_files import CSV

_CSS = Path(__file__).with_name("reports.css")


def show(store: Store, chosen: Chosen | None) -> None:
    """Draw this section; ``chosen`` is None where no trace is chosen."""
    reported = load_reported()
    sets = [tables.of_reported(reported.traces)]
    ours = [entry for entry in chosen.traces if entry.row.get("origin") != "reported"] if chosen else []
    if chosen and ours:
        sets.append(tables.Columns("chosen", tuple(tables.of_trace(chosen, trace_of(entry)) for entry in ours)))
    st.html(html.style() + f"<style>{_css()}</style>")
    st.subheader("What did the reports count, and what is it here?", anchor=False)
    st.markdown(escape_markdown(tables.answer(sets)))
    st.html(html.table("counted", tables.groups(sets), tables.lines(sets), tables.CAPTION))
    st.caption(escape_markdown(_about(chosen, bool(ours))))
    _file("counts", lambda: tables.counts_csv(sets))
    st.subheader("What did the reports derive from it?", anchor=False)
    st.markdown(escape_markdown(tables.derived_answer(reported.derived)))
    st.html(tables.derived_table(reported.derived, _verdicts()))
    st.caption(
        "Reported figures of report 003. A sign says what the Evidence page's check finds; *ours* is computed from the "
        "formula beside it, whose numbers are the reports' own."
    )
    _file("derived", lambda: tables.derived_csv(reported.derived))


def _about(chosen: Chosen | None, has_ours: bool) -> str:
    said = "The reports’ columns are what report 003 states, rounded as there; the time of each follows from it (~)."
    if chosen is None:
        return f"{said} The counts of a trace that is ticked come beside them."
    if not has_ours:
        return f"{said} What is ticked above is reported itself; tick a captured or an imported trace."
    return (
        f"{said} A trace’s counts are of what it covers, so compare ratios and figures a token, not totals. "
        "– is what a trace cannot know: one of a CPU has no launches. There an operator inside another one counts, too."
    )


def _verdicts() -> Mapping[str, str]:
    """What each claim's check found, by the claim's id; empty where nobody judged."""
    from engine.evidence.verdicts import load  # with all checks: only this section needs them

    judged = load()
    return {} if judged is None else {one.claim_id: one.verdict for one in judged.verdicts}


def _file(name: str, make: tables.Made) -> None:
    st.download_button(
        "CSV", make, f"report-003-{name}.csv", CSV, key=f"reports_{name}", icon=":material/download:",
        type="tertiary", on_click="ignore",
    )  # fmt: skip


@cache
def _css() -> str:
    return _CSS.read_text(encoding="utf-8")
