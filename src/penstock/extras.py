"""What an install of penstock alone leaves out, and what to say where it is needed."""

from __future__ import annotations

import sys

from penstock.errors import InputError

EXTRAS = {
    "spark": ("Spark", ("pandas", "psutil", "pyarrow", "pyspark", "sqlglot")),
    "dashboard": ("the dashboard's packages", ("fastapi", "pydantic", "starlette", "uvicorn")),
}
"""What extras bring, by their names: how messages call it, and its packages."""


def install(extra: str) -> str:
    """Return how to install an extra; from the first release on PyPI on, ``penstock`` takes the place of the clone."""
    return f"in a clone of penstock: pip install '.[{extra}]'"


def missing(error: ImportError) -> InputError:
    """Return what to install; raise the error again if that is none of the packages of an extra."""
    package, _, within = (error.name or "").partition(".")
    absent = isinstance(error, ModuleNotFoundError)
    if package == "pyspark" and within and (found := sys.modules.get(package)):
        lacks = f"which has no {error.name}" if absent else f"whose {error.name} lacks what penstock needs"
        return InputError(
            # A distribution of that name there need not be: it may be pyspark-client.
            f"pyspark {found.__version__} is installed, {lacks}",
            hint=f"penstock runs networks with Spark 4.2 and 4.3; {install('spark')}",
        )
    for extra, (what, packages) in EXTRAS.items():
        if package in packages and absent:
            return InputError(f"this needs {what}, and {package} is not installed", hint=install(extra))
    raise error
