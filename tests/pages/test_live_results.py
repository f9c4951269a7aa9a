"""What the live page makes of finished lanes: the grid, linked views, tints and downloads; and pasted structures."""

from __future__ import annotations

import io
import zipfile
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import streamlit as st
from rdkit import Chem

from engine.chem.conformers import reference_conformers
from engine.chem.rmsd import superpose
from engine.chem.smiles import parse_smiles
from pages._live import conformer, files, grid, session
from pages._live import lanes as live_lanes
from pages._live.inputs import read_lines
from pages._shared.components import molecule_grid
from pages._shared.components.molecule2d import picked_atom
from pages._shared.inspected import open_store
from tests.pages.live_pages import Live, generated, texts


def test_a_grid_has_every_answer_worst_first_and_a_click_opens_it(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: dict[str, Any] = {}
    show = molecule_grid.molecule_grid

    def spy(cells: Any, drawings: Any, lanes: Any, **more: Any) -> None:
        drawn.update(more, cells=cells, drawings=drawings, lanes=lanes)
        show(cells, drawings, lanes, **more)

    monkeypatch.setattr(grid, "molecule_grid", spy)
    app = generated(live, smiles="CC=O\nCCO", n="2", lp2="—")
    assert not app.exception
    assert drawn["lanes"] == ["1 · none", "2 · exact"] and len(drawn["drawings"]) == 2
    names = [name for name, _, _ in drawn["cells"]]
    assert sorted(names) == [f"Molecule {molecule}, sample {sample}" for molecule in (1, 2) for sample in (1, 2)]
    unusable = [sum(code[3] == "w" for code in codes) for _, _, codes in drawn["cells"]]
    assert unusable == sorted(unusable, reverse=True) and unusable[0] > 0
    assert names[drawn["selected"]] == "Molecule 1, sample 1"
    place = names.index("Molecule 2, sample 2")
    app.session_state[drawn["key"]] = picked_atom(place)
    app.run()
    assert (app.number_input(key="molecule").value, app.number_input(key="answer").value) == (2, 2)
    assert drawn["selected"] == place
    (inputs,) = [fold for fold in app.expander if fold.label == "Molecules, model and lanes"]
    assert not inputs.proto.expanded, "the lanes take their place"
    words = live_lanes.progress_words(app.session_state["live_lanes"])
    assert words == "2 of 2 lanes done · 8 of 8 answers written"
    drawn.clear()
    generated(live, smiles="CC=O", lp1="exact", lp2="—", lp3="—")
    assert not drawn, "one answer has no grid"


def test_the_time_left_is_of_all_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_lanes, "seconds_left", lambda lanes: 40.2)
    seen, watch = SimpleNamespace(has_ended=False, elapsed_s=1.0), SimpleNamespace(samples=1, answered=())
    lanes: list[Any] = [SimpleNamespace(watch=watch, seen=seen)] * 2
    assert live_lanes.progress_words(lanes) == "0 of 2 lanes done · about 40 s left for all lanes"


def test_a_finished_lane_has_its_verdict_while_others_are_written(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    app = generated(live, lp1="exact", lp2="—")
    running = app.session_state["live_lanes"][1]
    running.watch.run_id, running.seen = None, replace(running.seen, state="running")
    monkeypatch.setattr(session, "poll", lambda: True)
    app.run()
    assert app.button(key="stop_all").label == "Stop all" and not app.exception
    assert texts(app).count("geometry right]") + texts(app).count("geometry wrong]") == 1


def test_a_drift_says_over_how_many_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[tuple[str, str]] = []
    monkeypatch.setattr(st, "markdown", lambda words, help: said.append((words, help)))
    for lp, tally in (("group-v2.1", (5, 1, 2, -4, 3)), ("exact", (5, 0, 0, 7, 5))):
        of_blocks = dict(zip(("blocks", "junk", "cut", "drift", "known"), tally, strict=True))
        monkeypatch.setattr(live_lanes, "tally", lambda watch, shown, of=of_blocks: of)
        monkeypatch.setattr(live_lanes, "is_guarded", lambda watch: False)
        watch = SimpleNamespace(
            tokens=9, forced_tokens=3, forward_passes=6,
            reader=SimpleNamespace(lp=lp), seconds=3.0, samples=1, answered=(),
        )  # fmt: skip
        lane: Any = SimpleNamespace(watch=watch)
        live_lanes.counters(lane, 0)
    (drift, help), (hypothetical, its_help) = said
    assert drift.endswith("of 5 blocks · drift −4 (known in 3 of them)") and "Hypothetical" not in help
    assert hypothetical.endswith("of 5 blocks · hypothetical drift +7")
    assert "Hypothetical: no template wrote this text" in its_help
    assert "33.3\u00a0% forced" in drift


def test_downloads_hold_what_they_say(live: Live) -> None:
    app = generated(live, smiles="CC=O\nCCO", lp1="exact", lp2="—")
    entries = {entry.id: entry for entry in open_store().found().entries}
    lanes = [(f"{lane.number}-{lane.lp}", entries[lane.run_id]) for lane in app.session_state["live_lanes"]]
    entry = lanes[-1][1]
    assert files._steps(entry)[:4] == b"PAR1"
    with zipfile.ZipFile(io.BytesIO(files.zip_of(lanes))) as archive:
        assert archive.namelist() == ["samples.csv", "1-exact.sdf", "1-exact.json", "2-exact.sdf", "2-exact.json"]
        header, *rows = archive.read("samples.csv").decode().splitlines()
        assert len(rows) == 4 and "usable" in header
        sdf = archive.read("1-exact.sdf").decode()
        assert sdf.count("$$$$") == 2 and "<usable>" in sdf
        assert f'"{entry.row["model_alias"]}"' in archive.read("2-exact.json").decode()


def test_an_atom_picked_in_the_drawing_is_selected_in_all_lanes(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    selected: dict[str, int | None] = {}
    monkeypatch.setattr(live_lanes, "atom_view", lambda rows, **more: selected.update({more["key"]: more["atom"]}))
    app = generated(live, lp1="exact", lp2="—")
    assert selected["lane_1"] is None
    app.session_state["drawing"] = picked_atom(2)
    app.run()
    assert selected["lane_1"] == selected["lane_2"] == 2


def test_a_reference_beside_lies_clear_of_the_conformer_and_is_not_turned() -> None:
    ensembles = [reference_conformers(parse_smiles("CC(=O)OCCC"), 1, seed=seed) for seed in (0, 1)]
    moved, _ = superpose(ensembles[1], ensembles[0])
    beside = conformer._beside(moved, ensembles[0])
    fixed, before, after = (mol.GetConformer().GetPositions() for mol in (ensembles[0], moved, beside))
    shifts = after - before
    assert np.allclose(shifts, shifts[0])
    up = shifts[0] / np.linalg.norm(shifts[0])
    assert max((after @ up).min() - (fixed @ up).max(), (fixed @ up).min() - (after @ up).max()) == pytest.approx(
        conformer.GAP_ANG
    )


def test_a_pasted_mol_block_is_a_molecule() -> None:
    block = Chem.MolToMolBlock(reference_conformers(parse_smiles("C[C@H](O)CN"), 1))
    (molecule,), problems = read_lines(block)
    assert molecule.smiles == "C[C@H](O)CN" and not problems
    none, (problem,) = read_lines(block.replace(" C ", " Qq ", 1))
    assert none == () and "Element" in problem
