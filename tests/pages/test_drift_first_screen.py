"""What the Drift inspector shows first: a run with many samples, one line for its table, hypothetical drift as such."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from engine.figures.words import angstrom
from engine.inspection.molecules import sample_table
from engine.paths import ROOT
from pages._drift.molecules import FOLD
from tests.engine.inspection.made import DEMO_STORE, demo_run, sample_row, write_run
from tests.pages.drift_stores import CUT, EXACT, WITH_JUNK, store_at

QWEN_JUNK, ALLOWED = demo_run("qwen", "group-v2.1"), demo_run("qwen", "group-v4.3")
PAGE = str(ROOT / "pages" / "drift.py")


def opened(*, is_unfolded: bool = False, **query: str) -> AppTest:
    app = AppTest.from_file(PAGE, default_timeout=120)
    app.session_state[f"kept {FOLD}"] = is_unfolded
    for name, value in query.items():
        app.query_params[name] = value
    return app.run()


@pytest.fixture
def demo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(DEMO_STORE.home.where))


def words(app: AppTest) -> str:
    return "\n".join(one.value for one in (*app.markdown, *app.caption)).replace("\\", "")


def test_the_default_has_many_samples_where_a_run_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(tmp_path))
    damage: dict[str, Any] = {"junk_letters": 1, "passes": 1}
    for day, (run_id, count) in enumerate((("many", 40), ("single", 1)), 1):
        rows = [sample_row(number, text="[C]<1.0,2.0,3.0>", smiles="C", atoms=1) for number in range(count)]
        write_run(store_at(tmp_path), run_id, rows, created_at=f"2026-01-0{day}T00:00:00+00:00", **damage)
    assert json.loads(opened().session_state["shown"])["runs"] == ["many"]


def test_the_worst_is_opened_whether_its_steps_were_kept_or_not(demo: None) -> None:
    worst = sample_table(DEMO_STORE, [QWEN_JUNK], is_worst_first=True)
    assert len(set(worst["has_steps"].to_pylist())) == 2 and not worst["has_steps"][0].as_py()
    app = opened(run=QWEN_JUNK, is_unfolded=True)
    first = worst.slice(0, 1).to_pylist()[0]
    assert first["lost_ang"] == max(ang for ang in worst["lost_ang"].to_pylist() if ang is not None)
    damaged = f"{first['bad_blocks']} of {first['blocks']} blocks damaged"
    assert f"**Worst of 64: atoms off by ≈ {angstrom(first['lost_ang'])} in all, {damaged}.** " in words(app)
    lost = sample_table(DEMO_STORE, [ALLOWED], is_worst_first=True)["lost_ang"][0].as_py()
    assert f"**Worst of 64: atoms off by ≈ {angstrom(lost)} in all" in words(opened(run=ALLOWED))
    assert any("with a cut, 0 fail the reports' rule, " in fold.label for fold in app.expander)
    assert "Worst of" not in words(opened(run=QWEN_JUNK, order="Most tokens"))
    assert app.code[0].value == worst["smiles"][0].as_py()


def test_of_several_runs_the_row_says_whose_molecule_it_is(demo: None) -> None:
    app = AppTest.from_file(PAGE, default_timeout=120)
    app.query_params["run"] = [EXACT, WITH_JUNK]
    assert "row 1 of 128, worst first · demo-llama:final · group-v2.1" in words(app.run())


def test_of_clean_texts_the_worst_says_first_what_is_wrong_in_3d_and_the_counts_how_many_are_usable(demo: None) -> None:
    app = opened(run=EXACT, is_unfolded=True)
    assert re.search("In 3D: wrong: [a-z ,]+\\. Passes, decodes and is clean", words(app))
    failing = words(opened(run=demo_run("llama", "group-v4.3"), is_unfolded=True))
    assert re.search(r"Worst of 64: [0-9]+ of [0-9]+ blocks damaged\.\*\* Failed", failing)
    assert re.search(r"Worst of 64: RMSD [0-9.]+ Å", words(app))
    (usable,) = DEMO_STORE.rows("SELECT usable FROM runs WHERE run_id = $1", [EXACT])
    assert any(fold.label.endswith(f"64 clean, {usable['usable']} usable.") for fold in app.expander)


def test_the_table_is_one_line_until_it_is_opened(demo: None) -> None:
    app = opened(run=WITH_JUNK, show="Cut", order="Most tokens")
    (line,) = [one for one in app.expander if "samples" in one.label]
    assert line.label.startswith(f"{CUT} of 64 samples: ") and not line.proto.expanded  # the address's filters hold
    assert f"row 1 of {CUT}, most tokens" in words(app) and not app.get("plotly_chart")


def test_drift_that_no_template_made_is_hypothetical(demo: None) -> None:
    app = opened(run=EXACT, is_unfolded=True)
    badges = words(app)
    assert "hypothetical drift" in badges
    assert "no template wrote this text" in str(app.get("bidi_component")[-1].proto)
    chart = app.get("plotly_chart")[0].proto
    assert "exact (hypothetical)" in chart.alt and "junk-prone" not in chart.spec
    assert any(badge.help.startswith("Hypothetical: no template wrote this text") for badge in app.markdown)
    of_junk = opened(run=WITH_JUNK, is_unfolded=True)
    assert "hypothetical drift" not in words(of_junk) and "junk-prone" in of_junk.get("plotly_chart")[0].proto.spec


def test_tokens_and_forced_ones_count_the_end_in_the_badges(demo: None) -> None:
    app = opened(run=WITH_JUNK, sample="1")
    (row,) = DEMO_STORE.rows(
        "SELECT tokens, forced_tokens FROM samples WHERE run_id = $1 AND sample_id = 1", [WITH_JUNK]
    )
    share = f"{100 * row['forced_tokens'] / row['tokens']:.1f}"
    badges = words(app).replace("\u00a0", " ")
    assert f"{share} % forced" in badges and f"{row['tokens']} tokens ({row['tokens'] - 1} and the end)" in badges
    assert re.search(r"drift \+\d+ \(known in \d+ of 15 blocks\)", badges), "of those whose need is known"


def test_without_a_run_there_is_only_the_choice(demo: None) -> None:
    app = opened(run="")
    assert "Tick runs in the table" in app.info[0].value and not app.exception
    assert len(app.dataframe) == 1 and json.loads(app.session_state["shown"])["runs"] == []
    assert app.expander[0].proto.expanded  # nothing is chosen yet
