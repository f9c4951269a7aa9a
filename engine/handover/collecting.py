"""What goes into a report: answers of questions, and the worst molecules with their atoms.

Every figure is a question's own: nothing is computed a second time. What a question cannot answer of these entries is
left out, and the report names it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from engine.comparing.measures import has_samples, run_name, run_names
from engine.errors import DriftscopeError, StoreError, one_line, shown
from engine.figures.text_tables import cell
from engine.figures.words import counted
from engine.handover.charts import chart_view
from engine.handover.molecules import molecule_block
from engine.handover.tables import table_view, tables_of
from engine.handover.writing import MOST_BYTES, Block, Bundle, Section, fitting, typed
from engine.questions import ask, drift_molecules, entries_of, options_of, question_of
from engine.questions.question import NeedsTexts
from engine.store.entries import Entry, branch_place, entry_names, label_words
from engine.store.provenance import git_commit, versions
from engine.store.schema import RUN, TRACE
from engine.store.store import Store, damaged_parts

Asked = tuple[str, Sequence[str], Mapping[str, Any]]
"""A question's key, ids and options."""
ASKED_OF: Mapping[str, Sequence[str]] = {
    "run": ("compare_figures", "drift_histogram", "compare_failures", "compare_lost", "drift_molecules"),
    "runs": ("compare_matrix", "compare_figures", "compare_slowdown", "compare_speed", "compare_failures",
             "compare_lengths", "compare_molecules", "drift_histogram"),
    "trace": ("profiles_families", "profiles_phases", "profiles_launches", "profiles_kernels", "profiles_timeline"),
    "sample": (),
}  # fmt: skip
MOST_MOLECULES = 24
FACTS = (
    "origin model_alias model_step lp placeholder branch_of branch_at tokenizer backend sampling seed samples "
    "batch_size device threads dtype created_at source label git_commit versions notes"
).split()
"""Of a run or a trace, what made it."""


def bundle_of(store: Store, ids: Sequence[str], *, molecules: int = MOST_MOLECULES, first: int | None = None) -> Bundle:
    """Of one run, one sample (``RUN/SAMPLE``), several runs (the control first), or one or two traces.

    ``first`` is the number of the sample that is shown before the worst ones."""
    given = {"molecules": None if molecules == MOST_MOLECULES else molecules, "first": first}
    options = [f"--{name}={value}" for name, value in given.items() if value is not None]
    command = typed("bundle", *options, *["--compare"] * (len(ids) > 1), *ids, "--out", "report.html")
    kind = kind_of(store, ids)
    subjects = entries_of(store, "run" if kind == "runs" else kind, ids)
    entries = [subject.entry for subject in subjects] if kind == "sample" else subjects
    if len(entries) < len(ids):
        raise DriftscopeError("a comparison has each run or trace once, and one is given twice", "Give each once")
    if first is not None and kind in ("sample", "trace"):
        raise DriftscopeError(f"--first is of runs, not of a {kind}", "Leave it out")
    check_whole(store, entries)
    title, samples = title_of(kind, entries), list[tuple[str, int]]()
    if kind == "sample":
        samples = [(subject.entry.id, subject.sample_id) for subject in subjects]
        title = f"{title}, sample {subjects[0].sample_id}"
    elif kind != "trace":
        samples = worst_molecules(store, entries, first)
    return bundle_with(store, title, asked_of(kind, entries), samples, entries, command, molecules=molecules)


def asked_of(kind: str, entries: Sequence[Entry]) -> list[Asked]:
    """Branches among them are asked one question more."""
    branches = [entry.id for entry in entries if branch_place(entry) is not None]
    asked: list[Asked] = [(key, [entry.id for entry in entries], {}) for key in ASKED_OF[kind]]
    return [*asked, ("drift_branches", branches, {})] if branches else asked


def kind_of(store: Store, ids: Sequence[str]) -> Any:
    """What they name. A part of an id, or a label, may be of both kinds: whole ids come first, then runs."""
    runs, traces = (store.listing(kind).near(ids[0]) for kind in (RUN, TRACE))
    if len(ids) == 1 and "/" in ids[0] and not runs and not traces:
        return "sample"
    if traces and (not runs or (store.has(ids[0], TRACE) and not store.has(ids[0]))):
        return "trace"
    return "runs" if len(set(ids)) > 1 else "run"


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
    sections, left_out = list[Section](), list[str]()
    for key, ids, options in asked:
        try:
            sections.append(answer_section(store, key, ids, options))
        except NeedsTexts:  # it says nothing of conformers alone
            continue
        except DriftscopeError as error:
            left_out.append(f"{question_of(key).TITLE} {one_line(str(error))}")
    last = made_section(entries, command, left_out)
    views = (molecule_block(store, *sample) for sample in samples[:molecules])
    kept = fitting(Bundle(title, [*sections, molecules_section([], samples), last]), views)
    if not sections and not kept:
        why = left_out[0] if left_out else f"it takes over {MOST_BYTES:,} bytes"
        raise DriftscopeError(f"a report of {shown(title)} would be empty: {why}", "Choose something else")
    return Bundle(title, [*sections, *([molecules_section(kept, samples)] if samples else []), last])


def check_whole(store: Store, entries: Iterable[Entry]) -> None:
    """The store goes without damaged files and warns, which a reader of the report would not see."""
    listed = [damage for kind in (RUN, TRACE) for damage in store.listing(kind).damages]
    for entry in entries:
        folder = entry.files.path(f"{entry.folder}/")
        for damage in [damage for damage in listed if damage.where.startswith(folder)] or damaged_parts(entry):
            raise StoreError(f"{damage.where}: {damage.reason}", "A report would be without it. Run `verify`")


def title_of(kind: str, entries: Sequence[Entry]) -> str:
    """Of runs model and LP, and the label of a run alone; what else tells several apart."""
    if kind == "trace":
        return f"Profile of {' against '.join(entry_names(entries).values())}"
    if len(entries) == 1:
        return " · ".join(filter(None, (run_name(entries[0]), label_words(entries[0]))))
    titles = [run_name(entry) for entry in entries]
    return " against ".join(titles if len(set(titles)) == len(titles) else run_names(entries).values())


def answer_section(store: Store, key: str, ids: Sequence[str], options: Mapping[str, Any]) -> Section:
    """What ``ask`` says: the answer, its charts and tables, and the command."""
    question, answered = question_of(key), ask(store, key, ids, options)
    names = answered.names or {id_: id_ for id_ in ids}
    parts: list[Block] = [("text", answered.answer)]
    for chart in question.CHARTS:
        table = answered.tables.get(chart.table)
        if table is None or chart.is_empty(table) or chart.kind == "matrix":
            continue
        view = chart_view(chart, answered.tables, question.COLUMNS, names)
        words = f"{chart.kind}, {chart.y} by {chart.x}, of {counted(table.num_rows, 'row')}"
        if view is None:
            parts.append(("note", f"A chart is not drawn here: {words}. The command below has its figures."))
            continue
        parts.append(("chart", view))
        if more := view["panels_left_out"]:
            parts.append(("note", f"Not drawn here: {counted(more, 'more panel')}. The command below has all figures."))
    parts += [("table", table) for table in tables_of(question, answered)]
    given = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    parts.append(("code", typed("ask", key, *ids, *given)))
    return Section(question.TITLE, parts, question.help.strip())


def molecules_section(blocks: Sequence[Block], samples: Sequence[tuple[str, int]]) -> Section:
    left_out = len(samples) - len(blocks)
    words = f"{len(blocks)} of {len(samples)} answers, the worst molecules first; {left_out} are left out."
    return Section("Molecules", [*([("note", words)] if left_out else []), *blocks])


def made_section(entries: Sequence[Entry], command: str, left_out: Sequence[str]) -> Section:
    """Commands, versions and commit, of the report and of each run or trace."""
    by = ", ".join(f"{name} {version}" for name, version in json.loads(versions()).items())
    commit = f"; commit {git_commit()}" if git_commit() else ""
    words = f"Made {datetime.now(UTC):%Y-%m-%d %H:%M} UTC with {by}{commit}."
    parts: list[Block] = [("code", command), ("note", words)]
    for entry in entries:
        facts = {"id": entry.id, **{name: entry.row[name] for name in FACTS if entry.row.get(name) is not None}}
        rows = [{"": name, entry.id: cell(value, 2_000)} for name, value in facts.items()]
        parts.append(("table", table_view("", ["", entry.id], rows, {})))
    return Section("How it was made", [*[("note", f"Left out: {words}") for words in left_out], *parts])


def worst_molecules(store: Store, runs: Sequence[Entry], first: int | None = None) -> list[tuple[str, int]]:
    """All of the runs' samples, worst first, but before them those with the number ``first``. With each are the other
    runs' answers for the same molecule, the control's before them."""
    ids = [run.id for run in runs if has_samples(run)]
    if not ids:
        return []
    # Not by `ask`: these may be more runs than a page shows at once.
    options = options_of(question_of("drift_molecules"), store, runs, {})
    table = drift_molecules.tables(store, [run for run in runs if run.id in ids], options)["main"]
    rows = table.select(["run_id", "sample_id", "smiles"]).to_pylist()
    if first not in (None, *(row["sample_id"] for row in rows)):
        raise DriftscopeError(f"no run here has a sample {first}", "They count from 0")
    answers, ranks = Counter[tuple[str, str]](), dict[tuple[str, int], int]()
    for row in rows:
        answers[row["run_id"], row["smiles"]] += 1
        same = row["smiles"], answers[row["run_id"], row["smiles"]]
        row["rank"] = row["sample_id"] != first, ranks.setdefault(same, len(ranks)), ids.index(row["run_id"])
    return [(row["run_id"], row["sample_id"]) for row in sorted(rows, key=lambda row: row["rank"])]
