"""The Compare page's first section: runs side by side, each figure as it is and as a ratio to the control's.

Sentences on top say what the table shows, with what may be noise; under it stand the table as a file, one measure in
detail, and COV and MAT, which are computed on demand.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import streamlit as st

from engine.comparing.figures import Comparison, Ratio, RunFigures, compare_entries_with
from engine.comparing.measures import TIME_CAUTION
from engine.store.entries import Entry
from engine.store.store import Store
from pages._shared.compare import table_coverage as coverage
from pages._shared.compare import table_files as files
from pages._shared.compare import table_html as html
from pages._shared.compare import table_sentences as sentence_of
from pages._shared.compare import table_words as words
from pages._shared.compare.charts_words import listed
from pages._shared.compare.state import Chosen
from pages._shared.compare.table_cells import Cell, Form, Line, Mark, Row, mark_of, rows_of
from pages._shared.compare.table_html import Column
from pages._shared.errors import escape_markdown
from pages._shared.theme import palette

LEGEND: tuple[Mark, ...] = ("better", "worse", "differs", "noise", "doubtful", "unknown")
NOBODY = "Choose a control in the table of runs above, and tests to set beside it."
REPORTED = (
    "Hatched columns are stated by a report and have no samples: nobody can draw from them anew, and machine, molecules"
    " and model may be others. reported ÷ measured says how far apart two figures are, not what the LP did."
)
ALONE = "Nothing stands beside it yet: choose a test in the table of runs above to see ratios and what is noise."


def show(store: Store, chosen: Chosen | None) -> None:
    """Draw this section; ``chosen`` is None where no run is compared."""
    if chosen is None:
        st.info(NOBODY, icon=":material/compare_arrows:", title="No run is compared")
        return
    top = st.container()
    with st.expander("COV and MAT against reference ensembles", icon=":material/share_location:"):
        asked = coverage.panel(store, chosen)
    with top:
        comparison = compare_entries_with(store, chosen.control, chosen.tests)
        _show(chosen, comparison, rows_of(comparison, coverage.known(chosen, asked)))


def _show(chosen: Chosen, comparison: Comparison, rows: list[Row]) -> None:
    columns = columns_of(chosen, comparison)
    said = sentences(chosen, comparison, rows)
    with st.container(border=True, key="beside-says"):
        for one in said:
            st.markdown(one)
    for one in cautions(chosen, comparison):
        st.caption(f":material/info: {escape_markdown(one)}")
    if not chosen.tests:
        st.info(ALONE, icon=":material/add:")
    is_all = st.toggle("All figures", key="table_all", bind="query-params")
    shown = [row for row in rows if is_all or (row.line.is_main and not row.is_empty)]
    caption = f"Figures of each run, and ratios to the control {chosen.name(chosen.control.id)}"
    st.html(html.style() + html.table(columns, shown, caption))
    if chosen.tests:
        st.caption(_legend(comparison))
    _downloads(columns, shown, said)
    if any(not beside.paired.reason for beside in comparison.tests):
        _detail(chosen, comparison, rows)


def columns_of(chosen: Chosen, comparison: Comparison) -> list[Column]:
    colours = palette()
    sides = [(comparison.control, None), *((one.figures, one.paired) for one in comparison.tests)]
    return [
        Column(
            run_id=run.run_id,
            name=chosen.name(run.run_id),
            colour=chosen.colour(run.run_id, colours),
            origin=run.origin,
            samples=run.samples,
            has_samples=run.has_samples,
            paired=paired,
            ratio_is="" if paired is None else _ratio_is(comparison.control, run),
        )
        for run, paired in sides
    ]


def _ratio_is(control: RunFigures, test: RunFigures) -> str:
    is_like = control.origin == test.origin != "reported"
    return "" if is_like else f"{test.origin} ÷ {control.origin}"


def sentences(chosen: Chosen, comparison: Comparison, rows: list[Row]) -> list[str]:
    """Markdown, one a test; of the control where it is alone."""
    if not comparison.tests:
        name = escape_markdown(chosen.name(comparison.control.run_id))
        return [f"**{name}**: {escape_markdown(sentence_of.alone(comparison.control, rows))}"]
    control = chosen.letter(comparison.control.run_id)
    return [
        f"**{escape_markdown(chosen.name(beside.figures.run_id))}** against {control}: "
        + escape_markdown(sentence_of.sentence(number, comparison.control, beside, rows))
        for number, beside in enumerate(comparison.tests, 1)
    ]


def cautions(chosen: Chosen, comparison: Comparison) -> list[str]:
    """What stands between the runs and a fair comparison."""
    control = chosen.letter(comparison.control.run_id)
    found = [
        words.sharing(chosen.letter(beside.figures.run_id), control, beside.paired)
        for beside in comparison.tests
        if beside.figures.has_samples and comparison.control.has_samples
    ]
    paired = [beside.paired for beside in comparison.tests if beside.paired.is_paired]
    if paired and not any(found):
        found.append(f"Every answer of these runs has its partner: {_shared(paired[0].shared_molecules)}.")
    measured = [(chosen.letter(entry.id), entry) for entry in chosen.measured]
    if several := [letter for letter, entry in measured if _has_several_answers(entry)]:
        found.append(
            f"{listed(several)} {'has' if len(several) == 1 else 'have'} several answers a molecule: Wilson's intervals"
            " of rates take answers for independent, and are too narrow there. Intervals of ratios draw molecules."
        )
    if differing := words.setup_differences(measured):
        found.append(f"Besides model and LP, the set-ups differ in {differing}: ratios hold for all of that together.")
    return [one for one in found if one]


def _has_several_answers(entry: Entry) -> bool:
    samples, molecules = (entry.row.get(name) for name in ("samples", "molecules"))
    return bool(samples and molecules and samples > molecules)


def _shared(molecules: int) -> str:
    return f"{molecules:,} {'molecule' if molecules == 1 else 'molecules'} in each"


def _legend(comparison: Comparison) -> str:
    signs, marks = words.MARK_SIGNS, words.MARK_WORDS
    said = ", ".join(f"{signs[mark]} {marks[mark]}" for mark in LEGEND)
    parts = [
        f"Ratios are test over control. {said}: by 95 % intervals over molecules drawn anew, control and test together"
        " where they share them. Of twenty figures that do not differ, chance marks one. Point at a cell for what it"
        " rests on."
    ]
    if any(run.has_samples for run in (one.figures for one in comparison.tests)):
        parts.append(TIME_CAUTION)
    if "reported" in _origins(comparison):
        parts.append(REPORTED)
    return " ".join(parts)


def _origins(comparison: Comparison) -> set[str]:
    return {comparison.control.origin, *(one.figures.origin for one in comparison.tests)}


def _downloads(columns: Sequence[Column], rows: Sequence[Row], said: Sequence[str]) -> None:
    plain = [one.replace("\\", "").replace("**", "") for one in said]
    with st.container(horizontal=True):
        for word, name, mime, make, what in (
            ("CSV", "comparison.csv", "text/csv", partial(files.csv_of, columns, rows), "One row a run and figure"),
            (
                "JSON",
                "comparison.json",
                "application/json",
                partial(files.json_of, columns, rows, plain),
                "The same, with the sentences",
            ),
            (
                "Markdown",
                "comparison.md",
                "text/markdown",
                partial(files.markdown_of, columns, rows, plain),
                "The table as it stands, for a paper",
            ),
        ):
            st.download_button(
                word, make, name, mime, icon=":material/download:", help=what, on_click="ignore", type="tertiary"
            )


# --- one measure ------------------------------------------------------------------------------------------------------


def _detail(chosen: Chosen, comparison: Comparison, rows: list[Row]) -> None:
    with st.expander("One measure in detail", icon=":material/query_stats:"):
        told = {row.line.words: row for row in rows if any(cell.told is not None for cell in row.cells)}
        name = st.selectbox("Measure", list(told), key="table_detail", bind="query-params", width=320)
        row = told[name]
        line = row.line
        headings = ["test", "rests on", "control", "test", "difference", "ratio", "verdict", "reason"]
        cells = list(zip(comparison.tests, row.cells[1:], strict=True))
        body = [
            _detail_row(chosen.name(beside.figures.run_id), line, cell)
            for beside, cell in cells
            if cell.told is not None and cell.told.answers
        ]
        if body:
            st.html(html.style() + html.plain_table(headings, body, f"{line.words} in detail"))
        for beside, cell in cells:
            if cell.told is None or not cell.told.answers:
                why = escape_markdown(cell.reason or "It is not known.")
                st.caption(f"{chosen.letter(beside.figures.run_id)}: {why}")
        st.caption(escape_markdown(_about(line)))


def _about(line: Line) -> str:
    measure = line.measure
    what = line.help if measure is None else measure.what
    said = f"Compared is: {what}. Means are over the answers that both runs have, so they may differ from the table's."
    return said if measure is None or not measure.caution else f"{said} {measure.caution}"


def _detail_row(name: str, line: Line, cell: Cell) -> list[str]:
    told = cell.told
    if told is None:
        return [name, *[words.UNKNOWN] * 6, cell.reason or "–"]
    mark = cell.mark or mark_of(Ratio("", told.control, told.test, None, None, None, ""), line.measure, told)
    unit = words.unit_of_change(told.measure)
    form: Form = "share" if unit == "points" else "number"
    difference = words.UNKNOWN
    if told.difference is not None:
        difference = f"{words.change(told.difference.value, told.measure)} {unit}"
        if cell.difference is not None and cell.difference.low is not None and cell.difference.high is not None:
            low, high = (words.change(one, told.measure) for one in (cell.difference.low, cell.difference.high))
            difference += f" ({low} to {high})"
    ratio = words.UNKNOWN if told.ratio is None else words.times(told.ratio.value)
    if cell.interval is not None and cell.interval.low is not None and cell.interval.high is not None:
        ratio += f" ({words.number(cell.interval.low)} to {words.number(cell.interval.high)})"
    return [
        name,
        f"{told.answers:,} answers, {told.molecules:,} molecules",
        words.number(told.control, form),
        words.number(told.test, form),
        difference,
        ratio,
        f"{words.MARK_SIGNS[mark]} {words.MARK_WORDS[mark]}",
        cell.reason or words.UNKNOWN,
    ]
