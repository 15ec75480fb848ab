"""Serving the page until somebody stops it."""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

import uvicorn

from penstock.dashboard.server import LOOPBACK, make_app
from penstock.dashboard.watcher import Watcher
from penstock.errors import InputError
from penstock.home import HOME
from penstock.monitor import View, open_view, recent_runs

TOKEN = "PENSTOCK_TOKEN"  # noqa: S105
"""Environment variable with the token; without it a new one is made and printed."""

MOST_PORT = 65535
"""The largest number that a port has."""

BACKLOG = 2048
"""Connections that wait until they are taken, as uvicorn has it."""

PATIENCE = 5.0
"""Seconds for the last look to end, once nobody asks any more."""


def serve(paths: Sequence[str], *, port: int = 8765, host: str = "127.0.0.1") -> None:
    """Serve the dashboard until it is interrupted.

    Parameters
    ----------
    paths
        What to look at, and each run that begins anew in its folder; nothing: the newest run in ``.penstock``, and
        each newer one when it begins.
    port, host
        Where to listen; port 0: any free one.

    Raises
    ------
    InputError
        If there is nothing to see, the host is none of this machine, or the port is taken or is none.
    """
    if not 0 <= port <= MOST_PORT:
        # The system would take the last 16 bits, and listen elsewhere.
        raise InputError(f"expected a port from 0 to {MOST_PORT}, got {port}", at="--port")
    view = open_view(paths) if paths else None
    watcher = Watcher(view, _anew if paths else _newer)
    listening = _listening(host, port)
    names = (*LOOPBACK, host.lower()) if _own(host) else ()
    app = make_app(watcher, token=os.environ.get(TOKEN), names=names)
    address = f"[{host}]" if ":" in host else host
    url = f"http://{address}:{listening.getsockname()[1]}/"
    token = quote(app.state.token, safe="", errors="surrogateescape")
    print(f"penstock dashboard: {url}#token={token}", file=sys.stderr, flush=True)  # noqa: T201
    if view is None and not recent_runs():
        home = Path(HOME).resolve()
        print(f"no run is in {home} yet: the page fills when one starts there", file=sys.stderr, flush=True)  # noqa: T201
    print("stop it with Ctrl-C", file=sys.stderr, flush=True)  # noqa: T201
    server = _Server(uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=1), watcher)
    watcher.start()
    try:
        server.run(sockets=[listening])
    except KeyboardInterrupt:
        pass
    finally:
        watcher.end()
        watcher.join(PATIENCE)
        listening.close()


class _Server(uvicorn.Server):
    """A server that lets open pages go when it is asked to end: it would wait for them, and cut them off."""

    def __init__(self, config: uvicorn.Config, watcher: Watcher) -> None:
        super().__init__(config)
        self._watcher = watcher

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End what is open, and wait until it has."""
        self._watcher.end()
        await super().shutdown(sockets)


def _listening(host: str, port: int) -> socket.socket:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise InputError(f"{host!r} is no address: {why}", at="--host", hint="127.0.0.1 is this machine") from None
    try:
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        # Who reads the address may come before the server does.
        listening.listen(BACKLOG)
    except OSError as error:
        at = "--host" if error.errno == errno.EADDRNOTAVAIL else "--port"
        raise InputError(
            f"cannot listen on {host}:{port}: {error.strerror}", at=at, hint=f"give another {at}"
        ) from None
    return listening


def _own(host: str) -> bool:
    """Whether only this machine reaches a host of this name."""
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host.lower() in LOOPBACK


def _newer(seen: View | None) -> View | None:
    """Return a view of the newest run that can be read, if it is another one than is seen.

    Raises
    ------
    InputError
        If there is none, since newer ones than is seen cannot be read.
    """
    unread: list[InputError] = []
    for folder in recent_runs():
        here = seen is not None and Path(seen.folder) == folder
        try:
            if seen is None or not here or seen.begun_anew():
                return open_view([str(folder)])
        except InputError as error:
            unread.append(error)
        if here:
            break
    if unread:
        raise unread[0]
    return None


def _anew(seen: View | None) -> View | None:
    """Return a view of what was named, if another run has begun in its folder.

    Raises
    ------
    InputError
        If it is gone, or cannot be read.
    """
    return open_view([seen.folder]) if seen is not None and seen.begun_anew() else None
