"""Who may deliver: of two queries that run the same unit only the newer, decided when a batch is committed."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Iterator
from typing import TypedDict

from penstock.spark.shipped.place import Place, RemotePlace

OWNERS, FENCES = "owners", "fences"


class Fenced(RuntimeError):
    """Another query delivers in place of this one, or none does."""


class Owner(TypedDict):
    """Who delivers for a unit.

    Attributes
    ----------
    generation, last
        The one that delivers (0: none), and the last that was given out.
    closing
        Whether it ends with the batch that runs.
    """

    generation: int
    last: int
    closing: bool


def owner_of(folder: Place, unit: str) -> Owner:
    """Return which ``generation`` of a unit delivers (0: none), and whether it is ``closing``."""
    try:
        found: Owner = json.loads(_owner(folder, unit).read())
    except (FileNotFoundError, ValueError):
        return {"generation": 0, "last": 0, "closing": False}
    return found


def _owner(folder: Place, unit: str) -> Place:
    return folder / OWNERS / f"{unit}.json"


@contextlib.contextmanager
def fence(folder: Place, unit: str, *, alone: bool) -> Iterator[None]:
    """Hold a unit's fence: its writers while they commit, whoever takes it over alone.

    On an object store there are no locks: a take-over there counts from the next batch on.
    """
    if isinstance(folder, RemotePlace):
        yield
        return
    import fcntl

    (folder / FENCES).make()
    with open((folder / FENCES / unit).path, "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield


@contextlib.contextmanager
def committing(folder: Place, unit: str, generation: int) -> Iterator[None]:
    """Allow a commit if this generation of a unit delivers; nobody takes over meanwhile.

    Raises
    ------
    Fenced
        If another one does. Nothing of the batch is visible yet, and it is done again when the unit goes on.
    """
    with fence(folder, unit, alone=False):
        if owner_of(folder, unit)["generation"] != generation:
            raise Fenced(f"penstock has stopped {unit}")
        yield


def check(folder: Place, unit: str, generation: int) -> None:
    """Refuse to begin a batch if another generation of a unit delivers, or this one is closing."""
    owner = owner_of(folder, unit)
    if owner["generation"] != generation or owner["closing"]:
        raise Fenced(f"penstock has stopped {unit}")


def close(folder: Place, unit: str) -> None:
    """Let the generation of a unit that delivers end its batch, and begin no other."""
    with fence(folder, unit, alone=True):
        _owner(folder, unit).replace(json.dumps({**owner_of(folder, unit), "closing": True}).encode())


def take_over(folder: Place, unit: str, *, deliver: bool = True) -> int:
    """Let a new generation of a unit deliver (or none), once no commit is under way; return it."""
    with fence(folder, unit, alone=True):
        last = owner_of(folder, unit)["last"]
        mine = last + 1 if deliver else 0
        content = {
            "generation": mine, "last": max(last, mine), "closing": False, "pid": os.getpid(), "since": time.time(),
        }  # fmt: skip
        _owner(folder, unit).replace(json.dumps(content).encode())
    return mine


def end_with_parent(poll: float = 1.0) -> None:
    """End this Python worker soon after the JVM that started it, whatever it waits for."""
    parent = os.getppid()
    if any(thread.name == "penstock-parent" for thread in threading.enumerate()):
        return

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(poll)
        os._exit(1)

    threading.Thread(target=watch, name="penstock-parent", daemon=True).start()
