"""One text under both tokenizers: its tokens and their roles, its blocks, and their drift against a placeholder.

Drift is the placeholder's FREE positions minus the tokens that the three numbers need: *+1 junk-prone · 19 of 20*
leaves one position over; of a negative one a position LP with this placeholder would cut off the number's last digits.
It is hypothetical: no LP wrote the text. A SMILES has its template, and the text of a reference conformer (ETKDGv3,
seed 0, principal axes, four decimals) in place of its own. A text of bins does not say which: until they are chosen
its blocks are not judged. `judge --text` says whether the molecule is right.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from engine.chem.bin_files import BARE_BINS, CODES, OLDER_BINS
from engine.chem.enriched import skeleton_of
from engine.chem.other_forms import OTHER_WORDS, OtherForm, other_form
from engine.chem.smiles import parse_smiles
from engine.errors import DriftscopeError
from engine.figures.words import capitalised, counted, signed
from engine.lp_records import DEFAULT_PLACEHOLDER, usual_placeholder
from engine.questions.question import Column, Of, Option, Options, Tables, answer_text, rows_table
from engine.records import FIXED4, Alphabet, Block, CodeFormat, Molecule
from engine.store.store import Store
from engine.text.blocks import READ_FORMAT, count_junk, find_blocks
from engine.text.generated import ReadText, ReadToken, block_needs, read_text, read_tokens
from engine.text.placeholder import reference_text
from engine.text.template import Template, build_template, drift_sign
from engine.text.tokenizers import TextTokenizer, tokenizers_with

TITLE = "How do tokenizers split this text?"
OF = Of("text")
ALPHABETS: Mapping[str, Alphabet] = {**BARE_BINS, **OLDER_BINS, **CODES}
OPTIONS = (
    Option(
        "placeholder",
        DEFAULT_PLACEHOLDER,
        "Placeholder",
        help="What a position LP puts into every block of its template",
    ),
    Option("bins", "", "Bins", ("", *ALPHABETS), help="Where the bins of a text begin and end, or which codes it has"),
    Option("tokenizer_folder", "", "Another tokenizer", help="Path of a Hugging Face tokenizer folder on this machine"),
)
TEMPLATE = {
    "tokens": Column("tokens", help="Of the template"),
    "free": Column("FREE", help="Positions that the model fills"),
    "copy": Column("COPY", help="Positions that the LP forces"),
    "forced": Column("forced", "%", "COPY of all"),
}
COLUMNS = {
    "name": Column("tokenizer"),
    **TEMPLATE,
    **dict.fromkeys(("start", "end"), Column(is_hidden=True)),
    "is_beyond": Column("beyond", help="The template has no position for it: a position LP would cut it off"),
}
TABLES = ("tokenizers", "main", "tokens")
InputKind = Literal["smiles", "enriched", "coordinate", "text"] | OtherForm
MOST_CHARACTERS = 20_000
KIND_WORDS: dict[InputKind, str] = {
    "smiles": "Read as a SMILES: its template, and a reference conformer's drift against it",
    "enriched": "Read as enriched text",
    "coordinate": "Read as a coordinate",
    "text": "Read as plain text",
    **{form: f"Read as {words}. Its blocks are not judged" for form, words in OTHER_WORDS.items()},
}
_COORDINATE = re.compile(r"<?\s*-?\d+(?:\.\d*)?\s*,[-\d.,\s]*>?", re.ASCII)
_ATOM_AND_BLOCK = re.compile(r"\]<(?!-\[)")


@dataclass(frozen=True, slots=True)
class Split:
    """A text under one tokenizer, or of a SMILES its template, and the need of the text's blocks."""

    by: TextTokenizer
    read: ReadText
    needs: Sequence[Block]  # none of codes, of which no template counts positions
    template: Template | None

    def tokens(self) -> list[dict[str, Any]]:
        tokens = read_tokens(self.template or self.read, self.by)
        beyond = set() if self.template or not self.needs else beyond_template(tokens, self.needs)
        return [
            {"tokenizer": self.by.name, "column": column, **asdict(token), "is_beyond": column in beyond}
            for column, token in enumerate(tokens)
        ]

    def figures(self) -> dict[str, Any]:
        drifts = [block.drift for block in self.needs]
        known = [drift for drift in drifts if drift is not None]
        more = " …" if len(drifts) > 6 else ""
        made = self.template
        return {
            "name": self.by.title,
            "blocks": len(self.read.blocks),
            "cut": sum(drift < 0 for drift in known),
            "junk_prone": sum(drift > 0 for drift in known),
            "drifts": ", ".join(map(drift_words, drifts[:6])) + more,
            "tokens": made and made.tokens,
            "free": made and made.free,
            "copy": made and made.copy,
            "forced": made and made.copy / made.tokens,
        }


def tables(store: Store, texts: Sequence[str], options: Options) -> Tables:
    (text,) = texts
    bins = ALPHABETS.get(options["bins"])
    return text_tables(text, tokenizers_with(options["tokenizer_folder"]), options["placeholder"], bins)


def text_tables(
    text: str, tokenizers: Sequence[TextTokenizer], placeholder: str, bins: Alphabet | None = None
) -> Tables:
    if len(text) > MOST_CHARACTERS:
        raise DriftscopeError(f"the text has {len(text):,} characters, the limit is {MOST_CHARACTERS:,}", "Shorten it")
    kind, molecule, written, note = as_written(text)
    form, used = (READ_FORMAT, placeholder) if bins is None else (bins, usual_placeholder(bins))
    splits = []
    for by in tokenizers:
        template = None if molecule is None else build_template(skeleton_of(molecule), by, placeholder)
        read = read_text(written, by, form)
        needs = [] if isinstance(form, CodeFormat) else block_needs(read, by, used, form)
        splits.append(Split(by, read, needs, template))
    count = count_junk(splits[0].read.readings)
    is_other = bins is None and kind in OTHER_WORDS
    facts: dict[str, Any] = {
        "kind": kind,
        "words": KIND_WORDS[kind] if bins is None else f"Read as text of {bins.words}",
        "placeholder": used,
        "written": written,
        "is_judged": count.blocks > 0 and not is_other,
        "blocks": count.blocks,
        "letters": count.letters,
        "not_triples": count.not_triples,
        "nonnumeric": count.nonnumeric,
    }
    blocks = _blocks(splits) if facts["is_judged"] else []
    return {
        "main": rows_table(blocks, ["block", "atom", "text", "kinds", "junk"]),
        "tokenizers": rows_table([split.figures() for split in splits], ["name", *TEMPLATE]),
        "tokens": rows_table([row for split in splits for row in split.tokens()], ["tokenizer", "column", "piece"]),
        "facts": rows_table([facts]),
        "notes": rows_table([{"note": note}] if note else [], ["note"]),
    }


def as_written(text: str) -> tuple[InputKind, Molecule | None, str, str]:
    """The text, or of a SMILES its molecule and the text of a reference conformer; a note where there is none."""
    kind = kind_of_input(text)
    if kind != "smiles":
        return kind, None, text, ""
    try:
        molecule = parse_smiles(text)
    except DriftscopeError as error:
        return "text", None, text, str(error)
    try:
        return kind, molecule, reference_text(molecule.smiles, FIXED4), ""
    except DriftscopeError as error:
        return kind, molecule, "", str(error)


def kind_of_input(text: str) -> InputKind:
    """What somebody has pasted, by its shape: no tokenizer and no molecule is needed to say so."""
    bare = text.strip()
    if (form := other_form(bare)) is not None:
        return form
    if _ATOM_AND_BLOCK.search(bare):
        return "enriched"
    if _COORDINATE.fullmatch(bare) or (bare.startswith("<") and find_blocks(bare)):
        return "coordinate"
    return "smiles" if bare and not any(char.isspace() for char in bare) and bare.isascii() else "text"


def beyond_template(tokens: Sequence[ReadToken], needs: Sequence[Block]) -> set[int]:
    """Indices of the tokens for which the template has no position left: what a position LP would cut off."""
    seen: Counter[int] = Counter()
    beyond = set()
    for index, item in enumerate(tokens):
        if item.block is not None and item.role == "FREE" and not item.is_junk:
            seen[item.block] += 1
            if seen[item.block] > needs[item.block].template_free:
                beyond.add(index)
    return beyond


def _blocks(splits: Sequence[Split]) -> list[dict[str, object]]:
    read, rows = splits[0].read, []
    for index, (block, reading) in enumerate(zip(read.blocks, read.readings, strict=True)):
        rows.append(
            {
                "block": index,
                "atom": block.descriptor,
                "text": block.content,
                "kinds": ", ".join(kind.replace("_", " ") for kind in reading.kinds),
                "junk": reading.junk_text or "",
                **{f"{split.by.title}: drift": need_words(split.needs[index]) for split in splits if split.needs},
            }
        )
    return rows


def need_words(need: Block) -> str:
    """A block's drift, and how many tokens it needs of those that the template has: "-1 · 9 of 8"."""
    tokens = "" if need.needed is None else f" · {need.needed} of {need.template_free}"
    return drift_words(need.drift) + tokens


def drift_words(drift: int | None) -> str:
    """A drift as the app writes it everywhere."""
    if drift is None:
        return "unknown"
    word = drift_sign(drift)
    return word if drift == 0 else f"{signed(drift)} {word}"


def template_words(tables: Tables) -> str:
    """What a template of this placeholder would do to the text's blocks: no LP wrote it."""
    parts = [
        f"{row['name']} {row['cut']} of {counted(row['blocks'], 'block')} cut, {row['junk_prone']} junk-prone"
        for row in tables["tokenizers"].to_pylist()
    ]
    placeholder = tables["facts"]["placeholder"][0]
    return (
        f"Hypothetical, in a template of {placeholder}: {'; '.join(parts)}. A line marks tokens for which it has no "
        "position; the text has them all the same. In the Drift inspector, cut means that an LP did close the number."
    )


def answer(tables: Tables, options: Options) -> str:
    (facts,) = tables["facts"].to_pylist()
    lines = [f"{facts['words']}."]
    if facts["is_judged"]:
        lines += [template_words(tables).partition(" A line marks")[0]]
        of = f"{facts['not_triples']} of {counted(facts['blocks'], 'block')} not three numbers"
        lines += [f"{of}, {facts['letters']} with a letter, {facts['nonnumeric']} with anything not numeric."]
    return answer_text(lines, map(capitalised, tables["notes"]["note"].to_pylist()))
