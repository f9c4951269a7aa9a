"""The Evidence page's parts that need no page: words, filters, relations, links, files, figures."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from engine.evidence.checks.finding import VERDICTS
from engine.evidence.claims import REPORTS, load_claims
from engine.evidence.lost_third import load_all
from engine.evidence.verdicts import FLAT, load
from engine.store.files import LocalFiles
from engine.store.store import DEMO, Store
from pages._evidence import browse, charts, lost_third, lost_third_charts, words
from pages._evidence.claims import (
    ClaimFilter,
    Judged,
    counts_by_report,
    judged_claims,
    places_of,
    related,
)
from pages._evidence.detail import beside_words, place_words
from pages._evidence.highlights import by_report_sentence, figure_words
from pages._evidence.summary import checked_words
from pages._shared import verdicts
from pages._shared.components.claims_list import packed
from pages._shared.theme import DARK, LIGHT

ROWS = judged_claims(load_claims(), load())
BY_ID = {row.id: row for row in ROWS}


def measured(id_: str, figure: float | None, **claim: Any) -> Judged:
    """The claim changed, and with another figure beside it."""
    row = BY_ID[id_]
    assert row.verdict is not None
    return Judged(replace(row.claim, **claim), replace(row.verdict, measured=figure))


def test_every_claim_is_a_row_and_what_nobody_judged_says_so() -> None:
    assert len(ROWS) == len(load_claims()) and all(row.verdict is not None for row in ROWS)
    bare = judged_claims(load_claims(), None)
    assert {row.name for row in bare} == {None}
    assert verdicts.word_of(None) == "not checked yet"
    assert counts_by_report(bare)["000"] == Counter({None: sum(row.claim.report == "000" for row in ROWS)})


# --- which claims -------------------------------------------------------------------------------------------------


def test_filters_go_together() -> None:
    assert places_of(ROWS, ClaimFilter()) == list(range(len(ROWS)))
    wanted = ClaimFilter(reports=frozenset({"003"}), verdicts=frozenset({"contradicted"}), with_figure=True)
    left = [ROWS[place] for place in places_of(ROWS, wanted)]
    assert left and all(row.claim.report == "003" and row.name == "contradicted" and row.has_figure for row in left)
    assert len(left) < len(
        places_of(ROWS, ClaimFilter(reports=frozenset({"003"}), verdicts=frozenset({"contradicted"})))
    )


def test_a_text_is_found_in_statement_section_and_reason_in_any_order() -> None:
    found = {ROWS[place].id for place in places_of(ROWS, ClaimFilter(text="LAYERS 48,440"))}
    assert "003-layers-qwen-whole" in found
    assert places_of(ROWS, ClaimFilter(text="no such words anywhere")) == []
    assert places_of(ROWS, ClaimFilter(text="<img src=x>")) == []


def test_a_subject_leaves_its_claims() -> None:
    subject = BY_ID["002-cannot-be-faster"].claim.subject
    assert {ROWS[place].claim.subject for place in places_of(ROWS, ClaimFilter(subject=subject))} == {subject}


def test_sections_come_in_order_and_hold_all_rows() -> None:
    groups = words.list_groups(ROWS)
    assert [place for _, places in groups for place in places] == list(range(len(ROWS)))
    assert len({heading for heading, _ in groups}) == len(groups)


def test_highlights_are_few_and_the_conclusions_are_among_them() -> None:
    found = {row.id for row in ROWS if row.claim.highlight}
    assert 6 <= len(found) <= 12
    asked = {"002-cannot-be-faster", "000-junk-is-the-cost", "003-calls-by-tokens", "000-junk-share", "001-mask-size"}
    assert asked < found
    assert any(BY_ID[id_].claim.check == "tokens" for id_ in found)


# --- related ------------------------------------------------------------------------------------------------------


def test_the_other_side_of_an_inconsistency_is_related_both_ways() -> None:
    how = {row.id: how for how, row in related(BY_ID["000-junk-share"], ROWS)}
    assert how["002-junk-share-qwen"] == "the same thing, another figure"
    assert "000-junk-share" in {row.id for _, row in related(BY_ID["002-junk-share-qwen"], ROWS)}


def test_what_goes_into_a_formula_is_related_and_what_is_computed_with_it() -> None:
    how = {row.id: how for how, row in related(BY_ID["002-decomposition"], ROWS)}
    assert how["002-tokens-ratio"] == how["002-token-ms-ratio"] == "goes into this one"
    back = {row.id: how for how, row in related(BY_ID["002-token-ms-ratio"], ROWS)}
    assert back["002-decomposition"] == "computed with this one"


def test_a_claim_is_not_related_to_itself_even_by_a_part_of_its_own_figures() -> None:
    """Its formula multiplies figures of its own: `{001-mask-size.1}`."""
    assert "001-mask-size" not in {row.id for _, row in related(BY_ID["001-mask-size"], ROWS)}


def test_every_related_claim_is_there_once() -> None:
    for row in ROWS:
        found = [other.id for _, other in related(row, ROWS)]
        assert len(found) == len(set(found)) and row.id not in found


# --- words --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("figure", "claim", "said"),
    [
        (3.8, {}, "0.342×"),
        (11.12, {}, "="),
        (-3.0, {}, "−14.1"),
        (None, {}, ""),
        (1.0, {"value": 0.0, "least": 0.0, "most": 0.0}, "+1"),
        (17.0, {"value": None, "least": 18.0, "most": 25.0}, "−1"),
        (40.0, {"value": None, "least": 18.0, "most": None}, "="),
        (12.0, {"value": None, "least": None, "most": 9.0}, "+3"),
        (5.0, {"value": None, "least": None, "most": None, "reported": ""}, ""),
    ],
)
def test_how_far_apart_two_figures_are(figure: float | None, claim: dict[str, Any], said: str) -> None:
    assert words.apart_words(measured("000-junk-share", figure, **claim)) == said


def test_a_share_that_no_report_states_says_of_what() -> None:
    shares = {row.id: figure_words(row) for row in ROWS if row.claim.highlight and not row.has_figure}
    assert shares["000-junk-is-the-cost"].endswith(" % of damaged blocks were cut")
    assert not [id_ for id_, figure in shares.items() if figure.endswith("%")]


def test_figures_have_their_units() -> None:
    row = BY_ID["002-decomposition"]
    assert (words.reported_words(row.claim), words.measured_words(row)) == ("3.51×", "3.511×")
    assert words.reported_words(BY_ID["001-mask-size"].claim) == "9.7 GB"
    assert words.reported_words(BY_ID["002-cannot-be-faster"].claim) == ""


def test_both_figures_in_a_sentence_say_where_each_is_from() -> None:
    said = beside_words(BY_ID["000-junk-share"])
    here = "The reports' figure in another place: 3.8 % (0.342×)."
    assert said == f"The report has 11.1 %, rounded from 11.05 to 11.15. {here}"
    assert beside_words(BY_ID["000-quoted-junk"]).endswith("11 blocks, the same.")
    assert figure_words(BY_ID["000-junk-share"]) == "report: 11.1 % · elsewhere: 3.8 % (0.342×)"


def test_a_short_reason_leaves_out_the_arithmetic_where_there_is_more() -> None:
    said = words.short_reason(BY_ID["003-calls-by-tokens"])
    assert said.startswith("2.343 times the calls") and BY_ID["003-calls-by-tokens"].reason.endswith(said)
    assert words.short_reason(BY_ID["002-decomposition"]) == BY_ID["002-decomposition"].reason


@pytest.mark.parametrize(
    ("text", "markdown"),
    [
        ("Tokens of `<0.5>` are *few*.", r"Tokens of `<0.5>` are \*few\*\."),
        ("an odd ` one", r"an odd \` one"),
        ("`a\u202eb` c", "`a\\u202eb` c"),
        ("[x](y) ``", r"\[x\]\(y\) \`\`"),
    ],
)
def test_text_of_a_claim_is_code_where_it_says_so_and_never_markup(text: str, markdown: str) -> None:
    assert words.rich(text) == markdown


def test_where_a_claim_stands() -> None:
    assert place_words(BY_ID["000-junk-share"].claim).startswith("Report 000, TL;DR; also in Counts, Expected results")


def test_verdicts_differ_in_word_sign_pattern_and_colour() -> None:
    assert set(verdicts.LOOKS) == set(VERDICTS)
    for colours in (LIGHT, DARK):
        looks = [verdicts.look_of(name) for name in VERDICTS]
        assert len({look.sign for look in looks}) == len({look.pattern for look in looks}) == len(VERDICTS)
        assert len({verdicts.colour_of(name, colours) for name in VERDICTS}) == len(VERDICTS)


def test_when_and_from_what_they_were_judged() -> None:
    last = load()
    assert last is not None
    said = checked_words(replace(last, git_commit="0123456789abcdef+"), is_kept=True)
    assert "commit 0123456789, with changes not committed" in said and "make claims" in said
    assert "lost when the app stops" in checked_words(replace(last, git_commit=None), is_kept=False)


def test_the_share_that_comes_out_again_is_computed() -> None:
    said = by_report_sentence(ROWS)
    decided = [row for row in ROWS if row.name != "not testable here"]
    assert f"Of the {len(decided)} claims" in said
    assert by_report_sentence(judged_claims(load_claims(), None)) == "No claim has been decided yet."


# --- queries ------------------------------------------------------------------------------------------------------


def test_sql_is_broken_into_lines_and_not_inside_quotes() -> None:
    sql, rest = words.sql_and_rest("SELECT ' FROM, x' AS a, max(b, 1) FROM runs WHERE b = 'it''s WHERE' -- then()")
    assert sql == "SELECT ' FROM, x' AS a,\n  max(b, 1)\nFROM runs\nWHERE b = 'it''s WHERE'"
    assert rest == "then()"
    assert words.sql_and_rest("{a} == {b}") == ("", "")


def test_sql_in_lines_gives_what_the_query_gives() -> None:
    store = Store(LocalFiles(DEMO))
    queries = {
        row.verdict.query for row in ROWS if row.verdict is not None and words.sql_and_rest(row.verdict.query)[0]
    }
    assert len(queries) > 20
    for query in sorted(queries)[::4]:
        assert store.rows(words.sql_and_rest(query)[0]) == store.rows(query)


def test_the_lab_opens_with_the_claims_text() -> None:
    claim = BY_ID["001-hypothesis-tokens-block-llama3"].claim
    asked = parse_qs(urlsplit(words.lab_address(claim)).query)
    assert asked["text"] == [claim.arguments["text"]]
    quoted = parse_qs(urlsplit(words.lab_address(BY_ID["000-quoted-junk"].claim)).query)["text"][0]
    assert quoted.count("[C]<") == 11 and "0.8415amen>" in quoted
    assert "view=" in words.lab_address(BY_ID["001-masking-vocabulary-qwen3"].claim)
    assert words.lab_address(BY_ID["002-decomposition"].claim) == ""


# --- files, list, figures -----------------------------------------------------------------------------------------


def test_files_hold_every_claim_with_its_verdict() -> None:
    table = list(csv.DictReader(io.StringIO(browse.csv_of(ROWS))))
    assert [row["claim_id"] for row in table] == [row.id for row in ROWS]
    assert tuple(table[0]) == FLAT
    documents = json.loads(browse.json_of(ROWS))
    assert [document["verdict"] for document in documents] == [row.name for row in ROWS]
    assert documents[0]["arguments"]
    assert json.loads(browse.json_of(judged_claims(load_claims(), None)))[0]["verdict"] is None


def test_the_lists_rows_can_be_sent_whatever_a_claim_holds() -> None:
    row = BY_ID["000-junk-share"]
    odd = Judged(replace(row.claim, statement="a\ud800b."), row.verdict)
    sent = packed(words.list_groups([odd]), [words.list_row(odd)])
    assert sent["rows"][0]["statement"] == "a\\ud800b."
    assert json.dumps(sent).encode()
    assert sent["groups"] == [{"name": "report 000 · TL;DR", "places": [0]}]


def test_the_bars_add_up() -> None:
    figure = charts.by_report(ROWS, LIGHT).figure(LIGHT)
    assert sum(sum(part.x) for part in figure.data) == len(ROWS)
    assert len({part.marker.pattern.shape for part in figure.data}) == len(figure.data) == len(VERDICTS)
    assert charts.by_report(ROWS, LIGHT).alt.count("Report ") == len(REPORTS)


def test_both_figures_lie_inside_their_chart() -> None:
    compared = [row for row in ROWS if charts.can_compare(row)]
    assert len(compared) > 100
    for row in compared:
        figure = charts.beside(row, LIGHT).figure(LIGHT)
        low, high = figure.layout.xaxis.range
        drawn = [value for part in figure.data for value in part.x]
        assert low < high and all(low <= value <= high for value in drawn), row.id
        assert row.measured in drawn, row.id


def test_without_two_figures_there_is_no_chart() -> None:
    assert not charts.can_compare(BY_ID["002-cannot-be-faster"])
    assert not charts.can_compare(BY_ID["002-time-qwen-lp"])


def test_figures_of_a_lane_that_ran_at_two_sizes_say_of_which() -> None:
    """One chart had 65.0 % for the exact LP, another 79.4 %, and the table below them both."""
    documents = load_all((LocalFiles(DEMO),))
    (qwen,) = [document for document in documents if document["model"] == "demo-qwen"]
    drawn = (lost_third_charts.lanes(qwen, LIGHT), lost_third_charts.orders(documents, LIGHT))
    titles = [chart.figure(LIGHT).layout.xaxis.title.text for chart in drawn]
    assert titles == ["share within 0.75 Å, 64 × 10 answers", "COV-R of the exact LP, 200 × 20 answers"]
    assert lost_third_charts.curves(qwen, LIGHT).figure(LIGHT).layout.yaxis.title.text == "COV-R, 64 × 10 answers"


@pytest.mark.parametrize(
    ("id_", "basis"),
    [
        ("002-cannot-be-faster", "Rests on demo-qwen (2.4 M weights in the layers), on a CPU."),
        ("001-lp-should-be-faster", "demo-qwen (2.4 M weights in the layers) and demo-llama (2.4 M"),
        ("001-masking-vocabulary-qwen3", "no model, no hardware"),
    ],
)
def test_a_verdict_names_the_models_their_size_and_the_hardware(id_: str, basis: str) -> None:
    assert basis in words.basis_words(BY_ID[id_])


def test_every_decided_claim_says_what_it_rests_on() -> None:
    for row in BY_ID.values():
        assert bool(words.basis_words(row)) == (row.verdict is not None and row.verdict.source != "none")


# --- the lost third -------------------------------------------------------------------------------------------------


def fallen(model: str, **changes: float) -> dict[str, Any]:
    steps = {step: {"value": changes[name] / 100, "low": None, "high": None} for step, name in lost_third.STEPS.items()}
    fall = [{"step": step, "cov_r": change} for step, change in steps.items()]
    return {"model": model, "lanes": [], "fall": fall, "reordered": None}


def test_what_is_lost_is_named_once_with_its_main_cause() -> None:
    """A loss has no minus, and parts that do not add up to their sum say that they are rounded."""
    two = [fallen("fixed", forcing=0, failed=0, cut=-7.8, all=-7.8),
           fallen("short", forcing=-0.625, failed=-43.75, cut=-19.0625, all=-63.4375)]  # fmt: skip
    assert lost_third.answer(two) == (
        "Under v4.3, short loses 63.4 points, 43.8 of them because answers no longer parse; fixed loses 7.8 points, "
        "all because the placeholder cuts numbers. "
        "Forcing the SMILES alone, in canonical atom order, changes COV-R by −0.6 (short) and 0.0 (fixed) points."
    )
    whole, rounded, *_ = lost_third.details(two)
    assert whole.endswith("−7.8 because the placeholder cuts numbers, 0.0 because the SMILES is forced.")
    assert rounded.endswith("−0.6 because the SMILES is forced (each rounded).")
    gain = lost_third.answer([fallen("other", forcing=0, failed=0, cut=2.5, all=2.5)])
    assert gain.startswith("Under v4.3, other gains 2.5 points.")
    assert lost_third.answer([]) == ""
