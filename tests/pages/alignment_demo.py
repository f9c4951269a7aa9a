"""The alignment strip on a page of its own: what the browser tests and the pictures look at. Not a page of the app."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import streamlit as st

from engine.chem.enriched import skeleton_of
from engine.chem.smiles import parse_smiles
from engine.lp_records import DEFAULT_PLACEHOLDER
from engine.store.store import DEMO, Store
from engine.text.align import AlignedToken, align
from engine.text.blocks import CloseMass
from engine.text.template import build_template
from engine.text.tokenizers import TextTokenizer, load_tokenizer
from pages._shared.components.alignment_strip import alignment_strip
from pages._shared.frame import page

HOSTILE = (
    "<img src=x onerror=\"alert('piece')\">",
    "</span><script>alert('script')</script>",
    "\u202ebackwards",
    "zero\u200bwidth",
    "\ud800",
    "מולקולה",
    "\u0301\u0302\u0303",
    "分子の形",
    "a\nb\tc\r\x00",
    "x" * 10_000,
    "",
)
STORED = {  # choice -> the model's run, its LP, sample of the demo store
    "group-v2.1": ("llama", "group-v2.1", 6),
    "blocklist, Qwen": ("qwen", "group-v2.1", 13),
    "exact": ("qwen", "exact", 4),
    "none": ("llama", "none", 4),
}
LONG = 3000


@dataclass(frozen=True, slots=True)
class Case:
    columns: tuple[AlignedToken, ...]
    steps: dict[int, dict[str, Any]]
    elements: tuple[str, ...]


@st.cache_resource
def stored(choice: str, read_as: str | None = None) -> Case:
    """A sample of the demo store, aligned by the engine: as its own LP's work, or as another's."""
    model, lp, sample = STORED[choice]
    store = Store.open(DEMO)
    (run,) = store.rows("SELECT * FROM runs WHERE lp = ? AND run_id LIKE ?", [lp, f"%demo-{model}-%"])
    asked = [run["run_id"], sample]
    (row,) = store.rows("SELECT * FROM samples WHERE run_id = ? AND sample_id = ?", asked)
    tokenizer = load_tokenizer(run["tokenizer"])
    molecule = parse_smiles(row["smiles"])
    placeholder = run["placeholder"] or DEFAULT_PLACEHOLDER
    template = build_template(skeleton_of(molecule), tokenizer, placeholder, tags=True)
    inside = slice(len(row["token_ids"]) - (row["token_ids"][-1] == tokenizer.end_id))
    blocks = store.rows("SELECT * FROM blocks WHERE run_id = ? AND sample_id = ?", asked)
    masses = {block["block"]: CloseMass(0.0, 1.0) for block in blocks if "cut" in block["kinds"]}
    ids, forced = row["token_ids"][inside], row["forced"][inside]
    columns = align(template, ids, tokenizer, lp=read_as or lp, forced=forced, masses=masses).rows
    steps = store.rows("SELECT * FROM steps WHERE run_id = ? AND sample_id = ? ORDER BY pos", asked)
    return Case(columns, {step["pos"]: facts(step, tokenizer) for step in steps}, molecule.elements)


def facts(step: dict[str, Any], tokenizer: TextTokenizer) -> dict[str, Any]:
    return step | {"top_k": [top | {"piece": tokenizer.piece(top["token_id"])} for top in step["top_k"]]}


def hostile() -> Case:
    """Every piece that could hurt, as generated and as template tokens, among the likeliest and in a rule."""
    row = next(column for column in stored("group-v2.1").columns if column.mark == "junk")
    columns = tuple(
        replace(row, pos=i, token_id=i, piece=piece, template_pos=i, template_piece=HOSTILE[-1 - i], block=i // 4)
        for i, piece in enumerate(HOSTILE)
    )
    top = [{"token_id": i, "piece": one, "p_raw": 0.09, "allowed": i % 2 == 0} for i, one in enumerate(HOSTILE)]
    known = {"p_raw": 0.1, "p_lp": 0.2, "allowed_mass": 0.5, "rank_raw": 3, "entropy_nat": 1.0, "top_k": top}
    steps = {i: {"rule": piece, **known} for i, piece in enumerate(HOSTILE)}
    return Case(columns, steps, HOSTILE[:3])


def long() -> Case:
    """The same molecule over and over, as one of 3,000 columns."""
    one = stored("group-v2.1")
    columns: list[AlignedToken] = []
    steps: dict[int, dict[str, Any]] = {}
    blocks = len(one.elements)
    for i in range(LONG):
        copy, at = divmod(i, len(one.columns))
        row = one.columns[at]
        shift = blocks * copy
        columns.append(
            replace(
                row,
                pos=i,
                template_pos=i,
                block=row.block + shift if row.block >= 0 else -1,
                text_block=row.text_block + shift if row.text_block >= 0 else -1,
                running_drift=row.running_drift + copy * one.columns[-1].running_drift,
            )
        )
        if at in one.steps:
            steps[i] = one.steps[at]
    return Case(tuple(columns), steps, one.elements * (LONG // len(one.columns) + 1))


def case_of(choice: str) -> Case:
    if choice in STORED:
        return stored(choice)
    if choice == "out of step":  # free text read by position: what a position LP would get wrong
        return stored("none", "group-v2.1")
    if choice == "no diagnostics":
        return replace(stored("group-v2.1"), steps={})
    return {"hostile": hostile, "3,000 columns": long, "empty": lambda: Case((), {}, ())}[choice]()


def remember(index: int | None) -> None:
    st.session_state["picked"] = index
    st.session_state["picks"] = st.session_state.get("picks", 0) + 1


def go_to(name: str, index: int | None) -> None:
    st.session_state[name] = index


def buttons(columns: Sequence[AlignedToken]) -> None:
    """What a linked view does: selecting and outlining from outside of the strip."""
    for column, (label, name, index) in zip(
        st.columns(5),
        [
            ("Select the last", "picked", len(columns) - 1),
            ("Select none", "picked", None),
            ("Outline block 5", "block", 5),
            ("Outline none", "block", None),
            ("Rerun", "", None),
        ],
        strict=True,
    ):
        column.button(label, on_click=go_to if name else None, args=(name, index) if name else None)


def demo() -> None:
    page("Alignment strip", ":material/align_horizontal_left:", "Every look that a column can have.")
    choices = [*STORED, "out of step", "no diagnostics", "hostile", "3,000 columns", "empty"]
    choice = st.radio("Alignment", choices, horizontal=True, on_change=lambda: go_to("picked", None))
    case = case_of(choice)
    alignment_strip(
        case.columns,
        key="alignment",
        label="Generated text over its template",
        steps=case.steps,
        elements=case.elements,
        caption="Caption of the strip.",
        totals=[("Forced", "2 of 9 <b>(22.2 %)</b>")],
        selected=st.session_state.get("picked"),
        block=st.session_state.get("block"),
        on_pick=None if st.session_state.get("frozen") else remember,
    )
    st.text(f"picked: {st.session_state.get('picked')} ({st.session_state.get('picks', 0)} picks)")
    buttons(case.columns)


if __name__ == "__main__":
    demo()
