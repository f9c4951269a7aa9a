"""A sample atom by atom in a terminal, against numbers that are read out of its text by hand."""

from __future__ import annotations

import re

import numpy as np
import pytest

from engine.errors import DriftscopeError
from engine.inspection.sample import inspect_sample
from engine.questions import ask
from engine.questions.drift_atoms import AS_WRITTEN
from tests.cli import run_json
from tests.engine.inspection.made import DEMO_STORE, demo_run

RUN = demo_run("qwen", "group-v2.1")
NUMBER = re.compile(r"-?(?:\d+\.?\d*|\.\d+)")


def test_the_terminal_prints_the_rows_of_the_atom_view() -> None:
    document = run_json("ask", "drift_atoms", f"{RUN}/0")
    rows = document["rows"]
    assert document["answer"].startswith("demo-qwen:final · group-v2.1")
    assert (rows[0]["name"], rows[0]["damage"]) == ("C, atom 3", "junk")
    for row in (row for row in rows if row["damage"] == "junk"):
        parts = [NUMBER.findall(part) for part in row["text"].split(",")]
        stated, taken = (np.array([float(part[place]) for part in parts]) for place in (0, -1))
        if len(max(parts, key=len)) > 1:  # of one number more than four decimals are too many
            assert row["off_ang"] == pytest.approx(np.linalg.norm(taken - stated)), row["text"]
    tokens = {token["column"]: token for token in document["tables"]["tokens"]}
    written = "".join(tokens[column]["piece"] for column in rows[0]["columns"])
    assert f"<{rows[0]['text']}" in written
    steps = inspect_sample(DEMO_STORE, RUN, 0).steps
    stored = {token["pos"]: token["p_raw"] for token in tokens.values() if token["pos"] is not None}
    assert stored and stored == {pos: steps[pos]["p_raw"] for pos in stored}


def test_in_the_order_of_the_text_atoms_count_up() -> None:
    table = ask(DEMO_STORE, "drift_atoms", [f"{RUN}/0"], {"rows": AS_WRITTEN}).tables["main"]
    (sample,) = DEMO_STORE.rows("SELECT atoms FROM samples WHERE run_id = $1 AND sample_id = 0", [RUN])
    assert [atom for atom in table["atom"].to_pylist() if atom is not None] == list(range(sample["atoms"]))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (RUN, "names no sample. Give RUN/SAMPLE"),
        (f"{RUN}/-1", "names no sample"),
        (f"{RUN}/9999", "has no sample 9999. It has 64"),
        ("nothing/0", "nothing"),
    ],
)
def test_what_names_no_sample_is_one_line(name: str, message: str) -> None:
    with pytest.raises(DriftscopeError, match=message):
        ask(DEMO_STORE, "drift_atoms", [name])
