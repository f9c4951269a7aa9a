"""How a model writes its texts, found from some of them: its numbers, and its descriptors of bare heteroatoms.

What a text is not of (bins, codes, legacy) is named. What the texts do not show is None, and never guessed.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any

from engine.chem.enriched import CLOSE_TAG, OPEN_TAG
from engine.chem.other_forms import OTHER_WORDS, OtherForm, other_form
from engine.chem.smiles import parse_written
from engine.errors import DriftscopeError, FileError, shown
from engine.figures.words import counted
from engine.records import SPELLED, Alphabet, Descriptors, NumberFormat
from engine.text.blocks import ENOUGH, READ_FORMAT, found_form
from engine.text.check import extract_smiles, find_answer, shown_descriptors
from engine.user_files import open_file, parsed_json

MOST_SAMPLE_BYTES, MOST_DOCUMENT_BYTES = 8 * 2**20, 64 * 2**20
"""Of lines the first so many bytes are read; a JSON document is read whole."""
MOST_MOLECULES = 300
OTHER_FIX = "Give texts with decimals in <...>, or of bins"
_OF_BINS = "Give --bins FILE.json: the texts do not say where the bins begin and end"
_FIXES: dict[OtherForm, str] = {
    "bins": _OF_BINS,
    "binned": _OF_BINS,
    "codes": "Give --bins FILE.json of mode fsq: the texts do not say how many codes there are",
}
LEAST_INTEGER_DIGITS = 2
"""One molecule in some has an atom 10 Å or more from the centre."""
_INTEGER = re.compile(r"[<,]-?(\d+)(?=[.,>])")


@dataclass(frozen=True, slots=True)
class TextForm:
    """None where the texts do not show it."""

    numbers: NumberFormat | None
    descriptors: Descriptors | None
    found: tuple[str, ...]  # what it was found by, in words


def text_form_of(texts: Sequence[str], bins: Alphabet | None = None) -> TextForm:
    """An error where the texts are of another form than enriched text. ``bins`` are those of texts of bins, which do
    not say where these begin and end."""
    answers = _answers(texts, bins)
    numbers, found = (bins, list[str]()) if bins is not None else _decimals(answers)
    of_texts = [_descriptors(text, bins or READ_FORMAT) for text in islice(texts, MOST_MOLECULES)]
    kinds = Counter(kind for kind in of_texts if kind)
    descriptors = kinds.most_common(1)[0][0] if kinds else None
    if descriptors:
        found.append(f"descriptors {SPELLED[descriptors]}, by {counted(kinds[descriptors], 'text')} of the sample")
    return TextForm(numbers, descriptors, tuple(found))


def _decimals(answers: Sequence[str]) -> tuple[NumberFormat | None, list[str]]:
    numbers, count = found_form(answers, forced_close=False)
    if numbers is None:
        return None, [f"{counted(count, 'number')} of the sample are too few to tell its decimals (at least {ENOUGH})"]
    digits = max((len(digits) for answer in answers for digits in _INTEGER.findall(answer)), default=0)
    numbers = replace(numbers, most_integer_digits=max(digits, LEAST_INTEGER_DIGITS))
    return numbers, [f"{numbers.words}, by {count:,} numbers of the sample"]


def _answers(texts: Sequence[str], bins: Alphabet | None) -> list[str]:
    answers = [answer for text in texts for answer in find_answer(text).conformers if "<" in answer or other_form(text)]
    others = Counter(form for form in map(other_form, answers) if form)
    if others.total() * 2 > len(answers):
        form = others.most_common(1)[0][0]
        if bins is None or bins.name != ("bins" if form == "binned" else form):
            raise FileError(f"the sample's texts are {OTHER_WORDS[form]}", _FIXES.get(form, OTHER_FIX))
    elif bins is not None and answers:
        raise FileError(f"the sample's texts are of decimals, and {bins.name} are given", "Leave one of the two out")
    if not answers:
        raise FileError("the sample has no text with coordinates", "Give texts as the model was trained on")
    return answers


def _descriptors(text: str, form: NumberFormat) -> Descriptors | None:
    """Of the molecule that the prompt asks for, or that the text itself spells."""
    answer = find_answer(text)
    if not answer.conformers:
        return None
    first = answer.conformers[0]
    with suppress(DriftscopeError):
        molecule = parse_written(answer.prompted or extract_smiles(first, form))
        return shown_descriptors(molecule, f"{OPEN_TAG}{first}{CLOSE_TAG}", form)
    return None


def sample_texts(path: Path) -> list[str]:
    """Texts of a file."""
    with open_file(path) as file:
        return texts_of(path.name, file.read(MOST_DOCUMENT_BYTES + 1))


def texts_of(name: str, content: bytes) -> list[str]:
    """Of a file of this name: a line each, or all strings of JSON or JSON lines (also as .gz) that hold coordinates."""
    kind = name.lower().removesuffix(".gz").rpartition(".")[2]
    most = MOST_DOCUMENT_BYTES if kind == "json" else MOST_SAMPLE_BYTES
    try:
        if name.lower().endswith(".gz"):
            content = gzip.GzipFile(fileobj=BytesIO(content)).read(most + 1)
        is_whole = len(content) <= most
        text = content[:most].decode("utf-8-sig", "strict" if is_whole else "ignore")
        if kind == "json":
            lines = list(_strings(parsed_json(text)))
        else:
            lines = text.splitlines() if is_whole else text.splitlines()[:-1]
        if kind in ("jsonl", "ndjson"):
            lines = [string for line in lines if line.strip() for string in _strings(parsed_json(line))]
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise FileError(f"the sample {shown(name, 200)} cannot be read ({error})", "Give lines, or JSON") from error
    if not any(map(str.strip, lines)):
        raise FileError(f"the sample {shown(name, 200)} has no text in it", "Give texts as the model was trained on")
    return lines


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        if "<" in value or OPEN_TAG in value:
            yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _strings(part)
