"""Hosts that may try a task again, by what their sessions say."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from penstock.network.file import parse_network
from penstock.spark.run import Engine

NETWORK = parse_network(
    {
        "name": "rows",
        "sources": {"rows": {"format": "json", "schema": "n int"}},
        "operators": {"even": {"kind": "filter", "input": "rows"}, "odd": {"kind": "filter", "input": "rows"}},
        "sinks": {
            "sent": {"input": "even", "format": "kafka", "options": {"topic": "even"}},
            "kept": {"input": "odd", "format": "json", "options": {"path": "odd"}},
        },
    }
)


def said(conf: dict[str, str], placement: dict[str, str]) -> list[str]:
    """Return what is said of the only host that is there."""
    engine = Engine.__new__(Engine)
    session: Any = SimpleNamespace(conf=SimpleNamespace(get=conf.get))
    engine.sessions = {"h1": session}
    deployment: Any = SimpleNamespace(network=NETWORK, placement=placement)
    return engine.retrying(deployment)


@pytest.mark.parametrize(
    ("conf", "times"),
    [
        ({"spark.master": "spark://m:7077"}, 4),
        ({}, 4),
        ({"spark.master": "yarn", "spark.task.maxFailures": "2"}, 2),
        ({"spark.master": "local[2,3]"}, 3),
        ({"spark.master": "local-cluster[2,1,1024]"}, 4),
    ],
)
def test_a_host_that_would_send_messages_again_is_named(conf: dict[str, str], times: int) -> None:
    """Where a task may be tried again whose sink is a topic, it is said how often, and what to set."""
    (line,) = said(conf, {"even": "h1", "odd": "h2"})
    assert f"host h1 may try a task {times} times" in line
    assert "spark.task.maxFailures = 1" in line
    assert said(conf, {"even": "h2", "even#2": "h1", "odd": "h2"}) == [line]
    assert said(conf, {"even": "h2", "odd": "h1"}) == []


@pytest.mark.parametrize(
    "conf",
    [
        {"spark.master": "spark://m:7077", "spark.task.maxFailures": "1"},
        {"spark.master": "local[2]"},
        {"spark.master": "local"},
    ],
)
def test_hosts_that_try_once_are_not_spoken_of(conf: dict[str, str]) -> None:
    """Clusters that are set so, and hosts on one machine, send each message once."""
    assert said(conf, {"even": "h1", "odd": "h1"}) == []
