# pg_lean: every command of the README is a target here; "make help" lists them.
# Servers, work trees, the lab's Python environment and reports live in build/.

SHELL := /bin/bash
EXTENSIONS := parallel_temp appendable_bytea light_explain
LAB = lab/run

help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: install ## measure everything on a private cluster (or DSN=...), write build/report/index.html
	@$(LAB) demo $(if $(DSN),--dsn '$(DSN)') $(ARGS)

check: ## build and run every test on the installed server
	@ci/check.sh host
	@$(LAB) test

matrix: ## the same tests and PostgreSQL's own suite on 17, 18 and an assertion-enabled 18
	@ci/matrix.sh $(LABELS)

chaos: install ## kill and compare: everything at once against a model (MINUTES=3, HOURS=8, ARGS=--pg-config 18-assert)
	@certificate/run chaos --minutes $(if $(HOURS),$$(($(HOURS) * 60)),$(or $(MINUTES),3)) $(ARGS)

install: ## build the extensions and install them into the server of PG_CONFIG
	@ci/install.sh

bench-%: install
	@$(LAB) bench $* $(if $(DSN),--dsn '$(DSN)') $(ARGS)

indent: ## check the C code's layout with pgindent (needs the 18 source package)
	@ci/indent.sh --check

clean: ## remove everything made (build/)
	@ci/clean.sh

.PHONY: help demo check matrix chaos install indent clean
.DEFAULT_GOAL := help
