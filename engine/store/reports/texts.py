"""The items of a report file as samples: texts cut out of ``decoded_text``, read and checked anew by our own code.

A file has text only, and ids cannot be had back from it: under a position LP the model's tokens need not be those of
its text. So ``token_ids`` stay null, and with them junk in tokens; blocks are found in the text, atoms matched by what
they are, and drift is told where three whole numbers stand and the tokenizer and the placeholder are known. Nor are
the model's masses known: a clean triple that an LP closed is ``unverified``. What the file itself says of a sample
(passed, issues, SMILES) is kept in ``extra`` where our check says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rdkit import Chem

from engine.chem.enriched import CLOSE_TAG, OPEN_TAG, SMILES_TAGS, skeleton_of
from engine.chem.smiles import enriched_descriptors, parse_smiles, read_text_order
from engine.errors import DriftscopeError, FileFormatError, shown
from engine.records import Block, Check, Molecule
from engine.store.reports.format import (
    AFTER,
    ALONE,
    BEFORE,
    BESIDE,
    ENTRY,
    GENERATIONS,
    MAIN,
    OF_ITEM,
    OWN,
    PASSES,
    REPORTED,
    REPORTED_PASSED,
    TEXT,
    UNREPORTED,
    beyond,
    item_of,
    main_of,
    otherwise,
    usual_prompt,
)
from engine.store.sample_rows import StoredSample
from engine.text.align import block_of, is_need_known
from engine.text.blocks import SPECIAL_TOKEN, BlockReading, FoundBlock, find_blocks, read_block
from engine.text.check import MISMATCH, check_sample
from engine.text.drift import needed_by_content
from engine.text.generated import units_between
from engine.text.match import Unit, match_units
from engine.text.template import block_spans, build_template
from engine.text.tokenizers import TextTokenizer

PROMPT_NOT_READ = "prompt SMILES cannot be read"
"""Our issue where there is no molecule to compare with; the text is kept and read all the same."""
FORCED_CLOSE = "position-blocklist"
"""How blocks are read where the LP is not known: nothing then tells that the model closed them itself."""


@dataclass(frozen=True, slots=True)
class ReportItem:
    """An item of ``passes`` or ``failures``, with the texts of all generations that it tells of."""

    passed: bool  # as the file has it
    smiles: str
    said: Mapping[str, Any]  # without the list of generations
    texts: tuple[str, ...]  # its own among them
    entries: tuple[Mapping[str, Any] | None, ...]  # what that list says beside a text
    main: int  # which of the texts the item speaks of
    listed: str | None  # how the list is written, unless as usual


def read_item(item: Any, listed_in: str, number: int) -> ReportItem:
    """One item, or an error that says where it is no such thing."""
    where = f"{listed_in}[{number}]"
    if not isinstance(item, dict):
        raise malformed(where, item, "an object")
    own = item.get(TEXT)
    if own is not None and not isinstance(own, str):
        raise malformed(f"{where}.{TEXT}", own, "text")
    is_listed = item.get(GENERATIONS) is not None
    listed = _generations(item[GENERATIONS], f"{where}.{GENERATIONS}") if is_listed else []
    if own is None and not listed:
        if listed_in == PASSES:
            raise FileFormatError(f"{where} has no {TEXT}", "Without a text there is nothing to import")
        own = ""  # what failed may have written nothing
    texts = [text for text, _ in listed]
    is_beside = own is not None and own not in texts
    if own is not None and is_beside:
        listed = [(own, None), *listed]
    how = (BESIDE if is_beside else ALONE if len(listed) == 1 else None) if is_listed else None
    return ReportItem(
        passed=listed_in == PASSES,
        smiles=_smiles_of(item, where, own or listed[0][0]),
        said={key: value for key, value in item.items() if key != GENERATIONS or not is_listed},
        texts=tuple(text for text, _ in listed),
        entries=tuple(entry for _, entry in listed),
        main=0 if own is None or is_beside else texts.index(own),
        listed=how,
    )


def _generations(listed: Any, where: str) -> list[tuple[str, dict[str, Any] | None]]:
    """Texts, alone or in objects; of an object also all else that it says."""
    if not isinstance(listed, list):
        raise malformed(where, listed, "a list")
    found: list[tuple[str, dict[str, Any] | None]] = []
    for number, entry in enumerate(listed):
        text = entry.get(TEXT) if isinstance(entry, dict) else entry
        if not isinstance(text, str):
            is_object = isinstance(entry, dict)
            raise malformed(f"{where}[{number}]{f'.{TEXT}' if is_object else ''}", text, "text")
        rest = {key: value for key, value in entry.items() if key != TEXT} if isinstance(entry, dict) else None
        found.append((text, rest))
    return found


def _smiles_of(item: Mapping[str, Any], where: str, text: str) -> str:
    said = item.get("prompt_smiles")
    if isinstance(said, str) and said.strip():
        return said
    if said is not None and not isinstance(said, str):
        raise malformed(f"{where}.prompt_smiles", said, "text")
    _, opened, behind = text.partition(SMILES_TAGS[0])
    smiles, closed, _ = behind.partition(SMILES_TAGS[1])
    if not (opened and closed and smiles.strip()):
        raise FileFormatError(f"{where} has no prompt_smiles, and none in its {TEXT}", "Add it, or leave the item out")
    return smiles


def malformed(where: str, found: Any, wanted: str) -> FileFormatError:
    kinds = {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "null"}
    said = "" if isinstance(found, dict | list | None) else f" ({shown(found, 30)})"
    return FileFormatError(f"{where} is {kinds.get(type(found), 'a number')}{said}, not {wanted}", "Mend it there")


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
    while True:
        while start < len(text) and text[start].isspace():
            start += 1
        special = SPECIAL_TOKEN.match(text, start)
        if special is None:
            return start
        start = special.end()


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
class _Prompt:
    """``molecule`` keeps the atoms' order of the prompt, as the text that follows it does."""

    smiles: str  # canonical, or as given where it does not read
    molecule: Molecule
    skeleton: str
    error: str | None = None

    @classmethod
    def of(cls, smiles: str) -> _Prompt:
        try:
            canonical = parse_smiles(smiles)
            molecule = canonical if canonical.smiles == smiles else _in_order(smiles.strip(), canonical)
            return cls(canonical.smiles, molecule, f"{OPEN_TAG}{skeleton_of(molecule)}{CLOSE_TAG}")
        except DriftscopeError as error:
            return cls(smiles, Molecule(smiles, smiles, (), (), 0, Chem.Mol()), "", error.what)

    @property
    def units(self) -> list[Unit]:
        return units_between(self.skeleton, [(start, end) for start, end in block_spans(self.skeleton).tolist()])


def _in_order(smiles: str, canonical: Molecule) -> Molecule:
    mol = read_text_order(smiles)
    elements = tuple(atom.GetSymbol() for atom in mol.GetAtoms())
    return Molecule(smiles, smiles, enriched_descriptors(smiles), elements, canonical.heavy_atoms, mol)


# --- reading ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TextReader:
    """Reads a file's texts as made under this LP. ``tokenizer`` is None where no template can be told."""

    lp: str | None
    placeholder: str
    tokenizer: TextTokenizer | None

    def samples(self, item: ReportItem, first: int) -> list[StoredSample]:
        """The item's generations as samples that count from ``first``."""
        prompt = _Prompt.of(item.smiles)
        units, free = prompt.units, self._free_positions(prompt)
        found = []
        for generation, decoded in enumerate(item.texts):
            before, text, after = split_text(decoded, item.smiles)
            blocks, check = self._judged(text, prompt, units, free)
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
            found.append((sample, before, after))
        main = main_of([sample.check.passed for sample, _, _ in found])
        return [replace(one[0], extra=_extra(item, *one, usual_main=main)) for one in found]

    def _free_positions(self, prompt: _Prompt) -> list[int] | None:
        """FREE positions that the template has for each atom."""
        if self.tokenizer is None or self.lp is None or prompt.error:
            return None
        template = build_template(prompt.skeleton, self.tokenizer, self.placeholder)
        free: list[int] = template.free_per_block.tolist()
        return free

    def _judged(
        self, text: str, prompt: _Prompt, units: Sequence[Unit], free: list[int] | None
    ) -> tuple[tuple[Block, ...], Check]:
        lp = self.lp or FORCED_CLOSE
        found = find_blocks(text)
        readings = [read_block(block.content, lp=lp, closed=block.closed) for block in found]
        check = check_sample(text, prompt.molecule, lp=lp, readings=readings)
        if prompt.error:
            issues = (PROMPT_NOT_READ, *(issue for issue in check.issues if issue != MISMATCH))
            check = replace(check, passed=False, clean=False, issues=issues, same_graph=False)
        return tuple(self._blocks(text, found, readings, units, free)), check

    def _blocks(
        self,
        text: str,
        found: Sequence[FoundBlock],
        readings: Sequence[BlockReading],
        units: Sequence[Unit],
        free: list[int] | None,
    ) -> list[Block]:
        atoms = match_units(units, units_between(text, [(block.start, block.end) for block in found]))
        needs = self._needs(found, readings) if free else [0] * len(found)
        blocks = []
        for index, (block, reading) in enumerate(zip(found, readings, strict=True)):
            atom = atoms[index]
            template_free = free[atom] if free and atom >= 0 else 0
            needed = needs[index] if free and atom >= 0 and is_need_known(reading) else None
            blocks.append(block_of(index, atom, block, reading, template_free, needed))
        return blocks

    def _needs(self, found: Sequence[FoundBlock], readings: Sequence[BlockReading]) -> list[int]:
        if self.tokenizer is None:
            return []
        numbers = [",".join(reading.numbers) for reading in readings]
        return needed_by_content(
            [(block.descriptor, one) for block, one in zip(found, numbers, strict=True)], self.tokenizer
        )


# --- what the file says otherwise ---------------------------------------------------------------------------------


def _extra(item: ReportItem, sample: StoredSample, before: str, after: str, *, usual_main: int) -> dict[str, Any]:
    extra: dict[str, Any] = {}
    if before != usual_prompt(sample.smiles):
        extra[BEFORE] = before
    if after:
        extra[AFTER] = after
    entry = item.entries[sample.generation]
    if sample.generation != item.main:
        is_plain = bool(entry) and OWN.isdisjoint(entry or ())
        return extra | ({} if entry is None else dict(entry) if is_plain else {ENTRY: entry})
    if entry is not None:
        extra[ENTRY] = entry
    if item.main != usual_main:
        extra[MAIN] = True
    if item.listed:
        extra[GENERATIONS] = item.listed
    if item.passed != sample.check.passed:
        extra[REPORTED_PASSED] = item.passed
    return extra | _said_otherwise(item, sample, before, after)


def _said_otherwise(item: ReportItem, sample: StoredSample, before: str, after: str) -> dict[str, Any]:
    row = {"smiles": sample.smiles, "text": sample.text} | {name: getattr(sample.check, name) for name in _CHECKED}
    ours = item_of(row, passed=item.passed, before=before, after=after)
    unknown = beyond(item.said, OF_ITEM, OWN)
    reported = otherwise(item.said, ours, unknown)
    unreported = [key for key in ours if key not in item.said]
    return unknown | ({REPORTED: reported} if reported else {}) | ({UNREPORTED: unreported} if unreported else {})


_CHECKED = (
    "generated_smiles",
    "extracted_smiles",
    "exact_match",
    "has_real_coordinates",
    "parsed",
    "parse_error",
    "same_graph",
    "issues",
)
