"""What so few points can show: exact chances, what speaks against a link, and how it is said."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from engine.errors import StoreError
from engine.logits.health import health
from engine.logits.ranking import (
    GarbageRate,
    family,
    is_same_model,
    ranking,
    reported_interval,
    reported_models,
)
from engine.logits.trend_words import trend_sentences
from engine.logits.trends import BYS, By, Trend, at_several, pair_alike, trend
from engine.store.schema import LOGIT_LOG
from engine.store.store import Store
from tests.engine.logits.logs import clean
from tests.pages.logit_logs import add, damaged_rows, lose_values, spoil_values, store_at


def rate(
    model: str | None, share: float, vocab: int | None = None, precision: str | None = None, kind: str | None = None
) -> GarbageRate:
    return GarbageRate(f"{model}-{precision}", "imported", "e", model, kind, precision, vocab, 10, share, share)


def asked(rates: Sequence[GarbageRate], by: By) -> Trend:
    return trend(rates, by, lambda one: one.by_report)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return store_at(tmp_path)


def figures(found: Trend) -> tuple[float, ...]:
    """Of groups there is no correlation: 0."""
    return tuple(one or 0 for one in (found.rho, found.p, found.least_p))


def reported(store: Store) -> tuple[GarbageRate, ...]:
    return ranking(store, []).reported


# --- figures --------------------------------------------------------------------------------------------------------


def test_the_reports_models_can_show_next_to_nothing(store: Store) -> None:
    found = {by: asked(reported(store), by) for by in BYS}
    size, precision, kind = found["vocab_size"], found["precision"], found["family"]
    assert (len(size.points), size.orders, len(precision.points), precision.orders) == (5, 120, 6, 720)
    assert figures(size) == pytest.approx((0.1, 114 / 120, 2 / 120))
    assert precision.least_p == pytest.approx(0.2)
    assert {name: len(own) for name, own in precision.groups.items()} == {"Q4_K_M": 4, "float16": 1, "float32": 1}
    assert figures(kind) == pytest.approx((0, 0.4, 0.4))
    assert {name: len(own) for name, own in kind.groups.items()} == {"Llama": 2, "Qwen": 1, "GPT": 1, "Phi": 1}


def test_points_in_one_order_are_a_link() -> None:
    found = asked([rate(f"m{n}", n / 10, vocab=1_000 * n + 7) for n in range(1, 7)], "vocab_size")
    assert figures(found) == pytest.approx((1, 2 / 720, 2 / 720))
    short, detail, *_ = trend_sentences(found, "They")
    assert "for a reason that is open" in short and "That is a link, but its cause is open" in detail


def test_many_points_are_dealt_out_in_drawn_orders() -> None:
    found = asked([rate(f"m{n}", n / 20, vocab=1_000 * n) for n in range(1, 13)], "vocab_size")
    assert not found.is_exact
    assert found.p is not None and found.p < 0.001
    again = asked([rate(f"m{n}", n / 20, vocab=1_000 * n) for n in range(1, 13)], "vocab_size")
    assert again.p == found.p


def test_groups_far_apart_are_a_link_and_groups_alike_are_none() -> None:
    apart = [
        rate(f"{kind}{n}", share + n / 100, kind=kind) for kind, share in (("A", 0.1), ("B", 0.6)) for n in (1, 2, 3)
    ]
    found = asked(apart, "family")
    assert figures(found) == pytest.approx((0, 0.1, 0.1))
    mixed = asked([rate(f"m{n}", n / 10, kind="AB"[n % 2]) for n in range(6)], "family")
    assert mixed.p is not None and mixed.p > 0.5


def test_logs_of_one_model_are_one_point_but_for_precision() -> None:
    rates = [rate("m", 0.2, 10, "f16"), rate("m", 0.4, 10, "f32"), rate("n", 0.1, 20, "f32")]
    assert {point.model: round(point.share, 9) for point in asked(rates, "vocab_size").points} == {"m": 0.3, "n": 0.1}
    assert len(asked(rates, "precision").points) == 3
    assert list(at_several(asked(rates, "precision"))) == ["m"]


def test_too_few_points_or_none_that_differ() -> None:
    few = asked([rate("a", 0.1, 10), rate("b", 0.2, 20)], "vocab_size")
    alike = asked([rate(name, 0.0, size) for name, size in (("a", 1), ("b", 2), ("c", 3))], "vocab_size")
    same = asked([rate(name, share, 9) for name, share in (("a", 0.1), ("b", 0.2), ("c", 0.3))], "vocab_size")
    assert (few.p, alike.p, same.p) == (None, None, None)
    assert trend_sentences(few, "The logs") == ["The logs: 2 models with a known vocabulary size, too few to test."]
    assert "have the same garbage" in trend_sentences(alike, "The logs")[0]
    assert "have the same vocabulary size" in trend_sentences(same, "The logs")[0]
    assert trend_sentences(asked([], "family"), "The logs")[0].startswith("The logs: 0 models")


@pytest.mark.parametrize(("others", "orders"), [(3, 10), (4, 15), (8, 45)])
def test_the_chance_to_come_first(others: int, orders: int) -> None:
    rates = [rate(f"a{n}", n / 10, kind="A") for n in (1, 2)]
    rates += [rate(f"m{n}", 0.3 + n / 20, kind=name) for n, name in enumerate("BCDEFGHI"[:others])]
    assert f"lowest by chance in 1 of {orders} cases" in " ".join(trend_sentences(asked(rates, "family"), "They"))


# --- words ----------------------------------------------------------------------------------------------------------


def test_what_the_report_argues_is_weighed(store: Store) -> None:
    said = {by: " ".join(trend_sentences(asked(reported(store), by), "The report's models")) for by in BYS}
    assert (
        "rank correlation +0.10" in said["vocab_size"]
        and "none is shown, but one may exist" in said["vocab_size"]
        and "(5 models) show no link of garbage with vocabulary size" in said["vocab_size"]
    )
    assert (
        "Phi-3-Mini and TinyLlama have nearly the same vocabulary size (32,064 and 32,000), but 73.0 % and 0 %"
        in said["vocab_size"]
    )
    assert "Qwen2.5-0.5B has 20.0 % at Q4_K_M and 20.0 % at float16" in said["precision"]
    assert "GPT-2 has 28.0 % at float32: garbage does not need quantisation." in said["precision"]
    assert "they can neither show a link nor rule one out" in said["family"]
    assert (
        "The Llama models have the least garbage (0 % and 6.0 %)" in said["family"]
        and "1 of 10 cases" in said["family"]
    )
    assert "Qwen, GPT and Phi have one model each" in said["family"]


def test_a_pair_of_equal_size_is_named_only_where_it_differs(store: Store) -> None:
    pair = pair_alike(asked(reported(store), "vocab_size"))
    assert pair is not None and {one.model for one in pair} == {"Phi-3-Mini", "TinyLlama"}
    assert pair_alike(asked([rate("a", 0.1, 10), rate("b", 0.5, 20)], "vocab_size")) is None


def test_long_names_are_cut() -> None:
    rates = [rate("x" * 9_999, 0.5, 10), rate("y" * 9_999, 0.1, 10), rate("z", 0.3, 99)]
    assert all(
        len(trend_sentence) < 400 for by in BYS for trend_sentence in trend_sentences(asked(rates, by), "The logs")
    )


# --- ranking --------------------------------------------------------------------------------------------------------


def test_logs_stand_beside_the_models_of_their_name(store: Store, tmp_path: Path) -> None:
    add(store, tmp_path, "a", damaged_rows("uninitialised"), model="qwen2.5 0.5b instruct", precision="q4_k_m")
    add(store, tmp_path, "b", clean(), model="demo-qwen", precision="f32", team="driftscope")
    found = ranking(store, store.found(LOGIT_LOG).entries)
    assert [one.origin for one in found.rates] == ["reported"] * 6 + ["imported"] * 2
    beside = {model.run_id: found.logs_of(model) for model in found.models if found.logs_of(model)}
    assert list(beside) == ["reported-004-qwen25-q4"]
    assert [(one.by_report, one.by_ours) for one in beside["reported-004-qwen25-q4"]] == [(0.2, 0.2)]
    assert {log.model: log.architecture for log in found.logs} == {"demo-qwen": "Qwen3", "qwen2.5 0.5b instruct": None}


def test_names_and_precisions_that_are_the_same() -> None:
    phi = next(reported_model for reported_model in reported_models() if reported_model.model == "Phi-3-Mini")
    assert is_same_model(rate("phi-3-mini-4k-instruct", 0), phi)
    assert is_same_model(rate("Phi_3 mini", 0, precision="Q4_K_M"), phi)
    assert not is_same_model(rate("Phi-3-Mini", 0, precision="F16"), phi)
    assert not is_same_model(rate("Phi-3", 0), phi) and not is_same_model(rate(None, 0), phi)
    assert [family(name) for name in ("Llama-3", "Llama", "Qwen2", None, "3")] == ["Llama", "Llama", "Qwen", None, None]


def test_a_log_that_does_not_read_is_named_and_no_healthy_one(store: Store, tmp_path: Path) -> None:
    whole = add(store, tmp_path, "whole", damaged_rows("again"), model="whole")
    broken = add(store, tmp_path, "broken", damaged_rows("freed"), model="broken")
    gone = add(store, tmp_path, "gone", damaged_rows("freed"), model="gone")
    spoil_values(store, broken)
    lose_values(store, gone)
    found = ranking(store, store.found(LOGIT_LOG).entries)
    assert [log.id for log in found.logs] == [whole.id]
    assert found.left_out == (broken.id,)
    with pytest.raises(StoreError, match=f"^the values of {broken.id} are missing or damaged"):
        health(store, broken)


def test_a_share_of_fifteen_entries_is_wide() -> None:
    low, high = reported_interval(0.2)
    assert (round(low, 2), round(high, 2)) == (0.07, 0.45)
