"""Examples before a prompt: molecules with their conformers, as a user's file has them and as a model is shown them.

``[SMILES]CO[/SMILES][CONFORMER][C]<...>[O]<...>[/CONFORMER]``, one or more conformers a SMILES, one example behind the
other. Lines and spaces between the tags are the file's own: a model is shown none.
"""

from __future__ import annotations

import re
from pathlib import Path

from engine.chem.enriched import CLOSE_TAG, OPEN_TAG
from engine.errors import FileError, shown
from engine.text.blocks import PROMPT
from engine.user_files import open_file

MOST_BYTES = 1_000_000
_CONFORMER = rf"{re.escape(OPEN_TAG)}((?:(?!\[/?CONFORMER\]|\[/?SMILES\]).)+){re.escape(CLOSE_TAG)}"
_EXAMPLE = re.compile(rf"{PROMPT.pattern}\s*(?:{_CONFORMER}\s*)+", re.DOTALL)
_GAP = re.compile(r"\s*(\[/?(?:CONFORMER|SMILES)\])\s*")


def read_examples(path: Path) -> str:
    """The file's examples as they stand before a prompt."""
    with open_file(path) as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise FileError(f"{shown(path.name)} has over {MOST_BYTES // 10**6} MB", "Give a few examples")
    try:
        return examples_of(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise FileError(f"{shown(path.name)} is no text: {error}", "Write it as UTF-8") from error
    except FileError as error:
        raise FileError(f"{shown(path.name)}: {error.what}", error.fix) from error


def examples_of(text: str) -> str:
    """The same of a text; FileError where it is not one example behind the other."""
    position, text = 0, text.strip()
    while position < len(text):
        match = _EXAMPLE.match(text, position)
        if match is None:
            where = shown(text[position : position + 40])
            raise FileError(
                f"no example begins at {where}",
                "Write [SMILES]CO[/SMILES][CONFORMER]...[/CONFORMER] for each, without the SMILES that is asked for",
            )
        position = match.end()
    if not text:
        raise FileError("there is no example in it", "Leave --examples out")
    return _GAP.sub(r"\1", text)


def count_examples(examples: str) -> int:
    return sum(1 for _ in PROMPT.finditer(examples))


def count_conformers(examples: str) -> int:
    return examples.count(CLOSE_TAG)
