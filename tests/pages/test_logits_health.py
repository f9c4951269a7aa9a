"""The Logit health page by its state: what is said of a log, its figures, and what nobody should have made."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path

import pandas as pd
import pytest

from engine.logits import windows
from engine.logits.distribution import distribution
from engine.store.schema import LOGIT_LOG
from engine.store.store import DEMO, Store
from pages._logits import health_distribution, health_map_figure
from pages._shared.theme import DARK, LIGHT
from tests.engine.logits.logs import clean
from tests.pages.logit_logs import (
    DAMAGES,
    HOSTILE,
    LONG,
    OVERRIDE,
    add,
    damaged_rows,
    lose_values,
    spoil_sheet,
    spoil_values,
    store_at,
)
from tests.pages.logit_pages import Made, Open, all_logs, charts, opener, said, tables


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """No test changes it."""
    return all_logs(tmp_path_factory.mktemp("logs"))


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Open:
    return opener(monkeypatch)


# --- health ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "title", "badge"),
    [
        ("uninitialised", "Uninitialised memory", "damaged (likely)"),
        ("freed", "Use after free", "damaged (certain)"),
        ("stale", "Stale buffer, not rewritten for the token", "damaged (likely)"),
        ("not_written", "Buffer never written", "damaged (certain)"),
        ("overflow", "Numeric overflow", "damaged (likely)"),
        ("masked", "Masked on purpose", "on purpose (certain)"),
        ("padding", "Vocabulary padding, rows without a token", "on purpose (certain)"),
    ],
)
def test_each_damage_is_named_with_its_cause(opened: Open, made: Made, name: str, title: str, badge: str) -> None:
    app = opened(made[0], view="Health", log=made[1][name].id)
    words = said(app)
    assert f"**{title}** :" in words and badge in words and "\n- " in words
    rival = "Uninitialised memory can look the same. A copy logged at the step tells: right there, it was" in words
    assert rival == (name == "freed")  # however sure the evidence
    assert not app.error and len(app.metric) == 4
    assert [one.value for one in app.subheader][1:] == [
        "Where are the flags?",
        "How are the values distributed?",
        "Which positions?",
        "Which values, and why?",
    ]


def test_a_clean_log_says_so_everywhere(opened: Open, made: Made) -> None:
    app = opened(made[0], view="Health", log=made[1]["clean"].id)
    words = said(app)
    assert "No sign of damage in the 60 entries (720 values)" in words
    assert "No value of this text's 60 entries has a flag." in words
    assert "720 values without a flag" in words and "None of 720 values has a flag." in words
    assert "Of 12 positions, 0 have damage." in words
    assert [(one.label, one.value) for one in app.metric][:3] == [
        ("Damaged entries", "0 %"),
        ("Damaged values", "0 %"),
        ("Positions", "0"),
    ]


def test_two_logs_and_the_details_of_one(opened: Open, made: Made) -> None:
    asked = {"view": "Health", "log": made[1]["freed"].id, "beside": made[1]["again"].id}
    app = opened(made[0], **asked)
    assert [one.value for one in app.metric][::4] == ["50.0 %", "41.7 %"]
    assert "120 values of its 60 entries are damaged, the first at token 0." in said(app)
    words = said(opened(made[0], **asked, of="B"))
    assert "45 values of its 60 entries are damaged, the first at token 5." in words


def test_flagged_values_have_reasons_and_filters(opened: Open, made: Made) -> None:
    asked = {"view": "Health", "log": made[1]["again"].id}
    rows = tables(opened(made[0], **asked))[-1]
    assert len(rows) == 45
    assert rows.iloc[0][["token_idx", "position", "value", "flags"]].to_list() == [5, 0, "-46580", "outlier"]
    assert "from the median of its entry's values" in rows.iloc[0]["reason"]
    assert len(tables(opened(made[0], **asked, flags="zero"))[-1]) == 8
    assert len(tables(opened(made[0], **asked, at="4"))[-1]) == 4
    app = opened(made[0], view="Health", log=made[1]["masked"].id)
    assert "No value matches. Remove a filter, or include masks and padding." in said(app)
    rows = tables(opened(made[0], view="Health", log=made[1]["masked"].id, meant="true"))[-1]
    assert len(rows) == 120 and not rows["is_damaged"].any()


def test_windows_of_a_long_text(opened: Open, tmp_path: Path) -> None:
    store, rows = store_at(tmp_path), clean(900, 40)
    rows[700, 3] = 1e30
    add(store, tmp_path, "long", rows, model="long")
    app = opened(store, view="Health")
    assert app.number_input(key="token").value == 660  # the window of the first damage
    assert app.number_input(key="position").value == 0
    bars, cells = (json.loads(chart) for chart in charts(app)[:2])
    assert sum(bars["data"][0]["y"]) == 1
    assert "Flags of tokens 660 to 719 at positions 0 to 23" in app.get("plotly_chart")[1].proto.alt
    app = opened(store, view="Health", token="120", position="24", tokens="30", positions="12")
    assert "Flags of tokens 120 to 149 at positions 24 to 35" in app.get("plotly_chart")[1].proto.alt
    app = opened(store, view="Health", token="5000", tokens="7", positions="x", text="nowhere", flags="none", at="x")
    assert not app.exception and not app.error
    assert cells["data"][0]["zmax"] == len(windows.KINDS) - 0.5


def test_a_small_log_needs_no_windows(opened: Open, tmp_path: Path) -> None:
    store = store_at(tmp_path)
    add(store, tmp_path, "one", clean(1, 1))
    app = opened(store, view="Health")
    assert not app.exception and not app.error and not app.number_input
    assert "Flags of tokens 0 to 0 at positions 0 to 0: 1 nothing wrong." in app.get("plotly_chart")[0].proto.alt


def test_a_text_goes_by_its_source(opened: Open) -> None:
    """In the demo's logs: the SMILES that the text was written for."""
    log = next(entry for entry in Store.open(DEMO).found(LOGIT_LOG).entries if entry.row["engine"] == "llama.cpp")
    app = opened(Store.open(DEMO), view="Health", log=log.id)
    assert "This is one of 4 texts, from c1ccoc1." in said(app)


@pytest.mark.parametrize("model", ["demo-qwen:final", "demo-llama:final"])
def test_a_log_read_after_the_next_call_is_never_called_sound(opened: Open, model: str) -> None:
    """Every value of it is a real logit, of the next token: no rule over one log flags any."""
    store = Store.open(DEMO)
    logs = {entry.row["engine"]: entry for entry in store.found(LOGIT_LOG).entries if entry.row["model"] == model}
    late, right = logs["llama.cpp read after the next call"], logs["llama.cpp read at the step"]
    words = said(opened(store, view="Health", log=late.id))
    assert "**Read late** :red-badge" in words and "No sign of damage in the" not in words
    words = said(opened(store, view="Health", log=right.id))
    assert "Read late" not in words and "A late read (values of the next token) would show only beside" in words
    (warning,) = [one.value for one in opened(store, view="Parity", log=right.id, beside=late.id).warning]
    assert warning.startswith("B was probably read late")


# --- figures --------------------------------------------------------------------------------------------------------


def test_every_kind_has_a_letter_a_word_and_a_fill_of_its_own() -> None:
    kinds = windows.KINDS
    looks = health_map_figure.LOOKS
    assert len({look.letter for look in looks.values()}) == len({look.words for look in looks.values()}) == len(kinds)
    for colours in (LIGHT, DARK):
        assert len({looks[kind].colour(colours) for kind in kinds}) == len(kinds)


def test_cells_say_value_flag_and_reason(made: Made) -> None:
    store, log = made[0], made[1]["again"]
    text = windows.texts(store, log)[0]
    found = windows.window(store, log, text, first=0, last=11, first_token=0, last_token=59)
    figure = json.loads(health_map_figure.cells(found).figure().to_json())["data"][0]
    shown = [re.sub("<[^>]*>", "", figure["text"][row][column]) for row, column in ((0, 5), (8, 10), (1, 1))]
    assert shown == ["O", "0", ""]
    assert figure["hovertext"][0][5].startswith("token 5, position 0<br><b>−46,580</b> outlier<br>−46580 is 46")
    places = [place for place, _ in figure["colorscale"]]
    assert places[0] == 0 and places[-1] == 1 and places == sorted(places)
    legend = health_map_figure.legend(found)
    assert ">O</b>outlier <small>25</small>" in legend and "pointer" not in legend
    assert len(health_map_figure.rows(found)) == 45


def test_the_axis_has_ticks_that_can_be_read(made: Made) -> None:
    for name in DAMAGES:
        found = distribution(made[0], made[1][name])
        ticks = sorted(health_distribution._ticks(found))
        low, high = health_distribution._span(found)
        apart = health_distribution.LEAST_APART * (high - low)
        assert ticks and all(second - first >= apart * 0.999 for first, second in pairwise(ticks))
    overflow = health_distribution.distribution_chart(distribution(made[0], made[1]["overflow"])).figure()
    assert list(overflow.layout.xaxis.ticktext)[-2:] == ["+∞", "NaN"]
    assert health_distribution.sentence(distribution(made[0], made[1]["masked"])).endswith(
        "−1e+09, 60 of them not finite."
    )


# --- what nobody should have made -----------------------------------------------------------------------------------


def test_texts_of_a_log_are_shown_as_texts(opened: Open, made: Made) -> None:
    for view in ("Models", "Health"):
        app = opened(made[0], view=view, log=made[1]["hostile"].id, rule="our rules")
        assert not app.exception and not app.error
        shown = [str(one.value) for one in (*app.markdown, *app.caption, *app.subheader)]
        assert all(HOSTILE not in one and "\u202e" not in one and "](http" not in one for one in shown)
        assert all(HOSTILE not in chart and "\u202e" not in chart for chart in charts(app))
        assert all(HOSTILE not in one.proto.body for one in app.get("html"))
        assert all("\u202e" not in "".join(one.options) for one in app.selectbox)
        cells = "".join(str(table.to_dict()) for table in tables(app))
        assert OVERRIDE not in cells and LONG not in cells


def test_a_log_whose_values_do_not_read_is_not_called_healthy(opened: Open, tmp_path: Path) -> None:
    store = store_at(tmp_path)
    gone = add(store, tmp_path, "gone", damaged_rows("freed"), model="gone")
    broken = add(store, tmp_path, "broken", damaged_rows("freed"), model="broken")
    whole = add(store, tmp_path, "whole", damaged_rows("again"), model="whole")
    lose_values(store, gone)
    spoil_values(store, broken)
    app = opened(store)
    assert tables(app)[0].set_index("log")["cause"][gone.id] == "its values are missing or damaged"
    assert tables(app)[1]["log"].to_list() == [whole.id]
    assert "Left out, values cannot be read" in said(app) and broken.id in said(app)
    app = opened(store, view="Health", log=broken.id, beside=whole.id)
    assert len(app.error) == 1 and "missing or damaged" in app.error[0].value
    assert "Where are the flags?" in [one.value for one in app.subheader]  # of the other one
    assert "missing or damaged" in said(opened(store, view="Health", log=gone.id))


def test_an_old_sheet_and_one_that_says_anything(opened: Open, tmp_path: Path) -> None:
    store = store_at(tmp_path)
    old = add(store, tmp_path, "old", damaged_rows("again"), model="old")
    odd = add(store, tmp_path, "odd", damaged_rows("again"), model="odd")
    fields = (
        "flagged_entries",
        "flagged_values",
        "garbage_entries",
        "cause",
        "certainty",
        "findings",
        "length",
        "model",
    )
    spoil_sheet(store, old, **dict.fromkeys(fields))
    spoil_sheet(store, odd, findings='[{"cause": "<b>", "certainty": "x]", "positions": 1}]', cause=HOSTILE, label=LONG)
    app = opened(store, log=old.id)
    rows = tables(app)[0].set_index("log")
    assert pd.isna(rows["flagged"][old.id]) and pd.isna(rows["cause"][old.id])
    assert "41.7 % of the 60 entries" in said(opened(store, view="Health", log=old.id))
    app = opened(store, view="Health", log=odd.id)
    assert len(app.error) == 1 and "findings of" in said(app)
    assert odd.id in said(opened(store))  # left out of the ranking, and named
