"""A run's folder: what is where, who uses it, and what it was begun with.

Everything that a run leaves is in its folder, written so that a killed run finds it again:

    run.json            what runs here: network, placement, keep fractions, and the run's identity
    owner, fence        which generation delivers; held while one commits or takes over
    epoch               when scheduled sources begin (µs since 1970)
    checkpoints/QUERY   Spark's offsets, commits and state
    recalled/QUERY      what queries knew of event time when they were stopped
    logs/OPERATOR       rows between queries, a file per batch, until all readers have passed
    sinks/SINK          rows of sinks without a format
    latency/SINK        when rows became visible, and the stimulus time of each
    batches/QUERY       a manifest per batch: event time, rows of logs, counts
    progress/QUERY      Spark's report per batch: duration, and the counts of streams inside its plan
    history.json        what older manifests, reports and latencies add up to
    errors/QUERY        what a query's writer failed with
    keep.json           keep fractions that a plan asks for now
    knobs/QUERY         those that the last batches had
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import secrets
from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from penstock.cluster import Placement
from penstock.errors import InputError
from penstock.network import Network
from penstock.spark.compile import Deployment
from penstock.spark.shipped.place import Place, RemotePlace, place_of

CLAIMED = (
    ("digest", "another network"),
    ("placement", "another placement"),
    ("keep", "a run with other keep fractions"),
    ("plan", "a run with a plan table, or one without it,"),
    ("hop", "a run whose rows pass by other ways"),
    ("rates", "a run whose scheduled sources have other rates"),
)
"""What a run must be resumed with, since answers depend on it, and how a difference is told."""


@contextlib.contextmanager
def owned(folder: Place) -> Iterator[None]:
    """Hold a run's folder: one penstock at a time."""
    try:
        folder.make()
        if isinstance(folder, RemotePlace):
            yield
            return
        lock = open((folder / "lock").path, "w")  # noqa: SIM115
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", file=folder.path) from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(
                "another penstock runs in this folder", file=folder.path, hint="name another --directory"
            ) from None
        yield


def epoch_of(folder: Place) -> float:
    """Return when scheduled sources of a run begin (s since 1970); 0 if it has not begun."""
    try:
        return int((folder / "epoch").read()) / 1e6
    except FileNotFoundError:
        return 0.0


def digest(network: Network) -> str:
    """Return a fingerprint of a network's meaning."""
    parts = [
        network.name,
        *(str(attrs.asdict(v)) for t in (network.sources, network.operators, network.sinks) for v in t.values()),
    ]
    return _hashed("\n".join(parts))


def claimed(folder: str) -> dict[str, Any] | None:
    """Return what runs in a folder, if anything does."""
    try:
        document: dict[str, Any] = json.loads((place_of(folder) / "run.json").read())
    except FileNotFoundError:
        return None
    return document


def claim(deployment: Deployment) -> str:
    """Note what runs in the folder, or refuse if it is something else; return the run's identity.

    What may change from one run to the next: the trigger, how long it runs, the hosts' addresses and cores, the
    statistics, and which plan table it follows.

    Raises
    ------
    InputError
        Naming what differs.
    """
    schedules = {name: options["rates"] for name, options in sorted(deployment.schedules.items())}
    mine: dict[str, Any] = {
        "network": deployment.network.name,
        "digest": digest(deployment.network),
        "placement": dict(sorted(deployment.placement.items())),
        "keep": {name: share for name, share in sorted(deployment.keep.items()) if share < 1},
        "plan": bool(deployment.live),
        "hop": None if deployment.hop == "directory" else f"{deployment.hop} {deployment.partitions}",
        "rates": _hashed(json.dumps(schedules)) if schedules else None,
    }
    there = claimed(deployment.folder)
    if there is None:
        mine["run"] = secrets.token_hex(4)
        (deployment.place / "run.json").replace(json.dumps(mine, indent=1).encode())
        return str(mine["run"])
    for key, what in CLAIMED:
        if there.get(key) != mine[key]:
            was = f" ({there['network']!r})" if key == "digest" else ""
            raise InputError(
                f"{what}{was} runs in this folder", file=deployment.folder, hint="name another --directory"
            )
    return str(there["run"])


def placement_of(document: Mapping[str, Any]) -> Placement:
    """Return the placement that a folder's run has."""
    return Placement(document["placement"])


def probe(folder: Place, name: str, session: Any) -> None:
    """Refuse a host that does not see the run's folder.

    Raises
    ------
    InputError
        Naming the host and the remedy.
    """
    token = secrets.token_hex(8)
    file = folder / f"probe-{token}.txt"
    file.replace(token.encode())
    try:
        seen = [row[0] for row in session.read.text(file.uri).collect()]
    except Exception as error:
        seen = [type(error).__name__]
    finally:
        file.remove()
    if seen != [token]:
        raise InputError(
            f"does not see the run's folder {folder.uri}",
            at=f"hosts.{name}",
            hint="name a --directory that all hosts and this machine share, such as s3a://… or a network drive",
        )


def _hashed(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
