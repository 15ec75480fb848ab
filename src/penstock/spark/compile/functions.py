"""The functions of python operators: found, and asked which columns and rows they give."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from penstock.errors import InputError
from penstock.network import Operator
from penstock.spark.compile.modules import user_module
from penstock.spark.shipped import ENVELOPE
from penstock.spark.shipped.python_step import ROW, Step

if TYPE_CHECKING:
    import pyarrow as pa


_turn = threading.RLock()


@contextlib.contextmanager
def users_code() -> Iterator[None]:
    """Let what code of users prints in this process go to standard error: standard output is for answers.

    One thread at a time, as the stream is the whole process's.
    """
    with _turn, contextlib.redirect_stdout(sys.stderr):
        yield


def import_function(operator: Operator, *, anew: bool = False) -> Step:
    """Import a python operator's function from the folder of the network's file, the current one or what is installed.

    Its module travels to the hosts by value, so that they need not have it; ``anew``: see `user_module`.

    Raises
    ------
    InputError
        If there is none.
    """
    at = f"operators.{operator.name}.function"
    if operator.function is None:
        raise InputError("a python operator needs a function to run on Spark", at=at, hint="function = 'module:name'")
    place, _, name = operator.function.partition(":")
    if place.partition(".")[0] in sys.stdlib_module_names:
        raise InputError(f"{place!r} is a module of Python's own", at=at, hint="give yours another name")
    try:
        with users_code():
            function: Step = getattr(user_module(place, operator.folder, anew=anew), name)
    except Exception as error:
        # The module is the user's code: whatever it raises is told in one message.
        problem = f"cannot be imported: {type(error).__name__}: {error}"
        raise InputError(problem, at=at, hint="put the module beside the network file") from None
    return function


def load_function(operator: Operator, frame: DataFrame) -> tuple[Step, StructType]:
    """Return a python operator's function with the columns that it gives, without the one that numbers rows.

    The function's attribute ``schema`` (DDL) names them; without one it gives the columns that it takes.
    """
    function = import_function(operator)
    schema = getattr(function, "schema", None)
    if schema is None:
        return function, StructType([field for field in frame.schema.fields if field.name not in ENVELOPE])
    shape = frame.sparkSession.createDataFrame([], schema).schema
    return function, StructType([field for field in shape.fields if field.name != ROW])


def keeps_rows(function: Step) -> bool:
    """Whether a function says that it gives each row that it takes, in the same order."""
    return getattr(function, "rows", None) == "kept"


def parts_rows(function: Step) -> bool:
    """Whether the rows of a batch may be dealt out to several calls of a function, since it says so or keeps rows."""
    return keeps_rows(function) or bool(getattr(function, "parallel", False))


def tells_rows(function: Step, shape: pa.Schema) -> bool:
    """Whether each row that a function gives can be told to come from one that it took, as far as is known by now.

    Parameters
    ----------
    shape
        Arrow schema of the rows that it takes, without envelope. Where neither ``rows`` nor ``schema`` says it, the
        function is asked with a batch without rows.
    """
    import pyarrow as pa

    schema = getattr(function, "schema", None)
    if keeps_rows(function) or schema is None or ROW in schema.replace("`", " ").split():
        return True
    empty = pa.RecordBatch.from_pylist([], schema=shape.append(pa.field(ROW, pa.int64())))
    try:
        with users_code():
            given = list(function(iter([empty])))
    except Exception:
        # It may not be made for batches without rows: then its first batch with rows will tell.
        return True
    return all(ROW in batch.schema.names for batch in given)
