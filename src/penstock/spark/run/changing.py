"""Changing a system while it runs: what a plan wants is begun, unit by unit, and goes on beside the rest."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

import attrs

from penstock.errors import EngineError, InputError, NotReady
from penstock.spark.compile import Pace, refuse_limit
from penstock.spark.run.attach import Grown, attach, grown
from penstock.spark.run.copies import heir
from penstock.spark.run.engine import Engine
from penstock.spark.run.fuse import fuse, pair
from penstock.spark.run.membership import Membership
from penstock.spark.run.rows import rows_a_file
from penstock.spark.run.split import parts_of, refuse_followed, split
from penstock.spark.run.system import System
from penstock.spark.run.units import Unit, copy_name
from penstock.spark.run.wanted import Wanted
from penstock.spark.shipped.local import tables_of, tables_there
from penstock.spark.shipped.turn import ANNOUNCED, kept_by, limits_of
from penstock.steering import Change
from penstock.steering import plan as kinds

if TYPE_CHECKING:
    from penstock.files import Document

CALM = 10.0
"""Seconds without a change after which units that can go on as one do so."""


class Changes:
    """Begins changes, and knows which are under way.

    Parameters
    ----------
    engine, system
        Hosts, and what runs on them.
    following
        Whether keep fractions follow rates batch by batch.
    first
        The operators with which the run began.

    Attributes
    ----------
    keep, tables
        In force: keep fractions by stream, ids of the tables by which hosts decide alone.
    jobs, targets
        By unit, the change that is under way, and the hosts of its operators after it.
    members
        The hosts, which come and go.
    """

    def __init__(self, engine: Engine, system: System, *, following: bool, first: Collection[str]) -> None:
        self.engine, self.system, self.following, self.first = engine, system, following, first
        self.keep: dict[str, float] = {}
        self.tables = tables_there(system.deployment.place)
        self.jobs: dict[str, Future[None]] = {}
        self.targets: dict[str, Mapping[str, str]] = {}
        self._calm = time.monotonic()
        self._apart: set[frozenset[str]] = set()
        self._due: set[str] = set()
        self.pool = ThreadPoolExecutor(16, thread_name_prefix="penstock-change")
        self.members = Membership(engine, system, self.pool, self._begin_there)

    @property
    def moving(self) -> list[str]:
        """The units that are changed now."""
        # A host that is there again begins its units beside this thread.
        return [name for name, job in [*self.jobs.items()] if not job.done()]

    @property
    def pace(self) -> Pace:
        """How often hosts begin a batch, and how much of a source one may read."""
        return self.system.deployment.pace

    def begin(self, change: Change, wanted: Wanted) -> None:
        """Begin one change of a plan.

        Raises
        ------
        InputError
            If it cannot be made; nothing of it was then.
        NotReady
            If it can soon: what is under way has to end first.
        """
        match change.kind:
            case kinds.ADD:
                self.members.add(change.to)
            case kinds.ATTACH:
                self._attach(change, wanted)
            case kinds.KEEP:
                self._keep(change.to)
            case kinds.TABLES:
                self._tables(change.to)
            case kinds.TRIGGER:
                self._trigger(change.name, change.to, wanted)
            case kinds.MOVE:
                self._move(change.name, wanted)
            case kinds.RETIRE:
                self.members.retire(change.name, self._coming(change.name, wanted))
            case kinds.LIMIT:
                self._limit(change.name, change.to, wanted)
            case _:
                raise InputError(f"{change.kind!r} cannot be done on Spark", at=change.name)

    def _keep(self, keep: Mapping[str, float]) -> None:
        live, streams = self.system.deployment.live, {stream.name for stream in self.system.deployment.network.streams}
        placed = self.system.deployment.placement
        for name, share in keep.items():
            stream, copy, _ = name.partition("#")
            if stream not in streams or (copy and name.partition("->")[2] not in placed):
                raise InputError(f"no stream {name!r}", at="keep")
            if stream not in live and share < 1:
                raise InputError("nothing can be dropped here while it runs", at=f"keep.{name}")
            if not 0 <= share <= 1:
                raise InputError(f"expected a share of 0 to 1, got {share}", at=f"keep.{name}")
        if self.following:
            raise InputError("keep fractions follow a plan table already", at="keep")
        self.keep = {
            name: share for name, share in keep.items() if share < 1 or keep.get(name.partition("#")[0], 1) < 1
        }
        self.tell_copies()
        content = {"keep": self.keep, "looked": {}}
        (self.system.deployment.place / ANNOUNCED).replace(json.dumps(content).encode())
        self.system.moments.keep(self.keep)
        self._tables({})

    def tell_copies(self) -> None:
        """Note which copies are to drop more than the one that leads, and begin those anew that are no longer.

        If the one that leads is to drop and another copy is not, the other one leads.
        """
        inputs, system = self.system.deployment.network.inputs, self.system
        for unit in [unit for unit in [*system.units.values()] if unit.copies]:
            streams = [stream.name for name in unit.fragment.operators for stream in inputs(name)]
            dropping = {copy for copy in unit.copies if _drops_more(self.keep, streams, copy)}
            system.copies.dropping = (system.copies.dropping - {*unit.copies}) | dropping
            system.copies.thin |= dropping & {*unit.others}
            if unit.names.intersection(self.moving):
                continue
            able = {copy for copy in unit.others if copy in system.copies.runners} - system.copies.thin
            again = (
                {unit.saved} if unit.saved in dropping and able else ({*unit.others} & system.copies.thin) - dropping
            )
            for copy in again:
                self.start_copy(unit, copy, unit.copies[copy])

    def revive(self) -> None:
        """Begin to start units with copies of which nothing runs, where the host of one is there, and copies due.

        What is changed waits until it is not.
        """
        system = self.system
        with system.lock:  # another thread may be about to let copies lead
            units = [unit for unit in system.units.values() if unit.copies and not unit.names & self.jobs.keys()]
            stopped = [unit for unit in units if unit.name not in system.runners]
        for unit in stopped:
            there = system.sessions.keys() - self.members.down
            if able := [copy for copy, host in unit.copies.items() if host in there]:
                name, copy = unit.name, heir(system.deployment.place, unit, able)
                revived = partial(system.copies.revive, name, copy, self.pace.on(unit.copies[copy]))
                self._do(name, dict.fromkeys(unit.operators(copy), unit.copies[copy]), revived)
        for unit in units:
            # Those of a unit that is started are started with it.
            due = self._due.intersection(unit.copies)
            self._due.difference_update(due)
            for copy in sorted(due.intersection(unit.others)) if unit not in stopped else ():
                self.start_copy(unit, copy, unit.copies[copy])

    def _tables(self, documents: Mapping[str, Document]) -> None:
        """Let hosts decide by tables of their own; those that are not named by what is announced."""
        for host in documents:
            self.members.known(host)
        if documents and self.following:
            raise InputError("keep fractions follow a plan table already", at="tables")
        if documents and not self.system.deployment.live:
            raise InputError("nothing can be dropped here while it runs", at="tables")
        if documents and any(unit.copies for unit in self.system.units.values()):
            raise InputError("hosts with copies of operators do not decide alone", at="tables")
        if documents and self.system.deployment.real_time:
            raise InputError("hosts decide by themselves batch by batch, and none in real-time mode", at="tables")
        gone = {host: None for host in self.tables if host not in documents}
        fresh = {host: table for host, table in documents.items() if self.tables.get(host) != table["id"]}
        tables_of(self.system.deployment.place, {**gone, **fresh})
        self.tables = {host: str(table["id"]) for host, table in documents.items()}

    def decided(self) -> dict[str, float]:
        """Return the keep fractions in force; where hosts decide alone, those of their last batches."""
        streams = {stream.name for stream in self.system.deployment.network.streams}
        if not self.tables:
            # Some may be those of a query that was given up.
            return {name: share for name, share in self.keep.items() if name.partition("#")[0] in streams}
        found: dict[str, float] = {}
        for name, unit in self.system.units.items():
            if unit.host in self.tables:
                found |= limits_of(self.system.deployment.place, name)
        return {stream: share for stream, share in found.items() if share < 1 and stream in streams}

    def _trigger(self, host: str, interval: float, wanted: Wanted) -> None:
        self.members.known(host)
        if not interval >= 0:
            raise InputError(f"expected an interval >= 0 s, got {interval}", at=f"triggers.{host}")
        if self.pace.on(host) == interval:
            return
        prompt, pace = self.system.deployment.prompt, self.pace.paced(host, interval)
        self._paced(wanted, pace, lambda unit: unit.host == host and not prompt(unit.fragment))

    def _limit(self, source: str, limit: float | None, wanted: Wanted) -> None:
        """Bound what is read of a source: Spark's readers learn of it when they are started, so they start again."""
        network = self.system.deployment.network
        if source not in network.sources:
            raise InputError(f"no source {source!r}", at="limits")
        refuse_limit(network.sources[source])
        if limit is not None and not limit > 0:
            raise InputError(f"expected tuples/s > 0, got {limit}", at=f"limits.{source}")
        if self.pace.limits.get(source) == limit:
            return
        if any(s.reader in self.system.deployment.real_time for s in network.outputs(source)):
            raise InputError("it is read in real-time mode, row by row", at=f"limits.{source}")
        compiled, reading = dict(self.system.compiled), {stream.reader for stream in network.outputs(source)}
        readers = {name: query for name, query in compiled.items() if source in query.inputs}
        mine = [unit.name for unit in [*self.system.units.values()] if reading.intersection(unit.fragment.operators)]
        # A query that was attached a moment ago may be compiled without the limit.
        if not readers or not compiled.keys() >= {*mine}:
            raise InputError(
                "a query that reads it is about to start", at=f"limits.{source}", hint="wait until it runs"
            )
        rows = 1.0 if limit is None else max(rows_a_file(query, source, network) for query in readers.values())
        self._paced(wanted, self.pace.limited(source, limit, rows), lambda unit: unit.name in readers)

    def _paced(self, wanted: Wanted, pace: Pace, changed: Callable[[Unit], bool]) -> None:
        """Note units that are to go on at another pace, whoever starts them."""
        mine = [unit for unit in [*self.system.units.values()] if changed(unit)]
        self._free([name for unit in mine for name in sorted(unit.names)])
        self.system.go_at(pace)
        wanted.paced |= {unit.name for unit in mine}

    def _move(self, operator: str, wanted: Wanted) -> None:
        """Begin to move the unit of an operator, or a part of it; of several of its operators the first one does."""
        name, hosts = wanted.unit_of(operator)
        unit, host = self.system.units[name], hosts[operator]
        pin = self.system.deployment.network.pins.get(operator)
        self.members.usable(host, operator)
        if pin is not None and pin != host:
            raise InputError(f"it is pinned to {pin!r}", at=f"operators.{operator}")
        if unit.copies:
            self._move_copy(unit, operator, hosts, wanted)
            return
        if name in wanted.begun:
            return
        if wanted.grown is not None and name in {each.name for each in wanted.grown.again}:
            raise InputError("it is about to write for the query that is attached", at=f"placement.{operator}")
        busy = name in self.jobs and not self.jobs[name].done()
        there = self.targets.get(name, {}) if busy else dict.fromkeys(unit.fragment.operators, unit.host)
        if there == hosts and (busy or name in self.system.runners):
            return
        self._free([name])
        whole = len({*hosts.values()}) == 1
        if whole:
            self._check_room(unit.on(host))
        parts = () if whole else self._parts(unit, hosts)
        wanted.begun.add(name)
        if whole:
            self.start(unit, host)
        else:
            self._do(name, hosts, lambda: split(self.system, unit, parts, self.intervals()))

    def _move_copy(self, unit: Unit, operator: str, hosts: Mapping[str, str], wanted: Wanted) -> None:
        """Begin to move a copy of a unit; of several of its operators the first one does."""
        copy, host = next(name for name in unit.copies if operator in unit.operators(name)), hosts[operator]
        if copy_name(copy) in wanted.begun:
            return
        if len({*hosts.values()}) > 1:
            raise InputError(f"the copies of {', '.join(hosts)} move together", at=f"placement.{operator}")
        if any(there == host for other, there in unit.copies.items() if other != copy):
            raise InputError(f"another copy is on {host!r}", at=f"placement.{operator}")
        if unit.name in wanted.paced:
            raise InputError(f"{unit.name!r} starts again at another pace", at=f"placement.{operator}")
        runs = copy in self.system.copies.runners or (unit.saved == copy and unit.name in self.system.runners)
        if unit.copies[copy] == host and runs:
            return
        self._free(sorted(unit.names))
        wanted.begun.add(copy_name(copy))
        self.start_copy(unit, copy, host)

    def start_copy(self, unit: Unit, copy: str, host: str) -> None:
        """Begin to start a copy of a unit on a host, another one or again on its own; another one leads meanwhile."""

        def start() -> None:
            self.members.wait(host)
            self.system.copies.carry(unit.name, copy, host, self.pace.on(host))

        self._do(copy_name(copy), dict.fromkeys(unit.operators(copy), host), start)

    def _check_room(self, moved: Unit) -> None:
        """Refuse a host that has no room for a unit in real-time mode."""
        deployment = self.system.deployment
        if deployment.prompt(moved.fragment):
            others = [unit.fragment for unit in [*self.system.units.values()] if unit.name != moved.name]
            self.engine.check_room(attrs.evolve(deployment, units=(*others, moved.fragment)), [moved.host])

    def _parts(self, unit: Unit, hosts: Mapping[str, str]) -> tuple[Unit, ...]:
        """Return the parts of a unit that runs."""
        if unit.name not in self.system.runners:
            raise InputError(f"{unit.name!r} does not run, and only one that runs is split", at="placement")
        if self.system.deployment.prompt(unit.fragment):
            raise InputError(f"{unit.name!r} runs in real-time mode, and moves as a whole", at="placement")
        if self.system.growing:
            raise InputError("another unit changes its shape", at="placement", hint="wait until it runs")
        for name, host in sorted(hosts.items()):
            self.members.usable(host, name)
        parts = parts_of(self.system.deployment.network, unit, hosts)
        refuse_followed(self.system, unit, parts)
        return parts

    def move_now(self, unit: Unit, host: str) -> None:
        """Move a unit to a host, which may still be starting.

        Raises
        ------
        EngineError
            If another copy has come to lead meanwhile: that one goes on where it is.
        """
        self.members.wait(host)
        if self.system.units[unit.name].saved != unit.saved:
            raise EngineError(f"{unit.name!r} was not started on {host!r}: another copy leads")
        self.system.move(unit.name, host, self.pace.on(host))

    def _attach(self, change: Change, wanted: Wanted) -> None:
        """Attach a query: its operators, and their new sources and sinks."""
        network, placement = wanted.plan.network, dict(change.to)
        assert network is not None  # noqa: S101 - no attachment without
        for name, host in placement.items():
            if host is None:
                raise InputError("a query that is attached needs a host for each operator", at=f"placement.{name}")
            self.members.usable(host, name)
            pin = network.operators[name].pin
            if pin is not None and pin != host:
                raise InputError(f"it is pinned to {pin!r}", at=f"operators.{name}")
        # What was attached since the plan was made is not in it.
        unseen = self.system.deployment.network.operators.keys() - network.operators.keys()
        if self.system.growing or unseen:
            raise NotReady("another query is being attached: wait until it runs")
        for host in placement.values():
            self.members.wait(host)
        found = grown(self.engine, self.system, network, placement, wanted.grown)
        self._free([unit.name for unit in found.again])
        wanted.grown = found

    def together(self, wanted: Wanted) -> None:
        """Begin what several changes of a plan ask of the same units: to attach queries, and to go on at another pace.

        Units that start again for another reason do so at the new pace; those of dead hosts when these are back, or
        elsewhere.
        """
        again: tuple[Unit, ...] = ()
        if wanted.grown is not None:
            again = wanted.grown.again
            self._grow(wanted.grown)
        for name in sorted(wanted.paced - wanted.begun - {unit.name for unit in again}):
            unit = self.system.units[name]
            if unit.host not in self.members.down:
                self.start(unit, unit.host)

    def _grow(self, found: Grown) -> None:
        """Begin to attach queries, or to give one up."""
        self.system.growing = True
        job = self.pool.submit(lambda: attach(self.system, found, self.intervals()))
        self._begun((*found.again, *found.fresh, *found.gone), job)

    def give_up(self, found: Grown) -> None:
        """Begin to end a query that was attached.

        Raises
        ------
        InputError
            If what it hangs together with changes now.
        """
        if self.system.growing:
            raise InputError("another unit changes its shape", at="network", hint="wait until it runs")
        self._free([unit.name for unit in (*found.again, *found.gone)])
        self._grow(found)

    def intervals(self) -> dict[str, float]:
        """Return the interval of the micro-batches of each host."""
        return {name: self.pace.on(name) for name in self.engine.cluster.hosts}

    def triggers(self) -> dict[str, float]:
        """Return the interval of the micro-batches of each host that has any, or may have."""
        units = [*self.system.units.values()]
        batched = {unit.host for unit in units if not self.system.deployment.prompt(unit.fragment)}
        others = {unit.host for unit in units} - batched
        return {name: step for name, step in self.intervals().items() if name not in others}

    def fuse(self) -> None:
        """Let two units go on as one where moves have brought them together, once nothing has changed for a while."""
        busy = self.jobs or self.system.growing or not self.members.calm
        if busy or time.monotonic() - self._calm < CALM:
            self._calm = time.monotonic() if busy else self._calm
            return
        self._calm = time.monotonic()
        found = pair(self.system, self.first, self._apart)
        if found is not None and found[0].host not in self.members.down:
            job = self.pool.submit(fuse, self.system, *found, self.pace.on(found[0].host))
            names = frozenset(unit.name for unit in found)
            self._begun(found, job)
            job.add_done_callback(lambda done: self._apart.add(names) if done.exception() else None)

    def _free(self, units: Iterable[str]) -> None:
        """Refuse to touch units that move already."""
        for name in units:
            if name in self.jobs and not self.jobs[name].done():
                raise InputError(f"{name!r} moves already", at=f"placement.{name}")

    def _coming(self, host: str, wanted: Wanted) -> list[str]:
        """Return the units that are on their way to a host, by this plan or an earlier one."""
        fresh = () if wanted.grown is None else wanted.grown.fresh
        moving = {name for name in self.moving if host in self.targets[name].values()}
        return sorted(moving | {unit.name for unit in fresh if unit.host == host})

    def start_prepared(self, unit: Unit) -> None:
        """Begin to start a unit that is compiled and may deliver."""
        hosts = dict.fromkeys(unit.fragment.operators, unit.host)
        self._do(unit.name, hosts, lambda: self.system.begin(unit.name, self.pace.on(unit.host)))

    def start(self, unit: Unit, host: str) -> None:
        """Begin to start a unit on a host, another one or again on its own."""
        hosts = dict.fromkeys(unit.fragment.operators, host)
        self._do(unit.name, hosts, lambda: self.move_now(unit, host))

    def _do(self, name: str, hosts: Mapping[str, str], job: Callable[[], None]) -> None:
        """Begin to change a unit, whose operators are on certain hosts then."""
        self.targets[name] = hosts
        self.jobs[name] = self.pool.submit(job)

    def _begun(self, units: Iterable[Unit], job: Future[None]) -> None:
        """Note a job that changes several units."""
        for unit in units:
            self.targets[unit.name] = dict.fromkeys(unit.fragment.operators, unit.host)
            self.jobs[unit.name] = job

    def _begin_there(self, host: str) -> None:
        """Begin to start what lies on a host that is there again, unless it changes already; copies a moment later."""
        for unit in [*self.system.units.values()]:
            if not unit.copies and unit.host == host and unit.name not in self.jobs:
                self.start(unit, host)
            self._due.update(copy for copy, there in unit.copies.items() if there == host)


def _drops_more(keep: Mapping[str, float], streams: Iterable[str], copy: str) -> bool:
    """Whether a copy is to drop more of some streams than another one."""
    number = copy.partition("#")[2] or "1"
    return any(kept_by(keep, stream, number) < kept_by(keep, stream, "") for stream in streams)
