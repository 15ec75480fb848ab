"""What a run on Spark has left in its folder, read without anything that takes time to import."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import Mapping
from typing import IO

import msgspec

from penstock.cluster import Placement
from penstock.errors import InputError, no_locks
from penstock.files import Document, convert
from penstock.network import Network, meaning
from penstock.spark.shipped import told
from penstock.spark.shipped.place import Place, RemotePlace, place_of
from penstock.telemetry.runs import ABOUT

FORM = 8
"""Of what a run leaves; another version of penstock may have left it otherwise."""

CLAIMED = (
    ("form", "a run of another version of penstock"),
    ("digest", "another network"),
    ("placement", "another placement"),
    ("apart", "a run with other operators apart"),
    ("keep", "a run with other keep fractions"),
    ("plan", "a run that may change what it drops (`control`, `run --plan`), or one that may not,"),
    ("hop", "a run whose rows pass by other ways, or by topics with other partitions,"),
    ("mode", "a run in another mode"),
    ("rates", "a run whose scheduled sources have other rates"),
)
"""What a run must be resumed with, since answers depend on it, and how a difference is told."""


OWN = frozenset(
    (
        "about.json", "aside", "batches", "begun.json", "checkpoints", "control", "ended.json", "epoch", "errors",
        "fences", "forecasts.json", "history.json", "intents", "keep.json", "knobs", "latency", "limits", "lock",
        "logs", "meters", "moments.json", "owners", "pace.json", "progress", "rates", "recalled", "run.json",
        "sessions.json", "sinks", "tables",
    )
)  # fmt: skip
"""What a run writes into its folder, where a person may well keep a report beside it."""


class UnitRow(msgspec.Struct):
    """Where a unit runs, in the file of what runs in a folder."""

    host: str
    copies: dict[str, str] = {}


class ClaimFile(msgspec.Struct):
    """The file of what runs in a folder, as far as it is looked at before hosts are there."""

    network: str
    placement: dict[str, str]
    units: list[UnitRow] = []


def claimed(folder: str) -> Document | None:
    """Return what runs in a folder, if anything does.

    Raises
    ------
    InputError
        If it is no folder, cannot be reached, or its file is not what a run writes.
    """
    hint = "name another --directory"
    try:
        document: Document = json.loads((place_of(folder) / "run.json").read())
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError, OSError) as error:
        why = str(getattr(error, "strerror", None) or error).partition("\n")[0]
        raise InputError(f"cannot be read: {why}", file=folder, hint=hint) from None
    try:
        convert(document, ClaimFile, "")
    except InputError as error:
        why = f"is not what penstock run writes: {error}"
        raise InputError(why, file=os.path.join(folder, "run.json"), hint=hint) from None
    return document


def said(file: Place) -> Document:
    """Return what a file of a run's folder says in JSON.

    Raises
    ------
    InputError
        If it says nothing of the kind.
    FileNotFoundError
        If there is none.
    """
    try:
        return told.said(file)
    except told.Damaged:
        raise damaged(file) from None


def damaged(file: Place) -> InputError:
    """Return the error for a file of a run's folder that does not hold what was written there."""
    return InputError("is damaged", file=file.path, hint="put it back from a copy, or name another --directory")


def going_on(folder: str, network: Network, *, held: bool = False) -> Document | None:
    """Return what runs in a folder, if anything does; it is this network, and no penstock works there now.

    ``held``: one does, and is known.

    Raises
    ------
    InputError
        As `claimed`, or if another penstock or another network runs there.
    """
    place = place_of(folder)
    if not held and not isinstance(place, RemotePlace):
        # Whoever takes the folder makes the file.
        with contextlib.suppress(OSError), open((place / "lock").path) as file:
            lock(file, folder, fcntl.LOCK_SH)
    there = claimed(folder)
    if there is not None:
        refuse_others(there, {"form": FORM, "digest": digest(meaning(network))}, folder)
    return there


def has_run(folder: str) -> bool:
    """Whether a run is in a folder, as far as that can be seen from here."""
    with contextlib.suppress(OSError, ValueError, ImportError):
        return (place_of(folder) / "run.json").exists()
    return False


def set_aside(folder: str) -> str | None:
    """Make room for a run where a simulated controller has been; return where its files are now, None: none were there.

    Who looks on would take its decisions for those of the run.

    Raises
    ------
    InputError
        If the controller works still, or its files cannot be moved.
    """
    place = place_of(folder)
    control = place / "control"
    # A controller's files are always on this machine.
    if isinstance(place, RemotePlace) or not (control / ABOUT).exists() or (place / "run.json").exists():
        return None
    number = 1
    while (aside := place / f"control-simulated-{number}").exists():
        number += 1
    try:
        with contextlib.ExitStack() as stack:
            with contextlib.suppress(FileNotFoundError):
                # Held while they move, so that none begins meanwhile.
                _look(stack.enter_context(open((control / "lock").path)))
            control.move(aside)
    except BlockingIOError:
        hint = "stop it (penstock stop), or name another --directory"
        raise InputError("a simulated controller works in this folder", file=folder, hint=hint) from None
    except OSError as error:
        raise InputError(
            f"cannot be moved: {error.strerror}", file=control.path, hint="name another --directory"
        ) from None
    return aside.path


def _look(lock: IO[str]) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:
        # A file system without locks has no controller at work.
        pass


def refuse_others(there: Document, mine: Mapping[str, object], folder: str) -> None:
    """Refuse what runs in a folder where it differs in what is known of mine.

    Raises
    ------
    InputError
        Naming what differs.
    """
    for key, what in CLAIMED:
        if key in mine and there.get(key) != mine[key]:
            was = f" ({there['network']!r})" if key == "digest" else ""
            raise InputError(f"{what}{was} runs in this folder", file=folder, hint="name another --directory")


def lock(file: IO[str], folder: str, kind: int = fcntl.LOCK_EX) -> None:
    """Lock a run's folder by a file in it, until that is closed.

    Raises
    ------
    InputError
        If another penstock has locked it, or nobody can.
    """
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        raise InputError("another penstock runs in this folder", file=folder, hint="name another --directory") from None
    except OSError as error:
        raise no_locks(error, folder) from None


def check_output(path: str, folder: str, at: str) -> None:
    """Refuse a file to write that is one of a run's own.

    Raises
    ------
    InputError
        Naming the option ``at`` and the file.
    """
    inside = os.path.relpath(os.path.realpath(path), os.path.realpath(place_of(folder).path))
    if inside.partition(os.sep)[0] in OWN:
        raise InputError("is a file of the run's own", file=path, at=at, hint="give it another name")


def placement_of(document: Document) -> Placement:
    """Return the placement that a folder's run has."""
    return Placement(document["placement"])


def hosts_of(document: Document) -> set[str]:
    """Return the hosts on which the units of a folder's run lie, also those that were attached to it."""
    return {host for unit in document.get("units", ()) for host in (unit["host"], *unit.get("copies", {}).values())}


def digest(text: str) -> str:
    """Return a short text that stands for a long one."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
