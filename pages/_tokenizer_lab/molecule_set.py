"""The Tokenizer lab's second section: drift of a molecule set's reference conformers, by tokenizer and placeholder."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import streamlit as st
from rdkit import Chem

from engine.chem.enriched import encode
from engine.chem.molecule_files import read_molecule_file
from engine.chem.molecule_sets import load_molecule_set
from engine.chem.structure_files import read_molecules
from engine.errors import DriftscopeError
from engine.lp_records import DEFAULT_PLACEHOLDER, SHORT_PLACEHOLDER
from engine.questions.lab_set import CHARTS, COLUMNS, FORM_HELP, FORMS, MOST_MOLECULES, set_tables, set_words
from engine.questions.question import Tables
from engine.records import FIXED4, BinFormat, NumberFormat
from engine.text.placeholder import reference_text
from engine.text.template import GUESSED_PLACEHOLDER
from engine.text.tokenizers import load_tokenizer
from pages._kit.card import show_table
from pages._kit.chart import figure_of
from pages._shared.choices import one_of
from pages._shared.errors import escaped
from pages._shared.sections import fold, is_unfolded
from pages._shared.table_files import table_buttons
from pages._shared.uploads import uploads
from pages._shared.words import unbroken
from pages._tokenizer_lab.choices import PLACEHOLDERS, folder_input, folder_waits, tokenizers

FITTED_HELP = (
    "The fitted placeholder of a tokenizer is the one of the lowest cost on these molecules. Cost, per block on "
    "average: *junk weight* times the tokens left over plus *cut weight* times the tokens missing."
)
NO_JUNK = (
    f"All decimals are written here, so no number is shorter than {DEFAULT_PLACEHOLDER}. A model that drops trailing "
    "zeros, as demo-qwen and demo-llama do, leaves positions over, and so writes junk: choose “Trailing zeros dropped”."
)
BINS_WORDS = "Numbers of bins are all of one width and cannot drift: the fitted placeholder fits every block."
INPUTS, SHIPPED = "lab_inputs_open", "Shipped set"
REFERENCE, FILE = "reference conformers (ETKDGv3, seed 0, principal axes)", "the file's own coordinates"
EXAMPLE = "CC(=O)Oc1ccccc1C(=O)O\nCn1c(=O)c2c(ncn2C)n(C)c1=O"
_ENDINGS = (".sdf", ".mol", ".smi", ".csv", ".tsv", ".txt", ".gz")


def show() -> None:
    answer = st.container()
    form_name = one_of("Number format", list(FORMS), "decimals", help=FORM_HELP)
    form = FORMS[form_name]
    is_open = folder_waits() or is_unfolded(INPUTS, st.query_params.get("set", SHIPPED) != SHIPPED)
    with fold("Molecules, placeholders, another tokenizer", INPUTS, is_open, ":material/edit:"):
        molecules = _molecules()
        placeholders = _placeholders()
    with answer:
        texts = _texts(molecules, form)
        if not texts:
            if not molecules:  # next to what was left out a hint would be one thing too many
                st.info("No molecules: choose some below.", icon=":material/info:")
            return
        weights = (st.session_state["junk_weight"], st.session_state["cut_weight"])
        names = tuple(tokenizer.name for tokenizer in tokenizers())
        tables = _measured(tuple(texts), names, tuple(placeholders), weights, form_name)
        rows, words = tables["main"].to_pylist(), set_words(tables)
        st.markdown(unbroken(escaped(words)))
        default = [row for row in rows if row["placeholder"] == DEFAULT_PLACEHOLDER]
        if form is FIXED4 and default and not any(row["junk_prone"] for row in default):
            st.caption(unbroken(escaped(NO_JUNK)))
    across = len({row["placeholder"] for row in rows if row["name"] == rows[0]["name"]})
    st.plotly_chart(
        figure_of(replace(CHARTS[0], across=across), tables["bars"].to_pylist(), COLUMNS, [], {}),
        theme=None,
        alt=f"Drift of blocks. {words}",
        config={"displaylogo": False, "modeBarButtons": [["toImage"]]},
    )
    show_table("set", tables["main"], COLUMNS)
    source = FILE if isinstance(molecules[0], Chem.Mol) else REFERENCE
    floor = f"Measured on {source}. This format alone puts a conformer {form.floor_ang:g} Å (RMSD) from itself."
    st.caption(unbroken(escaped(floor)), help=BINS_WORDS if isinstance(form, BinFormat) else None)
    with st.container(horizontal=True):
        table_buttons(tables["bars"], "drift", key="bars", subject="Every bar")


# --- input --------------------------------------------------------------------------------------------------------


def _molecules() -> list[str] | list[Chem.Mol]:
    """SMILES to embed, or molecules with coordinates."""
    source_column, rest = st.columns(2, gap="medium")
    with source_column:
        source = one_of("Molecules", list(SOURCES), "set")
    with rest:
        return SOURCES[source]()


def _shipped() -> list[str]:
    count_column, tag_column = st.columns(2)
    count = count_column.slider(
        "Number of molecules", 10, MOST_MOLECULES, 40, step=10, key="count", bind="query-params"
    )
    tag = tag_column.selectbox(
        "Category",
        sorted({tag for entry in load_molecule_set() for tag in entry.tags}),
        index=None,
        key="tag",
        placeholder="any",
        bind="query-params",
    )
    return [entry.smiles for entry in load_molecule_set(limit=count, tag=tag)]


def _pasted() -> list[str]:
    text = st.text_area("SMILES, one per line", EXAMPLE, key="smiles_set", bind="query-params")
    smiles = [line.split()[0] for line in text.splitlines() if line.strip()]
    if len(smiles) > MOST_MOLECULES:
        st.warning(f"Limit: {MOST_MOLECULES} molecules; the first of {len(smiles):,} are used.", icon=":material/info:")
    return smiles[:MOST_MOLECULES]


def _uploaded() -> list[str] | list[Chem.Mol]:
    types = ("sdf", "mol", "smi", "csv", "tsv", "txt", "gz")
    about = f"Coordinates in an SDF are used as they are. At most {MOST_MOLECULES} molecules are used."
    files = uploads("SDF with coordinates, or SMILES", types, key="set_file", help=about)
    if not files:
        return []
    (file,) = files
    with tempfile.TemporaryDirectory() as folder:
        # The name is the visitor's: only endings that the reader knows are taken from it.
        endings = "".join(suffix for suffix in Path(file.name).suffixes[-2:] if suffix.lower() in _ENDINGS)
        path = Path(folder) / f"upload{endings.lower()}"
        path.write_bytes(file.getvalue())
        if {".sdf", ".mol"} & {suffix.lower() for suffix in path.suffixes}:
            return read_molecules(path)[:MOST_MOLECULES]
        molecules, skipped = read_molecule_file(path, limit=MOST_MOLECULES)
    if skipped:
        first = escaped(f"line {skipped[0].line:,}: {skipped[0].error}")
        st.warning(f"{len(skipped):,} rows were left out. The first is {first}.", icon=":material/warning:")
    return [molecule.smiles for molecule in molecules]


SOURCES: dict[str, Callable[[], list[str] | list[Chem.Mol]]] = {
    SHIPPED: _shipped,
    "Pasted SMILES": _pasted,
    "A file": _uploaded,
}


def _placeholders() -> list[str]:
    chosen = st.multiselect(
        "Placeholders",
        PLACEHOLDERS,
        default=[DEFAULT_PLACEHOLDER, SHORT_PLACEHOLDER, GUESSED_PLACEHOLDER],
        key="placeholders",
        accept_new_options=True,
        max_selections=6,
        bind="query-params",
        help="Any text without brackets. The fitted placeholder of each tokenizer is always shown too.",
    )
    columns = st.columns(2)
    columns[0].slider("Junk weight", 0.0, 5.0, 1.0, 0.5, key="junk_weight", bind="query-params", help=FITTED_HELP)
    columns[1].slider("Cut weight", 0.5, 5.0, 1.0, 0.5, key="cut_weight", bind="query-params", help=FITTED_HELP)
    folder_input()
    return chosen


# --- measuring ----------------------------------------------------------------------------------------------------


def _texts(molecules: list[str] | list[Chem.Mol], form: NumberFormat) -> list[str]:
    """Texts molecule by molecule; embedded ones are cached, so that an interrupted run resumes."""
    texts, errors = [], []
    words = (
        "Reading coordinates" if molecules and not isinstance(molecules[0], str) else "Embedding reference conformers"
    )
    bar = st.progress(0.0, text=f"{words} …")
    for done, molecule in enumerate(molecules, start=1):
        try:
            if isinstance(molecule, str):
                texts.append(reference_text(molecule, form))
            else:
                texts.append(encode(molecule, form).text)
        except DriftscopeError as error:
            errors.append(str(error))
        bar.progress(done / len(molecules), text=f"{words}: {done} of {len(molecules)}")
    bar.empty()
    if errors:
        words = f"{len(errors)} of {len(molecules)} molecules were left out"
        with st.expander(words, not texts, icon=":material/warning:"):
            st.markdown("\n".join(f"- {escaped(reason)}" for reason in errors))
    return texts


@st.cache_data(max_entries=50, show_spinner="Counting tokens …")
def _measured(
    texts: tuple[str, ...],
    names: tuple[str, ...],
    placeholders: tuple[str, ...],
    weights: tuple[float, float],
    form: str,
) -> Tables:
    return set_tables(texts, [load_tokenizer(name) for name in names], placeholders, weights, FORMS[form])
