"""Files of bins: what is read, and what is refused with its key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.chem.bin_files import bins_from, given_bins, read_bin_file
from engine.errors import FileError
from engine.records import BinFormat

EDGES = np.linspace(-10.5748, 10.5102, 257).tolist()
FILE: dict[str, Any] = {"mode": "uniform", "L": -10.5748, "H": 10.5102, "n_bins": 256, "edges": EDGES}


def test_the_groups_file(tmp_path: Path) -> None:
    path = tmp_path / "bins.json"
    path.write_text(json.dumps(FILE))
    form = read_bin_file(path)
    assert form == given_bins(str(path)) == BinFormat(edges=tuple(EDGES), mode="uniform")
    assert (form.bins, form.digits, form.tails) == (256, 3, (0, 257))
    quantile = bins_from(FILE | {"mode": "quantile", "edges": [-10.5748, *np.linspace(-3, 3, 255).tolist(), 10.5102]})
    assert quantile.mode == "quantile" and quantile.bounds_ang("001") == (-10.5748, -3.0)


def test_equal_bins_need_no_edges() -> None:
    without = {key: value for key, value in FILE.items() if key != "edges"}
    assert bins_from(without).edges == tuple(EDGES)
    made = bins_from({"mode": "cartesian_binned", "L": -13, "H": 13, "size": 0.104})
    assert made.edges == (*np.arange(-13, 13, 0.104).tolist(), 13.0)
    assert bins_from({"mode": "cartesian_binned", "L": -1, "H": 1, "n_bins": 4}).edges == (-1.0, -0.5, 0.0, 0.5, 1.0)


def test_bins_of_the_older_form_are_a_pair() -> None:
    assert given_bins("0.042", "21") == BinFormat.in_brackets(0.042, 21)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mode": "fsq"}, "its levels are no list of whole numbers"),
        ({"mode": "log"}, "its mode is 'log', not one of"),
        ({"mode": None}, "its mode is 'None'"),
        ({"edges": "none"}, "its edges are no list of numbers"),
        ({"edges": [0, "1"]}, "its edges are no list of numbers"),
        ({"edges": [0.0, float("nan")]}, "its edges are no list of numbers"),
        ({"edges": EDGES[::-1]}, "ascending order"),
        ({"edges": EDGES[:-1]}, "n_bins is '256', and 256 edges are of 255 bins"),
        ({"L": -11}, "L is '-11', and the outer edge there is -10.5748"),
        ({"H": "x"}, "H is 'x', and the outer edge"),
        ({"edges": None, "H": None}, "it has neither edges nor a number H"),
        ({"edges": None, "mode": "quantile"}, "edges are missing"),
        ({"edges": None, "n_bins": 0}, "n_bins is 0, not 1 to 99,999"),
        ({"edges": None, "n_bins": 10**9}, "n_bins is 1,000,000,000, not 1 to"),
    ],
)
def test_what_is_wrong_is_named(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = tmp_path / "bins.json"
    path.write_text(json.dumps(FILE | change))
    with pytest.raises(FileError, match=message) as caught:
        read_bin_file(path)
    assert "'bins.json' is no file of bins" in str(caught.value)


@pytest.mark.parametrize("content", ["", "[]", "{", "[" * 100_000])
def test_what_is_no_json_object_is_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "bins.json").write_text(content)
    with pytest.raises(FileError, match="no file of bins"):
        read_bin_file(tmp_path / "bins.json")
