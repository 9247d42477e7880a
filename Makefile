# Needs python3 (3.11 or newer) and make; everything else goes into .venv, pinned by hash.
# Another interpreter: make PYTHON=/path/to/python3.12 test

PYTHON  ?=
WORKERS ?= 3
ARGS    ?=

VENV := .venv
BIN  := $(VENV)/bin
PIP  := $(BIN)/python -m pip --disable-pip-version-check --no-input -q install --no-compile
UV   := 0.13.7

# Anything left in the caller's environment must not decide what is imported or how it runs.
unexport PYTHONPATH PYTHONHOME VIRTUAL_ENV PYTHONDONTWRITEBYTECODE PYTHONUNBUFFERED
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1

.DEFAULT_GOAL := help
.PHONY: help run demo test test-toolchains check bench bench-peers soak lock fmt clean

help: ## this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-15s %s\n", $$1, $$2}'

run: $(VENV)/.ready-run ## talk to it (the local model, unless you have a key); without a terminal, one answer
	@if [ -t 0 ] && [ -t 1 ]; then exec $(BIN)/outlast $(ARGS); \
	else exec $(BIN)/outlast -p "$(or $(PROMPT),Say in one sentence what you are.)" $(ARGS) </dev/null; fi

demo: $(VENV)/.ready-run ## a turn with tools, a real kill -9, the resume: see that nothing is lost
	@$(BIN)/outlast demo $(ARGS)

# The branches of core that its unit tests reach, in a process of its own; a part of the tests (ARGS) proves nothing.
CORE_TESTS = -m pytest -q -n 0 -m "not soak and not hypothesis" tests/unit/core
CORE_COVERAGE = $(if $(ARGS),true,{ $(BIN)/python -m coverage run $(CORE_TESTS) && $(BIN)/python -m coverage report; })

# Three workers for two cores: tests wait for other processes a good part of the time. Types and the coverage of core are
# checked meanwhile.
test: $(VENV)/.ready-dev ## every check and every test (but soak and test-toolchains)
	$(BIN)/ruff format --check -q .
	$(BIN)/ruff check -q .
	$(BIN)/lint-imports --no-cache --no-logo
	@{ $(BIN)/python -m pyright; types=$$?; $(CORE_COVERAGE) && exit $$types; } > $(VENV)/checks.log 2>&1 & \
	checks=$$!; status=0; \
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup --durations=25 $(ARGS) || status=$$?; \
	wait $$checks || status=1; tail -n 20 $(VENV)/checks.log; exit $$status

check: $(VENV)/.ready-dev ## format, lint, types, import contracts
	$(BIN)/ruff format --check -q .
	$(BIN)/ruff check -q .
	$(BIN)/python -m pyright
	$(BIN)/lint-imports --no-cache --no-logo

bench: $(VENV)/.ready-dev ## the figures, as ratios to the bare driver
	@$(BIN)/outlast bench --report docs/benchmarks.md --save bench/results/figures.json $(ARGS)

bench-peers: $(VENV)/.ready-dev ## the same beside other session stores, in an environment of its own (.venv-peers)
	@test -x .venv-peers/bin/python || $(BIN)/python -m venv .venv-peers
	@.venv-peers/bin/python -m pip --disable-pip-version-check --no-input -q install -r bench/requirements-peers.txt -e .
	@.venv-peers/bin/python -m bench.peers --report docs/benchmarks.md $(ARGS)

test-toolchains: $(VENV)/.ready-dev ## go and cargo builds in the sandbox; needs both (apt-get install golang-go cargo)
	OUTLAST_REQUIRE_ALL=1 $(BIN)/python -m pytest -m toolchains --timeout 900 -p no:xdist $(ARGS)

soak: $(VENV)/.ready-dev ## the long kill and fault runs
	OUTLAST_SOAK=1 $(BIN)/python -m pytest -m "soak or hypothesis" --timeout 0 -p no:xdist $(ARGS)

fmt: $(VENV)/.ready-dev ## format and fix what can be fixed
	$(BIN)/ruff check -q --fix-only .
	$(BIN)/ruff format -q .

clean: ## remove the environment and every cache
	rm -rf $(VENV) .venv-peers .venv-synapse .lock-venv build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} +

# ---- environment ----------------------------------------------------------------------------------------------------

# One line and its remedy when Python is missing, too old, or lacks venv (Debian ships it apart).
define make_venv
	@set -e; found=; \
	for p in $(if $(PYTHON),"$(PYTHON)",python3 python3.14 python3.13 python3.12 python3.11); do \
	  v=$$("$$p" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null) || continue; \
	  found=$${found:-$$v}; \
	  "$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || continue; \
	  "$$p" -c 'import venv, ensurepip' 2>/dev/null || { \
	    echo "Outlast needs Python's venv module, which $$p ($$v) lacks. Install it (apt-get install python3-venv) or run make PYTHON=/path/to/python3.12" >&2; exit 1; }; \
	  "$(BIN)/python" -c 'import pip' 2>/dev/null || { \
	    rm -rf "$(VENV)"; "$$p" -m venv "$(VENV)" || { \
	      rm -rf "$(VENV)"; echo "Outlast could not make $(VENV) with $$p ($$v). Install its venv module (apt-get install python3-venv) or run make PYTHON=/path/to/python3.12" >&2; exit 1; }; }; \
	  exit 0; \
	done; \
	echo "Outlast needs Python 3.11 or newer; found $${found:-none}. Install it (apt-get install python3 python3-venv, or brew install python) or run make PYTHON=/path/to/python3.12" >&2; \
	exit 1
endef

# The locks are complete, so no resolver is needed; every file is checked against its hash.
$(VENV)/.ready-run: requirements.lock requirements-build.lock pyproject.toml
	$(make_venv)
	@echo "Setting up $(VENV) ..."
	@$(PIP) --no-deps --require-hashes -r requirements.lock -r requirements-build.lock
	@$(PIP) --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.ready-dev: requirements-dev.lock requirements.lock requirements-build.lock pyproject.toml
	$(make_venv)
	@echo "Setting up $(VENV) with the development tools (about a minute the first time) ..."
	@$(PIP) --no-deps --require-hashes -r requirements-dev.lock
	@$(PIP) --no-deps --no-build-isolation -e .
	@-$(BIN)/python -m compileall -q -j 0 $(VENV)/lib src >/dev/null 2>&1 # some packages carry files of other versions
	@touch $(VENV)/.ready-run $@

# ---- locks ----------------------------------------------------------------------------------------------------------

# Universal (Python 3.11 to 3.14, Linux and macOS), hashes for every wheel, no index named. make lock UPGRADE=1 for newer pins.
COMPILE = .lock-venv/bin/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	--no-emit-index-url --no-emit-find-links $(if $(UPGRADE),--upgrade)

lock: ## pin every dependency again (UPGRADE=1 for newer ones)
	@test -x .lock-venv/bin/uv || { $(or $(PYTHON),python3) -m venv .lock-venv && .lock-venv/bin/python -m pip -q install uv==$(UV); }
	@$(COMPILE) pyproject.toml --extra postgres --extra dev -o requirements-dev.lock
	@$(COMPILE) pyproject.toml --extra postgres --extra local --extra http --extra gateway -c requirements-dev.lock -o requirements.lock
	@echo hatchling | $(COMPILE) - -c requirements-dev.lock -o requirements-build.lock
	@echo matrix-synapse | $(COMPILE) - -o requirements-synapse.lock
	@for f in requirements.lock requirements-dev.lock requirements-build.lock requirements-synapse.lock; do \
	  { echo '# Made by `make lock`; do not edit.'; grep -v '^#' $$f; } > $$f.new && mv $$f.new $$f; done
	@echo "requirements.lock, requirements-dev.lock and requirements-build.lock are up to date."
