"""The Tokenizer lab's first section: one pasted text as chips under each tokenizer, its blocks and their drift."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, Literal

import streamlit as st

from engine.chem.drawing import draw_svg
from engine.chem.enriched import decode, skeleton_of
from engine.chem.other_forms import OTHER_WORDS, OtherForm, other_form
from engine.chem.smiles import parse_smiles
from engine.errors import DriftscopeError, EmbedError, SmilesError
from engine.figures.words import counted
from engine.inspection.faults import verdict
from engine.inspection.judging import judge_text
from engine.lp_records import usual_placeholder
from engine.questions.question import Column, rows_table
from engine.records import FIXED4, BinFormat, Block, Molecule, NumberFormat
from engine.text.blocks import READ_FORMAT, count_junk, find_blocks
from engine.text.generated import ReadText, ReadToken, block_needs, read_text, read_tokens
from engine.text.placeholder import reference_text
from engine.text.template import build_template
from engine.text.tokenizers import TextTokenizer
from pages._kit.card import show_table
from pages._shared.components.atom_view import Token, ViewRow, atom_view, visible
from pages._shared.components.view3d import APART, view3d
from pages._shared.errors import error_markdown, escaped
from pages._shared.theme import DARK, palette
from pages._shared.verdict_badges import failed_checks, molecule_badges, text_badge
from pages._tokenizer_lab.choices import bins_input, drift_words, folder_input, label_of, placeholder_input, tokenizers

EXAMPLES = {
    "Junk and cut": "[C]<6.9467,-1.369,0.8415amen>=[O]<-1.2034,-0.5100,0.8012>",
    "Junk of a report": "[C]<6.9467,-1.369,0.8415amen>[C]<3.601,0.363,0.3325 （C>[C]<3.175,-0.187,0.4142}2>",
    "Placeholder block": "<0.0000,0.0000,0.0000>",
    "Aspirin": "CC(=O)Oc1ccccc1C(=O)O",
    "Glycine zwitterion": "C(C(=O)[O-])[NH3+]",
}
TEMPLATE_COLUMNS = {
    "name": Column("tokenizer"),
    "tokens": Column("tokens", help="Of the template"),
    "free": Column("FREE", help="Positions that the model fills"),
    "copy": Column("COPY", help="Positions that the LP forces"),
    "forced": Column("forced", "%", "COPY of all"),
}
InputKind = Literal["smiles", "enriched", "coordinate", "text"] | OtherForm

MOST_CHARACTERS = 20_000
_COORDINATE = re.compile(r"<?\s*-?\d+(?:\.\d*)?\s*,[-\d.,\s]*>?", re.ASCII)
_ATOM_AND_BLOCK = re.compile(r"\]<(?!-\[)")
JUDGE_LIMIT_S = 20.0
MOST_FAILED = 5
JUNK_NOTE = "junk: not part of the three numbers"
BEYOND_NOTE = "beyond the placeholder's positions: a position LP would cut it off"
KIND_WORDS: dict[InputKind, str] = {
    "smiles": "Read as a SMILES: its template, and a reference conformer's drift against it",
    "enriched": "Read as enriched text",
    "coordinate": "Read as a coordinate",
    "text": "Read as plain text",
    **{form: f"Read as {words}. Its blocks are not judged" for form, words in OTHER_WORDS.items()},
}


def show() -> None:
    text = _inputs()
    chosen, placeholder = tokenizers(), st.session_state.get("placeholder") or ""
    if not text.strip():
        st.info("Paste a coordinate, an enriched text or a SMILES, or choose an example.", icon=":material/edit:")
        return
    if len(text) > MOST_CHARACTERS:
        raise DriftscopeError(f"the text has {len(text):,} characters, the limit is {MOST_CHARACTERS:,}", "Shorten it")
    kind = kind_of_input(text)
    molecule = _molecule(text) if kind == "smiles" else None
    bins = bins_input(is_bare=kind == "bins") if kind in ("bins", "binned") else None
    known = KIND_WORDS[kind if kind != "smiles" or molecule else "text"]
    st.caption(escaped(known if bins is None else f"Read as text of {bins.words}"))
    if molecule is not None:
        _show_molecule(molecule, chosen, placeholder)
    else:
        _show_text(text, chosen, placeholder if bins is None else usual_placeholder(bins), bins)


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


def kind_of_input(text: str) -> InputKind:
    """What somebody has pasted, by its shape: no tokenizer and no molecule is needed to say so."""
    bare = text.strip()
    if (form := other_form(bare)) is not None:
        return form
    if _ATOM_AND_BLOCK.search(bare):
        return "enriched"
    if _COORDINATE.fullmatch(bare) or (bare.startswith("<") and find_blocks(bare)):
        return "coordinate"
    return "smiles" if bare and not any(char.isspace() for char in bare) and bare.isascii() else "text"


def _molecule(text: str) -> Molecule | None:
    """The molecule of a SMILES; None, with a warning on the page, where the text is no SMILES."""
    try:
        return parse_smiles(text)
    except SmilesError as error:
        where = "" if error.position is None else f" at position {error.position}"
        st.warning(f"Not a valid SMILES{where}: {escaped(error.reason)}.", icon=":material/info:")
    except DriftscopeError as error:
        st.warning(error_markdown(error), icon=":material/info:")
    return None


# --- a molecule ---------------------------------------------------------------------------------------------------


def _show_molecule(molecule: Molecule, chosen: list[TextTokenizer], placeholder: str) -> None:
    picture, numbers = st.columns([2, 3], gap="large")
    with picture:
        alt = f"2D drawing of {molecule.smiles}"
        st.image(draw_svg(molecule, dark=palette() is DARK), alt=alt)
        st.code(molecule.smiles, language=None, wrap_lines=True)
    templates = [build_template(skeleton_of(molecule), tokenizer, placeholder) for tokenizer in chosen]
    with numbers:
        counts = [
            {
                "name": label_of(tokenizer),
                "tokens": template.tokens,
                "free": template.free,
                "copy": template.copy,
                "forced": template.copy / template.tokens,
            }
            for tokenizer, template in zip(chosen, templates, strict=True)
        ]
        show_table("template", rows_table(counts), TEMPLATE_COLUMNS)
    of_templates = zip(chosen, templates, strict=True)
    _show_tokens([(by, _tokens(read_tokens(template, by), set()), "") for by, template in of_templates], "")
    try:
        with st.spinner("Embedding a reference conformer …"):
            text = reference_text(molecule.smiles, FIXED4)
    except EmbedError as error:
        st.warning(error_markdown(error), icon=":material/info:")
        return
    st.header("A reference conformer against this template", anchor=False)
    st.caption("ETKDGv3 with seed 0, in its principal-axis frame, four decimals. Measured here.")
    conformer, written = st.columns([2, 3], gap="large")
    with conformer:
        view3d(decode(text).mol, key="lab_conformer", label="3D view of the conformer", zoom=APART)
    with written:
        st.code(text, language=None, wrap_lines=True, height=308)
    annotated = read_text(text, chosen[0])
    needs = {label_of(tokenizer): block_needs(annotated, tokenizer, placeholder) for tokenizer in chosen}
    _blocks_table(annotated, needs)


# --- any other text -----------------------------------------------------------------------------------------------


def _show_text(text: str, chosen: list[TextTokenizer], placeholder: str, bins: BinFormat | None) -> None:
    form = READ_FORMAT if bins is None else bins
    needs_by_tokenizer = {}
    strips = []
    for tokenizer in chosen:
        annotated = read_text(text, tokenizer, form)
        tokens = read_tokens(annotated, tokenizer)
        needs = block_needs(annotated, tokenizer, placeholder, form)
        needs_by_tokenizer[label_of(tokenizer)] = needs
        strips.append((tokenizer, _tokens(tokens, beyond_template(tokens, needs)), _caption(tokens, needs)))
    is_other = bins is None and kind_of_input(text) in OTHER_WORDS
    is_judged = bool(annotated.blocks) and not is_other
    verdict_area = st.container()
    if is_judged:
        st.markdown(escaped(template_words(needs_by_tokenizer, placeholder)))
    _show_tokens(strips, text)
    if not annotated.blocks and not is_other:
        verdict_area.info("No coordinate block found: nothing of this text could be judged.", icon=":material/help:")
    if is_judged:
        _junk_metrics(annotated)
        _blocks_table(annotated, needs_by_tokenizer)
        if bins is not None or kind_of_input(text) == "enriched":
            with verdict_area:
                _verdict(text, annotated, form)


def _caption(tokens: list[ReadToken], needs: list[Block]) -> str:
    if not needs:
        return "no coordinate block"
    drifts = ", ".join(drift_words(need.drift) for need in needs[:6]) + (" …" if len(needs) > 6 else "")
    junk = " with junk" if any(token.is_junk for token in tokens) else ""
    free = sum(token.role == "FREE" for token in tokens)
    return f"{free:,} FREE{junk} in {counted(len(needs), 'block')} · drift {drifts}"


def _show_tokens(strips: list[tuple[TextTokenizer, tuple[Token, ...], str]], text: str) -> None:
    """Without a text they are those of templates."""
    for tokenizer, tokens, caption in strips:
        label = label_of(tokenizer) if text else f"Template under {label_of(tokenizer)}"
        atom_view([ViewRow(tokens)], key=f"tokens_{tokenizer.name}", label=label, caption=caption, max_height=320)


def template_words(needs: dict[str, list[Block]], placeholder: str) -> str:
    """What a template of this placeholder would do to the text's blocks: no LP wrote it."""
    parts = []
    for name, of_blocks in needs.items():
        drifts = [need.drift for need in of_blocks if need.drift is not None]
        cut, junk_prone = (sum(drift < 0 for drift in drifts), sum(drift > 0 for drift in drifts))
        blocks = f"of {counted(len(of_blocks), 'block')}"
        parts.append(f"{name} {cut} {blocks} cut, {junk_prone} junk-prone")
    return (
        f"Hypothetical, in a template of {placeholder}: {'; '.join(parts)}. A line marks tokens for which it has no "
        "position; the text has them all the same. In the Drift inspector, cut means that an LP did close the number."
    )


def _verdict(text: str, annotated: ReadText, form: NumberFormat) -> None:
    """Whether the text is sound, and the molecule right, too."""
    try:
        row = _judged(text, hash(form), form)
    except DriftscopeError as error:
        st.info(error_markdown(error), icon=":material/info:")
        return
    with st.container(horizontal=True, gap="small", key="verdict"):
        text_badge(row)
        molecule_badges(row)
    blocks = [
        {"kinds": reading.kinds, "junk_text": reading.junk_text, "conformer": conformer}
        for reading, conformer in zip(annotated.readings, annotated.conformer, strict=True)
    ]
    st.markdown(f"As written: {escaped(verdict(row, blocks))}")
    failed_checks(row["failed"], MOST_FAILED)


@st.cache_data(max_entries=200, show_spinner="Judging the molecule …")
def _judged(text: str, form_hash: int, _form: NumberFormat) -> dict[str, Any]:
    return judge_text(text, form=_form, limit_s=JUDGE_LIMIT_S)


def _tokens(tokens: list[ReadToken], beyond: set[int]) -> tuple[Token, ...]:
    return tuple(
        Token(
            index,
            visible(item.piece),
            id=item.id,
            marks="j" if item.is_junk else "c" if index in beyond else "f" if item.role != "FREE" else "",
            note=JUNK_NOTE if item.is_junk else BEYOND_NOTE if index in beyond else item.role,
        )
        for index, item in enumerate(tokens)
    )


def beyond_template(tokens: list[ReadToken], needs: list[Block]) -> set[int]:
    """Indices of the tokens for which the template has no position left: what a position LP would cut off."""
    seen: Counter[int] = Counter()
    beyond = set()
    for index, item in enumerate(tokens):
        if item.block is not None and item.role == "FREE" and not item.is_junk:
            seen[item.block] += 1
            if seen[item.block] > needs[item.block].template_free:
                beyond.add(index)
    return beyond


def _junk_metrics(annotated: ReadText) -> None:
    count = count_junk(annotated.readings)
    row = st.container(horizontal=True, gap="medium")
    for label, number, about in (
        ("Blocks", count.blocks, None),
        ("No clean triple", count.not_triples, "Every block that is not just three numbers"),
        ("With a letter", count.letters, "The reports' first count of junk"),
        ("Anything non-numeric", count.nonnumeric, "The reports' second count: all but digits . , -"),
    ):
        row.metric(label, number, help=about, width="content")


def _blocks_table(annotated: ReadText, needs: dict[str, list[Block]]) -> None:
    rows = []
    for index, (block, reading) in enumerate(zip(annotated.blocks, annotated.readings, strict=True)):
        row: dict[str, object] = {
            "block": index,
            "atom": block.descriptor,
            "text": block.content,
            "kinds": ", ".join(kind.replace("_", " ") for kind in reading.kinds),
            "junk": reading.junk_text or "",
        }
        for name, of_blocks in needs.items():
            need = of_blocks[index]
            tokens = "" if need.needed is None else f" · {need.needed} of {need.template_free}"
            row[f"{name}: drift"] = drift_words(need.drift) + tokens
        rows.append(row)
    show_table("blocks", rows_table(rows), {})
    st.caption(
        "Drift is the placeholder's FREE positions minus the tokens that the three numbers need: *+1 junk-prone · 19 "
        "of 20* leaves one position over. Negative drift is cut: a position LP with this placeholder would cut off the "
        "number’s last digits."
    )
