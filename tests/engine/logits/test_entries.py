"""Log files as lines, plain, compressed, broken off; and a line of a log as an entry."""

from __future__ import annotations

import gzip
import math
from pathlib import Path

import pytest

from engine.errors import FileError
from engine.logits import entries
from engine.logits.entries import NoEntryError, clean_text, fingerprint, read_line, read_lines, row_length

NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("spelled", "value"),
    [
        *[(text, NAN) for text in ("NaN", "-nan", "-nan(ind)", "nan(0x8000)", "-1.#IND00")],
        *[(text, INF) for text in ("Infinity", "+inf", "1.#INF00", "1e999")],
        *[(text, -INF) for text in ("-INF", "-1.#INF", "-1e999", '"-inf"')],
        ("null", NAN),
        ('"nan"', NAN),
        ('"1.5"', 1.5),
        ("+1.5", 1.5),
    ],
)
def test_numbers_in_any_spelling(spelled: str, value: float) -> None:
    entry = read_line(f'{{"token_idx": 1, "source": "nan inf +1", "values": [0.5, {spelled}, -2]}}'.encode())
    assert entry.values[0] == 0.5
    assert entry.values[2] == -2
    assert entry.values[1] == pytest.approx(value, nan_ok=True)
    assert entry.source == "nan inf +1"


def test_what_keys_may_be() -> None:
    entry = read_line(b'{"values": [[1, 2], [3, 4]], "token_idx": "7", "team": 5, "shape": [2, 2], "ts": 1.5}')
    assert (entry.values, entry.token_idx, clean_text(entry.team)) == ([3.0, 4.0], 7, "5")
    assert read_line(b'{"values": [1], "token_idx": 3.0}').token_idx == 3
    assert read_line(b'{"values": [1, 2], "ids": [9, 4]}').ids == [9, 4]
    for line in (b'{"values": [1], "values": [2]}', b'{"values": [1], "values": ["nan", 2], "values": [2]}'):
        assert read_line(line).values == [2.0], "a key twice: the last one, as in most readers of JSON"
    assert read_line(b'{"values": [1], "team": "\xff\xfe"}').team == "��"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b'{"values": [1, 2', "no JSON"),
        (b'{"values": []}', "1 to 1,048,576 values"),
        (b'{"values": [1], "token_idx": 1.5}', "no entry"),
        (b'{"values": [1], "token_idx": 4294967296}', "token_idx from 0"),
        (b'{"values": [1, 2], "ids": [3]}', "as its values"),
        (b'{"values": [1, 2], "ids": [3, 3]}', "different"),
        (b'{"values": ' + b"[" * 100_000, "no JSON"),
        (b'{"values": [' + b"0," * 2**20 + b"0]}", "1 to 1,048,576 values"),
    ],
)
def test_what_is_no_entry_says_why(line: bytes, why: str) -> None:
    with pytest.raises(NoEntryError, match=why):
        read_line(line)


def test_texts_and_shapes() -> None:
    assert clean_text("a\ud800") == "a?"
    assert clean_text("") is None
    assert len(clean_text("x" * 1_000) or "") == 200
    assert row_length("[1,151936]") == row_length([151936]) == row_length("(151936,)") == 151936
    assert row_length("?") == row_length([]) == row_length("[0]") == row_length("9" * 30) == 0


TEXT = b"".join(b'{"values": [%d]}\n' % number for number in range(5_000))


def read(path: Path) -> bytes:
    return b"".join(read_lines(path))


def test_a_compressed_file_may_have_members_and_end_in_zeros(tmp_path: Path) -> None:
    contents = (TEXT, gzip.compress(TEXT), gzip.compress(TEXT[:100]) + gzip.compress(TEXT[100:]) + bytes(500))
    for content in contents:
        (tmp_path / "a").write_bytes(content)
        assert read(tmp_path / "a") == TEXT
    (tmp_path / "b").write_bytes(TEXT)
    assert fingerprint(tmp_path / "a") == fingerprint(tmp_path / "b")


def test_a_compressed_file_that_breaks_off_is_read_up_to_there(tmp_path: Path) -> None:
    path, whole = tmp_path / "a.gz", gzip.compress(TEXT)
    lines: list[bytes] = []
    for content in (whole[: len(whole) // 2], whole[:40] + bytes(20) + whole[60:]):
        path.write_bytes(content)
        with pytest.raises(entries.BROKEN):
            lines.extend(read_lines(path))
    assert TEXT.startswith(b"".join(lines)) and len(b"".join(lines)) > len(TEXT) // 4


def test_a_line_of_over_16_mb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "MOST_LINE_BYTES", 1 << 20)
    (tmp_path / "a").write_bytes(b"[]\n" + b"x" * (3 << 19) + b"\n[]\n")
    with pytest.raises(FileError, match="a line of 'a' is over 1 MB"):
        read(tmp_path / "a")
