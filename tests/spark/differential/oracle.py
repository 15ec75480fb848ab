"""What a case's sinks must hold: one plain Spark batch query each, over the same files, translated from the document.

Event time is a hidden column ``__t``. Of windows, those come out that the *frontier* of their input has passed:

* source: the latest event time of its rows less the lateness, in whole milliseconds as Spark's watermarks;
* filter, map, delay, python, aggregate: the input's;
* union, join: the least of the inputs', nothing while an input has none.

Rows beyond the lateness of their source may be left out by windows and joins, or not. For these cases there are two
answers, without them and with all, and a run must lie between.
"""

# ruff: noqa: S608  (the networks are ours)
from __future__ import annotations

import datetime
import decimal
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
from case import Case, late_rows, placed, without_late_rows, write_files

from penstock.units import seconds

PYTHON = {
    "keep": "SELECT * FROM {input}",
    "twice": "SELECT * EXCEPT (__again) FROM (SELECT *, explode(array(1, 2)) AS __again FROM {input})",
    "some": "SELECT * FROM {input} WHERE k IS NOT NULL AND k % 3 <> 0",
    "more": "SELECT *, k * 2 + 1 AS added FROM {input}",
}
"""What the functions of the module ``steps`` mean, by the beginning of their names."""

STATEFUL = ("aggregate", "join")


@attrs.frozen
class Answer:
    """The rows of a sink.

    Attributes
    ----------
    shape
        Names and types of the columns.
    lower, upper
        Without the rows beyond the lateness, and with all of them.
    keys
        For the results of windows: columns that identify one; None where rows pass through.
    """

    shape: pa.Schema
    lower: Counter[tuple[Any, ...]]
    upper: Counter[tuple[Any, ...]]
    keys: tuple[str, ...] | None = None
    coarse: bool = False


def expected(session: Any, case: Case, folder: Path) -> dict[str, Answer]:
    """Return what each sink must hold; ``folder`` is the oracle's own, for a copy of the files."""
    upper = _answers(session, case, folder / "all")
    lower = _answers(session, without_late_rows(case), folder / "in-time") if late_rows(case) else upper
    found = {}
    for sink, table in case.network["sinks"].items():
        coarse = table.get("format") == "json"
        writer = table["input"]
        operator = case.network["operators"][writer]
        if not any(case.network["operators"].get(name, {}).get("kind") in STATEFUL for name in _above(case, writer)):
            lower[sink] = upper[sink]  # nobody may leave out a row
        keys = None
        if operator["kind"] == "aggregate":
            keys = (*_names(operator.get("by")), "window_start", "window_end")
        shape = upper[sink].schema
        found[sink] = Answer(shape, rows_of(lower[sink], coarse), rows_of(upper[sink], coarse), keys, coarse)
    return found


def _answers(session: Any, case: Case, folder: Path) -> dict[str, pa.Table]:
    write_files(case, folder)
    document = placed(case, folder)
    views = {}
    for number, (name, table) in enumerate(document["sources"].items()):
        options = {k: v for k, v in table["options"].items() if k not in ("path", "maxFilesPerTrigger")}
        reader = session.read.format(table["format"]).options(**options).schema(table["schema"])
        # The host's name of the view must be no other case's.
        views[name] = f"differential_{number}"
        time = f"CAST({_quoted(table['time'])} AS TIMESTAMP)" if "time" in table else "CAST(NULL AS TIMESTAMP)"
        frame = reader.load(table["options"]["path"]).selectExpr("*", f"{time} AS __t")
        frame.createOrReplaceTempView(views[name])
    text = _Text(session, document, views, _source_frontiers(session, document, views))
    return {
        sink: session.sql(text.query(table["input"])).drop("__t").toArrow() for sink, table in document["sinks"].items()
    }


def _source_frontiers(session: Any, document: Mapping[str, Any], views: Mapping[str, str]) -> dict[str, int | None]:
    parts = [f"SELECT '{name}' AS source, unix_micros(max(__t)) AS latest FROM {view}" for name, view in views.items()]
    found: dict[str, int | None] = {}
    for row in session.sql(" UNION ALL ".join(parts)).collect():
        late = round(seconds(document["sources"][row.source].get("lateness", 0.0)) * 1e6)
        found[row.source] = None if row.latest is None else (row.latest // 1000) * 1000 - late
    return found


class _Text:
    """Writes the query of an operator: a common table expression per operator above it."""

    def __init__(
        self, session: Any, document: Mapping[str, Any], views: Mapping[str, str], begin: Mapping[str, int | None]
    ) -> None:
        self.session, self.operators, self.views, self.begin = session, document["operators"], views, begin
        self.number = {name: place for place, name in enumerate(self.operators)}

    def table(self, name: str) -> str:
        return self.views.get(name) or f"__n{self.number[name]}"

    def query(self, name: str) -> str:
        """Return the SQL for an operator's rows with ``__t``."""
        if name in self.views:
            return f"SELECT * FROM {self.views[name]}"
        above = [member for member in self._order(name) if member in self.operators]
        tables = ", ".join(f"{self.table(member)} AS ({self._one(member)})" for member in above)
        return f"WITH {tables} SELECT * FROM {self.table(name)}"

    def _order(self, name: str) -> list[str]:
        found: list[str] = []
        for given in inputs_of(self.operators.get(name, {})):
            found += [member for member in self._order(given) if member not in found]
        return [*found, name]

    def frontier(self, name: str) -> int | None:
        """Return the frontier of a source's or an operator's rows (µs since 1970)."""
        if name in self.begin:
            return self.begin[name]
        known = [self.frontier(given) for given in inputs_of(self.operators[name])]
        return None if None in known else min(value for value in known if value is not None)

    def _one(self, name: str) -> str:
        operator = self.operators[name]
        given = [self.table(member) for member in inputs_of(operator)]
        match operator["kind"]:
            case "filter":
                return f"SELECT * FROM {given[0]} WHERE {operator['where']}"
            case "delay":
                return f"SELECT * FROM {given[0]}"
            case "map":
                parts = operator.get("select", "*")
                parts = [parts] if isinstance(parts, str) else parts
                shown = ["* EXCEPT (__t)" if part.strip() == "*" else part for part in parts]
                return f"SELECT {', '.join(shown)}, __t FROM {given[0]}"
            case "python":
                kind = operator["function"].split(":")[1].split("_")[0]
                return PYTHON[kind].format(input=given[0])
            case "union":
                return self._union(given)
            case "join":
                return self._join(operator, given)
            case "aggregate":
                return self._aggregate(operator, given[0], self.frontier(name))
        raise AssertionError(operator["kind"])

    def _union(self, given: list[str]) -> str:
        names = ", ".join(map(_quoted, self._columns(given[0])))
        return " UNION ALL ".join(f"SELECT {names}, __t FROM {table}" for table in given)

    def _join(self, operator: Mapping[str, Any], given: list[str]) -> str:
        one, two = operator["inputs"]
        near = f"INTERVAL {round(seconds(operator['within']) * 1e6)} microseconds"
        first, second = f"{_quoted(one)}.__t", f"{_quoted(two)}.__t"
        shown = operator.get("select")
        if shown is None:
            left, right = self._columns(given[0]), self._columns(given[1])
            both = set(left) & set(right)
            shown = [
                f"{_quoted(side)}.{_quoted(name)} AS {_quoted(f'{side}_{name}' if name in both else name)}"
                for side, names in ((one, left), (two, right))
                for name in names
            ]
        listed = shown if isinstance(shown, str) else ", ".join(shown)
        return (
            f"SELECT {listed}, greatest({first}, {second}) AS __t FROM {given[0]} AS {_quoted(one)} "
            f"JOIN {given[1]} AS {_quoted(two)} ON ({operator['on']}) "
            f"AND {first} >= {second} - {near} AND {first} <= {second} + {near}"
        )

    def _aggregate(self, operator: Mapping[str, Any], given: str, frontier: int | None) -> str:
        length = round(seconds(operator["window"]) * 1e6)
        slide = round(seconds(operator.get("slide", operator["window"])) * 1e6)
        window = f"window(__t, '{length} microseconds', '{slide} microseconds')"
        by = "".join(f"{_quoted(name)}, " for name in _names(operator.get("by")))
        shown = operator.get("select", "count(*) AS count")
        shown = shown if isinstance(shown, str) else ", ".join(shown)
        passed = "false" if frontier is None else f"window.end <= timestamp_micros({frontier})"
        return (
            f"SELECT {by}window.start AS window_start, window.end AS window_end, {shown}, "
            f"window.end - INTERVAL 1 microsecond AS __t FROM {given} GROUP BY {by}{window} HAVING {passed}"
        )

    def _columns(self, table: str) -> list[str]:
        """Return the columns that the user sees of a table that is named already."""
        names = {self.table(name): name for name in [*self.views, *self.operators]}
        return [name for name in self.session.sql(self.query(names[table])).columns if name != "__t"]


def inputs_of(operator: Mapping[str, Any]) -> list[str]:
    """Return the inputs of an operator's table."""
    return [operator["input"]] if "input" in operator else list(operator.get("inputs", []))


def _above(case: Case, name: str) -> list[str]:
    found = [name]
    for given in inputs_of(case.network["operators"].get(name, {})):
        found += _above(case, given)
    return found


def _names(by: Any) -> tuple[str, ...]:
    return tuple(name.strip() for name in (by.split(",") if isinstance(by, str) else by or ()))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def rows_of(table: pa.Table, coarse: bool) -> Counter[tuple[Any, ...]]:
    """Return a table's rows, columns by name, as values that can be compared.

    JSON has times in milliseconds: ``coarse`` cuts them.
    """
    names = sorted(table.column_names)
    columns = [[plain(value, coarse) for value in table.column(name).to_pylist()] for name in names]
    return Counter(zip(*columns, strict=True)) if columns else Counter()


def plain(value: Any, coarse: bool) -> Any:
    """Return a value in the one form in which answers are compared."""
    if isinstance(value, datetime.datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=datetime.UTC)
        since = (aware - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)) // datetime.timedelta(microseconds=1)
        shown = datetime.datetime.fromtimestamp(0, datetime.UTC) + datetime.timedelta(
            microseconds=since // 1000 * 1000 if coarse else since
        )
        return shown.isoformat()
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return f"{value:f}"
    if isinstance(value, dict):
        return tuple((key, plain(part, coarse)) for key, part in sorted(value.items()))
    if isinstance(value, list | tuple):
        parts = tuple(plain(part, coarse) for part in value)
        # Entries of a map come as pairs, in any order.
        pairs = bool(parts) and all(isinstance(part, tuple) and len(part) == 2 for part in value)
        return tuple(sorted(parts)) if pairs else parts
    return value


def check(answers: Mapping[str, Answer], actual: Mapping[str, Any]) -> list[str]:
    """Return how a run's rows differ from what they must be, a line each."""
    found = []
    for sink, answer in answers.items():
        rows = actual[sink]
        if isinstance(rows, str):
            found.append(f"{sink}: {rows}")
        elif answer.keys is not None and answer.lower != answer.upper:
            found += [f"{sink}: {line}" for line in _windows_differ(answer, rows)]
        else:
            found += [f"{sink}: {line}" for line in _rows_differ(answer, rows)]
    return found


def _rows_differ(answer: Answer, rows: Counter[tuple[Any, ...]]) -> list[str]:
    missing, excess = answer.lower - rows, rows - answer.upper
    names = sorted(answer.shape.names)
    found = []
    for what, rest in (("missing", missing), ("too many", excess)):
        if rest:
            shown = "; ".join(f"{count} x {_shown(names, row)}" for row, count in _some(rest))
            found.append(f"{sum(rest.values())} of {sum(answer.upper.values())} rows {what}: {shown}")
    return found


def _windows_differ(answer: Answer, rows: Counter[tuple[Any, ...]]) -> list[str]:
    """Compare results of windows that late rows may or may not have reached: every value lies between."""
    names = sorted(answer.shape.names)
    keys = [names.index(name) for name in answer.keys or ()]

    def by_key(counted: Counter[tuple[Any, ...]]) -> dict[tuple[Any, ...], tuple[Any, ...]]:
        return {tuple(row[place] for place in keys): row for row in counted}

    lower, upper, got = by_key(answer.lower), by_key(answer.upper), by_key(rows)
    found = [f"window {_shown(names, row)} came {count} times" for row, count in rows.items() if count > 1]
    if len(got) < len(rows):
        found.append(f"{len(rows) - len(got)} windows came again with other values")
    found += [f"window {_shown(names, lower[key])} is missing" for key in lower if key not in got]
    found += [f"window {_shown(names, got[key])} must not come" for key in got if key not in upper]
    for key, row in got.items():
        bounds = zip(row, lower.get(key, (None,) * len(row)), upper.get(key, row), strict=True)
        if not all(_between(*part) for part in bounds):
            low = _shown(names, lower[key]) if key in lower else "nothing"
            found.append(f"window {_shown(names, row)} is not between {low} and {_shown(names, upper[key])}")
    return found[:5]


def _between(value: Any, low: Any, high: Any) -> bool:
    """Whether a value lies between two; below, null is no bound."""
    if value in (low, high):
        return True
    if value is None or high is None:
        return False
    # A minimum falls where rows are added.
    parts = [value, high] if low is None else [value, low, high]
    if all(isinstance(part, str) and re.fullmatch(r"-?[\d.]+", part) for part in parts):
        parts = [decimal.Decimal(part) for part in parts]
    return low is None or min(parts[1:]) <= parts[0] <= max(parts[1:])


def _some(rows: Counter[tuple[Any, ...]]) -> list[tuple[tuple[Any, ...], int]]:
    return sorted(rows.items(), key=repr)[:2]


def _shown(names: list[str], row: tuple[Any, ...]) -> str:
    return "{" + ", ".join(f"{name}: {value}" for name, value in zip(names, row, strict=True)) + "}"
