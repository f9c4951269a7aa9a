"""What can be said of a lane at any moment while it is written: texts so far, alignments, counts, what is left.

A page feeds it the lane's events in their order. A text that is not finished is aligned as far as it goes; what its
last block lacks, which is still open, is not held against it. What this module does not know: how any of it is shown.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from engine.chem.enriched import skeleton_of
from engine.decode.samples import Reader, Sample
from engine.inspection.molecules import CUT_KINDS, JUNK_KINDS
from engine.inspection.retelling import with_kinds
from engine.live.lane import Answered, Counted, Finished, Judged, Lane, LaneEvent, Opened, Written
from engine.lp.catalogue import split_cleanup
from engine.records import Block, Molecule
from engine.text.align import AlignedToken, Alignment
from engine.text.template import DEFAULT_PLACEHOLDER, build_template
from engine.text.tokenizers import load_tokenizer


@dataclass(frozen=True, slots=True)
class Tally:
    """Blocks so far. ``drift`` adds up what is known: positive positions left over, negative ones missing."""

    blocks: int = 0
    junk: int = 0
    cut: int = 0
    drift: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.blocks + other.blocks, self.junk + other.junk, self.cut + other.cut, self.drift + other.drift)


@dataclass(slots=True)
class Text:
    """One answer as far as it is written."""

    ids: list[int] = field(default_factory=list)
    forced: list[bool] = field(default_factory=list)
    answer: Sample | None = None  # when it has ended


class LaneWatch:
    """One lane, as its page sees it."""

    def __init__(self, lane: Lane, molecules: Sequence[Molecule]) -> None:
        self.lane, self.molecules = lane, list(molecules)
        self.opened: Opened | None = None
        self.counted = Counted(0, 0, 0, 0.0)
        self.finished: Finished | None = None
        self.texts: dict[int, Text] = {}
        self._aligned: dict[int, tuple[int, bool, Alignment]] = {}  # by sample: of how many tokens, whether ended

    def take(self, events: Iterable[LaneEvent]) -> None:
        for event in events:
            match event:
                case Opened():
                    self.opened = event
                case Counted():
                    self.counted = event
                case Finished():
                    self.finished = event
                case Written(sample, ids, forced):
                    text = self.texts.setdefault(sample, Text())
                    text.ids += ids
                    text.forced += forced
                case Answered(sample):
                    self.texts.setdefault(sample.sample_id, Text()).answer = sample
                case Judged(samples):
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
        """The answer so far against its template; None before its first token."""
        text = self.texts.get(sample)
        if text is None or not text.ids or self.opened is None:
            return None
        has_ended = text.answer is not None
        known = self._aligned.get(sample)
        if known is None or known[:2] != (len(text.ids), has_ended):
            aligned = self._reader.aligned(self.molecule_of(sample), *self._without_end(text), {})
            if text.answer is None:
                aligned = _without_verdict_on_open_block(aligned)
            else:
                aligned = with_kinds(aligned, [block.kinds for block in text.answer.blocks])
            known = self._aligned[sample] = (len(text.ids), has_ended, aligned)
        return known[2]

    @functools.cached_property
    def _reader(self) -> Reader:
        assert self.opened is not None
        lp, cleanup = split_cleanup(self.opened.lp)
        tokenizer = load_tokenizer(self.opened.tokenizer)
        return Reader(tokenizer, lp, self.opened.placeholder, self.opened.form, cleanup)

    def _without_end(self, text: Text) -> tuple[list[int], list[bool]]:
        has_end = text.ids[-1] == self._reader.tokenizer.end_id
        stop = len(text.ids) - has_end
        return text.ids[:stop], text.forced[:stop]

    # Counts.

    def tally(self, shown: int) -> Tally:
        """Of all answers that have ended, and of the one that is shown as far as it goes."""
        found = sum((_tally_of(one.blocks) for one in self.answered), Tally())
        text = self.texts.get(shown)
        if text is not None and text.answer is None and (aligned := self.alignment(shown)) is not None:
            found += _tally_of(aligned.blocks)
        return found

    def atom_in_work(self, sample: int) -> int | None:
        """The atom whose block the last token belongs to; None when the answer has ended."""
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
        """Of the tokens that the lane will take, by the templates' lengths: an estimate that ends at 1."""
        if self.finished is not None or len(self.answered) == self.samples:
            return 1.0
        if self.opened is None:  # nor is the tokenizer known
            return 0.0
        done = sum(self._done(number, text) for number, text in self.texts.items())
        return min(0.99, done / max(1, sum(map(self._expected, range(self.samples)))))

    @property
    def seconds_left(self) -> float | None:
        """At the pace so far; None where there is none yet."""
        if self.opened is None or not self.counted.seconds:
            return None
        share = self.share_written
        if not 0.02 < share < 1:
            return None
        return self.counted.seconds * (1 - share) / share

    def _done(self, number: int, text: Text) -> int:
        expected = self._expected(number)
        return expected if text.answer is not None else min(expected, len(text.ids))

    def _expected(self, sample: int) -> int:
        place = sample // self.lane.plan.plan.generations
        return self._template_tokens[place]

    @functools.cached_property
    def _template_tokens(self) -> list[int]:
        """As long as its template is what an answer will be, about."""
        assert self.opened is not None
        tokenizer, placeholder = self._reader.tokenizer, self.opened.placeholder or DEFAULT_PLACEHOLDER
        templates = (build_template(skeleton_of(one), tokenizer, placeholder, tags=True) for one in self.molecules)
        return [template.tokens + 1 for template in templates]


def _tally_of(blocks: Iterable[Block]) -> Tally:
    found = Tally()
    for block in blocks:
        kinds = set(block.kinds)
        is_cut, is_junk = bool(kinds & CUT_KINDS), bool(kinds & JUNK_KINDS)
        found += Tally(1, int(is_junk), int(is_cut), block.drift or 0)
    return found


def _without_verdict_on_open_block(aligned: Alignment) -> Alignment:
    """The last block may still be open: what it lacks is to come."""
    last = max((row.text_block for row in aligned.rows if row.pos is not None), default=-1)
    if last < 0 or not aligned.rows:
        return aligned
    rows = tuple(replace(row, mark="") if _is_of_open_block(row, last) else row for row in aligned.rows)
    return replace(aligned, rows=rows, blocks=aligned.blocks[:last], readings=aligned.readings[:last])


def _is_of_open_block(row: AlignedToken, last: int) -> bool:
    return row.mark == "cut" and row.text_block == last


def first_difference(one: Sequence[int], other: Sequence[int]) -> int | None:
    """The first place where two texts part, which may be the end of one of them; None where they are the same."""
    for place, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return place
    return None if len(one) == len(other) else min(len(one), len(other))
