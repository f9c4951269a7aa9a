"""The atlas of lost molecules: its figures by hand, what needs work, and what is left out."""

from __future__ import annotations

import math
from typing import Any

import pytest

from engine.inspection.lost_runs import lost_run
from engine.questions import ask
from engine.questions.question import NeedsWork
from engine.store.files import Files
from engine.store.store import Store
from engine.text.tokenizers import load_tokenizer
from tests.engine.inspection.made import DEMO_STORE, demo_run, sample_row, step_row, write_run

RIGHT = "[CONFORMER][C]<0.0,0.0,0.0>[O]<1.4,0.0,0.0>[/CONFORMER]"
FAR, NEAR = RIGHT.replace("1.4", "3.4"), RIGHT.replace("1.4", "0.2")
BENT = "[CONFORMER][C]<0.0,0.0,0.0>[C]<1.5,0.0,0.0>[O]<0.0,1.4,0.0>[/CONFORMER]"


def write(store: Store, name: str, *texts: str, smiles: str = "CO") -> None:
    tokenizer, samples, steps = load_tokenizer("qwen3"), [], []
    for number, text in enumerate(texts):
        ids = tokenizer.encode(text)
        samples.append(sample_row(number, text=text, smiles=smiles, token_ids=ids, forced=[False] * len(ids)))
        for pos, id_ in enumerate(ids if number % 2 else ()):
            p = 0.7 if tokenizer.piece(id_) == "3" else 0.004
            steps.append(step_row(number, pos, token_id=id_, p_raw=p, ln_q=math.log(0.5)))
    write_run(store, name, samples, steps=steps, tokenizer="qwen3")


def main(store: Store, *ids: str, **options: Any) -> list[tuple[Any, ...]]:
    rows = ask(store, "compare_lost", ids, options).tables["main"].to_pylist()
    return [(row["run"], row["group"], row["samples"], row["of"]) for row in rows]


def test_samples_are_counted_by_the_first_token_that_lost_each(store: Store) -> None:
    write(store, "one", RIGHT, FAR, FAR + FAR, NEAR, RIGHT)
    write(store, "two", BENT, BENT.replace("0.0,1.4", "9.0,1.4"), smiles="CCO")
    with pytest.raises(NeedsWork) as caught:
        ask(store, "compare_lost", ["one", "two"])
    assert caught.value.commands == (["lost", "one"], ["lost", "two"])
    lost_run(store, "one")
    with pytest.raises(NeedsWork) as caught:
        ask(store, "compare_lost", ["one", "two"])
    assert caught.value.commands == (["lost", "two"],)
    lost_run(store, "two")
    assert main(store, "one", "two") == [("one", "bond lengths", 3, 5), ("two", "bond lengths", 2, 2)]
    assert main(store, "one", lost_by="axis") == [("one", "x", 2, 5), ("one", "z", 1, 5)]
    assert main(store, "one", lost_by="digit") == [("one", "integer digits", 3, 5)]
    assert main(store, "one", lost_by="site") == [("one", "elsewhere", 3, 5)]
    # Samples 1 and 3 keep their steps: 3 has 70 %, and what lost the near one 0.4 %.
    by_chance = [("one", "over 50 %", 1, 5), ("one", "under 1 %", 1, 5), ("one", "not known", 1, 5)]
    assert main(store, "one", lost_by="chance") == by_chance
    answered = ask(store, "compare_lost", ["one"], {"lost_group": "x", "lost_by": "axis"})
    lost = answered.tables["lost"].to_pylist()
    assert [(row["sample"], row["token"], row["p_raw"]) for row in lost] == [
        ("run=one&atom=1&sample=1", "x, integer digits: 3", 0.7),
        ("run=one&atom=1&sample=2", "x, integer digits: 3", None),
    ]
    assert lost[0]["q"] == pytest.approx(0.5)
    assert "3 of 5 samples lost their shape (60.0 %" in answered.answer and "median of 2" in answered.answer


def test_a_small_run_that_is_only_read_is_searched_when_it_is_asked(store: Store) -> None:
    write(store, "one", RIGHT, FAR)
    other = Store(Files(store.home.root / "own"), (store.home,))
    assert main(other, "one") == [("one", "bond lengths", 1, 2)]


def test_what_cannot_be_searched_is_left_out_and_named(store: Store) -> None:
    write(store, "one", RIGHT, RIGHT)
    write_run(store, "untold", [sample_row(0, text=None)])
    lost_run(store, "one")
    answered = ask(store, "compare_lost", ["one", "untold"])
    assert answered.tables["main"].num_rows == 0 and "0 of 2 samples" in answered.answer
    assert "Left out: untold has no texts" in answered.answer
    assert "None of these runs can be searched" in ask(store, "compare_lost", ["untold"]).answer


def test_the_demo_runs_have_an_atlas(store: Store) -> None:
    store = Store(store.home, DEMO_STORE.locations)
    ids = [demo_run("qwen", "exact"), demo_run("llama", "exact")]
    answered = ask(store, "compare_lost", ids, {"lost_by": "site"})
    rows = answered.tables["main"].to_pylist()
    sql = """SELECT run_id, count(*) AS wrong FROM samples WHERE list_contains($ids, run_id)
        AND (stereo_right = false OR geometry_right = false) GROUP BY ALL"""
    for row in store.rows(sql, {"ids": ids}):
        assert sum(cell["samples"] for cell in rows if cell["run"] == row["run_id"]) == row["wrong"]
