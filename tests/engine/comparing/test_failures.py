"""Reasons by run, and the lengths of what passed and failed."""

from __future__ import annotations

import pytest

from engine.comparing.failures import failures, token_histogram
from engine.store.store import Store
from tests.engine.inspection.made import DEMO_STORE, demo_run, sample_row, write_run

FAILED = {"passed": False, "clean": False}


@pytest.fixture
def two(store: Store) -> Store:
    write_run(
        store,
        "one",
        [
            sample_row(0, tokens=10, stop_reason="end"),
            sample_row(1, tokens=33, stop_reason="length", issues=["not closed", "no match"], **FAILED),
            sample_row(2, tokens=12, stop_reason="end", issues=["no match", "no match"], **FAILED),
            sample_row(3, **FAILED),
        ],
    )
    write_run(store, "two", [sample_row(0, tokens=20), sample_row(1, tokens=11, issues=["no match"], **FAILED)])
    return store


def test_a_sample_with_two_issues_counts_in_both(two: Store) -> None:
    found = failures(two, ["two", "one"])
    assert [(reason.issue, reason.samples, reason.total) for reason in found.reasons] == [
        ("no match", (1, 2), 3),
        ("not closed", (0, 1), 1),
    ]
    second, first = found.runs
    assert (first.samples, first.failed, first.issues, first.several, first.unnamed) == (4, 3, 3, 1, 1)
    assert (second.run_id, second.samples, second.failed, second.issues, second.several) == ("two", 2, 1, 1, 0)


def test_a_judged_molecule_fails_by_its_checks(store: Store) -> None:
    twice = [{"check": "stereo", "atoms": [place], "detail": "mirrored"} for place in (1, 4)]
    clash = {"check": "clash", "atoms": [0, 5], "detail": "0.8 A"}
    rows = [
        sample_row(0),
        sample_row(1, failed=[]),
        sample_row(2, failed=twice),
        sample_row(3, failed=[*twice, clash], issues=["no match"], **FAILED),
    ]
    write_run(store, "one", rows)
    found = failures(store, ["one"])
    assert [(reason.issue, reason.total) for reason in found.reasons] == [
        ("molecule: stereo", 2),
        ("molecule: clash", 1),
        ("no match", 1),
    ]
    (run,) = found.runs
    assert (run.samples, run.failed, run.issues, run.several, run.unnamed) == (4, 2, 4, 1, 0)


def test_runs_without_samples_are_missing(two: Store) -> None:
    found = failures(DEMO_STORE, [demo_run("llama", "group-v4.3"), "reported-002-qwen-lp-64"])
    assert found.missing == ("reported-002-qwen-lp-64",)
    run_id = demo_run("llama", "group-v4.3")
    (told,) = DEMO_STORE.rows("SELECT count_if(NOT passed)::INT AS failed FROM samples WHERE run_id = $1", [run_id])
    assert [(reason.issue, reason.samples) for reason in found.reasons] == [
        ("molecule: not read by the strict reader", (64,)),
        ("no real coordinates", (told["failed"],)),
    ]
    assert failures(two, []).runs == ()


def test_histograms_share_their_bins(two: Store) -> None:
    found = token_histogram(two, ["one", "two"], bins=3)
    assert found.edges == (10, 18, 26, 34)
    assert [(group.run_id, group.passed, group.counts) for group in found.groups] == [
        ("one", True, (1, 0, 0)),
        ("one", False, (1, 0, 1)),
        ("two", True, (0, 1, 0)),
        ("two", False, (1, 0, 0)),
    ]
    failed = found.groups[1]
    assert (failed.samples, failed.unknown, failed.mean, failed.median) == (3, 1, 22.5, 22.5)
    assert (failed.stops_known, failed.at_limit, failed.limit_share) == (2, 1, 0.5)
    assert (found.groups[2].stops_known, found.groups[2].limit_share) == (0, None)


def test_every_known_length_is_in_a_bin() -> None:
    runs = [demo_run("qwen", "none"), demo_run("llama", "group-v4.3")]
    for bins in (1, 7, 24, 1_000):
        found = token_histogram(DEMO_STORE, runs, bins)
        assert all(sum(group.counts) == group.samples - group.unknown for group in found.groups)
        assert len(found.edges) - 1 <= bins


def test_without_lengths_there_are_no_bins(store: Store) -> None:
    write_run(store, "one", [sample_row(0)])
    found = token_histogram(store, ["one"])
    assert found.edges == () and [(group.counts, group.unknown, group.mean) for group in found.groups] == [
        ((), 1, None)
    ]
    assert token_histogram(store, ["none"]).groups == ()
    with pytest.raises(ValueError, match="bins must be at least 1"):
        token_histogram(store, ["one"], 0)
