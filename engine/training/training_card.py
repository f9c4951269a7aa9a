"""How a model was trained, as a card: written by the trainer when it stops, and the middle part of a measured card.

Pillow draws the curve; what this module does not know is how good the model is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path

from PIL import Image

from engine.training.curve import curve_chart, read_curve
from engine.training.facts import TrainingFacts
from engine.training.shards import write_bytes, write_json

NO_FIGURE = "-"
NAME = "card"


def write_training_card(folder: Path, facts: TrainingFacts, log_path: Path) -> Path:
    """``card.md``, ``card.json`` and ``card.png`` in a training's folder; the path of the one to read."""
    curve = read_curve(log_path, facts.tokens)
    title = f"Training of {facts.alias}:{facts.step}"
    write_bytes(folder / f"{NAME}.png", png(curve_chart(title, curve)))
    write_json(folder / f"{NAME}.json", {"name": NAME, "facts": facts.as_json(), "training": curve.last()})
    lines = [f"# {title}", "", *training_lines(NAME, facts, curve.last()), "```", facts.command, "```", ""]
    write_bytes(folder / f"{NAME}.md", "\n".join(lines).encode())
    return folder / f"{NAME}.md"


def training_lines(
    name: str, facts: TrainingFacts, last: Mapping[str, float | None], parameters: str = ""
) -> Iterator[str]:
    """The section of a card; its picture is ``NAME.png``."""
    shape = facts.shape
    known = [("parameters", parameters)] if parameters else []
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
            *known,
            ("data", facts.data),
            ("seen", f"{facts.tokens:,} tokens in {facts.texts:,} texts, {facts.steps:,} steps"),
            ("time", f"{facts.minutes:,.0f} minutes"),
            ("hardware and precision", "; ".join(facts.hardware)),
            ("optimiser", facts.optimiser),
            ("structure loss at the end", number(last["structure_nat"], 4, " nat a token")),
            ("number loss at the end", number(last["numbers_nat"], 4, " nat a token")),
            (
                "last examination while it was trained",
                f"{number(last['pass_rate'], 3, '')} of the molecules copied right",
            ),
        ],
    )
    yield from ("", "The texts grew as it went, and the losses jump where they do:", "")
    until = [f"{100 * stage.until:.0f} %" for stage in facts.stages]
    yield from table(
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
