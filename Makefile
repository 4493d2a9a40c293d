# Dragoman: set up, run, test, check. `make` prints what there is.
#
# Everything happens in .venv, whatever environment is active; it is made when it is missing and
# brought up to date when pyproject.toml or what is compiled has changed.

PYTHON ?= python3
# Options for what a target starts: make test ARGS="-k dime -x", make run ARGS="--port 9000"
ARGS ?=
# Debian packages that some tests want. Installed only by root, where there is apt-get; a test that
# misses its package is skipped and says so. `make test SYSTEM_PACKAGES=` installs none.
SYSTEM_PACKAGES ?= activemq gsoap libgsoap-dev nats-server postgresql rabbitmq-server strace

VENV := .venv
BIN := $(VENV)/bin
RUN_STAMP := $(VENV)/.installed-run
DEV_STAMP := $(VENV)/.installed-dev
# What is compiled when Dragoman is installed.
BUILT_FROM := pyproject.toml hatch_build.py $(wildcard filters/matching/kernel/*)

# Nothing of the caller's Python environment may leak in.
unexport PYTHONPATH PYTHONHOME PYTHONSTARTUP VIRTUAL_ENV MYPYPATH
unexport PIP_USER PIP_TARGET PIP_PREFIX PIP_REQUIRE_VIRTUALENV

# The scripts in an environment hold its path: after a move it is made anew.
ifneq ($(shell cat $(VENV)/.made-in 2>/dev/null),$(CURDIR))
.PHONY: $(RUN_STAMP) $(DEV_STAMP)
endif

.DEFAULT_GOAL := help
.PHONY: help run install test release-test check lint types layers format clean

help: ## Print this
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile

run: $(RUN_STAMP) ## Start the gateway on http://127.0.0.1:8080 (options in ARGS)
	@exec $(BIN)/dragoman serve $(ARGS)

install: $(DEV_STAMP) ## Install Dragoman and what developing it needs into .venv

test: $(DEV_STAMP) ## Run all tests, name what was skipped (options in ARGS)
	@$(install_system_packages)
	@$(BIN)/python -m pytest $(ARGS)

release-test: $(DEV_STAMP) ## Run the long campaigns that precede a release: hours (options in ARGS)
	@$(install_system_packages)
	@$(BIN)/python -m pytest -m release -s -o faulthandler_timeout=0 $(ARGS)

check: lint types layers ## Check format, lint, types and the four floors

lint: $(DEV_STAMP) ## Check format and lint
	@$(BIN)/python -m ruff format --check .
	@$(BIN)/python -m ruff check .

types: $(DEV_STAMP) ## Check types
	@$(BIN)/python -m mypy

layers: $(DEV_STAMP) ## Check that no floor imports from above
	@$(BIN)/lint-imports

format: $(DEV_STAMP) ## Format, and mend what lint can mend
	@$(BIN)/python -m ruff check --fix-only .
	@$(BIN)/python -m ruff format .

clean: ## Remove what tools left behind (not .venv, not your data)
	@rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find . -path ./$(VENV) -prune -o -type d -name __pycache__ -exec rm -rf {} +

$(RUN_STAMP): $(BUILT_FROM)
	@$(prepare_venv)
	@$(call pip_install,.)
	@touch $@

# The larger set holds the smaller.
$(DEV_STAMP): $(BUILT_FROM)
	@$(prepare_venv)
	@$(call pip_install,.[dev])
	@touch $(RUN_STAMP) $@

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
if [ -f $(VENV)/.made-in ] && [ "$$(cat $(VENV)/.made-in)" != "$(CURDIR)" ] \
	|| ! $(BIN)/python -m pip --version >/dev/null 2>&1; then \
	echo "Making $(VENV) ..."; \
	"$(PYTHON)" -m venv --clear $(VENV); \
fi && echo "$(CURDIR)" >$(VENV)/.made-in
endef

# The compiled engine is built with the newest lxml, and serves no other.
define pip_install
echo "Installing $(1) into $(VENV), which can take minutes the first time ..."; \
$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade lxml \
	&& $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '$(1)'
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
