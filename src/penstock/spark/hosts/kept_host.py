"""A host that was started before, and runs on when penstock ends."""

from __future__ import annotations

import urllib.parse
from pathlib import Path
from typing import TYPE_CHECKING, Self

from penstock.errors import HostError
from penstock.spark.hosts.kept import Kept
from penstock.spark.hosts.processes import Meter, resident, running
from penstock.spark.hosts.sessions import Mute, Sessions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class KeptHost:
    """A host that was started before and goes on when penstock ends.

    Parameters
    ----------
    kept
        How it is found.
    """

    def __init__(self, kept: Kept) -> None:
        self.kept, self.name, self.cores = kept, kept.name, kept.cores
        self._sessions = Sessions(kept.name, local=True)
        self._meter = Meter()

    def __repr__(self) -> str:
        return f"KeptHost({self.name!r}, {self.endpoint})"

    @property
    def endpoint(self) -> str:
        """The address, without a token."""
        return f"sc://127.0.0.1:{self.kept.port}"

    @property
    def pid(self) -> int:
        """Process id of the JVM."""
        return self.kept.pid

    @property
    def log(self) -> Path:
        """What the JVM and its Python workers print."""
        return Path(self.kept.token).with_name("server.log")

    def start(self) -> Self:
        """Check that it runs.

        Raises
        ------
        HostError
            If it does not.
        """
        if not self.alive():
            raise HostError(f"host {self.name} does not run any more: penstock hosts stop, then start it again")
        return self

    def session(self, session_id: str | None = None) -> SparkSession:
        """Return a new session, or the one of that id again."""
        self.start()
        try:
            token = Path(self.kept.token).read_text()
        except OSError as error:
            raise HostError(f"host {self.name}: its token cannot be read: {error.strerror}") from None
        # With a token and without TLS, gRPC asks for the literal name.
        url = f"sc://localhost:{self.kept.port}/;token={urllib.parse.quote(token)}"
        try:
            return self._sessions.connect(self.endpoint, url, session_id)
        except Mute:
            self.start()  # it may have ended meanwhile
            raise HostError(
                f"host {self.name} runs but does not answer: penstock hosts stop {self.name}, then start it again"
            ) from None

    def alive(self) -> bool:
        """Return whether the JVM runs."""
        return running(self.kept.jvm)

    def cpu_seconds(self) -> float:
        """Return the CPU time that the JVM and what it started have used so far, in s."""
        return self._meter.cpu(self.kept.root)

    def rss(self) -> int:
        """Return the resident memory of the JVM and what it started, in bytes."""
        return resident(self.kept.root)

    def leave(self) -> None:
        """Leave its queries running; they do so in any case."""

    def stop(self) -> None:
        """Let the host go; it runs on."""
        self._sessions.close(release=False)
