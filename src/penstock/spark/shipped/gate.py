"""Who may deliver: of two runs over one folder only the newest, decided when a batch is committed."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Iterator

from penstock.spark.shipped.place import Place, RemotePlace

OWNER, FENCE = "owner", "fence"


class Fenced(RuntimeError):
    """Another run delivers here, or none does."""


def owner_of(folder: Place) -> int:
    """Return the generation that delivers in a run's folder, 0 for none."""
    try:
        return int(json.loads((folder / OWNER).read())["generation"])
    except (FileNotFoundError, ValueError):
        return 0


@contextlib.contextmanager
def fence(folder: Place, *, alone: bool) -> Iterator[None]:
    """Hold a run's fence: writers together while they commit, a run that takes over alone.

    On an object store there are no locks: a take-over there counts from the next batch on.
    """
    if isinstance(folder, RemotePlace):
        yield
        return
    import fcntl

    folder.make()
    with open((folder / FENCE).path, "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield


@contextlib.contextmanager
def committing(folder: Place, generation: int) -> Iterator[None]:
    """Allow a commit if this generation delivers; nobody takes over meanwhile.

    Raises
    ------
    Fenced
        If another one does. Nothing of the batch is visible yet, and it is done again when the run goes on.
    """
    with fence(folder, alone=False):
        check(folder, generation)
        yield


def check(folder: Place, generation: int) -> None:
    """Refuse to go on if another generation delivers."""
    if owner_of(folder) != generation:
        raise Fenced("penstock has stopped this run")


def take_over(folder: Place, *, deliver: bool = True) -> int:
    """Let a new generation deliver (or none), once no commit is under way; return it."""
    with fence(folder, alone=True):
        try:
            last = int(json.loads((folder / OWNER).read())["last"])
        except (FileNotFoundError, ValueError, KeyError):
            last = 0
        mine = last + 1 if deliver else 0
        content = {"generation": mine, "last": max(last, mine), "pid": os.getpid(), "since": time.time()}
        (folder / OWNER).replace(json.dumps(content).encode())
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
