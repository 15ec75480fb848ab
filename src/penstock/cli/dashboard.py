"""``penstock dashboard``: one page that shows a run, recorded queries or a plan."""

from __future__ import annotations

from typing import Annotated

import typer


def command(
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[DIR]",
            help="Folder of a run, of inspect --out, or event logs. Default: the newest run in .penstock, as it comes.",
        ),
    ] = None,
    port: Annotated[int, typer.Option("--port", metavar="P", help="Port to listen on; 0: any free one.")] = 8765,
    host: Annotated[
        str,
        typer.Option("--host", metavar="ADDRESS", help="Address to listen on. Others than this machine can see it!"),
    ] = "127.0.0.1",
) -> None:
    """Show a network, its hosts, latency, backlog and decisions on one page, live; ask what if.

    Example: penstock dashboard examples/event-log/spark-4.3.zstd --port 8765
    """
    from penstock.dashboard.serve import serve

    serve(paths or [], port=port, host=host)
