"""Coverage of a store's measured runs against ETKDG references, evaluated and laid beside them as ``rmsd.arrays``:

python -m tools.demo_coverage --into data/demo
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from engine.comparing.evaluation import EvaluationRequest, evaluate_run, jobs_of
from engine.comparing.measures import has_samples
from engine.comparing.rmsd_matrices import FILE, packed_matrices
from engine.store.entries import Entry
from engine.store.store import Store
from tools.reported import publish_into


def publish_coverage(store: Store) -> list[Entry]:
    """The evaluated runs, by what a page asks for first."""
    request = EvaluationRequest()
    runs = [entry for entry in store.found().entries if has_samples(entry)]
    for entry in runs:
        evaluate_run(store, entry.id, request)
    jobs = [job for entry in runs for job in jobs_of(store, entry, request, [])]
    store.home.write(FILE, packed_matrices(jobs))
    return runs


def main(arguments: Sequence[str] | None = None) -> int:
    return publish_into("tools.demo_coverage", __doc__ or "", publish_coverage, "runs evaluated", arguments)


if __name__ == "__main__":
    sys.exit(main())
