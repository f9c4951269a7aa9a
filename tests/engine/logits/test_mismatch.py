"""Twenty planted causes and twenty healthy pairs, from the demo models, and as many that no threshold was chosen by;
the forms of files; the question."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from engine.errors import DriftscopeError, FileError
from engine.logits import mismatch_model
from engine.logits.mismatch import NOISE, Cause, Part, analyse, noise_of
from engine.logits.mismatch_model import explain
from engine.logits.token_streams import Streams, paired, read_file, read_run
from engine.lp.constraint import LpParameters, build_constraint
from engine.lp_records import lp_record
from engine.questions import ask
from engine.questions.question import NeedsWork
from tests.cli import run
from tests.engine.inspection.made import DEMO_STORE, demo_run
from tests.engine.logits.planted_streams import (
    BINS,
    HELD_OUT,
    LLAMA,
    MIXED,
    NEW,
    NONE,
    OLD,
    QWEN,
    TUNED,
    forward,
    healthy,
    model,
    others,
    shipped,
)
from tests.support import of_soak

BOTH = {"tuned": TUNED, "held out": HELD_OUT}


@cache
def planted(table: str, name: str) -> tuple[Streams, list[Part]]:
    """And its parts, with the checkpoint."""
    _, of, lp, make = BOTH[table][name]
    streams, loaded = make(), model(of)
    form = LpParameters(form=loaded.entry.numbers)
    constraint = build_constraint(lp, loaded.tokenizer, loaded.vocab_rows, form) if lp else None
    style = (lp_record(lp).descriptors if lp else None) or "plain"
    return streams, explain(streams, loaded, constraint, style)


def named(parts: Sequence[Part]) -> list[str]:
    return [part.cause for part in parts if part.known]


def largest(parts: Sequence[Part]) -> str:
    """The cause with the largest part, of those that are named."""
    known = [part for part in parts if part.known]
    return max(known, key=lambda part: np.abs(part.nat).mean()).cause if known else ""


def expect_parts_add_up(streams: Streams, parts: Sequence[Part]) -> None:
    places = [get_args(Cause).index(part.cause) for part in parts]
    assert len(streams.test) > 40 and places == sorted(set(places))
    np.testing.assert_allclose(sum(part.nat for part in parts), streams.test - streams.control, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["early", "T 0.8", "v4.3", "fp8"])
def test_a_planted_cause_is_named_and_parts_add_up(name: str) -> None:
    streams, parts = planted("tuned", name)
    expect_parts_add_up(streams, parts)
    assert largest(parts) == TUNED[name][0]


@of_soak
@pytest.mark.parametrize("table", BOTH)
def test_nineteen_of_twenty_planted_causes_are_named(table: str) -> None:
    """Without a checkpoint what is certain is right, and of the hints most are."""
    wrong, hinted = [], 0
    for name, (cause, *_) in BOTH[table].items():
        streams, parts = planted(table, name)
        without = analyse(streams)
        expect_parts_add_up(streams, parts)
        expect_parts_add_up(streams, without)
        wrong += [name] if largest(parts) != cause else []
        assert {part.cause for part in without if part.known == "certain"} <= {cause}, name
        hinted += largest(without) == cause
    assert len(BOTH[table]) >= 20 and len(wrong) <= 1, wrong
    assert hinted >= 15


def test_the_recipe_is_told_with_its_figures() -> None:
    (part,) = [part for part in planted("tuned", "T 1.2, top-p 0.8")[1] if part.known]
    assert part.known == "certain" and part.detail.startswith("temperature 1.2, top-p 0.8 against raw (temperature ")
    (part,) = [part for part in planted("tuned", "T 0.8")[1] if part.known]
    assert part.detail == "temperature 0.8 against raw"


def test_weights_in_bfloat16_alone_have_no_cause() -> None:
    streams = healthy(shipped(QWEN, NEW), temperature=0.7)
    assert 0.001 < noise_of(streams.control, streams.test) < NOISE
    assert not named(analyse(streams))


@of_soak
@pytest.mark.parametrize("table", BOTH)
def test_twenty_healthy_pairs_have_no_cause(table: str) -> None:
    """Number formats alone: raw and processed streams in bfloat16, and stored runs of vLLM with their checkpoint."""
    is_tuned = table == "tuned"
    names, temperatures = ((QWEN, LLAMA), (1.0, 1.2, 0.7)) if is_tuned else ((MIXED, BINS), (0.6, 1.1, 1.4))
    texts = shipped if is_tuned else others
    lps = (NONE, OLD, NEW if is_tuned else "exact")
    pairs = [healthy(texts(name, lp), temperature=t) for name, lp, t in product(names, lps, temperatures)]
    noise = [noise_of(streams.control, streams.test) for streams in pairs]
    assert len(pairs) == 18 and max(noise) < NOISE
    assert not any(named(analyse(streams)) for streams in pairs)
    for lp in ("exact", "grammar"):
        run_id = next(entry.id for entry in DEMO_STORE.listing().entries
                      if (entry.row.get("backend"), entry.row.get("lp")) == ("server", lp))  # fmt: skip
        first = 0 if is_tuned else 2
        streams = paired(read_run(DEMO_STORE, DEMO_STORE.entry(run_id))[first : first + 2], None)
        assert len(streams.control) > 100 and not named(explain(streams, model(QWEN)))


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
    prime, nemo = (paired(*read_file(lines(tmp_path, row, row))) for row in (PRIME, NEMO))
    assert prime.at_test.tolist() == [1, 3, 1, 3] and prime.control.tolist() == [-0.25, -2.0] * 2
    assert prime.test.tolist() == [-0.25, -2.5] * 2 and prime.sequence.tolist() == [0, 0, 1, 1]
    assert (nemo.at_test.tolist(), nemo.control.tolist(), nemo.test.tolist()) == ([1, 1], [-0.25] * 2, [-0.5] * 2)
    one = {"token_ids": [5, 6], "logprobs": [-1, -2]}
    (first,), (second,) = (read_file(lines(tmp_path, row)) for row in (one, one | {"token_ids": [8, 9]}))
    other = paired(first, second)
    assert (len(other.test), other.left_out) == (0, 1)


def test_a_column_of_a_file_is_chosen(tmp_path: Path) -> None:
    """Two files with two streams each: the trainers' are compared, not the servers'."""
    files = [lines(tmp_path, PRIME), lines(tmp_path, PRIME | {"trainer_logprobs": [-9, -0.5, None, -2.5]})]
    chosen = {"streams": ",".join(f"{file}:trainer_logprobs" for file in files)}
    answered = ask(DEMO_STORE, "compare_logprobs", [], chosen)
    assert [row["difference"] for row in answered.tables["tokens"].to_pylist()] == [-0.25]
    assert "of 2 tokens differ" in answered.answer
    with pytest.raises(FileError, match="trainer_logp'"):
        read_file(f"{files[0]}:trainer_logp")


def test_a_place_that_was_filled_up_is_a_masked_token(tmp_path: Path) -> None:
    """TRL fills up with 1, which is no log-probability."""
    row = {
        "token_ids": [*range(9)],
        "inference_logprobs": [-0.5] * 6 + [1] * 3,
        "trainer_logprobs": [-0.5] * 6 + [-2] * 3,
    }
    assert named(analyse(paired(*read_file(lines(tmp_path, row))))) == ["masked tokens compared"]


def test_tokens_that_one_stream_excludes_or_lacks_are_counted(tmp_path: Path) -> None:
    row = {
        "token_ids": [*range(9)],
        "inference_logprobs": [-0.5] * 9,
        "trainer_logprobs": [-0.5] * 4 + [float("-inf")] * 3 + [None] * 2,
    }
    file = lines(tmp_path, row)
    streams = paired(*read_file(file))
    assert (len(streams.control), streams.excluded, streams.one_sided) == (4, 3, 2)
    answer = ask(DEMO_STORE, "compare_logprobs", [], {"streams": file}).answer
    assert "Minus infinity in one stream alone: 3 tokens" in answer and "No cause" not in answer
    assert "2 tokens with a value in one stream alone" in answer
    with pytest.raises(DriftscopeError, match="two streams are compared"):
        ask(DEMO_STORE, "compare_logprobs", [], {"streams": f"{file},{file},{file}"})


def test_sequences_behind_the_most_tokens_are_counted(tmp_path: Path) -> None:
    streams = paired(*read_file(lines(tmp_path, *[PRIME] * 5)), most=9)
    assert (len(streams.sequences), streams.unread, streams.left_out) == (2, 3, 0)


@pytest.mark.parametrize("row", [[1], {"token_ids": [1]}, PRIME | {"token_ids": [1]}, PRIME | {"loss_mask": "no"}])
def test_a_line_that_is_no_sequence_is_named(row: Any, tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"line 2: no token_ids with log-probabilities"):
        read_file(lines(tmp_path, PRIME, row))


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
        ({"input_lengths": [-2]}, "-2 of 4 tokens"),
        ({"input_lengths": [5]}, "5 of 4 tokens"),
        ({"input_lengths": [float("inf")]}, "infinity"),
    ],
)
def test_values_that_cannot_be_are_refused(changed: dict[str, Any], why: str, tmp_path: Path) -> None:
    with pytest.raises(FileError, match=f"line 1: no token_ids with log-probabilities .*{why}"):
        read_file(lines(tmp_path, PRIME | changed))


def test_a_file_is_explained_by_the_command_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRIFTSCOPE_CACHE", str(tmp_path / "cache"))
    texts = shipped(QWEN)
    rows = [{"token_ids": text.ids, "loss_mask": [place >= text.prompt for place in range(len(text.ids))],
             "inference_logprobs": [*[0] * text.prompt, *text.served(temperature=1.4)],
             "trainer_logprobs": forward(model(QWEN), text.ids).tolist()} for text in texts]  # fmt: skip
    chosen = {"streams": lines(tmp_path, *rows), "checkpoint": "demo-qwen:final"}
    (row,) = [row for row in ask(DEMO_STORE, "compare_logprobs", [], {"streams": chosen["streams"]}).tables["main"]
              .to_pylist() if row["known"]]  # fmt: skip
    assert (row["cause"], row["known"]) == ("temperature", "hint")
    with pytest.raises(NeedsWork, match=r"logprobs --streams=.* --checkpoint=demo-qwen:final"):
        ask(DEMO_STORE, "compare_logprobs", [], chosen)
    made = run("logprobs", f"--streams={chosen['streams']}", f"--checkpoint={chosen['checkpoint']}", "--json")
    answered = ask(DEMO_STORE, "compare_logprobs", [], chosen)
    (row,) = [row for row in answered.tables["main"].to_pylist() if row["known"]]
    assert (row["cause"], row["known"], row["detail"]) == ("temperature", "certain", "temperature 1.4 against raw")
    assert row["share"] > 0.99 and [made["nat"] for made in made.document][:1] == [pytest.approx(row["nat"])]
    token = answered.tables["tokens"].to_pylist()[0]
    parts = sum(token[cause] for cause in get_args(Cause) if cause in token)
    assert parts == pytest.approx(token["test"] - token["control"], abs=1e-6) == token["difference"]


def test_runs_of_other_texts_and_no_streams_at_all_are_named() -> None:
    answer = ask(DEMO_STORE, "compare_logprobs", [demo_run("qwen", "none"), demo_run("qwen", OLD)]).answer
    assert "no sequence has the same tokens" in answer
    assert explain(paired([]), model(QWEN)) == []
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
