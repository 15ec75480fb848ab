"""Hosts that somebody else runs."""

from __future__ import annotations

import os
import re
import socket
import urllib.parse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Self

from penstock.errors import HostError, InputError
from penstock.spark.hosts.sessions import Sessions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class RemoteHost:
    """A Spark Connect endpoint that somebody else runs.

    Its server's idle time-out (``spark.connect.session.manager.defaultSessionTimeout``, 60 minutes unless set) ends
    sessions and their queries; every call, such as reading a query's progress, starts it anew.

    Parameters
    ----------
    name
        The host's name.
    endpoint
        ``sc://node1:15002``, with the usual parameters (``/;use_ssl=true``), without a token.
    token_env
        The environment variable that holds the token, None for an endpoint without one.
    timeout
        Seconds until an endpoint that does not answer counts as unreachable.
    environ
        Where to look the variable up.
    """

    pid: int | None = None
    log: Path | None = None

    def __init__(
        self,
        name: str,
        endpoint: str,
        *,
        token_env: str | None = None,
        timeout: float = 8.0,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self.name = name
        self.timeout = timeout
        self._left = False
        wrong = InputError(f"expected an endpoint such as 'sc://node1:15002', got {_masked(endpoint)!r}")
        try:
            parts = urllib.parse.urlsplit(endpoint)
            address, port = parts.hostname or "", parts.port or 15002
            address.encode("idna")  # what a look-up of the name would refuse
        except ValueError:
            raise wrong from None
        options = [option for option in parts.path.removeprefix("/").split(";") if option]
        if parts.scheme != "sc" or not address or "@" in parts.netloc or any("=" not in option for option in options):
            raise wrong
        if any(option.startswith("token=") for option in options):
            raise InputError(
                f"the endpoint of host {name} holds a token", hint="name an environment variable in token_env"
            )
        self._host, self._port, self._options = address, port, options
        self._token = None if token_env is None else environ.get(token_env)
        if token_env is not None and not self._token:
            raise HostError(f"host {name} needs its token in the environment variable {token_env!r}: it is not set")
        self.endpoint = endpoint
        local = address in ("localhost", "::1") or address.startswith("127.")
        self._sessions = Sessions(name, local=local, timeout=timeout / 2)

    def __repr__(self) -> str:
        return f"RemoteHost({self.name!r}, {self.endpoint!r})"

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> Self:
        """Check that the endpoint answers and takes the token.

        Raises
        ------
        HostError
            If it does not.
        """
        self.session().stop()
        return self

    def session(self, session_id: str | None = None) -> SparkSession:
        """Return a new session (``pyspark.sql.connect``), or the one of that id again.

        Raises
        ------
        HostError
            If the endpoint cannot be reached within the time-out, or refuses the token.
        """
        host = self._host
        tls = any(option.lower() == "use_ssl=true" for option in self._options)
        if self._token and not tls and host in ("127.0.0.1", "::1"):
            # With a token and without TLS, gRPC asks for the literal name.
            host = "localhost"
        if ":" in host:
            host = f"[{host}]"
        options = [*self._options, *([f"token={urllib.parse.quote(self._token, safe='')}"] if self._token else [])]
        url = f"sc://{host}:{self._port}" + (f"/;{';'.join(options)}" if options else "")
        try:
            socket.create_connection((self._host, self._port), timeout=self.timeout / 2).close()
        except OSError as error:
            reason = error.strerror or str(error)
            raise HostError(
                f"host {self.name} cannot be reached at {self.endpoint} ({reason}): "
                "check the address, and that the Spark Connect server runs"
            ) from None
        return self._sessions.connect(self.endpoint, url, session_id)

    def alive(self) -> bool:
        """Return whether the endpoint's port answers."""
        try:
            socket.create_connection((self._host, self._port), timeout=2).close()
        except OSError:
            return False
        return True

    def cpu_seconds(self) -> None:
        """Return None: it is another machine."""

    def rss(self) -> None:
        """Return None: it is another machine."""

    def leave(self) -> None:
        """Leave its queries running when the host is let go."""
        self._left = True

    def stop(self) -> None:
        """Release the sessions, which ends their queries; the server goes on."""
        self._sessions.close(release=not self._left and self.alive())


def _masked(endpoint: str) -> str:
    return re.sub(r"token=[^;]*", "token=…", re.sub(r"//[^/]*@", "//…@", endpoint))
