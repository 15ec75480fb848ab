"""SQL that fits the columns of an operator: the same in batches and streams, whatever the order of rows."""

from __future__ import annotations

from collections.abc import Mapping


def conditions(columns: Mapping[str, str]) -> list[str]:
    """Return conditions on columns."""
    found: list[str] = []
    for name, kind in columns.items():
        column = f"`{name}`"
        found += {
            "bigint": [f"{column} % 2 = 0", f"{column} > 1", f"NOT ({column} = 1)", f"coalesce({column}, 1) <= 40"],
            "int": [f"{column} < 2"],
            "string": [f"{column} LIKE 'a%' OR {column} > 'b'", f"{column} <> '数'", f"{column} IS NOT NULL"],
            "double": [f"{column} < 20.5"],
            "boolean": [column, f"{column} IS NULL OR {column}"],
            "date": [f"{column} >= DATE '2026-02-09'"],
            "timestamp": [f"second({column}) % 4 <> 0"],
            "array<bigint>": [f"size({column}) > 1", f"array_contains({column}, 3)"],
            "map<string,bigint>": [f"try_element_at({column}, 'a') IS NULL"],
            "struct<a:bigint,b:string>": [f"{column}.a > 10"],
        }.get(kind, [f"{column} > 12.5"])  # decimals
    return found


def new_columns(columns: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return SQL for new columns, with their types."""
    found = [("'ü, (1'", "string"), ("7L", "bigint")]
    for name, kind in columns.items():
        column = f"`{name}`"
        found += {
            "bigint": [
                (f"{column} * 3 + 1", "bigint"),
                (f"CASE WHEN {column} > 2 THEN 100 div {column} ELSE 0 END", "bigint"),
                (f"map('a', {column}, 'ß', 2L)", "map<string,bigint>"),
                (f"array({column}, 5L)", "array<bigint>"),
                (f"struct({column} AS a, 'b' AS b)", "struct<a:bigint,b:string>"),
            ],
            "string": [(f"concat({column}, '-ü')", "string"), (f"CAST(length({column}) AS bigint)", "bigint")],
            "date": [(f"date_add({column}, 1)", "date")],
            "timestamp": [(f"{column} + INTERVAL 1 second", "timestamp"), (f"CAST({column} AS date)", "date")],
            "decimal(12,2)": [(f"CAST({column} * 2 AS decimal(12,2))", "decimal(12,2)")],
            "array<bigint>": [(f"get({column}, 0)", "bigint")],
            "map<string,bigint>": [(f"try_element_at({column}, 'a')", "bigint")],
            "struct<a:bigint,b:string>": [(f"{column}.b", "string")],
        }.get(kind, [(f"coalesce({column}, NULL)", kind)])
    return found


def sums(columns: Mapping[str, str], *, late: bool) -> list[tuple[str, str]]:
    """Return SQL for aggregates, with their types; with ``late`` rows, only those that lie between two answers."""
    found = [("count(*)", "bigint")] * 2
    for name, kind in columns.items():
        column = f"`{name}`"
        if kind in ("bigint", "int"):
            found += [(f"sum({column})", "bigint"), (f"max({column})", kind), (f"min({column})", kind)]
            found += [] if late else [(f"avg({column})", "double")]
        elif kind == "decimal(12,2)":
            found += [(f"CAST(sum({column}) AS decimal(12,2))", kind), (f"max({column})", kind)]
        elif kind in ("date", "string", "timestamp", "double"):
            found += [(f"max({column})", kind), (f"count({column})", "bigint")]
    return found
