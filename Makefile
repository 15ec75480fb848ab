# Two commands do everything on a fresh machine: `make demo` and `make test`.
UV := $(shell command -v uv 2>/dev/null || echo .tools/bin/uv)
export UV_PROJECT_ENVIRONMENT ?= .venv
READY := $(UV_PROJECT_ENVIRONMENT)/.ready
# Tests on Spark wait for much of their time: two cores are busy with three at once.
TESTS := $(UV) run --no-sync pytest -q -m "not slow" -n 3 --dist loadfile --no-loadscope-reorder

.PHONY: demo test helpers nightly check versions lint docs site package setup help kafka kafka-stop clicks-on-kafka cluster cluster-stop

help: ## show the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 10

demo: setup ## calibrate, predict, place, run and compare on two embedded Spark hosts
	@$(UV) run --no-sync penstock demo

test: setup helpers ## the tests that CI runs
	$(TESTS)

helpers: setup # what tests can do without: Kafka and its connector, and an archive of classes
	@$(UV) run --no-sync python scripts/kafka.py fetch & $(UV) run --no-sync penstock hosts prepare; wait

nightly: setup ## all tests, also the long ones: 500 random networks on Spark, 20 kills
	PENSTOCK_EXAMPLES=10 PENSTOCK_NETWORKS=500 PENSTOCK_SMALL_NETWORKS=100 PENSTOCK_KILLS=20 PENSTOCK_DIFFERENTIAL_KILLS=20 $(UV) run --no-sync pytest -q

versions: setup ## run the tests of the Spark engine on each version of Spark, and write docs/reference/versions.md
	$(UV) run --no-sync python scripts/versions.py

mutation: setup ## change code in small ways and see whether its tests notice; hours (ROOMS="verify" takes minutes)
	$(UV) sync --locked --quiet --inexact --group mutation
	$(UV) run --no-sync python scripts/mutation.py $(ROOMS)

lint: setup ## format, lint, types, import rules
	$(UV) run --no-sync ruff format --check .
	$(UV) run --no-sync ruff check .
	$(UV) run --no-sync mypy
	$(UV) run --no-sync lint-imports

check: setup ## what CI runs: lint and tests, beside each other
	@$(MAKE) -j 2 lint test

docs: setup ## rewrite what is generated in the documentation
	$(UV) run --no-sync python scripts/docs.py

site: setup ## build the documentation's pages into site/
	$(UV) sync --locked --quiet --inexact --group docs
	$(UV) run --no-sync python scripts/site.py

package: setup ## build wheel and sdist into dist/, check them, and try the wheel in an environment of its own
	$(UV) sync --locked --quiet --inexact --group release
	sh scripts/package.sh $(UV)

kafka: setup ## fetch Kafka through Maven and start a broker on loopback; `make kafka-stop` ends it
	@$(UV) run --no-sync python scripts/kafka.py start

clicks-on-kafka: kafka ## put clicks into a topic, count them on two Spark hosts, show the counts in another topic
	@. .tools/kafka/run/client.env && cd $(CURDIR) && \
	$(UV) run --no-sync python examples/clicks-on-kafka/clicks.py feed && \
	$(UV) run --no-sync penstock run examples/clicks-on-kafka/network.toml --cluster examples/clicks-on-kafka/cluster.toml \
	  --placement views=h1,counted=h2 --once && \
	$(UV) run --no-sync python examples/clicks-on-kafka/clicks.py show

cluster: setup ## start a Spark cluster on loopback: master, two workers, Connect server; `make cluster-stop` ends it
	@$(UV) run --no-sync python scripts/cluster.py start

cluster-stop:
	@$(UV) run --no-sync python scripts/cluster.py stop

kafka-stop:
	@$(UV) run --no-sync python scripts/kafka.py stop

setup: $(READY)

$(READY): pyproject.toml uv.lock
	@sh scripts/bootstrap.sh $(UV)
	@sh scripts/sync.sh $(UV)
	@touch $@
