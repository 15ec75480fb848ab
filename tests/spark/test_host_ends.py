"""The end of a host: whoever is killed, nothing is left."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from hosts_kit import READY, gone, listening, script, within

from penstock.errors import HostError
from penstock.spark.hosts import EmbeddedHost, Launch
from penstock.spark.hosts.failures import tail
from penstock.spark.hosts.folders import PREFIX, sweep
from penstock.spark.hosts.settings import BEGINNING
from penstock.spark.hosts.supervisor import KEPT, LOG

PENSTOCK = """
import json, os, signal, sys, threading, time
# Whoever runs the tests in the background may ignore interrupts, which is inherited.
signal.signal(signal.SIGINT, signal.default_int_handler)
from penstock.spark.hosts import EmbeddedHost, Launch
host = EmbeddedHost("h1", launch=Launch(folder=sys.argv[1])).start()
session = host.session()
def work():
    import pyspark
    def keep(batches):
        import time
        for batch in batches:
            time.sleep(600)
            yield batch
    session.range(1).mapInArrow(keep, "id long").collect()
threading.Thread(target=work, daemon=True).start()
begun = sys.argv[1] + "/begun"
def deliver(batch, number):
    batch.collect()
    open(begun, "w").close()
for _ in range(5):
    try:
        session.readStream.format("rate").load().writeStream.foreachBatch(deliver).start()
        break
    except Exception as error:
        # A busy machine: the worker was not up within Spark's 10 s.
        if "failed to connect back" not in str(error):
            raise
import psutil
supervisor = psutil.Process(host.pid).ppid()
def forks():
    for process in psutil.Process(supervisor).children(recursive=True):
        try:
            yield "nursery.py" in " ".join(process.cmdline())
        except psutil.Error:
            continue
# The nursery, the daemon, its worker, the worker of foreachBatch.
while not os.path.exists(begun) or sum(forks()) < 4:
    time.sleep(0.05)
os.remove(begun)
said = {"jvm": host.pid, "port": host.endpoint.rpartition(":")[2], "supervisor": supervisor}
print(json.dumps(said), flush=True)
time.sleep(600)
"""
"""A penstock whose host runs two kinds of Python workers: a task's, which never ends, and one of foreachBatch."""


def test_all_descendants_go_with_the_host(tmp_path: Path) -> None:
    """A stop ends children of the JVM also where they left its session and its parent."""
    grandchild = "os.setsid(); open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(600)"
    body = f"""
note = {str(tmp_path / "pid")!r}
child = "import os, sys, time\\nif os.fork(): os._exit(0)\\n" + {grandchild!r}
subprocess.run([sys.executable, "-c", child, note])
while not (os.path.exists(note) and open(note).read()): time.sleep(0.01)
{READY}"""
    with EmbeddedHost("h1", launch=Launch(java=script(tmp_path, body), folder=tmp_path / "work")):
        stray = psutil.Process(int((tmp_path / "pid").read_text()))
        assert stray.is_running()
    assert gone([stray])


def test_a_log_does_not_grow_for_ever(tmp_path: Path) -> None:
    """Of a long log the end stays, behind which the JVM goes on to print."""
    more = tmp_path / "more"
    started, _, _ = READY.partition(";")
    body = f"""
print(("x" * 99 + "\\n") * {LOG // 100 + 1}, flush=True)
{started}
while not os.path.exists({str(more)!r}): time.sleep(0.01)
print("and more", flush=True)
time.sleep(600)"""
    with EmbeddedHost("h1", launch=Launch(java=script(tmp_path, body), folder=tmp_path / "work")) as host:
        assert within(10, lambda: host.log.stat().st_size == KEPT)
        more.touch()
        assert within(10, lambda: tail(host.log).endswith("127.0.0.1:1\nand more\n"))
        assert host.log.stat().st_size < KEPT + 100


def test_a_killed_supervisor_takes_the_jvm_with_it(tmp_path: Path) -> None:
    """Should the supervisor be killed, the JVM dies, the stop still cleans, and the next start sweeps the rest."""
    host = EmbeddedHost("h1", launch=Launch(java=script(tmp_path, READY), folder=tmp_path / "work")).start()
    jvm = psutil.Process(host.pid)
    os.kill(jvm.ppid(), signal.SIGKILL)
    assert within(5, lambda: gone([jvm]))
    assert not host.alive()
    assert host.folder.exists()
    host.stop()
    assert [*(tmp_path / "work").iterdir()] == []


def test_a_fork_neither_ends_nor_keeps_the_host(tmp_path: Path) -> None:
    """A child that penstock forked cannot stop the host, nor keep it alive once penstock is killed."""
    program = (
        "import os, sys, time\n"
        "from penstock.spark.hosts import EmbeddedHost, Launch\n"
        "host = EmbeddedHost('h1', launch=Launch(java=sys.argv[1], folder=sys.argv[2])).start()\n"
        "jvm, child = host.pid, os.fork()\n"
        "if not child:\n"
        "    host.stop()\n"
        "    print(jvm, os.getpid(), flush=True)\n"
        "time.sleep(600)\n"
    )
    command = [sys.executable, "-W", "ignore", "-c", program, script(tmp_path, READY), tmp_path / "work"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert running.stdout is not None
    jvm, child = map(psutil.Process, map(int, running.stdout.readline().split()))
    assert not within(0.7, lambda: gone([jvm]))
    running.kill()
    running.wait()
    assert within(5, lambda: gone([jvm]))
    assert within(2, lambda: not [*(tmp_path / "work").iterdir()])
    child.kill()
    running.stdout.close()


def test_leftovers_are_swept(tmp_path: Path) -> None:
    """A folder whose owner is gone is removed at the next start; one in use, or just being made, is not."""
    host = EmbeddedHost("h1", launch=Launch(java=script(tmp_path, READY), folder=tmp_path / "work")).start()
    dead, young, other = (tmp_path / "work" / name for name in (f"{PREFIX}dead", f"{PREFIX}young", "notes"))
    for folder in (dead, young, other):
        folder.mkdir()
        (folder / "lock").write_text("")
    for folder in (dead, host.folder, other):
        os.utime(folder / "lock", (1, 1))
    sweep(tmp_path / "work")
    assert sorted((tmp_path / "work").iterdir()) == sorted([host.folder, young, other])
    host.stop()


@pytest.fixture
def penstock(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any], list[psutil.Process]]]:
    """A penstock of its own with a host whose Python worker is busy: its process, what it says, and all processes."""
    running = subprocess.Popen(
        [sys.executable, "-c", PENSTOCK, str(tmp_path / "w")],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert running.stdout is not None
    lines: list[str] = []
    while not lines or (lines[-1] and not lines[-1].startswith("{")):
        lines.append(running.stdout.readline())
    assert lines[-1], lines
    said = json.loads(lines[-1])
    supervisor = psutil.Process(said["supervisor"])
    family = [supervisor, *supervisor.children(recursive=True)]
    assert len(family) >= 8, "supervisor, JVM, nursery, daemon, worker, worker of foreachBatch, two interpreters"
    yield running, said, family
    running.kill()
    running.wait()
    running.stdout.close()
    for process in family:
        if process.is_running():
            process.kill()


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("victims", ["penstock", "jvm and penstock"])
def test_nothing_outlives_a_killed_penstock(penstock: Any, tmp_path: Path, victims: str) -> None:
    """After kill -9 of penstock, alone or with its JVM, no process, port or folder is left."""
    running, said, family = penstock
    for victim in victims.split(" and "):
        os.kill(running.pid if victim == "penstock" else said["jvm"], signal.SIGKILL)
    running.wait()
    assert within(5, lambda: gone(family))
    assert within(2, lambda: not [*(tmp_path / "w").iterdir()])
    # The threads of a killed JVM end one after another.
    assert within(2, lambda: not listening(int(said["port"])))


@pytest.mark.spark
@pytest.mark.slow
def test_nothing_outlives_penstock_and_its_supervisor(penstock: Any, tmp_path: Path) -> None:
    """After kill -9 of penstock and its supervisor at once every process dies; the next start clears the folder."""
    running, said, family = penstock
    for victim in (said["supervisor"], running.pid):
        os.kill(victim, signal.SIGKILL)
    assert within(5, lambda: gone(family))
    # The threads of a killed JVM end one after another.
    assert within(2, lambda: not listening(int(said["port"])))
    for lock in (tmp_path / "w").glob("*/lock"):
        os.utime(lock, (1, 1))
    sweep(tmp_path / "w")
    assert [*(tmp_path / "w").iterdir()] == []


@pytest.mark.spark
@pytest.mark.slow
def test_ctrl_c_does_not_reach_the_jvm(penstock: Any, tmp_path: Path) -> None:
    """An interrupt of penstock's process group ends penstock, which then ends the host in its own time."""
    running, _, family = penstock
    own = psutil.Process(running.pid)
    for process in family:
        assert os.getpgid(process.pid) != os.getpgid(own.pid)
        assert os.getsid(process.pid) != os.getsid(own.pid)
    os.killpg(running.pid, signal.SIGINT)
    assert within(15, lambda: gone([own, *family]))
    assert [*(tmp_path / "w").iterdir()] == []


@pytest.mark.spark
@pytest.mark.slow
def test_a_killed_jvm_is_noticed_and_replaced(tmp_path: Path) -> None:
    """After kill -9 of the JVM its workers die, the host says what happened, and a new start meets nothing of it."""
    host = EmbeddedHost("h1", launch=Launch(folder=tmp_path / "w")).start()
    session = host.session()

    def keep(batches: Any) -> Any:

        for batch in batches:
            time.sleep(600)
            yield batch

    errors = []

    def work() -> None:
        try:
            session.range(1).mapInArrow(keep, "id long").collect()
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    jvm = psutil.Process(host.pid)
    supervisor = psutil.Process(jvm.ppid())
    # The JVM, the nursery, the interpreter that Spark started, the daemon, its worker.
    assert within(40, lambda: len(supervisor.children(recursive=True)) >= 5), errors
    family = supervisor.children(recursive=True)
    jvm.kill()
    assert within(5, lambda: gone(family))
    assert not host.alive()
    with pytest.raises(HostError, match="host h1 does not run: it was killed by SIGKILL"):
        host.session()
    thread.join(timeout=30)
    assert not thread.is_alive()
    assert errors
    host.stop()
    assert [*(tmp_path / "w").iterdir()] == []
    with host:
        assert host.session().range(3).count() == 3


WORKER = """
import ctypes, os, sys, time
def work(name):
    with open(os.path.join(sys.argv[1], name), "w") as note:
        note.write(str(os.getpid()))
    os.rename(note.name, note.name + ".pid")
    # Without giving other threads a turn.
    ctypes.PyDLL(None).sleep(600)
if not os.fork():
    work("child")
work("parent")
"""
"""Two Python processes that are as hard to reach as they can be."""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux kills the workers of a killed supervisor")
def test_workers_die_with_a_killed_supervisor(tmp_path: Path) -> None:
    """Workers live on when the thread that started them ends, and die with the supervisor, whatever they do.

    Here they are in a session of their own, ignore the signals that can be ignored, and never run Python again.
    """
    body = f"""
import threading
for noise in (signal.SIGHUP, signal.SIGTERM, signal.SIGPIPE):
    signal.signal(noise, signal.SIG_IGN)
command = [{sys.executable!r}, "-c", {WORKER!r}, {str(tmp_path)!r}]
starter = threading.Thread(target=lambda: subprocess.Popen(command, start_new_session=True))
starter.start()
starter.join()
{READY}"""
    with EmbeddedHost("h1", launch=Launch(java=script(tmp_path, body), folder=tmp_path / "work")) as host:
        notes = [tmp_path / "parent.pid", tmp_path / "child.pid"]
        assert within(10, lambda: all(note.exists() for note in notes))
        workers = [psutil.Process(int(note.read_text())) for note in notes]
        try:
            assert not within(0.5, lambda: any(gone([worker]) for worker in workers))
            os.kill(psutil.Process(host.pid).ppid(), signal.SIGKILL)
            assert within(5, lambda: gone(workers))
        finally:
            for worker in workers:
                with contextlib.suppress(psutil.NoSuchProcess):
                    worker.kill()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux kills the workers of a killed supervisor")
@pytest.mark.parametrize("left", ["the pipe", "nothing"])
def test_a_worker_that_starts_too_late_ends_at_once(tmp_path: Path, left: str) -> None:
    """A worker whose supervisor has died while it was started ends before it does anything."""
    line = tmp_path / "lifeline"
    if left == "the pipe":
        os.mkfifo(line)
    assert begin("print('alive')", tmp_path, PENSTOCK_LIFELINE=str(line)) == (1, "")


def test_the_user_s_own_sitecustomize_runs_too(tmp_path: Path) -> None:
    """A sitecustomize of the user is imported as if penstock had none, and one that fails is told by Python."""
    (tmp_path / "sitecustomize.py").write_text("value = 7\n")
    assert begin("import sitecustomize; print(sitecustomize.value)", tmp_path) == (0, "7\n")
    (tmp_path / "sitecustomize.py").write_text("import nowhere\n")
    code, said = begin("print('goes on')", tmp_path)
    assert (code, said.splitlines()[-1]) == (0, "goes on")
    assert "No module named 'nowhere'" in said


def begin(program: str, folder: Path, **environ: str) -> tuple[int, str]:
    """Run a program as Spark's workers begin, with a folder on the path; return its exit code and what it says."""
    path = os.pathsep.join([str(BEGINNING), str(folder)])
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": path, **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
    )
    return done.returncode, done.stdout
