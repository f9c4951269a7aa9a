"""The fitted placeholder against trying every other one."""

from __future__ import annotations

import itertools
import math

import pytest

from engine.errors import PlaceholderError
from engine.text.placeholder import MOST_WEIGHT, fit_placeholder
from engine.text.template import build_templates, check_placeholder, drift_summary
from engine.text.tokenizers import TextTokenizer, load_tokenizer

NAMES = ("qwen3", "llama3")


def free_count(placeholder: str, tokenizer: TextTokenizer) -> int:
    return int(build_templates(["[C]<>[C]<>"], tokenizer, placeholder)[0].free_per_block[0])


def cost_by_block(texts: list[str], name: str, placeholder: str, junk_weight: float, cut_weight: float) -> float:
    """The stated cost, block by block, against the templates that the placeholder really makes."""
    summary = drift_summary(texts, load_tokenizer(name), placeholder)
    costs = ((junk_weight * max(d, 0) + cut_weight * max(-d, 0)) * n for d, n in summary.histogram.items())
    return sum(costs) / summary.blocks


def candidates() -> list[str]:
    """Every placeholder of up to four decimals and one or two integer digits, with and without each sign."""
    decimals = ("", ".0", ".00", ".000", ".0000")
    numbers = [f"{sign}{whole}{zeros}" for sign in ("", "-") for whole in ("0", "10") for zeros in decimals]
    return [",".join(axes) for axes in itertools.product(numbers, numbers[:10], numbers[:5])]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "texts",
    [
        ["[C]<-1.5,2.25,-0.125>[C]<10.5,2.0,3.1>=[O]<0.1,-0.1234,0.1234>", "[N]<-12.3456,7.8901,-2.3456>"],
        ["[C]<0,-2,10>[O]<1,0,0>=[C]<0.25,0,-1>[N]<-1,0,0>"],
    ],
)
def test_the_best_of_all_candidates(name: str, texts: list[str]) -> None:
    everything = {placeholder: cost_by_block(texts, name, placeholder, 1, 2) for placeholder in candidates()}
    fitted = fit_placeholder(texts, load_tokenizer(name), junk_weight=1, cut_weight=2)
    assert fitted.cost == pytest.approx(min(everything.values()))
    assert fitted.cost == min(fitted.costs.values()) and fitted.blocks == 4
    assert check_placeholder(fitted.placeholder) == fitted.placeholder
    assert free_count(fitted.placeholder, load_tokenizer(name)) == fitted.free


@pytest.mark.parametrize("name", NAMES)
def test_weights_decide_which_side_pays(name: str) -> None:
    texts = ["[C]<-10.1234,-10.1234,10.1234>" + "[C]<0.1,0.2,0.3>" * 4]
    tokenizer = load_tokenizer(name)
    short, long = (free_count(content, tokenizer) for content in ("0.1,0.2,0.3", "-10.1234,-10.1234,10.1234"))
    assert fit_placeholder(texts, tokenizer).free == short  # four against one
    assert fit_placeholder(texts, tokenizer, junk_weight=1, cut_weight=10).free == long
    no_junk = fit_placeholder(texts, tokenizer, junk_weight=1, cut_weight=0)
    no_cut = fit_placeholder(texts, tokenizer, junk_weight=0, cut_weight=1)
    assert no_junk.free <= short < long <= no_cut.free
    assert no_junk.cost == no_cut.cost == 0.0


@pytest.mark.parametrize("name", NAMES)
def test_equal_blocks_are_fitted_exactly_with_their_own_shape(name: str) -> None:
    fitted = fit_placeholder(["[C]<-1.2345,-1.2345,1.2345>" * 3], load_tokenizer(name))
    assert (fitted.placeholder, fitted.cost) == ("-0.0000,-0.0000,0.0000", 0.0)
    wide = fit_placeholder(["[C]<-123.4567,1.2345,0.1>"], load_tokenizer(name))
    assert (wide.placeholder, wide.cost) == ("-100.0000,0.0000,0.0", 0.0)
    damaged = fit_placeholder(["[C]<1.2345,2.3456,3.4567abra>" * 2], load_tokenizer(name))
    assert damaged.blocks == 2 and set(damaged.placeholder) <= set("0.,-")  # it counts, and gives no shape


@pytest.mark.parametrize("weights", [(-1, 1), (0, 0), (math.nan, 1), (1, math.inf), (1, MOST_WEIGHT * 2)])
def test_weights_that_are_none_are_refused(weights: tuple[float, float]) -> None:
    with pytest.raises(PlaceholderError, match="the weights of junk and cut are"):
        fit_placeholder(["[C]<0.1,0.2,0.3>"], load_tokenizer("qwen3"), junk_weight=weights[0], cut_weight=weights[1])


@pytest.mark.parametrize("texts", [[], ["CCO"], ["", ""]])
def test_nothing_to_fit_to_is_an_error(texts: list[str]) -> None:
    with pytest.raises(PlaceholderError, match="no blocks to fit a placeholder to"):
        fit_placeholder(texts, load_tokenizer("qwen3"))
