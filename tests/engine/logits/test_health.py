"""What is told of a stored log: shares, the map, reasons in words, the report's figures beside."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.errors import FileFormatError
from engine.logits.flags import FLAGS
from engine.logits.health import Health, health
from engine.logits.health_words import health_sentences, reason, reasons
from engine.logits.ingest import findings_in
from engine.logits.ranking import ranking, reported_models
from engine.logits.rules import DamageExtent, load_rules
from engine.logits.windows import texts, window
from engine.store.entries import Entry
from engine.store.schema import LOGIT_LOG
from engine.store.store import Store
from tests.engine.logits.logs import Rows, clean, new_log, objects, write


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "store")


def added(store: Store, tmp_path: Path, rows: Rows) -> Entry:
    return new_log(store, write(tmp_path / "a.jsonl", objects(rows)))


def garbled() -> Rows:
    """50 entries: garbage in 10 at 0, the same value again in 5 at 1, masks in all at 5, zeros in all at the end."""
    rows = clean(50, 12)
    rows[:10, 0] = 10.0 ** np.random.default_rng(0).uniform(16, 34, 10)
    rows[20:25, 1] = -46_580.0
    rows[:, 5] = -np.inf
    rows[:, 10:] = 0
    return rows


def test_shares_leave_out_what_is_on_purpose(store: Store, tmp_path: Path) -> None:
    found = health(store, added(store, tmp_path, garbled()))
    assert (found.entries, found.values) == (50, 600)
    assert (found.flagged_entries, found.flagged_values) == (50, 165)
    assert (found.damaged_entries, found.damaged_values) == (15, 15)
    assert (found.garbage_entries, found.garbage_share, found.damaged_share) == (10, 0.2, 0.3)
    assert (found.least, found.largest) == (46_580.0, garbled()[:10, 0].max())
    flags = {flag.flag: (flag.values, flag.entries, flag.positions) for flag in found.flags}
    assert flags == {
        "non_finite": (50, 50, 1),
        "outlier": (15, 15, 2),
        "zero": (100, 50, 2),
        "repeated": (4, 4, 1),
    }
    positions = {
        position.position: (position.seen, position.flagged, position.damaged, position.garbage)
        for position in found.positions
    }
    assert len(positions) == 12
    assert positions[0] == (50, 10, 10, 10)
    assert positions[1] == (50, 5, 5, 0)
    assert positions[5] == (50, 50, 0, 0)
    assert positions[11] == (50, 50, 0, 0)
    assert positions[7] == (50, 0, 0, 0)
    assert [finding.cause for finding in found.findings] == ["freed", "padding", "masked"]


def test_the_map_has_every_value(store: Store, tmp_path: Path) -> None:
    entry = added(store, tmp_path, garbled())
    text, ends = texts(store, entry)[0], {"first": 0, "last": 5, "first_token": 0, "last_token": 49}
    found = window(store, entry, text, **ends)
    assert found.codes.shape == (50, 6)
    assert (found.tokens.tolist(), found.positions.tolist()) == (list(range(50)), list(range(6)))
    assert found.codes[0, 0] == 1 << FLAGS.index("outlier")
    assert found.codes[:, 5].tolist() == [1 << FLAGS.index("non_finite")] * 50
    assert np.array_equal(found.values, garbled()[:, :6])
    assert window(store, entry, replace(text, sequence=7), **ends).codes.shape == (0, 0)


def test_sentences_begin_with_the_answer(store: Store, tmp_path: Path) -> None:
    found = health_sentences(health(store, added(store, tmp_path, garbled())))
    assert found[0].startswith("30.0 % of the 50 entries (600 values) of llama.cpp are damaged: 15 values (2.5 %)")
    assert found[1].startswith("Use after free (")
    assert any(one.startswith("Masked on purpose (certain): 50 values at position 5") for one in found)
    assert "Most damage is at position 0 (10 of 50 values)" in found[-2]
    assert found[-1].endswith("20.0 % of the entries are garbage, by ours 30.0 %.")


def test_a_clean_log_and_one_with_masks_alone(store: Store, tmp_path: Path) -> None:
    rows = clean(20, 4)
    assert health_sentences(health(store, added(store, tmp_path, rows)))[0].startswith("No sign of damage in the 20 ")
    rows[:, 2] = -1e9
    found = health(store, added(store, tmp_path, rows))
    assert health_sentences(found)[0].startswith("No sign of damage in the 20 entries")
    assert (found.damaged_values, found.flagged_values) == (0, 20)


def test_each_value_has_its_reason() -> None:
    assert reason("outlier", -46_580, 5.0, 1.5) == (
        "−46580 is 46585 from the median of its entry's values (5), 31,057 times their spread"
    )
    assert reason("outlier", 1e35, None, None).startswith("1e+35 is no plausible value")
    assert reason("non_finite", float("nan"), 1, 1) == "it is NaN"
    assert reason("non_finite", float("-inf"), 1, 1) == "it is infinite"
    assert all(reason(flag, 0.0, 1.0, 0.0) for flag in FLAGS)
    assert reasons(["zero", "repeated"], 0.0, 1.0, 1.0).startswith("It is exactly 0")
    assert reasons([], 1.0, 1.0, 1.0) == ""


def test_the_reports_models_stand_in_its_ranking() -> None:
    found = reported_models()
    names = [(one.model, round(100 * one.garbage_share)) for one in found]
    assert names[:2] == [("TinyLlama", 0), ("Llama-3-8B", 6)]
    assert sorted(names[2:4]) == [("Qwen2.5-0.5B", 20), ("Qwen2.5-0.5B", 20)]
    assert names[4:] == [("GPT-2", 28), ("Phi-3-Mini", 73)]
    phi = found[-1]
    assert (phi.vocab_size, phi.precision) == (32_064, "Q4_K_M")
    assert phi.garbage == DamageExtent((0,), 1.80e35, 1.82e35, None)
    assert found[0].garbage.positions == ()


def test_logs_stand_beside_the_report(store: Store, tmp_path: Path) -> None:
    entry = added(store, tmp_path, garbled())
    found = ranking(store, store.found(LOGIT_LOG).entries).rates
    assert [one.origin for one in found] == ["reported"] * 6 + ["imported"]
    own = found[-1]
    assert (own.id, own.by_report, own.by_ours, own.entries) == (entry.id, 0.2, 0.3, 50)
    assert all(one.by_ours is None for one in found[:-1])
    assert isinstance(health(store, entry), Health)


def test_rules_and_precisions(tmp_path: Path) -> None:
    rules = load_rules()
    assert rules.bounds("final_logits").zeros
    assert not rules.bounds("layer_0").zeros
    same = [("F16", "fp16", "float16", "half"), ("BF16", "bfloat16"), ("Q4_K_M", "q4_0", "IQ4_XS"), (None, "", "odd")]
    for names in same:
        assert len({rules.tolerance(name) for name in names}) == 1
    order = [rules.tolerance(name) for name in ("f32", "f16", "bf16", "q6_k", "q4_0", "q2_k")]
    assert order == sorted(order)
    (tmp_path / "rules.toml").write_text("most_chance = 1")
    with pytest.raises(FileFormatError, match="no file of rules"):
        load_rules(tmp_path / "rules.toml")


def test_damage_that_is_alike_everywhere_stands_nowhere_most(store: Store, tmp_path: Path) -> None:
    rows = clean(20, 16)
    rows[3:6] = 0
    found = health_sentences(health(store, added(store, tmp_path, rows)))
    assert found[-2] == "Equally at positions 0 to 15: 3 of 20 values each."
    assert "48 values (15.0 %), magnitude 0." in found[0]
    assert "at positions 0 to 11 and 4 more" in found[1]


def test_logs_of_before_say_where_without_a_count(store: Store, tmp_path: Path) -> None:
    entry = added(store, tmp_path, garbled())
    sheets = [
        {key: value for key, value in finding.sheet().items() if key != "places"} for finding in findings_in(entry)
    ]
    older = replace(entry, row={**entry.row, "findings": json.dumps(sheets)})
    assert [finding.where for finding in findings_in(older)] == [finding.where for finding in findings_in(entry)]
