"""Writing what was measured as network, rates, statistics, cluster and placement, for all other commands.

Each query becomes one operator with its sources and its sink; each application a host of capacity 1: the cost of an
operator is what a row took *there*, with the cores that the application had. Trigger and overheads go where the
micro-batch model reads them.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs
import numpy as np

from penstock.arrays import Array
from penstock.errors import InputError
from penstock.files import atomic, check_folder, write_json
from penstock.inspection.arrivals import rate_series
from penstock.inspection.scheduled import by_run, schedule
from penstock.inspection.values import Inspection, Query
from penstock.load.statistics import HostStatistics, OperatorStatistics, Statistics
from penstock.units import human
from penstock.workload import Rates

_SHARED = re.compile(r"^(Kafka|FileStreamSource|DeltaSource|Delta|Kinesis|EventHubs|Pulsar|Iceberg|CloudFiles)", re.I)
"""Sources that several queries read as one thing: a topic, a folder. A rate or socket source is each query's own."""

FILES = ("network.toml", "rates.csv", "statistics.json", "cluster.toml", "placement.json")
"""What is written."""

POLLING = 0.01
"""Without a trigger Spark looks for data so often (s, ``spark.sql.streaming.pollingDelay``)."""


@attrs.frozen
class Exported:
    """How the queries are named in the files.

    Attributes
    ----------
    operators, hosts
        Name in the files by name of the query, and by identifier of the application.
    sources
        Names in the files of a query's sources, in its order.
    described
        By source in the files: how Spark describes it.
    rates
        Rows a second of the sources.
    """

    operators: Mapping[str, str]
    hosts: Mapping[str, str]
    sources: Mapping[str, tuple[str, ...]]
    described: Mapping[str, str]
    rates: Rates


def export(inspection: Inspection, folder: str | os.PathLike[str]) -> list[str]:
    """Write ``network.toml``, ``rates.csv``, ``statistics.json``, ``cluster.toml`` and ``placement.json``.

    Returns
    -------
    list of str
        The paths that were written.

    Raises
    ------
    InputError
        If the folder cannot be written.
    """
    target = Path(folder)
    check_folder(folder)
    named = named_in(inspection)
    with atomic(target / "network.toml") as file:
        file.write(_network(inspection, named))
    named.rates.write_csv(target / "rates.csv")
    _statistics(inspection, named).write(target / "statistics.json")
    with atomic(target / "cluster.toml") as file:
        file.write(_cluster(inspection, named))
    placed = {named.operators[name]: named.hosts[query.log.app] for name, query in inspection.queries.items()}
    write_json(target / "placement.json", {"placement": placed})
    return [str(target / name) for name in FILES]


def simplified(inspection: Inspection) -> Iterator[str]:
    """Tell where the files make more than usual of little: what other commands say is then off."""
    busy: dict[str, float] = {}
    for name, query in inspection.queries.items():
        busy[query.log.app] = busy.get(query.log.app, 0.0) + (query.busy if query.seconds.size else 0.0)
        limit = _limit(query)
        if limit is not None:
            yield (
                f"batches of {name} have at most {limit:,.0f} rows; of the other commands only advise knows, and for "
                "them a backlog is gone sooner"
            )
        runs = schedule(query.batches)
        if runs is not None:
            yield f"a scheduler runs {name} about every {human(runs.apart)}; in the files that is its trigger"
    for app, share in busy.items():
        if share > 1.0:
            yield f"queries of {app} ran side by side; in the files they take turns, which is slower than they were"


def _limit(query: Query) -> float | None:
    return query.capacity.limit if query.capacity.sure else None


def _trigger(query: Query) -> float | None:
    """Return how far batches are apart at least: of a query on a schedule its runs, which take all that has come."""
    runs = schedule(query.batches)
    return query.trigger if runs is None else runs.apart


def named_in(inspection: Inspection) -> Exported:
    """Return the names that queries, sources and applications get in the files."""
    queries = inspection.queries
    taken: set[str] = set()
    operators = {name: unique(_word(name), taken) for name in queries}
    hosts_taken: set[str] = set()
    used = dict.fromkeys(query.log.app for query in queries.values())
    hosts = {app: unique(_word(app), hosts_taken) for app in used}
    sources: dict[str, list[str]] = {name: [] for name in queries}
    rows: dict[str, Array] = {}
    described: dict[str, str] = {}
    for description, readers, values in _joined(inspection, _series(inspection)):
        label = unique(_word(subject(description)), taken, _word(readers[0]))
        rows[label], described[label] = values, description
        for reader in readers:
            sources[reader].append(label)
    return Exported(
        operators=operators,
        hosts=hosts,
        sources={name: tuple(labels) for name, labels in sources.items()},
        described=described,
        rates=Rates.of(inspection.period, rows),
    )


def _series(inspection: Inspection) -> dict[str, Array]:
    """Return the rate series of each query's sources, all over the same time."""
    logs = [query.batches for query in inspection.queries.values()]
    first = min(float(batches.start[0]) for batches in logs)
    last = max(float(batches.start[-1] if len(batches) > 1 else batches.end[-1]) for batches in logs)
    steps = max(int(np.ceil((last - first) / inspection.period)), 1)
    edges = first + inspection.period * np.arange(steps + 1.0)
    queries = inspection.queries.items()
    return {name: rate_series(*by_run(q.batches, q.arrivals), edges, q.trigger) for name, q in queries}


def _joined(inspection: Inspection, series: Mapping[str, Array]) -> list[tuple[str, list[str], Array]]:
    """Return the sources with their readers: what several queries read alike, from one place, is one source."""
    found: list[tuple[str, list[str], Array]] = []
    for name, rows in series.items():
        told = inspection.queries[name].log.sources
        for number, values in enumerate(rows):
            description = told[number] if number < len(told) else ""
            for other, readers, known in found if _SHARED.match(description) else ():
                # Queries that were at different places of a topic, or ran at different times, have rates of their own.
                alike = np.abs(values - known).sum() <= 0.2 * max(values.sum(), known.sum())
                if other == description and alike and name not in readers:
                    readers.append(name)
                    break
            else:
                found.append((description, [name], values))
    return found


def subject(description: str) -> str:
    """Return what a source reads, as a name, from Spark's description of it.

    Examples
    --------
    >>> subject("KafkaV2[Subscribe[clicks]]"), subject("FileStreamSource[file:/data/in/orders]")
    ('clicks', 'orders')
    >>> subject("RateStreamV2[rowsPerSecond=10, rampUpTimeSeconds=0")
    'rate'
    """
    kind, _, inside = description.partition("[")
    inside = inside.rstrip("]")
    inside = re.sub(r"^(Subscribe|SubscribePattern|Assign)\[", "", inside)
    if kind.lower().startswith("rate"):
        return "rate"
    if "/" in inside:
        return inside.rstrip("/").rpartition("/")[2] or kind or "source"
    if inside and "=" not in inside:
        return "-".join(part.strip() for part in inside.split(",")[:3])
    return kind or "source"


def _word(text: str) -> str:
    """Return a text as a name that files take."""
    word = re.sub(r"[^\w.\-]+", "_", text).strip("_.-")[:60]
    return word or "query"


def unique(word: str, taken: set[str], of: str = "") -> str:
    """Return a word that is not taken yet, and take it: the word, with ``of`` behind it, or with a number."""
    for candidate in (word, *([f"{word}-{of}"] if of else []), *(f"{word}-{number}" for number in range(2, 10_000))):
        if candidate not in taken:
            taken.add(candidate)
            return candidate
    raise InputError(f"too many queries are called {word!r}")


def _network(inspection: Inspection, named: Exported) -> str:
    lines = [f'name = "{_word(Path(_title(inspection)).name)}"', ""]
    for label, description in named.described.items():
        lines += [f"[sources.{_key(label)}]", f"# {_comment(description)}", ""]
    taken = {*named.rates.sources, *named.operators.values()}
    for name, query in inspection.queries.items():
        operator, inputs = named.operators[name], named.sources[name]
        kind = "union" if len(inputs) > 1 else "map"
        given = f'input = "{inputs[0]}"' if len(inputs) == 1 else f"inputs = [{', '.join(_quoted(i) for i in inputs)}]"
        sink = unique(f"{operator}-out", taken)
        lines += [
            f"[operators.{_key(operator)}]",
            f"# query {_comment(name)}" + (f", keeps state: {', '.join(query.log.state)}" if query.log.state else ""),
            f'kind = "{kind}"',
            given,
            "",
            f"[sinks.{_key(sink)}]",
            f"# {_comment(query.log.sink)}",
            f'input = "{operator}"',
            "",
        ]
    return "\n".join(lines)


def _title(inspection: Inspection) -> str:
    names = [inspection.applications[query.log.app].name for query in inspection.queries.values()]
    return Counter(names).most_common(1)[0][0]


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _quoted(name)


def _quoted(name: str) -> str:
    return f'"{name}"'


def _comment(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text)[:200]


def _statistics(inspection: Inspection, named: Exported) -> Statistics:
    operators, notes = {}, {}
    for name, query in inspection.queries.items():
        cost, error = query.fit.cost, query.fit.error
        if cost is None:
            # Every command needs a cost: the most that the batches allow errs on the safe side, and says so.
            cost, error = query.fit.cost_most or 0.0, 1.0
            notes[named.operators[name]] = query.fit.reason
        operators[named.operators[name]] = OperatorStatistics(
            cost=(float(cost),),
            selectivity=(_selectivity(query),),
            error=float(error or 0.0),
            tuples=int(query.batches.rows[query.warm].sum()),
            state=float(query.batches.state_bytes.max()) if query.log.state else None,
        )
    hosts = {named.hosts[app]: _host(inspection, app) for app in named.hosts}
    first = min(float(query.batches.start[0]) for query in inspection.queries.values())
    measured: dict[str, object] = {
        "by": "penstock inspect",
        "since": first,
        "upper_bounds": notes,
        "overhead": {
            named.operators[name]: query.fit.overhead
            for name, query in inspection.queries.items()
            if query.fit.overhead is not None
        },
        "trigger": {named.operators[name]: _trigger(query) for name, query in inspection.queries.items()},
        "limit": {named.operators[name]: _limit(query) for name, query in inspection.queries.items()},
    }
    return Statistics(operators=operators, hosts=hosts, measured=measured)


def _selectivity(query: Query) -> float:
    """Return output rows per input row where the sink counts them, else 1."""
    told = ~np.isnan(query.batches.output)
    rows = float(query.batches.rows[told].sum())
    return float(query.batches.output[told].sum()) / rows if rows > 0 else 1.0


def _host(inspection: Inspection, app: str) -> HostStatistics:
    """Return an application's overhead: the mean over the batches of its queries, each with its own."""
    known = [inspection.queries[name] for name in inspection.of_application(app)]
    fits = [(query, query.fit.overhead) for query in known if query.fit.overhead is not None]
    weight = sum(len(query.batches) for query, _ in fits)
    overhead = sum(len(query.batches) * value for query, value in fits) / weight if weight else 0.0
    empty = [query.batches.duration[query.warm & (query.batches.rows == 0)] for query in known]
    idle = np.concatenate(empty) if empty else np.zeros(0)
    return HostStatistics(overhead=overhead, idle=float(np.median(idle)) if idle.size >= 8 else None)


def _cluster(inspection: Inspection, named: Exported) -> str:
    lines = []
    for app, host in named.hosts.items():
        application = inspection.applications[app]
        cores = f"{application.cores:.3g} cores" if application.cores > 0 else "cores not told"
        lines += [
            f"[hosts.{_key(host)}]",
            f"# {_comment(application.name)}, {cores}; 1.0 is what it gave its queries",
            "capacity = 1.0",
            "",
        ]
    triggers = [trigger for query in inspection.queries.values() if (trigger := _trigger(query)) is not None]
    if triggers:
        # One trigger for the model: that of most queries, of equally many the shorter one.
        common = Counter(max(trigger, POLLING) for trigger in triggers)
        trigger = min(common, key=lambda value: (-common[value], value))
        lines += ["[spark]", f'trigger = "{round(trigger * 1000)} ms"', ""]
    return "\n".join(lines)
