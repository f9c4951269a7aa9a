"""The Evidence page: what the reports state, each claim beside what comes out here, and the query behind it.

Verdicts computed on the page are shown to all visitors until the process ends and are never written: ``data/`` may be
read-only, and its verdicts are the project's, not a visitor's.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence

import streamlit as st

from engine.errors import DriftscopeError, FileFormatError, one_line, shown
from engine.evidence import verdicts
from engine.evidence.checks import VERDICTS
from engine.evidence.claims import REPORTS, Claim, load_claims
from engine.evidence.formula import said
from engine.evidence.verdicts import FLAT, Judgement, Verdict, document, flat, why_outdated
from engine.models.summary import sized
from engine.questions import PAGES, ask, question_of
from engine.store.store import Store
from pages._kit.card import cards
from pages._shared.errors import error_markdown, escape_markdown, shown_errors
from pages._shared.frame import page
from pages._shared.links import lab_address, sql_address
from pages._shared.rows import table_height
from pages._shared.sections import VIEW, show_open
from pages._shared.shown import put_shown
from pages._shared.table_files import csv_text, file_button
from pages._shared.verdicts import LOOKS
from pages._shared.words import unbroken, visible_text

TITLE = "Evidence"
ICON = ":material/fact_check:"
LEAD = "Which claims of the group's reports hold? Each is quoted, beside the figure computed **here**."
MORE = (
    "Reports 000 to 004, and the group's result of December 2025 (005): the claims that their conclusions rest on. "
    "Figures come from the real tokenizers, stored runs, the LPs' own tables, and arithmetic on the reports' figures. "
    "Every verdict is computed. The reports' pass rates go by their own rule (*passed*): junk may pass."
)
VIEWS = PAGES["evidence"]
ALL, LOST_THIRD = "All claims", "The lost third"
MOST_LINK = 6_000  # characters of a link; a longer one is not taken by every browser and proxy
SOURCES = {
    "tokenizers": "Counted here with the real tokenizers",
    "arithmetic": "Computed from the reports' own figures",
    "store": "Measured here: a query over stored runs",
    "experiment": "Measured here: the experiment `lost-third`",
    "reports": "The reports' figure in another place",
    "lp tables": "Read from the LP's own tables",
    "none": "Not decided here",
}
Judged = tuple[Claim, Verdict | None]


@st.cache_resource(max_entries=8, show_spinner=False)
def of_this_process(place: str) -> dict[str, Judgement]:
    """Verdicts computed on the page, one store's for all visitors."""
    return {}


def last_judgement(store: Store) -> tuple[Judgement | None, bool]:
    """The newest verdicts there are, and whether they are on disk."""
    on_page = of_this_process(store.home.where).get("newest")
    try:
        on_disk = verdicts.load()
    except FileFormatError as error:
        st.error(escape_markdown(str(error)), icon=":material/error:")
        on_disk = None
    is_newer = on_page is not None and (on_disk is None or on_page.when >= on_disk.when)
    return (on_page, False) if is_newer else (on_disk, True)


def standing(store: Store, rows: Sequence[Judged], judgement: Judgement | None, is_kept: bool) -> None:
    """Counts by verdict, when they were computed, whether that still holds, and the button that re-checks them."""
    counts = Counter(verdict.verdict if verdict else "" for _, verdict in rows)
    with st.container(horizontal=True, gap="small", vertical_alignment="center", key="counts"):
        st.markdown(f"**{len(rows):,} claims:**", width="content")
        for name in VERDICTS:
            st.badge(f"{LOOKS[name].sign} {counts[name]:,} {name}", color=LOOKS[name].badge, help=LOOKS[name].means)
    outdated = None if judgement is None else why_outdated(judgement, store)
    if judgement is None:
        st.info("No verdict has been computed yet. Re-check all claims, or run `make claims` to save the result.")
    elif outdated:
        st.warning(f"Out of date: {escape_markdown(outdated)}. Re-check all claims.", icon=":material/update:")
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="standing"):
        if judgement is not None:
            kept = "saved by `make claims`" if is_kept else "computed on this page, lost when the app stops"
            commit = escape_markdown((judgement.git_commit or "no checkout")[:10])
            st.caption(f"Checked {judgement.when:%d %b %Y, %H:%M} UTC from commit {commit} · {kept}", width="stretch")
        if st.button("Re-check all claims", icon=":material/gavel:", key="judge"):
            try:
                with st.spinner("Checking all claims …", show_time=True):
                    of_this_process(store.home.where)["newest"] = verdicts.judge_all(store)
            except DriftscopeError as error:
                st.error(error_markdown(error), icon=":material/error:")
            else:
                st.rerun()


def rich(text: str) -> str:
    """A claim's text as Markdown: text in backticks is code, all else is escaped."""
    parts = text.split("`")
    if len(parts) % 2 == 0 or not all(parts[1::2]):
        return escape_markdown(text)
    return "".join(f"`{visible_text(p)}`" if n % 2 else escape_markdown(p) for n, p in enumerate(parts))


def figures(claim: Claim, verdict: Verdict | None) -> str:
    """``report: 11.1 % · here: 3.8 %``"""
    here = f"here: {said(verdict.measured)} {verdict.unit}".strip() if verdict and verdict.measured is not None else ""
    reported = f"report: {claim.reported} {claim.unit}".strip() if claim.reported else ""
    return " · ".join(filter(None, [reported, here]))


def basis(verdict: Verdict) -> str:
    """On which models, of what size, a verdict rests; empty where none."""
    if verdict.source not in ("store", "experiment"):
        return ""
    named = dict.fromkeys(re.findall(r"demo-(?:qwen|llama)(?:-[a-z]+)?", f"{verdict.reason} {verdict.query}"))
    return f"Rests on {' and '.join(map(sized, named or ('demo-qwen', 'demo-llama')))}, on a CPU."


def badge(verdict: Verdict | None) -> None:
    look = LOOKS[verdict.verdict] if verdict else None
    words, colour = (f"{look.sign} {verdict.verdict}", look.badge) if look and verdict else ("not checked yet", "gray")
    st.badge(words, color=colour, help=look.means if look else None)


def open_claim(id_: str) -> None:
    st.query_params["claim"] = id_
    st.session_state[VIEW] = ALL


def in_two_minutes(store: Store, rows: Sequence[Judged]) -> None:
    with shown_errors(LOST_THIRD, stops=False), st.container(border=True, key="lost-third"):
        answered = ask(store, "evidence_lost_third", [])
        st.markdown(f"**{question_of('evidence_lost_third').TITLE}**")
        st.markdown(unbroken(escape_markdown(answered.answer.partition("\n\n")[0])))
        st.button("Show how", type="tertiary", on_click=st.session_state.update, args=({VIEW: LOST_THIRD},))
    st.subheader("What the conclusions rest on", anchor=False)
    highlights = [row for row in rows if row[0].highlight]
    for start in range(0, len(highlights), 3):
        for column, (claim, verdict) in zip(st.columns(3), highlights[start : start + 3], strict=False):
            with column, st.container(border=True, height="stretch", gap="small", key=f"card-{claim.id}"):
                badge(verdict)
                st.caption(escape_markdown(f"report {claim.report}, {claim.section}"))
                st.markdown(f"**“{rich(claim.statement)}”**")
                st.markdown(escape_markdown(figures(claim, verdict)))
                if verdict:
                    st.caption(f"{rich(verdict.reason)} {escape_markdown(basis(verdict))}")
                st.button("Open", key=f"open-{claim.id}", type="tertiary", on_click=open_claim, args=(claim.id,))
    cards(VIEWS["In two minutes", ""], store, [])


def lost_third(store: Store, rows: Sequence[Judged]) -> None:
    cards(VIEWS[LOST_THIRD, ""], store, [])


def all_claims(store: Store, rows: Sequence[Judged]) -> None:
    left, right = st.columns(2)
    for place, label, options, key in ((left, "Report", REPORTS, "report"), (right, "Verdict", VERDICTS, "verdict")):
        place.multiselect(label, options, key=key, bind="query-params", placeholder="all")
    find, about, only = st.columns([3, 3, 2], gap="small", vertical_alignment="bottom")
    text = find.text_input("Contains", key="find", placeholder="any", bind="query-params", max_chars=200)
    subjects = sorted({claim.subject for claim, _ in rows})
    subject = about.selectbox("About", subjects, index=None, placeholder="anything", key="about", bind="query-params")
    has_figure = only.toggle("Only with a figure", key="figure", bind="query-params")
    reports, names = st.session_state["report"], st.session_state["verdict"]
    found = []
    for claim, verdict in rows:
        parts = (claim.id, *claim.sections, claim.subject, claim.statement, claim.reported, claim.unit)
        words = f"{' '.join(parts)} {verdict.reason if verdict else ''}".casefold()
        if (not reports or claim.report in reports) and (not names or (verdict and verdict.verdict in names)):
            is_found = all(word in words for word in (text or "").casefold().split())
            if is_found and subject in (None, claim.subject) and (claim.reported or not has_figure):
                found.append((claim, verdict))
    st.caption(f"{len(found):,} of {len(rows):,} claims. Tick one to see its figure, the reason, and the query.")
    table = [
        {"claim": claim.id, "verdict": f"{LOOKS[verdict.verdict].sign} {verdict.verdict}" if verdict else "–",
         "statement": one_line(claim.statement),
         "report": f"{claim.reported} {claim.unit}".strip() if claim.reported else "",
         "here": figures(claim, verdict).partition("here: ")[2],
         "about": one_line(claim.subject)}
        for claim, verdict in found
    ]  # fmt: skip
    event = st.dataframe(table, hide_index=True, key="claims", on_select="rerun", selection_mode="single-row",
                         height=table_height(min(len(table), 14)), column_config={
                             "statement": st.column_config.TextColumn(width="large")})  # fmt: skip
    ticked = event["selection"]["rows"]
    if ticked and st.session_state.get("ticked claim") != (id_ := found[ticked[0]][0].id):
        st.query_params["claim"] = st.session_state["ticked claim"] = id_
    named = st.query_params.get("claim", "")
    chosen = next((row for row in rows if row[0].id == named), None)
    put_shown(claim=None if chosen is None else chosen[0].id, claims=[claim.id for claim, _ in found])
    if chosen is not None:
        detail(*chosen)
    elif named:
        st.error(escape_markdown(f"There is no claim {shown(named)}. Choose one above."), icon=":material/error:")
    with st.container(horizontal=True):
        file_button("All as CSV", lambda: csv_text(FLAT, [flat(*row) for row in rows]), "claims.csv")
        file_button("All as JSON", lambda: json.dumps([document(*row) for row in rows], indent=1), "claims.json")


def detail(claim: Claim, verdict: Verdict | None) -> None:
    with st.container(border=True, key="claim-detail"):
        badge(verdict)
        st.markdown(f"#### “{rich(claim.statement)}”")
        also = f"; also in {', '.join(claim.also)}" if claim.also else ""
        place = f"{claim.id} · report {claim.report}, {claim.section}{also} · about: {claim.subject}"
        st.caption(escape_markdown(place))
        if verdict is None:
            st.markdown("This claim has not been checked yet.")
            return
        st.markdown(unbroken(escape_markdown(f"{figures(claim, verdict)}. {SOURCES[verdict.source]}.".lstrip(". "))))
        st.markdown(f"**Why:** {rich(verdict.reason)} {escape_markdown(basis(verdict))}")
        if verdict.verdict == "not testable here" and claim.arguments.get("needs") == "run":
            st.caption("Import the run with `.venv/bin/python -m engine import FILE`, then re-check.")
        sql = verdict.query.partition(" -- ")[0] if verdict.query.startswith(("SELECT ", "WITH ")) else ""
        st.code(verdict.query, language="sql" if sql else None, wrap_lines=True)
        text = "".join(f"[C]{block}" for block in claim.arguments.get("blocks", ())) or claim.arguments.get("text", "")
        with st.container(horizontal=True, gap="small"):
            if sql and len(sql_address(sql)) <= MOST_LINK:
                st.link_button("Open in the SQL console", sql_address(sql), icon=":material/database:")
            if text and claim.check in ("tokens", "examples"):
                st.link_button("Open in the Tokenizer lab", lab_address(text=text), icon=":material/token:")
        st.caption(f"From a terminal: `.venv/bin/python -m engine claims {visible_text(claim.id)}`")


SECTIONS = {"In two minutes": in_two_minutes, LOST_THIRD: lost_third, ALL: all_claims}

page(TITLE, ICON, LEAD, MORE)
with shown_errors():
    store = Store.open().snapshot()
    claims = load_claims()
    judgement, is_kept = last_judgement(store)
    by_id = {verdict.claim_id: verdict for verdict in judgement.verdicts} if judgement else {}
    rows: list[Judged] = [(claim, by_id.get(claim.id)) for claim in claims]
    standing(store, rows, judgement, is_kept)
if "claim" in st.query_params and VIEW not in st.query_params:  # a link that names a claim means the view that has them
    st.session_state.setdefault(VIEW, ALL)
show_open(SECTIONS, store, rows)
put_shown(page="evidence")
