"""What running Spark tells: event logs and progress reports, read without pyspark and without Java.

`read_telemetry` reads event logs (plain, rolling, compressed), JSON lines of progress and the folders that
`penstock.Listener` writes into one table of batches a query.
"""

from penstock.telemetry.batches import STATE_COMMIT, Batches
from penstock.telemetry.query_log import QueryLog, Run
from penstock.telemetry.read import read_telemetry
from penstock.telemetry.tables import Application, Telemetry

__all__ = ["STATE_COMMIT", "Application", "Batches", "QueryLog", "Run", "Telemetry", "read_telemetry"]
