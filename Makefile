# make demo   on a fresh machine: installs into .venv and writes a report on a bundled session.
# make help   lists the rest; docs/papers has a Makefile of its own. Python >= 3.11 and a network are all that must be there;
#             where Rust's cargo is, too, the native kernel is compiled (a minute), and reading is several times faster.

VENV ?= .venv
# Two more than the cores of a small machine: tests that record or watch wait for half of their time
JOBS ?= 4
PYTEST_ARGS ?=
FUZZ_SECONDS ?= 600
SOAK_MINUTES ?= 30
BENCH_ARGS ?=
BASE ?=
CAUSES_ARGS ?= all .causes --seeds 1-199,1000000-1000020,2000000-2000011,3000000-3000007,4000000-4000011
DRIVES_ARGS ?= .drives --seeds 0-20
# What asks each dependency for what we need of it
OLDEST_TESTS := tests/cli/test_commands.py tests/cli/test_dissect.py tests/cli/test_docs.py tests/cli/test_errors.py tests/cli/test_tables.py tests/api tests/notebooks \
    tests/campaign/test_query.py tests/campaign/test_cluster.py tests/campaign/test_bucket.py tests/analysis/test_correlation.py \
    tests/figures/test_stacked.py tests/collectors/test_ports.py tests/collectors/test_packets.py tests/native/test_zstd.py
DENY_ARGS ?= check

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
export PATH := $(PATH):/usr/local/sbin:/usr/sbin:/sbin
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1
export PIP_ROOT_USER_ACTION := ignore

IN_VENV := $(VENV)/bin/python -m
PIP_INSTALL := $(IN_VENV) pip install --quiet --prefer-binary --retries 10
# For which machines a wheel is: any Linux of the last ten years here, on macOS the machine itself
TARGET ?= $(if $(filter Linux,$(shell uname -s)),$(shell uname -m)-unknown-linux-gnu.2.17)
KERNEL := $(wildcard native/*.* native/src/*.rs native/core/*.toml native/core/src/*.rs native/core/src/*/*.rs)
CHECKS := --manifest-path native/Cargo.toml --package multitracer-core
# hatchling, and what cargo needs to link for other machines
WITH_BUILD = PYTHONPATH="$(abspath $(VENV))/.build" PATH="$(abspath $(VENV))/bin:$(abspath $(VENV))/.build/bin:$$PATH"
BUILD = $(WITH_BUILD) $(IN_VENV) hatchling build
SESSION := typical-1450k
REPORT := $(CURDIR)/out/$(SESSION).html

.PHONY: help demo test quick lint buckets engines oldest audit image bench causes drives soak fuzz native sdist wheel sanitize pictures statistics clean debian

help:  ## list what can be made
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | awk -F '\t' '{printf "make %-8s %s\n", $$1, $$2}'

demo: $(VENV)/.user  ## write a report on the typical session; the last line is its path
	@mkdir -p "$$(dirname "$(REPORT)")"
	@$(IN_VENV) multitracer report sample_traces/$(SESSION) -o "$(REPORT)" >/dev/null
	@test -s "$(REPORT)"
	@echo "$(REPORT)"

test: debian $(VENV)/.developer  ## install what the tests need, and run them all
	@.ci/pytest $(VENV)/bin/python $(JOBS) $(PYTEST_ARGS)

quick: $(VENV)/.developer  ## lint, and the tests of the packages that changed since BASE (by default HEAD): a minute
	@$(VENV)/bin/python .ci/quick $(VENV)/bin/python $(BASE)

lint: $(VENV)/.developer  ## style, types, and which package may import which
	$(IN_VENV) ruff check
	$(IN_VENV) ruff format --check
	$(IN_VENV) mypy
	$(VENV)/bin/lint-imports

buckets: $(VENV)/.developer  ## run campaigns against a real S3 server, which Go builds once (two minutes)
	@server=$$(.ci/s3-server) && MULTITRACER_S3_SERVER=$$server $(IN_VENV) pytest tests/campaign/test_s3.py $(PYTEST_ARGS)

engines: $(VENV)/.duckdb-1.5/.made  ## ask campaigns by the oldest DuckDB that is allowed; make test takes the newest
	PYTHONPATH="$(abspath $(VENV))/.duckdb-1.5" $(IN_VENV) pytest tests/campaign/test_query.py tests/campaign/test_report.py tests/campaign/test_compare.py $(PYTEST_ARGS)

oldest: $(VENV)/.oldest/.made  ## run tests with the lowest version of each dependency that pyproject.toml allows (some minutes)
	PYTHONPATH="$(CURDIR)" $(VENV)/.oldest/bin/python -m pytest -n $(JOBS) -m "not browser and not fuzz" $(OLDEST_TESTS) $(PYTEST_ARGS)

audit: $(VENV)/.build/.made  ## look up known faults and licences of what make test installed, and of the kernel's crates (network)
	$(IN_VENV) pip freeze --exclude-editable | grep -v '^-e' > $(VENV)/.frozen
	$(WITH_BUILD) uvx 'pip-audit==2.10.*' --strict --disable-pip --no-deps -r $(VENV)/.frozen
	$(WITH_BUILD) sh -c 'command -v cargo-deny || cargo install --quiet --locked --root "$(VENV)/.build" cargo-deny@0.20.2'
	$(WITH_BUILD) cargo deny --manifest-path native/Cargo.toml $(DENY_ARGS)

image:  ## build the container image on BASE, and run in it what docs/container.md shows (podman or docker)
	@.ci/image $(BASE)

bench: debian $(VENV)/.developer  ## measure against tcptrace, tshark and scapy on own recordings (some minutes, 4 GB)
	$(IN_VENV) tests.benchmarks $(BENCH_ARGS)
	$(IN_VENV) tests.benchmarks.ns3_judge

causes: debian $(VENV)/.developer  ## record transfers of known cause and judge what diagnose says of them (two hours, resumable)
	$(IN_VENV) tests.causes $(CAUSES_ARGS)

drives: debian $(VENV)/.developer  ## rehearse drives with planted faults and judge what is said of them (root, 25 minutes)
	$(IN_VENV) tests.drives $(DRIVES_ARGS)

soak: debian $(VENV)/.developer  ## capture for SOAK_MINUTES, then 100 hours in fast forward, and phone, router and dish: nothing may grow
	$(IN_VENV) tests.soak --minutes $(SOAK_MINUTES)
	$(IN_VENV) tests.soak.field

fuzz: $(VENV)/.developer  ## feed the readers broken captures and hostile logs for FUZZ_SECONDS, the crate as long, and properties 1,000 examples
	MULTITRACER_FUZZ_SECONDS=$(FUZZ_SECONDS) $(IN_VENV) pytest -m fuzz -rP -n $(JOBS) --timeout 0 $(PYTEST_ARGS)
	HYPOTHESIS_PROFILE=fuzz $(IN_VENV) pytest -m hypothesis -n $(JOBS) --timeout 0 $(PYTEST_ARGS)
	! command -v cargo || MULTITRACER_FUZZ_SECONDS=$(FUZZ_SECONDS) MULTITRACER_FUZZ_SEED=$$(date +%s) cargo test --profile checks $(CHECKS) --test damage -- --nocapture

sanitize:  ## run the crate's tests in Miri and with AddressSanitizer (nightly Rust with Miri; some minutes)
	cargo +nightly miri test $(CHECKS)
	RUSTFLAGS=-Zsanitizer=address cargo +nightly test --profile checks $(CHECKS) --target $$(rustc -vV | sed -n 's/host: //p')

native: $(VENV)/.user  ## compile the native kernel again, and end with an error where that cannot be done
	@MULTITRACER_NATIVE=1 $(PIP_INSTALL) --no-deps --editable .
	@$(IN_VENV) multitracer --version -v

sdist: $(VENV)/.build/.made  ## build what pip can install anywhere: the sources, and a wheel without the native kernel
	@rm -rf dist
	@MULTITRACER_NATIVE=0 $(BUILD) -t sdist -t wheel -d dist >&2

wheel: sdist  ## build a wheel with the native kernel for TARGET (zig, from PyPI, links it), and try all where no compiler is
	@MULTITRACER_NATIVE=1 MULTITRACER_TARGET=$(TARGET) $(BUILD) -t wheel -d dist >&2
	MULTITRACER_DIST="$(CURDIR)/dist" MULTITRACER_TARGET=$(TARGET) $(WITH_BUILD) $(IN_VENV) pytest tests/native/test_wheel.py $(PYTEST_ARGS)

pictures: debian $(VENV)/.developer  ## draw the pictures of README and docs again
	$(IN_VENV) docs.programs.pictures

statistics: $(VENV)/.developer  ## judge how surely correlate and compare find what is there, and what is not (an hour)
	$(IN_VENV) tests.statistics

clean:  ## remove what was made here, but not what bench and causes recorded
	rm -rf $(VENV) out build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .coverage*
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

debian:
	@.ci/debian-packages

$(VENV)/.made: .ci/make-venv
	@.ci/make-venv $(VENV)
	@touch $@

$(VENV)/.user: pyproject.toml $(KERNEL) $(VENV)/.made
	@echo "Installing MultiTracer into $(VENV) (a minute or two the first time)..." >&2
	@$(PIP_INSTALL) --editable '.[all]' >&2
	@$(VENV)/bin/python -m compileall -q multitracer parsers collectors  # pip does not where it installs editable
	@$(IN_VENV) multitracer --version -v >&2
	@touch $@

$(VENV)/.developer: pyproject.toml $(VENV)/.user
	@echo "Installing the test tools into $(VENV)..." >&2
	@$(PIP_INSTALL) --group test --group lint --editable '.[signalling]' >&2
	@# What each test worker would do for itself, each half a minute: the assertions of tests are compiled
	-@PYTHONDONTWRITEBYTECODE= $(IN_VENV) pytest --collect-only -q >/dev/null 2>&1
	@touch $@

$(VENV)/.build/.made: $(VENV)/.developer
	@$(PIP_INSTALL) --target $(@D) 'hatchling>=1.27' 'cargo-zigbuild>=0.20' ziglang 'auditwheel>=6' 'uv>=0.9' >&2
	@touch $@

$(VENV)/.oldest/.made: pyproject.toml $(VENV)/.build/.made
	@$(WITH_BUILD) uv venv --quiet --clear --python $(VENV)/bin/python $(@D)
	@$(WITH_BUILD) uv pip install --quiet --python $(@D) --resolution lowest-direct -r pyproject.toml --extra all --group test
	@$(WITH_BUILD) uv pip install --quiet --python $(@D) --no-deps --editable .
	@touch $@

$(VENV)/.duckdb-1.5/.made: $(VENV)/.developer
	@$(PIP_INSTALL) --no-deps --upgrade --target $(@D) 'duckdb==1.5.1' >&2
	@touch $@
