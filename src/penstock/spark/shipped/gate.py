"""Who may deliver: of two queries that run the same unit only the newer, decided when a batch is committed.

A unit may have copies, each a query with a checkpoint of its own. One of them *leads*: it delivers. The others
*follow*: they compute the same batches, and deliver nothing until they are told to lead.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Iterator
from typing import TypedDict

from penstock.spark.shipped.place import Place, RemotePlace
from penstock.spark.shipped.told import said

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
    led
        Checkpoints of the copies that have led, the one that leads first; empty where a unit has no copies.
    following
        By checkpoint the generation of each copy that follows.
    """

    generation: int
    last: int
    closing: bool
    led: list[str]
    following: dict[str, int]


def owner_of(folder: Place, unit: str) -> Owner:
    """Return which ``generation`` of a unit delivers (0: none), and whether it is ``closing``."""
    none: Owner = {"generation": 0, "last": 0, "closing": False, "led": [], "following": {}}
    with contextlib.suppress(FileNotFoundError):
        # Of one that is damaged nobody knows which generations there were.
        return {**none, **said(owner_file(folder, unit))}  # type: ignore[typeddict-item]
    return none


def owner_file(folder: Place, unit: str) -> Place:
    """Return the place where it is written who delivers for a unit."""
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


def check(folder: Place, unit: str, generation: int, *, begins: bool = True) -> bool:
    """Return whether a generation of a unit leads; False if it follows.

    ``begins``: whether it is to begin a batch, which one that is closing may not.

    Raises
    ------
    Fenced
        If it is to do neither any longer.
    """
    owner = owner_of(folder, unit)
    if generation in owner["following"].values():
        return False
    if owner["generation"] != generation or (begins and owner["closing"]):
        raise Fenced(f"penstock has stopped {unit}")
    return True


def close(folder: Place, unit: str) -> None:
    """Let the generation of a unit that delivers end its batch, and begin no other."""
    with _changed(folder, unit) as owner:
        owner["closing"] = True


def take_over(folder: Place, unit: str, *, deliver: bool = True, copy: str = "") -> int:
    """Let a new generation of a unit deliver (or none), once no commit is under way; return it.

    Nothing follows from then on. ``copy``: the checkpoint of the copy that leads, where a unit has several.
    """
    with _changed(folder, unit) as owner:
        mine = owner["generation"] = owner["last"] + 1 if deliver else 0
        owner["last"], owner["closing"], owner["following"] = max(owner["last"], mine), False, {}
        if copy:
            owner["led"] = [copy, *(each for each in owner["led"] if each != copy)]
    return mine


def follow(folder: Place, unit: str, copy: str) -> int:
    """Let a new generation of a unit follow, on the checkpoint of a copy that is begun anew; return it."""
    with _changed(folder, unit) as owner:
        mine = owner["last"] = owner["following"][copy] = owner["last"] + 1
        owner["led"] = [each for each in owner["led"] if each != copy]
    return mine


def leave(folder: Place, unit: str, copy: str) -> None:
    """Let a copy of a unit follow no longer."""
    with _changed(folder, unit) as owner:
        owner["following"].pop(copy, None)


def lead(folder: Place, unit: str, copy: str) -> int:
    """Let a copy of a unit that follows lead from now on, once no commit is under way; return its generation."""
    with _changed(folder, unit) as owner:
        mine = owner["generation"] = owner["following"].pop(copy)
        owner["led"], owner["closing"] = [copy, *owner["led"]], False
    return mine


@contextlib.contextmanager
def _changed(folder: Place, unit: str) -> Iterator[Owner]:
    """Change who delivers for a unit, while nobody commits."""
    with fence(folder, unit, alone=True):
        owner = owner_of(folder, unit)
        yield owner
        content = {**owner, "pid": os.getpid(), "since": time.time()}
        owner_file(folder, unit).replace(json.dumps(content).encode(), lasting=True)


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
