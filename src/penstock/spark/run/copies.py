"""Copies of units: those that follow are started, stopped, and come to lead when the one before is gone."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from penstock.spark.run.looking import Looking
from penstock.spark.run.runner import Runner
from penstock.spark.run.units import Unit, copy_name, stamped
from penstock.spark.shipped.checkpoint import begun_and_ended, branch
from penstock.spark.shipped.gate import follow, lead, leave, owner_of, take_over
from penstock.spark.shipped.lockstep import PATIENCE
from penstock.spark.shipped.place import Place
from penstock.spark.shipped.told import report_of
from penstock.spark.silent import Silent

if TYPE_CHECKING:
    from penstock.spark.compile import Query
    from penstock.spark.hosts.base import SparkHost
    from penstock.spark.run.system import System

NOTICED = 0.1
"""Seconds between two looks at the hosts of copies."""


class CopyRunner(Runner):
    """A copy of a unit that follows.

    Its query waits for the one that leads wherever that is behind, so that it ends when it is told to, at any time.
    """

    @property
    def copy(self) -> str:
        """The name of its checkpoint."""
        return self.unit.saved

    def goes_on(self) -> bool:
        """Whether the query runs and may follow."""
        owner = owner_of(self.query.spec.folder, self.name)
        with contextlib.suppress(Exception):
            mine = owner["following"].get(self.copy) == self.query.spec.generation
            return mine and bool(self.under_way.isActive)
        return False

    def end(self, host: SparkHost, patience: float = 30.0) -> bool:
        """Stop; return True, since what it has begun another copy delivers."""
        leave(self.query.spec.folder, self.name, self.copy)
        self.halt(host)
        return True

    def leading(self, unit: Unit) -> Runner:
        """Return what looks after its query once it leads the unit."""
        runner = Runner(unit, self.query)
        runner.handle, runner.begun_at = self.handle, self.begun_at
        return runner


class Guard(Looking):
    """Notices hosts that have died, at once, whatever else waits for their answers."""

    def __init__(self, look: Callable[[], None]) -> None:
        super().__init__("penstock-guard")
        self._look = look

    def run(self) -> None:
        """Look again and again."""
        while not self._ended.wait(NOTICED):
            try:
                self._look()
            except BaseException as error:
                self.error = error
                return


class Copies:
    """The copies of a system's units that follow.

    Parameters
    ----------
    system
        Whose units they are.

    Attributes
    ----------
    queries, runners
        By the checkpoint of a copy that follows, its query, and what looks after it.
    dropping, thin
        Copies that are to drop more than the one that leads, and those that have since they were begun: these cannot
        lead.
    missing
        Copies that were left out since their queries failed, and why.
    guard
        Notices hosts that have died.
    """

    def __init__(self, system: System) -> None:
        self._system = system
        self.queries: dict[str, Query] = {}
        self.runners: dict[str, CopyRunner] = {}
        self.dropping: set[str] = set()
        self.thin: set[str] = set()
        self.missing: dict[str, str] = {}
        self.guard = Guard(system.look_for_dead)

    def follow(self, name: str, interval: float) -> None:
        """Start the copies of a unit that follow."""
        for copy in self._system.units[name].others:
            self._follow(name, copy, interval)

    def _follow(self, name: str, copy: str, interval: float) -> None:
        """Start a copy of a unit that follows the one that leads, unless its host is down or it runs already.

        Where nothing leads nothing is done: its checkpoint may be the one from which the unit goes on.
        """
        system, host = self._system, self._system.units[name].copies[copy]
        if copy in self.runners or host in system.down or host not in system.sessions:
            return
        if not self._may_begin(name, copy):
            return
        unit, place = system.units[name], system.deployment.place
        mine = unit.led_by(copy)
        query = system.compile(mine)
        with system.lock:  # what it has not read is not removed from now on
            self.queries[copy] = query
        try:
            leave(place, name, copy)
            self._end_left(mine)
            inherit(place, unit, copy)
            runner = CopyRunner(mine, stamped(query, mine, follow(place, name, copy)))
            runner.launch(interval)
        except BaseException:
            self.queries.pop(copy, None)
            raise
        with system.lock:
            self.thin = (self.thin - {copy}) | (self.dropping & {copy})
            self.queries[copy], self.runners[copy] = runner.query, runner
        # Its plans are compiled once it has done a batch.
        while runner.marks[1] < 0 and not system.ended.wait(0.1):
            system.check(runner)

    def _may_begin(self, name: str, copy: str) -> bool:
        """Wait until the copy that leads has done what another one had planned; return False where nothing leads.

        What that one had planned when it led stays until then, since the one that leads may ask for it.
        """
        system = self._system
        while planned_ahead(system.deployment.place, system.units[name], copy):
            runner = system.runners.get(name)
            if runner is None or system.ended.wait(0.05):
                return False
            if system.hosts[runner.unit.host].alive():
                system.check(runner)
        return bool(owner_of(system.deployment.place, name)["generation"])

    def leave(self, name: str) -> None:
        """Stop the copies of a unit that follow."""
        for runner in self.dismiss(name):
            runner.end(self._system.hosts[runner.unit.host])

    def dismiss(self, name: str) -> list[CopyRunner]:
        """Let no copy of a unit come to lead any more; return those that followed, which are to be stopped."""
        others = self._system.units[name].others
        return [runner for copy in others if (runner := self._dismissed(copy)) is not None]

    def _dismissed(self, copy: str) -> CopyRunner | None:
        with self._system.lock:  # another thread may be about to let it lead
            self.queries.pop(copy, None)
            return self.runners.pop(copy, None)

    def _leave(self, copy: str) -> bool:
        """Stop a copy; return whether it followed."""
        runner = self._dismissed(copy)
        if runner is not None:
            runner.end(self._system.hosts[runner.unit.host])
        return runner is not None

    def patience(self) -> float:
        """How long (s) a copy that leads may now wait for another one, and seem to have nothing to do."""
        led = {name: runner.marks[0] for name, runner in [*self._system.runners.items()]}
        late = any(runner.marks[0] < led.get(runner.name, -1) for runner in [*self.runners.values()])
        return PATIENCE if late else 0.0

    def check(self) -> None:
        """Stop the copies whose queries have failed: others go on without them."""
        for copy, runner in [*self.runners.items()]:
            there = self._system.hosts[runner.unit.host].alive()
            why = "its query has ended"
            try:
                if there and self._system.asker.ask(runner.unit.host, runner.goes_on):
                    continue
                why = self._system.asker.ask(runner.unit.host, runner.failed) or why
            except Silent:
                if there:
                    continue
            except Exception:  # noqa: S110 - the host has died, or is about to
                pass
            if self._leave(copy) and there:
                self.missing[copy_name(copy)] = why

    def lose(self, host: str) -> None:
        """Forget the copies that followed on a host that has died."""
        for copy in [copy for copy, runner in self.runners.items() if runner.unit.host == host]:
            self._leave(copy)

    def succeed(self, name: str) -> bool:
        """Let a copy lead a unit whose query has ended, or is to; return whether there was one.

        It goes on at once: it has computed what is missing, or is about to.
        """
        system = self._system
        with system.lock:
            unit = system.units[name]
            for copy in unit.others:
                runner = self.runners.get(copy)
                there = runner is not None and system.hosts[runner.unit.host].alive() and system.goes_on(runner)
                if runner is None or not there or copy in self.thin:
                    continue
                lead(system.deployment.place, name, copy)
                del self.runners[copy], self.queries[copy]
                led = unit.led_by(copy)
                system.compiled[name], system.runners[name] = runner.query, runner.leading(led)
                system.place([led])
                return True
        return False

    def carry(self, name: str, copy: str, host: str, interval: float) -> None:
        """Start a copy of a unit on a host, another one or again on its own; if it led, another one does then."""
        system = self._system
        before = system.runners.get(name)
        if system.units[name].saved == copy and not self.succeed(name):
            system.move(name, host, interval)
            return
        if not self._leave(copy) and before is not None and system.runners.get(name) is not before:
            before.halt(system.hosts[before.unit.host])
        with system.lock:
            system.place([system.units[name].having(copy, host)])
        self._follow(name, copy, interval)

    def revive(self, name: str, copy: str, interval: float) -> None:
        """Start a unit of which nothing runs where one of its copies is, from where the one that came furthest was."""
        system = self._system
        self.leave(name)
        led = self.bequeath(system.units[name], copy)
        self.thin.discard(copy)
        query = system.compile(led)
        system.place([led])
        system.deliver(query, led)
        system.begin(name, interval)

    def bequeath(self, unit: Unit, copy: str) -> Unit:
        """Let a copy lead a unit of which nothing runs; return the unit."""
        led = unit.led_by(copy)
        take_over(self._system.deployment.place, unit.name, deliver=False)
        self._end_left(led)
        return led

    def _end_left(self, unit: Unit) -> None:
        """End what an earlier penstock has left of a copy; it does not deliver any more."""
        for left in self._system.sessions[unit.host].streams.active:
            if left.name == unit.name:
                left.stop()


def latest(folder: Place, unit: Unit) -> Unit:
    """Return a unit as it is led: whoever comes to lead says so where all copies look before anybody else hears."""
    led = [copy for copy in owner_of(folder, unit.name)["led"] if copy in unit.copies]
    return unit.led_by(led[0]) if led else unit


def heir(folder: Place, unit: Unit, able: Sequence[str]) -> str:
    """Return which of the copies that are able to lead a unit of which nothing runs does: the furthest, if it is."""
    best = furthest(folder, unit)
    return best if best in able else able[0]


def furthest(folder: Place, unit: Unit) -> str:
    """Return the copy whose checkpoint is the furthest of those that have led, of several the one that led last.

    One that has never led may have dropped something, and one that is begun anew counts no longer.
    """
    led = [copy for copy in owner_of(folder, unit.name)["led"] if copy in unit.copies]
    return max(led, key=lambda copy: begun_and_ended(folder / "checkpoints" / copy), default=unit.saved)


def catch_up(folder: Place, unit: Unit) -> None:
    """Let a unit of which nothing runs go on from the furthest of its copies, and do what that one had planned.

    A copy that came to lead may have ended before it did what the one before had planned and shown.
    """
    source = furthest(folder, unit)
    if source == unit.saved:
        return
    # Until the copy is whole the other one counts.
    take_over(folder, unit.name, deliver=False, copy=source)
    checkpoint = folder / "checkpoints" / source
    branch(checkpoint, folder / "checkpoints" / unit.saved, begun_and_ended(checkpoint)[0])


def planned_ahead(folder: Place, unit: Unit, copy: str) -> bool:
    """Whether a copy has planned, when it led, what the one that leads now has not done yet."""
    owner, checkpoints = owner_of(folder, unit.name), folder / "checkpoints"
    if not owner["generation"] or copy not in owner["led"]:
        return False
    return begun_and_ended(checkpoints / copy)[0] > begun_and_ended(checkpoints / unit.saved)[1]


def inherit(folder: Place, unit: Unit, copy: str) -> None:
    """Write the checkpoint of a copy that is to follow anew, as that of the one that leads is behind its last batch."""
    source, target = folder / "checkpoints" / unit.saved, folder / "checkpoints" / copy
    batch = begun_and_ended(source)[1]
    # A batch whose report is not there yet may have to be counted by whoever comes to lead.
    if batch >= 0 and not report_of(folder, unit.name, batch).exists():
        batch = batch - 1 if (source / "offsets" / str(batch - 1)).exists() else batch
    branch(source, target, batch)
