"""``penstock.Listener``: one line in an existing job, and its streaming queries are recorded or shown to Prometheus."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, cast

from pyspark.sql.streaming.listener import StreamingQueryListener

from penstock.errors import InputError
from penstock.telemetry.events import parse
from penstock.telemetry.lines import event_line, progress_line
from penstock.telemetry.metrics import Metrics
from penstock.telemetry.metrics_server import MetricsServer
from penstock.telemetry.recorder import Recorder
from penstock.telemetry.worker import Worker

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject, JVMView
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession
    from pyspark.sql.conf import RuntimeConfig
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )


class Listener(StreamingQueryListener):
    """Keeps what streaming queries tell, for `penstock inspect` and for Prometheus.

    Spark's thread only puts each event into a queue; a thread of the listener does the rest. So a query is never held
    up, and whatever goes wrong here becomes one warning. Works with classic sessions and with Spark Connect, where it
    runs in the client.

    Parameters
    ----------
    folder
        Where events are written, in at most `limit` bytes; `penstock inspect FOLDER` reads them.
    prometheus
        Port at which metrics are served (``http://127.0.0.1:PORT/metrics``); 0: any free one, see `port`.
    address
        Interface of the metrics; the loopback interface unless told otherwise.
    limit
        Bytes of all files in the folder that this listener writes; the oldest events go first.

    Raises
    ------
    InputError
        If neither folder nor port is given, the folder cannot be written or the port is taken.

    Examples
    --------
    ::

        spark.streams.addListener(penstock.Listener("progress"))
    """

    def __init__(
        self,
        folder: str | os.PathLike[str] | None = None,
        *,
        prometheus: int | None = None,
        address: str = "127.0.0.1",
        limit: int = 256 * 2**20,
    ) -> None:
        if folder is None and prometheus is None:
            raise InputError("expected a folder, a port or both", at="Listener", hint='e.g. Listener("progress")')
        self._recorder = None if folder is None else Recorder(folder, limit)
        self._worker = Worker("penstock listener")
        self._metrics = Metrics(lambda: self._worker.dropped)
        self._server = None if prometheus is None else MetricsServer(self._metrics, prometheus, address)
        self._identified = False

    @property
    def port(self) -> int | None:
        """Port of the metrics."""
        return None if self._server is None else self._server.port

    @property
    def folder(self) -> Path | None:
        """Where events are written."""
        return None if self._recorder is None else self._recorder.folder

    def flush(self) -> None:
        """Write what waits; `penstock.inspect` does so first."""
        self._worker.flush()

    def close(self) -> None:
        """Write what waits, and stop; also done when Python ends."""
        self._worker.close()
        if self._recorder is not None:
            self._recorder.close()
        if self._server is not None:
            self._server.close()
            self._server = None

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        """Keep the start of a query."""
        self._worker.put(lambda: self._begin(_started(event)))

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Keep a progress report."""
        self._worker.put(lambda: self._keep(progress_line(event.progress.json)))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Nothing has happened: nothing is kept."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Keep the end of a query."""
        self._worker.put(lambda: self._keep(_terminated(event)))

    def _begin(self, line: bytes) -> None:
        """Keep the start of a query, which may run in another application than those before it."""
        self._identified = False
        self._keep(line)

    def _keep(self, line: bytes) -> None:
        if self._recorder is not None:
            if not self._identified:
                self._identified = True
                self._identify(self._recorder)
            self._recorder.write(line)
        if self._server is not None:
            event = parse(line)
            if event is not None:
                self._metrics.take(event)

    def _identify(self, recorder: Recorder) -> None:
        """Say which application the events are of, as the session tells; without a session this process at first."""
        unknown = f"process-{os.getpid()}"
        try:
            conf = _conf(self.spark)
            name = conf.get("spark.app.name", "") or ""
            recorder.identify(conf.get("spark.app.id", "") or name or unknown, name)
        except Exception:  # no session, or one that has ended: the events are kept all the same
            if not recorder.application:
                recorder.identify(unknown, "")

    @property
    def _jlistener(self) -> JavaObject:
        """The listener as classic sessions want it.

        pyspark's own builds a Python object of each event before it calls, one round trip to the JVM a field: 15 to
        25 ms of a core. This one hands the JVM's event on, and asks for its JSON at once, on our thread.
        """
        if not hasattr(self, "_jlistenerobj"):
            from pyspark import SparkContext

            jvm = cast("JVMView", SparkContext._jvm)
            self._jlistenerobj = jvm.PythonStreamingQueryListenerWrapper(_Direct(self))
        return self._jlistenerobj


class _Direct:
    """What the JVM calls: it puts the event away and returns."""

    def __init__(self, listener: Listener) -> None:
        self.listener = listener

    def onQueryStarted(self, event: JavaObject) -> None:  # noqa: N802
        self.listener._worker.put(lambda: self.listener._begin(_started_in_jvm(event)))

    def onQueryProgress(self, event: JavaObject) -> None:  # noqa: N802
        self.listener._worker.put(lambda: self.listener._keep(progress_line(event.progress().json())))

    def onQueryIdle(self, event: JavaObject) -> None:  # noqa: N802
        pass

    def onQueryTerminated(self, event: JavaObject) -> None:  # noqa: N802
        self.listener._worker.put(lambda: self.listener._keep(_terminated_in_jvm(event)))

    class Java:
        implements = ("org.apache.spark.sql.streaming.PythonStreamingQueryListener",)


def _conf(session: SparkSession | None) -> RuntimeConfig | SparkConf:
    """Return the settings of a session (Connect), or of the application of this process (classic)."""
    if session is not None:
        return session.conf
    from pyspark import SparkContext

    return cast("SparkContext", SparkContext._active_spark_context).getConf()


def _started(event: QueryStartedEvent) -> bytes:
    content = {"id": str(event.id), "runId": str(event.runId), "name": event.name, "timestamp": event.timestamp}
    return event_line("QueryStartedEvent", content)


def _terminated(event: QueryTerminatedEvent) -> bytes:
    content = {"id": str(event.id), "runId": str(event.runId), "exception": event.exception}
    return event_line("QueryTerminatedEvent", content)


def _started_in_jvm(event: JavaObject) -> bytes:
    from pyspark.sql.streaming.listener import QueryStartedEvent

    return _started(QueryStartedEvent.fromJObject(event))


def _terminated_in_jvm(event: JavaObject) -> bytes:
    from pyspark.sql.streaming.listener import QueryTerminatedEvent

    return _terminated(QueryTerminatedEvent.fromJObject(event))
