"""Why a host did not start, or ended: its exit code and its log, in one line."""

from __future__ import annotations

import contextlib
import errno
import signal
import time
from pathlib import Path

from penstock.errors import HostError


def tail(path: Path, size: int = 65536) -> str:
    """Return the last ``size`` bytes of a log as text, nothing if there is none."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - size))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def last_lines(log: Path, count: int = 5) -> str:
    """Return the last lines of a log that are no stack trace, in one line."""
    lines = [line.strip() for line in tail(log).splitlines()]
    return " | ".join([line for line in lines if line and not line.startswith("at ")][-count:]) or "(empty)"


def why_ended(log: Path, note: Path) -> str:
    """Say how a JVM ended, by the supervisor's ``note``, and what it said last."""
    code = _exit_code(note)
    if code is not None and code < 0:
        how = f"it was killed by {signal.Signals(-code).name}"
    else:
        how = "it ended" if code is None else f"it ended with exit code {code}"
    return f"{how}; its log ends: {last_lines(log)}"


def known_reason(log: Path, base: Path, port: int | None) -> str | None:
    """Return what the log of a host that did not start says in so many words: the port, the disk, the heap."""
    text = tail(log)
    if port is not None and ("Address already in use" in text or "BindException" in text):
        return f"cannot listen on port {port}: it is in use; name another or none"
    if "No space left on device" in text:
        return f"cannot start: no space left on the device of {base}; free some"
    if "Could not reserve enough space" in text or "Invalid maximum heap size" in text:
        return "cannot start: no heap of that size; set spark.driver.memory in [spark] conf"
    return None


def starved(log: Path) -> bool:
    """Whether a JVM ended since its heap was full."""
    return "Terminating due to java.lang.OutOfMemoryError" in tail(log)


def refused(error: OSError, name: str, base: Path) -> HostError:
    """Return what to say where the system refuses the host its folder."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return HostError(f"host {name} cannot start: no space left on the device of {base}; free some")
    return HostError(f"host {name} cannot start in {base}: {error.strerror or error}")


def _exit_code(note: Path, patience: float = 2.0) -> int | None:
    """Return the exit code that the supervisor notes a moment after the end."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError, ValueError):
            return int(note.read_text())
        time.sleep(0.05)
    return None
