"""``penstock status``, ``move``, ``drain``, ``stop`` and ``history``: what reaches a controller at work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli import common, options
from penstock.cli.control import DirectoryArgument, DryOption
from penstock.cli.decisions import show_history, told
from penstock.errors import Infeasible, InputError
from penstock.files import Document

if TYPE_CHECKING:
    from penstock.control.folder import Folder


CLOSING = 120.0
"""Seconds at most that who stops a controller waits for the end of what it runs, so that another may begin."""

LATE = 5.0
"""Seconds after which it is said when a controller that runs last looked; it usually writes each second."""


def status(directory: DirectoryArgument = None, json: options.JsonOption = False) -> None:
    """Show a controlled network: hosts, operators, latency, and whether its controller runs.

    Example: penstock status
    """
    from penstock.control.folder import folder_of

    folder = folder_of(directory)
    with _readable(folder):
        _status(folder, json)


def _status(folder: Folder, json: bool) -> None:
    known = folder.read() or {}
    age = folder.age
    document: Document = {
        "directory": str(folder.directory),
        "alive": folder.alive,
        "starting": folder.starting,
        "over": bool(known.get("over")),
        **({"failed": known["failed"]} if "failed" in known and not folder.alive else {}),
        **({} if age is None else {"looked": age}),
        **known.get("status", {}),
        "last": folder.latest(known, 5),
    }
    if json:
        common.answer(document)
        return
    common.say(f"the controller in {document['directory']} {_stands(document)}")
    if "time" not in document:
        return
    on: dict[str, list[str]] = {}
    for name, row in document["operators"].items():
        on.setdefault(row["host"], []).append(name + ("*" if name in document["moving"] else ""))
    rows = [
        [
            name,
            "down" if name in document["down"] else "silent" if name in document.get("silent", ()) else row["busy"],
            len(on.get(name, ())),
            ", ".join([*on.get(name, ())[:8], *["…"] * (len(on.get(name, ())) > 8)]),
        ]
        for name, row in document["hosts"].items()
    ]
    common.table(f"at {document['time']:.6g} s", ["host", "busy", "operators", ""], rows)
    if document["moving"]:
        common.say("*: is moving")
    sinks = [[name, row["count"], row["mean"], row["p99"], row["worst"]] for name, row in document["sinks"].items()]
    common.table("latency in the last period, seconds", ["sink", "rows", "mean", "p99", "worst"], sinks)
    waiting = "unknown" if document["waiting"] is None else f"{document['waiting']:.0f}"
    common.say(f"{waiting} rows wait; {_steered(document)}; {document['decisions']} decisions")


def _stands(document: Document) -> str:
    """Return in words whether a controller runs."""
    if document["starting"]:
        return "is starting"
    if document["alive"]:
        age = document.get("looked", 0.0)
        return f"runs, but last looked {age:.0f} s ago" if age > max(LATE, 3 * document.get("every", 0.0)) else "runs"
    if document["over"]:
        return "is over"
    return f"failed: {document['failed']}" if "failed" in document else "was killed: start it again"


def _steered(document: Document) -> str:
    """Return in words what is kept, and what limits and triggers are in force besides the run's own."""
    dropped = ", ".join(f"{share:.0%} of {name}" for name, share in document["keep"].items() if share < 1)
    # An earlier version did not write down the last two.
    limits = [f"{rate:.4g}/s of {source}" for source, rate in document.get("limits", {}).items()]
    usual, steps = document.get("trigger"), document.get("triggers", {}).items()
    triggers = [f"{step:.3g} s on {host}" for host, step in steps if step != usual]
    parts = [f"kept: {dropped or 'everything'}"]
    parts += [f"read at most {', '.join(limits)}"] if limits else []
    parts += [f"batches every {', '.join(triggers)}, else {usual:.3g} s"] if triggers else []
    return "; ".join(parts)


def move(
    operator: Annotated[str, typer.Argument(metavar="OP", help="Operator, or a replica of it (op#2).")],
    host: Annotated[str, typer.Argument(metavar="HOST", help="Host to move it to.")],
    directory: DirectoryArgument = None,
    dry: DryOption = False,
    json: options.JsonOption = False,
) -> None:
    """Move an operator of a running network to another host.

    Example: penstock move matched h2
    """
    _ask("move", {"operator": operator, "host": host, "dry": dry}, directory, json)


def drain(
    host: Annotated[str, typer.Argument(metavar="HOST", help="Host to empty.")],
    directory: DirectoryArgument = None,
    dry: DryOption = False,
    json: options.JsonOption = False,
) -> None:
    """Move everything off a host, and remove the host.

    Example: penstock drain h2
    """
    _ask("drain", {"host": host, "dry": dry}, directory, json)


def stop(directory: DirectoryArgument = None, json: options.JsonOption = False) -> None:
    """Stop a controller and what it runs.

    Example: penstock stop
    """
    _ask("stop", {}, directory, json)


def history(directory: DirectoryArgument = None, json: options.JsonOption = False) -> None:
    """Show a controller's decisions, with their reasons and effects.

    Example: penstock history
    """
    from penstock.control.folder import folder_of

    folder = folder_of(directory)
    with _readable(folder):
        lines = folder.decisions(folder.read() or {})
        if json:
            common.answer({"directory": str(folder.directory), "decisions": lines})
        else:
            show_history(lines)


@contextmanager
def _readable(folder: Folder) -> Iterator[None]:
    """Say in one error that what a controller left has another form."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError):
        hint = "look at it with the version that wrote it, or begin it again"
        raise InputError("is damaged, or of another version of penstock", file=folder.path, hint=hint) from None


def _ask(kind: str, given: Document, directory: str | None, json: bool) -> None:
    from penstock.control.folder import folder_of

    folder = folder_of(directory)
    answer = folder.ask(kind, given)
    if kind == "stop" and answer["done"] and not folder.left(CLOSING):
        common.say(f"note: the controller in {folder.directory} is still closing what it runs")
    refused = list(answer.get("refused", ()))
    # A dry run does nothing: it says what would be done, or why nothing would. A host may be empty already.
    dry = bool(given.get("dry")) and "decided" in answer
    if (refused or not (answer["decided"] or kind == "drain")) if dry else not answer["done"]:
        raise Infeasible([*refused, answer["why"]][0], **answer)
    if json:
        common.answer(answer)
        return
    what = told(answer) if "decided" in answer else kind
    expected = answer.get("expected", {})
    pause = f", after a pause of about {expected['pause']:.3g} s" if "pause" in expected and not dry else ""
    after = f"; the longest wait becomes {expected['worst']:.3g} s{pause}" if "worst" in expected else ""
    common.say(f"{what}{after}" if "decided" in answer else answer["why"])
