"""The corpus: the same whatever the workers and however often it was killed; held-out molecules never in it."""

from __future__ import annotations

import errno
import hashlib
import json
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from engine.chem.enriched import decode
from tests.support import sized
from tests.tools.training.corpus_source import write_source
from tools.training.conformer_texts import answer_of
from tools.training.corpus import main, read_corpus
from tools.training.molecules import is_held_out

OPTIONS = "--molecules 24 --shard-molecules 5 --random-orders 1 --least-atoms 4 --most-atoms 14".split()


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("source") / "source.csv.gz"
    write_source(path)
    return path


@pytest.fixture(scope="module")
def built(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus made in one go by one process."""
    out = tmp_path_factory.mktemp("corpus") / "whole"
    assert main([*OPTIONS, "--source", str(source), "--out", str(out)]) == 0
    return out


def command(source: Path, out: Path, *more: str) -> list[str]:
    return [*OPTIONS, "--source", str(source), "--out", str(out), *more]


def contents(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


def test_the_manifest_counts_what_is_there(built: Path) -> None:
    manifest = json.loads((built / "manifest.json").read_text())
    entries = list(read_corpus(built))
    assert manifest["planned"] == {"piece": 19, "whole": 5}
    pairs = sum(entry.texts[0][0].count("@") > 0 for entry in entries) // 2
    assert pairs > 3, "a chiral molecule is there with its mirror image"
    assert manifest["conformers"] == len(entries) == 24 + pairs - sum(manifest["refusals"].values())
    assert sum(manifest["centres"].values()) == manifest["texts"] > manifest["centres"]["0"]
    assert manifest["texts"] == sum(len(entry.texts) for entry in entries) > len(entries)
    assert manifest["atoms"] == sum(len(entry.xyz) for entry in entries)
    assert sum(manifest["sizes"].values()) == len(entries)
    assert {"rdkit", "numpy", "format"} == set(manifest["versions"])
    assert {path.name for path in built.iterdir()} == {
        *("manifest.json", "settings.json", "plan.arrays", "molecules.smi"),
        *(f"shard-{index:05d}.arrays" for index in range(5)),
    }


def test_molecules_are_of_the_sizes_asked_for_each_once_and_never_held_out(built: Path) -> None:
    molecules = [decode(answer_of(entry, 0)) for entry in read_corpus(built)]
    assert all(4 <= decoded.mol.GetNumHeavyAtoms() <= 14 for decoded in molecules)
    assert len({decoded.smiles for decoded in molecules}) == len(molecules)
    assert (built / "molecules.smi").read_text().splitlines() == [decoded.smiles for decoded in molecules]
    assert not any(is_held_out(decoded.smiles) for decoded in molecules)


def test_workers_do_not_change_the_result(source: Path, built: Path, tmp_path: Path) -> None:
    assert main(command(source, tmp_path / "two", "--workers", "2")) == 0
    assert contents(tmp_path / "two") == contents(built)


@pytest.mark.soak
@pytest.mark.parametrize("written", sized([3], [1, 3, 5, 7]))
@pytest.mark.parametrize("end", sized([KeyboardInterrupt], [KeyboardInterrupt, OSError(errno.ENOSPC, "full")]))
def test_a_run_that_was_stopped_goes_on(
    source: Path, built: Path, tmp_path: Path, written: int, end: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = count()
    rename = Path.replace

    def stop(self: Path, target: Path) -> Path:
        if next(steps) >= written:
            raise end
        return rename(self, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", stop)
        assert main(command(source, tmp_path)) == (130 if end is KeyboardInterrupt else 2)
    assert not (tmp_path / "manifest.json").exists()
    before = contents(tmp_path)
    assert main(command(source, tmp_path)) == 0
    assert contents(tmp_path) == contents(built)
    kept = {name for name in before if name.startswith(("shard", "plan"))}
    assert all(before[name] == contents(built)[name] for name in kept)
