"""``--profile`` and ``--log-logits`` of ``generate`` and ``run``: what they record, and where it ends up."""

from __future__ import annotations

import gzip
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from engine.cli.terminal import Io, Say, note, only_with, option, path_of, whole
from engine.errors import RunError, shown
from engine.folders import exporting

if TYPE_CHECKING:
    from engine.decode.generation import Generation
    from engine.decode.steps import StepObserver
    from engine.logits.recorder import LogFile, Name
    from engine.text.align import Alignment

Align = Callable[[Collection[int]], "Mapping[int, Alignment]"]
"""Samples by their ids, as far as they are finished, token by token."""
LOG_HELP = "log the first N logits per token, or those of token ids (17,24,25 or 17,); slower"
LOG_FILE = "logits.jsonl.gz"


@dataclass(frozen=True, slots=True)
class Profiling:
    profile: bool = option(False, "record a trace of torch's profiler into the store (see `trace list`)")
    profile_output: str | None = option(None, "also write it to FILE, as Chrome's JSON, plain or .gz", metavar="FILE")
    profile_sums: bool = option(False, "keep the figures only, not the trace's file")
    profile_steps: int = option(64, "forward passes; with --backend hf, to the end of a batch", of=whole(10_000))
    profile_skip: int = option(0, "forward passes to skip (default: record the templates)", of=whole(10_000))

    def check(self, io: Io, *, parts: int = 1, run: str | None = None) -> None:
        """Before hours of work."""
        of_trace = {"profile_output": self.profile_output, "profile_sums": self.profile_sums, "profile_run": run}
        only_with("--profile", self.profile, **of_trace)
        if self.profile_output and parts > 1:
            raise RunError(f"--profile-output is one file, but there are {parts} runs", "Leave it out")
        if self.profile_output and not (folder := path_of(self.profile_output).absolute().parent).is_dir():
            raise RunError(f"there is no folder {shown(folder, 200)} for the trace", "Create it")
        if run:
            io.opened().entry(run)

    @contextmanager
    def recording(
        self,
        io: Io,
        backend: str,
        label: str,
        source: str,
        *,
        run_id: str = "",
        like_run: str | None = None,
        align: Align = lambda _: {},
    ) -> Iterator[StepObserver | None]:
        """Records while this lasts; yields what a generation's events pass through, or None without --profile.

        The trace is then read into the store, where the run has to be by then, with what each step wrote. ``like_run``
        is linked to if it has the same tokens; ``align`` is for samples without a run.
        """
        if not self.profile:
            yield None
            return
        from engine.profile.capture import Capture
        from engine.profile.ingest import add_trace
        from engine.profile.steps import aligned_in_run, repeats, step_rows

        with tempfile.TemporaryDirectory(prefix="driftscope-profile-") as folder:
            path, skip = Path(folder) / "trace.json.gz", self.profile_skip
            capture = Capture(path, steps=self.profile_steps, skip=skip, runs_ahead=backend == "hf")
            with capture:
                yield capture.watch
            captured = capture.captured
            if captured is None:
                note(f"no trace: there were at most {skip:,} forward passes")
                return
            store = io.opened()
            if like_run:
                named = store.entry(like_run).id
                run_id = named if repeats(store, named, captured.written) else ""
                if not run_id:
                    note(f"not linked to {named}: its samples have other tokens")
            samples = {token.sample_id for token in captured.written}
            aligned = aligned_in_run(store, run_id, samples) if run_id else align(samples)
            written = step_rows(captured.written, aligned)
            metadata = replace(captured.metadata, run_id=run_id, written=written, label=label, source=source)
            entry = add_trace(store, captured.path, metadata, keep_file=not self.profile_sums)
            note(f"trace {entry.id}: {metadata.forward_passes:,} forward passes, {metadata.tokens:,} tokens")
            if self.profile_output:
                target = path_of(self.profile_output)
                opened = Path.open if target.suffix == ".gz" else gzip.open
                with opened(captured.path, "rb") as packed, exporting(target) as file:
                    shutil.copyfileobj(packed, file)


class Logged(NamedTuple):
    first: int
    ids: tuple[int, ...]


def count_or_ids(text: str) -> Logged:
    """``4`` -> (4, ()); ``17,24`` or ``17,`` -> (0, ids)."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts or not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
        raise ValueError(f"{text!r} is neither a number nor token ids such as 17,24,25")
    return Logged(0, tuple(map(int, parts))) if "," in text else Logged(whole(1_000_000)(parts[0]), ())


@dataclass(frozen=True, slots=True)
class Logging:
    log_logits: Logged | None = option(None, LOG_HELP, of=count_or_ids, metavar="N")
    logit_log: str | None = option(None, f"the log's file, plain or .gz (default: {LOG_FILE})", metavar="FILE")
    add_log: bool = option(False, "read it into the store, as `logits add` does; keeps no file by default")

    @contextmanager
    def recording(self, io: Io, label: str = "", say: Say | None = None) -> Iterator[LogFile | None]:
        """Yields the log to write to, or None without --log-logits. Afterwards it is checked, and read into the
        store."""
        only_with("--log-logits", self.log_logits, logit_log=self.logit_log, add_log=self.add_log)
        if not self.log_logits:
            yield None
            return
        from engine.logits.ingest import LogNames, add_file
        from engine.logits.recorder import LogFile, LoggedColumns

        is_kept = bool(self.logit_log) or not self.add_log
        with tempfile.TemporaryDirectory(prefix="driftscope-log-") as folder:
            path = path_of(self.logit_log or LOG_FILE) if is_kept else Path(folder) / LOG_FILE
            with LogFile(path, LoggedColumns(*self.log_logits)) as log:
                yield log
            where = path if is_kept else "the log"
            checked = f"{log.checked - log.differing:,} of {log.checked:,} tokens match a draw from it"
            if not log.is_sound:  # tokens were drawn from other logits than those that are logged
                raise RunError(f"{where} is not what was sampled from: {checked}", "Do not use it, and report this")
            note(f"{where}: logits of {log.entries:,} tokens; {checked}")
            if not self.add_log:
                return
            for added in add_file(io.opened(), path, LogNames(label=label or None)):
                note(f"{added.entry.id} is in the store")
                if say is not None:  # the first part of the progress gets the log's id
                    say(now=True, part=0, parts=1, state="done", made=added.entry.id)


def names_of(generation: Generation) -> Name:
    """A sample's SMILES, so that logs of two engines meet by it; with its number, where others have the same."""
    counts = Counter(molecule.smiles for molecule in generation.molecules)

    def name(sample_id: int) -> str:
        smiles = generation.molecule_of(sample_id).smiles
        return smiles if counts[smiles] * generation.plan.generations == 1 else f"{smiles} sample {sample_id}"

    return name
