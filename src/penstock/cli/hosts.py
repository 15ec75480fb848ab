"""``penstock hosts``: embedded hosts that outlive penstock, and what lets hosts start fast."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli import common, options
from penstock.errors import InputError, locating
from penstock.files import Document
from penstock.home import KEPT

if TYPE_CHECKING:
    from penstock.spark.hosts.kept import Kept

FileOption = Annotated[
    str, typer.Option("--file", metavar="FILE", help="File that names the running hosts; only you can read it.")
]
NamesArgument = Annotated[list[str] | None, typer.Argument(metavar="[HOST]...", help="Hosts to stop; default: all.")]

app = typer.Typer(
    help="Start, list and stop local Spark hosts that outlive penstock; let hosts start fast.\n\n"
    "Example: penstock hosts start --hosts 2",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@app.command("start")
def start(
    cluster_file: options.ClusterOption = None,
    hosts: options.HostsOption = None,
    file: FileOption = KEPT,
    json: options.JsonOption = False,
) -> None:
    """Start hosts and leave them running.

    Example: penstock hosts start --hosts 2
    """
    from penstock.cluster import Cluster, read_cluster
    from penstock.spark.hosts.start import leave_hosts

    if (cluster_file is None) == (hosts is None):
        raise InputError("expected either --cluster or --hosts", hint="--hosts 2")
    cluster = Cluster.uniform(hosts) if hosts is not None else read_cluster(str(cluster_file))
    with common.ending_when_asked(), common.progress() as tell, locating(cluster_file):
        tell("starting hosts", 0.0)
        made = leave_hosts(cluster, file)
    _show({"hosts": {name: _row(kept) for name, kept in made.items()}, "file": file}, json)


@app.command("list")
def show(file: FileOption = KEPT, json: options.JsonOption = False) -> None:
    """List the hosts that were left running.

    Example: penstock hosts list --json
    """
    from penstock.spark.hosts.kept_file import read_kept

    _show({"hosts": {name: _row(kept) for name, kept in read_kept(file).items()}, "file": file}, json)


@app.command("stop")
def stop(names: NamesArgument = None, file: FileOption = KEPT, json: options.JsonOption = False) -> None:
    """Stop hosts that were left running, and whatever runs on them.

    Example: penstock hosts stop h1
    """
    from penstock.spark.hosts.kept_file import end

    ended = end(file, names or None)
    if json:
        common.answer({"stopped": ended, "file": file})
    else:
        common.say(f"stopped {', '.join(ended)}" if ended else "no host ran")


@app.command("prepare")
def prepare(json: options.JsonOption = False) -> None:
    """Keep Spark's classes ready, so that embedded hosts start faster from then on. Needed once.

    Example: penstock hosts prepare
    """
    from penstock.spark.archive import write_archive

    with common.progress() as tell:
        tell("loading what networks need, and writing it down", 0.0)
        file = write_archive()
    size = file.stat().st_size
    if json:
        common.answer({"file": str(file), "bytes": size})
    else:
        common.say(f"Spark's classes are kept in {file} ({size / 2**20:.0f} MB); delete it and hosts start as before")


def _row(kept: Kept) -> Document:
    alive = kept.jvm is not None
    return {"endpoint": f"sc://127.0.0.1:{kept.port}", "pid": kept.pid, "cores": kept.cores, "alive": alive}


def _show(document: Document, json: bool) -> None:
    if json:
        common.answer(document)
        return
    rows = [[name, row["endpoint"], row["pid"], "yes" if row["alive"] else "no"]
            for name, row in document["hosts"].items()]  # fmt: skip
    common.table("hosts left running", ["host", "endpoint", "process", "alive"], rows)
