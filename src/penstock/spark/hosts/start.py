"""All hosts of a cluster, started or reached at once."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait

import attrs

from penstock.cluster import Cluster, Host
from penstock.cluster.spark_conf import check_conf
from penstock.errors import InputError, locating
from penstock.spark.hosts import java as java_runtime
from penstock.spark.hosts.base import SparkHost
from penstock.spark.hosts.cores import available_cpus, share_cpus
from penstock.spark.hosts.embedded import EmbeddedHost, Launch
from penstock.spark.hosts.kept import Kept
from penstock.spark.hosts.kept_file import changing, read_kept
from penstock.spark.hosts.kept_host import KeptHost
from penstock.spark.hosts.remote import RemoteHost
from penstock.spark.hosts.sessions import import_client
from penstock.spark.hosts.settings import with_lists

SLOTS = 32
"""Tasks at a time of an embedded host in real-time mode, whatever its cores: a task there waits for rows."""


Hosts = dict[str, SparkHost]
"""By name."""


@contextlib.contextmanager
def start_hosts(
    cluster: Cluster,
    launch: Launch | None = None,
    *,
    names: Sequence[str] | None = None,
    pin: bool | Mapping[str, Sequence[int]] = True,
    kept: str | os.PathLike[str] | None = None,
) -> Iterator[Hosts]:
    """Start or reach the hosts of a cluster, all at once, and let them go at the end.

    Parameters
    ----------
    cluster, launch, names, pin, kept
        See `begin_hosts`.

    Yields
    ------
    dict
        The hosts by name, ready.

    Raises
    ------
    HostError
        If one cannot be started or reached; the others are stopped.
    """
    with begin_hosts(cluster, launch, names=names, pin=pin, kept=kept) as ready:
        yield ready()


@contextlib.contextmanager
def begin_hosts(
    cluster: Cluster,
    launch: Launch | None = None,
    *,
    names: Sequence[str] | None = None,
    pin: bool | Mapping[str, Sequence[int]] = True,
    kept: str | os.PathLike[str] | None = None,
    going_on: Collection[str] | None = None,
) -> Iterator[Callable[[], Hosts]]:
    """Begin to start or reach the hosts of a cluster, all at once, and let them go at the end.

    Parameters
    ----------
    cluster
        The hosts; one without an endpoint is embedded.
    launch
        How embedded hosts are started.
    names
        The hosts wanted (default: all).
    pin
        Give each embedded host CPUs of its own, if there are enough; or the CPUs by host.
    kept
        A file of hosts that run already (`penstock.spark.hosts.kept`): those are taken, and run on afterwards.
    going_on
        Where a run goes on, the hosts on which it lies. Embedded hosts without a part in it are handed out unstarted,
        and so is one that was there before penstock and has gone: whoever asks for them starts them.

    Yields
    ------
    callable
        Waits until they are ready but for those, and returns them by name. It raises a HostError if one cannot be
        started or reached, or none is left of those of a run that goes on.
    """
    # Where the cluster says an address, a host of that name which runs here is another one.
    embedded = {name for name, host in cluster.hosts.items() if host.spark is None}
    there = {} if kept is None else {name: each for name, each in read_kept(kept).items() if name in embedded}
    if going_on is None:
        # One that has gone, with nothing that lies on it, is started anew.
        there = {name: each for name, each in there.items() if each.jvm is not None}
    hosts, mine = _made(cluster, launch or Launch(), names, pin, there)
    first = [host for name, host in hosts.items() if going_on is None or name in going_on or name not in mine]
    forgiven = () if going_on is None else hosts.keys() - mine
    with ThreadPoolExecutor(max(1, len(hosts))) as pool:
        elsewhere = [host for host in first if isinstance(host, RemoteHost)]
        started = {host.name: pool.submit(host.start) for host in first if host not in elsewhere}

        def ready() -> Hosts:
            # The client takes a second or two to import, while hosts start.
            import_client()
            _await(started, forgiven)
            return hosts

        try:
            if elsewhere:
                # These connect as soon as they start, so the client must be whole by then.
                import_client()
                started |= {host.name: pool.submit(host.start) for host in elsewhere}
            yield ready
        finally:
            _stop_all([*hosts.values()], [*started.values()])


def _made(
    cluster: Cluster,
    launch: Launch,
    names: Sequence[str] | None,
    pin: bool | Mapping[str, Sequence[int]],
    there: Mapping[str, Kept],
) -> tuple[Hosts, set[str]]:
    """Return the hosts wanted, none of them started or reached, and which of them penstock is to start."""
    wanted = [cluster.hosts[name] for name in sorted(names)] if names is not None else [*cluster.hosts.values()]
    mine = [host for host in wanted if host.spark is None and host.name not in there]
    if mine and launch.java is None:
        launch = attrs.evolve(launch, java=java_runtime.find())
    taken = {cpu for host in wanted if host.name in there for cpu in there[host.name].cpus}
    cpus = pin if isinstance(pin, Mapping) else _cpus(mine, taken) if pin else {}
    hosts: Hosts = {
        host.name: KeptHost(there[host.name])
        if host.name in there
        else make_host(host, cluster, launch, cpus.get(host.name))
        for host in wanted
    }
    return hosts, {host.name for host in mine}


def leave_hosts(cluster: Cluster, file: str | os.PathLike[str]) -> dict[str, Kept]:
    """Start the embedded hosts of a cluster, and leave them running; a file says how they are found again.

    Raises
    ------
    InputError
        If the cluster has none, or one runs already.
    HostError
        If one cannot be started; none is left then.
    """
    wanted = [host for host in cluster.hosts.values() if host.spark is None]
    if not wanted:
        raise InputError("expected a host without an address, for penstock to start", at="hosts", hint="--hosts 2")
    with changing(file) as known:
        there = [host.name for host in wanted if host.name in known and known[host.name].jvm is not None]
        if there:
            raise InputError(f"{', '.join(there)} run already", file=str(file), hint="penstock hosts list shows them")
        cpus = _cpus(wanted)
        made = [make_host(host, cluster, Launch(outlive=True), cpus.get(host.name)) for host in wanted]
        with ThreadPoolExecutor(len(made)) as pool:
            try:
                _await({host.name: pool.submit(host.start) for host in made})
            except BaseException:
                _stop_all(made)
                raise
        left = [host for host in made if isinstance(host, EmbeddedHost)]
        found = {host.name: host.let_go() for host in left}
        known |= found
    # Only now: a host that no file names could not be found to end it.
    for host in left:
        host.outlive()
    return found


def _cpus(hosts: Sequence[Host], taken: Collection[int] = ()) -> dict[str, list[int]]:
    """Return CPUs of its own for each host, of those that are not taken, or nothing if there are too few."""
    free = [cpu for cpu in available_cpus() if cpu not in taken]
    shares = share_cpus([host.cores for host in hosts], free) or ()
    return {host.name: share for host, share in zip(hosts, shares, strict=False)}


def _await(started: Mapping[str, Future[SparkHost]], forgiven: Collection[str] = ()) -> None:
    """Wait for hosts, of which those that are ``forgiven`` may fail as long as another one is there."""
    # For all before the first error, so that none is still starting when they are stopped.
    errors = {name: error for name, future in started.items() if (error := future.exception()) is not None}
    fatal = [error for name, error in errors.items() if name not in forgiven or len(errors) == len(started)]
    if fatal:
        raise fatal[0]


def _stop_all(hosts: Sequence[SparkHost], starting: Collection[Future[SparkHost]] = ()) -> None:
    with ThreadPoolExecutor(max(1, len(hosts))) as pool:
        # One that starts is told to stop; if it has only just begun, it has not heard it.
        while wait(starting, timeout=0.05).not_done:
            list(pool.map(lambda host: host.stop(), hosts))
        list(pool.map(lambda host: host.stop(), hosts))


def make_host(
    host: Host, cluster: Cluster, launch: Launch | None = None, cpus: Sequence[int] | None = None
) -> SparkHost:
    """Return a host of a cluster, not started or reached yet; an embedded one gets no secrets of the cluster's."""
    if host.spark is not None:
        return RemoteHost(host.name, host.spark, token_env=host.token_env)
    spark = cluster.spark
    # Also those of hosts that are not wanted now.
    tokens = (other.token_env for other in cluster.hosts.values() if other.token_env)
    accounts = (name for key, name in spark.kafka.items() if key in ("username_env", "password_env"))
    with locating(spark.file):
        conf = with_lists(spark.conf, spark.jars, spark.packages)
        check_conf(conf)
    return EmbeddedHost(
        host.name,
        cores=host.cores,
        slots=SLOTS if spark.mode == "real-time" else None,
        cpus=cpus,
        conf=conf,
        launch=attrs.evolve(launch or Launch(), secrets=frozenset([*tokens, *accounts])),
    )
