"""The fast backend: our own loop over a model of ``transformers``, in which a constraint pays for itself.

Randomness belongs to (seed, key, step): a sample is the same in any batch, on either loop, and under plain ``generate``
with keyed draws. On a GPU steps of fixed shapes are captured as graphs; with diagnostics or a tap, and elsewhere,
shapes follow the rows. What it does not know: text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from engine.decode.body import Body
from engine.decode.loop import Loop
from engine.decode.static import StaticLoop
from engine.decode.steps import Counters, DecodeOptions, Events, Request
from engine.lp.constraint import HasAutomaton


class FastBackend:
    """One model under one constraint. ``vocab_size`` is the tokenizer's: rows beyond it decode to nothing."""

    def __init__(
        self,
        model: Any,
        constraint: HasAutomaton,
        end_id: int,
        vocab_size: int,
        *,
        is_static: bool | None = None,
        compile: bool = False,
    ) -> None:
        """``is_static``: steps of fixed shapes; None: where there is a CUDA device to capture them."""
        positions = int(model.config.max_position_embeddings)
        self.body = Body(
            model, positions, is_packed=False if compile else None
        )  # torch.compile has an order of its own
        if compile:
            self.body.compile()
        self.constraint, self.end_id, self.vocab_size = constraint, end_id, vocab_size
        self.is_static = self.body.device.type == "cuda" if is_static is None else is_static

    def run(
        self,
        requests: Sequence[Request],
        options: DecodeOptions,
        counters: Counters,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> Events:
        if not requests:
            return
        loop = StaticLoop if self.is_static and not options.is_stepwise else Loop
        automaton = self.constraint.automaton
        yield from loop(
            self.body, automaton, self.end_id, self.vocab_size, requests, options, counters, cancelled
        ).events()
