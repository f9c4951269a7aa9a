"""How a model was trained, as a card tells it. Needs what the trainer needs and nothing more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from engine.models.shapes import Shape
from engine.training.recipes import Recipe, Stage

DATA = (
    "MOSES molecules and pieces of them, 4 to 18 heavy atoms, a tenth of them ions; one ETKDGv3 conformer each, in its "
    "principal-axis frame; none whose skeleton is held out"
)


@dataclass(frozen=True, slots=True)
class TrainingFacts:
    """How a model was trained. ``hardware`` entries are as the trainer notes them: device and precision."""

    alias: str
    step: str
    tokenizer: str
    shape: Shape
    tokens: int
    texts: int
    steps: int
    minutes: float
    hardware: tuple[str, ...]
    stages: tuple[Stage, ...]
    optimiser: str
    command: str
    data: str = DATA
    measured_by: str = ""  # the command that measured it

    @property
    def measure_command(self) -> str:
        return self.measured_by or f"python -m engine.training.measure --model {self.alias}:{self.step}"

    @property
    def gpu_command(self) -> str | None:
        """What would train it on a GPU; None where one was used."""
        if not all(what.startswith("CPU") for what in self.hardware):
            return None
        return f"python -m engine train --model {self.alias} --hours 1 --device cuda"

    @property
    def most_atoms(self) -> int:
        return max((stage.most_atoms for stage in self.stages), default=0)

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "measured_by": self.measure_command, "owed": self.gpu_command}


def facts_from(state: Mapping[str, Any], recipe: Recipe, alias: str, step: str, command: str) -> TrainingFacts:
    """The facts in a trainer's state, or in what a shipped file tells of it."""
    return TrainingFacts(
        alias=alias,
        step=step,
        tokenizer=recipe.tokenizer,
        shape=recipe.shape,
        tokens=int(state["tokens"]),
        texts=int(state["texts"]),
        steps=int(state["steps"]),
        minutes=float(state["spent_s"]) / 60,
        hardware=tuple(state["hardware"]),
        stages=recipe.stages,
        optimiser=optimiser_of(recipe, state.get("optimisers", ())),
        command=command,
    )


OPTIMISERS = {"muon": "Muon for the body's matrices, AdamW for rows and scales", "adamw": "AdamW"}


def optimiser_of(recipe: Recipe, kinds: Sequence[str]) -> str:
    """In words; Muon's where none is noted, as in the files of before there was a choice."""
    matrices = ", then ".join(OPTIMISERS[kind] for kind in kinds or ("muon",))
    return (
        f"{matrices}; learning rate {recipe.learning_rate:g}, falling "
        f"over the last {100 * recipe.decay:.0f} %; {recipe.tokens_a_step:,} tokens a step; tokens that are copied "
        "weigh 3, those of numbers 0.5 and less"
    )
