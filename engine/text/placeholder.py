"""Coordinates that are known, as text, and the placeholder that fits them best.

Reference conformers are ETKDGv3's, placed in their principal-axis frame: the frame decides how often x is negative, and
it is the one that the embedded models are trained in.

A placeholder acts through one number only, the FREE positions k that it makes. With ``needed`` tokens a block, the
cost of k is the mean over blocks of ``junk_weight * max(k - needed, 0) + cut_weight * max(needed - k, 0)``. Among
placeholders of the best k, the shape that most of the given blocks have wins. No placeholder makes both signs vanish
unless all blocks need the same.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from engine.chem.conformers import reference_conformers
from engine.chem.enriched import as_decimals, decode, encode
from engine.chem.frame import place_in_frame
from engine.chem.smiles import parse_smiles
from engine.chem.structure_files import is_sdf, read_molecules
from engine.errors import EnrichedError, FileError, PlaceholderError, shown, unquoted
from engine.lp_records import usual_placeholder
from engine.records import FIXED4, BinFormat, Molecule, NumberFormat
from engine.text.check import answer_of
from engine.text.template import block_spans, needed_tokens
from engine.text.tokenizers import TextTokenizer
from engine.user_files import read_text

_NUMBER = re.compile(r"(-?)(\d+)(?:\.(\d+))?", re.ASCII)
_TRIPLE = re.compile(rf"{_NUMBER.pattern},{_NUMBER.pattern},{_NUMBER.pattern}", re.ASCII)
MOST_WEIGHT = 1e6


def reference_texts(
    molecule: Molecule | str, form: NumberFormat = FIXED4, *, conformers: int = 1, seed: int = 0
) -> list[str]:
    """Enriched text of each reference conformer of a molecule."""
    if isinstance(molecule, str):
        molecule = parse_smiles(molecule)
    mol = place_in_frame(reference_conformers(molecule, conformers, seed=seed))
    return [encode(mol, form, conformer=conformer.GetId()).text for conformer in mol.GetConformers()]


@functools.lru_cache(maxsize=5_000)
def reference_text(smiles: str, form: NumberFormat) -> str:
    """Of the first conformer, remembered: to embed it takes ten times as long as to count its tokens."""
    return reference_texts(smiles, form)[0]


def texts_of_file(path: str, form: NumberFormat) -> list[str]:
    """Of an SDF file's conformers, else of a file with a molecule's enriched text in each line (``-``: of standard
    input)."""
    if path != "-" and is_sdf(Path(path)):
        return [encode(mol, form).text for mol in read_molecules(Path(path))]
    texts: list[str] = []
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        texts.append(answer_of(line))
        try:
            decode(as_decimals(texts[-1], form))
        except EnrichedError as error:
            why = str(error) if path == "-" else unquoted(error)  # perhaps another kind of file
            raise FileError(f"line {number} of {shown(path)}: {why}", "Write one molecule per line") from error
    if not texts:
        raise FileError(f"{shown(path)} has no enriched text", "Write one molecule per line")
    return texts


@dataclass(frozen=True, slots=True)
class FittedPlaceholder:
    """The cheapest placeholder and what every other FREE count would have cost."""

    placeholder: str
    free: int
    cost: float
    junk_weight: float
    cut_weight: float
    costs: dict[int, float]  # FREE count -> cost, for every count that some placeholder reaches
    blocks: int


def fit_placeholder(
    texts: Sequence[str],
    tokenizer: TextTokenizer,
    form: NumberFormat = FIXED4,
    *,
    junk_weight: float = 1.0,
    cut_weight: float = 1.0,
) -> FittedPlaceholder:
    """The placeholder that fits the blocks of these enriched texts best."""
    if not (0 <= junk_weight <= MOST_WEIGHT and 0 <= cut_weight <= MOST_WEIGHT and junk_weight + cut_weight > 0):
        raise PlaceholderError(
            f"the weights of junk and cut are {junk_weight:g} and {cut_weight:g}",
            f"Give two from 0 to {MOST_WEIGHT:,.0f}, not both zero",
        )
    needed = np.concatenate([np.zeros(0, dtype=np.int64), *needed_tokens(texts, tokenizer, form)])
    if len(needed) == 0:
        raise PlaceholderError("there are no blocks to fit a placeholder to", "Give enriched text with coordinates")
    if isinstance(form, BinFormat):  # all blocks have one shape
        shapes = Counter({usual_placeholder(form): len(needed)})
    else:
        contents = (text[start + 1 : end - 1] for text in texts for start, end in block_spans(text).tolist())
        shapes = Counter(_NUMBER.sub(_level, content) for content in contents if _TRIPLE.fullmatch(content))
    by_free = _by_free_count(shapes, tokenizer, form)
    costs: dict[int, float] = {}
    for free in sorted(by_free):
        surplus, missing = np.maximum(free - needed, 0).mean(), np.maximum(needed - free, 0).mean()
        costs[free] = float(junk_weight * surplus + cut_weight * missing)
    best = min(costs, key=lambda free: (costs[free], free))
    return FittedPlaceholder(by_free[best], best, costs[best], junk_weight, cut_weight, costs, len(needed))


def _level(number: re.Match[str]) -> str:
    sign, whole, decimals = number.groups()
    # A leading zero never is before another digit, so longer integers are levelled to ones and zeros.
    integer = "0" if len(whole) == 1 else "1" + "0" * (len(whole) - 1)
    return f"{sign}{integer}.{'0' * len(decimals)}" if decimals else f"{sign}{integer}"


def _by_free_count(shapes: Counter[str], tokenizer: TextTokenizer, form: NumberFormat) -> dict[int, str]:
    """For each FREE count that a placeholder can reach, the commonest shape that reaches it."""
    # Up to four decimals on each axis and either sign of x: all counts in between.
    axes = itertools.product(("", "-"), *[("0", "0.0", "0.00", "0.000", "0.0000")] * 3)
    regular = [] if isinstance(form, BinFormat) else [f"{sign}{x},{y},{z}" for sign, x, y, z in axes]
    candidates = sorted({*shapes, *regular}, key=lambda shape: (-shapes[shape], len(shape), shape))
    skeletons = [f"[C]{form.opening}{shape}{form.closing}" * 2 for shape in candidates]
    best: dict[int, str] = {}
    for shape, needs in zip(candidates, needed_tokens(skeletons, tokenizer, form), strict=True):
        best.setdefault(int(needs[0]), shape)
    return best
