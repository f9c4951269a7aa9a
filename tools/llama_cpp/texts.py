"""Greedy answers of our engine without an LP, with the logits of every step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from engine.chem.enriched import skeleton_of
from engine.chem.molecule_sets import load_held_out
from engine.chem.smiles import parse_smiles
from engine.decode.generation import Generation
from engine.decode.plan import Plan
from engine.decode.presets import preset
from engine.decode.requests import default_limit
from engine.decode.steps import Choice, StopReason
from engine.logits.recorder import LogFile
from engine.models.loading import LoadedModel
from engine.records import Molecule
from tools.llama_cpp.figures import Rows

PLAN = Plan("none", sampling=preset("greedy"), batch_size=1)
FIRST_IDS = 10
"""Always logged, as in the reports' logs."""


@dataclass(frozen=True, slots=True, eq=False)
class ReferenceAnswer:
    """One answer of ours. ``rows`` [T, V] are those of tokens, before any LP."""

    molecule: Molecule
    prompt: tuple[int, ...]
    answer: tuple[int, ...]
    passed: bool
    limit: int  # most tokens that any engine may write
    rows: Rows


class Writer:
    """A loaded model that writes one molecule after another, always in the same order."""

    def __init__(self, loaded: LoadedModel, molecules: Sequence[Molecule]) -> None:
        self.loaded, self.molecules = loaded, list(molecules)
        self.size = loaded.tokenizer.vocab_size
        self._generation = Generation(loaded, [], PLAN)

    def text(self, number: int, log: LogFile | None = None) -> ReferenceAnswer:
        """The answer for one molecule; ``log`` is given its logits at every step."""
        molecule = self.molecules[number]
        generation, rows = self._generation.more([molecule], [number]), list[Rows]()
        log_tap = None if log is None else log.tap(self.loaded, PLAN.sampling, PLAN.seed, lambda _: molecule.smiles)

        def tap(choice: Choice) -> None:
            rows.append(choice.raw[:, : self.size].to("cpu", torch.float32, copy=True).numpy())
            if log_tap is not None:
                log_tap(choice)

        generation.tap = tap
        (sample,) = generation.run()
        prompt = generation.requests[0].prompt
        return ReferenceAnswer(
            molecule,
            prompt,
            sample.token_ids,
            sample.check.passed,
            default_limit(molecule.heavy_atoms),
            np.concatenate(rows),
        )

    @property
    def end(self) -> int:
        end = self.loaded.tokenizer.end_id
        assert end is not None, "the backend asks for it first"
        return end

    def passes(self, number: int, answer: Sequence[int]) -> bool:
        """Whether another engine's answer passes, by the same rule as ours."""
        reason: StopReason = "end" if answer and answer[-1] == self.end else "length"
        read = self._generation.reader.read(self.molecules[number], answer, [False] * len(answer), reason)
        return read.check.passed

    def by_transformers(self, text: ReferenceAnswer) -> Rows:
        """[T, V] by the model's own code, in one pass over the whole text."""
        ids = torch.tensor([[*text.prompt, *text.answer[:-1]]], device=self.loaded.device)
        with torch.inference_mode():
            rows = self.loaded.model(ids).logits[0, len(text.prompt) - 1 :, : self.size]
        return np.asarray(rows.float().cpu().numpy())


def held_out(count: int) -> list[Molecule]:
    return molecules_of([molecule.smiles for molecule in load_held_out()[:count]])


def molecules_of(smiles: Iterable[str]) -> list[Molecule]:
    molecules = list(map(parse_smiles, smiles))
    for molecule in molecules:
        skeleton_of(molecule)  # some have no enriched form, which is an error here
    return molecules


def ids_to_log(answers: Iterable[Sequence[int]], count: int) -> tuple[int, ...]:
    """The first ids of the vocabulary, and the most common ones of the answers."""
    seen = Counter(id_ for answer in answers for id_ in answer)
    common = [id_ for id_, _ in sorted(seen.items(), key=lambda one: (-one[1], one[0])) if id_ >= FIRST_IDS]
    return tuple(sorted([*range(min(FIRST_IDS, count)), *common[: max(0, count - FIRST_IDS)]]))
