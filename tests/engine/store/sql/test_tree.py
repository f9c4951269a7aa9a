"""The allow-list of statements: what is not known is refused, wherever it stands; and what DuckDB holds without it."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator, Sequence

import duckdb
import pyarrow as pa
import pytest

from engine.errors import SqlError
from engine.store.sql.database import FUNCTIONS, Database
from engine.store.sql.process import Limits, Setup
from engine.store.sql.tree import HARMLESS_VOLATILE, allowed_functions, check_tree, plain_name

WIDE = """
    WITH w AS (SELECT a, count(*) AS n FROM t GROUP BY a HAVING count(*) > 0 ORDER BY a LIMIT 5),
         r AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM r WHERE i < 3)
    SELECT DISTINCT CASE WHEN w.a BETWEEN 1 AND 2 THEN 'x' END, sum(n) OVER (ORDER BY w.a),
           list_filter([1], lambda x: x > 1), (SELECT max(a) FROM t), w.a::VARCHAR COLLATE nocase, ? + $2,
           COLUMNS('n'), NOT (w.a IN (1, 2) AND n IS NULL)
    FROM w JOIN t USING (a), r, range(3) AS g, (VALUES (1)) AS v(x), (DESCRIBE t)
    WHERE EXISTS (SELECT 1 FROM t TABLESAMPLE 10%) QUALIFY row_number() OVER () > 0
    UNION ALL BY NAME FROM (PIVOT t ON b IN ('x') USING sum(a)) LIMIT 3
""".replace("WITH w", "WITH RECURSIVE w")


def known() -> list[tuple[str, bool]]:
    with duckdb.connect() as connection:
        return connection.execute(FUNCTIONS).fetchall()


ALLOWED = allowed_functions(known())


def tree_of(sql: str) -> list[object]:
    with duckdb.connect() as connection:
        ((text,),) = connection.execute("SELECT json_serialize_sql(?)", [sql]).fetchall()
    parsed = json.loads(text)
    assert not parsed["error"], parsed
    statements: list[object] = parsed["statements"]
    return statements


def check(sql: str, tables: Sequence[str] = ("t",)) -> None:
    check_tree(tree_of(sql), tables, ALLOWED)


def nodes(tree: object) -> Iterator[dict[str, object]]:
    if isinstance(tree, dict):
        yield tree
    inner = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ()
    for item in inner:
        yield from nodes(item)


def test_a_kind_that_is_not_known_is_refused_wherever_it_stands() -> None:
    tree = tree_of(WIDE)
    check_tree(tree, ["t"], ALLOWED)
    for index in range(len(list(nodes(tree)))):
        changed = copy.deepcopy(tree)
        node = list(nodes(changed))[index]
        if "class" in node:
            node["class"] = "NEWEST"
        elif isinstance(node.get("type"), str):
            node["type"] = "NEWEST_QUERY_NODE"
        else:
            node["newest"] = None
        with pytest.raises(SqlError, match=r"NEWEST|newest|unknown form|without a name"):
            check_tree(changed, ["t"], ALLOWED)


@pytest.mark.parametrize(
    ("sql", "missing"),
    [
        ("WITH a AS (FROM t), b AS (FROM a) FROM a, b, t", ""),
        ("WITH a AS (WITH b AS (FROM t) FROM b) FROM a", ""),
        ("WITH a AS (SELECT 1) SELECT (SELECT (SELECT count(*) FROM a)) FROM t WHERE EXISTS (FROM a)", ""),
        ("WITH A AS (SELECT 1) FROM a UNION ALL FROM a", ""),
        ("WITH RECURSIVE r AS (SELECT 1 AS i UNION SELECT i FROM r) FROM r", ""),
        ("WITH RECURSIVE r(i, j) USING KEY (i) AS (SELECT 1, 2 UNION SELECT i, j FROM r) FROM r", ""),
        ("WITH RECURSIVE r AS (SELECT 1 AS i UNION SELECT i FROM (WITH s AS (FROM r) FROM s)) FROM r", ""),
        ('WITH "É" AS (SELECT 1) FROM "É"', ""),
        ("WITH a AS (FROM b), b AS (SELECT 1) FROM a", "b"),
        ("WITH a AS (FROM a) FROM a", "a"),
        ("WITH RECURSIVE a AS (FROM a) FROM a", "a"),
        ("WITH RECURSIVE a AS (FROM a UNION ALL FROM a WHERE false) FROM a", "a"),
        ("WITH RECURSIVE a AS (SELECT (SELECT 1 FROM a) AS i UNION ALL FROM a) FROM a", "a"),
        ("WITH a AS (WITH b AS (FROM t) FROM b) FROM b", "b"),
        ("SELECT (WITH b AS (FROM t) SELECT 1 FROM b) FROM b", "b"),
        ("FROM (WITH b AS (FROM t) FROM b), b", "b"),
        ("(WITH b AS (FROM t) FROM b) UNION ALL FROM b", "b"),
        ('WITH "É" AS (SELECT 1) FROM "é"', "é"),  # DuckDB would look for another
        ("FROM t_, t", "t_"),
    ],
)
def test_a_name_is_a_table_or_a_with_that_is_in_sight(sql: str, missing: str) -> None:
    if missing:
        with pytest.raises(SqlError, match=f"^there is no table '{missing}'"):
            check(sql)
    else:
        check(sql)


def test_no_with_has_a_name_of_the_engines_own() -> None:
    named = "SELECT view_name FROM duckdb_views() WHERE internal AND schema_name IN ('main', 'pg_catalog')"
    names = [name for (name,) in duckdb.connect().execute(named).fetchall()]
    assert {"pg_settings", "sqlite_master", "duckdb_views"} <= set(names)
    for name in names:
        with pytest.raises(SqlError, match="may not stand"):
            check(f'WITH "{name}" AS (SELECT 1) FROM t')


def test_depth_is_no_matter() -> None:
    tree: object = {"class": "CONSTANT", "type": "VALUE_CONSTANT"}
    for _ in range(50_000):
        tree = [{"class": "OPERATOR", "type": "OPERATOR_NOT", "children": [tree]}]
    check_tree(tree, [], ALLOWED)


def test_names_fold_as_duckdb_folds_them() -> None:
    assert plain_name("ABCxyzÉ\u212a") == "abcxyzÉ\u212a"  # the last is the sign of kelvin, which Python folds to k


# --- functions ------------------------------------------------------------------------------------------------------


def test_a_duckdb_with_other_functions_is_looked_at() -> None:
    assert len(ALLOWED) == 903, "look at what came or went, whether it only computes, and then change the number"
    assert {name for name, is_volatile in known() if is_volatile and name in ALLOWED} == HARMLESS_VOLATILE


def test_what_is_allowed_says_nothing_of_files_settings_or_the_process() -> None:
    telling = re.compile(
        "file|path|dir|glob|read|write|env|secret|setting|sleep|http|exec|load|import|log|sql|internal|state|query|version"
    )
    found = sorted(name for name in ALLOWED if telling.search(name))
    assert found == [
        "current_catalog",  # memory
        "json_extract_path",
        "json_extract_path_text",
        "log",  # the logarithm
        "log10",
        "log2",
        "parse_dirname",  # these take text apart
        "parse_dirpath",
        "parse_filename",
        "parse_path",
        "path_join",
        "uuid_extract_version",
    ]


@pytest.mark.parametrize(
    "name", ["unnest", "abs", "count_star", "list_value", "+", "~~", "->>", "rank", "date_add", "if"]
)
def test_functions_that_are_needed(name: str) -> None:
    assert name in ALLOWED


# --- without the tree -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sql",
    [
        "WITH w AS (COPY (SELECT 1) TO 'f') SELECT * FROM w",
        "COPY t TO 'f'",
        "FROM 'secret.csv'",
        "FROM read_text('secret.csv')",
        "FROM glob('*')",
        "ATTACH 'f'",
        "EXPORT DATABASE 'f'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET memory_limit = '9GB'",
        "SET enable_external_access = true",
        "RESET max_execution_time",
        "CREATE SECRET (TYPE s3)",
        "FROM leaked",
    ],
)
def test_duckdb_holds_when_the_tree_does_not(sql: str, tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(str(tmp_path))
    monkeypatch.setattr(Database, "_check", lambda *_: None)
    leaked = pa.table({"a": [1]})
    database = Database(Setup(Limits(), ("t",), {}, {}), {"t": leaked})
    with pytest.raises(duckdb.Error, match=r"disabled|locked|does not exist"):
        database.answer(sql, [])


def test_every_setting_has_been_taken() -> None:
    database = Database(Setup(Limits(seconds=2.5, memory_mb=100, threads=3), (), {}, {}), {})
    rows = database._connection.execute("SELECT name, value FROM duckdb_settings()").fetchall()
    values = {str(name): str(value) for name, value in rows}
    expected = {
        "enable_external_access": "false",
        "lock_configuration": "true",
        "python_enable_replacements": "false",
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "allow_community_extensions": "false",
        "max_temp_directory_size": "0 bytes",
        "memory_limit": "95.3 MiB",
        "max_execution_time": "2500",
        "threads": "3",
    }
    assert {name: values[name] for name in expected} == expected
