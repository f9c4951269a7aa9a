"""How a model was trained, as a card: the trainer writes it at its end, and it is the middle part of a measured card.

The facts come from the trainer's state, the curve from its ``log.jsonl``; Pillow draws it. What this module does not
know: how good the model is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image

from engine.array_files import write_bytes, write_json
from engine.errors import FileFormatError
from engine.models.shapes import ModelShape
from engine.user_files import parsed_json
from tools.training.charts import BLUE, GREEN, GREY, ORANGE, ChartLine, line_chart, linear_axis, log_axis
from tools.training.recipes import LossWeights, Recipe, Stage

NO_FIGURE = "-"
NAME = "card"
DATA = (
    "MOSES molecules and pieces of them, 4 to 18 heavy atoms, most with groups that make stereocentres, a tenth of "
    "them ions; one isomer of each, with one ETKDGv3 conformer and its mirror image, in the frame of the first "
    "stereocentre's first three atoms; none whose skeleton is held out"
)


@dataclass(frozen=True, slots=True)
class TrainingFacts:
    """How a model was trained. ``hardware`` entries are as the trainer notes them: device and precision."""

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

    @property
    def gpu_command(self) -> str | None:
        """What would train it on a GPU; None where one was used."""
        if not all(what.startswith("CPU") for what in self.hardware):
            return None
        return f"python -m tools.training.train --model {self.alias} --hours 1 --device cuda"

    @property
    def most_atoms(self) -> int:
        return max((stage.most_atoms for stage in self.stages), default=0)

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "data": DATA, "measured_by": self.measure_command, "owed": self.gpu_command}


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


def _weighed(weights: LossWeights) -> str:
    deciding = f"{weights.deciding:g} times that where a hand hangs on it"
    return f"copies {weights.structure:g}, digits {weights.digits:g}, {deciding}"


# --- the training log -------------------------------------------------------------------------------------------------

CURVES = ("structure_nat", "numbers_nat", "pass_rate", "stereo_rate")
Curves = dict[str, list[tuple[int, float]]]
"""Each of ``CURVES`` as pairs of tokens seen and the value then."""


def last_values(curves: Curves) -> dict[str, float | None]:
    return {name: points[-1][1] if points else None for name, points in curves.items()}


def read_curves(path: Path, most_tokens: int | None = None) -> Curves:
    """The curves up to ``most_tokens``. A last line that was not written to its end is left out."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise FileFormatError(f"the training log {path} cannot be read: {error}", "Give the log.jsonl of it") from error
    curves: Curves = {name: [] for name in CURVES}
    for number, line in enumerate(lines[:-1], start=1):  # what follows the last line break is empty or half a line
        try:
            entry = parsed_json(line)
            if most_tokens is None or entry["tokens"] <= most_tokens:
                _add(curves, entry)
        except (ValueError, KeyError, TypeError) as error:
            raise FileFormatError(
                f"line {number} of {path} is no line of a training log ({error})", "Remove the line"
            ) from error
    return curves


def _add(curves: Curves, entry: dict[str, Any]) -> None:
    tokens = int(entry["tokens"])
    for name, points in curves.items():
        while points and points[-1][0] > tokens:
            points.pop()  # the training resumed from an earlier checkpoint
        if name in entry and math.isfinite(entry[name]):
            points.append((tokens, float(entry[name])))


def curve_chart(title: str, curves: Curves) -> Image.Image:
    """Both losses on a logarithmic axis, the shares of held-out molecules copied and of stereo right on another."""
    structure, numbers, rates, hands = ([(tokens / 1e6, value) for tokens, value in curves[name]] for name in CURVES)
    seen = [*structure, *numbers, *rates, (0.0, 0.0)]
    return line_chart(
        title,
        linear_axis("million tokens seen", 0, max(tokens for tokens, _ in seen), ticks=8, tight=True),
        log_axis("loss, nat a token", [loss for _, loss in [*structure, *numbers]]),
        [
            ChartLine("structure loss", structure, BLUE),
            ChartLine("number loss", numbers, ORANGE),
            ChartLine("held-out molecules copied right", [(x, 100 * y) for x, y in rates], GREEN, "right", marks=True),
            *([ChartLine("stereo right, of these", [(x, 100 * y) for x, y in hands], GREY, "right")] if hands else []),
        ],
        right=linear_axis("held-out molecules copied right", 0, 100, unit=" %", ticks=5),
    )


# --- the card ---------------------------------------------------------------------------------------------------------


def write_training_card(folder: Path, facts: TrainingFacts, log_path: Path) -> Path:
    """``card.md``, ``card.json`` and ``card.png`` in a training's folder; the path of the one to read."""
    curves = read_curves(log_path, facts.tokens)
    last = last_values(curves)
    title = f"Training of {facts.alias}:{facts.step}"
    write_bytes(folder / f"{NAME}.png", png(curve_chart(title, curves)))
    write_json(folder / f"{NAME}.json", {"name": NAME, "facts": facts.as_json(), "training": last})
    lines = [f"# {title}", "", *training_lines(NAME, facts, last), "```", facts.command, "```", ""]
    write_bytes(folder / f"{NAME}.md", "\n".join(lines).encode())
    return folder / f"{NAME}.md"


def training_lines(
    name: str, facts: TrainingFacts, last: Mapping[str, float | None], parameters: str = ""
) -> Iterator[str]:
    """The section of a card; its picture is ``NAME.png``."""
    shape = facts.shape
    yield from ("## How it was trained", "")
    yield from table(
        ("", ""),
        [
            ("tokenizer", f"`{facts.tokenizer}`"),
            (
                "body",
                f"{shape.layers} layers of width {shape.width}, {shape.heads} heads with {shape.kv_heads} for keys and "
                f"values, {shape.inner} inside the feed-forward part, {shape.positions:,} positions, RoPE base "
                f"{shape.rope_theta:,.0f}",
            ),
            *([("parameters", parameters)] if parameters else []),
            ("data", DATA),
            ("seen", f"{facts.tokens:,} tokens in {facts.texts:,} texts, {facts.steps:,} steps"),
            ("time", f"{facts.minutes:,.0f} minutes"),
            ("hardware and precision", "; ".join(facts.hardware)),
            ("optimiser", facts.optimiser),
            ("structure loss at the end", number(last["structure_nat"], 4, " nat a token")),
            ("number loss at the end", number(last["numbers_nat"], 4, " nat a token")),
            (
                "last examination while it was trained",
                f"{number(last['pass_rate'], 3, '')} of the molecules copied right{_hands(last)}",
            ),
        ],
    )
    yield from ("", "The texts grew as it went, and the losses jump where they do:", "")
    yield from table(
        ("until", "heavy atoms at most", "decimals, one drawn for each group of texts", "weights in the loss"),
        [
            (
                f"{100 * stage.until:.0f} %",
                str(stage.most_atoms),
                ", ".join(map(str, stage.decimals)),
                _weighed(stage.weights),
            )
            for stage in facts.stages
        ],
    )
    yield ""
    if facts.gpu_command:
        yield from (f"It was trained on a CPU only. A run on a GPU is owed: `{facts.gpu_command}`", "")
    yield from (f"![Training curve: losses and held-out pass rate against tokens seen]({name}.png)", "")


def _hands(last: Mapping[str, float | None]) -> str:
    rate = last.get("stereo_rate")
    return "" if rate is None else f", {rate:.3f} of those that state stereo with the right one"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], bold: str = "") -> Iterator[str]:
    """Lines of a Markdown table; the row whose first cell is ``bold`` stands out."""
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(f'**{cell}**' if bold and row[0] == bold else cell for cell in row)} |"


def number(value: float | None, decimals: int, unit: str) -> str:
    return NO_FIGURE if value is None else f"{value:.{decimals}f}{unit}"


def png(image: Image.Image) -> bytes:
    content = BytesIO()
    image.quantize(96, dither=Image.Dither.NONE).save(content, "PNG", optimize=True)
    return content.getvalue()
