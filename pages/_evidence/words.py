"""The Evidence page's words for sources and figures, the rows of its list, and links to queries."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from itertools import groupby

from engine.evidence.checks.finding import Source, said
from engine.evidence.claims import Claim
from engine.models.summary import sized
from pages._evidence.claims import Judged
from pages._shared import links
from pages._shared.components.claims_list import Group
from pages._shared.errors import escape_markdown
from pages._shared.verdicts import look_of, word_of
from pages._shared.words import visible_text

SOURCES: dict[Source, tuple[str, str]] = {
    "tokenizers": ("counted", "Counted here with the real tokenizers"),
    "arithmetic": ("computed", "Computed from the reports' own figures"),
    "store": ("measured", "Measured here: a query over stored runs"),
    "experiment": ("measured", "Measured here: the experiment `lost-third`"),
    "reports": ("elsewhere", "The reports' figure in another place"),
    "lp tables": ("from tables", "Read from the LP's own tables"),
    "none": ("", "Not decided here"),
}
"""Where the figure beside a report's comes from: in a word, and in a phrase."""

_OURS = re.compile(r"demo-(?:qwen|llama)(?:-[a-z]+)?")
OURS = ("demo-qwen", "demo-llama")
"""Those that a verdict on stored runs rests on where it names none."""

_BREAKS = re.compile(r" (?=(?:FROM|WHERE|GROUP BY|ORDER BY|LIMIT|SELECT)\b)")
_WORDS = re.compile(r"\{\w+\}")
_COMMAS = re.compile(r"(, )")
_QUOTED = re.compile(r"('(?:[^']|'')*')")
_BESIDE_SQL = " -- "


def reported_words(claim: Claim) -> str:
    """The figure as the report has it, with its unit; nothing for a statement without one."""
    return _with_unit(claim.reported, claim.unit) if claim.reported else ""


def measured_words(row: Judged) -> str:
    return "" if row.verdict is None or row.measured is None else _with_unit(said(row.measured), row.verdict.unit)


def found_word(row: Judged) -> str:
    """Where the figure beside the report's comes from, in a word; empty where there is none."""
    return "" if row.verdict is None or row.measured is None else SOURCES[row.verdict.source][0] or "found"


def basis_words(row: Judged) -> str:
    """On which models, of what size, and on what hardware a verdict rests; empty where nothing was decided."""
    match None if row.verdict is None else row.verdict.source:
        case "store" | "experiment":
            assert row.verdict is not None
            models = dict.fromkeys(_OURS.findall(f"{row.reason} {row.verdict.query}")) or OURS
            return f"Rests on {' and '.join(sized(model) for model in models)}, on a CPU."
        case "tokenizers" | "lp tables":
            return "Rests on the tokenizers' vocabularies alone: no model, no hardware."
        case "arithmetic" | "reports":
            return "Rests on the reports' own figures, of their models and their hardware."
        case _:
            return ""


def _with_unit(figure: str, unit: str) -> str:
    return f"{figure}×" if unit == "x" else f"{figure} {unit}".strip()


def short_reason(row: Judged) -> str:
    """The reason without the formula and figures before it, where an arithmetic check puts them there."""
    note = row.claim.note.strip()
    if not note or row.verdict is None or row.verdict.source != "arithmetic":
        return row.reason
    words = r"\S+".join(re.escape(part) for part in _WORDS.split(note))
    match = re.search(f"{words}$", row.reason)
    return row.reason if match is None else match[0]


def rich(text: str) -> str:
    """A claim's text as Markdown: text in backticks is code, all else is escaped."""
    parts = text.split("`")
    if len(parts) % 2 == 0 or not all(parts[1::2]):
        return escape_markdown(text)
    # Blanks at a part's ends are beside code, where they count: only what is between them is escaped.
    for number, part in enumerate(parts):
        inner = part.strip(" ")
        if number % 2:
            parts[number] = f"`{visible_text(part)}`"
        elif inner:
            parts[number] = part.replace(inner, escape_markdown(inner), 1)
    return "".join(parts)


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
    """The range that the report's figure may have been rounded from; empty where that is the figure itself."""
    if claim.value is None or claim.least is None or claim.most is None or claim.least == claim.most:
        return ""
    return f"{said(claim.least)} to {said(claim.most)}"


def list_groups(rows: Sequence[Judged]) -> list[Group]:
    """The list's headings, and the places of the rows under each, in the reports' order."""
    sections = groupby(range(len(rows)), lambda place: (rows[place].claim.report, rows[place].claim.section))
    return [(f"report {report} · {section}", list(places)) for (report, section), places in sections]


def list_row(row: Judged) -> dict[str, str]:
    apart = apart_words(row)
    return {
        "statement": row.claim.statement,
        "subject": row.claim.subject,
        "reason": short_reason(row),
        "verdict": word_of(row.name),
        "sign": look_of(row.name).sign,
        "reported": reported_words(row.claim),
        "measured": measured_words(row),
        "apart": "" if apart == "=" else apart,
        "source": found_word(row),
    }


# --- queries ------------------------------------------------------------------------------------------------------


def sql_and_rest(query: str) -> tuple[str, str]:
    """The statement that runs as it is, and what is computed of its rows; both empty where there is no SQL."""
    if not query.startswith(("SELECT ", "WITH ")):
        return "", ""
    sql, _, rest = query.partition(_BESIDE_SQL)
    return "".join(_lines(sql)), rest


def _lines(sql: str) -> Iterator[str]:
    """The statement with one line per clause and column; text in quotes stays as it is."""
    depth = 0
    for number, part in enumerate(_QUOTED.split(sql)):
        if number % 2:
            yield part
            continue
        for piece in _COMMAS.split(_BREAKS.sub("\n", part)):
            depth += piece.count("(") - piece.count(")")
            yield ",\n  " if piece == ", " and depth == 0 else piece


def lab_address(claim: Claim) -> str:
    """A link to the Tokenizer lab with the claim's text in it; empty where no text decides the claim."""
    arguments = claim.arguments
    blocks = "".join(f"[C]{block}" for block in arguments.get("blocks", ()))
    text = blocks or (arguments.get("text", "") if claim.check in ("tokens", "characters") else "")
    if text:
        return links.lab_address(text=text)
    return links.lab_address(view="The reports' figures") if claim.check == "tokens" else ""
