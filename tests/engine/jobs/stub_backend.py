"""Ready answers in place of a model, for tests and the benchmark of long runs."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

from engine.chem.enriched import CLOSE_TAG, OPEN_TAG, fill_blocks, prompt_of
from engine.decode import generation
from engine.decode.plan import DecodeOptions, Request
from engine.decode.steps import Counters, Event, Step, Stop
from engine.models.loading import LoadedModel
from engine.records import Molecule
from engine.text.tokenizers import TextTokenizer

ANSWERS = 50
"""Different answers per molecule."""
SEED = 0


class StubBackend:
    """Has ready answers by prompt, and the tokens of one after the other."""

    def __init__(self, answers: dict[tuple[int, ...], list[list[int]]]) -> None:
        self.answers = answers

    def run(
        self, requests: Sequence[Request], options: DecodeOptions, counters: Counters, cancelled: Callable[[], bool]
    ) -> Iterator[Event]:
        for request in requests:
            if cancelled():
                yield Stop(request.sample, "cancelled")
                continue
            answers = self.answers[tuple(request.prompt)]
            for pos, id_ in enumerate(answers[request.sample % len(answers)]):
                yield counters.count(Step(request.sample, pos, id_, forced=False))
            yield Stop(request.sample, "end")


def answers_of(molecule: Molecule, tokenizer: TextTokenizer, rng: random.Random) -> list[list[int]]:
    def block() -> str:
        return ",".join(f"{rng.uniform(-5, 5):.4f}" for _ in range(3))

    assert tokenizer.end_id is not None
    contents = [[block() for _ in molecule.descriptors] for _ in range(ANSWERS)]
    texts = [f"{OPEN_TAG}{fill_blocks(molecule.smiles, molecule.descriptors, row)}{CLOSE_TAG}" for row in contents]
    return [[*ids, tokenizer.end_id] for ids in tokenizer.encode_batch(texts)]


def stubbed(loaded: LoadedModel, molecules: Sequence[Molecule]) -> None:
    """From here on, generations of this process take their tokens from ready answers."""
    rng = random.Random(SEED)
    answers = {
        tuple(loaded.tokenizer.encode(prompt_of(molecule.smiles))): answers_of(molecule, loaded.tokenizer, rng)
        for molecule in molecules
    }
    generation.make_backend = lambda *_, **__: StubBackend(answers)  # type: ignore[assignment]
