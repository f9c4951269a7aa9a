"""The Compare page's first section: runs side by side, each figure as it is and as a ratio to the control's.

A summary on top says what the table shows and flags noise. Below are downloads of the table, one measure in detail, and
COV and MAT, which are computed on demand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import streamlit as st

from engine.comparing.figures import Comparison, Ratio, compare_entries_with
from engine.comparing.measures import TIME_CAUTION
from engine.figures.words import UNKNOWN, counted, listed, number, times
from engine.store.store import Store
from pages._compare import table_coverage as coverage
from pages._compare import table_formats as formats
from pages._compare import table_models
from pages._compare import table_words as words
from pages._compare.runs import RunSelection
from pages._compare.table_cells import FigureCell, FigureLine, FigureRow, Form, Mark, mark_of, rows_of
from pages._compare.table_formats import RunColumn
from pages._shared.errors import escape_markdown
from pages._shared.html_table import plain_table, style
from pages._shared.sections import VIEW, in_detail
from pages._shared.table_files import file_button
from pages._shared.theme import palette
from pages._shared.words import unbroken

MOST_PINNED = 2
LEGEND: tuple[Mark, ...] = ("better", "worse", "differs", "noise", "doubtful", "unknown")
REPORTED = (
    "Hatched columns are stated by a report and have no samples, so there is no interval; machine, molecules"
    " and model may differ. reported ÷ measured says how far apart two figures are, not what the LP did."
)
ALONE = "Choose a test in the table of runs above to see ratios, with noise flagged."


def show(store: Store, chosen: RunSelection) -> None:
    top = st.container()
    with st.expander("COV and MAT against reference ensembles", icon=":material/share_location:"):
        request = coverage.panel(store, chosen)
    with top:
        comparison = compare_entries_with(store, chosen.control, chosen.tests)
        _show(chosen, comparison, rows_of(comparison, coverage.known(chosen, request)))
        table_models.show(store, chosen)


def _show(chosen: RunSelection, comparison: Comparison, rows: list[FigureRow]) -> None:
    columns = columns_of(chosen, comparison)
    summary, leads = (sentences(chosen, comparison, rows, tell) for tell in (words.sentence, words.lead))
    with st.container(border=True, key="beside-says"):
        st.button(
            "Which LP to use: Advice", icon=":material/recommend:", type="tertiary", key="to-advice",
            on_click=_open_advice,
        )  # fmt: skip
        for lead in leads:
            st.markdown(lead, help=" ".join(words.RATE_WORDS.values()) if lead is leads[0] else None)
        if summary != leads:
            in_detail().markdown("\n\n".join(summary))
    if notes := cautions(chosen, comparison):
        st.caption(f":material/info: {escape_markdown(' '.join(notes))}")
    if not chosen.tests:
        st.info(ALONE, icon=":material/add:")
    with st.container(horizontal=True, vertical_alignment="bottom", key="table-choices"):
        is_all = st.toggle("All figures", key="table_all", bind="query-params")
        columns = _pinned(chosen, columns)
    shown = [row for row in rows if is_all or (row.line.is_main and not row.is_empty)]
    caption = f"Figures of each run, and ratios to the control {chosen.name(chosen.control.id)}"
    st.html(style() + formats.table(columns, shown, caption))
    if chosen.tests:
        st.caption(_legend(comparison))
    if costs := words.costs([comparison.control, *(test.figures for test in comparison.tests)]):
        st.caption(escape_markdown(costs))
    _downloads(columns, shown, summary)
    if any(not test.paired.reason for test in comparison.tests):
        _detail(chosen, comparison, rows)


def _open_advice() -> None:
    st.session_state[VIEW] = "Advice"


def _pinned(chosen: RunSelection, columns: list[RunColumn]) -> list[RunColumn]:
    """The control, unless the reader chooses others; of two columns none is ever out of sight."""
    if len(columns) < 3:
        return columns
    ids = [column.run_id for column in columns]
    pins = st.multiselect(
        f"Pinned runs (at most {MOST_PINNED})", ids, ids[:1], key="table_pins", format_func=chosen.letter_or_id,
        bind="query-params", width=220, max_selections=MOST_PINNED, placeholder="none",
    )  # fmt: skip
    pinned = [id_ for id_ in ids if id_ in pins]
    return [
        replace(column, pin=pinned.index(column.run_id)) if column.run_id in pinned else column for column in columns
    ]


def columns_of(chosen: RunSelection, comparison: Comparison) -> list[RunColumn]:
    colours = palette()
    sides = [(comparison.control, None), *((test.figures, test.paired) for test in comparison.tests)]
    return [
        RunColumn(
            run_id=run.run_id,
            name=chosen.name(run.run_id),
            colour=chosen.colour(run.run_id, colours),
            origin=run.origin,
            samples=run.samples,
            has_samples=run.has_samples,
            paired=paired,
            ratio_is=""
            if paired is None or run.origin == comparison.control.origin != "reported"
            else f"{run.origin} ÷ {comparison.control.origin}",
        )
        for run, paired in sides
    ]


def sentences(
    chosen: RunSelection, comparison: Comparison, rows: list[FigureRow], tell: words.Teller = words.sentence
) -> list[str]:
    """Markdown, one sentence per test; of the control where it is alone."""
    if not comparison.tests:
        name = escape_markdown(chosen.name(comparison.control.run_id))
        return [f"**{name}**: {unbroken(escape_markdown(words.alone(comparison.control, rows)))}"]
    control = chosen.letter(comparison.control.run_id)
    return [
        f"**{escape_markdown(chosen.name(test.figures.run_id))}** against {control}: "
        + unbroken(escape_markdown(tell(column, comparison.control, test, rows)))
        for column, test in enumerate(comparison.tests, 1)
    ]


def cautions(chosen: RunSelection, comparison: Comparison) -> list[str]:
    """What makes the comparison unfair."""
    control = chosen.letter(comparison.control.run_id)
    notes = [
        words.sharing(chosen.letter(test.figures.run_id), control, test.paired)
        for test in comparison.tests
        if test.figures.has_samples and comparison.control.has_samples
    ]
    measured = [(chosen.letter(entry.id), entry) for entry in chosen.measured]
    paired = [test.paired for test in comparison.tests if test.paired.is_paired]
    if paired and not any(notes):
        whose = "" if len(measured) == len(chosen.entries) else f" of {listed([letter for letter, _ in measured])}"
        notes.append(f"All answers{whose} are paired: {counted(paired[0].shared_molecules, 'molecule')} in each.")
    counts = [(letter, entry.row.get("samples") or 0, entry.row.get("molecules")) for letter, entry in measured]
    if several := [letter for letter, samples, molecules in counts if molecules and samples > molecules]:
        notes.append(
            f"{listed(several)} {'has' if len(several) == 1 else 'have'} several answers per molecule: Wilson's"
            " intervals treat answers as independent and are too narrow there. Ratios use a bootstrap over molecules."
        )
    if differing := words.setup_differences(measured):
        notes.append(f"Besides model and LP, the set-ups differ in {differing}: ratios reflect all of these.")
    notes.append(chosen.sizes())
    return [note for note in notes if note]


def _legend(comparison: Comparison) -> str:
    marks = ", ".join(" ".join(words.MARKS[mark]) for mark in LEGEND)
    parts = [
        f"Ratios are test over control; “× faster” is the other way round. {marks}: by 95 % bootstrap intervals over"
        " molecules, paired where the runs share them; 5 % false positives expected. Hover over a cell for its basis."
    ]
    tests = [test.figures for test in comparison.tests]
    if any(run.has_samples for run in tests):
        parts.append(TIME_CAUTION)
    if any(run.origin == "reported" for run in (comparison.control, *tests)):
        parts.append(REPORTED)
    return " ".join(parts)


def _downloads(columns: Sequence[RunColumn], rows: Sequence[FigureRow], summary: Sequence[str]) -> None:
    plain = [sentence.replace("\\", "").replace("**", "") for sentence in summary]
    markdown = partial(formats.markdown_of, columns, rows, plain)
    files = (
        ("CSV", "csv", partial(formats.csv_of, columns, rows), "One row per run and figure"),
        ("JSON", "json", partial(formats.json_of, columns, rows, plain), "With the summary"),
        ("Markdown", "md", markdown, "The table as shown, for a paper"),
    )
    with st.container(horizontal=True):
        for label, ending, content, about in files:
            file_button(label, content, f"comparison.{ending}", help=about)


# --- one measure ------------------------------------------------------------------------------------------------------


def _detail(chosen: RunSelection, comparison: Comparison, rows: list[FigureRow]) -> None:
    with st.expander("One measure in detail", icon=":material/query_stats:"):
        compared = {row.line.words: row for row in rows if any(cell.compared is not None for cell in row.cells)}
        row = compared[st.selectbox("Measure", list(compared), key="table_detail", bind="query-params", width=320)]
        line = row.line
        headings = ["test", "basis", "control", "test", "difference", "ratio", "verdict", "reason"]
        cells = list(zip(comparison.tests, row.cells[1:], strict=True))
        body = [
            _detail_row(chosen.name(test.figures.run_id), line, cell)
            for test, cell in cells
            if cell.compared is not None and cell.compared.answers
        ]
        if body:
            st.html(style() + plain_table(headings, body, f"{line.words} in detail"))
        for test, cell in cells:
            if cell.compared is None or not cell.compared.answers:
                reason = escape_markdown(cell.reason or "It is not known.")
                st.caption(f"{chosen.letter(test.figures.run_id)}: {reason}")
        st.caption(escape_markdown(_about(line)))


def _about(line: FigureLine) -> str:
    measure = line.measure
    about = f"Compared: {line.help if measure is None else measure.what}."
    about += " Means are over the answers that both runs have, so they may differ from the table."
    return about if measure is None or not measure.caution else f"{about} {measure.caution}"


def _detail_row(name: str, line: FigureLine, cell: FigureCell) -> list[str]:
    compared = cell.compared
    if compared is None:
        return [name, *[UNKNOWN] * 6, cell.reason or UNKNOWN]
    ratio_of_means = Ratio("", compared.control, compared.test, None, None, None, "")
    mark = cell.mark or mark_of(ratio_of_means, line.measure, compared)
    unit = words.unit_of_change(compared.measure)
    form: Form = "share" if unit == "points" else "number"
    difference = UNKNOWN
    if compared.difference is not None:
        difference = f"{words.change(compared.difference.value, compared.measure)} {unit}"
        if compared.difference.ends:
            low, high = (words.change(end, compared.measure) for end in compared.difference.ends)
            difference += f" ({low} to {high})"
    ratio = UNKNOWN if compared.ratio is None else times(compared.ratio.value)
    if cell.interval is not None and cell.interval.ends:
        ratio += " ({} to {})".format(*map(number, cell.interval.ends))
    return [
        name,
        f"{counted(compared.answers, 'answer')}, {counted(compared.molecules, 'molecule')}",
        words.value_words(compared.control, form),
        words.value_words(compared.test, form),
        difference,
        ratio,
        " ".join(words.MARKS[mark]),
        cell.reason or UNKNOWN,
    ]
