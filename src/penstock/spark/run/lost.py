"""Files that a batch is to read and that are gone before it has: Spark would pass over them without a word."""

from __future__ import annotations

import re
from urllib.parse import unquote

from pyspark.errors import PySparkException

from penstock.errors import InputError
from penstock.network import Network, Source
from penstock.spark.compile import Query
from penstock.spark.run.unread import reading
from penstock.spark.shipped.checkpoint import begun_and_ended, files_listed, read_upto
from penstock.spark.shipped.place import LOCAL, literally, place_of, scheme_of
from penstock.spark.shipped.told import manifest_of

OPTION, GONE = "ignoreMissingFiles", "PATH_NOT_FOUND"


def refuse_lost(query: Query, network: Network) -> None:
    """Refuse to go on where files that the query has listed, and has not read to the end of a batch, are gone.

    Of those that are not to be seen here its host is asked, which may see others than this machine does.

    Raises
    ------
    InputError
        Naming one of them.
    """
    for source, files in unseen(query, network):
        try:
            # Of a plan Spark asks whether what it is to read is there.
            _ = query.frame.sparkSession.read.text(files).schema
        except PySparkException as error:
            if error.getCondition() != GONE:
                continue
            pattern = (error.getMessageParameters() or {}).get("path", files[0])
            gone = place_of(re.sub(r"\\(.)", r"\1", pattern)).path
            raise InputError(
                f"{gone} is gone, which a batch of {query.name!r} that was cut off has still to read",
                at=f"sources.{source.name}.options.{OPTION}",
                hint='put it back, or set this to "true" to go on without the rows of such files',
            ) from None


def unseen(query: Query, network: Network) -> list[tuple[Source, list[str]]]:
    """Return the files that a query has listed and not read, and that are not here, by source that may not miss any."""
    checkpoint = query.spec.checkpoint
    begun, ended = begun_and_ended(checkpoint)
    done = begun - (begun > ended)
    if not query.spec.stateful and manifest_of(query.spec.folder, query.name, begun).exists():
        done = begun  # Spark does this one again, but all its rows have left
    found = []
    for source, _, number in reading(network, [query]):
        options = {key.lower(): value.lower() for key, value in source.options.items()}
        if options.get(OPTION.lower()) == "true":
            continue
        since = read_upto(checkpoint, done, query.inputs.index(source.name)) + 1 if done >= 0 else 0
        names = [unquote(uri) for uri, _, _ in files_listed(checkpoint, number, since)]
        files = [literally(name) for name in names if scheme_of(name) not in LOCAL or not place_of(name).exists()]
        if files:
            found.append((source, files))
    return found
