"""The Logit health page's ranking: the report's models as it states them, and the logs of this store."""

from __future__ import annotations

from operator import attrgetter

import streamlit as st

from engine.figures.words import percent
from engine.logits.ranking import REPORTED_ENTRIES, reported_interval
from engine.logits.trends import BYS
from engine.store.store import Store
from pages._logits import models_charts, models_table
from pages._logits.logs import LogSelection
from pages._logits.models_table import Ranked, ranked
from pages._shared.errors import escape_markdown

THEIRS, OURS = "the report's rule", "our rules"
EXAMPLE = 0.2
_WITHOUT_LEGEND = "<style>.chosen-entries { display: none; }</style>"
REPORTED_HELP = """
Its logs were not published, so these figures cannot be checked. The interval is the 95 % one of a share over its
entries, spread evenly over its models. Logs here are matched with models by name and precision.
"""


def show(store: Store, chosen: LogSelection | None) -> None:
    """All logs of the store: A and B mean nothing here, so their legend is hidden."""
    st.html(_WITHOUT_LEGEND)
    found = ranked(store, chosen)
    st.markdown(escape_markdown(_headline(found)))
    if found.ranking.logs:
        st.subheader("Logs of this store", anchor=False)
        models_table.show_logs(found)
    for note in _notes(found):
        st.caption(escape_markdown(note))
    st.subheader("As the report states it", anchor=False, help=REPORTED_HELP)
    models_table.show_reported(found)
    st.caption(escape_markdown(_caution()))
    models_table.buttons(found)
    _charts(found)


@st.fragment
def _charts(found: Ranked) -> None:
    rule = THEIRS
    if found.ranking.logs:
        picked = st.segmented_control(
            "Garbage of the logs here, by",
            [THEIRS, OURS],
            default=THEIRS,
            required=True,
            key="rule",
            bind="query-params",
        )
        rule = picked or THEIRS
    with st.container(key="logit-charts"):
        (first, second), (third, fourth) = (st.columns(2, gap="small") for _ in range(2))
        for place, by in zip((first, second, third), BYS, strict=True):
            with place:
                models_charts.show_trend(found, by, attrgetter("by_report" if rule == THEIRS else "by_ours"), rule)
        with fourth:
            models_charts.show_sizes(found)


def _headline(found: Ranked) -> str:
    models, logs = found.ranking.models, found.ranking.logs
    said = (
        f"As reported, {models[-1].model} has most garbage ({percent(models[-1].garbage_share)} of its entries) and "
        f"{models[0].model} least ({percent(models[0].garbage_share)})."
    )
    if not logs:
        return f"{said} There is no log here to apply its rule or ours to."
    theirs = sum(log.by_report > 0 for log in logs)
    ours = sum(bool(log.by_ours) for log in logs)
    count = "the one log" if len(logs) == 1 else f"the {len(logs)} logs"
    have, are = "has" if theirs == 1 else "have", "is" if ours == 1 else "are"
    damaged = f"{theirs} {have} garbage by the report's rule, {ours} {are} damaged by ours"
    return f"Of {count} here, {damaged} (late reads show under Health). {said}"


def _caution() -> str:
    low, high = reported_interval(EXAMPLE)
    return (
        f"Reported, not measured here, from about {REPORTED_ENTRIES} entries of all models together: of a model's part "
        f"of them, a share of {percent(EXAMPLE)} has a 95 % interval of {100 * low:.0f} to {100 * high:.0f} %."
    )


def _notes(found: Ranked) -> list[str]:
    notes = []
    if found.ranking.left_out:
        names = ", ".join(found.ranking.left_out[:5])
        notes.append(f"Left out, values cannot be read: {names}. Run `engine verify` for details.")
    if found.older:
        logs = "1 older log is" if found.older == 1 else f"{found.older:,} older logs are"
        notes.append(f"{logs} not ranked here; tick one above to see it.")
    return notes
