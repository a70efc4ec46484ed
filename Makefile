# Verbs for people; CI calls the same ones. Every verb creates what it needs.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: demo tournament test fast kills faults fuzz soak check lint docs bench bench-long generate clean

demo: $(READY)  ## The service with simulated visitors, and the address of its dashboard; Ctrl-C ends it
	$(BIN)/rankloop demo

tournament: $(READY)  ## A tournament of the cascade family: a table, and a figure in results/tournament
	$(BIN)/rankloop simulate examples/tournament.yaml --out results/tournament

test: $(READY)  ## All tests
	$(BIN)/python -m pytest -n auto -q

fast: $(READY)  ## The tests that do not take their time
	$(BIN)/python -m pytest -n auto -q -m "not slow"

LONG := $(BIN)/python -m pytest -q --log-cli-level=INFO  # what was seen is told: docs/explanation/reliability.md has the last numbers

kills: $(READY)  ## Minutes: kill -9, 200 times in process and 50 times over HTTP
	RANKLOOP_KILLS=200 RANKLOOP_HTTP_KILLS=50 $(LONG) tests/test_crash.py tests/test_faults.py -k killed

faults: $(READY)  ## Minutes: a database that stops, a full disk, a torn log, 20 times each
	RANKLOOP_FAULTS=20 $(LONG) tests/test_faults.py -k "not killed"

fuzz: $(READY)  ## Up to ten minutes: requests made from the OpenAPI document
	RANKLOOP_FUZZ=600 $(LONG) tests/test_service_fuzz.py

soak: $(READY)  ## Half an hour: visitors at half of what the service can bear, then a replay
	$(BIN)/python -m bench.soak

check: lint test  ## Everything that CI checks

lint: $(READY)  ## Style, types, layers, generated pages and the counts of decisions by type and of Any
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tools.generate --check
	$(BIN)/python -m tools.type_decisions --quiet --most 7 --most-any 17

generate: $(READY)  ## Rewrite what follows from the code: docs/reference, tables of other pages, the site's list of pages
	$(BIN)/python -m tools.generate

docs: generate  ## Build the documentation as a site in site/; a broken link fails
	$(BIN)/zensical build --strict --clean

bench: $(READY)  ## Ratios measured side by side on this machine
	$(BIN)/python -m bench

bench-long: $(READY)  ## A quarter of an hour: a log of a million decisions, and the service under half of its load for five minutes
	$(BIN)/python -m bench.replay 1000000
	$(BIN)/python -m bench.service 300

clean:
	rm -rf $(VENV) .cache results site build dist

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "rankloop needs Python 3.11 or newer; say which with PYTHON=...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@
