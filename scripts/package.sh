#!/bin/sh
# Build wheel and sdist, check both, and try each in an environment of its own, from outside the repository.
set -eu
uv=${1:-uv}
case $uv in /*) ;; */*) uv=$PWD/$uv ;; esac
rm -rf dist
"$uv" build --quiet --out-dir dist
"$uv" run --no-sync twine check --strict dist/*
version=$("$uv" version --short)
for file in dist/*.whl dist/*.tar.gz; do
    place=$(mktemp -d)
    trap 'rm -rf "$place"' EXIT
    "$uv" venv --quiet --python 3.11 "$place/env"
    "$uv" pip install --quiet --python "$place/env/bin/python" "$PWD/$file"
    log=$PWD/examples/event-log/spark-4.3.zstd
    (
        cd "$place"
        unset PYTHONPATH UV_PROJECT_ENVIRONMENT
        test "$(env/bin/penstock --version)" = "$version"
        env/bin/penstock inspect "$log" >/dev/null 2>&1
        if env/bin/python -c "import pyspark" 2>/dev/null; then echo "pyspark came along" >&2; exit 1; fi
    )
    rm -rf "$place"
    echo "$file: installed alone, penstock $version inspects a log"
done
