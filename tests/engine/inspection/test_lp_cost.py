"""What an LP costs a model, against toys whose every text is known, and made-up runs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pytest
import torch

from engine.decode.diagnosis import CHANCES, log_chances
from engine.decode.plan import Sampling
from engine.figures.statistics import Interval
from engine.inspection.lp_cost import RunCost, cost_of_run
from engine.inspection.runs import run_facts
from engine.questions import ask
from engine.questions.question import NeedsWork
from engine.store.store import Store
from tests.engine.inspection.made import block_row, sample_row, step_row, write_run

END = "<|endoftext|>"
Distribution = tuple[Sequence[float], Sequence[bool]]
"""The model's probabilities of some tokens, and which the LP allows."""


def step(sample: int, pos: int, dist: Distribution, token: int, sampling: Sampling, **more: Any) -> dict[str, Any]:
    log_p, allowed = torch.tensor([dist[0]], dtype=torch.float64).log(), torch.tensor([dist[1]])
    chances = log_chances(log_p, allowed, torch.tensor([token]), sampling)[0].tolist()
    return step_row(sample, pos, forced=sum(dist[1]) == 1, **dict(zip(CHANCES, chances, strict=True)), **more)


def plain(sample: int, pos: int, ln_p: float, ln_q: float = 0.0, **more: Any) -> dict[str, Any]:
    """Without filters, at temperature 1."""
    chances = {"ln_p": ln_p, "ln_p_tempered": ln_p, "ln_mass": ln_p - ln_q, "ln_q": ln_q}
    return step_row(sample, pos, forced=ln_q == 0, **chances | more)


def cost(
    store: Store, steps: Iterable[dict[str, Any]], samples: Mapping[int, Mapping[str, Any]] | None = None, **about: Any
) -> RunCost:
    """Of a run with these steps; ``samples`` are columns of some samples."""
    rows = list(steps)
    ids = sorted({row["sample_id"] for row in rows})
    sample_rows = [sample_row(id_, **{"stop_reason": "end", **(samples or {}).get(id_, {})}) for id_ in ids]
    write_run(store, "one", sample_rows, about.pop("blocks", ()), rows, **{"lp": "exact", **about})
    return cost_of_run(store, run_facts(store, "one"))


def value(interval: Interval | None) -> float:
    assert interval is not None
    return interval.value


# --- toys: every text that can be drawn, as often as q says --------------------------------------------------------
FIRST: Distribution = ((0.3, 0.1, 0.6), (True, True, False))
SECOND: tuple[Distribution, ...] = (((0.2, 0.2, 0.6), (True, True, False)), ((0.45, 0.15, 0.4), (True, True, False)))


def tempered(dist: Distribution, temperature: float, legal: bool) -> list[float]:
    powers = [p ** (1 / temperature) for p in dist[0]]
    whole = sum(power for power, allowed in zip(powers, dist[1], strict=True) if allowed or not legal)
    return [power / whole * (allowed or not legal) for power, allowed in zip(powers, dist[1], strict=True)]


@pytest.mark.parametrize(("temperature", "samples"), [(1.0, 32), (0.5, 200)])
def test_two_steps_by_enumeration(store: Store, temperature: float, samples: int) -> None:
    """16 and 100 are what all of q's probabilities go into without a remainder."""
    rows, q_of, masses = [], {}, {1.0: 0.0, temperature: 0.0}
    for a, b in itertools.product((0, 1), repeat=2):
        q_of[a, b] = tempered(FIRST, temperature, True)[a] * tempered(SECOND[a], temperature, True)[b]
        for temp in masses:
            masses[temp] += tempered(FIRST, temp, False)[a] * tempered(SECOND[a], temp, False)[b]
    number = 0
    for (a, b), q in q_of.items():
        assert samples * q == pytest.approx(round(samples * q), abs=1e-9)
        for _ in range(round(samples * q)):
            rows.append(step(number, 0, FIRST, a, Sampling(temperature)))
            rows.append(step(number, 1, SECOND[a], b, Sampling(temperature)))
            number += 1
    costs = cost(store, rows)
    assert (costs.samples, costs.counting, costs.is_bound) == (samples, samples, False)
    for estimate, temp in ((costs.raw, 1.0), (costs.tempered, temperature)):
        weights = {
            pair: tempered(FIRST, temp, False)[pair[0]] * tempered(SECOND[pair[0]], temp, False)[pair[1]] / q
            for pair, q in q_of.items()
        }
        squares = sum(q * weights[pair] ** 2 for pair, q in q_of.items())
        kl = sum(q * math.log(q * masses[temp] / (weights[pair] * q)) for pair, q in q_of.items())
        assert value(estimate.log_p) == pytest.approx(math.log(masses[temp]), abs=1e-6)
        assert value(estimate.effective) == pytest.approx(samples * masses[temp] ** 2 / squares, rel=1e-6)
        assert value(estimate.kl) == pytest.approx(kl, abs=1e-6)
        assert estimate.is_reliable


NUCLEUS: Distribution = ((0.57, 0.03, 0.30, 0.10), (True, True, False, False))


def test_with_top_p_the_mean_is_a_strict_lower_bound(store: Store) -> None:
    """Behind the mask the rarer legal token falls out of the nucleus, which the model's own nucleus would not tell."""
    costs = cost(store, (step(n, 0, NUCLEUS, 0, Sampling(top_p=0.92)) for n in range(20)))
    assert costs.is_bound
    assert value(costs.tempered.log_p) == pytest.approx(math.log(0.57), abs=1e-6)
    assert value(costs.tempered.log_p) < math.log(0.6) - 0.05
    assert value(costs.mask) == pytest.approx(math.log(0.6), abs=1e-6)
    assert value(costs.filters) == pytest.approx(math.log(0.57 / 0.6), abs=1e-6)


# --- what counts --------------------------------------------------------------------------------------------------
def test_logarithms_alone_so_that_no_weight_is_too_small(store: Store) -> None:
    costs = cost(store, [plain(0, 0, -2_000.0), plain(1, 0, -2_000.0 - math.log(3))])
    assert value(costs.raw.log_p) == pytest.approx(-2_000 + math.log(2 / 3))
    assert value(costs.raw.effective) == pytest.approx(1.6)
    assert value(costs.raw.kl) == pytest.approx(math.log(2 / 3) + math.log(3) / 2)


@pytest.mark.parametrize("reason", ["length", "desync"])
def test_a_text_that_did_not_end_is_not_in_the_language(store: Store, reason: str) -> None:
    steps = [plain(n, 0, -1.0) for n in range(4)]
    steps[3]["ln_q"] = None if reason == "desync" else 0.0
    steps.append(plain(3, 1, -1.0))
    costs = cost(store, steps, {3: {"stop_reason": reason}})
    assert (costs.samples, costs.counting) == (4, 3)
    assert value(costs.raw.log_p) == pytest.approx(-1 + math.log(0.75))
    assert value(costs.log_w) == -1.0
    assert value(costs.raw.kl) == 0
    assert [row["counts"] for row in costs.each] == [True, True, True, False]


def test_a_run_without_chances_needs_work(store: Store) -> None:
    assert cost(store, [step_row(0, 0, p_raw=0.5)]).samples == 0
    (run,) = store.listing().entries
    with pytest.raises(NeedsWork) as caught:
        ask(store, "drift_lp_cost", [run.id])
    assert caught.value.commands == (["cost-of-lp", run.id],)


def test_the_guards_weight_is_part_of_the_samples(store: Store) -> None:
    guarded = {"redrawn_blocks": 0}
    samples: dict[int, dict[str, Any]] = {
        0: guarded | {"log_weight": -0.5},
        1: guarded | {"log_weight": None},  # it went back too far: its weight counts 0
        2: {"log_weight": None},  # no guard could be made for its molecule
    }
    costs = cost(store, [plain(n, 0, -1.0) for n in range(3)], samples, lp="guarded")
    assert costs.is_bound and costs.is_guard_known
    assert (costs.samples, costs.counting) == (3, 2)
    assert value(costs.raw.log_p) == pytest.approx(math.log((math.exp(-1.5) + math.exp(-1)) / 3))
    assert value(costs.log_w) == pytest.approx(-1.25)
    assert value(costs.mask) == pytest.approx(-1.0)


# --- per molecule, and where --------------------------------------------------------------------------------------
def test_molecules_are_the_units_of_a_runs_intervals(store: Store) -> None:
    logs = [-1.0, -1.2, -3.0, -3.4]
    steps = [plain(n, 0, log) for n, log in enumerate(logs)]
    costs = cost(store, steps, {n: {"smiles": "CO" if n < 2 else "CC"} for n in range(4)})
    assert [(row["smiles"], row["samples"], row["counting"]) for row in costs.molecules] == [("CO", 2, 2), ("CC", 2, 2)]
    assert value(costs.molecules[1]["raw"].log_p) == pytest.approx(math.log((math.exp(-3) + math.exp(-3.4)) / 2))
    assert value(costs.raw.log_p) == pytest.approx(math.log(sum(map(math.exp, logs)) / 4))
    assert costs.log_w and costs.log_w.ends == pytest.approx((-3.2, -1.1))  # one molecule alone, or the other
    for interval in (costs.raw.log_p, costs.raw.effective, costs.raw.kl, costs.molecules[0]["raw"].log_p):
        assert interval is not None and interval.ends is not None
        assert interval.ends[0] <= interval.value <= interval.ends[1]


@pytest.mark.parametrize(("log_ps", "effective"), [([-60.0] + [-90.0] * 15, 1), ([-1.0] * 16, 16)])
def test_one_heavy_sample_is_unreliable(store: Store, log_ps: list[float], effective: int) -> None:
    costs = cost(store, [plain(n, 0, log_p) for n, log_p in enumerate(log_ps)])
    assert costs.raw.is_reliable == (effective > 1) and value(costs.raw.effective) == pytest.approx(effective)


PIECES = ["[C]", "<", "1.2", ",-", "3.4", ",", "5", ">[", "O]", "<", "1", ",", "2", ",", "3", ">", END]


def test_where_along_the_text_by_part_element_and_block(store: Store) -> None:
    steps = [
        plain(sample, pos, -float(2**pos) if pos == 0 or sample else -1.0, 0.0 if piece == "<" else -0.5, piece=piece)
        for sample in (0, 1)
        for pos, piece in enumerate(PIECES)
    ]
    for row in steps:
        row.update(ln_p=-1.0, ln_p_tempered=-1.0, ln_mass=-1.0 - row["ln_q"])
    blocks = [block_row(sample, number, element="CO"[number]) for sample in (0, 1) for number in (0, 1)]
    costs = cost(store, steps, blocks=blocks)
    parts = {part["name"]: part for part in costs.parts}
    assert {name: part["tokens"] for name, part in parts.items()} == {
        "between the blocks": 4,
        "opening a block": 4,
        "x": 8,
        "y": 8,
        "z": 4,
        "closing a block": 4,
        "the end": 2,
    }
    assert (parts["opening a block"]["forced"], parts["opening a block"]["free"]) == (-2.0, 0.0)
    assert (parts["x"]["forced"], parts["x"]["free"], parts["x"]["whole"].value) == (0.0, -2.0, -2.0)
    assert {element["name"]: element["tokens"] for element in costs.elements} == {"C": 14, "O": 14}
    assert [element["whole"].value for element in costs.elements] == pytest.approx([-4.0, -4.0])
    assert sum(tenth["tokens"] for tenth in costs.tenths) == 34
    assert sum(tenth["whole"].value for tenth in costs.tenths) == pytest.approx(value(costs.log_w_tempered))
    assert sum(part["whole"].value for part in costs.parts) == pytest.approx(-9.5)
    assert costs.each[0]["blocks"] == {0: pytest.approx(-4.0), 1: pytest.approx(-4.0)}
    assert costs.each[0]["forced"] == -2.0 and costs.each[0]["free"] == pytest.approx(-7.5)


# --- disagreement along the text, and with RMSD ---------------------------------------------------------------------
MOLECULES, SAMPLES = 6, 4


def run_cost(
    store: Store,
    cost_nat: Callable[[int, int, int], float],
    rmsd_ang: Callable[[int, int], float | None] = lambda molecule, sample: None,
) -> RunCost:
    """Molecule m has m + 2 blocks; ``cost_nat`` of molecule, sample and block is split before and inside the block."""
    steps: list[dict[str, Any]] = []
    samples = []
    for number in range(MOLECULES * SAMPLES):
        molecule, sample = divmod(number, SAMPLES)
        nats = [cost_nat(molecule, sample, block) / 2 for block in range(molecule + 2)]
        pieces = [pair for nat in nats for pair in (("[C]", nat), ("<", 0), ("1,2,3", nat), (">", 0))]
        for pos, (piece, nat) in enumerate([*pieces, (END, 100.0)]):
            chances = {"ln_p": -nat, "ln_p_tempered": -nat, "ln_mass": -nat, "ln_q": 0.0}
            steps.append(step_row(number, pos, piece=piece, forced=True, **chances))
        about = {"smiles": "C" * (molecule + 2), "stop_reason": "end", "rmsd_ang": rmsd_ang(molecule, sample)}
        samples.append(sample_row(number, **about))
    write_run(store, "one", samples, (), steps, lp="exact")
    return cost_of_run(store, run_facts(store, "one"))


def test_the_slope_is_that_of_blocks_within_samples(store: Store) -> None:
    """Each sample has a level of its own, long molecules the lowest: blocks without their samples would fall."""
    trend = run_cost(store, lambda molecule, sample, block: 50.0 - 5 * molecule + sample + 0.25 * block).disagreement
    assert trend.slope is not None
    assert trend.slope.value == pytest.approx(0.25)
    assert trend.slope.ends == pytest.approx((0.25, 0.25))
    assert trend.blocks == SAMPLES * sum(range(2, MOLECULES + 2))
    assert trend.rmsd is None


def test_rmsd_is_ranked_within_molecules(store: Store) -> None:
    """RMSD rises with -log w in each molecule, and falls with it from molecule to molecule."""
    falls = lambda molecule, sample, block: 10.0 - molecule + 0.1 * sample  # noqa: E731
    trend = run_cost(store, falls, lambda molecule, sample: molecule + sample).disagreement
    assert trend.rmsd is not None and trend.rmsd.value == pytest.approx(1)
    assert (trend.rmsd_samples, trend.rmsd_molecules) == (24, 6)
