"""The small process between penstock and one embedded host: it owns the JVM and ends with penstock.

It runs in a session of its own, so that neither Ctrl-C nor the end of a terminal reaches the JVM. It holds one end of a
pipe; when the other end closes, however penstock ended, it kills the JVM and its Python workers and removes their
folders, unless it was told that the host outlives penstock. Should it be killed itself, the kernel kills the JVM, whose
parent it is, and the workers, whose lifeline it holds (`lifeline/sitecustomize.py`). It is a script of the standard
library alone (``python -I -S supervisor.py``): it starts in 20 ms, weighs 10 MB, and imports nothing of penstock.

Arguments: the folders to remove. Standard input: one JSON line, a `Plan`, later ``ready`` when the host has answered,
``leave`` when it is to outlive penstock, and ``stop`` or the end of file. Standard output: one JSON line ``{pid}`` or
``{error}``.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
POLL = 0.25
"""Seconds between two looks at penstock and the JVM."""

LOG, KEPT = 8 << 20, 1 << 20
"""Bytes of a log beyond which it is cut, and those of its end that stay."""

READY, LEAVE, STOP = b"ready\n", b"leave\n", b"stop\n"
"""What penstock says."""

LINUX = sys.platform == "linux"
libc = ctypes.CDLL(None, use_errno=True) if LINUX else None


class Plan(NamedTuple):
    """What to start, and where to note what.

    Attributes
    ----------
    argv, env, cpus
        Command line, environment and CPU ids (None: all) of the JVM.
    log
        The file that takes what it prints.
    exit
        The file that takes its exit code, negative for a signal.
    lifeline
        The named pipe that the Python workers hold on to.
    nursery
        Command line of the process that streaming workers are forked from, empty for none. Its standard input ends
        when the host is ready: a JVM needs its whole core until then.
    grace
        Seconds that it has to end when asked.
    """

    argv: list[str]
    env: dict[str, str]
    cpus: list[int] | None
    log: str
    exit: str
    lifeline: str
    nursery: list[str]
    grace: float


def main() -> None:
    """Start the JVM, watch it and penstock, end them together."""
    penstock = os.getppid()
    stopping: list[int] = []
    signal.signal(signal.SIGTERM, lambda *_: stopping.append(1))
    # Handlers, not SIG_IGN, which the JVM would inherit.
    for noise in (signal.SIGINT, signal.SIGHUP):
        signal.signal(noise, lambda *_: None)
    if libc is not None:
        # Workers whose parent died become our children and are found below.
        libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    line = sys.stdin.buffer.readline()
    # Without a whole plan, penstock has gone before it could send one.
    if line.endswith(b"\n"):
        plan = Plan(**json.loads(line))
        try:
            hold_lifeline(plan.lifeline)
            child = launch(plan, plan.argv)
            waiting, ready = os.pipe()
            if plan.nursery:
                launch(plan, plan.nursery, waiting)
            os.close(waiting)
        except OSError as error:
            say({"error": str(error)})
        else:
            say({"pid": child})
            watch(child, penstock, plan, stopping, ready)
    for folder in sys.argv[1:]:
        shutil.rmtree(folder, ignore_errors=True)


def hold_lifeline(path: str) -> None:
    """Open a named pipe as its only writer, until this process ends; no other process inherits the descriptor."""
    os.mkfifo(path, 0o600)
    # For reading too, so that it need not wait for a reader.
    os.open(path, os.O_RDWR)


def launch(plan: Plan, argv: list[str], stdin: int = subprocess.DEVNULL) -> int:
    """Start a process of the host, and return its id."""
    me = os.getpid()

    def prepare() -> None:
        if plan.cpus and hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, plan.cpus)
        if libc is not None:
            # Should this process be killed, the JVM goes with it.
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != me:
                os._exit(1)

    with open(plan.log, "ab") as log:
        child = subprocess.Popen(argv, env=plan.env, stdin=stdin, stdout=log, stderr=log, preexec_fn=prepare)
    child.returncode = 0  # reaped below, not by Popen
    return child.pid


def watch(child: int, penstock: int, plan: Plan, stopping: list[int], ready: int) -> None:
    """Wait until penstock says stop or is gone, then end the JVM and what it started.

    The descriptor ``ready`` is closed as soon as the host answers. Once it is left, the host goes on without penstock,
    until this process is asked to end it (SIGTERM).
    """
    running, gone, left = True, False, False
    while True:
        # Of a host that outlives penstock the pipe says nothing any more.
        word = None if left and gone else listen()
        gone = gone or word == b""
        cut(plan.log)
        if word and word.startswith(READY):
            os.close(ready)
            word = word[len(READY) :]
        if word and word.startswith(LEAVE):
            left, word = True, word[len(LEAVE) :]
        if running and (status := reap(child)) is not None:
            running = False
            Path(plan.exit).write_text(str(os.waitstatus_to_exitcode(status)))
            kill_rest()
        if word or stopping:
            if running:
                terminate(child, plan.grace)
            break
        # A child that penstock forked may hold the pipe open: the parent's id says that penstock is gone.
        if not running if left else (gone or os.getppid() != penstock):
            break
        if left and gone:
            time.sleep(POLL)
    kill_rest()


def listen() -> bytes | None:
    """Return what penstock says within a while: nothing yet, a word, or the end of the pipe (empty)."""
    return os.read(0, 64) if select.select([0], [], [], POLL)[0] else None


def cut(path: str) -> None:
    """Keep a log short, of which Spark writes some lines a batch: only its end tells why a host has ended.

    All who print into it append, so they go on at its new end.
    """
    try:
        if os.path.getsize(path) > LOG:
            with open(path, "a+b") as log:
                log.seek(-KEPT, os.SEEK_END)
                end = log.read()
                log.truncate(0)
                log.write(end)
    except OSError:
        # The disk is full, or the folder gone: that is for others to say.
        pass


def reap(child: int) -> int | None:
    """Collect ended children; return the wait status of the JVM if it is among them."""
    found = None
    try:
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == child:
                found = ended[1]
    except ChildProcessError:
        pass
    return found


def terminate(child: int, grace: float) -> None:
    """Ask the JVM to end and give it ``grace`` seconds."""
    os.kill(child, signal.SIGTERM)
    deadline = time.monotonic() + grace
    while reap(child) is None and time.monotonic() < deadline:
        time.sleep(0.02)


def kill_rest(patience: float = 5.0) -> None:
    """Kill every process of this session and every orphan that came to this process, until none is left."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        reap(-1)
        rest = members()
        if not rest:
            return
        for pid in rest:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                continue
        time.sleep(0.02)


def members() -> list[int]:
    """Return the other processes of this session, and children of this process in any session."""
    me, session, found = os.getpid(), os.getsid(0), []
    for pid, parent in processes():
        try:
            ours = parent == me or os.getsid(pid) == session
        except OSError:
            continue
        if ours and pid != me:
            found.append(pid)
    return found


def processes() -> list[tuple[int, int]]:
    """Return all (process id, parent's id)."""
    if not LINUX:
        listing = subprocess.Popen(["ps", "-A", "-o", "pid=,ppid="], stdout=subprocess.PIPE, start_new_session=True)
        output = listing.communicate()[0].split()
        pairs = zip(map(int, output[::2]), map(int, output[1::2]), strict=True)
        return [pair for pair in pairs if pair[0] != listing.pid]
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as stat:
                    # The command's name stands in brackets and may hold anything.
                    fields = stat.read().rpartition(b")")[2].split()
            except OSError:
                continue
            found.append((int(name), int(fields[1])))
    return found


def say(word: dict[str, str | int]) -> None:
    """Answer penstock, if it still listens."""
    try:
        sys.stdout.write(json.dumps(word) + "\n")
        sys.stdout.flush()
    except OSError:
        pass


if __name__ == "__main__":
    main()
