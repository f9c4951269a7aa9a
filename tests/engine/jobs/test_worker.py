"""The worker: its limits, what failing work does to others, its thread, and many threads at once."""

from __future__ import annotations

import gc
import logging
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from engine.errors import DriftscopeError, ModelError
from engine.jobs.service import Control, Service, ServiceError, service
from engine.models.devices import spare_cores
from tests.service_harness import PATIENCE_S, ServiceHarness, ended, nothing
from tests.support import ROOT

MANY = 80


def test_a_full_queue_refuses_with_the_numbers(make_harness: Callable[..., ServiceHarness]) -> None:
    harness = make_harness(most_queued=3, most_queued_per_owner=2)
    harness.busy("a")
    harness.service.submit("a", nothing)
    harness.service.submit("a", nothing)
    with pytest.raises(ServiceError, match=r"^2 of your jobs are waiting, and the limit is 2\. Wait until one"):
        harness.service.submit("a", nothing)
    harness.service.submit("b", nothing)
    with pytest.raises(
        ServiceError, match=r"^the queue is full: 3 jobs are waiting, and the limit is 3\. Try again when"
    ):
        harness.service.submit("c", nothing)
    assert harness.service.jobs("c") == []


def test_a_job_with_too_many_events_fails_and_keeps_what_it_has(make_harness: Callable[..., ServiceHarness]) -> None:
    harness = make_harness(most_events=3)
    job = harness.service.submit("one", lambda control: iter(range(1000)))
    assert ended(job) == "failed"
    assert job.poll().events == (0, 1, 2)
    assert job.poll().error.startswith("the job has more than 3 events. Ask for fewer")
    assert ended(harness.service.submit("one", lambda control: range(3))) == "done"


def test_a_chore_is_done_once_while_the_worker_rests_and_jobs_go_first(
    make_harness: Callable[..., ServiceHarness],
) -> None:
    harness = make_harness()
    done: list[str] = []
    job, hand = harness.busy()
    harness.service.wake("later", lambda models: done.append("later"))
    harness.service.wake("later", lambda models: done.append("twice"))
    second = harness.service.submit("two", lambda control: iter(done[:]))
    hand.let_go()
    assert ended(job) == "done"
    assert list(second.events()) == []  # the job came before the chore
    assert ended(harness.service.submit("three", nothing)) == "done"
    harness.service.wake("last", lambda models: done.append("last"))
    harness.service.close(PATIENCE_S)
    assert done[:1] in ([], ["later"]) and "twice" not in done
    harness.service.wake("closed", lambda models: done.append("closed"))
    assert "closed" not in done


def test_a_chore_that_fails_is_logged_and_nothing_else(
    make_harness: Callable[..., ServiceHarness], caplog: pytest.LogCaptureFixture
) -> None:
    harness = make_harness()
    reached = threading.Event()

    def failing(models: object) -> None:
        reached.set()
        raise ModelError("no memory")

    with caplog.at_level(logging.WARNING):
        harness.service.wake("warm", failing)
        assert reached.wait(PATIENCE_S)
        assert ended(harness.service.submit("one", nothing)) == "done"
    assert "the chore warm failed" in caplog.text


class NoWordsError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def raising(error: BaseException) -> Callable[[Control], Iterator[int]]:
    def work(control: Control) -> Iterator[int]:
        yield 1
        raise error

    return work


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("two\nlines"), r"'ValueError: two\nlines'"),
        (SystemExit(3), "'SystemExit: 3'"),
        (KeyboardInterrupt(), "'KeyboardInterrupt'"),
        (MemoryError(), "'MemoryError'"),
        (NoWordsError(), "NoWordsError: <exception str"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_failing_job_harms_no_other(
    harness: ServiceHarness, caplog: pytest.LogCaptureFixture, error: BaseException, line: str
) -> None:
    job = harness.service.submit("one", raising(error), label="first")
    after = harness.service.submit("one", lambda control: [2])
    assert (ended(job), ended(after)) == ("failed", "done")
    seen = job.poll()
    assert seen.error.startswith("the job failed unexpectedly: ") and seen.events == (1,)
    assert line in seen.error and seen.error.isprintable()
    [record] = caplog.records
    assert record.levelno == logging.ERROR and record.exc_info and "'first'" in record.message
    with pytest.raises(ServiceError, match="failed unexpectedly"):
        list(job.events())


def test_a_known_error_keeps_its_line_and_its_class(harness: ServiceHarness, caplog: pytest.LogCaptureFixture) -> None:
    job = harness.service.submit("one", raising(ModelError("it does not fit", "Take another")))
    reader = job.events()
    assert next(reader) == 1
    with pytest.raises(ModelError, match=r"^it does not fit\. Take another$"):
        next(reader)
    assert job.poll().error == "it does not fit. Take another" and not caplog.records


@pytest.mark.parametrize("work", [lambda control: None, lambda control: 1 / 0, lambda: ()])
def test_work_that_does_not_even_begin(harness: ServiceHarness, work: Any) -> None:
    assert ended(harness.service.submit("one", work)) == "failed"
    assert ended(harness.service.submit("one", nothing)) == "done"


def test_a_failed_job_keeps_nothing_of_its_work_alive(harness: ServiceHarness) -> None:
    class Tensor:
        pass

    def outer(control: Control) -> Iterator[int]:
        tensor = Tensor()
        kept.append(weakref.ref(tensor))
        yield 1
        try:
            raise ValueError("inner")
        except ValueError as error:
            raise DriftscopeError("outer") from error

    kept: list[weakref.ref] = []
    job = harness.service.submit("one", outer)
    assert ended(job) == "failed"
    assert ended(harness.service.submit("one", nothing)) == "done"  # the worker is past it
    gc.collect()
    assert kept[0]() is None and job.work is None


def test_the_worker_is_prepared_once_and_before_any_work(make_harness: Callable[..., ServiceHarness]) -> None:
    def note(*_: Control) -> Iterable[str]:
        told.append(threading.current_thread().name)
        return ()

    told: list[str] = []
    harness = make_harness(prepare=note)
    assert [ended(harness.service.submit("one", note)) for _ in range(2)] == ["done", "done"]
    assert told == ["driftscope-worker"] * 3


def test_a_preparation_that_fails_is_tried_again(make_harness: Callable[..., ServiceHarness]) -> None:
    def prepare() -> None:
        if not tries:
            tries.append(1)
            raise ModelError("no torch", "Install it")

    tries: list[int] = []
    harness = make_harness(prepare=prepare)
    first = harness.service.submit("one", nothing)
    assert ended(first) == "failed" and first.poll().error == "no torch. Install it"
    assert ended(harness.service.submit("one", nothing)) == "done"


def test_a_job_cancelled_while_the_worker_is_prepared_never_begins(make_harness: Callable[..., ServiceHarness]) -> None:
    ready = threading.Event()
    harness = make_harness(prepare=lambda: ready.wait(PATIENCE_S) and None)
    hand = harness.hand()
    job = harness.service.submit("one", hand)
    job.stop()
    ready.set()
    assert ended(job) == "stopped" and not hand.begun.is_set()


def test_a_closed_service_cancels_everything_and_refuses(harness: ServiceHarness) -> None:
    [worker] = harness.service.submit("one", lambda control: [threading.current_thread()]).events()
    job, hand = harness.busy()
    queued = harness.service.submit("one", nothing)
    harness.service.close(0)
    assert queued.state == "stopped" and job.poll().state == "stopping"
    hand.give("late")
    harness.service.close(PATIENCE_S)
    assert job.poll().state == "stopped" and job.poll().progress.note == "the service was closed"
    with pytest.raises(ServiceError, match="takes no jobs"):
        harness.service.submit("one", nothing)
    assert not worker.is_alive()


def test_a_service_without_jobs_has_no_thread() -> None:
    before = threading.active_count()
    made = Service()
    assert threading.active_count() == before
    made.close()
    made.close()


def at_once(task: Callable[[int], Any]) -> list[Any]:
    """What ``task`` returns in many threads that begin together."""
    barrier = threading.Barrier(MANY)

    def run(number: int) -> Any:
        barrier.wait(PATIENCE_S)
        return task(number)

    with ThreadPoolExecutor(MANY) as pool:
        return list(pool.map(run, range(MANY)))


def test_nothing_is_lost_when_many_submit_and_poll_at_once(make_harness: Callable[..., ServiceHarness]) -> None:
    harness = make_harness(most_queued=MANY)

    def page(number: int) -> list[tuple[int, int]]:
        job = harness.service.submit(f"tab {number}", lambda control: ((number, event) for event in range(30)))
        seen = job.poll()
        events = list(seen.events)
        while not seen.has_ended:
            job.wait(0.01)  # as a page that draws itself anew
            seen = job.poll(seen.next_index)
            events += seen.events
        assert seen.state == "done" and harness.service.find(job.id, f"tab {number}") in (job, None)
        return events

    assert at_once(page) == [[(number, event) for event in range(30)] for number in range(MANY)]


def test_the_limit_holds_when_many_submit_at_once(make_harness: Callable[..., ServiceHarness]) -> None:
    harness = make_harness(most_queued=50)
    harness.busy()

    def page(number: int) -> int | str:
        try:
            return harness.service.submit(f"tab {number}", nothing).ahead
        except ServiceError as error:
            return str(error)

    answers = at_once(page)
    refused = [answer for answer in answers if isinstance(answer, str)]
    assert sorted(answer for answer in answers if isinstance(answer, int)) == list(range(1, 51))
    assert len(refused) == MANY - 50 and all("50 jobs are waiting, and the limit is 50" in line for line in refused)


def test_a_process_has_one_service() -> None:
    assert len(set(at_once(lambda number: service()))) == 1


LEAN = """
import sys
import engine.jobs.service
from engine.jobs.service import Service, service
service()
heavy = {"torch", "transformers", "streamlit", "numpy", "tokenizers"} & set(sys.modules)
assert not heavy, heavy
made = Service(threads=1)
def work(control):
    import torch
    yield torch.get_num_threads()
print(*made.submit("one", work).events())
made.close()
"""


def test_torch_is_imported_by_the_worker_alone_and_leaves_cores_free() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LEAN], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert (done.stdout.strip(), done.returncode) == ("1", 0), done.stderr
    assert spare_cores() >= 1
