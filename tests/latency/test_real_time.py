"""Which operators run in real-time mode is decided by what they are and where their rows come from and go to."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.cluster import SparkSettings
from penstock.latency.fragments import fragments
from penstock.latency.real_time import batched, modes, prompt_operators
from penstock.network import Network
from penstock.network.file import parse_network

REAL_TIME = SparkSettings(mode="real-time")
TOPIC = {"format": "kafka", "options": {"topic": "out"}}


def network(operators: dict[str, Any], sinks: dict[str, Any], **source: Any) -> Network:
    """Return a network that reads clicks from a topic, or as ``source`` says."""
    clicks = {"format": "kafka", "schema": "n int, at timestamp", "time": "at", "options": {"subscribe": "clicks"}}
    return parse_network(
        {"name": "n", "sources": {"clicks": {**clicks, **source}}, "operators": operators, "sinks": sinks}
    )


def test_filters_maps_delays_and_unions_between_topics_run_in_real_time_mode() -> None:
    """What Spark takes and reads topics only runs in real-time mode, whole."""
    made = network(
        {
            "odd": {"kind": "filter", "input": "clicks", "where": "n % 2 = 1"},
            "ten": {"kind": "map", "input": "clicks", "select": "n * 10 AS n, at"},
            "both": {"kind": "union", "inputs": ["odd", "ten"]},
            "slow": {"kind": "delay", "input": "both", "cost": 0.001},
        },
        {"out": {"input": "slow", **TOPIC}},
    )
    assert batched(made, REAL_TIME) == {}
    assert prompt_operators(made, REAL_TIME) == set(made.operators)
    assert prompt_operators(made, SparkSettings()) == set()


@pytest.mark.parametrize(
    ("operator", "why"),
    [
        ({"kind": "aggregate", "input": "first", "window": 10}, "window"),
        ({"kind": "join", "inputs": ["first", "other"], "within": 5}, "join"),
        ({"kind": "python", "input": "first", "function": "a:b"}, "Python"),
        ({"kind": "map", "input": "first", "select": "explode(array(n)) AS n"}, "several rows"),
    ],
)
def test_what_spark_refuses_runs_in_micro_batches_with_all_behind_it(operator: dict[str, Any], why: str) -> None:
    """Windows, joins, Python and generators run in micro-batches, with the reason, and so does what reads them."""
    made = network(
        {
            "first": {"kind": "filter", "input": "clicks", "where": "n > 0"},
            "other": {"kind": "filter", "input": "clicks", "where": "n > 1"},
            "hard": operator,
            "behind": {"kind": "map", "input": "hard"},
            "aside": {"kind": "map", "input": "other"},
        },
        {"out": {"input": "behind", **TOPIC}, "more": {"input": "aside", **TOPIC}},
    )
    found = batched(made, REAL_TIME)
    assert set(found) == {"hard", "behind"}
    assert why in found["hard"]
    assert "'hard'" in found["behind"]


@pytest.mark.parametrize(
    ("source", "sink", "why"),
    [
        ({"format": "json", "options": {"path": "in"}}, TOPIC, "format is json"),
        ({"options": {"subscribePattern": "c.*"}}, TOPIC, "subscribe"),
        ({"options": {"subscribe": "c", "Kafka.Bootstrap.Servers": "other:9092"}}, TOPIC, "brokers of its own"),
        ({"options": {"subscribe": "c", "maxOffsetsPerTrigger": "9"}}, TOPIC, "maxOffsetsPerTrigger"),
        ({}, {"format": "json", "options": {"path": "out"}}, "no topic"),
        ({}, {}, "no topic"),
        ({}, {"format": "kafka", "options": {}}, "topic themselves"),
        ({}, {"format": "kafka", "options": {"topic": "out", "kafka.linger.ms": "5"}}, "settings of its own"),
    ],
)
def test_what_does_not_pass_from_topic_to_topic_runs_in_micro_batches(
    source: dict[str, Any], sink: dict[str, Any], why: str
) -> None:
    """Sources and sinks that are no topics, or topics that a query in real-time mode cannot share, are named."""
    made = network({"all": {"kind": "map", "input": "clicks"}}, {"out": {"input": "all", **sink}}, **source)
    assert why in batched(made, REAL_TIME)["all"]


def test_a_network_for_the_models_alone_is_judged_by_its_operators() -> None:
    """Where sources name no format, nothing will run there, and formats do not count."""
    made = parse_network(
        {
            "name": "n",
            "sources": {"s": {}},
            "operators": {"a": {"kind": "map", "input": "s"}},
            "sinks": {"t": {"input": "a"}},
        }
    )
    assert batched(made, REAL_TIME) == {}


def test_an_operator_whose_rows_nobody_takes_runs_in_micro_batches() -> None:
    """A query in real-time mode must have somewhere to write to."""
    made = network(
        {"all": {"kind": "map", "input": "clicks"}, "idle": {"kind": "map", "input": "clicks"}},
        {"out": {"input": "all", **TOPIC}},
    )
    assert batched(made, REAL_TIME) == {"idle": "feeds nothing"}


def test_queries_of_the_two_modes_never_share_operators_and_say_why() -> None:
    """Each host has at most one query in real-time mode; the others name the operator at fault."""
    made = network(
        {
            "odd": {"kind": "filter", "input": "clicks", "where": "n % 2 = 1"},
            "even": {"kind": "filter", "input": "clicks", "where": "n % 2 = 0"},
            "counts": {"kind": "aggregate", "input": "odd", "window": 10},
            "far": {"kind": "map", "input": "even"},
        },
        {"out": {"input": "far", **TOPIC}, "table": {"input": "counts"}},
    )
    placement = {"odd": "h1", "even": "h1", "counts": "h1", "far": "h2"}
    parts = fragments(made, placement, real_time=prompt_operators(made, REAL_TIME))
    assert [(part.name, part.host, part.operators) for part in parts] == [
        ("even", "h1", ("even", "odd")),
        ("counts", "h1", ("counts",)),
        ("far", "h2", ("far",)),
    ]
    said = {mode.query: mode for mode in modes(made, placement, REAL_TIME)}
    assert {name: mode.name for name, mode in said.items()} == {
        "even": "real-time", "counts": "micro-batch", "far": "real-time",
    }  # fmt: skip
    assert said["even"].says == "query 'even' on h1 runs in real-time mode"
    assert said["counts"].says.startswith("query 'counts' on h1 runs in micro-batches: 'counts' is a window")
    assert {mode.name for mode in modes(made, placement, REAL_TIME, once=True)} == {"micro-batch"}
