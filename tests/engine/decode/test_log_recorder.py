"""Runs of our own as logit logs: what is logged is what was sampled from, and it is clean."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.decode.generation import Generation
from engine.decode.log_recorder import LogFile
from engine.decode.plan import BackendName, Plan, preset
from engine.decode.steps import Step
from engine.errors import RunError
from engine.jobs.progress import ProgressFile
from engine.jobs.run import Run
from engine.models.loading import LoadedModel
from tests.cli import run, run_json
from tests.engine.jobs.small_runs import finished, molecules, started
from tests.engine.jobs.small_runs import loaded as small_model
from tests.small_models import small_folder, use_small_model

PLAN = Plan("exact", batch_size=2, limit=25)
ARGUMENTS = ("CC=O", "--model", "small", "--decimals", "1-2", "--integer-digits", "1", "--max-new-tokens", "40")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_folder(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def small(folder: Path) -> LoadedModel:
    return small_model(folder)


def logged(path: Path) -> list[dict[str, Any]]:
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [json.loads(line) for line in content.splitlines()]


@pytest.mark.parametrize(
    ("backend", "lp", "sampling"),
    [("fast", "exact", "qwen3"), ("fast", "none", "p0.8_t1.2"), ("hf", "exact", "qwen3"), ("hf", "none", "greedy")],
)
def test_every_token_is_logged_and_drawn_alike_from_the_log(
    small: LoadedModel, tmp_path: Path, backend: BackendName, lp: str, sampling: str
) -> None:
    plan = replace(PLAN, lp=lp, backend=backend, sampling=preset(sampling), limit=25 if lp == "exact" else 6)
    generation = Generation(small, molecules(3), plan)
    with LogFile(tmp_path / "a.jsonl", 8) as recorded:
        generation.tap = recorded.tap(small, plan.sampling, plan.seed, "here")
        steps = [event for event in generation.events() if isinstance(event, Step)]
    alike = [(sample.token_ids, sample.forced) for sample in Generation(small, molecules(3), plan).run()]
    assert [(sample.token_ids, sample.forced) for sample in generation.in_order()] == alike
    lines = logged(tmp_path / "a.jsonl")
    said = {(line["source"], line["token_idx"]): (line["token"], line["forced"]) for line in lines}
    assert said == {(f"here sample {step.sample}", step.pos): (step.token_id, step.forced) for step in steps}
    assert (recorded.entries, recorded.checked) == (len(steps), sum(not step.forced for step in steps))
    # With random weights all tokens are alike, and the two ways to add them up part here and there.
    assert "tokens match a draw from it" in recorded.sentence()
    assert backend == "hf" or recorded.differing == 0
    assert {len(line["values"]) for line in lines} == {8}


def test_the_self_check_notices_what_was_not_sampled_from(small: LoadedModel, tmp_path: Path) -> None:
    """Planted: scores of the step before, and scores that were changed after the draw."""
    plan = replace(PLAN, lp="none", sampling=preset("greedy"))
    for number, spoil in enumerate((lambda raw: raw.roll(1, dims=1), lambda raw: -raw)):
        with LogFile(tmp_path / f"{number}.jsonl", 5) as log:
            tap = log.tap(small, plan.sampling, plan.seed)
            generation = Generation(small, molecules(3), plan)
            generation.tap = lambda choice, tap=tap, spoil=spoil: tap(replace(choice, raw=spoil(choice.raw)))
            generation.run()
        assert log.differing > 0.5 * log.checked
        with pytest.raises(RunError, match="not what was sampled from"):
            log.sentence()


def test_what_cannot_be_logged_is_refused(small: LoadedModel, tmp_path: Path) -> None:
    for number, wrong in enumerate(((151_673,), (1, 1))):
        with LogFile(tmp_path / f"{number}.jsonl", wrong) as log, pytest.raises(RunError, match="0 to 151,672"):
            log.tap(small, PLAN.sampling, 0)
        assert not log.path.exists()
    (tmp_path / "0.jsonl").touch()
    with pytest.raises(RunError, match="there already"):
        LogFile(tmp_path / "0.jsonl", 3)
    with pytest.raises(RunError, match="cannot be written"):
        LogFile(tmp_path / "none" / "a.jsonl", 3)


def test_a_run_logs_what_it_writes_and_not_what_it_checks(folder: Path, tmp_path: Path) -> None:
    first = started(tmp_path / "store", folder, 5)
    for _ in first.progress(groups=[0]):
        pass
    first.staging.release()
    second = Run(first.staging, first.loaded, first.molecules, first.plan)
    with LogFile(tmp_path / "a.jsonl", 4) as log:
        second.tap = log.tap(second.loaded, PLAN.sampling, 0, "run")
        finished(second)
    sources = {line["source"] for line in logged(tmp_path / "a.jsonl")}
    left = {number for group in second.groups[1:] for number in group}
    assert sources == {f"run sample {number}" for number in left}


@pytest.fixture
def workdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    use_small_model(monkeypatch)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(tmp_path / "store"))
    return tmp_path


def test_from_the_command_line(workdir: Path) -> None:
    for wanted, path in (("16", "a.jsonl.gz"), ("17,24", "b.jsonl")):
        assert run("generate", *ARGUMENTS, "--log-logits", wanted, "--logit-log", path).code == 0
    assert {tuple(line["ids"]) for line in logged(workdir / "b.jsonl")} == {(17, 24)}
    (row,) = run_json("logits", "add", "a.jsonl.gz")
    assert (row["engine"], row["model"], row["precision"]) == ("driftscope", "small:final", "f32")
    assert (row["flagged_values"], row["origin"]) == (0, "measured")
    for wrong, message in (
        (("generate", "--log-logits", "3", "--logit-log", "a.jsonl.gz"), "there already"),
        (("run", "--add-log"), "belongs to --log-logits"),
        (("run", "--log-logits", "3", "--submit", "local"), "belongs to a run of this process"),
    ):
        assert message in run(*wrong, *ARGUMENTS).error


def test_a_run_adds_its_log_by_itself(workdir: Path) -> None:
    progress = workdir / "progress.jsonl"
    logged = ("--log-logits", "4", "--add-log", "--label", "mine", "--progress", str(progress))
    assert run("run", *ARGUMENTS, *logged).code == 0
    (row,) = run_json("logits", "list")
    assert (row["origin"], row["label"], row["values_logged"]) == ("measured", "mine", 4 * row["entries"])
    assert not list(workdir.glob("*.gz")), "nobody asked for the file"
    (part,) = ProgressFile(progress).parts()
    assert (part.state, part.made_ids) == ("done", (row["log_id"],))
    assert part.run_id.split("-")[0] in row["source"]
