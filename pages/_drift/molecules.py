"""The Drift inspector's first section: the open molecule, below one line that opens all molecules and the histogram."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import streamlit as st

from engine.chem.verdict import check_words
from engine.errors import DriftscopeError
from engine.figures.words import signed
from engine.inspection.molecules import JUDGED, SHOWS
from engine.inspection.runs import RunFacts
from engine.inspection.sample import Inspected
from engine.lp_records import LpRecord
from engine.questions import ask, choices_of
from engine.questions import drift_molecules as question
from engine.questions.drift_molecules import ORDERS, ROW_LIMITS, WORST, counts, worst_words
from engine.questions.question import Answered
from engine.records import RULE_HELP
from engine.store.store import Store
from pages._drift import files, state
from pages._drift import molecule as drift_molecule
from pages._drift.state import Spot
from pages._kit.card import card
from pages._kit.errors import error_markdown, escaped
from pages._kit.inspected import inspected
from pages._kit.managing.entries import judge_button
from pages._kit.picker import figure_cell, figure_column, share_cell, share_column
from pages._kit.rows import BORDERS_PX, ONE_ROW, ROW_PX, picked_rows, show_rows, show_steps
from pages._kit.sections import fold, is_unfolded, put_unfolded
from pages._kit.shown import put_shown
from pages._kit.small_drawing import small_drawing
from pages._kit.theme import DARK, palette
from pages._kit.words import visible_text

KEY, FOLD = "drift_molecules", "molecules_open"
FIGURES = ("lost_ang", "rmsd_ang", "strain_kcal", "strain_kcal_per_atom", "differ_least_ang", "differ_mean_ang")
OF_SEVERAL = {"conformers", "usable_conformers", "differ_least_ang", "differ_mean_ang"}
"""Columns where an answer has several conformers."""
ROWS_PER_PAGE = 10  # all in sight: a table that scrolls would take the page's wheel
ROW_HEIGHT = 66  # from 65 on, Streamlit lets texts wrap


def show(store: Store, runs: Sequence[RunFacts]) -> None:
    answered = ask(store, "drift_molecules", [run.run_id for run in runs], _options(store))
    table = answered.tables["main"]
    chosen = state.spot([run.run_id for run in runs])
    if chosen is None and table.num_rows:
        chosen = _spot_at(table, 0)
    inspection, error_words = _inspected(store, runs, chosen)
    spot = None if inspection is None else chosen
    put_shown(run=spot and spot.run_id, sample=spot and spot.sample_id, bin=state.named_bar())
    is_open = is_unfolded(FOLD, not table.num_rows)
    with fold(counts(answered.tables), FOLD, is_open, ":material/table_rows:"):
        _filters(any(run.judged for run in runs))
        if is_open:
            _all(store, table, chosen, runs)
    judge_button(store, [store.entry(run.run_id) for run in runs])
    _bar_chip()
    if error_words:
        st.error(error_words, icon=":material/error:")
    if chosen is not None and inspection is not None:
        drift_molecule.show(store, inspection, _lead(answered, chosen), lambda: _steps(answered, chosen))


def _inspected(store: Store, runs: Sequence[RunFacts], chosen: Spot | None) -> tuple[Inspected | None, str]:
    """The chosen sample, or why it cannot be read, as Markdown."""
    if chosen is None:
        return None, ""
    run = next(run for run in runs if run.run_id == chosen.run_id)
    try:
        return inspected(store, run, chosen.sample_id), ""
    except DriftscopeError as error:
        return None, error_markdown(error)


def _all(store: Store, table: pa.Table, chosen: Spot | None, runs: Sequence[RunFacts]) -> None:
    """The table of molecules with the histogram of their blocks, and damage of texts with that of molecules."""
    left, right = st.container(key="stacked-molecules").columns([32, 17], gap="medium")
    with left:
        if table.num_rows:
            _rows(table, chosen, runs)
            with st.container(horizontal=True):
                files.buttons(store, table)
        else:
            st.info("No molecule matches the filters.", icon=":material/filter_alt_off:", title="No match")
            st.button("Clear filters", icon=":material/filter_alt_off:", key="drop_filters", on_click=_clear_filters)
    with right:
        card("drift_histogram", store, [run.run_id for run in runs])
    if any(run.judged for run in runs):
        card("drift_damage", store, [run.run_id for run in runs])


# --- filters ------------------------------------------------------------------------------------------------------


def _filters(is_judged: bool) -> None:
    with st.container(horizontal=True, vertical_alignment="bottom", key="drift-filters"):  # wraps on narrow screens
        st.segmented_control(
            "Show only", [*SHOWS, *(JUDGED if is_judged else ())], key="show", bind="query-params", wrap=True
        )
        st.text_input(
            "SMILES contains", key="contains", placeholder="any", bind="query-params", max_chars=300, width=170
        )
        st.selectbox("Order", list(ORDERS), key="order", bind="query-params", width=190, help=question.__doc__)
        st.selectbox("Rows", list(ROW_LIMITS), key="first", bind="query-params", width=100)


def _bar_chip() -> None:
    bar = state.bar()
    if state.named_bar() is not None:
        of = {"axis": "axis ", "element": "element ", "tokenizer": "", "lp": "LP ", "run": "run "}
        filter_words = "a cut block" if bar is None else f"drift {signed(bar.drift)} · {of[bar.by]}{bar.group}"
        st.button(
            escaped(f"Only molecules with {filter_words}"),
            icon=":material/close:",
            icon_position="right",
            key="bar_chip",
            on_click=state.clear_bar,
            help="Clear this filter",
        )


def _clear_filters() -> None:
    """As on a first visit; runs before the widgets are drawn."""
    st.session_state.update({"show": None, "contains": "", "first": next(iter(ROW_LIMITS))})
    state.clear_bar()


def _wanted(name: str) -> str:
    """What a filter is set to, also before its widget has read the address."""
    return str(st.session_state.get(name, st.query_params.get(name)) or "")


def _options(store: Store) -> dict[str, str]:
    """What of the question's options is chosen; nothing of an address that names what there is not."""
    chosen = {option.name: _wanted(option.name).strip() for option in question.OPTIONS}
    chosen["bin"] = state.named_bar() or ""
    choices = {option.name: choices_of(option, store, ()) for option in question.OPTIONS}
    return {name: value for name, value in chosen.items() if not choices[name] or value in choices[name]}


# --- the table ----------------------------------------------------------------------------------------------------


def _rows(table: pa.Table, chosen: Spot | None, runs: Sequence[RunFacts]) -> None:
    """Draw one page of rows, that of the chosen sample, which is selected in it."""
    chosen_row = _row_of(table, chosen)
    above = st.container()
    pages, page = -(-table.num_rows // ROWS_PER_PAGE), 1
    if pages > 1:
        # Another sample or other rows begin at the page that has the sample.
        ends = [table[name][row].as_py() for name in ("run_id", "sample_id", "tokens") for row in (0, -1)]
        begin = 1 if chosen_row is None else chosen_row // ROWS_PER_PAGE + 1
        page = st.pagination(pages, default=begin, key=f"rows of {hash((table.num_rows, *ends))} from {chosen_row}")
    start = (page - 1) * ROWS_PER_PAGE
    part = table.slice(start, ROWS_PER_PAGE)
    spots = [_spot_at(part, row) for row in range(part.num_rows)]
    key = show_rows(KEY, spots, [chosen])

    def open_selected() -> None:
        selected = picked_rows(key)
        if selected and selected[0] < len(spots):
            state.put_spot(spots[selected[0]])
            put_unfolded(FOLD, False)  # the molecule takes the table's place

    differing = [name for name in ("model", "lp") if len({getattr(run, name) for run in runs}) > 1]
    columns = _columns(table, runs, has_several=bool(differing))
    rows = [
        {name: cell for name, cell in _row(sample, differing).items() if name in columns} for sample in part.to_pylist()
    ]
    above.dataframe(
        rows,
        hide_index=True,
        height=ROW_PX + BORDERS_PX + ROW_HEIGHT * len(rows),
        row_height=ROW_HEIGHT,
        column_config=columns,
        column_order=list(columns),
        key=key,
        on_select=open_selected,
        selection_mode=ONE_ROW,
        placeholder="–",
        alt="Molecules: select a row to open it",
    )


def _row_of(table: pa.Table, chosen: Spot | None) -> int | None:
    """The row of a sample, where it passes the filters."""
    if chosen is None:
        return None
    is_chosen = pc.and_(pc.equal(table["run_id"], chosen.run_id), pc.equal(table["sample_id"], chosen.sample_id))
    row = pc.index(is_chosen, True).as_py()
    return None if row < 0 else int(row)


def _spot_at(table: pa.Table, row: int) -> Spot:
    return Spot(table["run_id"][row].as_py(), table["sample_id"][row].as_py())


def _row(sample: Mapping[str, Any], differing: Sequence[str]) -> dict[str, Any]:
    return {
        **sample,
        "drawing": small_drawing(sample["smiles"], palette() is DARK),
        "run": ", ".join(str(sample[name]) for name in differing),
        "verdict": drift_molecule.rule_words(sample),
        "drifts": [0 if drift is None else drift for drift in sample["drifts"]],
        "checks": checks_words(sample),
        "forced_share": share_cell(sample["forced_share"]),
        **{name: figure_cell(sample[name]) for name in FIGURES},
        "smiles": visible_text(sample["smiles"]),
    }


def checks_words(sample: Mapping[str, Any]) -> str | None:
    """Nothing where the molecule was not judged."""
    checks = sample["checks"]
    if checks is None:
        return None
    is_open = sample["clean"] and not sample["usable"]  # nothing failed, and yet it is not known to be right
    right = "geometry not judged" if not sample["geometry_right"] else "stereo not judged" if is_open else "right"
    return ", ".join(map(check_words, checks.split(", "))) if checks else right


def _columns(table: pa.Table, runs: Sequence[RunFacts], *, has_several: bool) -> dict[str, Any]:
    """The drawing, the run, what the rows are ordered by, then the rest; drift that did nothing comes last."""
    config = st.column_config
    text, number = config.TextColumn, config.NumberColumn
    is_hypothetical = all(run.is_hypothetical for run in runs)
    label = "hypothetical drift" if is_hypothetical else "drift"
    against = "; ".join(dict.fromkeys(run.rmsd_to for run in runs if run.rmsd_to)) or "references that are not named"
    atoms = max(1, int(pc.max(table["blocks"]).as_py() or 0))
    reach = max(2, int(pc.max(table["drift_max"]).as_py() or 0), -int(pc.min(table["drift_min"]).as_py() or 0))
    of_atoms = partial(config.ProgressColumn, format="%d", min_value=0, max_value=atoms)
    drift_help = "Sum over blocks with known drift; hypothetical, and without effect, where no template wrote the text"
    bars_help = "One bar per block: up = positions left over, down = positions missing, none = exact or unknown"
    rule_help = f"passed: {RULE_HELP['passed']}. clean: {RULE_HELP['clean']}."
    wide = {"drift": 136, "checks": 200} if is_hypothetical else {"drift": 50, "checks": 136}
    drift = {
        "drift": number(label, width=wide["drift"], help=drift_help, format="%d"),
        "drifts": config.BarChartColumn(
            "by block" if is_hypothetical else "drift by block", width=96, help=bars_help, y_min=-reach, y_max=reach
        ),
    }
    columns = {
        "drawing": config.ImageColumn("molecule", width=112, pinned=True),
        "run": text("run", width=110, help="What differs between the runs: model, LP"),
        "verdict": text("reports' rule", width=92, help=rule_help),
        "junk_blocks": of_atoms("junk", width=60, help="Blocks with junk", color="violet"),
        "cut_blocks": of_atoms("cut", width=58, help="Blocks closed by force", color="red"),
        **({} if is_hypothetical else drift),
        "checks": text("in 3D", width=wide["checks"], help="Its verdict: right in 3D, or the checks that it fails"),
        "decodes": config.CheckboxColumn("decodes", width=62, help=RULE_HELP["decodes"]),
        "lost_ang": figure_column("off by (Å)", 70, "How far damage puts its atoms off, added up; an estimate of cuts"),
        "redrawn_blocks": number(
            "redrawn", width=70, help="How often the guard found a block wrong and had it drawn again"
        ),
        "dead_ends": number(
            "dead ends", width=70, help="How often shaped found no token that leaves a right place, and went back"
        ),
        "tokens": number("tokens", width=56),
        "rmsd_ang": figure_column("RMSD (Å)", 70, f"Heavy atoms, to the nearest of: {against}"),
        "conformers": number("conformers", width=80, help="Of the answer"),
        "usable_conformers": number("of them usable", width=96, help="Clean, stereo and geometry right, one by one"),
        "differ_least_ang": figure_column("differ by (Å)", 80, "Least RMSD between two conformers of the answer"),
        "differ_mean_ang": figure_column("on average (Å)", 90, "The mean over all pairs of its conformers"),
        "strain_kcal": figure_column("strain (kcal/mol)", 70, "Energy above the relaxed conformer"),
        "strain_kcal_per_atom": figure_column("per heavy atom", 70, "Strain per heavy atom"),
        "forced_share": share_column("forced", 64, "Tokens that the LP forced"),
        "smiles": text("SMILES", width=220),
        "sample_id": number("sample", width=62),
        **drift,
    }
    unknown = _not_shown(table, runs, has_several=has_several)
    by, _ = ORDERS.get(_wanted("order")) or ("", False)
    order = [name for name in ("drawing", "run", by, *columns) if name in columns and name not in unknown]
    return {name: columns[name] for name in dict.fromkeys(order)}


def _not_shown(table: pa.Table, runs: Sequence[RunFacts], *, has_several: bool) -> set[str]:
    """Columns that would be empty, or the same in every row."""
    is_judged = any(run.judged for run in runs)
    unknown = {"run"} if not has_several else set()
    unknown |= {"checks", "strain_kcal", "strain_kcal_per_atom"} if not is_judged else set()
    unknown |= OF_SEVERAL if (pc.max(table["conformers"]).as_py() or 1) < 2 else set()
    unknown |= {"redrawn_blocks", "dead_ends"} - {_guards_count(run.lp_record) for run in runs}
    return unknown


def _guards_count(lp: LpRecord) -> str:
    """The column that tells what its guard did."""
    return "dead_ends" if lp.asks_tokens else "redrawn_blocks" if lp.is_guarded else ""


def _lead(answered: Answered, chosen: Spot) -> str:
    """Of the worst of several molecules: what is wrong with it."""
    table = answered.tables["main"]
    return worst_words(table) if answered.options["order"] == WORST and _row_of(table, chosen) == 0 else ""


def _steps(answered: Answered, chosen: Spot) -> None:
    """The molecule's place in the table, and the way to its neighbours."""
    table, order = answered.tables["main"], answered.options["order"]
    row = _row_of(table, chosen)
    words = f"row {(row or 0) + 1:,} of {table.num_rows:,}, {order[0].lower() + order[1:]}"
    if len(table["run_id"].unique()) > 1:  # and the run of each
        words += "".join(f" · {escaped(str(table[name][row or 0]))}" for name in ("model", "lp"))
    show_steps(row, table.num_rows, words, lambda target: state.put_spot(_spot_at(table, target)))
