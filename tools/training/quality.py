"""Measures a model in the form in which it is shipped: plain ``generate``, no logits processor, held-out molecules.

The folder is an ordinary Hugging Face folder; what is suppressed there (the rows of a padded vocabulary) is suppressed
here, and nothing else is. Each molecule is asked once. Sampling is seeded batch by batch, so a figure depends on the
seed, the batch size and the machine's arithmetic.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np
import torch
from rdkit import Chem
from transformers import AutoModelForCausalLM

from engine.chem.conformers import reference_conformers
from engine.chem.enriched import prompt_of
from engine.chem.frame import add_conformer
from engine.chem.rmsd import least_rmsd
from engine.chem.smiles import parse_smiles
from engine.errors import DriftscopeError, ModelError
from engine.lp_records import NO_LP
from engine.models.devices import pick_device
from engine.models.shipped import SAMPLING
from engine.records import TRIMMED4, Check, Kind, Molecule, NumberFormat
from engine.text.blocks import find_blocks, read_blocks
from engine.text.check import answer_of, check_sample, decode_with
from engine.text.tokenizers import TextTokenizer
from tools.terminal import Progress
from tools.training.evaluate import answers_of
from tools.training.molecules import EMBED_SECONDS, draw

log = logging.getLogger(__name__)

SIZE_CLASSES = {"4-8": (4, 8), "9-12": (9, 12), "13-16": (13, 16)}
"""Heavy atoms, both ends included. ``all`` counts every molecule, those of no class too."""
ALL = "all"
TOKENS_AN_ATOM, TOKENS_AROUND = 40, 64
"""The limit of an answer. An atom takes some 25 with its block: an answer that is cut off had lost its way."""
REFERENCES, CHAIN_STEP_ANG = 20, 1.5


@dataclass(frozen=True, slots=True)
class Distances:
    """Least heavy-atom RMSDs to the references; ``etkdg_ang`` is None where no more embedded."""

    model_ang: float
    chain_ang: float
    etkdg_ang: float | None


def distances(generated: Chem.Mol, molecule: Molecule, seed: int = 0, references: int = REFERENCES) -> Distances:
    """Of a generated conformer of the same graph, atoms in any order; ``DriftscopeError`` without references.

    Two yardsticks are next to the model's: a random chain, which knows the bonds and nothing else, and one more ETKDGv3
    conformer, about the best that can be hoped for.
    """
    embedded = reference_conformers(molecule, references + 1, seed=seed, max_seconds=EMBED_SECONDS)
    ensemble, more = Chem.Mol(embedded), Chem.Mol(embedded)
    for conformer in [conformer.GetId() for conformer in embedded.GetConformers()]:
        (more if conformer < references else ensemble).RemoveConformer(conformer)
    return Distances(
        least_rmsd(generated, ensemble),
        least_rmsd(random_chain(molecule, seed), ensemble),
        least_rmsd(more, ensemble) if more.GetNumConformers() else None,
    )


def random_chain(molecule: Molecule, seed: int = 0) -> Chem.Mol:
    """The molecule with each atom 1.5 angstrom from one that it is bonded to, in a random direction.

    The bonded atom is the last one before it in the text; the first atom of a fragment follows the atom before it.
    """
    random = np.random.Generator(np.random.PCG64(draw("random chain", str(seed), molecule.smiles)))
    mol = Chem.Mol(molecule.mol)
    mol.RemoveAllConformers()
    steps = random.standard_normal((mol.GetNumAtoms(), 3))
    steps *= CHAIN_STEP_ANG / np.linalg.norm(steps, axis=1, keepdims=True)
    xyz = np.zeros_like(steps)
    for atom in range(1, len(xyz)):
        earlier = [other.GetIdx() for other in mol.GetAtomWithIdx(atom).GetNeighbors() if other.GetIdx() < atom]
        xyz[atom] = xyz[max(earlier, default=atom - 1)] + steps[atom]
    add_conformer(mol, xyz)
    return mol


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """One molecule's answer. It has no distances unless the graph is right and the coordinates can be read."""

    smiles: str
    atoms: int  # heavy ones
    text: str
    tokens: int
    ended: bool  # by the end token, not by the limit
    check: Check
    inexact_blocks: int
    kinds: tuple[Kind, ...]  # of all of these together
    distances: Distances | None
    unseen_tokens: int | None  # that no training text holds; None where these are not known


@dataclass(frozen=True, slots=True)
class Quality:
    """All answers of one model, and the figures that follow from them."""

    samples: tuple[ModelAnswer, ...]  # in the order of the molecules asked for
    seed: int
    batch: int
    parameters: int
    vocab_size: int  # rows of the model

    def by_size(self) -> dict[str, list[ModelAnswer]]:
        sizes = {
            name: [sample for sample in self.samples if low <= sample.atoms <= high]
            for name, (low, high) in SIZE_CLASSES.items()
        }
        return {**sizes, ALL: list(self.samples)}

    def as_json(self) -> dict[str, Any]:
        """Figures only, in plain numbers; what could not be measured is null."""
        flags = ("parsed", "same_graph", "passed", "decodes", "clean")

        def rmsd(name: str) -> dict[str, Any]:
            summaries = {}
            for size, samples in self.by_size().items():
                distances = [getattr(sample.distances, name) for sample in samples if sample.distances is not None]
                values = [value for value in distances if value is not None]
                mean, middle = (fmean(values), median(values)) if values else (None, None)
                summaries[size] = {"molecules": len(values), "mean_ang": mean, "median_ang": middle}
            return summaries

        unseen = [sample.unseen_tokens for sample in self.samples if sample.unseen_tokens is not None]
        return {
            "seed": self.seed,
            "batch": self.batch,
            "sampling": dict(SAMPLING),
            "parameters": self.parameters,
            "vocab_size": self.vocab_size,
            "references": REFERENCES,
            "sizes": {
                name: {
                    "asked": len(samples),
                    "ended": sum(sample.ended for sample in samples),
                    **{flag: sum(getattr(sample.check, flag) for sample in samples) for flag in flags},
                }
                for name, samples in self.by_size().items()
            },
            "rmsd": rmsd("model_ang"),
            "baseline": rmsd("chain_ang"),
            "etkdg": rmsd("etkdg_ang"),
            "blocks": sum(sample.check.blocks for sample in self.samples),
            "inexact_blocks": sum(sample.inexact_blocks for sample in self.samples),
            "kinds": dict(Counter(kind for sample in self.samples for kind in sample.kinds)),
            "unseen": {"samples": sum(count > 0 for count in unseen), "tokens": sum(unseen)} if unseen else None,
        }


def measure(
    folder: Path,
    tokenizer: TextTokenizer,
    smiles: Sequence[str],
    *,
    seed: int = 0,
    batch: int = 32,
    seen_ids: Collection[int] | None = None,
    device: str = "auto",
    form: NumberFormat = TRIMMED4,
) -> Quality:
    model = load_model(folder)
    model.to(pick_device(device))
    molecules = [parse_smiles(text) for text in smiles]
    seen = None if seen_ids is None else frozenset(seen_ids)
    judged: dict[int, ModelAnswer] = {}
    progress = Progress("molecules", len(molecules))
    for group, answers in _answers(model, tokenizer, molecules, seed, batch):
        for index, ids in zip(group, answers, strict=True):
            judged[index] = _judged(molecules[index], ids, tokenizer, _end_ids(model), seen, seed, form)
        progress.advance(len(group))
    in_order = tuple(judged[index] for index in range(len(molecules)))
    return Quality(in_order, seed, batch, int(model.num_parameters()), int(model.config.vocab_size))


def load_model(folder: Path) -> Any:
    model = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, local_files_only=True, trust_remote_code=False, use_safetensors=True
    )
    if not _end_ids(model):
        raise ModelError(f"generation_config.json of {folder} names no end token", "Set its eos_token_id")
    model.eval()
    return model


def _answers(
    model: Any, tokenizer: TextTokenizer, molecules: Sequence[Molecule], seed: int, batch: int
) -> Iterator[tuple[list[int], list[list[int]]]]:
    """Molecules of like size together: their indices, and the ids that each one got.

    An answer goes up to its end token, or to the molecule's own limit.
    """
    order = sorted(range(len(molecules)), key=lambda index: (molecules[index].atoms, molecules[index].smiles))
    starts = range(0, len(order), batch)
    words = np.random.SeedSequence(seed).generate_state(max(1, len(starts))).tolist()
    on_gpu, ends = [model.device] if model.device.type == "cuda" else [], _end_ids(model)
    for start, word in zip(starts, words, strict=False):
        group = order[start : start + batch]
        prompts = [tokenizer.encode(prompt_of(molecules[index].smiles)) for index in group]
        limits = [TOKENS_AN_ATOM * molecules[index].atoms + TOKENS_AROUND for index in group]
        with torch.random.fork_rng(on_gpu), torch.inference_mode():
            torch.manual_seed(word)
            answers = answers_of(model, prompts, limits, ends, **SAMPLING)
        yield group, answers


def _end_ids(model: Any) -> list[int]:
    ends = model.generation_config.eos_token_id
    return [] if ends is None else [ends] if isinstance(ends, int) else list(ends)


def _judged(
    molecule: Molecule,
    ids: Sequence[int],
    tokenizer: TextTokenizer,
    ends: Sequence[int],
    seen: frozenset[int] | None,
    seed: int,
    form: NumberFormat,
) -> ModelAnswer:
    text = tokenizer.decode(ids)
    readings = read_blocks(find_blocks(answer_of(text), form), form=form, lp=NO_LP)
    check = check_sample(text, molecule, readings=readings, form=form)
    measured = None
    if check.same_graph:
        try:
            measured = distances(decode_with("strict", answer_of(text), form).mol, molecule, seed)
        except DriftscopeError as error:  # a damaged block, or a molecule that does not embed
            log.debug("%s: no RMSD: %s", molecule.smiles, error)
    return ModelAnswer(
        smiles=molecule.smiles,
        atoms=molecule.heavy_atoms,
        text=text,
        tokens=len(ids),
        ended=bool(ids) and ids[-1] in ends,
        check=check,
        inexact_blocks=sum(reading.kinds != ("exact",) for reading in readings),
        kinds=tuple(kind for reading in readings for kind in reading.kinds if kind != "exact"),
        distances=measured,
        unseen_tokens=None if seen is None else sum(id_ not in seen for id_ in ids),
    )
