"""``--profile`` of ``run`` and ``generate``: the window, the trace, and where both end up."""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.cli.options import add_store_option, open_store, whole
from engine.cli.output import note, path_of
from engine.errors import RunError, shown
from engine.folders import exporting

if TYPE_CHECKING:
    from engine.decode.steps import StepObserver
    from engine.profile.capture import Capture
    from engine.text.align import Alignment

Align = Callable[[Collection[int]], "Mapping[int, Alignment]"]
"""Samples by their ids, as far as they are finished, token by token."""

DEFAULT_STEPS, MOST_STEPS = 64, 10_000
FILE = "trace.json.gz"


def add_profile_options(parser: argparse.ArgumentParser, command: str) -> None:
    parser.set_defaults(profiled=command)
    group = parser.add_argument_group("profiler trace")
    group.add_argument(
        "--profile", action="store_true", help="record a trace of torch's profiler into the store (see `trace list`)"
    )
    group.add_argument("--profile-output", metavar="FILE", help="also write it to FILE, as Chrome's JSON, plain or .gz")
    group.add_argument("--profile-sums", action="store_true", help="keep the figures only, not the trace's file")
    group.add_argument(
        "--profile-steps",
        type=whole(MOST_STEPS),
        default=DEFAULT_STEPS,
        metavar="N",
        help=f"forward passes to record ({DEFAULT_STEPS}); with --backend hf, up to the end of a batch",
    )
    group.add_argument(
        "--profile-skip",
        type=whole(MOST_STEPS),
        default=0,
        metavar="N",
        help="forward passes to skip first (default: record the templates too)",
    )


def add_profile_store(parser: argparse.ArgumentParser) -> None:
    """For a command that has no store of its own."""
    group = parser.add_argument_group("store")
    add_store_option(group)
    group.add_argument("--profile-run", metavar="RUN", help="link the trace to this run, if it has the same tokens")


def check_profile(args: argparse.Namespace, *, elsewhere: bool, parts: int = 1) -> None:
    for name in ("profile_output", "profile_sums", "profile_run"):
        if getattr(args, name, None) and not args.profile:
            raise RunError(f"--{name.replace('_', '-')} belongs to --profile", "Give both")
    # Checked before hours of work.
    if args.profile_output and not path_of(args.profile_output).absolute().parent.is_dir():
        folder = path_of(args.profile_output).absolute().parent
        raise RunError(f"there is no folder {shown(folder, 200)} for the trace", "Create it, or choose another place")
    if getattr(args, "profile_run", None):
        open_store(args).entry(args.profile_run)
    if args.profile and elsewhere:
        raise RunError("--profile works in this process only", "Leave it out, or run without --submit and --engine ray")
    if args.profile_output and parts > 1:
        raise RunError(f"--profile-output is one file, but there are {parts} runs", "Leave it out")


@contextmanager
def profiling(
    args: argparse.Namespace, *, backend: str, label: str, run_id: str = "", align: Align = lambda _: {}
) -> Iterator[StepObserver | None]:
    """Records while this lasts; yields what a generation's events pass through, or None without --profile.

    The trace is then read into the store, where the run has to be by then. ``align`` is for samples without a run.
    """
    if not args.profile:
        yield None
        return
    from engine.profile.capture import Capture

    with tempfile.TemporaryDirectory(prefix="driftscope-profile-") as folder:
        path = Path(folder) / FILE
        capture = Capture(path, steps=args.profile_steps, skip=args.profile_skip, runs_ahead=backend == "hf")
        with capture:
            yield capture.watch
        _keep(args, capture, align, label=label, run_id=run_id, source=f"{args.profiled} --profile")


def _keep(args: argparse.Namespace, capture: Capture, align: Align, *, run_id: str, **about: Any) -> None:
    """Adds the trace to the store, with what each step wrote, and copies its file to --profile-output."""
    from engine.profile.ingest import add_trace
    from engine.profile.steps import aligned_in_run, repeats, step_rows

    captured = capture.captured
    if captured is None:
        note(f"no trace: there were at most {args.profile_skip:,} forward passes")
        return
    store = open_store(args)
    if not run_id and getattr(args, "profile_run", None):
        named = store.entry(args.profile_run).id
        if repeats(store, named, captured.written):
            run_id = named
        else:
            note(f"not linked to {named}: its samples have other tokens")
    samples = {token.sample_id for token in captured.written}
    written = step_rows(captured.written, aligned_in_run(store, run_id, samples) if run_id else align(samples))
    metadata = replace(captured.metadata, run_id=run_id, written=written, **about)
    entry = add_trace(store, captured.path, metadata, keep_file=not args.profile_sums)
    note(f"trace {entry.id}: {metadata.forward_passes:,} forward passes, {metadata.tokens:,} tokens")
    if args.profile_output:
        _copy(captured.path, path_of(args.profile_output))


def _copy(path: Path, target: Path) -> None:
    import gzip

    try:
        with path.open("rb") if target.suffix == ".gz" else gzip.open(path) as source, exporting(target) as file:
            shutil.copyfileobj(source, file)
    except OSError as error:
        raise RunError(f"{shown(target, 200)} cannot be written: {error.strerror}", "Choose another place") from error
