"""What hosts are started with, and what is said of those that do not start, without Spark."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from penstock.cluster import read_cluster
from penstock.errors import HostError, InputError
from penstock.network import Network
from penstock.spark.compile.checks import check_network
from penstock.spark.hosts import EmbeddedHost, Launch, RemoteHost, settings
from penstock.spark.hosts.failures import known_reason
from penstock.spark.hosts.sessions import Sessions
from penstock.spark.hosts.start import make_host

LOOPBACK = "localhost,127.0.0.1,::1"


@pytest.mark.parametrize(
    ("given", "want"),
    [
        ({}, LOOPBACK),
        ({"no_proxy": "corp", "NO_PROXY": "x"}, f"corp,{LOOPBACK}"),
        ({"NO_PROXY": "x", "no_grpc_proxy": ""}, f"x,{LOOPBACK}"),
        ({"no_proxy": "corp", "no_grpc_proxy": "own"}, f"own,{LOOPBACK}"),
    ],
)
def test_a_proxy_does_not_come_between_a_host_and_its_workers(tmp_path: Path, given: dict[str, str], want: str) -> None:
    """What gRPC reached without a proxy stays, and the loopback interface comes to it; other variables stay."""
    kept = {"http_proxy": "http://127.0.0.1:9", **given}
    found = settings.environment(kept, tmp_path / "java", tmp_path, "t", tmp_path / "l", tmp_path / "n")
    assert found["no_grpc_proxy"] == want
    assert {key: found.get(key) for key in ("http_proxy", "no_proxy")} == {
        key: kept.get(key) for key in ("http_proxy", "no_proxy")
    }


@pytest.mark.parametrize(("given", "want"), [({}, "2"), ({"MALLOC_ARENA_MAX": "7"}, "7")])
def test_memory_comes_from_few_places(tmp_path: Path, given: dict[str, str], want: str) -> None:
    """The C library of a host's processes keeps few pools, unless the user has said how many."""
    found = settings.environment(given, tmp_path / "java", tmp_path, "t", tmp_path / "l", tmp_path / "n")
    assert found["MALLOC_ARENA_MAX"] == want


@pytest.mark.parametrize(
    ("address", "local"), [("localhost", True), ("127.0.0.1", True), ("[::1]", True), ("n1", False)]
)
def test_no_proxy_leads_to_an_endpoint_on_this_machine(address: str, local: bool) -> None:
    """An endpoint on the loopback interface is reached without a proxy."""
    assert RemoteHost("h1", f"sc://{address}:15002")._sessions._local is local


def test_a_classic_session_in_this_process_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """No session of a host is opened beside one of classic Spark, whose columns would no longer be its own."""
    from pyspark.core.context import SparkContext

    monkeypatch.setattr(SparkContext, "_active_spark_context", object())
    monkeypatch.delenv("SPARK_CONNECT_MODE_ENABLED", raising=False)
    with pytest.raises(HostError, match=r"classic Spark session.*process of its own"):
        Sessions("h1").connect("sc://localhost:1", "sc://localhost:1", None)
    assert "SPARK_CONNECT_MODE_ENABLED" not in os.environ


def test_an_empty_name_of_a_token_is_none(tmp_path: Path) -> None:
    """What names no variable is refused: to send no token there is to leave the key out."""
    with pytest.raises(HostError, match="environment variable ''"):
        RemoteHost("h1", "sc://n1", token_env="", environ={})


@pytest.mark.parametrize(
    ("size", "heap"),
    [("1gb", "1g"), ("512", "512m"), ("2G", "2g"), ("800MB", "800m"), ("9999999b", "9999999"), ("x", "x")],
)
def test_a_heap_has_the_sizes_of_spark(tmp_path: Path, size: str, heap: str) -> None:
    """A size that Spark takes is handed to the JVM as it writes it; another one as it is, for the JVM to refuse."""
    conf = {**settings.DEFAULTS, "spark.driver.memory": size}
    assert f"-Xmx{heap}" in settings.command(tmp_path / "java", conf, tmp_path)


def test_a_port_that_nobody_named_is_not_told(tmp_path: Path) -> None:
    """What Spark could not bind is said by its log, unless it is the port that was asked for."""
    log = tmp_path / "log"
    log.write_text("java.net.BindException: Cannot assign requested address")
    assert known_reason(log, tmp_path, None) is None
    assert known_reason(log, tmp_path, 4050) == "cannot listen on port 4050: it is in use; name another or none"


def test_a_folder_with_a_comma_is_refused(tmp_path: Path) -> None:
    """Spark would take it for two folders."""
    with pytest.raises(InputError, match=r"comma.*TMPDIR"):
        EmbeddedHost("h1", launch=Launch(folder=tmp_path / "a,b"))


def test_what_is_wrong_in_the_table_is_said_of_the_cluster_file(tmp_path: Path) -> None:
    """A jar that is missing, and a broker that is, are told with the file that asks for them."""
    file = tmp_path / "cluster.toml"
    file.write_text('[hosts.h1]\n[spark]\nhop = "kafka"\njars = ["nosuch*.jar"]\n')
    cluster = read_cluster(file)
    with pytest.raises(InputError, match=rf"^{re.escape(str(file))}: spark\.jars: no file is called"):
        make_host(cluster.hosts["h1"], cluster)
    with pytest.raises(InputError, match=rf"^{re.escape(str(file))}: spark\.kafka: topics between hosts need a broker"):
        check_network(Network.of("n", (), (), ()), cluster.spark)
