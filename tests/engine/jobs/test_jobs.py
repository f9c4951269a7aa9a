"""What an owner sees of a job and does to it: events, progress, cancelling, replacing, falling silent."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from engine.jobs.service import Control, Job, ServiceError
from engine.jobs.worker import KEPT, KEPT_OF_AN_OWNER
from tests.service_harness import PATIENCE_S, ServiceHarness, ended, nothing


def test_events_come_once_each_and_in_order(harness: ServiceHarness) -> None:
    job, hand = harness.busy()
    hand.give("a", "b")
    reader = job.events()
    assert [next(reader), next(reader)] == ["a", "b"]
    seen = job.poll()
    assert (seen.state, seen.events, seen.next_index, seen.has_ended) == ("running", ("a", "b"), 2, False)
    assert job.poll(after=1).events == ("b",)
    assert (job.poll(after=2).events, job.poll(after=9).events, job.poll(after=9).next_index) == ((), (), 2)
    assert job.poll(after=-5).events == ("a", "b")
    hand.give("c")
    hand.let_go()
    assert list(reader) == ["c"]
    seen = job.poll(seen.next_index)
    assert (seen.state, seen.events, seen.has_ended, seen.error) == ("done", ("c",), True, "")
    assert list(job.events()) == ["a", "b", "c"]  # kept, and to be read again


def test_work_may_return_any_iterable(harness: ServiceHarness) -> None:
    assert list(harness.service.submit("one", lambda control: [1, 2, 3]).events()) == [1, 2, 3]


def test_progress_and_times(harness: ServiceHarness) -> None:
    _, first = harness.busy()
    hand = harness.hand()
    job = harness.service.submit("one", hand, total=7, label="seven molecules")
    seen = job.poll()
    assert (seen.ahead, seen.elapsed_s, seen.progress.total) == (1, 0.0, 7)
    harness.clock.now += 5
    first.let_go()
    assert hand.begun.wait(PATIENCE_S)
    assert hand.control is not None
    harness.clock.now += 2
    hand.control.progress(3, note="writing")
    seen = job.poll()
    assert (seen.progress.done, seen.progress.total, seen.progress.note) == (3, 7, "writing")
    assert (seen.ahead, seen.elapsed_s) == (0, 2.0)
    hand.control.progress(4, 8)
    assert (job.progress.done, job.progress.total, job.progress.note) == (4, 8, "")
    harness.clock.now += 1
    hand.let_go()
    assert ended(job) == "done"
    harness.clock.now += 50
    assert (job.elapsed_s, job.started_at, job.ended_at, job.label) == (3.0, 1005.0, 1008.0, "seven molecules")


def test_jobs_are_found_by_their_owner_alone(harness: ServiceHarness) -> None:
    job, _ = harness.busy("one")
    later = harness.service.submit("one", nothing)
    other = harness.service.submit("two", nothing)
    assert harness.service.find(job.id, "one") is job
    assert harness.service.find(job.id, "two") is None
    assert harness.service.find("no such job", "one") is None
    assert harness.service.jobs("one") == [later, job]
    assert harness.service.jobs("two") == [other]
    assert len({job.id, later.id, other.id}) == 3 and min(len(job.id), len(later.id)) >= 20


def test_the_last_jobs_that_ended_are_kept(harness: ServiceHarness) -> None:
    mine: list[Job[str]] = []
    for _ in range(KEPT_OF_AN_OWNER + 3):
        mine.append(harness.service.submit("one", lambda control: "ab"))
        assert ended(mine[-1]) == "done"
    assert harness.service.jobs("one") == mine[: -KEPT_OF_AN_OWNER - 1 : -1]
    assert mine[0].poll().events == ("a", "b")  # who holds it, has it
    for number in range(KEPT + 5):
        assert ended(harness.service.submit(f"other {number}", nothing)) == "done"
    assert harness.service.jobs("one") == [] and harness.service.jobs("other 4") == []
    assert all(len(harness.service.jobs(f"other {number}")) == 1 for number in range(5, KEPT + 5))


def test_what_ended_last_is_kept_and_not_what_was_asked_for_last(harness: ServiceHarness) -> None:
    job, hand = harness.busy("one")
    for _ in range(KEPT_OF_AN_OWNER):
        harness.service.submit("one", nothing).stop()
    hand.let_go()
    assert ended(job) == "done"
    kept = harness.service.jobs("one")
    assert len(kept) == KEPT_OF_AN_OWNER and kept[-1] is job


def test_jobs_that_ended_hold_no_more_events_than_one_may_have(make_harness: Callable[..., ServiceHarness]) -> None:
    service = make_harness(most_events=10).service
    job = service.submit("a", lambda control: "seven..")
    assert ended(job) == "done" and service.jobs("a") == [job]
    assert ended(service.submit("b", lambda control: "seven..")) == "done"
    assert service.jobs("a") == [] and len(service.jobs("b")) == 1


def test_a_cancelled_queued_job_never_runs(harness: ServiceHarness) -> None:
    _, first = harness.busy()
    hand = harness.hand()
    job, next_one = harness.service.submit("one", hand), harness.service.submit("one", nothing)
    assert next_one.ahead == 2
    job.stop()
    job.stop()
    assert (job.state, job.ahead, next_one.ahead, list(job.events())) == ("stopped", 0, 1, [])
    first.let_go()
    assert ended(next_one) == "done" and not hand.begun.is_set()


def test_a_cancelled_running_job_takes_no_more_events_and_its_work_is_closed(harness: ServiceHarness) -> None:
    job, hand = harness.busy()
    hand.give("a")
    assert next(job.events()) == "a"
    job.stop()
    job.stop()
    seen = job.poll()
    assert (seen.state, seen.has_ended) == ("stopping", False)
    hand.give("b", "c")
    assert hand.left.wait(PATIENCE_S)  # its finally has run
    assert ended(job) == "stopped"
    seen = job.poll()
    assert (seen.events, seen.state, seen.error, seen.progress.note) == (("a",), "stopped", "", "")
    job.stop()
    assert job.state == "stopped" and list(job.events()) == ["a"]


def test_work_can_ask_whether_it_is_cancelled(harness: ServiceHarness) -> None:
    job, hand = harness.busy()
    control = hand.control
    assert control is not None and not control.cancelled()
    job.stop()
    assert control.cancelled()
    hand.let_go()
    assert ended(job) == "stopped"
    assert control.cancelled()
    control.progress(99)  # of a thread that outlives its job
    assert job.progress.done == 0


def test_cancelling_after_the_end_changes_nothing(harness: ServiceHarness) -> None:
    job = harness.service.submit("one", nothing)
    assert ended(job) == "done"
    job.stop()
    assert job.state == "done" and job.poll().state == "done"


def test_what_cancelled_work_raises_harms_nobody(harness: ServiceHarness, caplog: pytest.LogCaptureFixture) -> None:
    def stubborn(control: Control) -> Iterator[int]:
        try:
            yield from hand(control)
        finally:
            raise ValueError("not now")

    hand = harness.hand()
    job = harness.service.submit("one", stubborn)
    assert hand.begun.wait(PATIENCE_S)
    job.stop()
    hand.give(1)
    assert ended(job) == "stopped" and job.error is None
    assert "not now" in caplog.text
    assert ended(harness.service.submit("one", nothing)) == "done"


def test_a_new_job_takes_the_place_of_the_owners_others(make_harness: Callable[..., ServiceHarness]) -> None:
    harness = make_harness(most_queued=2, most_queued_per_owner=1)
    job, hand = harness.busy("one")
    old = harness.service.submit("one", nothing)
    other = harness.service.submit("two", nothing)
    new = harness.service.submit("one", nothing, replace=True)  # where there was no room for one more
    assert (old.state, job.poll().state, other.state) == ("stopped", "stopping", "waiting")
    assert old.poll().progress.note == job.poll().progress.note == "a newer job replaced it"
    assert (other.ahead, new.ahead) == (1, 2)  # it is the other owner's turn
    hand.give("late")
    assert [ended(one) for one in (job, other, new)] == ["stopped", "done", "done"]
    assert job.poll().events == ()


def test_a_refused_job_takes_no_place(make_harness: Callable[..., ServiceHarness]) -> None:
    harness = make_harness(most_queued=1)
    job, _ = harness.busy("one")
    harness.service.submit("two", nothing)
    with pytest.raises(ServiceError, match="the queue is full: 1 jobs are waiting"):
        harness.service.submit("one", nothing, replace=True)
    assert job.poll().state != "stopping"


def test_a_running_job_that_no_page_asks_for_is_cancelled(harness: ServiceHarness) -> None:
    job, hand = harness.busy()
    for sign_of_life in (job.poll, job.beat, job.poll):
        harness.clock.now += 20  # just in time
        sign_of_life()
        assert job.state != "stopping"
    harness.clock.now += 21
    hand.give("a")
    assert hand.left.wait(PATIENCE_S)
    assert ended(job) == "stopped"
    seen = job.poll()
    assert (seen.events, seen.progress.note) == ((), "no page asked for it for 21 s")


def test_a_silent_job_without_events_learns_it_when_it_asks(harness: ServiceHarness) -> None:
    job, hand = harness.busy()
    harness.clock.now += 21
    assert hand.control is not None and hand.control.cancelled()
    assert job.poll().state == "stopping"  # too late


def test_a_job_whose_page_is_gone_is_cancelled_sooner(make_harness: Callable[..., ServiceHarness]) -> None:
    harness = make_harness(grace_s=5.0)
    open_pages = {"one": True, "two": True}
    first, second = harness.hand(), harness.hand()
    gone = harness.service.submit("one", first, is_there=lambda: open_pages["one"])
    there = harness.service.submit("two", second, is_there=lambda: open_pages["two"])
    assert first.begun.wait(PATIENCE_S)
    open_pages["one"] = False
    harness.clock.now += 4.0
    assert gone.state == "running"  # a page that is loaded anew comes back within that time
    harness.clock.now += 2.0
    assert there.poll().ahead == 1
    first.let_go()
    assert ended(gone) == "stopped" and gone.poll().progress.note == "no page asked for it for 6 s"
    assert second.begun.wait(PATIENCE_S)
    harness.clock.now += 10.0
    assert there.poll().state == "running"


def test_silent_queued_jobs_do_not_run(harness: ServiceHarness) -> None:
    first, hand = harness.busy()
    silent, alive = harness.hand(), harness.hand()
    gone, waiting = harness.service.submit("one", silent), harness.service.submit("two", alive)
    assert waiting.ahead == 2
    harness.clock.now += 15
    first.beat()
    waiting.beat()
    harness.clock.now += 15
    hand.let_go()
    assert alive.begun.wait(PATIENCE_S)
    assert (gone.state, gone.progress.note) == ("stopped", "no page asked for it for 30 s")
    assert not silent.begun.is_set() and waiting.state == "running"


def test_silent_jobs_take_no_room_and_no_positions(make_harness: Callable[..., ServiceHarness]) -> None:
    harness = make_harness(most_queued=2)
    first, _ = harness.busy()
    gone, waiting = harness.service.submit("one", nothing), harness.service.submit("two", nothing)
    harness.clock.now += 15
    first.beat()
    waiting.beat()
    harness.clock.now += 15
    third = harness.service.submit("three", nothing)
    assert (gone.state, waiting.ahead, third.ahead) == ("stopped", 1, 2)
    harness.clock.now += 10
    first.beat()
    assert (third.poll().ahead, waiting.state) == (1, "stopped")


def test_a_job_that_is_read_or_waited_for_is_not_silent(harness: ServiceHarness) -> None:
    job, hand = harness.busy()
    hand.give("a")
    reader = job.events()
    assert next(reader) == "a"
    harness.clock.now += 1000
    hand.give("b")
    assert next(reader) == "b"
    reader.close()  # type: ignore[attr-defined]
    harness.clock.now += 20
    assert not job.wait(0)
    harness.clock.now += 20
    assert job.poll().state != "stopping"
    harness.clock.now += 21
    assert job.poll().state == "stopping"
