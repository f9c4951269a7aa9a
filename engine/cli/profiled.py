"""``--profile`` of ``run`` and ``generate``: the window, the trace, and where both end up."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.cli.output import path_of
from engine.errors import RunError, shown

if TYPE_CHECKING:
    from engine.decode.steps import Watch
    from engine.profile.capture import Capture, Captured
    from engine.store.store import Store
    from engine.text.align import Alignment

Align = Callable[[Collection[int]], "Mapping[int, Alignment]"]
"""Samples by their ids, as far as they are finished, token by token."""

DEFAULT_STEPS, MOST_STEPS = 64, 10_000
FILE = "trace.json.gz"


def add_profile_options(parser: argparse.ArgumentParser, command: str) -> None:
    from engine.cli.generate import count  # which imports this module

    parser.set_defaults(profiled=command)
    group = parser.add_argument_group("a trace of torch's profiler")
    group.add_argument("--profile", action="store_true", help="record one; it is kept in the store (see `trace list`)")
    group.add_argument(
        "--profile-output", metavar="FILE", help="also write it there, as Chrome's JSON; .gz by its name"
    )
    group.add_argument("--profile-sums", action="store_true", help="keep what is read out of it, and not its file")
    group.add_argument(
        "--profile-steps",
        type=count("forward passes", MOST_STEPS),
        default=DEFAULT_STEPS,
        metavar="N",
        help=f"forward passes that it covers ({DEFAULT_STEPS}); with --backend hf it goes on to the end of a batch",
    )
    group.add_argument(
        "--profile-skip",
        type=count("forward passes", MOST_STEPS),
        default=0,
        metavar="N",
        help="forward passes before it begins; without it, it begins with the templates",
    )


def add_profile_store(parser: argparse.ArgumentParser) -> None:
    """Of a command that has no store of its own."""
    from engine.cli.run import add_store_option  # which imports this module

    group = parser.add_argument_group("the store")
    add_store_option(group)
    group.add_argument(
        "--profile-run", metavar="RUN", help="a run of that store whose samples this writes again: linked to it"
    )


def check_profile(args: argparse.Namespace, *, elsewhere: bool, parts: int = 1) -> None:
    for name in ("profile_output", "profile_sums", "profile_run"):
        if getattr(args, name, None) and not args.profile:
            raise RunError(f"--{name.replace('_', '-')} belongs to --profile", "Give both")
    # What follows is asked before hours of work.
    if args.profile_output and not path_of(args.profile_output).absolute().parent.is_dir():
        folder = path_of(args.profile_output).absolute().parent
        raise RunError(f"{shown(folder, 200)} is no folder to write a trace into", "Make it, or choose another place")
    if getattr(args, "profile_run", None):
        from engine.store.store import Store

        Store.open(args.store).entry(args.profile_run)
    if args.profile and elsewhere:
        raise RunError("a run that other processes write is not profiled", "Leave --profile out, or run it here")
    if args.profile_output and parts > 1:
        raise RunError(f"--profile-output is one file, and these are {parts} runs", "Leave it out")


@contextmanager
def profiling(
    args: argparse.Namespace, *, backend: str, label: str, run_id: str = "", align: Align = lambda _: {}
) -> Iterator[Watch | None]:
    """What the events of a generation go through, recording for as long as this lasts; None without --profile.

    The trace is then read into the store, where the run has to be by then. ``align`` tells of samples without a run.
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


def _keep(args: argparse.Namespace, capture: Capture, align: Align, **told: Any) -> None:
    """The trace, and its file beside it."""
    from engine.profile.ingest import add_trace
    from engine.store.store import Store

    captured = capture.captured
    if captured is None:
        sys.stderr.write(f"no trace: there were no more than {args.profile_skip:,} forward passes\n")
        return
    store = Store.open(args.store)
    told["run_id"] = told["run_id"] or _repeated(args, store, captured)
    told["written"] = _written(store, captured, align, told["run_id"])
    entry = add_trace(store, captured.path, captured.told(**told), keep_file=not args.profile_sums)
    passes = f"{captured.forward_passes:,} forward passes, {captured.tokens:,} tokens"
    sys.stderr.write(f"trace {entry.id}: {passes}\n")
    if args.profile_output:
        _copy(captured.path, path_of(args.profile_output))


def _repeated(args: argparse.Namespace, store: Store, captured: Captured) -> str:
    """The run that --profile-run names, where what was written now is what it has."""
    from engine.profile.steps import repeats

    named = getattr(args, "profile_run", None)
    if not named:
        return ""
    run_id = store.entry(named).id
    if repeats(store, run_id, captured.written):
        return run_id
    sys.stderr.write(f"not linked to {run_id}: its samples have other tokens\n")
    return ""


def _written(store: Store, captured: Captured, align: Align, run_id: str) -> list[dict[str, Any]]:
    """What each step wrote, and of which of it is known whether it is junk."""
    from engine.profile.steps import aligned_in_run, step_rows

    samples = {one.sample_id for one in captured.written}
    return step_rows(captured.written, aligned_in_run(store, run_id, samples) if run_id else align(samples))


def _copy(path: Path, target: Path) -> None:
    import gzip

    try:
        if target.suffix == ".gz":
            shutil.copyfile(path, target)
            return
        with gzip.open(path, "rb") as source, target.open("wb") as plain:
            shutil.copyfileobj(source, plain)
    except OSError as error:
        raise RunError(f"{shown(target, 200)} cannot be written: {error.strerror}", "Choose another place") from error
