"""A line of a log as an entry."""

from __future__ import annotations

import math
import tracemalloc

import pytest

from engine.logits.entries import _NOT_JSON, NoEntryError, clean_text, read_line, row_length


def test_a_line_as_it_should_be() -> None:
    line = (
        b'{"checkpoint": "logits", "team": "t", "token_idx": 7, "dtype": "f32", "shape": "[1,151936]", '
        b'"values": [1, -2.5, 1e35], "ts": "2025-10-07T20:40Z", "source": "s", "model": "m", "precision": "Q4_K_M"}'
    )
    found = read_line(line)
    assert found.values == [1.0, -2.5, 1e35]
    assert (found.checkpoint, found.team, found.engine, found.token_idx) == ("logits", "t", None, 7)
    assert (found.model, found.precision, found.source, found.ts) == ("m", "Q4_K_M", "s", "2025-10-07T20:40Z")


NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("spelled", "value"),
    [
        *[(text, NAN) for text in ("NaN", "nan", "-nan", "NAN", "-nan(ind)", "nan(0x8000)", "1.#QNAN", "-1.#IND00")],
        *[(text, INF) for text in ("Infinity", "inf", "+inf", "INF", "1.#INF", "1.#INF00", "1e999", "9" * 400)],
        *[(text, -INF) for text in ("-Infinity", "-inf", "-INF", "-1.#INF", "-1e999", '"-inf"', '"-Infinity"')],
        ("null", NAN),
        ('"nan"', NAN),
        ('"1.5"', 1.5),
        ("+1.5", 1.5),
    ],
)
def test_numbers_in_any_spelling(spelled: str, value: float) -> None:
    found = read_line(f'{{"token_idx": 1, "source": "nan inf +1", "values": [0.5, {spelled}, -2]}}'.encode())
    assert found.values[0] == 0.5
    assert found.values[2] == -2
    assert found.values[1] == pytest.approx(value, nan_ok=True)
    assert found.source == "nan inf +1"


def test_what_keys_may_be() -> None:
    found = read_line(b'{"values": [[1, 2], [3, 4]], "token_idx": "7", "team": 5, "shape": [2, 2.5], "ts": 1.5}')
    assert (found.values, found.token_idx, found.team, found.shape, found.ts) == ([3.0, 4.0], 7, "5", [2], "1.5")
    assert read_line(b'{"values": [1], "token_idx": 3.0}').token_idx == 3
    assert read_line(b'{"values": [1, 2], "ids": [9, 4]}').ids == [9, 4]
    for line in (b'{"values": [1], "values": [2]}', b'{"values": [1], "values": ["nan", 2], "values": [2]}'):
        assert read_line(line).values == [2.0], "a key twice: the last one, as in most readers of JSON"
    assert read_line(b'{"values": [1], "team": "\xff\xfe"}').team == "��"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b'{"values": [1, 2', "no JSON"),
        (b"\x00\x01", "no JSON"),
        (b"[1]", "no JSON object"),
        (b'{"token_idx": 1}', "no values"),
        (b'{"values": []}', "no values"),
        (b'{"values": {"a": 1}}', "no values"),
        (b'{"values": [true]}', "a bool"),
        (b'{"values": ["0x1"]}', "'0x1'"),
        (b'{"values": [1], "token_idx": -1}', "token_idx is '-1'"),
        (b'{"values": [1], "token_idx": 1.5}', "token_idx is '1.5'"),
        (b'{"values": [1], "token_idx": 4294967296}', "token_idx is '4294967296'"),
        (b'{"values": [1, 2], "ids": [3]}', "1 ids for 2 values"),
        (b'{"values": [1, 2], "ids": [3, 3]}', "different"),
        (b'{"values": [1], "ids": [99999999999]}', "different"),
        (b'{"values": [1], "ids": [4194304]}', "from 0 to 1,048,576"),
        (b'{"values": ' + b"[" * 100_000, "no JSON"),
        (b'{"values": [' + b"0," * 2**20 + b"0]}", "1,048,577 values, the limit is 1,048,576"),
    ],
)
def test_what_is_no_entry_says_why(line: bytes, why: str) -> None:
    with pytest.raises(NoEntryError, match=why):
        read_line(line)


@pytest.mark.parametrize("end", ["", "\\", '"', '", "", ["", {"a": "'])
def test_texts_beside_odd_numbers_are_read_over_once(end: str) -> None:
    """1 KB of gz was read over from each of its 500,000 quotes."""
    text = '"' + '\\"' * 2_000 + end
    assert [found.span() for found in _NOT_JSON.finditer(text)] == [(0, len(text))]


def test_a_long_text_beside_odd_numbers_takes_no_memory_by_character() -> None:
    line = b'{"values": [1, nan], "team": "' + b"a" * 2**20 + b'"}'
    tracemalloc.start()
    try:
        assert len(read_line(line).values) == 2
        assert tracemalloc.get_traced_memory()[1] < 20 * len(line)
    finally:
        tracemalloc.stop()


def test_long_texts_of_an_entry_are_not_held() -> None:
    """2 GB of texts, 10 MB of gz, waited in memory for 500,000 values."""
    line = read_line(
        b'{"values": [1], "ts": "%s", "source": "%s", "shape": [%s7]}' % (b"a" * 999, b"b" * 999, b"1," * 999)
    )
    assert (line.ts, line.source, line.shape) == ("a" * 200, "b" * 200, [7])


def test_texts_and_shapes() -> None:
    assert clean_text("a\ud800") == "a?"
    assert clean_text("") is None
    assert len(clean_text("x" * 1_000) or "") == 200
    assert row_length("[1,151936]") == row_length([151936]) == row_length("(151936,)") == 151936
    assert row_length("?") is row_length([]) is row_length("[0]") is row_length("9" * 30) is None
