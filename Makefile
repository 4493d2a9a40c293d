# Dragoman: set up, run, test, check. `make` prints what there is.
#
# Everything happens in .venv, whatever environment is active; it is made when it is missing or of
# another Python, and brought up to date when what is locked, pyproject.toml or what is compiled has
# changed. What is installed is locked in requirements/, with hashes; requirements/lock.py says how.
# Beside it, with another Python: make test PYTHON=python3.13 VENV=.venv-3.13

PYTHON ?= python3
# Options for what a target starts: make test ARGS="-k dime -x", make run ARGS="--port 9000"
ARGS ?=
# What `make run` installs beside what every gateway needs: make run EXTRAS=rabbitmq,postgresql
EXTRAS ?=
# Debian packages that some tests want. Installed only by root, where there is apt-get; a test that
# misses its package is skipped and says so. `make test SYSTEM_PACKAGES=` installs none.
SYSTEM_PACKAGES ?= activemq chromium gsoap libgsoap-dev libnss-wrapper mariadb-server nats-server postgresql prometheus rabbitmq-server slapd strace \
	uuid-runtime wsl xmlsec1

# What builds the image, and what it begins with, if not what the Dockerfile names.
BUILDER ?= $(firstword $(notdir $(foreach name,docker podman buildah,$(shell command -v $(name)))))
BASE ?=
VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)

# tests/rigs/workers.py says how many workers there are, which test runs where, in what order.
ON_ALL_CORES := -n auto --dist loadgroup --no-loadscope-reorder

VENV ?= .venv
BIN := $(VENV)/bin
RUN_STAMP := $(VENV)/.installed-run
DEV_STAMP := $(VENV)/.installed-dev
comma := ,
KNOWN_EXTRAS := $(filter-out base build client dev,$(basename $(notdir $(wildcard requirements/*.txt))))
CHOSEN := $(subst all,$(KNOWN_EXTRAS),$(subst $(comma), ,$(EXTRAS)))
UNKNOWN := $(filter-out $(KNOWN_EXTRAS) client,$(CHOSEN))
EXTRA_STAMPS := $(CHOSEN:%=$(VENV)/.installed-extra-%)
KNOWN_STAMPS := $(KNOWN_EXTRAS:%=$(VENV)/.installed-extra-%)
# What the commands of the README's first pages need: `client` is for those that speak to a gateway.
RUN_SETS := base client build
DEV_SETS := $(RUN_SETS) $(KNOWN_EXTRAS) dev
# What is compiled when Dragoman is installed.
BUILT_FROM := pyproject.toml hatch_build.py $(wildcard filters/matching/kernel/*)

# Nothing of the caller's Python environment may leak in. Without compiled files each of hundreds of
# processes that the tests start compiles the whole of Dragoman anew.
unexport PYTHONPATH PYTHONHOME PYTHONSTARTUP VIRTUAL_ENV MYPYPATH
unexport PYTHONDONTWRITEBYTECODE PYTHONPYCACHEPREFIX
unexport PIP_USER PIP_TARGET PIP_PREFIX PIP_REQUIRE_VIRTUALENV

# The scripts in an environment hold its path: after a move it is made anew, as for another Python.
MADE_WITH := $(CURDIR) $(shell "$(PYTHON)" -c 'import sys; print(*sys.version_info[:2], sep=".")' 2>/dev/null)
ifneq ($(shell cat $(VENV)/.made-with 2>/dev/null),$(MADE_WITH))
.PHONY: $(RUN_STAMP) $(DEV_STAMP) $(KNOWN_STAMPS)
endif

.DEFAULT_GOAL := help
.PHONY: help run example-monitoring example-messenger example-workflow setup install test quick nightly durations release-test check lint types layers locked lock upgrade
.PHONY: format clean docs wheels dist image

help: ## Print this
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-19s%s\n", $$1, $$2 }' Makefile

run: $(RUN_STAMP) $(EXTRA_STAMPS) ## Start the gateway on http://127.0.0.1:8080 (options in ARGS, EXTRAS=rabbitmq)
	@exec $(BIN)/dragoman serve $(ARGS)

setup: $(RUN_STAMP) $(EXTRA_STAMPS) ## Install what `make run` starts, without starting it (EXTRAS=rabbitmq)

example-monitoring: $(RUN_STAMP) ## Watch this machine: sensors, channels and a page with charts (examples/monitoring)
	@exec $(BIN)/python examples/monitoring/monitoring.py $(ARGS)

example-messenger: $(RUN_STAMP) $(VENV)/.installed-extra-ldap ## Talk: servers that may be killed, found in a directory (examples/messenger)
	@exec $(BIN)/python examples/messenger/messenger.py $(ARGS)

example-workflow: $(RUN_STAMP) ## Orchestrate: an engine that may be killed, services, and a live graph (examples/workflow)
	@exec $(BIN)/python examples/workflow/workflow.py $(ARGS)

install: $(DEV_STAMP) ## Install Dragoman and what developing it needs into .venv

test: $(DEV_STAMP) ## Run all tests, name what was skipped (options in ARGS)
	@$(install_system_packages)
	@$(BIN)/python -m pytest $(ON_ALL_CORES) $(ARGS)

quick: $(DEV_STAMP) ## Run in two minutes what needs no server and no long while (options in ARGS)
	@$(BIN)/python -m pytest $(ON_ALL_CORES) -m "not (release or nightly or needs_server or slow or long)" $(ARGS)

nightly: $(DEV_STAMP) ## Run what says again, elsewhere or more often, what `make test` says (options in ARGS)
	@$(install_system_packages)
	@PYTEST_DEBUG_TEMPROOT=$${TMPDIR:-/tmp} $(BIN)/python -m pytest $(ON_ALL_CORES) -m nightly $(ARGS)
	@HYPOTHESIS_PROFILE=night $(BIN)/python -m pytest $(ON_ALL_CORES) -m "hypothesis and not (nightly or release)" $(ARGS)

durations: ## Run all tests, and record how long each file takes: tests/durations.json
	@RECORD_DURATIONS=tests/durations.json $(MAKE) --no-print-directory test

release-test: nightly ## Run that, and the long campaigns that precede a release: hours (options in ARGS)
	@PYTEST_DEBUG_TEMPROOT=$${TMPDIR:-/tmp} $(BIN)/python -m pytest -m release -s $(ARGS)

check: lint types layers locked ## Check format, lint, types, the four floors and the locked versions

lint: $(DEV_STAMP) ## Check format and lint
	@$(BIN)/python -m ruff format --check .
	@$(BIN)/python -m ruff check .

types: $(DEV_STAMP) ## Check types
	@$(BIN)/python -m mypy

layers: $(DEV_STAMP) ## Check that no floor imports from above
	@$(BIN)/lint-imports

locked: $(DEV_STAMP) ## Check that what is locked agrees with pyproject.toml
	@$(BIN)/python requirements/lock.py --check

lock: $(DEV_STAMP) ## Lock what pyproject.toml asks for now; other versions stay
	@$(call install_uv)
	@$(BIN)/python requirements/lock.py

upgrade: $(DEV_STAMP) ## Lock the newest version of everything
	@$(call install_uv)
	@$(BIN)/python requirements/lock.py --upgrade
	@echo "See what changed with git diff, then run the tests: make test"

docs: $(DEV_STAMP) ## Build the site of the documents into site/, to be read as files
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --config-file mkdocs.yml
	@echo "site/index.html"

wheels: $(DEV_STAMP) ## Build the gateway's wheel and the client's (dragoman-client) into dist/
	@$(BIN)/python -m build --no-isolation --wheel --outdir dist .
	@$(BIN)/python -m build --no-isolation --wheel --outdir dist distributions/client

dist: $(DEV_STAMP) ## Build all that a release consists of into dist/, anew
	@$(BIN)/python -m distributions.release dist

image: ## Build the image (BUILDER=docker, podman or buildah; BASE=, ARGS=--platform=linux/arm64)
	@$(BUILDER) build --tag dragoman:$(VERSION) --build-arg REVISION="$$(git rev-parse HEAD)" \
		$(if $(BASE),--build-arg BASE=$(BASE)) $(ARGS) .

format: $(DEV_STAMP) ## Format, and mend what lint can mend
	@$(BIN)/python -m ruff check --fix-only .
	@$(BIN)/python -m ruff format .

clean: ## Remove what tools left behind (not .venv, not your data)
	@rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find . -path ./$(VENV) -prune -o -type d -name __pycache__ -exec rm -rf {} +

$(RUN_STAMP): $(BUILT_FROM) $(RUN_SETS:%=requirements/%.txt)
	@$(prepare_venv)
	@$(call install_locked,$(RUN_SETS))
	@$(install_dragoman)
	@touch $@

# The larger set holds the smaller.
$(DEV_STAMP): $(BUILT_FROM) $(DEV_SETS:%=requirements/%.txt)
	@$(prepare_venv)
	@$(call install_locked,$(DEV_SETS))
	@$(install_dragoman)
	@touch $(RUN_STAMP) $(KNOWN_STAMPS) $@

ifneq ($(UNKNOWN),)
$(error There is no extra $(UNKNOWN); EXTRAS takes $(KNOWN_EXTRAS), or all)
endif

# A static rule: where the stamps are phony, make would skip an implicit one without a word.
$(KNOWN_STAMPS): $(VENV)/.installed-extra-%: requirements/%.txt $(RUN_STAMP)
	@$(call install_locked,base $*)
	@touch $@

define prepare_venv
missing=; \
if ! command -v "$(PYTHON)" >/dev/null || ! "$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null; then \
	missing=" python3-venv"; \
fi; \
command -v $(CXX) >/dev/null || missing="$$missing g++"; \
if [ -n "$$missing" ]; then \
	echo "Missing:$$missing. On Debian: apt-get install$$missing" >&2; exit 1; \
fi; \
if ! "$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then \
	echo "$$("$(PYTHON)" -V) is too old, 3.11 is needed: make PYTHON=/path/to/python3.11" >&2; exit 1; \
fi; \
if [ -f $(VENV)/.made-with ] && [ "$$(cat $(VENV)/.made-with)" != "$(MADE_WITH)" ] \
	|| ! $(BIN)/python -m pip --version >/dev/null 2>&1; then \
	echo "Making $(VENV) ..."; \
	"$(PYTHON)" -m venv --clear $(VENV); \
fi && echo "$(MADE_WITH)" >$(VENV)/.made-with
endef

PIP := $(BIN)/python -m pip --disable-pip-version-check

# By uv where it is: what pip takes a minute for takes it seconds. It is told where, and heeds no configuration.
UV ?= $(shell command -v uv)
INSTALL := $(if $(UV),$(UV) pip install --no-config --python $(BIN)/python,$(PIP) install)

define install_locked
echo "Installing what is locked ($(1)) into $(VENV) ..."; \
$(INSTALL) --require-hashes $(foreach set,$(1),--requirement requirements/$(set).txt)
endef

# Dragoman itself, built with what has just been installed: the compiled engine serves only the lxml
# that it was built with. What cannot be compiled is said, and the slower engine serves.
define install_dragoman
echo "Installing Dragoman ..."; \
$(BIN)/python hatch_build.py >/dev/null \
	|| echo "The filter engine could not be compiled: the slower reference engine serves." >&2; \
$(INSTALL) --quiet --no-deps --no-build-isolation --editable .
endef

define install_uv
$(PIP) install --quiet 'uv>=0.13,<1'
endef

define install_system_packages
wanted=; \
for package in $(SYSTEM_PACKAGES); do \
	dpkg-query -W -f '$${Status}' $$package 2>/dev/null | grep -q '^install ok installed$$' \
		|| wanted="$$wanted $$package"; \
done; \
if [ -z "$$wanted" ]; then :; \
elif [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then \
	echo "Not installed, tests that want them are skipped:$$wanted"; \
else \
	echo "Installing$$wanted ..."; \
	export DEBIAN_FRONTEND=noninteractive; \
	{ apt-get -qq -o Acquire::Retries=1 -o Acquire::http::Timeout=20 update \
		&& apt-get -qq -o DPkg::Lock::Timeout=60 install -y --no-install-recommends $$wanted; \
	} >/dev/null </dev/null || echo "Could not install, tests that want them are skipped:$$wanted"; \
fi
endef
