"""``--profile`` of ``run`` and ``generate``: the window, the trace, and where both end up."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.cli.output import path_of
from engine.errors import RunError, shown

if TYPE_CHECKING:
    from engine.decode.steps import Watch
    from engine.profile.capture import Capture

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
    group.add_argument(
        "--profile-steps",
        type=count("forward passes", MOST_STEPS),
        default=DEFAULT_STEPS,
        metavar="N",
        help=f"forward passes that it covers ({DEFAULT_STEPS})",
    )
    group.add_argument(
        "--profile-skip",
        type=count("forward passes", MOST_STEPS),
        default=0,
        metavar="N",
        help="forward passes before it begins; without it, it begins with the templates",
    )


def check_profile(args: argparse.Namespace, *, elsewhere: bool, parts: int = 1) -> None:
    if args.profile_output and not args.profile:
        raise RunError("--profile-output belongs to --profile", "Give both")
    if args.profile and elsewhere:
        raise RunError("a run that other processes write is not profiled", "Leave --profile out, or run it here")
    if args.profile_output and parts > 1:
        raise RunError(f"--profile-output is one file, and these are {parts} runs", "Leave it out")


@contextmanager
def profiling(args: argparse.Namespace, *, backend: str, label: str, run_id: str = "") -> Iterator[Watch | None]:
    """What the events of a generation go through, recording for as long as this lasts; None without --profile.

    The trace is then read into the store, where the run has to be by then.
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
        _keep(args, capture, label=label, run_id=run_id, source=f"{args.profiled} --profile")


def _keep(args: argparse.Namespace, capture: Capture, **told: Any) -> None:
    """The trace, and its file beside it."""
    from engine.profile.ingest import add_trace
    from engine.store.store import Store

    captured = capture.captured
    if captured is None:
        sys.stderr.write(f"no trace: there were no more than {args.profile_skip:,} forward passes\n")
        return
    if args.profile_output:
        _copy(captured.path, path_of(args.profile_output))
    entry = add_trace(Store.open(getattr(args, "store", None)), captured.path, captured.told(**told), keep_file=True)
    passes = f"{captured.forward_passes:,} forward passes, {captured.tokens:,} tokens"
    sys.stderr.write(f"trace {entry.id}: {passes}\n")


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
