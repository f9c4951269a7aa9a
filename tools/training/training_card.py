"""How a model was trained: the middle part of its card.

The facts come from the trainer's state, the curve from its ``log.jsonl``. What this module does not know: how good the
model is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from engine.errors import FileFormatError
from engine.user_files import parsed_json
from tools.terminal import markdown
from tools.training.recipes import Recipe, Stage
from tools.training.shapes import ModelShape

NO_FIGURE = "-"
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
    def most_atoms(self) -> int:
        return max((stage.most_atoms for stage in self.stages), default=0)

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


CURVES = ("structure_nat", "numbers_nat", "pass_rate", "stereo_rate")
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
        raise FileFormatError(f"{path} is no training log ({error})", "Give the log.jsonl of it") from error
    return curves


WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 960, 540, 92, 868, 108, 468
COLOURS = {
    "structure_nat": ("structure loss", "#0072B2"),
    "numbers_nat": ("number loss", "#D55E00"),
    "pass_rate": ("held-out molecules copied right", "#00855F"),
    "stereo_rate": ("stereo right, of these", "#7A8794"),
}
"""Told apart with every kind of colour vision, and legible on white."""


def training_curve(title: str, curves: Curves) -> bytes:
    """An SVG: losses on a logarithmic axis, the shares of held-out molecules on the right one, over tokens seen."""
    most = max((tokens for points in curves.values() for tokens, _ in points), default=1) or 1
    losses = [loss for name in CURVES[:2] for _, loss in curves[name] if loss > 0]
    low = math.floor(math.log10(min(losses))) if losses else -1
    high = max(low + 1, math.ceil(math.log10(max(losses)))) if losses else 1
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
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
    for place, (name, (words, colour)) in enumerate(COLOURS.items()):
        shares = [
            (tokens / most, value if name.endswith("rate") else (math.log10(value) - low) / (high - low))
            for tokens, value in curves[name]
            if value > 0 or name.endswith("rate")
        ]
        points = " ".join(f"{LEFT + x * (RIGHT - LEFT):.1f},{BOTTOM - y * (BOTTOM - TOP):.1f}" for x, y in shares)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2.5"/>')
        parts.append(f'<text x="{LEFT + 200 * place}" y="74" fill="{colour}">{words}</text>')
    return "\n".join([*parts, "</svg>", ""]).encode()


def training_lines(
    name: str, facts: TrainingFacts, last: Mapping[str, float | None], parameters: str = ""
) -> Iterator[str]:
    """The section of a card; its picture is ``NAME.svg``."""
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
                f"{number(last['pass_rate'], 3, '')} of the molecules copied right, "
                f"{number(last['stereo_rate'], 3, '')} of those that state stereo with the right one",
            ),
        ],
    )
    yield from ("", "The texts grew as it went, and the losses jump where they do:", "")
    yield from markdown(
        ("until", "heavy atoms at most", "decimals, one drawn for each group of texts", "weights in the loss"),
        [
            (
                f"{100 * stage.until:.0f} %",
                str(stage.most_atoms),
                ", ".join(map(str, stage.decimals)),
                f"copies {stage.weights.structure:g}, digits {stage.weights.digits:g}, late ones "
                f"{stage.weights.late_digits:g}, {stage.weights.deciding:g} times that where a hand hangs on it",
            )
            for stage in facts.stages
        ],
    )
    yield ""
    yield from (f"![Training curve: losses and held-out pass rate against tokens seen]({name}.svg)", "")


def number(value: float | None, decimals: int, unit: str) -> str:
    return NO_FIGURE if value is None else f"{value:.{decimals}f}{unit}"
