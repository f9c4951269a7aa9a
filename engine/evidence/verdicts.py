"""Verdicts on the reports' claims: each computed by the claim's own check, never typed in.

``judge`` computes them; ``save`` and ``load`` keep the last ones with what they were computed from, so that a page can
say when that was and whether it still holds (``why_outdated``). A check that lacks what it needs says so in its
verdict; one that cannot be computed at all is an error, because the fault is then in ``data/claims/``.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from engine.errors import FileFormatError, shown
from engine.evidence.checks import CHECKS
from engine.evidence.checks.finding import VERDICTS, Basis, Finding, Source, VerdictName
from engine.evidence.checks.stored import is_asked, is_trace_asked
from engine.evidence.claims import FOLDER, Claim, files_of, load_claims
from engine.store.entries import Entry
from engine.store.provenance import git_commit, versions
from engine.store.schema import RUN, Kind
from engine.store.store import Store
from engine.store.trace_schema import TRACE
from engine.store.views import connect

FILE = FOLDER / "verdicts.json"
CODE = ("formula.py", "claims.py", "tokenisation.py", "checks/*.py")
"""What judges, below this package; what else may come to lie beside it decides no verdict."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """``measured`` is in the claim's unit, None where there is no figure. ``query`` runs as it is where it is SQL."""

    claim_id: str
    verdict: VerdictName
    measured: float | None
    unit: str
    reason: str
    query: str
    source: Source


@dataclass(frozen=True, slots=True)
class Judgement:
    """Verdicts with when and from what they were computed."""

    when: datetime
    git_commit: str | None
    versions: str  # JSON, by package
    claims_sha256: str
    code_sha256: str
    runs_sha256: str
    verdicts: tuple[Verdict, ...]

    @property
    def counts(self) -> Counter[VerdictName]:
        return Counter(one.verdict for one in self.verdicts)

    def of(self, claim_id: str) -> Verdict | None:
        return next((one for one in self.verdicts if one.claim_id == claim_id), None)


def judge(claims: Sequence[Claim], store: Store | None = None) -> list[Verdict]:
    """A verdict for each claim, in their order. Figures that a check compares with may be of any claim there is."""
    every = {claim.id: claim for claim in (*load_claims(), *claims)}

    def ask(found: Sequence[tuple[Kind, Sequence[Entry]]]) -> list[Verdict]:
        few = [(kind, [one for one in entries if _is_met(kind, one)]) for kind, entries in found]
        with connect(few) as connection:
            basis = Basis(every, lambda query: connection.sql(query).to_arrow_table().to_pylist())
            return [_verdict(claim, basis) for claim in claims]

    return (store or Store.open()).reading(ask)


def judge_all(store: Store | None = None) -> Judgement:
    """All claims now."""
    asked = store or Store.open()
    verdicts = judge(load_claims(), asked)
    now = datetime.now(UTC).replace(microsecond=0)
    return Judgement(now, git_commit(), versions(), *_sums(asked), tuple(verdicts))


def save(judgement: Judgement, path: Path = FILE) -> None:
    """Write it as JSON, a verdict in a few lines, so that changes can be read."""
    document = asdict(judgement) | {"when": judgement.when.isoformat()}
    aside = path.with_suffix(".tmp")
    aside.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    aside.replace(path)


def load(path: Path = FILE) -> Judgement | None:
    """What was saved last; None where nothing was."""
    try:
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        verdicts = tuple(_sound(Verdict(**one)) for one in document.pop("verdicts"))
        when = datetime.fromisoformat(document.pop("when")).astimezone(UTC)
        return Judgement(when=when, verdicts=verdicts, **document)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise FileFormatError(f"{shown(path, 200)} holds no verdicts: {error}", "Run `make claims`") from error


def _sound(one: Verdict) -> Verdict:
    """Written by hand, a verdict may be anything."""
    texts = (one.claim_id, one.unit, one.reason, one.query, one.source)
    is_figure = one.measured is None or type(one.measured) in (int, float)
    if one.verdict not in VERDICTS or not is_figure or not all(isinstance(text, str) for text in texts):
        raise ValueError(f"{shown(one.claim_id)} has no verdict that can be read")
    return one


def why_outdated(judgement: Judgement, store: Store | None = None) -> str | None:
    """What changed since these verdicts were computed; None where nothing did."""
    now = _sums(store or Store.open())
    then = (judgement.claims_sha256, judgement.code_sha256, judgement.runs_sha256)
    names = ("the claims", "the checks", "the stored runs")
    changed = [name for name, one, other in zip(names, then, now, strict=True) if one != other]
    if judgement.versions != versions():
        changed.append("the versions of what computes")
    return f"{' and '.join(changed)} changed since" if changed else None


def _verdict(claim: Claim, basis: Basis) -> Verdict:
    if claim.check not in CHECKS:
        raise FileFormatError(f"the claim {claim.id} has the unknown check {shown(claim.check)}")
    try:
        return _told(claim, CHECKS[claim.check](claim, basis))
    except (KeyError, TypeError) as error:
        raise FileFormatError(f"the check {claim.check} of the claim {claim.id} lacks {error}") from error


def _told(claim: Claim, found: Finding) -> Verdict:
    says_why = claim.note and found.verdict != "not testable here"
    reason = f"{found.reason} {claim.note.strip().format_map(found.words)}" if says_why else found.reason
    measured = None if found.measured is None or not math.isfinite(found.measured) else round(found.measured, 6)
    return Verdict(claim.id, found.verdict, measured, found.unit or claim.unit, reason, found.query, found.source)


def _sums(store: Store) -> tuple[str, str, str]:
    """Checksums of the claims, of the code that judges them, and of the runs that a check may ask."""
    asked = [one for kind in (RUN, TRACE) for one in store.found(kind).entries if _is_met(kind, one)]
    runs = [f"{one.id} {json.dumps(one.row, sort_keys=True, default=str)}".encode() for one in asked]
    code = sorted(path for pattern in CODE for path in Path(__file__).parent.glob(pattern))
    return (
        _sum(path.read_bytes() for path in files_of()),
        _sum(path.read_bytes() for path in code),
        _sum(runs),
    )


def _is_met(kind: Kind, entry: Entry) -> bool:
    """Whether a claim's query may ask this entry."""
    asks = {RUN.folder: is_asked, TRACE.folder: is_trace_asked}.get(kind.folder)
    return asks is None or asks(entry.row)


def _sum(parts: Iterable[bytes]) -> str:
    return hashlib.sha256(b"\0".join(parts)).hexdigest()
