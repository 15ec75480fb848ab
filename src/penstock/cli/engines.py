"""Engines for ``penstock control``: made from what the command line says, and closed at the end."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from penstock.cli import common
from penstock.errors import InputError
from penstock.home import KEPT, SIMULATED, run_folder

if TYPE_CHECKING:
    from penstock.cluster import Cluster, Placement
    from penstock.control.engine import Engine
    from penstock.control.loop import Control
    from penstock.load import Statistics
    from penstock.load.setting import Setting
    from penstock.network import Network
    from penstock.spark.hosts import Hosts
    from penstock.workload import Rates

Report = Callable[[str, float], None]


@attrs.frozen(eq=False, kw_only=True)
class Wanted:
    """What an engine is made of.

    Attributes
    ----------
    network, statistics, cluster, placement
        What runs and where.
    rates
        Of the sources; Spark needs none.
    seconds
        How long there is input; None: as long as the rates, or the sources, say.
    directory
        The run's folder.
    seed
        Of everything random.
    trigger, overhead, move_time, pace
        Of the simulator; without an overhead that of the statistics counts.
    since
        Virtual time up to which the simulator does again what it had done (s).
    apart
        Operators that are queries of their own on Spark.
    hosts
        Waits until Spark's hosts are there.
    ready
        Waits for what else has to be done before anything runs on Spark.
    """

    network: Network
    statistics: Statistics
    cluster: Cluster
    placement: Placement
    rates: Rates | None
    seconds: float | None
    directory: str
    seed: int = 0
    trigger: float | None = None
    overhead: float | None = None
    move_time: float = 0.5
    pace: float | None = None
    since: float = 0.0
    apart: tuple[str, ...] = ()
    hosts: Callable[[], Hosts] = dict
    ready: Callable[[], object] = lambda: None

    @property
    def setting(self) -> Setting:
        """What is deployed, for those who look on."""
        from penstock.load.setting import Setting

        return Setting(
            network=self.network,
            cluster=self.cluster,
            placement=self.placement,
            statistics=self.statistics,
            rates=self.rates,
        )


@contextmanager
def simulation(wanted: Wanted, tell: Report) -> Iterator[Engine]:
    """Give the simulator, its hosts as fast as statistics say that they are."""
    from penstock.files import write_json
    from penstock.running.as_modelled import in_batches
    from penstock.simulation import MicroBatch, Options, Recording, SimulationEngine, held_back
    from penstock.telemetry.runs import ABOUT

    assert wanted.rates is not None  # noqa: S101 - checked before
    asked = None
    if wanted.trigger is not None:
        asked = MicroBatch(trigger=wanted.trigger, overhead=wanted.overhead)
    else:
        common.note_rows(wanted.cluster)
    batches, cluster = in_batches(asked, wanted.cluster, wanted.placement, wanted.statistics)
    options = Options(duration=wanted.seconds, move_time=wanted.move_time, microbatch=batches, seed=wanted.seed)
    record = Recording(progress=None if wanted.pace is None else held_back(wanted.pace, wanted.since))
    running = SimulationEngine(wanted.network, cluster, wanted.placement, wanted.rates, options, record=record)
    write_json(Path(wanted.directory) / "control" / ABOUT, wanted.setting.document())
    yield running


@contextmanager
def spark(wanted: Wanted, tell: Report) -> Iterator[Engine]:
    """Take the hosts, and give the network on them.

    Where a run goes on that was cut off, its sinks wait: embedded hosts on which nothing of it lies are started after,
    and without one that has gone meanwhile the others go on.
    """
    from penstock.spark.compile import check_network, check_placement
    from penstock.spark.run import Engine, SparkEngine, noted_sessions
    from penstock.spark.run.queues import uncounted

    check_network(wanted.network, wanted.cluster.spark)
    check_placement(wanted.network, wanted.placement, wanted.cluster.spark)
    tell("starting hosts", 0.0)
    cluster, hosts = _crowded(wanted.cluster), wanted.hosts()
    there = {name: host for name, host in hosts.items() if host.alive()}
    engine = Engine(cluster, there, noted_sessions(wanted.directory))
    deployment = engine.prepare(
        wanted.network,
        wanted.placement,
        wanted.directory,
        rates=wanted.rates,
        live=True,
        apart=wanted.apart,
        about=attrs.evolve(wanted.setting, cluster=cluster).document(),
    )
    for text in engine.retrying(deployment):
        common.say(text)
    if unseen := uncounted(wanted.network):
        common.say(f"note: Spark does not tell what waits at {', '.join(unseen)}: no bound on latency holds there")
    wanted.ready()
    running = SparkEngine(engine, deployment, late=[host for name, host in hosts.items() if name not in there])
    try:
        yield running
    finally:
        running.close()


ENGINES: dict[str, Callable[[Wanted, Report], AbstractContextManager[Engine]]] = {
    "simulation": simulation,
    "spark": spark,
}


@attrs.frozen(eq=False)
class Begun:
    """What a run goes on with: a cluster, and where an earlier one has left the operators; None: there was none.

    ``hosts`` waits until those of the cluster are there; the simulator needs none.
    """

    cluster: Cluster
    placement: Placement | None = None
    hosts: Callable[[], Hosts] = dict


@contextmanager
def begun(engine: str, network: Network, cluster: Cluster, spare: int, folder: str) -> Iterator[Begun]:
    """Look what is left in a folder, and give the hosts of a run, which end with the block.

    Those of a run that was cut off start at once, since its network was fit to run; others when they are asked for.

    Raises
    ------
    InputError
        If a run on Spark is at work there, or is of another network, or has left something on hosts that are not in the
        cluster, nor among as many spare ones; or a run on Spark has it, and this one is simulated.
    """
    from penstock.spark.left import has_run

    if engine != "spark":
        if has_run(folder):
            # Who looks on would take its decisions for those of the run.
            hint = f"name another --directory, such as {folder.rstrip('/')}{SIMULATED}"
            raise InputError("a run on Spark has this folder", file=folder, hint=hint)
        yield Begun(cluster)
        return
    from penstock.control.folder import Folder
    from penstock.spark import hosts, left

    # A controller at work is told of by the next one itself.
    controlled = Folder(folder).alive
    there = left.going_on(folder, network, held=controlled)
    lies = None if there is None else left.hosts_of(there)
    whole = _with_spares(cluster, spare, lies or (), folder)
    with ExitStack() as stack:

        def begin() -> Callable[[], Hosts]:
            names = sorted(whole.hosts)
            return stack.enter_context(hosts.begin_hosts(_crowded(whole), names=names, kept=KEPT, going_on=lies))

        early = begin() if lies is not None and not controlled else None
        placement = None if there is None else left.placement_of(there)
        yield Begun(whole, placement, early or (lambda: begin()()))


def folder_for(engine: str, named: str | None, network: str) -> str:
    """Return the folder of a controller: a simulated one has its own beside that of a run, unless one is named.

    Raises
    ------
    InputError
        As `run_folder`.
    """
    from penstock.spark.left import has_run

    folder = run_folder(named, network)
    if engine == "spark" or named is not None or not has_run(folder):
        return folder
    common.note(f"note: a run on Spark has {folder}; this simulated one is in {folder}{SIMULATED}")
    return folder + SIMULATED


def make_room(folder: str) -> None:
    """Move what a simulated controller has left in the folder of a run aside, and say so."""
    from penstock.spark.left import set_aside

    if (aside := set_aside(folder)) is not None:
        common.say(f"note: what a simulated controller has left in {folder} is in {aside} from now on")


def _with_spares(cluster: Cluster, spare: int, used: Collection[str], folder: str) -> Cluster:
    known = {host.name: host for host in cluster.spares(spare)} | dict(cluster.hosts)
    if strange := sorted(set(used) - known.keys()):
        raise InputError(
            f"the run here lies also on {', '.join(strange)}, which the cluster does not have",
            file=folder,
            hint="name as many --spare hosts as before, or another --directory",
        )
    hosts = {name: known[name] for name in sorted({*used, *cluster.hosts})}
    return attrs.evolve(cluster, hosts=hosts)


def _crowded(cluster: Cluster) -> Cluster:
    from penstock.spark.hosts import cores_here

    return cluster.crowded(sorted(cluster.hosts), cores_here())


@contextmanager
def rehearsed(engine: str, wanted: Wanted, control: Control, tell: Report) -> Iterator[Engine]:
    """Give an engine; where time does not wait, its controller rehearses while hosts start, before anything runs.

    The folder says why, if one of them fails.
    """
    from penstock.control.folder import Folder
    from penstock.control.rehearsal import rehearse

    with Folder(wanted.directory).noting_failure(), ThreadPoolExecutor(1) as pool:
        if engine == "spark":
            wanted = attrs.evolve(wanted, ready=pool.submit(rehearse, control).result)
        with ENGINES[engine](wanted, tell) as running:
            yield running
