"""Hosts that outlive penstock, with a ``java`` that is none."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import attrs
import psutil
import pytest
from hosts_kit import READY, gone, script, within

from penstock.cluster import Cluster, Host
from penstock.errors import HostError, InputError
from penstock.spark.hosts import EmbeddedHost, KeptHost, Launch, start, start_hosts
from penstock.spark.hosts.kept import Kept, moment
from penstock.spark.hosts.kept_file import changing, end, read_kept

LEAVE = """
import sys
from penstock.spark.hosts import EmbeddedHost, Launch
from penstock.spark.hosts.kept_file import changing
host = EmbeddedHost("h1", launch=Launch(java=sys.argv[1], folder=sys.argv[2], outlive=True)).start()
with changing(sys.argv[3]) as hosts:
    hosts["h1"] = host.let_go()
host.outlive()
"""


NETWORK = """
name = "n"

[sources.events]
format = "json"
schema = "k string"
options = { path = "in" }

[operators.all]
kind = "filter"
input = "events"
where = "true"

[sinks.out]
input = "all"
"""


def leave(folder: Path) -> Path:
    """Start a host in a process that ends, and return the file that names it."""
    java, file = script(folder / "bin", READY), folder / "state" / "hosts.json"
    subprocess.run([sys.executable, "-c", LEAVE, str(java), str(folder / "work"), str(file)], check=True, timeout=120)
    return file


def test_a_host_outlives_penstock(tmp_path: Path) -> None:
    """It runs on when whoever started it has ended, is found by its file, and ends with its folder when asked."""
    file = leave(tmp_path)
    (kept,) = read_kept(file).values()
    host = KeptHost(kept)
    processes = [psutil.Process(kept.pid), psutil.Process(kept.supervisor)]
    assert not gone(processes)
    assert host.start().alive()
    host.stop()
    assert host.alive()
    for path in (file, Path(kept.token)):
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    with pytest.raises(InputError, match="no host 'h2'"):
        end(file, ["h2"])
    assert end(file) == ["h1"]
    assert within(20, lambda: gone(processes) and not Path(kept.token).exists())
    assert not file.exists()
    assert end(file) == []
    with pytest.raises(HostError, match="does not run any more"):
        host.start()


def test_hosts_beside_one_that_runs_have_other_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that penstock starts gets no CPU of one that was left running."""
    monkeypatch.setattr(start, "available_cpus", lambda: [0, 1])
    monkeypatch.setattr(Kept, "cpus", property(lambda _: [1]))
    made: dict[str, Any] = {}
    monkeypatch.setattr(start, "make_host", lambda host, _cluster, _launch, cpus: made.setdefault(host.name, cpus))
    kept = Kept(name="h1", port=1, cores=1, token="", pid=1, began=0.0, supervisor=1, supervised=0.0)
    start._made(Cluster.uniform(2), Launch(java=Path("java")), None, True, {"h1": kept})
    assert made == {"h2": [0]}


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM])
def test_no_host_is_left_that_no_file_names(tmp_path: Path, sent: signal.Signals) -> None:
    """When ``hosts start`` is ended before all hosts are there and noted, none of its hosts stays."""
    pids = tmp_path / "pids"
    body = f'print(os.getpid(), file=open({str(pids)!r}, "a"), flush=True); time.sleep(600)'
    script(tmp_path / "bin", body)
    words = ["hosts", "start", "--hosts", "2", "--file", str(tmp_path / "hosts.json")]
    environ = {**os.environ, "JAVA_HOME": "", "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    code = (
        "import sys; from pathlib import Path; from penstock.spark.hosts import java;"
        f"java.find = lambda: Path({str(tmp_path / 'bin' / 'java')!r});"
        "from penstock.cli.app import main; main()"
    )
    starting = subprocess.Popen([sys.executable, "-c", code, *words], env=environ, stderr=subprocess.PIPE, text=True)
    assert within(60, lambda: pids.exists() and len(pids.read_text().split()) == 2)
    javas = [psutil.Process(int(pid)) for pid in pids.read_text().split()]
    starting.send_signal(sent)
    _, said = starting.communicate(timeout=60)
    assert starting.returncode == (-sent if sent == signal.SIGKILL else 128 + sent)
    assert "Traceback" not in said
    assert within(20, lambda: gone(javas))
    assert read_kept(tmp_path / "hosts.json") == {}


def test_an_address_is_no_host_that_was_left(tmp_path: Path) -> None:
    """Where a cluster says where a host is, one of the same name that runs here is another one, and is not taken."""
    file = leave(tmp_path)
    cluster = Cluster(hosts={"h1": Host(name="h1", spark="sc://127.0.0.1:9")})
    with pytest.raises(HostError, match="cannot be reached"), start_hosts(cluster, kept=file):
        pass
    assert end(file) == ["h1"]


def test_the_supervisor_goes_with_its_java(tmp_path: Path) -> None:
    """When the Java of a host that was left ends by itself, nothing of the host stays."""
    (kept,) = read_kept(leave(tmp_path)).values()
    supervisor = psutil.Process(kept.supervisor)
    psutil.Process(kept.pid).kill()
    assert within(20, lambda: gone([supervisor]) and not Path(kept.token).exists())
    assert kept.end() is False


def test_a_file_that_others_read_is_refused(tmp_path: Path) -> None:
    """What names processes to end must be its owner's alone, and what it should be."""
    file = tmp_path / "hosts.json"
    file.write_text('{"hosts": {}}')
    file.chmod(0o644)
    with pytest.raises(InputError, match="another user"):
        read_kept(file)
    file.chmod(0o600)
    assert read_kept(file) == {}
    typed = {"port": 1, "cores": 1, "token": "t", "pid": "12", "began": 1.0, "supervisor": 1, "supervised": 1.0}
    for row in ({"pid": 1}, typed, []):
        file.write_text(json.dumps({"hosts": {"h1": row}}))
        with pytest.raises(InputError, match="expected the hosts"):
            read_kept(file)


def test_another_process_is_not_taken_for_a_host(tmp_path: Path) -> None:
    """A process that has the id of a host, and began at another time, is neither the host nor ended."""
    kept = read_kept(leave(tmp_path))["h1"]
    other = psutil.Process()
    wrong = attrs.evolve(kept, supervisor=other.pid, pid=other.pid)
    assert not KeptHost(wrong).alive()
    assert wrong.end() is False
    assert other.is_running()
    file = tmp_path / "again.json"
    with changing(file) as hosts:
        hosts["h1"] = kept
    assert end(file, ["h1", "h1"]) == ["h1"]
    assert end(tmp_path / "no" / "such.json") == []
    assert not (tmp_path / "no").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the system notes a time that stays")
def test_a_clock_that_is_set_hides_no_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process is known again after the clock was set, and one that an earlier version has noted, until then."""
    process = psutil.Process()
    began, noted = moment(process.pid), process.create_time()
    kept = Kept(
        name="h1", port=1, cores=1, token="", pid=process.pid, began=began, supervisor=process.pid, supervised=noted
    )
    assert kept.jvm == kept.root == process
    monkeypatch.setattr(psutil.Process, "create_time", lambda *_, **__: noted + 1)
    assert kept.jvm is not None
    assert kept.root is None
    assert attrs.evolve(kept, began=began + 0.02).jvm is None


def test_only_a_host_that_outlives_is_let_go(tmp_path: Path) -> None:
    """A host that ends with penstock cannot be left to others."""
    made = EmbeddedHost("h1", launch=Launch(java=script(tmp_path / "bin", READY), folder=tmp_path / "work"))
    with made as host, pytest.raises(HostError, match="does not outlive penstock"):
        host.let_go()


def test_hosts_are_listed_and_stopped(tmp_path: Path, penstock: Any) -> None:
    """The command lists what runs and stops it; without a number of hosts it starts nothing."""
    file = leave(tmp_path)
    listed = penstock("hosts", "list", "--file", file, "--json")
    assert listed.code == 0
    assert listed.document["hosts"]["h1"]["alive"] is True
    assert penstock("hosts", "start", "--file", file).code == 2
    assert penstock("hosts", "start", "--hosts", "1", "--file", file).code == 2
    assert penstock("hosts", "start", "--hosts", "0", "--file", file).code == 2
    assert penstock("hosts", "stop", "h7", "--file", file).code == 2
    assert penstock("hosts", "stop", "--file", file, "--json").document["stopped"] == ["h1"]
    assert penstock("hosts", "list", "--file", file, "--json").document["hosts"] == {}


def test_changes_at_once_lose_no_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that is noted while others of the file end stays noted, however long these take."""
    file, token = tmp_path / "state" / "hosts.json", str(tmp_path / "token")
    kept = Kept(name="h1", port=1, cores=1, token=token, pid=0, began=0.0, supervisor=0, supervised=0.0)
    begun, go_on = threading.Event(), threading.Event()

    def ends(_: Kept) -> bool:
        begun.set()
        return go_on.wait(10)

    def note(name: str) -> None:
        with changing(file) as hosts:
            hosts[name] = attrs.evolve(kept, name=name)

    monkeypatch.setattr(Kept, "end", ends)
    note("h1")
    ending = threading.Thread(target=end, args=(file, ["h1"]))
    ending.start()
    assert begun.wait(10)
    noting = threading.Thread(target=note, args=("h2",))
    noting.start()
    noting.join(0.2)
    go_on.set()
    for each in (ending, noting):
        each.join(10)
    assert [*read_kept(file)] == ["h2"]


def test_what_cannot_be_left_running_is_refused(tmp_path: Path, penstock: Any) -> None:
    """A cluster whose hosts all run elsewhere has none to start, and a file that cannot be is told of by its name."""
    cluster, elsewhere = tmp_path / "c.toml", tmp_path / "no"
    cluster.write_text('[hosts.h1]\nspark = "sc://127.0.0.1:1"\n')
    elsewhere.write_text("")
    refused = penstock("hosts", "start", "--cluster", cluster, "--file", tmp_path / "hosts.json")
    assert refused.code == 2
    assert f"{cluster}: hosts: expected a host without an address" in refused.err
    refused = penstock("hosts", "start", "--hosts", 1, "--file", elsewhere / "hosts.json")
    assert refused.code == 2
    assert f"{elsewhere / 'hosts.json'}: cannot be written" in refused.err


@pytest.mark.spark
@pytest.mark.timeout(400)
def test_runs_share_hosts_that_were_left(tmp_path: Path, penstock: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Short runs one after the other use the host that `hosts start` has left, each goes on, and it stays."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    Path("n.toml").write_text(NETWORK)
    (pid,) = [row["pid"] for row in penstock("hosts", "start", "--hosts", 1, "--json").document["hosts"].values()]
    started: list[str] = []
    start = EmbeddedHost.start
    monkeypatch.setattr(EmbeddedHost, "start", lambda host: started.append(host.name) or start(host))
    try:
        for number in (1, 2):
            (tmp_path / f"in/{number}.json").write_text('{"k": "a"}\n' * 10)
            done = penstock("run", "n.toml", "--hosts", 1, "--placement", "all=h1", "--once", "--json")
            assert done.code == 0, done.err
            assert done.document["streams"]["all->out"]["delivered"] == 10 * number
        assert not started
        assert [row["pid"] for row in penstock("hosts", "list", "--json").document["hosts"].values()] == [pid]
    finally:
        assert penstock("hosts", "stop", "--json").document["stopped"] == ["h1"]
