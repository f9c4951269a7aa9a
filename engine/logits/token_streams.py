"""Two log-probabilities of each token, from runs of the store and from files that training programs write.

A run has those of its steps, before the LP. A line of a file is one sequence: prime-rl's ``token_exports`` and
NeMo-RL's ``train_data_step*.jsonl`` have two streams (of the server that wrote, of the trainer), any other file with
``token_ids`` and ``logprobs`` has one; ``FILE:COLUMN`` is any one column. The n-th value is of the n-th token. Which is
right is not known here.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
FILLER = 1.0  # no log-probability: TRL fills masked places with it
SAME_SHARE = 0.75  # of the ids of two sequences that have to agree where their texts are not known
LAYOUTS = (
    ("inference_logprobs", "trainer_logprobs", "loss_mask"),  # prime-rl
    ("generation_logprobs", "prev_logprobs", "token_loss_mask"),  # NeMo-RL
    ("logprobs", "", "loss_mask"),
)
"""The server's stream, the trainer's, and which tokens count."""
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
    values: Floats  # [T] not a number where a token does not count
    smiles: str = ""  # of a run, as the next
    text: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Streams:
    """The tokens [N] of all sequences that count in both streams, and have a value in both."""

    sequences: list[tuple[Logged, Logged]]  # the control's and the test's
    left_out: int  # sequences without a partner of the same text
    excluded: int  # tokens with a value in one stream and minus infinity in the other
    one_sided: int  # with a value in one, and nothing in the other
    unread: int  # those behind the most tokens
    sequence: Whole
    at_control: Whole  # in the ids of its sequence
    at_test: Whole
    control: Floats
    test: Floats  # all NaN where it is to be computed

    @property
    def is_lone(self) -> bool:
        return len(self.test) > 0 and bool(np.isnan(self.test).all())

    @property
    def is_same_text(self) -> bool:
        """Whether that is known of all of them."""
        return all(one.text for one, _ in self.sequences)

    @property
    def retokenised(self) -> int:
        """Sequences with other ids in the test."""
        return sum(not np.array_equal(one.ids, other.ids) for one, other in self.sequences)


def split_source(source: str) -> tuple[Path, str]:
    """Of ``FILE`` or ``FILE:COLUMN``."""
    file, _, column = source.rpartition(":")
    return (Path(source), "") if not file or Path(source).exists() else (Path(file), column)


def read_file(source: str) -> list[list[Logged]]:
    """Its streams, sequence by sequence: of ``FILE:COLUMN`` one, else those that its program writes."""
    path, column = split_source(source)
    sequences, tokens = list[list[Logged]](), 0
    with open_file(path) as file:
        for number, line in enumerate(iter(lambda: file.readline(MOST_LINE_BYTES), b""), start=1):
            if line.isspace() or tokens >= MOST_TOKENS:
                continue
            try:
                sequences.append(_streams(parsed_json(line), f"line {number}", column))
            except (ValueError, TypeError, LookupError, OverflowError) as error:
                problem = f"{shown(path.name)}, line {number:,}: no token_ids with log-probabilities"
                raise FileError(f"{problem} ({str(error)[:120]})", "docs/formats.md has an example") from error
            tokens += len(sequences[-1][0].ids)
    if len({len(streams) for streams in sequences}) != 1:
        raise FileError(f"{shown(path.name)} is empty, or its lines have one stream and two", "Give JSON lines")
    return [list(stream) for stream in zip(*sequences, strict=True)]


def _column(row: Mapping[str, Any], key: str) -> Floats:
    values = row[key][0] if len(row[key]) == 1 and isinstance(row[key][0], list) else row[key]  # a batch of one
    if not isinstance(values, list) or not all(value is None or isinstance(value, int | float) for value in values):
        raise ValueError(f"{key} is no list of numbers")
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def _streams(row: Mapping[str, Any], name: str, column: str) -> list[Logged]:
    control, test, mask = next((layout for layout in LAYOUTS if layout[0] in row), LAYOUTS[-1])
    keys = [column] if column else [control, *([test] if test in row else [])]
    ids, *streams = (_column(row, key) for key in ("token_ids", *keys))
    counts = _column(row, mask) > 0 if mask in row else np.ones(len(ids), dtype=bool)
    if any(len(values) != len(ids) for values in (counts, *streams)):
        raise ValueError(f"{len(ids):,} ids, and {', '.join(f'{len(values):,}' for values in streams)} values")
    if "sample_loss_mask" in row:
        counts &= _column(row, "sample_loss_mask")[0] > 0
    end = int(_column(row, "input_lengths")[0]) if "input_lengths" in row else len(ids)  # padding follows
    if not 2 <= end <= len(ids):
        raise ValueError(f"{end:,} of {len(ids):,} tokens: at least 2 are compared")
    return [logged(name, ids[:end], np.where(counts, values, np.nan)[:end]) for values in streams]


def logged(name: str, ids: Floats, values: Floats) -> Logged:
    if not ((ids >= 0) & (ids < MOST_ID) & (ids % 1 == 0)).all():
        raise ValueError("its ids are no whole numbers from 0")
    if ((values > ROUNDING) & (values != FILLER)).any():
        raise ValueError("a log-probability is above 0")
    return Logged(name, ids.astype(np.int64), values)


def read_run(store: Store, entry: Entry) -> list[Logged]:
    rows = store.table(_STEPS, {"run": entry.id}, of=[entry.id]).to_pylist() if STEPS.name in entry.parts else []
    sequences = []
    for row in rows:
        ids, values = np.array(row["ids"], dtype=np.int64), np.array(row["ln_p"], dtype=np.float64)
        if np.isfinite(values).any():
            name = f"sample {row['sample_id']}"
            sequences.append(Logged(name, ids, values, row["smiles"], row["text"] or ""))
    if not sequences:
        raise RunError(f"{entry.id} has no log-probabilities of its tokens", "Run it with --diagnostics")
    return sequences


def paired(first: Sequence[Logged], second: Sequence[Logged] | None = None, *, most: int = MOST_TOKENS) -> Streams:
    """Sequence by sequence, by name, of the first ``most`` tokens or so. Without ``second`` the test has no values."""
    others = {one.name: one for one in second or first}
    pairs = list[tuple[Logged, Logged, Whole]]()
    for one in first:
        other = others.get(one.name)
        if other is not None and (one.smiles, one.text) == (other.smiles, other.text):
            at = same_tokens(one.ids, other.ids)
            if one.text or at.shape[1] >= SAME_SHARE * max(len(one.ids), len(other.ids)):
                pairs.append((one, other, at))
    ends = np.cumsum([max(len(one.ids), len(other.ids)) for one, other, _ in pairs])
    read = pairs[: max(1, int((ends <= most).sum()))]
    columns, excluded, one_sided = list[Any](), 0, 0
    for number, (one, other, at) in enumerate(read):
        control, test = one.values[at[0]], other.values[at[1]] if second else np.full(at.shape[1], np.nan)
        counts = np.isfinite(control) & (np.isfinite(test) | (second is None))
        if second:
            is_lone = np.isfinite(control) != np.isfinite(test)
            excluded += int((is_lone & (np.isneginf(control) | np.isneginf(test))).sum())
            one_sided += int((is_lone & (np.isnan(control) | np.isnan(test))).sum())
        columns.append([np.full(counts.sum(), number), *at[:, counts], control[counts], test[counts]])
    flat = [np.concatenate(of) for of in zip(*columns, strict=True)] or [np.empty(0, dtype=np.int64)] * 5
    left_out = max(len(first), len(others)) - len(pairs)
    sequences = [(one, other) for one, other, _ in read]
    return Streams(sequences, left_out, excluded, one_sided, len(pairs) - len(read), *flat)


def same_tokens(first: Whole, second: Whole) -> Whole:
    """[2, N] places of the ids that two sequences share, in order."""
    if np.array_equal(first, second):
        return np.tile(np.arange(len(first)), (2, 1))
    matcher = difflib.SequenceMatcher(None, first.tolist(), second.tolist(), autojunk=False)
    blocks = [(np.arange(a, a + size), np.arange(b, b + size)) for a, b, size in matcher.get_matching_blocks()]
    return np.concatenate(blocks, axis=1)
