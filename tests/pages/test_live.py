"""The live page's logic without a browser: what is asked for, what becomes of it, and what may be done with it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from engine.inspection.tries import ThrownText
from engine.jobs.service import Service
from engine.paths import ROOT
from engine.records import RULES_HELP
from engine.store.store import Store
from pages._live import board, conformer, session
from pages._live import lanes as live_lanes
from pages._live.inputs import FIRST_MOLECULE, read_lines
from pages._shared import verdict_badges
from pages._shared.inspected import open_store
from pages._shared.listing import page_files
from pages._shared.verdict_badges import text_badge
from tests.pages.live_pages import MODEL, Live, figures, generated, texts
from tests.service_harness import ended

PAGE = str(ROOT / "pages" / "live.py")


@pytest.mark.parametrize(
    ("passed", "decodes", "clean", "label"),
    [
        (True, True, True, "text clean"),
        (True, True, False, "text passed, damaged"),
        (True, None, False, "text passed, damaged"),  # an old run does not know
        (True, False, False, "passed, does not decode"),
        (False, True, False, "text failed"),
        (False, False, False, "text failed"),
    ],
)
def test_the_badge_of_a_sample_says_by_which_rules(
    passed: bool, decodes: bool | None, clean: bool, label: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    badges = []
    monkeypatch.setattr("streamlit.badge", lambda label, **more: badges.append((label, more["help"])))
    text_badge({"passed": passed, "decodes": decodes, "clean": clean})
    assert badges == [(label, RULES_HELP)]
    assert len(label) < 24  # or three lanes of a narrow window cut it


def test_the_first_visit_is_one_click_from_the_story(live: Live) -> None:
    app = live()
    assert not app.exception and not app.error
    assert app.text_area(key="smiles").value == FIRST_MOLECULE
    assert [app.selectbox(key=f"lp{lane}").value for lane in (1, 2, 3, 4)] == [
        "none",
        "group-v2.1",
        "exact",
        "—",
    ]
    assert not app.button(key="generate").disabled
    assert "live_lanes" not in app.session_state
    assert "A stored result: adrenaline by demo-llama:final" in texts(app).replace("\\", "")


def test_an_address_holds_all_that_was_chosen(live: Live) -> None:
    chosen = {"smiles": "CCO", "model": "demo-qwen:final", "lp1": "truncating", "lp4": "group-v2.1+cleanup"}
    app = live(**chosen, seed="7", n="3", sampling="greedy", temperature="0.5", placeholder2="0.00", backend3="hf")
    assert app.text_area(key="smiles").value == "CCO"
    assert app.selectbox(key="model").value == "demo-qwen:final"
    assert (app.selectbox(key="lp1").value, app.selectbox(key="lp4").value) == (chosen["lp1"], chosen["lp4"])
    assert (app.number_input(key="seed").value, app.number_input(key="n").value) == (7, 3)
    assert app.number_input(key="temperature").value == 0.5
    assert "Changed from the preset greedy" in texts(app)
    assert app.text_input(key="placeholder2").value == "0.00"
    app = live(lp1="guarded", lp2="exact", retries1="2", back1="0")
    assert [(one.label, one.value) for one in app.number_input if one.key in ("retries1", "back1")] == [
        ("Retries", 2),
        ("Steps back", 0),
    ]
    assert not [one for one in app.number_input if one.key in ("retries2", "back2")]


def test_a_model_of_the_address_that_is_not_here_is_named(live: Live) -> None:
    app = live(model="no*pe:final")
    (error,) = app.error
    assert "There is no model 'no*pe:final' here. demo-llama:final is chosen" in error.value.replace("\\", "")
    assert app.selectbox(key="model").value == "demo-llama:final"
    assert not live(model="demo-qwen:final").error


def test_a_preset_sets_its_numbers_and_they_may_be_changed(live: Live) -> None:
    app = live()
    app.selectbox(key="sampling").select("minp0.1_t1.4").run()
    assert [app.number_input(key=name).value for name in ("temperature", "top_k", "top_p", "min_p")] == [
        1.4,
        0,
        1.0,
        0.1,
    ]
    assert "Changed from the preset" not in texts(app)
    app.number_input(key="top_k").set_value(9).run()
    assert "Changed from the preset minp0.1_t1.4" in texts(app)


def test_a_named_molecule_puts_its_smiles_into_the_field(live: Live) -> None:
    app = live()
    app.selectbox(key="named").select("aspirin").run()
    assert app.text_area(key="smiles").value == "CC(=O)Oc1ccccc1C(=O)O"


def test_what_is_typed_over_a_named_molecule_has_no_name(live: Live) -> None:
    app = live()
    app.selectbox(key="named").select("aspirin").run()
    app.text_area(key="smiles").set_value("CCO").run()
    assert app.selectbox(key="named").value is None
    app.selectbox(key="named").select("aspirin").run()
    assert app.text_area(key="smiles").value == "CCO\nCC(=O)Oc1ccccc1C(=O)O", "below others"


def test_an_address_may_switch_a_filter_of_the_preset_off(live: Live) -> None:
    app = live(top_k="0", temperature="0.0")
    assert app.number_input(key="top_k").value == 0 and app.number_input(key="temperature").value == 0.0
    assert app.number_input(key="top_p").value == 0.8
    assert "Changed from the preset qwen3" in texts(app)


@pytest.mark.parametrize("query", [{"seed": "1e400"}, {"temperature": "0.5", "top_k": "-inf"}])
def test_an_infinite_number_of_an_address_is_one_message(live: Live, query: dict[str, str]) -> None:
    app = live(**query)
    assert [error.value[:40] for error in app.error] == ["A number in the address is infinite. [Op"]
    assert not app.exception


def test_lanes_of_another_molecule_than_the_one_above_say_so(live: Live) -> None:
    app = generated(live)
    assert "Results below are for" not in texts(app)
    app.text_area(key="smiles").set_value("CCCl").run()
    assert "Results below are for CC\\=O; press Generate" in texts(app)


@pytest.mark.parametrize(
    ("smiles", "words"),
    [
        ("CC(=O", "parenthes"),
        ("C1CC", "ring"),
        ("<img src=x onerror=alert(1)>", "\\<img"),
        ("C" * 20_000, "characters"),
        ("[C]", "enriched"),
    ],
)
def test_a_bad_smiles_is_said_to_be_before_anything_runs(live: Live, smiles: str, words: str) -> None:
    app = live(smiles=smiles)
    assert not app.exception
    assert len(app.error) == 1 and words in app.error[0].value
    assert not app.info  # no hint beside an error
    assert app.button(key="generate").disabled


def test_a_mistake_is_pointed_at() -> None:
    _, (problem,) = read_lines("CC(=O)X")
    lines = problem.splitlines()
    assert lines[-2].strip() == "CC(=O)X"
    assert lines[-2][lines[-1].index("^")] == "X"


def test_bad_lines_do_not_stop_good_ones(live: Live) -> None:
    app = live(smiles="CCO ethanol\n\nnonsense\nCC=O")
    (error,) = app.error
    assert error.value.startswith("Line 3: ")
    assert not app.button(key="generate").disabled


def test_the_first_screen_leads_to_what_is_stored(live: Live) -> None:
    (line,) = [one.proto.body for one in live().get("html") if "Stored:" in one.proto.body]
    assert re.findall("href='(.*?)'", line) == ["drift", "compare?view=Advice", "profiles"]
    assert '"Advice": advice' in (ROOT / "pages" / "compare.py").read_text(encoding="utf-8")
    assert {"drift", "compare", "profiles"} <= {page.path.stem for page in page_files()}


def test_a_name_in_place_of_a_smiles_is_offered_as_the_named_molecule(live: Live) -> None:
    app = live(smiles="CCO\nAspirin\nacetic acid")
    assert len(app.error) == 2 and app.error[0].value.startswith("Line 2: ")
    assert app.button(key="use-named").label == "Use the SMILES of aspirin"
    app.button(key="use-named").click().run()
    assert app.text_area(key="smiles").value == "CCO\nCC(=O)Oc1ccccc1C(=O)O\nacetic acid"
    app.button(key="use-named").click().run()
    assert (app.text_area(key="smiles").value or "").splitlines()[-1] == "CC(=O)O"
    assert not app.error and not [button for button in app.button if button.key == "use-named"]


def test_many_bad_lines_are_few_messages(live: Live) -> None:
    app = live(smiles="\n".join(["CCO", *["nonsense"] * 40]))
    assert len(app.error) == 4 and "37 more lines cannot be read" in app.error[-1].value


def test_more_molecules_than_a_page_can_show(live: Live) -> None:
    app = live(smiles="\n".join(["CCO"] * 101))
    assert "Limit: 100 molecules, got 101" in app.error[0].value
    assert app.button(key="generate").disabled


def test_three_lanes_from_click_to_result(live: Live) -> None:
    app = generated(live)
    assert not app.exception and not app.error
    rows = figures(app)
    assert rows["Figure"] == ["1 · none", "2 · group-v2.1", "3 · exact"]
    assert "Drawn anew" not in rows
    assert rows["Time, ratio"][0] == "1.00×" and all(ratio.endswith("×") for ratio in rows["Time, ratio"])
    assert rows["Clean"][2] == "1"
    assert f"badge[RMSD {rows['RMSD'][2]}]" in texts(app), "twice the same"
    assert rows["Geometry right"][2] in ("0", "1"), "its molecule was judged"
    assert "no stereo specified]" in texts(app) and set(rows["Stereo right"]) == {"–"}
    assert f"**{rows['Tokens'][2]}** tokens with the end · " in texts(app), "the strip leaves it out"
    assert "geometry right]" in texts(app) or "geometry wrong]" in texts(app)
    assert "first differs from lane 1 at token" in texts(app)
    assert "M weights in the layers), seed 0" in texts(app).replace("\\", "")
    assert texts(app).count("Why is exact faster than none?") == 1
    assert "badge[RMSD " in texts(app)
    for lane in app.session_state["live_lanes"]:
        (sample,) = open_store().rows("SELECT tokens, forced_tokens FROM samples WHERE run_id = $r", {"r": lane.run_id})
        counted = (lane.watch.tokens, lane.watch.forced_tokens)
        assert counted == (sample["tokens"], sample["forced_tokens"]), "as inspected"
    assert "strict reader refuses the text" in texts(app) and "not read by the strict reader:" not in texts(app), (
        "said once"
    )
    app.segmented_control(key="reference").set_value("beside").run()
    assert not app.exception


def test_without_both_lanes_nothing_is_said_of_their_speeds(live: Live) -> None:
    app = generated(live, lp3="—")
    assert not app.exception and "Why is exact faster" not in texts(app)


def test_a_guarded_lane_says_what_was_drawn_anew(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdict_badges, "MOST_TRIES", 1)
    app = generated(live, lp1="guarded", lp2="—", lp3="—", retries1="1", back1="2")
    assert not app.exception and not app.error
    assert "**1 · guarded · retries 1, back 2**" in texts(app).replace("\\", "")
    watch = app.session_state["live_lanes"][0].watch
    tries = len(watch.texts[0].thrown)
    assert f"blocks drawn anew **{tries}** times (" in texts(app) and texts(app).count("tokens thrown away") == 1
    assert "Still wrong after all tries of the guard: " in texts(app)
    (expander,) = [one for one in app.expander if one.label.startswith("Tries")]
    assert expander.label == f"Tries thrown away ({tries})" and not expander.proto.expanded
    listed = expander.get("html")[0].proto.body
    assert listed.count("<s>") == 1 and f"and {tries - 1} more tr" in listed
    rows = figures(app)
    assert rows["Drawn anew"] == [str(tries)] and rows["Thrown tokens"] == [f"{watch.thrown_tokens:,}"]


def test_what_fails_in_space_is_lit_in_2d_in_3d_and_in_the_tokens(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: dict[str, Any] = {}
    monkeypatch.setattr(board, "molecule2d", lambda svg, **more: drawn.update(atoms=more["atoms"]))
    monkeypatch.setattr(conformer, "view3d", lambda *_, marks, **more: drawn.update(marks=marks))
    monkeypatch.setattr(live_lanes, "atom_view", lambda rows, **more: drawn.update(rows=rows))
    app = generated(live, lp1="exact", lp2="—", lp3="—")
    assert "geometry wrong]" in texts(app) and "Marked: atoms that a failed check names" in texts(app)
    run_id = app.session_state["live_lanes"][0].run_id
    (sample,) = open_store().rows("SELECT clean, failed FROM samples WHERE run_id = $run", {"run": run_id})
    wrong = {atom for check in sample["failed"] for atom in check["atoms"]}
    assert sample["clean"] and wrong
    assert {place for place, words in enumerate(drawn["atoms"]) if words.endswith(": wrong in lane 1")} == wrong
    assert drawn["marks"] == dict.fromkeys(wrong, "wrong")
    assert {row.atom for row in drawn["rows"] if row.kind == "wrong"} == wrong


def test_the_text_of_a_try_is_text() -> None:
    thrown = ThrownText(range(1, 3), "stereo", "<img src=x>\u202e")
    shown = verdict_badges._try(thrown, ["[C]", "[N]", "[C@@H]"])
    assert "blocks 1 to 2, [C@@H]: stereo <s>" in shown and "&lt;img" in shown and "\u202e" not in shown


def test_a_lane_is_kept_once_and_found_in_the_store(live: Live, tmp_path: Path) -> None:
    app = generated(live)
    store = Store.open(tmp_path / "store")
    assert store.found().entries == ()
    app.button(key="keep_3").click().run()
    (entry,) = store.found().entries
    assert (entry.row["lp"], entry.row["samples"], entry.row["source"]) == ("exact", 1, "live page")
    assert app.button(key="keep_3").disabled and not app.button(key="keep_2").disabled
    assert store.rows("SELECT count(*) AS steps FROM steps")[0]["steps"] > 10


def test_several_molecules_and_samples_show_one_at_a_time(live: Live) -> None:
    app = generated(live, smiles="CC=O\nCCO", n="2", lp2="—")
    assert figures(app)["Samples"] == ["4", "4"] and "0" not in figures(app)["Tokens"]
    assert "** in the shown sample" in texts(app), "the table beside it is of all"
    first = texts(app)
    app.number_input(key="molecule").set_value(2).run()
    app.number_input(key="answer").set_value(2).run()
    assert not app.exception
    assert app.session_state["live_lanes"][0].watch.molecule_of(3).smiles == "CCO"
    assert texts(app) != first
    linked = generated(live, smiles="CC=O\nCCO", n="2", lp2="—", molecule="2", answer="2")
    assert (linked.number_input(key="molecule").value, linked.number_input(key="answer").value) == (2, 2)


def test_what_a_lane_cannot_do_is_said_in_it_and_the_others_go_on(live: Live) -> None:
    app = generated(live, placeholder2="0.00<")
    (error,) = app.error
    assert "placeholder" in error.value
    assert [one.seen.state for one in app.session_state["live_lanes"]] == ["done", "failed", "done"]
    assert len(figures(app)["Figure"]) == 3


def test_a_full_queue_is_one_message(live: Live, live_service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_service, "most_queued", 1)
    app = live(model=MODEL, smiles="CC=O")
    app.button(key="generate").click().run()
    assert len(app.error) == 1 and "The queue is full" in app.error[0].value
    assert "live_lanes" not in app.session_state


def test_a_tab_that_is_loaded_again_finds_its_lanes_and_a_second_tab_does_not(live: Live) -> None:
    app = live(model=MODEL, smiles="CC=O", most_tokens="200", lp2="—", lp3="—")
    app.button(key="generate").click().run()
    (lane,) = app.session_state["live_lanes"]
    name = app.query_params["lanes"]
    second = live(model=MODEL, smiles="CC=O", lanes=name)  # the first tab is still open
    assert "live_lanes" not in second.session_state and "lanes" not in second.query_params
    lane.job.is_there = lambda: False
    again = live(model=MODEL, smiles="CC=O", lanes=name)
    (found,) = again.session_state["live_lanes"]
    assert found.job is lane.job and found.job.is_there() and not again.exception
    assert again.session_state["visitor"] == app.session_state["visitor"]
    ended(found.job)
    again.run()
    lane.poll()
    assert found.watch.texts[0].ids == lane.watch.texts[0].ids and found.run_id == lane.run_id is not None
    assert "lanes" not in live(lanes="unknown").query_params


def test_stopping_one_lane_leaves_the_others(live: Live) -> None:
    app = live(model=MODEL, smiles="CC=O", most_tokens="20000")
    app.button(key="generate").click().run()
    lanes: list[Any] = app.session_state["live_lanes"]
    session.stop([lanes[0]])
    for one in lanes:
        ended(one.job)
    app.run()
    assert [lane.seen.state for lane in lanes] == ["stopped", "done", "done"]
    assert "[Stopped]" in texts(app)
    assert not app.exception


def test_an_address_from_before_the_lps_had_the_groups_names(live: Live) -> None:
    page = live(lp1="position-blocklist")
    assert not page.exception and not page.error
    assert page.selectbox(key="lp1").value == "group-v2.1"
