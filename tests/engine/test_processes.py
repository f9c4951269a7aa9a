"""What a process makes once, whoever asks at the same time."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from engine.processes import made_once


def test_what_two_threads_ask_for_at_once_is_made_once() -> None:
    made: list[int] = []
    together = threading.Barrier(4)

    @made_once(2)
    def square(number: int) -> list[int]:
        made.append(number)
        return [number * number]

    def ask(number: int) -> list[int]:
        together.wait(timeout=30)
        return square(number)

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(ask, (2, 3, 2, 3)))
    assert answers == [[4], [9], [4], [9]]
    assert answers[0] is answers[2]
    assert sorted(made) == [2, 3]
    for number in (4, 5, 2):  # by then it is none of the last two
        square(number)
    assert made[2:] == [4, 5, 2]
