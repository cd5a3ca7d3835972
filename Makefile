# The first Python on the path that is new enough and can make an environment. Asking it, not
# `command -v`: a name on the path need not run.
find_python = $(firstword $(shell for p in $(1); do \
	"$$p" -c 'import sys, venv, ensurepip; sys.exit(not $(2))' >/dev/null 2>&1 && echo "$$p"; \
	done))
PYTHON ?= $(call find_python,python3.13 python3.12 python3.11 python3,sys.hexversion >= 0x30b0000)
OLDEST_PYTHON ?= $(call find_python,python3.11 python3.12 python3,0x30b0000 <= sys.hexversion < 0x30d0000)

VENV := .venv
OLDEST := .venv-oldest
TORCH := .venv-torch
# quiet, but for errors
PIP := -m pip --disable-pip-version-check -qq
# what decides about the installed package and its version
META := pyproject.toml src/vicinal/__init__.py
# more arguments for pytest, e.g. `make test ARGS="-k gradient -x"`
ARGS ?=
# the tests over all cores; `SPREAD=` runs them in one process
SPREAD ?= -n auto --dist worksteal

# what test-fast runs
FAST := $(filter-out tests/contracts/test_scikit_learn.py,$(wildcard tests/contracts/test_*.py)) \
	tests/reference tests/core
QUICK := not (slow or long or fuzz or options)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-browser test-dask test-durations test-fast test-gpu test-long test-nojit test-oldest test-torch lint format \
	docs wheel bench bench-all reproduce check-results clean

help: ## say what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) \
	| awk -F ':.*## ' '{printf "make %-14s %s\n", $$1, $$2}'

demo: $(VENV)/.demo ## learn on rings and digits: a table, a picture, report pages and a model in demo/
	$(VENV)/bin/vicinal demo

test: $(VENV)/.test ## run the tests
	$(VENV)/bin/python -m pytest $(SPREAD) --ignore=tests/with_dask $(ARGS)

test-durations: $(VENV)/.test ## run the tests, and keep the slowest fifty in tests/durations.txt
	$(VENV)/bin/python -m pytest $(SPREAD) --durations=50 $(ARGS) | tee /dev/stderr \
	| grep -E '^ *[0-9.]+s (call|setup|teardown) ' > tests/durations.txt

test-fast: $(VENV)/.test ## what all parts keep to, and the formulas: under two minutes
	$(VENV)/bin/python -m pytest -m "$(QUICK)" $(SPREAD) $(FAST) $(ARGS)

test-long: $(VENV)/.test ## many more examples, and mistakes that the tests must find: hours
	$(VENV)/bin/python -m pytest -m "long or fuzz" --hypothesis-profile=explore $(SPREAD) $(ARGS)

test-nojit: $(VENV)/.test ## run the kernels as plain Python, on tiny data
	NUMBA_DISABLE_JIT=1 $(VENV)/bin/python -m pytest -m nojit $(SPREAD) $(ARGS) tests

test-oldest: $(OLDEST)/.test ## run the tests on the oldest supported dependencies
	$(OLDEST)/bin/python -m pytest $(SPREAD) $(ARGS)

test-torch: $(TORCH)/.test ## run the tests that need torch, in an environment of gigabytes
	$(TORCH)/bin/python -m pytest $(SPREAD) tests/with_torch $(ARGS)
	$(TORCH)/bin/python docs/run_code.py howto/torch howto/gpu

test-gpu: $(TORCH)/.test ## run the tests of GPUs on a GPU, with its own speed for the kernels
	$(TORCH)/bin/python -m pytest tests/with_torch/test_cuda.py tests/with_torch/test_gpu_*.py $(ARGS)

test-dask: $(VENV)/.dask ## run the tests that need dask, on clusters of processes: under three minutes
	$(VENV)/bin/python -m pytest tests/with_dask $(ARGS)

test-browser: $(VENV)/.browser ## open report pages in a headless Chromium, and click what a person clicks
	$(VENV)/bin/python -m pytest tests/with_browser $(ARGS)

lint: $(VENV)/.lint ## check style, layers, spelling, types, phrases, and that no figure of size has risen
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/lint-imports
	$(VENV)/bin/codespell
	$(VENV)/bin/mypy
	$(VENV)/bin/python tools/size.py --check
	$(VENV)/bin/python tools/prose.py

format: $(VENV)/.lint ## sort the imports and lay out the code
	$(VENV)/bin/ruff check --fix-only
	$(VENV)/bin/ruff format

docs: $(VENV)/.docs ## build the site in build/site: runs the code of its pages, the gallery, two reports
	$(VENV)/bin/python docs/run_code.py
	mkdir -p build/extra/reports
	cd build/extra/reports && $(abspath $(VENV))/bin/python $(CURDIR)/docs/sample_reports.py
	$(VENV)/bin/sphinx-build -q -W --keep-going -c docs . build/site

wheel: $(VENV)/.wheel ## build wheel and sdist into dist/, check them, and try the wheel in an environment of its own
	rm -rf dist build/try-wheel
	$(VENV)/bin/python -m build -q
	$(VENV)/bin/twine check --strict dist/*
	$(VENV)/bin/python -m venv build/try-wheel
	build/try-wheel/bin/python $(PIP) install "$$(ls dist/*.whl)[cli]"
	cd build/try-wheel && bin/vicinal demo -o demo

bench: $(VENV)/.bench ## measure every method and its peers: speed and memory
	-$(VENV)/bin/python benchmarks/environments.py
	$(VENV)/bin/python benchmarks/methods_speed.py $(ARGS)

bench-all: $(VENV)/.bench ## write all reports of speed, on an idle machine, ARGS="--minutes 45"
	$(VENV)/bin/python benchmarks/environments.py
	$(VENV)/bin/python benchmarks/all_speed.py $(ARGS)

reproduce: $(VENV)/.bench ## compute a paper's table or figure again, ARGS="NAME ..."
	$(VENV)/bin/python benchmarks/reproduce $(ARGS)

check-results: $(VENV)/.bench ## recompute a few jobs of every results page, and name those that no longer hold
	$(VENV)/bin/python benchmarks/reproduce --check $(ARGS)

clean: ## remove all that make, the tests and the tools have written
	rm -rf $(VENV) $(OLDEST) $(TORCH) .bench-env build demo dist htmlcov .coverage .hypothesis
	rm -rf .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src tests examples benchmarks tools -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

# One environment for everything but the oldest dependencies and torch. A stamp says what is in it, so that
# the second run installs nothing.
$(VENV)/pyvenv.cfg:
	@test -n "$(PYTHON)" || { echo "vicinal needs Python 3.11 or newer with venv; found none." >&2; exit 1; }
	@echo "Making $(VENV) with $(PYTHON)"
	@$(PYTHON) -m venv --clear $(VENV)

$(VENV)/.demo: EXTRAS := cli
$(VENV)/.test: EXTRAS := test
$(VENV)/.lint: EXTRAS := dev
$(VENV)/.bench: EXTRAS := bench,test
$(VENV)/.browser: EXTRAS := browser
$(VENV)/.dask: EXTRAS := dask,test
$(VENV)/.docs: EXTRAS := docs
$(VENV)/.wheel: EXTRAS := wheel
$(VENV)/.demo $(VENV)/.test $(VENV)/.lint $(VENV)/.bench $(VENV)/.browser $(VENV)/.docs $(VENV)/.wheel $(VENV)/.dask: $(META) $(VENV)/pyvenv.cfg
	@echo "Installing vicinal[$(EXTRAS)] into $(VENV)"
	@$(VENV)/bin/python $(PIP) install --editable ".[$(EXTRAS)]"
	@touch $@

# An environment of its own: torch brings gigabytes, and no other target needs it.
$(TORCH)/pyvenv.cfg:
	@test -n "$(PYTHON)" || { echo "vicinal needs Python 3.11 or newer with venv; found none." >&2; exit 1; }
	@echo "Making $(TORCH) with $(PYTHON)"
	@$(PYTHON) -m venv --clear $(TORCH)

$(TORCH)/.test: $(META) $(TORCH)/pyvenv.cfg
	@echo "Installing vicinal[test,gpu] into $(TORCH)"
	@$(TORCH)/bin/python $(PIP) install --editable ".[test,gpu]"
	@touch $@

$(OLDEST)/.test: $(META) tools/constraints-oldest.txt
	@test -n "$(OLDEST_PYTHON)" || { echo "The oldest dependencies need Python 3.11 or 3.12; found none." >&2; exit 1; }
	@echo "Making $(OLDEST) with $(OLDEST_PYTHON)"
	@$(OLDEST_PYTHON) -m venv --clear $(OLDEST)
	@$(OLDEST)/bin/python $(PIP) install --constraint tools/constraints-oldest.txt --editable ".[test]"
	@touch $@
