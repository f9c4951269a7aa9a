"""Lists of SMILES as people write them: headers, separators, comments, quotes; the names come along."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.chem.molecule_files import FileEntry, read_entries

SMILES = ["CCO", "C[C@H](N)C(=O)O", "F/C=C/F", "CC(=O)[O-].[NH4+]", "N->[Cu+2]", "c1cc[nH]c1", "ClCBr"]


def entries_of(folder: Path, file: str, text: str) -> list[tuple[str, str]]:
    path = folder / file
    path.write_bytes(gzip.compress(text.encode()) if file.endswith(".gz") else text.encode())
    entries = list(read_entries(path))
    assert all(isinstance(entry, FileEntry) for entry in entries), entries
    return [(entry.smiles, entry.name) for entry in entries if isinstance(entry, FileEntry)]


LISTS = {
    "smi": ("a.smi", "CCO ethanol\nC\n", [("CCO", "ethanol"), ("C", "")]),
    "name with spaces": ("a.smi", "CCO  ethyl alcohol \n", [("CCO", "ethyl alcohol")]),
    "comments and blanks": ("a.smi", "# mine\n\nCCO\n  \n#C\nC x", [("CCO", ""), ("C", "x")]),
    "triple bond is no comment": ("a.smi", "C#N\n", [("C#N", "")]),
    "header of words": ("a.smi", "SMILES Name\nCCO e\n", [("CCO", "e")]),
    "header the other way": ("a.txt", "name\tsmiles\ne f\tCCO\n", [("CCO", "e f")]),
    "commas in txt": ("a.txt", "CCO,e f\nC\n", [("CCO", "e f"), ("C", "")]),
    "csv": ("a.csv", 'id,canonical_smiles,name\n7,CCO,"a, b"\n8,C,\n', [("CCO", "a, b"), ("C", "")]),
    "csv prefers the plain column": ("a.csv", "isomeric_smiles,SMILES\nC,CC\n", [("CC", "")]),
    "tabs": ("a.txt", "CCO\te f\n", [("CCO", "e f")]),
    "csv without header": ("a.csv", "CCO,e\nC,m\n", [("CCO", "e"), ("C", "m")]),
    "csv with semicolons": ("a.csv", "Smiles;Compound ID\nCCO;e,f\n", [("CCO", "e,f")]),
    "csv of one column": ("a.csv", "smiles\nCCO\n", [("CCO", "")]),
    "tsv": ("a.tsv", 'name\tsmiles\n"e"\tCCO\n', [("CCO", "e")]),
    "quotes over lines": ("a.csv", 'smiles,name\nCCO,"a\nb"\nC,c\n', [("CCO", "a\nb"), ("C", "c")]),
    "mark and carriage returns": ("a.smi", "\ufeffCCO e\r\nC\r\n", [("CCO", "e"), ("C", "")]),
    "gz": ("a.csv.gz", "smiles,name\nCCO,e\n", [("CCO", "e")]),
    "not a valid molecule, not our business": ("a.smi", "CCO\nC(C)(C)(C)(C)C\n", [("CCO", ""), ("C(C)(C)(C)(C)C", "")]),
}


@pytest.mark.parametrize("name", LISTS)
def test_lists_of_smiles(tmp_path: Path, name: str) -> None:
    file, text, rows = LISTS[name]
    assert entries_of(tmp_path, file, text) == rows


@given(rows=st.lists(st.tuples(st.sampled_from(SMILES), st.text(alphabet="abc é,;\"'#\t", max_size=12)), min_size=1))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_csv_round_trip(tmp_path: Path, rows: list[tuple[str, str]]) -> None:
    quoted = ['{},"{}"'.format(smiles, name.replace('"', '""')) for smiles, name in rows]
    text = "\n".join(["smiles,name", *quoted])
    assert entries_of(tmp_path, "a.csv", text) == [(smiles, name.strip()) for smiles, name in rows]
