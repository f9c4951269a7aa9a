"""The claims as data: sound, complete against the reports' own texts, and in nobody's words but ours."""

from collections import Counter

import pytest

from engine.errors import FileFormatError
from engine.evidence.checks import CHECKS
from engine.evidence.claims import FOLDER, REPORTS, Claim, files_of, load_claims, sections_of
from engine.evidence.formula import figures_of as named_in
from tests.engine.evidence import seeds

CLAIMS = load_claims()
MOST_SHARED_WORDS = 7
needs_texts = pytest.mark.skipif(not seeds.FOLDER.is_dir(), reason=seeds.REASON)

SILENT = {
    ("000", "Validation"): "a command to run",
    ("001", "Queries"): "SQL to run",
    ("001", "Questions"): "questions",
    ("001", "Actions"): "what to do next",
    ("002", "B"): "lines of source",
    ("002", "C"): "commands to run",
}
"""Sections that claim nothing, and what they hold."""


def test_every_report_has_claims_and_ids_begin_with_it() -> None:
    counts = Counter(claim.report for claim in CLAIMS)
    assert set(counts) == set(REPORTS)
    assert all(claim.id.startswith(f"{claim.report}-") for claim in CLAIMS)
    assert {report for report, count in counts.items() if count < 30} == set(), counts


def test_claims_stand_in_the_order_of_their_reports() -> None:
    sections = {report: sections_of(report) for report in REPORTS}
    places = [(claim.report, sections[claim.report].index(claim.section)) for claim in CLAIMS]
    assert places == sorted(places)


def test_claims_are_whole() -> None:
    for claim in CLAIMS:
        assert claim.statement.endswith("."), claim.id
        assert claim.subject, claim.id
        assert claim.check in CHECKS, claim.id
        assert claim.value is None or claim.values[0] == claim.value, claim.id
        assert claim.least is None or claim.most is None or claim.least <= claim.most, claim.id


def test_checks_name_claims_that_exist() -> None:
    ids = {claim.id for claim in CLAIMS}
    ids |= {f"{claim.id}.{at}" for claim in CLAIMS for at in range(len(claim.values))}
    for claim in CLAIMS:
        given = claim.arguments
        formulas = [given.get("formula", ""), given.get("measure", ""), *given.get("where", {}).values()]
        named = [name for formula in formulas for name in named_in(formula) if "/" not in name]  # of the experiment
        assert not {*named, *given.get("others", ()), *given.get("one", ()), *given.get("other", ())} - ids, claim.id


def test_no_formula_asks_the_figure_that_it_judges() -> None:
    """Parts of a claim's own sum are figures of the report; the sum itself would judge itself."""
    for claim in CLAIMS:
        if claim.check == "formula":
            asked = {*named_in(claim.arguments["formula"])}
            assert not asked & {claim.id, f"{claim.id}.0"}, claim.id


@pytest.mark.parametrize(
    ("given", "least", "value", "most", "reported"),
    [
        ("value = 3.51", 3.505, 3.51, 3.515, "3.51"),
        ("value = 3.50", 3.495, 3.5, 3.505, "3.50"),
        ("value = 48_440", 48_440, 48_440, 48_440, "48,440"),
        ("value = 96_000\nrounded_to = 1_000", 95_500, 96_000, 96_500, "96,000"),
        ("value = 10\nabout = true", 9, 10, 11, "about 10"),
        ("range = [13, 19]", 13, None, 19, "13 to 19"),
        ("at_most = 9", None, None, 9, "9 or less"),
        ("at_least = 2", 2, None, None, "2 or more"),
        ("value = 1e38", 1e38, 1e38, 1e38, "1e+38"),
        ("", None, None, None, ""),
    ],
)
def test_what_a_figure_may_have_been_rounded_from(tmp_path, given, least, value, most, reported) -> None:
    claim = _written(tmp_path, f'{BARE}\n{given}\ncheck.by = "needs"\n')
    assert (claim.value, claim.reported) == (value, reported)
    assert claim.least == pytest.approx(least)
    assert claim.most == pytest.approx(most)


BARE = '[[claim]]\nid = "one"\nsection = "Models"\nsubject = "a"\nstatement = "b."'


def _written(folder, text: str) -> Claim:
    """The only claim of a copy of the files in which report 004 says this."""
    for path in files_of():
        (folder / path.name).write_bytes(path.read_bytes())
    sections = (FOLDER / "004.toml").read_text(encoding="utf-8").partition("[[claim]]")[0]
    (folder / "004.toml").write_text(f"{sections}\n{text}", encoding="utf-8")
    (claim,) = [claim for claim in load_claims(folder) if claim.report == "004"]
    return claim


@pytest.mark.parametrize(
    "text",
    [
        "not toml [",
        "[[claim]]\n",
        f'{BARE}\nunknown = 1\ncheck.by = "needs"\n',
        f'{BARE}\nrange = [2, 1]\ncheck.by = "needs"\n',
        f"{BARE}\nvalue = 1\n",
        f'{BARE}\nvalue = "1"\ncheck.by = "needs"\n',
        BARE.replace("Models", "Nowhere") + '\ncheck.by = "needs"\n',
        f'{BARE}\ncheck.by = "needs"\n{BARE}\ncheck.by = "needs"\n',
    ],
)
def test_a_damaged_file_is_named(tmp_path, text) -> None:
    with pytest.raises(FileFormatError):
        _written(tmp_path, text)


def test_a_missing_file_is_named(tmp_path) -> None:
    with pytest.raises(FileFormatError, match="cannot be read"):
        load_claims(tmp_path)


# --- against the reports' own texts --------------------------------------------------------------------------------


@needs_texts
@pytest.mark.parametrize("report", seeds.STARTS)
def test_every_section_of_the_text_is_known_and_claims_something(report) -> None:
    named = sections_of(report)
    assert named == tuple(seeds.STARTS[report].values())
    last = len(seeds.lines_of(report))
    assert max(seeds.STARTS[report]) < last
    counts = Counter(section for claim in CLAIMS if claim.report == report for section in claim.sections)
    silent = {section for section in named if not counts[section]}
    assert silent == {section for where, section in SILENT if where == report}, counts


@needs_texts
@pytest.mark.parametrize("report", seeds.STARTS)
def test_every_figure_of_the_text_is_covered_in_its_section(report) -> None:
    """A figure is covered by a claim of the same section that has it, or is named with a reason as claiming nothing."""
    figures = seeds.figures_of(report)
    assert len(figures) > 100
    covered: dict[str, list[float]] = {}
    for claim in CLAIMS:
        for section in claim.sections if claim.report == report else ():
            covered.setdefault(section, []).extend(claim.values)
    lost = [
        f"line {figure.line} ({figure.section}): {figure.text}"
        for figure in figures
        if not seeds.is_allowed(report, figure)
        and not any(
            value == pytest.approx(known) for value in figure.values for known in covered.get(figure.section, [])
        )
    ]
    assert not lost


@needs_texts
def test_every_allowance_is_used() -> None:
    unused = []
    for report, allowances in seeds.ALLOWED.items():
        figures = seeds.figures_of(report)
        for first, last, which, why in allowances:
            texts = {figure.text for figure in figures if first <= figure.line <= last}
            unused += [f"{report}, {first}: {text} ({why})" for text in which.split() if text not in {"*", *texts}]
            assert texts, (report, first)
    assert not unused


@needs_texts
def test_no_sentence_of_the_reports_is_copied() -> None:
    runs = {run for report in seeds.STARTS for run in _runs(seeds.words_of("\n".join(seeds.lines_of(report))))}
    assert len(runs) > 3_000
    for path in sorted(FOLDER.glob("*")):
        copied = runs & set(_runs(seeds.words_of(path.read_text(encoding="utf-8"))))
        assert not copied, (path.name, copied)


def _runs(words: list[str]) -> list[tuple[str, ...]]:
    length = MOST_SHARED_WORDS + 1
    return [tuple(words[at : at + length]) for at in range(len(words) - length + 1)]
