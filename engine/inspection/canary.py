"""Whether an LP acted on an answer: each token is in its language, it was asked at every step, the text is that of the
ids, and the answer is not another row's.

No model is asked. Of what is wrong, the place is certain and the cause is the likeliest one: an LP that is dropped and
a request that is ignored look the same. What leaves no trace in tokens is not found here: a filter before the mask that
changed only how likely the legal tokens were, and under ``shaped`` a token that leaves no right place.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from engine.chem.enriched import CLOSE_TAG, OPEN_TAG
from engine.errors import DriftscopeError
from engine.lp.constraint import Constraint
from engine.lp.follower import AutomatonRows, Follower
from engine.lp.grammar import GrammarConstraint
from engine.lp.table import NO_ID, Program, live_columns
from engine.records import Molecule
from engine.text.tokenizer_build import RECIPES
from engine.text.tokenizers import TextTokenizer, load_tokenizer

FindingKind = Literal[
    "ignored", "unseen", "swapped", "stale", "ahead", "late", "early", "unmasked", "free", "mixed", "slipped",
    "ended", "tags eaten", "other tokenizer", "other text", "untagged", "spelled", "unnamed", "stuck", "cut",
]  # fmt: skip
KINDS: tuple[FindingKind, ...] = get_args(FindingKind)
"""The worst first; the last two are no fault of an LP."""
CAUSES: dict[FindingKind, str] = {
    "ignored": "the server did not hold to the LP of a request, which it answered all the same",
    "unseen": "the LP was not asked at this step: it was dropped",
    "swapped": "the answer goes on as that of {other}: rows were swapped",
    "stale": "the LP was at an earlier place of the same answer: a stale state, as after a preemption",
    "ahead": "the LP was at a later place of the same answer: it counted steps that wrote no token",
    "late": "the LP began at token {start}, as if nothing had been written: padding or a cached prefix was counted "
    "wrong, or its state was lost in a preemption",
    "early": "the LP began in the middle: it counted steps of the prompt, as of chunked prefill or left padding",
    "unmasked": "the LP was asked at this step, but its mask did not act: it was written into a buffer that is "
    "refreshed, a filter such as top-k came before it, or the row had no legal token and fell back",
    "free": "nothing was constrained from here on: the LP was dropped, or the request for it was ignored",
    "mixed": "out of step again and again, with tokens that the LP allows elsewhere: the states of other beams or "
    "rows, or a model that writes so without an LP",
    "slipped": "it is out of step inside one block, then in step again: the state of another beam, a stale one, or a "
    "mask that did not act once",
    "ended": "the answer ended where the LP allows no end: a row without a legal token (such as top-k before the mask "
    "leaves) fell back, or a server stopped it",
    "tags eaten": "the text lacks special tokens that the ids have: skip_special_tokens",
    "other tokenizer": "the ids are those of the tokenizer {other}, not of {own}",
    "other text": "the text is not that of the ids",
    "untagged": "the tags are missing: special tokens were filtered from the grammar",
    "spelled": "the text is right, but spelled in other tokens than the tokenizer's: special tokens were filtered from "
    "the grammar, or it is a grammar of bytes",
    "unnamed": "the LP does not allow this token; the cause was not looked for, as several samples before had faults",
    "stuck": "no token was left to choose: a dead end, or a request that the server refused",
    "cut": "the limit of tokens cut the answer{inside}",
}
NO_FAULT: tuple[FindingKind, ...] = ("stuck", "cut")
WINDOW, LEAST_TAIL = 48, 8
"""Tokens behind the first wrong one, among which a rest that the LP allows may begin; the least length of that."""
STOPPED = ("time", "cancelled")
CUT_OFF = ("length", *STOPPED)
"""Reasons for which an answer may end anywhere."""
MOST_NAMED, MOST_OTHERS = 8, 64
"""Of a group: samples of which the cause is looked for, and answers that a swapped one is compared with."""


@dataclass(frozen=True, slots=True)
class Answer:
    """``unseen``: positions of tokens at whose step the LP was not asked; None where nobody knows."""

    sample_id: int
    molecule: Molecule
    program: Program
    ids: Sequence[int]
    text: str | None  # as it was returned or stored; None: nothing but ids
    stop_reason: str | None
    unseen: Sequence[int] | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    kind: FindingKind
    sample_id: int
    token: int | None  # its position in the answer, from 0; None: of the answer as a whole
    cause: str

    @property
    def is_fault(self) -> bool:
        return self.kind not in NO_FAULT

    @property
    def rank(self) -> int:
        return KINDS.index(self.kind)

    @property
    def words(self) -> str:
        where = "" if self.token is None else f", token {self.token}"
        return f"sample {self.sample_id}{where}: {self.cause}"


@dataclass(slots=True)
class Tally:
    """Of all answers that were looked at."""

    followed: int = 0  # those with tokens
    seen: int = 0  # those of them at each step of which the LP is known to have been asked
    faulty: int = 0
    worst: Finding | None = None

    def add(self, finding: Finding | None, answer: Answer) -> None:
        has_tokens = len(answer.ids) > 0
        is_stuck = finding is not None and finding.kind == "stuck"
        self.followed += has_tokens
        self.seen += has_tokens and not is_stuck and answer.unseen is not None and not answer.unseen
        if finding is None:
            return
        self.faulty += finding.is_fault
        if self.worst is None or finding.rank < self.worst.rank:
            self.worst = finding


@dataclass(slots=True, eq=False)
class Canary:
    """Of one LP, as it is built for a tokenizer."""

    constraint: Constraint
    tokenizer: TextTokenizer
    tally: Tally = field(default_factory=Tally)
    rows: AutomatonRows = field(init=False)

    def __post_init__(self) -> None:
        self.rows = _rows_of(self.constraint.automaton)

    def look_at_all(self, answers: Sequence[Answer]) -> list[Finding]:
        """Answers that were written together; they are added to the tally."""
        findings = []
        for answer in answers:
            finding = self.look(answer, answers)
            self.tally.add(finding, answer)
            findings += [] if finding is None else [finding]
        return findings

    def look(self, answer: Answer, others: Sequence[Answer] = ()) -> Finding | None:
        """What is wrong with an answer. ``others``: written next to it."""
        ids = answer.ids
        written = self.tokenizer.decode(ids[: self.tokenizer.text_length(ids)])
        if answer.text is not None and answer.text != written:
            return self._of_text(answer, written)
        if answer.unseen:
            return _finding("unseen", answer, answer.unseen[0])
        if isinstance(self.constraint, GrammarConstraint):
            if not self.constraint.holds(answer.molecule, written, is_whole=False):
                return _finding("free", answer, None)
            is_whole = self.constraint.holds(answer.molecule, written, is_whole=True)
            return None if is_whole or answer.stop_reason in CUT_OFF else self._too_early(answer)
        follower = Follower(self.rows, answer.program)
        count = follower.follow(ids)
        if count == len(ids):
            return self._of_end(answer, follower)
        if self.tally.faulty >= MOST_NAMED:
            return _finding("unnamed", answer, count)
        return self._of_spelling(answer, written, count) or self._of_state(answer, count, follower, others)

    # --- what is wrong ---

    def _of_text(self, answer: Answer, written: str) -> Finding:
        ids = answer.ids[: self.tokenizer.text_length(answer.ids)]
        if answer.text == self.tokenizer.decode([id_ for id_ in ids if id_ not in self.tokenizer.added]):
            first = next(at for at, id_ in enumerate(ids) if id_ in self.tokenizer.added)
            return _finding("tags eaten", answer, first)
        for name, text in self._by_others(ids):
            if text == answer.text:
                return _finding("other tokenizer", answer, None, other=name, own=self.tokenizer.name)
        return _finding("other text", answer, None)

    def _by_others(self, ids: Sequence[int]) -> Iterable[tuple[str, str]]:
        """What tokenizers that are here read, without tokens that end a text."""
        for name in RECIPES:
            if name == self.tokenizer.name:
                continue
            try:
                other = load_tokenizer(name)
            except DriftscopeError:  # it is not built here
                continue
            if max(ids, default=0) < other.vocab_size:
                yield name, other.decode(ids[: other.text_length(ids)])

    def _of_end(self, answer: Answer, follower: Follower) -> Finding | None:
        """Of an answer that the LP allows as far as it goes."""
        end = self.tokenizer.end_id
        ids = answer.ids
        is_whole = bool(ids) and ids[-1] == end
        if is_whole or answer.stop_reason in STOPPED or end is None or follower.allows(end):
            return None
        if answer.stop_reason not in ("length", None):
            return self._too_early(answer)
        inside = " inside a block" if answer.program.block[follower.cell] >= 0 else ""
        return _finding("cut", answer, len(ids), inside=inside)

    def _too_early(self, answer: Answer) -> Finding:
        """Of one that is right as far as it goes, and that nobody cut off."""
        return _finding("stuck" if answer.stop_reason == "empty_mask" else "ended", answer, len(answer.ids))

    def _of_spelling(self, answer: Answer, written: str, count: int) -> Finding | None:
        """Of an answer that other tokens would have made right."""
        if self._allows_text(answer, written):
            return _finding("spelled", answer, count)
        has_tag = written.startswith(OPEN_TAG) or written.endswith(CLOSE_TAG)
        if not has_tag and self._allows_text(answer, f"{OPEN_TAG}{written}{CLOSE_TAG}"):
            return _finding("untagged", answer, count)
        for name, text in self._by_others(answer.ids):
            if text.startswith(OPEN_TAG) and self._allows_text(answer, text):
                return _finding("other tokenizer", answer, count, other=name, own=self.tokenizer.name)
        return None

    def _allows_text(self, answer: Answer, text: str) -> bool:
        """As whole as an answer has to be."""
        follower = Follower(self.rows, answer.program)
        ids, end = self.tokenizer.encode(text), self.tokenizer.end_id
        return follower.follow(ids) == len(ids) and (end is None or follower.allows(end))

    def _of_state(self, answer: Answer, count: int, lost: Follower, others: Sequence[Answer]) -> Finding:
        """Of an answer whose tokens are another row's, another step's, or nobody's."""
        ids = answer.ids
        own = self._part_of(answer.program, ids, count)
        of_others = [(self._begins_in(each, answer, count), each) for each in others[:MOST_OTHERS]]
        begun = [(at, each) for at, each in of_others if at is not None]
        at, other = min(begun, default=(len(ids), answer), key=lambda pair: pair[0])
        if at < (len(ids) if own is None else own[0]):  # ends of answers are alike
            return _finding("swapped", answer, count, other=f"sample {other.sample_id}, {other.molecule.smiles}")
        if own is not None:
            return self._of_place(answer, count, lost, *own)
        if ids[-1] == self.tokenizer.end_id and len(ids) - count <= 2:  # at once, or behind one wrong token
            return _finding("ended", answer, count)
        if answer.unseen is not None:
            return _finding("unmasked", answer, count)
        live = {*live_columns(self.constraint.automaton, [answer.program]).tolist(), *answer.program.forced.tolist()}
        is_alike = len(ids) - count >= LEAST_TAIL and live.issuperset(ids[count:])
        return _finding("mixed" if is_alike else "free", answer, count)

    def _begins_in(self, other: Answer, answer: Answer, count: int) -> int | None:
        """The token from which on it is the other's: its first, or one behind the first wrong one."""
        if other.molecule.smiles == answer.molecule.smiles:
            return None
        if Follower(self.rows, other.program).follow(answer.ids) == len(answer.ids):
            return 0
        part = self._part_of(other.program, answer.ids, count)
        return None if part is None else part[0]

    def _part_of(self, program: Program, ids: Sequence[int], count: int) -> tuple[int, int] | None:
        """The first token, and its cell, from which on a program allows all that follows, to the end."""
        follower = Follower(self.rows, program)
        for at in range(count, min(count + WINDOW, len(ids) - LEAST_TAIL + 1)):
            rest = ids[at:]
            for cell in follower.starts(ids[at]):
                follower.enter(cell)
                if follower.follow(rest) == len(rest):
                    return at, cell
        return None

    def _of_place(self, answer: Answer, count: int, lost: Follower, at: int, cell: int) -> Finding:
        """By where in its own program an answer goes on. ``lost``: where it should have been."""
        program = answer.program
        starts = [number for number in range(len(program)) if _is_start(program, number)]
        following = next((number for number in starts if number >= lost.cell), len(program))
        if cell == 0:
            return _finding("late", answer, count, start=str(at))
        if count == 0 and at != cell:  # else one wrong token
            return _finding("early", answer, 0)
        is_next = lost.cell <= cell <= max(following, lost.cell + at - count)
        if is_next or (_is_inside(program, lost.cell, cell) and at > count):
            return _finding("slipped" if answer.unseen is None else "unmasked", answer, count)
        return _finding("stale" if cell < lost.cell else "ahead", answer, count)


_rows_of = functools.lru_cache(maxsize=4)(AutomatonRows)


def _is_start(program: Program, cell: int) -> bool:
    return bool(program.forced[cell] != NO_ID and (cell == 0 or program.forced[cell - 1] == NO_ID))


def _is_inside(program: Program, lost: int, cell: int) -> bool:
    """Whether a forced part that begins at ``cell`` has the cell ``lost``."""
    return cell <= lost and bool((program.forced[cell : lost + 1] != NO_ID).all())


def _finding(kind: FindingKind, answer: Answer, token: int | None, **names: str) -> Finding:
    return Finding(kind, answer.sample_id, token, CAUSES[kind].format(**names))
