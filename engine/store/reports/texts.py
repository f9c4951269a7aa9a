"""The items of a report file as samples: texts cut out of ``decoded_text``, read and checked anew by our own code.

A file has text only, and ids cannot be recovered from it: under a position LP the model's tokens need not be those of
its text. So ``token_ids`` and junk in tokens stay null; blocks are found in the text, atoms are matched by what they
are, and drift is computed where a block has three whole numbers and the tokenizer and the placeholder are known. The
model's masses are unknown too: a clean triple that an LP closed is ``unverified``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rdkit import Chem

from engine.chem.enriched import CLOSE_TAG, OPEN_TAG, SMILES_TAGS, described, prompt_of, prompt_smiles, skeleton_of
from engine.chem.smiles import in_text_order, parse_smiles
from engine.errors import DriftscopeError, FileFormatError
from engine.lp_records import UNKNOWN_LP, stored_lp
from engine.records import Descriptors, Molecule, NumberFormat
from engine.store.sample_rows import Row, block_rows, sample_row
from engine.text.blocks import READ_FORMAT, SPECIAL_TOKEN, find_blocks, read_block
from engine.text.check import MISMATCH, asks_for_another, check_sample
from engine.text.generated import blocks_of, match_units, units_between
from engine.text.template import block_spans, build_template
from engine.text.tokenizers import TextTokenizer

METADATA, PASSES, FAILURES, GENERATIONS, TEXT = "metadata", "passes", "failures", "all_generations", "decoded_text"
SAME = ("model_alias", "model_step", "placeholder", "descriptors", "sampling", "batch_size", "kv_cache", "attention")
METADATA_COLUMNS = {
    **{name: name for name in SAME},
    "timestamp": "created_at",
    "tokenizer_name": "tokenizer",
    "num_generations": "generations",
    "total_generations": "samples",
}
TOTALS = {"time_taken": "wall_s", "total_chars_raw": "chars_raw", "total_chars_clean": "chars_clean"}
OF_PASS = {
    "prompt_smiles": "smiles", "generated_smiles": "generated_smiles", "smiles_exact_match": "exact_match",
    "has_real_coordinates": "has_real_coordinates", "parse_success": "parsed", TEXT: TEXT,
}  # fmt: skip
OF_FAILURE = {
    "prompt_smiles": "smiles", "issues": "issues", TEXT: TEXT, "parse_error": "parse_error",
    "generation_has_same_molecular_graph": "same_graph", "extracted_smiles": "extracted_smiles",
}  # fmt: skip
"""The keys of a file, and our columns that say the same."""
KNOWN = {*OF_PASS, *OF_FAILURE, "generated_smiles_from_conformer", GENERATIONS}
BEFORE, REPORTED_PASSED = "text_before", "reported_passed"
"""Keys of a sample's ``extra`` that are not the file's: what precedes its answer, where that is not the usual prompt,
and the file's own verdict, where our check says otherwise."""
PROMPT_NOT_READ = "prompt SMILES cannot be read"
"""Our issue where there is no molecule to compare with; the text is kept and read all the same."""
_PADDING = re.compile(rf"(?:\s|{SPECIAL_TOKEN.pattern})++")


@dataclass(frozen=True, slots=True)
class ReportItem:
    """An item of ``passes`` or ``failures``, with the texts of all generations that it tells of."""

    passed: bool  # as the file has it
    smiles: str
    texts: tuple[str, ...]
    extras: tuple[Mapping[str, Any], ...]  # what the file says of each text that has no column
    main: int  # which of the texts the item speaks of


def read_item(item: Mapping[str, Any], listed_in: str, number: int) -> ReportItem:
    """One item, whose keys have values of the right kinds; an error where it says too little."""
    where, own, listed = f"{listed_in}[{number}]", item.get(TEXT), item.get(GENERATIONS)
    if own is None and not listed:
        if listed_in == PASSES:
            raise FileFormatError(f"{where} has no {TEXT}", "Without a text there is nothing to import")
        own = ""  # what failed may have written nothing
    told = [{TEXT: one} if isinstance(one, str) else one for one in listed or ()]
    texts = [one[TEXT] for one in told]
    extras = [{key: value for key, value in one.items() if key not in KNOWN} for one in told]
    if own is not None and own not in texts:
        texts, extras = [own, *texts], [{}, *extras]
    main = 0 if own is None else texts.index(own)
    extras[main] |= {key: value for key, value in item.items() if key not in KNOWN}
    smiles = item.get("prompt_smiles") or ""
    if not smiles.strip() and not (smiles := prompt_smiles(own or texts[0])).strip():
        raise FileFormatError(f"{where} has no prompt_smiles, and none in its {TEXT}", "Add it, or leave the item out")
    return ReportItem(listed_in == PASSES, smiles, tuple(texts), tuple(extras), main)


def split_text(decoded: str, smiles: str) -> tuple[str, str, str]:
    """What precedes the answer (padding, prompt), the answer from its tag on, and what follows it (end and pad tokens).
    Joined they are the text again."""
    end = next((run.start() for run in _PADDING.finditer(decoded) if run.end() == len(decoded)), len(decoded))
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


def _prompt(smiles: str, descriptors: Descriptors) -> tuple[str, Molecule, str]:
    """Its canonical SMILES, the molecule with the prompt's order of atoms, and its text without numbers; as given,
    without atoms, and empty where it does not read."""
    try:
        canonical = parse_smiles(smiles)
        molecule = described(in_text_order(canonical, smiles), descriptors)
        return canonical.smiles, molecule, f"{OPEN_TAG}{skeleton_of(molecule)}{CLOSE_TAG}"
    except DriftscopeError:
        return smiles, Molecule(smiles, smiles, (), (), 0, Chem.Mol()), ""


@dataclass(frozen=True, slots=True)
class TextReader:
    """Reads a file's texts as made under this LP. ``tokenizer`` is None where no template can be told."""

    lp: str | None
    placeholder: str
    tokenizer: TextTokenizer | None
    form: NumberFormat = READ_FORMAT

    def samples(self, item: ReportItem, first: int) -> Iterator[tuple[Row, list[Row]]]:
        """The item's generations as rows of samples, which count from ``first``, and of their blocks."""
        lp = self.lp or UNKNOWN_LP.name
        smiles, molecule, skeleton = _prompt(item.smiles, stored_lp(self.lp).descriptors or "plain")
        units = units_between(skeleton, [(start, end) for start, end in block_spans(skeleton).tolist()])
        free: list[int] | None = None  # FREE positions of each atom's block
        if self.tokenizer is not None and self.lp is not None and skeleton:
            free = build_template(skeleton, self.tokenizer, self.placeholder).free_per_block.tolist()
        for generation, decoded in enumerate(item.texts):
            before, text, after = split_text(decoded, item.smiles)
            places = find_blocks(text)
            readings = [read_block(block.content, form=self.form, lp=lp, closed=block.closed) for block in places]
            check = check_sample(text, molecule, lp=lp, readings=readings)
            if not skeleton:
                issues = (PROMPT_NOT_READ, *(issue for issue in check.issues if issue != MISMATCH))
                check = replace(check, passed=False, decodes=False, clean=False, issues=issues, same_graph=False)
            if asks_for_another(before, molecule):
                check = replace(check, decodes=False, clean=False)
            atoms = match_units(units, units_between(text, [(block.start, block.end) for block in places]))
            extra = dict(item.extras[generation])
            if before != prompt_of(smiles):
                extra[BEFORE] = before
            if generation == item.main and item.passed != check.passed:
                extra[REPORTED_PASSED] = item.passed
            blocks = blocks_of(places, readings, atoms, free, self.tokenizer)
            own = {"sample_id": first + generation, "generation": generation, "smiles": smiles, "text": text}
            if skeleton:
                own |= {"heavy_atoms": molecule.heavy_atoms, "atoms": molecule.atoms}
            own["stop_reason"] = "end" if after.strip() else None
            unknown = dict.fromkeys(("junk_tokens", "template_free") if free is None else ("junk_tokens",))
            yield sample_row(check, blocks, extra, **own), block_rows(first + generation, blocks, **unknown)
