"""One log's answer: how much of it is damaged, each likely cause with its evidence, and how sure that is."""

from __future__ import annotations

import streamlit as st

from engine.logits.causes import ON_PURPOSE, Finding
from engine.logits.figures import Health
from engine.logits.words import SURE, health_sentences
from engine.store.entries import Entry
from pages._shared.errors import escape_markdown

UNKNOWN = "–"


def show(log: Entry, health: Health) -> None:
    answer, *_, by_report = health_sentences(health)
    st.markdown(escape_markdown(answer))
    _figures(health)
    for finding in health.findings:
        _finding(finding)
    said = [one for one in (_places(health), by_report, str(log.row.get("notes") or "")) if one]
    st.caption(escape_markdown(" ".join(said)))


def _figures(health: Health) -> None:
    damaged = [one for one in health.positions if one.damaged]
    some = {
        "Entries": (
            _share(health.damaged_entries, health.entries),
            f"{health.damaged_entries:,} of {health.entries:,}",
        ),
        "Values": (_share(health.damaged_values, health.values), f"{health.damaged_values:,} of {health.values:,}"),
        "Positions": (f"{len(damaged):,}", f"with damage, of {len(health.positions):,}"),
        "By the report's rule": (_share(health.garbage_entries, health.entries), "entries with a huge number"),
    }
    with st.container(horizontal=True, gap="medium"):
        for label, (value, more) in some.items():
            st.metric(label, value, more, delta_color="off", delta_arrow="off", width="content")


def _finding(finding: Finding) -> None:
    """The likeliest first, as the log has them."""
    title = escape_markdown(finding.title[:1].upper() + finding.title[1:])
    is_meant = finding.cause in ON_PURPOSE
    badge = f":gray-badge[:material/check: on purpose, {finding.certainty}]"
    if not is_meant:
        badge = f":red-badge[:material/error: damage, {finding.certainty}]"
    where = f" at {finding.where}" if finding.where else ""
    values = "1 value" if finding.values == 1 else f"{finding.values:,} values"
    lines = [f"**{title}** {badge}  ", escape_markdown(f"{values}{where}.{'' if is_meant else f' {_sure(finding)}'}")]
    lines += ["", *(f"- {escape_markdown(one)}" for one in finding.evidence)]
    st.markdown("\n".join(lines))


def _sure(finding: Finding) -> str:
    return SURE.get(finding.certainty, "")


def _places(health: Health) -> str:
    """Where most damage stands, as the engine says it: the sentence before the last."""
    return health_sentences(health)[-2] if health.flags else ""


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.3g} %" if whole else UNKNOWN
