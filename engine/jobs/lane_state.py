"""The state of a lane while it is written: texts so far, alignments, counts, time left.

A page feeds it the lane's events in their order. An unfinished text is aligned as far as it goes; its last block, which
is still open, gets no verdict. What this module does not know: how any of it is shown.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, field, replace
from operator import add

from engine.chem.enriched import described, skeleton_of
from engine.decode.samples import Reader, Sample
from engine.decode.steps import Back
from engine.inspection.realign import with_kinds
from engine.inspection.tries import ThrownText, blocks_thrown, checks_by_block
from engine.jobs.lane import (
    Lane,
    LaneCounts,
    LaneEvent,
    LaneFinished,
    LaneOpened,
    LaneSamples,
    LaneTokens,
    SampleEnded,
)
from engine.lp_records import DEFAULT_PLACEHOLDER, lp_record, split_cleanup
from engine.records import Block, Molecule
from engine.text.align import Alignment
from engine.text.blocks import CUT_KINDS
from engine.text.template import build_template
from engine.text.tokenizers import load_tokenizer


@dataclass(frozen=True, slots=True)
class Tally:
    """Blocks so far. ``drift`` adds up that of the ``known`` ones: positive positions left over, negative missing."""

    blocks: int = 0
    junk: int = 0
    cut: int = 0
    drift: int = 0
    known: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(*map(add, astuple(self), astuple(other)))


@dataclass(frozen=True, slots=True)
class LaneTry:
    """Tokens that a guard threw away, and why."""

    back: Back
    ids: tuple[int, ...]

    @property
    def blocks(self) -> range:
        """The blocks that went, whole ones: to the one that failed, from the first that was drawn anew."""
        return blocks_thrown(self.back.block, self.back.reason.atoms)


@dataclass(slots=True)
class LaneText:
    """One sample as far as it is written."""

    ids: list[int] = field(default_factory=list)
    forced: list[bool] = field(default_factory=list)
    answer: Sample | None = None  # once it has ended
    thrown: list[LaneTry] = field(default_factory=list)  # in their order

    @property
    def failed_by_block(self) -> dict[int, list[str]]:
        """Of each block that was drawn anew: the check for which each of its tries was thrown away."""
        return checks_by_block((thrown.blocks, thrown.back.reason.check) for thrown in self.thrown)


class LaneWatch:
    """The state of one lane, from its events."""

    def __init__(self, lane: Lane, molecules: Sequence[Molecule]) -> None:
        self.lane, self.molecules = lane, list(molecules)
        self.opened: LaneOpened | None = None
        self.counted = LaneCounts(0, 0, 0, 0.0)
        self.finished: LaneFinished | None = None
        self.texts: dict[int, LaneText] = {}
        self._aligned: dict[int, tuple[tuple[int, int, bool], Alignment]] = {}  # by sample; how far it had come then

    def take(self, events: Iterable[LaneEvent]) -> None:
        for event in events:
            match event:
                case LaneOpened():
                    self.opened = event
                    self.molecules = [described(molecule, event.descriptors) for molecule in self.molecules]
                case LaneCounts():
                    self.counted = event
                case LaneFinished():
                    self.finished = event
                case LaneTokens(sample, ids, forced):
                    text = self.texts.setdefault(sample, LaneText())
                    text.ids += ids
                    text.forced += forced
                case Back(sample, pos):
                    text = self.texts[sample]
                    text.thrown.append(LaneTry(event, tuple(text.ids[pos:])))
                    del text.ids[pos:], text.forced[pos:]
                case SampleEnded(sample):
                    self.texts.setdefault(sample.sample_id, LaneText()).answer = sample
                case LaneSamples(samples):
                    for sample in samples:
                        self.texts[sample.sample_id].answer = sample
                    self._aligned.clear()

    # Texts.

    @property
    def samples(self) -> int:
        return len(self.lane.smiles) * self.lane.plan.plan.generations

    @property
    def answered(self) -> list[Sample]:
        """In the order of the samples."""
        texts = (self.texts[number] for number in sorted(self.texts))
        return [text.answer for text in texts if text.answer is not None]

    def molecule_of(self, sample: int) -> Molecule:
        return self.molecules[sample // self.lane.plan.plan.generations]

    def alignment(self, sample: int) -> Alignment | None:
        """The sample so far, aligned with its template; None before its first token."""
        text = self.texts.get(sample)
        if text is None or not text.ids or self.opened is None:
            return None
        has_ended = text.answer is not None
        reached = len(text.ids), len(text.thrown), has_ended
        known = self._aligned.get(sample)
        if known is None or known[0] != reached:
            aligned = self._reader.aligned(self.molecule_of(sample), *self._without_end(text), {})
            if text.answer is None:
                aligned = _without_verdict_on_open_block(aligned)
            else:
                aligned = with_kinds(aligned, [block.kinds for block in text.answer.blocks])
            known = self._aligned[sample] = reached, aligned
        return known[1]

    def thrown(self, sample: int) -> list[ThrownText]:
        """The sample's tries that a guard threw away so far."""
        text, decode = self.texts.get(sample), self._reader.tokenizer.decode
        tries = [] if text is None else text.thrown
        return [ThrownText(one.blocks, one.back.reason.check, decode(one.ids)) for one in tries]

    @functools.cached_property
    def _reader(self) -> Reader:
        assert self.opened is not None
        lp, cleanup = split_cleanup(self.opened.lp)
        tokenizer = load_tokenizer(self.opened.tokenizer)
        return Reader(tokenizer, lp, self.opened.placeholder, self.opened.form, cleanup)

    def _without_end(self, text: LaneText) -> tuple[list[int], list[bool]]:
        has_end = text.ids[-1] == self._reader.tokenizer.end_id
        stop = len(text.ids) - has_end
        return text.ids[:stop], text.forced[:stop]

    # Counts.

    def tally(self, shown: int) -> Tally:
        """Over all ended samples, and the shown one as far as it goes."""
        tally = sum((_tally_of(sample.blocks) for sample in self.answered), Tally())
        text = self.texts.get(shown)
        if text is not None and text.answer is None and (aligned := self.alignment(shown)) is not None:
            tally += _tally_of(aligned.blocks)
        return tally

    @property
    def is_guarded(self) -> bool:
        return lp_record(split_cleanup(self.lane.plan.plan.lp)[0]).is_guarded

    @property
    def redrawn(self) -> Counter[str]:
        """How often blocks were drawn anew, by the check that had failed; over all samples."""
        return Counter(thrown.back.reason.check for text in self.texts.values() for thrown in text.thrown)

    @property
    def thrown_tokens(self) -> int:
        """Over all samples; no part of the tokens counted."""
        return sum(len(thrown.ids) for text in self.texts.values() for thrown in text.thrown)

    def atom_being_written(self, sample: int) -> int | None:
        """The atom whose block the last token belongs to; None when the sample has ended."""
        text, aligned = self.texts.get(sample), self.alignment(sample)
        if text is None or text.answer is not None or aligned is None:
            return None
        written = (row for row in reversed(aligned.rows) if row.pos is not None)
        return next((row.block for row in written if row.block >= 0), None)

    @property
    def tokens_a_second(self) -> float:
        return self.counted.tokens / self.counted.seconds if self.counted.seconds > 0 else 0.0

    @property
    def share_written(self) -> float:
        """The share of the expected tokens, by the templates' lengths; 1 at the end."""
        if self.finished is not None or len(self.answered) == self.samples:
            return 1.0
        if self.opened is None:  # the tokenizer is not known yet
            return 0.0
        generations = self.lane.plan.plan.generations
        done = 0
        for sample, text in self.texts.items():
            expected = self._template_tokens[sample // generations]
            done += expected if text.answer is not None else min(expected, len(text.ids))
        return min(0.99, done / max(1, generations * sum(self._template_tokens)))

    @property
    def has_pace(self) -> bool:
        """Whether enough is written to tell how long the rest takes."""
        return self.opened is not None and self.counted.seconds > 0 and self.share_written > 0.02

    @property
    def seconds_left(self) -> float | None:
        """Of writing, at the current pace; None before there is one, and when all is written."""
        share = self.share_written
        return self.counted.seconds * (1 - share) / share if self.has_pace and share < 1 else None

    @functools.cached_property
    def _template_tokens(self) -> list[int]:
        """By molecule: the tokens of its template, about as many as a sample has."""
        assert self.opened is not None
        tokenizer, placeholder = self._reader.tokenizer, self.opened.placeholder or DEFAULT_PLACEHOLDER
        templates = (build_template(skeleton_of(mol), tokenizer, placeholder, tags=True) for mol in self.molecules)
        return [template.tokens + 1 for template in templates]


def _tally_of(blocks: Iterable[Block]) -> Tally:
    tally = Tally()
    for block in blocks:
        kinds = set(block.kinds)
        is_cut, is_junk = bool(kinds & CUT_KINDS), bool(block.junk_text)
        tally += Tally(1, int(is_junk), int(is_cut), block.drift or 0, int(block.drift is not None))
    return tally


def _without_verdict_on_open_block(aligned: Alignment) -> Alignment:
    """The last block may still be open: what is missing may follow."""
    last = max((row.text_block for row in aligned.rows if row.pos is not None), default=-1)
    if last < 0 or not aligned.rows:
        return aligned
    rows = tuple(replace(row, mark="") if row.mark == "cut" and row.text_block == last else row for row in aligned.rows)
    return replace(aligned, rows=rows, blocks=aligned.blocks[:last], readings=aligned.readings[:last])
