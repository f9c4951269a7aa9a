"""``--log-logits`` of ``generate`` and ``run``: its options, the file that it writes, and the entry in the store."""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from engine.cli.options import open_store
from engine.cli.output import note, path_of
from engine.errors import RunError

if TYPE_CHECKING:
    from engine.cli.progress_option import Say
    from engine.decode.generation import Generation
    from engine.logits.recorder import LogFile, Name

FILE = "logits.jsonl.gz"
MOST_VALUES = 1_000_000


def add_log_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("logit log")
    group.add_argument(
        "--log-logits",
        type=_count_or_ids,
        metavar="N",
        help="log the first N logits per token, or those of token ids (17,24,25 or 17,); slower",
    )
    group.add_argument("--logit-log", metavar="FILE", help=f"the log's file, plain or .gz (default: {FILE})")
    group.add_argument(
        "--add-log", action="store_true", help="read it into the store, as `logits add` does; keeps no file by default"
    )


def _count_or_ids(text: str) -> tuple[int, tuple[int, ...]]:
    """``4`` -> (4, ()); ``17,24`` or ``17,`` -> (0, ids)."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts or not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number nor token ids such as 17,24,25")
    if "," in text:
        return 0, tuple(map(int, parts))
    if not 1 <= int(parts[0]) <= MOST_VALUES:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {MOST_VALUES:,}")
    return int(parts[0]), ()


def names_of(generation: Generation) -> Name:
    """A sample's SMILES, so that logs of two engines meet by it; with its number, where others have the same."""
    counts = Counter(molecule.smiles for molecule in generation.molecules)

    def name(sample_id: int) -> str:
        smiles = generation.molecule_of(sample_id).smiles
        is_alone = counts[smiles] == 1 and generation.plan.generations == 1
        return smiles if is_alone else f"{smiles} sample {sample_id}"

    return name


@contextmanager
def recording(args: argparse.Namespace, say: Say | None = None) -> Iterator[LogFile | None]:
    """Yields the log to write to, or None without --log-logits. Afterwards it is checked, and read into the store."""
    for name, value in (("--logit-log", args.logit_log), ("--add-log", args.add_log)):
        if value and not args.log_logits:
            raise RunError(f"{name} belongs to --log-logits", "Give both, or leave it out")
    if not args.log_logits:
        yield None
        return
    from engine.logits.ingest import LogNames, add_file
    from engine.logits.recorder import LogFile, LoggedColumns

    first, ids = args.log_logits
    is_kept = bool(args.logit_log) or not args.add_log
    with tempfile.TemporaryDirectory(prefix="driftscope-log-") as folder:
        path = path_of(args.logit_log or FILE) if is_kept else Path(folder) / FILE
        with LogFile(path, LoggedColumns(first, ids)) as log:
            yield log
        where = path if is_kept else "the log"
        checked = f"{log.checked - log.differing:,} of {log.checked:,} tokens match a draw from it"
        if not log.is_sound:  # tokens were drawn from other logits than those that are logged
            raise RunError(f"{where} does not match what was sampled from: {checked}", "Do not use it, and report this")
        note(f"{where}: logits of {log.entries:,} tokens; {checked}")
        if not args.add_log:
            return
        for added in add_file(open_store(args), path, LogNames(label=getattr(args, "label", None) or None)):
            note(f"{added.entry.id} is in the store")
            if say is not None:  # the first part of the progress gets the log's id
                say(now=True, part=0, parts=1, state="done", made=added.entry.id)
