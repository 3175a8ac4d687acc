# Everything that a fresh clone needs, on a machine with make and Python 3.11 or newer.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test lint mutants torture two-hosts told-once searched-once gave-way bench screenshots clean

VENV := .venv
BIN := $(VENV)/bin
PEERS := .venv-peers
TORCH := .venv-torch
BENCH_PEERS := .venv-bench
# What a whole cluster on one machine takes; see tests/slurm/cluster.py.
SLURM := slurmctld slurmd slurm-client munge
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
# What is compiled where there is a compiler.
COMPILED := src/stoker/executors/_quickspawn.c
# Many tests wait for processes rather than compute, so there are more workers than small
# machines have cores.
WORKERS ?= $(shell n=$$(nproc 2>/dev/null || echo 1); echo $$(( n > 4 ? n : 4 )))

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.ready  ## show in under a minute what Stoker does; the same as `stoker demo`
	@$(BIN)/stoker demo

# Thousands of processes are started: compiled once beforehand, each of them starts in half the time.
test: lint $(PEERS)/.ready  ## set up what the tests need, check style and types, run all tests
	@scripts/system-package gcc gcc libc6-dev \
		|| echo "make test: the tests on the stand-in NVIDIA driver are skipped" >&2
	@for shell in zsh fish; do scripts/system-package $$shell $$shell \
		|| echo "make test: completion is not tried in $$shell" >&2; done
	@scripts/system-package tmux tmux \
		|| echo "make test: the live view is not tried in tmux" >&2
	@scripts/system-package chromium chromium \
		|| echo "make test: the page is not tried in a browser" >&2
	@$(MAKE) --no-print-directory $(TORCH)/.ready \
		|| echo "make test: no training of PyTorch is tried" >&2
	@scripts/system-package slurmctld $(SLURM) \
		|| echo "make test: nothing is tried on a Slurm cluster" >&2
	@$(BIN)/python -m compileall -q src
	@echo "pytest, $(WORKERS) workers"
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal --durations=15 $(PYTEST_ARGS)

lint: $(VENV)/.ready-test  ## check style and types
	@echo "ruff, mypy"
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet . \
		|| { echo "make lint: not formatted as 'ruff format' does it" >&2; exit 1; }
	@$(BIN)/mypy --no-error-summary src tests bench scripts/screenshots.py

# Each bug is planted in a copy of the tree, in which its tests are run.
mutants: $(VENV)/.ready-test  ## plant each of a list of small bugs and say which no test notices; ONLY=ledger does less
	@PYTHONPATH=tests $(BIN)/python -m mutants.run $(ONLY) $(MUTANTS_ARGS)

# What is tried is said in docs/architecture.md; WITHOUT=library,warm leaves classes out.
torture: $(VENV)/.ready-test  ## kill, stop and starve Stoker for SECONDS=60, by SEED, and check its laws
	@scripts/system-package gcc gcc libc6-dev
	@$(BIN)/python -m compileall -q src
	@PYTHONPATH=tests:src $(BIN)/python -m crash.torture $(if $(filter-out undefined default,$(origin SECONDS)),--seconds $(SECONDS)) \
		$(if $(SEED),--seed $(SEED)) $(if $(JOBS),--jobs $(JOBS)) $(if $(WITHOUT),--without $(WITHOUT))

two-hosts: $(VENV)/.ready-test  ## kill two machines that share a state directory KILLS=1000 times, by SEED; needs root
	@scripts/system-package gcc gcc libc6-dev
	@$(BIN)/python -m compileall -q src
	@PYTHONPATH=tests:src $(BIN)/python -m crash.two_hosts $(if $(KILLS),--kills $(KILLS)) $(if $(SEED),--seed $(SEED))

told-once: $(VENV)/.ready-test  ## kill the daemon KILLS=500 times while it tells of jobs' ends, by SEED
	@$(BIN)/python -m compileall -q src
	@PYTHONPATH=tests:src $(BIN)/python -m crash.told_once $(if $(KILLS),--kills $(KILLS)) $(if $(SEED),--seed $(SEED))

searched-once: $(VENV)/.ready-test  ## kill daemon and searcher KILLS=500 times during a search, by SEED
	@$(BIN)/python -m compileall -q src
	@PYTHONPATH=tests:src $(BIN)/python -m crash.searched_once $(if $(KILLS),--kills $(KILLS)) $(if $(SEED),--seed $(SEED))

gave-way: $(VENV)/.ready-test  ## let jobs give way, requeue and kill all there is KILLS=500 times, by SEED
	@$(BIN)/python -m compileall -q src
	@PYTHONPATH=tests:src $(BIN)/python -m crash.gave_way $(if $(KILLS),--kills $(KILLS)) $(if $(SEED),--seed $(SEED))

bench: $(VENV)/.ready-test $(PEERS)/.ready $(BENCH_PEERS)/.ready  ## measure Stoker beside its peers; ONLY=gap,add and QUICK=1 do less
	@scripts/system-package gcc gcc libc6-dev
	@scripts/system-package slurmctld $(SLURM) \
		|| echo "make bench: there is no Slurm, and its row is left out" >&2
	@$(BIN)/python bench/run.py $(if $(ONLY),--only $(ONLY)) $(if $(QUICK),--quick) $(BENCH_ARGS)

screenshots: $(VENV)/.ready-test  ## make the pictures in docs/images, from a real run
	@scripts/system-package gcc gcc libc6-dev
	@scripts/system-package chromium chromium fonts-dejavu-core
	@$(BIN)/python scripts/screenshots.py

clean:  ## remove the virtual environment and whatever else was made here
	rm -rf $(VENV) $(PEERS) $(TORCH) $(BENCH_PEERS) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	rm -rf src/*.egg-info src/stoker/executors/*.so

# A stamp says that the packages of pyproject.toml, as it is now, are installed.
$(VENV)/.ready: pyproject.toml $(COMPILED) | $(VENV)/bin/python
	@echo "installing Stoker into $(VENV)"
	@$(PIP) install --editable .
	@touch $@

$(VENV)/.ready-test: pyproject.toml $(COMPILED) | $(VENV)/bin/python
	@scripts/python-headers $(BIN)/python \
		|| echo "make: Stoker waits for each program to load, for want of a compiler" >&2
	@echo "installing Stoker and what its tests need into $(VENV)"
	@$(PIP) install --editable '.[test,lint]'
	@touch $@ $(VENV)/.ready

$(PEERS)/.ready: scripts/make-peers | $(VENV)/bin/python
	@echo "installing what Stoker is compared with into $(PEERS)"
	@scripts/make-peers $(PEERS)

$(TORCH)/.ready: scripts/make-torch | $(VENV)/bin/python
	@echo "installing PyTorch for the tests into $(TORCH)"
	@scripts/make-torch $(TORCH)

$(BENCH_PEERS)/.ready: scripts/make-bench-peers | $(VENV)/bin/python
	@echo "installing the peers of the benchmarks into $(BENCH_PEERS)"
	@scripts/make-bench-peers $(BENCH_PEERS)

$(VENV)/bin/python:
	@scripts/make-venv $(VENV)
