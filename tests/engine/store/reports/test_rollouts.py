"""Rollouts of a training as runs: TRL's completions, both layouts of a validation's failures, the LP summary."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.errors import DriftscopeError, FileError
from engine.file_forms import file_form
from engine.questions import ask
from engine.records import BinFormat
from engine.store.files import ASIDE
from engine.store.reports.rollouts import import_completions, import_failures, import_summary
from engine.store.schema import RUN, SAMPLES
from engine.store.staging import write_whole
from engine.store.store import Store
from tests.engine.store.reports.test_bins import UNIFORM
from tests.engine.store.reports.test_importing import FAILED, FAILED_LINES, SUMMARY
from tests.engine.store.stored_runs import assert_whole, store_at

BINS = BinFormat(edges=(-1.5, -0.5, 0.5, 1.5), mode="uniform")
ASKED = "[SMILES]CC=O[/SMILES]"
ANSWER = "[CONFORMER][C]<-1.45,0.01,0.0>[C]<-0.11,-0.45,0.0>=[O]<0.71,0.43,0.1>[/CONFORMER]"
EXAMPLE = f"[SMILES]CCO[/SMILES]{ANSWER}"
TRL: dict[str, list[Any]] = {
    "step": [20, 10, 10, 10],
    "prompt": [ASKED, ASKED, "[SMILES]OCC[/SMILES]", ASKED],
    "completion": [ANSWER, f"{ANSWER}<|endoftext|>", "nothing", ANSWER],
    "rmsd": [0.5, 1.0, float("nan"), None],
    "format": [1, 1, 0, 1],
    "advantage": [0.0, 0.5, -0.5, 0.0],
}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return store_at(tmp_path / "store")


def trl(folder: Path, **columns: Any) -> Path:
    path = folder / "completions_00010.parquet"
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({**TRL, **columns}), path)
    return path


def texts(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_each_step_is_a_run_with_its_rewards(store: Store, tmp_path: Path) -> None:
    path = trl(tmp_path / "run7" / "completions")
    assert file_form(path, "run").name == "completions"
    first, last = import_completions(store, path, warn=pytest.fail)
    columns = ("training", "training_step", "model_step", "label", "samples", "molecules", "lp")
    assert [first.row[name] for name in columns] == ["run7", 10, "10", "run7, step 10", 3, 2, "none"]
    assert (last.row["training_step"], last.row["samples"], last.row.get("passes")) == (20, 1, None)
    samples = store.rows(f"SELECT generation, smiles, text, passed FROM samples WHERE run_id = '{first.id}'")
    assert [tuple(row.values()) for row in samples] == [
        (0, "CC=O", f"{ANSWER}<|endoftext|>", None),
        (0, "OCC", "nothing", None),  # as its prompt has it, until it is judged
        (1, "CC=O", ANSWER, None),
    ]
    rollouts = store.rows(f"SELECT rewards, advantage FROM rollouts WHERE run_id = '{first.id}'")
    values = [[reward["value"] for reward in row["rewards"]] for row in rollouts]
    assert values == [[1.0, 1.0], [None, 0.0], [None, 1.0]]
    assert [reward["name"] for reward in rollouts[0]["rewards"]] == ["rmsd", "format"]
    assert [row["advantage"] for row in rollouts] == [0.5, -0.5, 0.0]
    assert [entry.id for entry in import_completions(store, path, warn=pytest.fail)] == [first.id, last.id]
    answer = ask(Store.open(store.home.where), "drift_molecules", [first.id]).answer
    assert answer.startswith("3 samples, whose texts are not read yet: `judge` reads them.")
    assert_whole(store)


PROMPTS = {
    "examples": ([f"{EXAMPLE}{ASKED}"] * 4, "CC=O", f"{EXAMPLE}{ASKED}"),
    "without tags": (["CC=O"] * 4, "CC=O", None),
    "chat": ([[{"role": "system", "content": "x"}, {"role": "user", "content": ASKED}]] * 4, "CC=O", None),
}


@pytest.mark.parametrize("case", PROMPTS)
def test_prompts_of_other_kinds(store: Store, tmp_path: Path, case: str) -> None:
    prompts, smiles, before = PROMPTS[case]
    import_completions(store, trl(tmp_path, prompt=prompts), label="mine", warn=pytest.fail)
    rows = store.rows("SELECT smiles, extra FROM samples")
    assert {row["smiles"] for row in rows} == {smiles}
    assert {json.loads(row["extra"] or "{}").get("text_before") for row in rows} == {before}
    assert {entry.row["training"] for entry in store.listing().entries} == {"mine"}


CHAT = [[{"role": "user", "content": ASKED}]] * 4
KINDS = {
    "view": pa.array(TRL["prompt"], pa.string_view()),
    "dictionary": pa.array(TRL["prompt"]).dictionary_encode(),
    "large chats": pa.array(CHAT, pa.large_list(pa.struct({"role": pa.string(), "content": pa.large_string()}))),
}


@pytest.mark.parametrize("kind", ["pandas", *KINDS])
def test_texts_of_other_writers(store: Store, tmp_path: Path, kind: str) -> None:
    path = trl(tmp_path, **({"prompt": KINDS[kind]} if kind in KINDS else {}))
    if kind == "pandas":
        pd.DataFrame({**TRL, "completion": pd.Categorical(TRL["completion"])}).to_parquet(path)
    import_completions(store, path, warn=pytest.fail)
    smiles = ["CC=O"] * 4 if kind == "large chats" else ["CC=O", "CC=O", "CC=O", "OCC"]
    rows = store.rows("SELECT smiles, text FROM samples ORDER BY smiles, text")
    assert [row["smiles"] for row in rows] == smiles
    assert sorted(row["text"] for row in rows) == sorted(TRL["completion"])


def test_a_file_without_rewards_is_said_and_one_of_bins_needs_them(store: Store, tmp_path: Path) -> None:
    warned: list[str] = []
    few = {name: TRL[name] for name in ("step", "prompt", "completion")}
    pq.write_table(pa.table(few), path := tmp_path / "completions_00001.parquet")
    (entry, _) = import_completions(store, path, warn=warned.append)
    assert warned == ["'completions_00001.parquet' has no column of a reward"]
    assert store.rows(f"SELECT DISTINCT rewards FROM rollouts WHERE run_id = '{entry.id}'") == [{"rewards": None}]
    binned = trl(tmp_path, completion=["[CONFORMER][C]001002003;[C]002002002;=[O]003001002;[/CONFORMER]"] * 4)
    with pytest.raises(FileError, match="4 of the first 4 texts"):
        import_completions(store, binned, warn=pytest.fail)
    (entry, _) = import_completions(store, binned, bins=BINS, warn=pytest.fail)
    assert entry.sheet["form"]["mode"] == "uniform"
    others = BinFormat(edges=(-3.0, -1.0, 1.0, 3.0), mode="uniform")
    with pytest.raises(FileError, match=rf"'completions_00010.parquet' is imported as {entry.id}, with other bins"):
        import_completions(store, binned, bins=others, warn=pytest.fail)
    codes = trl(tmp_path, completion=["[CONFORMER][C]<123>(<45>[O]<678>)<90>[/CONFORMER]"] * 4)
    with pytest.raises(FileError, match=r"'completions_00010.parquet': its texts do not fit the bins as given: "):
        import_completions(store, codes, bins=UNIFORM, warn=pytest.fail)


DAMAGED = {
    "no prompt": (pa.table({"step": [1], "prompt": ["C"], "completions": ["C"]}), "has no column completion"),
    "no rows": (pa.table({"step": pa.array([], pa.int64()), "prompt": [], "completion": []}), "has no row"),
    "steps": (pa.table({"step": ["a"], "prompt": ["C"], "completion": ["C"]}), "has steps that are no whole numbers"),
    "large steps": (pa.table({"step": pa.array([2**63], pa.uint64()), "prompt": ["C"], "completion": ["C"]}), "over"),
    "advantages": (
        pa.table({"step": [1], "prompt": ["C"], "completion": ["C"], "advantage": ["high"]}),
        "has an advantage that is no number",
    ),
    "bytes": (pa.table({"step": [1], "prompt": [b"C"], "completion": ["C"]}), "has a prompt that is neither a text"),
    "lists": (pa.table({"step": [1], "prompt": ["C"], "completion": [["C"]]}), "has a completion that is neither"),
    "no message": (pa.table({"step": [1, 1], "prompt": [CHAT[0], [None]], "completion": ["C", "C"]}), "neither"),
}


def test_a_column_of_any_name_is_no_column_of_ours(store: Store, tmp_path: Path) -> None:
    path = trl(tmp_path, extra=["note", "", "{", "x"], reward=[2**60 + 1, 1, 1, 1], advantage=[None] * 4)
    first, _ = import_completions(store, path, warn=pytest.fail)
    rows = store.rows(
        f"SELECT rewards, extra FROM samples JOIN rollouts USING (run_id, sample_id) WHERE run_id = '{first.id}'"
    )
    assert {row["extra"] for row in rows} == {None}
    assert [reward["name"] for reward in rows[0]["rewards"]] == ["rmsd", "format", "reward"]


def test_a_training_without_a_name_has_that_of_its_folder(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, name in enumerate(("a", "b")):
        path = trl(tmp_path / name, format=[number] * 4)
        monkeypatch.chdir(path.parent)
        import_completions(store, Path(path.name), warn=pytest.fail)
    assert {entry.row["training"] for entry in store.listing().entries} == {"a", "b"}


@pytest.mark.parametrize("case", DAMAGED)
def test_completions_that_are_none(store: Store, tmp_path: Path, case: str) -> None:
    table, problem = DAMAGED[case]
    pq.write_table(table, path := tmp_path / "c.parquet")
    with pytest.raises(FileError, match=problem):
        import_completions(store, path, warn=pytest.fail)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(FileError, match="no whole Parquet file"):
        import_completions(store, path, warn=pytest.fail)
    assert not store.listing().entries


CUT = "[SMILES]C=O[/SMILES][CONFORMER][C]121129129;"
LAYOUTS = {
    "blocks": ("failed_step_200.txt", FAILED.encode(), ["C=O"], [CUT], ["no_eos"]),
    "lines": ("failed_step_200.txt", FAILED_LINES.encode(), ["C=O"], [], ["mismatch"]),
    "Windows, packed": ("f.txt.gz", gzip.compress(FAILED.replace("\n", "\r\n").encode()), ["C=O"], [CUT], ["no_eos"]),
    "without its first line": ("failed_step_200.txt", FAILED.partition("\n")[2].encode(), ["C=O"], [CUT], ["no_eos"]),
    "another header": ("failed_step_200.txt", b"\xef\xbb\xbfOurs\n" + FAILED_LINES.partition("\n")[2].encode(),
                       ["C=O"], [], ["mismatch"]),
    "two": ("any.txt", (FAILED + "\n" + FAILED[FAILED.index("--- F") :].replace("C=O\n", "CC\n", 1)).encode(),
            ["C=O", "CC"], [CUT, CUT], ["no_eos", "no_eos"]),
}  # fmt: skip


@pytest.mark.parametrize("case", LAYOUTS)
def test_failures_of_both_layouts(store: Store, tmp_path: Path, case: str) -> None:
    name, content, smiles, written, codes = LAYOUTS[case]
    path = texts(tmp_path, name, content)
    assert file_form(path, "run").name == "failures"
    (entry,) = import_failures(store, path, bins=UNIFORM if written else None, warn=pytest.fail)
    assert (entry.row["training_step"], entry.row["reported_failures"]) == (200, len(smiles))
    rows = store.rows("SELECT smiles, text, extra FROM samples ORDER BY sample_id")
    assert [row["smiles"] for row in rows] == smiles
    assert not written or [row["text"] for row in rows] == written
    assert [json.loads(row["extra"])["error_code"] for row in rows] == codes


def test_failures_that_do_not_read_are_counted(store: Store, tmp_path: Path) -> None:
    warned: list[str] = []
    path = texts(tmp_path, "failed_step_3.txt", FAILED + "\n--- Failure #2 ---\nSMILES: CC\n")
    import_failures(store, path, bins=UNIFORM, warn=warned.append)
    assert warned == ["'failed_step_3.txt': 1 of 2 failures cannot be read"]
    for number, content in ((5, FAILED), (6, FAILED_LINES)):
        whole = content.replace("failures: 1", "failures: 7")
        path = texts(tmp_path, f"failed_step_{number}.txt", whole)
        import_failures(store, path, bins=UNIFORM if content == FAILED else None, warn=warned.append)
        assert warned.pop() == f"'failed_step_{number}.txt': 1 of 7 failures is in the file"
    with pytest.raises(FileError, match="lists no failure"):
        import_failures(store, texts(tmp_path, "failed_step_4.txt", FAILED[:90]), warn=pytest.fail)


def test_lines_of_a_text_stay_with_it(store: Store, tmp_path: Path) -> None:
    lines = "CC | no_eos | one\u2028two\nthree\n\n| four\nC=O | mismatch | five\n"
    path = texts(tmp_path, "failed_step_5.txt", FAILED_LINES + lines)
    (entry,) = import_failures(store, path, warn=pytest.fail)
    rows = store.rows("SELECT smiles, text, extra FROM samples ORDER BY sample_id")
    assert [row["smiles"] for row in rows] == ["C=O", "CC", "C=O"]
    assert [row["text"] for row in rows[1:]] == ["one\u2028two\nthree\n\n| four", "five"]
    assert entry.row["reported_failures"] == 3
    with pytest.raises(FileError, match="names no step that can be one"):
        import_failures(store, texts(tmp_path, f"failed_step_{'9' * 23}.txt", FAILED_LINES), warn=pytest.fail)


def test_a_summary_is_a_run_without_texts(store: Store, tmp_path: Path) -> None:
    names = ("smiles", "log_reason", "lp_status", "smiles_exact_match", "parse_success")
    values = (("C=O", "mismatch", "pass", False, True), ("CC", "no_eos", "fail", True, False))
    missed = [dict(zip(names, row, strict=True)) for row in values]
    path = texts(tmp_path, "s.json", json.dumps(SUMMARY | {"misses": {"lp_missed_failures": missed}}))
    assert file_form(path, "run").name == "summary"
    (entry,) = import_summary(store, path)
    assert (entry.row["samples"], entry.row["molecules"]) == (2, 2)
    columns = "smiles, text, passed, issues, parsed, exact_match"
    assert [tuple(row.values()) for row in store.rows(f"SELECT {columns} FROM samples ORDER BY sample_id")] == [
        ("C=O", None, True, ["mismatch"], True, False),
        ("CC", None, False, ["no_eos"], False, True),
    ]
    answer = ask(Store.open(store.home.where), "drift_molecules", [entry.id]).answer
    assert answer.startswith("2 samples without a text that was read: 1 fails by a summary.")
    rows_without = ({"smiles": None, "lp_status": "PASS"}, {"smiles": 5}, {"smiles": ""}, {"lp_status": "PASS"}, 3)
    for number, row in enumerate(rows_without):
        document = SUMMARY | {"misses": {"lp_missed_failures": [missed[0], row]}}
        with pytest.raises(FileError, match=r"without SMILES|another kind"):
            import_summary(store, texts(tmp_path, f"{number}.json", json.dumps(document)))
    assert store.home.folders(ASIDE) == [] and len(store.listing().entries) == 1
    with pytest.raises(FileError, match="no rows of molecules"):
        import_summary(store, texts(tmp_path, "t.json", json.dumps(SUMMARY | {"misses": {}})))


def test_other_files_keep_their_forms(tmp_path: Path) -> None:
    pq.write_table(pa.table({"smiles": ["C"], "xyz": [[0.0, 0.0, 0.0]]}), pool := tmp_path / "completions.parquet")
    report = texts(tmp_path, "report.json", json.dumps({"passes": [], "note": {"log_failures": 1}}))
    assert [file_form(path, "run").name for path in (pool, report)] == ["parquet", "report"]


def test_what_is_not_written_leaves_nothing(store: Store, tmp_path: Path) -> None:
    with pytest.raises((DriftscopeError, pa.ArrowException)):
        write_whole(
            store.home, RUN, "imported-torn", {"created_at": "never"}, {SAMPLES.name: SAMPLES.schema.empty_table()}
        )
    assert store.home.folders(ASIDE) == [] and not store.listing().entries
