"""What is asked of a generation, apart from its model and molecules. Faces build it; torch is not imported here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from engine.decode.presets import Sampling, preset
from engine.decode.steps import DecodeOptions
from engine.errors import ConstraintError, nearest, shown
from engine.lp_records import GuardSettings, lp_record, split_cleanup
from engine.records import BinFormat, Descriptors, NumberFormat

BackendName = Literal["fast", "hf"]
BACKENDS: tuple[BackendName, ...] = ("fast", "hf")
MOST_LIMIT = 100_000


@dataclass(frozen=True, slots=True)
class Plan:
    """What is asked of a call, apart from model and molecules. ``lp`` may end in ``+cleanup``."""

    lp: str = "exact"
    placeholder: str = ""
    form: NumberFormat | None = None  # the numbers that may be written; None: the model's own
    descriptors: Descriptors | None = None  # None: those that the LP forces, else the model's
    bos: bool = True  # prompts begin as the checkpoint's do; runs of before this was known have none
    backend: BackendName = "fast"
    sampling: Sampling = field(default_factory=lambda: preset("qwen3"))
    generations: int = 1
    seed: int = 0
    batch_size: int = 32
    limit: int | None = None  # most tokens of an answer; None: by the molecule's size
    time_limit_s: float | None = None
    diagnostics: bool = False
    candidates: int = 10
    compile: bool = False  # the fast backend's layers, by torch.compile
    equal_work: bool = False  # each answer as long as the exact LP's
    guard: GuardSettings = field(default_factory=GuardSettings)  # of an LP that is guarded

    def __post_init__(self) -> None:
        if self.backend not in BACKENDS:
            raise ConstraintError(f"there is no backend {shown(self.backend)}", nearest(self.backend, BACKENDS))
        if self.generations < 1 or (self.limit is not None and not 1 <= self.limit <= MOST_LIMIT):
            raise ConstraintError(
                f"{self.generations} generations of at most {self.limit} tokens cannot be",
                f"Give one generation or more, and a limit from 1 to {MOST_LIMIT:,}",
            )
        if self.compile and self.backend != "fast":
            raise ConstraintError(
                f"the backend {self.backend} is not compiled", "Use the backend fast, or leave it out"
            )
        if self.equal_work and self.limit is not None:
            raise ConstraintError("equal work sets the limits itself", "Leave one of the two out")
        record = lp_record(split_cleanup(self.lp)[0])
        if isinstance(self.form, BinFormat) and (record.is_guarded or record.name == "truncating"):
            raise ConstraintError(f"the LP {record.name} reads decimals, no bins", "Use exact, or leave --bins out")

    def descriptors_of(self, model: Descriptors) -> Descriptors:
        """How the text's descriptors are written; ``model`` is how the model learnt them."""
        return self.descriptors or lp_record(split_cleanup(self.lp)[0]).descriptors or model

    @property
    def options(self) -> DecodeOptions:
        return DecodeOptions(
            self.sampling,
            self.seed,
            self.batch_size,
            diagnostics=self.diagnostics,
            candidates=self.candidates,
            time_limit_s=self.time_limit_s,
        )
