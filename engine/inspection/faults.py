"""What is wrong with a stored sample, at which atoms, and its verdict in a sentence.

It reads rows of ``samples`` and ``blocks`` as they are stored: kinds of blocks and failed checks were found when the
sample was written or judged. It judges nothing again, and does not know how much a fault costs in angstrom.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from engine.chem.verdict import LOADED, NOT_JUDGED, check_words, is_stereo_judged
from engine.figures.words import agreeing, listed
from engine.text.blocks import CUT_KINDS, JUNK_KINDS, SOUND

Row = Mapping[str, Any]
Fault = Literal["junk", "cut", "wrong"]
"""What is wrong at an atom: with its block, or where a check of the molecule names it."""
_CONFORMER = re.compile(r"conformer (\d+): ")
OTHER_DAMAGE = {
    "missing_z": ("has fewer than three numbers", "have fewer than three numbers"),
    "integer": ("has a number without decimals", "have numbers without decimals"),
    "missing_digit": ("has a number with too few digits", "have numbers with too few digits"),
    "outside_bins": ("has a number of no bin", "have numbers of no bin"),
    "tail_bin": ("is outside the range of its bins", "are outside the range of their bins"),
    "missing_semicolon": ("lacks its semicolon", "lack their semicolons"),
    "two_atoms": ("stands for two atoms", "stand for two atoms"),
    "missing_code": ("has no code", "have no code"),
    "doubled_code": ("has more than one code", "have more than one code"),
    "outside_codes": ("has a code of no codebook", "have codes of no codebook"),
    "misplaced_code": ("stands behind the wrong token, or behind none", "stand behind the wrong token, or behind none"),
}
"""Of blocks without a fault, one and several, by their kind; from the third on of bins or codes alone."""
_ALIKE = re.compile(r"(?<![\d.])(([\d.]+) Å ([^,]*)), at (least|most) \2 is")
"""Older runs have two decimals: 1.00 Å long, at least 1.00 is allowed."""
_JUST = {"least": "just below the least that is", "most": "just above the most that is"}


def faults(block: Row) -> tuple[Fault, ...]:
    kinds = set(block["kinds"] or ())
    is_cut = bool(kinds & CUT_KINDS)  # which may leave a number with a mark or a digit too many
    junk: tuple[Fault, ...] = ("junk",) if block["junk_text"] or (kinds & JUNK_KINDS and not is_cut) else ()
    return (*junk, "cut") if is_cut else junk


def atom_faults(sample: Row, blocks: Iterable[Row], only: int = 0) -> dict[int, Fault]:
    """By atom, the worst of its faults in any conformer, or in ``only`` that one: junk before cut before wrong, as the
    tokens show them."""
    found: list[tuple[int, int, Fault]] = [(*place, "wrong") for place in wrong_places(sample)]
    for block in blocks:
        if block["atom"] is not None and block["atom"] >= 0:
            found += [(block["conformer"], block["atom"], fault) for fault in faults(block)]
    worst: dict[int, Fault] = {}
    for fault in ("wrong", "cut", "junk"):
        worst |= {atom: of for conformer, atom, of in found if of == fault and only in (0, conformer)}
    return worst


def wrong_places(sample: Row) -> dict[tuple[int, int], str]:
    """Of the conformers, from 1, and atoms that a failed check of the molecule names, what it says; what could not be
    judged is not wrong."""
    places = {}
    for failed in reversed(sample.get("failed") or ()):
        for atom in () if failed["check"] in NOT_JUDGED else failed["atoms"]:
            places[failed_conformer(failed), atom] = failed_words(failed)
    return places


def failed_conformer(failed: Row) -> int:
    """The conformer that a failed check is of, from 1."""
    named = _CONFORMER.match(failed["detail"] or "")
    return int(named[1]) if named else 1


def failed_words(failed: Row) -> str:
    """``bond lengths: 1.92 Å long, at most ... (atoms 3 and 4)``"""
    atoms = [str(atom) for atom in failed["atoms"]]
    where = f" ({agreeing(len(atoms), 'atom', 'atoms')} {listed(atoms)})" if atoms else ""
    detail = _ALIKE.sub(lambda match: f"{match[1]}, {_JUST[match[4]]}", failed["detail"] or "")
    words = check_words(failed["check"])
    return words if detail == words else f"{words}: {detail}{where}"


def molecule_words(sample: Row) -> str:
    """The verdict on the molecule: usable, or the checks that it fails; nothing where it was not judged."""
    if all(sample.get(name) is None for name in ("usable", "stereo_right", "geometry_right")):
        return ""
    checks = list(dict.fromkeys(failed["check"] for failed in sample["failed"] or ()))
    if checks:
        is_open = checks[0] in NOT_JUDGED
        return ("" if is_open else "wrong: ") + ", ".join(map(check_words, checks))
    if sample["geometry_right"] is None:
        return "geometry not judged"
    if not is_stereo_judged(sample):
        return "stereo not judged"
    if sample["usable"]:
        return "usable"
    return "right" if sample["clean"] is None else "right, from a text that is not clean"


def verdict(sample: Row, blocks: Sequence[Row]) -> str:
    """Clean or not and why, passed or not, readable or not; what an old run does not know of these is left out."""
    of_blocks = _bad_words(blocks)
    count = max((block.get("conformer", 1) for block in blocks), default=1)
    if of_blocks and count > 1:
        of_blocks += _faulty_conformers(blocks)
    if sample["clean"]:
        before = f" As it was written, before the clean-up, {of_blocks}." if of_blocks else ""
        lead = "Clean and readable" if sample["decodes"] else "Clean"
        of_each = f" of each of its {count} conformers" if count > 1 else ""
        return f"{lead}: {_whole_words(blocks, of_each)}.{before}"
    why_not = of_blocks or "not every atom has a block of its own"
    if sample["passed"]:
        by_reader = {True: ", and the group's reader can read it", None: ""}
        read = by_reader.get(sample["decodes"], ", but the group's reader cannot read it")
        return f"Not clean: {why_not}. It passed the reports' check{read}."
    if sample["passed"] is None:
        return unchecked_words(sample)
    reasons = "; ".join(sample["issues"] or ()) or "no reason was kept"
    decodes = " The group's reader can read it." if sample["decodes"] else ""
    return f"Failed: {reasons}.{decodes}" + (f" Besides, {of_blocks}." if of_blocks else "")


def _whole_words(blocks: Sequence[Row], of_each: str) -> str:
    """Of a clean text: of codes, which are no numbers, no block has one."""
    if blocks and all(block.get("x", 0.0) is None for block in blocks):
        return f"every token of the SMILES{of_each} has its code"
    return f"every atom{of_each} has its block, and every block its three numbers"


def _faulty_conformers(blocks: Sequence[Row]) -> str:
    """Of an answer with several: `` (conformer 2)``; nothing of blocks behind the answer, which are of conformer 0."""
    numbers = sorted({block["conformer"] for block in blocks if not SOUND.issuperset(block["kinds"] or ())} - {0})
    words = f" ({agreeing(len(numbers), 'conformer', 'conformers')} {listed(list(map(str, numbers)))})"
    return words if numbers else ""


def _bad_words(blocks: Sequence[Row]) -> str:
    by_block = [faults(block) for block in blocks]
    damaged, cut = (sum(fault in block_faults for block_faults in by_block) for fault in ("junk", "cut"))
    junk = sum(bool(block["junk_text"]) for block in blocks)
    kinds = Counter(kind for block in blocks if not faults(block) for kind in block["kinds"] or ())
    parts = [
        (junk, "has junk", "have junk"),
        (cut, "was cut", "were cut"),
        (damaged - junk, "is not three numbers", "are not three numbers"),
        *((kinds[kind], *words) for kind, words in OTHER_DAMAGE.items()),
    ]
    words: list[str] = []
    for count, singular, plural in parts:
        if count:
            of = "" if words else f" of {len(blocks)} blocks"
            words.append(f"{count}{of} {agreeing(count, singular, plural)}")
    return ", ".join(words)


def unchecked_words(sample: Row) -> str:
    """Of a conformer of another program, or of a rollout that was only opened."""
    unknown = "Its text is not read yet" if sample["text"] else "A conformer without a text"
    return f"{unknown}: whether it passes and is clean is not known."


def sample_words(sample: Row, blocks: Sequence[Row]) -> str:
    """The verdict on text and molecule, what is wrong first. Where the text cannot be read in 3D, `check_line` says
    so, with the place."""
    of_text = verdict(sample, blocks)
    molecule = "" if is_unread(sample) else molecule_words(sample)
    in_3d = f"In 3D: {molecule}." if molecule else ""
    parts = [in_3d, of_text] if sample["clean"] and not sample["usable"] else [of_text, in_3d]
    return " ".join(filter(None, parts))


def is_unread(sample: Row) -> bool:
    """Whether it was not judged because the strict reader refuses its text."""
    return any(failed["check"] == LOADED for failed in sample["failed"] or ())


def check_line(failed: Row) -> str:
    """A failed check; where there is no whole conformer, whose reader stops at the place that is named."""
    if failed["check"] != LOADED:
        return failed_words(failed)
    stop = stop_words(failed["detail"]).partition(" in '<")[0]  # the block's text is in the strip
    return failed_words({**failed, "check": "not judged in 3D", "detail": f"the strict reader {stop}"})


def stop_words(error: str) -> str:
    """``stops at block 3: ...``, or ``refuses the text: ...`` where the error names no place."""
    if "enriched text: " in error:
        return f"refuses the text: {error.replace('enriched text: ', '', 1)}"  # before it there may be the conformer
    return f"stops at {error.replace('enriched text, ', '', 1)}"
