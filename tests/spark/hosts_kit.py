"""What tests of hosts share: a ``java`` that is none, and looks at processes."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil

READY = 'print("INFO SparkConnectServer: Spark Connect server started at: 127.0.0.1:1", flush=True); time.sleep(600)'
"""The body of a fake ``java`` that is ready at once and answers nobody."""


def within(seconds: float, condition: Callable[[], bool]) -> bool:
    """Wait for a condition, at most so many seconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def gone(processes: list[psutil.Process]) -> bool:
    """Tell whether none of the processes runs; a zombie that nobody collects does not."""
    return not any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in processes)


def listening(port: int) -> bool:
    """Tell whether somebody accepts connections on a port of this machine."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def script(folder: Path, body: str) -> Path:
    """Make a fake ``java``; ``-E``: like a real one, it ignores what the environment tells Python."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "java"
    path.write_text(f"#!{sys.executable} -E\nimport os, signal, subprocess, sys, time\n{body}\n")
    path.chmod(0o755)
    return path
