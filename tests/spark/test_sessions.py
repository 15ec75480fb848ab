"""SQL means the same on every host, whatever settings it was started with."""

from __future__ import annotations

import os
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any, cast

import attrs
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException

from penstock.cluster import Cluster, Host
from penstock.errors import HostError
from penstock.network.file import parse_network
from penstock.spark.hosts import EmbeddedHost, KeptHost, RemoteHost
from penstock.spark.hosts import sessions as hosts_sessions
from penstock.spark.hosts.kept import Kept, moment
from penstock.spark.hosts.sessions import import_client
from penstock.spark.run import Engine, sessions
from penstock.spark.run.sessions import settle

OTHER = {
    "spark.sql.ansi.enabled": "false",
    "spark.sql.ansi.doubleQuotedIdentifiers": "true",
    "spark.sql.caseSensitive": "true",
    "spark.sql.legacy.sizeOfNull": "true",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
}
"""Settings of a host whose SQL means something else."""

SELECT = [
    "NUMBER",
    "typeof(coalesce(number, '1')) AS kind",
    "typeof(to_timestamp('2026-03-01')) AS moment",
    "size(CAST(NULL AS ARRAY<INT>)) AS size",
    '"text" AS text',
]


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_sql_means_the_same_on_a_host_of_other_settings(shared: tuple[Cluster, Any], tmp_path: Path) -> None:
    """A remote host's rows are those of an embedded one, by Spark's settings or by those of the cluster file."""
    cluster, hosts = shared
    both = attrs.evolve(cluster, hosts={**cluster.hosts, "far": Host(name="far", spark="sc://far")})
    source = {"format": "json", "schema": "number int", "options": {"path": str(tmp_path / "in")}}
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.json").write_text('{"number": 1}\n')
    operators = {"m": {"kind": "map", "input": "s", "select": SELECT}}
    made = parse_network(
        {"name": "n", "sources": {"s": source}, "operators": operators, "sinks": {"o": {"input": "m"}}}
    )
    with (
        EmbeddedHost("server", conf={**cluster.spark.conf, **OTHER}) as server,
        RemoteHost("far", server.endpoint, token_env="T", environ={"T": server._token}) as far,  # noqa: S106
    ):
        engine = Engine(both, {"h1": hosts["h1"], "far": far})
        for host in ("h1", "far"):
            engine.run_once(engine.prepare(made, {"m": host}, tmp_path / host))
            (file,) = (tmp_path / host / "sinks/o").iterdir()
            assert pq.read_table(file).to_pylist() == [
                {"NUMBER": 1, "kind": "bigint", "moment": "timestamp", "size": None, "text": "text"}
            ]
        conf = {**cluster.spark.conf, "spark.sql.ansi.enabled": "false", "spark.sql.legacy.sizeOfNull": "true"}
        engine = Engine(attrs.evolve(both, spark=attrs.evolve(cluster.spark, conf=conf)), engine.hosts)
        for session in engine.sessions.values():
            (row,) = session.range(1).selectExpr("1 AS number").selectExpr(*SELECT).collect()
            assert (row.kind, row.size, row.text) == ("string", -1, "text")


def test_what_keeps_hosts_small_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session gets the settings that keep its host small, but for those that the user or the server has set."""
    monkeypatch.setattr(sessions, "register", lambda _session: None)
    cache = "spark.sql.hive.filesourcePartitionFileCacheSize"
    log = "spark.sql.streaming.fileSource.log."

    def settled(there: dict[str, str], conf: dict[str, str]) -> dict[str, str]:
        found = dict(there)
        kept = SimpleNamespace(
            getAll=there, set=found.__setitem__, get=found.get, unset=found.pop, isModifiable=lambda _key: True
        )
        settle(cast("Any", SimpleNamespace(conf=kept)), "h1", 1, conf)
        return {key: value for key, value in found.items() if key == cache or key.startswith(log)}

    slim = {cache: "0", f"{log}compactInterval": "100", f"{log}cleanupDelay": "60000"}
    assert settled({}, {}) == slim
    assert settled({cache: "1"}, {}) == {**slim, cache: "1"}
    assert settled({cache: "1"}, {cache: "2", f"{log}cleanupDelay": "1h"}) == {
        **slim, cache: "2", f"{log}cleanupDelay": "1h"
    }  # fmt: skip


class Fixed:
    """Settings of a session that do not let one of them be changed."""

    def __init__(self, key: str, value: str) -> None:
        self.key, self.value = key, value
        self.getAll = {key: value}

    def set(self, key: str, _value: str) -> None:
        if key == self.key:
            raise PySparkException("it cannot be changed")

    def get(self, _key: str, _default: str | None) -> str:
        return self.value


def test_a_host_that_keeps_another_setting_is_refused() -> None:
    """Its name, the setting and what to do are told."""
    session = cast("Any", SimpleNamespace(conf=Fixed("spark.sql.ansi.enabled", "false")))
    with pytest.raises(HostError, match=r"host far does not take spark\.sql\.ansi\.enabled = true.*\[spark\.conf\]"):
        settle(session, "far", 1, {})


def test_an_endpoint_that_never_answers_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes connections and calls as Spark Connect does, and a start does not wait for it for ever."""
    import_client()
    import grpc

    monkeypatch.setattr(hosts_sessions, "FIRST", 0.5)
    over = Event()

    class Still(grpc.GenericRpcHandler):  # type: ignore[misc]
        def service(self, _: Any) -> Any:
            return grpc.unary_unary_rpc_method_handler(lambda *_: b"" * over.wait(20))

    server = grpc.server(ThreadPoolExecutor(4), handlers=[Still()])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        begun = time.monotonic()
        with pytest.raises(HostError, match=r"host far at sc://.* does not answer"):
            RemoteHost("far", f"sc://127.0.0.1:{port}").start()
        assert time.monotonic() - begun < 10
    finally:
        over.set()
        server.stop(None)


def test_a_host_of_penstock_that_stands_still_is_named(tmp_path: Path) -> None:
    """It is known to speak Spark Connect: said is how to end it."""
    (tmp_path / "token").write_text("t")
    pid, began = os.getpid(), moment(os.getpid())
    with socket.create_server(("127.0.0.1", 0)) as server:
        about: dict[str, Any] = {"pid": pid, "began": began, "supervisor": pid, "supervised": began}
        port = server.getsockname()[1]
        host = KeptHost(Kept(name="h2", port=port, cores=1, token=str(tmp_path / "token"), **about))
        host._sessions._timeout = 0.5
        with pytest.raises(HostError, match="host h2 runs but does not answer: penstock hosts stop h2"):
            host.session()
