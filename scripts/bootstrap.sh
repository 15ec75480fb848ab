#!/bin/sh
# Install uv into .tools where the machine has none.
set -eu
uv=$1
if command -v "$uv" >/dev/null 2>&1; then
    exit 0
fi
echo "no uv found: installing one into .tools" >&2
if ! python3 -m venv .tools 2>/dev/null; then
    # some systems ship Python without ensurepip
    python3 -m venv --without-pip .tools
    python3 -m pip --python .tools/bin/python install --quiet uv
    exit 0
fi
.tools/bin/pip install --quiet --disable-pip-version-check uv
