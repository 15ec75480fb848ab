"""What ``pip install penstock`` leaves out, and what to say where it is needed."""

from __future__ import annotations

import sys

from penstock.errors import InputError

EXTRAS = {
    "spark": ("Spark", ("pandas", "psutil", "pyarrow", "pyspark", "sqlglot")),
    "dashboard": ("the dashboard's packages", ("fastapi", "pydantic", "starlette", "uvicorn")),
}
"""What ``pip install 'penstock[…]'`` brings, by the extra: how messages call it, and its packages."""


def missing(error: ImportError) -> InputError:
    """Return what to install; raise the error again if that is none of the packages of an extra."""
    package, _, within = (error.name or "").partition(".")
    absent = isinstance(error, ModuleNotFoundError)
    if package == "pyspark" and within and (found := sys.modules.get(package)):
        lacks = f"which has no {error.name}" if absent else f"whose {error.name} lacks what penstock needs"
        return InputError(
            # A distribution of that name there need not be: it may be pyspark-client.
            f"pyspark {found.__version__} is installed, {lacks}",
            hint="penstock runs networks with Spark 4.2 and 4.3: pip install 'penstock[spark]'",
        )
    for extra, (what, packages) in EXTRAS.items():
        if package in packages and absent:
            hint = f"pip install 'penstock[{extra}]'"
            return InputError(f"this needs {what}, and {package} is not installed", hint=hint)
    raise error
