"""Molecules for runs that are started from the page: of those that ship, typed in, or from a file.

It gives the command line's words for them, and says before anything is started which lines cannot be used.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import streamlit as st

from engine.chem.molecule_files import SkippedRows, read_molecule_file
from engine.chem.molecule_sets import load_run_set
from engine.errors import DriftscopeError
from engine.runner.background import Input, file_name
from pages._shared.choices import one_of
from pages._shared.errors import escape_markdown
from pages._shared.generation_inputs import read_smiles, show_problems

SHIPPED, TYPED, FILE = "Held-out", "SMILES", "A file"
FIRST = 64
FIRST_SMILES = "CC=O\nCCO\nc1ccccc1"
MOST_TYPED = 2_000
MOST_WORDS = 20
"""Typed molecules that the command names itself; more of them go with it as a file."""
CHECKED = 500
"""Molecules of a file that are looked at before it is used."""
MOST_PROBLEMS = 5
TYPES = ["smi", "smiles", "txt", "csv", "tsv", "sdf", "sd", "mol", "jsonl", "ndjson", "parquet", "pq", "gz"]


@dataclass(frozen=True, slots=True)
class MoleculeChoice:
    """``words`` and ``inputs`` are for the command; ``positional`` words come last. ``count`` is None where unknown."""

    words: tuple[str, ...] = ()
    positional: tuple[str, ...] = ()
    inputs: tuple[Input, ...] = ()
    count: int | None = None
    problem: str = ""  # why nothing can be started, as Markdown


def molecule_inputs(first: int = FIRST) -> MoleculeChoice:
    """Draw the choice, with what is wrong with it. ``first`` of those that ship are chosen to begin with."""
    about = "Held-out molecules ship with the project; no embedded model was trained on their skeletons."
    source = one_of("Molecules", (SHIPPED, TYPED, FILE), "run_from", help=about)
    if source == TYPED:
        return _typed()
    return _file() if source == FILE else _shipped(first)


def _shipped(usual: int) -> MoleculeChoice:
    most = _shipped_count()
    first = st.number_input(
        f"Number of molecules (of {most:,})", 1, most, usual, key="run_first", bind="query-params", width=220,
        help="Their file is shuffled: its start is a sample of the whole, and the same for all runs.",
    )  # fmt: skip
    count = int(first or usual)
    return MoleculeChoice(words=("--sample-size", str(count)), count=count)


@st.cache_data(show_spinner=False)
def _shipped_count() -> int:
    return len(load_run_set())


# --- typed --------------------------------------------------------------------------------------------------------


def _typed() -> MoleculeChoice:
    text = st.text_area(
        "SMILES, one per line", FIRST_SMILES, key="run_smiles", height=130, bind="query-params",
        help=f"Up to {MOST_TYPED:,}. Text after a SMILES is ignored. Runs over the same molecules can be paired.",
    )  # fmt: skip
    lines, problems = _read(text or "")
    show_problems(problems)
    if problems or not lines:
        return MoleculeChoice(problem="Correct or remove the lines above." if problems else "Type at least one SMILES.")
    if len(lines) <= MOST_WORDS:
        return MoleculeChoice(positional=("--", *lines), count=len(lines))
    content = "".join(f"{line}\n" for line in lines).encode()
    return MoleculeChoice(words=(), inputs=(("typed.smi", content),), count=len(lines))


@st.cache_data(max_entries=50, show_spinner="Reading molecules …")
def _read(text: str) -> tuple[list[str], list[str]]:
    """The SMILES, and what is wrong with lines, each named by its number, as Markdown."""
    lines = [(number, words[0]) for number, line in enumerate(text.splitlines(), 1) if (words := line.split())]
    if len(lines) > MOST_TYPED:
        return [], [f"Limit: {MOST_TYPED:,} typed molecules. Use a file for more."]
    results = [(number, read_smiles(smiles)) for number, smiles in lines]
    problems = [f"Line {number}: {result}" for number, result in results if isinstance(result, str)]
    return [smiles for _, smiles in lines], problems


# --- a file -------------------------------------------------------------------------------------------------------


def _file() -> MoleculeChoice:
    given = st.file_uploader(
        "SMILES lines, CSV, TSV, SDF, JSON lines or Parquet, also as .gz", TYPES, key="run_file",
        help="It stays on this machine, and is deleted when the command has ended.",
    )  # fmt: skip
    left, right = st.columns(2)
    column = left.text_input(
        "Column of the SMILES", key="run_column", bind="query-params", max_chars=200, placeholder="found by its name"
    )
    limit = right.number_input(
        "Number of molecules", 1, 10_000_000, None, key="run_limit", bind="query-params", placeholder="all of them"
    )
    if given is None:
        return MoleculeChoice(problem="Choose a file of molecules.")
    most = None if limit is None else int(limit)
    try:
        usable, skipped = _looked_at(given.file_id, given.name, given, column.strip(), min(most or CHECKED, CHECKED))
    except DriftscopeError as error:
        return MoleculeChoice(problem=escape_markdown(str(error)))
    is_all = usable < CHECKED and (most is None or usable < most)
    count = usable if is_all else most
    _tell(usable, skipped, is_all=is_all or most == usable)
    words: tuple[str, ...] = ("--sample-size", str(most)) if most else ()
    words += (f"--smiles-column={column.strip()}",) if column.strip() else ()
    return MoleculeChoice(words=words, inputs=((given.name, given.getvalue()),), count=count)


@st.cache_data(max_entries=20, show_spinner="Looking at the file …")
def _looked_at(file_id: str, name: str, _given: st.runtime.uploaded_file_manager.UploadedFile,
               column: str, most: int) -> tuple[int, SkippedRows]:  # fmt: skip
    """How many of its first molecules can be used, and what was skipped before them."""
    with tempfile.TemporaryDirectory(prefix="driftscope-") as folder:
        path = Path(folder) / file_name(name)
        path.write_bytes(_given.getvalue())
        molecules, skipped = read_molecule_file(path, column=column or None, limit=most)
    return len(molecules), skipped


def _tell(usable: int, skipped: SkippedRows, *, is_all: bool) -> None:
    what = f"{usable:,} molecules can be used" if is_all else f"Looked at the first {usable:,} that can be used"
    if not skipped:
        st.caption(f":material/check: {what}.")
        return
    lines = [f"- line {line.line:,}: {escape_markdown(line.error)}" for line in skipped[:MOST_PROBLEMS]]
    lines += [f"- and {skipped.total - MOST_PROBLEMS:,} more"] if skipped.total > MOST_PROBLEMS else []
    st.warning("\n".join([f"{what}; {skipped.total:,} lines are left out:", "", *lines]), icon=":material/warning:")
