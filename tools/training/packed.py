"""Reads the packed corpus on the training machine: token ids at any number of decimals, without a tokenizer.

Imports nothing but numpy and Python's own library. A text's ids are the concatenation of table entries: its prompt,
then for every atom one structure segment and two entries a number, then the last segment. The ids equal those of the
real tokenizer on the whole text, for every tokenizer that was packed and 1 to 4 decimals (truncated, trailing zeros
dropped, one kept, no ``-0.0``); ``packing`` and the tests hold that.

Digits never share a token with anything else, and both tokenizers cut a run of them from the left: Qwen's into single
digits, LLaMA's into up to three. ``,-`` is one token. So a number is its integer part, with the comma before it and the
point behind it, then its decimals: two entries.

    packed = PackedCorpus(folder, "qwen3")
    batch = packed.parts[0].tokens(rows, decimals=2)  # ids, kinds, starts
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.comparing.array_files import Arrays, read_arrays
from engine.errors import FileError, shown
from engine.text.tokenizers import MARKS, NumberIds
from tools.training.json_files import read_json
from tools.training.text_frame import text_frame

KINDS = (
    "prompt",  # [SMILES] to [/SMILES]
    "structure",  # copied from the SMILES, and the tags around the answer
    "end",
    "sign",  # the `-` of an x
    "comma",  # `,` or `,-`: also the sign of y and z
    "integer",
    "point",
    "decimal_1",  # by the first digit of a token of up to three
    "decimal_2",
    "decimal_3",
    "decimal_4",
)
PROMPT, STRUCTURE, END, SIGN, COMMA, INTEGER, POINT, DECIMAL_1 = range(8)
MOST_DECIMALS = 4
MANIFEST = "manifest.json"
PACKED_FORMAT = 1
CHUNKS_AN_ATOM = 7  # one segment, and two table entries for each of three numbers

Index = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class TokenTable:
    """Token sequences by number, each token with its kind."""

    ids: NDArray[np.int32]  # [tokens]
    kinds: NDArray[np.uint8]  # [tokens]
    lengths: NDArray[np.int64]  # [entries]

    @classmethod
    def of(cls, entries: Sequence[tuple[list[int], list[int]]]) -> TokenTable:
        return cls(
            np.array([id_ for ids, _ in entries for id_ in ids], dtype=np.int32),
            np.array([kind for _, kinds in entries for kind in kinds], dtype=np.uint8),
            np.array([len(ids) for ids, _ in entries], dtype=np.int64),
        )


def numbers_of(document: dict[str, Any]) -> NumberIds:
    """As a manifest has them: ``asdict`` of them."""
    digits = tuple(tuple(map(int, row)) for row in document["digits"])
    if not digits or [len(row) for row in digits] != [10**width for width in range(1, len(digits) + 1)]:
        raise ValueError("the digit tokens are not complete")
    return NumberIds(digits, *(int(document[name]) for name in MARKS))


@dataclass(frozen=True, slots=True)
class BinIds:
    """Uniform bins of which each number is one token: 0 is below ``low``, the last one above ``high``."""

    ids: tuple[int, ...]
    low: float
    high: float

    def edges(self) -> NDArray[np.float64]:
        """The edges in 1e-4 angstrom."""
        return np.asarray(np.linspace(self.low, self.high, len(self.ids) - 1) * 10**MOST_DECIMALS)

    def middles(self) -> list[float]:
        """What each number means, in angstrom."""
        edges = self.edges() / 10**MOST_DECIMALS
        return [self.low, *((edges[:-1] + edges[1:]) / 2).tolist(), self.high]

    def numbers(self, units: NDArray[np.integer]) -> Index:
        """The bins of coordinates in 1e-4 angstrom."""
        return np.searchsorted(self.edges(), units, side="right").astype(np.int64)


def ids_of(document: dict[str, Any]) -> NumberIds | BinIds:
    """As a manifest has them."""
    if "ids" in document:
        return BinIds(tuple(map(int, document["ids"])), float(document["low"]), float(document["high"]))
    return numbers_of(document)


def all_ids(numbers: NumberIds | BinIds) -> set[int]:
    if isinstance(numbers, BinIds):
        return set(numbers.ids)
    return {*(id_ for row in numbers.digits for id_ in row), *(getattr(numbers, name) for name in MARKS)}


def integer_table(numbers: NumberIds, most: int) -> TokenTable:
    """Entry ``prefix * (most + 1) + value``: the prefix, the integer part 0 to ``most``, the point."""
    entries = []
    for prefix in ([], [numbers.comma], [numbers.comma_minus]):
        for value in range(most + 1):
            run = numbers.run(str(value))
            entries.append(([*prefix, *run, numbers.point], [*[COMMA] * len(prefix), *[INTEGER] * len(run), POINT]))
    return TokenTable.of(entries)


def decimal_table(numbers: NumberIds, decimals: int, *, keep_zeros: bool = False) -> TokenTable:
    """Entry ``value``: the decimals 0 to 10**decimals - 1; trailing zeros dropped but for the first digit, or kept."""
    width = numbers.width
    entries = []
    for value in range(10**decimals):
        digits = f"{value:0{decimals}d}"
        text = digits if keep_zeros else digits.rstrip("0") or "0"
        entries.append((numbers.run(text), [DECIMAL_1 + start for start in range(0, len(text), width)]))
    return TokenTable.of(entries)


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Texts one after the other. Text k is ``ids[starts[k]:starts[k + 1]]``; kinds index ``KINDS``."""

    ids: NDArray[np.int32]  # [tokens]
    kinds: NDArray[np.uint8]  # [tokens]
    deciding: NDArray[np.bool_]  # [tokens] of an atom that decides a stereocentre or the side of a double bond
    starts: Index  # [texts + 1]

    def text(self, row: int) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
        span = slice(int(self.starts[row]), int(self.starts[row + 1]))
        return self.ids[span], self.kinds[span]


class PackedPart:
    """One file of the packed corpus, for one tokenizer.

    ``framed``: each text in its own ``text_frame``. ``keep_zeros``: numbers keep their trailing zeros.
    """

    def __init__(
        self,
        arrays: Arrays,
        slot: str,
        numbers: NumberIds | BinIds,
        end: int,
        *,
        framed: bool = False,
        keep_zeros: bool = False,
    ) -> None:
        self.numbers = numbers
        self._number_chunks = 3 if isinstance(numbers, BinIds) else CHUNKS_AN_ATOM - 1
        self._keep_zeros = keep_zeros
        of_slot = {
            name.removeprefix(f"{slot}."): value for name, value in arrays.items() if name.startswith(f"{slot}.")
        }
        texts = arrays["texts"].astype(np.int64)  # [conformers]
        conformer = np.repeat(np.arange(len(texts)), texts)  # [texts]
        self.atoms = arrays["atoms"].astype(np.int64)[conformer]  # [texts]
        self.is_canonical = np.diff(conformer, prepend=-1) > 0  # [texts] the others are random orders
        self.xyz = unpacked_xyz(arrays["xyz"], arrays["atoms"].astype(np.int64))  # [atoms, 3] in 1e-4 angstrom
        self._row = _rows_of_atoms(arrays, conformer, self.atoms, self.is_canonical)  # [atoms of all texts]
        if framed:  # by the order of its atoms, which each text has of its own
            self.xyz = text_frame(self.xyz[self._row], self.atoms, arrays.get("anchors"))
            self._row = np.arange(len(self._row))
        # A corpus that was packed before it had stereo lacks these.
        self._deciding = arrays.get("deciding", np.zeros(len(self._row), dtype=np.uint8)) > 0  # [atoms of all texts]
        self._atom_start = _starts(self.atoms)
        self._segment = arrays["segments"].astype(np.int64)  # [atoms + 1 of all texts]
        prompts = of_slot["known"].astype(np.int32)[of_slot["prompts"]]
        kinds = np.full(len(prompts), PROMPT, dtype=np.uint8)
        self._prompts = TokenTable(prompts, kinds, of_slot["prompt_lengths"].astype(np.int64))
        minus = -1 if isinstance(numbers, BinIds) else numbers.minus
        self._segments = _segment_table(of_slot, minus, end)
        self._segment_count = len(of_slot["plain_lengths"])
        self.is_within = np.ones(len(self), dtype=np.bool_)  # [texts] whether the range of the bins holds all its atoms
        if isinstance(numbers, BinIds):
            is_outside = np.isin(numbers.numbers(self.xyz[self._row]), (0, len(numbers.ids) - 1)).any(axis=1)
            self.is_within = ~np.logical_or.reduceat(is_outside, self._atom_start[:-1])
        self._most_integer = int(np.abs(self.xyz).max(initial=0)) // 10**MOST_DECIMALS
        self._tables: dict[int, tuple[TokenTable, Index]] = {}

    def __len__(self) -> int:
        return len(self.atoms)

    def tokens(self, rows: NDArray[np.integer] | None = None, decimals: int = MOST_DECIMALS) -> Batch:
        """The ids of these texts, in this order; of all, without ``rows``."""
        chosen = np.arange(len(self)) if rows is None else np.asarray(rows, dtype=np.int64)
        table, table_starts = self._table(decimals)
        chunks, deciding, chunk_starts = self._chunks(chosen, decimals)
        lengths = table.lengths[chunks]
        ends = np.cumsum(lengths)
        total = int(ends[-1]) if len(ends) else 0
        index = np.repeat(table_starts[chunks] - (ends - lengths), lengths)
        index += np.arange(total)
        starts = np.concatenate(([0], ends))[chunk_starts]
        return Batch(table.ids[index], table.kinds[index], np.repeat(deciding, lengths), starts)

    def segments(self, row: int) -> tuple[list[list[int]], list[list[int]]]:
        """The structure of a text: its segments as they stand before a plain number, and before a minus sign."""
        start = int(self._atom_start[row]) + row
        numbers = self._segment[start : start + int(self.atoms[row]) + 1]
        starts = _starts(self._segments.lengths)
        plain, signed = (
            [self._segments.ids[starts[entry] : starts[entry + 1]].tolist() for entry in numbers + offset]
            for offset in (0, self._segment_count)
        )
        return plain, signed

    def _chunks(self, rows: Index, decimals: int) -> tuple[Index, NDArray[np.bool_], Index]:
        """The table entries of the texts in a row, which belong to deciding atoms, where each text's begin and end."""
        atoms = self.atoms[rows]
        chunks_an_atom = 1 + self._number_chunks
        starts = _starts(chunks_an_atom * atoms + 2)
        chunks = np.empty(int(starts[-1]), dtype=np.int64)
        chunks[starts[:-1]] = rows
        atom_chunk = ragged_range(starts[:-1] + 1, atoms, chunks_an_atom)  # [atoms]
        atom = ragged_range(self._atom_start[rows], atoms)
        deciding = np.zeros(len(chunks), dtype=np.bool_)
        for chunk in range(chunks_an_atom):
            deciding[atom_chunk + chunk] = self._deciding[atom]
        segment_index = ragged_range(self._atom_start[rows] + rows, atoms)  # a text has one segment more than atoms
        base = len(self)
        units = self.xyz[self._row[atom]]  # [atoms, 3]
        chunks[starts[1:] - 1] = base + self._segment[self._atom_start[rows] + rows + atoms]
        if isinstance(self.numbers, BinIds):
            chunks[atom_chunk] = base + self._segment[segment_index]
            for axis, numbers in enumerate(self.numbers.numbers(units).T):
                chunks[atom_chunk + 1 + axis] = base + 2 * self._segment_count + numbers
            return chunks, deciding, starts
        magnitude = np.abs(units) // 10 ** (MOST_DECIMALS - decimals)
        negative = (units < 0) & (magnitude > 0)
        chunks[atom_chunk] = base + self._segment[segment_index] + negative[:, 0] * self._segment_count
        base += 2 * self._segment_count
        whole, fraction = np.divmod(magnitude, 10**decimals)
        for axis in range(3):
            prefix = 1 + negative[:, axis] if axis else 0
            chunks[atom_chunk + 1 + 2 * axis] = base + prefix * (self._most_integer + 1) + whole[:, axis]
        base += 3 * (self._most_integer + 1)
        for axis in range(3):
            chunks[atom_chunk + 2 + 2 * axis] = base + fraction[:, axis]
        return chunks, deciding, starts

    def _table(self, decimals: int) -> tuple[TokenTable, Index]:
        if not 1 <= decimals <= MOST_DECIMALS:
            raise ValueError(f"decimals must lie in 1..{MOST_DECIMALS}, got {decimals}")
        if decimals not in self._tables:
            # One table of all: numbers of entries add up.
            tables = [self._prompts, self._segments]
            if isinstance(self.numbers, BinIds):
                tables += [TokenTable.of([([id_], [INTEGER]) for id_ in self.numbers.ids])]
            else:
                whole = integer_table(self.numbers, self._most_integer)
                fraction = decimal_table(self.numbers, decimals, keep_zeros=self._keep_zeros)
                tables += [whole, fraction]
            columns = zip(*((table.ids, table.kinds, table.lengths) for table in tables), strict=True)
            table = TokenTable(*map(np.concatenate, columns))
            self._tables[decimals] = table, _starts(table.lengths)[:-1]
        return self._tables[decimals]


class PackedCorpus:
    """All parts of a packed corpus for one tokenizer; a part is read when it is first asked for."""

    def __init__(self, folder: Path, tokenizer: str, *, framed: bool = False, keep_zeros: bool = False) -> None:
        self.folder = folder
        self._options = {"framed": framed, "keep_zeros": keep_zeros}
        self.tokenizer = tokenizer
        self.manifest = read_json(folder / MANIFEST)
        if self.manifest.get("format") != PACKED_FORMAT:
            raise FileError(f"{folder} is no packed corpus of format {PACKED_FORMAT}", "Pack it again")
        packed = self.manifest["tokenizers"]
        if tokenizer not in packed:
            raise FileError(f"{folder} is packed for {', '.join(packed)}, not for {shown(tokenizer)}", "Pack it again")
        about = packed[tokenizer]
        self.slot = str(about["slot"])
        self.end = int(about["end"])
        self.vocab_size = int(about["vocab_size"])
        self.numbers = ids_of(about["numbers"])
        self.live_ids = np.array([id_ for id_, _ in about["live"]], dtype=np.int32)  # sorted
        self.pieces: dict[int, str] = {int(id_): piece for id_, piece in about["live"]}

    def __len__(self) -> int:
        return sum(int(part["texts"]) for part in self.manifest["parts"].values())

    @functools.cached_property
    def parts(self) -> tuple[PackedPart, ...]:
        return tuple(self.part(name) for name in self.manifest["parts"])

    def part(self, name: str) -> PackedPart:
        """A part by its file name, not kept."""
        meta, arrays = read_arrays(self.folder / name)
        if meta.get("texts") != self.manifest["parts"][name]["texts"]:
            raise FileError(f"{self.folder / name} belongs to another corpus", "Pack it again")
        return PackedPart(arrays, self.slot, self.numbers, self.end, **self._options)


def packed_xyz(xyz: NDArray[np.int32], atoms: Index) -> NDArray[np.uint8]:
    """Differences to the atom before, cut into low, middle and high bytes: [3 bytes, 3 axes, atoms].

    Half of all coordinates pass what 16 bits of 1e-4 angstrom hold (3.27), and so do some differences. With a plane
    for each byte nothing needs an escape, and the high plane, nearly always 0 or 255, compresses to next to nothing.
    """
    steps = xyz.astype(np.int64)
    steps[1:] -= xyz[:-1]
    first = _starts(atoms)[:-1]
    steps[first] = xyz[first]
    if np.abs(steps).max(initial=0) >= 1 << 23:
        raise ValueError("a coordinate step of 838 angstrom or more")
    shifts = np.array([0, 8, 16], dtype=np.int64)[:, None, None]
    return (steps.T >> shifts & 255).astype(np.uint8)


def unpacked_xyz(planes: NDArray[Any], atoms: Index) -> NDArray[np.int32]:
    low, middle, high = planes.astype(np.int64)
    steps = (((low | middle << 8 | high << 16) ^ (1 << 23)) - (1 << 23)).T  # [atoms, 3]
    sums = np.concatenate((np.zeros((1, 3), dtype=np.int64), np.cumsum(steps, axis=0)))
    before = np.repeat(sums[_starts(atoms)[:-1]], atoms, axis=0)
    return np.asarray(sums[1:] - before, dtype=np.int32)


def ragged_range(starts: Index, lengths: Index, step: int = 1) -> Index:
    """``start, start + step, ...`` of each length, one after the other."""
    offsets = _starts(lengths)
    return np.repeat(starts - step * offsets[:-1], lengths) + step * np.arange(int(offsets[-1]))


def _starts(lengths: NDArray[np.integer]) -> Index:
    return np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))


def _rows_of_atoms(arrays: Arrays, conformer: Index, atoms: Index, is_canonical: NDArray[np.bool_]) -> Index:
    """For each atom of each text its row in ``xyz``; canonical texts have the rows in order."""
    first = _starts(arrays["atoms"])[:-1][conformer]  # [texts]
    rows = ragged_range(first, atoms)
    others = np.repeat(~is_canonical, atoms)
    rows[others] = np.repeat(first, atoms)[others] + arrays["order"]
    return rows


def _segment_table(arrays: Arrays, minus: int, end: int) -> TokenTable:
    """Every segment as it is before a number without a sign, then every segment with the sign of x."""
    ids = np.concatenate((arrays["plain"], arrays["signed"])).astype(np.int32)
    lengths = np.concatenate((arrays["plain_lengths"], arrays["signed_lengths"])).astype(np.int64)
    kinds = np.where(ids == end, END, STRUCTURE).astype(np.uint8)
    last = np.cumsum(lengths)[len(arrays["plain_lengths"]) :] - 1
    kinds[last[ids[last] == minus]] = SIGN  # `++]<-` is cut `++]` `<-`: there the sign is no token of its arrays
    return TokenTable(ids, kinds, lengths)
