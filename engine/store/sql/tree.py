"""Whether the tree of a parsed statement only selects from known tables, through functions that only compute.

An allow-list: a kind of node that is not named here is refused, so new kinds of later DuckDB versions are refused
until they are reviewed. The tree is what ``json_serialize_sql`` writes. Knows no DuckDB: types, columns and whether a
function takes its arguments are left to the engine.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Iterator

from engine.errors import SqlError, nearest, shown

EXPRESSIONS = frozenset(
    "BETWEEN CASE CAST COLLATE COLUMN_REF COMPARISON CONJUNCTION CONSTANT FUNCTION LAMBDA LAMBDA_REF OPERATOR "
    "PARAMETER POSITIONAL_REFERENCE STAR SUBQUERY TYPE WINDOW".split()
)
QUERIES = frozenset("SELECT_NODE SET_OPERATION_NODE RECURSIVE_CTE_NODE CTE_NODE".split())
SOURCES = frozenset("BASE_TABLE EMPTY EXPRESSION_LIST JOIN PIVOT SHOW_REF SUBQUERY TABLE_FUNCTION".split())
MODIFIERS = frozenset(
    "DISTINCT_MODIFIER LIMIT_MODIFIER LIMIT_PERCENT_MODIFIER ORDER_MODIFIER ORDER_DEFAULT ASCENDING DESCENDING".split()
)
TYPED = QUERIES | SOURCES | MODIFIERS

UNTYPED = frozenset(
    frozenset(keys.split())
    for keys in (
        "node named_param_map",
        "map",
        "key value",
        "kind text",  # a literal
        "name expression",  # an argument
        "path",
        "catalog schema table column",
        "aliases materialized key_targets payload_aggregates query_node",  # a CTE
        "when_expr then_expr",
        "sample_size is_percentage method seed repeatable sample_rate",
        "type is_null value",  # a sample's size, and its type
        "id type_info",
        "pivot_expressions unpivot_names entries pivot_enum",
        "values star_expr alias",
    )
)
"""Nodes without a type of their own, by their keys."""

TABLE_FUNCTIONS = frozenset("generate_series json_each json_tree range repeat unnest".split())
EVERYWHERE = frozenset({"unnest"})  # stands in a SELECT list too, and is in no list of scalar functions

HARMLESS_VOLATILE = frozenset("error gen_random_uuid random setseed uuid uuidv4 uuidv7".split())
SYSTEM_NAMES = re.compile("(?:duckdb|pg|pragma|sqlite|__duckdb)_|information_schema")
REFUSED = re.compile(
    r"current_(?:setting|schemas|query.*|connection_id|transaction_id)|getvariable|in_search_path|txid_current"  # state
    r"|nextval|currval|setval|sleep_ms|write_log|parse_duckdb_log_message|get_block_size|version"
    r"|json_(?:de)?serialize_(?:sql|plan)"
    r"|[<>]|[<>=!]=|=|<>|IS (?:NOT )?DISTINCT FROM"  # they crash when called by name; plain comparisons are none
    # The engine's own tools: they trust bytes and types that only it should have made.
    r"|__internal.*|__cast|cast_to_type|replace_type|remap_struct|vector_type|stats|create_sort_key|index_key|invoke"
    r"|to_aggregate_state|finalize|combine|combine_aggr|hive_partition_component"
    r"|variant_(?:bytes_to_variant|to_parquet_variant|normalize|comparator|group_object)"
)


def allowed_functions(known: Iterable[tuple[str, bool]]) -> frozenset[str]:
    """Those of the engine's scalar, aggregate and window functions, each with whether it is volatile, that may run."""
    return EVERYWHERE | {
        name
        for name, is_volatile in known
        if not REFUSED.fullmatch(name) and (not is_volatile or name in HARMLESS_VOLATILE)
    }


def check_tree(tree: object, tables: Collection[str], functions: Collection[str]) -> None:
    """Raise ``SqlError`` for anything in a tree that is not a SELECT over ``tables`` through ``functions``."""
    check = _TreeCheck(tables, functions)
    waiting = [(tree, frozenset[str]())]
    while waiting:  # not by recursion: a statement may nest deeper than Python does
        node, ctes = waiting.pop()
        if isinstance(node, list):
            waiting.extend((item, ctes) for item in node)
        elif isinstance(node, dict):
            check.kind(node)
            waiting.extend(check.parts(node, ctes))


def plain_name(name: str) -> str:
    """A name as DuckDB compares it: it folds the case of ASCII letters only."""
    return re.sub("[A-Z]+", lambda letters: letters.group().lower(), name)


class _TreeCheck:
    def __init__(self, tables: Collection[str], functions: Collection[str]) -> None:
        self._tables = tables
        self._plain_tables = {plain_name(name) for name in tables}
        self._functions = functions

    def kind(self, node: dict[str, object]) -> None:
        """Refuse a node of a kind that is not known."""
        expression, kind = node.get("class"), node.get("type")
        if expression is not None:
            if expression not in EXPRESSIONS:
                raise _refusal(f"an expression of kind {shown(expression)}")
        elif isinstance(kind, str):
            if kind not in TYPED:
                word = kind.removesuffix("_NODE").removesuffix("_QUERY").removesuffix("_REF")
                raise _refusal(word.replace("_", " "))  # COPY_QUERY_NODE is a COPY
        elif frozenset(node) not in UNTYPED:
            raise _refusal(f"a part with {', '.join(sorted(node))}")

    def parts(self, node: dict[str, object], ctes: frozenset[str]) -> Iterator[tuple[object, frozenset[str]]]:
        """What is to be looked at below a node, each part with the CTE names that it sees."""
        kind = node.get("class") or node.get("type")
        if kind == "BASE_TABLE":
            self._table(node, ctes)
        elif kind == "SHOW_REF" and (node.get("show_type") not in ("DESCRIBE", "SUMMARY") or not node.get("query")):
            raise _refusal("SHOW", f"The tables are {', '.join(self._tables)}; DESCRIBE and SUMMARIZE take one of them")
        elif kind in ("FUNCTION", "WINDOW"):
            self._function(node, self._functions)
        elif kind == "TABLE_FUNCTION":
            function = node.get("function")
            if not isinstance(function, dict) or function.get("class") != "FUNCTION":
                raise _refusal("a table function without a name")
            self._function(function, TABLE_FUNCTIONS)
            yield from ((value, ctes) for value in function.values())
            node = {key: value for key, value in node.items() if key != "function"}
        elif kind == "RECURSIVE_CTE_NODE":
            # Its name means itself in the recursive part alone: in the first part DuckDB would look into its catalogue.
            yield node.get("right"), ctes | {_cte_name(node.get("cte_name"))}
            node = {key: value for key, value in node.items() if key != "right"}
        if "cte_map" in node:
            queries, ctes = _with_ctes(node["cte_map"], ctes)
            yield from queries
        yield from ((value, ctes) for key, value in node.items() if key != "cte_map")

    def _table(self, node: dict[str, object], ctes: frozenset[str]) -> None:
        name, path = str(node.get("table_name")), _path(node)
        if node.get("at_clause") is not None:
            raise _refusal("AT (another version of a table)")
        if path != [name]:
            where = ".".join(map(str, path))
            raise _refusal(f"the table {shown(where)}", "Write the name of a table without a schema before it")
        if plain_name(name) not in self._plain_tables | ctes:
            raise SqlError(f"there is no table {shown(name)}", nearest(name, [*self._tables, *sorted(ctes)]))

    def _function(self, node: dict[str, object], allowed: Collection[str]) -> None:
        name = str(node.get("function_name"))
        if node.get("export_state"):
            raise _refusal("EXPORT_STATE")
        if plain_name(name) in allowed and _path(node)[-1:] == [name]:
            return
        if allowed is TABLE_FUNCTIONS:
            raise _refusal(f"the table function {shown(name)}", f"Those are {', '.join(sorted(allowed))}")
        near = difflib.get_close_matches(plain_name(name), allowed, n=3, cutoff=0.75)
        fix = f"Did you mean {' or '.join(near)}?" if near else "Use the functions that compute from their arguments"
        raise SqlError(f"the function {shown(name)} does not exist, or is none that a statement may call here", fix)


def _with_ctes(cte_map: object, ctes: frozenset[str]) -> tuple[list[tuple[object, frozenset[str]]], frozenset[str]]:
    """The CTEs of a query, each with the names that it sees, and the names that the query sees: a CTE sees those
    before it, and itself only where it is recursive."""
    queries: list[tuple[object, frozenset[str]]] = []
    if not isinstance(cte_map, dict) or set(cte_map) != {"map"} or not isinstance(cte_map["map"], list):
        raise _refusal("a WITH of an unknown form")
    for entry in cte_map["map"]:
        queries.append((entry, ctes))
        ctes |= {_cte_name(entry["key"])}
    return queries, ctes


def _cte_name(name: object) -> str:
    """Not one of the engine's own, which would open where a CTE of that name is out of sight."""
    if SYSTEM_NAMES.match(plain_name(str(name))):
        raise _refusal(f"a WITH by the name {shown(str(name))}", "Give it another name")
    return plain_name(str(name))


def _path(node: dict[str, object]) -> list[object]:
    qualified = node.get("qualified_name")
    path = qualified.get("path") if isinstance(qualified, dict) else None
    return path if isinstance(path, list) else []


def _refusal(
    what: str, fix: str = "Write one SELECT over the tables; WITH, joins and set operations may be in it"
) -> SqlError:
    return SqlError(f"{what} may not stand in a statement here", fix)
