"""Coverage of a store's measured runs against ETKDG references, evaluated and laid next to them as ``rmsd.arrays``:

python -m tools.demo_coverage --into data/demo
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from engine.comparing.array_files import Arrays, packed_bytes, read_arrays
from engine.comparing.evaluation import EvaluationRequest, evaluate_run, jobs_of
from engine.comparing.file_jobs import FileJob, run_job
from engine.comparing.measures import has_samples
from engine.comparing.rmsd_matrices import FILE
from engine.store.entries import Entry
from engine.store.store import Store
from tools.reported import publish_into


def packed_matrices(jobs: Iterable[FileJob]) -> bytes:
    """Such a file, of finished jobs; each matrix once."""
    by_key = {job.key: run_job(job) for job in jobs}
    matrices = [read_arrays(done.path)[1]["rmsd"] for done in by_key.values()]
    arrays: Arrays = {
        "keys": np.frombuffer(b"".join(map(bytes.fromhex, by_key)), np.uint8).reshape(-1, 32),
        "complete": np.array([done.meta["complete"] for done in by_key.values()], np.uint8),
        "shapes": np.array([matrix.shape for matrix in matrices], np.int32).reshape(-1, 2),
        "rmsd": np.concatenate([np.empty(0), *map(np.ravel, matrices)]),
    }
    return packed_bytes({}, arrays)


def publish_coverage(store: Store) -> list[Entry]:
    """The evaluated runs, by what a page asks for first."""
    request = EvaluationRequest()
    runs = [entry for entry in store.listing().entries if has_samples(entry)]
    for entry in runs:
        evaluate_run(store, entry.id, request)
    jobs = [job for entry in runs for job in jobs_of(store, entry, request, [])]
    store.home.write(FILE, packed_matrices(jobs))
    return runs


def main(arguments: Sequence[str] | None = None) -> int:
    return publish_into("tools.demo_coverage", __doc__ or "", publish_coverage, "runs evaluated", arguments)


if __name__ == "__main__":
    raise SystemExit(main())
