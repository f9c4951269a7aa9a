"""A checkpoint's folder becomes an entry of the user's registry: looked through, its text form found or asked for, each
LP tried on it, and written. Nothing is written where something is missing, and the error says what."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.chem.smiles import parse_smiles
from engine.errors import DriftscopeError, ModelError, shown
from engine.figures.words import parameter_count
from engine.lp.constraint import LpParameters, build_constraint
from engine.lp_records import LPS
from engine.models.loading import LoadedModel, load_model, load_outline
from engine.models.registry import OWN_TOKENIZER, TAGS, ModelEntry, bins_of
from engine.models.registry_file import add_entry, entry_to_add
from engine.paths import user_path
from engine.records import SHORTEST4, Alphabet, Descriptors, NumberFormat
from engine.text.text_form import TextForm, text_form_of
from engine.text.tokenizer_build import RECIPES

TRIED = "C[C@H](N)C(=O)[O-]"
"""With a hand, a charge, a branch and a double bond."""
_STEP = re.compile(r"(?i)(?:checkpoint|step|epoch|global_step|ckpt)[-_]?\w*|\d+e?|final|best|last")
_UNUSUAL = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class AddRequest:
    """What a user says of a checkpoint. What is left out is found, or as usual."""

    folder: str
    alias: str = ""  # the folder's name
    step: str = ""
    tokenizer: str = ""  # the folder's own
    decimals: tuple[int, int] | None = None
    integer_digits: int | None = None
    bins: str = ""  # in place of decimals: a file of bins, or ``WIDTH RANGE`` of the form in brackets
    descriptors: Descriptors | None = None
    tags: tuple[str, ...] = ()
    dtype: str = ""
    bos: bool | None = None
    notes: str = ""


@dataclass(frozen=True, slots=True)
class Added:
    """The entry, and what was found."""

    entry: ModelEntry
    table: Mapping[str, Any]  # as it is written
    loaded: LoadedModel  # perhaps without its weights
    found: tuple[str, ...]  # sentences without a full stop
    lps: Mapping[str, str]  # by name: why it does not work; empty where it does

    @property
    def working(self) -> list[str]:
        return [name for name, why in self.lps.items() if not why]

    @property
    def reasons(self) -> dict[str, list[str]]:
        """The LPs that do not work, by the reason."""
        by_reason: dict[str, list[str]] = {}
        for name, why in self.lps.items():
            if why:
                by_reason.setdefault(why, []).append(name)
        return by_reason


def add_checkpoint(request: AddRequest, sample: Sequence[str] = (), *, dry_run: bool = False) -> Added:
    """``sample``: texts as the model was trained on."""
    folder = user_path(request.folder.strip(), "the checkpoint").absolute()
    if not request.folder.strip() or not folder.is_dir():
        raise ModelError(f"there is no folder {shown(request.folder, 200)}", "Give the folder of a checkpoint")
    alias, step = names_of(folder)
    bins = _path_from_here(request.bins)
    form = _form(request, bins, sample)
    decimals = None if isinstance(form.numbers, Alphabet) else form.numbers
    table: dict[str, Any] = {
        "alias": request.alias or alias,
        "step": request.step or step,
        "folder": str(folder),
        "tokenizer": _path_from_here(request.tokenizer) or OWN_TOKENIZER,
        "bins": bins,
        "decimals": [decimals.least_decimals, decimals.most_decimals] if decimals else None,
        "integer_digits": decimals.most_integer_digits if decimals else None,
        "descriptors": form.descriptors,
        "tags": list(request.tags),
        "dtype": request.dtype,
        "bos": request.bos,
        "notes": request.notes,
    }
    table = {key: value for key, value in table.items() if value not in (None, "", [])}
    entry = entry_to_add(table)
    loaded = load_outline(entry)
    if loaded.unchecked:  # only reading it all tells whether a tensor is missing
        loaded = load_model(entry, "cpu")
    found = [f"{loaded.family}, {parameter_count(loaded.parameters)} parameters", *form.found]
    why = loaded.why_not_fast
    found.append(f"backend hf: {why}" if why else "backend fast")
    found += loaded.warnings
    added = Added(entry, table, loaded, tuple(found), lps_of(loaded))
    if not dry_run:
        add_entry(table)
    return added


def _path_from_here(given: str) -> str:
    """A path of a file or folder that there is; the registry's are seen from its own folder. Else what is given."""
    path = Path(given).expanduser()
    return str(path.absolute()) if given and given not in RECIPES and path.exists() else given


def names_of(folder: Path) -> tuple[str, str]:
    """``.../m380/2e`` is the step 2e of m380; any other folder is an alias of its own."""
    is_step = bool(_STEP.fullmatch(folder.name)) and bool(folder.parent.name)
    alias, step = (folder.parent.name, folder.name) if is_step else (folder.name, "final")
    return tuple(_UNUSUAL.sub("-", name).strip("-._")[:64] or "checkpoint" for name in (alias, step))  # type: ignore[return-value]


def _form(request: AddRequest, bins: str, sample: Sequence[str]) -> TextForm:
    """What was asked for, else what the sample shows, else the usual, which is said."""
    for own, tag in zip(request.tags, TAGS, strict=False):
        sample = [text.replace(own, tag) for text in sample]
    given = bins_of(bins) if bins else None
    shown_by = text_form_of(sample, given) if sample else TextForm(None, None, ())
    if given is not None and (request.decimals or request.integer_digits):
        raise ModelError("both bins and decimals are given", "Give one of them")
    numbers = given or _decimals(request, shown_by.numbers) or shown_by.numbers
    is_asked = numbers is not shown_by.numbers
    found = [*shown_by.found, *([f"{numbers.words}, as asked for"] if numbers is not None and is_asked else [])]
    if numbers is None:
        numbers = SHORTEST4
        found.append(f"{numbers.words}: assumed, since no sample of its texts and no decimals were given")
    descriptors = request.descriptors or shown_by.descriptors
    if descriptors is None:
        found.append("descriptors plain: assumed")
    return TextForm(numbers, descriptors, tuple(found))


def _decimals(request: AddRequest, found: NumberFormat | None) -> NumberFormat | None:
    """Those that were asked for, in part or as a whole."""
    if not (request.decimals or request.integer_digits):
        return None
    usual = found or SHORTEST4
    least, most = request.decimals or (usual.least_decimals, usual.most_decimals)
    try:
        return NumberFormat(least, most, request.integer_digits or usual.most_integer_digits)
    except ValueError as error:
        raise ModelError(str(error), "Give for example 0-4") from error


def lps_of(loaded: LoadedModel) -> dict[str, str]:
    """Each LP tried on a molecule with the checkpoint's tokenizer."""
    reasons = {}
    for name in LPS:
        try:
            parameters = LpParameters(form=loaded.entry.numbers)
            constraint = build_constraint(name, loaded.tokenizer, loaded.vocab_rows, parameters)
            constraint.compile(parse_smiles(TRIED))
            reasons[name] = ""
        except DriftscopeError as error:
            reasons[name] = error.what
    return reasons
