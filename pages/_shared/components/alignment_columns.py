"""What the alignment strip sends to the browser: columns of an alignment, and what the model thought at each step.

Everything travels as lists by column, pieces as numbers into one list of distinct texts: a tenth of an object a
column. Probabilities are rounded to four digits, which is more than is shown.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from engine.errors import visible as visible_char
from engine.records import Role
from engine.text.align import AlignedToken
from pages._shared.components.token_strip import DETAIL_CHARS, sendable, visible

_ROLE_CODES: dict[Role | None, str] = {None: "-", "COPY": "C", "FREE": "F", "BOUNDARY": "B"}
_MARK_CODES = {"": "-", "junk": "j", "cut": "c", "beyond": "b", "left_over": "l"}
_FORCED_CODES = {None: "-", True: "1", False: "0"}
_NOTHING: Mapping[int, str] = MappingProxyType({})


Step = Mapping[str, Any]
"""A row of ``steps`` whose ``top_k`` have their pieces; a figure that is not stored is None."""
Texts = dict[str, int]
"""Distinct texts, numbered as they come."""


def packed(
    columns: Sequence[AlignedToken],
    steps: Mapping[int, Step],
    elements: Sequence[str],
    wrong: frozenset[int] = frozenset(),
    redrawn: Mapping[int, str] = _NOTHING,
) -> dict[str, object]:
    """All that is drawn. It does not depend on what is selected, so that it travels once."""
    texts: Texts = {}
    content = _tokens(columns, texts, wrong, redrawn) | {"elements": [sendable(element) for element in elements]}
    content |= {"steps": _steps(columns, steps, texts), "digest": digest(columns)}
    content |= {"redrawn": {str(block): sendable(words) for block, words in redrawn.items()}}
    return content | {"texts": [visible(piece, DETAIL_CHARS) for piece in texts]}


def _number(piece: str, texts: Texts) -> int:
    return texts.setdefault(piece, len(texts))


def _tokens(
    columns: Sequence[AlignedToken], texts: Texts, wrong: frozenset[int], redrawn: Collection[int]
) -> dict[str, object]:
    return {
        "pos": [column.pos for column in columns],
        "ids": [column.token_id for column in columns],
        "pieces": [-1 if column.pos is None else _number(column.piece, texts) for column in columns],
        "starts": [column.start for column in columns],
        "ends": [column.end for column in columns],
        "text_roles": "".join(_ROLE_CODES[column.text_role] for column in columns),
        "text_blocks": [column.text_block for column in columns],
        "template_pos": [column.template_pos for column in columns],
        "template_ids": [column.template_id for column in columns],
        "template_pieces": [
            -1 if column.template_pos is None else _number(column.template_piece, texts) for column in columns
        ],
        "roles": "".join(_ROLE_CODES[column.role] for column in columns),
        "blocks": [column.block for column in columns],
        "forced": "".join(_FORCED_CODES[column.forced] for column in columns),
        "marks": "".join(_mark(column, wrong, redrawn) for column in columns),
        "drift": [column.running_drift for column in columns],
    }


def _mark(column: AlignedToken, wrong: frozenset[int], redrawn: Collection[int]) -> str:
    """A number of a wrong block is marked where nothing worse is, and one that was drawn anew where it is not wrong."""
    if column.mark or column.text_role != "FREE":
        return _MARK_CODES[column.mark]
    return "w" if column.block in wrong else "r" if column.block in redrawn else "-"


def _steps(columns: Sequence[AlignedToken], steps: Mapping[int, Step], texts: Texts) -> dict[str, list[object]] | None:
    """Lists by generated position that has a step, in the order of the columns; None where none was kept."""
    kept = [(column.pos, step) for column in columns if column.pos is not None and (step := steps.get(column.pos))]
    if not kept:
        return None
    rules = {rule: number for number, rule in enumerate(dict.fromkeys(step["rule"] or "" for _, step in kept))}
    taken = [1 - (1.0 if (allowed := step["allowed_mass"]) is None else allowed) for _, step in kept]
    return {
        "pos": [pos for pos, _ in kept],
        "rules": ["".join(map(visible_char, rule[:DETAIL_CHARS])) for rule in rules],
        "rule": [rules[step["rule"] or ""] for _, step in kept],
        "p_raw": [_short(step["p_raw"]) for _, step in kept],
        "p_lp": [_short(step["p_lp"]) for _, step in kept],
        "allowed": [_short(step["allowed_mass"]) for _, step in kept],
        "taken": [_short(max(0.0, round(mass, 6))) for mass in taken],  # less is rounding
        "rank": [step["rank_raw"] or 0 for _, step in kept],
        "entropy": [_short(step["entropy_nat"]) for _, step in kept],
        "top": [
            [
                part
                for top in step["top_k"] or ()
                for part in (
                    top["token_id"],
                    _number(top.get("piece", ""), texts),
                    _short(top["p_raw"]),
                    int(bool(top["allowed"])),
                )
            ]
            for _, step in kept
        ],
    }


def _short(value: float | None) -> float | None:
    """Four digits, and never 1 for what is only near; None for what is no number, which JSON has no word for."""
    if value is None or not -1e300 < value < 1e300:
        return None
    short = float(f"{value:.4g}")
    return 0.9999 if short == 1 and value < 1 else short


def digest(columns: Sequence[AlignedToken]) -> str:
    """Names the columns. A pick carries it, so that an index never points into another alignment."""
    rows = "\0".join(f"{column.token_id}\1{column.template_id}\1{column.pos}\1{column.piece}" for column in columns)
    return hashlib.blake2b(rows.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
