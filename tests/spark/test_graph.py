"""What a query is made of, and what older batches add up to, without Spark."""

from __future__ import annotations

import io
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import MapType, StringType, StructField, StructType, VariantType

from penstock.cluster import SparkSettings
from penstock.errors import InputError
from penstock.latency.fragments import fragments, own_plan
from penstock.network import Network
from penstock.network.file import parse_network
from penstock.spark.compile import check_network
from penstock.spark.compile.drops import Drops
from penstock.spark.compile.graph import Graph, drops_into, sheddable, stateful_behind
from penstock.spark.compile.kinds import hashed
from penstock.spark.compile.sql import split_columns
from penstock.spark.compile.streams import passes
from penstock.spark.run.history import History, classed, read_history, write_history
from penstock.spark.shipped.place import Place
from penstock.spark.shipped.told import note_of

EVENTS = {"format": "json", "schema": "k string, at timestamp", "time": "at"}


def network(operators: dict[str, Any], sinks: dict[str, Any], **sources: Any) -> Network:
    """Return a network over sources of JSON files."""
    return parse_network(
        {"name": "g", "sources": sources or {"events": EVENTS}, "operators": operators, "sinks": sinks}
    )


UNION = network(
    {
        "buys": {"kind": "filter", "input": "events", "where": "k = 'b'"},
        "views": {"kind": "filter", "input": "events", "where": "k = 'v'"},
        "all": {"kind": "union", "inputs": ["buys", "views"]},
        "counted": {"kind": "aggregate", "input": "all", "window": "10 seconds"},
    },
    {"out": {"input": "counted"}},
)


def graphs(made: Network, **placement: str) -> dict[str, Graph]:
    """Return the graph of each host's query."""
    return {fragment.host: Graph(made, fragment) for fragment in fragments(made, placement)}


def test_a_union_of_two_hosts_reads_the_source_and_a_log() -> None:
    """Each query knows what it reads, which of it has marks, and which sources it must recall."""
    found = graphs(UNION, buys="h1", views="h2", all="h1", counted="h2")
    assert found["h1"].outside == ("@events", "@views")
    assert [found["h1"].marked(origin) for origin in found["h1"].outside] == [False, True]
    assert found["h1"].logs("all") == ["all"]
    assert found["h1"].derives("all") == ((0, 1), False)
    assert found["h1"].recalled == ()
    # The window is behind the log only: Spark's watermark follows its marks, and no source need be recalled.
    assert found["h2"].derives("counted") == ((0,), True)
    assert found["h2"].recalled == ()


def test_all_on_one_host_recalls_the_source() -> None:
    """A query whose watermark follows a source of Spark's own recalls it, and needs no times at its writer."""
    (graph,) = graphs(UNION, buys="h1", views="h1", all="h1", counted="h1").values()
    assert graph.recalled == (0,)
    assert not graph.timed
    assert graph.alone("all")


def test_a_log_asks_for_event_times() -> None:
    """A query that writes a log hears of the event time of what the log derives from, and of nothing else."""
    made = network(
        {
            "kept": {"kind": "filter", "input": "events", "where": "true"},
            "far": {"kind": "filter", "input": "kept", "where": "true"},
            "counted": {"kind": "aggregate", "input": "others", "window": "10 seconds"},
        },
        {"one": {"input": "counted"}, "two": {"input": "far"}},
        events=EVENTS,
        others=EVENTS,
    )
    graph = graphs(made, kept="h1", counted="h1", far="h2")["h1"]
    assert graph.timed
    assert graph.needed("@events")
    assert not graph.needed("@others")
    assert graph.silent("@others")


def test_windows_behind_and_what_drops_them() -> None:
    """Streams in front of a window are known, however far in front."""
    assert stateful_behind(UNION, "buys")
    assert not stateful_behind(UNION, "counted")
    assert sheddable(UNION) == {stream.name for stream in UNION.streams}
    names = {"events->buys", "all->counted", "counted->out"}
    assert drops_into(UNION, UNION.operators["counted"], names) == ["all->counted", "events->buys"]


def test_streams_whose_windows_cannot_be_dropped_whole() -> None:
    """In front of a join over time, or of windows, that other windows follow, no stream can drop; behind it, it can."""
    window = {"kind": "aggregate", "window": "10 seconds"}
    joined = {
        "buys": {"kind": "filter", "input": "events", "where": "k = 'b'"},
        "views": {"kind": "filter", "input": "events", "where": "k = 'v'"},
        "pairs": {"kind": "join", "inputs": ["buys", "views"], "on": "buys.k = views.k", "within": "2 seconds"},
    }
    made = network({**joined, "counted": {**window, "input": "pairs"}}, {"out": {"input": "counted"}})
    assert sheddable(made) == {"pairs->counted", "counted->out"}
    # Rows at the same time are in the same window, and a pair that goes to a sink is in none.
    joined["pairs"]["within"] = "0 seconds"
    made = network({**joined, "counted": {**window, "input": "pairs"}}, {"out": {"input": "counted"}})
    assert sheddable(made) == {stream.name for stream in made.streams}
    joined["pairs"]["within"] = "2 seconds"
    made = network(joined, {"out": {"input": "pairs"}})
    assert sheddable(made) == {stream.name for stream in made.streams}
    nested = {"first": {**window, "input": "events"}, "second": {**window, "input": "first"}}
    # A window over the results of a single one is left out with it.
    made = network(nested, {"out": {"input": "second"}})
    assert sheddable(made) == {stream.name for stream in made.streams}
    nested["second"]["window"] = "20 seconds"
    made = network(nested, {"out": {"input": "second"}})
    assert sheddable(made) == {"first->second", "second->out"}
    outer, inner = (made.inputs(name)[0] for name in ("second", "first"))
    keep = Drops({outer.name: 0.5, inner.name: 0.5})
    assert "__time" in passes(outer, made, keep)[1]
    with pytest.raises(InputError, match="no window can be dropped whole"):
        passes(inner, made, keep)


@pytest.mark.parametrize(
    ("readers", "way", "refused"),
    [(2, "delete", True), (2, "Archive", True), (2, "OFF", False), (1, "delete", False)],
)
def test_a_source_that_is_cleaned_has_one_reader(readers: int, way: str, refused: bool) -> None:
    """Files that the first reader would remove under the others are refused before the start."""
    cleaned = {**EVENTS, "options": {"path": "in", "cleanSource": way}}
    names = [f"f{number}" for number in range(readers)]
    operators = {name: {"kind": "filter", "input": "events", "where": "true"} for name in names}
    made = network(operators, {f"out-{name}": {"input": name} for name in names}, events=cleaned)
    with pytest.raises(InputError, match="finish a file") if refused else nullcontext():
        check_network(made, SparkSettings())


@pytest.mark.parametrize(
    ("path", "said"),
    [("", "empty path"), (" ", "empty path"), ("file://data/in", "whole path"), ("file:in", "whole path")],
)
@pytest.mark.parametrize("kind", ["sources.events", "sinks.out"])
def test_a_path_that_names_no_place_is_refused(kind: str, path: str, said: str) -> None:
    """Neither source nor sink falls back to the current folder, or to a part of what was written."""
    options = {"format": "json", "options": {"path": path}}
    events = {**EVENTS, **options} if kind == "sources.events" else EVENTS
    sink = {"input": "f", **(options if kind == "sinks.out" else {})}
    made = network({"f": {"kind": "filter", "input": "events", "where": "true"}}, {"out": sink}, events=events)
    with pytest.raises(InputError, match=rf"{kind}\.options\.path: .*{said}"):
        check_network(made, SparkSettings())


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a, b AS c", ["a", "b AS c"]),
        ("f(a, b) AS x, `odd, name`", ["f(a, b) AS x", "`odd, name`"]),
        (r"'it\'s, so' AS t, array(1, 2)[0]", [r"'it\'s, so' AS t", "array(1, 2)[0]"]),
        ("a /* one, two */, b", ["a", "b"]),
        ("/* all, */ *", ["*"]),
        ("named_struct('x', 1, 'y', 2) AS s", ["named_struct('x', 1, 'y', 2) AS s"]),
        ("größe, *", ["größe", "*"]),
    ],
)
def test_select_lists_are_split_as_spark_reads_them(text: str, parts: list[str]) -> None:
    """Commas in strings, comments, names and calls do not split, and comments around a part are left out."""
    assert split_columns(text) == parts


@pytest.mark.parametrize(
    ("select", "several"),
    [
        ("Explode(a) AS x", True),
        ("`inline_outer` (a)", True),
        ("stack /* 2 ** 1 */ -- rows\n (2, 1, 2)", True),
        ("variant_explode/**/(v)", True),
        ("explode AS x, exploded(a), a -- explode\n", False),
        ("stack" + " /**/" * 60, False),
    ],
)
def test_what_makes_several_rows_of_one_has_a_plan_of_its_own(select: str, several: bool) -> None:
    """A call is known by its name, in backticks or not, and its bracket, whatever spaces and comments are between."""
    made = network({"m": {"kind": "map", "input": "events", "select": select}}, {"out": {"input": "m"}})
    assert own_plan(made.operators["m"]) is several


def test_items_of_a_select_list_end_where_their_text_does() -> None:
    """A comment at the end of an item takes nothing of the items behind it."""
    select = ["user -- who, when", "price /* net */", "at AS t -- when"]
    document = {"name": "n", "sources": {"s": {}}, "operators": {"m": {"kind": "map", "input": "s", "select": select}}}
    joined = parse_network(document).operators["m"].select
    assert joined is not None
    assert split_columns(joined) == ["user", "price", "at AS t"]


def test_what_spark_cannot_hash_is_hashed_as_text() -> None:
    """Maps, variants and what holds others are told by their text; which columns are null, where several may be."""
    inner = StructType([StructField("v", VariantType())])
    kinds = {"k": StringType(), "m": MapType(StringType(), StringType()), "v": VariantType(), "s": inner}
    found = hashed([StructField(name, kind, nullable=name in "k") for name, kind in kinds.items()])
    assert found == "`k`, CAST(`m` AS STRING), to_json(`v`), to_json(`s`)"
    assert hashed([StructField(name, StringType()) for name in "ab"]) == "`a`, `b`, isnull(`a`), isnull(`b`)"


@given(latency=st.lists(st.floats(0.0, 5000.0), min_size=1, max_size=200))
def test_history_keeps_latencies_within_half_a_per_cent(latency: list[float]) -> None:
    """Every tuple is counted, the worst is exact, and quantiles are within half a per cent."""
    values = np.array(latency)
    history = History(classes={"out": classed(values)}, worst={"out": float(values.max())})
    found, weights = history.latency("out")
    assert weights.sum() == values.size == history.delivered("out")
    assert found.max() == values.max()
    spread = np.sort(np.repeat(found, weights.astype(int)))
    assert np.allclose(spread, np.sort(values), rtol=0.005, atol=1e-4)


def test_history_is_read_as_it_was_written(tmp_path: Path) -> None:
    """A history survives its file, and knows which batches it holds."""
    history = History({"h1": 3}, {"a->b": (5, 1)}, {"a->b": 2}, {"a": 4}, {"out": {"7": 3}}, {"out": 0.25})
    write_history(Place(str(tmp_path)), history)
    again = read_history(Place(str(tmp_path)))
    assert again.counts == {"a->b": (5, 1)}
    assert again.holds("h1-000000000002.npy")
    assert not again.holds("h1-000000000003.npy")
    assert not again.holds("h2-000000000001.npy")
    assert read_history(Place(str(tmp_path / "none"))).upto == {}


def test_history_knows_who_waited_for_a_run(tmp_path: Path) -> None:
    """Rows that came before the run began in which they became visible are counted, also those of an earlier run."""
    folder = Place(str(tmp_path))
    (folder / "epoch").publish(b"100000000")
    (folder / "begun.json").replace(b"[100, 200]")
    note_of(folder, "q", 0, "out").replace(noted([110.0, 90.0, 101.0, 105.0]))
    note_of(folder, "q", 1, "out").replace(noted([210.0, 150.0, 201.0]))
    assert History().with_notes(folder, "q", range(2), "out").waited == {"out": 2}


def noted(times: list[float]) -> bytes:
    """Return a note: when its rows became visible, and the stimulus time of each (s)."""
    file = io.BytesIO()
    np.save(file, np.array([round(1e6 * time) for time in times]))
    return file.getvalue()
