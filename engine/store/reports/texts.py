"""The items of a report file as samples: texts cut out of ``decoded_text``, read and checked anew by our own code.

A file has text only, and ids cannot be recovered from it: under a position LP the model's tokens need not be those of
its text. So ``token_ids`` and junk in tokens stay null; blocks are found in the text, atoms are matched by what they
are, and drift is computed where a block has three whole numbers and the tokenizer and the placeholder are known. The
model's masses are unknown too: a clean triple that an LP closed is ``unverified``. The file's own figures of a sample
(passed, issues, SMILES) are kept in ``extra`` where our check differs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rdkit import Chem

from engine.chem.enriched import CLOSE_TAG, OPEN_TAG, SMILES_TAGS, described, prompt_of, prompt_smiles, skeleton_of
from engine.chem.smiles import in_text_order, parse_smiles
from engine.errors import DriftscopeError, FileFormatError
from engine.lp_records import UNKNOWN_LP, stored_lp
from engine.records import CHECK_COLUMNS, Block, Check, Descriptors, Molecule, NumberFormat
from engine.store.reports import format as keys
from engine.store.sample_rows import StoredSample
from engine.text.blocks import READ_FORMAT, SPECIAL_TOKEN, find_blocks, read_block
from engine.text.check import MISMATCH, asks_for_another, check_sample
from engine.text.generated import Unit, blocks_of, match_units, units_between
from engine.text.template import block_spans, build_template
from engine.text.tokenizers import TextTokenizer

_PADDING = re.compile(rf"(?:\s|{SPECIAL_TOKEN.pattern})*+")
PROMPT_NOT_READ = "prompt SMILES cannot be read"
"""Our issue where there is no molecule to compare with; the text is kept and read all the same."""


@dataclass(frozen=True, slots=True)
class ReportItem:
    """An item of ``passes`` or ``failures``, with the texts of all generations that it tells of."""

    passed: bool  # as the file has it
    smiles: str
    content: Mapping[str, Any]  # without the list of generations
    texts: tuple[str, ...]  # its own among them
    entries: tuple[Mapping[str, Any] | None, ...]  # what that list says beside a text
    main: int  # which of the texts the item speaks of
    listed: str | None  # how the list is written, unless as usual


def read_item(item: Mapping[str, Any], listed_in: str, number: int) -> ReportItem:
    """One item, whose keys have values of the right kinds; an error where it says too little."""
    where, own, listed = f"{listed_in}[{number}]", item.get(keys.TEXT), item.get(keys.GENERATIONS)
    if own is None and not listed:
        if listed_in == keys.PASSES:
            raise FileFormatError(f"{where} has no {keys.TEXT}", "Without a text there is nothing to import")
        own = ""  # what failed may have written nothing
    generations: list[tuple[str, Mapping[str, Any] | None]] = [  # a text, and what else the list says of it
        (one, None) if isinstance(one, str) else (one[keys.TEXT], {key: one[key] for key in one if key != keys.TEXT})
        for one in listed or ()
    ]
    texts, main, form = [text for text, _ in generations], 0, None
    if listed is not None and (own is None or own in texts):
        main, form = 0 if own is None else texts.index(own), keys.ALONE if len(listed) == 1 else None
    else:
        generations, form = [(own or "", None), *generations], None if listed is None else keys.BESIDE
    smiles = item.get("prompt_smiles") or ""
    if not smiles.strip() and not (smiles := prompt_smiles(own or generations[0][0])).strip():
        what = f"{where} has no prompt_smiles, and none in its {keys.TEXT}"
        raise FileFormatError(what, "Add it, or leave the item out")
    return ReportItem(
        passed=listed_in == keys.PASSES,
        smiles=smiles,
        content={key: value for key, value in item.items() if key != keys.GENERATIONS or listed is None},
        texts=tuple(text for text, _ in generations),
        entries=tuple(entry for _, entry in generations),
        main=main,
        listed=form,
    )


# --- cutting the answer out of a text -----------------------------------------------------------------------------


def split_text(decoded: str, smiles: str) -> tuple[str, str, str]:
    """What stands before the answer (padding, prompt), the answer from its tag on, and what stands after it (end
    and pad tokens). Joined they are the text again."""
    end = _end_of_answer(decoded)
    tag = decoded.find(OPEN_TAG)
    closing = decoded.find(SMILES_TAGS[1], 0, tag if tag >= 0 else end)
    if closing >= 0:
        start = closing + len(SMILES_TAGS[1])
    else:
        start = _behind_padding(decoded, 0)
        behind = start + len(smiles)
        if decoded.startswith(smiles, start) and not decoded.startswith("<", behind):
            start = behind  # the tags are no tokens of every tokenizer, and some decoders leave tokens out
    start = min(_behind_padding(decoded, start), end)
    return decoded[:start], decoded[start:end], decoded[end:]


def _behind_padding(text: str, start: int) -> int:
    found = _PADDING.match(text, start)
    return found.end() if found else start


def _end_of_answer(text: str) -> int:
    """Where the run of end and pad tokens begins that the text ends with."""
    end = len(text)
    while True:
        while end > 0 and text[end - 1].isspace():
            end -= 1
        opening = text.rfind("<", 0, end)
        if opening < 0 or SPECIAL_TOKEN.fullmatch(text, opening, end) is None:
            return end
        end = opening


# --- the molecule that was asked for ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _PromptMolecule:
    """``molecule`` keeps the atoms' order of the prompt, as the text that follows it does."""

    smiles: str  # canonical, or as given where it does not read
    molecule: Molecule
    skeleton: str
    error: str | None = None

    @classmethod
    def of(cls, smiles: str, descriptors: Descriptors) -> _PromptMolecule:
        try:
            canonical = parse_smiles(smiles)
            molecule = described(in_text_order(canonical, smiles), descriptors)
            return cls(canonical.smiles, molecule, f"{OPEN_TAG}{skeleton_of(molecule)}{CLOSE_TAG}")
        except DriftscopeError as error:
            return cls(smiles, Molecule(smiles, smiles, (), (), 0, Chem.Mol()), "", error.what)

    @property
    def units(self) -> list[Unit]:
        return units_between(self.skeleton, [(start, end) for start, end in block_spans(self.skeleton).tolist()])


# --- reading ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TextReader:
    """Reads a file's texts as made under this LP. ``tokenizer`` is None where no template can be told."""

    lp: str | None
    placeholder: str
    tokenizer: TextTokenizer | None
    form: NumberFormat = READ_FORMAT

    def samples(self, item: ReportItem, first: int) -> list[StoredSample]:
        """The item's generations as samples that count from ``first``."""
        prompt = _PromptMolecule.of(item.smiles, stored_lp(self.lp).descriptors or "plain")
        units = prompt.units
        free: list[int] | None = None  # FREE positions of each atom's block
        if self.tokenizer is not None and self.lp is not None and not prompt.error:
            free = build_template(prompt.skeleton, self.tokenizer, self.placeholder).free_per_block.tolist()
        readings = []
        for generation, decoded in enumerate(item.texts):
            before, text, after = split_text(decoded, item.smiles)
            blocks, check = self._judged(text, prompt, units, free)
            if asks_for_another(before, prompt.molecule):
                check = replace(check, decodes=False, clean=False)
            sample = StoredSample(
                sample_id=first + generation,
                generation=generation,
                smiles=prompt.smiles,
                heavy_atoms=None if prompt.error else prompt.molecule.heavy_atoms,
                atoms=None if prompt.error else prompt.molecule.atoms,
                text=text,
                check=check,
                blocks=blocks,
                stop_reason="end" if after.strip() else None,
                has_template=free is not None,
            )
            readings.append((sample, before, after))
        main = keys.main_of([sample.check.passed for sample, _, _ in readings])
        return [replace(reading[0], extra=_extra(item, *reading, usual_main=main)) for reading in readings]

    def _judged(
        self, text: str, prompt: _PromptMolecule, units: Sequence[Unit], free: list[int] | None
    ) -> tuple[tuple[Block, ...], Check]:
        lp = self.lp or UNKNOWN_LP.name
        places = find_blocks(text)
        readings = [read_block(block.content, form=self.form, lp=lp, closed=block.closed) for block in places]
        check = check_sample(text, prompt.molecule, lp=lp, readings=readings)
        if prompt.error:
            issues = (PROMPT_NOT_READ, *(issue for issue in check.issues if issue != MISMATCH))
            check = replace(check, passed=False, decodes=False, clean=False, issues=issues, same_graph=False)
        atoms = match_units(units, units_between(text, [(block.start, block.end) for block in places]))
        return tuple(blocks_of(places, readings, atoms, free, self.tokenizer)), check


# --- what the file says otherwise ---------------------------------------------------------------------------------


def _extra(item: ReportItem, sample: StoredSample, before: str, after: str, *, usual_main: int) -> dict[str, Any]:
    extra: dict[str, Any] = {}
    if before != prompt_of(sample.smiles):
        extra[keys.BEFORE] = before
    if after:
        extra[keys.AFTER] = after
    entry = item.entries[sample.generation]
    if sample.generation != item.main:
        is_plain = bool(entry) and keys.OWN.isdisjoint(entry or ())
        return extra | ({} if entry is None else dict(entry) if is_plain else {keys.ENTRY: entry})
    if entry is not None:
        extra[keys.ENTRY] = entry
    if item.main != usual_main:
        extra[keys.MAIN] = True
    if item.listed:
        extra[keys.GENERATIONS] = item.listed
    if item.passed != sample.check.passed:
        extra[keys.REPORTED_PASSED] = item.passed
    row = {"smiles": sample.smiles, "text": sample.text} | {name: getattr(sample.check, name) for name in CHECK_COLUMNS}
    ours = keys.item_of(row, passed=item.passed, before=before, after=after)
    unknown, reported = keys.differences(item.content, ours, keys.OF_ITEM, keys.OWN)
    unreported = [key for key in ours if key not in item.content]
    rest = {keys.REPORTED: reported, keys.UNREPORTED: unreported}
    return extra | unknown | {key: value for key, value in rest.items() if value}
