# pg_lean: every command of the README is a target here; "make help" lists them.
# Servers, work trees, the lab's Python environment and reports live in build/.
#
# all, install, installcheck, uninstall and clean are those of PGXS, for the server of
# PG_CONFIG (default: the one on PATH), also with DESTDIR, and from another folder with
# "make -f .../Makefile".  They call no package manager and do not change user.

SHELL := /bin/bash
EXTENSIONS := parallel_temp appendable_bytea light_explain ram_tablespace
TOP := $(patsubst %/,%,$(dir $(abspath $(firstword $(MAKEFILE_LIST)))))
HERE := $(filter $(TOP),$(CURDIR))
LAB = $(TOP)/lab/run
PG_CONFIG ?= pg_config

# in_each TARGET: in each extension's folder, or a folder of its name here.
in_each = @set -e; for extension in $(EXTENSIONS); do mkdir -p $$extension; \
	$(MAKE) -C $$extension $(if $(HERE),,-f $(TOP)/$$extension/Makefile VPATH=$(TOP)/$$extension) $(1); done

all: ## build the extensions for the server of PG_CONFIG
	+$(call in_each,all)

install: ## install them into the server of PG_CONFIG (as a user who may write there)
	+$(call in_each,install)

uninstall: ## take them out again
	+$(call in_each,uninstall)

installcheck: ## their tests, once installed, on private servers of PG_CONFIG's programs
	+$(call in_each,installcheck)

help: ## list the targets
	@awk -F':.*## ' '/^[a-z -]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(TOP)/Makefile

setup: ## install the packages that all below need: PostgreSQL with its headers, a compiler, Python
	@$(TOP)/ci/server.sh host

# Build and install for this machine's server, or that of LABEL=18-assert, before measuring.
ready:
	@$(TOP)/ci/install.sh $(LABEL)
on_label = $(if $(LABEL),--pg-config $(LABEL))

announce:
	@$(TOP)/ci/server.sh announce$(if $(DSN),-dsn)

demo: announce $(if $(DSN),,ready) ## measure everything on a private cluster (or DSN=...), write build/report/index.html
	@$(LAB) demo $(if $(DSN),--dsn '$(DSN)',$(on_label)) $(ARGS)

bench-%: $(if $(DSN),,ready)
	@$(LAB) bench $* $(if $(DSN),--dsn '$(DSN)',$(on_label)) $(ARGS)

instructions: ready ## count instructions that measuring adds to the statements of light_explain's goals (ARGS='--case join', '--battery all'; needs valgrind)
	@$(LAB) instructions $(on_label) $(ARGS)

check: ## build, install and test on this machine's server, without the slow tests
	@$(TOP)/ci/tests.sh fast

check-slow: ## the tests that check leaves out
	@$(TOP)/ci/tests.sh slow

check-all: check check-slow ## every test on this machine's server

matrix: ## on 17, 18 and an assertion-enabled 18 the extensions' tests of check (ALL=1: the slow ones, too), and PostgreSQL's own suite
	@ALL='$(ALL)' $(TOP)/ci/matrix.sh $(LABELS)

fresh: ## both commands as a newcomer gives them, in pristine roots (STATES=..., ci/fresh.sh lists them)
	@$(TOP)/ci/fresh.sh $(STATES)

deb rpm dist image: ## Debian packages; RPM packages; the archive for PGXN; the files of extension images: built, and installed in pristine roots
	@$(TOP)/ci/package.sh $@ $(ARGS)

packages: deb rpm dist image ## all four

container: ## the steps of Dockerfile, run in pristine roots; the extensions are used
	@$(TOP)/ci/container.sh

neighbours: ## with other extensions, loaded before and after them (SRC=... is pg_tracing's source, LABEL=18 another server)
	@SRC='$(SRC)' $(TOP)/ci/neighbours.sh $(LABEL) $(NAMES)

suites: ## regression suites of other extensions, with and without ours (LABEL=17, NAMES='pgaudit hypopg', SRC=... has some of their sources)
	@SRC='$(SRC)' $(TOP)/ci/suites.sh $(LABEL) $(NAMES)

minors: ## build for one minor release of this machine's PostgreSQL, test on another
	@$(TOP)/ci/minors.sh

valgrind: ## regression tests of the extensions below Valgrind (NAMES=light_explain, TESTS='roles'; builds a server for it)
	@TESTS='$(TESTS)' $(TOP)/ci/valgrind.sh $(NAMES)

pgspot: ## pgspot over the SQL scripts
	@$(TOP)/ci/pgspot.sh

citus: ## on more than one machine: a coordinator and two workers with Citus (SRC=... is its source, LABEL=17)
	@SRC='$(SRC)' $(TOP)/ci/citus.sh $(LABEL)

arm: ## build for ARM64 and test in an emulator, as far as that goes (NAMES='light_explain')
	@$(TOP)/ci/arm.sh $(NAMES)

chaos: ready ## kill and compare: everything at once against a model (MINUTES=3, HOURS=8 or KILLS=300; LABEL=18-assert)
	@$(TOP)/certificate/run chaos $(if $(KILLS),--kills $(KILLS),--minutes $(if $(HOURS),$$(($(HOURS) * 60)),$(or $(MINUTES),3))) $(on_label) $(ARGS)

soak: ready ## work for HOURS=8 without a pause and look for what grows (LABEL=18; ARGS='--json FILE' continues after an interruption)
	@$(TOP)/certificate/run soak --hours $(or $(HOURS),8) $(on_label) $(ARGS)

power: ready ## cut the power at CUTS=200 moments of a server's run: acknowledged commits must survive (LABEL=18)
	@$(TOP)/certificate/run power --cuts $(or $(CUTS),200) $(on_label) $(ARGS)

scenes: ready ## take the pictures of docs/seeing.md of a running server
	@$(LAB) scenes $(ARGS)

mutants: ready ## plant bugs in the C code, one at a time: the tests must fail for each (ARGS=--check: only see that they fit)
	@$(TOP)/certificate/run mutants $(ARGS)

fuzz: ready ## random inputs for a time: libFuzzer with sanitizers, and random SQL (MINUTES=10; ONLY=value)
	@$(TOP)/certificate/run fuzz --minutes $(or $(MINUTES),10) $(addprefix --only ,$(ONLY)) $(ARGS)

sqlsmith: ready ## statements that SQLsmith makes, with our features off and on (MINUTES=4; LABEL=18-assert)
	@$(TOP)/certificate/run sqlsmith --minutes $(or $(MINUTES),4) $(on_label) $(ARGS)

tools: ready ## tools that people run against their databases, on our columns next to plain ones (ARGS='--tool dbt')
	@$(TOP)/certificate/run tools $(ARGS)

certificate: ## draw docs/certificate.md from the runs in results/certificate/
	@$(TOP)/certificate/run certificate

certificate-all: ## run every part that the current code lacks, and keep the results; hours, resumable (PARTS='chaos-15 power-18', ARGS=--list)
	@$(TOP)/certificate/run all $(ARGS) $(PARTS)

docs: ## draw the figures and pictures of the documents from results/ (ARGS=--keep: from build/bench first)
	@$(LAB) docs $(ARGS)

coverage: ready ## which lines the tests of make check execute, in C and Python (ALL=1: those of make check-all; NAMES='light_explain lab')
	@ALL='$(ALL)' $(TOP)/ci/coverage.sh $(NAMES)

clients: ready ## drivers of five languages on both types: what they take and give is the same
	@$(TOP)/ci/clients.sh

monitoring: ready ## tools that read the query store: Prometheus, its exporter and the dashboard, PEV2, the Model Context Protocol, OpenTelemetry
	@$(TOP)/ci/monitoring.sh $(ARGS)

streams: ready ## build streams/ (in development) and run its tests and the protocol's official suite (KILLS=4, STOPS=3, SUITE=1, LABEL=17)
	@LABEL=$(LABEL) $(TOP)/streams/test/run.sh

streams-kills: ready ## kill the server of streams 200 times under retries, and stop PostgreSQL 50 times in immediate mode (KILLS=200, STOPS=50, LABEL=17)
	@LABEL=$(LABEL) ONLY='^TestServerKills$$' KILLS=$${KILLS:-200} STOPS=$${STOPS:-50} $(TOP)/streams/test/run.sh

streams-mutants: ready ## plant bugs in streams, one at a time; the tests must fail (ONLY=TEXT: those with this text)
	@LABEL=$(LABEL) MUTANTS=1 DOWN=$${DOWN:-5} $(TOP)/streams/test/run.sh

bench-streams: ready ## measure streams: WAL, delays of followers and next to a locked row, appends next to other servers (APPENDS=5000, ROUNDS=9, PLUGIN=FOLDER)
	@LABEL=$(LABEL) ONLY="$${ONLY:-^TestServerWAL|^TestBench}" APPENDS=$${APPENDS:-5000} $(TOP)/streams/test/run.sh

lint: ## find faults in the Python and shell code, with ruff and shellcheck
	@$(TOP)/ci/lint.sh

indent: ## check the C code's layout with pgindent (needs the 18 source package)
	@$(TOP)/ci/indent.sh --check

# Without headers there is nothing of PGXS's to clean.
clean: ## remove everything made, here and in build/
	+$(if $(wildcard $(shell $(PG_CONFIG) --pgxs 2>/dev/null)),$(call in_each,clean))
	@$(if $(HERE),$(TOP)/ci/clean.sh)

.PHONY: announce container coverage monitoring streams streams-kills streams-mutants bench-streams lint tools instructions docs suites minors valgrind pgspot sqlsmith all install uninstall installcheck help setup ready demo check check-slow check-all matrix clients fresh neighbours citus arm deb rpm dist image packages scenes chaos soak power mutants fuzz certificate certificate-all indent clean
.DEFAULT_GOAL := all
