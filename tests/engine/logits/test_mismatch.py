"""Twenty planted causes and twenty healthy pairs, from the demo models; the forms of files; the question."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.errors import FileError
from engine.logits import mismatch_model
from engine.logits.mismatch import (
    CAUSES,
    FILTERS,
    LP_MASK,
    MASKED,
    NOISE,
    PRECISION,
    PROCESSED,
    RETOKENISED,
    SHIFTED,
    TEMPERATURE,
    Analysis,
    analyse,
    noise_of,
)
from engine.logits.mismatch_model import explain
from engine.logits.token_streams import Logged, Streams, paired, read_file, read_run
from engine.lp.constraint import LpParameters, build_constraint
from engine.questions import ask
from engine.questions.question import NeedsWork
from tests.cli import run
from tests.engine.inspection.made import DEMO_STORE, demo_run
from tests.engine.logits.planted_streams import (
    Written,
    coarse,
    forward,
    fp8,
    int4,
    model,
    pairs_of,
    split_otherwise,
    trained,
    written,
)
from tests.support import of_soak

QWEN, LLAMA = "demo-qwen", "demo-llama"
OLD, NEW = "group-v2.1", "group-v4.3"
QWEN3 = {"temperature": 0.7, "top_k": 20, "top_p": 0.8}


def shifted(name: str, lag: int) -> Streams:
    texts = written(name)
    late = [np.roll(values, lag) for values in trained(texts, model(name))]
    return pairs_of(texts, [text.served() for text in texts], late)


def masked(name: str, ends: int) -> Streams:
    """The prompts count, which the server has zeros for; or the last tokens have the 1 that TRL fills up with."""
    texts = written(name)
    server = [np.where(np.arange(len(text.served())) >= len(text.served()) - ends, 1, text.served()) for text in texts]
    return pairs_of(texts, server, trained(texts, model(name)), masks=ends > 0)


def retokenised(name: str, count: int) -> Streams:
    """The server wrote ids that the tokenizer does not give its text; the trainer scored those that it gives."""
    texts, loaded = written(name), model(name)
    both: list[list[Logged]] = [[], []]
    for number, text in enumerate(texts):
        for rows, ids in zip(both, (split_otherwise(loaded, text.ids, count, text.prompt + 10), text.ids), strict=True):
            used = np.arange(len(ids)) >= text.prompt
            rows.append(Logged(f"line {number}", np.array(ids), forward(loaded, ids), None, used))
    return paired(*both)


def split_by_trainer(name: str) -> Streams:
    """The same in one file: the trainer's values are by index those of the ids that the text has when split again."""
    loaded, texts = model(name), list[Written]()
    for text in written(name):
        texts.append(replace(text, ids=split_otherwise(loaded, text.ids, 3, text.prompt + 10)))
    again = [forward(loaded, loaded.tokenizer.encode(loaded.tokenizer.decode(text.ids))) for text in texts]
    trainer = [np.resize(np.append(values, np.nan), len(text.ids)) for values, text in zip(again, texts, strict=True)]
    for values, short in zip(trainer, again, strict=True):
        values[len(short) :] = np.nan
    return pairs_of(texts, [forward(loaded, text.ids)[text.prompt :] for text in texts], trainer)


def served(name: str, lp: str = "none", **sampling: Any) -> Streams:
    texts = written(name, lp)
    return pairs_of(texts, [text.served(**sampling) for text in texts], trained(texts, model(name)))


def quantised(name: str, weights: Callable[..., Any]) -> Streams:
    texts = written(name)
    server = [forward(coarse(name, weights), text.ids)[text.prompt :] for text in texts]
    return pairs_of(texts, server, trained(texts, model(name)))


PLANTED: dict[str, tuple[str, str, str, Callable[[], Streams]]] = {
    "late": (SHIFTED, QWEN, "", lambda: shifted(QWEN, 1)),
    "early": (SHIFTED, LLAMA, "", lambda: shifted(LLAMA, -1)),
    "prompts count": (MASKED, QWEN, "", lambda: masked(QWEN, 0)),
    "8 of padding count": (MASKED, LLAMA, "", lambda: masked(LLAMA, 8)),
    "1 token split": (RETOKENISED, QWEN, "", lambda: retokenised(QWEN, 1)),
    "8 tokens split": (RETOKENISED, LLAMA, "", lambda: retokenised(LLAMA, 8)),
    "split by the trainer": (RETOKENISED, QWEN, "", lambda: split_by_trainer(QWEN)),
    "T 0.8": (TEMPERATURE, QWEN, "", lambda: served(QWEN, temperature=0.8)),
    "T 1.2": (TEMPERATURE, LLAMA, "", lambda: served(LLAMA, temperature=1.2)),
    "T 1.4": (TEMPERATURE, QWEN, "", lambda: served(QWEN, temperature=1.4)),
    "top-p 0.8": (FILTERS, QWEN, "", lambda: served(QWEN, top_p=0.8)),
    "top-k 5": (FILTERS, LLAMA, "", lambda: served(LLAMA, top_k=5)),
    "min-p 0.2": (FILTERS, LLAMA, "", lambda: served(LLAMA, min_p=0.2)),
    "v2.1, Qwen": (LP_MASK, QWEN, OLD, lambda: served(QWEN, OLD)),
    "v2.1, LLaMA": (LP_MASK, LLAMA, OLD, lambda: served(LLAMA, OLD)),
    "v4.3": (LP_MASK, QWEN, NEW, lambda: served(QWEN, NEW)),
    "T 1.2, top-p 0.8": (PROCESSED, QWEN, "", lambda: served(QWEN, temperature=1.2, top_p=0.8)),
    "qwen3 under v2.1": (PROCESSED, LLAMA, OLD, lambda: served(LLAMA, OLD, **QWEN3)),
    "fp8": (PRECISION, QWEN, "", lambda: quantised(QWEN, fp8)),
    "int4": (PRECISION, LLAMA, "", lambda: quantised(LLAMA, int4)),
}


@cache
def with_checkpoint(name: str) -> Analysis:
    _, of, lp, make = PLANTED[name]
    return explained(make(), of, lp)


def explained(streams: Streams, of: str, lp: str) -> Analysis:
    loaded, form = model(of), LpParameters(form=model(of).entry.numbers)
    return explain(streams, loaded, build_constraint(lp, loaded.tokenizer, loaded.vocab_rows, form) if lp else None)


def largest(analysis: Analysis) -> str:
    """The cause with the largest part, of those that are named."""
    return max(
        (finding.cause for finding in analysis.findings), key=lambda of: np.abs(analysis.parts[of]).mean(), default=""
    )


def expect_parts_add_up(name: str) -> None:
    """With a checkpoint and without."""
    for analysis in (with_checkpoint(name), analyse(with_checkpoint(name).streams)):
        change = analysis.streams.test - analysis.streams.control
        assert list(analysis.parts) == list(CAUSES) and len(change) > 90
        np.testing.assert_allclose(sum(analysis.parts.values()), change, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["early", "T 0.8", "v4.3", "fp8"])
def test_a_planted_cause_is_named_and_parts_add_up(name: str) -> None:
    expect_parts_add_up(name)
    assert largest(with_checkpoint(name)) == PLANTED[name][0]


@of_soak
def test_nineteen_of_twenty_planted_causes_are_named() -> None:
    """Without a checkpoint what is certain is right, and of the hints most are."""
    wrong, hinted = [], 0
    for name, (planted, *_) in PLANTED.items():
        expect_parts_add_up(name)
        wrong += [name] if largest(with_checkpoint(name)) != planted else []
        analysis = analyse(with_checkpoint(name).streams)
        assert {finding.cause for finding in analysis.findings if finding.is_certain} <= {planted}, name
        hinted += largest(analysis) == planted
    assert len(PLANTED) == 20 and len(wrong) <= 1, wrong
    assert hinted >= 15


def test_the_recipe_is_told_with_its_figures() -> None:
    (finding,) = with_checkpoint("T 1.2, top-p 0.8").findings
    assert finding.is_certain and finding.detail.startswith("temperature 1.2, top-p 0.8 against raw (temperature ")
    (finding,) = with_checkpoint("T 0.8").findings
    assert finding.detail == "temperature 0.8 against raw"


def in_bfloat16(name: str, lp: str, **sampling: Any) -> Streams:
    """The server has the same mask, temperature and filters as the trainer, and the weights in bfloat16."""
    texts, server = written(name, lp), list[np.ndarray]()
    for text in texts:
        scores = text.scores_of(model(name, "bfloat16"))
        server.append(replace(text, masked=scores.where(text.masked.isfinite(), text.masked)).served(**sampling))
    return pairs_of(texts, server, [np.append(np.zeros(text.prompt), text.served(**sampling)) for text in texts])


def test_weights_in_bfloat16_alone_have_no_cause() -> None:
    streams = in_bfloat16(QWEN, NEW, temperature=0.7)
    assert 0.001 < noise_of(streams.control, streams.test) < NOISE
    assert not analyse(streams).findings


@of_soak
def test_twenty_healthy_pairs_have_no_cause() -> None:
    """Number formats alone: raw and processed streams in bfloat16, and stored runs of vLLM with their checkpoint."""
    pairs = [in_bfloat16(name, lp, **how) for name in (QWEN, LLAMA) for lp in ("none", OLD, NEW)
             for how in ({}, {"temperature": 1.2}, {"temperature": 0.7})]  # fmt: skip
    noise = [noise_of(streams.control, streams.test) for streams in pairs]
    assert len(pairs) == 18 and min(noise) > 0.001 and max(noise) < 0.01 < NOISE
    assert not any(analyse(streams).findings for streams in pairs)
    for lp in ("exact", "grammar"):
        run_id = next(entry.id for entry in DEMO_STORE.listing().entries
                      if (entry.row.get("backend"), entry.row.get("lp")) == ("server", lp))  # fmt: skip
        analysis = explain(paired(read_run(DEMO_STORE, DEMO_STORE.entry(run_id))[:2], None), model(QWEN))
        assert len(analysis.streams.test) > 300 and not analysis.findings


# --- files, the command and the question ------------------------------------------------------------------------------

PRIME = {"token_ids": [5, 6, 7, 8], "loss_mask": [False, True, True, True], "inference_logprobs": [0, -0.25, -1.5, -2],
         "trainer_logprobs": [-9, -0.25, None, -2.5]}  # fmt: skip
NEMO = {"token_ids": [[5, 6, 7, 0]], "token_loss_mask": [[0, 1, 1, 0]], "sample_loss_mask": [1.0], "input_lengths": [3],
        "generation_logprobs": [[0, -0.25, -1.5, 0]], "prev_logprobs": [[0, -0.5, float("nan"), 0]]}  # fmt: skip


def lines(folder: Path, *rows: Any) -> str:
    path = folder / f"{len(list(folder.iterdir()))}.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    return str(path)


def test_lines_of_both_programs_are_read(tmp_path: Path) -> None:
    """Masked tokens, padding, and tokens without one of the values do not count."""
    prime, nemo = (paired(read_file(Path(lines(tmp_path, row, row))), None) for row in (PRIME, NEMO))
    assert prime.at_test.tolist() == [1, 3, 1, 3] and prime.control.tolist() == [-0.25, -2.0] * 2
    assert prime.test.tolist() == [-0.25, -2.5] * 2 and prime.sequence.tolist() == [0, 0, 1, 1]
    assert (nemo.at_test.tolist(), nemo.control.tolist(), nemo.test.tolist()) == ([1, 1], [-0.25] * 2, [-0.5] * 2)
    one = {"token_ids": [5, 6], "logprobs": [-1, -2]}
    other = paired(*(read_file(Path(lines(tmp_path, row))) for row in (one, one | {"token_ids": [8, 9]})))
    assert (len(other.test), other.left_out) == (0, 1)


@pytest.mark.parametrize("row", [[1], {"token_ids": [1]}, PRIME | {"token_ids": [1]}, PRIME | {"loss_mask": "no"}])
def test_a_line_that_is_no_sequence_is_named(row: Any, tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"line 2: no token_ids with log-probabilities"):
        read_file(Path(lines(tmp_path, PRIME, row)))


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"inference_logprobs": [0, 0.25, -1.5, -2]}, "a log-probability is above 0"),
        ({"inference_logprobs": [0, 10**400, -1.5, -2]}, "too large"),
        ({"inference_logprobs": [0, "-0.25", -1.5, -2]}, "inference_logprobs is no list of numbers"),
        ({"token_ids": "5678"}, "token_ids is no list of numbers"),
        ({"token_ids": [5, 6, 7, 1e300]}, "ids are no whole numbers"),
        ({"token_ids": [5, 6, 7, -8]}, "ids are no whole numbers"),
        ({"token_ids": [5, 6, 7, 8.5]}, "ids are no whole numbers"),
        ({"input_lengths": [-2]}, "input_lengths is -2 of 4"),
        ({"input_lengths": [5]}, "input_lengths is 5 of 4"),
        ({"input_lengths": [float("inf")]}, "infinity"),
    ],
)
def test_values_that_cannot_be_are_refused(changed: dict[str, Any], why: str, tmp_path: Path) -> None:
    with pytest.raises(FileError, match=f"line 1: no token_ids with log-probabilities .*{why}"):
        read_file(Path(lines(tmp_path, PRIME | changed)))


def test_a_file_is_explained_by_the_command_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRIFTSCOPE_CACHE", str(tmp_path / "cache"))
    texts = written(QWEN)
    rows = [{"token_ids": text.ids, "loss_mask": [place >= text.prompt for place in range(len(text.ids))],
             "inference_logprobs": [*[0] * text.prompt, *text.served(temperature=1.4)],
             "trainer_logprobs": forward(model(QWEN), text.ids).tolist()} for text in texts]  # fmt: skip
    chosen = {"streams": lines(tmp_path, *rows), "checkpoint": "demo-qwen:final"}
    (row,) = [row for row in ask(DEMO_STORE, "compare_logprobs", [], {"streams": chosen["streams"]}).tables["main"]
              .to_pylist() if row["known"]]  # fmt: skip
    assert (row["cause"], row["known"]) == (TEMPERATURE, "hint")
    with pytest.raises(NeedsWork, match=r"logprobs --streams=.* --checkpoint=demo-qwen:final"):
        ask(DEMO_STORE, "compare_logprobs", [], chosen)
    made = run("logprobs", f"--streams={chosen['streams']}", f"--checkpoint={chosen['checkpoint']}", "--json")
    answered = ask(DEMO_STORE, "compare_logprobs", [], chosen)
    (row,) = [row for row in answered.tables["main"].to_pylist() if row["known"]]
    assert (row["cause"], row["known"], row["detail"]) == (TEMPERATURE, "certain", "temperature 1.4 against raw")
    assert row["share"] > 0.99 and [made["nat"] for made in made.document][:1] == [pytest.approx(row["nat"])]
    token = answered.tables["tokens"].to_pylist()[0]
    parts = sum(token[cause] for cause in CAUSES if cause in token)
    assert parts == pytest.approx(token["test"] - token["control"], abs=1e-6) == token["difference"]


def test_runs_of_other_texts_and_no_streams_at_all_are_named() -> None:
    answer = ask(DEMO_STORE, "compare_logprobs", [demo_run("qwen", "none"), demo_run("qwen", OLD)]).answer
    assert "no sequence has the same tokens" in answer
    assert "Choose one or two runs" in ask(DEMO_STORE, "compare_logprobs", []).answer
    with pytest.raises(NeedsWork, match="demo-qwen:final has not read"):
        ask(DEMO_STORE, "compare_logprobs", [demo_run("qwen", "exact")])


def test_a_run_under_an_lp_is_compared_with_its_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRIFTSCOPE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(mismatch_model, "MOST_SCORED", 300)
    run_id = demo_run("qwen", "exact")
    assert run("logprobs", run_id, "--json").code == 0
    answered = ask(DEMO_STORE, "compare_logprobs", [run_id])
    assert re.search(r"[1-9]\d* sequences not read: the checkpoint reads the first", answered.answer)
    assert "No cause" in answered.answer and {row["known"] for row in answered.tables["main"].to_pylist()} <= {""}
