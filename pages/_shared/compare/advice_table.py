"""The advice's table: what each LP gave and cost, each figure with its interval, and what the wanted molecules take."""

from __future__ import annotations

from typing import Any

import streamlit as st

from engine.evidence.advice import words
from engine.evidence.advice.figures import LpFigures
from engine.evidence.advice.rule import Standing
from engine.evidence.advisor import Advice
from pages._shared.compare.advice_cost import label_of, standing_word
from pages._shared.compare.state import Chosen


def show_table(advice: Advice, molecules: int, chosen: Chosen | None) -> None:
    """A row an LP, in the order in which they were asked for."""
    rows = [
        _row(advice, one, standing, molecules, chosen)
        for one, standing in zip(advice.measured.lps, advice.decision.standings, strict=True)
    ]
    if not rows:
        return
    st.dataframe(
        rows,
        hide_index=True,
        column_config=_columns(advice.asked.want, molecules),
        placeholder="–",
        alt="Each LP's rates, costs, junk, cut and RMSD",
        key="advice-table",
    )
    st.caption(
        "In brackets 95 % intervals: Wilson's for rates, else molecules drawn anew. Seconds are wall time; RMSD, kept "
        "steps and questions about forced closes are no part of it."
    )


def _row(advice: Advice, one: LpFigures, standing: Standing, molecules: int, chosen: Chosen | None) -> dict[str, Any]:
    over = "1×" if standing.over_least is None and standing.counts else words.times(standing.over_least)
    return {
        "lp": label_of(one, chosen),
        "standing": standing_word(advice, standing),
        "clean": words.percent(one.clean_rate),
        "passed": words.percent(one.pass_rate),
        "sample": words.seconds(one.seconds_a_sample),
        "usable": words.seconds(one.cost(advice.asked.want)),
        "over": over,
        "takes": words.duration(advice.expected_s(one, molecules)),
        "gives": round(advice.expected_usable(one, molecules)),
        "wins": None if standing.wins is None else 100 * standing.wins,
        "cut": words.percent(one.cut_share),
        "letters": words.percent(one.letters_share),
        "nonnumeric": words.percent(one.nonnumeric_share),
        "rmsd": words.angstrom(one.rmsd_ang),
        "repeats": 1 + one.repeats,
    }


def _columns(want: str, molecules: int) -> dict[str, Any]:
    config = st.column_config
    return {
        "lp": config.TextColumn("LP", pinned=True),
        "standing": config.TextColumn("stands", width=100),
        "clean": config.TextColumn("clean", help="Answers that passed, with every block exact or unverified"),
        "passed": config.TextColumn("passed", help="The reports' rule: junk and cut numbers may pass"),
        "sample": config.TextColumn("a sample", help="Wall time over all answers"),
        "usable": config.TextColumn(f"a {want} one", help=f"Wall time over {want} answers: the others are paid for"),
        "over": config.TextColumn("over the least", help="Its cost over the least among those that fit"),
        "takes": config.TextColumn(f"{molecules:,} take", help="As many answers, at this pace"),
        "gives": config.NumberColumn(f"{want} of them", format="localized"),
        "wins": config.NumberColumn("wins", format="%.0f %%", help="Share of draws of the molecules in which it wins"),
        "cut": config.TextColumn("blocks cut", help="Closed by force in the middle of a number"),
        "letters": config.TextColumn("with letters", help="Blocks with a letter: the reports' first count of junk"),
        "nonnumeric": config.TextColumn(
            "not numeric", help="Blocks with anything but digits . , -: their second count"
        ),
        "rmsd": config.TextColumn("RMSD", help="Mean, heavy atoms, to the nearest of some reference conformers"),
        "repeats": config.NumberColumn("runs", help="Its time is the mean of so many runs of the same work"),
    }
