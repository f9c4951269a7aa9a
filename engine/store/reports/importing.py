"""Report files in: the JSON that the reports' runner writes for a run, plain or gz, as a run of the store.

A file's metadata and totals go into the run's columns, and what has no column into ``extra``; samples, blocks, junk and
passes are counted again, from its texts. The file itself is kept with them. A run's id is a hash of the file's content,
so one file is imported once, whatever its name and compression.

A file has text only, and ids cannot be recovered from it: under a position LP the model's tokens need not be those of
its text. So ``token_ids`` and junk in tokens stay null, and drift is computed where a block has three whole numbers and
the tokenizer and the placeholder are known. The model's masses are unknown too: a clean triple that an LP closed is
``unverified``.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import math
import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from itertools import accumulate, chain
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from engine.chem.enriched import CLOSE_TAG, OPEN_TAG, SMILES_TAGS, described, prompt_of, skeleton_of
from engine.chem.other_forms import OTHER_WORDS, other_form
from engine.chem.pools import PoolConformer, pool_records, read_pool
from engine.chem.smiles import in_text_order, parse_smiles, unread
from engine.decode.plan import PRESETS
from engine.errors import DriftscopeError, FileError, PlaceholderError, shown
from engine.figures.words import counted
from engine.lp_records import ALIASES, LPS, NO_LP, LpRecord, full_name, split_cleanup, stored_lp, usual_placeholder
from engine.models.registry import load_registry
from engine.records import (
    DESCRIPTORS,
    SPELLED,
    Alphabet,
    Block,
    Check,
    CodeFormat,
    Descriptors,
    Kind,
    Molecule,
    NumberFormat,
)  # fmt: skip
from engine.store import reports as keys
from engine.store.entries import Entry, number_format_of
from engine.store.sample_rows import Row, block_rows, sample_row, sums_of, tables_of
from engine.store.schema import CONFORMERS, REPORT_FILES, RUN
from engine.store.staging import Staging, begun_anew, totals
from engine.store.store import Store
from engine.text.blocks import PROMPT, READ_FORMAT, RULES, SPECIAL_TOKEN, find_blocks, found_form, read_blocks
from engine.text.check import MISMATCH, answer_start, asks_for_another, check_sample, find_answer, shown_descriptors
from engine.text.generated import Unit, atoms_of_units, blocks_of, match_blocks, template_units
from engine.text.template import build_template, check_placeholder
from engine.text.tokenizer_build import RECIPES
from engine.text.tokenizers import TextTokenizer, load_tokenizer
from engine.user_files import open_file, parsed_json

MOST_BYTES = 512 * 1024**2
"""Of a file's JSON, which is held in memory whole."""
GROUP = 500
"""Samples that are written together."""
_GZ = b"\x1f\x8b"
_HALF = re.compile(r"\\u[dD][89a-fA-F]")
_VERSION = re.compile(r"\D*(\d)[._]?(\d)(?:\.\d+)*\D*", re.ASCII)
_FAMILIES = (("qwen", "Qwen"), ("llama", "LLaMA"), ("m380", "LLaMA"))
_TOKENIZERS = ("qwen3", "llama3")
PROMPT_NOT_READ = "prompt SMILES cannot be read"
"""Our issue where there is no molecule to compare with; the text is kept and read all the same."""
_PADDING = re.compile(rf"(?:\s|{SPECIAL_TOKEN.pattern})++")
_MOST = 2**53

_UNFIT: frozenset[Kind] = frozenset((
    "outside_bins", "missing_z", "missing_digit", "extra_digit", "fourth_number", "integer",
    "outside_codes", "missing_code", "misplaced_code",
))  # fmt: skip
"""What blocks of other bins, or codes, are."""

RuleName = Literal["passed", "decodes"]
_Number = Annotated[float, msgspec.Meta(ge=0, lt=_MOST)]
_Whole = Annotated[int, msgspec.Meta(ge=0, lt=_MOST)]


class _Generation(msgspec.Struct):
    decoded_text: str


class _Item(msgspec.Struct):
    prompt_smiles: str | None = None
    decoded_text: str | None = None
    all_generations: list[str | _Generation] | None = None


class _Metadata(msgspec.Struct):
    logit_processor_enabled: bool | None = None
    num_generations: _Whole | None = None
    batch_size: _Whole | None = None


class _Report(msgspec.Struct):
    """Of what kind the values are under the keys that are read; others may be anything."""

    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    passes: list[_Item] = []
    failures: list[_Item] = []
    time_taken: _Number | None = None
    total_chars_raw: _Whole | None = None
    total_chars_clean: _Whole | None = None


@dataclass(frozen=True, slots=True)
class ReportItem:
    """An item of ``passes`` or ``failures``, with the texts of all generations that it tells of."""

    passed: bool  # as the file has it
    smiles: str
    texts: tuple[str, ...]
    extras: tuple[Mapping[str, Any], ...]  # what the file says of each text that has no column
    main: int  # which of the texts the item speaks of


@dataclass(frozen=True, slots=True)
class RunOfFile:
    """A run's row as far as the file gives it, and how its texts are read: as made under this LP."""

    row: Mapping[str, Any]
    lp: str | None
    tokenizer: TextTokenizer | None  # None where no template can be made
    form: NumberFormat | None  # as its texts show; None where they are too few
    rule: tuple[RuleName, str]  # that the file goes by: our check of it, and in words
    contradiction: str = ""  # what its texts show otherwise than the file or its LP has it

    @property
    def numbers(self) -> NumberFormat:
        """What its blocks are read with."""
        return self.form or READ_FORMAT

    def samples(
        self, item: ReportItem, first: int, templates: dict[tuple[str, ...], _Template] | None = None
    ) -> Iterator[tuple[Row, list[Row]]]:
        """The item's generations as rows of samples, which count from ``first``, and of their blocks. ``templates`` are
        kept for the next item."""
        molecule, smiles = asked_molecule(item.smiles)
        templates = {} if templates is None else templates
        for generation, decoded in enumerate(item.texts):
            before, text, after = split_text(decoded, item.smiles, molecule)
            written = as_prompted(before, molecule, smiles)
            kind = shown_descriptors(written, text, self.numbers) or self.row.get("descriptors") or "plain"
            written = described(written, kind)
            if (key := (written.smiles, kind)) not in templates:
                templates[key] = self._template(written)
            check, blocks = self._read(text, molecule, templates[key])
            if asks_for_another(find_answer(before, molecule), molecule):
                check = replace(check, decodes=False, clean=False, clean_each=(False,) * check.conformers)
            extra = dict(item.extras[generation])  # what the file says besides, and what it says otherwise than we do
            if before != prompt_of(smiles):
                extra[keys.BEFORE] = before
            if molecule.smiles != smiles:
                extra[keys.ASKED] = molecule.smiles
            if generation == item.main and item.passed != check.passed:
                extra[keys.REPORTED_PASSED] = item.passed
            row = {
                "sample_id": first + generation,
                "generation": generation,
                "smiles": smiles,
                "text": text,
                "heavy_atoms": molecule.heavy_atoms if molecule.atoms else None,
                "atoms": molecule.atoms or None,
                "stop_reason": "end" if after.strip() else None,
            }
            unknown = ("junk_tokens",) if templates[key].free else ("junk_tokens", "template_free")
            yield (
                sample_row(check, blocks, extra, row),
                block_rows(first + generation, blocks, **dict.fromkeys(unknown)),
            )

    def _template(self, molecule: Molecule) -> _Template:
        if not molecule.atoms:
            return _Template([], None)
        form = self.numbers
        skeleton = f"{OPEN_TAG}{skeleton_of(molecule, form=form)}{CLOSE_TAG}"
        units = template_units(skeleton, form)
        if self.tokenizer is None or self.lp is None:
            return _Template(units, None)
        placeholder = self.row.get("placeholder", usual_placeholder(form))
        template = build_template(skeleton, self.tokenizer, placeholder, form=form)
        return _Template(units, template.free_per_block.tolist())

    def _read(self, text: str, molecule: Molecule, template: _Template) -> tuple[Check, list[Block]]:
        lp = stored_lp(self.lp)
        form = self.numbers
        found = find_blocks(text, self.numbers)
        readings = read_blocks(found, form=form, lp=lp.name)
        check = check_sample(text, molecule, lp=lp.name, readings=readings, form=form)
        if not molecule.atoms:
            issues = (PROMPT_NOT_READ, *(issue for issue in check.issues if not issue.endswith(MISMATCH)))
            none = (False,) * check.conformers
            check = replace(check, passed=False, decodes=False, clean=False, issues=issues, same_graph=False)
            check = replace(check, passed_each=none, clean_each=none)
        atoms, conformers = match_blocks(template.units, text, found)
        blocks = blocks_of(found, readings, atoms, template.free, self.tokenizer, form, conformers)
        of_units = [*atoms_of_units(template.units, form), -1]
        return check, [replace(block, atom=of_units[block.atom]) for block in blocks]


@dataclass(frozen=True, slots=True)
class _Template:
    """What an answer of a molecule is matched with."""

    units: list[Unit]  # of its atoms
    free: list[int] | None  # FREE positions of each atom's block; None where they are not known


def as_prompted(before: str, molecule: Molecule, smiles: str) -> Molecule:
    """The molecule in the order in which the text's own prompt has it, which the answer follows."""
    prompts = PROMPT.findall(before)
    prompted, canonical = asked_molecule(prompts[-1].strip()) if prompts else (molecule, "")
    return prompted if canonical == smiles else molecule


@lru_cache(maxsize=1_024)
def asked_molecule(smiles: str) -> tuple[Molecule, str]:
    """The molecule of a prompt in the order of its SMILES, with plain descriptors, and its canonical SMILES; without
    atoms, and as it stands, where it cannot be read."""
    with suppress(DriftscopeError):
        canonical = parse_smiles(smiles)
        return in_text_order(canonical, smiles), canonical.smiles
    return unread(smiles), smiles


def import_report(
    store: Store,
    path: Path,
    *,
    label: str | None = None,
    tokenizer: str | None = None,
    bins: Alphabet | None = None,
    conformers: Path | None = None,
    progress: Callable[..., object] = lambda done, share, samples: None,
    warn: Callable[[str], object] = lambda text: None,
) -> Entry:
    """Read a report file into the store, unless it is there. ``tokenizer`` (a name or a folder) replaces the one that
    the file names; ``bins`` are those of its texts, which do not say where bins begin and end; ``conformers`` a file
    with the molecules that its texts became: of each SMILES the first is of its first text, and so on; ``progress``
    hears how many ``samples`` are read, and which share that is of all; ``warn`` gets what its texts contradict."""
    content = file_content(path)
    try:
        document = _parsed(content)
        items, of_texts = _items(document, bins)
        run_id = f"imported-{hashlib.sha256(content).hexdigest()[:16]}"
        if store.has(run_id):
            entry = store.entry(run_id)
            if bins is not None and number_format_of(entry) != bins:
                raise FileError(f"it is imported as {entry.id}, with other bins", "Remove that run first")
            return entry
        run = read_run(document, items, tokenizer, of_texts)
        if run.contradiction:
            warn(f"{shown(path.name)}: {run.contradiction}")
        row = {**run.row, "source": path.name} | ({} if label is None else {"label": label})
        form = {} if run.form is None else {"form": asdict(run.form)}
        with begun_anew(store.home, RUN, run_id, row) as staging:
            file = REPORT_FILES.rows([{"run_id": run_id, "content": content.decode()}])
            staging.add({REPORT_FILES.name: file}, number=0)
            places = None if conformers is None else _Places(conformers)
            columns = _write(staging, items, run, progress, places)
            if places is not None:
                columns["notes"] += f" {places.words}"
                for warning in places.warnings():
                    warn(f"{shown(places.name)}: {warning}")
            return staging.publish(columns, **form)
    except (FileError, PlaceholderError) as error:
        raise FileError(f"{shown(path.name)}: {error.what}", error.fix) from error
    except RecursionError as error:
        raise FileError(f"{shown(path.name)}: lists and objects are nested too deep", "Write it again") from error


def _write(
    staging: Staging,
    items: Sequence[ReportItem],
    run: RunOfFile,
    progress: Callable[..., object],
    places: _Places | None = None,
) -> dict[str, Any]:
    """Write all samples; the columns of the run."""
    waiting, blocks = list[Row](), list[Row]()
    done = 0
    whole = run.row["samples"]
    number = 1
    differing = 0
    molecules: set[str] = set()
    for item in items:
        for generation, (sample, of_sample) in enumerate(run.samples(item, done)):
            waiting.append(sample)
            blocks += of_sample
            molecules.add(sample["smiles"])
            differing += generation == item.main and sample[run.rule[0]] != item.passed
        done += len(item.texts)
        if len(waiting) >= GROUP or done == whole:
            sums = sums_of(waiting, blocks, run.numbers)
            tables = tables_of(staging.id, waiting, blocks)
            if places is not None:
                tables[CONFORMERS.name] = CONFORMERS.rows(places.rows(staging.id, waiting))
            staging.add(tables, sums=sums, number=number)
            waiting = []
            blocks = []
            number = number + 1
        progress(done, done / whole, samples=whole)
    notes = run.row["notes"]
    if differing:
        notes = f"{notes[:-1]}; of {differing:,} samples our check of {run.rule[0]} says otherwise."
    return {**totals(staging.groups()), "molecules": len(molecules), **run.row, "notes": notes}


class _Places:
    """Conformers that came beside the texts, by molecule, in their order."""

    def __init__(self, path: Path) -> None:
        self.name = path.name
        self._left: dict[str, list[PoolConformer]] = defaultdict(list)
        for conformer in read_pool(pool_records(path, ["molecules"]), None):
            self._left[asked_molecule(conformer.asked)[1]].append(conformer)
        for queue in self._left.values():
            queue.reverse()
        self._molecules = Counter({smiles: len(queue) for smiles, queue in self._left.items()})
        self._texts = Counter[str]()
        self._given, self._of_others = 0, 0

    def rows(self, run_id: str, samples: Sequence[Row]) -> list[Row]:
        """Of the table ``conformers``. A molecule without coordinates stands for a text that became none."""
        rows = []
        if any(sample["conformers"] > 1 for sample in samples):
            raise FileError("a text has several conformers", "Leave --conformers out: it has one molecule of a text")
        self._texts.update(sample["smiles"] for sample in samples)
        for sample in samples:
            queue = self._left.get(sample["smiles"])
            conformer = queue.pop() if queue else None
            if conformer is not None and conformer.xyz:
                ids = {"run_id": run_id, "sample_id": sample["sample_id"]}
                rows.append({**ids, "smiles": conformer.smiles, "xyz": conformer.xyz})
                self._of_others += conformer.same_graph is False
        self._given += len(rows)
        return rows

    @property
    def words(self) -> str:
        return (
            f"Conformers of {self._given:,} texts by their index in {self.name}, which has {self._molecules.total():,}."
        )

    def warnings(self) -> Iterator[str]:
        """Once all texts have theirs; FileError where none has one."""
        if not self._given:
            problem = f"no molecule of {shown(self.name)} is of one of its texts, or none has coordinates"
            raise FileError(problem, "Give the conformers that these texts became")
        if self._of_others:
            yield f"conformers of other molecules than asked: {self._of_others:,}"
        smiles = self._texts | self._molecules
        differing = [one for one in smiles if self._texts[one] != self._molecules[one]]
        if differing:
            molecules, texts = self._molecules[differing[0]], self._texts[differing[0]]
            example = f"{shown(differing[0])} {counted(molecules, 'molecule')}, {counted(texts, 'text')}"
            yield f"of {len(differing):,} of {len(smiles):,} SMILES not as many molecules as texts: {example}"


def rows_again(
    content: bytes, tokenizer: str | None, form: NumberFormat | None = None
) -> tuple[RunOfFile, Iterator[tuple[Row, list[Row]]]]:
    """Of a file that was imported: its run, and its samples with their blocks as they are read now. ``form`` is the
    run's, of which bins are not found again."""
    document = _parsed(content)
    items, of_texts = _items(document, form if isinstance(form, Alphabet) else None)
    run = read_run(document, items, tokenizer, of_texts)
    firsts = accumulate((len(item.texts) for item in items), initial=0)
    return run, chain.from_iterable(map(run.samples, items, firsts))


# --- the file -----------------------------------------------------------------------------------------------------


def file_content(path: Path) -> bytes:
    """The file's JSON, unpacked."""
    with open_file(path) as file:
        source = gzip.GzipFile(fileobj=file) if file.peek(len(_GZ)).startswith(_GZ) else file
        try:
            content = source.read(MOST_BYTES + 1)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            problem = f"{shown(path.name)} is no whole gz file: {error}"
            raise FileError(problem, "Compress it again") from error
    if len(content) > MOST_BYTES:
        problem = f"{shown(path.name)} holds over {MOST_BYTES / 1024**3:g} GiB of JSON"
        raise FileError(problem, "Split it by its samples")
    return content


def _parsed(content: bytes) -> dict[str, Any]:
    def finite(digits: str) -> float | None:
        return value if math.isfinite(value := float(digits)) else None

    try:  # Python writes NaN and Infinity, which JSON does not have
        text = content.decode("utf-8-sig")
        document = parsed_json(text, parse_float=finite, parse_constant=lambda _: None)
        msgspec.convert(document, _Report)
    except json.JSONDecodeError as error:
        ends = "Unterminated" in error.msg or not text[error.pos :].strip()
        what = "it ends early" if ends else "it is no report"
        raise FileError(f"{what}: {error}", "Copy it again") from error
    except ValueError as error:
        raise FileError(f"it is no report: {error}", "Correct it there") from error
    if _HALF.search(text):  # halves of a character outside the BMP, which no text can hold, become a question mark
        whole = json.dumps(document, ensure_ascii=False).encode("utf-16", "surrogatepass")
        document = json.loads(whole.decode("utf-16", "replace"))
    return dict(document)


def _items(document: Mapping[str, Any], bins: Alphabet | None) -> tuple[list[ReportItem], TextBins | None]:
    """Texts of another format are refused all together: as enriched text they would count as clean or as junk. Those of
    bins are read where it is known which: by ``bins``, or by the registry's entry of the model that the file names."""
    parts = ((part, document.get(part, ())) for part in (keys.PASSES, keys.FAILURES))
    items = [read_item(item, part, number) for part, listed in parts for number, item in enumerate(listed)]
    if not items:
        raise FileError("it has no passes and no failures", "It is no report file, or there is nothing to import")
    answers = [split_text(text, item.smiles)[1] for item in items for text in item.texts]
    forms = Counter(map(other_form, answers))
    of_texts = None
    if bins:
        of_texts = TextBins(bins, "as given")
    elif forms["bins"] + forms["binned"] + forms["codes"]:
        of_texts = _bins_of_model(document)
    if of_texts is not None:
        check_bins(of_texts, answers)
        return items, of_texts
    if form := next((form for form in OTHER_WORDS if forms[form]), None):
        rest = ", the others are not: it mixes formats" if forms[form] < forms.total() else ""
        problem = f"{forms[form]:,} of its {forms.total():,} texts are {OTHER_WORDS[form]}{rest}"
        fixes = {"bins": "Give --bins FILE.json: the texts do not say where the bins begin and end"}
        fixes["codes"] = "Give --bins FILE.json, a file of mode fsq: how many codes there are, and their decoder"
        fixes["binned"] = f"{fixes['bins']}. Of these in brackets --bins WIDTH RANGE, such as 0.042 21"
        raise FileError(problem, fixes.get(form, "Write the file with enriched text alone"))
    return items, None


@dataclass(frozen=True, slots=True)
class TextBins:
    """The bins of a file's texts, and who says so."""

    form: Alphabet
    source: str


def _bins_of_model(document: Mapping[str, Any]) -> TextBins | None:
    """Those of the model that the file names, where it is registered with bins."""
    metadata = document.get(keys.METADATA, {})
    alias, step = (_text(metadata.get(key)) or "" for key in ("model_alias", "model_step"))
    with suppress(DriftscopeError):
        entry = load_registry().find(alias, step)
        if alias and isinstance(entry.numbers, Alphabet):
            return TextBins(entry.numbers, f"as the registry has them of {entry.name}")
    return None


def check_bins(bins: TextBins, answers: Sequence[str]) -> None:
    """An error where most blocks of the texts are not three numbers of these bins: another width, or other numbers."""
    form = bins.form
    readings = [one for text in answers for one in read_blocks(find_blocks(text, form), form=form, lp=NO_LP)]
    fitting = sum(_UNFIT.isdisjoint(reading.kinds) for reading in readings)
    if 2 * fitting <= len(readings):
        blocks = f"{fitting:,} of {len(readings):,} blocks are" if readings else "no block is"
        wanted = "one" if isinstance(form, CodeFormat) else "three numbers"
        problem = f"its texts do not fit the {form.name} {bins.source}: {blocks} {wanted} of {form.words}"
        raise FileError(problem, f"Give the {form.name} that its model writes")


def read_item(item: Mapping[str, Any], listed_in: str, number: int) -> ReportItem:
    """One item, with values of the right kinds; an error where it says too little."""
    where = f"{listed_in}[{number}]"
    text = item.get(keys.TEXT)
    listed = item.get(keys.GENERATIONS)
    if text is None and not listed:
        if listed_in == keys.PASSES:
            raise FileError(f"{where} has no {keys.TEXT}", "Without a text there is nothing to import")
        text = ""  # what failed may have written nothing
    answers = [{keys.TEXT: answer} if isinstance(answer, str) else answer for answer in listed or ()]
    texts = [answer[keys.TEXT] for answer in answers]
    extras = [_unknown(answer) for answer in answers]
    if text is not None and text not in texts:
        texts, extras = [text, *texts], [{}, *extras]
    main = 0 if text is None else texts.index(text)
    extras[main] = {**extras[main], **_unknown(item)}
    smiles = _smiles_of(item, text or texts[0])
    if not smiles.strip():
        raise FileError(f"{where} has no prompt_smiles, and none in its {keys.TEXT}", "Add it, or leave the item out")
    return ReportItem(listed_in == keys.PASSES, smiles, tuple(texts), tuple(extras), main)


def _unknown(item: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in item.items() if key not in keys.KNOWN}


def _smiles_of(item: Mapping[str, Any], text: str) -> str:
    """What was asked for: by its name, as the last SMILES of the ``prompt`` that trainers write, or by the text."""
    if (smiles := item.get(keys.ASKED) or "").strip():
        return str(smiles)
    prompt = item.get("prompt")
    asked = PROMPT.findall(prompt) if isinstance(prompt, str) else []
    return str(asked[-1]) if asked else find_answer(text).prompted


def split_text(decoded: str, smiles: str, asked: Molecule | None = None) -> tuple[str, str, str]:
    """What precedes the answer (padding, examples, prompt), the answer from its tag on, and what follows it (end and
    pad tokens). Joined they are the text again. ``asked`` finds the prompt also where it has another SMILES."""
    end = next((run.start() for run in _PADDING.finditer(decoded) if run.end() == len(decoded)), len(decoded))
    start = answer_start(decoded[:end], asked or unread(smiles.strip()))
    if PROMPT.search(decoded) is None:  # the tags are no tokens of every tokenizer, and some decoders leave tokens out
        closing = decoded.find(SMILES_TAGS[1], 0, tag if (tag := decoded.find(OPEN_TAG)) >= 0 else end)
        start = _behind_padding(decoded, 0) if closing < 0 else closing + len(SMILES_TAGS[1])
        behind = start + len(smiles)
        if closing < 0 and decoded.startswith(smiles, start) and not decoded.startswith("<", behind):
            start = behind
    start = min(_behind_padding(decoded, start), end)
    return decoded[:start], decoded[start:end], decoded[end:]


def _behind_padding(text: str, start: int) -> int:
    match = _PADDING.match(text, start)
    return match.end() if match else start


# --- its run ------------------------------------------------------------------------------------------------------


def read_run(
    document: Mapping[str, Any], items: Sequence[ReportItem], tokenizer: str | None = None, bins: TextBins | None = None
) -> RunOfFile:
    """``document`` has values of the right kinds. ``tokenizer`` replaces the one that it names; its texts are those of
    ``bins`` where there are any."""
    metadata = document.get(keys.METADATA, {})
    alias, step, path, named, processor, version = (
        _text(metadata.get(key)) or ""
        for key in ("model_alias", "model_step", "model_path", "tokenizer_name", "processor_type", "version")
    )
    lp = lp_of(metadata.get("logit_processor_enabled"), processor, version)
    record, rule = stored_lp(lp), rule_of(version)
    if placeholder := _text(metadata.get("placeholder")) or record.placeholder:
        check_placeholder(placeholder)
    name, loaded = _tokenizer(tokenizer, named)
    form, found = _numbers_of(items, record, bins)
    descriptors, contradiction = _descriptors(items, metadata.get("descriptors"), lp, form or READ_FORMAT)
    passes = f"The file has {sum(item.passed for item in items):,} passes, by {rule[1]}."
    unknown = _unknowns(metadata, lp, name, is_tokenizer_known=loaded is not None)
    row = {
        "origin": "imported",
        "created_at": _moment(metadata.get("timestamp")),
        "model_alias": alias,
        "model_step": step,
        "attention": _text(metadata.get("attention")),
        "kv_cache": _text(metadata.get("kv_cache")),
        "model_family": family_of(alias, path, named),
        "tokenizer": name,
        "vocab_size": loaded.vocab_size if loaded else None,
        "lp": lp,
        "placeholder": placeholder,
        "descriptors": descriptors,
        **_sampling(metadata.get("sampling")),
        "batch_size": metadata.get("batch_size"),
        "counted_by": RULES,
        **_totals(document, items, metadata.get("num_generations")),
        "notes": " ".join(filter(None, (*unknown, contradiction, found, passes))),
        "extra": _extra(document, metadata),
    }
    stated = {key: value for key, value in row.items() if value not in (None, "")}
    return RunOfFile(stated, lp and split_cleanup(lp)[0], loaded, form, rule, contradiction)


def _numbers_of(
    items: Sequence[ReportItem], record: LpRecord, bins: TextBins | None
) -> tuple[NumberFormat | None, str]:
    """The number format of the texts, None where too few numbers show one, and a sentence about it."""
    if bins is not None:
        kind = "Codes" if isinstance(bins.form, CodeFormat) else "Numbers of bins"
        return bins.form, f"{kind}, {bins.source}: {bins.form.words}."
    answers = (split_text(text, item.smiles)[1] for item in items for text in item.texts)
    form, numbers = found_form(answers, forced_close=record.closed_by != "model")
    return form, "" if form is None else f"Number format by {numbers:,} numbers of the texts: {form.words}."


def _unknowns(
    metadata: Mapping[str, Any], lp: str | None, tokenizer: str | None, *, is_tokenizer_known: bool
) -> Iterator[str]:
    """What the file does not tell, and what is left out for it."""
    if lp is None:
        named = [f"{key} {metadata[key]}" for key in ("processor_type", "version") if metadata.get(key)]
        problem = f"Which LP made it is not known ({', '.join(named) or 'the file names none'})"
        yield f"{problem}: blocks are read as closed by force, without drift."
    if not is_tokenizer_known:
        yield f"The tokenizer is not known ({tokenizer or 'the file names none'}): without drift."


def _totals(document: Mapping[str, Any], items: Sequence[ReportItem], generations: int | None) -> dict[str, Any]:
    passes = sum(item.passed for item in items)
    return {
        "generations": generations or max(len(item.texts) for item in items),
        "samples": sum(len(item.texts) for item in items),
        "wall_s": document.get("time_taken"),
        "chars_raw": document.get("total_chars_raw"),
        "chars_clean": document.get("total_chars_clean"),
        "reported_passes": passes if keys.PASSES in document else None,
        "reported_failures": len(items) - passes if keys.FAILURES in document else None,
    }


def _extra(document: Mapping[str, Any], metadata: Mapping[str, Any]) -> str | None:
    """What has no column, as JSON."""
    read_keys = {keys.METADATA, keys.PASSES, keys.FAILURES, *keys.TOTALS}
    extra = {key: value for key, value in document.items() if key not in read_keys}
    if rest := {key: value for key, value in metadata.items() if key not in keys.METADATA_COLUMNS}:
        extra[keys.METADATA] = rest
    return json.dumps(extra, ensure_ascii=False, sort_keys=True) if extra else None


def _descriptors(
    items: Sequence[ReportItem], stated: Any, lp: str | None, form: NumberFormat
) -> tuple[Descriptors | None, str]:
    """How most texts write bare heteroatoms, and a sentence where texts contradict the file or its LP."""
    usual = next((kind for kind in DESCRIPTORS if kind == stated), stored_lp(lp).descriptors)
    unknown = ""
    if stated not in (None, "", *DESCRIPTORS):
        known = ", ".join(DESCRIPTORS)
        unknown = f"metadata.descriptors {shown(_text(stated) or '')} is unknown (known: {known}): the texts tell. "
    shown_kinds = Counter[Descriptors | None]()
    for item in items:
        molecule, _ = asked_molecule(item.smiles)
        shown_kinds.update(
            shown_descriptors(molecule, split_text(text, item.smiles, molecule)[1], form) for text in item.texts
        )
    del shown_kinds[None]
    kind = shown_kinds.most_common(1)[0][0] if shown_kinds else usual
    others = shown_kinds.total() - shown_kinds[usual]
    if usual is None or not others:
        return kind, unknown.rstrip()
    (written,) = (SPELLED[other] for other in DESCRIPTORS if other != usual)
    by = "metadata.descriptors says" if stated == usual else f"the LP {lp} writes"
    problem = f"{others:,} of {shown_kinds.total():,} texts that show it write {written}, where {by} {SPELLED[usual]}"
    return kind, f"{unknown}{problem}: each text is compared with its own."


# --- the reports' names -------------------------------------------------------------------------------------------


def lp_of(enabled: bool | None, processor: str, version: str) -> str | None:
    """The LP by our name; None where the file names none, or one that the reports do not describe."""
    name = processor.strip().lower()
    if enabled is False:
        return "none"
    if split_cleanup(name)[0] in LPS:
        return full_name(name)
    if name == "qwen":
        digits = _VERSION.fullmatch(version.strip())
        return ALIASES.get(f"v{digits[1]}.{digits[2]}") if digits else None
    return ALIASES.get(name)


def rule_of(version: str) -> tuple[RuleName, str]:
    """By which rule the program of this version distinguished passes from failures, as our check of it and in words."""
    digits = _VERSION.fullmatch(version.strip())
    if digits is None:
        return "passed", "a rule that it does not name"
    is_runners = (int(digits[1]), int(digits[2])) >= (3, 9)
    return ("decodes", "the runner's rule (decodes)") if is_runners else ("passed", "the reports' rule (passed)")


def family_of(*names: str) -> str | None:
    """Qwen or LLaMA, by the first of the names that tells."""
    return next((family for name in names for part, family in _FAMILIES if part in name.lower()), None)


def tokenizer_of(name: str) -> str | None:
    """Which of the field's tokenizers goes by this name: ``qwen3_0.6b_custom``, ``LLaMA-3.2-chem``."""
    letters = re.sub(r"[^a-z0-9]", "", name.lower())
    return next((tokenizer for tokenizer in _TOKENIZERS if tokenizer in letters), None)


# --- single values ------------------------------------------------------------------------------------------------


def _text(value: Any) -> str | None:
    """Null and an empty text are as good as nothing."""
    if value is None or isinstance(value, str):
        return value or None
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _tokenizer(chosen: str | None, named: str) -> tuple[str | None, TextTokenizer | None]:
    """The name for the row and, where it is known, the tokenizer."""
    if chosen is not None:
        return chosen if chosen in RECIPES else Path(chosen).name, load_tokenizer(chosen)
    recognised = named if named in RECIPES else tokenizer_of(named)
    return recognised or named or None, load_tokenizer(recognised) if recognised else None


def _sampling(sampling: Any) -> dict[str, Any]:
    """A preset's name, or an object of parameters."""
    if isinstance(sampling, Mapping):
        kinds = {"temperature": float, "top_k": int, "top_p": float, "min_p": float}
        numbers = {key: sampling[key] for key in kinds if type(sampling.get(key)) in (int, float)}
        fitting = {key: kinds[key](value) for key, value in numbers.items() if 0 <= value < _MOST}
        return {"sampling": _text(sampling), **fitting}
    text = _text(sampling)
    if (preset := PRESETS.get(text or "")) is None:
        return {"sampling": text}
    numbers = {"temperature": preset.temperature, "top_p": preset.top_p, "min_p": preset.min_p}
    return {"sampling": text, "top_k": preset.top_k or None, **numbers}


def _moment(value: Any) -> str | None:
    """The time in ISO form, UTC where the file names no zone; None where it is no time. ``20250131_174500`` is one."""
    try:
        text = re.sub(r"^(\d{8})[_-](?=\d{6}$)", r"\1T", str(value))
        moment = datetime.fromtimestamp(value, UTC) if type(value) in (int, float) else datetime.fromisoformat(text)
        moment = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return moment.isoformat() if moment.year >= 1970 else None
