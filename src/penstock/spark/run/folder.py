"""A run's folder: what is where, who uses it, and what it was begun with.

Everything that a run leaves is in its folder, written so that a killed run finds it again:

    run.json            what runs here: network, units and their hosts, keep fractions, and the run's identity
    about.json          network, hosts and costs for those who look on, without passwords and addresses
    owners/UNIT         which generation of a unit delivers
    fences/UNIT         held while one commits or takes over
    sessions.json       the hosts' sessions, in which queries may run on without penstock
    epoch               when scheduled sources begin (µs since 1970)
    begun.json          when each run here began (s since 1970)
    ended.json          when those ended that were not killed
    checkpoints/UNIT    Spark's offsets, commits and state; of its second copy those in UNIT#2
    recalled/UNIT       what queries knew of event time when they were stopped
    logs/OPERATOR       rows between queries, a file per batch (or task of it), until all readers have passed
    sinks/SINK          rows of sinks without a format
    aside/UNIT          rows for sinks that tasks have written and no batch has shown yet
    intents/UNIT        which files a batch is showing
    latency/SINK        when rows became visible, and the stimulus time of each
    meters/SINK.json    in real-time mode, how far a sink's topic has been looked at
    batches/UNIT        a manifest per batch: event time, rows of logs, counts
    progress/UNIT       Spark's report per batch: duration, and the counts of streams inside its plan
    history.json        what older manifests, reports and latencies add up to
    errors/UNIT         what a query's writer failed with
    keep.json           keep fractions that are wanted now
    pace.json           intervals of the micro-batches, and most tuples/s to read of sources
    knobs/UNIT          those that the last batches had
    moments.json        in real-time mode, when each of them began to hold
    limits/UNIT         those of the next batch, where executors read them
    tables/HOST         the table from which a host decides alone, instead
    rates/UNIT.json     what it announces to others: the rates of what it reads
"""

from __future__ import annotations

import contextlib
import json
import math
import secrets
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import attrs

from penstock.errors import EngineError, InputError
from penstock.files import compact
from penstock.network import Network, meaning, network_document, read_network_document
from penstock.own import unlinked
from penstock.spark.compile import Deployment
from penstock.spark.hosts.sessions import id_of
from penstock.spark.left import FORM, claimed, damaged, digest, lock, refuse_others, said, set_aside
from penstock.spark.paths import paths_of
from penstock.spark.run.asking import asked
from penstock.spark.run.units import Unit
from penstock.spark.shipped import told
from penstock.spark.shipped.gate import owner_file
from penstock.spark.shipped.place import Place, RemotePlace, place_of
from penstock.telemetry.runs import ABOUT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.files import Document


@attrs.frozen
class Claim:
    """What a run's folder says of it: its identity, its units, and the network if queries were attached to it.

    ``given_up``: operators and sinks of queries that were attached, failed, and run no longer.
    """

    run: str
    units: tuple[Unit, ...]
    since: Mapping[str, int]
    grown: Network | None = None
    given_up: frozenset[str] = frozenset()


@contextlib.contextmanager
def owned(folder: Place) -> Iterator[None]:
    """Hold a run's folder: one penstock at a time."""
    try:
        folder.make()
        if isinstance(folder, RemotePlace):
            yield
            return
        file = open((folder / "lock").path, "a", opener=unlinked)  # noqa: SIM115
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", file=folder.path) from None
    with file:
        lock(file, folder.path)
        yield


PATIENCE = 6.0
"""Seconds at most that scheduled sources wait until a trigger and a window begin together."""


def epoch_of(folder: Place) -> float:
    """Return when scheduled sources of a run begin (s since 1970); 0 if it has not begun."""
    try:
        return int((folder / "epoch").read()) / 1e6
    except FileNotFoundError:
        return 0.0
    except ValueError:
        raise damaged(folder / "epoch") from None


def open_schedules(deployment: Deployment, trigger: float, since: float) -> None:
    """Let scheduled sources begin, at a multiple of the trigger, as the micro-batch model has it.

    Also at the beginning of a window, as in its prediction, where the two meet every `PATIENCE` seconds or more often.
    ``since`` is when queries began to start (s since 1970): if a run goes on, they have batches before they all are.
    """
    step = max(1, round(trigger * 1e6))
    if deployment.schedules:
        steps = [round(operator.step * 1e6) for operator in deployment.network.operators.values() if operator.step]
        both = math.lcm(step, *steps)
        step = both if both <= PATIENCE * 1e6 else step
    begin = (time.time_ns() // 1000 // step + 1) * step
    place = deployment.place
    (place / "epoch").publish(str(begin).encode())
    (place / "begun.json").replace(json.dumps([*begun(place), max(since, epoch_of(place))]).encode())


def note_end(folder: Place, since: float) -> None:
    """Write down that a run ends now, if one has begun since a moment (s since 1970): a start that fails is none.

    Batches at work still come to their end. Where nothing can be written a run ends, too.
    """
    if max(begun(folder), default=0.0) >= since:
        with contextlib.suppress(OSError):
            (folder / "ended.json").replace(json.dumps([*ended(folder), time.time()]).encode())


def begun(folder: Place) -> tuple[float, ...]:
    """Return when each run of a folder began (s since 1970); none where there was none."""
    return _times(folder / "begun.json")


def begins_of(folder: Place) -> list[float]:
    """Return when each run of a folder began (s since 1970), the first one as its scheduled sources did."""
    return [epoch_of(folder), *begun(folder)[1:]]


def ended(folder: Place) -> tuple[float, ...]:
    """Return when the runs of a folder ended that were not killed (s since 1970)."""
    return _times(folder / "ended.json")


def _times(file: Place) -> tuple[float, ...]:
    try:
        return tuple(json.loads(file.read()))
    except (FileNotFoundError, ValueError):
        return ()


def note_sessions(folder: Place, sessions: Mapping[str, SparkSession]) -> None:
    """Write down the sessions by host, for a penstock that finds their queries running."""
    found = {name: id_of(session) for name, session in sorted(sessions.items())}
    (folder / "sessions.json").replace(json.dumps(found).encode())


def noted_sessions(folder: str) -> dict[str, str]:
    """Return the sessions that an earlier penstock had, by host."""
    try:
        return told.said(place_of(folder) / "sessions.json")
    except (FileNotFoundError, told.Damaged):
        return {}


def claim(deployment: Deployment) -> Claim:
    """Note what runs in the folder, or refuse if it is something else.

    What may change from one run to the next: the trigger, how long it runs, the hosts' addresses and cores, the
    statistics, and which plan table it follows.

    Raises
    ------
    InputError
        Naming what differs.
    """
    mine = _described(deployment)
    there = claimed(deployment.folder)
    if there is None:
        set_aside(deployment.folder)
        units = tuple(Unit.placed(part, deployment.placement) for part in deployment.fragments)
        found = Claim(secrets.token_hex(4), units, {})
        note(deployment, found)
        return found
    refuse_others(there, mine, deployment.folder)
    for key, path in mine["paths"].items():
        # Folders that versions before this one have left do not tell.
        if there.get("paths", {}).get(key, path) != path:
            raise InputError(
                f"the run in {deployment.folder} was begun with {there['paths'][key]}, got {path}",
                file=deployment.network.file,
                at=key,
                hint="start penstock in the folder in which the run was begun, or name another --directory",
            )
    _tell(deployment)
    grown = None if there["grown"] is None else _as_told(there["grown"], deployment.network)
    for unit in there["units"]:
        with contextlib.suppress(FileNotFoundError):
            said(owner_file(deployment.place, unit["name"]))
    units, given_up = tuple(map(Unit.of, there["units"])), frozenset(there.get("given_up", ()))
    return Claim(str(there["run"]), units, there["since"], grown, given_up)


def _as_told(grown: Document, network: Network) -> Network:
    """Return a network that has grown, of which what was there at the beginning is as it says now."""
    found = read_network_document(grown, network.file)
    sources = [network.sources.get(source.name, source) for source in found.sources.values()]
    operators = [network.operators.get(operator.name, operator) for operator in found.operators.values()]
    sinks = [network.sinks.get(sink.name, sink) for sink in found.sinks.values()]
    return Network.of(found.name, sources, operators, sinks, found.file)


def note(deployment: Deployment, claim: Claim) -> None:
    """Write down what runs in a folder from now on, all at once; it is still claimed as what it was begun with."""
    begun = claimed(deployment.folder) or {"made": time.time(), **_described(deployment)}
    document = {
        **begun,
        "placement": {name: deployment.placement[name] for name in begun["placement"]},
        "grown": None if claim.grown is None else network_document(claim.grown),
        "run": claim.run,
        "units": [unit.document() for unit in claim.units],
        "since": dict(claim.since),
        "given_up": sorted(claim.given_up),
    }
    _tell(deployment)
    # Options of queries that were attached may hold passwords; without any, who looks on may be somebody else.
    mode = 0o666 if claim.grown is None else 0o600
    (deployment.place / "run.json").replace(json.dumps(document, indent=1).encode(), mode, lasting=True)


def _described(deployment: Deployment) -> Document:
    schedules = {name: options["rates"] for name, options in sorted(deployment.schedules.items())}
    return {
        "form": FORM,
        "network": deployment.network.name,
        "digest": digest(meaning(deployment.network)),
        "paths": paths_of(deployment.network),
        "placement": dict(sorted(deployment.placement.items())),
        "apart": sorted(deployment.apart),
        "keep": {name: share for name, share in sorted(deployment.keep.items()) if share < 1},
        "hop": None if deployment.hop == "directory" else f"{deployment.hop} {deployment.partitions}",
        "mode": sorted(deployment.real_time) or None,
        "plan": bool(deployment.live),
        "rates": digest(json.dumps(schedules)) if schedules else None,
    }


def _tell(deployment: Deployment) -> None:
    if deployment.about is not None:
        (deployment.place / ABOUT).replace(compact(deployment.about).encode())


def probe(folder: Place, name: str, session: SparkSession) -> None:
    """Refuse a host that does not see the run's folder.

    Raises
    ------
    InputError
        Naming the host and the remedy.
    EngineError
        If its executors die of every question.
    """
    token = secrets.token_hex(8)
    file = folder / f"probe-{token}.txt"
    file.replace(token.encode())
    try:
        seen = [row[0] for row in asked(session.read.text(file.pattern).collect)]
    except EngineError:
        raise
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
