"""A run has one colour: in every choice, on every page, whatever comes into the store after it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from engine.store.entries import Entry, came_at
from engine.store.reports.importing import import_report
from engine.store.staging import rewrite_run
from engine.store.store import temporary_files
from pages._kit import run_colours
from pages._kit.theme import DARK, LIGHT
from tests.engine.inspection.made import DEMO_STORE, demo_run
from tests.engine.store.reports.documents import document, file_of
from tests.engine.store.stored_runs import store_at
from tests.pages.apps import opened
from tests.pages.test_theme import contrast

NONE, EXACT, BLOCKED = (demo_run("llama", lp) for lp in ("none", "exact", "group-v2.1"))
ENTRIES = DEMO_STORE.listing().entries


def colours_of(entries: Sequence[Entry]) -> dict[str, str]:
    store: Any = SimpleNamespace(listing=lambda: SimpleNamespace(entries=entries))
    return run_colours.run_colours(store)


def made(count: int, **row: str) -> list[Entry]:
    """Runs that came one after the other, after those of the demo store."""
    first = DEMO_STORE.entry(EXACT)
    begin = datetime(2030, 1, 1, tzinfo=UTC)
    return [
        replace(
            first, id=f"new-{row.get('lp')}-{n}", row={**first.row, **row, "created_at": begin + timedelta(hours=n)}
        )
        for n in range(count)
    ]


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_no_two_runs_have_one_colour_and_each_stands_out_from_the_page(theme: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(run_colours, "palette", lambda: theme)
    entries = [*ENTRIES, *made(60), *made(60, lp="none"), *made(60, lp="nobody's")]
    colours = colours_of(entries)
    assert len(set(colours.values())) == len(colours) == len(ENTRIES) + 180
    assert min(contrast(colour, theme.background) for colour in colours.values()) >= 3


def test_the_lps_of_one_model_are_far_apart_and_no_lp_is_grey(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_colours, "palette", lambda: LIGHT)
    colours = colours_of(ENTRIES)
    parts = {
        lp: [int(colours[demo_run("qwen", lp)][at : at + 2], 16) for at in (1, 3, 5)]
        for lp in ("none", "group-v2.1", "group-v4.3", "exact", "guarded", "shaped")
    }
    spreads = {lp: max(rgb) - min(rgb) for lp, rgb in parts.items()}
    assert spreads.pop("none") < 16 and min(spreads.values()) > 60
    for lp, rgb in parts.items():
        others = [other for name, other in parts.items() if name != lp]
        assert min(sum(abs(a - b) for a, b in zip(rgb, other, strict=True)) for other in others) > 40


def test_a_run_that_comes_later_changes_no_other() -> None:
    before = colours_of(ENTRIES)
    after = colours_of([*made(3), *ENTRIES[::-1], *made(3, lp="none")])
    assert {id_: after[id_] for id_ in before} == before and len(set(after.values())) == len(ENTRIES) + 6


def test_thousands_of_runs_of_one_lp_have_a_colour_each_though_a_screen_has_not_that_many() -> None:
    colours = colours_of(made(2_000))
    assert len(colours) == 2_000 and 500 < len({*colours.values()}) < 2_000


def test_a_temporary_run_takes_no_stored_run_s_colour() -> None:
    without = colours_of(made(3))
    older = [replace(entry, id=f"old-{entry.id}", files=temporary_files()) for entry in made(2)]
    beside = colours_of([*older, *made(3)])
    assert {id_: beside[id_] for id_ in without} == without and len({*beside.values()}) == 5


def test_a_rewritten_import_keeps_its_colour(tmp_path: Path) -> None:
    store = store_at(tmp_path / "store")
    reports = [document(timestamp=f"2026-01-0{day}T00:00:00") for day in (1, 2, 3)]
    ids = [import_report(store, file_of(tmp_path, report)).id for report in reports]
    before = run_colours.run_colours(store.snapshot())
    rewrite_run(store.snapshot().entry(ids[0]), {}, {"label": "mine"})
    after = store.snapshot()
    assert came_at(after.entry(ids[0])) > came_at(after.entry(ids[2]))
    assert run_colours.run_colours(after) == before and len({*before.values()}) == 3


def drawn(app: AppTest) -> dict[str, str]:
    """By run, what the charts of the page draw it in."""
    colours = {}
    for chart in app.get("plotly_chart"):
        for trace in json.loads(chart.proto.spec)["data"]:
            fill = trace.get("marker", trace.get("line"))["color"]
            colours[trace["name"]] = fill if isinstance(fill, str) else fill[0]
    return colours


@pytest.mark.usefixtures("demo_store")
def test_charts_pickers_and_pages_draw_a_run_in_its_own_colour_in_any_order() -> None:
    own = colours_of(ENTRIES)
    for first, *others in ([NONE, EXACT, BLOCKED], [BLOCKED, NONE], [EXACT, BLOCKED, NONE]):
        app = opened("compare", view="Charts", question="Speed and pass rate", control=first, test=others)
        ids = dict(zip(("none", "exact", "group-v2.1"), (NONE, EXACT, BLOCKED), strict=True))
        assert drawn(app) == {name: own[id_] for name, id_ in ids.items() if id_ in (first, *others)}
        (legend,) = [part.proto.body for part in app.get("html") if "<ul class='chosen-entries'" in part.proto.body]
        places = [legend.index(own[id_]) for id_ in (first, *others)]
        assert places == sorted(places) and "(control)" in legend
    swatches = app.dataframe[0].value.set_index("run")["swatch"]
    assert all(own[id_].removeprefix("#") in swatches[id_] for id_ in own)
    app = opened("drift", run=[EXACT, BLOCKED])
    (legend,) = [part.proto.body for part in app.get("html") if "<ul class='chosen-entries'" in part.proto.body]
    assert own[EXACT] in legend and own[BLOCKED] in legend and "(control)" not in legend
