"""Runs a case as a living system: units move and hosts die while it runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from case import Case, placed, write_files
from oracle import check, expected
from runner import oracle_session, sink_rows, steps_importable

from penstock.network.file import parse_network
from penstock.spark.left import claimed, placement_of
from penstock.spark.run import Engine, SparkEngine
from penstock.steering import Kill, Plan, Recover


def differences_after_moves(
    engine: Engine, case: Case, folder: Path, rng: np.random.Generator, changes: int
) -> list[str]:
    """Run a case in a new folder, change it some times; return how its sinks differ from the batch answer."""
    folder.mkdir(parents=True)
    answers = expected(oracle_session(engine), case, folder / "oracle")
    with steps_importable(case, folder):
        network = parse_network(placed(case, folder), str(folder / "network.toml"))
        apart = [name for name, operator in network.operators.items() if operator.stateful]
        write_files(case, folder, case.steps[0].files)
        live = SparkEngine(engine, engine.prepare(network, case.placement, folder / "run", apart=apart))
        try:
            for number in range(changes):
                write_files(case, folder, case.steps[min(number, len(case.steps) - 1)].files)
                live.wait(live.now + float(rng.uniform(0.0, 2.0)))
                if rng.random() < 0.5:
                    _kill(live, rng)
                else:
                    _move(live, rng)
            _settle(live)
        finally:
            live.close()
        write_files(case, folder, case.steps[-1].files)
        document = claimed(str(folder / "run"))
        assert document is not None
        deployment = engine.prepare(network, placement_of(document), folder / "run", apart=apart)
        said = [] if engine.run_once(deployment).balanced(network) else ["counts do not balance"]
    return said + check(answers, sink_rows(case, folder, answers))


def _move(live: SparkEngine, rng: np.random.Generator) -> None:
    """Move a unit, or two at once."""
    names = rng.choice(sorted(live.system.units), int(rng.integers(1, 3)))
    placement = {
        operator: str(rng.choice(["h1", "h2", "h3"]))
        for name in {str(name) for name in names}
        for operator in live.system.units[name].fragment.operators[:1]
    }
    whole = {other: host for operator, host in placement.items() for other in _together(live, operator)}
    live.apply(Plan(placement=whole))


def _together(live: SparkEngine, operator: str) -> tuple[str, ...]:
    return next(u.fragment.operators for u in live.system.units.values() if operator in u.fragment.operators)


def _kill(live: SparkEngine, rng: np.random.Generator) -> None:
    """Kill a host; its units go on elsewhere, or on the host when it is back."""
    victim = str(rng.choice(["h1", "h2", "h3"]))
    others = sorted({"h1", "h2", "h3"} - {victim} - live.down)
    if victim in live.down or not others:
        return
    live.happen(Kill(victim))
    while victim not in live.down:
        live.wait(live.now + 0.1)
    if rng.random() < 0.5:
        mine = {op: others[0] for u in live.system.units.values() if u.host == victim for op in u.fragment.operators}
        live.apply(Plan(placement=mine))
    live.happen(Recover(victim))
    while victim in live.down:
        live.wait(live.now + 0.2)


def _settle(live: SparkEngine) -> None:
    """Wait until all changes have ended."""
    while live.observe().moving:
        live.wait(live.now + 0.2)
