"""A controller's folder: how commands reach it, what it remembers, and who may ask.

``DIR/control`` holds

    lock            held by the controller that runs; a second one is refused
    token           a secret that only the owner can read; who asks for a change shows it
    state.json      what the controller remembers and how things stand, replaced as a whole
    ready           there once the controller takes what is asked for, which it does not while it starts
    history.jsonl   one line a decision; of runs before that were over, history-1.jsonl and so on
    journal.jsonl   one line a plan that was applied, as far as it is needed again: see `penstock.control.state`
    periods.jsonl   in the simulator, one line a period; of long runs the last ones: see `penstock.control.periods`
    requests/ID     what was asked for and is not answered yet, each file written as a whole
    replies/ID      the answers
"""

from __future__ import annotations

import contextlib
import fcntl
import hmac
import json
import os
import secrets
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO

import attrs

from penstock.errors import EngineError, InputError, no_locks, writing
from penstock.files import Document, read_kept, to_json
from penstock.home import HOME, SIMULATED
from penstock.own import own_folder, private, write_private
from penstock.telemetry.runs import ABOUT

HISTORY, JOURNAL = "history.jsonl", "journal.jsonl"
"""Files of lines that are only added to; the state file says how many of them count."""


@attrs.frozen
class Request:
    """What somebody asked for.

    Attributes
    ----------
    identity
        Its name, under which the answer is found.
    kind
        ``move``, ``drain``, ``admit`` or ``stop``.
    given
        What belongs to it.
    """

    identity: str
    kind: str
    given: Document


class Folder:
    """The folder of one controlled network."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory = Path(directory)
        self.path = self.directory / "control"

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the folder: one controller at a time.

        Raises
        ------
        InputError
            If another one runs, or cannot be kept from running, or the folder is another user's.
        """
        try:
            for path in (self.path, self.path / "requests", self.path / "replies"):
                own_folder(path)
            lock = open(self.path / "lock", "a", opener=private)  # noqa: SIM115
        except OSError as error:
            raise InputError(f"cannot be written: {error.strerror}", file=str(self.directory)) from None
        with lock:
            try:
                locked = _locked(lock)
            except OSError as error:
                raise no_locks(error, self.directory) from None
            if not locked:
                raise InputError(
                    "another controller runs here", file=str(self.directory), hint="stop it: penstock stop"
                )
            # What was asked of a controller that is no more gets no answer; others may know its token.
            olds = (self.path / name for name in ("ready", "token"))
            for old in (*olds, *(self.path / "requests").iterdir(), *(self.path / "replies").iterdir()):
                old.unlink(missing_ok=True)
            self._token()
            yield

    @property
    def alive(self) -> bool:
        """Whether a controller runs here."""
        try:
            with open(self.path / "lock") as lock:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            # Another user's cannot be looked at.
            return True
        except OSError:
            # There is none; or the file system has no locks, and so no controller runs there.
            return False
        return False

    def left(self, patience: float) -> bool:
        """Wait for the controller that runs here to end; return whether it has."""
        end = time.monotonic() + patience
        while (alive := self.alive) and time.monotonic() < end:
            time.sleep(0.02)
        return not alive

    @property
    def starting(self) -> bool:
        """Whether a controller runs here that does not take what is asked for yet."""
        return self.alive and not (self.path / "ready").exists()

    def ready(self) -> None:
        """Say that what is asked for is taken from now on."""
        (self.path / "ready").touch(mode=0o600)

    def _token(self) -> str:
        path = self.path / "token"
        try:
            return path.read_text().strip()
        except FileNotFoundError:
            token = secrets.token_hex(16)
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "w") as file:
                file.write(token)
            return token

    def read(self) -> Document | None:
        """Return the state file, or None where there is none.

        Raises
        ------
        InputError
            If it is damaged.
        """
        return read_kept(self.path / "state.json")

    @property
    def age(self) -> float | None:
        """Seconds since the state file was written, or a controller became ready; None where nothing was written."""
        with contextlib.suppress(OSError):
            written = (self.path / "state.json").stat().st_mtime
            with contextlib.suppress(OSError):
                written = max(written, (self.path / "ready").stat().st_mtime)
            return max(0.0, time.time() - written)
        return None

    def write(self, document: Mapping[str, object]) -> None:
        """Replace the state file."""
        write_private(self.path / "state.json", to_json(dict(document)))

    @contextlib.contextmanager
    def noting_failure(self) -> Iterator[None]:
        """Write down why a controller ends that has remembered anything, until one goes on."""
        try:
            yield
        except Exception as error:
            with contextlib.suppress(InputError):
                if (known := self.read()) is not None:
                    self.write({**known, "failed": str(error)})
            raise

    def tell(self, lines: Iterable[Mapping[str, object]], name: str = HISTORY) -> None:
        """Add lines to the history, or to the journal."""
        path, text = self.path / name, _lines(lines)
        if text:
            with writing(path), open(path, "a", encoding="utf-8", opener=private) as file:
                file.write(text)

    @property
    def used(self) -> bool:
        """Whether a controller has remembered anything here."""
        return (self.path / "state.json").exists()

    @property
    def known(self) -> bool:
        """Whether a controller runs here or has remembered anything: not where one was refused before it ran."""
        return self.used or self.alive

    def begin(self, *, keep: bool) -> Path | None:
        """Begin anew; return where the history of the run before is kept from now on, None if it is not."""
        path, number = self.path / HISTORY, 1
        for name in ("state.json", JOURNAL):
            (self.path / name).unlink(missing_ok=True)
        if not keep:
            path.unlink(missing_ok=True)
        if not path.exists():
            return None
        while (aside := path.with_name(f"history-{number}.jsonl")).exists():
            number += 1
        return path.replace(aside)

    def cut(self, length: int, name: str = HISTORY) -> None:
        """Leave only the first lines of the history, or of the journal: what the state file knows of."""
        path, text = self.path / name, _lines(self.history(name)[:length])
        # The next line would become part of one that was cut off.
        if path.exists() and path.read_bytes() != text.encode():
            write_private(path, text)

    def history(self, name: str = HISTORY) -> list[Document]:
        """Return the lines of the history, or of the journal, without those that are cut off or have no time."""
        try:
            lines = (self.path / name).read_bytes().split(b"\n")
        except FileNotFoundError:
            return []
        return [row for line in lines if (row := decision_in(line)) is not None]

    def decisions(self, known: Document) -> list[Document]:
        """Return all decisions: those of the history, and those of which the state file knows not yet what came.

        Of a decision that settles just now the history knows before the state does.
        """
        told, still = known.get("told"), known.get("state", {}).get("open", ())
        return [*self.history()[:told], *(row[0] for row in still)]

    def latest(self, known: Document, count: int) -> list[Document]:
        """Return the last of all decisions; other lines are read only where some do not count."""
        told, still = known.get("told"), known.get("state", {}).get("open", ())
        last: list[tuple[int, bytes]] = []
        with contextlib.suppress(FileNotFoundError), open(self.path / HISTORY, "rb") as file:
            last = [*deque(enumerate(file, 1), count)]
        rows = [row for _, line in last if (row := decision_in(line)) is not None]
        # Damaged lines are not counted, and what the state knows not yet is told as open.
        if len(rows) < len(last) or (told is not None and last and last[-1][0] > told):
            return self.decisions(known)[-count:]
        return [*rows, *(row[0] for row in still)][-count:]

    def requests(self) -> list[Request]:
        """Take what was asked for; what shows a wrong token is answered with a refusal, and nothing else happens."""
        token, found = self._token(), []
        for path in sorted((self.path / "requests").glob("*.json")):
            try:
                document = json.loads(path.read_bytes())
                identity, kind = path.stem, str(document["kind"])
                shown = str(document.get("token", ""))
            except (ValueError, KeyError, TypeError, OSError):
                path.unlink(missing_ok=True)
                continue
            path.unlink(missing_ok=True)
            if not hmac.compare_digest(shown.encode(errors="surrogatepass"), token.encode()):
                self.reply(identity, {"done": False, "why": "wrong token"})
                continue
            found.append(Request(identity, kind, document))
        return found

    def reply(self, identity: str, document: Mapping[str, object]) -> None:
        """Answer a request."""
        write_private(self.path / "replies" / f"{identity}.json", to_json(dict(document)))

    def ask(self, kind: str, given: Document, patience: float = 30.0) -> Document:
        """Ask the controller that runs here, and return its answer; it looks for requests once a period.

        Raises
        ------
        InputError
            If none runs here, the token cannot be read, or what is asked for is wrong.
        EngineError
            If it does not answer; unless it had taken the request, it never will.
        """
        if not self.alive:
            raise InputError(
                "no controller runs here", file=str(self.directory), hint="start one: penstock control NETWORK …"
            )
        try:
            token = (self.path / "token").read_text().strip()
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror}", file=str(self.path / "token")) from None
        with contextlib.suppress(InputError, AttributeError, TypeError):  # a damaged state tells nothing of its looks
            patience = max(patience, 2 * ((self.read() or {}).get("status") or {}).get("every", 0.0))
        identity = f"{time.time_ns():020d}-{secrets.token_hex(4)}"
        request = self.path / "requests" / f"{identity}.json"
        write_private(request, json.dumps({**given, "kind": kind, "token": token}))
        answer, end = self.path / "replies" / f"{identity}.json", time.monotonic() + patience
        alive = True
        while alive and time.monotonic() < end:
            # It may answer as the last thing that it does.
            alive = self.alive
            if answer.exists():
                document: Document = json.loads(answer.read_bytes())
                answer.unlink(missing_ok=True)
                if document.pop("wrong", False):
                    raise InputError(document["why"])
                return document
            time.sleep(0.02)
        try:
            request.unlink()
        except FileNotFoundError:
            came = "what came of it will be in: penstock history"
        else:
            came = "nothing was changed"
        starting = "is still starting" if self.starting else f"did not answer within {patience:g} s"
        what = starting if alive else "has ended meanwhile"
        raise EngineError(f"the controller in {self.directory} {what} ({came})")


def decision_in(line: bytes) -> Document | None:
    """Return the decision in a line of a history; None where it is damaged, or none."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) and isinstance(row.get("time"), int | float) else None


def _lines(rows: Iterable[Mapping[str, object]]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _locked(lock: IO[str]) -> bool:
    """Take a lock; who only looks whether it is held lets it go at once."""
    for _ in range(10):
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        time.sleep(0.02)
    return False


def _newest(idle: Iterable[Folder]) -> list[Folder]:
    """Return folders, of each network the one written last: its run's, or the simulated one's beside it."""
    found: dict[Path, Folder] = {}
    for folder in sorted(idle, key=lambda each: -(each.age or 0.0)):
        found[folder.directory.with_name(folder.directory.name.removesuffix(SIMULATED))] = folder
    return sorted(found.values(), key=lambda each: each.directory)


def folder_of(directory: str | None) -> Folder:
    """Return the folder that a command means: the one named, or the only one under ``.penstock``.

    Of those of one network, without a controller at work, that is the one written last.

    Raises
    ------
    InputError
        If there is none, or more than one.
    """
    if directory is not None:
        found = [Folder(directory)]
    else:
        found = [Folder(path.parent) for path in sorted(Path(HOME).glob("*/control"))]
    known = [folder for folder in found if folder.known]
    if not known:
        where, hint = directory or HOME, "start one: penstock control NETWORK …"
        if directory is not None and (Path(directory) / ABOUT).is_file():
            hint = f"this is the folder of a penstock run: penstock dashboard {directory}"
        raise InputError("no controller has run here", file=where, hint=hint)
    alive = [folder for folder in known if folder.alive] or _newest(known)
    if len(alive) == 1:
        return alive[0]
    named = ", ".join(str(folder.directory) for folder in alive)
    raise InputError(f"{len(alive)} controllers have folders here", file=HOME, hint=f"name one: {named}")
