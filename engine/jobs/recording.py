"""A trace of what is generated, recorded next to it and read into the store."""

from __future__ import annotations

import gzip
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from engine.decode.steps import StepObserver
from engine.inspection.trace_steps import aligned_in_run, repeats, step_rows
from engine.profile.capture import Capture
from engine.profile.ingest import add_trace
from engine.store.store import Store
from engine.text.align import Alignment
from engine.user_files import writing


@contextmanager
def traced(
    store: Store,
    about: dict[str, Any],
    align: Callable[[Collection[int]], Mapping[int, Alignment]],
    note: Callable[[str], None],
    *,
    keep_file: bool = True,
    output: Path | None = None,
    **window: Any,
) -> Iterator[StepObserver]:
    """Records in the ``window`` of a `Capture`; yields what a generation's events pass through. ``about``: columns of
    the trace, such as its run, to which it is linked if that is in the store by then and has the same tokens;
    ``align`` gives samples without a run by their ids."""
    with tempfile.TemporaryDirectory(prefix="driftscope-profile-") as folder:
        path = Path(folder) / "trace.json.gz"
        with Capture(path, **window) as capture:
            yield capture.watch
        captured, tokens = capture.captured, capture.written
        if captured is None:
            note(f"no trace: there were at most {capture.skip:,} forward passes")
            return
        samples, run = {token.sample_id for token in tokens}, about["run_id"]
        run_id = store.entry(run).id if run else ""
        if run_id and not repeats(store, run_id, tokens):
            note(f"not linked to {run_id}: its samples have other tokens")
            run_id = ""
        written = step_rows(tokens, aligned_in_run(store, run_id, samples) if run_id else align(samples))
        columns = captured | about | {"run_id": run_id}
        entry = add_trace(store, path, columns, written, capture.passes, keep_file=keep_file)
        note(f"trace {entry.id}: {columns['forward_passes']:,} forward passes, {columns['tokens']:,} tokens")
        if output:
            opened = Path.open if output.suffix == ".gz" else gzip.open
            with opened(path, "rb") as packed, writing(output) as file:
                shutil.copyfileobj(packed, file)
