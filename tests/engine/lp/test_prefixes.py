"""What a prefix leaves, asked of real tokenizers: the value that is being written, and not those of other digits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.lp.numbers import Numbers, number_automaton
from engine.lp.prefixes import NEXT_AXIS, Leaves, Prefix
from engine.records import FIXED4, SHORTEST4, TRIMMED4, NumberFormat
from engine.text.tokenizers import TextTokenizer, load_tokenizer, number_ids

FORMS = (FIXED4, TRIMMED4, SHORTEST4)
AXIS = st.integers(-9_999_999, 9_999_999) | st.integers(-20_000, 20_000)  # in 0.0001 angstrom


def written(value: int, form: NumberFormat) -> str:
    text = f"{abs(value) // 10_000}.{abs(value) % 10_000:04d}"
    while len(text.partition(".")[2]) > form.least_decimals and text[-1] == "0":
        text = text[:-1]
    return "-" * (value < 0) + text.removesuffix(".")


def steps(numbers: Numbers, tokenizer: TextTokenizer, text: str) -> list[tuple[int, Prefix, int, int]]:
    """Of each token of a triple: node, prefix, id and class, the sign of x among them."""
    minus = number_ids(tokenizer).minus
    ids = [minus, *tokenizer.encode(text[1:])] if text.startswith("-") else tokenizer.encode(text)
    node, prefix, walk = numbers.starts["x"], Prefix(is_inside=True), []
    for place, id_ in enumerate(ids):
        is_sign = place == 0 and id_ == minus
        kind = len(numbers.kinds) - 1 if is_sign else int(numbers.automaton.classes[id_])
        walk.append((node, prefix, id_, kind))
        node, prefix = int(numbers.automaton.goto[node, kind]), prefix.read(tokenizer.raw(id_).decode())
    return walk


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["qwen3", "llama3"])
@given(axes=st.tuples(AXIS, AXIS, AXIS))
def test_each_token_leaves_the_value_that_is_written(name: str, form: NumberFormat, axes: tuple[int, int, int]) -> None:
    tokenizer = load_tokenizer(name)
    ids = number_ids(tokenizer)
    numbers = number_automaton(ids, form, tokenizer.vocab_size)
    columns = np.union1d(numbers.automaton.live, [ids.minus]).tolist()
    leaves = Leaves(numbers, ids, columns, form)
    text = ",".join(written(value, form) for value in axes)
    values = [float(part) for part in text.split(",")]
    for node, prefix, id_, kind in steps(numbers, tokenizer, text):
        kinds = numbers.automaton.classes[columns].astype(np.int64)
        kinds[columns.index(id_)] = kind
        low, high = leaves.of(node, kinds, prefix.digits)
        after = prefix.read(tokenizer.raw(id_).decode())
        value = values[len(after.known)]
        column = columns.index(id_)
        assert ((low[column] - 1e-9 <= value) & (value <= high[column] + 1e-9)).any(), (text, prefix, id_)
        assert (leaves.action[node, kind] == NEXT_AXIS) == (len(after.known) > len(prefix.known))
        if name == "qwen3" and form is FIXED4 and tokenizer.raw(id_).isdigit():
            digits = [columns.index(digit) for digit in ids.digits[0] if digit != id_]
            legal = [digit for digit in digits if numbers.automaton.goto[node, kinds[digit]] >= 0]
            others = (low[legal] - 1e-9 <= value) & (value <= high[legal] + 1e-9)
            assert not others.any(), "of one-digit tokens one alone leads to a number of four decimals"


def test_what_is_left_of_a_one_depends_on_the_tokenizer() -> None:
    left = {}
    for name in ("qwen3", "llama3"):
        tokenizer = load_tokenizer(name)
        ids = number_ids(tokenizer)
        numbers = number_automaton(ids, FIXED4, tokenizer.vocab_size)
        columns = numbers.automaton.live.tolist()
        kinds = numbers.automaton.classes[columns].astype(np.int64)
        low, high = Leaves(numbers, ids, columns, FIXED4).of(numbers.starts["x"], kinds, 0)
        column = columns.index(ids.digits[0][1])
        left[name] = [(a, round(b, 4)) for a, b in zip(low[column], high[column], strict=True) if not np.isnan(a)]
    assert left == {"qwen3": [(1, 1.9999), (10, 19.9999), (100, 199.9999)], "llama3": [(1, 1.9999)]}


@pytest.mark.parametrize("name", ["qwen3", "llama3"])
def test_a_minus_never_leaves_zero(name: str) -> None:
    """No number is written as ``-0.0000``: a minus leaves what is below zero by one unit or more."""
    tokenizer = load_tokenizer(name)
    ids = number_ids(tokenizer)
    numbers = number_automaton(ids, FIXED4, tokenizer.vocab_size)
    columns = np.union1d(numbers.automaton.live, [ids.minus]).tolist()
    leaves = Leaves(numbers, ids, columns, FIXED4)
    column, kinds = columns.index(ids.minus), numbers.automaton.classes[columns].astype(np.int64)
    kinds[column] = len(numbers.kinds) - 1
    _low, high = leaves.of(numbers.starts["x"], kinds, 0)
    assert high[column][0] == -leaves.unit

    zero = columns.index(ids.digits[0][0])
    node = int(numbers.automaton.goto[numbers.starts["x"], kinds[column]])
    _low, high = leaves.of(node, kinds, 0)
    assert high[zero][0] == -leaves.unit
