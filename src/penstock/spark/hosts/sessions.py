"""The sessions that a host hands out, and what is said where none can be had."""

from __future__ import annotations

import importlib
import os
import re
import sys
import threading
import warnings
import weakref
from typing import TYPE_CHECKING, cast

from penstock.errors import HostError
from penstock.spark.silent import Silent, within

if TYPE_CHECKING:
    import grpc  # type: ignore[import-untyped]
    from pyspark.sql import SparkSession
    from pyspark.sql.connect.client import DefaultChannelBuilder
    from pyspark.sql.connect.session import SparkSession as ConnectSession

QUIET = {"GRPC_VERBOSITY": "ERROR", "GRPC_ENABLE_FORK_SUPPORT": "0"}
"""What gRPC reads when it is imported: no notes about forks on standard error."""

KNOWN = ("4.2", "4.3")
"""Versions of Spark on which penstock's tests have run."""


FIRST = 60.0
"""Seconds for the first answer: a server that has just begun, or has much to do, is slow to make a session."""


class Mute(HostError):
    """A host takes connections and does not answer."""


_IMPORTING = threading.Lock()


def import_client() -> None:
    """Import Spark's client, which takes a second or two, in one thread at a time.

    Its modules import each other: threads that begin at different ones of them see some that are half there.
    """
    with _IMPORTING:
        importlib.import_module("pyspark.sql.connect.session")


class Sessions:
    """The open sessions of one host.

    Parameters
    ----------
    name
        The host's name.
    local
        Whether the host is on this machine, so that no proxy lies between.
    timeout
        Seconds until an endpoint that does not speak Spark Connect counts as such.
    """

    def __init__(self, name: str, *, local: bool = False, timeout: float = 10.0) -> None:
        for variable, value in QUIET.items():
            os.environ.setdefault(variable, value)
        self._name, self._local, self._timeout = name, local, timeout
        self._channels: weakref.WeakKeyDictionary[ConnectSession, grpc.Channel] = weakref.WeakKeyDictionary()

    def connect(self, endpoint: str, url: str, session_id: str | None) -> SparkSession:
        """Return a session that has been seen to answer: a new one, or the one of that id.

        ``endpoint`` is what messages show, ``url`` may hold a token.

        Raises
        ------
        HostError
            If the endpoint speaks no Spark Connect, does not answer, refuses the token, or runs another version of
            Spark; or if this process has a session of classic Spark.
        """
        import_client()
        _refuse_classic()
        import pyspark
        from pyspark.sql.connect.client import DefaultChannelBuilder
        from pyspark.sql.connect.client.retries import DefaultPolicy
        from pyspark.sql.connect.session import SparkSession as ConnectSession

        # What the client says about a server that has gone is said by penstock.
        warnings.filterwarnings("ignore", message=r"\[RETRIES_EXCEEDED\]")
        # With it, pyspark.sql.functions builds columns without a JVM. It stays: users' functions build some as well.
        os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"
        where = f"host {self._name} at {endpoint}"
        if session_id is not None:
            url += ("" if "/;" in url else "/") + f";session_id={session_id}"
        builder = DefaultChannelBuilder(url)
        channel = self._open(builder, where)
        builder.toChannel = lambda: channel  # type: ignore[method-assign]  # the one that answered
        session = ConnectSession.builder.channelBuilder(builder).create()
        # A host that has gone is noticed within about 5 s, not after minutes.
        session.client.set_retry_policies([DefaultPolicy(max_retries=5, max_backoff=2000)])
        version = _ask(session, where)
        refused = misfit(version, pyspark.__version__)
        if refused:
            session.release_session_on_close = False
            session.stop()
            raise HostError(f"{where} runs Spark {version}: {refused}")
        self._channels[session] = channel
        # To whoever uses it, it is what every session is.
        return cast("SparkSession", session)

    def _open(self, builder: DefaultChannelBuilder, where: str) -> grpc.Channel:
        """Return a channel that is ready."""
        import grpc

        if self._local:
            builder.setChannelOption("grpc.enable_http_proxy", 0)
        channel = builder.toChannel()
        try:
            grpc.channel_ready_future(channel).result(timeout=self._timeout)
        except grpc.FutureTimeoutError:
            channel.close()
            hint = "a token is sent over TLS" if builder.token else "set use_ssl=true or not"
            raise Mute(
                f"{where} does not speak Spark Connect ({self._timeout:g} s without an answer): "
                f"check the port, and whether it speaks TLS ({hint})"
            ) from None
        return channel

    def close(self, *, release: bool) -> None:
        """Close the sessions that are still in use; ``release`` them at the server, which ends their queries."""
        for session, channel in [*self._channels.items()]:
            session.release_session_on_close = release
            if not release:
                # Calls that wait for a server that has gone end now.
                channel.close()
            session.stop()
        self._channels.clear()


def _refuse_classic() -> None:
    """Refuse what pyspark itself refuses: columns are of the one or of the other in the whole process."""
    # Spark's client for Connect alone has no such module.
    context = getattr(sys.modules.get("pyspark.core.context"), "SparkContext", None)
    if context is not None and context._active_spark_context is not None:
        raise HostError(
            "this process has a classic Spark session, beside which pyspark takes none of Spark Connect: "
            "stop it, or start penstock in a process of its own"
        )


def misfit(version: str, client: str) -> str | None:
    """Return why queries cannot run on a version of Spark, such as ``4.3.0`` or one that somebody made from it.

    Parameters
    ----------
    version
        Of the host.
    client
        Of the pyspark here: it sends Python code to the host, which must mean the same there.
    """
    there, here = minor(version), minor(client)
    if there not in KNOWN:
        return f"penstock runs queries on {', '.join(KNOWN)}"
    if there != here:
        return f"here is pyspark {client}, and both must be alike (pip install 'pyspark[connect]~={there}.0')"
    return None


def minor(version: str) -> str:
    """Return the first two numbers of a version."""
    return ".".join(re.findall(r"\d+", version)[:2])


def id_of(session: SparkSession) -> str:
    """Return by which id a session is found again."""
    return str(cast("ConnectSession", session).session_id)


def _ask(session: ConnectSession, where: str) -> str:
    """Make a first call, which shows whether the token is right; return the version of Spark."""
    import grpc
    from pyspark.errors.exceptions.connect import SparkConnectException

    try:
        return str(within(FIRST, lambda: session.version))
    except Silent:
        session.release_session_on_close = False
        session.stop()
        raise Mute(f"{where} takes connections and does not answer ({FIRST:g} s): check that it still works") from None
    except (SparkConnectException, grpc.RpcError) as error:
        session.release_session_on_close = False
        session.stop()
        text = str(error)
        if "UNAUTHENTICATED" in text or "PERMISSION_DENIED" in text or "uthentication token" in text:
            raise HostError(f"{where} refuses the token: check token_env") from None
        # A gRPC error shown whole begins with a line that says nothing.
        details = re.search(r'^\s*details = "(.+)"$', text, re.MULTILINE)
        said = details[1] if details else (text.splitlines() or [type(error).__name__])[0]
        raise HostError(f"{where} does not answer as Spark Connect does: {said}; check the address") from None
