"""The reports' table of the Profiles page beside the traces that are looked at, and what they derived wrongly."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from engine.evidence.claims import load_claims
from engine.profile.reported import load_reported, publish_reported
from engine.profile.stored_trace import StoredTrace
from engine.store.entries import Entry
from engine.store.store import Store
from pages._profiles import reports as tables
from pages._profiles.traces import TraceSelection
from pages._shared.html_table import safe
from tests.engine.profile.test_compare import kernels
from tests.engine.store.stored_runs import store_at
from tests.pages.profile_traces import FMHA, HOSTILE, add, both, hostile, on_gpu

PAGE = """
from engine.store.store import Store
from pages._profiles import reports, traces
store = Store.open().snapshot()
chosen, _ = traces.query_of({}).read(store.found(traces.TRACE))
reports.show(store, chosen)
"""
REPORTED = load_reported()


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(tmp_path / "store"))
    return store_at(tmp_path / "store")


def opened(**query: str) -> AppTest:
    app = AppTest.from_string(PAGE, default_timeout=60)
    for name, value in query.items():
        app.query_params[name] = value
    app.run()
    assert not app.exception
    return app


def said(app: AppTest) -> str:
    return "\n".join(one.value for one in (*app.markdown, *app.caption, *app.info, *app.error)).replace("\\", "")


def html(app: AppTest) -> str:
    return "\n".join(one.proto.body for one in app.get("html"))


def line(sets: list[tables.CountTable], group: str, name: str) -> list[str]:
    (found,) = [one for one in tables.lines(sets) if (one.group, one.name) == (group, name)]
    return [cell.text for cell in found.cells]


def columns(store: Store, *traces: Entry) -> list[tables.CountTable]:
    del store
    chosen = TraceSelection(traces[0], traces[1:])
    ours = tuple(tables.of_trace(chosen, StoredTrace.of(entry)) for entry in chosen.entries)
    return [tables.of_reported(REPORTED.traces), tables.CountTable("chosen", ours)]


def test_their_counts_without_any_trace(store: Store) -> None:
    app = opened()
    body = html(app)
    for figure in ("2,912,920", "961,645", "48,440", "20,672", "139,272", "96,768", "13.5 s", "3.03×", "reported"):
        assert figure in body, figure
    assert "Report 003: Qwen’s trace has 3.03× the kernel launches, 2.34× the attention calls (FMHA)" in said(app)
    assert "Tick a trace to add its counts." in said(app)


def test_ours_stand_beside_theirs(store: Store) -> None:
    one, other = on_gpu(store), add(store, kernels((FMHA, 5.0), (FMHA, 5.0)), label="two", tokens=8)
    sets = columns(store, one, other)
    assert line(sets, "attention calls (FMHA)", "number") == ["20,672", "48,440", "2.34×", "1", "2", "2.00×"]
    assert line(sets, "attention calls (FMHA)", "time") == ["0.8 s", "3.5 s", "4.38×", "10.0 µs", "10.0 µs", "1.00×"]
    assert line(sets, "kernel launches", "per token")[:3] == ["~33.7", "~76.3", "2.26×"]
    assert line(sets, "the whole trace", "tokens") == ["28,536", "38,195", "1.34×", "4", "8", "2.00×"]
    assert "B has " in tables.answer(sets) and "of A’s" in tables.answer(sets)
    assert [(group.heading, group.names) for group in tables.groups(sets)] == [
        ("report 003 (reported)", ("LLaMA", "Qwen", "×")),
        ("here", ("A", "B", "×")),
    ]
    body = html(opened(control=one.id, test=other.id))
    assert "here" in body and "10.0 µs" in body


def test_what_a_trace_cannot_know_is_a_dash(store: Store) -> None:
    control, test = both(store)
    sets = columns(store, control, test)
    assert line(sets, "kernel launches", "number")[3:] == ["–", "–", "–"]
    assert line(sets, "concatenations, others", "number")[3:] == ["0", "1", "–"]
    gpu = on_gpu(store)
    mixed = columns(store, control, gpu)
    assert "are not comparable: one has no device" in tables.answer(mixed)
    assert line(mixed, "copies", "number")[5] == "–"


def test_a_reported_trace_is_not_set_beside_itself(store: Store) -> None:
    publish_reported(store)
    app = opened(control="reported-003-qwen")
    assert "What is selected is reported too" in said(app)
    assert ">here<" not in html(app)


def test_derived_figures_say_what_why_and_where(store: Store) -> None:
    body = html(opened())
    claims = {claim.id for claim in load_claims()}
    for one in REPORTED.derived:
        assert one.claim in claims
        assert f'href="evidence?claim={one.claim}"' in body
        assert safe(one.what) in body and safe(" ".join(one.why.split())) in body
    for stated, ours in (("24", "28"), ("2.3×", "1.34×")):
        assert f'<s>{stated}</s></td><td class="ours"><strong>{ours}</strong>' in body
    assert "(48440 - 96768 / 2) / 2" in body
    rows = re.findall("<tr>.*?</tr>", body, re.DOTALL)
    assert not [row for row in rows if "<s>" in row and "reproduced" in row]
    reproduced = dict.fromkeys(claims, "reproduced")
    assert "<s>" not in tables.derived_table(REPORTED.derived, reproduced)  # as a later check may find
    assert len(re.findall(r"contradicted|inconsistent|reproduced|not testable", body)) >= len(REPORTED.derived)


def test_files_hold_all_digits(store: Store) -> None:
    found = list(csv.reader(io.StringIO(tables.counts_csv(columns(store, on_gpu(store))))))
    assert found[0][:2] == ["counted", "figure"] and found[0][-1] == "chosen: A"
    assert found[1][:4] == ["kernel launches", "calls", "961645", "2912920"]
    derived = list(csv.reader(io.StringIO(tables.derived_csv(REPORTED.derived))))
    assert len(derived) == len(REPORTED.derived) + 1 and derived[1][1:3] == ["24.0", "28.0"]


def test_hostile_names_stay_text(store: Store) -> None:
    entry = hostile(store)
    assert HOSTILE not in html(opened(control=entry.id))
