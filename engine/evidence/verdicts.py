"""Verdicts on the reports' claims: each computed by the claim's own check, never typed in.

``make claims`` saves them in ``data/claims/verdicts.json``, which the page shows; a test judges all claims again. A
check that lacks what it needs says so in its verdict; one that cannot be computed at all is an error in the claim.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from engine.errors import FileError, shown
from engine.evidence.checks import CHECKS, Rows
from engine.evidence.claims import FOLDER, Claim, load_claims
from engine.evidence.lost_third import figures, load_usable
from engine.records import VerdictName
from engine.store.columns import Kind
from engine.store.entries import Entry
from engine.store.files import Files
from engine.store.provenance import git_commit
from engine.store.store import DEMO, Store
from engine.store.views import connect

FILE = FOLDER / "verdicts.json"
FIGURE = """
SET VARIABLE known = (SELECT map(list(id), list(value)) FROM figures);
CREATE TEMP MACRO figure(name) AS getvariable('known')[name]"""


class Verdict(msgspec.Struct, frozen=True):
    """``measured`` is in ``unit``, None where there is none. ``query`` runs as it is where ``source`` is ``store``."""

    claim_id: str
    verdict: VerdictName
    measured: float | None
    unit: str
    reason: str
    query: str
    source: str
    low: float | None = None  # the 95 % interval over molecules, where the figure is of molecules
    high: float | None = None


class Judgement(msgspec.Struct, frozen=True):
    when: datetime
    git_commit: str | None
    verdicts: tuple[Verdict, ...]

    @property
    def counts(self) -> Counter[VerdictName]:
        return Counter(verdict.verdict for verdict in self.verdicts)


def judge(claims: Sequence[Claim], store: Store) -> list[Verdict]:
    """A verdict for each claim, in their order. SQL has the store's tables, and the table ``figures`` of the claims'
    own figures and those of the experiment `lost-third` that ships."""
    by_id = {claim.id: claim.value for claim in load_claims()}
    for document in load_usable([Files(DEMO)])[0]:
        by_id |= dict(figures(document, document["model"]))

    def answer(snapshot: Sequence[tuple[Kind, Sequence[Entry]]]) -> list[Verdict]:
        with connect(snapshot) as connection:
            connection.register("figures", pa.table({"id": list(by_id), "value": list(by_id.values())}))
            connection.execute(FIGURE)
            return [judged(claim, lambda sql: connection.sql(sql).to_arrow_table().to_pylist()) for claim in claims]

    return store.reading(answer)


def judged(claim: Claim, rows: Rows) -> Verdict:
    by = claim.check["by"]
    try:
        finding = CHECKS[by](claim, rows)
        reason = finding.reason
        if claim.note and finding.verdict != "not testable here":
            reason += f" {claim.note.strip().format_map(finding.words)}"
    except (KeyError, TypeError, ValueError) as error:
        raise FileError(f"the check {by} of the claim {claim.id} lacks {error}") from error
    low, high = (finding.interval and finding.interval.ends) or (None, None)
    measured, unit = stored(finding.measured), claim.check.get("unit", claim.unit)
    ends = stored(low), stored(high)
    return Verdict(claim.id, finding.verdict, measured, unit, reason, finding.query, finding.source, *ends)


def stored(figure: float | None) -> float | None:
    return None if figure is None or not math.isfinite(figure) else round(figure, 6)


def judge_all(store: Store) -> Judgement:
    verdicts = judge(load_claims(), store)
    return Judgement(datetime.now(UTC).replace(microsecond=0), git_commit(), tuple(verdicts))


def save(judgement: Judgement, path: Path = FILE) -> None:
    """As JSON, a verdict in a line, so that changes can be read."""
    document = msgspec.to_builtins(judgement)
    lines = ",\n".join(json.dumps(verdict, ensure_ascii=False) for verdict in document.pop("verdicts"))
    head = json.dumps(document, indent=1, ensure_ascii=False).removesuffix("\n}")
    Files(path.parent).write(path.name, f'{head},\n "verdicts": [\n{lines}\n]}}\n'.encode())


def load(path: Path = FILE) -> Judgement:
    """What was saved last."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Judgement)
    except (OSError, ValueError) as error:
        raise FileError(f"{shown(path, 200)} holds no verdicts: {error}", "Run `make claims`") from error


def document(claim: Claim, verdict: Verdict) -> dict[str, Any]:
    """All that is known of a claim."""
    (least, most), arguments = claim.ends, dict(claim.check)
    stated = [float(claim.figure)] if claim.reported else []
    return {
        **msgspec.to_builtins(claim),
        "value": claim.value,
        "values": list(dict.fromkeys([*stated, *claim.values])),
        "least": least,
        "most": most,
        "check": arguments.pop("by"),
        "arguments": arguments,
        **msgspec.to_builtins(verdict),
    }
