"""When `truncating` lets a block end; LPs by their names, and what comes without one."""

from __future__ import annotations

import pytest
import torch

from engine.chem.smiles import parse_smiles
from engine.errors import ConstraintError
from engine.lp.constraint import LpParameters, build_constraint
from engine.lp.driver import Tables
from engine.lp_records import ALIASES, LPS, lp_record
from engine.records import SHORTEST4, TRIMMED4, NumberFormat
from engine.text.tokenizer_build import NAMES
from engine.text.tokenizers import load_tokenizer
from tests.engine.lp.walks import random_answers

ROWS = {"qwen3": 151_936, "llama3": 128_330}
FIXED2 = NumberFormat(2, 3, 2)
each = pytest.mark.parametrize("name", NAMES)


@each
@pytest.mark.parametrize(
    ("form", "content", "closing"),
    [
        (TRIMMED4, "", "no"),
        (TRIMMED4, "0.5,-1.25", "no"),
        (TRIMMED4, "0.5,-1.25,0.", "no"),
        (TRIMMED4, "0.5,-1.25,0.1", "may"),
        (TRIMMED4, "-3.1,2.0,-7.512", "may"),
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


@each
@pytest.mark.parametrize("lp", ["group-v4.3", "truncating", "group-v2.1"])
def test_the_template_is_written_whatever_comes(name: str, lp: str) -> None:
    """Without its blocks an answer is the molecule's own text."""
    tokenizer = load_tokenizer(name)
    molecule = parse_smiles("C[C@H](N)C(=O)[O-]")
    made = build_constraint(lp, tokenizer, ROWS[name], LpParameters(form=TRIMMED4))
    (ids,) = random_answers(made, [molecule], tokenizer.end_id or 0)
    text = tokenizer.decode(ids[:-1])
    assert text.startswith("[CONFORMER][C]<") and text.endswith(">[/CONFORMER]")
    assert text.count("<") == molecule.atoms
