"""Rows of a server: at every step the scores that our own processor gives, whatever a server does with its rows."""

from __future__ import annotations

import functools
import random
import subprocess
import sys
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import Tensor

from engine.chem.enriched import described
from engine.chem.smiles import parse_written
from engine.errors import ConstraintError, SmilesError
from engine.lp.constraint import LpParameters
from engine.lp.driver import State, Tables
from engine.lp.processor import logits_processor
from engine.lp.served import ServedLp
from engine.lp.served_rows import Blank, Compiler, ServedBatch, ServedRow, ShortestAnswers, of_list
from engine.lp.table import NO_ID
from engine.records import GROUP_UNIFORM
from engine.text.tokenizers import load_tokenizer
from tests.support import ROOT as PROJECT

ROWS = {"qwen3": 151_936, "llama3": 128_330}
MOLECULES = ("CCO", "C[C@H](N)O", "c1ccoc1", "[NH4+]", "C/C=C/F")
CPU = torch.device("cpu")


@functools.cache
def compiler(tokenizer: str) -> Compiler:
    return Compiler(load_tokenizer(tokenizer), ROWS[tokenizer])


def noise(tokenizer: str, seed: int, rows: int) -> Tensor:
    return torch.randn((rows, ROWS[tokenizer]), generator=torch.Generator().manual_seed(seed))


def row_of(tokenizer: str, lp: str, smiles: str, parameters: LpParameters | None = None) -> ServedRow:
    return ServedRow(compiler(tokenizer).compiled(ServedLp(lp, smiles, None, parameters or LpParameters())))


def batch_of(tokenizer: str, row: ServedRow) -> ServedBatch:
    return ServedBatch(row.compiled.constraint, compiler(tokenizer).end_id, CPU)


def act(
    batch: ServedBatch, scores: Tensor, index: Sequence[int], rows: Sequence[ServedRow], ids: Sequence[list[int]]
) -> None:
    """As a server's call does; into these scores, also where they came in other memory."""
    for row, of_row in zip(rows, ids, strict=True):
        row.follow(len(of_row), of_list(of_row), compiler("qwen3").end_id)
    scores.copy_(batch.apply(scores, index, rows))


@pytest.mark.parametrize("tokenizer", ROWS)
@pytest.mark.parametrize("lp", ["exact", "group-v4.3", "none", "truncating", "shaped"])
def test_scores_are_those_of_our_processor(lp: str, tokenizer: str) -> None:
    """Rows in a new order at each step, behind a step that a server repeats."""
    smiles = MOLECULES[:3] if lp != "shaped" else MOLECULES[1:3]
    served = [row_of(tokenizer, lp, text) for text in smiles]
    batch, given = batch_of(tokenizer, served[0]), logits_processor(lp, smiles, tokenizer, ROWS[tokenizer])
    ids: list[list[int]] = [[] for _ in smiles]
    shuffle, end = random.Random(5), compiler(tokenizer).end_id
    for step in range(24):
        scores = noise(tokenizer, step, len(smiles))
        wanted = given(torch.tensor([[0, *of_row] for of_row in ids]), scores.clone())
        order = list(range(len(smiles)))
        shuffle.shuffle(order)
        for _ in range(2):
            found = scores[order]
            act(batch, found, range(len(order)), [served[at] for at in order], [ids[at] for at in order])
            assert torch.equal(found, wanted[order]), step
            if lp == "shaped":  # what was asked is known the second time
                break
        for of_row, chosen in zip(ids, wanted.argmax(dim=1).tolist(), strict=True):
            of_row.append(chosen)
    assert all(end not in of_row for of_row in ids) or lp == "none"


def test_a_row_follows_its_ids_alone() -> None:
    """Taken up again in one call, or with its last ids taken back, it allows what a row does that saw each."""
    row = row_of("qwen3", "exact", "CCO")
    batch = batch_of("qwen3", row)
    seen: list[tuple[list[int], Tensor]] = []
    ids: list[int] = []
    for step in range(30):
        scores = noise("qwen3", step, 1)
        act(batch, scores, [0], [row], [ids])
        seen.append((list(ids), scores))
        ids.append(int(scores.argmax()))
    for at in (29, 3, 17, 0, 12):
        written, wanted = seen[at]
        for one in (row, row_of("qwen3", "exact", "CCO")):
            scores = noise("qwen3", at, 1)
            act(batch, scores, [0], [one], [written])
            assert torch.equal(scores, wanted)


def test_twins_leave_their_row_as_it_is() -> None:
    row = row_of("qwen3", "exact", "CCO")
    batch = batch_of("qwen3", row)
    ids: list[int] = []
    for step in range(8):
        scores = noise("qwen3", step, 1)
        act(batch, scores, [0], [row], [ids])
        ids.append(int(scores.argmax()))
    proposed = [ids, [*ids, ids[0]]]  # the second proposes what is not allowed
    scores = noise("qwen3", 9, 2)
    act(batch, scores, [0, 1], [row, row.twin()], proposed)
    assert not row.trouble and row.written == ids
    assert int(scores[1].argmax()) == compiler("qwen3").end_id and torch.isfinite(scores[1]).sum() == 1


def test_what_a_server_makes_of_the_scores_is_gone_at_the_next_step() -> None:
    """Batches of two LPs that write into the same memory in turn, with the ids that a server draws from it."""
    smiles, blank = ["CCO", "CC=O"], Blank()
    lps = {lp: [row_of("qwen3", lp, text) for text in smiles] for lp in ("exact", "group-v4.3")}
    batches = {
        lp: ServedBatch(rows[0].compiled.constraint, compiler("qwen3").end_id, CPU, blank) for lp, rows in lps.items()
    }
    given = {lp: logits_processor(lp, smiles, "qwen3", ROWS["qwen3"]) for lp in lps}
    ids = {lp: [[0], [0]] for lp in lps}
    for step in range(60):
        lp = ("exact", "group-v4.3")[step % 2]
        scores = noise("qwen3", step, 2)
        wanted = given[lp](torch.tensor(ids[lp]), scores.clone())
        for row, of_row in zip(lps[lp], ids[lp], strict=True):
            row.follow(len(of_row) - 1, of_list(of_row[1:]), compiler("qwen3").end_id)
        found = batches[lp].apply(scores, [0, 1], lps[lp])
        assert torch.equal(found, wanted), step
        found.div_(0.7).masked_fill_(found < found.topk(3).values[:, -1:], -torch.inf)
        for of_row, chosen in zip(ids[lp], found.argmax(dim=1).tolist(), strict=True):
            of_row.append(chosen)


def test_an_end_for_want_of_scores_is_gone_with_its_row() -> None:
    """In the memory that the next step uses again, where another request has the row's place."""
    end, rows = compiler("qwen3").end_id, [row_of("qwen3", "exact", text) for text in ("CCO", "CC=O")]
    batch = batch_of("qwen3", rows[0])
    ids: list[list[int]] = [[], []]
    while rows[0].where.forced_id != NO_ID or not ids[0]:  # up to the first number
        found = batch.apply(noise("qwen3", len(ids[0]), 2), [0, 1], rows)
        for row, of_row, chosen in zip(rows, ids, found.argmax(dim=1).tolist(), strict=True):
            of_row.append(chosen)
            row.follow(len(of_row), of_list(of_row), end)
    found = batch.apply(torch.full((2, ROWS["qwen3"]), -torch.inf), [0, 1], rows)
    assert rows[0].trouble and found[0].isfinite().nonzero().flatten().tolist() == [end]
    begun = [row_of("qwen3", "exact", text) for text in ("CCO", "CC=O")]
    assert not batch.apply(noise("qwen3", 2, 2), [0, 1], begun)[:, end].isfinite().any()


def test_scores_that_are_a_part_of_a_wider_memory() -> None:
    """A server's head may have more rows than the vocabulary."""
    wide = torch.cat([noise("qwen3", 1, 3), torch.zeros(3, 64)], dim=1)
    for places in ([0, 1, 2], [0, 2]):
        rows = [row_of("qwen3", "exact", text) for text in ("CCO", "CC=O", "C")[: len(places)]]
        scores = wide.clone()[:, :-64]
        assert not scores.is_contiguous()
        wanted = batch_of("qwen3", rows[0]).apply(scores.contiguous(), places, rows).clone()
        assert torch.equal(batch_of("qwen3", rows[0]).apply(scores, places, rows), wanted)


def test_others_rows_are_left_alone() -> None:
    rows = [row_of("qwen3", "exact", text) for text in MOLECULES[:2]]
    scores = noise("qwen3", 1, 4)
    before = scores.clone()
    act(batch_of("qwen3", rows[0]), scores, [1, 3], rows, [[], []])
    assert torch.equal(scores[[0, 2]], before[[0, 2]])
    assert torch.isfinite(scores[[1, 3]]).sum(dim=1).tolist() == [1, 1]


@pytest.mark.parametrize(
    ("ids", "trouble"), [([-1], ""), ([0], "its token 1 is 0"), ([10**6], "its token 1 is 1000000")]
)
def test_a_row_in_trouble_may_only_end(ids: list[int], trouble: str, caplog: pytest.LogCaptureFixture) -> None:
    """Which the log says; ids that are taken back were no trouble. The rows beside it go on."""
    good, row = row_of("qwen3", "exact", "CCO"), row_of("qwen3", "exact", "CC=O")
    batch, end = batch_of("qwen3", row), compiler("qwen3").end_id
    for of_row, only_ends in ((ids, True), ([], False)):
        scores = noise("qwen3", 1, 2)
        act(batch, scores, [0, 1], [good, row], [[], of_row])
        assert (torch.isfinite(scores[1]).nonzero().flatten().tolist() == [end]) == only_ends
        assert int(scores[0].argmax()) == good.compiled.program.forced[0]
        assert (row.trouble[: len(trouble)] if only_ends else "") == (trouble if only_ends else row.trouble)
        assert caplog.records and not good.trouble


def test_a_refused_request_may_only_end() -> None:
    row = ServedRow(compiler("qwen3").compiled(ServedLp("none", "C")), refused="an LP that there is not")
    scores = noise("qwen3", 1, 1)
    act(batch_of("qwen3", row), scores, [0], [row], [[]])
    assert torch.isfinite(scores[0]).nonzero().flatten().tolist() == [compiler("qwen3").end_id]


def test_an_error_of_one_row_ends_that_row_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [row_of("qwen3", "shaped", text) for text in ("CCO", "CC=O")]
    batch, wanted, end = batch_of("qwen3", rows[0]), rows[0].compiled.program.forced[0], compiler("qwen3").end_id

    def broken(logits: Tensor, index: Sequence[int], asked: Sequence[ServedRow]) -> None:
        if rows[1] in asked:
            raise ArithmeticError

    monkeypatch.setattr(batch, "_strike", broken)
    scores = noise("qwen3", 1, 2)
    act(batch, scores, [0, 1], rows, [[], []])
    assert scores.argmax(dim=1).tolist() == [wanted, end]
    assert "ArithmeticError" in rows[1].trouble and not rows[0].trouble


def test_a_row_whose_legal_tokens_have_no_score_ends(caplog: pytest.LogCaptureFixture) -> None:
    row = row_of("qwen3", "exact", "CCO")
    batch, ids = batch_of("qwen3", row), list[int]()
    while row.where.forced_id >= 0:
        ids.append(row.where.forced_id)
        act(batch, noise("qwen3", 1, 1), [0], [row], [ids])
    scores = torch.full((1, ROWS["qwen3"]), -torch.inf)
    act(batch, scores, [0], [row], [ids])
    assert torch.isfinite(scores[0]).nonzero().flatten().tolist() == [compiler("qwen3").end_id]
    assert "no token that is allowed has a score" in caplog.text


def test_all_of_it_loads_without_what_a_server_lacks() -> None:
    """And what reads tokenizers for it: no store, no page, no Hugging Face."""
    absent = ["duckdb", "pyarrow", "msgspec", "streamlit", "transformers", "safetensors", "pandas"]
    code = f"import sys\nfor name in {absent}: sys.modules[name] = None\nimport engine.lp.served_rows"
    done = subprocess.run([sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_new_molecules_take_the_place_of_old_ones() -> None:
    """More rows, longer programs and fewer rows again: each time what a batch of its own would allow."""
    batch = batch_of("qwen3", row_of("qwen3", "exact", "C"))
    draw = random.Random(3)
    for step in range(12):
        smiles = [draw.choice(MOLECULES) * draw.randint(1, 6) for _ in range(draw.randint(1, 20))]
        smiles = [text for text in smiles if set(text) <= {"C", "O"}] or ["CO"]
        rows = [row_of("qwen3", "exact", text) for text in smiles]
        scores = noise("qwen3", step, len(rows))
        wanted = logits_processor("exact", smiles, "qwen3", ROWS["qwen3"])(torch.zeros((len(rows), 1)).long(), scores)
        wanted = wanted.clone()
        act(batch, scores, range(len(rows)), rows, [[] for _ in rows])
        assert torch.equal(scores, wanted)


@pytest.mark.parametrize("lp", ["exact", "group-v4.3", "truncating", "none", "group-conformers-open"])
@pytest.mark.parametrize("tokenizer", ROWS)
def test_the_shortest_answer_has_the_least_number_of_tokens(lp: str, tokenizer: str) -> None:
    """All answers in step, states that were met before left out, until one ends: by the driver alone."""
    compiled = compiler(tokenizer).compiled(ServedLp(lp, "CO"))
    tables = Tables.of(compiled.constraint.automaton, [compiled.program])
    end, start = compiler(tokenizer).end_id, tables.start()
    met, tokens = {(int(start.cell), int(start.node))}, 0
    front = set(met)
    while True:
        tokens += 1
        behind = set[tuple[int, int]]()
        for cell, node in front:
            state = State(torch.tensor([cell]), torch.tensor([node]))
            ids = tables.mask(state)[0].nonzero().flatten()
            if end in ids:
                assert ShortestAnswers(compiled.constraint.automaton, end).tokens(compiled.program) == tokens
                return
            kinds = ids[np.unique(compiled.constraint.automaton.classes[ids], return_index=True)[1]].tolist()
            for id_ in {*kinds, *compiled.program.symbols[cell].tolist()} & {*ids.tolist()}:
                after = tables.step(state, torch.tensor([id_]))
                behind.add((int(after.cell), int(after.node)))
        front = behind - met
        met |= behind


def test_a_limit_that_no_answer_keeps_is_refused() -> None:
    with pytest.raises(ConstraintError, match="max_tokens is 20, and an answer for 'CCO' has 45 or more"):
        compiler("qwen3").check(ServedLp("exact", "CCO"), 20)
    compiler("qwen3").check(ServedLp("exact", "CCO"), 100)
    compiler("qwen3").check(ServedLp("none", "CCO"), 1)
    with pytest.raises(ConstraintError, match="max_tokens is 30, and an answer for 'CCO' has 192 or more"):
        compiler("qwen3").check(ServedLp("exact", "CCO", None, LpParameters(conformers=64)), 30)
    with pytest.raises(SmilesError, match="unclosed ring"):
        compiler("qwen3").check(ServedLp("exact", "C1CC"), 100)


def test_bins_are_served_too() -> None:
    form = LpParameters(form=GROUP_UNIFORM)
    row = row_of("qwen3", "exact", "CCO", form)
    given = logits_processor("exact", ["CCO"], "qwen3", ROWS["qwen3"], form)
    batch, ids = batch_of("qwen3", row), list[int]()
    for step in range(30):
        scores = noise("qwen3", step, 1)
        wanted = given(torch.tensor([[0, *ids]]), scores.clone()).clone()
        act(batch, scores, [0], [row], [ids])
        assert torch.equal(scores, wanted)
        ids.append(int(scores.argmax()))


def test_with_hydrogens_as_the_lp_forces_them() -> None:
    """A group's LP writes ``[OH]`` whatever the model learnt, unless the request says so."""
    forced = compiler("qwen3").compiled(ServedLp("group-v4.3", "CO")).program
    plain = compiler("qwen3").compiled(ServedLp("group-v4.3", "CO", "plain")).program
    assert described(parse_written("CO"), "plain").descriptors == ("[C]", "[O]")
    assert not np.array_equal(forced.forced, plain.forced)
