"""What the Evidence page calls verdicts, sources and figures, a verdict's look, and links to queries."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlencode

from engine.evidence.checks.finding import Source, VerdictName, said
from engine.evidence.claims import Claim
from pages._shared.drift.words import visible_text
from pages._shared.errors import escape_markdown
from pages._shared.evidence.claims import Judged
from pages._shared.theme import Palette

Badge = Literal["green", "red", "yellow", "gray"]


@dataclass(frozen=True, slots=True)
class Look:
    """``sign`` and ``pattern`` tell verdicts apart where colour does not."""

    sign: str
    badge: Badge
    pattern: str
    means: str


LOOKS: dict[VerdictName, Look] = {
    "reproduced": Look("✓", "green", "", "the same figure comes out here, as far as rounding lets us tell"),
    "contradicted": Look("✗", "red", "x", "something else comes out, or the statement does not hold"),
    "internally inconsistent": Look("≠", "yellow", "/", "the reports give one thing two values"),
    "not testable here": Look("?", "gray", ".", "it needs a run, a trace or texts that are not here"),
}
UNJUDGED = Look("–", "gray", "", "nobody has judged it yet")
UNJUDGED_WORD = "not judged yet"

SOURCES: dict[Source, tuple[str, str]] = {
    "tokenizers": ("counted", "Counted here with the real tokenizers"),
    "arithmetic": ("computed", "Computed from the reports' own figures"),
    "store": ("measured", "Measured here: a query over stored runs"),
    "reports": ("elsewhere", "What the reports say elsewhere"),
    "lp tables": ("from tables", "Read from the LP's own tables"),
    "none": ("", "Nothing here can decide it"),
}
"""Where the figure beside a report's comes from: in one word, and in a few."""

_BREAKS = re.compile(r" (?=(?:FROM|WHERE|GROUP BY|ORDER BY|LIMIT|SELECT)\b)")
_WORDS = re.compile(r"\{\w+\}")
_COMMAS = re.compile(r"(, )")
_QUOTED = re.compile(r"('(?:[^']|'')*')")
_BESIDE_SQL = " -- "


def look_of(name: VerdictName | None) -> Look:
    return UNJUDGED if name is None else LOOKS[name]


def word_of(name: VerdictName | None) -> str:
    return name or UNJUDGED_WORD


def colour_of(name: VerdictName | None, colours: Palette) -> str:
    fills = {"green": colours.exact, "red": colours.cut, "yellow": colours.series[-1], "gray": colours.neutral}
    return fills[look_of(name).badge]


def reported_words(claim: Claim) -> str:
    """The figure as the report has it, with its unit; nothing for a statement without one."""
    return _with_unit(claim.reported, claim.unit) if claim.reported else ""


def measured_words(row: Judged) -> str:
    return "" if row.verdict is None or row.measured is None else _with_unit(said(row.measured), row.verdict.unit)


def found_word(row: Judged) -> str:
    """Where the figure beside the report's comes from, in a word; empty where there is none."""
    return "" if row.verdict is None or row.measured is None else SOURCES[row.verdict.source][0] or "found"


def _with_unit(figure: str, unit: str) -> str:
    return f"{figure}×" if unit == "x" else f"{figure} {unit}".strip()


def short_reason(row: Judged) -> str:
    """The reason's own words: what stands before them is the formula with its figures, where that is how it came."""
    note = row.claim.note.strip()
    if not note or row.verdict is None or row.verdict.source != "arithmetic":
        return row.reason
    words = r"\S+".join(re.escape(part) for part in _WORDS.split(note))
    found = re.search(f"{words}$", row.reason)
    return row.reason if found is None else found[0]


def rich(text: str) -> str:
    """A claim's text as Markdown: what stands in backticks is code, all else is shown as it is written."""
    parts = text.split("`")
    if len(parts) % 2 == 0 or not all(parts[1::2]):
        return escape_markdown(text)
    return "".join(f"`{visible_text(part)}`" if at % 2 else _escaped(part) for at, part in enumerate(parts))


def _escaped(part: str) -> str:
    """Blanks at its ends stand beside code, where they count."""
    inner = part.strip(" ")
    if not inner:
        return part
    before, _, after = part.partition(inner)
    return before + escape_markdown(inner) + after


def apart_words(row: Judged) -> str:
    """How far the figure here is from the report's: a ratio, a difference where there is no ratio, or `=`."""
    claim, measured = row.claim, row.measured
    if measured is None or not row.has_figure:
        return ""
    end = nearest_end(claim, measured)
    if end is None:
        return "="
    beside = claim.value if claim.value is not None else end
    if beside == 0 or measured / beside <= 0 or claim.value is None:
        return f"{measured - beside:+.3g}".replace("-", "−")
    return f"{said(float(f'{measured / beside:.3g}'))}×"


def nearest_end(claim: Claim, measured: float) -> float | None:
    """The end of the report's range that the figure lies beyond; None inside of it."""
    least = -math.inf if claim.least is None else claim.least
    most = math.inf if claim.most is None else claim.most
    slack = 1e-9 * abs(measured)
    if measured < least - slack:
        return least
    return most if measured > most + slack else None


def range_words(claim: Claim) -> str:
    """What the report's figure may have been rounded from; nothing where that is the figure itself."""
    if claim.value is None or claim.least is None or claim.most is None or claim.least == claim.most:
        return ""
    return f"{said(claim.least)} to {said(claim.most)}"


# --- queries ------------------------------------------------------------------------------------------------------


def sql_and_rest(query: str) -> tuple[str, str]:
    """The statement that runs as it is, and what is computed of its rows; both empty where there is no SQL."""
    if not query.startswith(("SELECT ", "WITH ")):
        return "", ""
    sql, _, rest = query.partition(_BESIDE_SQL)
    return "".join(_lines(sql)), rest


def _lines(sql: str) -> Iterator[str]:
    """The statement with a line a clause and a column; what stands in quotes stays as it is."""
    depth = 0
    for at, part in enumerate(_QUOTED.split(sql)):
        if at % 2:
            yield part
            continue
        for piece in _COMMAS.split(_BREAKS.sub("\n", part)):
            depth += piece.count("(") - piece.count(")")
            yield ",\n  " if piece == ", " and depth == 0 else piece


def lab_address(claim: Claim) -> str:
    """A link to the Tokenizer lab with the claim's text in it; empty where no text decides the claim."""
    given = claim.arguments
    blocks = "".join(f"[C]{block}" for block in given.get("blocks", ()))
    text = blocks or (given.get("text", "") if claim.check in ("tokens", "characters") else "")
    if text:
        return "tokenizer_lab?" + urlencode({"text": text})
    return "tokenizer_lab?" + urlencode({"view": "The reports' figures"}) if claim.check == "tokens" else ""
