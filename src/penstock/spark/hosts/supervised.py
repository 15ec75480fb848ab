"""penstock's end of a supervisor: start it, let it start the JVM, let it end everything."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

import psutil

from penstock.errors import HostError
from penstock.spark.hosts import supervisor
from penstock.spark.hosts.processes import family

PATIENCE = 10.0
"""Seconds, after those that the JVM has, until a supervisor that does not end is killed."""


class Supervised:
    """A supervisor and the JVM that it owns.

    Parameters
    ----------
    folders
        Those that the supervisor removes at the end.
    locks
        Descriptors that it inherits: the folders are in use as long as it runs.
    environ
        The supervisor's environment.
    """

    jvm: psutil.Process | None = None
    """The JVM, once started."""
    root: psutil.Process
    """The supervisor: all processes of the host descend from it."""

    def __init__(self, folders: Sequence[Path], locks: Sequence[int], environ: Mapping[str, str]) -> None:
        self._supervisor = subprocess.Popen(
            [sys.executable, "-I", "-S", supervisor.__file__, *map(str, folders)],
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            pass_fds=locks,
        )
        self.root = psutil.Process(self._supervisor.pid)
        self._grace = 0.0

    def launch(self, name: str, plan: supervisor.Plan) -> None:
        """Start the JVM of the host ``name``.

        Raises
        ------
        HostError
            If the system cannot start it.
        """
        stdin, stdout = self._pipes()
        self._grace = plan.grace
        stdin.write(json.dumps(plan._asdict()).encode() + b"\n")
        stdin.flush()
        answer = json.loads(stdout.readline() or b'{"error": "its supervisor ended"}')
        if "error" in answer:
            raise HostError(f"host {name} cannot start {plan.argv[0]}: {answer['error']}")
        with contextlib.suppress(psutil.NoSuchProcess):
            self.jvm = psutil.Process(answer["pid"])

    def ready(self) -> None:
        """Tell the supervisor that the host answers."""
        self._say(supervisor.READY)

    def leave(self) -> None:
        """Tell the supervisor that the host is to outlive penstock."""
        self._say(supervisor.LEAVE)

    def end(self) -> None:
        """Ask the supervisor to end everything; do it here if it is gone."""
        stdin, stdout = self._pipes()
        self._say(supervisor.STOP)
        with contextlib.suppress(OSError):
            stdin.close()
        try:
            self._supervisor.wait(timeout=self._grace + PATIENCE)
        except subprocess.TimeoutExpired:
            self._supervisor.kill()
            self._supervisor.wait()
        stdout.close()
        for left in family(self.jvm):
            with contextlib.suppress(psutil.Error):
                left.kill()

    def _say(self, word: bytes) -> None:
        stdin, _ = self._pipes()
        with contextlib.suppress(OSError):
            stdin.write(word)
            stdin.flush()

    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        stdin, stdout = self._supervisor.stdin, self._supervisor.stdout
        assert stdin is not None and stdout is not None  # noqa: S101, PT018 - for the type checker
        return stdin, stdout
