"""The model card: what a model is, how it was trained and how good it is, for readers, for machines and as pictures.

``write_card`` writes ``NAME.md``, ``NAME.json`` (all its facts and figures) and ``NAME.svg`` (the training curve). The
facts come from the trainer's state, the curve from its ``log.jsonl``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from engine.chem.enriched import CLOSE_TAG, prompt_of
from engine.comparing.array_files import write_bytes
from engine.errors import FileError
from engine.text.tokenizer_build import QWEN_BINS
from engine.user_files import parsed_json
from tools.terminal import markdown
from tools.training.json_files import read_json, write_json
from tools.training.quality import ALL, Quality
from tools.training.recipes import Recipe, Stage
from tools.training.shapes import ModelShape

NO_FIGURE = "-"
FAMILIES = {"qwen3": "Qwen3", "llama": "LLaMA"}
LAST_SECTION = "## What it is not good for"
"""What further tools measure goes before it."""
DATA = (
    "MOSES molecules and pieces of them, 4 to 18 heavy atoms, most with groups that make stereocentres, a tenth of "
    "them ions; one isomer of each, with one ETKDGv3 conformer and its mirror image, in the frame of the first "
    "stereocentre's first three atoms; none whose skeleton is held out"
)


@dataclass(frozen=True, slots=True)
class TrainingFacts:
    alias: str
    step: str
    tokenizer: str
    shape: ModelShape
    tokens: int
    texts: int
    steps: int
    minutes: float
    hardware: tuple[str, ...]
    stages: tuple[Stage, ...]
    optimiser: str
    command: str

    @property
    def measure_command(self) -> str:
        return f"python -m tools.training.measure --model {self.alias}:{self.step}"

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "data": DATA, "measured_by": self.measure_command}


def facts_from(state: Mapping[str, Any], recipe: Recipe, alias: str, step: str, command: str) -> TrainingFacts:
    """The facts from a trainer's state, or from the description in a shipped file."""
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
    """In words; Muon where none is noted: older files had no choice."""
    matrices = ", then ".join(OPTIMISERS[kind] for kind in kinds or ("muon",))
    return (
        f"{matrices}; learning rate {recipe.learning_rate:g}, falling "
        f"over the last {100 * recipe.decay:.0f} %; {recipe.tokens_a_step:,} tokens a step"
    )


CURVES = {
    "structure_nat": ("structure loss", "#0072B2"),
    "numbers_nat": ("number loss", "#D55E00"),
    "pass_rate": ("held-out molecules copied right", "#00855F"),
    "stereo_rate": ("stereo right, of these", "#7A8794"),
}
"""Told apart with every kind of colour vision, and legible on white."""
Curves = dict[str, list[tuple[int, float]]]
"""Each of ``CURVES`` as pairs of tokens seen and the value then."""


def read_curves(path: Path, most_tokens: int | None = None) -> Curves:
    """The curves up to ``most_tokens``. A last line that was not written to its end is left out."""
    curves: Curves = {name: [] for name in CURVES}
    try:
        for line in path.read_text(encoding="utf-8").split("\n")[:-1]:  # behind the last line break is half a line
            entry = parsed_json(line)
            tokens = int(entry["tokens"])
            for name, points in curves.items() if most_tokens is None or tokens <= most_tokens else ():
                while points and points[-1][0] > tokens:
                    points.pop()  # the training resumed from an earlier checkpoint
                if name in entry and math.isfinite(entry[name]):
                    points.append((tokens, float(entry[name])))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FileError(f"{path} is no training log ({error})", "Give the log.jsonl of it") from error
    return curves


LEFT, RIGHT, TOP, BOTTOM = 92, 868, 108, 468


def training_curve(title: str, curves: Curves) -> bytes:
    most = max((tokens for points in curves.values() for tokens, _ in points), default=1) or 1
    losses = [loss for name, points in curves.items() if name.endswith("nat") for _, loss in points if loss > 0] or [1]
    low = math.floor(math.log10(min(losses)))
    high = max(low + 1, math.ceil(math.log10(max(losses))))
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 960 540" font-family="sans-serif">',
        '<rect width="960" height="540" fill="#fff"/>',
        f'<text x="{LEFT}" y="40" font-size="23">{title}</text>',
        f'<text x="{LEFT}" y="{TOP - 8}">nat per token</text>',
    ]
    for share in range(6):
        x, y = LEFT + share / 5 * (RIGHT - LEFT), BOTTOM - share / 5 * (BOTTOM - TOP)
        label = f"{most * share / 5e6:.3g} M tokens"
        parts.append(f'<text x="{x:.1f}" y="{BOTTOM + 22}" text-anchor="middle">{label}</text>')
        parts.append(f'<text x="{RIGHT + 8}" y="{y + 5:.1f}">{20 * share} %</text>')
    for at in range(low, high + 1):
        y = BOTTOM - (at - low) / (high - low) * (BOTTOM - TOP)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{RIGHT}" stroke="#E4E7EB"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 5:.1f}" text-anchor="end">{10.0**at:g}</text>')
    for index, (name, (words, colour)) in enumerate(CURVES.items()):
        shares = [
            (tokens / most, value if name.endswith("rate") else (math.log10(value) - low) / (high - low))
            for tokens, value in curves[name]
            if value > 0 or name.endswith("rate")
        ]
        points = " ".join(f"{LEFT + x * (RIGHT - LEFT):.1f},{BOTTOM - y * (BOTTOM - TOP):.1f}" for x, y in shares)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2.5"/>')
        parts.append(f'<text x="{LEFT + 200 * index}" y="74" fill="{colour}">{words}</text>')
    return "\n".join([*parts, "</svg>", ""]).encode()


def _training(name: str, facts: TrainingFacts, last: Mapping[str, float | None], quality: Quality) -> Iterator[str]:
    rows = quality.vocab_size * facts.shape.width
    shape = facts.shape
    yield from ("## How it was trained", "")
    yield from markdown(
        ("", ""),
        [
            ("tokenizer", f"`{facts.tokenizer}`"),
            (
                "body",
                f"{shape.layers} layers of width {shape.width}, {shape.heads} heads with {shape.kv_heads} for keys and "
                f"values, {shape.inner} inside the feed-forward part, {shape.positions:,} positions, RoPE base "
                f"{shape.rope_theta:,.0f}",
            ),
            ("parameters", f"{quality.parameters:,}; {rows:,} of them are the {quality.vocab_size:,} vocabulary rows"),
            ("data", DATA),
            ("seen", f"{facts.tokens:,} tokens in {facts.texts:,} texts, {facts.steps:,} steps"),
            ("time", f"{facts.minutes:,.0f} minutes"),
            ("hardware and precision", "; ".join(facts.hardware)),
            ("optimiser", facts.optimiser),
            ("structure loss at the end", _figure(last["structure_nat"], 4, " nat a token")),
            ("number loss at the end", _figure(last["numbers_nat"], 4, " nat a token")),
            (
                "last examination while it was trained",
                f"{_figure(last['pass_rate'], 3)} of the molecules copied right, "
                f"{_figure(last['stereo_rate'], 3)} of those that state stereo with the right one",
            ),
        ],
    )
    yield from ("", "The texts grew as it went, and the losses jump where they do:", "")
    is_of_bins = facts.tokenizer == QWEN_BINS
    written = "numbers" if is_of_bins else "decimals, one drawn for each group of texts"
    yield from markdown(
        ("until", "heavy atoms at most", written, "weights in the loss"),
        [
            (
                f"{100 * stage.until:.0f} %",
                str(stage.most_atoms),
                "bins" if is_of_bins else ", ".join(map(str, stage.decimals)),
                f"copies {stage.weights.structure:g}, digits {stage.weights.digits:g}, late ones "
                f"{stage.weights.late_digits:g}, {stage.weights.deciding:g} times that where a hand hangs on it",
            )
            for stage in facts.stages
        ],
    )
    yield ""
    yield from (f"![Training curve: losses and held-out pass rate against tokens seen]({name}.svg)", "")


def _figure(value: float | None, decimals: int, unit: str = "") -> str:
    return NO_FIGURE if value is None else f"{value:.{decimals}f}{unit}"


def write_card(folder: Path, name: str, facts: TrainingFacts, quality: Quality, log_path: Path) -> Path:
    curves = read_curves(log_path, facts.tokens)
    last = {curve: points[-1][1] if points else None for curve, points in curves.items()}
    document = {"name": name, "facts": facts.as_json(), "quality": quality.as_json(), "training": last}
    card = folder / f"{name}.md"
    write_bytes(folder / f"{name}.svg", training_curve(f"Training of {facts.alias}:{facts.step}", curves))
    write_json(folder / f"{name}.json", document)
    write_bytes(card, "\n".join([*_lines(name, facts, quality, last), ""]).encode())
    return card


def put_section(card: Path, lines: Sequence[str], figures: Mapping[str, Any]) -> None:
    sections = re.split(r"(?m)^(?=## )", card.read_text(encoding="utf-8"))
    indices = [index for index, text in enumerate(sections) if text.startswith(LAST_SECTION)]
    if not indices:
        raise FileError(f"{card} is no card that `measure` has written", "Measure the model first")
    sections.insert(indices[0], "\n".join([*lines, "", ""]))
    same = [index for index, text in enumerate(sections) if text.startswith(f"{lines[0]}\n") and index != indices[0]]
    write_bytes(card, "".join(text for index, text in enumerate(sections) if index not in same).encode())
    document = read_json(card.with_suffix(".json"))
    write_json(card.with_suffix(".json"), {**document, **figures})


def _lines(name: str, facts: TrainingFacts, quality: Quality, last: Mapping[str, float | None]) -> Iterator[str]:
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
    yield from _training(name, facts, last, quality)
    yield from _copying(quality)
    yield from _geometry(quality)
    most_atoms = max((stage.most_atoms for stage in facts.stages), default=0)
    yield from (
        LAST_SECTION,
        "",
        "- Conformers to work with. Use RDKit: it is better, and faster.",
        f"- Molecules of more than {most_atoms} heavy atoms: it has never seen any.",
        "- Salts and mixtures, metals, isotopes, and elements other than H, C, N, O, S, F, Cl and Br.",
        "- Energies and populations: ETKDGv3 draws a conformer, not the lowest or the likeliest one.",
        "- Judging architectures: it differs from research models in size, data and training time.",
        "",
    )
    yield from ("## Commands", "", "Trained, and measured, by", "", "```", facts.command, facts.measure_command, "```")


def _copying(quality: Quality) -> Iterator[str]:
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


def _geometry(quality: Quality) -> Iterator[str]:
    figures = quality.as_json()
    model, etkdg, chain = (figures[key] for key in ("rmsd", "etkdg", "baseline"))

    def spread(summary: dict[str, Any]) -> str:
        return NO_FIGURE if summary["mean_ang"] is None else f"{summary['mean_ang']:.2f} ({summary['median_ang']:.2f})"

    yield from (
        "## Are the coordinates any good?",
        "",
        f"Heavy-atom RMSD to the nearest of {figures['references']} ETKDGv3 conformers, in angstrom: mean, and median "
        "in brackets, over the molecules whose graph is right and whose numbers can be read. Next to it, for the same "
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


def _share(count: int, total: int) -> str:
    return f"{count:,} ({100 * count / total:.3g} %)" if total else NO_FIGURE
