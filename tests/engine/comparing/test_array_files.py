"""Files of arrays: what is written is read again, and every kind of damage is named."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

from engine.comparing.array_files import packed_bytes, read_arrays, write_arrays, write_bytes
from engine.errors import AssetError, FileFormatError
from tools.training.json_files import read_json, write_json

META = {"key": "abc", "count": 3}
ARRAYS: dict[str, Any] = {
    "small": np.array([0, 255], dtype=np.uint8),
    "signed": np.array([[-1, 2], [3, -(2**31)]], dtype=np.int32),
    "empty": np.zeros((0, 3), dtype=np.uint16),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "some" / "shard.arrays"


def full_disk(*_: object) -> NoReturn:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_what_is_written_is_read_again(path: Path) -> None:
    write_arrays(path, META, ARRAYS)
    meta, arrays = read_arrays(path)
    assert meta == META and arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert arrays[name].shape == array.shape
        assert (arrays[name] == array).all()
    assert path.read_bytes() == packed_bytes(META, ARRAYS)
    assert [found.name for found in path.parent.iterdir()] == ["shard.arrays"]


def test_any_changed_or_missing_byte_is_damage(path: Path) -> None:
    content = packed_bytes(META, ARRAYS)
    write_bytes(path, content)
    for place in range(0, len(content), 7):
        for damaged in (content[:place], content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]):
            path.write_bytes(damaged)
            with pytest.raises(FileFormatError, match=r"shard\.arrays is damaged"):
                read_arrays(path)


def test_a_missing_file_is_named(path: Path) -> None:
    with pytest.raises(FileFormatError, match=r"shard\.arrays cannot be read: No such file"):
        read_arrays(path)
    with pytest.raises(FileFormatError, match="cannot be read"):
        read_json(path)


@pytest.mark.parametrize("method", ["open", "replace"])
def test_a_full_disk_leaves_what_was_there(path: Path, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    write_arrays(path, META, ARRAYS)
    with monkeypatch.context() as patched:
        patched.setattr(Path, method, full_disk)
        with pytest.raises(AssetError, match=r"shard\.arrays cannot be written: No space left on device"):
            write_arrays(path, {"key": "other"}, ARRAYS)
    assert read_arrays(path)[0] == META
    assert [found.name for found in path.parent.iterdir()] == ["shard.arrays"]


@pytest.mark.parametrize("text", ["{", "[1]", "\x00"])
def test_a_damaged_manifest_is_named(path: Path, text: str) -> None:
    write_json(path, META)
    assert read_json(path) == META
    path.write_text(text)
    with pytest.raises(FileFormatError, match="is damaged"):
        read_json(path)
