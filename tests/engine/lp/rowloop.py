"""The reports' way to run a position LP: a Python loop over the rows, a fresh mask for each. Kept for what it tells.

It is the reference for what the position LPs mean, written from their description and not from the tables, and the
yardstick for what such a loop costs. One call handles one step of a whole batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from engine.chem.enriched import skeleton_of
from engine.lp.constraint import LpParameters
from engine.lp_records import lp_record
from engine.records import Molecule, NumberFormat
from engine.text.template import FREE, Template, build_templates
from engine.text.tokenizers import TextTokenizer

_DIGITS = frozenset("0123456789")
_NUMERIC = frozenset("0123456789.,-")
_BAD_PAIRS = ("..", ",,", "--", ".,", ",.", ".-", "-,")
_ENDS_TEXT = frozenset("[SMILES] [/SMILES] [CONFORMER] [/CONFORMER]".split())


class RowLoop:
    """A position LP or ``truncating`` for a batch of molecules."""

    def __init__(
        self,
        name: str,
        tokenizer: TextTokenizer,
        vocab_rows: int,
        molecules: Sequence[Molecule],
        parameters: LpParameters | None = None,
    ) -> None:
        record, chosen = lp_record(name), parameters or LpParameters()
        self._name, self._tokenizer, self._rows = record.name, tokenizer, vocab_rows
        self._form: NumberFormat = chosen.form
        self._rule = record.rule
        placeholder = chosen.placeholder or record.placeholder
        skeletons = [skeleton_of(molecule) for molecule in molecules]
        self._templates = build_templates(skeletons, tokenizer, placeholder, tags=True)
        never = {tokenizer.end_id, *tokenizer.begin_ids, *(tokenizer.added if self._rule.no_added else ())}
        self._blocked = sorted({*self._ids_where(self._is_blocked), *(id_ for id_ in never if id_ is not None)})
        self._first = self._ids_where(lambda text: set(text) == {","}) if self._rule.no_first_comma else []
        self._last = self._ids_where(self._is_kept_from_end)

    def __call__(self, written: Sequence[Sequence[int]], scores: Tensor) -> Tensor:
        """Scores [B, V] with all that is not legal at minus infinity; ``written`` are the answers' ids so far."""
        for row, ids in enumerate(written):
            scores[row] = self._masked(self._templates[row], ids, scores[row])
        return scores

    def _masked(self, template: Template, ids: Sequence[int], scores: Tensor) -> Tensor:
        position, pieces = self._position(template, ids)
        if position >= template.tokens:
            return _only(scores, self._tokenizer.end_id or 0)
        if template.roles[position] != FREE:
            return _only(scores, int(template.ids[position]))
        closing = _close_after(template, position)
        close = int(template.ids[closing])
        ending = self._ending(pieces) if self._name == "truncating" else "no"
        if ending == "forced":
            return _only(scores, close)
        masked = scores.clone()
        masked[self._blocked] = -torch.inf
        masked[self._tokenizer.vocab_size :] = -torch.inf
        if closing - position <= self._rule.look_ahead:
            masked[self._last] = -torch.inf
        elif position == 0 or template.roles[position - 1] != FREE:  # the first of its block
            masked[self._first] = -torch.inf
        if ending == "may":
            masked[close] = scores[close]
        return masked

    def _position(self, template: Template, ids: Sequence[int]) -> tuple[int, list[str]]:
        """The template's position after these ids, and the pieces that this block has so far."""
        position, pieces = 0, list[str]()
        for id_ in ids:
            is_free = position < template.tokens and template.roles[position] == FREE
            if is_free and self._name == "truncating":
                close = _close_after(template, position)
                if id_ == int(template.ids[close]) and self._ending(pieces) != "no":
                    position, pieces = close + 1, []
                    continue
            pieces = [*pieces, self._tokenizer.piece(id_)] if is_free else []
            position += 1
        return position, pieces

    def _ending(self, pieces: Sequence[str]) -> str:
        """Whether the block's closing token is not legal, legal, or the only one."""
        axis, digits, decimals, complete = 0, 0, -1, False
        for piece in pieces:
            closable = axis == 2 and self._is_number(digits, decimals)
            if piece in (",", ",-") and axis < 2:
                axis, decimals = axis + 1, -1
            elif axis == 2 and piece == "." and decimals < 0:
                decimals = 0
            elif decimals >= 0 and set(piece) <= _DIGITS:
                decimals += len(piece)
            elif axis == 2 and set(piece) <= _DIGITS:
                digits += len(piece)
            elif closable:
                complete = True
        if axis < 2 or not self._is_number(digits, decimals):
            return "forced" if decimals >= self._form.most_decimals and axis == 2 else "no"
        return "forced" if complete or decimals >= self._form.most_decimals else "may"

    def _is_number(self, digits: int, decimals: int) -> bool:
        """Of so many integer digits, and of decimals, -1 without a point."""
        least = self._form.least_decimals
        return decimals >= max(1, least) or (least == 0 and digits > 0 > decimals)

    def _is_blocked(self, text: str) -> bool:
        is_of_numbers = bool(text) and set(text) <= _NUMERIC
        return (
            text in _ENDS_TEXT
            or not set(text).isdisjoint(self._rule.blocked)
            or (self._rule.numbers_only and not is_of_numbers)
            or (self._rule.no_bad_pairs and is_of_numbers and any(pair in text for pair in _BAD_PAIRS))
        )

    def _is_kept_from_end(self, text: str) -> bool:
        if self._rule.ahead == "any with a mark":
            return "," in text or "-" in text
        is_point = self._rule.ahead == "marks and points" and text in (".,", ",.")
        return is_point or (bool(text) and set(text) <= {",", "-"})

    def _ids_where(self, wanted: Callable[[str], bool]) -> list[int]:
        """Ids of the tokens whose text is ``wanted``."""
        return [id_ for id_ in range(self._tokenizer.vocab_size) if wanted(self._tokenizer.piece(id_))]


def _close_after(template: Template, position: int) -> int:
    """The first position from this one on that is not FREE: what ends its block."""
    return next(place for place in range(position, template.tokens) if template.roles[place] != FREE)


def _only(scores: Tensor, id_: int) -> Tensor:
    return torch.where(torch.arange(len(scores)) == id_, scores, -torch.inf)
