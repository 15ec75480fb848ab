"""Write the archive of Spark's classes: a host does a little of everything, and its JVM keeps what that took."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

from penstock.cluster import Cluster
from penstock.errors import HostError
from penstock.files import Document
from penstock.network.file import parse_network
from penstock.spark.hosts import EmbeddedHost, Launch, classes, settings
from penstock.spark.hosts import java as java_runtime
from penstock.spark.run import Engine
from penstock.workload import Rates


def write_archive(java: Path | None = None) -> Path:
    """Keep Spark's classes for the embedded hosts of this user, unless they are kept, and return the file.

    Parameters
    ----------
    java
        The ``java`` of the hosts (default: `penstock.spark.hosts.java.find`).

    Raises
    ------
    HostError
        If the host cannot be started, its Java writes none, or the user's cache cannot be written.
    """
    java = java or java_runtime.find()
    file = settings.archive(java)
    if file.exists():
        return file
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise HostError(f"no classes can be kept in {file.parent}: {error.strerror or error}") from None
    written = file.with_name(f".{os.getpid()}-{file.name}")
    try:
        with (
            tempfile.TemporaryDirectory() as folder,
            EmbeddedHost("h1", launch=Launch(java=java, record=written)) as host,
        ):
            _work(Engine(Cluster.uniform(1), {"h1": host}), Path(folder))
        if not written.exists():
            raise HostError(
                f"{java} keeps no classes: take a Java with class data sharing, such as OpenJDK 17 or newer"
            )
        written.replace(file)
        classes.tidy(file.parent)
    finally:
        written.unlink(missing_ok=True)
    return file


def _work(engine: Engine, folder: Path) -> None:
    clicks = folder / "clicks"
    clicks.mkdir()
    rows = [{"user": "u", "page": page, "at": "2030-01-01T00:00:00Z"} for page in ("home", "search")]
    (clicks / "1.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    network = parse_network(_usual(clicks))
    deployment = engine.prepare(
        network,
        dict.fromkeys(network.operators, "h1"),
        folder / "run",
        rates=Rates.constant({"events": 50.0}, 6),
        everything=True,
    )
    engine.run_once(deployment)


def _usual(clicks: Path) -> Document:
    """Return what most networks are made of."""
    return {
        "name": "usual",
        "sources": {
            "events": {"format": "nexmark"},
            "clicks": {
                "format": "json", "schema": "user STRING, page STRING, at TIMESTAMP", "time": "at",
                "options": {"path": str(clicks)},
            },
        },
        "operators": {
            "bids": {"kind": "filter", "input": "events", "where": "kind = 'bid'"},
            "euros": {"kind": "map", "input": "bids", "select": "auction, price * 908 AS price"},
            "busy": {
                "kind": "aggregate", "input": "bids", "by": "auction", "window": "2 seconds",
                "select": "count(*) AS n",
            },
            "people": {"kind": "filter", "input": "events", "where": "kind = 'person'"},
            "auctions": {"kind": "filter", "input": "events", "where": "kind = 'auction'"},
            "newcomers": {
                "kind": "join", "inputs": ["people", "auctions"], "on": "people.id = auctions.seller",
                "within": "5 seconds", "select": "people.id AS person, auctions.id AS auction",
            },
            "home": {"kind": "filter", "input": "clicks", "where": "page = 'home'"},
            "others": {"kind": "filter", "input": "clicks", "where": "page <> 'home'"},
            "all": {"kind": "union", "inputs": ["home", "others"]},
            "slow": {"kind": "delay", "input": "all", "cost": 1e-5},
        },
        "sinks": {
            "converted": {"input": "euros"}, "counted": {"input": "busy"}, "joined": {"input": "newcomers"},
            "seen": {"input": "slow", "format": "json", "options": {"path": str(clicks.with_name("seen"))}},
        },
    }  # fmt: skip
