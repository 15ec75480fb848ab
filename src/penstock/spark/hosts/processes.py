"""A process and what it started: who they are, and what they use."""

from __future__ import annotations

import contextlib
import threading

import psutil


class Meter:
    """Adds up the CPU time of a process and of what it started, also of what has ended since."""

    def __init__(self) -> None:
        self._seen: dict[psutil.Process, tuple[float, bool]] = {}
        self._ended = 0.0
        self._last = 0.0
        self._lock = threading.Lock()

    def cpu(self, root: psutil.Process | None) -> float:
        """Return the CPU time in s; it never falls."""
        with self._lock:
            now: dict[psutil.Process, tuple[float, bool]] = {}
            for process in family(root):
                with contextlib.suppress(psutil.Error):
                    times = process.cpu_times()
                    own = times.user + times.system
                    waited = getattr(times, "children_user", 0.0) + getattr(times, "children_system", 0.0)
                    # A parent that waits for its child counts it from then on; the Python daemon does not wait.
                    now[process] = own + waited, process == root or (root is not None and process.ppid() == root.pid)
            if now:
                for process, (used, counted) in self._seen.items():
                    if process not in now and not counted:
                        self._ended += used
                self._seen = now
                self._last = max(self._last, self._ended + sum(used for used, _ in now.values()))
            return self._last


def family(root: psutil.Process | None) -> list[psutil.Process]:
    """Return a process and all that descend from it, none if it is gone."""
    if root is None:
        return []
    try:
        return [root, *root.children(recursive=True)]
    except psutil.Error:
        return []


def resident(root: psutil.Process | None) -> int:
    """Return the resident memory of a process and what it started, in bytes; shared pages count in each."""
    total = 0
    for process in family(root):
        with contextlib.suppress(psutil.Error):
            total += int(process.memory_info().rss)
    return total


def running(process: psutil.Process | None) -> bool:
    """Return whether a process runs; a zombie does not."""
    try:
        return process is not None and process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
