"""Servers of your own on the loopback interface: free ports, private files, and ends by pid."""

from __future__ import annotations

import abc
import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self


class Server:
    """A process that outlives the program that starts it, noted in a pid file.

    Parameters
    ----------
    folder
        Of its pid file and its log.
    name
        Of the two files.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder, name
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The process, if it runs, also one that another program has started."""
        with contextlib.suppress(OSError, ValueError):
            pid, since = (int(part) for part in (self.folder / f"{self.name}.pid").read_text().split())
            # Another process may have got the number since.
            return pid if begun(pid) == since else None
        return None

    def start(self, command: Sequence[object], environ: Mapping[str, str]) -> Server:
        """Start it."""
        log = self.folder / f"{self.name}.log"
        with log.open("ab") as file:
            self.process = subprocess.Popen(
                [str(word) for word in command], stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=dict(environ),
                start_new_session=True,
            )  # fmt: skip
        (self.folder / f"{self.name}.pid").write_text(f"{self.process.pid} {begun(self.process.pid)}")
        return self

    def wait(self, port: int, patience: float = 60.0) -> None:
        """Wait until it answers on a port."""
        deadline = time.monotonic() + patience
        while not answers(port):
            if self.pid is None or time.monotonic() > deadline:
                self.end(signal.SIGKILL)
                raise SystemExit(f"the {self.name} did not start; see {self.folder / f'{self.name}.log'}")
            time.sleep(0.05)

    def end(self, how: int = signal.SIGTERM, patience: float = 20.0) -> None:
        """End it, the hard way where the soft one takes too long."""
        pid = self.pid
        if pid is not None:
            os.kill(pid, how)
            deadline = time.monotonic() + patience
            while begun(pid) is not None and time.monotonic() < deadline:
                if self.process is not None:
                    self.process.poll()
                time.sleep(0.05)
            if begun(pid) is not None:
                os.kill(pid, signal.SIGKILL)
        if self.process is not None:
            self.process.wait(10.0)
            self.process = None
        (self.folder / f"{self.name}.pid").unlink(missing_ok=True)


class Service(abc.ABC):
    """Servers with files in one folder: a ``with`` starts them, and ends them also where starting has failed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @abc.abstractmethod
    def start(self) -> Self:
        """Start what does not run, and wait until it answers."""

    @abc.abstractmethod
    def stop(self) -> None:
        """End what runs."""

    def __enter__(self) -> Self:
        end_as_asked()
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def known(self) -> dict[str, str]:
        """What clients need, by the name of the environment variable: addresses, users, secrets."""
        return exported(self.folder / "client.env")


def end_as_asked() -> None:
    """Let a request to terminate end this program as ctrl-C does, so that the servers of its ``with`` end, too."""
    ours = threading.current_thread() is threading.main_thread()
    if ours and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


def private(path: Path, text: str) -> None:
    """Write a file that only its owner may read."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)


def exported(path: Path) -> dict[str, str]:
    """Return the variables of a file that a shell reads."""
    return dict(line.removeprefix("export ").split("=", 1) for line in path.read_text().splitlines())


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens on."""
    with contextlib.ExitStack() as stack:
        found = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in found:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in found]


def answers(port: int) -> bool:
    """Whether somebody listens on a port."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def begun(pid: int) -> int | None:
    """Return when a process began (ticks since the machine did), None if it has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        if Path("/proc/self").exists():
            return None
        with contextlib.suppress(OSError):
            os.kill(pid, 0)
            return 0
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] == "Z" else int(fields[19])
