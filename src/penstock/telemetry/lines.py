"""What a listener is told of, as the lines of Spark's own event log."""

from __future__ import annotations

import json

from penstock.files import Document

STREAMING = "org.apache.spark.sql.streaming.StreamingQueryListener$"


def event_line(kind: str, content: Document) -> bytes:
    """Return an event as a line: ``QueryStartedEvent``, ``QueryTerminatedEvent``."""
    return json.dumps({"Event": STREAMING + kind, **content}).encode()


def progress_line(progress: str) -> bytes:
    """Return a progress report, given as JSON, as a line."""
    return b'{"Event":"%sQueryProgressEvent","progress":%s}' % (
        STREAMING.encode(),
        progress.replace("\n", " ").encode(),
    )
