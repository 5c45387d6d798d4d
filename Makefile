# `make` lists the commands. They need Python 3.11+ with venv, make and git. Everything else is fetched into
# .venv and .cache on first use.

SHELL := /bin/sh
VENV := .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest
GENERATORS := $(wildcard tools/generate_*.py)
TYPED := pyspark_rocketmq broker_stub tests tools

# Python for the virtual environment; by default python3 of the PATH, else the newest python3.x.
PYTHON ?=
# Version of the real brokers of `make test-real`, or `all`. REQUIRE_REAL=1 fails instead of skipping.
REAL ?= 5.3.3
REQUIRE_REAL ?=
REAL_ENV = REAL="$(REAL)" REQUIRE_REAL="$(REQUIRE_REAL)"
REAL_TESTS := real and not chaos and not slow and not bench
JAVA_SCENARIOS := $(wildcard tests/real/test_java_*.py)
# Files for `make test`; by default all.
TESTS ?=
# Releases of PySpark that `make test-compat` installs, each in its own environment, and the tests that it runs.
COMPAT ?= $(sort $(basename $(notdir $(wildcard conf/pyspark/*.txt))))
COMPAT_TESTS := tests/spark/test_session.py tests/spark/test_batch.py tests/spark/test_stream.py
# Parts of `make bench`, each a file of tests/bench. BENCH_MESSAGES and BENCH_ROUNDS scale them. The part `sink` has a
# broker of its own, so it is first: then the broker of the other parts does not run yet.
BENCH ?= sink memory single disk decoder push triggers planning monitor stub core
KAFKA ?=
# Parts that compare with Kafka: reading, and writing if BENCH has the part `sink`, then without reading if it is alone.
KAFKA_BENCH = $(if $(filter-out sink,$(BENCH)),kafka) $(if $(filter sink,$(BENCH)),kafka_sink)
# Rooms whose mutants `make mutants` runs (by default all), how many of each, and the processes at once.
ROOM ?=
MUTANTS ?= 300
SEED ?= 1
JOBS ?= 1
# Set: `make release` is no rehearsal.
APPLY ?=
# Commit with which `make bench-versus` compares the working tree, and the parts that it runs.
OLD ?= HEAD~1
VERSUS ?= memory single decoder triggers
# Constraints for pip in an environment that is named after a release of PySpark.
PINS := $(wildcard conf/pyspark/$(notdir $(VENV)).txt)

# Spark starts workers with this Python; without it, with any python3 of the PATH.
SPARK_ENV = JAVA_HOME="$$(tools/find_java.sh $(BIN)/python)" PYSPARK_PYTHON="$(CURDIR)/$(BIN)/python" \
	PYSPARK_DRIVER_PYTHON="$(CURDIR)/$(BIN)/python"

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-fast test-real test-real-ours test-real-java test-compat test-long mutants bench bench-quick bench-kafka bench-versus lint docs notebooks site

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# Ctrl-C ends the demo, which then says so itself, in one line.
demo: $(VENV)/.has-demo ## show an order stream through brokers and Spark, live; NAME_SERVER=host:port uses a real cluster
	@trap : INT; $(SPARK_ENV) $(BIN)/python -m pyspark_rocketmq demo $(NAME_SERVER:%=--name-server '%') || [ $$? -eq 130 ]

test: $(VENV)/.has-test ## test all rooms, the stub broker and Spark; needs nothing but Python
	@echo "==> testing without real brokers"
	@$(SPARK_ENV) $(PYTEST) -m "not real and not chaos and not slow and not bench" $(TESTS)

test-fast: $(VENV)/.has-test ## test everything that needs neither Java nor real brokers
	@$(PYTEST) -m "not spark and not real and not chaos and not slow and not bench"

# Both halves mostly wait, so `make -j2 test-real` takes little more than half the time.
test-real: test-real-ours test-real-java ## test against real brokers (JDK 17, Maven): REAL=5.3.3, another version, or all

test-real-ours: $(VENV)/.has-test
	@echo "==> testing our side against real brokers: $(REAL)"
	@$(REAL_ENV) $(PYTEST) -m "$(REAL_TESTS)" $(JAVA_SCENARIOS:%=--ignore=%)

test-real-java: $(VENV)/.has-test
	@echo "==> testing official Java clients against a real broker and the stub"
	@$(REAL_ENV) $(PYTEST) -m "$(REAL_TESTS)" $(JAVA_SCENARIOS)

# PySpark 4.1 leaves its sockets to the garbage collector; later releases close them.
test-compat: ## test batch and stream on every supported PySpark; COMPAT=4.1 chooses one
	@for version in $(COMPAT); do \
		echo "==> testing with PySpark $$version"; \
		PYTEST_ADDOPTS="-W ignore:unclosed:ResourceWarning" $(MAKE) --no-print-directory test \
			VENV=.cache/compat/$$version TESTS="$(COMPAT_TESTS)" || exit 1; \
	done

test-long: $(VENV)/.has-test ## test everything on all real versions, with long fuzzing; takes hours
	@echo "==> testing everything, on all real versions"
	@$(SPARK_ENV) REAL=all REQUIRE_REAL=1 FUZZ_SECONDS=600 FUZZ_SEED=random \
		$(PYTEST) -m "not bench" --hypothesis-profile=long
	@$(MAKE) --no-print-directory mutants

mutants: $(VENV)/.has-test ## count the changes of the code that no test notices; ROOM="pull decode" chooses rooms, hours for all
	@echo "==> running mutants"
	@nice $(BIN)/python tools/mutate.py --mutants $(MUTANTS) --seed $(SEED) --jobs $(JOBS) $(ROOM)

bench: $(VENV)/.has-test ## measure on a quiet machine, 90 minutes; BENCH="decoder push" chooses parts, KAFKA=1 adds Kafka
	@echo "==> measuring against RocketMQ $(REAL): $(BENCH)"
	@$(SPARK_ENV) REAL="$(REAL)" REQUIRE_REAL=1 $(PYTEST) -m bench -s $(BENCH:%=tests/bench/test_%.py)
	@if [ -n "$(KAFKA)" ]; then $(MAKE) --no-print-directory bench-kafka BENCH="$(BENCH)" KAFKA=; fi

bench-quick: ## measure the essential parts in 3 minutes; writes build/benchmarks
	@BENCH_QUICK=1 $(MAKE) --no-print-directory bench BENCH="memory decoder" KAFKA=

bench-kafka: ## compare with Spark's Kafka source and sink, all on PySpark 4.2; BENCH=sink only the sink
	@$(MAKE) --no-print-directory bench BENCH="$(KAFKA_BENCH)" KAFKA= VENV=.cache/compat/4.2

bench-versus: $(VENV)/.has-test ## compare with OLD=<commit> in alternating rounds; VERSUS="decoder push" chooses parts
	@rm -rf build/versus/$(OLD) && mkdir -p build/versus/$(OLD) && git archive $(OLD) | tar -x -C build/versus/$(OLD)
	@$(SPARK_ENV) $(BIN)/python -m tests.bench.versus build/versus/$(OLD) $(VERSUS)

lint: $(VENV)/.has-dev ## check style, types, import contracts, language, and that generated files are up to date
	@echo "==> ruff";           $(BIN)/ruff check . && $(BIN)/ruff format --check .
	@echo "==> mypy";           $(BIN)/mypy $(TYPED)
	@echo "==> lint-imports";   $(BIN)/lint-imports --no-logo
	@echo "==> check_language"; $(BIN)/python tools/check_language.py
	@for generator in $(GENERATORS); do echo "==> $$generator"; $(BIN)/python $$generator --check || exit 1; done

.PHONY: release
release: $(VENV)/.has-dev ## rehearse a release: checks, the suite, wheel and sdist; APPLY=1 dates, commits and tags, too
	@$(BIN)/python tools/release.py $(if $(APPLY),--apply)

docs: $(VENV)/.has-test ## write the generated files
	@for generator in $(GENERATORS); do echo "==> $$generator"; $(BIN)/python $$generator || exit 1; done

notebooks: $(VENV)/.has-test ## run the notebooks and keep their outputs
	@$(SPARK_ENV) $(BIN)/python tools/execute_notebooks.py

site: $(VENV)/.has-docs ## build the guide site into build/site
	@$(BIN)/python tools/build_site.py build/site

$(BIN)/python:
	@tools/make_venv.sh $(VENV) $(PYTHON)

# One stamp per extra of setup.cfg; a change of setup.cfg installs again.
$(VENV)/.has-%: setup.cfg pyproject.toml $(PINS) | $(BIN)/python
	@echo "==> installing the project with the extra '$*'; the first time takes minutes"
	@$(BIN)/python -m pip install --disable-pip-version-check $(PINS:%=--constraint %) --editable '.[$*]'
	@tools/unpack_pyspark.sh $(BIN)/python
	@touch $@
