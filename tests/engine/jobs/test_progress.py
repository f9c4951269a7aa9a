"""Lines of progress: half a line waits, and what is no such line is passed over."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.jobs.progress import PartProgress, ProgressFile


def append(path: Path, text: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(text)


def line(**said: object) -> str:
    return json.dumps(said) + "\n"


def test_the_last_word_of_each_part_counts(tmp_path: Path) -> None:
    said = ProgressFile(tmp_path / "progress")
    assert said.parts() == ()
    told = {"samples": 4, "done": 1, "work": 0.25, "began": 0.25, "seconds": 2.0, "written": 1}
    first = line(part=0, parts=2, run_id="a", lp="none", **told)
    append(tmp_path / "progress", first[:20])
    assert said.parts() == ()
    append(tmp_path / "progress", first[20:])
    (part,) = said.parts()
    assert (part.run_id, part.done, part.has_ended, part.began) == ("a", 1, False, 0.25)
    assert part.samples_a_second == 0.5
    assert part.seconds_left is None, "it began at a quarter, and nothing tells how fast it is"
    append(tmp_path / "progress", line(part=0, parts=2, done=2, work=0.5, seconds=3.0))
    (part,) = said.parts()
    assert (part.samples, part.done) == (4, 2)
    assert part.seconds_left == pytest.approx(6.0)
    append(tmp_path / "progress", line(part=1, parts=2, run_id="b") + line(part=0, parts=2, state="done", work=1.0))
    assert [(one.run_id, one.state) for one in said.parts()] == [("a", "done"), ("b", "running")]


def test_a_line_that_was_cut_off_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "progress").write_bytes(
        b'\xff\xfe\n\n{"part": 0, "par\n{"part": 0, "parts": 1, "file": "x.json", "samples": 10, "else": 1}\n'
    )
    assert ProgressFile(tmp_path / "progress").parts() == (PartProgress(0, 1, file="x.json", samples=10),)
