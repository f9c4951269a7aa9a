"""The Tokenizer lab's second section: drift of molecules' coordinates, by tokenizer and placeholder."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import streamlit as st

from engine.chem.enriched import encode
from engine.chem.molecule_files import read_molecule_file
from engine.chem.structure_files import is_sdf, read_molecules
from engine.file_forms import endings_of
from engine.questions.lab_set import MOST_MOLECULES
from engine.store.store import Store
from pages._kit.card import card
from pages._kit.choices import one_of
from pages._kit.errors import escaped
from pages._kit.sections import fold, is_unfolded
from pages._kit.uploads import uploads
from pages._tokenizer_lab.choices import chosen_folder, folder_input, folder_waits

INPUTS, SHIPPED = "lab_inputs_open", "Shipped set"
EXAMPLE = "CC(=O)Oc1ccccc1C(=O)O\nCn1c(=O)c2c(ncn2C)n(C)c1=O"


def show() -> None:
    answer = st.container()
    is_open = folder_waits() or is_unfolded(INPUTS, st.query_params.get("set", SHIPPED) != SHIPPED)
    with fold("Molecules, another tokenizer", INPUTS, is_open, ":material/edit:"):
        source_column, rest = st.columns(2, gap="medium")
        with source_column:
            source = one_of("Molecules", [SHIPPED, *SOURCES], "set")
            folder_input()
        with rest:
            molecules = SOURCES[source]() if source in SOURCES else []
    with answer:
        if source != SHIPPED and not molecules:
            st.info("No molecules: choose some below.", icon=":material/info:")
        else:
            of_set = {"count": None, "tag": None} if molecules else {}
            card("lab_set", Store.open(), molecules, {**of_set, "tokenizer_folder": chosen_folder()})


def _pasted() -> list[str]:
    text = st.text_area("SMILES, one per line", EXAMPLE, key="smiles_set", bind="query-params")
    smiles = [line.split()[0] for line in text.splitlines() if line.strip()]
    if len(smiles) > MOST_MOLECULES:
        st.warning(f"Limit: {MOST_MOLECULES} molecules; the first of {len(smiles):,} are used.", icon=":material/info:")
    return smiles[:MOST_MOLECULES]


def _uploaded() -> list[str]:
    """SMILES, or the texts of molecules with coordinates."""
    about = f"Coordinates in an SDF are used as they are. At most {MOST_MOLECULES} molecules are used."
    files = uploads("SDF with coordinates, or SMILES", endings_of("molecules"), key="set_file", help=about)
    if not files:
        return []
    (file,) = files
    with tempfile.TemporaryDirectory() as folder:
        # The name is the visitor's: only endings that the reader knows are taken from it.
        known = [f".{ending}" for ending in endings_of("molecules")]
        endings = "".join(suffix for suffix in Path(file.name.lower()).suffixes[-2:] if suffix in known)
        path = Path(folder) / f"upload{endings}"
        path.write_bytes(file.getvalue())
        if is_sdf(path):
            return [encode(mol).text for mol in read_molecules(path)[:MOST_MOLECULES]]
        molecules, skipped = read_molecule_file(path, limit=MOST_MOLECULES)
    if skipped:
        first = escaped(f"line {skipped[0].line:,}: {skipped[0].error}")
        st.warning(f"{len(skipped):,} rows were left out. The first is {first}.", icon=":material/warning:")
    return [molecule.smiles for molecule in molecules]


SOURCES: dict[str, Callable[[], list[str]]] = {"Pasted SMILES": _pasted, "A file": _uploaded}
