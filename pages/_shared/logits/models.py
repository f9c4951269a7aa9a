"""The Logit health page's ranking: the report's models as it states them, and the logs of this store beside them."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import streamlit as st

from engine.logits.ranking import REPORTED_ENTRIES, reported_interval
from engine.logits.reported import Rate
from engine.logits.trend_words import percent
from engine.logits.trends import BYS
from engine.store.store import Store
from pages._shared.errors import escape_markdown
from pages._shared.logits import models_charts, models_table
from pages._shared.logits.models_data import Ranked, ranked
from pages._shared.logits.state import Chosen

THEIRS, OURS = "the report's rule", "our rules"
EXAMPLE = 0.2


def show(store: Store, chosen: Chosen | None) -> None:
    """Draw this section; ``chosen`` is None where no log is chosen."""
    st.html(f"<style>{css()}</style>")
    found = ranked(store, chosen)
    st.markdown(escape_markdown(_headline(found)))
    st.subheader(
        "As the report states it", anchor=False, help="Its logs were not published: these figures are its word"
    )
    models_table.show_reported(found)
    st.caption(escape_markdown(_caution()))
    st.subheader("Logs of this store", anchor=False)
    if found.ranking.logs:
        models_table.show_logs(found, chosen)
    else:
        st.info("No log to rank yet: *Logs* says how one comes in.", icon=":material/inbox:")
    for note in _notes(found):
        st.caption(escape_markdown(note))
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
                models_charts.show_trend(found, by, _by_report if rule == THEIRS else _by_ours, rule)
        with fourth:
            models_charts.show_sizes(found)


def _by_report(rate: Rate) -> float | None:
    return rate.by_report


def _by_ours(rate: Rate) -> float | None:
    return rate.by_ours


def _headline(found: Ranked) -> str:
    models, logs = found.ranking.models, found.ranking.logs
    said = (
        f"As reported, {models[-1].model} has most garbage ({percent(models[-1].garbage_share)} of its tokens) and "
        f"{models[0].model} least ({percent(models[0].garbage_share)})."
    )
    if not logs:
        return f"{said} No log is here to apply its rule to, or ours."
    theirs = sum(one.by_report > 0 for one in logs)
    ours = sum(bool(one.by_ours) for one in logs)
    count = "the one log" if len(logs) == 1 else f"the {len(logs)} logs"
    own = f"{theirs} {_have(theirs)} garbage by its rule, and {ours} {_are(ours)} damaged by ours"
    return f"{said} Of {count} here, {own}."


def _have(count: int) -> str:
    return "has" if count == 1 else "have"


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _caution() -> str:
    low, high = reported_interval(EXAMPLE)
    return (
        f"Reported, not measured here. The report counts some {REPORTED_ENTRIES} entries over all its models; if they "
        f"were spread evenly, a share of {percent(EXAMPLE)} may be anything from {100 * low:.0f} to {100 * high:.0f} "
        "%. Logs here stand beside a model where their name and precision are the same."
    )


def _notes(found: Ranked) -> list[str]:
    notes = []
    if found.ranking.left_out:
        names = ", ".join(one.log_id for one in found.ranking.left_out[:5])
        notes.append(f"Left out, for their values cannot be read: {names}. The command “engine verify” says how.")
    if found.older:
        logs = "1 older log is" if found.older == 1 else f"{found.older:,} older logs are"
        notes.append(f"{logs} not ranked here; tick one above to see it.")
    return notes


@cache
def css() -> str:
    return Path(__file__).with_name("logits.css").read_text(encoding="utf-8")
