"""Follows one answer's tokens through its LP's table, on the host: which were forced, and whether all were allowed.

What ``driver`` does for batches on a device, for one row in plain Python: a microsecond a token, where a tensor
operation alone takes as long. An answer that another program wrote is followed as its tokens come.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.lp.table import FIRST_SYMBOL, ILLEGAL, JUMP, KEEP, NO_ID, STAY, SYMBOLS, Automaton, Program

Symbols = tuple[int, ...]


class AutomatonRows:
    """An automaton's arrays as lists, made once for all of its programs."""

    def __init__(self, automaton: Automaton) -> None:
        self.classes: list[int] = automaton.classes.tolist()  # [V]
        self.goto: list[list[int]] = automaton.goto.tolist()  # [Q, K]
        self.move: list[list[int]] = automaton.move.tolist()  # [Q, K]
        self.single: list[int] = automaton.single().tolist()  # [Q]
        self.first_symbol: int = automaton.goto.shape[1] - SYMBOLS


class Follower:
    """Where one answer is in its program."""

    def __init__(self, rows: AutomatonRows, program: Program) -> None:
        self._rows = rows
        self._forced: list[int] = program.forced.tolist()
        self._entry: list[int] = program.entry.tolist()
        self._symbols: list[Symbols] = [tuple(of_cell) for of_cell in program.symbols.tolist()]
        self._jump: list[int] = program.jump.tolist()
        self._last = len(program) - 1
        self.begin()

    def begin(self) -> None:
        """Before the first token."""
        self.cell, self.node = 0, max(0, self._entry[0])
        self.is_lost = False  # a token came that was not allowed

    @property
    def forced_id(self) -> int:
        """The only token that may come, or NO_ID."""
        if self.is_lost:
            return NO_ID
        if self._forced[self.cell] != NO_ID:
            return self._forced[self.cell]
        only: int = self._rows.single[self.node]
        symbols = self._symbols[self.cell]
        return symbols[FIRST_SYMBOL - only] if only <= FIRST_SYMBOL else only

    @property
    def symbols_of_cell(self) -> Symbols:
        """Whatever the node allows; NO_ID where there are fewer."""
        return self._symbols[self.cell]

    @property
    def symbols(self) -> list[int]:
        """Of the cell, those that the node allows."""
        of_node = self._rows.goto[self.node][self._rows.first_symbol :]
        return [
            id_
            for id_, after in zip(self._symbols[self.cell], of_node, strict=True)
            if id_ != NO_ID and after != ILLEGAL
        ]

    def allows(self, id_: int) -> bool:
        if self.is_lost or not 0 <= id_ < len(self._rows.classes):
            return False
        if self._forced[self.cell] != NO_ID:
            return id_ == self._forced[self.cell]
        after: int = self._rows.goto[self.node][self._kind(id_)]
        return after != ILLEGAL

    def take(self, id_: int) -> bool:
        """Moves behind a token; whether it was forced. Behind one that was not allowed, nothing is."""
        is_forced = self.forced_id != NO_ID
        return self.follow((id_,)) == 1 and is_forced

    def follow(self, ids: Sequence[int]) -> int:
        """Moves behind these ids, one after the other; how many of them were allowed. In one loop, since a call a token
        takes as long as the token."""
        if self.is_lost:
            return 0
        rows, last = self._rows, self._last
        cell, node, count = self.cell, self.node, 0
        for id_ in ids:
            forced = self._forced[cell]
            if forced != NO_ID:
                if id_ != forced:
                    break
                cell = min(cell + 1, last)
                entry = self._entry[cell]
                node = node if entry == KEEP else entry
            else:
                if not 0 <= id_ < len(rows.classes):
                    break
                symbols = self._symbols[cell]
                kind = rows.first_symbol + symbols.index(id_) if id_ in symbols else rows.classes[id_]
                after, move = rows.goto[node][kind], rows.move[node][kind]
                if after == ILLEGAL:
                    break
                if move == STAY:
                    node = after
                else:
                    cell = min(self._jump[cell] if move == JUMP else cell + move, last)
                    entry = self._entry[cell]
                    node = after if entry == KEEP else entry
            count += 1
        self.cell, self.node, self.is_lost = cell, node, count < len(ids)
        return count

    def starts(self, id_: int) -> list[int]:
        """The cells that force this token."""
        return [cell for cell, forced in enumerate(self._forced) if forced == id_]

    def enter(self, cell: int) -> None:
        """As if everything before this forced cell had come."""
        self.cell, self.node, self.is_lost = cell, max(0, self._entry[cell]), False

    def _kind(self, id_: int) -> int:
        """The class of a token, as its cell sees it."""
        symbols = self._symbols[self.cell]
        if id_ in symbols:
            return self._rows.first_symbol + symbols.index(id_)
        return self._rows.classes[id_]
