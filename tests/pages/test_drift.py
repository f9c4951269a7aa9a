"""The Drift inspector by the state of its page, on demo runs and on made ones, without a browser."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from engine.figures.words import angstrom
from engine.inspection.atoms import atom_rows, worst_first
from engine.inspection.molecules import sample_table
from engine.inspection.sample import inspect_sample
from engine.inspection.struck import struck_of
from engine.store.entries import Entry
from engine.store.reports.importing import import_report
from engine.store.store import Store, temporary_files
from pages._drift import files, molecules
from pages._drift.state import OTHER_READER
from pages._kit.components.molecule_list import molecule_list
from tests.engine.inspection.made import DEMO_STORE, demo_run, sample_row, write_run
from tests.engine.store.stored_runs import store_at
from tests.pages import apps
from tests.pages.apps import keys, picked_atom, query, shown, table, words
from tests.pages.component_tests import frames_of
from tests.pages.drift_stores import (
    BARE,
    CUT,
    EXACT,
    SHAPED,
    STRUCK_AT,
    WITH_JUNK,
    WITH_STEPS,
    WORST,
    add_bare,
    add_hostile,
    add_imported,
    add_shaped,
    with_demo,
)
from tests.service_harness import ended
from tests.support import ROOT

QWEN_JUNK, GUARDED = (demo_run("qwen", lp) for lp in ("group-v2.1", "guarded"))


@pytest.fixture(scope="module")
def store_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One store for all: nothing here writes to it."""
    folder = tmp_path_factory.mktemp("drift")
    store = with_demo(folder / "store", WITH_JUNK, EXACT, QWEN_JUNK, GUARDED)
    add_bare(store)
    add_hostile(store)
    add_imported(store, folder)
    return folder / "store"


@pytest.fixture(autouse=True)
def uses_store_folder(store_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(store_folder))


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A store for this test alone."""
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(tmp_path))
    return store_at(tmp_path)


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the list of molecules was drawn with last."""
    drawn: dict[str, Any] = {}

    def spy(cells: Any, drawings: Any, **more: Any) -> None:
        drawn.update(more, cells=cells, drawings=drawings)
        molecule_list(cells, drawings, **more)

    monkeypatch.setattr(molecules, "molecule_list", spy)
    return drawn


def opened(**address: str | list[str]) -> AppTest:
    return apps.opened("drift", **address)


def molecules_of(app: AppTest) -> Any:
    """Of the view Table."""
    return table(app, "junk_blocks")


def samples_of(rows: Any) -> list[int]:
    return [int(link.rpartition("=")[2]) for link in rows["open"]]


def samples_listed(listed: dict[str, Any]) -> list[int]:
    return [int(cell.about.rpartition("sample ")[2]) for cell in listed["cells"]]


def strip(app: AppTest) -> str:
    """What is sent to the rows of atoms, without the text above them."""
    sent = [json.loads(component.proto.json or "null") for component in app.get("bidi_component")]
    message = next(each for each in reversed(sent) if isinstance(each, dict) and "rows" in each)
    rows = {name: row for name, row in message["rows"].items() if isinstance(row, dict)}
    return json.dumps({**message, "rows": rows}, ensure_ascii=False)


# --- which runs ---------------------------------------------------------------------------------------------------


def test_the_first_visit_opens_the_worst_sample_of_the_newest_run_with_junk(listed: dict[str, Any]) -> None:
    app = opened()
    assert shown(app)["runs"] == [WITH_JUNK] and not app.error
    assert samples_listed(listed)[:3] == WORST[:3] and listed["selected"] == 0 and listed["total"] == 64
    assert "probabilities by the run" in strip(opened(sample=str(WITH_STEPS)))


def test_a_run_is_named_by_a_part_of_its_name(listed: dict[str, Any]) -> None:
    app = opened(run=["qwen-final-exact", "bare"])
    assert shown(app)["runs"] == [EXACT, BARE]
    assert {cell.lines[1][0][0] for cell in listed["cells"]} == {
        "demo-qwen:final, exact",
        "demo-llama:final, group-v2.1",
    }


def test_an_empty_store_and_a_damaged_one(own: Store, tmp_path: Path) -> None:
    assert "python -m engine run" in words(opened())
    broken = tmp_path / "runs" / "run_id=broken"
    broken.mkdir(parents=True)
    (broken / "run.json").write_text("{", encoding="utf-8")
    app = opened()
    assert [expander.label for expander in app.expander] == ["1 entry of the store is damaged"]
    assert "run_id=broken" in words(app)


@pytest.fixture
def passing() -> Iterator[str]:
    """A run of the live page that is not saved."""
    run_id = "20990101-000000-live"
    write_run(Store(temporary_files()), run_id, [sample_row(0, text="[C]<1.0,2.0,3.0>", smiles="C", atoms=1)])
    yield run_id
    temporary_files().remove(f"runs/run_id={run_id}")


def test_an_unsaved_run_is_shown_by_its_whole_name_and_can_be_saved(own: Store, passing: str) -> None:
    assert "There" in words(opened()) or not opened().dataframe
    app = opened(run=passing, sample="0")
    app.text_input(key=f"label-{passing}").set_value("mine")
    app.button(key=f"keep-{passing}").click().run()
    assert not app.exception and f"keep-{passing}" not in keys(app)
    assert own.entry(passing).row["label"] == "mine"


# --- the table ----------------------------------------------------------------------------------------------------


def test_filters_and_order() -> None:
    app = opened(run=WITH_JUNK, view="Table")
    app.segmented_control(key="show").set_value("Cut").run()
    assert (molecules_of(app)["cut_blocks"] > 0).all() and len(molecules_of(app)) == CUT
    app.segmented_control(key="show").set_value(None).run()
    app.selectbox(key="order").set_value("Most tokens").run()
    assert molecules_of(app)["tokens"].is_monotonic_decreasing
    app.selectbox(key="first").set_value("10").run()
    assert len(molecules_of(app)) == 10
    app.text_input(key="contains").set_value("no such SMILES").run()
    app.button(key="drop_filters").click().run()
    assert len(molecules_of(app)) == 64 and not app.exception


@pytest.mark.parametrize(
    ("bar", "more", "chip"),
    [("element~C~2", {"by": "Element"}, "Only molecules with drift +2 · element C"), ("cut", {}, "")],
)
def test_a_bar_filters_and_its_chip_lets_go(bar: str, more: dict[str, str], chip: str) -> None:
    app = opened(run=WITH_JUNK, view="Table", bin=bar, **more)
    few = len(molecules_of(app))
    assert few == CUT if bar == "cut" else 0 < few < 64
    assert chip in app.button(key="bar_chip").label.replace("\\", "")
    app.segmented_control(key="show").set_value("With junk").run()
    assert 0 < len(molecules_of(app)) <= few
    app.segmented_control(key="show").set_value(None).run()
    app.button(key="bar_chip").click().run()
    assert len(molecules_of(app)) == 64 and query(app, "bin") is None


def test_a_pick_in_the_list_opens_that_molecule(listed: dict[str, Any]) -> None:
    app = opened(run=WITH_JUNK, order="As written", sample="1", atom="3")
    assert samples_listed(listed) == list(range(64)) and listed["selected"] == 1
    app.session_state[listed["key"]] = picked_atom(2)
    app.run()
    assert (query(app, "sample"), query(app, "atom"), listed["selected"]) == ("2", None, 2)


def test_a_sample_that_the_filters_leave_out_stays_open_and_one_that_is_not_there_is_an_error(
    listed: dict[str, Any],
) -> None:
    (whole,) = DEMO_STORE.rows(
        "SELECT min(sample_id) AS id FROM samples WHERE run_id = $1 AND cut_blocks = 0", [WITH_JUNK]
    )
    app = opened(run=WITH_JUNK, show="Cut", sample=str(whole["id"]))
    assert shown(app)["sample"] == whole["id"] and listed["selected"] is None
    app = opened(run=WITH_JUNK, sample="64")
    assert "has no sample 64" in words(app) and len(listed["cells"]) == 64


def test_the_list_is_in_sight_with_the_links_filters_and_order(listed: dict[str, Any]) -> None:
    app = opened(run=WITH_JUNK, show="Cut", order="Most tokens")
    assert words(app).count(f"{CUT} of 64 samples: ") == 1 and not app.get("plotly_chart")
    rows = molecules_of(opened(run=WITH_JUNK, show="Cut", order="Most tokens", view="Table"))
    assert samples_listed(listed) == samples_of(rows) and len(rows) == CUT
    assert all(
        dict(cell.lines[0])[f"{cut} cut"] == "d" for cell, cut in zip(listed["cells"], rows["cut_blocks"], strict=True)
    )


def test_a_long_list_has_its_first_molecules_and_says_of_how_many(
    listed: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(molecules, "MOST_LISTED", 5)
    opened(run=WITH_JUNK)
    assert samples_listed(listed) == WORST[:5] and listed["total"] == 64 and len(listed["drawings"]) == 5


# --- one molecule -------------------------------------------------------------------------------------------------


def test_the_worst_is_opened() -> None:
    worst = sample_table(DEMO_STORE, [QWEN_JUNK], is_worst_first=True)
    app = opened(run=QWEN_JUNK)
    first = worst.slice(0, 1).to_pylist()[0]
    assert first["lost_ang"] == max(ang for ang in worst["lost_ang"].to_pylist() if ang is not None)
    damaged = f"{first['bad_blocks']} of {first['blocks']} blocks damaged"
    assert f"Worst of 64: atoms off by ≈ {angstrom(first['lost_ang'])} in all, {damaged}." in words(app)
    assert app.code[0].value == first["smiles"]


def test_a_pick_in_a_view_selects_in_all() -> None:
    inspected = inspect_sample(DEMO_STORE, WITH_JUNK, 13)
    rows = atom_rows(inspected.alignment, inspected.molecule.elements, inspected.blocks)
    (column, *_) = next(row.columns for row in rows if row.atom == 5)
    app = opened(run=WITH_JUNK, sample="13")
    for view, pick, expected in (
        ("drift_atoms", column, (str(column), "5")),
        ("drift_drawing", 2, (None, "2")),  # lets go of the token
        ("drift_drawing", None, (None, None)),
    ):
        app.session_state[view] = picked_atom(pick)
        app.run()
        assert (query(app, "token"), query(app, "atom")) == expected
    app = opened()  # names the sample that was opened without being named
    app.session_state["drift_drawing"] = picked_atom(0)
    app.run()
    assert (query(app, "run"), query(app, "sample"), query(app, "atom")) == (WITH_JUNK, str(WORST[0]), "0")


def test_tokens_and_forced_ones_count_the_end_in_the_badges() -> None:
    names = "SELECT tokens, forced_tokens FROM samples WHERE run_id = $1 AND sample_id = 1"
    (row,) = DEMO_STORE.rows(names, [WITH_JUNK])
    badges = words(opened(run=WITH_JUNK, sample="1"))
    assert f"{100 * row['forced_tokens'] / row['tokens']:.1f} % forced" in badges
    assert f"{row['tokens']} tokens ({row['tokens'] - 1} and the end)" in badges
    assert re.search(r"drift \+\d+ in \d+ of 15 blocks", badges), "of those whose need is known"


def test_a_file_without_a_conformer_in_it_is_not_offered() -> None:
    for run, is_off in ((WITH_JUNK, True), (EXACT, False)):
        app = opened(run=run, view="Table")
        assert next(button for button in app.download_button if button.label == "SDF").disabled == is_off


def test_imported_text_and_runs_of_which_next_to_nothing_is_known(own: Store, tmp_path: Path) -> None:
    add_imported(own, tmp_path)
    assert "ask-steps" not in keys(opened(run="imported", sample="1"))
    broken = {"smiles": "no SMILES at all", "text": None, "passed": False, "clean": False}
    write_run(own, "odd", [sample_row(0, **broken), sample_row(1, text="[C]<1.0,2.0,")])
    for sample in ("0", "1"):
        app = opened(run="odd", sample=sample)
        assert not app.error and len(app.info) >= 1
    for view in ("What the LP did", "Junk lexicon"):
        assert not opened(run="odd", view=view).error


# --- verdicts, tries and the other reader -------------------------------------------------------------------------


def test_a_wrong_molecule_is_found_named_and_shown() -> None:
    (row,) = DEMO_STORE.rows("SELECT * FROM samples WHERE run_id = $1 AND sample_id = 0", [EXACT])
    rows = molecules_of(opened(run=EXACT, show="Clash", view="Table"))
    assert 0 < len(rows) < 64 and rows["checks"].str.contains("clash").all()
    of_all = opened(run=EXACT, view="Table")
    of_row = molecules_of(of_all).iloc[samples_of(molecules_of(of_all)).index(0)]
    assert of_row["strain_kcal"] == pytest.approx(row["strain_kcal"], rel=0.005) and "stereo" in of_row["checks"]
    app = opened(run=EXACT, sample="0")
    assert f"heavy atoms move {row['strain_moved_ang']:.2f} Å" in words(app)
    (more,) = [fold for fold in app.get("popover") if "3 more checks failed" in str(fold.proto)]
    assert len(more.button) == len(row["failed"]) - 1 == 3
    first = app.button(key="failed-0")
    assert first.label.replace("\\", "") == "stereo: mirrored (atom 1)"
    first.click().run()
    assert query(app, "atom") == "1"
    sums = ", ".join(f"count({name}_right), avg({name}_right::INT)" for name in ("stereo", "geometry"))
    (counts,) = DEMO_STORE.rows(f"SELECT {sums} FROM samples WHERE run_id = $1", [EXACT])
    stereo, stereo_right, judged, right = counts.values()
    of_texts = table(of_all, "what")
    assert list(of_texts["judged"]) == [stereo, judged] == [37, 64]
    assert list(of_texts["share"]) == pytest.approx([100 * stereo_right, 100 * right], abs=0.05)  # rounded


def test_tries_of_a_guard_stand_one_under_the_other() -> None:
    tries = DEMO_STORE.rows("SELECT block FROM tries WHERE run_id = $1 AND sample_id = 0", [GUARDED])
    block = min(row["block"] for row in tries)
    of_block = sum(row["block"] == block for row in tries)
    written = inspect_sample(DEMO_STORE, GUARDED, 0).blocks[block]
    for atom, count, kept in (("", len(tries), "kept"), (str(written["atom"]), of_block, written["text"])):
        app = opened(run=GUARDED, sample="0", atom=atom)
        (tried,) = [fold.get("html")[0].proto.body for fold in app.expander if fold.label.startswith("Tries")]
        assert tried.count("<s>") == count and (kept in tried) == bool(atom)
    rows = molecules_of(opened(run=GUARDED, view="Table", order="Most drawn anew"))
    assert rows["redrawn_blocks"].is_monotonic_decreasing and "dead_ends" not in rows
    app = opened(run=GUARDED, sample="8")
    assert "bonds (atoms 8 and 10)" in words(app)


def test_a_shaped_answer_tells_its_dead_ends_and_marks_what_was_struck(own: Store) -> None:
    add_shaped(own)
    rows = molecules_of(opened(run=SHAPED, order="Most dead ends", view="Table"))
    assert list(rows["dead_ends"]) == [2, 0] and samples_of(rows) == [1, 0]
    app = opened(run=SHAPED, order="Most dead ends")
    said = words(app)
    assert "2 dead ends, went back once, 31 tokens struck" in said
    assert "Still wrong after all tries: bonds (atoms 2 and 4)." in said
    inspection = inspect_sample(own, SHAPED, 1)
    assert struck_of(inspection, inspection.steps).keys() == {STRUCK_AT}
    assert strip(app).count("struck here: `-`, `7`") == 1
    assert "0 dead ends, 0 tokens struck" in words(opened(run=SHAPED, sample="0"))
    assert "struck here" not in strip(opened(run=SHAPED, sample="0"))


MISREAD, MISREAD_ANG, REFUSED = 30, 9.1269, 3  # what the group's reader misreads most, and what it refuses


def other_reader(app: AppTest) -> list[Any]:
    return [toggle for toggle in app.toggle if (toggle.key or "").startswith(OTHER_READER)]


def test_the_group_readers_conformer_is_measured_offered_and_downloaded() -> None:
    app = opened(run=WITH_JUNK, sample=str(MISREAD))
    (most_ang,) = re.findall(r"misreads \d+ of \d+ blocks: atom \d+ by (\d\.\d\d) Å, the most\.", words(app))
    assert float(most_ang) == pytest.approx(MISREAD_ANG, abs=0.005)
    (after,) = frames_of(app)  # an atom is off by that reader alone, so that it is shown there
    off = opened(run=WITH_JUNK, sample=str(MISREAD), drift_other_reader="false")
    (before,) = frames_of(off)
    assert before.models == after.models[:1] and len(after.models) == 2 and after.models[1] != after.models[0]
    for run, sample in ((WITH_JUNK, REFUSED), (EXACT, 0)):  # refused, and whole: one conformer
        assert not other_reader(opened(run=run, sample=str(sample)))
    other_reader(off)[0].set_value(True).run()
    caption = re.search(r'"caption": "([^"]*grey[^"]*)"', off.get("iframe")[0].proto.srcdoc)
    assert caption is not None and len(caption[1]) <= 37, "more is clipped in a window of 1,000 px"
    assert query(off, OTHER_READER) == "true" and len(frames_of(off)[0].models) == 2
    inspection = inspect_sample(DEMO_STORE, WITH_JUNK, MISREAD)
    record = files.sdf_of_one(inspection, by_group=True)
    assert "misread_most_ang" in record and f"{MISREAD_ANG:.4f}" in record and record != files.sdf_of_one(inspection)
    assert files.sdf_of_one(inspect_sample(DEMO_STORE, WITH_JUNK, REFUSED), by_group=True) == ""


@pytest.mark.parametrize("run", [WITH_JUNK, QWEN_JUNK])
def test_the_first_molecule_says_why_without_a_click(run: str) -> None:
    app = opened(run=run)
    assert "probabilities by the run" in strip(app)
    first = inspect_sample(DEMO_STORE, run, shown(app)["sample"])
    rows = atom_rows(first.alignment, first.molecule.elements, first.blocks, first.steps, first.estimates)
    words = worst_first(rows)[0].words
    assert "The model wanted" in words and "which the LP forbids" in words
    assert run != WITH_JUNK or words in " ".join((ROOT / "README.md").read_text("utf-8").split())


# --- scoring with a model, and the other sections -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("button", "before", "after"),
    [
        ("ask-steps", "no probabilities stored", "probabilities by demo-llama:final"),
        ("ask-costs", "", "by the greedy continuation of demo-llama:final"),
    ],
)
def test_a_run_without_steps_is_scored_and_says_by_whom(own: Store, button: str, before: str, after: str) -> None:
    (cut,) = DEMO_STORE.rows(
        "SELECT sample_id FROM samples WHERE run_id = $run ORDER BY cut_blocks DESC, tokens LIMIT 1", {"run": WITH_JUNK}
    )
    add_bare(own, [cut["sample_id"]])
    app = opened(run=BARE)
    assert before in strip(app) and after not in strip(app)
    app.button(key=button).click().run()
    (job,) = [score.job for score in app.session_state["asked"].values() if score.job]
    ended(job)
    app.run()
    assert not app.exception and not app.error and after in strip(app)


def test_a_link_to_a_token_starts_nothing_and_one_line_says_why_no_branch_puts_a_molecule_right(own: Store) -> None:
    """What a click does is in the browser's tests of branches."""
    with_demo(own.home.root, EXACT)
    app = opened(run=EXACT, sample="0", token="60")
    assert "atoms before it are wrong already" in words(app)
    assert app.button(key=f"branch-ask-{EXACT}-0").label.startswith("Alternatives at ")
    assert not any(asked.job or asked.result for asked in app.session_state["asked"].values())


def test_the_sections_of_runs_and_the_work_that_they_offer() -> None:
    app = opened(run=[WITH_JUNK, EXACT], view="Junk lexicon")
    assert table(app, "mean_p_raw")["count"].is_monotonic_decreasing
    assert not any("measured" in name for name in app.selectbox(key="one_run").options), "only what else a run may be"
    app.selectbox(key="one_run").set_value(EXACT).run()
    assert len(app.dataframe) == 1 and not app.exception
    assert len(opened(run=EXACT, view="What the LP did").get("plotly_chart")) >= 4
    bare = opened(run=BARE, view="What the LP did")
    assert keys(bare) >= {"compute-drift_lp", "compute-drift_lp_cost"}


# --- reports of others --------------------------------------------------------------------------------------------


def test_a_report_whose_texts_contradict_its_lp_is_compared_with_its_texts(own: Store, tmp_path: Path) -> None:
    plain = "[CONFORMER][C]<0.1,0.2,0.3>[C]<1.2,-0.5,1.0>[O]<2.1,0.5,1.0>[/CONFORMER]"
    junk = plain.replace("1.0>[/", "1.0amen>[/")
    entry = imported_texts(own, tmp_path, "CCO", plain, junk, processor_type="generic")
    app = opened(run=entry.id)
    assert shown(app)["sample"] == 1, "the real junk is on top"
    assert "not its text" not in strip(app) and "O, atom 2" in strip(app)
    said = "Its text writes [O], [N] (plain), where the LP group-v2.1 writes [OH], [NH2] (with-hydrogens)"
    assert said in words(app)
    assert "descriptors plain" in words(app)


def test_a_damaged_second_conformer_is_named(own: Store, tmp_path: Path) -> None:
    good = "[CONFORMER][C]<0.1,0.2,0.3>[C]<1.2,-0.5,1.0>=[O]<2.1,0.5,1.0>[/CONFORMER]"
    entry = imported_texts(own, tmp_path, "CC=O", good + good, good + good.replace("0.3>", "zz>", 1))
    app = opened(run=entry.id)
    assert shown(app)["sample"] == 1
    assert "Not clean: 1 of 6 blocks has junk (conformer 2)." in words(app)
    assert shown(app)["conformer"] == 2, "the damaged one is in view"
    assert "zz" in strip(app)
    (frame,) = app.get("iframe")
    assert "2 of 3 atoms readable" in frame.proto.srcdoc
    picker: Any = next(group for group in app.get("button_group") if "Conformer (of 2)" in str(group.proto))
    picker.set_value(1).run()
    assert shown(app)["conformer"] == 1 and app.query_params["conformer"] == "1"
    (frame,) = app.get("iframe")
    assert "Conformer 1 of 2 in this answer" in frame.proto.srcdoc
    assert "atom 0, [C]: exact" in frame.proto.srcdoc, "of the conformer that is drawn nothing is damaged"
    assert "zz" not in strip(app)
    app = opened(run=entry.id, sample="0")
    assert "every atom of each of its 2 conformers has its block" in words(app)


def imported_texts(store: Store, folder: Path, smiles: str, *texts: str, **metadata: Any) -> Entry:
    items = [{"prompt_smiles": smiles, "decoded_text": f"[SMILES]{smiles}[/SMILES]{text}"} for text in texts]
    file = folder.parent / f"{folder.name}.json"
    usual = {"tokenizer_name": "qwen3", "logit_processor_enabled": bool(metadata)}
    file.write_text(json.dumps({"metadata": usual | metadata, "passes": items, "failures": []}))
    return import_report(store, file)
