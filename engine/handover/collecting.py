"""What goes into a bundle: answers of questions, and the worst molecules with their atoms.

Every figure is a question's own: nothing is computed a second time. What a question cannot answer of these entries is
left out, and the bundle names it.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from engine.comparing.measures import has_samples, run_name, run_names
from engine.errors import DriftscopeError, StoreError, one_line, shown, visible
from engine.figures.text_tables import cell
from engine.figures.words import counted
from engine.handover.charts import drawn
from engine.handover.molecules import conformer_view, drawing_of, faults_of
from engine.handover.records import MOST_BYTES, AnswerView, Bundle, ChartView, MoleculeView, ShownToken, TableView
from engine.handover.writing import with_molecules
from engine.inspection.faults import wrong_places
from engine.inspection.sample import Inspected, inspect_sample
from engine.questions import ask, drift_atoms, drift_molecules, entries_of, question_of, sample_of
from engine.questions.question import Answered, Column, NeedsTexts, Question, Tables, cell_of
from engine.store.columns import Kind, rows_of
from engine.store.entries import Entry, entry_names, label_words
from engine.store.schema import RUN, TRACE
from engine.store.store import Store, damaged_parts

Asked = tuple[str, Sequence[str], Mapping[str, Any]]
"""A question's key, ids and options."""
OF_A_RUN = ("compare_figures", "drift_histogram", "compare_failures", "compare_lost", "drift_molecules")
OF_RUNS = (
    "compare_figures", "compare_slowdown", "compare_speed", "compare_failures", "compare_lengths", "compare_molecules",
    "drift_histogram",
)  # fmt: skip
OF_TRACES = ("profiles_families", "profiles_phases", "profiles_launches", "profiles_kernels", "profiles_timeline")
MOST_TRACES = 2
MOST_ROWS = 100  # of a table
MOST_CELL = 400
MOST_CHART_BYTES = 120_000
MOST_MOLECULES = 24
FACTS = (
    "origin model_alias model_step lp placeholder tokenizer backend sampling seed samples batch_size device threads "
    "dtype created_at source label git_commit versions notes"
).split()
"""Of a run or a trace, what made it."""
ATOMS = "name damage needed given off_ang text x y z words".split()
COLUMNS = {**drift_atoms.COLUMNS, **dict.fromkeys("xyz", Column(unit="Å"))}


def bundle_of(
    store: Store, ids: Sequence[str], *, molecules: int = MOST_MOLECULES, sample: int | None = None
) -> Bundle:
    """Of one run, one sample (``RUN/SAMPLE``), several runs (the control first), or one or two traces.

    ``sample`` is shown before the worst ones."""
    options = [] if molecules == MOST_MOLECULES else [f"--molecules={molecules}"]
    command = typed("bundle", *options, *(["--compare"] if len(ids) > 1 else []), *ids, "--out", "report.html")
    if len(ids) == 1 and "/" in ids[0] and not is_like(store, ids[0], RUN, TRACE):
        of = sample_of(store, ids[0])
        check_whole(store, [of.entry])
        title = f"{titles_of([of.entry])[0]}, sample {of.sample_id}"
        return bundle_with(store, title, [], [(of.entry.id, of.sample_id)], [of.entry], command)
    if is_trace(store, ids[0]):
        if len(ids) > MOST_TRACES:
            raise DriftscopeError(f"{len(ids)} traces are not compared at once", "Give a control and one test")
        entries = entries_of(store, "trace", ids)
        check_whole(store, entries)
        names = entry_names(entries)
        of_traces: list[Asked] = [(key, [*names], {}) for key in OF_TRACES]
        return bundle_with(store, f"Profile of {' against '.join(names.values())}", of_traces, [], entries, command)
    entries = entries_of(store, "run", ids)
    check_whole(store, entries)
    run_ids = [entry.id for entry in entries]
    asked: list[Asked] = [(key, run_ids, {}) for key in (OF_RUNS if len(entries) > 1 else OF_A_RUN)]
    worst = worst_molecules(store, [entry for entry in entries if has_samples(entry)], sample)
    return bundle_with(store, " against ".join(titles_of(entries)), asked, worst, entries, command, molecules=molecules)


def is_trace(store: Store, id_: str) -> bool:
    """Whole ids come first, then runs: a part of an id, or a label, may be of both kinds."""
    if store.has(id_) or store.has(id_, TRACE):
        return not store.has(id_)
    return is_like(store, id_, TRACE) and not is_like(store, id_, RUN)


def is_like(store: Store, id_: str, *kinds: Kind) -> bool:
    entries = [entry for kind in kinds for entry in store.listing(kind).entries]
    return any(id_ in entry.id or id_ == entry.row.get("label") for entry in entries)


def bundle_with(
    store: Store,
    title: str,
    asked: Iterable[Asked],
    samples: Sequence[tuple[str, int]],
    entries: Sequence[Entry],
    command: str,
    *,
    molecules: int = MOST_MOLECULES,
) -> Bundle:
    """Of any questions and samples, as many of these as fit."""
    answers, left_out = list[AnswerView](), list[str]()
    for key, ids, options in asked:
        try:
            answers.append(answer_view(store, key, ids, options))
        except NeedsTexts:  # it says nothing of conformers alone
            continue
        except DriftscopeError as error:
            left_out.append(f"{question_of(key).TITLE} {one_line(str(error))}")
    bundle = Bundle(seen(title), command, answers, [], len(samples), [*map(source_of, entries)], left_out)
    bundle = with_molecules(bundle, (molecule_view(store, *sample) for sample in samples[:molecules]))
    if not answers and not bundle.molecules:
        why = left_out[0] if left_out else f"it takes over {MOST_BYTES:,} bytes"
        raise DriftscopeError(f"a report of {shown(title)} would be empty: {why}", "Choose something else")
    return bundle


def check_whole(store: Store, entries: Iterable[Entry]) -> None:
    """The store goes without damaged files and warns, which a reader of the report would not see."""
    listed = [damage for kind in (RUN, TRACE) for damage in store.listing(kind).damages]
    for entry in entries:
        folder = entry.files.path(f"{entry.folder}/")
        for damage in [damage for damage in listed if damage.where.startswith(folder)] or damaged_parts(entry):
            raise StoreError(f"{damage.where}: {damage.reason}", "A report would be without it. Run `verify`")


def typed(*words: str) -> str:
    return shlex.join(["python", "-m", "engine", *words])


def titles_of(runs: Sequence[Entry]) -> list[str]:
    """Model and LP, and the label of a run alone; what else tells several apart."""
    if len(runs) == 1:
        return [" · ".join(filter(None, (run_name(runs[0]), label_words(runs[0]))))]
    titles = [run_name(entry) for entry in runs]
    return titles if len(set(titles)) == len(titles) else list(run_names(runs).values())


def seen(text: str) -> str:
    """Nothing invisible, which might turn the order of a line around."""
    return "".join(char if char == "\n" else visible(char) for char in text)


def source_of(entry: Entry) -> dict[str, str]:
    """What made a run or a trace; what is not known of it is left out."""
    facts = {name: entry.row.get(name) for name in FACTS}
    return {"id": entry.id, **{name: seen(cell(value, 2_000)) for name, value in facts.items() if value is not None}}


# --- answers ------------------------------------------------------------------------------------------------------


def answer_view(store: Store, key: str, ids: Sequence[str], options: Mapping[str, Any]) -> AnswerView:
    question, answered = question_of(key), ask(store, key, ids, options)
    given = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    charts, left_out = charts_shown(question, answered, answered.names or {id_: id_ for id_ in ids})
    tables = tables_shown(question, answered)
    if left_out and not charts:  # a part of what was to be drawn says nothing
        tables = [table for table in tables if not table.rows_left_out]
    return AnswerView(
        title=question.TITLE,
        about=(question.__doc__ or "").strip(),
        answer=seen(answered.answer),
        command=typed("ask", key, *ids, *given),
        charts=charts,
        tables=tables,
        left_out=left_out,
    )


def charts_shown(question: Question, answered: Answered, names: Mapping[str, str]) -> tuple[list[ChartView], list[str]]:
    """Those that are drawn, and in words what is not."""
    charts, left_out = list[ChartView](), list[str]()
    for chart in question.CHARTS:
        rows = answered.tables[chart.table].to_pylist() if chart.table in answered.tables else []
        if not rows:
            continue
        view = drawn(chart, rows, question.COLUMNS, names)
        words = f"{chart.kind}, {chart.y} by {chart.x}"
        if view is None or sum(len(svg) for _, svg in view.panels) > MOST_CHART_BYTES:
            left_out.append(f"{words}, of {counted(len(rows), 'row')}")
            continue
        charts.append(view)
        panels = {row.get(chart.split) for row in rows if None not in (row[chart.x], row[chart.y])}
        if more := len(panels) - len(view.panels):
            left_out.append(f"{words}, of {counted(more, 'more panel')}")
    return charts, left_out


def tables_shown(question: Question, answered: Answered) -> list[TableView]:
    """Those that a card and a terminal show."""
    views = []
    for name in question.TABLES or ["main"]:
        table = answered.tables[name]
        if rows := list(rows_of(table.slice(0, MOST_ROWS))):
            views.append(table_view(name, table.column_names, rows, question.COLUMNS, table.num_rows - len(rows)))
    return views


def table_view(
    name: str,
    titles: Sequence[str],
    rows: Sequence[Mapping[str, Any]],
    columns: Mapping[str, Column],
    left_out: int = 0,
) -> TableView:
    """Without columns that are hidden, empty or links into the app."""
    about = {title: columns.get(title, Column(title)) for title in titles}
    shown = [title for title in titles if is_shown(title, about) and any(row[title] not in (None, "") for row in rows)]
    words = [[seen(cell(cell_of(about[title], row[title]), MOST_CELL)) for title in shown] for row in rows]
    return TableView(
        name,
        [head_of(title, about[title]) for title in shown],
        [about[title].help for title in shown],
        [[row[title] for title in shown] for row in rows],
        words,
        left_out,
    )


def is_shown(title: str, about: Mapping[str, Column]) -> bool:
    """A run's name stands for its id."""
    return not (about[title].is_hidden or about[title].page or (title == "run" and "name" in about))


def head_of(title: str, column: Column) -> str:
    return f"{column.words or title}{'' if column.unit in ('', '%', '×') else f' ({column.unit})'}"


# --- molecules ----------------------------------------------------------------------------------------------------


def worst_molecules(store: Store, runs: Sequence[Entry], first: int | None = None) -> list[tuple[str, int]]:
    """All of the runs' samples, worst first; of several runs, behind each the others' answers for the same molecule.

    ``first``: the sample of this number comes before all others."""
    if not runs:
        return []
    options = {option.name: option.default for option in drift_molecules.OPTIONS}
    table = drift_molecules.tables(store, runs, options)["main"]  # of more runs than a page shows at once
    rows = table.select(["run_id", "sample_id", "smiles"]).to_pylist()
    of_smiles: dict[str, dict[str, tuple[str, int]]] = {}
    for row in rows:
        of_smiles.setdefault(row["smiles"], {}).setdefault(row["run_id"], (row["run_id"], row["sample_id"]))
    order = [(entry.id, first) for entry in runs if first is not None]
    order = [spot for spot in order if spot in {(row["run_id"], row["sample_id"]) for row in rows}]
    for row in rows:
        order += [(row["run_id"], row["sample_id"]), *of_smiles[row["smiles"]].values()]
    return list(dict.fromkeys(order))


def molecule_view(store: Store, run_id: str, sample_id: int) -> MoleculeView:
    """As `drift_atoms` has it, with its drawing and its conformer."""
    options = {option.name: option.default for option in drift_atoms.OPTIONS}
    inspected = inspect_sample(store, run_id, sample_id)
    name, several = f"{inspected.run.name}, sample {sample_id}", len(inspected.shapes)
    if several > 1:
        inspected = inspected.of_conformer(inspected.first_faulty)
        name += f", conformer {inspected.number} of {several}"
    tables = drift_atoms.atom_tables(inspected, options["rows"], inspected.steps, inspected.estimates)
    rows = list(rows_of(tables["main"])) or places(inspected)
    faults, conformer, group = faults_of(inspected), None, inspected.by_group
    if inspected.conformer is not None:
        by_group = group.mol if group is not None and group.farthest is not None else None
        conformer = conformer_view(inspected.conformer, inspected.conformer_atoms, faults, by_group)
    return MoleculeView(
        name=seen(name),
        smiles=seen(inspected.sample["smiles"]),
        answer=seen(drift_atoms.answer(tables, options)),
        command=typed("ask", "drift_atoms", f"{inspected.run.run_id}/{sample_id}"),
        drawing=drawing_of(inspected.molecule, faults),
        conformer=conformer,
        why_no_conformer=seen(inspected.why_no_conformer),
        tokens=list(tokens_shown(inspected, tables, rows)),
        rows=[{"atom": row["atom"], "damage": row["damage"]} for row in rows],
        table=table_view("atoms", [name for name in ATOMS if any(name in row for row in rows)], rows, COLUMNS),
    )


def tokens_shown(inspected: Inspected, tables: Tables, rows: Sequence[Mapping[str, Any]]) -> Iterator[ShownToken]:
    """Those that were written for the conformer in view, each with the atom whose row it is in."""
    atom_of = {column: row["atom"] for row in rows for column in row["columns"] or ()}
    aligned = inspected.alignment.rows if inspected.alignment is not None else ()
    for token, place in zip(tables["tokens"].to_pylist(), aligned, strict=True):
        if "n" not in token["marks"] and (len(inspected.shapes) == 1 or place.conformer == inspected.number):
            yield seen(token["piece"]), token["marks"], atom_of.get(token["column"]), told(token)


def places(inspected: Inspected) -> list[dict[str, Any]]:
    """The atoms of a conformer that no text wrote, as rows."""
    if inspected.conformer is None:
        return []
    number, wrong = inspected.number, wrong_places(inspected.sample)
    positions = inspected.conformer.GetConformer().GetPositions().tolist()
    rows = []
    for atom, (element, xyz) in enumerate(zip(inspected.conformer.GetAtoms(), positions, strict=True)):
        words = wrong.get((number, atom), "")
        about = {"name": f"{element.GetSymbol()}, atom {atom}", "damage": "wrong" if words else "", "words": words}
        rows.append({"atom": atom, "columns": (), **about, **dict(zip("xyz", xyz, strict=True))})
    return rows


def told(token: Mapping[str, Any]) -> str:
    """What a token says on hover."""
    facts = {"template": token["template"], "p raw": token["p_raw"], "p LP": token["p_lp"]}
    parts = ["forced"] if "f" in token["marks"] else []
    parts += [f"{name} {cell(value)}" for name, value in facts.items() if value is not None]
    parts += [token["note"], token["lost"], token["struck"]]
    return seen("; ".join(filter(None, parts)))
