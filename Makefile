# Every target sets up what it needs in .venv. The package is an editable install; changed parts of the
# compiled core are rebuilt before a target runs.

PYTHON ?= python3
PYTEST_ARGS ?=
VENV := .venv
BUILD := build/dev
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq

export PATH := $(CURDIR)/$(BIN):$(PATH)
export MPLBACKEND ?= Agg
# Two test processes on two cores: BLAS threads inside them would only wait for each other.
test test-quick test-slow coverage: export OPENBLAS_NUM_THREADS ?= 1

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo study test test-quick test-slow test-machines fuzz sanitize bench guard docs lint coverage clean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: build/.study  ## trains, tunes and plots one data set, then a small study with a report; no download
	@$(compile)
	@mkdir -p build/demo && rm -f build/demo/study.sqlite
	@python examples/demo.py build/demo
	@echo && echo "Now a small version of the paper's study: ODM and SVMs on four data sets."
	@optimargin study run --quick --store build/demo/study.sqlite --jobs 2
	@optimargin study report --store build/demo/study.sqlite --out build/demo/report

study: build/.study  ## the paper's study, Tables 2 to 4; stop it any time and run it again to continue
	@$(compile)
	@mkdir -p build/study
	@optimargin study run --table 2 --table 3 --table 4 --store build/study/study.sqlite --jobs 2
	@optimargin study report --store build/study/study.sqlite --out build/study/report

test: build/.test  ## tests and coverage
	@$(compile)
	@pytest -n 2 --cov --cov-report=term-missing:skip-covered --cov-fail-under=96 $(PYTEST_ARGS)

test-quick: build/.test  ## a minute of tests in which every module does something
	@$(compile)
	@pytest -n 2 -m "quick and not slow" $(PYTEST_ARGS)

test-slow: build/.test  ## the long checks
	@$(compile)
	@pytest -n 2 -m slow --timeout 3600 $(PYTEST_ARGS)

MACHINES ?=
test-machines: build/.test  ## tests of numbers as on other machines, resumable: make test-machines MACHINES="Haswell oldest"
	@$(compile)
	@python -m tests.machines $(MACHINES)

FUZZ_ARGS ?= --count 200
fuzz: build/.test  ## random attacks, resumable: make fuzz FUZZ_ARGS="kernel linear --count 5000"
	@$(compile)
	@python -m tests.fuzz $(FUZZ_ARGS)

# The packages of .venv without its editable install, and a build of the core that looks for errors of
# memory and of arithmetic.
SANITIZED := build/sanitized
SANITIZE_ARGS ?= tests/_core tests/designs tests/kernels tests/solvers tests/problems tests/held_out tests/io
SANITIZE_KINDS ?= kernel linear other containers chunks data_files model_files commands interrupts
sanitized = LD_PRELOAD="$$($(CC) -print-file-name=libasan.so) $$($(CC) -print-file-name=libstdc++.so)" \
	ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 \
	OPENBLAS_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1 \
	PYTHONPATH="$(SANITIZED):$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" \
	"$$($(BIN)/python -c 'import sys; print(sys._base_executable)')"
sanitize: build/.sanitized  ## tests and attacks under AddressSanitizer and UBSan
	@$(sanitized) -m pytest -n 0 -q -p no:cacheprovider $(SANITIZE_ARGS)
	@$(sanitized) -m tests.fuzz $(SANITIZE_KINDS) --count 40 --store build/fuzz-sanitized

build/.sanitized: build/.test $(shell find src -type f -not -path '*__pycache__*')
	@echo "building the core with sanitizers"
	@rm -rf $(SANITIZED)
	@CYTHON='$(CURDIR)/$(BIN)/cython' $(PIP) install --no-build-isolation --no-deps --target $(SANITIZED) \
		-Cbuild-dir=build/sanitize -Csetup-args=-Db_sanitize=address,undefined -Csetup-args=-Db_lundef=false \
		-Csetup-args=-Dbuildtype=debugoptimized -Csetup-args=-Dc_args=-fno-sanitize-recover=undefined .
	@touch $@

bench: build/.bench  ## timings against other libraries
	@$(compile)
	@python benchmarks/run.py

BASE ?= HEAD~1
guard: build/.test  ## runtime of HEAD and of another commit, in turn: make guard BASE=v0.1
	@python benchmarks/guard.py $(BASE) $(GUARD_ARGS)

docs: build/.docs  ## HTML documentation in docs/_build/html
	@$(compile)
	@sphinx-build -W --keep-going -q -b html docs docs/_build/html
	@python docs/check_links.py docs/_build/html
	@echo "docs/_build/html/index.html"

lint: build/.lint  ## ruff, cython-lint, mypy, codespell
	@ruff check .
	@ruff format --check .
	@cython-lint src
	@mypy
	@codespell

coverage: build/.test  ## tests, then a line-by-line report in build/coverage
	@$(compile)
	@pytest -n 2 --cov --cov-report=html:build/coverage $(PYTEST_ARGS)

clean:  ## remove everything that was built except .venv
	@rm -rf build docs/_build docs/auto_examples docs/generated docs/sg_execution_times.rst
	@rm -rf .coverage .coverage.* .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find src tests examples benchmarks -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

# Build once here, so that parallel test processes have nothing left to build.
compile = ninja -C $(BUILD) --quiet

# build/.<extra>: the package and that extra are installed. The full path of cython lets an import rebuild
# the core in a shell where .venv is not activated.
build/.%: build/.tools pyproject.toml
	@echo "installing optimargin[$*] in $(VENV)"
	@CYTHON='$(CURDIR)/$(BIN)/cython' $(PIP) install --no-build-isolation -Cbuild-dir=$(BUILD) --editable '.[$*]'
	@touch $@

build/.tools: $(VENV)/pyvenv.cfg pyproject.toml
	@mkdir -p build
	@$(PIP) install --upgrade pip
	@$(BIN)/python -c 'import tomllib; \
	print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], "ninja", "setuptools", "wheel", sep="\n")' > build/requirements.txt
	@$(PIP) install --requirement build/requirements.txt
	@touch $@

$(VENV)/pyvenv.cfg:
	@echo "creating $(VENV)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "optimargin needs Python 3.11 or newer: make PYTHON=/path/to/python")'
	@$(PYTHON) -m venv $(VENV)

.PRECIOUS: build/.% build/.tools $(VENV)/pyvenv.cfg
