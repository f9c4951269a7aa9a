"""What became of a request: its text, read and checked, next to what it took to write it.

A position LP's answer is aligned by position, so that a block that was cut is found as such; ``cleanup`` is the
reports' third solution, applied to the text alone: ids, and what they decode to, stay as the model wrote them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from engine.chem.enriched import skeleton_of
from engine.chem.guard import WrongPlace
from engine.decode.steps import Back, Diagnosis, Shaping, Step, StopReason
from engine.lp_records import usual_placeholder
from engine.records import Block, Check, Molecule, NumberFormat
from engine.text.align import Alignment, align
from engine.text.blocks import CloseMass, find_blocks, read_blocks
from engine.text.check import check_sample, clean_up
from engine.text.template import build_template
from engine.text.tokenizers import TextTokenizer


@dataclass(frozen=True, slots=True)
class ThrownTry:
    """Tokens that a guard threw away, and why."""

    back: Back
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Guarding:
    """What a guard did to an answer."""

    thrown: tuple[ThrownTry, ...] = ()  # in the order in which they were drawn
    unmended: tuple[WrongPlace, ...] = ()  # what it found wrong and left, when nothing more might be tried
    shapings: Mapping[int, Shaping] | None = None  # by position; None but under ``shaped``
    has_end: bool = True  # not cut by a limit, and no branch

    @property
    def redrawn_blocks(self) -> int:
        """How often it found a block wrong."""
        return len(self.thrown)

    @property
    def thrown_tokens(self) -> int:
        return sum(len(attempt.steps) for attempt in self.thrown)

    @property
    def figures(self) -> dict[str, float | None]:
        """By column of ``samples``."""
        if self.shapings is None:
            return {"redrawn_blocks": self.redrawn_blocks, "thrown_tokens": self.thrown_tokens}
        return {
            "redrawn_blocks": self.redrawn_blocks,
            "thrown_tokens": self.thrown_tokens,
            "dead_ends": self.redrawn_blocks + bool(self.unmended),
            "struck_tokens": sum(len(shaping.struck) for shaping in self.shapings.values()),
            "log_weight": self._weight([shaping.ln_share for shaping in self.shapings.values()]),
            "log_weight_least": self._weight([shaping.ln_least for shaping in self.shapings.values()]),
            "log_weight_most": self._weight([shaping.ln_most for shaping in self.shapings.values()]),
        }

    def _weight(self, shares: Iterable[float]) -> float | None:
        """The log share of the mass under ``exact`` that was left; of a text that was not written in one go from its
        start to its end that is not known."""
        return math.fsum(shares) if self.has_end and not self.thrown and not self.unmended else None


@dataclass(frozen=True, slots=True)
class Sample:
    """One answer, texts without the end token. ``blocks`` speak of ``raw_text``, ``check`` of ``text``."""

    sample_id: int
    generation: int
    smiles: str
    text: str
    raw_text: str
    token_ids: tuple[int, ...]
    forced: tuple[bool, ...]
    stop_reason: StopReason
    check: Check
    blocks: tuple[Block, ...]
    atoms: int
    diagnoses: tuple[Diagnosis, ...]
    guarding: Guarding | None = None  # None without a guard
    unseen: tuple[int, ...] | None = None  # positions of tokens before which the LP was not asked; None: not known
    canonical: bool | None = None  # whether the tokenizer cuts the text into these ids; None: not looked at

    @property
    def shapings(self) -> Mapping[int, Shaping]:
        """By position; empty but under ``shaped``."""
        return (self.guarding and self.guarding.shapings) or {}

    @property
    def tokens(self) -> int:
        return len(self.token_ids)

    @property
    def forced_tokens(self) -> int:
        return sum(self.forced)

    @property
    def cut_blocks(self) -> int:
        return sum("cut" in block.kinds for block in self.blocks)


@dataclass(frozen=True, slots=True)
class Reader:
    """Turns ids into samples: the LP that made them, its placeholder, and the numbers that the model writes."""

    tokenizer: TextTokenizer
    lp: str
    placeholder: str
    form: NumberFormat
    cleanup: bool = False

    def read(
        self,
        molecule: Molecule,
        ids: Iterable[int],
        forced: Iterable[bool],
        stop: StopReason,
        *,
        sample_id: int = 0,
        generation: int = 0,
        diagnoses: Iterable[Diagnosis] = (),
        masses: Mapping[int, CloseMass] | None = None,
        guarding: Guarding | None = None,
        unseen: tuple[int, ...] | None = None,
    ) -> Sample:
        token_ids, flags = tuple(ids), tuple(forced)
        inside = slice(self.tokenizer.text_length(token_ids))
        aligned = self.aligned(molecule, token_ids[inside], flags[inside], masses or {})
        text, readings = aligned.text, aligned.readings
        if self.cleanup:
            text = clean_up(text, self.form)
            readings = tuple(read_blocks(find_blocks(text, self.form), form=self.form, lp=self.lp))
        return Sample(
            sample_id=sample_id,
            generation=generation,
            smiles=molecule.smiles,
            text=text,
            raw_text=aligned.text,
            token_ids=token_ids,
            forced=flags,
            stop_reason=stop,
            check=check_sample(text, molecule, lp=self.lp, readings=readings, form=self.form),
            blocks=aligned.blocks,
            atoms=molecule.atoms,
            diagnoses=tuple(diagnoses),
            guarding=guarding,
            unseen=unseen,
            canonical=tuple(self.tokenizer.encode(aligned.text)) == token_ids[inside],
        )

    def aligned(
        self, molecule: Molecule, ids: Iterable[int], forced: Iterable[bool], masses: Mapping[int, CloseMass]
    ) -> Alignment:
        """Ids, without the end token, against the template: the LP's own, or that of the default placeholder."""
        placeholder = self.placeholder or usual_placeholder(self.form)
        skeleton = skeleton_of(molecule, form=self.form)
        template = build_template(skeleton, self.tokenizer, placeholder, tags=True, form=self.form)
        return align(
            template, tuple(ids), self.tokenizer, lp=self.lp, forced=tuple(forced), masses=dict(masses), form=self.form
        )
