"""Pairs of answers to the same question: what their differences come to, all of them as rows, one of them opened.

The pair that is opened is in the address by its samples' ids, so a link restores it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import streamlit as st

from engine.comparing.figures import Ratio
from engine.comparing.measures import MEASURES, Measure
from engine.comparing.paired import Compared, PairedRuns
from engine.comparing.scatter import Scatter
from engine.errors import one_line
from pages._shared.compare.charts_words import listed, noise, percent, plural, shortened
from pages._shared.compare.state import Chosen, inspector_address
from pages._shared.compare.table_cells import mark_of
from pages._shared.errors import escape_markdown

PAIR = "pair"
MOST_DIGITS = 9
MOST_LISTED = 5
MOST_SMILES = 80
WORDS = {
    "tokens": "tokens",
    "decode_s": "time of a sample",
    "ms_a_token": "time a token",
    "forced_share": "forced share",
    "passed": "passed",
    "clean": "clean",
    "junk_letters": "blocks with a letter",
    "junk_nonnumeric": "blocks with a non-number",
    "cut_blocks": "cut blocks",
    "bad_blocks": "bad blocks",
    "drift_abs": "mean distance of drift from 0",
    "drift": "sum of drift",
    "rmsd_ang": "RMSD",
}
UNITS = {"angstrom": "Å", "share": ""}


def unit_of(measure: Measure) -> str:
    return UNITS.get(measure.unit, measure.unit)


def value_words(value: float, measure: Measure) -> str:
    if measure.unit == "share":
        return percent(value)
    return (
        f"{value:,.0f}" if value == round(value) or abs(value) >= 1000 else f"{value:.3g}"
    ) + f" {unit_of(measure)}".rstrip()


def answer(chosen: Chosen, found: Scatter, paired: PairedRuns) -> str:
    """How many differ which way, and whether that comes to more than which molecules were asked explains."""
    control, test = chosen.letter(found.control), chosen.letter(found.test)
    name, pairs = WORDS[found.measure.name], found.points.num_rows
    if not found.shared:
        return f"{control} and {test} share no molecule, so no point can be drawn."
    if not pairs:
        return f"{plural(found.shared, 'pair')} of answers, and in none is {name} known on both sides."
    same = pairs - found.above - found.below
    counts = f"Of {plural(pairs, 'pair')}, {found.above:,} lie higher in {test}, {found.below:,} higher in {control}"
    return f"{_overall(name, found, paired, test, control)} {counts}, {same:,} are alike."


def _overall(name: str, found: Scatter, paired: PairedRuns, test: str, control: str) -> str:
    if found.measure.name not in MEASURES:
        return f"For {name} there is no interval."
    told = paired.measure(found.measure.name)
    if told.control is None or told.test is None:
        return ""
    values = [value_words(value, found.measure) for value in (told.test, told.control)]
    means = f"{test} {values[0]}, {control} {values[1]}"
    return f"Over all pairs, {name}: {means}, {_difference(told, found.measure)}."


def _difference(told: Compared, measure: Measure) -> str:
    apart = told.difference
    if apart is None or apart.low is None or apart.high is None:
        return f"no interval ({told.reason.rstrip('.') or 'too few molecules'})"
    if apart.low == apart.high == 0:
        return "no difference"
    over = None if told.ratio is None else told.ratio.value
    kind = noise(mark_of(Ratio("", told.control, told.test, over, None, None, ""), measure, told))
    scale, unit = (100, " points") if measure.unit == "share" else (1, "")
    value, low, high = (f"{scale * one:+.3g}".replace("-", "−") for one in (apart.value, apart.low, apart.high))
    return f"difference {value}{unit} [{low} to {high}], {kind}"


def rows(chosen: Chosen, found: Scatter) -> list[dict[str, object]]:
    """A row a pair, the largest difference first."""
    control, test = chosen.letter(found.control), chosen.letter(found.test)
    suffix = f" ({unit_of(found.measure)})" if unit_of(found.measure) else ""
    return [
        {
            "SMILES": one["smiles"],
            f"{control}{suffix}": one["control"],
            f"{test}{suffix}": one["test"],
            f"sample of {control}": inspector_address(found.control, one["control_sample"]),
            f"sample of {test}": inspector_address(found.test, one["test_sample"]),
        }
        for one in found.points.take(np.array(largest(found), np.int64)).to_pylist()
    ]


def links(chosen: Chosen, found: Scatter) -> dict[str, object]:
    """How the table shows its addresses."""
    link = st.column_config.LinkColumn(display_text=r"sample=(\d+)", help="Opens in the Drift inspector")
    return {f"sample of {chosen.letter(run_id)}": link for run_id in (found.control, found.test)}


# --- one pair -----------------------------------------------------------------------------------------------------


def shown_pair(found: Scatter) -> int | None:
    """The row of the pair that the address names; None where it names none of these."""
    control, _, test = st.query_params.get(PAIR, "").partition("-")
    if not all(part.isascii() and part.isdigit() and len(part) <= MOST_DIGITS for part in (control, test)):
        return None
    mine = found.points["control_sample"].to_numpy() == int(control)
    hits = np.flatnonzero(mine & (found.points["test_sample"].to_numpy() == int(test)))
    return int(hits[0]) if len(hits) else None


def put_pair(found: Scatter, row: int | None) -> None:
    if row is not None:
        (one,) = found.points.slice(row, 1).to_pylist()
        st.query_params[PAIR] = f"{one['control_sample']}-{one['test_sample']}"
    elif PAIR in st.query_params:
        del st.query_params[PAIR]


def listing(chosen: Chosen, found: Scatter, pairs: Sequence[int]) -> None:
    """The pairs of one point, or others, each with its way to both texts."""
    for one in found.points.take(np.array(pairs[:MOST_LISTED], np.int64)).to_pylist():
        _listed(chosen, found, one)
    more = len(pairs) - MOST_LISTED
    if more > 0:
        st.caption(f"And {plural(more, 'more pair')}; *Data* has them all.")


def largest(found: Scatter) -> list[int]:
    """Rows, the largest difference first; in the control's order where differences are equal."""
    apart = np.abs(found.points["test"].to_numpy() - found.points["control"].to_numpy())
    return [int(row) for row in np.argsort(-apart, kind="stable")]


def differing(found: Scatter) -> list[int]:
    """The same without pairs that are alike."""
    return largest(found)[: found.above + found.below]


def _listed(chosen: Chosen, found: Scatter, one: dict) -> None:
    sides = ((found.control, "control"), (found.test, "test"))
    said = [f"{chosen.letter(run_id)} {value_words(one[side], found.measure)}" for run_id, side in sides]
    with st.container(gap="xxsmall", key=f"pair-{one['control_sample']}"):
        smiles = shortened(one_line(one["smiles"]).replace("`", ""), MOST_SMILES)  # an imported one may be any text
        st.markdown(f"`{smiles}`  \n{escape_markdown(listed(said))}")
        with st.container(horizontal=True):
            for run_id, side in sides:
                st.link_button(
                    f"Inspect {chosen.letter(run_id)}",
                    inspector_address(run_id, one[f"{side}_sample"]),
                    icon=":material/troubleshoot:",
                    type="tertiary",
                    help="Opens this sample in the Drift inspector",
                )
