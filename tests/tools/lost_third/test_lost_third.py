"""The lost third: lanes become runs once, and the fall in coverage is the sum of its steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.chem.conformers import reference_conformers
from engine.chem.enriched import encode
from engine.chem.molecule_sets import load_run_set
from engine.chem.smiles import parse_smiles
from engine.evidence.lost_third import figures, load_usable
from engine.store.store import VARIABLE, Store
from tests.cli import Result
from tests.cli import run as run_in_process
from tests.engine.inspection.made import sample_row, write_run
from tests.engine.store.stored_runs import store_at
from tests.small_models import use_small_model
from tools.lost_third.__main__ import main
from tools.lost_third.summary import LaneCoverage, LaneSize, failures_by_kind, fall

SMALL = ("--molecules", "3", "--samples", "4", "--wide-molecules", "2", "--wide-samples", "2", "--workers", "1")


def run(*words: str) -> Result:
    return run_in_process(*words, main=main)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "store"))
    monkeypatch.setenv("DRIFTSCOPE_CACHE", str(tmp_path / "cache"))
    return store_at(tmp_path / "store")


def random_lane(rng: np.random.Generator, molecules: int, most: int) -> LaneCoverage:
    counts = rng.integers(0, most + 1, molecules)
    return LaneCoverage(most * molecules, tuple(rng.uniform(0, 1.5, (3, count)) for count in counts))


def test_the_steps_sum_to_the_whole_fall_and_count_molecules_without_samples_as_nothing() -> None:
    rng = np.random.default_rng(0)
    none, exact = (LaneCoverage(80, tuple(rng.uniform(0, 1.5, (3, 4)) for _ in range(20))) for _ in range(2))
    v43 = random_lane(rng, 20, 4)
    steps: dict[str, Any] = dict(fall(none, exact, v43))
    *parts, total = steps.values()
    for name in ("cov_r", "cov_p"):
        values = [step[name].value for step in parts]
        assert sum(values) == pytest.approx(total[name].value, abs=1e-12)
    means = [np.mean([(m.min(axis=1) < 0.75).mean() if m.size else 0.0 for m in lane.matrices]) for lane in (none, v43)]
    assert total["cov_r"].value == pytest.approx(means[1] - means[0])
    fewer = [m[:, : other.shape[1]] for m, other in zip(exact.matrices, v43.matrices, strict=True)]
    lost = [
        np.mean([(m.min(axis=1) < 0.75).mean() if m.size else 0.0 for m in side]) for side in (exact.matrices, fewer)
    ]
    failed = steps["failed parses"]["cov_r"]
    assert failed.value == pytest.approx(lost[1] - lost[0]) and failed.value < 0


def test_failed_parses_are_counted_by_what_the_groups_decoder_says() -> None:
    texts = ["[C]<0.0,0.0,0.0>", "[C]<0.0,0.0,0.0,1>", "[C]<a,0.0,0.0>", "[C]<0.0,0.0,1.0.>", "[C]<0.0", None]
    assert failures_by_kind(texts) == {
        "Bad coord triplet": 1,
        "Bad float token": 1,
        "the block is not closed by '>'": 1,
        "no text": 1,
    }


def test_finished_lanes_are_told_and_not_written_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    use_small_model(monkeypatch)
    narrow, wide = LaneSize(3, 4), LaneSize(2, 2)
    molecules = list(load_run_set(3))
    right = {smiles: encode(reference_conformers(parse_smiles(smiles), seed=5)).text for smiles in molecules}

    def write(key: str, size: LaneSize, damaged: int) -> None:
        """A lane whose first samples, so many of each molecule, lack a number."""
        rows = []
        for index, smiles in enumerate(molecules[: size.molecules]):
            for number in range(size.samples):
                text = f"[CONFORMER]{right[smiles]}[/CONFORMER]"
                if number < damaged:
                    text = text[: text.rindex(",")] + ">[/CONFORMER]"
                rows.append(sample_row(index * size.samples + number, smiles=smiles, text=text, generation=number))
        write_run(store, f"lane-{key}", rows, label=f"lost-third small {key} {size.molecules}x{size.samples}")

    write("none", wide, 0)
    write("exact", narrow, 0)
    write("v4.3", narrow, 2)
    chosen = [word for key in ("none", "exact", "v4.3") for word in ("--lane", key)]
    document: dict[str, Any] = run("--json", "--model", "small", *chosen, *SMALL).document
    lanes = {(lane["lane"], lane["molecules"]): lane for lane in document["lanes"]}
    assert list(lanes) == [("none", 2), ("exact", 3), ("exact", 2), ("v4.3", 3), ("v4.3", 2)]
    assert (lanes["v4.3", 3]["samples"], lanes["v4.3", 3]["parsed"]) == (12, 6)
    assert lanes["v4.3", 3]["not_decoded"] == {"Bad coord triplet": 6}
    assert (lanes["v4.3", 2]["parsed"], lanes["v4.3", 2]["zero"]["missing"]) == (0, 2)
    assert lanes["v4.3", 2]["zero"]["cov_p"] == 0 and lanes["v4.3", 2]["skip"]["cov_p"] is None
    steps = {step["step"]: step["cov_p"]["value"] for step in document["fall"]}
    assert steps["failed parses"] == steps["in all"] == -lanes["exact", 2]["zero"]["cov_p"] < 0
    assert steps["forcing the SMILES"] == steps["placeholder and cut"] == 0
    assert document["cost"] == {}, "their steps are not known"
    changes = {key: change["cov_p"]["value"] for key, change in document["beside_none"].items()}
    assert changes == {"exact": 0.0, "v4.3": steps["in all"]}
    ((kept,), _) = load_usable([store.home])
    assert kept["model"] == "small" and len(kept["lanes"]) == 5
    rows = dict(figures(kept, "small"))
    assert rows["small/fall/in all/cov_p/value"] == pytest.approx(steps["in all"], abs=1e-6)
    assert rows["small/lanes/v4.3 3 4/not_decoded/Bad coord triplet"] == 6
