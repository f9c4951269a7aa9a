"""The reports' way to run a position LP: a Python loop over the rows, a fresh mask for each. Kept for what it tells.

It is the reference for what the position LPs mean, written from their description and not from the tables, and the
yardstick for what such a loop costs. One call handles one step of a whole batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.chem.enriched import skeleton_of
from engine.errors import ConstraintError
from engine.lp.constraint import LpParameters
from engine.lp_records import lp_record
from engine.records import Molecule, NumberFormat
from engine.text.template import FREE, Template, build_template
from engine.text.tokenizers import TextTokenizer

_DIGITS = frozenset("0123456789")
_NUMERIC = frozenset("0123456789.,-")


@dataclass(frozen=True, slots=True)
class _Row:
    """One molecule's template, and what ends each of its blocks."""

    template: Template

    def close_after(self, position: int) -> int:
        """The first position behind this one that is not FREE."""
        roles = self.template.roles
        return next(place for place in range(position, len(roles)) if roles[place] != FREE)


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
        if not record.placeholder:
            raise ConstraintError(f"the LP {record.name} counts no positions", "The row loop runs position LPs only")
        self._name, self._tokenizer, self._rows = record.name, tokenizer, vocab_rows
        self._form: NumberFormat = chosen.form
        self._last_positions = chosen.last_positions
        placeholder = chosen.placeholder or record.placeholder
        self._molecules = [
            _Row(build_template(skeleton_of(molecule), tokenizer, placeholder, tags=True)) for molecule in molecules
        ]
        self._blocked = sorted({*self._ids_where(self._is_blocked), *tokenizer.added})
        self._first = self._ids_where(self._is_comma_only) if self._name == "position-allowlist" else []
        self._last = self._ids_where(lambda text: "," in text or "-" in text)

    def __call__(self, written: Sequence[Sequence[int]], scores: Tensor) -> Tensor:
        """Scores [B, V] with all that is not legal at minus infinity; ``written`` are the answers' ids so far."""
        for row, ids in enumerate(written):
            scores[row] = self._masked(self._molecules[row], ids, scores[row])
        return scores

    def _masked(self, row: _Row, ids: Sequence[int], scores: Tensor) -> Tensor:
        position, block_text = self._position(row, ids)
        template = row.template
        if position >= template.tokens:
            return _only(scores, self._tokenizer.end_id or 0)
        if template.roles[position] != FREE:
            return _only(scores, int(template.ids[position]))
        close = int(template.ids[row.close_after(position)])
        ending = self._ending(block_text) if self._name == "truncating" else "no"
        if ending == "forced":
            return _only(scores, close)
        masked = scores.clone()
        masked[self._blocked] = -torch.inf
        masked[self._tokenizer.vocab_size :] = -torch.inf
        first, left = self._place_in_block(row, position)
        if left <= self._last_positions and self._name in ("position-blocklist-short", "position-allowlist"):
            masked[self._last] = -torch.inf
        elif first:
            masked[self._first] = -torch.inf
        if ending == "may":
            masked[close] = scores[close]
        return masked

    def _position(self, row: _Row, ids: Sequence[int]) -> tuple[int, list[str]]:
        """The template's position after these ids, and the pieces that this block has so far."""
        position, pieces = 0, list[str]()
        for id_ in ids:
            is_free = position < row.template.tokens and row.template.roles[position] == FREE
            if is_free and self._name == "truncating":
                close = row.close_after(position)
                if id_ == int(row.template.ids[close]) and self._ending(pieces) != "no":
                    position, pieces = close + 1, []
                    continue
            pieces = [*pieces, self._tokenizer.piece(id_)] if is_free else []
            position += 1
        return position, pieces

    def _ending(self, pieces: Sequence[str]) -> str:
        """Whether the block's closing token is not legal, legal, or the only one."""
        axis, decimals, complete = 0, -1, False
        for piece in pieces:
            closable = axis == 2 and decimals >= max(1, self._form.least_decimals)
            if piece in (",", ",-") and axis < 2:
                axis, decimals = axis + 1, -1
            elif axis == 2 and piece == "." and decimals < 0:
                decimals = 0
            elif decimals >= 0 and set(piece) <= _DIGITS:
                decimals += len(piece)
            elif closable:
                complete = True
        if axis < 2 or decimals < max(1, self._form.least_decimals):
            return "forced" if decimals >= self._form.most_decimals and axis == 2 else "no"
        return "forced" if complete or decimals >= self._form.most_decimals else "may"

    def _place_in_block(self, row: _Row, position: int) -> tuple[bool, int]:
        """Whether this is the first FREE position of its block, and how many there are from it on."""
        is_first = position == 0 or row.template.roles[position - 1] != FREE
        return is_first, row.close_after(position) - position

    def _is_blocked(self, text: str) -> bool:
        if self._name == "position-allowlist":
            return not text or not set(text) <= _NUMERIC
        return "<" in text or ">" in text

    def _is_comma_only(self, text: str) -> bool:
        return bool(text) and set(text) == {","}

    def _ids_where(self, wanted: Callable[[str], bool]) -> list[int]:
        """Ids of the tokens whose text is ``wanted``."""
        return [id_ for id_ in range(self._tokenizer.vocab_size) if wanted(self._tokenizer.piece(id_))]


def _only(scores: Tensor, id_: int) -> Tensor:
    masked = torch.full_like(scores, -torch.inf)
    masked[id_] = scores[id_]
    return masked
