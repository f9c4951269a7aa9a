"""Codes in place of numbers, ``[C]<123>(<45>[O]<678>)<90>``: one behind every token of the SMILES.

Where atoms are only a decoder knows, and only of a whole text. A decoder is a module that an entry point names:

    [project.entry-points."driftscope.decoders"]
    mine = "mine.decoder"  # with ``load(weights: Path)``, which returns a function of tokens and codes

The function gets a text's SMILES tokens (``[C]``, ``(``, ``[O]``) and their codes, and returns x, y and z for each
token, in angstrom; those of atoms count. Where it has an attribute ``codes``, that is how many codes it was trained
with. `demo-codes` is such a module, of ours. Weights are safetensors: nothing here unpickles.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from engine.chem.other_forms import NO_ATOM, SPECIAL
from engine.errors import DriftscopeError, EnrichedError, FileError, shown
from engine.installed import modules_of
from engine.paths import DATA
from engine.records import CodeFormat, Kind

WITHOUT_DECODER = "codes without a decoder"
DAMAGED = "a code is missing or damaged"
NO_PLACES = f"the text is of {WITHOUT_DECODER}: only a decoder knows where its atoms are"
GROUP = "driftscope.decoders"
DEMO = "demo-codes"
_BUILT_IN = {DEMO: "engine.chem.demo_decoder"}
_OWN_WEIGHTS = {DEMO: DATA / "models" / "demo-codes-decoder.safetensors"}
_LINK = r"->|<-(?=[<\[])|%\(\d+\)|%\d\d|[0-9]|[-=#$:~/\\.()]"
_CODE = rf"(?!{SPECIAL}|<-[<\[])<(?:[^<>\[\]]*>|[^<>\[\]()=#$:~/\\.%-]*)"  # or what is begun of one
_UNIT = re.compile(
    rf"(?P<none>{NO_ATOM}|{SPECIAL})|(?P<token>\[[^\[\]<>]+\]|{_LINK})(?P<codes>(?:{_CODE})*)"
    rf"|(?:\[[^\[\]<>]*)?(?P<stray>(?:{_CODE})+)",
    re.DOTALL | re.ASCII,
)
_CONVERTER = (
    "from torch import Tensor, load; from safetensors.torch import save_file; "
    's = load({0}, map_location="cpu", weights_only=True); s = s.get("state_dict", s); '
    "t = {{k: v.clone().contiguous() for k, v in s.items() if isinstance(v, Tensor)}}; assert t, list(s); "
    "save_file(t, {1})"
)

Decoder = Callable[[Sequence[str], Sequence[int]], Any]


class FoundCode(NamedTuple):
    """A code, or the place where one is missing, in the order of `engine.text.blocks.FoundBlock`."""

    start: int
    end: int
    content: str
    closed: bool
    descriptor: str  # the token before it; empty where there is none
    is_last: bool  # the text ends in it, or before it
    is_misplaced: bool  # it stands behind no token, or one of its codes is the next token's


class ReadCode(NamedTuple):
    """What a content is, in the order of `engine.text.blocks.BlockReading`."""

    kinds: set[Kind]
    is_clean: bool
    junk_start: int
    junk_end: int
    numbers: tuple[str, ...]


def find_codes(text: str) -> Iterator[FoundCode]:
    """All codes of a text and all that are missing. A token without one has an empty block behind it. A link without
    one counts where it follows a token, a code or a tag at once: elsewhere it may be anything. Of two codes behind a
    token, where the next token has none, one is behind the wrong token."""
    found = list(_found_codes(text))
    for code, after in zip_longest(found, found[1:]):
        is_next_bare = after is not None and after.start == after.end == code.end + len(after.descriptor)
        yield code._replace(is_misplaced=True) if is_next_bare and "><" in code.content else code


def _found_codes(text: str) -> Iterator[FoundCode]:
    behind = 0
    for unit in _UNIT.finditer(text):
        codes, token = unit["codes"] or unit["stray"] or "", unit["token"] or ""
        is_token = token.startswith("[") or unit.start() == behind
        if unit["none"] is None and (codes or is_token):
            closed = codes.endswith(">")
            content = codes[1 : len(codes) - closed]
            is_last = unit.end() == len(text) and not closed
            yield FoundCode(unit.end() - len(codes), unit.end(), content, closed, token, is_last, not token)
        if unit["none"] is not None or codes or is_token:
            behind = unit.end()


def read_code(content: str, form: CodeFormat, *, closed: bool, is_last: bool, is_misplaced: bool) -> ReadCode:
    """A sound code is exact whatever wrote it: it is one token, and none can be cut."""
    first, *more = content.split("><")
    kinds: set[Kind] = set()
    if is_last:
        kinds.add("cut")
    elif not content and not closed:
        kinds.add("missing_code")
    else:
        kinds.update(_kinds_of_content((first, *more), closed=closed, form=form))
    if is_misplaced:
        kinds.add("misplaced_code")
    is_whole = form.index_of(first) is not None and (closed or bool(more))
    behind = len(f"{first}><") if more else len(first)  # the joint of two codes is no junk
    junk = (behind if is_whole else 0, len(content))
    numbers = (first,) if is_whole and not is_misplaced else ()
    return ReadCode(kinds or {"exact"}, not kinds, *junk, numbers)


def _kinds_of_content(codes: Sequence[str], *, closed: bool, form: CodeFormat) -> Iterator[Kind]:
    if len(codes) > 1:
        yield "doubled_code"
    text = "".join(codes)
    if any(map(str.isalpha, text)):
        yield "letters"
    elif not closed or not text.isdecimal():
        yield "punctuation"
    elif any(form.index_of(code) is None for code in codes):
        yield "outside_codes"


# --- places -----------------------------------------------------------------------------------------------------------


def places_text(text: str, form: CodeFormat, *, keep: bool = False) -> str:
    """The text with the places of its atoms in decimals, as every reader takes them. An error where a code is damaged,
    or there is no decoder. With ``keep`` `DAMAGED` and its block are in place of the codes, and `WITHOUT_DECODER` is
    the text where there is none, which every reader refuses by that name."""
    decoder = None if not form.decoder else decoder_of(form.decoder, form.weights)
    if decoder is None:
        if keep:
            return WITHOUT_DECODER
        raise EnrichedError(NO_PLACES)
    made, behind = "", 0
    found = list(find_codes(text))
    for span in _runs(found, text):
        codes = found[span]
        made += text[behind : codes[0].start - len(codes[0].descriptor)]
        numbers = [code.content for code in codes]
        damaged = next((code for code in codes if not _is_sound(code, form)), None)
        if damaged is None:
            made += _with_places(decoder, tuple(code.descriptor for code in codes), tuple(map(int, numbers)))
        elif keep:
            made += f"{DAMAGED}, block {found.index(damaged)}"
        else:
            raise EnrichedError(DAMAGED, block=found.index(damaged), text=f"<{damaged.content}>")
        behind = codes[-1].end
    return made + text[behind:]


def _runs(codes: Sequence[FoundCode], text: str) -> Iterator[slice]:
    """Codes one behind the other: those of a conformer."""
    start = 0
    for index in range(1, len(codes) + 1):
        is_end = index == len(codes)
        if is_end or text[codes[index - 1].end : codes[index].start] != codes[index].descriptor:
            yield slice(start, index)
            start = index


def _is_sound(code: FoundCode, form: CodeFormat) -> bool:
    return code.closed and bool(code.descriptor) and form.index_of(code.content) is not None


def _with_places(decoder: Decoder, tokens: tuple[str, ...], codes: tuple[int, ...]) -> str:
    return "".join(
        token if place is None else f"{token}<{','.join(f'{round(value, 4) + 0.0:.4f}' for value in place)}>"
        for token, place in zip(tokens, _places(decoder, tokens, codes), strict=True)
    )


@lru_cache(maxsize=512)
def _places(decoder: Decoder, tokens: tuple[str, ...], codes: tuple[int, ...]) -> tuple[tuple[float, ...] | None, ...]:
    """Of each token; None of a link. A text is read many times over. Any code of others may raise anything."""
    import numpy as np  # here: a command that only counts tokens starts without it

    try:
        made = np.asarray(decoder(tokens, codes), dtype=np.float64)
        if made.shape != (len(tokens), 3) or not np.isfinite(made).all():
            raise ValueError(f"it returned {made.shape} values for {len(tokens)} tokens, or some that are no numbers")
    except (Exception, SystemExit) as error:
        raise EnrichedError(f"its decoder gave no places ({type(error).__name__}: {error})") from error
    is_atom = [token.startswith("[") for token in tokens]
    return tuple(tuple(row) if atom else None for row, atom in zip(made.tolist(), is_atom, strict=True))


def decoder_of(name: str, weights: str = "") -> Decoder | None:
    """None where it is not installed, or its weights are not there: then the codes are without a decoder."""
    try:
        return checked_decoder(name, weights)
    except DriftscopeError:
        return None


def checked_decoder(name: str, weights: str = "") -> Decoder:
    """FileError where it cannot be had."""
    path = Path(weights) if weights else _OWN_WEIGHTS.get(name)
    if path is not None and path.suffix != ".safetensors":
        python = _CONVERTER.format(*(json.dumps(str(file)) for file in (path, path.with_suffix(".safetensors"))))
        fix = f"Convert it once, where you trust it: python -c {shlex.quote(python)}"
        raise FileError(f"the weights {shown(path, 200)} are pickled, or no safetensors, and are not loaded", fix)
    modules = {**modules_of(GROUP), **_BUILT_IN}
    if name not in modules:
        fix = f"Install the package that brings it (an entry point of {GROUP}), or use one of {', '.join(modules)}"
        raise FileError(f"there is no decoder {shown(name)}", fix)
    if path is None:
        raise FileError(f"the decoder {name} has no weights", "Name its safetensors file as `weights`")
    if not path.is_file():
        raise FileError(f"the weights {shown(path, 200)} of the decoder {name} are not there", "Correct `weights`")
    return _loaded(modules[name], path, path.stat().st_mtime_ns)


@lru_cache(maxsize=4)
def _loaded(module: str, path: Path, changed_at: int) -> Decoder:
    try:
        decoder: Decoder = import_module(module).load(path)
    except (Exception, SystemExit) as error:
        problem = f"the decoder {module} cannot be loaded from {shown(path, 200)} ({type(error).__name__}: {error})"
        raise FileError(problem, "Give the weights that it was trained with") from error
    return decoder


def codes_from(document: Mapping[str, Any], folder: Path = Path()) -> CodeFormat:
    """The codes of a file's JSON, ``{"mode": "fsq", "levels": [2, 2], "decoder": NAME, "weights": FILE}``; ValueError
    where it is none. A decoder that is named has to be there."""
    levels = document.get("levels")
    if not isinstance(levels, list) or not all(type(level) is int for level in levels):
        raise ValueError("its levels are no list of whole numbers")
    decoder, weights = document.get("decoder", ""), document.get("weights", "")
    if not isinstance(decoder, str) or not isinstance(weights, str):
        raise ValueError("its decoder and its weights are no texts")
    form = CodeFormat(
        levels=tuple(levels), decoder=decoder, weights=str((folder / weights).absolute()) if weights else ""
    )
    if decoder or weights:
        known = getattr(checked_decoder(form.decoder, form.weights), "codes", form.codes)
        if isinstance(known, int) and known != form.codes:
            raise ValueError(f"its levels make {form.codes:,} codes, and its decoder has {known:,}")
    return form
