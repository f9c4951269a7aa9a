"""Every page's views in a real browser: names that are markup stay text, in a narrow window, light and dark."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from engine.logits.ingest import LogNames
from engine.store.store import DEMO
from pages._app.listing import page_files
from tests.engine.inspection.made import sample_row, write_run
from tests.engine.logits.logs import clean, new_log, objects, write
from tests.engine.store.stored_runs import store_at
from tests.pages import profile_traces
from tests.pages.browser import ROOT, Browser, Server, expect_outline, expect_well_in_both_themes, serve_quietly, visit
from tests.pages.drift_stores import HOSTILE, HOSTILE_JUNK, OVERRIDE, add_hostile

pytestmark = pytest.mark.browser

JUNK = quote(
    "[C]<1.0,2.0,3.0<img src=x onerror=alert(1)>>[C]<1.0,</script><script>alert(2)</script>\u202e[x](http://a)"
)
ODD = "&control=odd-one&test=odd-two"
PLOT, CELLS, TOKENS = ".js-plotly-plot", "[data-testid=stDataFrame]", ".atoms .step"
TITLES = {page.path.stem: page.title for page in page_files()}
VIEWS = [
    (f"compare?view=Side+by+side{ODD}", CELLS),
    (f"compare?view=Charts&question=Failures{ODD}", PLOT),
    (f"compare?view=Side+by+side&control=odd-one&test={HOSTILE}", ".chosen-entries, .open"),
    (f"drift?run={HOSTILE}&run=odd-one", ".molecules .cell .swatch"),
    ("compare?view=Manage&manage=Several+runs&managed=odd-one", CELLS),
    (f"drift?run={HOSTILE}&atom=1", TOKENS),
    (f"drift?run={HOSTILE}&view=Junk+lexicon", CELLS),
    ("evidence?view=All+claims", CELLS),
    (f"live?smiles={quote(HOSTILE_JUNK)}", "[role=alert]"),
    ("logits?view=Health&log=img-src&beside=driftscope-demo-qwen", PLOT),
    ("profiles?view=Kernels&control=img-src", CELLS),
    (f"tokenizer_lab?text={JUNK}", TOKENS),
    ("tokenizer_lab?view=A+molecule+set&count=10", PLOT),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Over the demo store, and a run, a trace and a log that are hostile."""
    folder: Path = tmp_path_factory.mktemp("views") / "store"
    shutil.copytree(DEMO, folder)
    store = store_at(folder)
    add_hostile(store)
    profile_traces.hostile(store)
    rows = clean(60, 12)
    rows[5] = 0
    said = {"team": HOSTILE_JUNK, "model": OVERRIDE, "source": OVERRIDE, "precision": "x" * 10_000}
    log = write(folder.parent / "hostile.jsonl", objects(rows, checkpoint=f"logits {HOSTILE_JUNK}", **said))
    new_log(store, log, LogNames(label=HOSTILE_JUNK + OVERRIDE))
    for run_id in ("odd-one", "odd-two"):
        odd = {"smiles": HOSTILE_JUNK, "passed": False, "issues": [HOSTILE_JUNK, OVERRIDE]}
        samples = [sample_row(n, tokens=9 + n, **odd) for n in range(7)]
        write_run(
            store,
            run_id,
            samples,
            model_alias=f"<script>alert(3)</script>{HOSTILE_JUNK}",
            lp=OVERRIDE,
            wall_s=1.0,
            tokens=70,
        )
    with serve_quietly(ROOT / "app.py", env={"DRIFTSCOPE_STORE": str(folder)}) as started:
        yield started


@pytest.mark.parametrize(("address", "drawn"), VIEWS, ids=[address.partition("&")[0] for address, _ in VIEWS])
def test_a_view_is_text_and_fits(browser: Browser, server: Server, address: str, drawn: str) -> None:
    with visit(browser, server, f"/{address}", width=820) as seen:
        expect(seen.page.locator(f"{drawn} >> visible=true").first).to_be_visible()
        assert seen.page.locator("img[src=x], a[href^='http://a']").count() == 0
        assert seen.page.locator("script", has_text="alert(").count() == 0 and seen.dialogs == []
        assert "\u202e" not in seen.page.get_by_test_id("stMain").inner_text()
        expect_outline(seen, TITLES[address.partition("?")[0]])
        expect_well_in_both_themes(seen)


def test_on_a_phone_a_chart_is_swiped_and_buttons_wrap(browser: Browser, server: Server) -> None:
    """Titles of four small charts lay on each other, and a third button was cut."""
    with visit(browser, server, "/tokenizer_lab?view=A+molecule+set&count=10", width=400, height=800) as seen:
        titles = seen.page.locator(".st-key-card-lab_set .annotation-text")
        expect(titles).to_have_count(8)
        boxes = [box for title in titles.all()[:4] if (box := title.bounding_box()) is not None]
        assert all(left["x"] + left["width"] <= right["x"] for left, right in pairwise(boxes))
        expect_well_in_both_themes(seen)
    with visit(browser, server, "/compare?view=Charts&question=Where+time+goes", width=400, height=800) as seen:
        for button in seen.page.locator(".st-key-made_of button").all():
            box = button.bounding_box()
            assert box is not None and box["x"] + box["width"] <= 400
