"""Makes a case that differs smaller, as long as it still differs in the same way."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs
from case import Case, Step, columns_of, limited
from oracle import inputs_of

Check = Callable[[Case], list[str]]
"""Says how a case differs; raises where the oracle does not understand it."""


def signature(said: list[str]) -> frozenset[str]:
    """Return what kinds of differences there are."""
    found = set()
    for line in said:
        head = line.split(": ")
        if line.startswith("step ") and len(head) > 1 and head[1] != "counts do not balance":
            found.add(head[1])  # the class of an error
        else:
            found.add("rows")
    return frozenset(found)


def shrink(case: Case, check: Check, budget: float, clock: Callable[[], float] = time.monotonic) -> Case:
    """Return a smaller case with the same kind of difference; give up after ``budget`` seconds."""
    want = signature(check(case))
    deadline = clock() + budget
    again = True
    while again:
        again = False
        for candidate in _smaller(case):
            if clock() > deadline:
                return case
            try:
                said = check(candidate)
            except Exception:  # noqa: S112
                continue  # what is left is no network
            if said and signature(said) == want:
                case, again = candidate, True
                break
    return case


def _smaller(case: Case) -> Iterator[Case]:
    """Yield smaller cases, the boldest first."""
    if len(case.steps) > 1:
        yield attrs.evolve(case, steps=case.steps[-1:])
        for number in range(len(case.steps) - 1):
            yield attrs.evolve(case, steps=case.steps[:number] + case.steps[number + 1 :])
    yield from _without_sinks(case)
    yield from _without_operators(case)
    if set(case.placement.values()) != {"h1"}:
        yield attrs.evolve(case, placement=dict.fromkeys(case.placement, "h1"))
    yield from _fewer_rows(case)
    for source, table in case.network["sources"].items():
        if "maxFilesPerTrigger" in table["options"]:
            yield limited(case, source, None)
    for name, host in case.placement.items():
        if host != "h1":
            yield attrs.evolve(case, placement={**case.placement, name: "h1"})
    yield from _without_columns(case)


def _document(case: Case) -> dict[str, Any]:
    copy: dict[str, Any] = json.loads(json.dumps(case.network))
    return copy


def _without_sinks(case: Case) -> Iterator[Case]:
    for sink in case.network["sinks"] if len(case.network["sinks"]) > 1 else ():
        document = _document(case)
        del document["sinks"][sink]
        yield pruned(case, document)


def _without_operators(case: Case) -> Iterator[Case]:
    """Let the readers of an operator read its input, or a sink; a union loses an input."""
    for name, table in case.network["operators"].items():
        given = inputs_of(table)
        for stand_in in given:
            document = _document(case)
            del document["operators"][name]
            for reader in [*document["operators"].values(), *document["sinks"].values()]:
                if reader.get("input") == name:
                    reader["input"] = stand_in
                if name in reader.get("inputs", []):
                    reader["inputs"] = [stand_in if member == name else member for member in reader["inputs"]]
            yield pruned(case, document)
        for leave in given if table["kind"] == "union" and len(given) > 2 else ():
            document = _document(case)
            document["operators"][name]["inputs"].remove(leave)
            yield pruned(case, document)
    for sink, table in case.network["sinks"].items():
        for stand_in in inputs_of(case.network["operators"].get(table["input"], {})):
            document = _document(case)
            document["sinks"][sink]["input"] = stand_in
            yield pruned(case, document)


def pruned(case: Case, document: dict[str, Any]) -> Case:
    """Return a case with another document, less the operators and sources that lead to no sink."""
    needed, waiting = set(), [table["input"] for table in document["sinks"].values()]
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            waiting += inputs_of(document["operators"].get(name, {}))
    for kind in ("operators", "sources"):
        document[kind] = {name: table for name, table in document[kind].items() if name in needed}
    return attrs.evolve(
        case,
        network=document,
        placement={name: host for name, host in case.placement.items() if name in needed},
        files={name: files for name, files in case.files.items() if name in needed},
        steps=tuple(
            Step(step.seconds, {name: count for name, count in step.files.items() if name in needed})
            for step in case.steps
        ),
    )


def _fewer_rows(case: Case) -> Iterator[Case]:
    """Leave out halves, then single ones, of the files and of each file's rows."""
    for source, files in case.files.items():
        for low, high in _parts(len(files)):
            yield _with_files(case, source, files[:low] + files[high:], low, high)
    for source, files in case.files.items():
        for number, rows in enumerate(files):
            for low, high in _parts(len(rows)):
                fewer = (*files[:number], rows[:low] + rows[high:], *files[number + 1 :])
                yield attrs.evolve(case, files={**case.files, source: fewer})


def _parts(count: int) -> Iterator[tuple[int, int]]:
    """Yield ranges: all, halves, quarters, …, single ones."""
    width = count
    while width:
        yield from ((low, min(low + width, count)) for low in range(0, count, width))
        width //= 2


def _with_files(case: Case, source: str, files: tuple[Any, ...], low: int, high: int) -> Case:
    def left(count: int) -> int:
        return count - max(0, min(count, high) - low)

    steps = tuple(Step(s.seconds, {**s.files, source: left(s.files[source])}) for s in case.steps)
    return attrs.evolve(case, files={**case.files, source: files}, steps=steps)


def _without_columns(case: Case) -> Iterator[Case]:
    for source, table in case.network["sources"].items():
        columns = columns_of(table["schema"])
        for place, (name, _) in enumerate(columns if len(columns) > 1 else []):
            if name == table.get("time"):
                continue
            document = _document(case)
            left = [column for column in columns if column[0] != name]
            document["sources"][source]["schema"] = ", ".join(f"`{column}` {kind}" for column, kind in left)
            files = tuple(tuple(row[:place] + row[place + 1 :] for row in file) for file in case.files[source])
            yield attrs.evolve(case, network=document, files={**case.files, source: files})


def summary(case: Case) -> Mapping[str, int]:
    """Return how large a case is."""
    return {
        "operators": len(case.network["operators"]),
        "files": sum(map(len, case.files.values())),
        "rows": sum(len(file) for files in case.files.values() for file in files),
    }
