"""What an LP costs the model, in the Drift inspector: its sentence, its chart, and what to do where it is unknown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from engine.inspection.lp_cost import cost_of_run
from engine.inspection.runs import run_facts
from pages._drift.lp_cost import cost_chart
from pages._shared.theme import LIGHT
from tests.engine.inspection.made import block_row, sample_row, step_row, write_run
from tests.pages.drift_stores import store_at
from tests.pages.test_drift_guarded import _open, words

PIECES = ("[C]", "<", "1.0", ",", "2", ",", "3", ">")


def steps(sample: int) -> list[dict[str, Any]]:
    """Half of its mass is taken at each number's digits, more where the block is closed; filters take a little."""
    rows = []
    for pos, piece in enumerate(PIECES):
        mass = -3.0 if piece == ">" else -0.5 if piece[0].isdigit() else 0.0
        q = 0.0 if mass != -0.5 else -0.4
        known = {"ln_p": -1.0, "ln_p_tempered": mass + q - 0.1 * (q < 0), "ln_mass": mass, "ln_q": q}
        rows.append(step_row(sample, pos, piece=piece, forced=q == 0, p_raw=0.5, allowed_mass=0.5, **known))
    return rows


def written(place: Path, *, chances: bool = True) -> str:
    samples = [sample_row(number, smiles="C" * (number + 1), stop_reason="end") for number in range(12)]
    blocks = [block_row(number, 0) for number in range(12)]
    rows = [row for number in range(12) for row in steps(number)]
    kept = rows if chances else [{name: row[name] for name in row if not name.startswith("ln_")} for row in rows]
    about: dict[str, Any] = {"model_alias": "demo-qwen", "model_step": "final", "tokenizer": "qwen3"}
    write_run(store_at(place), "costly", samples, blocks, kept, lp="group-v4.3", **about)
    return "costly"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(tmp_path))
    return tmp_path


def opened(run_id: str) -> AppTest:
    return _open(run=run_id, view="What the LP did")


def test_the_cost_is_told_in_a_sentence_and_drawn(place: Path) -> None:
    app = opened(written(place))
    assert "group-v4.3 shifts what the model would have written: log w is −4.80" in words(app)
    assert "−3.00 at forced tokens, −1.50 by the mask at free ones, −0.30 by the sampling filters" in words(app)
    assert "log p(C) is at least −4.80" in words(app) and "effective sample size 12 of 12" in words(app)
    assert "With the raw p, at temperature 1" in words(app)


def test_a_run_without_chances_says_how_to_get_them(place: Path) -> None:
    app = opened(written(place, chances=False))
    assert "not known" in words(app)
    assert "python -m engine cost-of-lp costly" in words(app)


def test_the_chart_has_a_lane_for_each_place_and_its_parts(place: Path) -> None:
    store = store_at(place)
    cost = cost_of_run(store, run_facts(store, written(place)))
    drawn = cost_chart(cost.parts, "parts")
    figure = drawn.figure(LIGHT)
    assert [trace.name for trace in figure.data] == ["forced tokens", "mask at free tokens", "sampling filters", None]
    assert list(figure.data[0].x) == [-3.0]
    assert list(figure.data[1].x) == pytest.approx([-0.5] * 3)
    assert list(figure.data[2].x) == pytest.approx([-0.1] * 3)
    assert sum(figure.data[3].x) == pytest.approx(-4.8)
    assert "closing a block: −3.00" in drawn.alt and "nat per sample" in drawn.alt
    assert "nat per block" in cost_chart(cost.elements, "elements").alt
