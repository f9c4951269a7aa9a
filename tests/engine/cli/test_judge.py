"""``judge``: a text or a run from a terminal, with the keys that others rely on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from engine.chem.conformers import reference_conformers
from engine.chem.enriched import encode
from engine.chem.smiles import parse_smiles
from engine.store.files import Files
from engine.store.store import VARIABLE, Store
from tests.cli import run, run_json
from tests.engine.inspection.made import sample_row, write_run
from tests.engine.store.stored_runs import store_at

SMILES = "C[C@H](N)C(=O)O"
KEYS = {"passed", "decodes", "clean", "stereo_right", "geometry_right", "usable", "failed", "strain_kcal"}
BENT = "[C]<0.0000,0.0000,0.0000>[O]<3.4000,0.0000,0.0000>"


@pytest.fixture(scope="module")
def text() -> str:
    return f"[CONFORMER]{encode(reference_conformers(parse_smiles(SMILES))).text}[/CONFORMER]"


def test_a_text_against_its_own_molecule_and_against_the_mirror_image(text: str) -> None:
    own, same, mirrored = (
        run_json("judge", "--text", text, *more)
        for more in ([], ["--smiles", SMILES], ["--smiles", SMILES.replace("@", "@@")])
    )
    assert set(own) >= KEYS
    assert own == same
    assert own["usable"] is own["stereo_right"] is own["geometry_right"] is own["clean"] is own["decodes"] is True
    assert own["strain_kcal"] is None
    assert mirrored["stereo_right"] is mirrored["usable"] is mirrored["clean"] is False
    assert [(fault["check"], fault["atoms"], fault["detail"]) for fault in mirrored["failed"]] == [
        ("stereo", [1], "mirrored")
    ]


def test_a_text_that_is_no_molecule_fails_and_is_no_error() -> None:
    found = run_json("judge", "--text", "[C]<0.0000,0.00")
    assert (found["passed"], found["decodes"], found["clean"], found["usable"]) == (False, False, False, False)
    assert [fault["check"] for fault in found["failed"]] == ["loaded"]
    assert (found["stereo_right"], found["issues"]) == (None, ["no real coordinates"])


def test_a_run_with_its_rates_and_samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = store_at(tmp_path)
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    good = BENT.replace("3.4", "1.4")
    empty = sample_row(2, clean=False, decodes=None)
    write_run(store, "one", [sample_row(0, text=good), sample_row(1, text=BENT), empty])
    result = run("judge", "one", "--json", "--workers", "1")
    found = result.document
    assert result.err == ""
    assert found["stored"] is True
    assert (found["passed"], found["decodes"], found["clean"], found["stereo_right"]) == (1.0, None, 2 / 3, None)
    assert (found["geometry_right"], found["usable"], found["judged"]) == (0.5, 1 / 3, 3)
    assert [set(sample) >= KEYS for sample in found["samples"]] == [True] * 3
    assert [sample["usable"] for sample in found["samples"]] == [True, False, False]
    assert run_json("runs")[0]["usable"] == 1


def test_stored_strains_that_no_molecule_has_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bug: ``intermediate overflow in fsum``."""
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    strains = [(1e308, 1e308), (1e308, -1e308), (-1e308, float("nan")), (4.0, 0.5)]
    good = {"text": BENT.replace("3.4", "1.4"), "heavy_atoms": 2}
    rows = [sample_row(k, **good, strain_kcal=kcal, strain_moved_ang=ang) for k, (kcal, ang) in enumerate(strains)]
    write_run(store_at(tmp_path), "one", rows)
    found = run("judge", "one", "--json", "--workers", "1").document
    assert (found["strain_kcal"], found["strain_kcal_per_atom"], found["strain_moved_ang"]) == (4.0, 2.0, 0.5)


def test_show_has_the_strain_per_heavy_atom_which_is_no_column_of_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    strained = sample_row(0, geometry_right=True, heavy_atoms=2, strain_kcal=5.0, strain_moved_ang=0.25)
    write_run(store_at(tmp_path), "one", [strained], strain_kcal=5.0)
    shown = dict(line.split(maxsplit=1) for line in run("show", "one").out.splitlines())
    assert [shown[f"strain_{name}"] for name in ("kcal", "kcal_per_atom", "moved_ang")] == ["5.00", "2.50", "0.250"]


def test_a_read_only_run_is_judged_and_not_stored_which_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside = store_at(tmp_path / "beside")
    write_run(beside, "one", [sample_row(0, text=BENT, decodes=True)])
    opened = Store(Files(tmp_path / "own"), (beside.home,))
    monkeypatch.setattr(Store, "open", classmethod(lambda cls, place=None: opened))
    result = run("judge", "one", "--workers", "1")
    assert "read-only: printed, not stored" in result.err
    assert "geometry_right  0\n" in re.sub(" {2,}", "  ", result.out)
    assert "bond_lengths" in result.out


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ([], "either a run or --text"),
        (["one", "--text", "x"], "either a run or --text"),
        (["one", "--smiles", "C"], "--smiles belongs to --text"),
        (["reported-000"], "no samples to judge"),
        (["--text", BENT, "--energy"], "no energy ratio"),
        (["--text", BENT, "--smiles", "C("], "C("),
    ],
)
def test_what_does_not_go_together_is_one_line(words: list[str], part: str) -> None:
    assert part in run("judge", *words).error
