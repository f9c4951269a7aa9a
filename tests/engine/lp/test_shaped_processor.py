"""``shaped`` in anyone's loop: its molecules against the verdict, its scores against those of ``exact``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from engine.chem.enriched import prompt_of
from engine.chem.smiles import parse_written
from engine.chem.verdict import judge_answer
from engine.errors import ConstraintError
from engine.lp.constraint import LpParameters, build_constraint, end_of
from engine.lp.driver import State, Tables
from engine.lp.exact import ExactConstraint
from engine.lp.prefixes import CLOSES, SAME_AXIS
from engine.lp.processor import ProgramProcessor, logits_processor
from engine.lp.shaped import RIGHT, UNKNOWN, ShapedAnswer, ShapedMolecule, ShapedTokens
from engine.lp.shaped_processor import ShapedProcessor
from engine.lp.table import NO_ID
from engine.lp_records import GUARD_CHECKS
from engine.models.loading import LoadedModel, load_model
from engine.models.registry import load_registry
from engine.records import SHORTEST4, BinFormat
from engine.text.check import answer_of
from engine.text.tokenizers import load_tokenizer
from tests.support import ROOT as PROJECT
from tests.support import of_soak, sized

RINGS = ("C[C@H]1CC[C@H](N)C[C@@H]1C", "C[C@@H](O)[C@@H](N)C(=O)O", "C/C=C/C(=O)OC", "O=Cc1cnc([C@@H]2C[C@H](O)CO2)s1")
SMALL = ("C[C@H](N)O", "C/C=C/F", "CC1CC1")
ROWS = {"qwen3": 151_936, "llama3": 128_330}
FORM = LpParameters(form=SHORTEST4)
Scores = Callable[[Tensor], Tensor]


@pytest.fixture(scope="module")
def loaded() -> LoadedModel:
    return load_model(next(entry for entry in load_registry().entries if entry.alias == "demo-qwen"), "cpu")


@functools.cache
def constraint(tokenizer: str) -> ExactConstraint:
    made = build_constraint("shaped", load_tokenizer(tokenizer), ROWS[tokenizer])
    assert isinstance(made, ExactConstraint)
    return made


def pair(smiles: Sequence[str], tokenizer: str = "qwen3") -> tuple[ShapedProcessor, ProgramProcessor]:
    """Of these molecules the processors of ``shaped`` and ``exact``."""
    made, end = constraint(tokenizer), end_of(load_tokenizer(tokenizer))
    molecules = [parse_written(text) for text in smiles]
    exact = ProgramProcessor(made.automaton, list(map(made.compile, molecules)), end)
    return ShapedProcessor(made, molecules, end), exact


def padded(smiles: Sequence[str], tokenizer: str = "qwen3") -> Tensor:
    loaded, ids = load_tokenizer(tokenizer), []
    ids = [loaded.encode(prompt_of(text)) for text in smiles]
    width = max(map(len, ids))
    return torch.tensor([[end_of(loaded)] * (width - len(row)) + row for row in ids])


def noise(rows: int, width: int, seed: int = 0) -> Scores:
    """Of a model that knows nothing: each step other random scores, which depend on the ids of a row alone."""

    def scores(ids: Tensor) -> Tensor:
        made = torch.empty(rows, width)
        for row, key in zip(made, (ids * torch.arange(1, ids.shape[1] + 1)).sum(dim=1).tolist(), strict=True):
            row.normal_(generator=torch.Generator().manual_seed(seed + key))
        return made

    return scores


def walk(given: ShapedProcessor, exact: ProgramProcessor, ids: Tensor, scores: Scores, most: int = 900) -> list[str]:
    """Texts drawn from what stays; what stays is what ``exact`` has, or nothing."""
    tokenizer = load_tokenizer("llama3" if len(exact._automaton.classes) == ROWS["llama3"] else "qwen3")
    end, width = end_of(tokenizer), ids.shape[1]
    generator = torch.Generator().manual_seed(4)
    done = torch.zeros(len(ids), dtype=torch.bool)
    while not done.all():
        of_model = scores(ids)
        left, allowed = given(ids, of_model), exact(ids, of_model)
        stays = torch.isfinite(left)
        assert stays.any(dim=1).all()
        assert torch.equal(left[stays], allowed[stays])
        token = torch.multinomial(left.softmax(dim=1), 1, generator=generator)
        done |= token[:, 0] == end
        ids = torch.cat([ids, token], dim=1)
        assert ids.shape[1] < width + most, "it does not end"
    return [answer_of(tokenizer.decode([id_ for id_ in row if id_ != end])) for row in ids[:, width:].tolist()]


def is_right(text: str, smiles: str) -> bool:
    verdict = judge_answer(text, parse_written(smiles).mol)
    return verdict.geometry_right is True and verdict.stereo_right is not False


@pytest.mark.soak
@pytest.mark.parametrize("tokenizer", ROWS)
def test_a_model_that_knows_nothing_writes_right_molecules(tokenizer: str) -> None:
    smiles = sized(SMALL, (*SMALL, *RINGS))
    given, exact = pair(smiles, tokenizer)
    texts = walk(given, exact, padded(smiles, tokenizer), noise(len(smiles), ROWS[tokenizer]))
    assert [is_right(text, of) for text, of in zip(texts, smiles, strict=True)] == [
        row not in given.unmended for row in range(len(smiles))
    ]
    assert len(given.unmended) <= len(smiles) // 3
    assert given.stops == {} and max(given.rest) <= 1e-4


def answers(
    loaded: LoadedModel, given: Callable[[Tensor, Tensor], Tensor], smiles: Sequence[str], **how: Any
) -> list[str]:
    model: Any = loaded.model
    ids, end = padded(smiles), end_of(loaded.tokenizer)
    with torch.random.fork_rng(), torch.inference_mode():
        torch.manual_seed(1)
        options = {"do_sample": True, "temperature": 0.7, "top_p": 0.8, "max_new_tokens": 700, "suppress_tokens": []}
        written = model.generate(
            input_ids=ids,
            attention_mask=(ids != end).long(),
            logits_processor=[given],
            pad_token_id=end,
            **options | how,
        )
    texts = [loaded.tokenizer.decode(row) for row in written[:, ids.shape[1] :].tolist()]
    return [answer_of(text.partition("<|endoftext|>")[0]) for text in texts]


@pytest.mark.soak
def test_plain_generate_writes_right_molecules(loaded: LoadedModel) -> None:
    """Prompts of different length, several answers each; what has no mark is right."""
    smiles, count = sized(SMALL[:2], RINGS), sized(2, 8)
    given = logits_processor("shaped", smiles, "qwen3", loaded.vocab_rows)
    assert isinstance(given, ShapedProcessor)
    texts = answers(loaded, given, smiles, num_return_sequences=count)
    of = [text for text in smiles for _ in range(count)]
    right = [is_right(*one) for one in zip(texts, of, strict=True)]
    assert right == [row not in given.unmended for row in range(len(of))]
    assert right.count(True) >= 0.85 * len(of)
    assert len(set(texts)) == len(texts) == len(given.rest)


@of_soak
def test_plain_generate_of_held_out_molecules(loaded: LoadedModel) -> None:
    smiles = (PROJECT / "data" / "heldout.smi").read_text(encoding="utf-8").split()[200:224]
    given = logits_processor("shaped", smiles, "qwen3", loaded.vocab_rows)
    assert isinstance(given, ShapedProcessor)
    right = [is_right(*one) for one in zip(answers(loaded, given, smiles), smiles, strict=True)]
    assert right == [row not in given.unmended for row in range(len(smiles))]
    assert right.count(True) >= 0.85 * len(smiles)


@pytest.mark.soak
def test_beams_write_what_a_replay_writes(loaded: LoadedModel) -> None:
    """Each beam's text is written again alone; at every step the same tokens stay."""
    smiles = SMALL[:1]
    given, _ = pair(smiles)
    kept: dict[tuple[int, ...], Tensor] = {}

    def watched(input_ids: Tensor, scores: Tensor) -> Tensor:
        left = given(input_ids, scores)
        for ids, row, of_model in zip(input_ids.tolist(), left, scores, strict=True):
            kept[tuple(ids)] = torch.stack([of_model, row])
        return left

    (text,) = answers(loaded, watched, smiles, num_beams=3, do_sample=False, temperature=1.0, top_p=1.0)
    assert is_right(text, smiles[0])
    lines = [ids for ids in kept if len(ids) == max(map(len, kept))]
    assert len(lines) > 1
    prompt = padded(smiles).shape[1]
    for line in lines:
        alone, _ = pair(smiles)
        for length in range(prompt, len(line) + 1):
            of_model, expected = kept[line[:length]]
            left = alone(torch.tensor([line[:length]]), of_model[None])
            assert torch.equal(torch.isfinite(left[0]), torch.isfinite(expected))


def test_what_stays_is_the_whole_mask_where_everything_is_likely() -> None:
    """With even scores all tokens are asked: the mask is that of asking each of them, as our own loops have it."""
    smiles, even = ["C[C@H](N)O"], torch.zeros(1, ROWS["qwen3"])
    given, exact = pair(smiles)
    made, molecule = constraint("qwen3"), parse_written(smiles[0])
    program = made.compile(molecule)
    answer = ShapedAnswer(ShapedMolecule(molecule.mol, program, made, GUARD_CHECKS))
    columns = np.union1d(made.automaton.live, program.symbols[program.symbols != NO_ID])
    tokens, ids, asked, draws = ShapedTokens(made, columns), padded(smiles), 0, torch.Generator().manual_seed(2)
    state, tables = State(torch.zeros(1).long(), torch.zeros(1).long()), Tables.of(made.automaton, [program])
    start = ids.shape[1] + len(answer.molecule.opening)
    while ids[0, -1] != end_of(made.tokenizer) or ids.shape[1] < start:
        left, legal = given(ids, even), torch.isfinite(exact(ids, even))[0, columns].numpy()
        if ids.shape[1] >= start and answer.is_asked and legal.sum() > 1:
            assert torch.isfinite(left)[0, columns].tolist() == whole_mask(tokens, answer, legal).tolist()
            asked += 1
        token = torch.multinomial(left.softmax(dim=1), 1, generator=draws)
        ids, state = torch.cat([ids, token], dim=1), tables.step(state, token[:, 0])
        if ids.shape[1] > start:
            answer.take(token[0].tolist(), int(state.cell), int(state.node))
    assert asked > 20


def whole_mask(tokens: ShapedTokens, answer: ShapedAnswer, legal: np.ndarray) -> np.ndarray:
    candidates = tokens.candidates([answer], legal[None])
    while True:
        tokens.ask(candidates, *np.nonzero(candidates.status == UNKNOWN))
        if (candidates.status == RIGHT).any():
            return np.asarray(candidates.status[0] == RIGHT)
        assert tokens.widen(candidates, 0), "a dead end"


def test_the_token_that_closes_a_block_is_asked_of_the_number_as_written() -> None:
    """Where trailing zeros are dropped a number may end early: 1 is no length of C-O then, 1.2 and 1.43 are."""
    made, molecule = build_constraint("shaped", load_tokenizer("qwen3"), ROWS["qwen3"], FORM), parse_written("CO")
    assert isinstance(made, ExactConstraint)
    program = made.compile(molecule)
    columns = np.union1d(made.automaton.live, program.symbols[program.symbols != NO_ID])
    tokens, answer = (
        ShapedTokens(made, columns),
        ShapedAnswer(ShapedMolecule(molecule.mol, program, made, GUARD_CHECKS)),
    )
    state, tables = State(torch.zeros(1).long(), torch.zeros(1).long()), Tables.of(made.automaton, [program])
    closes = {}
    for place, id_ in enumerate(made.tokenizer.encode("[CONFORMER][C]<0,0,0>[O]<0,0,1.23>[/CONFORMER]")):
        legal = tables.mask(state)[0, columns].numpy()
        if len(answer.prefix.known) == 2 and answer.block == 1 and answer.is_asked and legal.sum() > 1:
            candidates = tokens.candidates([answer], legal[None])
            tokens.ask(candidates, *np.nonzero(candidates.status == UNKNOWN))
            of_closing = candidates.status[0, (candidates.action[0] == CLOSES) & legal]
            if len(of_closing):
                closes[answer.prefix.value] = bool((of_closing == RIGHT).all())
        state = tables.step(state, torch.tensor([id_]))
        if place >= len(answer.molecule.opening):
            answer.take([id_], int(state.cell), int(state.node))
    assert closes == {1.0: False, 1.2: True, 1.23: True}


@pytest.mark.parametrize("is_cleared", [False, True])
def test_a_place_that_was_found_is_kept_and_moved(is_cleared: bool) -> None:
    """Only the token that comes is asked; cleared: nothing but what was found for it is known then. At any time each
    place is as far from the atom before as is right, and stays so where it is moved by its room."""
    made, molecule = constraint("qwen3"), parse_written("CO")
    program = made.compile(molecule)
    columns = np.union1d(made.automaton.live, program.symbols[program.symbols != NO_ID])
    tokens, answer = (
        ShapedTokens(made, columns),
        ShapedAnswer(ShapedMolecule(molecule.mol, program, made, GUARD_CHECKS)),
    )
    state, tables, asked = State(torch.zeros(1).long(), torch.zeros(1).long()), Tables.of(made.automaton, [program]), 0
    text = "[CONFORMER][C]<0.0000,0.0000,0.0000>[O]<0.8125,-0.8125,0.8125>[/CONFORMER]"
    for place, id_ in enumerate(made.tokenizer.encode(text)):
        legal = tables.mask(state)[0, columns].numpy()
        known = len(answer.prefix.known)
        if place >= len(answer.molecule.opening) and answer.is_asked and legal.sum() > 1:
            candidates = tokens.candidates([answer], legal[None])
            assert answer.witnesses is not None and (is_cleared or len(answer.witnesses))
            if is_cleared:
                answer.witnesses, answer.rooms = answer.witnesses[:0], answer.rooms[:0]
            column = np.searchsorted(columns, [id_])
            tokens.ask(candidates, np.array([0]), column)
            assert candidates.status[0, column] == RIGHT
            if is_cleared and candidates.action[0, column] == SAME_AXIS:
                low, high = candidates.low[0, column], candidates.high[0, column]
                values = answer.witnesses[:, known, None]
                assert ((values >= low - 1e-6) & (values <= high + 1e-6)).any()
                asked += 1
        state = tables.step(state, torch.tensor([id_]))
        if place >= len(answer.molecule.opening):
            answer.take([id_], int(state.cell), int(state.node))
        if answer.block == 1 and answer.witnesses is not None:
            lower, upper = answer.checks.lower[answer.tolerance], answer.checks.upper[answer.tolerance]
            distances = np.linalg.norm(answer.witnesses - answer.positions[0], axis=1)
            assert (distances - answer.rooms >= lower - 1e-6).all() and (distances + answer.rooms <= upper + 1e-6).all()
            assert (answer.witnesses[:, : len(answer.prefix.known)] == answer.prefix.known).all()
            assert (answer.rooms >= 0).all()
    assert asked >= 3 * is_cleared and answer.block == 2 and not answer.unmended


@pytest.mark.parametrize("sharpness", [1.0, 8.0])
def test_what_is_struck_without_a_question_is_little(sharpness: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """At most 1e-4 of what stays; where few tokens have nearly all of the mass, few are asked."""
    given, exact = pair(SMALL[:1])
    tokens = given._asker._tokens
    ask, columns, asked, rests, total = tokens.ask, given._columns, set[int](), [0.0], [0, 0]

    def noted(candidates: Any, index: np.ndarray, of_rows: np.ndarray) -> None:
        asked.update(columns[of_rows].tolist())
        ask(candidates, index, of_rows)

    monkeypatch.setattr(tokens, "ask", noted)
    ids, scores, draws = padded(SMALL[:1]), noise(1, ROWS["qwen3"]), torch.Generator().manual_seed(3)
    while len(rests) == 1 or ids[0, -1] != end_of(load_tokenizer("qwen3")):
        asked.clear()
        of_model = sharpness * scores(ids)
        left, chances = given(ids, of_model), exact(ids, of_model)[0].double().softmax(dim=0)
        stays = torch.isfinite(left[0])
        unasked = chances * ~stays
        unasked[list(asked)] = 0.0
        rests.append(float(unasked.sum() / chances[stays].sum()))
        total = [total[0] + len(asked), total[1] + int((chances > 0).sum())]
        ids = torch.cat([ids, torch.multinomial(left.softmax(dim=1), 1, generator=draws)], dim=1)
    assert max(rests) <= 1.0001e-4 and max(given.rest) <= 1e-4
    assert total[0] < (0.8 if sharpness == 1.0 else 0.4) * total[1]


def test_what_cannot_be_right_is_written_and_named() -> None:
    """The second carbon is put far away by force: what follows is wrong, is named, and the text ends."""
    smiles = ["C[C@H](N)O"]
    given, _ = pair(smiles)
    scores, tokenizer, start = noise(1, ROWS["qwen3"]), load_tokenizer("qwen3"), padded(smiles).shape[1]
    ids = torch.cat(
        [padded(smiles), torch.tensor([tokenizer.encode("[CONFORMER][C]<1.0,1.0,1.0>[C@H]<9.0,9.0,9.0")])], 1
    )
    for length in range(start, ids.shape[1]):
        given(ids[:, :length], scores(ids[:, :length]))
    end = end_of(tokenizer)
    while ids[0, -1] != end:
        left = given(ids, scores(ids))
        ids = torch.cat([ids, left.argmax(dim=1, keepdim=True)], dim=1)
        assert ids.shape[1] < 400
    text = answer_of(tokenizer.decode(ids[0, start:-1].tolist()))
    assert not is_right(text, smiles[0]) and given.stops == {}
    assert ("bonds", (0, 1)) in [(wrong.check, wrong.atoms) for wrong in given.unmended[0]]
    far = [wrong for wrong in given.unmended[0] if 0 not in wrong.atoms]
    assert not far, "the atoms behind it are right to one another"


def test_molecules_and_forms_that_cannot_be_shaped(monkeypatch: pytest.MonkeyPatch) -> None:
    thousand = LpParameters(form=BinFormat.equal(-21, 21, 0.042))
    with pytest.raises(ConstraintError, match="not for these bins: tokens hold digits of several numbers"):
        logits_processor("shaped", ["CC"], "llama3", ROWS["llama3"], thousand)
    monkeypatch.setattr("engine.chem.geometry.pair_bounds", lambda mol: None)
    given, exact = pair(["CC"])
    assert given.notes == ["CC is written as under exact: distance geometry has no bounds for the molecule"]
    ids, scores = padded(["CC"]), noise(1, ROWS["qwen3"])
    for _ in range(12):
        left = given(ids, scores(ids))
        assert torch.equal(left, exact(ids, scores(ids)))
        ids = torch.cat([ids, left.argmax(dim=1, keepdim=True)], dim=1)
    assert given.unmended == {} and given.rest == [0.0]
