"""The Evidence page's section on the lost third: why coverage fell under an LP, as `lost-third` measured it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import streamlit as st

from engine.evidence.lost_third import EXACT, LANES, NONE, V43, lane_of, load_usable
from engine.figures.words import listed, percent
from engine.store.store import Store
from pages._evidence import lost_third_charts as charts
from pages._evidence.claims import Judged
from pages._shared.charts.card import draw
from pages._shared.errors import escape_markdown
from pages._shared.rows import MORE_COLUMNS, fitting
from pages._shared.sections import in_detail
from pages._shared.table_files import file_button
from pages._shared.theme import palette
from pages._shared.words import unbroken

QUESTION = "Why did coverage fall by a third under an LP?"
WITHOUT_LP, UNDER_LP = "005-cov-r-2", "005-cov-r-lp"
"""The claims that state the group's COV-R, in per cent."""
ABOUT = "COV-R without filters, against ETKDG conformers. For your own checkpoint: `make lost-third MODEL=alias`."
ABOUT_HELP = (
    "The same molecules were written under each LP, read as the group reads them, and matched within 0.75 Å. A "
    "molecule without an answer counts as 0. demo-qwen drops trailing zeros and learnt random atom orders, "
    "demo-qwen-fixed writes four decimals always, demo-qwen-canonical learnt canonical order alone."
)
NOTHING = "No result of `lost-third` is here yet. `make lost-third MODEL=demo-qwen` writes one in about two hours."
MODEL = "lost_third_model"
MOST_DAMAGED = 5
CAUSES = {
    "failed": "because answers no longer parse",
    "cut": "because the placeholder cuts numbers",
    "forcing": "because the SMILES is forced",
}
STEPS = {"forcing the SMILES": "forcing", "failed parses": "failed", "placeholder and cut": "cut", "in all": "all"}


def show(store: Store, rows: Sequence[Judged]) -> None:
    usable, damaged = load_usable(store.places)
    documents = sorted(usable, key=lambda document: not document["fall"])
    if damaged:
        lines = [escape_markdown(str(error)) for error in damaged[:MOST_DAMAGED]]
        st.warning("  \n".join(lines), icon=":material/warning:")
    if not documents:
        st.info(NOTHING, icon=":material/science:")
        return
    st.subheader(QUESTION, anchor=False)
    st.markdown(unbroken(escape_markdown(third(rows))))
    st.markdown(f"**{unbroken(escape_markdown(answer(documents)))}**")
    in_detail().markdown("\n".join(f"- {unbroken(escape_markdown(sentence))}" for sentence in details(documents)))
    st.caption(ABOUT, help=ABOUT_HELP)
    fallen = [document for document in documents if document["fall"]]
    if fallen:
        draw(charts.fall(fallen, palette()), key="lost-third-fall")
    names = [document["model"] for document in documents]
    chosen = st.segmented_control("Model", names, default=names[0], key=MODEL, required=True)
    document = documents[names.index(chosen or names[0])]
    draw(charts.lanes(document, palette()), key="lost-third-lanes")
    draw(charts.curves(document, palette()), key="lost-third-curves")
    reordered = [document for document in documents if document["reordered"]]
    if reordered:
        draw(charts.orders(reordered, palette()), key="lost-third-orders")
    _table(document)


def third(rows: Sequence[Judged]) -> str:
    """What the group found, with their own figures."""
    figures = {row.id: row.claim.value for row in rows}
    before, under = figures.get(WITHOUT_LP), figures.get(UNDER_LP)
    fell = "fell by a third"
    if before is not None and under is not None:
        fell = f"fell from {before:.1f} to {under:.1f} %, by {before - under:.1f} points,"
    return (
        f"The group's COV-R, the share of reference conformers that some answer matches within 0.75 Å, {fell} under "
        "v4.3, their LP that fits every number into the tokens of 0.000 (report 005). Small models stand in for theirs."
    )


def answer(documents: Sequence[Mapping[str, Any]]) -> str:
    """What costs coverage, in three sentences; empty where nothing tells it."""
    falls = [(document["model"], steps) for document in documents if (steps := _steps(document))]
    falls.sort(key=lambda pair: pair[1]["all"]["value"])
    orders = [(document["model"], change) for document in documents if (change := _cov_r(document["reordered"]))]
    sentences = []
    if falls:
        losses = [f"{model} {_loss(steps['all'])}{_main_cause(steps)}" for model, steps in falls]
        changes = listed([f"{points(steps['forcing'])} ({model})" for model, steps in falls])
        sentences = [
            f"Under v4.3, {'; '.join(losses)}.",
            f"Forcing the SMILES alone, in canonical atom order, changes COV-R by {changes} points.",
        ]
    if orders:
        model, change = min(orders, key=lambda pair: pair[1]["value"])
        sentences.append(
            f"Forcing a SMILES in another atom order changes COV-R by a further {points(change)} points ({model})."
        )
    return " ".join(sentences)


def details(documents: Sequence[Mapping[str, Any]]) -> list[str]:
    """What the answer rests on, a sentence each."""
    tellers = (_fall_words, _back_words, _order_words, _descriptor_words)
    return [sentence for tell in tellers for sentence in tell(documents)]


def _cov_r(changes: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    return (changes or {}).get("cov_r")


def _steps(document: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Changes of COV-R by step; empty where one is missing."""
    steps = {STEPS[step["step"]]: step["cov_r"] for step in document["fall"] or () if step["cov_r"]}
    return steps if set(steps) == set(STEPS.values()) else {}


def _main_cause(steps: Mapping[str, Mapping[str, Any]]) -> str:
    """``, 43.8 of them because answers no longer parse``; empty where nothing is lost."""
    if steps["all"]["value"] >= 0:
        return ""
    cause = min(CAUSES, key=lambda name: steps[name]["value"])
    size = _size(steps[cause])
    return f", {'all' if size == _size(steps['all']) else f'{size} of them'} {CAUSES[cause]}"


def _fall_words(documents: Sequence[Mapping[str, Any]]) -> list[str]:
    sentences = []
    for document in documents:
        if not (steps := _steps(document)):
            continue
        change = f"from {_cov(document, NONE)} without an LP to {_cov(document, V43)} under v4.3"
        parts = ", ".join(f"{points(steps[name])} {cause}" for name, cause in CAUSES.items())
        sentences.append(
            f"{document['model']}: COV-R goes {change}, {points(steps['all'])} points{_interval(steps['all'])}: "
            f"{parts}{_rounding(steps)}."
        )
    return sentences


def _rounding(steps: Mapping[str, Mapping[str, Any]]) -> str:
    """Why the parts do not add up, where they do not."""
    tenths = {name: round(10 * float(points(change).replace("−", "-"))) for name, change in steps.items()}
    return "" if sum(tenths[name] for name in CAUSES) == tenths["all"] else " (each rounded)"


def _back_words(documents: Sequence[Mapping[str, Any]]) -> list[str]:
    sentences = []
    for document in documents:
        beside = document.get("beside_none") or {}
        parts = [
            f"{LANES[key]} {points(change)}{_interval(change)}"
            for key in (EXACT, "v4.3-fitted", "truncating", "guarded")
            if (change := _cov_r(beside.get(key)))
        ]
        if parts:
            sentences.append(f"{document['model']}, change of COV-R against no LP, in points: {'; '.join(parts)}.")
    return sentences


def _order_words(documents: Sequence[Mapping[str, Any]]) -> list[str]:
    parts = [
        f"{document['model']} {points(change)}{_interval(change)}"
        for document in documents
        if (change := _cov_r(document["reordered"]))
    ]
    return (
        [f"The exact LP, SMILES in another atom order against canonical order, in points: {'; '.join(parts)}."]
        if parts
        else []
    )


def _descriptor_words(documents: Sequence[Mapping[str, Any]]) -> list[str]:
    """A cause that nobody named, as far as it can be shown here."""
    parts = [
        f"{document['model']} {points(change)}{_interval(change)}"
        for document in documents
        if (change := _cov_r(document.get("descriptors")))
    ]
    measured = f"it changes COV-R by {'; '.join(parts)} points" if parts else "it is not measured here"
    return [
        "A cause that nobody named: the group's LPs force [OH] and [NH2] for a heteroatom with hydrogens, and its Qwen "
        f"model was trained on [O] and [N]. Under v4.3, against plain descriptors, {measured}; what it does to the "
        "group's own model cannot be shown here."
    ]


def points(change: Mapping[str, Any]) -> str:
    return f"{100 * change['value']:+.1f}".replace("-", "−").replace("+0.0", "0.0").replace("−0.0", "0.0")


def _size(change: Mapping[str, Any]) -> str:
    return points(change).lstrip("+−")


def _loss(change: Mapping[str, Any]) -> str:
    """``loses 63.4 points``"""
    return f"{'gains' if change['value'] > 0 else 'loses'} {_size(change)} points"


def _interval(change: Mapping[str, Any]) -> str:
    if change.get("low") is None or change.get("high") is None:
        return ""
    ends = (f"{100 * change[end]:.1f}".replace("-", "−") for end in ("low", "high"))
    return f" ({' to '.join(ends)})"


def _cov(document: Mapping[str, Any], key: str) -> str:
    """Of the molecules that all lanes have."""
    few = lane_of(document, NONE)
    lane = lane_of(document, key, None if few is None else few["molecules"])
    return "–" if lane is None or lane["zero"]["cov_r"] is None else percent(lane["zero"]["cov_r"])


def _per_cent(share: float | None) -> float | None:
    """For a column of numbers with the digits of the sentences."""
    return None if share is None else 100 * share


def _table(document: Mapping[str, Any]) -> None:
    config = st.column_config
    titles = {"cov_r": "COV-R", "cov_p": "COV-P", "mat_r_ang": "MAT-R", "mat_p_ang": "MAT-P"}
    share, distance = (
        partial(config.NumberColumn, width=width, format=form) for form, width in (("%.1f %%", 66), ("%.2f Å", 74))
    )
    columns = {
        "lane": config.TextColumn(width=228, pinned=True),
        "size": config.TextColumn("answers", width=64, help="Molecules, times answers of each"),
        "parsed": share(),
        "COV-R": share(),
        "COV-P": share(),
        "MAT-R": distance(),
        "MAT-P": distance(),
        "missing": config.NumberColumn(width=62, help="Molecules without an answer that parses; they count as 0"),
        "skip": share("COV-R, without missing", help="Leaves out molecules without an answer, as the group does"),
        "does not parse": config.TextColumn(width=200),
    }
    rows = [
        {
            "lane": lane["words"],
            "size": charts.size_of(lane),
            "parsed": _per_cent(lane["parsed"] / max(1, lane["samples"])),
            **{title: _per_cent(lane["zero"][name]) for name, title in titles.items() if name.startswith("cov")},
            **{title: lane["zero"][name] for name, title in titles.items() if name.startswith("mat")},
            "missing": lane["zero"]["missing"],
            "skip": _per_cent(lane["skip"]["cov_r"]),
            "does not parse": ", ".join(f"{kind} {count:,}" for kind, count in lane["not_decoded"].items()),
        }
        for lane in document["lanes"]
    ]
    st.dataframe(
        rows,
        hide_index=True,
        column_config=columns,
        column_order=fitting(columns, columns),
        alt=f"Coverage of {document['model']} by lane",
    )
    st.caption(MORE_COLUMNS)
    file_button("Result as JSON", lambda: json.dumps(document, indent=1) + "\n", f"lost-third-{document['model']}.json")
