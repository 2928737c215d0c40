# Each target sets up what it needs: a machine with Python ≥ 3.11 and make is enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DEV := $(VENV)/.ready-dev
INSTALL := PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check
export JAX_PLATFORMS ?= cpu

.PHONY: help demo test test-torch lint bench paper paper-quick browser clean

help:
	@echo "make demo   train eight methods on a small federation: a table and a report"
	@echo "make test   all tests"
	@echo "make lint   ruff, mypy --strict, import-linter"
	@echo "make paper  the paper's experiments, and docs/paper.md (paper-quick: a try of minutes)"
	@echo "make bench  speed of aggregation and simulation beside their peers (about an hour)"

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "fedplus needs Python 3.11 or newer, got $$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.11"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) -e .
	@touch $@

$(DEV): $(READY)
	$(INSTALL) -e '.[dev]'
	@touch $@

demo: $(READY)
	@rm -rf runs/demo
	@mkdir -p runs
	$(BIN)/fedplus compare digits-robust --out runs/demo

test: $(DEV)
	$(BIN)/python -m pytest -n auto

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The adapter for PyTorch: 2.13.0 is the CPU build that the tests were run with.
test-torch: $(DEV)
	$(INSTALL) torch==2.13.0
	$(BIN)/python -m pytest tests/flower/test_torch_party.py tests/experiments/test_running.py -k torch

# Debian's Chromium, for the tests of pages; without it (and without FEDPLUS_BROWSER=required) they are skipped.
browser:
	@command -v chromium >/dev/null || \
		{ echo "Installing Chromium for the tests of pages"; apt-get update -qq && apt-get install -y -qq chromium >/dev/null; }

bench: $(DEV)
	$(BIN)/python benchmarks/aggregation.py
	$(BIN)/python benchmarks/simulation.py

# FEDPLUS_DATA=folder where MNIST cannot be downloaded. What is finished is not trained again.
paper: $(DEV)
	$(BIN)/fedplus paper all --results docs/paper
	$(BIN)/python docs/paper_page.py

paper-quick: $(DEV)
	$(BIN)/fedplus paper all --quick

clean:
	rm -rf $(VENV) .venv-* .pytest_cache .mypy_cache .ruff_cache .hypothesis
