"""What a decoding yields: one stream of steps and stops, its counters, and its phases as marks for a profiler.

Both backends speak this. A *step* is one token of one sample, forced or sampled, in the order of its text; a *stop*
follows a sample's last step and says why it ended. Where a guard throws tokens away, *back* says up to where, and the
next steps of the sample take their positions. Nothing here knows a tokenizer, a molecule or a text: ids alone.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from torch import Tensor

    from engine.chem.guard import WrongPlace

StopReason = Literal["end", "length", "time", "cancelled", "empty_mask", "desync"]
"""``end``: the end token came. ``length``, ``time``: a limit was reached. ``empty_mask``: no token was legal.
``desync``: a token came that the constraint had not allowed."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A likely token at a step: its probability before the LP, and whether the LP allows it."""

    token_id: int
    p_raw: float
    allowed: bool


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What the model thought at a step. ``p_lp`` is ``p_raw`` over the allowed mass; both know no sampling filter. None
    is what a server does not tell."""

    p_raw: float
    p_lp: float | None
    allowed_mass: float | None
    rank_raw: int | None  # 1 is the likeliest token of the whole vocabulary
    entropy_nat: float | None  # of the model before the LP
    top_k: tuple[Candidate, ...]
    block: int  # the block of the constraint's cell, -1 outside
    rule: str  # which rule allowed or forced the token
    closing: float = 0.0  # mass before the LP of tokens that close a block, where it was asked for
    going_on: float = 0.0  # and of those that go on with its numbers
    ln_p: float | None = None  # these four as in ``log_chances``; None where no sampling is named, or not finite
    ln_p_tempered: float | None = None
    ln_mass: float | None = None
    ln_q: float | None = None  # None too where the token was not allowed


@dataclass(frozen=True, slots=True, eq=False)
class CloseIds:
    """The tokens that close a block, and those that go on with its numbers, on the model's device."""

    closing: Tensor  # int64 [C]
    going_on: Tensor  # int64 [G]


@dataclass(frozen=True, slots=True)
class Shaping:
    """What ``shaped`` did at a choice. Shares are of the mass under ``exact``, at the sampling's temperature."""

    struck: tuple[int, ...]  # ids that were found to leave no right place
    ln_share: float  # log of the share of the tokens that leave one, estimated without bias
    ln_least: float  # of those that are known to
    ln_most: float  # of those that are not known not to
    ln_q: float  # log of the probability that the token was drawn with


@dataclass(frozen=True, slots=True)
class Step:
    sample: int
    pos: int  # in the answer, from 0
    token_id: int
    forced: bool
    diagnosis: Diagnosis | None = None
    shaping: Shaping | None = None  # of a choice that ``shaped`` was asked of


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """The first tokens of an answer, which are there before it is written, as its LP takes them."""

    ids: tuple[int, ...]
    forced: tuple[bool, ...]
    places: tuple[tuple[int, int], ...]  # cell and node behind each


@dataclass(frozen=True, slots=True)
class Stop:
    sample: int
    reason: StopReason
    unmended: tuple[WrongPlace, ...] = ()  # what a guard found wrong and could not mend
    seconds: float | None = None  # that it took, where its steps come all at once; None: as its steps come
    unseen: tuple[int, ...] | None = field(default=None, compare=False)  # see ``Sample``


@dataclass(frozen=True, slots=True)
class Back:
    """A guard throws away what was written from a position on: the sample goes on there with other draws."""

    sample: int
    pos: int
    block: int  # the first that is redrawn; it began at ``pos``
    wrong: tuple[WrongPlace, ...]  # in the block that was written last

    @property
    def reason(self) -> WrongPlace:
        """The one that is told where there is room for one. Not of a draw that only weighs."""
        return self.wrong[0]


Event = Step | Stop | Back
Events = Iterator[Event]


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """A step of a batch, at the moment when its tokens are known. The tensors are the loop's: copy what is to stay."""

    samples: tuple[int, ...]
    keys: tuple[int, ...]
    positions: tuple[int, ...]
    raw: Tensor  # [B, V] logits before the LP, in float32; minus infinity in rows without a token
    allowed: Tensor  # bool [B, V]
    tokens: Tensor  # int64 [B]
    forced: tuple[bool, ...]


Tap = Callable[[Choice], None]
"""Is shown every choice while it is valid."""


@dataclass(slots=True)
class Counters:
    """What a decoding took, counted while it runs. Times of an asynchronous device are those of its queueing."""

    tokens: int = 0
    forced_tokens: int = 0
    thrown_tokens: int = 0  # by a guard; not among the tokens
    redrawn: dict[str, int] = field(default_factory=dict)  # how often a guard found a block wrong, by its reason
    thrown_by: dict[str, int] = field(default_factory=dict)  # the tokens of these, by reason
    forward_passes: int = 0  # prefills among them
    prefill_s: float = 0.0
    forward_s: float = 0.0  # with the output head
    constraint_s: float = 0.0
    sampling_s: float = 0.0
    decode_s: float = 0.0  # all of it, prefill too
    batch_size: int = 0  # in the end: halved where memory was short
    peak_memory_mb: float = 0.0
    notes: list[str] = field(default_factory=list)  # what a user should know, such as a halved batch

    def count(self, step: Step) -> Step:
        self.tokens += 1
        self.forced_tokens += step.forced
        return step

    def throw_away(self, back: Back, forced: Sequence[bool]) -> None:
        """``forced``: of the tokens that go."""
        self.tokens -= len(forced)
        self.forced_tokens -= sum(forced)
        self.thrown_tokens += len(forced)
        check = back.reason.check
        self.redrawn[check] = self.redrawn.get(check, 0) + 1
        self.thrown_by[check] = self.thrown_by.get(check, 0) + len(forced)


StepObserver = Callable[[Events, Counters], Events]
"""Stands between a decoding and who reads it: passes everything on, and may look at the counters meanwhile."""

Phase = Literal["template", "prefill", "decode", "constraint", "sample", "step"]
PREFIX = "driftscope::"
STEP = f"{PREFIX}step"
_NO_PHASE: AbstractContextManager[Any] = nullcontext()


def phase(name: Phase) -> AbstractContextManager[Any]:
    """A mark for torch's profiler, where one is running. Phases of a step lie inside it, a prefill inside a decode.

    Torch is not imported for this: without it nobody profiles.
    """
    torch = sys.modules.get("torch")
    if torch is None or not torch.autograd.profiler._is_profiler_enabled:
        return _NO_PHASE
    mark: AbstractContextManager[Any] = torch.autograd.profiler.record_function(f"{PREFIX}{name}")
    return mark
