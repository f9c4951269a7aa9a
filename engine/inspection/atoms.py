"""A text atom by atom: what was written over each atom's template, what of it is damage, and its cost in Å.

Text between atoms has a row only where something happened there: text that the molecule does not have, or a descriptor
that an LP forced against the model. Sentences quote what was written between backticks.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Literal

from engine.chem.enriched import numbers_taken, why_not_taken
from engine.figures.words import agreeing, capitalised, fixed, listed, percent, quoted
from engine.inspection.faults import faults, wrong_places
from engine.inspection.runs import number_format
from engine.inspection.sample import BlockEstimate, Inspected
from engine.inspection.struck import struck_of
from engine.inspection.tries import checks_by_block, redrawn_words
from engine.records import CodeFormat, NumberFormat
from engine.text.align import AlignedToken, Alignment
from engine.text.blocks import CUT_KINDS, READ_FORMAT, SOUND, missing_axes

Row = Mapping[str, Any]
Damage = Literal["", "junk", "cut", "wrong", "redrawn", "missing", "outside", "unlikely"]
Key = tuple[int, int]
"""A conformer, from 1, and an atom; or 0 and a block that is of no atom."""
UNLIKELY, WANTED = 0.01, 0.5
"""Shares of the model's probability: below the first it did not want a token, above the second it did."""
NEXT_TO_NONE = 0.01
"""Å."""
RARE = 0.01
"""A token's probability below which it is marked."""
NOT_NUMBERS: Mapping[str, str] = {
    "letters": "it has letters",
    "punctuation": "it has marks that are no part of a number",
    "extra_digit": "a number has too many digits",
    "fourth_number": "it has a fourth number",
    "missing_comma": "a comma is missing",
    "trailing_mark": "it ends in a mark",
}
OF_BINS: Mapping[str, str] = {
    "missing_digit": "a number has too few digits",
    "outside_bins": "a number is that of no bin",
    "tail_bin": "a number says only that it is outside the range",
    "missing_semicolon": "its semicolon is missing",
    "two_atoms": "two atoms share its numbers",
}
OF_CODES: Mapping[str, str] = {
    "missing_code": "it has no code",
    "doubled_code": "it has more than one code",
    "outside_codes": "its code is none of the codebook",
    "misplaced_code": "a code stands behind the wrong token, or behind none",
    **dict.fromkeys(("letters", "punctuation"), "it is no code"),
    "cut": "the text ends in it",
}
LINK = "bond, branch or ring digit"
TAKEN_BY_GROUP = frozenset({"tail_bin", "missing_semicolon"})
"""Of these what the group's reader takes all the same."""


@dataclass(frozen=True, slots=True)
class AtomRow:
    """``atom`` is None between atoms, and for an atom that the molecule does not have."""

    atom: int | None
    name: str  # of the atom, or what was written
    damage: Damage
    columns: tuple[int, ...]  # of the alignment
    needed: int | None = None  # tokens of its numbers
    given: int | None = None  # positions that the template has for them
    off_ang: float | None = None  # how far the damage puts the atom off
    is_estimate: bool = False
    words: str = ""
    text: str = ""  # of the block

    @property
    def is_quiet(self) -> bool:
        """Damage that moves its atom by next to nothing."""
        return self.off_ang is not None and self.off_ang < NEXT_TO_NONE


@dataclass(frozen=True, slots=True)
class Token:
    """One as written over the template's. ``marks``, a letter each: forced, junk, cut, blocked (the LP forbade what the
    model wanted), shifted against the template, rare for the model, nothing written, lost: behind it no right place is
    left, x: likely ones were struck here."""

    column: int  # of the alignment
    piece: str
    template: str | None = None  # None where the template has nothing
    id: int | None = None
    marks: str = ""
    note: str = ""  # the rule of the LP by which it was forced
    lost: str = ""  # how its atom lost its place with it
    struck: str = ""  # what may not come here, and why
    p_raw: float | None = None
    p_lp: float | None = None
    likely: Sequence[Any] = ()  # of ``top_k``, with pieces
    pos: int | None = None


def rows_of_sample(seen: Inspected, steps: Mapping[int, Row], estimates: Mapping[int, BlockEstimate]) -> list[AtomRow]:
    """``steps`` and ``estimates`` are the sample's own, or those by another model."""
    tried = checks_by_block((thrown.blocks, thrown.check) for thrown in seen.tries)
    return atom_rows(
        seen.alignment,
        seen.molecule.elements,
        seen.blocks,
        steps,
        estimates,
        lost_places(seen, wrong_places(seen.sample)),
        {block: redrawn_words(checks) for block, checks in tried.items()},
        form=number_format(seen.run),
        only=seen.number if len(seen.shapes) > 1 else 0,
    )


def tokens_of_sample(seen: Inspected, steps: Mapping[int, Row], struck: Mapping[int, str] | None = None) -> list[Token]:
    """``struck``: by position, where it is known of all tokens; else of kept steps alone."""
    struck = struck_of(seen, seen.steps) if struck is None else struck
    return token_rows(seen.alignment, steps, lost_tokens(seen), struck)


def lost_places(inspection: Inspected, wrong: Mapping[tuple[int, int], str]) -> dict[tuple[int, int], str]:
    """What is wrong with atoms, by conformer and atom, and with which token each lost its place."""
    words = dict(wrong)
    for mark in inspection.lost:
        atom = inspection.blocks[mark.block]["atom"] if mark.block < len(inspection.blocks) else None
        key = mark.conformer, mark.atom if atom is None else atom
        words[key] = ". ".join(filter(None, (words.get(key), capitalised(mark.sentence))))
    return words


def lost_tokens(inspection: Inspected) -> dict[int | None, str]:
    """By position of the tokens that are shown; nothing where the marks count others."""
    shown = "written" if inspection.sample["token_ids"] else "retokenised"
    marks = [mark for mark in inspection.lost if mark.by == shown and not mark.is_before]
    return {mark.token: capitalised(mark.sentence) for mark in marks}


def token_rows(
    alignment: Alignment | None,
    steps: Mapping[int, Row] = {},
    lost: Mapping[int | None, str] = {},
    struck: Mapping[int, str] = {},
) -> list[Token]:
    """One for each column. By position, ``lost``: how a token lost its atom's place; ``struck``: what may not come."""
    columns = enumerate(() if alignment is None else alignment.rows)
    return [_token(column, token, steps, lost, struck) for column, token in columns]


def _token(
    column: int,
    token: AlignedToken,
    steps: Mapping[int, Row],
    lost: Mapping[int | None, str],
    struck: Mapping[int, str],
) -> Token:
    pos = -1 if token.pos is None else token.pos
    step = steps.get(pos) or {}
    likely: Sequence[Row] = step.get("top_k") or ()
    p_raw = step.get("p_raw")
    marks = {
        "f": token.forced,
        "j": token.mark == "junk",
        "c": token.mark == "cut",
        "b": bool(likely) and not likely[0]["allowed"] and not token.forced,
        "s": not token.forced and any((mark in token.piece) != (mark in token.template_piece) for mark in ".,"),
        "r": p_raw is not None and p_raw < RARE,
        "n": token.pos is None,
        "l": token.pos in lost,
        "x": bool(struck.get(pos)),
    }
    return Token(
        column,
        "" if token.pos is None else token.piece,
        None if token.template_pos is None else token.template_piece,
        token.token_id,
        "".join(mark for mark, is_so in marks.items() if is_so),
        step.get("rule") or "",
        lost.get(token.pos, ""),
        struck.get(pos, ""),
        p_raw,
        step.get("p_lp"),
        likely,
        token.pos,
    )


def atom_rows(
    alignment: Alignment | None,
    elements: Sequence[str],
    blocks: Sequence[Row],
    steps: Mapping[int, Row] = {},
    estimates: Mapping[int, BlockEstimate] = {},
    wrong: Mapping[Key, str] = {},
    redrawn: Mapping[int, str] = {},
    *,
    form: NumberFormat = READ_FORMAT,
    only: int = 0,
) -> list[AtomRow]:
    """In the order of the text. ``wrong``: what the molecule's checks say of an atom; ``redrawn``: by block, what a
    guard did. Without an alignment there are blocks alone.
    ``only``: this conformer's."""
    blocks = _of_conformer(blocks, only)
    several = max(map(_conformer, blocks), default=1) > 1 and not only
    is_position = alignment is not None and alignment.mode == "position"
    is_codes = isinstance(form, CodeFormat)

    def row_of(block: Row, columns: tuple[int, ...], tokens: Sequence[AlignedToken]) -> AtomRow:
        atom = _atom_of(block)
        notes = (wrong.get((_conformer(block), -1 if atom is None else atom), ""), redrawn.get(block["block"], ""))
        name, estimate = _name(atom, elements, _conformer(block) * several), estimates.get(block["block"])
        name = LINK if atom is None and is_codes else name
        return _row(atom, name, columns, tokens, block, steps, estimate, *notes, form, is_position=is_position)

    if is_codes:
        blocks = list(filter(_is_told, blocks))
    if alignment is None:
        return [row_of(block, (), ()) for block in blocks]
    of_key = {_key(_conformer(block), block["atom"], block["block"]): block for block in reversed(blocks)}
    rows, indexes = list[AtomRow](), dict[Key, int]()
    for key, columns in _runs(alignment, 0 if is_codes else len(elements), only):
        tokens = [alignment.rows[column] for column in columns]
        if key is None or (is_codes and key not in of_key):
            rows += _between(columns, tokens, steps, is_behind_gap=_lacks_code(rows[-1:]))
        elif key in indexes:  # an atom's block is interrupted: one row all the same
            earlier = rows[indexes[key]]
            rows[indexes[key]] = replace(earlier, columns=earlier.columns + columns)
        else:
            indexes[key] = len(rows)
            block = of_key.get(key)
            rows.append(_missing(key, columns, elements, several) if block is None else row_of(block, columns, tokens))
    return rows


def _atom_of(block: Row) -> int | None:
    return int(block["atom"]) if block["atom"] is not None and block["atom"] >= 0 else None


def _is_told(block: Row) -> bool:
    """Of codes: a sound one of a bracket or a bond says nothing of an atom."""
    return block["atom"] != -1 or not SOUND.issuperset(block["kinds"] or ())


def _of_conformer(blocks: Sequence[Row], only: int) -> Sequence[Row]:
    return [block for block in blocks if _conformer(block) == only] if only else blocks


def _key(conformer: int, atom: int | None, block: int) -> Key:
    return (0, block) if atom is None or atom < 0 else (conformer, atom)


def _conformer(block: Row) -> int:
    return int(block.get("conformer", 1))


def _missing(key: Key, columns: tuple[int, ...], elements: Sequence[str], several: bool) -> AtomRow:
    conformer, atom = key
    name = _name(atom if conformer else None, elements, conformer * several)
    return AtomRow(atom if conformer else None, name, "missing", columns, words=f"{name}: nothing was written.")


def _name(atom: int | None, elements: Sequence[str], conformer: int) -> str:
    """``conformer`` is 0 where there is one."""
    of = f" of conformer {conformer}" if conformer else ""
    if atom is None:
        return f"no such atom{of}"
    return f"{elements[atom] if atom < len(elements) else '?'}, atom {atom}{of}"


def worst_first(rows: Iterable[AtomRow]) -> list[AtomRow]:
    """By Å off: what no reader takes before all, damage of unknown Å before what is next to none."""

    def harm(row: AtomRow) -> float:
        if row.off_ang is not None or not row.damage:
            return row.off_ang or -1.0 * (not row.damage)
        return math.inf if row.damage == "junk" else NEXT_TO_NONE

    return sorted(rows, key=harm, reverse=True)


def _keys(alignment: Alignment, atoms: int) -> Iterable[Key | None]:
    """Of each column: its atom, a block that the molecule does not have, or None between atoms. ``atoms`` is 0 where
    blocks of the template are not those of atoms: then what is not written has no atom."""
    is_position = alignment.mode == "position"
    for token in alignment.rows:
        if not is_position and 0 <= token.text_block < len(alignment.blocks):
            block = alignment.blocks[token.text_block]
            yield _key(block.conformer, block.atom, token.text_block)
        else:  # nothing is written here, or the last block is still open
            conformer, atom = divmod(token.block, atoms or 1)
            yield None if token.block < 0 or not atoms else (conformer + 1, atom)


def _runs(alignment: Alignment, atoms: int, only: int) -> Iterator[tuple[Key | None, tuple[int, ...]]]:
    """Columns next to each other of one key, of all conformers or ``only`` one."""
    keys = list(_keys(alignment, atoms))
    for key, group in groupby(range(len(keys)), key=keys.__getitem__):
        columns = tuple(group)
        conformer = alignment.rows[columns[0]].conformer
        if only in (0, key[0] if key and key[0] else conformer):
            yield key, columns


def _row(
    atom: int | None,
    name: str,
    columns: tuple[int, ...],
    tokens: Sequence[AlignedToken],
    block: Row,
    steps: Mapping[int, Row],
    estimate: BlockEstimate | None,
    wrong: str,
    redrawn: str,
    form: NumberFormat,
    *,
    is_position: bool,
) -> AtomRow:
    damage = _damage_of(block)
    off, is_estimate = _off_ang(block, damage, estimate, form)
    junk = _junk_words(name, block, tokens, steps) if damage == "junk" else ""
    given = block["template_free"] if is_position else None
    words = list(filter(None, [_damage_words(name, block, damage, junk, given, estimate)]))
    if isinstance(form, CodeFormat):
        words = _words_of_codes(name, block)
    elif of_bins := _words_of_bins(name, block, damage):
        words.append(of_bins)
    elif words:
        words[-1] += _off_words(block, damage, off, form, is_estimate=is_estimate)
    if wrong or redrawn:
        words.append(f"{name}: {wrong or redrawn}.")
        damage = damage or ("wrong" if wrong else "redrawn")
    return AtomRow(
        atom,
        name,
        damage,
        columns,
        block["needed"],
        block["template_free"],
        off,
        is_estimate,
        " ".join(words),
        block["text"] or "",
    )


def _damage_words(
    name: str, block: Row, damage: Damage, junk: str, given: int | None, estimate: BlockEstimate | None
) -> str:
    """A sentence without its end; ``junk`` is the one about junk. Empty where nothing is wrong."""
    missing = _missing_words(block)
    if CUT_KINDS.intersection(block["kinds"] or ()):
        cut = _cut_words(block, given, estimate, "" if junk else missing)  # which the words about junk have
        return f"{junk}; {cut}" if junk else f"{name}: {cut}"
    return f"{name}: {missing}" if damage == "missing" and missing else junk


def _words_of_bins(name: str, block: Row, damage: Damage) -> str:
    """A sentence about what only bins have, and whether the group's reader takes it; else empty."""
    kinds = [kind for kind in block["kinds"] or () if kind in OF_BINS]
    if not kinds:
        return ""
    is_taken = damage == "missing" and TAKEN_BY_GROUP.issuperset(block["kinds"])
    reader = ", but the group's reader takes it" if is_taken else "; no reader takes it"
    return f"{name}: {listed([OF_BINS[kind] for kind in kinds])}{reader}."


def _words_of_codes(name: str, block: Row) -> list[str]:
    kinds = [OF_CODES[kind] for kind in block["kinds"] or () if kind in OF_CODES]
    what = f"{name}, {quoted(block['text'])}" if block["text"] else name
    return [f"{what}: {listed(kinds)}; no decoder takes the text."] if kinds else []


def _off_ang(
    block: Row, damage: Damage, estimate: BlockEstimate | None, form: NumberFormat
) -> tuple[float | None, bool]:
    """The larger of what the group's reader misreads and what a cut took, and whether it is the latter, an estimate."""
    off = _misread_ang(block, form) if damage == "junk" else None
    if estimate is None or not CUT_KINDS.intersection(block["kinds"] or ()):
        return off, False
    is_larger = (estimate.displacement_ang or 0.0) >= (off or 0.0)
    return (estimate.displacement_ang, True) if is_larger else (off, False)


def _damage_of(block: Row) -> Damage:
    first = next(iter(faults(block)), None)
    return first or ("missing" if {"missing_z", *OF_BINS, *OF_CODES}.intersection(block["kinds"] or ()) else "")


def _misread_ang(block: Row, form: NumberFormat) -> float | None:
    """Between what the block states and what the group's reader takes; None where it takes nothing."""
    stated = [block[axis] for axis in "xyz"]
    if None in stated or why_not_taken(block["text"] or "", form):
        return None
    return math.dist(tuple(map(float, numbers_taken(block["text"]))), stated)


def _off_words(block: Row, damage: Damage, off: float | None, form: NumberFormat, *, is_estimate: bool) -> str:
    """How a sentence ends: how far the atom is off and by whose reading, or that no reader takes the block."""
    if is_estimate and off == 0:
        return "."
    if off is not None:
        return f": ≈ {angstrom(off)} off." if is_estimate else f": {angstrom(off)} off by the group's reader."
    if why_not_taken(block["text"] or "", form):
        is_cut = bool(CUT_KINDS.intersection(block["kinds"] or ()))
        return ", which no reader takes." if damage == "junk" and not is_cut else "; no reader takes it."
    return ", but the group's reader takes three numbers." if damage == "junk" else "."


def _missing_words(block: Row) -> str:
    """``z is missing``; nothing where all three numbers were begun."""
    begun = missing_axes(block["text"] or "") if "missing_z" in (block["kinds"] or ()) else ()
    axes = [axis for axis in begun if block[axis] is None]  # digits of bins are one run
    return f"{listed(axes)} {agreeing(len(axes), 'is', 'are')} missing" if axes else ""


def _cut_words(block: Row, given: int | None, estimate: BlockEstimate | None, missing: str) -> str:
    """What the cut took. ``given``: the positions of a template that counts them."""
    ended = "" if given is None else f"the template ended after {given} tokens"
    if estimate is not None and estimate.text == block["text"]:
        return f"{ended or 'it was closed by force'}, and so would the model have: nothing is lost"
    if missing:
        words = f"{missing}, since {ended}" if ended else missing
    else:
        words = f"{ended}, before the number did" if ended else "its last number ends before its last digits"
    return words if estimate is None else f"{words}; the model would have written {quoted(estimate.text)}"


def _junk_words(name: str, block: Row, tokens: Sequence[AlignedToken], steps: Mapping[int, Row]) -> str:
    text, junk = block["text"] or "", block["junk_text"] or ""
    forbidden = _forbidden(tokens, steps)
    if not junk and not forbidden:
        kinds = [NOT_NUMBERS[kind] for kind in block["kinds"] or () if kind in NOT_NUMBERS]
        return f"{name}: {_missing_words(block) or listed(kinds) or 'not three numbers'}"
    begin = f"{name}: {_numbers_words(block)}"
    if forbidden:
        return f"{begin} The model wanted {forbidden}, which the LP forbids, so it wrote {quoted(junk or text)}"
    if text.endswith(junk):
        return f"{begin} {quoted(junk)} is too much"
    return f"{begin} {quoted(junk)} stands {'between' if text.find(junk) > 0 else 'before'} them"


def _numbers_words(block: Row) -> str:
    """What there is besides junk; how many tokens it took, where the need is known."""
    if block["needed"] is None:
        return f"{_missing_words(block) or 'not three numbers'}."
    of = f"{block['needed']} of {block['template_free']} tokens."
    is_behind = (block["text"] or "").endswith(block["junk_text"] or "")
    return f"the number was complete after {of}" if is_behind else f"its numbers take {of}"


def _forbidden(tokens: Sequence[AlignedToken], steps: Mapping[int, Row]) -> str:
    """The first token that the model wanted and the LP did not allow; nothing where there is none."""
    for token in tokens:
        likely = next(iter((steps.get(-1 if token.pos is None else token.pos) or {}).get("top_k") or ()), None)
        if likely and not likely["allowed"] and (likely["p_raw"] or 0) > WANTED:
            return f"{quoted(likely['piece'])} ({percent(likely['p_raw'])})"
    return ""


def _lacks_code(rows: Sequence[AtomRow]) -> bool:
    return any(OF_CODES["missing_code"] in row.words for row in rows)


def _between(
    columns: tuple[int, ...], tokens: Sequence[AlignedToken], steps: Mapping[int, Row], *, is_behind_gap: bool
) -> list[AtomRow]:
    """Text that no atom has, and forced descriptors that the model gave next to nothing. What follows a token without
    its code is only cut otherwise: `][` and `n`, where the template has `]`, its code and `[n`."""
    rows = []
    strange = [n for n, token in enumerate(tokens) if token.template_pos is None and token.piece.strip()]
    if strange and not is_behind_gap:
        text = "".join(tokens[n].piece for n in strange)
        words = f"{quoted(text)} is no part of this molecule's text."
        rows.append(AtomRow(None, text, "outside", tuple(columns[n] for n in strange), words=words))
    for n, token in enumerate(tokens):
        step = steps.get(-1 if token.pos is None else token.pos)
        if step and token.forced and step["p_raw"] is not None and step["p_raw"] < UNLIKELY and _is_name(token.piece):
            words = f"{quoted(token.piece)} was forced; the model gave it {percent(step['p_raw'])}."
            rows.append(AtomRow(None, token.piece, "unlikely", (columns[n],), words=words))
    return rows


def _is_name(piece: str) -> bool:
    return bool(re.search("[A-Za-z]", piece)) and not re.search("[<>]|CONFORMER", piece)


def angstrom(value: float) -> str:
    return f"{fixed(value, 2)} Å" if value >= 0.01 or value < 0.00005 else f"{fixed(value, 4)} Å"
