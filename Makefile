# Two commands do everything on a fresh machine: `make demo` and `make test`.
UV := $(shell command -v uv 2>/dev/null || echo .tools/bin/uv)
export UV_PROJECT_ENVIRONMENT ?= .venv
READY := $(UV_PROJECT_ENVIRONMENT)/.ready

.PHONY: demo test check lint docs setup help

help: ## show the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 10

demo: setup ## calibrate, predict, place, run and compare on two embedded Spark hosts
	@$(UV) run --no-sync penstock demo

test: setup ## all tests
	$(UV) run --no-sync pytest -q

lint: setup ## format, lint, types, import rules
	$(UV) run --no-sync ruff format --check .
	$(UV) run --no-sync ruff check .
	$(UV) run --no-sync mypy
	$(UV) run --no-sync lint-imports

check: lint test ## what CI runs: lint and all tests

docs: setup ## rewrite what is generated in the documentation
	$(UV) run --no-sync python scripts/docs.py

setup: $(READY)

$(READY): pyproject.toml uv.lock
	@sh scripts/bootstrap.sh $(UV)
	@sh scripts/sync.sh $(UV)
	@touch $@
