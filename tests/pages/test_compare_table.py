"""The table of runs side by side: marks and words that are no stronger than the figures, files, hostile names."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from engine.comparing.coverage import CoverageRequest, coverage_of
from engine.comparing.figures import Comparison, Ratio
from engine.comparing.measures import MEASURES
from engine.comparing.paired import Compared
from engine.figures.statistics import Interval
from engine.figures.words import percent
from engine.lp_records import GuardSettings
from engine.store.schema import SAMPLES
from engine.store.store import Store
from pages._compare import table_formats as formats
from pages._compare import table_words as words
from pages._compare.table_cells import LINES, FigureCell, FigureRow, cell_of, mark_of, rows_of
from pages._compare.table_coverage import work_of
from pages._compare.table_formats import RunColumn
from pages._compare.table_words import alone, lead, sentence
from pages._shared.html_table import plain_table, safe
from tests.engine.comparing.by_id import compare_with
from tests.engine.evidence.advice_runs import add
from tests.engine.inspection.made import DEMO_STORE, demo_run, sample_row, step_row, write_run
from tests.engine.store.stored_runs import begun, published
from tests.pages.drift_stores import OVERRIDE, store_at

NONE, EXACT, BLOCKED = (demo_run("qwen", lp) for lp in ("none", "exact", "group-v2.1"))
BLOCKS = DEMO_STORE.entry(NONE).row["blocks"]
REPORTED = "reported-002-qwen-lp-64"
HOSTILE = "<img src=x onerror=alert(1)>|[a](http://b.c)" + OVERRIDE


def compared(value: float, low: float | None, high: float | None, ratio: float = 1.0) -> Compared:
    """Of time: a difference with its interval, and a ratio."""
    return Compared("wall_part_s", 9, 9, 1.0, 1.0, Interval(value, low, high), Interval(ratio, low, high), "why not")


def mark(told: Compared | None, ratio: float | None = 1.0, measure: str = "wall_part_s") -> str:
    return mark_of(Ratio("", 1.0, ratio, ratio, None, None, ""), MEASURES[measure], told)


@pytest.fixture(scope="module")
def demo() -> tuple[Comparison, list[FigureRow]]:
    found = compare_with(DEMO_STORE, NONE, [EXACT, BLOCKED, REPORTED])
    return found, rows_of(found, {})


# --- marks and numbers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("told", "ratio", "measure", "expected"),
    [
        (compared(-0.5, -0.6, -0.4, 0.5), 0.5, "wall_part_s", "better"),
        (compared(0.5, 0.4, 0.6, 1.5), 1.5, "wall_part_s", "worse"),
        (compared(0.5, 0.4, 0.6, 1.5), 1.5, "passed", "better"),
        (compared(0.5, 0.4, 0.6, 1.5), 1.5, "forced_share", "differs"),
        (compared(0.1, -0.4, 0.6, 1.1), 1.1, "wall_part_s", "noise"),
        (compared(0.0, 0.0, 0.0), 1.0, "wall_part_s", "same"),
        (compared(0.03, 0.01, 0.05, 1.03), 1.03, "wall_part_s", "doubtful"),  # a few per cent of time
        (compared(0.03, 0.01, 0.05, 1.03), 1.03, "tokens", "worse"),  # tokens are counted, not timed
        (compared(0.5, 0.4, 0.6, 1.5), 0.9, "passed", "doubtful"),  # the runs as wholes say the opposite
        (compared(0.5, None, None, 1.5), 1.5, "wall_part_s", "unknown"),
        (None, 1.5, "wall_part_s", "unknown"),
        (compared(0.5, 0.4, 0.6), None, "wall_part_s", ""),
    ],
)
def test_a_mark_is_no_stronger_than_its_interval(
    told: Compared | None, ratio: float | None, measure: str, expected: str
) -> None:
    assert mark(told, ratio, measure) == expected


def test_every_mark_has_a_sign_and_a_word_of_its_own() -> None:
    for said in zip(*words.MARKS.values(), strict=True):
        assert len(set(said)) == len(words.MARKS)


@pytest.mark.parametrize(
    ("value", "form", "expected"),
    [
        (None, "number", "–"),
        (float("nan"), "number", "–"),
        (0.0, "number", "0"),
        (0.08169, "number", "0.082"),
        (1.7709, "number", "1.77"),
        (32.767, "number", "32.8"),
        (1619.4, "number", "1,619"),
        (0.00012, "number", "1.2e-04"),
        (-0.25, "number", "−0.250"),
        (38195, "count", "38,195"),
        (0.0, "share", "0"),
        (1.0, "share", "100"),
        (0.0313, "share", "3.1"),
        (0.0001, "share", "<0.1"),
        (0.9999, "share", ">99.9"),
    ],
)
def test_numbers_have_sensible_digits(value: float | None, form: Any, expected: str) -> None:
    assert words.value_words(value, form) == expected


def test_an_interval_names_the_answers_own_ratio_where_the_runs_lie_outside() -> None:
    told = compared(-0.5, 0.4, 0.6, 0.5)
    assert words.range_words(FigureCell(1.0, ratio=0.5, mark="better", compared=told)) == "0.400–0.600×"
    assert (
        words.range_words(FigureCell(1.0, ratio=0.7, mark="better", compared=told))
        == "by answers 0.500× (0.400–0.600×)"
    )


# --- what is said -----------------------------------------------------------------------------------------------------


FASTER = r"(\d\.\d\d)× faster per sample \(95 % CI (\d\.\d\d)–(\d\.\d\d)\)"


def test_the_sentence_of_the_exact_lp(demo: tuple[Comparison, list[FigureRow]]) -> None:
    comparison, rows = demo
    said = sentence(1, comparison.control, comparison.tests[0], rows)
    ratio, low, high = map(float, re.match(FASTER, said).groups())  # type: ignore[union-attr]
    assert low < ratio < high
    assert "same pass rate (100 % of 64 samples in both)" in said
    assert f"only numeric characters and nothing cut in {BLOCKS} blocks" in said
    assert re.search(r"the same RMSD \(0\.\d{3} Å\)\.$", said)


def test_table_and_sentence_give_a_time_in_one_direction(demo: tuple[Comparison, list[FigureRow]]) -> None:
    comparison, rows = demo
    said = sentence(1, comparison.control, comparison.tests[0], rows)
    html = formats.table(columns_like(comparison), rows, "figures")
    (faster,) = re.findall(r"(\d\.\d\d×) faster per sample", said)
    assert f"<span>{faster} faster</span>" in html
    assert "usable (control " in said  # also where it does not differ
    shorter = lead(1, comparison.control, comparison.tests[0], rows)
    faster = re.match(rf"(\d\.\d\d×) faster per sample; .*% usable .* nothing cut in {BLOCKS} blocks\.$", shorter)
    assert faster and f"<span>{faster[1]} faster</span>" in html


def test_drift_that_no_template_wrote_is_hypothetical_and_not_compared(
    demo: tuple[Comparison, list[FigureRow]],
) -> None:
    comparison, rows = demo
    control, exact, blocked, _ = next(row for row in rows if row.line.figure == "drift_abs_mean").cells
    assert control.origin == exact.origin == "hypothetical" != blocked.origin
    assert (blocked.ratio, blocked.mark) == (None, "") and "hypothetical" in blocked.reason
    assert '<span class="own">hypothetical</span>' in formats.table(columns_like(comparison), rows, "figures")


def test_each_pass_rate_is_its_own_runs() -> None:
    comparison = compare_with(DEMO_STORE, demo_run("llama", "none"), [demo_run("llama", "group-v2.1")])
    said = sentence(1, comparison.control, comparison.tests[0], rows_of(comparison, {}))
    assert "same pass rate (100 % of 64 samples in both)" in said


def test_the_sentence_of_a_position_lp_says_junk_cut_and_on_how_many_pairs(
    demo: tuple[Comparison, list[FigureRow]],
) -> None:
    (comparison, rows), row = demo, DEMO_STORE.entry(BLOCKED).row
    said = sentence(2, comparison.control, comparison.tests[1], rows)
    assert "× the wall time per sample" in said and "too close to call with one run each" in said
    assert "clean (control 100 %)" in said and row["rmsd_samples"] == 1
    assert "RMSD with no interval over 1 pair of 1 molecule where both are known" in said
    none = compare_with(DEMO_STORE, NONE, [demo_run("qwen", "group-v4.3")])  # some decode, by the group's reader
    assert words.NO_CONFORMER in sentence(1, none.control, none.tests[0], rows_of(none, {}))
    junk, cut = (f"{100 * row[name] / BLOCKS:.1f} %" for name in ("junk_nonnumeric", "cut_blocks"))
    assert f"{junk} of blocks not numeric (control none); {cut} of blocks cut (control none)" in said


def test_runs_that_are_apart_are_not_as_fast_because_their_own_molecules_are(tmp_path: Path) -> None:
    """Half the molecules are the test's own, and small: the whole run takes half the time, the shared ones as long."""
    store = store_at(tmp_path)
    for run_id, names, wall_s in (("control", "ABCDEFGH", 8.0), ("test", "ABCDEFGHIJKLMNOP", 8.0)):
        seconds = [1.0 if name < "I" else 1e-6 for name in names]
        rows = [sample_row(n, smiles=name, decode_s=s) for n, (name, s) in enumerate(zip(names, seconds, strict=True))]
        write_run(store, run_id, rows, wall_s=wall_s)
    cell = cell_of(rows_of(compare_with(store, "control", ["test"]), {}), "wall_s_a_sample", 1)
    assert (cell.value, cell.ratio) == pytest.approx((0.5, 1.0), abs=1e-5)
    assert words._time(cell).startswith("about as fast (1.00× the wall time per sample, ")


def test_a_reported_run_makes_no_verdict(demo: tuple[Comparison, list[FigureRow]]) -> None:
    comparison, rows = demo
    said = sentence(3, comparison.control, comparison.tests[2], rows)
    stated = r"its figures are stated by a report; \d\.\d\d× the time by wall time per sample"
    assert re.fullmatch(rf"{stated} \(reported beside measured\)\.", said)
    assert {row.cells[3].mark for row in rows} <= {"", "unknown"}
    assert cell_of(rows, "junk_nonnumeric_share", 3).value is None


def test_a_run_alone_is_told_with_wilsons_interval() -> None:
    found = compare_with(DEMO_STORE, NONE, [])
    said = alone(found.control, rows_of(found, {}))
    assert said == (
        "100 % of 64 samples passed (95 % interval 94.3–100 %); 100 % decode; 100 % clean; "
        f"{percent(found.control.usable_rate)} usable; only numeric characters and nothing cut in {BLOCKS} blocks."
    )


def test_blocks_that_nobody_verified_are_not_called_whole(tmp_path: Path) -> None:
    store = store_at(tmp_path)
    staging = begun(store.home, "one", 1)
    tables = {SAMPLES.name: SAMPLES.rows([{"run_id": "one", **sample_row(0)}])}
    staging.add(tables, [0], sums={"samples": 1, "blocks": 4, "cut_blocks": 0, "unverified_blocks": 3}, peaks={})
    published(staging)
    found = compare_with(store, "one", [])
    assert "nothing known to be cut, 3 of 4 blocks unverified" in alone(found.control, rows_of(found, {}))


def test_runs_that_do_not_share_molecules_say_so(tmp_path: Path) -> None:
    store = store_at(tmp_path)
    apart(store)
    paired = compare_with(store, "one", ["two", "part"]).tests
    assert words.sharing("B", "A", paired[0].paired).startswith("B and A share no molecule")
    partly = words.sharing("C", "A", paired[1].paired)
    assert "share 4 molecules (4 pairs of answers); 4 answers of A and 4 answers of C are not paired" in partly
    assert "4 molecules are only in A, 4 only in C" in partly
    itself = compare_with(store, "one", ["one"]).tests[0].paired
    assert words.sharing("B", "A", itself) == ""


def apart(store: Store) -> None:
    """Runs of eight molecules: two that share none, and one that shares half with the first."""
    for run_id, first in (("one", 0), ("two", 20), ("part", 4)):
        rows = [sample_row(number, smiles="C" * (first + number + 1), tokens=9, decode_s=1.0) for number in range(8)]
        write_run(store, run_id, rows)


def test_what_else_differs_is_named_by_letters(tmp_path: Path) -> None:
    store = store_at(tmp_path)
    for run_id, size, lp in (("one", 32, "none"), ("two", 32, "exact"), ("three", 64, "group-v2.1")):
        known: dict[str, Any] = {"judged_with": f"posebusters, {'group' if size == 64 else 'mol_fast'}"}
        known |= {"backend": "fast", "placeholder": "0.0,0.0,0.0"}
        write_run(store, run_id, [sample_row(0)], batch_size=size, lp=lp, **known)
    runs = list(zip("ABC", (store.entry(run_id) for run_id in ("one", "two", "three")), strict=True))
    judged = "checks of geometry (AB posebusters, mol_fast, C posebusters, group)"
    assert words.setup_differences(runs) == f"batch size (AB 32, C 64); {judged}"


def test_guards_of_other_settings_are_named(tmp_path: Path) -> None:
    store = store_at(tmp_path)
    usual = json.dumps(asdict(GuardSettings()))
    guards = (usual, '{"retries": 99, "checks": ["bonds", "flat"]}', "mended")
    for run_id, guard in zip("xyz", guards, strict=True):
        write_run(store, run_id, [sample_row(0)], lp="guarded", guard=guard)
    runs = list(zip("ABC", (store.entry(run_id) for run_id in "xyz"), strict=True))
    assert words.setup_differences(runs) == "guard (A usual, B retries 99, checks bonds flat, C mended)"
    assert words.setup_differences(runs[:1]) == ""


def test_what_an_lp_costs_the_model_is_a_row_and_a_sentence(tmp_path: Path) -> None:
    store = store_at(tmp_path)
    add(store, "exact", log_w=-0.05, run_id="one")
    add(store, "group-v4.3", log_w=-90.0, run_id="two")
    found = compare_with(store, "one", ["two"])
    rows = rows_of(found, {})
    log_w, share = (next(row for row in rows if row.line.figure == name) for name in ("log_w", "effective_share"))
    assert [cell.value for cell in log_w.cells] == pytest.approx([-0.05, -90.0])
    assert [cell.low for cell in log_w.cells] == pytest.approx([-0.05, -90.0])
    assert [cell.value for cell in share.cells] == pytest.approx([1, 1])
    assert words.own_interval(log_w.cells[1], "number") == "−90.0 to −90.0"
    assert words.costs([found.control, found.tests[0].figures]) == (
        "What the LP costs the model: exact leaves the model what it would have written (log w −0.05 per sample, "
        "effective sample size 60 of 60); group-v4.3 draws from another distribution (log w −90.0 per sample, "
        "effective sample size 60 of 60)."
    )


def test_steps_of_samples_that_are_not_there_cost_only_the_lps_cost(tmp_path: Path) -> None:
    store = store_at(tmp_path)
    add(store, "exact", log_w=-0.05, run_id="one")
    steps = [step_row(7, 0, ln_p=-1.0, ln_p_tempered=-1.0, ln_mass=-1.0, ln_q=0.0)]
    write_run(store, "two", [sample_row(0)], steps=steps, lp="group-v4.3")
    found = compare_with(store, "one", ["two"])
    assert found.control.lp_cost is not None and found.tests[0].figures.lp_cost is None
    assert words.costs([found.control, found.tests[0].figures]).endswith(
        "What it costs is not known: two: steps are of sample 7, and its run has none of that number."
    )


def test_without_known_chances_nothing_is_said_of_the_lps_cost(demo: tuple[Comparison, list[FigureRow]]) -> None:
    assert words.costs([demo[0].control]) == ""


# --- coverage ---------------------------------------------------------------------------------------------------------


def test_computed_coverage_is_compared_with_computed_alone(tmp_path: Path) -> None:
    store = store_at(tmp_path)
    write_run(store, "stated", [sample_row(0)], extra=json.dumps({"COV-R": 0.681}))
    write_run(store, "other", [sample_row(0)])
    asked = CoverageRequest(references=1)
    found = {one: coverage_of(store, store.entry(one), asked) for one in ("stated", "other")}
    coverages = {run_id: one for run_id, one in found.items() if one is not None}
    rows = rows_of(compare_with(store, "stated", ["other"]), coverages)
    control, test = (cell_of(rows, "cov_r", column) for column in (0, 1))
    assert (control.value, control.origin) == (0.681, "stated")
    assert (test.value, test.origin, test.ratio, test.mark) == (0.0, "computed", None, "unknown")
    precision = cell_of(rows, "cov_p", 1)
    assert (precision.value, precision.mark, precision.reason) == (
        0.0,
        "unknown",
        "Fewer than 6 molecules: no interval.",
    )


class Stopping:
    """A worker's control that is cancelled after some molecules."""

    def __init__(self, molecules: int) -> None:
        self.left = molecules
        self.notes: list[str] = []

    def cancelled(self) -> bool:
        self.left -= 1
        return self.left < 0

    def progress(self, done: int, total: int, note: str) -> None:
        self.notes.append(note)


def test_the_work_tells_how_far_it_is_and_ends_when_cancelled(tmp_path: Path) -> None:
    store = store_at(tmp_path)
    for run_id in ("one", "two"):
        write_run(store, run_id, [sample_row(number, smiles=smiles) for number, smiles in enumerate(("CC", "CO"))])
    control = Stopping(3)
    work = work_of(store, [store.entry("one"), store.entry("two")], CoverageRequest(references=1))
    done = list(work(control))  # type: ignore[arg-type]
    assert [one.run_id for one in done] == ["one"]
    assert control.notes[-1] == "run 2 of 2, molecule 1 of 2"


# --- hostile names ----------------------------------------------------------------------------------------------------


def hostile_column(number: int = 0) -> RunColumn:
    return RunColumn(f"run-{number}", HOSTILE, "#000000", HOSTILE, 1, True)


def test_a_name_is_text_in_the_table() -> None:
    row = FigureRow(LINES[0], (FigureCell(1.0, reason=HOSTILE, mark="unknown"),))
    made = formats.table([hostile_column()], [row], HOSTILE)
    assert "<img" not in made and "\u202e" not in made and "</script>" not in made
    assert made.count("&lt;img src=x onerror=alert(1)&gt;") >= 3
    made = plain_table(["a", HOSTILE], [[HOSTILE, HOSTILE]], HOSTILE)
    assert "<img" not in made and "\u202e" not in made


def test_half_a_character_can_be_sent() -> None:
    assert safe("a\ud800").encode("utf-8") == b"a\\ud800"


def test_a_table_has_headings_of_rows_and_columns(demo: tuple[Comparison, list[FigureRow]]) -> None:
    comparison, rows = demo
    columns = columns_like(comparison)
    made = formats.table(columns, rows, "what it is")
    assert made.count('<th scope="col"') == 4 and made.count('<th scope="rowgroup"') == 4
    assert made.count('<th scope="row"') == len(rows)
    assert made.count('<td class="reported"') == len(rows)
    assert "<caption>what it is</caption>" in made and "<script" not in made


def columns_like(comparison: Comparison) -> list[RunColumn]:
    sides = [(comparison.control, None), *((test.figures, test.paired) for test in comparison.tests)]
    return [RunColumn(run.run_id, run.name, "#000", run.origin, run.samples, True, paired) for run, paired in sides]


def test_files_say_what_the_table_says(demo: tuple[Comparison, list[FigureRow]]) -> None:
    comparison, rows = demo
    columns = columns_like(comparison)
    document = json.loads(formats.json_of(columns, rows, ["said"]))
    assert document["control"] == NONE and document["says"] == ["said"]
    (fast,) = (one for one in document["figures"] if (one["run_id"], one["figure"]) == (EXACT, "wall_s_a_sample"))
    assert (fast["mark"], fast["answers"], fast["ratio_low"] <= fast["ratio_high"] < 0.3) == ("better", 64, True)
    read = list(csv.DictReader(io.StringIO(formats.csv_of(columns, rows).decode())))
    assert len(read) == len(document["figures"])
    lines = formats.markdown_of(columns, rows, ["said"]).decode().splitlines()
    table = [line for line in lines if line.startswith("|")]
    assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table}) == 1
    assert any(re.match(r"\| wall time per sample \(s\) \| 0\.\d+ \| 0\.\d+ \(\d\.\d+× fast", line) for line in table)


def test_files_of_hostile_names_have_their_cells_and_no_formula() -> None:
    column = RunColumn("=1+1", HOSTILE, "#000", "measured", 1, True)
    row = FigureRow(LINES[0], (FigureCell(1.0, origin="measured"),))
    (read,) = csv.DictReader(io.StringIO(formats.csv_of([column], [row]).decode()))
    assert read["run_id"] == "'=1+1" and "\u202e" not in read["name"]
    assert "| '=1+1 |" in formats.markdown_of([replace(column, name="=1+1")], [row], []).decode()
    text = formats.markdown_of([column], [row], [HOSTILE]).decode()
    assert "<img" not in text.replace("\\<img", "") and "[a](" not in text.replace("\\[a\\](", "")
