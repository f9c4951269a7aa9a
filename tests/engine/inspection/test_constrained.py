"""What runs say of their LP: proved by our own loops, not by stored tokens alone; no alarm where nothing is wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from torch import Tensor

from engine.decode.hf import _Masks
from engine.inspection import constrained
from engine.inspection.canary import KINDS, FindingKind
from engine.inspection.constrained import PROBED, PROOFS, columns, follow_stored, stored_verdict, verdict, with_verdict
from engine.inspection.runs import facts_of
from engine.lp.exact import ExactConstraint
from engine.lp.table import Program
from engine.questions import ask
from engine.records import Molecule
from engine.store.entries import Entry, constrained_words
from engine.store.files import Files
from engine.store.schema import RUN, SAMPLES
from engine.store.staging import write_entry
from engine.store.store import DEMO, Store
from engine.text.tokenizers import load_tokenizer
from tests.cli import run_json
from tests.engine.jobs.small_runs import entry_in, finished, started
from tests.engine.store.reports.documents import CLEAN, PROMPT, file_of, one_text
from tests.small_models import small_folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_folder(tmp_path_factory.mktemp("model"))


def test_no_run_of_the_demo_store_gives_an_alarm() -> None:
    """All LPs, every token of every sample. Most were written before there was a canary: of these nothing is proved."""
    seen: dict[str, set[str]] = {}
    for entry in Store(Files(DEMO)).listing().entries:
        if SAMPLES.name not in entry.parts:
            continue
        run = facts_of(entry)
        followed = follow_stored(run, entry, 10_000)
        lp = run.lp_record.name
        word = stored_verdict(entry, followed).constrained
        seen.setdefault(lp, set()).add("its own yes" if "constrained" in entry.row and word == "yes" else word)
        if lp not in ("none", "grammar"):
            assert (followed.tally.followed, followed.findings) == (run.samples, ()), entry.id
            assert followed.tally.seen == 0
    exact, others = seen.pop("exact"), {"none": {"no LP"}, "grammar": {"its own yes"}}
    assert exact == {"in its language", "its own yes"}
    assert {lp: words for lp, words in seen.items() if words != {"in its language"}} == others
    assert len(seen) >= 6


@pytest.mark.parametrize("backend", ["fast", "hf"])
def test_a_run_of_our_own_loops_proves_that_its_lp_acted(backend: str, tmp_path: Path, folder: Path) -> None:
    entry = finished(started(tmp_path, folder, 3, plan={"backend": backend, "limit": 300}))
    counts = [entry.row[name] for name in ("followed_samples", "seen_samples", "unconstrained_samples")]
    assert (counts, entry.row["constrained"], constrained_words(entry)) == ([3, 3, 0], "yes", "yes")
    assert "asked at each step" in ask(Store(entry.files), "drift_constrained", [entry.id]).answer


def test_a_limit_inside_a_block_is_named_and_no_fault_of_the_lp(tmp_path: Path, folder: Path) -> None:
    entry = finished(started(tmp_path, folder, 3, plan={"limit": 9}))
    assert entry.row["constrained"] == "yes" and "token 9: the limit of tokens" in entry.row["constrained_why"]


def test_a_run_without_an_lp_says_nothing(tmp_path: Path, folder: Path) -> None:
    entry = finished(started(tmp_path, folder, 2, plan={"lp": "none"}))
    assert "constrained" not in entry.row and constrained_words(entry) == "no LP"
    answered = ask(Store(entry.files), "drift_constrained", [entry.id])
    assert answered.answer == "Constrained: no LP. The model wrote freely."  # the bug: not checked


def test_an_lp_that_was_dropped_is_in_its_runs_sheet_with_the_place(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    masked, calls = _Masks.__call__, iter(range(10_000))

    def dropped(self: Any, input_ids: Tensor, scores: Tensor) -> Tensor:
        return masked(self, input_ids, scores) if next(calls) < 6 else scores

    monkeypatch.setattr(_Masks, "__call__", dropped)
    entry = finished(started(tmp_path, folder, 3, plan={"backend": "hf"}))
    assert (entry.row["constrained"], entry.row["unconstrained_samples"]) == ("no", 3)
    assert "token 6: the LP was not asked at this step: it was dropped" in entry.row["constrained_why"]
    answered = ask(Store(entry.files), "drift_constrained", [entry.id])
    assert answered.answer.startswith("Constrained: no. 3 samples of 3:")
    assert entry_in(tmp_path).row["constrained"] == "no"


SUMS = {"samples": 4, "followed_samples": 4, "seen_samples": 0, "unconstrained_samples": 0}


@pytest.mark.parametrize(
    ("changed", "proofs", "expected"),
    [
        ({"seen_samples": 4}, (), "yes"),
        ({}, (True,), "yes"),
        ({}, (True, None), "in its language"),
        ({}, (True, False), "no"),
        ({}, (), "in its language"),
        ({"followed_samples": 3, "seen_samples": 3}, (), "not checked"),  # a group of an earlier version
        ({"unconstrained_samples": 1, "seen_samples": 4}, (True,), "no"),
        ({"samples": 0, "followed_samples": 0}, (), "not checked"),
    ],
)
def test_yes_needs_a_proof(changed: dict[str, int], proofs: tuple[bool | None, ...], expected: str) -> None:
    assert verdict(SUMS | changed, (), proofs).constrained == expected


@pytest.mark.parametrize(("kind", "expected"), [("cut", "yes"), ("stuck", "in its language")])
def test_what_was_left_without_a_token_is_proved_by_no_probe(kind: FindingKind, expected: str) -> None:
    found = verdict(SUMS, [[KINDS.index(kind), "sample 1, token 9: its words"]], (True,))
    assert found.constrained == expected and found.constrained_why.endswith("sample 1, token 9: its words")


@pytest.mark.parametrize(("probed", "expected"), [(4, "yes"), (2, "in its language"), (0, "in its language")])
def test_a_probe_proves_what_its_own_process_wrote(probed: int, expected: str) -> None:
    assert columns(SUMS | {PROBED: probed}, {PROOFS: [True]})["constrained"] == expected


def test_an_imported_text_is_in_its_language_or_not_and_never_more(tmp_path: Path) -> None:
    good = "[CONFORMER][C]<0.5,1.25,-3.0>[O]<1.5,0.25,0.75>[/CONFORMER]"
    for name, lp, text, expected in (
        ("good", "exact", good, "in its language"),
        ("blanks", "exact", f"{good} \n", "in its language"),
        ("bad", "exact", good.replace("0.25", "0.25amen"), "not in its language"),
        ("blanks inside", "exact", good.replace("[O]", " [O]"), "not in its language"),
        ("position", "group-v2.1", good, "not checked"),
        ("unnamed", None, good, "not checked"),
    ):
        row = {"origin": "imported", "tokenizer": "qwen3", "lp": lp}
        samples = SAMPLES.rows([{"run_id": name, "sample_id": 0, "smiles": "CO", "text": text}])
        entry = write_entry(Files(tmp_path), RUN, name.replace(" ", "-"), row, [{SAMPLES.name: samples}])
        found = stored_verdict(entry, follow_stored(facts_of(entry), entry, 10))
        assert (found.constrained, constrained_words(entry)) == (expected, "not checked yet"), found
        assert constrained_words(with_verdict(entry)) == expected
        again = Store(entry.files).entry(entry.id)
        assert (again.row["constrained"], with_verdict(again)) == (expected, again)  # said once


def test_a_report_that_is_imported_says_whether_its_texts_are_in_its_lps_language(tmp_path: Path) -> None:
    file = file_of(tmp_path, one_text(f"{PROMPT}{CLEAN}", processor_type="exact", version=None))
    (row,) = run_json("import", str(file), "--store", str(tmp_path / "store"))
    assert (row["constrained"], row["lp"]) == ("in its language", "exact")
    assert row["constrained_why"].endswith("whether the LP was asked at each step is not known")
    document = one_text(f"{PROMPT}{CLEAN}", processor_type="exact", version=None)
    document["passes"] *= 30  # enough to tell a number format, which 1.2345 is not of
    (row,) = run_json("import", str(file_of(tmp_path, document)), "--store", str(tmp_path / "store"))
    assert row["constrained"] == "not in its language"
    assert row["constrained_why"].endswith("; numbers as most of its texts have them: always 1 decimal")


GOOD = "[CONFORMER][C]<0.5,1.25,-3.0>[O]<1.5,0.25,0.75>[/CONFORMER]"


def stored(folder: Path, lp: str, rows: Sequence[dict[str, Any]]) -> Entry:
    """Samples of CO with ids, in one row group."""
    ids = load_tokenizer("qwen3").encode(GOOD)
    given = [{"run_id": "r", "sample_id": at, "smiles": "CO", "token_ids": ids, **row} for at, row in enumerate(rows)]
    sheet = {"origin": "imported", "tokenizer": "qwen3", "lp": lp}
    return write_entry(Files(folder), RUN, "r", sheet, [{SAMPLES.name: SAMPLES.rows(given)}])


@pytest.mark.parametrize(
    ("lp", "row", "expected"),
    [
        ("exact+cleanup", {"text": GOOD.lower()}, "in its language"),  # nobody knows the text before it was cleaned
        ("exact+cleanup", {"text": GOOD.lower(), "extra": json.dumps({"raw_text": GOOD})}, "in its language"),
        ("exact+cleanup", {"text": GOOD, "extra": json.dumps({"raw_text": GOOD.lower()})}, "not in its language"),
        ("exact", {"text": GOOD.lower()}, "not in its language"),
    ],
)
def test_a_cleaned_text_is_not_compared_with_the_ids(
    lp: str, row: dict[str, Any], expected: str, tmp_path: Path
) -> None:
    entry = stored(tmp_path, lp, [row])
    found = stored_verdict(entry, follow_stored(facts_of(entry), entry, 10))
    assert found.constrained == expected, found


def test_stored_samples_are_read_in_parts_and_each_molecule_is_compiled_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = stored(
        tmp_path, "exact", [{"text": GOOD.lower(), "extra": json.dumps({"raw_text": f"{at}"})} for at in range(500)]
    )
    compiled, read = list[str](), list[int]()
    compile_, batches = ExactConstraint.compile, Entry.batches

    def counting(self: ExactConstraint, molecule: Molecule) -> Program:
        compiled.append(molecule.smiles)
        return compile_(self, molecule)

    def noting(self: Entry, *given: Any) -> Iterator[pa.RecordBatch]:
        for batch in batches(self, *given):
            read.append(len(batch))
            yield batch

    monkeypatch.setattr(ExactConstraint, "compile", counting)
    monkeypatch.setattr(Entry, "batches", noting)
    monkeypatch.setattr(Entry, "read", None)
    monkeypatch.setattr(constrained, "MOST_FINDINGS", 5)
    followed = follow_stored(facts_of(entry), entry, 100)
    assert (followed.samples, followed.tally.faulty, len(followed.findings)) == (100, 100, 5)
    assert (compiled, read) == (["CO"], [64, 64])
