"""The lanes side by side, while they are written and after: the shown sample in each, figures, where they diverge."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import streamlit as st

from engine.chem.verdict import LOADED
from engine.figures.words import UNKNOWN, angstrom, fixed, percent, speed, whole
from engine.inspection.faults import faults, verdict
from engine.inspection.runs import run_facts
from engine.inspection.sample import Inspected
from engine.jobs.lane_figures import first_divergence, lane_figures, thrown_texts
from engine.jobs.service import service
from engine.models.loading import sized
from engine.records import RULE_HELP
from engine.store.entries import Entry
from pages._kit.branching import chosen_branch
from pages._kit.components.atom_view import visible
from pages._kit.errors import escaped
from pages._kit.handover import report_button
from pages._kit.inspected import inspected, inspected_in, open_store
from pages._kit.sections import fold, is_unfolded
from pages._kit.table_files import table_height
from pages._kit.verdict_badges import failed_checks, molecule_badges, still_wrong, text_badge, thrown_tries
from pages._kit.words import glossed, help_with_words, unbroken
from pages._live import session
from pages._live.board import drawing, mark_words
from pages._live.conformer import choose_reference, conformer, conformer_words
from pages._live.files import all_files, lane_files
from pages._live.lanes import atoms, counters, heading, level, machine_words, progress, written
from pages._live.session import Running

MOST_FAILED = 3
ALL_FIGURES = "live_all_figures"


def _with(unit: str, decimals: int) -> Callable[[float | None], str]:
    """As the lanes' own badges have it."""
    return lambda value: UNKNOWN if value is None else f"{fixed(value, decimals)} {unit}"


FIGURES: dict[str, tuple[str, Callable[[Any], str], str]] = {
    "seconds": ("Time", _with("s", 2), "Decoding time, from prompt to last token"),
    "time_ratio": ("Speed", speed, "By decoding time, against the first lane"),
    "tokens": ("Tokens", whole, "Of all samples, with the token that ends each"),
    "tokens_a_second": ("Tokens/s", whole, ""),
    "forced_share": ("Forced", percent, "Tokens without a choice"),
    "forward_passes": ("Passes", whole, "Forward passes; forced tokens may need none"),
    "redrawn_blocks": ("Redrawn", whole, "How often the guard found a block wrong"),
    "dead_ends": ("Dead ends", whole, "Under shaped: how often no token left a right place, and the text went back"),
    "struck_tokens": ("Struck", whole, "Under shaped: likely tokens that leave no right place"),
    "thrown_tokens": ("Thrown tokens", whole, "Cost of blocks redrawn or gone back over; not among the tokens"),
    "samples": ("Samples", whole, ""),
    "passes": ("Passed", whole, RULE_HELP["passed"]),
    "decodes": ("Decodes", whole, RULE_HELP["decodes"]),
    "clean": ("Clean", whole, RULE_HELP["clean"]),
    "usable": ("Usable", whole, "Clean, stereo right, geometry right"),
    "stereo_right": ("Stereo right", whole, "All that the SMILES specifies, in space; – where it specifies nothing"),
    "geometry_right": ("Geometry right", whole, "No check of PoseBusters failed"),
    "strain_kcal": ("Strain", _with("kcal/mol", 1), "Above the relaxed conformer; mean where geometry is right"),
    "bad_blocks": ("Damaged blocks", whole, "Neither exact nor unverified"),
    "cut_blocks": ("Cut blocks", whole, ""),
    "rmsd_ang": ("RMSD", angstrom, "To the nearest reference conformer (ETKDGv3); mean over the samples below"),
    "rmsd_samples": ("RMSD samples", whole, "Samples that the strict reader takes"),
}


@st.fragment
def show_results(shown: int) -> None:
    """A click in one view is a new run of this part alone."""
    lanes = session.lanes()
    store = open_store()
    run_ids = {lane.run_id for lane in lanes}
    entries = {entry.id: entry for entry in store.listing().entries if entry.id in run_ids}
    seen = {
        lane.number: inspected(store, run_facts(store, lane.run_id), shown)
        for lane in lanes
        if lane.run_id is not None and lane.run_id in entries
    }
    left, right = st.columns([2, 3], gap="medium")
    with left:
        drawing(shown)
    with right:
        if entries:
            with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
                choose_reference()
                all_files(lanes, entries)
                report_button([lane.run_id for lane in lanes if lane.run_id in entries], key="report", first=shown)
        if words := mark_words(shown):
            st.caption(words)
    level(
        lanes,
        lambda lane: _verdict(lane, seen.get(lane.number)),
        lambda lane: _shape(lane, seen.get(lane.number)),
        lambda lane: atoms(lane, shown, seen.get(lane.number)),
        lambda lane: _outcome(lane, entries, seen.get(lane.number), shown),
    )
    if any(lane.run_id for lane in lanes):
        _divergences(lanes, shown)
        _table(lanes, entries)


WHY = (
    "**Why is exact faster than none?** Without an LP most of a pass of a small model goes to the output head and the "
    "sampler, over all tokens of the vocabulary. The exact LP leaves a few, and forces others without a pass. Layers "
    "take the same time under both, so the gain shrinks with model size. Measured on one CPU core, batch 1 and 8: "
    "**6.2×** and **4.9×** at 3 M weights in the layers, **1.7×** and **1.4×** at Qwen3-0.6B's 440 M weights "
    "(`docs/benchmarks.md`). This model: {}."
)


# --- one lane -----------------------------------------------------------------------------------------------------


def _verdict(lane: Running, seen: Inspected | None) -> None:
    heading(lane)
    if seen is not None:
        show_verdict(seen)
    elif lane.run_id is not None:
        st.caption("This run was removed. Generate it again.")


def _shape(lane: Running, seen: Inspected | None) -> None:
    if seen is not None:
        branch = chosen_branch(open_store(), seen)
        conformer(f"{lane.number}", seen, None if branch is None else branch.conformer)


def _outcome(lane: Running, entries: Mapping[str, Entry], seen: Inspected | None, shown: int) -> None:
    """What is wrong, the figures, the tries, the files."""
    if seen is not None:
        show_failures(seen)
    text = lane.watch.texts.get(shown)
    if text is not None and text.answer is not None and text.answer.guarding is not None:
        still_wrong([(wrong.check, wrong.atoms) for wrong in text.answer.guarding.unmended])
    if seen is not None:
        conformer_words(f"{lane.number}", seen)
    counters(lane, shown)
    if text is not None:
        thrown_tries(
            thrown_texts(lane.watch, shown), lane.watch.molecule_of(shown).descriptors, key=f"tries_{lane.number}"
        )
    if seen is not None:
        lane_files(lane, entries[seen.run.run_id], shown)
    for note in lane.watch.notes:
        st.caption(escaped(note))


def show_verdict(seen: Inspected) -> None:
    """Text, stereo, geometry, RMSD and strain, each with its mark."""
    with st.container(horizontal=True, gap="xxsmall"):
        text_badge(seen.sample)
        molecule_badges(seen.sample)


def show_failures(seen: Inspected) -> None:
    """What is wrong in words. Why a text has no conformer is where the conformer would be."""
    sample = seen.sample
    if not sample["clean"] or any(map(faults, seen.blocks)):  # else the badge says all of it
        st.markdown(glossed(escaped(verdict(sample, seen.blocks))), unsafe_allow_html=True)
    failed_checks([failed for failed in sample["failed"] or () if failed["check"] != LOADED], MOST_FAILED)


# --- all lanes ----------------------------------------------------------------------------------------------------


def _table(lanes: list[Running], entries: Mapping[str, Entry]) -> None:
    """The figures that differ between lanes, all of them in a fold; of a single lane all."""
    st.header("Lanes side by side", anchor=False)
    rows, titles = _figure_rows(lanes, entries), [lane.title for lane in lanes]
    if len(lanes) == 1:
        _figures(rows, titles, "Figures of the lanes")
    else:
        _figures([row for row in rows if len({row[title] for title in titles}) > 1], titles, "Figures of the lanes")
        is_open = is_unfolded(ALL_FIGURES, False)
        with fold("All figures", ALL_FIGURES, is_open, ":material/table_rows:"):
            if is_open:
                _figures(rows, titles, "All figures")
    lane = next(lane for lane in lanes if lane.run_id)
    st.caption(
        f"Measured here on {escaped(machine_words(lane.watch.run_row))}, one lane after the other, with "
        f"{escaped(sized(lane.model))}, seed {lane.watch.plan.plan.seed}. "
        "The page slows small models down a little; docs/benchmarks.md has times without it."
    )
    if words := speed_words(lanes):
        st.caption(unbroken(words))


def _figure_rows(lanes: list[Running], entries: Mapping[str, Entry]) -> list[dict[str, str]]:
    stored = [entries.get(lane.run_id or "") for lane in lanes]
    of_runs = [None if entry is None else entry.row for entry in stored]
    figures = lane_figures([(lane.watch, row) for lane, row in zip(lanes, of_runs, strict=True)])
    return [
        {"Figure": label, **{lane.title: form(of[name]) for lane, of in zip(lanes, figures, strict=True)}, "": about}
        for name, (label, form, about) in FIGURES.items()
        if any(of[name] is not None for of in figures)
    ]


def _figures(rows: list[dict[str, str]], titles: Sequence[str], alt: str) -> None:
    text = st.column_config.TextColumn
    columns = {title: text(width=110, alignment="right") for title in titles}
    meanings = help_with_words(", ".join(row["Figure"] for row in rows))  # a cell has no help of its own
    st.dataframe(
        rows,
        hide_index=True,
        height=table_height(len(rows)),
        alt=alt,
        column_config={"Figure": text(width=130, pinned=True, help=meanings), **columns, "": text(width=520)},
    )


def speed_words(lanes: Sequence[Running]) -> str:
    """Markdown; empty unless a lane without an LP and one with the exact LP were written on a CPU by the same loop."""
    done = {lane.lp: lane for lane in lanes if lane.seen.state == "done" and lane.watch.backend == "fast"}
    if not {"none", "exact"} <= done.keys():
        return ""
    lane = done["exact"]
    is_cpu = str(lane.watch.run_row.get("device")).startswith("cpu")
    return WHY.format(escaped(sized(lane.model))) if is_cpu else ""


def _divergences(lanes: list[Running], shown: int) -> None:
    """The first position where each lane's text differs from the first lane's."""
    first = lanes[0]
    scope = " in the shown sample" if first.watch.samples > 1 else ""  # figures below are of all
    for lane in lanes[1:]:
        if lane.run_id is None or first.run_id is None:
            continue
        difference = first_divergence(first.watch, lane.watch, shown)
        title = f"- **{escaped(lane.title)}**{scope}"
        if difference is None:
            st.markdown(f"{title}: same tokens as lane {first.number}.")
            continue
        atom, descriptors = difference.atom, lane.watch.molecule_of(shown).descriptors
        where = "" if atom is None else f", in the block of atom {atom} {escaped(descriptors[atom])}"
        st.markdown(
            f"{title} first differs from lane {first.number} at token {difference.pos}{where}: "
            f"{_quoted(difference.piece)} instead of {_quoted(difference.first_piece)}."
        )


def _quoted(piece: str) -> str:
    return f"“{escaped(visible(piece))}”" if piece else "the end"


# --- while they are written ---------------------------------------------------------------------------------------

TICK_S = 0.25
"""Between two redraws of the one reader. With several each waits so many times as long: all tabs are drawn by one
process, and eleven at this pace leave the model a tenth of its time."""


def tick_s() -> float:
    return TICK_S * max(1, service().owners())


def show_running(shown: int) -> None:
    """All lanes, redrawn until the last ends. The rows are of the sample ``shown``."""
    st.fragment(_draw, run_every=tick_s())(shown, tick_s())


def _draw(shown: int, tick: float) -> None:
    is_running = session.poll()
    lanes = session.lanes()
    store = open_store()
    left, right = st.columns([2, 3], gap="medium", vertical_alignment="center")
    with left:
        drawing(shown)
    with right:
        progress(lanes)
    level(
        lanes,
        lambda lane: _verdict(lane, inspected_in(store, lane.run_id, shown)),  # while other lanes are still written
        lambda lane: counters(lane, shown),
        lambda lane: written(lane, shown),
    )
    if not is_running or not tick / 2 <= tick_s() <= tick * 2:
        st.rerun()  # the whole page, with results or at another pace
