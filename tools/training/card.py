"""The model card: what a model is, how it was trained and how good it is, for readers, for machines and as pictures.

``write_card`` writes ``NAME.md``, ``NAME.json`` (all its facts and figures) and ``NAME.svg`` (the training curve). What
this module does not know: how any of the figures is measured.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.chem.enriched import CLOSE_TAG, prompt_of
from engine.comparing.array_files import write_bytes
from engine.errors import FileFormatError
from tools.terminal import markdown
from tools.training.json_files import read_json, write_json
from tools.training.quality import ALL, Quality
from tools.training.training_card import (
    NO_FIGURE,
    TrainingFacts,
    read_curves,
    training_curve,
    training_lines,
)

FAMILIES = {"qwen3": "Qwen3", "llama": "LLaMA"}
LAST_SECTION = "## What it is not good for"
"""What further tools measure goes before it."""


def write_card(folder: Path, name: str, facts: TrainingFacts, quality: Quality, log_path: Path) -> Path:
    """Write the card's three files; the path of the one to read. The log counts up to the tokens of the facts."""
    curves = read_curves(log_path, facts.tokens)
    last = {curve: points[-1][1] if points else None for curve, points in curves.items()}
    document = {"name": name, "facts": facts.as_json(), "quality": quality.as_json(), "training": last}
    card = folder / f"{name}.md"
    write_bytes(folder / f"{name}.svg", training_curve(f"Training of {facts.alias}:{facts.step}", curves))
    write_json(folder / f"{name}.json", document)
    write_bytes(card, "\n".join([*_lines(name, facts, quality, last), ""]).encode())
    return card


def put_section(card: Path, lines: Sequence[str], figures: Mapping[str, Any]) -> None:
    """Put a section into a card, or in place of the one of its title, and its figures into the card's JSON."""
    sections = re.split(r"(?m)^(?=## )", card.read_text(encoding="utf-8"))
    places = [place for place, text in enumerate(sections) if text.startswith(LAST_SECTION)]
    if not places:
        raise FileFormatError(f"{card} is no card that `measure` has written", "Measure the model first")
    sections.insert(places[0], "\n".join([*lines, "", ""]))
    same = [place for place, text in enumerate(sections) if text.startswith(f"{lines[0]}\n") and place != places[0]]
    write_bytes(card, "".join(text for place, text in enumerate(sections) if place not in same).encode())
    document = read_json(card.with_suffix(".json"))
    write_json(card.with_suffix(".json"), {**document, **figures})


def _lines(name: str, facts: TrainingFacts, quality: Quality, last: Mapping[str, float | None]) -> Iterable[str]:
    yield from (
        f"# {facts.alias}:{facts.step}",
        "",
        f"A small language model of {FAMILIES[facts.shape.family]}'s architecture that writes the 3D structure of a "
        "molecule as text. It was made to show, on any machine, what a logits processor does to such a model.",
        "",
    )
    example = min(
        (sample for sample in quality.samples if sample.check.clean), key=lambda sample: len(sample.text), default=None
    )
    if example is not None:
        answer = example.text.partition(CLOSE_TAG)[0] + CLOSE_TAG
        yield from ("Asked for a molecule that it was not trained on, it went on:", "", "```")
        yield from (prompt_of(example.smiles), answer, "```", "")
    rows = quality.vocab_size * facts.shape.width
    parameters = f"{quality.parameters:,}; {rows:,} of them are the {quality.vocab_size:,} vocabulary rows"
    yield from training_lines(name, facts, last, parameters)
    yield from _copying(quality)
    yield from _geometry(quality)
    yield from (
        LAST_SECTION,
        "",
        "- Conformers to work with. Use RDKit: it is better, and faster.",
        f"- Molecules of more than {facts.most_atoms} heavy atoms: it has never seen any.",
        "- Salts and mixtures, metals, isotopes, and elements other than H, C, N, O, S, F, Cl and Br.",
        "- Energies and populations: ETKDGv3 draws a conformer, not the lowest or the likeliest one.",
        "- Judging architectures: it differs from research models in size, data and training time.",
        "",
    )
    yield from ("## Commands", "", "Trained, and measured, by", "", "```", facts.command, facts.measure_command, "```")


def _copying(quality: Quality) -> Iterable[str]:
    figures = quality.as_json()
    sampling = figures["sampling"]
    yield from (
        "## Does it copy the molecule?",
        "",
        f"{len(quality.samples):,} held-out molecules, each asked once: plain `generate`, no logits processor, "
        f"temperature {sampling['temperature']}, top-p {sampling['top_p']}, top-k {sampling['top_k']}, seed "
        f"{quality.seed}, batches of {quality.batch}.",
        "",
    )
    kinds = ", ".join(f"{kind.replace('_', ' ')} {count:,}" for kind, count in sorted(figures["kinds"].items()))
    names = ("ended", "parsed", "same_graph", "passed", "decodes", "clean")
    yield from markdown(
        ("heavy atoms", "asked", *(name.replace("_", " ") for name in names)),
        [
            (size, f"{counts['asked']:,}", *(_share(counts[name], counts["asked"]) for name in names))
            for size, counts in figures["sizes"].items()
        ],
        bold=ALL,
    )
    yield from (
        "",
        "*Ended*: closed by its end token. *Parsed*: without its blocks it is a SMILES. *Same graph*: that of the "
        "molecule asked for. *Passed*: the reports' rule, in which junk inside a block may pass. *Decodes*: the "
        "group's reader takes every block, junk or not. *Clean*: passed, decodes, and every block is three numbers.",
        "",
        f"Of {figures['blocks']:,} blocks {figures['inexact_blocks']:,} are not exact"
        f"{f', by kind: {kinds}' if kinds else ''}.",
        "",
    )
    if figures["unseen"] is not None:
        unseen = figures["unseen"]
        yield from (
            f"{unseen['tokens']:,} tokens in {unseen['samples']:,} answers are such as no training text holds.",
            "",
        )


def _geometry(quality: Quality) -> Iterable[str]:
    figures = quality.as_json()
    model, etkdg, chain = (figures[key] for key in ("rmsd", "etkdg", "baseline"))

    def spread(one: dict[str, Any]) -> str:
        return NO_FIGURE if one["mean_ang"] is None else f"{one['mean_ang']:.2f} ({one['median_ang']:.2f})"

    yield from (
        "## Are the coordinates any good?",
        "",
        f"Heavy-atom RMSD to the nearest of {figures['references']} ETKDGv3 conformers, in angstrom: mean, and median "
        "in brackets, over the molecules whose graph is right and whose numbers can be read. Beside it, for the same "
        "molecules: one more ETKDGv3 conformer, about the best to be hoped for, and a random chain, which knows the "
        "bonds and nothing else (each atom 1.5 angstrom from one that it is bonded to, in a random direction).",
        "",
    )
    yield from markdown(
        ("heavy atoms", "molecules", "model", "another ETKDGv3 conformer", "random chain"),
        [
            (size, f"{model[size]['molecules']:,}", *(spread(summary[size]) for summary in (model, etkdg, chain)))
            for size in model
        ],
        bold=ALL,
    )
    yield ""


def _share(count: int, asked: int) -> str:
    return f"{count:,} ({100 * count / asked:.3g} %)" if asked else NO_FIGURE
