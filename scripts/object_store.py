"""Run an object store that speaks S3, for tests, on the loopback interface: the server of moto.

What Spark needs to use it comes through Maven, into `.tools/s3`: hadoop-aws, and those parts of the AWS SDK that it
touches (20 MB) in place of the whole (600 MB).
"""

from __future__ import annotations

import os
import sys
import urllib.request
from pathlib import Path

import maven
from processes import Server, free_ports

HOME = Path(__file__).resolve().parent.parent / ".tools" / "s3"

SDK = "2.35.4"
JARS = (
    "org.apache.hadoop:hadoop-aws:3.5.0",
    *(f"software.amazon.awssdk:{part}:{SDK}" for part in ("s3", "s3-transfer-manager", "sts", "apache-client")),
    f"software.amazon.awssdk:netty-nio-client:{SDK}",
)
WITHOUT = ("software.amazon.awssdk:bundle", "org.slf4j:slf4j-api", "commons-logging:commons-logging")
"""Spark brings the loggers."""


def fetch() -> None:
    """Fetch the jars for Spark, unless they are there."""
    maven.fetch(HOME, JARS, "what Spark needs for S3", WITHOUT)


class Store:
    """An object store with one bucket that holds everything in memory; a context manager starts and ends it.

    Parameters
    ----------
    folder
        Of its log and pid file.
    """

    def __init__(self, folder: Path) -> None:
        self.port = free_ports(1)[0]
        self._server = Server(folder, "store")

    def __enter__(self) -> Store:
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", self.port]
        self._server.start(command, os.environ).wait(self.port)
        urllib.request.urlopen(urllib.request.Request(f"{self.address}/bucket", method="PUT"), timeout=60).close()  # noqa: S310
        return self

    def __exit__(self, *_: object) -> None:
        self._server.end()

    @property
    def address(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def known(self) -> dict[str, str]:
        """What penstock and Spark read from the environment."""
        return {
            "AWS_ENDPOINT_URL": self.address,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    @property
    def conf(self) -> dict[str, str]:
        """Settings of Spark."""
        return {
            "spark.hadoop.fs.s3a.endpoint": self.address,
            "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
            "spark.hadoop.fs.s3a.path.style.access": "true",
        }
