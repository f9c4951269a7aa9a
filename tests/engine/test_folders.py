"""Files that appear whole under the name that a user gives."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from engine.user_files import writing


def test_a_full_disk_leaves_what_was_there_and_nothing_beside_it(tmp_path: Path) -> None:
    """`decode --sdf` left a cut file under its final name."""
    file = tmp_path / "out.sdf"
    file.write_text("before")

    def allow_no_bytes() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    text = "[C]<1.0,2.0,3.0>[C]<2.5,2.0,3.0>"
    command = [sys.executable, "-B", "-m", "engine", "decode", text, "--sdf", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=allow_no_bytes)
    assert done.returncode == 2 and "File too large" in done.stderr and str(file) in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["out.sdf"] and file.read_text() == "before"


def test_a_link_stays_one_and_a_pipe_is_written_to(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with writing(tmp_path / "link") as file:
        file.write(b"whole")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "target").read_bytes() == b"whole"
    reader, writer = os.pipe()
    with writing(Path(f"/dev/fd/{writer}")) as file:
        file.write(b"piped")
    assert os.read(reader, 5) == b"piped"
    os.close(reader)
    os.close(writer)


def test_what_raises_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="mine"), writing(tmp_path / "mine"):
        raise OSError(28, "No space left on device")
    assert list(tmp_path.iterdir()) == []
