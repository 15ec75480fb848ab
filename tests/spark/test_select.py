"""What a user's SQL may say of columns: nothing is computed of rows that are not there; stars; names and types."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import attrs
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DayTimeIntervalType,
    MapType,
    NullType,
    StructField,
    StructType,
)

from penstock.cluster import SparkSettings
from penstock.errors import InputError
from penstock.network import Network
from penstock.network.file import parse_network
from penstock.spark.compile import check_network, derive_schemas
from penstock.spark.compile.shapes import check_file, check_types
from penstock.spark.compile.sql import split_columns
from penstock.spark.run import Engine, Outcome

SCHEMA = "user string, price int, at timestamp"
ROWS = [("a", 1, 1), (None, 2, 2), ("b", 3, 30), ("c", 0, 31)]


def network(folder: Path, operators: dict[str, Any], schema: str = SCHEMA, **sink: Any) -> Network:
    """Return a network over a JSON source ``s``, whose only sink reads the last operator, unless it says otherwise."""
    folder.mkdir(exist_ok=True)
    lines = [{"user": user, "price": price, "at": f"2026-03-01T12:00:{second:02d}Z"} for user, price, second in ROWS]
    (folder / "a.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
    source = {"format": "json", "schema": schema, "time": "at", "options": {"path": str(folder)}}
    sinks = {"out": {"input": list(operators)[-1], **sink}}
    return parse_network({"name": "n", "sources": {"s": source}, "operators": operators, "sinks": sinks})


def of_map(select: str) -> dict[str, Any]:
    return {"m": {"kind": "map", "input": "s", "select": select}}


def of_join(select: str) -> dict[str, Any]:
    join = {"kind": "join", "inputs": ["v", "b"], "on": "v.user = b.user", "within": "10 seconds", "select": select}
    return {"v": {"kind": "map", "input": "s"}, "b": {"kind": "map", "input": "s"}, "j": join}


def of_aggregate(**keys: Any) -> dict[str, Any]:
    return {"g": {"kind": "aggregate", "input": "s", "window": "10 seconds", **keys}}


def run(engine: Engine, made: Network, placement: dict[str, str], folder: Path) -> tuple[Outcome, list[dict[str, Any]]]:
    """Run a network once; return what came of it, and the rows of its sink."""
    outcome = engine.run_once(engine.prepare(made, placement, folder))
    assert outcome.balanced(made)
    return outcome, [row for path in (folder / "sinks/out").iterdir() for row in pq.read_table(path).to_pylist()]


@pytest.mark.spark
@pytest.mark.parametrize("hosts", [("h1", "h1", "h1"), ("h1", "h2", "h2")], ids=["together", "apart"])
def test_nothing_is_computed_of_rows_that_are_not_there(engine: Engine, tmp_path: Path, hosts: tuple[str, ...]) -> None:
    """SQL that fails of nulls gets rows that a filter let through, and no marks, on whatever host."""
    operators = {
        "kept": {"kind": "filter", "input": "s", "where": "user IS NOT NULL AND price > 0"},
        "made": {
            "kind": "map",
            "input": "kept",
            "select": "map(user, price) AS m, price, if(user IS NULL, raise_error('no user'), user) AS user, "
            "12 div coalesce(price, 0) AS part, part + 1 AS more, struct(price AS p) AS s",
        },
        "flat": {"kind": "map", "input": "made", "select": "s.*, * EXCEPT (price, s)"},
        "some": {"kind": "filter", "input": "flat", "where": "m[user] > 0"},
    }
    placement = dict(zip(operators, (hosts[0], *hosts), strict=True))
    _, rows = run(engine, network(tmp_path / "in", operators), placement, tmp_path / "run")
    assert sorted(rows, key=lambda row: row["user"]) == [
        {"p": 1, "m": [("a", 1)], "user": "a", "part": 12, "more": 13},
        {"p": 3, "m": [("b", 3)], "user": "b", "part": 4, "more": 5},
    ]


@pytest.mark.spark
def test_a_union_takes_names_in_any_case(engine: Engine, tmp_path: Path) -> None:
    """Columns whose names differ in case only are one column, called as the first input has it."""
    operators = {
        "one": {"kind": "map", "input": "s", "select": "user, price AS Price"},
        "two": {"kind": "map", "input": "s", "select": "price, `explode` /* twice */ (array(USER, USER)) AS USER"},
        "u": {"kind": "union", "inputs": ["one", "two"]},
    }
    made = network(tmp_path / "in", operators)
    _, rows = run(engine, made, {"one": "h1", "two": "h1", "u": "h2"}, tmp_path / "run")
    assert {tuple(row) for row in rows} == {("user", "Price")}
    assert sorted(row["Price"] for row in rows) == sorted(price for _, price, _ in ROWS * 3)


@pytest.mark.spark
def test_a_star_of_a_join_runs(engine: Engine, tmp_path: Path) -> None:
    """The columns of one input, and one of the other: rows have them and nothing besides."""
    made = network(tmp_path / "in", of_join("v.* EXCEPT (at), b.price AS paid"))
    _, rows = run(engine, made, {"v": "h1", "b": "h1", "j": "h1"}, tmp_path / "run")
    assert sorted(rows, key=lambda row: row["user"]) == [
        {"user": user, "price": price, "paid": price} for user, price, _ in ROWS if user
    ]


@pytest.mark.spark
@pytest.mark.parametrize("hosts", [("h1", "h1", "h1"), ("h1", "h2", "h1")], ids=["together", "apart"])
def test_stars_in_calls_are_what_spark_takes_them_for(engine: Engine, tmp_path: Path, hosts: tuple[str, ...]) -> None:
    """Rows have the JSON, hashes and lengths that plain Spark gives of the columns that the user sees."""
    time, where = "if(length(concat_ws('|', *)) < 40, at, NULL)", "length(concat_ws('|', *)) < 25"
    select = ["user", "price", "to_json(struct(*)) AS row", "xxhash64(*, 'x') AS h"]
    listed = "array_sort(collect_list(to_json(struct(* EXCEPT (price))))) AS rows, count(*) AS n"
    operators = {
        "kept": {"kind": "filter", "input": "s", "where": where},
        "made": {"kind": "map", "input": "kept", "select": select},
        "g": {"kind": "aggregate", "input": "made", "window": "1 minute", "select": listed},
    }
    made = network(tmp_path / "in", operators)
    made = attrs.evolve(made, sources={"s": attrs.evolve(made.sources["s"], time=time)})
    # Closes the window, and is too long for the filter.
    late = {"user": "later", "price": 9, "at": "2026-03-01T12:02:00Z"}
    (tmp_path / "in/b.json").write_text(json.dumps(late) + "\n")
    _, (row,) = run(engine, made, dict(zip(operators, hosts, strict=True)), tmp_path / "run")
    session = engine.sessions["h1"]
    read = session.read.schema(SCHEMA).json(str(tmp_path / "in")).filter(where).selectExpr(*select)
    assert (row["rows"], row["n"]) == tuple(read.selectExpr(*split_columns(listed)).collect()[0])
    assert row["n"] == 4


@pytest.mark.spark
def test_stars_in_a_joins_calls_are_the_inputs_columns(engine: Engine, tmp_path: Path) -> None:
    """One input's or both inputs' columns, in what a join selects and in what it compares."""
    operators = of_join("to_json(struct(v.*)) AS one, to_json(struct(* EXCEPT (v.user, b.at))) AS both")
    operators["j"]["on"] = "v.user = b.user AND xxhash64(v.*) = xxhash64(b.*)"
    made = network(tmp_path / "in", operators)
    _, rows = run(engine, made, {"v": "h1", "b": "h1", "j": "h1"}, tmp_path / "run")
    times = {user: f"2026-03-01T12:00:{second:02d}.000Z" for user, _, second in ROWS}
    assert sorted((row["one"], row["both"]) for row in rows) == [
        (
            f'{{"user":"{user}","price":{price},"at":"{times[user]}"}}',
            f'{{"price":{price},"at":"{times[user]}","user":"{user}","price":{price}}}',
        )
        for user, price, _ in ROWS
        if user
    ]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("operators", "names"),
    [
        (of_map("* EXCEPT (user)"), "price at"),
        (of_map("struct(user, price) AS p, *"), "p user price at"),
        (of_map("user AS _id, price AS _time, at AS _stimulus"), "_id _time _stimulus"),
        (of_map("* EXCEPT (at), explode(array(1, 2)) AS k"), "user price k"),
        (of_join("*"), "v_user v_price v_at b_user b_price b_at"),
        (of_join("* EXCEPT (v_at, b_at)"), "v_user v_price b_user b_price"),
        (of_join("v.*, b.price AS paid"), "user price at paid"),
        (of_join("`V`.* EXCEPT (v.at), upper(b.user) AS name"), "user price name"),
        (of_aggregate(by="user", select="count(*) AS _w"), "user window_start window_end _w"),
    ],
)
def test_stars_are_the_columns_that_the_user_sees(
    engine: Engine, tmp_path: Path, operators: dict[str, Any], names: str
) -> None:
    """A star has no column of ours, and one of a join names equal columns by their input."""
    made = network(tmp_path / "in", operators)
    assert derive_schemas(engine.sessions["h1"], made, {})[list(operators)[-1]].names == names.split()


TEXT, CSV, ORC = ({"format": form, "options": {"path": "out"}} for form in ("text", "csv", "orc"))
KAFKA = {"format": "kafka", "options": {"topic": "x", "value": "user"}}
SECOND = {"h": {"kind": "aggregate", "input": "g", "window": "20 seconds", "by": "window_start"}}


@pytest.mark.spark
@pytest.mark.parametrize(
    ("operators", "sink", "said"),
    [
        (of_map("*, upper(user) AS user"), {}, r"operators\.m\.select: two columns are called 'user'"),
        (of_map("user, upper(user) AS User"), {}, r"operators\.m\.select: two columns are called 'User'"),
        (of_map("user, price AS __ID"), {}, r"operators\.m\.select: the column name '__ID' is used by penstock"),
        (of_map("user, price AS __m"), {}, r"operators\.m\.select: the column name '__m' is used by penstock"),
        (of_join("v.*, b.*"), {}, r"operators\.j\.select: two columns are called 'user'"),
        (of_aggregate(select="count(*) AS __origin"), {}, r"operators\.g\.select: the column name '__origin' is used"),
        (of_aggregate(select="max(price) AS __stimulus"), {}, r"operators\.g\.select: the column name '__stimulus'"),
        (of_aggregate(by="user") | SECOND, {}, r"operators\.h: two columns are called 'window_start'"),
        (
            of_aggregate(by=["`user`"]),
            {},
            r"operators\.g\.by: '`user`' is no column of 's' \(did you mean 'user'\?; name a column without backticks, "
            "compute it in a map before",
        ),
        (
            of_aggregate(by="upper(user) AS u"),
            {},
            r"operators\.g\.by: .*\(columns: user, price, at; name a column with",
        ),
        (of_map("INTERVAL '1' YEAR AS y"), {}, r"operators\.m\.select: the column 'y' \(interval year\) cannot leave"),
        (of_map("parse_json('[1]') AS v"), {}, r"operators\.m\.select: the column 'v' \(variant\) cannot leave Spark"),
        (of_map("array(parse_json('1')) AS v"), {}, r"operators\.m\.select: the column 'v' \(array<variant>\) cannot"),
        (of_map("user COLLATE UTF8_LCASE AS c"), {}, r"operators\.m\.select: the column 'c' .* cannot leave Spark"),
        (of_map("array(struct(TIME'12:00' AS t)) AS c"), {}, r"operators\.m\.select: the column 'c' .*time.* cannot"),
        (of_map("user, price"), TEXT, r"sinks\.out\.format: text has one column of type string"),
        (of_map("array(user) AS tags"), CSV, r"sinks\.out\.format: csv cannot hold the column 'tags'"),
        (
            of_map("user, '1' AS partition"),
            KAFKA,
            r"expected int as partition, got string: the column 'partition' is this",
        ),
        (of_map("user, array(user) AS headers"), KAFKA, r"expected array<struct<.*as headers, got array<string>: the"),
        (of_map("user, 1 AS key"), KAFKA, r"expected text or bytes as key, got int: the column 'key' is this part"),
        (of_map("array(NULL) AS tags"), ORC, r"sinks\.out\.format: orc cannot hold the column 'tags'"),
    ],
)
def test_columns_that_cannot_be_are_refused_by_name(
    engine: Engine, tmp_path: Path, operators: dict[str, Any], sink: dict[str, Any], said: str
) -> None:
    """What Spark would take and a query would fail of, or lose, is refused with operator or sink, and column."""
    with pytest.raises(InputError, match=said):
        derive_schemas(engine.sessions["h1"], network(tmp_path / "in", operators, **sink), {})


@pytest.mark.parametrize(
    "kind",
    [MapType(NullType(), NullType(), False), DayTimeIntervalType(0, 0), ArrayType(DayTimeIntervalType(0, 1))],
    ids=lambda kind: kind.simpleString(),
)
def test_types_that_arrow_does_not_give_back_are_refused(kind: DataType) -> None:
    """A column that Arrow cannot hold, or gives back as another type, is refused with its type and what to do."""
    fields = [StructField("c", kind)]
    with pytest.raises(InputError, match=r"operators\.m: the column 'c' \(.*\) cannot leave Spark \(cast it"):
        check_types(fields, "operators.m")


@pytest.mark.parametrize(("form", "kind"), [("csv", NullType()), ("xml", DayTimeIntervalType())])
def test_types_that_no_file_of_a_format_holds_are_refused(tmp_path: Path, form: str, kind: DataType) -> None:
    """What Spark would refuse with the first batch is refused at the sink, and passes into other formats."""
    shape = StructType([StructField("c", kind)])
    made = network(tmp_path, of_map("*"), format=form, options={"path": "out"})
    with pytest.raises(InputError, match=rf"sinks\.out\.format: {form} cannot hold the column 'c'"):
        check_file(made.sinks["out"], shape)
    check_file(attrs.evolve(made.sinks["out"], format="json"), shape)


@pytest.mark.spark
@pytest.mark.parametrize("column", ["_Row", "__x", "USER"])
def test_columns_of_a_source_are_checked_whatever_their_case(engine: Engine, tmp_path: Path, column: str) -> None:
    """A source may have no column of ours, nor two that Spark takes for one."""
    made = network(tmp_path / "in", of_map("price"), f"{SCHEMA}, {column} int")
    with pytest.raises(InputError, match=rf"(?i)sources\.s.*{column}"):
        derive_schemas(engine.sessions["h1"], made, {})


@pytest.mark.parametrize(
    ("operators", "said"),
    [
        (of_aggregate(select="count(DISTINCT user) AS n"), r"operators\.g\.select: Spark aggregates no distinct"),
        (of_map("user, row_number() OVER (PARTITION BY user ORDER BY at) AS n"), r"operators\.m\.select: .* \(OVER\)"),
        (of_join("v.*, max(b.price) over (partition by b.user) AS n"), r"operators\.j\.select: .* \(OVER\)"),
    ],
)
def test_what_is_for_tables_only_is_refused(tmp_path: Path, operators: dict[str, Any], said: str) -> None:
    """Spark tells it only when a stream begins; it is said before a host starts, with operator and key."""
    with pytest.raises(InputError, match=said):
        check_network(network(tmp_path / "in", operators), SparkSettings())


def test_a_join_of_names_that_differ_in_case_is_refused(tmp_path: Path) -> None:
    """SQL would take columns of the one input for those of the other."""
    join = {"kind": "join", "inputs": ["v", "V"], "on": "v.user = V.user", "within": "10 seconds"}
    operators = {name: {"kind": "map", "input": "s"} for name in "vV"}
    with pytest.raises(InputError, match=r"operators\.j\.inputs: 'v' and 'V' are one name in SQL"):
        check_network(network(tmp_path / "in", {**operators, "j": join}), SparkSettings())


@pytest.mark.parametrize(
    ("sink", "said"),
    [
        ({"options": {"path": "out", "PartitionBy": "user"}}, r"sinks\.out\.options\.PartitionBy: .* into folders"),
        (
            {"format": "csv", "options": {"path": "out", "sortBy": "at"}},
            r"sinks\.out\.options\.sortBy: .* into folders",
        ),
        ({"format": "Rate"}, r"sinks\.out\.format: rate can be read and not written"),
        ({"format": "nexmark"}, r"sinks\.out\.format: nexmark can be read and not written"),
    ],
)
def test_what_a_sink_would_not_do_is_refused(tmp_path: Path, sink: dict[str, Any], said: str) -> None:
    """Spark passes over options that part files, and tells of formats for reading only when the first batch comes."""
    with pytest.raises(InputError, match=said):
        check_network(network(tmp_path / "in", of_map("*"), **sink), SparkSettings())


@pytest.mark.parametrize(("options", "circle"), [({}, True), ({"pathGlobFilter": "in-*"}, False)])
def test_a_sink_feeds_no_source_of_its_own(options: dict[str, str], circle: bool) -> None:
    """A folder that is read and written, however it is named, is refused unless the source takes files by names."""
    source = {"format": "json", "schema": SCHEMA, "options": {"path": "in", **options}}
    sink = {"input": "m", "format": "json", "options": {"path": f"file://{Path.cwd()}/out/../in/"}}
    made = {"name": "n", "sources": {"s": source}, "operators": of_map("*"), "sinks": {"out": sink}}
    refused = pytest.raises(InputError, match=r"sinks\.out\.options\.path: the source 's' reads this folder")
    with refused if circle else nullcontext():
        check_network(parse_network(made), SparkSettings())


@pytest.mark.parametrize(
    ("operators", "said"),
    [
        (of_map("*, uuid() AS u"), r"operators\.m\.select: uuid\(\) may change"),
        (of_map("*, `rand` (42) AS r"), r"operators\.m\.select: rand\(\) may change"),
        (of_map("shuffle(array(1, 2)) AS a"), r"operators\.m\.select: shuffle\(\) may change"),
        (of_map("Monotonically_Increasing_ID() AS n"), r"operators\.m\.select: monotonically_increasing_id\(\) may"),
        (
            {"f": {"kind": "filter", "input": "s", "where": "RAND () < 0.5"}},
            r"operators\.f\.where: rand\(\) may change",
        ),
        (of_join("v.*") | {"j": {**of_join("v.*")["j"], "on": "randn() > 0"}}, r"operators\.j\.on: randn\(\) may"),
        (
            of_map("*") | {"n": {"kind": "map", "input": "m", "select": "input_file_name() AS f"}},
            r"operators\.n\.select",
        ),
    ],
)
def test_what_differs_when_it_is_computed_again_is_refused(
    tmp_path: Path, operators: dict[str, Any], said: str
) -> None:
    """Rows may be computed for several branches and again after a kill: SQL has the same values of them each time."""
    with pytest.raises(InputError, match=said):
        check_network(network(tmp_path / "in", operators), SparkSettings())


def test_a_join_of_sources_knows_no_files() -> None:
    """Of a row that comes of two sources Spark says no file: it is said before a host starts."""
    source = {"format": "json", "schema": SCHEMA, "time": "at", "options": {"path": "in"}}
    join = {"kind": "join", "inputs": ["s", "t"], "within": 1, "select": "s.user, input_file_name() AS f"}
    made = parse_network({"name": "n", "sources": {"s": source, "t": source}, "operators": {"j": join}})
    with pytest.raises(InputError, match=r"operators\.j\.select: input_file_name\(\) knows of files only"):
        check_network(made, SparkSettings())


def test_an_event_time_by_chance_is_refused(tmp_path: Path) -> None:
    """A source's event time is the same whenever its rows are read."""
    made = network(tmp_path / "in", of_map("*"))
    source = attrs.evolve(made.sources["s"], time="timestamp_seconds(1000 * rand())")
    with pytest.raises(InputError, match=r"sources\.s\.time: rand\(\)"):
        check_network(attrs.evolve(made, sources={"s": source}), SparkSettings())


def test_what_is_the_same_each_time_is_not_refused(tmp_path: Path) -> None:
    """A batch's own time, a source's file, a hash, and names and texts that look like chance are plain SQL."""
    select = "now() AS n, input_file_name() AS f, xxhash64(user) AS h, price AS rand, 'uuid()' AS t, -- rand()\n at"
    check_network(network(tmp_path / "in", of_map(select)), SparkSettings())


def test_words_that_look_like_it_are_not_refused(tmp_path: Path) -> None:
    """A comparison by DISTINCT, and a text or a name with such words, are plain SQL."""
    select = "user IS DISTINCT FROM 'x' AS one, 'count(DISTINCT a) OVER (b)' AS two, price AS `over (`"
    check_network(network(tmp_path / "in", of_map(select)), SparkSettings())


@pytest.mark.spark
def test_sql_may_end_with_a_comment(engine: Engine, tmp_path: Path) -> None:
    """A condition, a list of columns and an event time end where their text does, whatever its last line is."""
    operators = {
        **of_join("v.user -- of both"),
        "v": {"kind": "filter", "input": "s", "where": "price > 0 -- (paid"},
    }
    operators["j"]["on"] = "v.user = b.user -- the same"
    made = network(tmp_path / "in", operators)
    source = attrs.evolve(made.sources["s"], time="at + INTERVAL 0 seconds -- as it is")
    made = attrs.evolve(made, sources={"s": source})
    _, rows = run(engine, made, {"v": "h1", "b": "h1", "j": "h1"}, tmp_path / "run")
    assert sorted(row["user"] for row in rows) == ["a", "b"]


@pytest.mark.spark
def test_groups_are_told_apart_by_a_map(engine: Engine, tmp_path: Path) -> None:
    """An aggregate groups by a column of type map, whose entries may come in any order."""
    select = "if(price < 3, map('x', 1, 'y', price % 2), map('y', price % 2, 'x', 1)) AS m"
    summed = {"kind": "aggregate", "input": "m", "by": "m", "window": "1 minute"}
    more = {"kind": "filter", "input": "g", "where": "count > 0"}
    made = network(tmp_path / "in", {**of_map(select), "g": summed, "more": more})
    late = [{"user": "z", "price": 9, "at": "2026-03-01T12:02:00Z"}]
    (tmp_path / "in/b.json").write_text("".join(json.dumps(line) + "\n" for line in late))
    _, rows = run(engine, made, {"m": "h1", "g": "h1", "more": "h2"}, tmp_path / "run")
    assert sorted((sorted(row["m"]), row["count"]) for row in rows) == [
        ([("x", 1), ("y", 0)], 2),
        ([("x", 1), ("y", 1)], 2),
    ]


@pytest.mark.spark
def test_a_python_step_takes_columns_of_any_name(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its function sees and gives columns by their own names, also those with dots and backticks."""
    (tmp_path / "odd_steps.py").write_text(
        "import pyarrow as pa\n\n\n"
        "def steps(batches):\n    for batch in batches:\n"
        "        at = batch.schema.names.index('a.b')\n"
        "        yield batch.set_column(at, 'a.b', pa.compute.add(batch.column('a.b'), 1))\n"
    )
    monkeypatch.chdir(tmp_path)
    step = {"kind": "python", "input": "m", "function": "odd_steps:steps"}
    made = network(tmp_path / "in", {**of_map("price AS `a.b`, user AS `it``s`, user AS `c1`"), "p": step})
    _, rows = run(engine, made, {"m": "h1", "p": "h1"}, tmp_path / "run")
    assert sorted((row["a.b"], row["it`s"], row["c1"]) for row in rows if row["c1"]) == [
        (1, "c", "c"), (2, "a", "a"), (4, "b", "b"),
    ]  # fmt: skip


@pytest.mark.spark
def test_what_nobody_reads_runs_and_counts(engine: Engine, tmp_path: Path) -> None:
    """Operators without readers are computed, alone in a query and beside others, and what they get is counted."""
    operators = {
        "sums": {"kind": "aggregate", "input": "s", "window": "10 seconds", "by": "user"},
        "beside": {"kind": "aggregate", "input": "kept", "window": "10 seconds"},
        "kept": {"kind": "filter", "input": "s", "where": "price > 0"},
    }
    made = network(tmp_path / "in", operators)
    outcome, rows = run(engine, made, {"sums": "h2", "beside": "h1", "kept": "h1"}, tmp_path / "run")
    assert {name: row["arrived"] for name, row in outcome.streams(made).items()} == {
        "s->sums": 4, "s->kept": 4, "kept->beside": 3, "kept->out": 3,
    }  # fmt: skip
    assert len(rows) == 3
