"""``penstock dashboard``: one page that shows a run, recorded queries or a plan."""

from __future__ import annotations

from typing import Annotated

import typer


def command(
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[DIR]",
            help="A run or controller, event logs, or what inspect --out wrote. Default: the newest run in .penstock.",
        ),
    ] = None,
    port: Annotated[int, typer.Option("--port", metavar="P", help="Port to listen on; 0 picks a free one.")] = 8765,
    host: Annotated[
        str,
        typer.Option(
            "--host",
            metavar="ADDRESS",
            help="Address to listen on. With 0.0.0.0, everyone who can reach this machine can watch.",
        ),
    ] = "127.0.0.1",
) -> None:
    """Show a run on one web page: hosts, latency beside its prediction, backlog, decisions. Ask what if, and act.

    Example: penstock dashboard examples/event-log/spark-4.3.zstd --port 8765
    """
    from penstock.dashboard.serve import serve

    serve(paths or [], port=port, host=host)
