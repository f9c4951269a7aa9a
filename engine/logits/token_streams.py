"""Two log-probabilities of each token, from runs of the store and from files that training programs write.

A run has those of its steps, before the LP. A line of a file is one sequence: prime-rl's ``token_exports`` and
NeMo-RL's ``train_data_step*.jsonl`` have two streams (of the server that wrote, of the trainer), any other file with
``token_ids`` and ``logprobs`` has one. The n-th value is of the n-th token. Which is right is not known here.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.errors import FileError, RunError, shown
from engine.store.entries import Entry
from engine.store.schema import STEPS
from engine.store.store import Store
from engine.user_files import open_file, parsed_json

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
Flags = NDArray[np.bool_]
MOST_TOKENS = 200_000  # of one file or run; what follows is left out
MOST_LINE_BYTES = 64 * 1024 * 1024
MOST_ID = 2**31
ROUNDING = 0.01  # a log-probability in half precision may be so far above 0
SAME_SHARE = 0.75  # of the ids of two sequences that have to agree where their texts are not known
LAYOUTS = (
    ("inference_logprobs", "trainer_logprobs", "loss_mask"),  # prime-rl
    ("generation_logprobs", "prev_logprobs", "token_loss_mask"),  # NeMo-RL
    ("logprobs", "", "loss_mask"),
)
"""The server's stream, the trainer's, and which tokens count."""
PER_TOKEN = ("sequence", "at_control", "at_test", "control", "test")
_STEPS = """
SELECT sample_id, any_value(smiles) AS smiles, any_value(text) AS text, list(steps.token_id ORDER BY pos) AS ids,
       list(ln_p ORDER BY pos) AS ln_p
FROM steps JOIN samples USING (run_id, sample_id) WHERE run_id = $run AND extra IS NULL
GROUP BY sample_id ORDER BY sample_id
"""


@dataclass(frozen=True, slots=True, eq=False)
class Logged:
    """A sequence as it was logged: of a run without the prompt's ids, of a file with them."""

    name: str
    ids: Whole  # [T]
    control: Floats  # [T]
    test: Floats | None  # [T] the second stream of a file that has two
    used: Flags  # [T] what the loss mask lets count
    smiles: str = ""  # of a run, as the next
    text: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Streams:
    """The tokens [N] of all sequences that count in both streams, and have a value in both."""

    sequences: list[tuple[Logged, Logged]]  # the control's and the test's; of one file each is both
    left_out: int  # sequences without a partner of the same text
    sequence: Whole
    at_control: Whole  # in the ids of its sequence
    at_test: Whole
    control: Floats
    test: Floats  # all NaN where it is to be computed

    @property
    def is_same_text(self) -> bool:
        """Whether that is known of all of them."""
        return all(one.text == other.text != "" for one, other in self.sequences)

    def first(self, count: int) -> Streams:
        """Of so many sequences alone."""
        keep = self.sequence < count
        values = {name: getattr(self, name)[keep] for name in PER_TOKEN}
        return replace(self, sequences=self.sequences[:count], **values)

    @property
    def retokenised(self) -> int:
        """Sequences with other ids in the test."""
        return sum(one.ids.tolist() != other.ids.tolist() for one, other in self.sequences)


def read_file(path: Path) -> list[Logged]:
    sequences, tokens = list[Logged](), 0
    with open_file(path) as file:
        for number, line in enumerate(iter(lambda: file.readline(MOST_LINE_BYTES), b""), start=1):
            if line.isspace() or tokens >= MOST_TOKENS:
                continue
            try:
                sequences.append(_sequence(parsed_json(line), f"line {number}"))
            except (ValueError, TypeError, LookupError, OverflowError) as error:
                problem = f"{shown(path.name)}, line {number:,}: no token_ids with log-probabilities"
                raise FileError(f"{problem} ({str(error)[:120]})", "docs/formats.md has an example") from error
            tokens += len(sequences[-1].ids)
    if not sequences:
        raise FileError(f"{shown(path.name)} is empty", "Give JSON lines")
    return sequences


def _column(row: Mapping[str, Any], key: str) -> Any:
    values = row[key][0] if len(row[key]) == 1 and isinstance(row[key][0], list) else row[key]  # a batch of one
    if not isinstance(values, list) or not all(value is None or isinstance(value, int | float) for value in values):
        raise ValueError(f"{key} is no list of numbers")
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def _check_ids(ids: Floats, end: int) -> None:
    if len(ids) < 2:
        raise ValueError("one token has nothing before it")
    if not 2 <= end <= len(ids):
        raise ValueError(f"input_lengths is {end:,} of {len(ids):,} tokens")
    if not ((ids[:end] >= 0) & (ids[:end] < MOST_ID) & (ids[:end] % 1 == 0)).all():
        raise ValueError("its ids are no whole numbers from 0")


def _sequence(row: Mapping[str, Any], name: str) -> Logged:
    column = partial(_column, row)
    control, test, mask = next((layout for layout in LAYOUTS if layout[0] in row), LAYOUTS[-1])
    ids = column("token_ids" if "token_ids" in row else "input_ids")
    used = column(mask) > 0 if mask in row else np.ones(len(ids), dtype=bool)
    used &= column("sample_loss_mask")[0] > 0 if "sample_loss_mask" in row else True
    end = int(column("input_lengths")[0]) if "input_lengths" in row else len(ids)  # padding follows
    _check_ids(ids, end)
    streams = [used, column(control), *([column(test)] if test in row else [])]
    if any(stream.shape != ids.shape for stream in streams):
        raise ValueError(f"{len(ids):,} ids, and {', '.join(f'{len(stream):,}' for stream in streams)} values")
    if any((stream[:end][used[:end]] > ROUNDING).any() for stream in streams[1:]):
        raise ValueError("a log-probability is above 0")
    test_values = streams[2][:end] if len(streams) > 2 else None
    return Logged(name, ids[:end].astype(np.int64), streams[1][:end], test_values, used[:end])


def read_run(store: Store, entry: Entry) -> list[Logged]:
    rows = store.table(_STEPS, {"run": entry.id}, of=[entry.id]).to_pylist() if STEPS.name in entry.parts else []
    sequences = []
    for row in rows:
        values = np.array(row["ln_p"], dtype=np.float64)
        ids, used = np.array(row["ids"], dtype=np.int64), np.isfinite(values)
        about = f"sample {row['sample_id']}", ids, values, None, used, row["smiles"], row["text"] or ""
        sequences += [Logged(*about)] if used.any() else []
    if not sequences:
        raise RunError(f"{entry.id} has no log-probabilities of its tokens", "Run it with --diagnostics")
    return sequences


def paired(first: Sequence[Logged], second: Sequence[Logged] | None) -> Streams:
    """Sequence by sequence, by name. Without ``second`` the first's own two streams."""
    others = {one.name: one for one in (first if second is None else second)}
    sequences, columns = list[tuple[Logged, Logged]](), list[Any]()
    for one in first:
        other = others.get(one.name)
        if other is None or (one.smiles, one.text) != (other.smiles, other.text):
            continue
        at = same_tokens(one.ids, other.ids)
        if not one.text and at.shape[1] < SAME_SHARE * max(len(one.ids), len(other.ids)):
            continue
        values = other.control if second is not None else one.test
        test = np.full(len(other.ids), np.nan) if values is None else values
        control, test = one.control[at[0]], test[at[1]]
        counts = one.used[at[0]] & other.used[at[1]] & np.isfinite(control) & (np.isfinite(test) | (values is None))
        columns.append([np.full(counts.sum(), len(sequences)), *at[:, counts], control[counts], test[counts]])
        sequences.append((one, other))
    flat = [np.concatenate(of) for of in zip(*columns, strict=True)] or [np.empty(0, dtype=np.int64)] * len(PER_TOKEN)
    left_out = max(len(first), len(others)) - len(sequences)
    return Streams(sequences, left_out, **dict(zip(PER_TOKEN, flat, strict=True)))


def same_tokens(first: Whole, second: Whole) -> Whole:
    """[2, N] places of the ids that two sequences share, in order."""
    if first.tolist() == second.tolist():
        return np.tile(np.arange(len(first)), (2, 1))
    matcher = difflib.SequenceMatcher(None, first.tolist(), second.tolist(), autojunk=False)
    blocks = [(np.arange(a, a + size), np.arange(b, b + size)) for a, b, size in matcher.get_matching_blocks()]
    return np.concatenate(blocks, axis=1)
