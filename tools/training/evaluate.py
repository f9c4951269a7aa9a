"""How many held-out molecules the model copies right while it is being trained, and how many have the right stereo.

Copies are judged by ids, without RDKit. Where RDKit is installed, the stereo of each right copy is judged in space:
what the exact LP, which forces the copy and no number, leaves to the model. Sampled as the preset ``qwen3`` samples
(temperature 0.7, top-p 0.8, top-k 20), over the live ids only: the tail has no rows yet. The figures that a card
states come from the shipped form, in ``quality``; these steer the training.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.text.tokenizers import NumberIds
from tools.training.batches import LiveIds
from tools.training.network import Network
from tools.training.packed import PROMPT, BinIds, PackedCorpus

SIZES = (8, 12, 16)
"""Figures are given for molecules of at most so many atoms, and more than the size before."""
HAS_RDKIT = find_spec("rdkit") is not None  # a machine that only trains needs none
SITES = (1, 2, 3)
"""And for molecules that state so many stereocentres and double bonds; the last one for more, too."""
Segments = Sequence[list[int]]


class StructureJudge:
    """Is every copied token of an answer right, and is every block a triple of numbers? By its token ids alone.

    Stricter than 'same graph': the atoms must come in the prompt's order, and the structure be cut as the tokenizer
    cuts it. Digit runs are taken however they are cut, and may be of any length.
    """

    def __init__(self, numbers: NumberIds | BinIds) -> None:
        self._triple: tuple[frozenset[int], ...]
        if isinstance(numbers, BinIds):
            self._digits, self._triple = frozenset[int](), (frozenset(numbers.ids),) * 3
            return
        self._digits = frozenset(id_ for row in numbers.digits for id_ in row)
        number = (self._digits, frozenset({numbers.point}), self._digits)
        comma = (frozenset({numbers.comma, *([numbers.comma_minus] if numbers.comma_minus is not None else [])}),)
        self._triple = (*number, *comma, *number, *comma, *number)

    def is_right(self, answer: list[int], plain: Segments, signed: Segments) -> bool:
        """``answer`` runs from ``[CONFORMER]`` to the end token; the segments are ``PackedPart.segments``."""
        index = 0
        for either in zip(signed[:-1], plain[:-1], strict=True):
            segment = next((ids for ids in either if answer[index : index + len(ids)] == ids), None)
            if segment is None:
                return False
            index += len(segment)
            for allowed in self._triple:
                start = index
                while index < len(answer) and answer[index] in allowed and (index == start or allowed is self._digits):
                    index += 1
                if index == start:
                    return False
        return answer[index:] == plain[-1]


def answers_of(
    model: Any, prompts: Sequence[list[int]], limits: Sequence[int], ends: Sequence[int], **sampling: Any
) -> list[list[int]]:
    """By ``generate``, in one batch: each answer up to its end token, or to its own limit."""
    width = max(map(len, prompts))
    ids = torch.tensor([[ends[0]] * (width - len(prompt)) + prompt for prompt in prompts])
    mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    rows: Tensor = model.generate(
        input_ids=ids.to(model.device),
        attention_mask=mask.to(model.device),
        max_new_tokens=max(limits),
        pad_token_id=ends[0],
        **sampling,
    )
    answers = []
    for row, limit in zip(rows[:, width:].tolist(), limits, strict=True):
        stop = next((index for index, id_ in enumerate(row[:limit]) if id_ in ends), limit)
        answers.append(row[: stop + 1][:limit])
    return answers


@dataclass(frozen=True, slots=True)
class Prompt:
    """A held-out molecule. ``most`` bounds its answer: the reference's own length and some more."""

    ids: NDArray[np.int64]  # the model's numbering
    atoms: int
    most: int
    plain: Segments
    signed: Segments


@dataclass(frozen=True, slots=True)
class PassRate:
    """``right`` and ``asked`` by the classes of ``SIZES``; molecules of right and of judged stereo by ``SITES``."""

    right: tuple[int, ...]
    asked: tuple[int, ...]
    stereo_right: tuple[int, ...] = ()
    stereo_judged: tuple[int, ...] = ()  # empty where there is no RDKit

    @property
    def share(self) -> float:
        return sum(self.right) / max(1, sum(self.asked))

    def line(self) -> str:
        parts = [
            f"{right} of {asked} up to {most}" for right, asked, most in zip(self.right, self.asked, SIZES, strict=True)
        ]
        copied = f"{100 * self.share:.1f} % right ({', '.join(parts)} atoms)"
        if not self.stereo_judged:
            return copied
        counts = zip(self.stereo_right, self.stereo_judged, SITES, strict=True)
        hands = ", ".join(f"{right} of {judged} with {sites}" for right, judged, sites in counts)
        return f"{copied}; stereo right {hands} or more sites"

    def as_json(self) -> dict[str, Any]:
        judged = {"stereo_rate": sum(self.stereo_right) / sum(self.stereo_judged)} if any(self.stereo_judged) else {}
        return {"pass_rate": self.share, **judged, **asdict(self)}


class Examination:
    """Held-out prompts of one tokenizer."""

    def __init__(self, corpus: PackedCorpus, live: LiveIds, count: int) -> None:
        self._live = live
        self._numbers, self._judge = corpus.numbers, StructureJudge(corpus.numbers)
        self._pieces = corpus.pieces
        self.prompts: list[Prompt] = []
        for part in corpus.parts:
            for row in np.flatnonzero(part.is_canonical & (part.atoms <= SIZES[-1]) & part.is_within):
                ids, kinds = part.tokens(np.array([row])).text(0)
                prompt = live.local(ids[kinds == PROMPT])
                if (prompt < 0).any():
                    continue  # a token that the training texts never hold
                plain, signed = part.segments(int(row))
                most = int(1.15 * (len(ids) - len(prompt))) + 16
                self.prompts.append(Prompt(prompt, int(part.atoms[row]), most, plain, signed))
                if len(self.prompts) == count:
                    return

    def rate(self, network: Network, seed: int = 0, batch: int = 64) -> PassRate:
        """Ask each prompt once. The network's mode and the global generator are left as they were."""
        right, asked = [0] * len(SIZES), [0] * len(SIZES)
        stereo_right, stereo_judged = [0] * len(SITES), [0] * len(SITES)
        was_training = network.training
        network.eval()
        order = sorted(self.prompts, key=lambda prompt: prompt.most)
        device = network.tail_row.device
        with torch.random.fork_rng([device] if device.type == "cuda" else []), torch.inference_mode():
            torch.manual_seed(seed)
            for start in range(0, len(order), batch):
                group = order[start : start + batch]
                for prompt, answer in zip(group, self._answers(network, group), strict=True):
                    size = next(number for number, most in enumerate(SIZES) if prompt.atoms <= most)
                    asked[size] += 1
                    if not self._judge.is_right(answer, prompt.plain, prompt.signed):
                        continue
                    right[size] += 1
                    if not HAS_RDKIT:
                        continue
                    from engine.chem.enriched import decode
                    from engine.chem.stereo import judge_stereo

                    mol = decode(self._decimals(answer, prompt)).mol
                    verdict = judge_stereo(mol, mol)
                    if verdict.sites:
                        stereo_judged[min(len(verdict.sites), SITES[-1]) - 1] += 1
                        stereo_right[min(len(verdict.sites), SITES[-1]) - 1] += not verdict.wrong
        network.train(was_training)
        return PassRate(*map(tuple, (right, asked, *((stereo_right, stereo_judged) if HAS_RDKIT else ()))))

    def _decimals(self, answer: list[int], prompt: Prompt) -> str:
        """The text of a right answer; of bins, with their middles in decimals."""
        if not isinstance(self._numbers, BinIds):
            return "".join(self._pieces[id_] for id_ in answer[:-1])
        middles = dict(zip(self._numbers.ids, self._numbers.middles(), strict=True))
        text, index = "", 0
        for segment in prompt.plain[:-1]:
            index += len(segment)
            block = ",".join(f"{middles[id_]:.4f}" for id_ in answer[index : index + 3])
            index += 3
            text += "".join(self._pieces[id_] for id_ in segment).removeprefix(";") + f"<{block}>"
        return text + "".join(self._pieces[id_] for id_ in prompt.plain[-1][:-1]).removeprefix(";")

    def _answers(self, network: Network, group: list[Prompt]) -> list[list[int]]:
        """The answers in the tokenizer's numbering, up to their end token."""
        end, prompts = self._live.end, [prompt.ids.tolist() for prompt in group]
        sampling = {"do_sample": True, "temperature": 0.7, "top_p": 0.8, "top_k": 20, "eos_token_id": end}
        answers = answers_of(network.causal, prompts, [prompt.most for prompt in group], [end], **sampling)
        return [self._live.ids[answer].tolist() for answer in answers]
