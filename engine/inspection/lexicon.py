"""The junk of a run by its pieces: which tokens, how often, and how likely they were to the model.

With ids a token counts where at least one of its characters is junk, as the alignment marks it. With text alone, the
junk is split into runs of one script, which are not tokens. Whether the model would have written the junk without an LP
is not known here.
"""

from __future__ import annotations

import contextlib
import itertools
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.chem.enriched import skeleton_of
from engine.errors import DriftscopeError
from engine.inspection.memo import computed_once
from engine.inspection.run_resources import number_format, placeholder_of, run_tokenizer
from engine.inspection.runs import RunFacts
from engine.inspection.sample import molecule_asked
from engine.store.store import Store
from engine.text.generated import mode_of, read_generated
from engine.text.template import Template, build_template
from engine.text.tokenizers import TextTokenizer

MOST_SAMPLES = 5_000
"""Samples of a run that are read, the first with junk; some ten seconds."""
MOST_KEPT = 16

BYTES = "bytes"
_SCRIPTS = {"IDEOGRAPH": "CJK", "CJK": "CJK", "HIRAGANA": "Kana", "KATAKANA": "Kana", "HALFWIDTH": "Fullwidth"}
_CLASSES = {"N": "digits", "P": "punctuation", "S": "symbols", "Z": "space", "C": "control"}

_SAMPLES = """
SELECT sample_id, smiles, token_ids, extra FROM samples
WHERE run_id = $run AND list_count(token_ids) = len(token_ids) AND sample_id IN  -- none of them null
    (SELECT sample_id FROM blocks WHERE run_id = $run AND junk_text <> '')
ORDER BY sample_id LIMIT $most
"""
_TEXTS = "SELECT sample_id, junk_text FROM blocks WHERE run_id = $run AND junk_text <> '' ORDER BY sample_id, block"
_STEPS = """
SELECT sample_id, pos, p_raw FROM steps WHERE run_id = $run AND p_raw IS NOT NULL AND sample_id IN
    (SELECT sample_id FROM blocks WHERE run_id = $run AND junk_text <> '')
"""


@dataclass(frozen=True, slots=True)
class JunkPiece:
    """One piece. ``token_id`` is None where only text is known; the piece is then a run of characters."""

    piece: str
    token_id: int | None
    script: str  # Latin, Cyrillic, CJK, ...; digits, punctuation, symbols, space, control, bytes, mixed
    count: int
    samples: int  # that have it
    mean_p_raw: float | None  # over those whose steps are kept
    known: int  # how many these are


@dataclass(frozen=True, slots=True)
class Lexicon:
    """Most frequent first. ``read`` of ``with_junk`` samples were read."""

    pieces: tuple[JunkPiece, ...]
    read: int
    with_junk: int
    by_token: bool  # else by runs of characters

    @property
    def count(self) -> int:
        return sum(piece.count for piece in self.pieces)


@dataclass(slots=True)
class _Tally:
    count: int = 0
    samples: set[int] = field(default_factory=set)
    p_raw: list[float] = field(default_factory=list)

    def add(self, sample_id: int, p_raw: float | None = None) -> None:
        self.count += 1
        self.samples.add(sample_id)
        if p_raw is not None:
            self.p_raw.append(p_raw)

    def piece(self, text: str, token_id: int | None, script: str) -> JunkPiece:
        known = len(self.p_raw)
        mean = sum(self.p_raw) / known if known else None
        return JunkPiece(text, token_id, script, self.count, len(self.samples), mean, known)


@computed_once(MOST_KEPT)
def lexicon_of(store: Store, run: RunFacts) -> Lexicon:
    """All pieces, and how many samples they were counted in."""
    texts = store.rows(_TEXTS, {"run": run.run_id})
    with_junk = len({row["sample_id"] for row in texts})
    tokenizer, _ = run_tokenizer(run)
    samples = store.rows(_SAMPLES, {"run": run.run_id, "most": MOST_SAMPLES}) if texts and tokenizer else []
    if tokenizer is None or not samples:
        return Lexicon(_by_text(texts), with_junk, with_junk, by_token=False)
    return Lexicon(_by_token(store, run, samples, tokenizer), len(samples), with_junk, by_token=True)


# --- by token -----------------------------------------------------------------------------------------------------


def _by_token(
    store: Store, run: RunFacts, samples: Sequence[dict[str, Any]], tokenizer: TextTokenizer
) -> tuple[JunkPiece, ...]:
    steps = store.rows(_STEPS, {"run": run.run_id}) if run.has_steps else []
    p_raw = {(row["sample_id"], row["pos"]): row["p_raw"] for row in steps}
    tallies: defaultdict[int, _Tally] = defaultdict(_Tally)
    reader = _JunkReader(run, tokenizer)
    for row in samples:
        for position in reader.junk_positions(row):
            tallies[row["token_ids"][position]].add(row["sample_id"], p_raw.get((row["sample_id"], position)))
    pieces = ((_piece(id_, tokenizer), id_, tally) for id_, tally in tallies.items())
    return _ordered(tally.piece(text, id_, script) for (text, script), id_, tally in pieces)


class _JunkReader:
    """The generated half of the alignment, which is all that junk needs."""

    def __init__(self, run: RunFacts, tokenizer: TextTokenizer) -> None:
        self.tokenizer = tokenizer
        self.form = number_format(run)
        self.placeholder = placeholder_of(run)
        self.lp, self.descriptors = run.lp_record.name, run.descriptors
        self._templates: dict[str, Template | None] = {}

    def junk_positions(self, row: dict[str, Any]) -> list[int]:
        template = self._template(row)
        if template is None:
            return []
        ids = row["token_ids"]
        inside = ids[:-1] if ids and ids[-1] == self.tokenizer.end_id else ids
        mode = mode_of(self.lp)
        read = read_generated(template, inside, self.tokenizer, mode=mode, lp=self.lp, masses={}, form=self.form)
        positions: list[int] = read.is_junk.nonzero()[0].tolist()
        return positions

    def _template(self, row: dict[str, Any]) -> Template | None:
        molecule, _ = molecule_asked(row, self.descriptors)
        if molecule.smiles not in self._templates:
            template = None
            if molecule.atoms:  # else the prompt cannot be read
                with contextlib.suppress(DriftscopeError):
                    template = build_template(skeleton_of(molecule), self.tokenizer, self.placeholder, tags=True)
            self._templates[molecule.smiles] = template
        return self._templates[molecule.smiles]


def _piece(id_: int, tokenizer: TextTokenizer) -> tuple[str, str]:
    """The piece, and its script; bytes that are no whole character are none."""
    try:
        text = tokenizer.raw(id_).decode()
    except UnicodeDecodeError:
        return tokenizer.piece(id_), BYTES
    return text, script_of(text)


# --- by text ------------------------------------------------------------------------------------------------------


def _by_text(texts: Sequence[dict[str, Any]]) -> tuple[JunkPiece, ...]:
    tallies: defaultdict[str, _Tally] = defaultdict(_Tally)
    for row in texts:
        for _, chars in itertools.groupby(row["junk_text"], key=_class):
            tallies["".join(chars)].add(row["sample_id"])
    return _ordered(tally.piece(text, None, script_of(text)) for text, tally in tallies.items())


def _ordered(pieces: Iterable[JunkPiece]) -> tuple[JunkPiece, ...]:
    return tuple(sorted(pieces, key=lambda piece: (-piece.count, piece.piece, piece.token_id or 0)))


# --- scripts ------------------------------------------------------------------------------------------------------


def script_of(text: str) -> str:
    """The one script of a text's letters, or what it is made of where it has none; ``mixed`` where it is several."""
    classes = {_class(char) for char in text if not unicodedata.category(char).startswith("M")}
    letters = classes.difference(_CLASSES.values(), {BYTES})
    kinds = letters or classes - {"space"} or classes
    if not kinds:
        return "marks" if text else "empty"
    return next(iter(kinds)) if len(kinds) == 1 else "mixed"


def _class(char: str) -> str:
    """A letter's script, by the first word of its name in Unicode; else what kind of character it is."""
    if char == "\ufffd":
        return BYTES  # what stands for bytes that are no whole character
    category = unicodedata.category(char)
    if category[0] not in "LM":
        return _CLASSES[category[0]]
    word = unicodedata.name(char, "UNNAMED").partition(" ")[0].partition("-")[0]
    return _SCRIPTS.get(word, word.capitalize())
