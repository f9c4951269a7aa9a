"""One sample: its prompt and text, token by token against the template, and its conformer.

The stored kinds of blocks were decided with the model's masses, which are not stored; so where the alignment made here
differs, the stored kinds win. ``missing`` says in words what is not available.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from rdkit import Chem

from engine.chem.enriched import described, prompt_of
from engine.chem.smiles import parse_written, unread
from engine.errors import DriftscopeError, StoreError
from engine.figures.words import counted
from engine.inspection.conformers import GroupShape, Shape, conformer_of, group_conformer_of
from engine.inspection.lost_token import LostBlock, lost_of_sample
from engine.inspection.realign import aligned_as_stored
from engine.inspection.runs import RunFacts, number_format, run_facts, run_tokenizer
from engine.inspection.tries import ThrownText, blocks_thrown
from engine.lp_records import UNKNOWN_LP
from engine.records import SPELLED, CodeFormat, Descriptors, Molecule, NumberFormat
from engine.store.columns import Kind
from engine.store.entries import Entry
from engine.store.generations import conformer_texts
from engine.store.reports import ASKED, BEFORE
from engine.store.reports.importing import as_prompted
from engine.store.store import Store
from engine.store.views import connect
from engine.text.align import Alignment
from engine.text.blocks import READ_FORMAT, conformer_numbers, displacement_ang, find_blocks
from engine.text.check import shown_descriptors, split_conformers
from engine.text.generated import mode_of
from engine.text.template import needed_by_content
from engine.text.tokenizers import TextTokenizer
from engine.user_files import parsed_json

Row = Mapping[str, Any]
NO_TEXT = "It has no text and no tokens."
NO_TOKENS = {  # by whether there is a tokenizer
    True: "Only the text is stored, not its tokens. The tokens shown are the tokenizer's split and may differ from"
    " those that the model sampled. It is unknown which were forced.",
    False: "Only the text is stored and its tokenizer is not available, so there are no tokens to show.",
}
MOST_MARKED, LEAST_MARKED = 10_000, 5
"""Atoms times marks of those that lost their place: of a molecule of 1,000 atoms a mark takes 0.14 s."""
ENDS = {
    "length": "Generation stopped at the token limit; the end is missing.",
    "time": "Generation stopped at the time limit; the end is missing.",
    "cancelled": "Generation was cancelled; the end is missing.",
    "empty_mask": "Generation stopped where the LP allowed no token.",
    "desync": "Generation stopped at a token that the LP had not allowed.",
}
_TABLES = (
    "SELECT * FROM samples WHERE run_id = $run AND sample_id = $sample",
    "SELECT * FROM blocks WHERE run_id = $run AND sample_id = $sample ORDER BY block",
    "SELECT * FROM steps WHERE run_id = $run AND sample_id = $sample ORDER BY pos",
    "SELECT * FROM tries WHERE run_id = $run AND sample_id = $sample ORDER BY number",
)


@dataclass(frozen=True, slots=True)
class BlockEstimate:
    """How the model would have finished a cut block, by its greedy continuation: after a text that may contain earlier
    cuts."""

    text: str  # its three numbers
    needed: int | None  # tokens inside the block; None without a tokenizer
    digits_lost: int | None  # None where the written text is no prefix of it
    displacement_ang: float | None  # of the atom, by the cut; None where the block as written has no three numbers


@dataclass(frozen=True, slots=True, eq=False)
class Inspected:
    """One sample of a run. ``conformer_atoms`` has the molecule's atom for each atom of ``conformer``, -1 for none."""

    run: RunFacts
    sample: Row  # of samples
    molecule: Molecule  # without atoms where the SMILES that was asked for does not read
    descriptors: Descriptors  # that it is written with
    tokenizer: TextTokenizer | None
    alignment: Alignment | None
    blocks: tuple[Row, ...]  # of blocks, in order, each with its ``conformer``, from 1; 0 behind the answer
    steps: Mapping[int, Row]  # of steps, by pos; each of top_k has its piece next to its id
    tries: tuple[ThrownText, ...]  # that a guard threw away, where they were kept
    estimates: Mapping[int, BlockEstimate]  # by block: what a cut cost, where the model was asked
    lost: tuple[LostBlock, ...]  # blocks whose atom is at a wrong place, with the token that lost each
    shapes: tuple[Shape, ...]  # of each conformer of the answer
    group_shapes: tuple[GroupShape | None, ...]  # what the group's reader makes of one that ours refuses
    missing: tuple[str, ...]
    can_score: bool  # the ids are there as written and the LP is known, so a model can compute their probabilities
    number: int = 1  # of the conformer that the next four are of

    @property
    def conformer(self) -> Chem.Mol | None:
        return self.shapes[self.number - 1].mol

    @property
    def conformer_atoms(self) -> tuple[int, ...]:
        return self.shapes[self.number - 1].atoms

    @property
    def why_no_conformer(self) -> str:
        """Or why some of its atoms are not there."""
        return self.shapes[self.number - 1].why_not

    @property
    def is_of_codes(self) -> bool:
        """Then its blocks are no numbers: they neither drift nor have laws."""
        return isinstance(number_format(self.run), CodeFormat)

    @property
    def by_group(self) -> GroupShape | None:
        return self.group_shapes[self.number - 1]

    @property
    def examples(self) -> str:
        """What came before its prompt."""
        return _of_file(self.sample, BEFORE).removesuffix(prompt_of(self.sample["smiles"]))

    def of_conformer(self, number: int) -> Inspected:
        """The same sample with another of its conformers in view; the first where it has none of this number."""
        return replace(self, number=number if 1 <= number <= len(self.shapes) else 1)

    @property
    def first_faulty(self) -> int:
        """The first conformer that is not clean, or else not usable; the first where all are."""
        for name in ("clean_each", "usable_each"):
            if False in (self.sample[name] or ()):
                return int(self.sample[name].index(False)) + 1
        return 1


def inspect_sample(store: Store, run_id: str, sample_id: int) -> Inspected:
    """The sample of a run, which is named by its id or by any part that no other run has."""
    run = run_facts(store, run_id)
    (sample,), blocks, steps, tries = _rows(store, run, sample_id)
    form = number_format(run)
    molecule, why_no_molecule, descriptors = molecule_of_answer(run, sample)
    tokenizer, why_no_tokenizer = run_tokenizer(run)
    alignment, why_no_alignment = None, ""
    if tokenizer is not None and molecule.atoms:
        alignment, why_no_alignment = aligned_as_stored(run, sample, blocks, molecule, tokenizer)
    blocks = _in_conformers(blocks, alignment, sample, form)
    stated = conformer_texts(store, store.entry(run.run_id), [sample_id]).get(sample_id)
    shapes, group_shapes = _shapes_of(sample, stated or sample["text"] or "", blocks, molecule, form)
    of_its_text: Iterable[str] = (NO_TEXT,)  # where there is none, that is the reason for all the others
    if sample["text"] or sample["token_ids"]:
        contradictions = _contradictions(run, sample, descriptors)
        others = _missing(run, sample, bool(blocks), bool(steps), bool(tries), tokenizer is not None)
        of_its_text = (why_no_tokenizer, why_no_alignment, *contradictions, *others)
    most = _most_marked(blocks, alignment)
    lost = tuple(lost_of_sample(run, sample, molecule, tokenizer, most))
    if len(lost) >= most:
        of_its_text = (*of_its_text, f"Of so many atoms only the first {most} that lost their place are marked.")
    return Inspected(
        run=run,
        sample=sample,
        molecule=molecule,
        descriptors=descriptors,
        tokenizer=tokenizer,
        alignment=alignment,
        blocks=blocks,
        steps={row["pos"]: with_pieces(row, tokenizer) for row in steps},
        tries=tuple(
            ThrownText(blocks_thrown(row["block"], row["atoms"]), row["check"], row["text"] or "") for row in tries
        ),
        estimates=estimates_of(blocks, molecule, tokenizer, form),
        lost=lost,
        shapes=shapes,
        group_shapes=group_shapes,
        missing=tuple(filter(None, (why_no_molecule, *of_its_text))),
        can_score=bool(sample["token_ids"])
        and None not in sample["token_ids"]
        and tokenizer is not None
        and molecule.atoms > 0
        and run.lp_record is not UNKNOWN_LP,
    )


def _most_marked(blocks: Sequence[Row], alignment: Alignment | None) -> int:
    atoms = max(len(blocks), 0 if alignment is None else len(alignment.blocks), 1)
    return max(MOST_MARKED // atoms, LEAST_MARKED)


def _shapes_of(
    sample: Row, stated: str, blocks: Sequence[Row], molecule: Molecule, form: NumberFormat
) -> tuple[tuple[Shape, ...], tuple[GroupShape | None, ...]]:
    """Of each conformer of the answer; ``stated``: its text in decimals."""
    shapes, group_shapes = list[Shape](), list[GroupShape | None]()
    written = split_conformers(sample["text"] or "")
    for number, text in enumerate(split_conformers(stated), 1):
        of_it = [row for row in blocks if row["conformer"] == number]
        shape = conformer_of({**sample, "text": text}, of_it, molecule)
        shapes.append(shape)
        as_written = {**sample, "text": written[number - 1] if number <= len(written) else ""}
        is_read = shape.why_not and not isinstance(form, CodeFormat)  # codes have a decoder, and no second reader
        group_shapes.append(group_conformer_of(as_written, of_it, form) if is_read else None)
    return tuple(shapes), tuple(group_shapes)


def with_pieces(step: Row, tokenizer: TextTokenizer | None) -> Row:
    """Each of its likely tokens has its piece next to its id."""
    piece = (lambda id_: "") if tokenizer is None else tokenizer.piece
    return {**step, "top_k": [{**top, "piece": piece(top["token_id"])} for top in step["top_k"] or ()]}


def estimates_of(
    blocks: Sequence[Row], molecule: Molecule, tokenizer: TextTokenizer | None, form: NumberFormat = READ_FORMAT
) -> dict[int, BlockEstimate]:
    """By block, for rows with a continuation: what is lost from it to the text as written."""
    estimates = {}
    for row in (row for row in blocks if row["continued_text"]):
        written = row["text"] or ""
        continued = row["continued_text"]
        atom = row["atom"]
        before = molecule.descriptors[atom] if atom is not None and 0 <= atom < molecule.atoms else "[C]"
        has_prefix = continued.startswith(written)
        needed = None
        if tokenizer is not None:
            needed = needed_by_content([(before, continued)], tokenizer, form)[0]
        estimates[row["block"]] = BlockEstimate(
            text=continued,
            needed=needed,
            digits_lost=sum(map(str.isdigit, continued[len(written) :])) if has_prefix else None,
            displacement_ang=displacement_ang(written, continued),
        )
    return estimates


def _rows(store: Store, run: RunFacts, sample_id: int) -> list[tuple[Row, ...]]:
    """Of all tables in one connection, which takes longer than the queries."""

    def ask(parts: Sequence[tuple[Kind, Sequence[Entry]]]) -> list[tuple[Row, ...]]:
        names = {"run": run.run_id, "sample": sample_id}
        with connect(parts, only_of=" ".join(_TABLES)) as connection:
            return [tuple(connection.sql(sql, params=names).to_arrow_table().to_pylist()) for sql in _TABLES]

    tables = store.reading(ask)
    if not tables[0]:
        raise StoreError(
            f"the run {run.run_id} has no sample {sample_id}", f"It has {run.samples:,}; they count from 0"
        )
    return tables


def _in_conformers(
    blocks: Sequence[Row], alignment: Alignment | None, sample: Row, form: NumberFormat
) -> tuple[Row, ...]:
    """The rows with the conformer of each, and of several conformers with its atom, which earlier imports lack."""
    if alignment is not None and len(alignment.blocks) == len(blocks):
        several = any(block.conformer > 1 for block in alignment.blocks)
        each = zip(blocks, alignment.blocks, strict=True)
        return tuple(
            {**row, "conformer": block.conformer, "atom": block.atom if several else row["atom"]} for row, block in each
        )
    text = sample["text"] or ""
    found = find_blocks(text, form)
    numbers = conformer_numbers(text, found) if len(found) == len(blocks) else [1] * len(blocks)
    return tuple({**row, "conformer": number} for row, number in zip(blocks, numbers, strict=True))


def molecule_of_answer(run: RunFacts, sample: Row) -> tuple[Molecule, str, Descriptors]:
    """`molecule_asked`, with the descriptors of its text unless an LP put them there."""
    is_free = not sample["token_ids"] or mode_of(run.lp_record.name) == "structure"
    return molecule_asked(sample, run.descriptors, by_text=is_free, form=number_format(run))


def molecule_asked(
    sample: Row, descriptors: Descriptors = "plain", *, by_text: bool = False, form: NumberFormat = READ_FORMAT
) -> tuple[Molecule, str, Descriptors]:
    """The molecule in the order of the prompt, as the answer follows it; one without atoms, and why, where it does not
    read. A report file's prompt need not be canonical; then ``extra`` has it. ``by_text``: with the descriptors of the
    text where it shows them, since no LP put them there."""
    smiles: str = sample["smiles"]
    try:
        asked = parse_written(_of_file(sample, ASKED) or smiles)
        molecule = as_prompted(_of_file(sample, BEFORE), asked, smiles)
    except DriftscopeError as error:
        problem = f"There is no molecule to compare with: {error.what}."
        return unread(smiles), problem, descriptors
    if by_text:
        descriptors = shown_descriptors(molecule, sample["text"] or "", form) or descriptors
    return described(molecule, descriptors), "", descriptors


def _of_file(sample: Row, key: str) -> str:
    """What ``extra`` has of its report file; empty where that is as usual."""
    extra = None
    with suppress(ValueError):
        extra = parsed_json(sample["extra"] or "{}")
    text = extra.get(key) if isinstance(extra, dict) else None
    return text if isinstance(text, str) else ""


def _contradictions(run: RunFacts, sample: Row, descriptors: Descriptors) -> Iterator[str]:
    """Of a text that somebody else's program made: where it is not written as its LP writes."""
    usual = run.lp_record.descriptors
    if not sample["token_ids"] and usual not in (None, descriptors):
        written = f"Its text writes {SPELLED[descriptors]}, where the LP {run.lp_words} writes {SPELLED[usual]}"
        yield f"{written}: its atoms are compared with its own."


def _missing(
    run: RunFacts, sample: Row, has_blocks: bool, has_steps: bool, has_tries: bool, has_tokenizer: bool
) -> Iterator[str]:
    has_ids, is_unknown = bool(sample["token_ids"]), run.lp_record is UNKNOWN_LP
    if not has_ids:
        yield NO_TOKENS[has_tokenizer]
    if is_unknown:
        which = f"The LP {run.constraint} is unknown here" if run.constraint else "The run names no LP (unknown LP)"
        yield f"{which}: the text is aligned by structure, and a clean block may have been cut."
    if run.has_former_counts:
        yield "Its kinds and descriptors were found by former rules; `verify --recount` finds them again in its texts."
    if not has_blocks:
        yield "The run has no blocks for this sample."
    if not has_steps and not has_ids:
        yield "Token probabilities are not stored, and without token ids they cannot be computed."
    elif not has_steps:
        kept = "This run stored the steps of other samples only" if run.has_steps else "This run stored no steps"
        yield f"{kept}: token probabilities are not stored.{'' if is_unknown else ' A model can recompute them.'}"
    if sample["stop_reason"] in ENDS:
        yield ENDS[sample["stop_reason"]]
    if sample["redrawn_blocks"] and not has_tries:
        times = counted(sample["redrawn_blocks"], "time")
        by_guard = f"The guard had blocks redrawn {times}"
        what = by_guard if sample["dead_ends"] is None else f"The text went back {times} from dead ends"
        yield f"{what}. Tries are stored only of samples that keep their steps."
