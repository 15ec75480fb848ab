"""SQL for which rows a stream lets through, and which windows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from pyspark.sql import DataFrame

from penstock.network import Network, Stream
from penstock.network.windows import check_drop, windows_behind
from penstock.spark.compile.drops import Drops, limit_of_row, limit_since, window_limit
from penstock.spark.compile.sql import bucket, literal, quoted
from penstock.spark.shipped.turn import BUCKETS


def passes(stream: Stream, network: Network, drops: Drops, known: Mapping[str, str] | None = None) -> tuple[str, str]:
    """Return SQL for whether a row is meant for a stream (route), and whether the stream keeps it (drop operator).

    Drops depend on the row's identity only, so that a replay drops the same rows and keep fractions nest. A stream
    that leads to an aggregate drops whole windows, so that results are a subset of the true ones (Tatbul et al.,
    section 3). ``known`` names the columns of `with_knobs`.
    """
    meant = "true"
    if stream.share < 1:
        low = sum(other.share for other in network.outputs(stream.writer) if other.reader < stream.reader)
        place = bucket(f"route {stream.writer}")
        meant = f"{place} >= {round(low * BUCKETS)} AND {place} < {round((low + stream.share) * BUCKETS)}"
    if known and stream.name in known:
        return meant, known[stream.name]
    limit = drops.limit(stream.name)
    if limit is None:
        return meant, "true"
    if not windows_behind(network, stream):
        return meant, f"{bucket(stream.name)} < {limit}"
    return meant, _any_window(stream, network, drops, lambda _start: limit)


def _any_window(stream: Stream, network: Network, drops: Drops, limit: Callable[[str], str]) -> str:
    """Return SQL for whether any window that a row is in passes, by SQL for the limit of a window."""
    check_drop(network, stream, f"keep.{stream.name}")
    (window,) = windows_behind(network, stream)
    micros = round(window[1] * 1e6)
    first = f"(unix_micros(__time) - pmod(unix_micros(__time), {micros}))"
    starts = [f"({first} - {k * micros}L)" for k in range(overlapping(*window))]
    return "(" + " OR ".join(f"{_chance(stream.name, start, window, drops)} < {limit(start)}" for start in starts) + ")"


def _chance(stream: str, start: str, window: tuple[float, float], drops: Drops) -> str:
    """Return SQL for a window's bucket.

    Under a plan, windows that overlap are dropped or kept together: alone, few would be dropped whole before many are.
    """
    if stream in drops.live and (count := overlapping(*window)) > 1:
        start = f"{start} DIV {count * round(window[1] * 1e6)}L"
    return f"pmod(xxhash64({start}, {literal(stream)}), {BUCKETS})"


def with_knobs(
    frame: DataFrame, streams: Sequence[Stream], network: Network, drops: Drops
) -> tuple[DataFrame, dict[str, str]]:
    """Return a frame with a column for each stream whose keep fraction follows a plan, whether it keeps the row.

    The host's properties are read once a row, however many streams and windows ask for them.
    """
    reads, tests, names = [], [], {}
    for stream in streams:
        if stream.name not in drops.live or stream.name in names:
            continue
        number = network.streams.index(stream)
        names[stream.name] = f"__keep{number}"
        if windows_behind(network, stream):
            since, limits = f"__since{number}", f"__limits{number}"
            reads += [f"{drops.since(stream.name)} AS {since}", f"{drops.limits(stream.name)} AS {limits}"]
            test = _any_window(stream, network, drops, partial(window_limit, names=(since, limits)))
        elif drops.timed:
            reads.append(f"{drops.recent(stream.name)} AS __limits{number}")
            test = f"{bucket(stream.name)} < {limit_of_row(f'__limits{number}', drops.listed(stream.name))}"
        else:
            reads.append(f"{drops.limit(stream.name)} AS __limits{number}")
            test = f"{bucket(stream.name)} < __limits{number}"
        tests.append(f"{test} AS {names[stream.name]}")
    if not names:
        return frame, names
    before = [quoted(name) for name in frame.columns]
    return frame.selectExpr(*before, *reads).selectExpr(*before, *tests), names


def overlapping(length: float, slide: float) -> int:
    """Return how many windows a row is in."""
    return max(1, round(length / slide))


def drop_windows(frame: DataFrame, stream: str, window: tuple[float, float], drops: Drops) -> DataFrame:
    """Remove the results of dropped windows (length and slide in s): a row is kept while any of its windows is."""
    start = "unix_micros(window_start)"
    chance = _chance(stream, start, window, drops)
    if stream not in drops.live:
        return frame.filter(f"{chance} < {drops.limit(stream)}")
    # As a column first: within a function of rows there may be no subquery.
    shown = [quoted(name) for name in frame.columns]
    frame = frame.selectExpr(*shown, f"{drops.listed(stream)} AS __listed")
    return frame.filter(f"{chance} < {limit_since(start, '__listed')}").selectExpr(*shown)
