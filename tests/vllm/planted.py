"""Our plugin with a fault that a request asks for, as ``planted`` beside its LP: ``--logits-processors
tests.vllm.planted:PlantedLp``. Without it a request is served as by ours. Run by vLLM's Python.
"""

from __future__ import annotations

import copy
from typing import Any

from torch import Tensor

from engine.lp.served_rows import Read, ServedRow
from engine.lp.vllm import Answer, DriftscopeLp

LATE, AT_ONCE = 20, 64
"""Tokens behind which a fault begins, and those of a prompt that this server reads at once."""


class Row(ServedRow):
    """Behind a token that it had not allowed it goes on as if nothing had come."""

    planted = ""
    calls = expected = 0  # of the prompt
    is_over_with = False

    def follow(self, count: int, read: Read, end_id: int) -> None:
        self.calls += 1
        if self.planted == "prefix" and self.calls < self.expected:  # its start is still to come
            self.written = read(0)
            return
        if self.planted == "chunks" and not count and self.calls > 1:  # each call is a step
            self.where.take(self.where.forced_id)
        for id_ in read(len(self.written)):
            before = copy.copy(self.where)
            self._take(id_, end_id)
            if self.where.is_lost:
                self.where, self.trouble = before, ""

    def fail(self, why: str) -> None:
        self.trouble = why

    @property
    def is_left_out(self) -> bool:
        is_dropped = self.planted == "dropped" and len(self.written) >= LATE
        return is_dropped or (self.planted == "prefix" and self.calls < self.expected)


class PlantedLp(DriftscopeLp):
    """Of the first runner."""

    def _begun(self, params: Any, prompt: list[int] | None, ids: list[int]) -> Answer | None:
        planted = (params.extra_args or {}).get("planted")
        answer = super()._begun(params, prompt, ids)
        if answer is None or planted is None:
            return answer
        if planted == "ignored":
            return None
        row = Row(answer[0].compiled)
        row.planted, row.expected = planted, -(-len(prompt or ()) // AT_ONCE)
        if planted == "stale":  # what was written before it was thrown out is not followed
            row.written = list(ids)
        return row, ids

    def _followed(self) -> dict[int, ServedRow]:
        self._swap()
        return {place: row for place, row in super()._followed().items() if not getattr(row, "is_left_out", False)}

    def _swap(self) -> None:
        """Two rows change places, and their states do not."""
        places = [
            place
            for place, (row, ids) in self._answers.items()
            if isinstance(row, Row) and row.planted == "swapped" and not row.is_over_with and len(ids) >= LATE
        ]
        if len(places) >= 2:
            (first, ids), (second, others) = (self._answers[place] for place in places[:2])
            assert isinstance(first, Row) and isinstance(second, Row)
            first.is_over_with = second.is_over_with = True
            first.written, second.written = list(others), list(ids)
            self._answers[places[0]], self._answers[places[1]] = (second, ids), (first, others)

    def apply(self, logits: Tensor, ctx: Any = None) -> Tensor:
        """Of a row with the fault ``buffer`` a copy is masked."""
        raw = logits.clone()
        logits = super().apply(logits, ctx).clone()
        for place, (row, _) in self._answers.items():
            if isinstance(row, Row) and row.planted == "buffer":
                logits[place] = raw[place]
        return logits
