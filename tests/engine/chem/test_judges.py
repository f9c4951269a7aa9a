"""Many judged beside each other: every task gets one verdict, whatever becomes of its process."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from engine.chem import judges
from engine.chem.judges import JudgePool, JudgeTask, judged
from engine.chem.verdict import CRASH, TIME
from tests.judge_processes import ANSWER, scripted

GOOD = "[C]<0.0000,0.0000,0.0000>[O]<1.4000,0.0000,0.0000>"
LONG = "[C]<0.0000,0.0000,0.0000>[O]<3.4000,0.0000,0.0000>"


def test_each_task_is_judged_once_and_against_the_molecule_that_was_asked() -> None:
    tasks = [JudgeTask(0, GOOD, "CO"), JudgeTask(1, LONG, "CO"), JudgeTask(2, GOOD, "CN"), JudgeTask(3, GOOD, "not")]
    verdicts = {task.key: verdict for task, verdict in judged(tasks, workers=1)}
    assert [verdicts[key].geometry_right for key in range(4)] == [True, False, True, True]
    assert [[failure.check for failure in verdicts[key].failed] for key in range(4)] == [
        [],
        ["bond_lengths"],
        ["graph"],
        [],
    ]


def test_what_hangs_is_stopped_and_what_dies_is_named_and_the_rest_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judges, "_judging", scripted)
    texts = ["a", "hang", "b", "die", "c", "d"]
    results = list(judged((JudgeTask(key, text, "") for key, text in enumerate(texts)), workers=2, limit_s=1.0))
    assert sorted(task.key for task, _ in results) == list(range(6))
    checks = {task.text: [failure.check for failure in verdict.failed] for task, verdict in results}
    assert checks == {"a": [], "b": [], "c": [], "d": [], "hang": [TIME], "die": [CRASH]}
    assert all(verdict == ANSWER for task, verdict in results if len(task.text) == 1)
    of_hanging = next(verdict for task, verdict in results if task.text == "hang")
    assert of_hanging.geometry_right is None
    assert of_hanging.failed[0].detail == "stopped after 1 s"


def test_tasks_are_taken_as_they_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judges, "_judging", scripted)
    taken = 0

    def tasks() -> Iterator[JudgeTask]:
        nonlocal taken
        for key in range(1_000):
            taken = key
            yield JudgeTask(key, "a", "")

    finished = judged(tasks(), workers=1)
    for done, _ in enumerate(finished):
        assert taken - done <= 4
        if done == 20:
            break
    finished.close()


def test_tasks_that_are_dropped_delay_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judges, "_judging", scripted)
    with JudgePool(workers=1) as pool:
        for key, text in enumerate(("hang", "hang", "a")):
            pool.add(JudgeTask(key, text, ""))
        while not any(child.is_busy for child in pool.children):
            assert pool.verdicts(wait=True, most_s=0.01) == [] and pool.under_way == 3
        pool.drop({0, 1})
        assert [task.key for task, _ in pool.verdicts(wait=True)] == [2]


def test_the_pool_leaves_no_process_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judges, "_judging", scripted)
    handler = signal.getsignal(signal.SIGINT)
    with JudgePool(workers=2) as pool:
        for key in range(3):
            pool.add(JudgeTask(key, "hang", ""))
        while not all(child.is_busy for child in pool.children):
            assert pool.verdicts(wait=True, most_s=0.01) == []
        processes = [child._process for child in pool.children]
    assert [process is not None and process.poll() is not None for process in processes] == [True, True]
    assert signal.getsignal(signal.SIGINT) == handler
