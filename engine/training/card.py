"""The model card: what a model is, how it was trained and how good it is, for readers, for machines and as pictures.

``write_card`` writes ``NAME.md``, ``NAME.json`` (all its facts and figures), ``NAME.png`` (the training curve) and
``NAME-bonds.png`` (bond lengths). What this module does not know: how any of the figures is measured.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image

from engine.models.shapes import Shape
from engine.training.charts import GREY, ORANGE, Bars, histogram_chart
from engine.training.curve import Curve, curve_chart, read_curve
from engine.training.geometry import BOND_EDGES_ANG
from engine.training.quality import ALL, Quality, Sample
from engine.training.recipes import Stage
from engine.training.shards import write_bytes, write_json

DATA = (
    "MOSES molecules and pieces of them, 4 to 18 heavy atoms, a tenth of them ions; one ETKDGv3 conformer each, in its "
    "principal-axis frame; none whose skeleton is held out"
)
FAMILIES = {"qwen3": "Qwen3", "llama": "LLaMA"}
NO_FIGURE = "-"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


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


def write_card(folder: Path, name: str, facts: TrainingFacts, quality: Quality, log_path: Path) -> Path:
    """Write the card's four files; the path of the one to read. The log counts up to the tokens of the facts."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"a card's name is made of letters, digits, '.', '_' and '-', got {name!r}")
    curve = read_curve(log_path, facts.tokens)
    document = {"name": name, "facts": facts.as_json(), "quality": quality.as_json(), "training": curve.last()}
    card = folder / f"{name}.md"
    write_bytes(folder / f"{name}.png", _png(curve_chart(f"Training of {facts.alias}:{facts.step}", curve)))
    write_bytes(folder / f"{name}-bonds.png", _png(bonds_chart(facts, quality)))
    write_json(folder / f"{name}.json", document)
    write_bytes(card, "\n".join([*_lines(name, facts, quality, curve), ""]).encode())
    return card


def bonds_chart(facts: TrainingFacts, quality: Quality) -> Image.Image:
    bonds = quality.bonds
    note = f"{bonds.generated.outside:,} generated outside" if bonds.generated.outside else ""
    return histogram_chart(
        f"Bond lengths of {facts.alias}:{facts.step}",
        "bond length, angstrom",
        "bonds",
        BOND_EDGES_ANG,
        [
            Bars("ETKDGv3 reference", bonds.reference.counts, GREY),
            Bars("generated", bonds.generated.counts, ORANGE, filled=False),
        ],
        note=note if bonds.bonds else "no molecule with readable coordinates",
    )


def _lines(name: str, facts: TrainingFacts, quality: Quality, curve: Curve) -> Iterable[str]:
    yield from _what_it_is(facts, quality)
    yield from _how_trained(name, facts, quality, curve)
    yield from _copying(quality)
    yield from _geometry(name, quality)
    yield from _not_good_for(facts)
    yield from ("## Commands", "", "Trained, and measured, by", "", "```", facts.command, facts.measure_command, "```")


def _what_it_is(facts: TrainingFacts, quality: Quality) -> Iterable[str]:
    yield from (
        f"# {facts.alias}:{facts.step}",
        "",
        f"A small language model of {FAMILIES[facts.shape.family]}'s architecture that writes the 3D structure of a "
        "molecule as text. It was made to show, on any machine, what a logits processor does to such a model.",
        "",
    )
    example = min((one for one in quality.samples if one.clean), key=lambda one: len(one.text), default=None)
    if example is not None:
        asked = f"[SMILES]{example.smiles}[/SMILES]"
        yield from ("Asked for a molecule that it was not trained on, it went on:", "", "```", asked)
        yield from (_answer(example), "```", "")


def _how_trained(name: str, facts: TrainingFacts, quality: Quality, curve: Curve) -> Iterable[str]:
    shape, last = facts.shape, curve.last()
    rows = quality.vocab_size * shape.width
    yield from ("## How it was trained", "")
    yield from _table(
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
            ("data", facts.data),
            ("seen", f"{facts.tokens:,} tokens in {facts.texts:,} texts, {facts.steps:,} steps"),
            ("time", f"{facts.minutes:,.0f} minutes"),
            ("hardware and precision", "; ".join(facts.hardware)),
            ("optimiser", facts.optimiser),
            ("structure loss at the end", _number(last["structure_nat"], 4, " nat a token")),
            ("number loss at the end", _number(last["numbers_nat"], 4, " nat a token")),
            (
                "last examination while it was trained",
                f"{_number(last['pass_rate'], 3, '')} of the molecules copied right",
            ),
        ],
    )
    yield from ("", "The texts grew as it went, and the losses jump where they do:", "")
    until = [f"{100 * stage.until:.0f} %" for stage in facts.stages]
    yield from _table(
        ("until", "heavy atoms at most", "decimals, one drawn for each group of texts"),
        [
            (share, str(stage.most_atoms), ", ".join(map(str, stage.decimals)))
            for share, stage in zip(until, facts.stages, strict=True)
        ],
    )
    yield ""
    if facts.gpu_command:
        yield from (f"It was trained on a CPU only. A run on a GPU is owed: `{facts.gpu_command}`", "")
    yield from (f"![Training curve: losses and held-out pass rate against tokens seen]({name}.png)", "")


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
    names = ("ended", "parsed", "same_graph", "passed", "clean")
    yield from _table(
        ("heavy atoms", "asked", *(name.replace("_", " ") for name in names)),
        [
            (size, f"{counts['asked']:,}", *(_share(counts[name], counts["asked"]) for name in names))
            for size, counts in figures["sizes"].items()
        ],
    )
    yield from (
        "",
        "*Ended*: closed by its end token. *Parsed*: without its blocks it is a SMILES. *Same graph*: that of the "
        "molecule asked for. *Passed*: the reports' rule, in which junk inside a block may pass. *Clean*: passed, and "
        "every block is three numbers.",
        "",
        _junk(figures["blocks"], figures["inexact_blocks"], figures["kinds"]),
        "",
    )
    if figures["unseen"] is not None:
        unseen = figures["unseen"]
        yield from (
            f"{unseen['tokens']:,} tokens in {unseen['samples']:,} answers are such as no training text holds.",
            "",
        )


def _geometry(name: str, quality: Quality) -> Iterable[str]:
    figures = quality.as_json()
    bonds = figures["bonds"]
    model, etkdg, chain = (figures[key] for key in ("rmsd", "etkdg", "baseline"))
    yield from (
        "## Are the coordinates any good?",
        "",
        f"Heavy-atom RMSD to the nearest of {figures['references']} ETKDGv3 conformers, in angstrom: mean, and median "
        "in brackets, over the molecules whose graph is right and whose numbers can be read. Beside it, for the same "
        "molecules: one more ETKDGv3 conformer, about the best to be hoped for, and a random chain, which knows the "
        "bonds and nothing else (each atom 1.5 angstrom from one that it is bonded to, in a random direction).",
        "",
    )
    yield from _table(
        ("heavy atoms", "molecules", "model", "another ETKDGv3 conformer", "random chain"),
        [
            (size, f"{model[size]['molecules']:,}", *(_spread(one[size]) for one in (model, etkdg, chain)))
            for size in model
        ],
    )
    yield from (
        "",
        f"Their {bonds['bonds']:,} bonds are off by {_number(bonds['deviation_ang'], 4, ' angstrom')} on average, each "
        "against its own mean in the references; those of a reference conformer by "
        f"{_number(bonds['reference_deviation_ang'], 4, ' angstrom')}. Outside the picture: "
        f"{bonds['generated']['below']:,} generated and {bonds['reference']['below']:,} reference bonds that are "
        f"shorter, {bonds['generated']['above']:,} and {bonds['reference']['above']:,} that are longer.",
        "",
        f"![Bond lengths, generated against reference]({name}-bonds.png)",
        "",
    )


def _not_good_for(facts: TrainingFacts) -> Iterable[str]:
    yield from (
        "## What it is not good for",
        "",
        "- Conformers to work with. Use RDKit: it is better, and faster.",
        f"- Molecules of more than {facts.most_atoms} heavy atoms: it has never seen any.",
        "- Salts and mixtures, metals, isotopes, and elements other than H, C, N, O, S, F, Cl and Br.",
        "- Energies and populations: ETKDGv3 draws a conformer, not the lowest or the likeliest one.",
        "- Judging architectures: it differs from research models in size, data and training time.",
        "",
    )


def _junk(blocks: int, inexact: int, kinds: dict[str, int]) -> str:
    found = ", ".join(f"{kind.replace('_', ' ')} {count:,}" for kind, count in sorted(kinds.items()))
    return f"Of {blocks:,} blocks {inexact:,} are not exact{f', by kind: {found}' if found else ''}."


def _answer(sample: Sample) -> str:
    """A clean answer; behind its closing tag there is only the end token."""
    return sample.text.partition("[/CONFORMER]")[0] + "[/CONFORMER]"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterable[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(f'**{cell}**' if row[0] == ALL else cell for cell in row)} |"


def _share(count: int, asked: int) -> str:
    return f"{count:,} ({100 * count / asked:.3g} %)" if asked else NO_FIGURE


def _spread(summary: dict[str, Any]) -> str:
    if summary["mean_ang"] is None:
        return NO_FIGURE
    return f"{summary['mean_ang']:.2f} ({summary['median_ang']:.2f})"


def _number(value: float | None, decimals: int, unit: str) -> str:
    return NO_FIGURE if value is None else f"{value:.{decimals}f}{unit}"


def _png(image: Image.Image) -> bytes:
    content = BytesIO()
    image.quantize(96, dither=Image.Dither.NONE).save(content, "PNG", optimize=True)
    return content.getvalue()
