"""Where failures go: how many samples of each run have which issue, and how long those that passed and failed are.

A sample with two issues counts in both, so the counts of a run may add up to more than its failed samples; both totals
are said. Issues stand in the reports' words. An answer at its limit stopped because it was not let go on: whether it
would have ended well is not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.chem.verdict import check_words
from engine.store.store import Store

BINS = 24
AT_LIMIT = "length"
MOLECULE = "molecule: "
"""Begins a reason that a verdict on the molecule names; the others are the text's, in the reports' words."""

# A set of names, so that a sample counts once in a reason that is named twice.
_FAILED = f"""
WITH named AS (
    SELECT run_id, list_distinct(list_concat(coalesce(issues, []), list_transform(coalesce(failed, []),
               lambda found: '{MOLECULE}' || found['check']))) AS reasons,
           NOT passed OR len(reasons) > 0 AS has_failed
    FROM samples WHERE list_contains($runs, run_id)
)
"""
_REASONS = f"""
{_FAILED}
SELECT run_id, issue, count(*) AS samples
FROM (SELECT run_id, unnest(reasons) AS issue FROM named) GROUP BY ALL ORDER BY ALL
"""
_TOTALS = f"""
{_FAILED}
SELECT run_id, count(*) AS samples, count_if(has_failed)::BIGINT AS failed,
       count_if(len(reasons) > 1)::BIGINT AS several, count_if(has_failed AND len(reasons) = 0)::BIGINT AS unnamed,
       coalesce(sum(len(reasons)), 0)::BIGINT AS issues
FROM named GROUP BY ALL
"""
_LENGTHS = """
SELECT run_id, passed, tokens, stop_reason = $limit AS at_limit FROM samples WHERE list_contains($runs, run_id)
"""


@dataclass(frozen=True, slots=True)
class Reason:
    """One issue; ``samples`` are counts by run, in the order of the runs."""

    issue: str
    samples: tuple[int, ...]

    @property
    def total(self) -> int:
        return sum(self.samples)


@dataclass(frozen=True, slots=True)
class RunFailures:
    run_id: str
    samples: int
    failed: int
    issues: int  # added up over its samples: more than ``failed`` where samples have several
    several: int  # samples with more than one
    unnamed: int  # failed without an issue


@dataclass(frozen=True, slots=True)
class Failures:
    """Reasons, the most frequent first, over runs in the order asked for; runs without samples are ``missing``."""

    runs: tuple[RunFailures, ...]
    reasons: tuple[Reason, ...]
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """The samples of one run that passed, or those that failed."""

    run_id: str
    passed: bool
    samples: int
    unknown: int  # samples whose tokens are not known
    counts: tuple[int, ...]  # one a bin
    mean: float | None
    median: float | None
    stops_known: int  # samples of which it is known why they stopped
    at_limit: int

    @property
    def limit_share(self) -> float | None:
        """Of those whose end is known."""
        return self.at_limit / self.stops_known if self.stops_known else None


@dataclass(frozen=True, slots=True)
class TokenHistogram:
    """``edges`` are shared by all: bin i holds edges[i] <= tokens < edges[i + 1]. Empty where no tokens are known."""

    edges: tuple[int, ...]
    groups: tuple[TokenCounts, ...]


def failures(store: Store, run_ids: Sequence[str]) -> Failures:
    """Reason by run. Ids are whole."""
    wanted = {"runs": list(dict.fromkeys(run_ids))}
    totals = {row["run_id"]: row for row in store.table(_TOTALS, wanted, of=run_ids).to_pylist()}
    runs = [run_id for run_id in wanted["runs"] if run_id in totals]
    found: dict[str, dict[str, int]] = {}
    for row in store.table(_REASONS, wanted, of=runs).to_pylist():
        issue = row["issue"]
        if issue.startswith(MOLECULE):
            issue = MOLECULE + check_words(issue.removeprefix(MOLECULE))
        found.setdefault(issue, {})[row["run_id"]] = row["samples"]
    reasons = [Reason(issue, tuple(counts.get(run_id, 0) for run_id in runs)) for issue, counts in found.items()]
    return Failures(
        tuple(RunFailures(**totals[run_id]) for run_id in runs),
        tuple(sorted(reasons, key=lambda reason: (-reason.total, reason.issue))),
        tuple(run_id for run_id in wanted["runs"] if run_id not in totals),
    )


def token_histogram(store: Store, run_ids: Sequence[str], bins: int = BINS) -> TokenHistogram:
    """Tokens of passed and of failed samples, run by run; a group without samples is left out."""
    if bins < 1:
        raise ValueError(f"bins must be at least 1, got {bins}")
    asked = list(dict.fromkeys(run_ids))
    table = store.table(_LENGTHS, {"runs": asked, "limit": AT_LIMIT}, of=asked)
    tokens = table["tokens"].cast(pa.float64()).to_numpy()
    edges = _edges(tokens[np.isfinite(tokens)], bins)
    run = np.array(table["run_id"].to_pylist(), dtype=object)
    passed = table["passed"].to_numpy()
    limits = table["at_limit"].cast(pa.float64()).to_numpy()
    groups = []
    for run_id in asked:
        for does_pass in (True, False):
            chosen = (run == run_id) & (passed == does_pass)
            if chosen.any():
                groups.append(_counts(run_id, does_pass, tokens[chosen], limits[chosen], edges))
    return TokenHistogram(tuple(edges), tuple(groups))


def _edges(tokens: NDArray[np.float64], bins: int) -> list[int]:
    """Whole numbers, all steps alike, the last edge beyond the longest answer."""
    if not len(tokens):
        return []
    least, most = int(tokens.min()), int(tokens.max())
    step = -(-(most - least + 1) // bins)
    return list(range(least, most + step + 1, step))


def _counts(
    run_id: str, passed: bool, tokens: NDArray[np.float64], limits: NDArray[np.float64], edges: list[int]
) -> TokenCounts:
    known = tokens[np.isfinite(tokens)]
    return TokenCounts(
        run_id=run_id,
        passed=passed,
        samples=len(tokens),
        unknown=len(tokens) - len(known),
        counts=tuple(int(count) for count in np.histogram(known, edges)[0]) if edges else (),
        mean=float(known.mean()) if len(known) else None,
        median=float(np.median(known)) if len(known) else None,
        stops_known=int(np.isfinite(limits).sum()),
        at_limit=int((limits == 1).sum()),
    )
