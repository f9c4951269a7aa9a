"""Files of molecules: every format gives the same list, damage is skipped or named on one line, nothing is held."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import re
import tracemalloc
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from pyarrow import parquet
from rdkit import Chem

from engine.chem import molecule_files
from engine.chem.molecule_files import MoleculeList, heavy_atoms_of, read_molecule_file, read_rows, smiles_of
from engine.chem.smiles import parse_smiles, parse_written
from engine.errors import FileError
from engine.records import Molecule
from tests.strategies import MOLECULES, damaged, seeds

BLOCK = Chem.MolToMolBlock(Chem.MolFromSmiles("CCO"))
RECORD = f"ethanol{BLOCK}$$$$\n"


def written(folder: Path, content: str | bytes, name: str) -> Path:
    path = folder / name
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(data) if name.lower().endswith(".gz") else data)
    return path


def rows_of(path: Path, column: str | None = None) -> list[tuple[int, str]]:
    return [(line, str(cell)) for line, cell in read_rows(path, column)]


def as_table(smiles: Sequence[str], delimiter: str) -> bytes:
    text, rows = io.StringIO(newline=""), [(7, smi, 'a\n,;"b"') for smi in smiles]
    csv.writer(text, delimiter=delimiter).writerows([("id", "SMILES", "name"), *rows])
    return text.getvalue().encode("utf-8-sig")


def parquet_bytes(table: pa.Table, **options: object) -> bytes:
    buffer = io.BytesIO()
    parquet.write_table(table, buffer, **options)
    return buffer.getvalue()


WRITERS: dict[str, Callable[[Sequence[str]], bytes]] = {
    ".smi": lambda smiles: "".join(f"{smi} a name\n" for smi in smiles).encode(),
    ".txt": lambda smiles: ("smiles\n" + "".join(f"{smi}\té的\r\n" for smi in smiles)).encode(),
    ".csv": lambda smiles: as_table(smiles, ","),
    ".tsv": lambda smiles: as_table(smiles, "\t"),
    "": lambda smiles: as_table(smiles, ";"),
    ".jsonl": lambda smiles: "".join(json.dumps({"name": 7, "smiles": smi}) + "\n" for smi in smiles).encode(),
    ".parquet": lambda smiles: parquet_bytes(pa.table({"smiles": pa.array(smiles, "string")})),
}


@pytest.mark.parametrize("suffix", [*WRITERS, ".smi.gz", ".csv.gz", ".SDF.GZ", ".mol"])
def test_what_is_written_is_read_in_every_format(tmp_path: Path, suffix: str) -> None:
    whole = {".SDF.GZ": RECORD * 2, ".mol": BLOCK}.get(suffix) or WRITERS[suffix.removesuffix(".gz")](MOLECULES)
    molecules, skipped = read_molecule_file(written(tmp_path, whole, f"list{suffix}"))
    expected = {".SDF.GZ": ["CCO", "CCO"], ".mol": ["CCO"]}.get(suffix, list(MOLECULES))
    assert [molecule.source for molecule in molecules] == expected and skipped == []


TABLES: dict[str, tuple[str, str | bytes, list[tuple[int, str]]]] = {
    "header that stands elsewhere": ("a.txt", "name\tsmiles\ne f\tCCO\n", [(2, "CCO")]),
    "commas in a list": ("a.smi", "CCO,e f\nC\n", [(1, "CCO"), (2, "C")]),
    "semicolons around commas": ("a.csv", "id;smiles;name\n7;C;a, b\n", [(2, "C")]),
    "Excel's separator": ("a.csv", "sep=;\nid;smiles\n7;C\n", [(3, "C")]),
    "Excel's separator, in a list": ("a.txt", "\ufeffsep=,\r\nsmiles,id\r\nC,7\r\n", [(3, "C")]),
    "the only one that ends so": ("a.csv", "id,Ligand SMILES\n7,C\n", [(2, "C")]),
    "a row over lines": ("a.csv", 'smiles,name\nCCO,"a\nb"\nC,"a ""b"""\n', [(2, "CCO"), (4, "C")]),
    "a long cell beside": ("a.csv", f"smiles,image\nC,{'x' * 200_000}\nCC,\n", [(2, "C"), (3, "CC")]),
}  # fmt: skip


@pytest.mark.parametrize("case", TABLES)
def test_files_as_they_are_found(tmp_path: Path, case: str) -> None:
    name, content, expected = TABLES[case]
    assert rows_of(written(tmp_path, content, name)) == expected


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.parquet"])
def test_a_column_can_be_named(tmp_path: Path, name: str) -> None:
    table = {"smiles": ["C"], "Product SMILES": ["CC"], "name": ["CCC"]}
    contents: dict[str, str | bytes] = {
        "a.jsonl": json.dumps({key: cells[0] for key, cells in table.items()}),
        "a.parquet": parquet_bytes(pa.table(table)),
    }
    path = written(tmp_path, contents.get(name, "smiles,Product SMILES,name\nC,CC,CCC\n"), name)
    for column, smiles in (("product_smiles", "CC"), ("Product SMILES", "CC"), ("name", "CCC")):
        assert [cell for _, cell in rows_of(path, column)] == [smiles]
    with pytest.raises(FileError, match=r"has no column 'produkt': .*'Product SMILES'"):
        rows_of(path, "produkt")


SKIPPED: dict[str, tuple[str, str, list[tuple[int, str]]]] = {
    "an empty cell": ("a.csv", "id,smiles\n7,C\n8,\n9\n", [(3, "has no SMILES"), (4, "has no SMILES")]),
    "no molecule": ("a.smi", "C\nC1CC\nhello\n", [(2, "read: unclosed ring"), (3, "it is no SMILES")]),
    "no enriched form": ("a.smi", "C\n[C]\n", [(2, "bracket atom without hydrogens")]),
    "deep json": ("a.jsonl", f'{{"smiles": "C"}}\n{"[" * 100_000}\n', [(2, "no JSON object such as")]),
    "broken records": (
        "a.sdf",
        f"{RECORD}$$$$\nbad\n\n\nno counts\nM  END\n$$$$\n{RECORD.replace(' O ', ' Qq')}{RECORD}",
        [(2, "record 2 of 'a.sdf' cannot"), (3, "record 3 of 'a.sdf' cannot"), (4, "record 4 of 'a.sdf' .*Qq")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", SKIPPED)
def test_what_cannot_be_used_is_skipped_with_its_reason(tmp_path: Path, case: str) -> None:
    name, content, expected = SKIPPED[case]
    molecules, skipped = read_molecule_file(written(tmp_path, content, name))
    assert len(molecules) in (1, 2)
    assert [row.line for row in skipped] == [line for line, _ in expected]
    for row, (_, reason) in zip(skipped, expected, strict=True):
        assert re.search(reason, row.error) and row.error.isprintable()


def test_the_limit_counts_what_can_be_used_and_what_follows_is_not_read(tmp_path: Path) -> None:
    path = written(tmp_path, b"smiles,name\n,a\nC,b\nC1CC,c\nCC,d\nnonsense,e\nCCC,f\n\0\n", "a.csv")
    molecules, skipped = read_molecule_file(path, limit=2)
    assert [molecule.smiles for molecule in molecules] == ["C", "CC"]
    assert [row.line for row in skipped] == [2, 4]
    with pytest.raises(FileError, match="line 8 is binary"):
        read_molecule_file(path, limit=99)


@pytest.mark.parametrize("name", ["a.smi", "a.csv", "a.jsonl", "a.sdf"])
def test_a_long_file_is_not_held(tmp_path: Path, name: str) -> None:
    rows = 2_000 if name == "a.sdf" else 20_000
    line = {"a.jsonl": '{"smiles": "CCO"}\n', "a.sdf": RECORD}.get(name, "CCO,ethanol\n")
    path = written(tmp_path, line * rows, name)
    tracemalloc.start()
    assert sum(1 for _ in read_rows(path)) == rows
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000


DAMAGED: dict[str, tuple[str, str | bytes, str]] = {
    "empty": ("a.smi", "", "no molecule in 'a.smi'"),
    "no column": ("a.csv", "id,smile\n7,C\n", "no column of SMILES: there is 'id', 'smile'"),
    "several columns": ("a.csv", "id,a_smiles,b_smiles\n", "several columns of SMILES: there is 'a_smiles', 'b_s"),
    "a json document": ("a.json", '[\n {"smiles": "C"}\n]\n', "line 1 of 'a.json' is no JSON object such as"),
    "an open quote that goes on": ("a.csv", 'smiles\n"' + "C\n" * 600_000, "line 2 of 'a.csv' is no table row"),
    "binary": ("a.smi", bytes(range(256)), "'a.smi' is no text: line 1 is binary"),
    "a huge line": ("a.smi", "C" * 1_000_001, "a line 1 of over 1,000,000 characters"),
    "a cut record": ("a.sdf", RECORD + RECORD[:90], "record 2 of 'a.sdf' cannot be read: it is cut short"),
    "plain where gz is said": ("a.smi", gzip.compress(b"CCO\n"), "'a.smi' is no text"),
    "a torn gz": ("torn.csv", gzip.compress(os.urandom(9_000).hex(" ").encode())[:-2_000], "'torn.csv' is no text"),
    "a cut parquet": ("a.parquet", WRITERS[".parquet"](["C"])[:-9], "'a.parquet' is no whole Parquet file: "),
    "failed generations": (
        "failed_step_7.txt",
        "Failed Generations Report - Step 7\nTotal failures: 1\n====\nCC=O | no_eos | [SMILES]CC=O[/SMILES]\n",
        "'failed_step_7.txt' is failed generations of a validation. `import` reads it",
    ),
    "failures behind another header": (
        "failed_step_8.txt",
        "Run of Monday, 2 failures\n====\n\n--- Failure #1 ---\nSMILES: C=O\n",
        "'failed_step_8.txt' is failed generations of a validation. `import` reads it",
    ),
    "completions of TRL": (
        "completions_00001.parquet",
        parquet_bytes(pa.table({"step": [1], "prompt": ["C"], "completion": ["C"], "advantage": [0.5]})),
        "'completions_00001.parquet' is completions that TRL logs. `import` reads it",
    ),
    "damaged text in parquet": (
        "a.parquet",
        parquet_bytes(pa.table({"smiles": ["ZZZZ"]}), use_dictionary=False, compression="none", write_statistics=False)
        .replace(b"ZZZZ", b"C\xff\xfeC"),
        "'a.parquet' is no whole Parquet file: 'utf",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", DAMAGED)
def test_damage_is_named_on_one_line(tmp_path: Path, case: str) -> None:
    name, content, message = DAMAGED[case]
    with pytest.raises(FileError) as caught:
        read_molecule_file(written(tmp_path, content, name))
    assert message in str(caught.value)
    assert str(caught.value).isprintable() and len(str(caught.value)) < 600


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".sdf"])
@given(seed=seeds())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_damage_gives_molecules_or_the_named_error(tmp_path: Path, suffix: str, seed: int) -> None:
    whole = RECORD.encode() * 2 if suffix == ".sdf" else WRITERS[suffix](["CCO", "c1ccccc1", "[Na+].[Cl-]"])
    encoding = "latin-1" if suffix == ".parquet" else "utf-8"
    path = written(tmp_path, damaged(whole.decode("latin-1"), seed).encode(encoding, "replace"), f"list{suffix}")
    try:
        molecules, skipped = read_molecule_file(path)
        assert molecules
        messages = [row.error for row in skipped]
    except FileError as error:
        messages = [str(error)]
    assert all(message.isprintable() for message in messages)


# --- long lists: the same as parsed ones, and not held ----------------------------------------------------------------

TEXTS = ["OCC", "C1CC1N", "OCC", "c1ccccc1", "N[C@@H](C)C(=O)O"]


@pytest.mark.parametrize("parse", [parse_smiles, parse_written])
def test_it_is_as_a_list_of_parsed_molecules(parse: Callable[[str], Molecule]) -> None:
    molecules, expected = MoleculeList(parse, TEXTS), [parse(text) for text in TEXTS]
    assert list(molecules) == expected
    assert molecules[1:3] == expected[1:3]
    assert (molecules[-1], len(molecules)) == (expected[-1], 5)
    assert list(smiles_of(molecules)) == smiles_of(expected) == [molecule.smiles for molecule in expected]
    assert list(heavy_atoms_of(molecules)) == heavy_atoms_of(expected) == [3, 4, 3, 6, 6]


def test_a_file_of_many_molecules_is_not_held_as_parsed_molecules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A million lines took 21 GB."""
    monkeypatch.setattr(molecule_files, "KEPT", 2)
    parsed = Counter[str]()

    def parse(text: str) -> Molecule:
        parsed[text] += 1
        return parse_smiles(text)

    path = tmp_path / "many.smi"
    path.write_text("\n".join("C" * length for length in range(1, 11)))
    seen: list[int] = []
    molecules, _ = read_molecule_file(path, parse=parse, progress=seen.append)
    assert seen == list(range(1, 11)) and list(molecules.heavy_atoms) == seen
    assert [molecule.smiles for molecule in molecules] == list(smiles_of(molecules))
    assert set(parsed.values()) == {2}, "once when it was read, once when it was asked for"


def test_what_is_repeated_is_parsed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """100,000 rows of 2,990 molecules took 100 s."""
    monkeypatch.setattr(molecule_files, "KEPT", 2)
    parsed = Counter[str]()

    def parse(text: str) -> Molecule:
        parsed[text] += 1
        return parse_smiles(text)

    (tmp_path / "many.smi").write_text("OCC\nC1C\nCO\nN\nCl\n" * 200)
    molecules, skipped = read_molecule_file(tmp_path / "many.smi", parse=parse)
    assert {text: parsed[text] for text in ("OCC", "CO", "N", "Cl")} == dict.fromkeys(("OCC", "CO", "N", "Cl"), 1)
    assert (list(smiles_of(molecules)), len(skipped)) == (["CCO", "CO", "N", "Cl"] * 200, 200)
    assert list(heavy_atoms_of(molecules)) == [3, 2, 1, 1] * 200
    assert [molecule.source for molecule in molecules[:4]] == ["OCC", "CO", "N", "Cl"]


def test_a_file_that_is_of_no_use_is_not_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """20 million lines of 77 kB as gz held a page for ever."""
    monkeypatch.setattr(molecule_files, "MOST_USELESS", 20)
    file = tmp_path / "a.smi"
    file.write_text("CCO\n" + 1_000 * "C1C\n")
    with pytest.raises(FileError, match=r"21 of the first 22 molecules of 'a\.smi' cannot be used.* at 2"):
        read_molecule_file(file)
    file.write_text(10 * "CCO\n" + 85 * "C1C\n")
    molecules, skipped = read_molecule_file(file)
    assert (len(molecules), len(skipped)) == (10, 85)
