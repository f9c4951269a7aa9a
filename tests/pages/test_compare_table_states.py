"""The section of runs side by side in every state that a choice of runs can be in, without a browser."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from tests.engine.inspection.made import DEMO_STORE, demo_run, sample_row, write_run
from tests.pages.drift_stores import store_at
from tests.pages.test_compare_table import BLOCKED, EXACT, NONE, REPORTED, apart

Open = Callable[..., AppTest]


def _section() -> None:
    from engine.store.store import Store
    from pages._compare import table as compare_table
    from pages._compare.runs import QUERY
    from pages._shared.errors import shown_errors

    store = Store.open()
    chosen, _ = QUERY.read(store.found())
    assert chosen is not None
    with shown_errors():
        compare_table.show(store, chosen)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Open:
    def run(place: Path | None, **query: str | list[str]) -> AppTest:
        monkeypatch.setenv("DRIFTSCOPE_STORE", str(place or DEMO_STORE.home.where))
        app = AppTest.from_function(_section, default_timeout=120)
        for name, value in query.items():
            app.query_params[name] = value
        app.run()
        assert not app.exception
        return app

    return run


def shown(app: AppTest) -> str:
    parts = (*app.markdown, *app.caption, *app.info, *app.error)
    return "\n".join(part.value for part in parts).replace("\\", "")


def tables(app: AppTest) -> str:
    return "\n".join(one.proto.body for one in app.get("html"))


def test_one_run_alone(opened: Open) -> None:
    app = opened(None, control=NONE)
    assert "Choose a test" in shown(app)
    assert "100\u00a0% of 64 samples passed" in shown(app)  # a line does not end between the two
    assert tables(app).count('<th scope="col"') == 1 and "×" not in tables(app)


def test_tests_beside_a_control_and_all_figures(opened: Open) -> None:
    app = opened(None, control=NONE, test=[EXACT, BLOCKED])
    assert "All answers are paired: 64 molecules in each." in shown(app)
    assert "demo-qwen:final (2.4 M weights in the layers)" in shown(app)
    assert "repeat both runs" in shown(app)
    assert "COV-R" not in tables(app)  # nobody has computed it
    app.toggle[0].set_value(True).run()
    assert "COV-R" in tables(app) and "neither exact nor unverified" in tables(app)


def test_pinned_runs_come_first(opened: Open) -> None:
    headings = re.compile(r'<th scope="col" class="run ?(\w*)" style="[^"]*?(?:--pin:(\d))?" title="([^"]*)"')
    app = opened(None, control=NONE, test=[EXACT, BLOCKED])
    assert headings.findall(tables(app)) == [("pinned", "0", NONE), ("", "", EXACT), ("", "", BLOCKED)]
    app.multiselect(key="table_pins").set_value(["C"]).run()
    assert headings.findall(tables(app)) == [("pinned", "0", BLOCKED), ("", "", NONE), ("", "", EXACT)]
    assert not opened(None, control=NONE, test=[EXACT]).multiselect, "of two runs none is ever out of sight"


def test_one_measure_in_detail(opened: Open) -> None:
    app = opened(None, control=NONE, test=[EXACT, REPORTED], table_detail="passed")
    assert "All answers of A and B are paired: 64 molecules in each." in shown(app)  # a report has no answers
    assert "64 answers, 64 molecules" in tables(app)
    assert "is reported: a text states its figures" in shown(app)
    assert app.selectbox(key="table_detail").value == "passed"


def test_a_reported_run_is_marked(opened: Open) -> None:
    app = opened(None, control=NONE, test=REPORTED)
    assert "not what the LP did" in shown(app)
    assert '<span class="origin">reported</span>' in tables(app)
    assert "reported ÷ measured" in tables(app)
    assert tables(app).count("in the Drift inspector") == 1  # there is nothing of the other to look into
    assert "Another number of samples" not in tables(app)
    longer = opened(None, control=NONE, test="reported-002-qwen-none-1000")  # 12 times the time for 16 times as many
    assert "Another number of samples: only figures per sample compare" in tables(longer)


def test_runs_without_a_common_molecule(opened: Open, tmp_path: Path) -> None:
    apart(store_at(tmp_path))
    app = opened(tmp_path, control="one", test="two", table_detail="tokens per sample")
    assert "B and A share no molecule" in shown(app)
    assert "16 answers, 16 molecules" in tables(app)
    assert "= no difference" in tables(app)


def test_several_answers_a_molecule_are_not_taken_for_as_many_molecules(opened: Open, tmp_path: Path) -> None:
    store = store_at(tmp_path)
    for run_id, each in (("one", 1), ("two", 3)):
        rows = [sample_row(n, smiles="C" * (1 + n // each), generation=n % each, tokens=20) for n in range(24)]
        write_run(store, run_id, rows, molecules=24 // each, passes=20)
    warned = "B has several answers per molecule: Wilson's intervals treat answers as independent"
    assert warned in shown(opened(tmp_path, control="one", test="two"))
    assert "several answers per molecule" not in shown(opened(tmp_path, control="one"))


def test_a_damaged_run_keeps_what_its_sheet_says(opened: Open, tmp_path: Path) -> None:
    store = store_at(tmp_path)
    apart(store)
    entry = store.entry("two")
    store.home.write(f"{entry.folder}/samples.parquet", b"x" * entry.parts["samples"].bytes)
    app = opened(tmp_path, control="one", test=["two", "part"])
    assert not app.error
    assert tables(app).count('<th scope="col"') >= 3
    assert "C · " in shown(app)


def test_coverage_is_offered_for_runs_with_samples_alone(opened: Open) -> None:
    app = opened(None, control=NONE, test=REPORTED, cov_references="20")
    assert app.button(key="cov_compute").label == "Compute COV and MAT of 1 run"
    assert "share of a molecule's 20 references" in shown(app)


def test_several_models_have_both_comparisons(opened: Open) -> None:
    one = opened(None, control=NONE, test=EXACT)
    assert not any(fold.label == "Model × LP" for fold in one.expander)
    both = opened(None, control=NONE, test=[EXACT, demo_run("llama", "none"), demo_run("llama", "exact")])
    assert any(fold.label == "Model × LP" for fold in both.expander)
    words = shown(both)
    assert "**LP on over off, within each model**" in words and "**Model over model, within each LP**" in words
    assert len(re.findall(r"<td>demo-llama:final</td>", tables(both))) == 2
