"""Spark's refusals in the user's words."""

from __future__ import annotations

import re
from collections.abc import Collection

from pyspark.errors import PySparkException

from penstock.errors import InputError

NO_CONNECTOR, SAID = "KAFKA_DATA_SOURCE_NOT_ENABLED", "Failed to find data source: kafka"
"""What Spark calls it when a host has not the jars for Kafka, and what Spark 4.2 says, which has no name for it."""

HINTS = {
    "PATH_NOT_FOUND": "make the folder, which may be empty, or mend path in options",
    "AVRO_NOT_LOADED_SQL_FUNCTIONS_UNUSABLE": "name spark-avro in packages or jars; see docs/how-to/kafka.md",
    "FAILED_READ_FILE.NO_HINT": "expected a whole file of its format; a CSV header names the schema's columns in order",
}
"""What to do about some of Spark's errors."""


INNER = re.compile(r", `__\w+`|`__\w+`, ")
"""Columns of penstock's own, among those that Spark proposes."""


class blame:  # noqa: N801
    """Translate Spark's errors in a block into one that names the table at fault; ``only`` some of them."""

    def __init__(self, at: str, only: Collection[str] | None = None) -> None:
        self.at, self.only = at, only

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        """Translate, or pass over what is none of ours."""
        if isinstance(error, PySparkException):
            disconnected = error.getCondition() == NO_CONNECTOR or SAID in str(error)
            if self.only is not None and error.getCondition() not in self.only and not disconnected:
                return True
            text = " ".join((error.getMessage() or str(error)).split("\n\nJVM stacktrace")[0].split())
            text = text.split(";\n")[0].split(" SQLSTATE")[0].split(" == SQL")[0]
            text = INNER.sub("", text)
            mend = "mend options, schema or time" if self.at.startswith("sources.") else "mend the SQL"
            hint = HINTS.get(error.getCondition() or "", mend if self.only is None else None)
            if disconnected:
                hint = "name Spark's connector in packages or jars under [spark]; see docs/how-to/kafka.md"
            raise InputError(f"Spark refuses it: {text[:400]}", at=self.at, hint=hint) from None
        return False
