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
from engine.evidence.checks import CHECKS, VERDICTS, Basis, VerdictName, is_asked
from engine.evidence.claims import FOLDER, Claim, files_of, load_claims
from engine.evidence.lost_third.documents import figures, load_all
from engine.store.entries import Entry
from engine.store.files import LocalFiles, json_bytes
from engine.store.provenance import git_commit, versions
from engine.store.schema import RUN, Kind
from engine.store.store import DEMO, Store
from engine.store.trace_schema import TRACE
from engine.store.views import connect

FILE = FOLDER / "verdicts.json"
SHIPPED = LocalFiles(DEMO)
CODE = ("arithmetic.py", "checks.py", "claims.py", "formula.py", "tokenisation.py")
"""The files below this package that decide verdicts."""

FLAT = (
    *"claim_id report section also statement subject reported unit least value most".split(),
    *"verdict measured source reason check query highlight".split(),
)
"""The columns of a table of claims, in order."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """``measured`` is in the claim's unit, None where there is no figure. ``query`` runs as it is where it is SQL."""

    claim_id: str
    verdict: VerdictName
    measured: float | None
    unit: str
    reason: str
    query: str
    source: str


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
        return Counter(verdict.verdict for verdict in self.verdicts)

    def of(self, claim_id: str) -> Verdict | None:
        return next((verdict for verdict in self.verdicts if verdict.claim_id == claim_id), None)


def judge(claims: Sequence[Claim], store: Store) -> list[Verdict]:
    """A verdict for each claim, in their order. Figures that a check compares with may be of any claim there is."""
    every = {claim.id: claim for claim in (*load_claims(), *claims)}
    experiment = figures(load_all([SHIPPED]))

    def answer(snapshot: Sequence[tuple[Kind, Sequence[Entry]]]) -> list[Verdict]:
        few = [(kind, [entry for entry in entries if _is_met(kind, entry)]) for kind, entries in snapshot]
        with connect(few) as connection:
            basis = Basis(every, lambda query: connection.sql(query).to_arrow_table().to_pylist(), experiment)
            return [_judged(claim, basis) for claim in claims]

    return store.reading(answer)


def judge_all(store: Store) -> Judgement:
    verdicts = judge(load_claims(), store)
    now = datetime.now(UTC).replace(microsecond=0)
    return Judgement(now, git_commit(), versions(), *_sums(store), tuple(verdicts))


def save(judgement: Judgement, path: Path = FILE) -> None:
    """Write it as JSON, a verdict in a line, so that changes can be read."""
    document = asdict(judgement) | {"when": judgement.when.isoformat()}
    lines = ",\n".join(json.dumps(verdict, ensure_ascii=False) for verdict in document.pop("verdicts"))
    head = json.dumps(document, indent=1, ensure_ascii=False).removesuffix("\n}")
    aside = path.with_suffix(".tmp")
    aside.write_text(f'{head},\n "verdicts": [\n{lines}\n]}}\n', encoding="utf-8")
    aside.replace(path)


def load(path: Path = FILE) -> Judgement | None:
    """What was saved last; None where nothing was."""
    try:
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        verdicts = tuple(_sound(Verdict(**stored)) for stored in document.pop("verdicts"))
        when = datetime.fromisoformat(document.pop("when")).astimezone(UTC)
        return Judgement(when=when, verdicts=verdicts, **document)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise FileFormatError(f"{shown(path, 200)} holds no verdicts: {error}", "Run `make claims`") from error


def _sound(verdict: Verdict) -> Verdict:
    """Check the types: the file may have been edited by hand."""
    texts = (verdict.claim_id, verdict.unit, verdict.reason, verdict.query, verdict.source)
    is_figure = verdict.measured is None or type(verdict.measured) in (int, float)
    if verdict.verdict not in VERDICTS or not is_figure or not all(isinstance(text, str) for text in texts):
        raise ValueError(f"{shown(verdict.claim_id)} has no verdict that can be read")
    return verdict


def why_outdated(judgement: Judgement, store: Store) -> str | None:
    """What changed since these verdicts were computed; None where nothing did."""
    now = _sums(store)
    then = (judgement.claims_sha256, judgement.code_sha256, judgement.runs_sha256)
    names = ("the claims", "the checks", "the stored runs")
    changed = [name for name, before, after in zip(names, then, now, strict=True) if before != after]
    if judgement.versions != versions():
        changed.append("the versions of what computes")
    return f"{' and '.join(changed)} changed since" if changed else None


def _judged(claim: Claim, basis: Basis) -> Verdict:
    if claim.check not in CHECKS:
        raise FileFormatError(f"the claim {claim.id} has the unknown check {shown(claim.check)}")
    try:
        finding = CHECKS[claim.check](claim, basis)
        reason = finding.reason
        if claim.note and finding.verdict != "not testable here":
            reason += f" {claim.note.strip().format_map(finding.words or {})}"
    except (KeyError, TypeError) as error:
        raise FileFormatError(f"the check {claim.check} of the claim {claim.id} lacks {error}") from error
    measured = finding.measured
    if measured is not None:
        measured = round(measured, 6) if math.isfinite(measured) else None
    unit = finding.unit or claim.unit
    return Verdict(claim.id, finding.verdict, measured, unit, reason, finding.query, finding.source)


def _sums(store: Store) -> tuple[str, str, str]:
    """Checksums of the claims, of the code that judges them, and of the runs that a check may ask."""
    entries = [entry for kind in (RUN, TRACE) for entry in store.found(kind).entries if _is_met(kind, entry)]
    runs = [f"{entry.id} {json.dumps(entry.row, sort_keys=True, default=str)}".encode() for entry in entries]
    runs += [json_bytes(document) for document in load_all([SHIPPED])]
    code = sorted(path for pattern in CODE for path in Path(__file__).parent.glob(pattern))
    return (
        _sum(path.read_bytes() for path in files_of()),
        _sum(path.read_bytes() for path in code),
        _sum(runs),
    )


def _is_met(kind: Kind, entry: Entry) -> bool:
    """Whether a claim's query may ask this entry."""
    return kind.folder not in (RUN.folder, TRACE.folder) or is_asked(entry.row)


def _sum(parts: Iterable[bytes]) -> str:
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


# --- a claim with its verdict as one flat document --------------------------------------------------------------------


def document(claim: Claim, verdict: Verdict | None) -> dict[str, Any]:
    """All that is known of a claim; the keys of a verdict are None where it was not judged."""
    names = "report section also statement subject reported value values least most highlight check arguments".split()
    facts = {name: getattr(claim, name) for name in names}
    facts |= {"also": list(claim.also), "values": list(claim.values), "arguments": dict(claim.arguments)}
    unjudged = dict.fromkeys(("verdict", "measured", "reason", "query", "source"))
    return facts | {"claim_id": claim.id, "unit": claim.unit} | (unjudged if verdict is None else asdict(verdict))


def flat(claim: Claim, verdict: Verdict | None) -> list[Any]:
    """The document as a row of ``FLAT``."""
    cells = document(claim, verdict) | {"also": "; ".join(claim.also)}
    return [cells[name] for name in FLAT]
