"""The advisor against planted rates and times: who wins, what ties, what does not fit, what is never used."""

from __future__ import annotations

import json
import math
from dataclasses import asdict

import pytest

from engine.errors import DriftscopeError, RunError
from engine.evidence.advice.settings import SettingFilter
from engine.evidence.advisor import AdviceRequest, advise, find_model, models_with_data
from engine.lp_records import GuardSettings
from engine.store.store import Store
from tests.engine.evidence.advice_runs import MANY, MODEL, add
from tests.engine.inspection.made import DEMO_STORE

COUNT = len(MANY)
HALF = MANY[: COUNT // 2]


# --- the rule ---------------------------------------------------------------------------------------------------------


def test_the_least_seconds_a_clean_conformer_win(store: Store) -> None:
    add(store, "none", 1.0)
    add(store, "group-v4.3", 0.1, clean=6, cut=COUNT)
    add(store, "exact", 0.25)
    advice = advise(store, MODEL)
    decision = advice.decision
    assert (decision.verdict, decision.lp, decision.ties, decision.sureness) == ("one", "exact", (), 1.0)
    assert {standing.lp: standing.fits for standing in decision.standings} == {
        "none": "yes",
        "group-v4.3": "no",
        "exact": "yes",
    }
    exact, allowlist = advice.measured.figures("exact"), advice.measured.figures("group-v4.3")
    assert exact.seconds_a_clean.value == pytest.approx(0.25)
    assert allowlist.seconds_a_clean.value == pytest.approx(0.1 * COUNT / 6)
    assert exact.time_ratio is not None
    assert (exact.time_ratio.value, exact.time_ratio.low, exact.time_ratio.high) == pytest.approx((0.25, 0.25, 0.25))
    assert allowlist.cut_share is not None and allowlist.cut_share.value == pytest.approx(0.5)
    assert advice.sentence.startswith(f"Use exact. {COUNT} of {COUNT} answers are clean, 100 % (94.0–100)")
    assert "4.00× less than without an LP" in advice.sentence


def test_what_passes_may_be_wanted_and_says_what_that_hides(store: Store) -> None:
    add(store, "none", 1.0)
    add(store, "group-v4.3", 0.1, clean=0, passed=COUNT, cut=COUNT)
    assert advise(store, MODEL).decision.lp == "none"
    advice = advise(store, MODEL, AdviceRequest(want="passed"))
    assert advice.decision.lp == "group-v4.3"
    assert advice.sentence.startswith(f"Use group-v4.3, though none of its {COUNT} answers is clean. ")
    assert f"none of {COUNT} answers of group-v4.3 are clean" in advice.cautions[0]
    assert "50.0 % (50.0–50.0) of its blocks are cut" in advice.cautions[1]


def test_what_each_lp_costs_the_model_is_a_caution(store: Store) -> None:
    add(store, "none", 1.0, log_w=0.0)
    add(store, "group-v4.3", 0.1, clean=6, log_w=-90.0)
    add(store, "exact", 0.25, log_w=-0.05)
    assert advise(store, MODEL).cautions[-1] == (
        "What the LP costs the model: group-v4.3 draws from another distribution (log w −90.0 per sample, "
        f"effective sample size {COUNT} of {COUNT}); exact leaves the model what it would have written (log w −0.05 "
        f"per sample, effective sample size {COUNT} of {COUNT}). Log w is what the LP changes of an answer's "
        "log-probability; 0 is nothing."
    )


def test_usable_is_wanted_where_all_are_judged_and_clean_where_not(store: Store) -> None:
    add(store, "none", 1.0, usable=COUNT)
    add(store, "exact", 0.25, usable=COUNT // 2)
    advice = advise(store, MODEL)
    assert (advice.want, advice.decision.lp) == ("usable", "none")
    assert advice.sentence.startswith(f"Use no LP. {COUNT} of {COUNT} answers are usable, 100 %")
    exact = advice.measured.figures("exact")
    assert exact.usable_rate is not None and exact.seconds_a_usable is not None
    assert (exact.usable, exact.usable_rate.value, exact.seconds_a_usable.value) == (COUNT // 2, 0.5, 0.5)
    advice = advise(store, MODEL, AdviceRequest(want="clean"))
    assert (advice.want, advice.decision.lp) == ("clean", "exact")
    assert advice.cautions[0].endswith(f"the molecule is right, too, in {COUNT // 2} of {COUNT} answers.")
    add(store, "group-v4.3", 0.1)
    advice = advise(store, MODEL)
    assert (advice.want, advice.decision.lp) == ("clean", "group-v4.3")
    assert any("1 of these 3 runs has no verdict" in part for part in advice.unknown)
    unjudged = advice.measured.figures("group-v4.3")
    assert (unjudged.usable, unjudged.usable_rate, unjudged.seconds_a_usable) == (None, None, None)
    with pytest.raises(RunError, match="1 run has answers without a verdict") as found:
        advise(store, MODEL, AdviceRequest(want="usable"))
    assert "engine judge group-v4.3" in found.value.fix


def test_a_guards_cost_is_in_its_seconds_and_said(store: Store) -> None:
    add(store, "exact", 0.2, usable=COUNT // 2)
    add(store, "guarded", 0.5, usable=COUNT, thrown_tokens=5 * COUNT, guard='{"checks": ["bonds"]}')
    assert advise(store, MODEL).left_out == ("1 run of guarded with non-default parameters",)
    add(store, "guarded", 0.1, usable=COUNT, thrown_tokens=0, guard='{"retries": 99}', run_id="many-tries")
    usual = json.dumps(asdict(GuardSettings()))
    add(store, "guarded", 0.5, usable=COUNT, thrown_tokens=5 * COUNT, guard=usual, run_id="usual")
    advice = advise(store, MODEL)
    exact, guarded = (advice.measured.figures(lp) for lp in ("exact", "guarded"))
    assert (advice.decision.lp, guarded.run_id) == ("guarded", "usual")
    assert guarded.seconds_a_usable is not None and guarded.seconds_a_usable.value == pytest.approx(0.5)
    assert exact.thrown_share is None and guarded.thrown_share == pytest.approx(1 / 3)
    assert advice.left_out == ("2 runs of guarded with non-default parameters",)
    assert advice.reasons[1].endswith("; its guard threw away 33.3 % of the tokens, and their time counts")
    assert "threw away" not in advice.reasons[0]


def test_half_the_time_at_half_the_rate_does_not_fit(store: Store) -> None:
    """Its clean conformers are cheaper, and half of the molecules would have none."""
    add(store, "none", 1.0)
    add(store, "truncating", 0.2, clean=COUNT // 2)
    advice = advise(store, MODEL)
    assert (advice.decision.lp, advice.decision.cheapest) == ("none", "truncating")
    assert advise(store, MODEL, AdviceRequest(least=0.3)).decision.lp == "truncating"


def test_a_few_per_cent_are_a_tie(store: Store) -> None:
    add(store, "truncating", 1.0, clean=COUNT - 3)
    add(store, "exact", 1.02)
    decision = advise(store, MODEL).decision
    assert (decision.verdict, decision.lp, decision.ties) == ("tie", "exact", ("truncating",))  # the surer rate first
    assert decision.sureness == 1.0  # one of them wins in every draw


def test_what_hangs_on_the_molecules_is_a_tie(store: Store) -> None:
    """A fifth cheaper on the mean, and that by three molecules."""
    add(store, "truncating", [30.0 if number < 3 else 1.0 for number in range(COUNT)])
    add(store, "exact", 2.0)
    decision = advise(store, MODEL).decision
    (over,) = [standing.over_least for standing in decision.standings if standing.over_least is not None]
    assert over.value > 1.1 and over.low is not None and over.low < 1
    assert decision.verdict == "tie" and decision.sureness == 1.0
    wins = {standing.lp: standing.wins for standing in decision.standings}
    assert wins["exact"] is not None and 0.5 < wins["exact"] < 1


def test_no_answer_is_clean(store: Store) -> None:
    add(store, "none", 1.0, clean=0, passed=3)
    add(store, "group-v2.1", 0.5, clean=0)
    advice = advise(store, MODEL)
    assert (advice.decision.verdict, advice.decision.lp, advice.decision.cheapest) == ("none fits", "", "")
    assert math.isinf(advice.measured.figures("none").seconds_a_clean.value)
    assert advice.sentence == "No LP gives a clean answer."
    assert [standing.over_least for standing in advice.decision.standings] == [None, None]


def test_none_fits_and_the_cheapest_is_named(store: Store) -> None:
    add(store, "none", 1.0, clean=10)
    add(store, "group-v2.1", 1.0, clean=30)
    advice = advise(store, MODEL)
    assert (advice.decision.verdict, advice.decision.lp) == ("none fits", "")
    assert advice.sentence == (
        "Use group-v2.1: cheapest per clean conformer, most clean answers; every LP is below 90 % clean. "
        "Group-v2.1: 30 of 60 answers are clean, 50.0 % (37.7–62.3), at 2.00 s (1.58–2.73) per clean "
        "conformer, 3.00× less than without an LP."
    )
    over, of_itself = (standing.over_least for standing in advice.decision.standings)
    assert over is not None and over.value == pytest.approx(3) and of_itself is None


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.5, "Use exact, or guarded for more clean answers; every LP is below 90 % clean. Exact: 20 of 60"),
        (
            0.155,
            "Use guarded: most clean answers, at the lowest cost within noise (1.03× (0.775–1.29) that of exact, the "
            "cheapest); every LP is below 90 % clean. Guarded: 30 of 60",
        ),
    ],
)
def test_of_two_that_do_not_fit_the_better_is_first_where_it_costs_the_same(
    store: Store, seconds: float, expected: str
) -> None:
    add(store, "exact", 0.1, clean=20)
    add(store, "guarded", seconds, clean=30)
    assert advise(store, MODEL).sentence.startswith(expected)


def test_one_lp_alone_is_no_choice(store: Store) -> None:
    add(store, "exact", 1.0)
    advice = advise(store, MODEL)
    assert (advice.decision.verdict, advice.decision.lp) == ("too little", "")
    assert "One LP was measured" in advice.sentence
    assert advice.missing == ("none", "group-v2.1", "group-v4.3", "truncating", "guarded")
    assert advice.reports.says == "unknown"


def test_few_molecules_tell_nothing_and_few_answers_leave_the_rate_open(store: Store) -> None:
    add(store, "none", 1.0, smiles=MANY[:5])
    add(store, "exact", 0.1, smiles=MANY[:5])
    advice = advise(store, MODEL)
    assert advice.decision.verdict == "too little" and "These runs share 5 molecules" in advice.sentence
    assert advice.measured.figures("exact").seconds_a_clean.low is None
    more = MANY[:12]
    add(store, "none", 1.0, smiles=more, run_id="more-none")
    add(store, "exact", 0.1, smiles=more, run_id="more-exact")
    again = advise(store, MODEL)
    assert [standing.fits for standing in again.decision.standings] == ["open", "open"]
    assert again.decision.lp == "exact" and "Its rate is uncertain: there are only 12 answers." in again.sentence
    assert any("at most 12 of 32 rows" in one for one in again.unknown)


# --- the reports' rule ------------------------------------------------------------------------------------------------


def test_the_reports_rule_may_agree_or_not(store: Store) -> None:
    add(store, "none", 1.0)
    add(store, "exact", 0.2)
    reports = advise(store, MODEL).reports
    assert (reports.says, reports.agrees) == ("no LP", False)
    assert reports.sentence.endswith(
        "do not agree: exact takes 0.200 s (0.200–0.200) per clean conformer, 5.00× less than without an LP."
    )
    add(store, "exact", 5.0, run_id="newer", created_at="2026-02-02T00:00:00+00:00")
    assert advise(store, MODEL).reports.agrees is True


def test_the_reports_rule_says_to_use_one_and_not_which(store: Store) -> None:
    add(store, "none", 1.0, clean=10, passed=12)
    add(store, "group-v2.1", 0.3, clean=2)
    add(store, "exact", 0.2)
    reports = advise(store, MODEL).reports
    assert (reports.says, reports.agrees) == ("use an LP", True)
    assert "group-v2.1, which it was drawn from, gives 3.3 % (0.9–11.4) clean answers" in reports.detail


# --- what is compared -------------------------------------------------------------------------------------------------


def test_another_setting_is_named_and_never_mixed_in(store: Store) -> None:
    add(store, "none", 1.0)
    add(store, "exact", 0.5)
    add(store, "exact", 0.001, run_id="greedy", sampling="greedy", temperature=0.0)
    add(store, "truncating", 0.001, run_id="gpu", device="cuda:1 (Big)")
    advice = advise(store, MODEL)
    assert advice.measured.names == ("none", "exact") and advice.decision.lp == "exact"
    assert {other.differs for other in advice.others} == {"sampling greedy, not qwen3", "device cuda (Big), not cpu"}
    asked = advise(store, MODEL, AdviceRequest(filter=SettingFilter(sampling="greedy")))
    assert asked.measured.names == ("exact",) and asked.setting.sampling == "greedy"


def test_reported_and_imported_runs_are_no_evidence(store: Store) -> None:
    add(store, "none", 1.0)
    add(store, "exact", 0.5)
    add(store, "truncating", 0.001, run_id="file", origin="imported")
    advice = advise(store, MODEL)
    assert advice.measured.names == ("none", "exact")
    assert advice.left_out == ("1 imported under this model's name: not measured here",)


def test_runs_that_are_no_evidence_of_time(store: Store) -> None:
    add(store, "none", 1.0)
    add(store, "exact", 0.5)
    add(store, "truncating", 0.001, run_id="equal", equal_work=True)
    add(store, "group-v2.1", 0.001, run_id="timeless", wall_s=None)
    add(store, "group-v4.3", 0.001, run_id="long", placeholder="0.0000,0.0000,0.0000")
    advice = advise(store, MODEL)
    assert advice.measured.names == ("none", "exact")
    assert advice.left_out == ("1 run of group-v4.3 with non-default parameters",)


def test_runs_meet_in_the_molecules_that_they_share(store: Store) -> None:
    add(store, "none", 1.0)
    add(store, "exact", [0.5] * len(HALF) + [9.0] * len(HALF), clean=len(HALF))
    add(store, "truncating", 0.1, smiles=HALF)
    add(store, "group-v2.1", 0.1, smiles=[f"N{one}" for one in MANY])
    advice = advise(store, MODEL)
    assert advice.measured.names == ("none", "truncating", "exact") and advice.measured.molecules == len(HALF)
    exact = advice.measured.figures("exact")
    assert (exact.clean, exact.answers) == (len(HALF), len(HALF))
    assert exact.seconds_a_sample.value == pytest.approx(0.5)  # its own share of the run's time
    assert "group-v2.1: its run asked other molecules, or its answers have no times" in advice.left_out


def test_the_same_work_again_tells_the_clocks_own_spread(store: Store) -> None:
    add(store, "none", 2.0)
    for number, each_s in enumerate((1.0, 1.5, 1.1)):
        add(store, "exact", each_s, run_id=f"exact-{number}")
    add(store, "exact", 9.0, run_id="other-seed", seed=1, created_at="2025-01-01T00:00:00+00:00")
    exact = advise(store, MODEL).measured.figures("exact")
    assert exact.repeats == 2 and exact.clock_spread == pytest.approx(1.5)
    assert exact.seconds_a_clean.value == pytest.approx(1.2)
    low, high = exact.seconds_a_clean.low, exact.seconds_a_clean.high
    assert (low, high) == pytest.approx((1.0, 1.5))  # one of 27 draws has the fastest run alone, another the slowest
    assert any("up to 1.50 times as long in another run; 1 of these" in one for one in advise(store, MODEL).unknown)


def test_an_lp_that_bends_conformers_is_told(store: Store) -> None:
    add(store, "none", 1.0, rmsd_ang=[0.5 + 0.01 * (number % 7) for number in range(COUNT)])
    add(store, "exact", 0.5, rmsd_ang=[0.8 + 0.01 * (number % 5) for number in range(COUNT)])
    advice = advise(store, MODEL)
    ratio = advice.measured.figures("exact").rmsd_ratio
    assert ratio is not None and ratio.value == pytest.approx(0.82 / 0.53, rel=0.02)
    assert any("farther from the references" in caution for caution in advice.cautions)


# --- which model, and what to do --------------------------------------------------------------------------------------


def test_rmsd_that_differs_by_noise_says_to_what(store: Store) -> None:
    same = [0.5 + 0.01 * (number % 7) for number in range(COUNT)]
    add(store, "none", 1.0, rmsd_ang=same)
    add(store, "exact", 0.5, rmsd_ang=same)
    (sentence,) = [text for text in advise(store, MODEL).unknown if "by noise only" in text]
    assert "RMSD to the nearest of unnamed references" in sentence


def test_models_with_data(store: Store) -> None:
    add(store, "none", 1.0)
    add(store, "exact", 1.0)
    add(store, "exact", 1.0, run_id="another", batch_size=8)
    (found,) = models_with_data(store)
    assert (found.model, found.runs, found.settings, found.lps) == (MODEL, 3, 2, ("none", "exact"))
    assert found.setting == "sampling qwen3, batches of 32, backend fast, cpu in float32"


@pytest.mark.parametrize(
    ("model", "asked", "said"),
    [
        ("nope", AdviceRequest(), "there is no model 'nope'"),
        ("demo-llama:early", AdviceRequest(), "engine advise --model demo-llama:early --probe 64`"),
        (
            "toy",
            AdviceRequest(filter=SettingFilter(sampling="greedy")),
            "was measured with sampling greedy, but with sampling qwen3",
        ),
        ("toy", AdviceRequest(filter=SettingFilter(batch_size=7)), "--probe 64 --batch-size 7`"),
        ("toy", AdviceRequest(filter=SettingFilter(sampling="greed")), "there is no sampling preset 'greed'"),
        ("toy", AdviceRequest(lps=("exct",)), "there is no LP 'exct'"),
    ],
)
def test_what_cannot_be_advised_says_what_to_do(store: Store, model: str, asked: AdviceRequest, said: str) -> None:
    add(store, "none", 1.0)
    with pytest.raises(DriftscopeError) as caught:
        advise(store, model, asked)
    assert said in str(caught.value)


def test_a_least_rate_is_a_share() -> None:
    with pytest.raises(DriftscopeError, match="is no least rate"):
        AdviceRequest(least=90)


def test_an_alias_alone_means_the_step_with_runs() -> None:
    assert find_model("demo-llama", ["demo-llama:early"]) == "demo-llama:early"
    assert find_model("demo-llama", []) == "demo-llama:final"
    assert find_model("demo-llama", ["demo-llama:early", "demo-llama:final"]) == "demo-llama:final"


def test_commands_for_what_is_missing() -> None:
    advice = advise(DEMO_STORE, "demo-qwen")
    assert advice.commands == (
        "python -m engine run --model demo-qwen:final --lp truncating --sample-size 64 --device cpu",
        "python -m engine advise --model demo-qwen:final --probe 64 --device cpu",
    )


def test_a_model_that_no_registry_names_is_run_from_its_folder(store: Store) -> None:
    add(store, "none", 1.0, sampling="t0.5 k0 p1 m0", temperature=0.5, top_k=None, top_p=1.0)
    add(store, "exact", 1.0, sampling="t0.5 k0 p1 m0", temperature=0.5, top_k=None, top_p=1.0)
    command = advise(store, MODEL).commands[0]
    assert command.startswith("python -m engine run --model-path FOLDER --lp group-v2.1")
    assert command.endswith("--smiles-file FILE --temperature 0.5 --top-p 1 --min-p 0 --device cpu")


def test_the_demo_contradicts_the_reports_rule() -> None:
    """Without an LP nearly all answers pass, and the exact LP is faster all the same."""
    for model in ("demo-qwen", "demo-llama"):
        usable = advise(DEMO_STORE, model)
        assert (usable.want, usable.decision.verdict) == ("usable", "none fits")
        assert usable.decision.cheapest in ("exact", "guarded")
        advice = advise(DEMO_STORE, model, AdviceRequest(want="clean"))
        assert advice.decision.lp == "exact" and advice.decision.sureness == 1.0
        assert (advice.reports.says, advice.reports.agrees) == ("no LP", False)
        assert advise(DEMO_STORE, model).decision == usable.decision  # drawn alike
