"""Claims with their verdicts: filtered, grouped by report and section, with related claims.

It knows no widget and no address; ``words`` has the names of figures and verdicts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from engine.evidence.checks.finding import VerdictName
from engine.evidence.claims import Claim
from engine.evidence.formula import figures_of
from engine.evidence.verdicts import Judgement, Verdict

MOST_RELATED = 12
OVER_RUNS = frozenset({"sql", "drift", "lp_table", "references"})
"""Checks that read the runs that ship."""


@dataclass(frozen=True, slots=True)
class Judged:
    """``verdict`` is None where the claim has not been checked yet."""

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
class ClaimFilter:
    """The page's filters; an empty one lets everything pass."""

    reports: frozenset[str] = frozenset()
    verdicts: frozenset[str] = frozenset()
    text: str = ""
    subject: str = ""
    with_figure: bool = False


def judged_claims(claims: Sequence[Claim], judgement: Judgement | None) -> tuple[Judged, ...]:
    """Each claim with its verdict, by id: a file of verdicts may be older than the claims."""
    verdicts = {} if judgement is None else {verdict.claim_id: verdict for verdict in judgement.verdicts}
    return tuple(Judged(claim, verdicts.get(claim.id)) for claim in claims)


def places_of(rows: Sequence[Judged], chosen: ClaimFilter) -> list[int]:
    """Places of the rows that pass the filters."""
    words = chosen.text.casefold().split()

    def passes(row: Judged) -> bool:
        claim = row.claim
        parts = (claim.id, *claim.sections, claim.subject, claim.statement, claim.reported, claim.unit, row.reason)
        text = " ".join(parts).casefold()
        return (
            (not chosen.reports or claim.report in chosen.reports)
            and (not chosen.verdicts or row.name in chosen.verdicts)
            and (not chosen.subject or claim.subject == chosen.subject)
            and (not chosen.with_figure or row.has_figure)
            and all(word in text for word in words)
        )

    return [place for place, row in enumerate(rows) if passes(row)]


def counts_by_report(rows: Iterable[Judged]) -> dict[str, Counter[VerdictName | None]]:
    """By report and verdict; None counts claims without one."""
    counts: dict[str, Counter[VerdictName | None]] = {}
    for row in rows:
        counts.setdefault(row.claim.report, Counter())[row.name] += 1
    return counts


def related(judged: Judged, rows: Sequence[Judged]) -> list[tuple[str, Judged]]:
    """Claims about the same thing, inputs of this one, or computed with it; each once, after how it is related."""
    known = {row.id: row for row in rows}
    relations: dict[str, tuple[str, Judged]] = {}
    for how, ids in (
        ("the same thing, another figure", [*_others(judged), *[row.id for row in rows if judged.id in _others(row)]]),
        ("goes into this one", _inputs(judged, known)),
        ("computed with this one", [row.id for row in rows if judged.id in _inputs(row, known)]),
        ("about the same", [row.id for row in rows if row.claim.subject == judged.claim.subject]),
    ):
        for id_ in ids:
            if id_ in known and id_ != judged.id:
                relations.setdefault(id_, (how, known[id_]))
    return list(relations.values())[:MOST_RELATED]


def _others(row: Judged) -> list[str]:
    return [str(id_) for id_ in row.claim.arguments.get("others", ())]


def _inputs(row: Judged, known: Mapping[str, Judged]) -> list[str]:
    """The claims whose figures its formula takes; ``id.1`` is the second figure of a claim."""
    arguments = row.claim.arguments
    formulas = [arguments.get("formula", ""), arguments.get("measure", ""), *arguments.get("where", {}).values()]
    named = [name for formula in formulas for name in figures_of(formula)]
    named += [*arguments.get("one", ()), *arguments.get("other", ())]
    return [name if name in known else name.rpartition(".")[0] for name in dict.fromkeys(named)]
