"""The corpus: the same whatever the workers and however often it was killed; held-out molecules never in it."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from rdkit import Chem

from engine.chem.enriched import decode
from engine.comparing.array_files import Arrays, Meta, write_arrays
from engine.comparing.file_jobs import FileJob, run_jobs
from engine.errors import AssetError, DriftscopeError, FileFormatError
from tests.support import ROOT, sized
from tests.tools.training.corpus_source import write_source
from tools.training import corpus
from tools.training.conformer_texts import TextRecipe, answer_of, make_conformers
from tools.training.corpus import MoleculePlan, Settings, build_corpus, main, plan_molecules, read_corpus
from tools.training.molecules import is_held_out, read_csv

OPTIONS = "--molecules 24 --shard-molecules 5 --random-orders 1 --least-atoms 4 --most-atoms 14".split()
SETTINGS = Settings(MoleculePlan(24, 4, 14), TextRecipe(random_orders=1), 5, "source.csv.gz")


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
    found = list(read_corpus(built))
    assert manifest["planned"] == {"piece": 19, "whole": 5}
    pairs = sum(one.texts[0][0].count("@") > 0 for one in found) // 2
    assert pairs > 3, "a chiral molecule is there with its mirror image"
    assert manifest["conformers"] == len(found) == 24 + pairs - sum(manifest["refusals"].values())
    assert sum(manifest["centres"].values()) == manifest["texts"] > manifest["centres"]["0"]
    assert manifest["texts"] == sum(len(one.texts) for one in found) > len(found)
    assert manifest["atoms"] == sum(len(one.xyz) for one in found)
    assert sum(manifest["sizes"].values()) == len(found)
    assert {"rdkit", "numpy", "format"} == set(manifest["versions"])
    assert {path.name for path in built.iterdir()} == {
        *("manifest.json", "settings.json", "plan.arrays"),
        *(f"shard-{index:05d}.arrays" for index in range(5)),
    }


def test_molecules_are_of_the_sizes_asked_for_each_once_and_never_held_out(built: Path) -> None:
    found = [decode(answer_of(one, 0)) for one in read_corpus(built)]
    assert all(4 <= decoded.mol.GetNumHeavyAtoms() <= 14 for decoded in found)
    assert len({decoded.smiles for decoded in found}) == len(found)
    assert not any(is_held_out(decoded.smiles) for decoded in found)


def test_the_held_out_side_has_nothing_else(source: Path, tmp_path: Path) -> None:
    settings = Settings(MoleculePlan(6, 4, 30, held_out=True, fragment_share=0.5), TextRecipe(held_out=True))
    build_corpus(tmp_path, settings, read_csv(source))
    found = [smiles for one in read_corpus(tmp_path) for smiles, _ in one.texts]
    assert len({Chem.CanonSmiles(smiles.replace("@", "")) for smiles in found}) == 6
    assert all(map(is_held_out, found))


def test_workers_do_not_change_the_result(source: Path, built: Path, tmp_path: Path) -> None:
    assert main(command(source, tmp_path / "two", "--workers", "2")) == 0
    assert contents(tmp_path / "two") == contents(built)


def test_workers_do_not_change_a_plan_of_many_jobs(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpus, "SOURCES_A_JOB", 8)
    wanted = MoleculePlan(30, 4, 14, fragment_share=0.5)
    alone = plan_molecules(read_csv(source), wanted, tmp_path / "alone", 1)
    assert plan_molecules(reversed(list(read_csv(source))), wanted, tmp_path / "two", 2) == alone
    assert Counter(kind for kind, _ in alone) == {"piece": 15, "whole": 15}
    shared = {path.name for path in (tmp_path / "alone").iterdir()}
    assert len(shared) > 2
    assert shared <= {path.name for path in (tmp_path / "two").iterdir()}, "two workers may look further ahead"


def test_a_source_that_ends_early_gives_what_it_has(source: Path, tmp_path: Path) -> None:
    plan = plan_molecules(read_csv(source), MoleculePlan(10_000, 4, 8, fragment_share=0.0), tmp_path, 1)
    assert {kind for kind, _ in plan} == {"whole"}
    assert 5 < len(plan) < 200


def test_another_seed_gives_another_corpus(source: Path, built: Path, tmp_path: Path) -> None:
    assert main(command(source, tmp_path / "seed", "--seed", "1")) == 0
    assert contents(tmp_path / "seed")["plan.arrays"] != contents(built)["plan.arrays"]


def test_moses_is_the_source_unless_one_is_given(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "read_moses", lambda: read_csv(source))
    monkeypatch.setenv("DRIFTSCOPE_CACHE", str(tmp_path))
    assert main(["--molecules", "2", "--most-atoms", "10"]) == 0
    assert len(list(read_corpus(tmp_path / "corpus"))) >= 2


@pytest.mark.soak
@pytest.mark.parametrize("written", sized([2, 5], range(1, 9)))
@pytest.mark.parametrize("end", [KeyboardInterrupt, OSError(errno.ENOSPC, "No space left on device")])
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


def test_a_finished_corpus_is_not_made_again(built: Path, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing_to_do(payload: Any) -> tuple[Meta, Arrays]:
        raise AssertionError("nothing should be embedded")

    # The key of a job holds the name of its function.
    nothing_to_do.__module__ = make_conformers.__module__
    nothing_to_do.__qualname__ = make_conformers.__qualname__
    monkeypatch.setattr(corpus, "make_conformers", nothing_to_do)
    assert main(command(source, built)) == 0


def test_a_killed_run_leaves_a_corpus_that_can_be_finished(source: Path, built: Path, tmp_path: Path) -> None:
    tool = [sys.executable, "-m", "tools.training.corpus", *command(source, tmp_path, "--workers", "2")]
    with subprocess.Popen(tool, cwd=ROOT, stderr=subprocess.DEVNULL, start_new_session=True) as process:
        deadline = time.monotonic() + 60
        while not list(tmp_path.glob("shard-*")) and time.monotonic() < deadline and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    assert main(command(source, tmp_path)) == 0
    while _group_lives(process.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _group_lives(process.pid), "workers outlived their parent"
    settled = {name: digest for name, digest in contents(tmp_path).items() if not name.endswith(".part")}
    assert settled == contents(built)


def _group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_damaged_shard_is_named_and_made_again(
    source: Path, built: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for path in built.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    damaged = tmp_path / "shard-00002.arrays"
    damaged.write_bytes(damaged.read_bytes()[:-9])
    (tmp_path / "plan.arrays").write_bytes(b"")
    with pytest.raises(FileFormatError, match=r"shard-00002\.arrays is damaged.*built the corpus again"):
        list(read_corpus(tmp_path))
    assert main(command(source, tmp_path)) == 0
    assert "made again" in caplog.text
    assert "plan.arrays is damaged" in caplog.text
    assert contents(tmp_path) == contents(built)


def test_other_options_do_not_overwrite_a_corpus(source: Path, built: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = contents(built)
    assert main([*command(source, built), "--seed", "3"]) == 2
    told = capsys.readouterr().err.strip().splitlines()[-1]
    assert "holds a corpus of other options (seed: 0, now 3" in told
    assert contents(built) == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--least-atoms 9 --most-atoms 8", "of 9 to 8 heavy atoms"),
        ("--workers 0", "0 workers"),
        ("--conformers 0", "'conformers': 0"),
        ("--source nowhere.csv.gz", "No such file or directory: 'nowhere.csv.gz'"),
        ("--least-atoms 90 --most-atoms 90", "no molecule of these sizes"),
    ],
)
def test_what_cannot_be_is_one_line_and_exit_status_2(
    source: Path, tmp_path: Path, options: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--source", str(source), "--out", str(tmp_path), *options.split()]) == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("driftscope")]
    assert len(lines) == 1 and message in lines[0]


def test_a_mistyped_option_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["--molecules", "many"])
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_an_unfinished_corpus_is_no_corpus(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match="holds no finished corpus"):
        list(read_corpus(tmp_path))


def end_at_two(payload: int) -> tuple[Meta, Arrays]:
    if payload == 2:
        os._exit(9)
    return {"payload": payload}, {}


def full_at_two(payload: int) -> tuple[Meta, Arrays]:
    if payload == 2:
        raise AssetError("shard-2 cannot be written: No space left on device", "Free some space there")
    return {"payload": payload}, {}


def test_a_worker_that_ends_is_an_error_and_what_is_finished_stays(tmp_path: Path) -> None:
    jobs = [FileJob(tmp_path / f"{index}.arrays", end_at_two, index, {}) for index in range(4)]
    assert not next(run_jobs(jobs[:1], 1)).was_there
    with pytest.raises(DriftscopeError, match=r"a worker process ended.*Run the same command again"):
        list(run_jobs(jobs, 2))
    done = list(run_jobs(jobs[:2], 1))
    assert [one.meta["payload"] for one in done] == [0, 1]
    assert done[0].was_there


def test_an_error_of_a_worker_arrives_as_it_was(tmp_path: Path) -> None:
    jobs = [FileJob(tmp_path / f"{index}.arrays", full_at_two, index, {}) for index in range(4)]
    with pytest.raises(AssetError, match=r"^shard-2 cannot be written: No space left on device\. Free some space"):
        list(run_jobs(jobs, 2))


def test_a_file_of_another_payload_or_version_is_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "0.arrays"
    assert not next(run_jobs([FileJob(path, full_at_two, 0, {"rdkit": "1"})], 1)).was_there
    assert next(run_jobs([FileJob(path, full_at_two, 0, {"rdkit": "1"})], 1)).was_there
    assert not next(run_jobs([FileJob(path, full_at_two, 0, {"rdkit": "2"})], 1)).was_there
    assert not next(run_jobs([FileJob(path, full_at_two, 1, {"rdkit": "2"})], 1)).was_there


def test_a_killed_writer_leaves_nothing_in_a_finished_corpus(source: Path, built: Path, tmp_path: Path) -> None:
    write_arrays(tmp_path / "shard-00099.arrays", {}, {})
    (tmp_path / ".shard-00001.arrays.77.part").write_bytes(b"half")
    assert main(command(source, tmp_path)) == 0
    assert contents(tmp_path) == contents(built)
