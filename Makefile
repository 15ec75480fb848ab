# Two commands do everything on a fresh machine: `make demo` and `make test`.
UV := $(shell command -v uv 2>/dev/null || echo .tools/bin/uv)
export UV_PROJECT_ENVIRONMENT ?= .venv

.PHONY: demo test check lint setup help

help: ## show the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 10

demo: setup ## calibrate, predict, place, run and compare on two embedded Spark hosts
	@$(UV) run --no-sync penstock demo

test: setup ## all tests
	$(UV) run --no-sync pytest -q

lint: setup
	$(UV) run --no-sync ruff format --check .
	$(UV) run --no-sync ruff check .
	$(UV) run --no-sync mypy
	$(UV) run --no-sync lint-imports

check: lint test ## what CI runs: lint, types, import rules, all tests

setup: .venv/.ready

.venv/.ready: pyproject.toml uv.lock
	@command -v $(UV) >/dev/null 2>&1 || { python3 -m venv .tools && .tools/bin/pip install --quiet uv; }
	@sh scripts/sync.sh $(UV)
	@touch $@
