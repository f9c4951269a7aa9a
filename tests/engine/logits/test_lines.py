"""Log files as lines: plain, compressed, broken off."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from engine.errors import FileFormatError
from engine.logits import lines
from engine.logits.lines import bundles, fingerprint

TEXT = b"".join(b'{"values": [%d]}\n' % number for number in range(5_000))


def read(path: Path, size: int = 1_000) -> tuple[bytes, bool, bool]:
    """All lines, whether the last is open, whether the file breaks off."""
    found = list(bundles(path, size))
    assert [one.is_last for one in found] == [False] * (len(found) - 1) + [True]
    assert found[-1].first == 1 + sum(len(one.lines) for one in found[:-1])
    return b"\n".join(line for one in found for line in one.lines), found[-1].is_open, found[-1].is_cut


@pytest.mark.parametrize("size", [7, 1_000, 1 << 22])
def test_lines_are_the_same_however_they_are_read(tmp_path: Path, size: int) -> None:
    for name, content in {"a": TEXT, "a.gz": gzip.compress(TEXT)}.items():
        (tmp_path / name).write_bytes(content)
        assert read(tmp_path / name, size) == (TEXT.rstrip(), False, False)


def test_a_compressed_file_may_have_members_and_end_in_zeros(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(TEXT[:100]) + gzip.compress(TEXT[100:]) + bytes(500))
    assert read(path) == (TEXT.rstrip(), False, False)


def test_a_compressed_file_that_breaks_off_is_read_up_to_there(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    whole = gzip.compress(TEXT)
    path.write_bytes(whole[: len(whole) // 2])
    found, _, is_cut = read(path)
    assert is_cut
    assert TEXT.startswith(found)
    assert len(found) > len(TEXT) // 4
    path.write_bytes(whole[:-6])  # its checksum is missing, its text is not
    assert read(path) == (TEXT.rstrip(), False, True)


def test_a_damaged_compressed_file_is_a_cut_one(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    whole = bytearray(gzip.compress(TEXT))
    whole[40:60] = bytes(20)
    path.write_bytes(bytes(whole))
    assert read(path)[2]


def test_the_last_line_is_open_without_a_line_break(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"\xef\xbb\xbfone\ntwo")
    assert read(path) == (b"one\ntwo", True, False)
    path.write_bytes(b"\xef\xbb\xbfone")
    assert read(path) == (b"one", True, False)
    path.write_bytes(b"")
    assert read(path) == (b"", False, False)


def test_a_file_and_its_compressed_form_have_one_fingerprint(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(TEXT)
    (tmp_path / "b").write_bytes(gzip.compress(TEXT))
    (tmp_path / "c").write_bytes(TEXT + b" ")
    assert fingerprint(tmp_path / "a") == fingerprint(tmp_path / "b") != fingerprint(tmp_path / "c")


def test_a_line_of_over_16_mb_is_refused_also_where_it_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MOST_LINE_BYTES", 1 << 20)
    (tmp_path / "a").write_bytes(b"[]\n" + b"x" * (3 << 19) + b"\n[]\n")
    with pytest.raises(FileFormatError, match="line 2 of 'a' is over 1 MB"):
        list(bundles(tmp_path / "a", 1 << 20))


def test_what_is_no_such_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match="No such file"):
        list(bundles(tmp_path / "none"))
    (tmp_path / "a").write_bytes("{}\n".encode("utf-16"))
    with pytest.raises(FileFormatError, match="UTF-16"):
        list(bundles(tmp_path / "a"))
