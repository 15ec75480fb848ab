"""The process of an embedded host that has imported what Spark's Python workers need, and is forked into them.

Spark starts an interpreter for every streaming query with ``foreachBatch``, for every streaming source in Python, and a
few more for each host; each imports pyspark for a second or more before it does anything. `beginning/sitecustomize.py`
sends what such an interpreter was started for here instead: command line, environment, folder, streams. A fork does the
work; the interpreter waits for its end, and the kernel kills the fork when the interpreter ends first. It is a script:
``python nursery.py SOCKET [IDLE]``; on Linux only.

Spark keeps a daemon for each query that ever ran, and asks it for the workers of that query. One without workers ends
after ``IDLE`` seconds (60); Spark starts another should it need one.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys
import time
from typing import Any

WARM = (
    "pyspark.worker",
    "pyspark.sql.connect.streaming.query",
    "pyspark.sql.connect.streaming.worker.foreach_batch_worker",
    "pyspark.sql.functions",
    "pyspark.sql.streaming.python_streaming_source_runner",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.plan_data_source_read",
    "pyarrow.compute",
    "pyarrow.fs",
    "pyarrow.parquet",
)
"""What workers import before their first batch ends."""

DAEMON = "pyspark.daemon"
IDLE, LOOK = 60.0, 10_000.0
"""Seconds without a worker after which a daemon ends, and milliseconds between its looks."""


def main() -> None:
    """Import, then fork for each call, until killed."""
    door = socket.socket(socket.AF_UNIX)
    door.bind(sys.argv[1])
    idle = float(sys.argv[2]) if len(sys.argv) > 2 else IDLE
    # Who calls from here on waits for the imports, which is still sooner than to do them.
    door.listen(64)
    # The imports would take the core on which the JVM starts: wait until it has, when the input ends, or for a call.
    select.select([door.fileno(), 0], [], [])
    for name in WARM:
        # Another version of Spark may have it elsewhere: then a fork imports it.
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    # Forks share what is never collected.
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        call = door.accept()[0]
        if os.fork() == 0:
            door.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            become(call, idle)
        call.close()


def become(call: socket.socket, idle: float) -> None:
    """Do here what the interpreter at the other end was started for."""
    message, streams, _, _ = socket.recv_fds(call, 4, 3)
    size = int.from_bytes(message, "big")
    text = b""
    while len(text) < size:
        text += call.recv(size - len(text)) or sys.exit(0)
    wanted = json.loads(text)
    end_with(call)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
    os.environ.clear()
    os.environ.update(wanted["environ"])
    os.chdir(wanted["folder"])
    sys.path[:] = [wanted["folder"], *wanted["path"]]
    sys.argv[:] = ["", *wanted["arguments"]]
    # It is run anew, on what it has imported.
    sys.modules.pop(wanted["module"], None)
    if wanted["module"] == DAEMON:
        polling = select.poll
        vars(select)["poll"] = lambda: Patience(polling(), idle)
    runpy.run_module(wanted["module"], run_name="__main__", alter_sys=True)
    sys.exit(0)


class Patience:
    """What a daemon polls its socket with: ends the process once it has had no worker for a while.

    Parameters
    ----------
    poll
        The polling object that it stands for.
    idle
        Seconds without a worker.
    """

    def __init__(self, poll: Any, idle: float) -> None:
        self._poll, self._idle = poll, idle
        self._path, self._since = "", time.monotonic()
        self.unregister = poll.unregister

    def register(self, file: Any, events: int) -> None:
        """Poll a file as well; a socket is the one at which workers are asked for."""
        self._poll.register(file, events)
        if isinstance(file, socket.socket):
            self._path = file.getsockname()

    def poll(self, _timeout: float) -> list[tuple[int, int]]:
        """Return what is there, or nothing after a while: a daemon that looks each second costs as much as a query."""
        found: list[tuple[int, int]] = self._poll.poll(min(LOOK, 1000 * self._idle))
        if found or working():
            self._since = time.monotonic()
        elif time.monotonic() > self._since + self._idle and isinstance(self._path, str) and self._path:
            # Who comes now finds no door, and asks Spark for another daemon; who came before is heard.
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._path)
            found = self._poll.poll(0)
            if not found:
                os._exit(0)
        return found


def working() -> bool:
    """Whether this process has a child."""
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return False
    return True


def end_with(call: socket.socket) -> None:
    """Let the kernel kill this process when the other end of the connection is closed; at once if it is."""
    fcntl.fcntl(call, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(call, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(call, fcntl.F_SETFL, fcntl.fcntl(call, fcntl.F_GETFL) | os.O_ASYNC)
    try:
        if call.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b"":
            sys.exit(0)
    except BlockingIOError:
        pass
    # It must stay open until the process is gone: threads of libraries may hold up the interpreter's end.
    call.detach()


if __name__ == "__main__":
    main()
