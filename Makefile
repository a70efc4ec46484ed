# Targets for people; CI runs the same ones. Every target creates what it needs.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: help demo tournament test fast kills faults fuzz soak check lint docs bench bench-long generate trace clean

help:  ## List the targets
	@sed -n 's/^\([a-z-]*\):.*##  */\1\t/p' $(MAKEFILE_LIST) | expand -t 14

demo: $(READY)  ## Start the service with simulated visitors and print the address of its dashboard; Ctrl-C stops it
	$(BIN)/rankloop demo

tournament: $(READY)  ## Compare the policies of the cascade family: a table, and a figure in results/tournament
	$(BIN)/rankloop simulate examples/tournament.yaml --out results/tournament

test: $(READY)  ## Run all tests
	$(BIN)/python -m pytest -n auto -q

fast: $(READY)  ## Run the tests that are not marked as slow
	$(BIN)/python -m pytest -n auto -q -m "not slow"

LONG := $(BIN)/python -m pytest -q --log-cli-level=INFO  # prints the numbers that docs/explanation/reliability.md reports

kills: $(READY)  ## Kill the process with SIGKILL, 200 times in process and 50 times over HTTP (minutes)
	RANKLOOP_KILLS=200 RANKLOOP_HTTP_KILLS=50 $(LONG) tests/test_crash.py tests/test_faults.py -k killed

faults: $(READY)  ## Stop the database, fill the disk and tear the log, 20 times each; simulate 10,000 schedules of faults (minutes)
	RANKLOOP_FAULTS=20 $(LONG) tests/test_faults.py -k "not killed"
	RANKLOOP_SCHEDULES=10000 $(BIN)/python -m pytest -n auto -q tests/test_fault_simulation.py

fuzz: $(READY)  ## Send requests generated from the OpenAPI document (up to ten minutes)
	RANKLOOP_FUZZ=600 $(LONG) tests/test_service_fuzz.py

soak: $(READY)  ## Run visitors at half of the service's capacity, then slow clients and overload; replay the log (half an hour)
	$(BIN)/python -m bench.soak

check: lint test  ## Run everything that CI checks, except the build of the site

lint: $(READY)  ## Check style, types, import contracts, generated pages, and the counts of type decisions and of Any
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tools.generate --check
	$(BIN)/python -m tools.type_decisions --quiet --max 7 --max-any 17

generate: $(READY)  ## Rewrite what follows from the code: docs/reference, tables of other pages, the site's list of pages
	$(BIN)/python -m tools.generate

docs: generate  ## Build the documentation as a site in site/; a broken link fails
	$(BIN)/zensical build --strict --clean

trace: $(READY)  ## Print the files and functions that one rank request and one feedback pass through
	$(BIN)/python -m tools.trace_request

bench: $(READY)  ## Measure ratios side by side on this machine
	$(BIN)/python -m bench

bench-long: $(READY)  ## Replay a log of a million decisions, then load the service for five minutes (a quarter of an hour)
	$(BIN)/python -m bench.replay 1000000
	$(BIN)/python -m bench.service 300

clean:  ## Remove everything that the other targets created
	rm -rf $(VENV) .cache results site build dist

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "rankloop needs Python 3.11 or newer; choose one with PYTHON=...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@
