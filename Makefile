# make demo   on a fresh machine: installs into .venv and writes a report on the bundled session.
# make help   lists the rest. Python >= 3.11 and a network are all that must be there.

VENV ?= .venv
JOBS ?= 2
PYTEST_ARGS ?=
FUZZ_SECONDS ?= 600
BENCH_ARGS ?=

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
export PATH := $(PATH):/usr/local/sbin:/usr/sbin:/sbin
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1
export PIP_ROOT_USER_ACTION := ignore

IN_VENV := $(VENV)/bin/python -m
PIP_INSTALL := $(IN_VENV) pip install --quiet --prefer-binary --retries 10
REPORT := $(CURDIR)/out/cellular_upload.html

.PHONY: help demo test lint bench fuzz pictures clean debian

help:  ## list what can be made
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | awk -F '\t' '{printf "make %-8s %s\n", $$1, $$2}'

demo: $(VENV)/.user  ## write a report on the bundled session; the last line is its path
	@mkdir -p $(dir $(REPORT))
	@$(IN_VENV) multitracer report sample_traces/cellular_upload -o $(REPORT) >/dev/null
	@test -s $(REPORT)
	@echo $(REPORT)

test: debian $(VENV)/.developer  ## install what the tests need, and run them all
	$(IN_VENV) pytest -n $(JOBS) --dist worksteal $(PYTEST_ARGS)

lint: $(VENV)/.developer  ## style, types, and which room may import which
	$(IN_VENV) ruff check
	$(IN_VENV) ruff format --check
	$(IN_VENV) mypy
	$(VENV)/bin/lint-imports

bench: debian $(VENV)/.developer  ## measure against tcptrace, tshark and scapy on own recordings (some minutes, 4 GB)
	$(IN_VENV) tests.benchmarks $(BENCH_ARGS)
	$(IN_VENV) tests.benchmarks.ns3_judge

fuzz: $(VENV)/.developer  ## feed the readers broken captures for FUZZ_SECONDS
	MULTITRACER_FUZZ_SECONDS=$(FUZZ_SECONDS) $(IN_VENV) pytest -m fuzz -n $(JOBS) --timeout 0 $(PYTEST_ARGS)

pictures: debian $(VENV)/.developer  ## draw the pictures of README and docs again
	@mkdir -p out
	$(IN_VENV) docs.pictures
	$(IN_VENV) multitracer plot sample_traces/cellular_upload -o out/picture.html
	chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size=1200,1070 \
	  --virtual-time-budget=10000 --screenshot=docs/images/cellular_upload.png file://$(CURDIR)/out/picture.html

clean:  ## remove what was made here, but not the captures that bench recorded
	rm -rf $(VENV) out build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .coverage*
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

debian:
	@.ci/debian-packages

$(VENV)/.made: .ci/make-venv
	@.ci/make-venv $(VENV)
	@touch $@

$(VENV)/.user: pyproject.toml $(VENV)/.made
	@echo "Installing MultiTracer into $(VENV) (a minute or two the first time)..." >&2
	@$(PIP_INSTALL) --editable '.[all]' >&2
	@touch $@

$(VENV)/.developer: pyproject.toml $(VENV)/.user
	@echo "Installing the test tools into $(VENV)..." >&2
	@$(PIP_INSTALL) --group test --group lint >&2
	@touch $@
