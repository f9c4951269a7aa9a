"""The reports' own texts, where this checkout lies beside them: their sections, sentences and figures.

Report 005, the group's result of December 2025, has none: its table and statements are all that is known of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tests.support import ROOT

FOLDER = ROOT.parent / "shared" / "seeds"
REASON = f"the reports' texts are not in {FOLDER}"

STARTS: dict[str, dict[int, str]] = {
    "000": {
        3: "TL;DR", 7: "Evidence", 27: "Counts", 35: "Root cause", 71: "Impact", 97: "Tokenisation",
        123: "Validation", 143: "Expected results", 165: "Solution 1", 205: "Solution 2", 225: "Solution 3",
        244: "Solution 4", 256: "Recommendation", 264: "Bottom line",
    },
    "001": {
        3: "The core problem", 20: "Hypothesis", 36: "The problem", 73: "LLaMA", 87: "Launches", 96: "Copies",
        107: "Masking", 134: "Validation", 154: "What to compare", 164: "Queries", 187: "Solution 1",
        222: "Solution 2", 241: "Solution 3", 261: "Solution 4", 275: "Questions", 295: "Prediction", 307: "Actions",
    },
    "002": {
        9: "Summary", 22: "Sources", 39: "1.1", 59: "1.2", 76: "1.3", 98: "2.1", 111: "2.2", 139: "2.3", 154: "3.1",
        171: "3.2", 202: "4.1", 214: "4.2", 224: "4.3", 241: "4.4", 262: "5.1", 273: "5.2", 289: "5.3", 295: "6.1",
        309: "6.2", 321: "7.1", 346: "7.2", 363: "7.3", 377: "8.1", 396: "8.2", 403: "8.3", 410: "A", 428: "B",
        438: "C",
    },
    "003": {
        8: "1", 22: "2", 39: "3", 58: "4", 75: "5", 97: "Tokens per sample", 147: "Efficiency",
        165: "Launch efficiency", 177: "Patterns", 207: "Summary table", 221: "Conclusion",
    },
    "004": {
        15: "Models", 28: "Finding 1", 43: "Finding 2", 55: "Finding 3", 68: "Finding 4", 81: "Finding 5",
        94: "Finding 6", 107: "Root cause", 126: "Architectures", 148: "Impact", 169: "Deliverables",
        191: "Discoveries", 211: "Statistics", 236: "Lessons", 258: "Next steps", 279: "Sign-off",
    },
}  # fmt: skip
"""The line that each section begins in. What stands before the first is the title."""

CODE = "a line of code or of a command"
COORDINATES = "coordinates of a quoted block; the claim is what else stands in it"
TEXT = "numbers of a text that is cut into tokens"
MODEL = "a part of a model's name"
MARK = "the number of a section, a solution, a bug report or a position in a list"

ALLOWED: dict[str, list[tuple[int, int, str, str]]] = {
    "000": [
        (14, 24, "*", COORDINATES),
        (39, 59, "0.0000 1.234 5.678", TEXT),
        (49, 49, "0", "the first position"),
        (103, 111, "1.2345 6.789 1 2 3 4 5 6 7 8 9 0 2345 789 123", TEXT),
        (127, 141, "*", CODE),
        (171, 194, "*", CODE),
        (209, 215, "0.0000 1.23 4.56", TEXT),
        (229, 234, "*", CODE),
        (256, 262, "1 2 3", MARK),
    ],
    "001": [
        (24, 34, "1.2345 0.6789 2.1234 1 2 3 4 5 6 7 8 9 0", TEXT),
        (38, 50, "0.0000 1.234 5.678 0", TEXT),
        (77, 81, "0.0000 0000 0 1.2345 6.789 2345 6 789 123", TEXT),
        (138, 152, "*", CODE),
        (164, 185, "*", CODE),
        (193, 211, "*", CODE),
        (226, 231, "0.0000 1.234 5.678", TEXT),
        (303, 309, "1", MARK),
    ],
    "002": [
        (104, 109, "3.2", MODEL),
        (115, 135, "0.0000 0.5 1.234 2.345 12.345 23.456", TEXT),
        (141, 141, "0.0000", TEXT),
        (156, 168, "0.0000 0.5 40", "the texts whose characters are counted, and a line of source"),
        (182, 196, "*", COORDINATES),
        (410, 472, "*", "names of files, lines of source, options of commands"),
    ],
    "004": [
        (17, 151, "2 3 8", MODEL),
        (180, 290, "1301", MARK),
        (211, 224, "3 8", MODEL),
        (258, 272, "0", "the position that is to be skipped; the claim stands in finding 3"),
    ],
}
"""By report: first and last line, the figures there that claim nothing (``*``: all), and why."""

FIGURE = re.compile(r"(?<![\w.,])\d(?:[\d,]*\d)?(?:\.\d+)?(?:e[+-]?\d+)?(?:(?=[KM]\b)[KM])?")
UNITS = {"K": 1e3, "M": 1e6}


@dataclass(frozen=True)
class Figure:
    """One number of a text; ``values`` are what it may mean: 96K is 96 and 96,000."""

    line: int
    section: str
    text: str
    values: tuple[float, ...]


def path_of(report: str) -> Path:
    return next(FOLDER.glob(f"{report}_*.txt"))


def lines_of(report: str) -> list[str]:
    return path_of(report).read_text(encoding="utf-8").splitlines()


def section_at(report: str, line: int) -> str | None:
    """The section of a line, counted from 1; None in the title."""
    begun = [start for start in STARTS[report] if start <= line]
    return STARTS[report][max(begun)] if begun else None


def figures_of(report: str) -> list[Figure]:
    """All numbers below the title, but those of headings, list marks and names such as H100."""
    found: list[Figure] = []
    is_code = False
    for number, line in enumerate(lines_of(report), 1):
        section = section_at(report, number)
        is_code ^= line.strip().startswith("```")
        if section is None or (line.startswith("#") and not is_code):
            continue
        texts = FIGURE.findall(re.sub(r"^\s*\d+\. ", "", line))
        found += [Figure(number, section, text, _values(text)) for text in texts]
    return found


def is_allowed(report: str, figure: Figure) -> bool:
    return any(
        first <= figure.line <= last and (which == "*" or figure.text in which.split())
        for first, last, which, _ in ALLOWED.get(report, [])
    )


def words_of(text: str) -> list[str]:
    """Words of letters, small: figures and marks are nobody's sentence."""
    return re.findall(r"[^\W\d_]+", text.lower())


def _values(text: str) -> tuple[float, ...]:
    plain = float(text.rstrip("KM").replace(",", ""))
    return (plain, plain * UNITS[text[-1]]) if text[-1] in UNITS else (plain,)
