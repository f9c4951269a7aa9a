"""Claims with their verdicts as the Evidence page goes through them: which ones, in which groups, beside which others.

It knows no widget and no address; what a figure or a verdict is called stands in ``evidence_words``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from engine.evidence.checks.finding import VerdictName
from engine.evidence.claims import Claim
from engine.evidence.formula import figures_of
from engine.evidence.verdicts import Judgement, Verdict

MOST_RELATED = 12
OVER_RUNS = frozenset({"sql", "drift", "lp_table"})
"""Checks that read the runs that ship."""


@dataclass(frozen=True, slots=True)
class Judged:
    """``verdict`` is None where nobody has judged the claim yet."""

    claim: Claim
    verdict: Verdict | None

    @property
    def id(self) -> str:
        return self.claim.id

    @property
    def name(self) -> VerdictName | None:
        return None if self.verdict is None else self.verdict.verdict

    @property
    def measured(self) -> float | None:
        return None if self.verdict is None else self.verdict.measured

    @property
    def reason(self) -> str:
        return "" if self.verdict is None else self.verdict.reason

    @property
    def has_figure(self) -> bool:
        return bool(self.claim.reported)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the filters ask for; what is empty asks for nothing."""

    reports: frozenset[str] = frozenset()
    verdicts: frozenset[str] = frozenset()
    text: str = ""
    subject: str = ""
    with_figure: bool = False


@dataclass(frozen=True, slots=True)
class Related:
    """Another claim, and what it has to do with this one."""

    how: str
    judged: Judged


def judged_claims(claims: Sequence[Claim], judgement: Judgement | None) -> tuple[Judged, ...]:
    """Each claim with its verdict, by id: a file of verdicts may be older than the claims."""
    verdicts = {} if judgement is None else {one.claim_id: one for one in judgement.verdicts}
    return tuple(Judged(claim, verdicts.get(claim.id)) for claim in claims)


def places_of(rows: Sequence[Judged], wanted: Wanted) -> list[int]:
    """Which of the rows the filters leave."""
    words = wanted.text.casefold().split()
    return [at for at, row in enumerate(rows) if _is_wanted(row, wanted) and all(one in _text(row) for one in words)]


def counts_by_report(rows: Iterable[Judged]) -> dict[str, Counter[VerdictName | None]]:
    """By report and verdict; None counts claims without one."""
    found: dict[str, Counter[VerdictName | None]] = {}
    for row in rows:
        found.setdefault(row.claim.report, Counter())[row.name] += 1
    return found


def by_section(rows: Sequence[Judged]) -> Iterator[tuple[str, str, list[int]]]:
    """Report, section, and the places of its rows; rows come in the reports' order."""
    for (report, section), places in groupby(range(len(rows)), lambda at: _place(rows[at])):
        yield report, section, list(places)


def related(one: Judged, rows: Sequence[Judged]) -> list[Related]:
    """Claims that are the other side of this one, go into it, rest on it, or are about the same, each once."""
    known = {row.id: row for row in rows}
    found: dict[str, Related] = {}
    for how, ids in (
        ("the same thing, another figure", [*_others(one), *[row.id for row in rows if one.id in _others(row)]]),
        ("goes into this one", _inputs(one, known)),
        ("computed with this one", [row.id for row in rows if one.id in _inputs(row, known)]),
        ("about the same", [row.id for row in rows if row.claim.subject == one.claim.subject]),
    ):
        for id_ in ids:
            if id_ in known and id_ != one.id:
                found.setdefault(id_, Related(how, known[id_]))
    return list(found.values())[:MOST_RELATED]


def _is_wanted(row: Judged, wanted: Wanted) -> bool:
    return (
        (not wanted.reports or row.claim.report in wanted.reports)
        and (not wanted.verdicts or row.name in wanted.verdicts)
        and (not wanted.subject or row.claim.subject == wanted.subject)
        and (not wanted.with_figure or row.has_figure)
    )


def _text(row: Judged) -> str:
    claim = row.claim
    parts = (claim.id, *claim.sections, claim.subject, claim.statement, claim.reported, claim.unit, row.reason)
    return " ".join(parts).casefold()


def _place(row: Judged) -> tuple[str, str]:
    return row.claim.report, row.claim.section


def _others(row: Judged) -> list[str]:
    return [str(id_) for id_ in row.claim.arguments.get("others", ())]


def _inputs(row: Judged, known: Mapping[str, Judged]) -> list[str]:
    """The claims whose figures its formula takes; ``id.1`` is the second figure of a claim."""
    given = row.claim.arguments
    formulas = [given.get("formula", ""), given.get("measure", ""), *given.get("where", {}).values()]
    named = [name for formula in formulas for name in figures_of(formula)]
    named += [*given.get("one", ()), *given.get("other", ())]
    return [name if name in known else name.rpartition(".")[0] for name in dict.fromkeys(named)]
