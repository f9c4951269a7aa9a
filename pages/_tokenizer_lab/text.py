"""The Tokenizer lab's first section: one pasted text as chips under each tokenizer, its blocks and their drift."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from engine.chem.drawing import draw_svg
from engine.chem.enriched import decode
from engine.chem.other_forms import OTHER_WORDS
from engine.chem.smiles import parse_smiles
from engine.errors import DriftscopeError
from engine.figures.words import capitalised, counted
from engine.inspection.atoms import Token
from engine.inspection.faults import verdict
from engine.inspection.judging import judge_text
from engine.questions.lab_text import COLUMNS, TEMPLATE, kind_of_input, template_words, text_tables
from engine.questions.question import Tables
from engine.records import CodeFormat, Molecule, NumberFormat
from engine.text.blocks import READ_FORMAT
from engine.text.generated import ReadText, read_text
from engine.text.tokenizers import TextTokenizer
from pages._kit.card import show_table
from pages._kit.components.atom_view import ViewRow, atom_view, visible
from pages._kit.components.view3d import APART, view3d
from pages._kit.errors import error_markdown, escaped
from pages._kit.theme import DARK, palette
from pages._kit.verdict_badges import failed_checks, molecule_badges, text_badge
from pages._kit.words import glossed
from pages._tokenizer_lab.choices import bins_input, folder_input, placeholder_input, tokenizers

EXAMPLES = {
    "Junk and cut": "[C]<6.9467,-1.369,0.8415amen>=[O]<-1.2034,-0.5100,0.8012>",
    "Junk of a report": "[C]<6.9467,-1.369,0.8415amen>[C]<3.601,0.363,0.3325 （C>[C]<3.175,-0.187,0.4142}2>",
    "Placeholder block": "<0.0000,0.0000,0.0000>",
    "Aspirin": "CC(=O)Oc1ccccc1C(=O)O",
    "Glycine zwitterion": "C(C(=O)[O-])[NH3+]",
}
JUDGE_LIMIT_S = 20.0
MOST_FAILED = 5
JUNK_NOTE = "junk: not part of the three numbers"
TRIPLES_HELP = "Every block that is not just three numbers, or of codes one of them"
BEYOND_NOTE = "beyond the placeholder's positions: a position LP would cut it off"


def show() -> None:
    text = _inputs()
    chosen, placeholder = tokenizers(), st.session_state.get("placeholder") or ""
    if not text.strip():
        st.info("Paste a coordinate, an enriched text or a SMILES, or choose an example.", icon=":material/edit:")
        return
    kind = kind_of_input(text)
    bins = bins_input(kind) if kind in ("bins", "binned", "codes") else None
    with st.spinner("Counting tokens ..."):
        tables = text_tables(text, chosen, placeholder, bins)
    (facts,) = tables["facts"].to_pylist()
    for note in tables["notes"]["note"].to_pylist():
        st.warning(escaped(capitalised(note)), icon=":material/info:")
    st.caption(glossed(escaped(facts["words"])), unsafe_allow_html=True)
    if facts["kind"] == "smiles":
        _show_molecule(parse_smiles(text), tables, chosen)
    else:
        _show_text(text, tables, chosen, READ_FORMAT if bins is None else bins)


# --- input --------------------------------------------------------------------------------------------------------


def _inputs() -> str:
    if "text" not in st.session_state and "text" not in st.query_params:
        st.session_state["text"] = EXAMPLES["Junk and cut"]
    st.pills("Examples", list(EXAMPLES), key="example", on_change=_take_example, label_visibility="collapsed")
    left, right = st.columns([3, 2], gap="large")
    with left:
        text = st.text_area(
            "Coordinate, enriched text or SMILES",
            key="text",
            height=132,
            bind="query-params",
            help="Tokens appear when you leave the field or press Ctrl+Enter.",
        )
    with right:
        placeholder_input()
        folder_input()
    return text or ""


def _take_example() -> None:
    if example := st.session_state.get("example"):
        st.session_state.update({"text": EXAMPLES[example], "example": None})


# --- a molecule ---------------------------------------------------------------------------------------------------


def _show_molecule(molecule: Molecule, tables: Tables, chosen: list[TextTokenizer]) -> None:
    picture, numbers = st.columns([2, 3], gap="large")
    with picture:
        alt = f"2D drawing of {molecule.smiles}"
        st.image(draw_svg(molecule, dark=palette() is DARK), alt=alt)
        st.code(molecule.smiles, language=None, wrap_lines=True)
    with numbers:
        show_table("template", tables["tokenizers"].select(["name", *TEMPLATE]), COLUMNS)
    _show_tokens(tables, chosen, "Template under ")
    text = tables["facts"]["written"][0].as_py()
    if not text:
        return
    st.header("A reference conformer against this template", anchor=False)
    st.caption("ETKDGv3 with seed 0, in its principal-axis frame, four decimals. Measured here.")
    conformer, written = st.columns([2, 3], gap="large")
    with conformer:
        view3d(decode(text).mol, key="lab_conformer", label="3D view of the conformer", zoom=APART)
    with written:
        st.code(text, language=None, wrap_lines=True, height=308)
    _blocks_table(tables)


# --- any other text -----------------------------------------------------------------------------------------------


def _show_text(text: str, tables: Tables, chosen: list[TextTokenizer], form: NumberFormat) -> None:
    (facts,) = tables["facts"].to_pylist()
    is_other = facts["kind"] in OTHER_WORDS and form is READ_FORMAT
    is_codes = isinstance(form, CodeFormat)
    verdict_area = st.container()
    if facts["is_judged"] and not is_codes:
        st.markdown(glossed(escaped(template_words(tables))), unsafe_allow_html=True)
    _show_tokens(tables, chosen)
    if not facts["is_judged"] and not is_other:
        verdict_area.info("No coordinate block found: nothing of this text could be judged.", icon=":material/help:")
    if facts["is_judged"]:
        _junk_metrics(tables, is_codes=is_codes)
        _blocks_table(tables, is_codes=is_codes)
        if form is not READ_FORMAT or facts["kind"] == "enriched":
            with verdict_area:
                _verdict(text, read_text(text, chosen[0], form), form)


def _show_tokens(tables: Tables, chosen: list[TextTokenizer], before: str = "") -> None:
    """``before`` the tokenizer's name: of templates, which have no caption."""
    rows = tables["tokens"].to_pylist()
    for tokenizer, of in zip(chosen, tables["tokenizers"].to_pylist(), strict=True):
        tokens = [row for row in rows if row["tokenizer"] == tokenizer.name]
        view = ViewRow(tuple(map(_token, tokens)))
        words = "" if before else _caption(tokens, of)
        atom_view(
            [view], key=f"tokens_{tokenizer.name}", label=f"{before}{tokenizer.title}", caption=words, max_height=320
        )


def _caption(tokens: Sequence[Mapping[str, Any]], of: Mapping[str, Any]) -> str:
    if not of["blocks"]:
        return "no coordinate block"
    junk = " with junk" if any(token["is_junk"] for token in tokens) else ""
    free = sum(token["role"] == "FREE" for token in tokens)
    drift = f" · drift {of['drifts']}" if of["drifts"] else ""
    return f"{free:,} FREE{junk} in {counted(of['blocks'], 'block')}{drift}"


def _verdict(text: str, annotated: ReadText, form: NumberFormat) -> None:
    """Whether the text is sound, and the molecule right, too."""
    try:
        with st.spinner("Judging the molecule …"):  # the cache's own would cover what is below
            row = _judged(text, hash(form), form)
    except DriftscopeError as error:
        st.info(error_markdown(error), icon=":material/info:")
        return
    with st.container(horizontal=True, gap="small", key="verdict"):
        text_badge(row)
        molecule_badges(row)
    numbers = {"x": None} if isinstance(form, CodeFormat) else {}
    blocks = [
        {"kinds": reading.kinds, "junk_text": reading.junk_text, "conformer": conformer, **numbers}
        for reading, conformer in zip(annotated.readings, annotated.conformer, strict=True)
    ]
    st.markdown(f"As written: {glossed(escaped(verdict(row, blocks)))}", unsafe_allow_html=True)
    failed_checks(row["failed"], MOST_FAILED)


@st.cache_data(max_entries=200, show_spinner=False)
def _judged(text: str, form_hash: int, _form: NumberFormat) -> dict[str, Any]:
    return judge_text(text, form=_form, limit_s=JUDGE_LIMIT_S)


def _token(row: Mapping[str, Any]) -> Token:
    if row["is_junk"]:
        marks, note = "j", JUNK_NOTE
    elif row["is_beyond"]:
        marks, note = "c", BEYOND_NOTE
    else:
        marks = "" if row["role"] == "FREE" else "f"
        note = row["role"]
    return Token(row["column"], visible(row["piece"]), id=row["id"], marks=marks, note=note)


def _junk_metrics(tables: Tables, *, is_codes: bool) -> None:
    (count,) = tables["facts"].to_pylist()
    row = st.container(horizontal=True, gap="medium")
    for label, name, about in (
        ("Blocks", "blocks", None),
        ("No sound code" if is_codes else "No clean triple", "not_triples", TRIPLES_HELP),
        ("With a letter", "letters", "The reports' first count of junk"),
        ("Anything non-numeric", "nonnumeric", "The reports' second count: all but digits . , -"),
    ):
        row.metric(label, count[name], help=about, width="content")


def _blocks_table(tables: Tables, *, is_codes: bool = False) -> None:
    show_table("blocks", tables["main"], {})
    words = (
        "Drift is the placeholder's FREE positions minus the tokens that the three numbers need: *+1 junk-prone · 19 "
        "of 20* leaves one position over. Negative drift is cut: a position LP with this placeholder would cut off the "
        "number’s last digits."
    )
    if not is_codes:
        st.caption(glossed(words), unsafe_allow_html=True)
