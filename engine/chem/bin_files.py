"""Files of bins: the group's own JSON, which says where the bins of a model's texts begin and end.

``{"mode": "uniform", "L": -10.5748, "H": 10.5102, "n_bins": 256, "edges": [...]}``, with one edge more than bins.
Equal bins need no edges: ``uniform`` has them between L and H, ``cartesian_binned`` also by their ``size``. A file of
codes has the mode ``fsq`` (`engine.chem.codes`).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeGuard

from engine.chem.codes import DEMO, codes_from
from engine.errors import FileError, shown
from engine.paths import user_path
from engine.records import BIN_MODES, MOST_BINS, Alphabet, BinFormat, BinMode, CodeFormat
from engine.user_files import parsed_json, read_text

OFF_ANG = 1e-3
"""By so much L and H may be off the outer edges: files round them."""
_OF_CODES = "one of codes has mode fsq and levels"
FIX = (
    f"A file of bins is JSON with mode ({', '.join(BIN_MODES)}), L, H, n_bins and edges; {_OF_CODES} (docs/formats.md)"
)


def read_bin_file(path: Path) -> Alphabet:
    """The bins of a file, or its codes; a FileError says which key of it is wrong."""
    return read_bins(read_text(str(path)), path.name, path.parent)


def read_bins(content: str | bytes, name: str, folder: Path = Path()) -> Alphabet:
    """``folder``: where weights that it names are looked for."""
    try:
        document = parsed_json(content)
        is_codes = isinstance(document, Mapping) and document.get("mode") == "fsq"
        return codes_from(document, folder) if is_codes else bins_from(document)
    except ValueError as error:
        raise FileError(f"{shown(name)} is no file of bins: {error}", FIX) from error


def bins_from(document: Any) -> BinFormat:
    """The bins of a file's JSON; ValueError where it is none."""
    if not isinstance(document, Mapping):
        raise ValueError("it is no JSON object")
    mode = document.get("mode")
    if mode not in BIN_MODES:
        raise ValueError(f"its mode is {shown(str(mode))}, not one of {', '.join((*BIN_MODES, 'fsq'))}")
    edges = document.get("edges")
    if edges is None:
        return _without_edges(document, mode)
    if not isinstance(edges, list) or not all(map(_is_number, edges)):
        raise ValueError("its edges are no list of numbers")
    form = BinFormat(edges=tuple(map(float, edges)), mode=mode)
    if (count := document.get("n_bins", form.bins)) != form.bins:
        raise ValueError(f"n_bins is {shown(str(count))}, and {len(edges):,} edges are of {form.bins:,} bins")
    for key, edge in (("L", form.low_ang), ("H", form.high_ang)):
        stated = document.get(key, edge)
        if not _is_number(stated) or abs(stated - edge) > OFF_ANG:
            raise ValueError(f"{key} is {shown(str(stated))}, and the outer edge there is {edge:g}")
    return form


def _without_edges(document: Mapping[str, Any], mode: BinMode) -> BinFormat:
    if mode == "quantile":
        raise ValueError("edges are missing")
    low, high = _number(document, "L"), _number(document, "H")
    if mode == "cartesian_binned" and "size" in document:
        return BinFormat.equal(low, high, _number(document, "size"))
    count = int(_number(document, "n_bins"))
    if not 1 <= count <= MOST_BINS:
        raise ValueError(f"n_bins is {count:,}, not 1 to {MOST_BINS:,}")
    width = (high - low) / count
    inner = (low + index * width for index in range(1, count))
    return BinFormat(edges=(low, *inner, high), mode=mode)


def _number(document: Mapping[str, Any], key: str) -> float:
    if not _is_number(value := document.get(key)):
        raise ValueError(f"it has neither edges nor a number {key}")
    return float(value)


def _is_number(value: Any) -> TypeGuard[float]:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and abs(value) <= sys.float_info.max  # not NaN, and no whole number that is too large for a float


def given_bins(first: str, second: str = "") -> Alphabet:
    """Those of ``--bins FILE``, or ``--bins WIDTH RANGE`` of the older form."""
    if not second:
        return read_bin_file(user_path(first, "the bins"))
    return BinFormat.in_brackets(float(first), float(second))


BARE_BINS = {
    "256 uniform bins": bins_from({"mode": "uniform", "L": -10.5748, "H": 10.5102, "n_bins": 256}),
    "250 bins of 0.104 Å": BinFormat.equal(-13.0, 13.0, 0.104),
    "212 bins of 0.104 Å": BinFormat.equal(-11.0, 11.0, 0.104),
}
"""Those of the group."""
OLDER_BINS = {"Bins of 0.042 Å": BinFormat.in_brackets(0.042, 21.0), "Bins of 0.05 Å": BinFormat.in_brackets(0.05, 9.0)}
CODES = {
    "256 codes of demo-codes": CodeFormat(levels=(2,) * 8, decoder=DEMO),
    "4,096 codes of the group": CodeFormat(levels=(2,) * 12),
}
