"""The tables of the store: every column with its type and what it says. Nothing here reads or writes.

A *kind* of entry is a folder of the store (``runs/``) whose entries (``run_id=<id>/``) hold a Parquet file a table and
a JSON file that is written last. Times end in ``_s``, lengths in ``_ang``. A column may be null where its maker did not
say; which are never null is said by ``required``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

VERSION = 1
"""Of what is written here. Readers take this one and all older ones; ``engine.store.views`` fills what those lack."""

TEXT, WHOLE, SMALL, REAL, FLAG = pa.string(), pa.int64(), pa.int32(), pa.float64(), pa.bool_()
TEXTS, IDS, FLAGS = pa.list_(TEXT), pa.list_(SMALL), pa.list_(FLAG)
MOMENT = pa.timestamp("us", tz="UTC")
LEAST_WHOLE, MOST_WHOLE = -(2**63), 2**63 - 1


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: pa.DataType
    what: str
    required: bool = False
    since: int = 1  # the schema version that brought it

    def value(self, said: Any) -> Any:
        """A JSON value in this column's type; TypeError, ValueError or OverflowError where it does not fit."""
        if self.type == MOMENT:
            moment = datetime.fromisoformat(said)
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
        is_flag = isinstance(said, bool)
        if self.type == REAL and isinstance(said, int | float) and not is_flag:
            if not math.isfinite(said):
                raise ValueError(f"{self.name} cannot be {said}")
            return float(said)
        fits = {TEXT: isinstance(said, str), FLAG: is_flag, WHOLE: isinstance(said, int) and not is_flag}
        if not fits.get(self.type, False):
            raise TypeError(f"{self.name} cannot be of {type(said)}")
        if self.type == TEXT:
            said.encode()  # half a character is none
        if self.type == WHOLE and not LEAST_WHOLE <= said <= MOST_WHOLE:
            raise OverflowError(f"{self.name} has {said.bit_length()} bits")
        return said


@dataclass(frozen=True, slots=True)
class Table:
    """Columns in the order in which they are shown."""

    name: str
    columns: tuple[Column, ...]
    order: tuple[str, ...] = ()  # rows of a file stand in the order of these

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([pa.field(one.name, one.type, nullable=not one.required) for one in self.columns])

    def rows(self, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
        """An Arrow table of row objects; a key that is no column is an error, a missing one is null."""
        unknown = {key for row in rows for key in row} - set(self.names)
        if unknown:
            raise ValueError(f"{self.name} has no column {', '.join(sorted(unknown))}")
        arrays = [pa.array([row.get(column.name) for row in rows], column.type) for column in self.columns]
        return pa.Table.from_arrays(arrays, schema=self.schema)


@dataclass(frozen=True, slots=True)
class Kind:
    """What a folder of the store holds: entries with these tables."""

    folder: str  # "runs"
    key: str  # "run_id"
    sheet: str  # the JSON file that makes an entry count
    main: Table  # one row an entry, from the sheet
    tables: tuple[Table, ...]  # a Parquet file each; an entry may lack any of them


def _table(name: str, *columns: tuple[Any, ...], order: tuple[str, ...] = ()) -> Table:
    return Table(name, tuple(Column(*column) for column in columns), order)


RUNS = _table(
    "runs",
    ("run_id", TEXT, "names the run; its folder is run_id=<run_id>", True),
    ("created_at", MOMENT, "when its first sample was begun; when the reports say so, for those"),
    ("origin", TEXT, "measured (here), imported (a report file), or reported (a text states it)", True),
    ("source", TEXT, "where it comes from: a command, a file's name, a report and its section"),
    ("label", TEXT, "a user's own name for it"),
    ("model_alias", TEXT, "the model"),
    ("model_step", TEXT, "its checkpoint"),
    ("model_family", TEXT, "Qwen or LLaMA"),
    ("weights", TEXT, "SHA-256 of the weights, where they ship"),
    ("tokenizer", TEXT, "qwen3, llama3, or a folder's name"),
    ("vocab_size", WHOLE, "tokens of the tokenizer"),
    ("lp", TEXT, "the logits processor, none without one; +cleanup where texts were cleaned after"),
    ("placeholder", TEXT, "what a position LP counts with"),
    ("backend", TEXT, "fast (ours) or hf (plain generate)"),
    ("sampling", TEXT, "the preset's name, or the parameters in words"),
    ("temperature", REAL, "0 is greedy"),
    ("top_k", WHOLE, "null: all"),
    ("top_p", REAL, "1: all"),
    ("min_p", REAL, "0: all"),
    ("seed", WHOLE, "keys every draw, with the sample and the position"),
    ("generations", WHOLE, "answers for each molecule"),
    ("most_tokens", WHOLE, "the limit of an answer; null: by the molecule's size"),
    ("equal_work", FLAG, "each answer as long as the exact LP's"),
    ("device", TEXT, "cpu, cuda:0 and its name; all of them where several wrote it"),
    ("dtype", TEXT, "computed in"),
    ("attention", TEXT, "sdpa, eager, ..."),
    ("kv_cache", TEXT, "what kind of cache"),
    ("batch_size", WHOLE, "rows at once, as asked for"),
    ("molecules", WHOLE, "different molecules"),
    ("samples", WHOLE, "answers"),
    ("passes", WHOLE, "samples without an issue, by the reports' rule: junk may pass"),
    ("clean", WHOLE, "samples that passed, with every block exact or unverified"),
    ("blocks", WHOLE, "coordinate blocks"),
    ("junk_letters", WHOLE, "blocks with a letter: the reports' first count"),
    ("junk_nonnumeric", WHOLE, "blocks with anything but digits . , -: the reports' second count"),
    ("bad_blocks", WHOLE, "blocks that are neither exact nor unverified"),
    ("cut_blocks", WHOLE, "blocks closed by force in the middle of their numbers"),
    ("unverified_blocks", WHOLE, "blocks closed by force, of which nobody knows what the model wanted"),
    ("rmsd_ang", REAL, "mean of its samples' rmsd_ang; null where not asked for"),
    ("rmsd_samples", WHOLE, "samples that it is the mean of"),
    ("wall_s", REAL, "from templates to the last answer read and checked; parts of all writers added up"),
    ("judging_s", REAL, "after it and no part of it: RMSD, kept steps, what the model wanted at forced closes"),
    ("template_s", REAL, "compiling constraints and prompts"),
    ("prefill_s", REAL, "reading prompts"),
    ("forward_s", REAL, "passes through the model, the output head among them"),
    ("constraint_s", REAL, "masks and states"),
    ("sampling_s", REAL, "drawing tokens"),
    ("decode_s", REAL, "all of decoding, from prompt to last token"),
    ("tokens", WHOLE, "tokens of all answers, end tokens too"),
    ("forced_tokens", WHOLE, "those that the LP left no choice for"),
    ("forward_passes", WHOLE, "through the model, prefills among them"),
    ("chars_raw", WHOLE, "characters of all answers as written"),
    ("chars_clean", WHOLE, "without anything that is not conformer: tags, padding, what cleanup strips"),
    ("peak_memory_mb", REAL, "of the process, or of the device"),
    ("versions", TEXT, "JSON: of python, torch, transformers, ..."),
    ("git_commit", TEXT, "of this program; + where files had changed"),
    ("resumed", WHOLE, "how often it was taken up again"),
    ("checked_samples", WHOLE, "samples written anew when it was taken up again, to see whether they come out alike"),
    ("diverged_samples", WHOLE, "those of them that came out otherwise"),
    ("notes", TEXT, "what a user should know, and a user's own notes"),
    ("extra", TEXT, "JSON: what a report file said beyond these columns"),
)

SAMPLES = _table(
    "samples",
    ("run_id", TEXT, "the run", True),
    ("sample_id", SMALL, "counts the run's answers from 0", True),
    ("generation", SMALL, "counts a molecule's answers from 0"),
    ("smiles", TEXT, "canonical SMILES that was asked for", True),
    ("text", TEXT, "the answer, from [CONFORMER] on, without the end token"),
    ("token_ids", IDS, "as written; null where only text is known"),
    ("forced", FLAGS, "for each token, whether the LP left no choice"),
    ("stop_reason", TEXT, "end, length, time, cancelled, empty_mask, desync"),
    ("passed", FLAG, "by the reports' rule: no issue; junk may pass", True),
    ("clean", FLAG, "passed, and every block exact or unverified", True),
    ("issues", TEXTS, "the reports' issues, in their words"),
    ("parsed", FLAG, "the text without its blocks is a SMILES"),
    ("parse_error", TEXT, "why not"),
    ("same_graph", FLAG, "and it is the molecule that was asked for"),
    ("exact_match", FLAG, "and even the SMILES as written"),
    ("generated_smiles", TEXT, "it, canonical"),
    ("extracted_smiles", TEXT, "the text without its blocks"),
    ("has_real_coordinates", FLAG, "not all zeros"),
    ("atoms", SMALL, "of the molecule's text, so blocks that an answer should have"),
    ("heavy_atoms", SMALL, "of the molecule"),
    ("tokens", SMALL, "of the answer, the end token too"),
    ("forced_tokens", SMALL, "those that the LP left no choice for"),
    ("blocks", SMALL, "blocks that were found"),
    ("bad_blocks", SMALL, "those neither exact nor unverified"),
    ("cut_blocks", SMALL, "those closed by force in the middle"),
    ("drift", SMALL, "sum of the blocks' drifts where known"),
    ("decode_s", REAL, "from its first token to its last, beside the others of its batch"),
    ("rmsd_ang", REAL, "heavy atoms, against the nearest of some reference conformers; null where not asked for"),
    ("extra", TEXT, "JSON: what a report file said beyond these columns"),
    order=("sample_id",),
)

BLOCKS = _table(
    "blocks",
    ("run_id", TEXT, "the run", True),
    ("sample_id", SMALL, "the sample", True),
    ("block", SMALL, "counts a sample's blocks from 0", True),
    ("atom", SMALL, "of the molecule's text, from 0"),
    ("element", TEXT, "its element"),
    ("text", TEXT, "between < and >, as written"),
    ("x", REAL, "in angstrom, where it can be read"),
    ("y", REAL, "in angstrom"),
    ("z", REAL, "in angstrom"),
    ("template_free", SMALL, "FREE positions that the template has for it"),
    ("needed", SMALL, "tokens that the coordinates need, where known"),
    ("drift", SMALL, "template_free - needed: positive is junk-prone, negative is cut"),
    ("kinds", TEXTS, "what is right or wrong with it; exact where nothing is wrong"),
    ("junk_text", TEXT, "what does not belong there"),
    ("junk_tokens", SMALL, "tokens of it"),
    ("continued_text", TEXT, "how the model would have gone on: an estimate; null where not asked for"),
    order=("sample_id", "block"),
)

STEPS = _table(
    "steps",
    ("run_id", TEXT, "the run", True),
    ("sample_id", SMALL, "the sample", True),
    ("pos", SMALL, "in the answer, from 0", True),
    ("token_id", SMALL, "as written", True),
    ("piece", TEXT, "the token, printable"),
    ("role", TEXT, "COPY, FREE or BOUNDARY, by the template where there is one"),
    ("forced", FLAG, "the LP left no choice"),
    ("template_id", SMALL, "the token that the template has here; null behind its end, or without one"),
    ("block", SMALL, "of the constraint, -1 outside"),
    ("rule", TEXT, "which rule allowed or forced it"),
    ("p_raw", REAL, "its probability before the LP"),
    ("p_lp", REAL, "and among the tokens that the LP allows"),
    ("allowed_mass", REAL, "of all tokens that the LP allows, before it"),
    ("rank_raw", SMALL, "before the LP; 1 is the likeliest"),
    ("entropy_nat", REAL, "of the model before the LP"),
    (
        "top_k",
        pa.list_(pa.struct([("token_id", SMALL), ("p_raw", REAL), ("allowed", FLAG)])),
        "the likeliest tokens before the LP, likeliest first",
    ),
    order=("sample_id", "pos"),
)

RUN = Kind("runs", "run_id", "run.json", RUNS, (SAMPLES, BLOCKS, STEPS))
KINDS: tuple[Kind, ...] = (RUN,)
