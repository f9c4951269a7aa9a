"""How each embedded model is trained: its body, its tokenizer, and the order in which it meets the data.

Learnt by trial on a CPU: copying the molecule comes first and is hard. So structure weighs more than digits until it is
copied, late digits weigh little (they are noise that no model can guess), and the texts grow: few atoms and one decimal
first, since copying is learnt where the copied tokens stand close together, then more of both. The hands of
stereocentres are learnt in the smallest molecules first; ``text_frame`` makes the first one's hand a sign.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.errors import DriftscopeError, shown
from engine.text.tokenizer_build import QWEN_BINS
from tools.training.packed import KINDS
from tools.training.shapes import ModelShape


@dataclass(frozen=True, slots=True)
class LossWeights:
    """What a token weighs in the loss; a prompt's weigh nothing, it is given."""

    structure: float
    digits: float  # the integer part and the first two decimals
    deciding: float  # times that of a number, where its atom's place decides a stereocentre's hand or a bond's side
    end: float = 3.0
    marks: float = 0.5  # sign, point, comma
    late_digits: float = 0.25

    def by_kind(self) -> NDArray[np.float32]:
        """The weight of each of ``packed.KINDS``, by its number."""
        of_kind = {
            "prompt": 0.0,
            "structure": self.structure,
            "end": self.end,
            **dict.fromkeys(("sign", "point", "comma"), self.marks),
            **dict.fromkeys(("integer", "decimal_1", "decimal_2"), self.digits),
            **dict.fromkeys(("decimal_3", "decimal_4"), self.late_digits),
        }
        return np.array([of_kind[kind] for kind in KINDS], dtype=np.float32)


COPYING = LossWeights(structure=3.0, digits=0.5, deciding=6.0)
PLACING = LossWeights(structure=2.0, digits=1.0, deciding=2.0)
"""For the last third: copies are right by then, and a molecule is wrong by where its atoms stand."""


@dataclass(frozen=True, slots=True)
class Stage:
    """What is drawn until this share of the training is done."""

    until: float
    most_atoms: int
    decimals: tuple[int, ...]  # one is drawn for each group of texts; repeat one for more of it
    weights: LossWeights = COPYING


GROWING = (
    Stage(0.06, most_atoms=8, decimals=(1,)),
    Stage(0.22, most_atoms=12, decimals=(1,)),
    Stage(0.40, most_atoms=16, decimals=(1, 1, 2, 3)),
    Stage(0.55, most_atoms=18, decimals=(1, 2, 3, 4, 4)),
    Stage(0.67, most_atoms=18, decimals=(4,)),
    Stage(1.0, most_atoms=18, decimals=(4,), weights=PLACING),
)
"""Qwen's tokenizer cuts digits one by one: an atom takes 23 tokens with four decimals, and 14 with one."""
GROWING_IN_ATOMS = (
    Stage(0.06, most_atoms=8, decimals=(4,)),
    Stage(0.22, most_atoms=12, decimals=(4,)),
    Stage(0.40, most_atoms=16, decimals=(4,)),
    Stage(0.67, most_atoms=18, decimals=(4,)),
    Stage(1.0, most_atoms=18, decimals=(4,), weights=PLACING),
)
"""LLaMA's takes 16 and 13: little to gain, and an early checkpoint writes all its decimals."""


@dataclass(frozen=True, slots=True)
class Recipe:
    alias: str
    tokenizer: str
    shape: ModelShape
    seed: int = 0
    tokens_a_step: int = 4_096
    learning_rate: float = 3e-3
    weight_decay: float = 0.01
    warm_up: float = 0.02  # share of a run in which the learning rate rises
    decay: float = 0.35  # share of a run, at its end, in which it falls to nothing
    stages: tuple[Stage, ...] = GROWING
    canonical: bool = False  # only texts in the canonical order, none in a random one
    bin_waves: float = 0.0  # standard deviation of the rows that bins begin with, neighbours alike; 0: as any other row
    keep_zeros: bool = False  # as the field's fixed writer: with four decimals, `0.2500`

    def stage(self, progress: float) -> Stage:
        return next((stage for stage in self.stages if progress < stage.until), self.stages[-1])

    def rate(self, share: float) -> float:
        """The learning rate when this share of a run is over: up, level, down in a straight line."""
        up = share / self.warm_up if self.warm_up else 1.0
        down = (1.0 - share) / self.decay if self.decay else 1.0
        return self.learning_rate * max(0.0, min(1.0, up, down))


RECIPES = {
    recipe.alias: recipe
    for recipe in (
        Recipe("demo-qwen", "qwen3", ModelShape("qwen3")),
        Recipe("demo-llama", "llama3", ModelShape("llama"), stages=GROWING_IN_ATOMS),
        # demo-qwen but for the tokenizer: as many texts a step, and LLaMA's take 0.77 times the tokens.
        Recipe("demo-qwen-l3", "llama3", ModelShape("qwen3"), tokens_a_step=3_152),
        # A smaller body: an atom has three numbers of a token each in place of 23 tokens. It ships in 2.4 MB.
        Recipe(
            "demo-bins", QWEN_BINS, ModelShape("qwen3", width=192, inner=288), stages=GROWING_IN_ATOMS, bin_waves=0.06
        ),
        # Two that do not ship: what order and number format change (docs/lost_third.md).
        Recipe("demo-qwen-canonical", "qwen3", ModelShape("qwen3"), canonical=True),
        Recipe("demo-qwen-fixed", "qwen3", ModelShape("qwen3"), keep_zeros=True),
    )
}


def recipe_of(alias: str) -> Recipe:
    if alias not in RECIPES:
        raise DriftscopeError(f"no recipe for {shown(alias)}", f"Known are {', '.join(RECIPES)}")
    return RECIPES[alias]
