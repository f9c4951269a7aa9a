"""When `truncating` lets a block end; LPs by their names, and what comes without one."""

from __future__ import annotations

import pytest
import torch

from engine.chem.smiles import parse_smiles
from engine.errors import ConstraintError
from engine.inspection.runs import run_facts
from engine.lp.constraint import LpParameters, build_constraint
from engine.lp.driver import Tables
from engine.lp_records import ALIASES, LPS, UNKNOWN_LP, LpRecord, full_name, lp_choices, lp_record, stored_lp
from engine.records import SHORTEST4, TRIMMED4, NumberFormat
from engine.store.store import Store
from engine.text.blocks import read_block
from engine.text.generated import mode_of
from engine.text.tokenizer_build import NAMES
from engine.text.tokenizers import load_tokenizer
from tests.cli import run, run_json
from tests.engine.inspection.made import sample_row, write_run
from tests.small_models import use_small_model

ROWS = {"qwen3": 151_936, "llama3": 128_330}
FIXED2 = NumberFormat(2, 3, 2)
each = pytest.mark.parametrize("name", NAMES)


@each
@pytest.mark.parametrize(
    ("form", "content", "closing"),
    [
        (TRIMMED4, "", "no"),
        (TRIMMED4, "0.5,-1.25,0.", "no"),
        (TRIMMED4, "0.5,-1.25,0.1", "may"),
        (TRIMMED4, "0.5,-1.25,0.1234", "forced"),
        (TRIMMED4, "0.5,-1.25,0.amen", "no"),
        (TRIMMED4, "1.0,2.0,3.0a", "forced"),
        (SHORTEST4, "1,-2", "no"),
        (SHORTEST4, "1,-2,31", "may"),
        (SHORTEST4, "1,-2,31.", "no"),
        (FIXED2, "0.00,0.00,0.0", "no"),
        (FIXED2, "0.00,0.00,0.00", "may"),
        (FIXED2, "0.00,0.00,0.000", "forced"),
    ],
)
def test_when_truncating_may_end_a_block(name: str, form: NumberFormat, content: str, closing: str) -> None:
    """With its number whole; what follows then is the molecule's own text."""
    tokenizer = load_tokenizer(name)
    parameters = LpParameters("-100.0000,-100.0000,-100.0000", form)
    made = build_constraint("truncating", tokenizer, ROWS[name], parameters)
    tables = Tables.of(made.automaton, [made.compile(parse_smiles("CO"))])
    state, close = tables.start(), tokenizer.encode(">[O]")[0]
    for id_ in tokenizer.encode("[CONFORMER][C]<") + tokenizer.encode(content):
        assert tables.mask(state)[0, id_]
        state = tables.step(state, torch.tensor([id_]))
    mask = tables.mask(state)[0]
    assert bool(mask[close]) == (closing != "no")
    assert int(mask.sum()) == 1 if closing == "forced" else int(mask.sum()) > 100_000
    assert not mask[tokenizer.encode("[SMILES]<")].any()
    after = tables.step(state, torch.tensor([close]))
    assert closing == "no" or tokenizer.piece(int(tables.forced_id(after)[0])) == "O"


def test_lps_are_found_by_their_names() -> None:
    assert (lp_record("generic").name, lp_record("v3.8").name) == ("group-v2.1", "group-v3.8")
    assert full_name("position-allowlist+cleanup") == "group-v4.3+cleanup" == full_name("v5.0+cleanup")
    former = stored_lp("position-allowlist")
    assert (former.name, former.descriptors, former.rule.no_bad_pairs) == ("former:position-allowlist", "plain", False)
    assert {lp_record(name).name for name in ALIASES} <= set(LPS)
    for given, near in (("exakt", "exact"), ("position-blacklist", "position-blocklist")):
        with pytest.raises(ConstraintError, match=f"there is no LP '{given}'. Did you mean {near}"):
            lp_record(given)
    with pytest.raises(ConstraintError, match="the LP exact has no placeholder"):
        build_constraint("exact", load_tokenizer("qwen3"), ROWS["qwen3"], LpParameters("0.0,0.0,0.0"))


def test_without_an_lp_anything_may_come_but_rows_without_a_token() -> None:
    made = build_constraint("none", load_tokenizer("qwen3"), ROWS["qwen3"])
    tables = Tables.of(made.automaton, [made.compile(parse_smiles("CC"))] * 2)
    vocab_size = load_tokenizer("qwen3").vocab_size
    assert torch.equal(tables.mask(tables.start()), (torch.arange(ROWS["qwen3"]) < vocab_size).expand(2, -1))


# --- a new LP is one file and one record: the command line, the pages and the analysis then know it -------------------
TOY = LpRecord("toy", "an LP that only a test knows", "engine.lp.exact", "lp")


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LPS, TOY.name, TOY)


def test_the_command_line_runs_it(toy: None, monkeypatch: pytest.MonkeyPatch) -> None:
    use_small_model(monkeypatch)
    (sample,) = run_json("generate", "CO", "--model", "small", "--lp", "toy")["samples"]
    assert sample["decodes"] and 0 < sample["forced_tokens"] < sample["tokens"]
    assert "toy" in lp_choices()
    assert "Did you mean toy?" in run("generate", "CO", "--model", "small", "--lp", "toi").error


def test_its_record_says_who_closes_a_block(toy: None, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (mode_of("toy"), read_block("1.0,2.0,3.0", lp="toy").kinds) == ("position", ("unverified",))
    by_model = LpRecord("toy", TOY.help, TOY.module, "model")
    monkeypatch.setitem(LPS, TOY.name, by_model)
    assert (mode_of("toy"), read_block("1.0,2.0,3.0", lp="toy").kinds) == ("structure", ("exact",))
    assert run_json("junk", "[C]<1.0,2.0,3.0>", "--lp", "toy")["rows"][0]["kinds"] == ["exact"]


def test_a_stored_run_has_the_record_of_its_lp(toy: None, store: Store) -> None:
    for run_id, lp in (("a", "toy"), ("b", "toy+cleanup"), ("c", "v3.8"), ("d", "nobody's"), ("e", None)):
        write_run(store, run_id, [sample_row(0)], lp=lp)
    records = [run_facts(store, run_id).lp_record for run_id in "abcde"]
    assert records == [TOY, TOY, LPS["group-v3.8"], UNKNOWN_LP, UNKNOWN_LP]
    assert (stored_lp("none"), stored_lp("cleanup"), stored_lp("")) == (LPS["none"], LPS["none"], UNKNOWN_LP)
