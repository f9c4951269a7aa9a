"""Verdicts: those that have to come out, how each check decides, and what is kept of the last ones."""

from dataclasses import replace
from types import MappingProxyType

import pytest

from engine.errors import FileFormatError
from engine.evidence import verdicts
from engine.evidence.checks import CHECKS
from engine.evidence.checks.finding import VERDICTS
from engine.evidence.claims import Claim, load_claims
from engine.evidence.formula import Range
from engine.evidence.verdicts import FILE, Judgement, Verdict, judge, judge_all, load, save, why_outdated
from engine.store.files import LocalFiles
from engine.store.store import DEMO, Store

CLAIMS = {claim.id: claim for claim in load_claims()}
SHIPPED = "AND label = 'ships with the project'"
REPRODUCED, CONTRADICTED, INCONSISTENT, NOT_SHOWN, UNTESTABLE = VERDICTS


@pytest.fixture(scope="module")
def demo() -> Store:
    """The runs that ship, and nobody's own."""
    return Store(LocalFiles(DEMO))


@pytest.fixture(scope="module")
def judged(demo) -> Judgement:
    return judge_all(demo)


def _made(id_: str = "002-decomposition", **changes) -> Claim:
    arguments = changes.pop("arguments", None)
    claim = replace(CLAIMS[id_], **changes)
    return claim if arguments is None else replace(claim, arguments=MappingProxyType(arguments))


@pytest.mark.parametrize(
    ("id_", "verdict", "measured"),
    [
        ("002-2.2-tokens-placeholder-qwen3", REPRODUCED, 22),
        ("002-2.2-tokens-placeholder-llama3", REPRODUCED, 16),
        ("002-2.3-tokens-skeleton-qwen3", REPRODUCED, 47),
        ("002-decomposition", REPRODUCED, 1.34 * 2.62),
        ("003-layers-qwen", CONTRADICTED, 28),
        ("003-layers-llama", CONTRADICTED, 16),
        ("003-layers-qwen-whole", CONTRADICTED, 1_730),
        ("003-steps-llama", CONTRADICTED, 1_292),
        ("003-tokens-qwen", INCONSISTENT, 96_000),
        ("003-concatenations-by-ids", CONTRADICTED, 1_728),
        ("003-calls-by-tokens", CONTRADICTED, 1_730 / 1_292),
        ("003-tokens-ratio", INCONSISTENT, 1.34),
        ("000-junk-share", INCONSISTENT, 3.8),
        ("002-junk-share-qwen", INCONSISTENT, 11.1),
        ("001-hypothesis-tokens-block-llama3", CONTRADICTED, 14),
        ("001-llama-tokens-block-llama3", CONTRADICTED, 12),
        ("000-tokenisation-tokens-block-llama3", CONTRADICTED, 12),
        ("001-mask-size", REPRODUCED, 9.728),
        ("001-retrying-is-slower", CONTRADICTED, 446.28 / 0.994),
        ("002-token-rate-ratio", INCONSISTENT, 868.1 / 330.8),
        ("002-removal-gain", INCONSISTENT, 100 * (1 - 446.28 / 500.82)),
        ("002-component-characters", CONTRADICTED, 6),
        ("002-least-drift-qwen", CONTRADICTED, -1),
        ("002-junk-cannot-be-eliminated", CONTRADICTED, 0),
        ("002-truncation-incompatible", CONTRADICTED, 3),
        ("000-truncation-possible", REPRODUCED, 3),
        ("002-time-qwen-lp", UNTESTABLE, None),
        ("003-launches-qwen", UNTESTABLE, None),
        ("004-garbage-phi", UNTESTABLE, None),
        ("004-architectures-3", INCONSISTENT, 4),
        ("005-loss", REPRODUCED, 100 * (1 - 44.0 / 68.1)),
        ("005-failures-no-cause", REPRODUCED, round(100 * 569 / (2 * 197_694), 6)),
        ("005-mismatch-share", REPRODUCED, round(100 * 687 / (2 * 197_694), 6)),
        ("005-fit", CONTRADICTED, 0),
        ("005-pass-blocklist", INCONSISTENT, 99.6),
        ("005-cov-r-lp", UNTESTABLE, None),
    ],
)
def test_what_has_to_come_out(judged, id_, verdict, measured) -> None:
    found = judged.of(id_)
    assert (found.verdict, found.measured) == (verdict, measured if measured is None else pytest.approx(measured))


def test_the_lp_is_judged_by_the_runs_that_ship(judged, demo) -> None:
    """Another demo store may bring other figures, but these verdicts follow from its rows."""
    rows = {row["lp"]: row for row in demo.rows(f"SELECT * FROM runs WHERE model_alias = 'demo-qwen' {SHIPPED}")}
    faster = judged.of("002-cannot-be-faster")
    assert faster.measured == pytest.approx(rows["none"]["wall_s"] / rows["exact"]["wall_s"])
    assert (faster.verdict, faster.source) == (CONTRADICTED, "store")
    cost = judged.of("000-junk-is-the-cost")
    position = [row for lp, row in rows.items() if lp.startswith("group-")]
    share = 100 * sum(row["cut_blocks"] for row in position) / sum(row["bad_blocks"] for row in position)
    assert (cost.verdict, cost.measured) == (CONTRADICTED, pytest.approx(share))
    of = f"JOIN runs USING (run_id) WHERE junk_tokens > 0 AND model_alias = 'demo-qwen' {SHIPPED} GROUP BY lp"
    junk = {row["lp"]: row["blocks"] for row in demo.rows(f"SELECT lp, count(*)::INT AS blocks FROM blocks {of}")}
    assert junk["group-v4.3"] and "lets only numeric text pass" in cost.reason, "digits are junk too"
    assert f"{junk['group-v2.1']} blocks hold junk" in judged.of("000-left-over-is-junk").reason
    letters = rows["group-v2.1"]["junk_nonnumeric"]
    assert f"text that is not numeric in {letters} blocks" in judged.of("000-qwen-slower").reason


def test_the_reasons_have_the_figures(judged) -> None:
    told = judged.of("003-layers-qwen-whole").reason
    assert all(part in told for part in ("48,440", "= 28", "= 1,730", "does not hold", "batch of 32"))
    told = judged.of("003-concatenations-by-ids").reason
    assert all(part in told for part in ("2 x 28 x 1,728", "2 x 16 x 1,290", "= 1,728", "= 1,290", "= 16"))
    assert (
        "2.343 times the calls are 1.75 times the layers and 1.339 times the steps"
        in judged.of("003-calls-by-tokens").reason
    )
    for verdict in judged.verdicts:
        assert len(verdict.reason) > 15 and verdict.reason.endswith("."), verdict
        assert verdict.query, verdict


def test_every_claim_has_one_verdict_and_every_verdict_is_given(judged) -> None:
    assert [verdict.claim_id for verdict in judged.verdicts] == list(CLAIMS)
    assert set(judged.counts) == set(VERDICTS)
    assert {CLAIMS[verdict.claim_id].check for verdict in judged.verdicts} == set(CHECKS)


def test_sql_runs_as_it_stands(judged, demo) -> None:
    queries = {
        verdict.query
        for verdict in judged.verdicts
        if verdict.query.startswith("SELECT") or verdict.query.startswith("WITH")
    }
    assert len(queries) > 20
    with demo.console() as console:
        for query in sorted(queries):
            console.query(query)


def test_what_ships_is_what_comes_out_now(judged) -> None:
    shipped = load()
    assert shipped is not None, f"{FILE} is missing: run `make claims`"
    assert {verdict.claim_id: verdict.verdict for verdict in shipped.verdicts} == {
        verdict.claim_id: verdict.verdict for verdict in judged.verdicts
    }


# --- how a check decides -------------------------------------------------------------------------------------------


def test_a_verdict_follows_the_figure(demo) -> None:
    claim = CLAIMS["002-decomposition"]
    right, wrong = judge([claim, _made(value=3.7, least=3.695, most=3.705, reported="3.7")], demo)
    assert (right.verdict, wrong.verdict) == (REPRODUCED, CONTRADICTED)
    assert "the report has 3.7 x" in wrong.reason


def test_a_quotient_that_is_right_may_still_have_a_rival(demo) -> None:
    (found,) = judge([CLAIMS["001-slowdown"]], demo)
    assert (found.verdict, found.measured) == (INCONSISTENT, 2.375)
    assert "57 / 24 = 2.375" in found.reason and "report 002, Summary: 1.12" in found.reason


def test_figures_that_agree_are_not_reproduced_by_that(demo) -> None:
    (found,) = judge([CLAIMS["002-blocks"]], demo)
    assert found.verdict == UNTESTABLE
    assert "1,619; report 000" in found.reason


def test_a_run_that_is_missing_is_named_and_one_that_is_there_is_compared(demo, tmp_path) -> None:
    claim = CLAIMS["002-time-qwen-none"]
    (missing,) = judge([claim], demo)
    assert (missing.verdict, missing.source) == (UNTESTABLE, "none")
    assert "1,000 samples on an H100" in missing.reason
    (there,) = judge([claim], _store_with(tmp_path, wall_s=446.28))
    assert (there.verdict, there.measured, there.source) == (REPRODUCED, 446.28, "store")
    (other,) = judge([claim], _store_with(tmp_path / "other", wall_s=500.0))
    assert other.verdict == CONTRADICTED


def _store_with(folder, **figures) -> Store:
    from engine.store.schema import RUN
    from engine.store.staging import Staging

    home = LocalFiles(folder)
    said = {"origin": "imported", "model_family": "Qwen", "lp": "none", "device": "H100", "samples": 1_000}
    Staging.create(home, RUN, "imported-one", {**said, **figures}).publish({})
    return Store(home)


def test_without_runs_nothing_is_claimed_of_them(tmp_path) -> None:
    empty = Store(LocalFiles(tmp_path))
    stored = [claim for claim in CLAIMS.values() if claim.check in ("sql", "drift", "lp_table", "references")]
    assert {one.verdict for one in judge(stored, empty)} == {UNTESTABLE}


def test_ranks_that_go_together_are_related(demo) -> None:
    garbage = [id_ for id_ in CLAIMS if id_.startswith("004-garbage-") and id_[12:] in NAMES]
    claim = _made("004-vocabulary-unrelated", arguments={"one": garbage, "other": garbage})
    (found,) = judge([claim], demo)
    assert found.verdict == CONTRADICTED
    assert found.measured == pytest.approx(1.0)


NAMES = ("qwen-q4", "qwen-fp16", "phi", "tinyllama", "llama3", "gpt2")


def test_three_quoted_blocks_have_no_letter(demo) -> None:
    blocks = CLAIMS["000-quoted-junk"].arguments["blocks"]
    (found,) = judge([_made("000-quoted-junk", arguments={"rule": "letters", "blocks": blocks})], demo)
    assert (found.measured, found.verdict) == (8, CONTRADICTED)


def test_filler_and_pass_rate_of_report_005_are_judged_by_the_runs_that_ship(judged, demo) -> None:
    of = f"JOIN runs USING (run_id) WHERE lp = 'group-v4.3' AND model_alias = 'demo-qwen' {SHIPPED}"
    kinds = [set(row["kinds"]) for row in demo.rows(f"SELECT kinds FROM blocks {of}")]
    filled = [has for has in kinds if has - {"exact", "unverified", "cut", "missing_z", "integer"}]
    digits = [has for has in filled if has == {"extra_digit"}]
    filler = judged.of("005-filler")
    assert (filler.verdict, filler.measured) == (NOT_SHOWN, pytest.approx(100 * len(digits) / len(filled)))
    both = sum("cut" in has for has in filled)
    cut = sum("cut" in has for has in kinds)
    assert f"{cut} are cut, and {len(filled)}, {both} of them cut too, hold something" in filler.reason
    (passed,) = demo.rows(f"SELECT avg(passed::INT) AS share FROM samples {of}")
    rate = judged.of("005-pass-allowlist")
    assert (rate.verdict, rate.measured) == (REPRODUCED, 100 * passed["share"])


def test_conformers_fit_a_placeholder_of_their_own_decimals(judged, demo) -> None:
    """The same check finds another share where the placeholder has the decimals that both writers go to."""
    given = dict(CLAIMS["005-fit"].arguments)
    (short,) = judge([CLAIMS["005-fit"]], demo)
    assert (short.verdict, short.measured) == (CONTRADICTED, 0)
    assert "0 with four decimals always (100 % cut, drift from -4 to -3)" in short.reason
    (whole,) = judge([_made("005-fit", arguments=given | {"placeholder": "0.0000,0.0000,0.0000"})], demo)
    assert (whole.measured or 0) > 30
    (right,) = judge([_made("005-fit", value=0.0, least=0.0, most=0.5, reported="0")], demo)
    assert right.verdict == REPRODUCED


def test_what_the_experiment_answers_follows_its_figures(demo, monkeypatch) -> None:
    claim = CLAIMS["005-shift"]
    found = {f"demo-qwen-fixed/fall/{step}/cov_r": Range(-0.2, -0.1, 0.0) for step in ("failed parses", "in all")}

    def judged_with(forcing: float, cut: float) -> Verdict:
        steps = {"forcing the SMILES": forcing, "placeholder and cut": cut}
        changed = {f"demo-qwen-fixed/fall/{step}/cov_r": Range.exact(value) for step, value in steps.items()}
        monkeypatch.setattr(verdicts, "figures", lambda documents: found | changed)
        return judge([claim], demo)[0]

    other, same = judged_with(0.0, -0.08), judged_with(-0.08, 0.0)
    assert (other.verdict, other.measured, other.source) == (NOT_SHOWN, 0, "experiment")
    assert "by -10 points under v4.3: by 0 where" in other.reason and "by -8 with the placeholder" in other.reason
    assert (same.verdict, same.measured) == (REPRODUCED, -8)
    monkeypatch.setattr(verdicts, "figures", lambda documents: found)
    (missing,) = judge([claim], demo)
    assert missing.verdict == UNTESTABLE and "`make lost-third MODEL=demo-qwen-fixed`" in missing.reason


def test_other_models_do_not_contradict_what_is_said_of_theirs(judged) -> None:
    said = [claim for claim in CLAIMS.values() if claim.arguments.get("of_theirs")]
    assert {judged.of(claim.id).verdict for claim in said} <= {NOT_SHOWN, REPRODUCED, UNTESTABLE}
    assert (
        {claim.id for claim in said}
        >= {verdict.claim_id for verdict in judged.verdicts if verdict.verdict == NOT_SHOWN}
        > {"000-qwen-slower"}
    )


def test_an_exact_lp_ends_no_block_of_the_position_lps(demo) -> None:
    given = dict(CLAIMS["000-truncation-possible"].arguments) | {"lp": "group-v2.1"}
    (found,) = judge([_made("000-truncation-possible", arguments=given)], demo)
    assert (found.measured, found.verdict) == (0, CONTRADICTED)


@pytest.mark.parametrize(
    "change",
    [
        {"check": "nonsense"},
        {"arguments": {}},
        {"arguments": {"formula": "{002-tokens-ratio} < 2"}},
        {"check": "holds", "arguments": {"formula": "{002-tokens-ratio}"}},
        {"arguments": {"formula": "{nowhere}"}},
        {"check": "agree", "value": None, "arguments": {"others": ()}},
        {"check": "needs", "arguments": {"needs": "nonsense"}},
    ],
)
def test_a_check_that_cannot_be_computed_is_named(demo, change) -> None:
    with pytest.raises(FileFormatError):
        judge([_made(**change)], demo)


# --- what is kept --------------------------------------------------------------------------------------------------


def test_saved_verdicts_come_back(judged, tmp_path) -> None:
    path = tmp_path / "verdicts.json"
    save(judged, path)
    assert load(path) == judged
    assert load(tmp_path / "none.json") is None
    path.write_text("{}", encoding="utf-8")
    with pytest.raises(FileFormatError, match="make claims"):
        load(path)


def test_what_changed_since_is_told(judged, demo) -> None:
    assert why_outdated(judged, demo) is None
    assert why_outdated(replace(judged, claims_sha256=""), demo) == "the claims changed since"
    old = replace(judged, code_sha256="", runs_sha256="", versions="{}")
    assert why_outdated(old, demo) == ("the checks and the stored runs and the versions of what computes changed since")


def test_a_verdict_of_no_claim_is_none(judged) -> None:
    assert judged.of("nowhere") is None
    assert isinstance(judged.verdicts[0], Verdict)
