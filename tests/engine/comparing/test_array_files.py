"""Files of arrays, and jobs that write them: what is written is read again, and every kind of damage is named."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.comparing.array_files import Arrays, Meta, packed_bytes, read_arrays, write_arrays, write_bytes
from engine.comparing.file_jobs import FileJob, run_jobs
from engine.errors import AssetError, DriftscopeError, FileError

META = {"key": "abc", "count": 3}
ARRAYS: dict[str, Any] = {
    "small": np.array([0, 255], dtype=np.uint8),
    "signed": np.array([[-1, 2], [3, -(2**31)]], dtype=np.int32),
    "empty": np.zeros((0, 3), dtype=np.uint16),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "some" / "shard.arrays"


def test_what_is_written_is_read_again(path: Path) -> None:
    write_arrays(path, META, ARRAYS)
    meta, arrays = read_arrays(path)
    assert meta == META and arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert arrays[name].shape == array.shape
        assert (arrays[name] == array).all()
    assert path.read_bytes() == packed_bytes(META, ARRAYS)
    assert [file.name for file in path.parent.iterdir()] == ["shard.arrays"]


def test_any_changed_or_missing_byte_is_damage(path: Path) -> None:
    content = packed_bytes(META, ARRAYS)
    write_bytes(path, content)
    for offset in range(0, len(content), 7):
        for damaged in (content[:offset], content[:offset] + bytes([content[offset] ^ 1]) + content[offset + 1 :]):
            path.write_bytes(damaged)
            with pytest.raises(FileError, match=r"shard\.arrays is damaged"):
                read_arrays(path)


# --- jobs -------------------------------------------------------------------------------------------------------------
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
    assert [result.meta["payload"] for result in done] == [0, 1] and done[0].was_there
    full = [FileJob(tmp_path / f"full-{index}.arrays", full_at_two, index, {}) for index in range(4)]
    with pytest.raises(AssetError, match=r"^shard-2 cannot be written: No space left on device\. Free some space"):
        list(run_jobs(full, 2))


def test_a_file_of_another_payload_or_version_is_not_kept(tmp_path: Path) -> None:
    requests = [(0, "1"), (0, "1"), (0, "2"), (1, "2")]
    jobs = [FileJob(tmp_path / "0.arrays", full_at_two, payload, {"rdkit": rdkit}) for payload, rdkit in requests]
    assert [next(run_jobs([job], 1)).was_there for job in jobs] == [False, True, False, False]
