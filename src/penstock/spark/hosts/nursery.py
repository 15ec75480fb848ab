"""The process of an embedded host that has imported what Spark's Python workers need, and is forked into them.

Spark starts an interpreter for every streaming query with ``foreachBatch``, for every streaming source in Python, and a
few more for each host; each imports pyspark for a second or more before it does anything. `beginning/sitecustomize.py`
sends what such an interpreter was started for here instead: command line, environment, folder, streams. A fork does the
work; the interpreter waits for its end, and the kernel kills the fork when the interpreter ends first. It is a script:
``python nursery.py SOCKET``; on Linux only.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import sys

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


def main() -> None:
    """Import, then fork for each call, until killed."""
    door = socket.socket(socket.AF_UNIX)
    door.bind(sys.argv[1])
    # Who calls from here on waits for the imports, which is still sooner than to do them.
    door.listen(64)
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
            become(call)
        call.close()


def become(call: socket.socket) -> None:
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
    runpy.run_module(wanted["module"], run_name="__main__", alter_sys=True)
    sys.exit(0)


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


if __name__ == "__main__":
    main()
