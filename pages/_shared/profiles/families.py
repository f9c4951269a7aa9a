"""The Profiles page's first section: where the time goes by families, and what a difference is made of."""

from __future__ import annotations

import json

import streamlit as st

from engine.profile.compare import Comparison, document
from engine.profile.words import alone, incomparable, is_alone, other_words, where_from
from engine.store.store import Store
from pages._shared.errors import escape_markdown
from pages._shared.profiles import families_charts as charts
from pages._shared.profiles import families_html as html
from pages._shared.profiles import families_table as tables
from pages._shared.profiles.reading import comparison_of
from pages._shared.profiles.state import Chosen
from pages._shared.profiles.traces import say_nobody
from pages._shared.table_files import CSV

SIDES = {"device": "what devices did", "host": "what operators did, without those inside them"}
RULE = """[[rule]]
side = "{side}"
family = "mine"
pattern = "part_of_a_name"   # a regular expression; the first rule that matches decides"""


def show(store: Store, chosen: Chosen | None) -> None:
    """Draw this section; ``chosen`` is None where no trace is chosen."""
    if chosen is None:
        say_nobody(store, "the families that its time goes to")
        return
    found = comparison_of(chosen)
    said = alone(found.control, found.families) if is_alone(found) else where_from(found)
    st.html(html.style())
    with st.container(border=True, key="families-say"):
        st.markdown(escape_markdown(said))
    with st.container(key="profile-cards"):
        _cards(chosen, found)
    if found.families:
        st.html(_table(chosen, found))
        st.caption(_legend(found))
    _other(found)
    _downloads(found)


def _cards(chosen: Chosen, found: Comparison) -> None:
    if is_alone(found) or incomparable(found):
        charts.compute(chosen, found)
        return
    left, right = st.columns([3, 2], gap="small")
    with left:
        charts.way(chosen, found)
    with right:
        charts.compute(chosen, found)


def _table(chosen: Chosen, found: Comparison) -> str:
    names = " and ".join(chosen.name(entry) for entry in chosen.traces)
    groups, lines = tables.groups(found), tables.lines(found, found.families)
    return html.table("family", groups, lines, f"Families of work of {names}")


def _legend(found: Comparison) -> str:
    sides = dict.fromkeys(trace.work_side for trace in (found.control, found.test))
    said = f"Work is {' in one trace, and in the other '.join(SIDES[one] for one in sides)}."
    if not is_alone(found):
        said += " × is test over control."
        said += "" if incomparable(found) else " *By calls* is what more calls cost, *by each* what slower ones do."
    if not all(trace.is_whole for trace in (found.control, found.test)):
        said += " A report names some operations only: shares are of those."
    return said


def _other(found: Comparison) -> None:
    """What no rule caught, and how to catch it."""
    parts = [("A" if not is_alone(found) else "", other_words(found.control, found.families))]
    if not is_alone(found):
        parts.append(("B", other_words(found.test, found.families, of_test=True)))
    told = [f"{letter}: {words}" if letter else words for letter, words in parts if words]
    if not told:
        return
    with st.expander("What is in `other`?", icon=":material/help:"):
        st.markdown("No rule of a family caught " + "; ".join(escape_markdown(one) for one in told) + ".")
        st.markdown(
            "Families are rules over names, in `data/trace_families.toml`. Rules of your own come first: write them "
            "into a file, name it in `DRIFTSCOPE_TRACE_FAMILIES`, and add the trace again."
        )
        st.code(RULE.format(side=found.control.work_side), language="toml")


def _downloads(found: Comparison) -> None:
    name = "trace" if is_alone(found) else "traces"
    with st.container(horizontal=True):
        for word, file, mime, make, what in (
            ("CSV", f"{name}-families.csv", CSV, lambda: tables.csv_of(found), "One row a family, with every figure"),
            (
                "JSON",
                f"{name}.json",
                "application/json",
                lambda: json.dumps(document(found), ensure_ascii=False, indent=1),
                "Families, figures and kernels, as `trace compare --json` has them",
            ),
        ):
            if word == "JSON" and is_alone(found):
                continue
            st.download_button(
                word,
                make,
                file,
                mime,
                icon=":material/download:",
                help=what,
                on_click="ignore",
                type="tertiary",
                key=f"families_{word.lower()}",
            )
