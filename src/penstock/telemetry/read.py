"""Reading logs into tables: each log is one pass over its lines, in bounded memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from penstock.errors import InputError
from penstock.telemetry.applications import applications
from penstock.telemetry.assemble import queries
from penstock.telemetry.book import Book
from penstock.telemetry.events import Unreadable
from penstock.telemetry.files import find_logs
from penstock.telemetry.parts import Unbegun
from penstock.telemetry.reader import ENABLED, Reader, Report
from penstock.telemetry.runs import ABOUT
from penstock.telemetry.tables import Telemetry


def read_telemetry(paths: Sequence[str], report: Report = lambda _, __: None) -> Telemetry:
    """Read the logs at these paths.

    Parameters
    ----------
    paths
        Event logs, folders with them, progress as JSON (lines, pretty-printed objects, an array, or within the log of a
        driver), folders of our listener, ``-``.
    report
        Told which log is read, and the share of all bytes that has been read.

    Raises
    ------
    InputError
        If a path does not exist, or none holds a batch of a streaming query.
    """
    logs = find_logs(paths)
    total = max(sum(log.size for log in logs), 1)
    books: list[Book] = []
    warnings: list[str] = []
    empty: list[tuple[str, str, str]] = []
    done = lines = 0
    for log in logs:
        book = Book(log.name)
        before = done
        reader = Reader(log, lambda name, read, before=before: report(name, min((before + read) / total, 1.0)))  # type: ignore[misc]
        for event in reader:
            try:
                book.take(event)
            except Unreadable as error:
                reader.refuse(str(error))
        done += log.size
        lines += reader.lines
        if book.columns or book.known:
            books.append(book)
            warnings += [*reader.warnings(), *book.warnings()]
        else:
            empty.append((log.name, *reader.nothing()))
    found, unbegun = queries(books)
    if not found:
        raise _nothing(paths, empty, [query for query in unbegun if query.error is not None])
    return Telemetry(
        applications=applications(books),
        queries=found,
        warnings=tuple(warnings),
        skipped=(*(f"{name}: {why}" for name, why, _ in empty), *map(str, unbegun)),
        lines=lines,
    )


def _nothing(paths: Sequence[str], empty: Sequence[tuple[str, str, str]], failed: Sequence[Unbegun]) -> InputError:
    """Return the error that no log has a batch, with each log named once: name, why, and what to do about it.

    Queries that failed at once say why there is no batch, and stand for the rest.
    """
    given = ", ".join(map(str, paths[:3]))
    for path in paths:
        if (Path(path) / ABOUT).is_file():
            hint = f"this is the folder of a penstock run: penstock dashboard {path}"
            return InputError("expected logs of Spark", file=path, hint=hint)
    if failed:
        why = "; ".join(map(str, failed[:3])) + ("; …" if len(failed) > 3 else "")
        return InputError(f"nothing could be read: {why}", file=given)
    if len(empty) < 2:
        _, why, hint = empty[0] if empty else ("", "there is no batch of a streaming query in it", ENABLED)
        return InputError(f"nothing could be read: {why}", file=given, hint=hint)
    why = "; ".join(f"{name}: {why}" for name, why, _ in empty[:3]) + ("; …" if len(empty) > 3 else "")
    return InputError(f"nothing could be read: {why}", file=given if len(paths) == 1 else None, hint=empty[0][2])
