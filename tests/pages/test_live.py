"""The live page's logic without a browser: what is asked for, what becomes of it, and what may be done with it."""

from __future__ import annotations

import io
import json
import re
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from rdkit import Chem

from engine.chem.conformers import reference_conformers
from engine.chem.rmsd import superpose
from engine.chem.smiles import parse_smiles
from engine.inspection.tries import ThrownText
from engine.jobs.service import Service
from engine.models.registry import bins_of
from engine.paths import DATA
from engine.store.files import Files
from engine.store.schema import STEPS
from engine.store.store import Store
from pages._kit import verdict_badges
from pages._kit.components.molecule2d import molecule2d
from pages._kit.components.molecule_list import molecule_list
from pages._kit.handover import report
from pages._kit.inspected import open_store
from pages._live import board, conformer, files, grid, results, session
from pages._live import lanes as live_lanes
from pages._live.grid import code_of, harm_of, worst_first
from pages._live.inputs import FIRST_MOLECULE, read_lines
from pages._live.results import TICK_S, tick_s
from tests.engine.inspection.made import DEMO_STORE, demo_run
from tests.pages.apps import picked_atom, shown, words
from tests.pages.live_pages import MODEL, Live, all_figures, begun, figures, generated
from tests.service_harness import awaited, ended

NUMBERS = ("temperature", "top_k", "top_p", "min_p")

# --- what is asked for ------------------------------------------------------------------------------------------------


def test_the_first_visit_is_one_click_from_the_story(live: Live) -> None:
    app = live()
    assert not app.error and app.text_area(key="smiles").value == FIRST_MOLECULE
    assert shown(app)["lps"] == ["none", "group-v2.1", "exact"]
    assert not app.button(key="generate").disabled and "live_lanes" not in app.session_state


def test_the_stored_lanes_say_their_time_and_stand_above_the_folded_form(live: Live) -> None:
    app = live()
    store = Store(Files(DATA / "opening"))
    seconds = [entry.row["decode_s"] for entry in store.listing().entries]
    said = words(app)
    assert f"**1 · none** {seconds[0]:.2f} s\n" in said
    for number, lp in ((2, "group-v2.1"), (3, "exact")):
        faster = seconds[0] / seconds[number - 1]
        assert f"**{number} · {lp}** {seconds[number - 1]:.2f} s · {faster:.2f}× faster than lane 1" in said
    assert said.count("(2.4 M weights in the layers) on cpu, 1 thread, float32") == 1
    helps = [markdown.proto.help for markdown in app.markdown if "than lane 1" in markdown.value]
    assert len(helps) == 2 and all("4 M weights" in help and "1 thread" in help for help in helps)
    (form,) = [fold for fold in app.expander if fold.label == "Inputs"]
    assert f"**{FIRST_MOLECULE}** · demo-llama:final · none, group-v2.1, exact" in said
    assert not form.proto.expanded and "generate" not in {button.key for button in form.button}
    nodes = list(app.main)
    exact = next(node for node in app.markdown if "3 · exact" in node.value)
    assert nodes.index(exact) < nodes.index(form)


@pytest.mark.parametrize(
    ("query", "folded"),
    [
        ({"smiles": "CCO\nCC=O\nC", "lp2": "—"}, "**3 molecules** · small:random · none, exact"),
        ({"smiles": "C" * 90, "lp2": "gone"}, f"**{'C' * 59}…** · small:random · none, group-v2.1, exact"),
    ],
)
def test_the_folded_form_names_what_generate_will_do(live: Live, query: dict[str, str], folded: str) -> None:
    app = live(model=MODEL, **query)
    assert folded in words(app)
    app.text_area(key="smiles").set_value("CO").run()
    assert "**CO** · " in words(app)


def test_an_address_holds_all_that_was_chosen(live: Live) -> None:
    chosen = {"smiles": "CCO", "model": "demo-qwen:final", "lp1": "truncating", "lp4": "group-v2.1+cleanup"}
    app = live(**chosen, seed="7", n="3", sampling="greedy", temperature="0.5", placeholder2="0.00", backend3="hf")
    assert app.text_area(key="smiles").value == "CCO"
    assert {key: app.selectbox(key=key).value for key in ("model", "lp1", "lp4")} == {
        key: chosen[key] for key in ("model", "lp1", "lp4")
    }
    assert [app.number_input(key=key).value for key in ("seed", "n", "temperature")] == [7, 3, 0.5]
    assert "Changed from the preset greedy" in words(app)
    assert app.text_input(key="placeholder2").value == "0.00"
    app = live(lp1="guarded", lp2="position-blocklist", retries1="2", back1="0", top_k="0", temperature="0.0")
    assert [app.number_input(key=key).value for key in ("retries1", "back1")] == [2, 0]
    assert not [field for field in app.number_input if field.key in ("retries2", "back2")]
    assert app.selectbox(key="lp2").value == "group-v2.1", "an address from before the LPs had the group's names"
    assert [app.number_input(key=name).value for name in NUMBERS[:3]] == [0.0, 0, 0.8]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"model": "no*pe:final"}, "There is no model 'no*pe:final' here. demo-llama:final is chosen"),
        ({"seed": "1e400"}, "infinite"),
    ],
)
def test_an_address_that_does_not_read_is_one_message(live: Live, query: dict[str, str], message: str) -> None:
    (error,) = live(**query).error
    assert message in error.value.replace("\\", "")


def test_a_preset_sets_its_numbers_and_they_may_be_changed(live: Live) -> None:
    app = live()
    app.selectbox(key="sampling").select("minp0.1_t1.4").run()
    assert [app.number_input(key=name).value for name in NUMBERS] == [1.4, 0, 1.0, 0.1]
    assert "Changed from the preset" not in words(app)
    app.number_input(key="top_k").set_value(9).run()
    assert "Changed from the preset minp0.1_t1.4" in words(app)


def test_a_named_molecule_puts_its_smiles_into_the_field(live: Live) -> None:
    app = live()
    app.selectbox(key="named").select("aspirin").run()
    assert app.text_area(key="smiles").value == "CC(=O)Oc1ccccc1C(=O)O"
    app.text_area(key="smiles").set_value("CCO").run()
    assert app.selectbox(key="named").value is None
    app.selectbox(key="named").select("aspirin").run()
    assert app.text_area(key="smiles").value == "CCO\nCC(=O)Oc1ccccc1C(=O)O", "below others"


def test_a_name_in_place_of_a_smiles_is_offered_as_the_named_molecule(live: Live) -> None:
    app = live(smiles="CCO\nAspirin\nacetic acid")
    assert len(app.error) == 2 and app.error[0].value.startswith("Line 2: ")
    for expected in ("CCO\nCC(=O)Oc1ccccc1C(=O)O\nacetic acid", "CCO\nCC(=O)Oc1ccccc1C(=O)O\nCC(=O)O"):
        app.button(key="use-named").click().run()
        assert app.text_area(key="smiles").value == expected
    assert not app.error and not [button for button in app.button if button.key == "use-named"]


@pytest.mark.parametrize(
    ("smiles", "errors", "message", "can_start"),
    [
        ("<img src=x onerror=alert(1)>", 1, "\\<img", False),
        ("C" * 20_000, 1, "characters", False),
        ("CCO ethanol\n\nnonsense\nCC=O", 1, "Line 3: ", True),
        ("\n".join(["CCO"] * 101), 1, "Limit: 100 molecules, got 101", False),
    ],
)
def test_bad_lines_are_named(live: Live, smiles: str, errors: int, message: str, can_start: bool) -> None:
    app = live(smiles=smiles)
    assert len(app.error) == errors and message in app.error[-1].value
    assert app.button(key="generate").disabled != can_start


def test_a_mol_block_is_a_molecule() -> None:
    block = Chem.MolToMolBlock(reference_conformers(parse_smiles("C[C@H](O)CN"), 1))
    (molecule,), problems = read_lines(block)
    assert molecule.smiles == "C[C@H](O)CN" and not problems
    none, (problem,) = read_lines(block.replace(" C ", " Qq ", 1))
    assert none == () and "Element" in problem


# --- lanes ------------------------------------------------------------------------------------------------------------


def test_several_conformers_are_asked_for_by_a_number_and_looked_at_one_by_one(live: Live) -> None:
    lanes = {"lp2": "—", "lp3": "—", "conformers": "2"}
    app = live(smiles="CC=O", model=MODEL, lp1="group-v4.3", **lanes)
    (error,) = app.error
    assert "The LP group-v4.3 writes one conformer per answer" in error.value.replace("\\", "")
    assert app.button(key="generate").disabled
    app = generated(live, lp1="exact", **lanes, most_tokens="300")
    (lane,) = app.session_state["live_lanes"]
    (row,) = open_store().rows("SELECT conformers, clean, text FROM samples WHERE run_id = $r", {"r": lane.run_id})
    assert (row["conformers"], row["clean"], row["text"].count("[/CONFORMER]")) == (2, True, 2)
    frames = []
    for number in ("1", "2"):
        app.segmented_control(key="conformer1").set_value(number).run()
        (frame,) = app.get("iframe")
        frames.append(frame.proto.srcdoc)
    assert not app.exception and frames[0] != frames[1], "each has its own places"


def test_examples_stand_before_the_prompt(live: Live) -> None:
    """The model has read them: what it thinks of the same tokens is another thing."""
    examples = "[SMILES]CO[/SMILES]\n[CONFORMER][C]<0.1,0.2,0.3>[O]<1.1,1.2,1.3>[/CONFORMER]"
    p_raw = []
    for more in ({}, {"examples": examples}):
        (lane,) = generated(live, lp1="exact", lp2="—", lp3="—", **more).session_state["live_lanes"]
        entry = open_store().entry(lane.run_id)
        assert entry.row.get("examples") == (1 if more else None)
        p_raw.append(entry.read(STEPS.name)["p_raw"].to_numpy()[:3])
    assert np.abs(p_raw[0] / p_raw[1] - 1).max() > 1e-3
    app = live(smiles="CC=O", examples="CO [C]<0.1,0.2,0.3>")
    (error,) = app.error
    assert "No example begins at" in error.value and app.button(key="generate").disabled


def test_three_lanes_from_click_to_result(live: Live, tmp_path: Path) -> None:
    app = generated(live)
    assert not app.error
    differing, rows, said = figures(app), all_figures(app), words(app)
    assert rows["Figure"] == ["1 · none", "2 · group-v2.1", "3 · exact"] and "Redrawn" not in rows
    assert differing == {name: cells for name, cells in rows.items() if len(set(cells)) > 1}
    assert "Samples" in rows.keys() - differing.keys() and "Time" in differing
    for place in (1, 2):
        pace = rows["Speed"][place]
        assert f"{rows['Time'][place]} · {pace} {'as' if pace == 'as fast' else 'than'} lane 1" in said
    assert said.count("cpu, ") == 4, "each lane names its machine, and the table"
    heads = [json.loads(frame.proto.columns).get("Figure", {}).get("help") or "" for frame in app.dataframe]
    assert any("**Usable**: " in head for head in heads), "words of its rows have their meanings on the head"
    assert rows["Speed"][0] == "as fast" and all("fast" in pace or "slower by" in pace for pace in rows["Speed"])
    assert rows["Clean"][2] == "1" and rows["Geometry right"][2] in ("0", "1") and "Stereo right" not in rows
    assert f"badge[RMSD {rows['RMSD'][2]}]" in said, "twice the same"
    assert f"**{rows['Tokens'][2]}** tokens · " in said
    assert "first differs from lane 1 at token" in said and said.count("Why is exact faster than none?") == 1
    for lane in app.session_state["live_lanes"]:
        (sample,) = open_store().rows("SELECT tokens, forced_tokens FROM samples WHERE run_id = $r", {"r": lane.run_id})
        counted = (lane.watch.tokens, lane.watch.forced_tokens)
        assert counted == (sample["tokens"], sample["forced_tokens"]), "as inspected"
    assert "strict reader refuses the text" in said and "in 3 of them" not in said
    app.segmented_control(key="reference").set_value("beside").run()
    store = Store.open(tmp_path / "store")
    assert not app.exception and store.listing().entries == ()
    app.button(key="keep_3").click().run()
    (entry,) = store.listing().entries
    assert (entry.row["lp"], entry.row["samples"], entry.row["source"]) == ("exact", 1, "live page")
    assert app.button(key="keep_3").disabled and not app.button(key="keep_2").disabled
    app.text_area(key="smiles").set_value("CCCl").run()
    assert "Results below are for CC=O; press Generate" in words(app)


def test_a_guarded_lane_says_what_was_drawn_anew(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdict_badges, "MOST_TRIES", 1)
    app = generated(live, lp1="guarded", lp2="—", lp3="—", retries1="1", back1="2")
    assert not app.error and "**1 · guarded · retries 1, back 2**" in words(app)
    watch = app.session_state["live_lanes"][0].watch
    tries = len(watch.texts[0].thrown)
    (expander,) = [fold for fold in app.expander if fold.label.startswith("Tries")]
    assert expander.label == f"Tries thrown away ({tries})" and not expander.proto.expanded
    listed = expander.get("html")[0].proto.body
    assert listed.count("<s>") == 1 and f"and {tries - 1} more tr" in listed
    rows = figures(app)  # all of them: one lane differs from none
    assert rows["Redrawn"] == [str(tries)] and rows["Thrown tokens"] == [f"{watch.thrown_tokens:,}"]
    shown_try = verdict_badges._try(ThrownText(range(1, 3), "stereo", "<img src=x>\u202e"), ["[C]", "[N]", "[C@@H]"])
    assert "&lt;img" in shown_try and "\u202e" not in shown_try


def test_a_shaped_lane_marks_where_tokens_were_struck(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}
    monkeypatch.setattr(live_lanes, "atom_view", lambda rows, **more: seen.update({more["key"]: rows}))
    app = generated(live, lp1="shaped", lp2="guarded", lp3="—", ways1="2")
    assert not app.error and "**1 · shaped · back 2**" in words(app) and "**2 · guarded**" in words(app)
    watch = app.session_state["live_lanes"][0].watch
    struck = sum(map(len, watch.texts[0].struck.values()))
    rows, said = all_figures(app), words(app)
    assert rows["Struck"] == [str(struck), "–"] and rows["Dead ends"] == [str(watch.dead_ends), "–"]
    assert rows["Redrawn"][0] == "–" != rows["Redrawn"][1] and "–" not in rows["Thrown tokens"]
    assert f"struck **{struck}** · dead ends **{watch.dead_ends}**" in said and struck > 0
    tokens = [token for row in seen["lane_1"] for token in row.tokens]
    marked = {token.column for token in tokens if "x" in token.marks}
    aligned = watch.alignment(0)
    assert marked == {column for column, row in enumerate(aligned.rows) if row.pos in watch.texts[0].struck}
    assert all(token.struck.startswith("struck here: `") for token in tokens if token.column in marked)
    assert not any("x" in token.marks or token.struck for row in seen["lane_2"] for token in row.tokens)


def test_a_shaped_lane_is_offered_with_its_own_settings(live: Live) -> None:
    app = live(lp1="shaped", lp2="guarded")
    assert "shaped: exact, and only tokens that leave the atom a right place." in words(app)
    keys = ("retries1", "ways1", "retries2", "back2")
    assert [app.number_input(key=key).value for key in keys] == [3, 6, 3, 3]
    assert not [field for field in app.number_input if field.key in ("back1", "ways2")]
    app.selectbox(key="lp2").select("shaped").run()
    assert app.number_input(key="ways2").value == 6, "not what was usual for the LP before"


def test_what_fails_in_space_is_marked_and_a_pick_is_of_all_lanes(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: dict[str, Any] = {}
    seen: dict[str, Any] = {}
    draw = molecule2d
    monkeypatch.setattr(board, "molecule2d", lambda svg, **more: (drawn.update(more), draw(svg, **more)))
    monkeypatch.setattr(live_lanes, "atom_view", lambda rows, **more: seen.update({more["key"]: (rows, more["atom"])}))
    app = generated(live, lp1="exact", lp2="—")
    wrong_atoms, wrong = set(), {}
    for lane in app.session_state["live_lanes"]:
        (sample,) = open_store().rows("SELECT clean, failed FROM samples WHERE run_id = $1", [lane.run_id])
        wrong[f"lane_{lane.number}"] = {atom for check in sample["failed"] for atom in check["atoms"]}
        wrong_atoms |= wrong[f"lane_{lane.number}"]
    assert wrong_atoms and "geometry wrong]" in words(app)
    assert {atom for atom, label in enumerate(drawn["atoms"]) if ": wrong in lane" in label} == wrong_atoms
    marked = {key: {row.atom for row in rows if row.kind == "wrong"} for key, (rows, _) in seen.items()}
    assert {key: marked[key] for key in wrong} == wrong
    app.session_state["drawing"] = picked_atom(2)
    app.run()
    assert {seen[key][1] for key in wrong} == {2}


def test_several_samples_are_a_grid_worst_first(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: dict[str, Any] = {}

    def spy(cells: Any, drawings: Any, **more: Any) -> None:
        drawn.update(more, cells=cells, drawings=drawings)
        molecule_list(cells, drawings, **more)

    monkeypatch.setattr(grid, "molecule_list", spy)
    app = generated(live, smiles="C=O\nCO", n="2", lp2="—")
    rows = all_figures(app)
    assert rows["Samples"] == ["4", "4"] and "0" not in rows["Tokens"]
    assert len(drawn["drawings"]) == 2
    assert all(re.match(r"1 · none: text .*\n2 · exact: text ", cell.about) for cell in drawn["cells"])
    names = [cell.name for cell in drawn["cells"]]
    assert sorted(names) == [f"Molecule {molecule}, sample {sample}" for molecule in (1, 2) for sample in (1, 2)]
    unusable = [cell.about.count("not usable") for cell in drawn["cells"]]
    assert unusable == sorted(unusable, reverse=True) and unusable[0] > 0
    assert names[drawn["selected"]] == "Molecule 1, sample 1"
    index = names.index("Molecule 2, sample 2")
    app.session_state[drawn["key"]] = picked_atom(index)
    app.run()
    assert [app.number_input(key=key).value for key in ("molecule", "answer")] == [2, 2]
    assert drawn["selected"] == index
    (inputs,) = [fold for fold in app.expander if fold.label == "Inputs"]
    assert "**2 molecules** · " in words(app)
    assert not inputs.proto.expanded, "the lanes take their place"
    message = live_lanes.progress_words(app.session_state["live_lanes"])
    assert message == "2 of 2 lanes done · 8 of 8 answers written"


def test_a_lane_streams_its_text_and_names_machine_pace_and_memory(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: dict[str, Any] = {}
    monkeypatch.setattr(live_lanes, "atom_view", lambda rows, **more: drawn.update(more, rows=rows))
    app = begun(live, smiles="C" * 190, lp1="group-v2.1", lp2="—", lp3="—", most_tokens="20000")
    (lane,) = app.session_state["live_lanes"]
    awaited(lambda: lane.watch.memory_mb > 0 and len(lane.watch.texts[0].ids) > 40)
    app.run()
    assert not app.exception and drawn["rows"] == [] and drawn["follow"]
    written = [token for token in drawn["text"] if "n" not in token.marks]
    ids, forced = lane.watch.texts[0].ids, lane.watch.texts[0].forced
    assert [token.id for token in written] == ids[: len(written)] and len(written) > 40
    assert ["f" in token.marks for token in written] == forced[: len(written)] and {True, False} <= set(forced)
    found = re.search(r"cpu, \d+ threads?, float32 · \*\*(\d+)\*\* tokens/s · \*\*([\d,]+)\*\* MB", words(app))
    assert found and int(found[1]) > 0 and int(found[2].replace(",", "")) > 100
    app.button(key="stop_all").click().run()
    ended(lane.job)
    app.run()
    assert not app.exception and not drawn["rows"], "what was written stays"
    assert "**1 · group-v2.1** Stopped" in words(app)


def test_bins_may_be_given_that_the_models_entry_does_not_name(live: Live) -> None:
    app = generated(live, lp1="exact", lp2="—", lp3="—", bins="0.042 21")
    (lane,) = app.session_state["live_lanes"]
    assert lane.watch.plan.plan.form == bins_of("0.042 21")
    (row,) = open_store().rows("SELECT text, clean FROM samples WHERE run_id = $r", {"r": lane.run_id})
    assert row["clean"] and re.search(r"<\d{4},\d{4},\d{4}>", row["text"])
    (error,) = live(bins="0.042 21", lp1="truncating").error
    assert "is for decimals, not for bins" in error.value.replace("\\", "")


def test_what_a_lane_cannot_do_is_said_in_it_and_the_others_go_on(live: Live) -> None:
    app = generated(live, placeholder2="0.00<")
    assert len(app.error) == 1
    assert [lane.seen.state for lane in app.session_state["live_lanes"]] == ["done", "failed", "done"]


def test_a_full_queue_is_one_message(live: Live, live_service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_service, "most_queued", 1)
    app = begun(live)
    assert len(app.error) == 1 and "The queue is full" in app.error[0].value
    assert "live_lanes" not in app.session_state


def test_a_tab_that_is_loaded_again_finds_its_lanes_and_a_second_tab_does_not(live: Live) -> None:
    app = begun(live, lp2="—", lp3="—")
    (lane,) = app.session_state["live_lanes"]
    name = app.query_params["lanes"]
    second = live(model=MODEL, smiles="CC=O", lanes=name)  # the first tab is still open
    assert "live_lanes" not in second.session_state and "lanes" not in second.query_params
    lane.job.is_there = lambda: False
    again = live(model=MODEL, smiles="CC=O", lanes=name)
    (resumed,) = again.session_state["live_lanes"]
    assert resumed.job is lane.job and resumed.job.is_there()
    assert again.session_state["visitor"] == app.session_state["visitor"]
    ended(resumed.job)
    again.run()
    lane.poll()
    assert resumed.watch.texts[0].ids == lane.watch.texts[0].ids and resumed.run_id == lane.run_id is not None


def test_starts_are_kept_as_far_as_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_STARTS", starts := dict[str, Any]())
    lanes: Any = [SimpleNamespace(watch=SimpleNamespace(samples=session.MOST_KEPT // 4))] * 2
    for name in "abc":
        session._keep(lanes, name)
    assert list(starts) == ["b", "c"]
    session._keep(lanes * 9, "large")
    assert list(starts) == ["large"]
    for number in range(session.MOST_STARTS + 1):
        session._keep([], str(number))
    assert len(starts) == session.MOST_STARTS and "large" not in starts


def test_downloads_hold_what_they_say(live: Live) -> None:
    app = generated(live, smiles="CC=O\nCCO", lp1="exact", lp2="—")
    entries = {entry.id: entry for entry in open_store().listing().entries}
    lanes = [(f"{lane.number}-{lane.lp}", entries[lane.run_id]) for lane in app.session_state["live_lanes"]]
    assert files._steps(lanes[-1][1])[:4] == b"PAR1"
    with zipfile.ZipFile(io.BytesIO(files.zip_of(lanes))) as archive:
        assert archive.namelist() == ["samples.csv", "1-exact.sdf", "1-exact.json", "2-exact.sdf", "2-exact.json"]
        header, *rows = archive.read("samples.csv").decode().splitlines()
        assert len(rows) == 4 and "usable" in header
        sdf = archive.read("1-exact.sdf").decode()
        assert sdf.count("$$$$") == 2 and "<usable>" in sdf
    assert "Report (HTML)" in [button.label for button in app.download_button]
    page = report([entry.id for _, entry in lanes], first=1)
    shown = [page.find(f"drift_atoms {entry.id}/1".encode()) for _, entry in lanes]
    assert all(0 < place < page.find(f"drift_atoms {lanes[0][1].id}/0".encode()) for place in shown)


def test_a_lane_without_a_readable_conformer_has_the_reason_in_the_files_place(demo_store: None) -> None:
    damaged = DEMO_STORE.entry(demo_run("llama", "group-v2.1"))
    with zipfile.ZipFile(io.BytesIO(files.zip_of([("1-group-v2.1", damaged)]))) as archive:
        assert archive.namelist()[1:] == ["1-group-v2.1-no-conformers.txt", "1-group-v2.1.json"]
        assert "The first: enriched text, block" in archive.read(archive.namelist()[1]).decode()


# --- parts ------------------------------------------------------------------------------------------------------------


FLAGS = ("clean", "passed", "stereo_right", "geometry_right", "usable")
RIGHT: dict[str, Any] = {**dict.fromkeys(FLAGS, True), "checks": "", "lost_ang": None}
UNJUDGED = {"stereo_right": None, "geometry_right": None}


@pytest.mark.parametrize(
    ("changes", "code", "wrong"),
    [
        ({}, "rrrr", 0),
        ({"stereo_right": None}, "r-rr", 0),  # nothing is specified
        ({"clean": False, "usable": False}, "drrw", 1),
        ({"geometry_right": False, "usable": False, "checks": "clash"}, "rrww", 1),
        ({"clean": False, **UNJUDGED, "usable": False, "checks": "loaded"}, "d--w", 3),
        ({"clean": False, "passed": False, "usable": None, "checks": None}, "wrr-", 1),
    ],
)
def test_the_marks_of_a_sample(changes: dict[str, Any], code: str, wrong: int) -> None:
    assert code_of(RIGHT | changes) == code
    assert harm_of(RIGHT | changes) == (code[3] == "w" or code == "wrr-", 0.0, wrong)


def test_a_token_of_a_lane_has_alternatives_and_a_branch_comes_under_the_rows(live: Live) -> None:
    app = generated(live, lp1="exact", lp2="—", lp3="—")
    (lane,) = app.session_state["live_lanes"]
    at = next(pos for pos, is_forced in enumerate(lane.watch.texts[0].forced) if not is_forced and pos > 9)
    column = next(column for column, row in enumerate(lane.watch.alignment(0).rows) if row.pos == at)
    app.session_state["lane_1"] = picked_atom(column)
    app.run()
    (asked,) = [asked for key, asked in app.session_state["asked"].items() if at in key[3:]]
    if asked.job:  # it may have ended while the page was drawn
        ended(asked.job)
        app.run()
    token = next(token for token in asked.result if token.p_lp and not token.is_written)
    app.button(key=f"branch-{lane.run_id}-0-{token.token_id}").click().run()
    if job := app.session_state["asked"]["branch", lane.run_id, 0].job:
        ended(job)
        app.run()
    app.session_state["sent under lane_1"] = {}  # as where the browser asks for all of it
    app.run()
    chosen: Any = app.selectbox(key=f"branch-under-{lane.run_id}-0-1")
    assert not app.exception and not app.error
    assert chosen.value.endswith("/0") and f"branch from token {at} · exact" in chosen.options
    rows = open_store().rows("SELECT token_ids FROM samples WHERE run_id = $1", [chosen.value[:-2]])
    assert rows[0]["token_ids"][: at + 1] == [*lane.watch.texts[0].ids[:at], token.token_id]
    sent = [json.loads(component.proto.json or "null") for component in app.get("bidi_component")]
    assert any(
        row["is_other"]
        for each in sent
        if isinstance(each, dict)
        for row in each.get("rows", {}).values()
        if isinstance(row, dict)
    )
    assert any("1 branch under exact" in caption.value for caption in app.caption)
    app.button(key=f"save-branch-under-{lane.run_id}-0-1").click().run()
    assert not app.exception and {lane.run_id, chosen.value[:-2]} <= {e.id for e in Store.open().listing().entries}
    assert app.button(key="keep_1").label == "Saved"


def test_the_worst_over_all_runs_comes_first_and_equals_keep_their_order() -> None:
    bad = RIGHT | {"clean": False, "geometry_right": False}
    assert worst_first([[RIGHT, RIGHT], [bad, RIGHT], [RIGHT, None], [None, None]]) == [1, 0, 2, 3]
    unusable = RIGHT | {"usable": False, "clean": False}
    assert worst_first([[bad], [unusable], [unusable | {"lost_ang": 0.5}]]) == [2, 1, 0]


def test_a_reference_beside_lies_clear_of_the_conformer_and_is_not_turned() -> None:
    ensembles = [reference_conformers(parse_smiles("CC(=O)OCCC"), 1, seed=seed) for seed in (0, 1)]
    moved, _ = superpose(ensembles[1], ensembles[0])
    shifted = conformer._next_to(moved, ensembles[0])
    fixed, before, after = (mol.GetConformer().GetPositions() for mol in (ensembles[0], moved, shifted))
    shifts = after - before
    assert np.allclose(shifts, shifts[0])
    up = shifts[0] / np.linalg.norm(shifts[0])
    gap = max((after @ up).min() - (fixed @ up).max(), (fixed @ up).min() - (after @ up).max())
    assert gap == pytest.approx(conformer.GAP_ANG)


@pytest.mark.parametrize(
    ("first", "words"),
    [
        (None, "2.00 s"),
        (8.8, "2.00 s · 4.40× faster than lane 1"),
        (1.0, "2.00 s · slower by 2.00× than lane 1"),
        (2.0, "2.00 s · as fast as lane 1"),
    ],
)
def test_a_lane_says_its_seconds_against_the_first(first: float | None, words: str) -> None:
    assert live_lanes.time_words(2.0, first) == words


def test_all_tabs_together_are_redrawn_no_more_often_than_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eleven tabs at the pace of one took nine tenths of the process: a first token came after a minute, or later."""
    for owners, paces in ((0, 1), (1, 1), (3, 3)):
        monkeypatch.setattr(results, "service", lambda owners=owners: SimpleNamespace(owners=lambda: owners))
        assert tick_s() == paces * TICK_S
