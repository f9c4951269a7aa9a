"""The position LPs: their tables against the reports' row loop, token by token."""

from __future__ import annotations

import pytest
import torch

from engine.chem.molecule_sets import load_molecule_set
from engine.chem.smiles import parse_smiles
from engine.errors import ConstraintError
from engine.lp.constraint import LpParameters, build_constraint
from engine.lp.driver import Tables
from engine.lp.table import NO_ID
from engine.lp_records import ALIASES, LPS, lp_record
from engine.records import SHORTEST4, TRIMMED4, NumberFormat
from engine.text.tokenizer_build import NAMES
from engine.text.tokenizers import load_tokenizer
from tests.engine.lp.rowloop import RowLoop
from tests.engine.lp.walks import random_answers
from tests.support import sized

ROWS = {"qwen3": 151_936, "llama3": 128_330}
BY_POSITION = [name for name, info in LPS.items() if info.placeholder]
PARAMETERS = [
    LpParameters(),
    LpParameters("1.23,-4.56,7", SHORTEST4),
    LpParameters("0.00,0.00,0.00", NumberFormat(2, 3, 2)),
]


@pytest.mark.soak
@pytest.mark.parametrize("tokenizer_name", NAMES)
@pytest.mark.parametrize("name", BY_POSITION)
@pytest.mark.parametrize("parameters", PARAMETERS[: sized(1, 3)], ids=lambda given: given.placeholder or "own")
def test_the_tables_allow_what_the_row_loop_allows(tokenizer_name: str, name: str, parameters: LpParameters) -> None:
    tokenizer = load_tokenizer(tokenizer_name)
    molecules = [parse_smiles(entry.smiles) for entry in load_molecule_set(sized(2, 4), tag="small")]
    made = build_constraint(name, tokenizer, ROWS[tokenizer_name], parameters)
    loop = RowLoop(name, tokenizer, ROWS[tokenizer_name], molecules, parameters)
    tables = Tables.of(made.automaton, [made.compile(molecule) for molecule in molecules])
    generator = torch.Generator().manual_seed(0)
    favoured = torch.tensor(tokenizer.encode("0123456789.,") + tokenizer.encode("1,-1"))
    state, written = tables.start(), torch.zeros((len(molecules), 0), dtype=torch.int64)
    for _ in range(sized(30, 60)):
        mask = tables.mask(state)
        expected = loop(written.tolist(), torch.zeros(mask.shape)) == 0
        assert torch.equal(mask, expected)
        forced = tables.forced_id(state)
        assert torch.equal(forced != NO_ID, mask.sum(dim=1) == 1)
        weight = torch.rand(mask.shape, generator=generator) * mask
        weight[:, favoured] *= 4  # so that numbers are written, and junk now and then
        token = weight.argmax(dim=1)
        state, written = tables.step(state, token), torch.cat([written, token[:, None]], dim=1)


@pytest.mark.parametrize("tokenizer_name", NAMES)
@pytest.mark.parametrize("form", [TRIMMED4, SHORTEST4], ids=str)
@pytest.mark.parametrize("content", ["0.5,-1.25,0.123456", "-3.1,2.0,7.5,", "1.0,2.0,3.00a", "1,-2,-31-"])
def test_a_number_is_followed_until_its_block_closes(tokenizer_name: str, content: str, form: NumberFormat) -> None:
    tokenizer, molecules = load_tokenizer(tokenizer_name), [parse_smiles("CO")]
    made = build_constraint("truncating", tokenizer, ROWS[tokenizer_name], LpParameters(form=form))
    loop = RowLoop("truncating", tokenizer, ROWS[tokenizer_name], molecules, LpParameters(form=form))
    tables = Tables.of(made.automaton, [made.compile(molecules[0])])
    state, written, wanted = tables.start(), list[int](), tokenizer.encode(content)
    while not tokenizer.decode(written).count(">"):
        mask = tables.mask(state)
        assert torch.equal(mask, loop([written], torch.zeros(mask.shape)) == 0)
        forced = int(tables.forced_id(state)[0])
        if forced == NO_ID and not wanted:
            break
        written.append(forced if forced != NO_ID else wanted.pop(0))
        state = tables.step(state, torch.tensor(written[-1:]))
    assert tokenizer.decode(written).startswith(f"[CONFORMER][C]<{content[:7]}")


def test_all_names_of_the_reports_are_there() -> None:
    assert (lp_record("generic").name, lp_record("v3.8").name) == ("group-v2.1", "group-v3.8")
    assert {lp_record(name).name for name in ALIASES} <= set(LPS)


@pytest.mark.parametrize(("given", "near"), [("exakt", "exact"), ("position-blacklist", "position-blocklist")])
def test_an_unknown_name_is_told_the_nearest(given: str, near: str) -> None:
    with pytest.raises(ConstraintError, match=f"there is no LP '{given}'. Did you mean {near}"):
        lp_record(given)


def test_a_placeholder_for_an_lp_without_one() -> None:
    with pytest.raises(ConstraintError, match="the LP exact has no placeholder"):
        build_constraint("exact", load_tokenizer("qwen3"), ROWS["qwen3"], LpParameters("0.0,0.0,0.0"))


@pytest.mark.parametrize("tokenizer_name", NAMES)
def test_without_an_lp_anything_may_come_but_rows_without_a_token(tokenizer_name: str) -> None:
    made = build_constraint("none", load_tokenizer(tokenizer_name), ROWS[tokenizer_name])
    tables = Tables.of(made.automaton, [made.compile(parse_smiles("CC"))] * 2)
    mask = tables.mask(tables.start())
    assert mask[:, : load_tokenizer(tokenizer_name).vocab_size].all()
    assert not mask[:, load_tokenizer(tokenizer_name).vocab_size :].any()


@pytest.mark.parametrize("tokenizer_name", NAMES)
@pytest.mark.parametrize("name", ["group-v4.3", "truncating", "group-v2.1"])
def test_the_template_is_written_whatever_comes(tokenizer_name: str, name: str) -> None:
    """Without its blocks an answer is the molecule's own text."""
    tokenizer = load_tokenizer(tokenizer_name)
    molecule = parse_smiles("C[C@H](N)C(=O)[O-]")
    made = build_constraint(name, tokenizer, ROWS[tokenizer_name], LpParameters(form=TRIMMED4))
    assert tokenizer.end_id is not None
    (ids,) = random_answers(made, [molecule], tokenizer.end_id)
    text = tokenizer.decode(ids[:-1])
    rest = "".join(part.partition(">")[2] if number else part for number, part in enumerate(text.split("]<")))
    assert rest.startswith("[CONFORMER][C")
    assert text.endswith(">[/CONFORMER]")
    assert text.count("<") == molecule.atoms
