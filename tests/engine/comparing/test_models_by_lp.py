"""Model times LP: what differs in one of the two, and what each pair's ratio is of."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.comparing.models_by_lp import models_by_lp
from tests.engine.inspection.made import DEMO_STORE, demo_run

ORDER = (("llama", "none"), ("qwen", "exact"), ("llama", "exact"), ("qwen", "none"), ("qwen", "guarded"))


def test_both_comparisons_are_there_though_the_runs_have_one_control() -> None:
    """Beside one control a run of another model under an LP had one ratio, of both changes at once."""
    entries = [DEMO_STORE.entry(demo_run(*parts)) for parts in ORDER]
    within_models, within_lps = models_by_lp(DEMO_STORE, [*entries, DEMO_STORE.entry("reported-002-qwen-lp-64")])
    llama, qwen = "demo-llama:final", "demo-qwen:final"
    assert [(pair.within, pair.control_name, pair.test_name) for pair in within_models] == [
        (llama, "none", "exact"),
        (qwen, "none", "exact"),
        (qwen, "none", "guarded"),
    ]
    assert [(pair.within, pair.control_name, pair.test_name) for pair in within_lps] == [
        ("exact", llama, qwen),
        ("none", llama, qwen),
    ]
    for pair in (*within_models, *within_lps):
        control, test = pair.control.entry.row, pair.test.figures.entry.row
        assert pair.test.ratio("wall_s_a_sample").ratio == pytest.approx(test["wall_s"] / control["wall_s"])


def test_a_run_under_former_rules_is_no_run_under_the_groups_own() -> None:
    """Two runs that name the same LP were one row where one was stored before that LP had the group's rules."""
    rules, control = (DEMO_STORE.entry(demo_run("qwen", lp)) for lp in ("group-v4.3", "none"))
    former = replace(rules, row=dict(rules.row) | {"descriptors": None, "lp": "position-allowlist"})
    within_models, _ = models_by_lp(DEMO_STORE, [control, rules, former])
    assert [pair.test_name for pair in within_models] == ["group-v4.3", "position-allowlist (former rules)"]
