"""What is added up about two engines, their logs' lines, and memory that is read late: without llama.cpp."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
import torch

from engine.decode.log_recorder import names_of_line
from engine.logits.entries import read_line
from tools.llama_cpp.figures import AnswerAgreement, LogitAgreement, divergences, row
from tools.llama_cpp.late import read_memory
from tools.llama_cpp.running import ids_to_log, late_lines, line

RNG = np.random.default_rng(0)


def test_divergence_is_that_of_torch() -> None:
    control, test = RNG.normal(0, 5, (2, 7, 300))
    own = torch.nn.functional.kl_div(
        torch.tensor(test).log_softmax(1), torch.tensor(control).log_softmax(1), log_target=True, reduction="none"
    )
    assert divergences(control, test) == pytest.approx(own.sum(1).numpy(), rel=1e-9)
    assert divergences(control, control + 3).tolist() == pytest.approx([0.0] * 7, abs=1e-12)


def test_sums_do_not_depend_on_how_rows_come() -> None:
    control = RNG.normal(0, 5, (70, 50)).astype(np.float32)
    test = control + RNG.normal(0, 0.5, control.shape).astype(np.float32)
    whole, parts = LogitAgreement(), LogitAgreement()
    whole.add(control, test)
    for part in (slice(0, 1), slice(1, 40), slice(40, 70)):
        parts.add(control[part], test[part])
    difference = np.abs(test.astype(np.float64) - control.astype(np.float64))
    for found in (whole, parts):
        assert (found.tokens, found.values) == (70, 3_500)
        assert found.largest == difference.max()
        assert found.mean == pytest.approx(difference.mean())
        assert found.relative == pytest.approx(
            np.sqrt((difference**2).mean() / (control.astype(np.float64) ** 2).mean())
        )
        assert found.top_1 == (control.argmax(1) == test.argmax(1)).mean()
    assert parts.mean_divergence == pytest.approx(whole.mean_divergence)
    assert 0 < whole.mean_divergence < whole.most_divergence


def test_a_row_says_what_was_written_and_nothing_where_nothing_was() -> None:
    control = RNG.normal(0, 5, (4, 50)).astype(np.float32)
    agreed, written = LogitAgreement(), AnswerAgreement()
    agreed.add(control, control)
    written.add([1, 2, 3], [1, 2, 3], passed=True)
    written.add([1, 2, 3], [1, 2, 4], passed=False)
    assert row("q8_0", agreed, written) == (
        "q8_0", "0", "0", "0.0e+00", "100.00%", "0.0e+00", "0.0e+00", "1 of 2", "2", "1 of 2",
    )  # fmt: skip
    assert row("q8_0", agreed, None)[-3:] == ("–", "–", "–")


def test_a_line_is_an_entry_of_any_log_and_keeps_its_numbers() -> None:
    values = np.array([1.1, -46_580.1, 3.09434727e-41, 1.8e35, np.nan, -np.inf], dtype=np.float32)
    text = line(names_of_line("llama.cpp", "demo:final", "q4_0", 151_936), 7, "CC=O", values, [0, 1, 2, 3, 4, 9], 24)
    said = read_line(text.encode())
    assert (said.engine, said.model, said.precision) == ("llama.cpp", "demo:final", "q4_0")
    assert (said.checkpoint, said.token_idx, said.source, said.ids) == ("logits", 7, "CC=O", [0, 1, 2, 3, 4, 9])
    assert np.array_equal(np.array(said.values, dtype=np.float32), values, equal_nan=True)
    assert json.loads(text)["shape"] == "[151936]"


def test_rows_without_memory_are_no_entries() -> None:
    values = np.array([[1, 2], [np.nan, np.nan], [np.nan, 3]], dtype=np.float32)
    entries = [
        json.loads(late_line) for late_line in late_lines(names_of_line("llama.cpp", "a", "f32", 9), "CC=O", values)
    ]
    assert [entry["token_idx"] for entry in entries] == [0, 2]
    assert "ids" not in entries[0]


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read through /proc, which only Linux has")
def test_memory_is_read_where_there_is_some() -> None:
    kept = np.arange(6, dtype=np.float32)
    assert read_memory(kept.ctypes.data, 6).tolist() == kept.tolist()
    kept[0] = 9  # a pointer shows what stands there now
    assert read_memory(kept.ctypes.data, 1).tolist() == [9.0]
    assert np.isnan(read_memory(0, 4)).all()


def test_logged_ids_are_the_first_and_the_commonest() -> None:
    answers = [[50, 60, 60, 3], [60, 70, 50, 50]]
    assert ids_to_log(answers, 12) == (*range(10), 50, 60)
    assert ids_to_log(answers, 100) == (*range(10), 50, 60, 70)
    assert ids_to_log(answers, 4) == (0, 1, 2, 3)
