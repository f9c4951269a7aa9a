"""A new LP is one file and one record: the command line, the pages and the analysis then know it."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.inspection.runs import run_facts
from engine.lp_records import LPS, UNKNOWN_LP, LpRecord, lp_choices, stored_lp
from engine.store.files import Files
from engine.store.store import Store
from engine.text.blocks import read_block
from engine.text.generated import mode_of
from tests.cli import run, run_json
from tests.engine.inspection.made import sample_row, write_run
from tests.small_models import use_small_model

PLACEHOLDER = "1.23,-4.56,7.89"
TOY = LpRecord("toy", "writes its placeholder at each atom", "tests.engine.lp.toy_lp", "lp", PLACEHOLDER)


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LPS, TOY.name, TOY)


def test_the_command_line_runs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_small_model(monkeypatch)
    (sample,) = run_json("generate", "CO", "--model", "small", "--lp", "toy")["samples"]
    assert sample["text"] == f"[CONFORMER][C]<{PLACEHOLDER}>[O]<{PLACEHOLDER}>[/CONFORMER]"
    assert sample["forced_tokens"] == sample["tokens"]
    assert "toy" in lp_choices()
    assert "Did you mean toy?" in run("generate", "CO", "--model", "small", "--lp", "toi").error


def test_its_record_says_who_closes_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (mode_of("toy"), read_block("1.0,2.0,3.0", lp="toy").kinds) == ("position", ("unverified",))
    by_model = LpRecord("toy", TOY.help, TOY.module, "model")
    monkeypatch.setitem(LPS, TOY.name, by_model)
    assert (mode_of("toy"), read_block("1.0,2.0,3.0", lp="toy").kinds) == ("structure", ("exact",))
    assert run_json("junk", "[C]<1.0,2.0,3.0>", "--lp", "toy")["rows"][0]["kinds"] == ["exact"]


def test_a_stored_run_has_the_record_of_its_lp(tmp_path: Path) -> None:
    store = Store(Files(tmp_path))
    for run_id, lp in (("a", "toy"), ("b", "toy+cleanup"), ("c", "v3.8"), ("d", "nobody's"), ("e", None)):
        write_run(store, run_id, [sample_row(0)], lp=lp)
    records = [run_facts(store, run_id).lp_record for run_id in "abcde"]
    assert records == [TOY, TOY, LPS["group-v3.8"], UNKNOWN_LP, UNKNOWN_LP]
    assert (stored_lp("none"), stored_lp("cleanup"), stored_lp("")) == (LPS["none"], LPS["none"], UNKNOWN_LP)
