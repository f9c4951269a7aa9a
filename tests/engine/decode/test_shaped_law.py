"""The law of ``shaped`` with real tokenizers: what is drawn behind a fixed prefix, by chi-square against the full mask.

The mask is that of asking each likely token alone; Hugging Face's warpers apply the filters behind it. Where asking a
token with others finds a place that asking it alone misses, the mask is not one: such prefixes are left out.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from rdkit import Chem
from rdkit.Chem import AllChem
from torch import Tensor
from transformers import MinPLogitsWarper, TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from engine.chem.enriched import encode
from engine.chem.smiles import parse_written
from engine.decode.plan import Sampling
from engine.decode.sampling import steps_behind, uniform
from engine.decode.shaping import Shaper
from engine.lp.driver import State, Tables
from engine.lp.shaped import RIGHT, ShapedAnswer, ShapedMolecule, ShapedTokens
from engine.lp.table import NO_ID
from engine.lp_records import GUARD_CHECKS
from tests.engine.lp.test_shaped_processor import ROWS, constraint, whole_mask
from tests.support import sized

SMILES = ("CO", "CC", "C[C@H](N)O")
SAMPLINGS = (Sampling(), Sampling(1.0, top_k=3), Sampling(0.8, top_p=0.7), Sampling(0.9, min_p=0.4))
SEED, LEAST_EXPECTED, LEAST_P = 3, 5.0, 1e-3
LIKELY, UNLIKELY = 6, -20.0
"""Of tokens that are right, and of others, so many are likely; what is added to the logits of the rest."""


@dataclass(frozen=True, slots=True, eq=False)
class Behind:
    """A prefix of an answer and what may come behind it, by the columns of ``tokens``."""

    molecule: ShapedMolecule
    tokens: ShapedTokens
    ids: list[int]  # behind the text's opening
    at: tuple[int, int]  # cell and node
    logits: Tensor  # [C] minus infinity where ``exact`` allows nothing
    right: np.ndarray  # [C]

    def answer(self) -> ShapedAnswer:
        answer = ShapedAnswer(self.molecule)
        answer.take(self.ids, *self.at)
        return answer

    @property
    def masked(self) -> Tensor:
        return self.logits.masked_fill(torch.from_numpy(~self.right), -torch.inf)


def text_of(smiles: str) -> str:
    """One of RDKit's conformers."""
    mol = Chem.AddHs(parse_written(smiles).mol)
    AllChem.EmbedMolecule(mol, randomSeed=4)
    return f"[CONFORMER]{encode(Chem.RemoveHs(mol)).text}[/CONFORMER]"


def prefixes(name: str, smiles: str) -> Iterator[Behind]:
    """Of one text those at whose end some tokens are right and others are not."""
    made, parsed, draws = constraint(name), parse_written(smiles), torch.Generator().manual_seed(SEED)
    program = made.compile(parsed)
    molecule = ShapedMolecule(parsed.mol, program, made, GUARD_CHECKS)
    symbols = program.symbols[program.symbols != NO_ID]
    tokens = ShapedTokens(made, np.union1d(made.automaton.live, symbols).astype(np.int64))
    tables, state = Tables.of(made.automaton, [program]), State(torch.zeros(1).long(), torch.zeros(1).long())
    ids, opening = made.tokenizer.encode(text_of(smiles)), len(molecule.opening)
    for place, id_ in enumerate(ids):
        legal, at = tables.mask(state)[0, tokens.columns], (int(state.cell), int(state.node))
        behind = Behind(molecule, tokens, ids[opening:place], at, torch.zeros(0), np.zeros(0))
        if place >= opening and behind.answer().is_asked and legal.sum() > 1:
            yield from with_logits(behind, legal, draws)
        state = tables.step(state, torch.tensor([id_]))


def with_logits(behind: Behind, legal: Tensor, draws: torch.Generator) -> Iterator[Behind]:
    """The same with a few likely tokens, in the narrowest tolerance in which one is right."""
    together = behind.answer()
    right = whole_mask(behind.tokens, together, legal.numpy())
    likely = np.zeros(len(right), dtype=bool)
    for of in (right, ~right & legal.numpy()):
        likely[np.flatnonzero(of)[torch.randperm(int(of.sum()), generator=draws)[:LIKELY]]] = True
    logits = torch.randn(len(legal), generator=draws) + UNLIKELY * torch.from_numpy(~likely)
    if not 1 < (likely & right).sum() < likely.sum():
        return
    for column in np.flatnonzero(likely):
        alone = behind.answer()
        candidates = behind.tokens.candidates([alone], legal.numpy()[None])
        while alone.tolerance < together.tolerance:
            behind.tokens.widen(candidates, 0)
        behind.tokens.ask(candidates, np.array([0]), np.array([column]))
        if (candidates.status[0, column] == RIGHT) != right[column]:
            return
    yield replace(behind, logits=logits.masked_fill(~legal, -torch.inf), right=right)


@functools.cache
def chosen(name: str) -> list[Behind]:
    found = [list(prefixes(name, smiles)) for smiles in SMILES]
    return [behind for of_molecule in found for behind in of_molecule[:: sized(5, 2)]]


def drawn(behind: Behind, sampling: Sampling, count: int, is_biased: bool = False) -> Tensor:
    """[C] how often each token comes; biased: a struck one is followed by a draw with the same number."""

    def numbers(rows: Sequence[int], tries: Sequence[int]) -> Tensor:
        steps = [steps_behind(0, 0 if is_biased else count) for count in tries]
        return uniform(SEED, torch.tensor(rows), torch.tensor(steps))

    rows: Any = [SimpleNamespace(answer=behind.answer(), shaping=None) for _ in range(count)]
    shaper = Shaper(behind.tokens, sampling, numbers)
    columns, dead = shaper.choose(rows, behind.logits.repeat(count, 1), numbers(range(count), [0] * count))
    assert not dead
    return torch.bincount(columns, minlength=len(behind.logits)).double()


def filtered(logits: Tensor, sampling: Sampling) -> Tensor:
    """[C] probabilities, by Hugging Face's warpers."""
    warpers: list[Any] = [TemperatureLogitsWarper(sampling.temperature)]
    warpers += [TopKLogitsWarper(sampling.top_k)] if sampling.top_k else []
    warpers += [TopPLogitsWarper(sampling.top_p)] if sampling.top_p < 1 else []
    warpers += [MinPLogitsWarper(sampling.min_p)] if sampling.min_p else []
    scores = logits[None].double()
    for warper in warpers:
        scores = warper(None, scores)
    return scores[0].softmax(dim=0)


def p_value(counts: Tensor, law: Tensor) -> float:
    """Of a chi-square test; 0 where something came that cannot. Rare tokens count as one."""
    expected = law * counts.sum()
    if counts[expected == 0].any():
        return 0.0
    is_rare = expected < LEAST_EXPECTED
    of = torch.stack([counts, expected])
    of = torch.cat([of[:, ~is_rare], of[:, is_rare].sum(dim=1, keepdim=True)], dim=1)
    of = of[:, of[1] >= 1]  # all rare ones together may be less than one draw
    squares = ((of[0] - of[1]) ** 2 / of[1]).sum()
    return float(torch.special.gammaincc(torch.tensor((of.shape[1] - 1) / 2).double(), squares / 2))


@pytest.mark.soak
@pytest.mark.parametrize("name", ROWS)
def test_what_is_drawn_is_the_law_of_the_full_mask(name: str) -> None:
    """And the same test tells it from what is wrong: the same number drawn again, filters before the mask."""
    tested, wrong = 0, dict.fromkeys(SAMPLINGS, 1.0)
    for behind in chosen(name):
        for sampling in SAMPLINGS:
            law, count = filtered(behind.masked, sampling), sized(200, 600)
            if (law > 0).sum() < 2:
                continue
            counts = drawn(behind, sampling, count)
            assert p_value(counts, law) > LEAST_P, (behind.ids, sampling)
            if sampling.has_filters:
                law = filtered(behind.logits, sampling) * torch.from_numpy(behind.right)
                law /= law.sum().clamp(min=1e-9)
            else:
                counts = drawn(behind, sampling, count, is_biased=True)
            wrong[sampling] = min(wrong[sampling], p_value(counts, law))
            tested += 1
    assert tested >= 8
    assert max(wrong.values()) < LEAST_P
