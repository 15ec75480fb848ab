"""Random cases of the differential test: networks of all kinds, their files, placement and schedule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np
from case import ARROW, Case, File, Step
from rows import NESTED, TYPES, Clock, random_files
from vocabulary import conditions, new_columns, sums

LIMIT = 3000
"""Rows that an operator may have, roughly."""

MODULE = """
def keep{n}(batches):
    yield from batches

keep{n}.rows = "kept"

def twice{n}(batches):
    for batch in batches:
        yield batch.take([row for row in range(batch.num_rows) for _ in "ab"])

def some{n}(batches):
    for batch in batches:
        yield batch.filter([k is not None and k % 3 != 0 for k in batch.column("k").to_pylist()])

def more{n}(batches):
    import pyarrow
    for batch in batches:
        added = [None if k is None else k * 2 + 1 for k in batch.column("k").to_pylist()]
        yield batch.append_column("added", pyarrow.array(added, pyarrow.int64()))

more{n}.rows = "kept"
"""
"""Steps in Python. Rows that are taken or filtered keep the column ``_row``, where batches have it."""


@attrs.frozen
class Size:
    """How large cases are: files per source, rows per file, batches per source, operators, seconds of a run."""

    files: int
    rows: int
    batches: int
    operators: int
    seconds: float


SMALL = Size(files=5, rows=60, batches=4, operators=7, seconds=1.5)
LARGE = Size(files=15, rows=200, batches=15, operators=10, seconds=6.0)


@attrs.frozen
class Node:
    """A source or operator: columns by name, whether it has event time, rows at most, and what lies above it."""

    name: str
    columns: Mapping[str, str]
    timed: bool
    rows: int
    windowed: bool = False


def case(seed: int, size: Size = SMALL) -> Case:
    """Return a random case; the same seed gives the same case."""
    return _Maker(np.random.default_rng(seed), size).case(f"seed-{seed}")


class _Maker:
    """Builds a case operator by operator."""

    def __init__(self, rng: np.random.Generator, size: Size) -> None:
        self.rng, self.size = rng, size
        self.late = bool(rng.random() < 0.2)
        self.sources: dict[str, dict[str, Any]] = {}
        self.operators: dict[str, dict[str, Any]] = {}
        self.files: dict[str, tuple[File, ...]] = {}
        self.nodes: list[Node] = []
        self.module = ""
        self.fresh = 0

    def case(self, name: str) -> Case:
        for number in range(self._choose([1, 2, 3], [0.45, 0.4, 0.15])):
            self._source(f"s{number + 1}")
        wanted = int(self.rng.integers(3, self.size.operators + 1))
        tries = 0
        while len(self.operators) < wanted and tries < 60:
            tries += 1
            self._operator()
        sinks = self._sinks()
        hosts = [f"h{k + 1}" for k in range(self._choose([1, 2, 3], [0.2, 0.45, 0.35]))]
        network = {"name": name, "sources": self.sources, "operators": self.operators, "sinks": sinks}
        return Case(
            name=name,
            network=network,
            placement={operator: self._one(hosts) for operator in self.operators},
            files=self.files,
            steps=self._steps(),
            module=self.module,
        )

    # Choices

    def _one(self, members: Sequence[Any]) -> Any:
        return members[int(self.rng.integers(len(members)))]

    def _choose(self, members: Sequence[Any], shares: Sequence[float]) -> Any:
        return members[int(self.rng.choice(len(members), p=np.array(shares) / sum(shares)))]

    def _chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def _some(self, members: Sequence[Any], least: int, most: int) -> list[Any]:
        count = min(len(members), int(self.rng.integers(least, most + 1)))
        return [members[place] for place in sorted(self.rng.permutation(len(members))[:count].tolist())]

    def _new(self, base: str) -> str:
        self.fresh += 1
        return f"{base}{self.fresh}"

    # Sources

    def _source(self, name: str) -> None:
        form = self._choose(["json", "csv", "parquet"], [0.6, 0.15, 0.25])
        columns = ["k", "v", *self._some([c for c in TYPES if c not in ("k", "v", *NESTED)], 1, 3)]
        if form != "csv" and self._chance(0.2):
            columns += self._some(NESTED, 1, 2)
        time = self._one(["at", "at", "zeit", "event time"])
        timed = self._chance(0.93)
        lateness = self._one([0, 1_000_000, 2_500_000, 10_000_000])
        count = int(self.rng.integers(1, self.size.files + 1))
        sizes = [0 if self._chance(0.08) else int(self.rng.integers(1, self.size.rows + 1)) for _ in range(count)]
        if self._chance(0.04):
            sizes = [0] * count
        clock = Clock(
            step=int(self.rng.uniform(40_000, 90_000_000 / max(30, sum(sizes)))),
            grain=self._choose([1_000, 1, 1_000_000], [0.6, 0.2, 0.2]),
            lateness=lateness,
            begin=self._one([0, 0, 0, 3_000_000, 30_000_000]),
            late=0.06 if self.late else 0.0,
            null=self._choose([0.0, 0.05], [0.9, 0.1]),
        )
        self.files[name] = random_files(self.rng, [time, *columns], sizes, clock, self._one([0.0, 0.1]))
        limit = self._choose([None, 1, 2, 3, 7, 10], [0.3, 0.25, 0.15, 0.1, 0.1, 0.1])
        if limit is not None:
            limit = max(limit, -(-count // self.size.batches))
        table: dict[str, Any] = {
            "format": form,
            "schema": f"`{time}` timestamp, " + ", ".join(f"`{column}` {TYPES[column]}" for column in columns),
            "options": {"path": f"data/{name}"} | ({} if limit is None else {"maxFilesPerTrigger": limit}),
        }
        if timed:
            table |= {"time": time, "lateness": self._one([lateness / 1e6, f"{lateness // 1000} ms"])}
        self.sources[name] = table
        shape = {time: "timestamp", **{column: TYPES[column] for column in columns}}
        self.nodes.append(Node(name, shape, timed, sum(sizes)))

    # Operators

    def _unread(self) -> list[Node]:
        read = {given for table in self.operators.values() for given in [table.get("input"), *table.get("inputs", [])]}
        return [node for node in self.nodes if node.name not in read]

    def _input(self, timed: bool = False) -> Node | None:
        fits = [n for n in self.nodes if (n.timed or not timed) and not (self.late and n.windowed)]
        unread = [node for node in self._unread() if node in fits]
        if not fits:
            return None
        return self._one(unread) if unread and self._chance(0.75) else self._one(fits)

    def _add(self, kind: str, table: dict[str, Any], node: Node) -> None:
        self.operators[node.name] = {"kind": kind, **table}
        self.nodes.append(node)

    def _operator(self) -> None:
        kinds = {
            "filter": 0.2, "map": 0.12, "explode": 0.06, "union": 0.1, "diamond": 0.12, "aggregate": 0.2,
            "join": 0.25, "delay": 0.05, "python": 0.08,
        }  # fmt: skip
        kind = self._choose(list(kinds), list(kinds.values()))
        getattr(self, f"_{kind}")()

    def _filter(self) -> None:
        node = self._input()
        if node is not None:
            self._filtered(node)

    def _filtered(self, node: Node) -> Node:
        made = attrs.evolve(node, name=self._new("f"))
        self._add("filter", {"input": node.name, "where": self._one(conditions(node.columns))}, made)
        return made

    def _map(self) -> None:
        node = self._input()
        if node is None:
            return
        kept = self._some(list(node.columns), 1, len(node.columns))
        kept = list(dict.fromkeys([*kept, "k"])) if "k" in node.columns else kept
        if self._chance(0.3):
            kept = kept[::-1]
        shown, shape = [f"`{name}`" for name in kept], {name: node.columns[name] for name in kept}
        if self._chance(0.25):
            shown, shape = ["*"], dict(node.columns)
        for text, kind in self._some(new_columns(node.columns), 0, 3):
            name = self._new("größe" if self._chance(0.2) else "c")
            shown.append(f"{text} AS `{name}`")
            shape[name] = kind
        self._add("map", {"input": node.name, "select": self._listed(shown)}, self._like(node, "m", shape))

    def _listed(self, shown: list[str]) -> Any:
        return shown if self._chance(0.6) else ", ".join(shown)

    def _like(self, node: Node, letter: str, shape: Mapping[str, str], rows: int | None = None) -> Node:
        rows = node.rows if rows is None else rows
        return attrs.evolve(node, name=self._new(letter), columns=shape, rows=rows)

    def _explode(self) -> None:
        node = self._input()
        if node is None or node.rows > LIMIT / 3:
            return
        item, place = self._new("item"), self._new("pos")
        found: list[tuple[str, dict[str, str]]] = [
            (f"explode(array(7L, 8L)) AS {item}", {item: "bigint"}),
            (f"posexplode(array(7L, 8L)) AS ({place}, {item})", {place: "int", item: "bigint"}),
        ]
        for name, kind in node.columns.items():
            if kind == "array<bigint>":
                found += [(f"explode(`{name}`) AS {item}", {item: "bigint"})] * 2
                found += [(f"posexplode_outer(`{name}`) AS ({place}, {item})", {place: "int", item: "bigint"})]
            if kind == "map<string,bigint>":
                found += [(f"explode(`{name}`) AS ({place}, {item})", {place: "string", item: "bigint"})] * 2
        text, made = self._one(found)
        kept = [name for name in node.columns if name == "k" or self._chance(0.6)]
        shown, shape = [f"`{name}`" for name in kept], {name: node.columns[name] for name in kept}
        if self._chance(0.4):
            shown, shape = ["*"], dict(node.columns)
        shape |= made
        table = {"input": node.name, "select": self._listed([*shown, text])}
        self._add("map", table, self._like(node, "e", shape, node.rows * 3))

    def _union(self) -> None:
        pool = [n for n in self.nodes if not (self.late and n.windowed)]
        given = self._some(pool, 2, 3)
        if len(given) >= 2 and sum(node.rows for node in given) <= LIMIT:
            self._united(given)

    def _diamond(self) -> None:
        """Unite two or three filters of one stream, some of whose rows take several paths."""
        node = self._input()
        if node is None or node.rows > LIMIT / 2:
            return
        self._united([self._filtered(node) for _ in range(self._choose([2, 3], [0.8, 0.2]))])

    def _united(self, given: list[Node]) -> None:
        common = [
            name for name, kind in given[0].columns.items() if all(node.columns.get(name) == kind for node in given[1:])
        ]
        if not common:
            return
        shape = {name: given[0].columns[name] for name in common}
        inputs = [node if list(node.columns) == common else self._cut(node, common) for node in given]
        made = Node(
            self._new("u"),
            shape if inputs[0] is given[0] else dict(inputs[0].columns),
            all(node.timed for node in given),
            sum(node.rows for node in given),
            any(node.windowed for node in given),
        )
        self._add("union", {"inputs": [node.name for node in inputs]}, made)

    def _cut(self, node: Node, names: list[str]) -> Node:
        order = names[::-1] if self._chance(0.3) else names
        made = self._like(node, "m", {name: node.columns[name] for name in order})
        self._add("map", {"input": node.name, "select": [f"`{name}`" for name in order]}, made)
        return made

    def _aggregate(self) -> None:
        node = self._input(timed=True)
        if node is None:
            return
        clash = ("window_start", "window_end")
        simple = ("bigint", "int", "string", "date", "boolean", "decimal(12,2)", "timestamp")
        usual = [name for name in node.columns if name in ("k", "s", "flag", "a day")]
        by = self._some(usual or [n for n, kind in node.columns.items() if kind in simple and n not in clash], 0, 2)
        shape = {**{name: node.columns[name] for name in by}, **dict.fromkeys(clash, "timestamp")}
        shown = []
        for text, kind in self._some(sums(node.columns, late=self.late), 1, 3):
            name = self._new("n")
            shown.append(f"{text} AS {name}")
            shape[name] = kind
        length = self._one([1.5, 2.0, 4.0, 5.0, 10.0])
        table: dict[str, Any] = {
            "input": node.name,
            "window": self._one([length, f"{length} seconds"]),
            "select": self._listed(shown),
        }
        if by or self._chance(0.2):
            table["by"] = by
        rows = node.rows
        if self._chance(0.4):
            parts = int(self._one([1, 2, 3, 5]))
            table["slide"] = length / parts if length * 1000 % parts == 0 else length / 2
            rows *= parts
        made = attrs.evolve(self._like(node, "w", shape, min(rows, LIMIT)), windowed=True)
        self._add("aggregate", table, made)

    def _join(self) -> None:
        one, two = self._input(timed=True), self._input(timed=True)
        if one is None or two is None or one.name == two.name:
            return
        keys = [n for n, kind in one.columns.items() if two.columns.get(n) == kind and n in ("k", "s", "flag", "v")]
        if not keys or one.rows * two.rows > 400_000:
            return
        key = self._one(keys)
        on = f"{one.name}.`{key}` = {two.name}.`{key}`"
        if self._chance(0.2) and "v" in one.columns and "v" in two.columns:
            on += f" AND {one.name}.v <= {two.name}.v"
        table: dict[str, Any] = {
            "inputs": [one.name, two.name],
            "on": on,
            "within": self._one([0.0, 0.5, 1.0, "2 seconds"]),
        }
        shape: dict[str, str] = {}
        if self._chance(0.75):
            shown = [f"{one.name}.`{key}` AS `{key}`"]
            shape[key] = one.columns[key]
            for side in (one, two):
                for name in self._some(list(side.columns), 1, 2):
                    made = self._new("j")
                    shown.append(f"{side.name}.`{name}` AS {made}")
                    shape[made] = side.columns[name]
            table["select"] = self._listed(shown)
        else:
            both = set(one.columns) & set(two.columns)
            for side in (one, two):
                shape |= {f"{side.name}_{n}" if n in both else n: kind for n, kind in side.columns.items()}
        rows = min(LIMIT, one.rows * two.rows // 20 + 1)
        self._add("join", table, Node(self._new("j"), shape, True, rows, one.windowed or two.windowed))

    def _delay(self) -> None:
        node = self._input()
        if node is not None:
            table = {"input": node.name, "cost": 1e-5, "burn": self._choose(["sleep", "cpu"], [0.8, 0.2])}
            self._add("delay", table, self._like(node, "d", node.columns))

    def _python(self) -> None:
        node = self._input()
        if node is None:
            return
        kinds = ["keep", "twice"]
        if node.columns.get("k") == "bigint":
            kinds += ["some", "more"] if "added" not in node.columns else ["some"]
        kind = self._one(kinds)
        number = self._new("_")
        shape = {**node.columns, "added": "bigint"} if kind == "more" else dict(node.columns)
        if any(known not in ARROW for known in shape.values()):
            return
        self.module += MODULE.format(n=number)
        ddl = ", ".join(f"`{name}` {known}" for name, known in shape.items())
        if kind == "more" or self._chance(0.3):
            self.module += f'\n{kind}{number}.schema = "{ddl}"\n'
        made = self._like(node, "p", shape, node.rows * (2 if kind == "twice" else 1))
        self._add("python", {"input": node.name, "function": f"steps:{kind}{number}"}, made)

    # The ends

    def _sinks(self) -> dict[str, dict[str, Any]]:
        leaves = [node.name for node in self._unread() if node.name in self.operators]
        while len(leaves) > 3:
            self._remove(self._one(leaves))
            leaves = [node.name for node in self._unread() if node.name in self.operators]
        for source in [node.name for node in self._unread() if node.name in self.sources]:
            # A source that nobody reads is no part of the network.
            if len(self.sources) > 1:
                del self.sources[source], self.files[source]
        if not self.operators:
            only = self.nodes[0]
            self._add("filter", {"input": only.name, "where": "k > 1"}, attrs.evolve(only, name="f"))
            leaves = ["f"]
        inner = [name for name in self.operators if name not in leaves]
        if len(leaves) < 3 and inner and self._chance(0.3):
            leaves.append(self._one(inner))
        return {f"t{number + 1}": self._sink(name, number + 1) for number, name in enumerate(leaves)}

    def _remove(self, name: str) -> None:
        del self.operators[name]
        self.nodes = [node for node in self.nodes if node.name != name]

    def _sink(self, name: str, number: int) -> dict[str, Any]:
        form = self._choose([None, "json", "parquet"], [0.5, 0.3, 0.2])
        if form is None:
            return {"input": name}
        return {"input": name, "format": form, "options": {"path": f"out{number}"}}

    def _steps(self) -> tuple[Step, ...]:
        """Return runs over more and more files; the last has all and ends by itself."""
        whole = {source: len(files) for source, files in self.files.items()}
        steps = []
        for _ in range(self._choose([0, 1, 2], [0.6, 0.32, 0.08])):
            seconds = float(self.size.seconds * self.rng.uniform(0.3, 1.0)) if self._chance(0.35) else None
            least = steps[-1].files if steps else dict.fromkeys(whole, 0)
            files = {source: int(self.rng.integers(least[source], count + 1)) for source, count in whole.items()}
            steps.append(Step(None if seconds is None else round(seconds, 1), files))
        return (*steps, Step(None, whole))
