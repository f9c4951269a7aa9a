"""The reports' own runs: the shipped folders are the data's, and the reports' tables come out of SQL over them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from engine.store.columns import VERSION
from engine.store.files import Files
from engine.store.store import DEMO, Store
from tests.engine.store.reports.documents import store_in
from tools.reported import load_reported, publish_reported

SHIPPED = Store(Files(DEMO))


def rows(sql: str) -> list[dict[str, Any]]:
    return SHIPPED.rows(sql)


# --- the reports' tables ------------------------------------------------------------------------------------------


def test_table_1_1_of_report_002() -> None:
    table = rows("""
        SELECT model_family, lp <> 'none' AS has_lp, wall_s, 100.0 * passes / samples AS pass_percent,
               round(max(wall_s) FILTER (lp = 'none') OVER (PARTITION BY model_family) / wall_s, 2) AS speedup
        FROM runs WHERE origin = 'reported' AND source LIKE 'report 002%' AND samples = 1000
        ORDER BY model_family DESC, has_lp DESC
    """)
    assert [tuple(row.values()) for row in table] == [
        ("Qwen", True, 500.82, 99.6, 0.89),
        ("Qwen", False, 446.28, 99.4, 1.0),
        ("LLaMA", True, 140.45, 99.8, 3.24),
        ("LLaMA", False, 455.16, 18.9, 1.0),
    ]


def test_table_1_2_of_report_002() -> None:
    table = rows("""
        SELECT model_family, wall_s, round(chars_raw / wall_s) AS chars_per_s, chars_raw, chars_clean,
               100.0 * passes / samples AS pass_percent, round(wall_s / samples, 3) AS sample_s,
               tokens, round(1000 * wall_s / tokens, 3) AS token_ms
        FROM runs WHERE origin = 'reported' AND source LIKE 'report 002%' AND samples = 64
        ORDER BY model_family DESC
    """)
    qwen, llama = (tuple(row.values()) for row in table)
    assert qwen == ("Qwen", 115.46, 423, 48_815, 48_815, 100.0, 1.804, 38_195, 3.023)
    assert llama == ("LLaMA", 32.87, 1_480, 48_664, 48_664, 100.0, 0.514, 28_536, 1.152)
    assert round(qwen[1] / llama[1], 2) == 3.51


def test_table_3_2_of_report_002_and_the_other_count() -> None:
    table = rows("""
        SELECT source[8:10] AS report, model_family, coalesce(junk_letters, junk_nonnumeric) AS junk, blocks,
               round(100.0 * junk / blocks, 1) AS percent
        FROM runs WHERE origin = 'reported' AND blocks IS NOT NULL ORDER BY report DESC, junk DESC
    """)
    assert [tuple(row.values()) for row in table] == [
        ("002", "Qwen", 61, 1_619, 3.8),
        ("002", "LLaMA", 12, 1_619, 0.7),
        ("000", "Qwen", 180, 1_619, 11.1),
    ]


def test_the_profile_of_64_samples() -> None:
    names = "profile_s launches launch_s fmha_calls fmha_s copies copy_s concatenations concatenation_s".split()
    figures = ", ".join(f"(extra->>'{name}')::DOUBLE AS {name}" for name in names)
    table = rows(f"""
        SELECT model_family, wall_s, {figures}
        FROM runs WHERE origin = 'reported' AND extra->>'profile_s' IS NOT NULL ORDER BY model_family DESC
    """)
    qwen, llama = (tuple(row.values()) for row in table)
    assert qwen == ("Qwen", 115.5, 57.2, 2_912_920, 13.5, 48_440, 3.5, 139_272, 7.4, 193_760, 4.2)
    assert llama == ("LLaMA", 32.9, 17.7, 961_645, 3.3, 20_672, 0.8, 59_440, 1.3, 81_000, 0.9)
    ratios = [round(mine / theirs, 1) for mine, theirs in zip(qwen[1:], llama[1:], strict=True)]
    assert ratios == [3.5, 3.2, 3.0, 4.1, 2.3, 4.4, 2.3, 5.7, 2.4, 4.7]  # it has 4.3 for attention


def test_what_the_reports_say_otherwise_stands_side_by_side() -> None:
    table = rows("""
        SELECT source[8:10] AS report, model_family, lp <> 'none' AS has_lp, wall_s FROM runs
        WHERE samples = 64 AND origin = 'reported' ORDER BY ALL
    """)
    assert [tuple(row.values()) for row in table] == [
        ("000", "Qwen", True, 57),
        ("001", "LLaMA", False, 18),
        ("001", "LLaMA", True, 15),
        ("001", "Qwen", False, 24),
        ("001", "Qwen", True, 57),
        ("002", "LLaMA", True, 32.87),
        ("002", "Qwen", True, 115.46),
        ("003", "LLaMA", True, 32.9),
        ("003", "Qwen", True, 115.5),
    ]
    percents = "SELECT (extra->>'junk_percent')::DOUBLE AS p FROM runs WHERE model_family = 'LLaMA' AND p IS NOT NULL"
    assert [row["p"] for row in rows(f"{percents} AND origin = 'reported' ORDER BY source")] == [0.7, 1.1]
    sizes = "SELECT DISTINCT vocab_size AS n FROM runs WHERE origin = 'reported' AND model_family IS NOT NULL"
    assert [row["n"] for row in rows(f"{sizes} AND n IS NOT NULL ORDER BY n")] == [32_000, 128_330, 151_673, 152_064]


# --- the data and the folders -------------------------------------------------------------------------------------


def test_the_shipped_runs_are_those_of_the_data(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    made = {entry.id: entry for entry in publish_reported(store)}
    shipped = {entry.id: entry for entry in SHIPPED.listing().entries if entry.row["origin"] == "reported"}
    assert made.keys() == shipped.keys()
    for id_, entry in made.items():
        theirs = shipped[id_]
        sheets = [json.loads(of.files.read(f"{of.folder}/run.json")) for of in (entry, theirs)]
        assert sheets[0] == sheets[1] | {"schema": VERSION}, "shipped by an earlier version"
        assert entry.files.sizes(entry.folder).keys() == theirs.files.sizes(theirs.folder).keys() == {"run.json"}
        extra = json.loads(entry.row.get("extra") or "{}")
        assert not entry.parts and id_.startswith(f"reported-{entry.row['source'][7:10]}-")
        assert all(name in entry.row or name in extra for name in extra.get("about", []))


def test_publishing_again_puts_the_runs_in_their_places(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    runs = dict(list(load_reported().items())[:2])
    publish_reported(store, runs)
    store.annotate(next(iter(runs)), notes="old")
    publish_reported(store, runs)
    notes = {entry.id: entry.row.get("notes") for entry in store.listing().entries}
    assert notes == {id_: row.get("notes") for id_, row in runs.items()}
