# What every extension's Makefile shares.  The extension sets MODULE_big,
# EXTENSION and DATA, then includes this file; sources, tests and flags are found
# by folder, so a new file needs no line anywhere.
#
#   PG_CONFIG=...   the server to build for (default: the one on PATH)

PG_CONFIG ?= pg_config
OBJS := $(patsubst %.c,%.o,$(sort $(wildcard src/*.c)))

# pg_regress: behaviour a user sees.  A private instance each, so that libraries
# can be preloaded and no server of the user's is touched.
REGRESS := $(patsubst test/sql/%.sql,%,$(sort $(wildcard test/sql/*.sql)))
REGRESS_OPTS = --inputdir=test --temp-instance=tmp_regress --temp-config=$(TEST_CONF)
TEST_CONF ?= test/regress.conf

# isolation tester: concurrency.
ISOLATION := $(patsubst test/specs/%.spec,%,$(sort $(wildcard test/specs/*.spec)))
ISOLATION_OPTS = --inputdir=test --temp-instance=tmp_isolation --temp-config=$(TEST_CONF)

# TAP: crashes, replicas, dump, upgrade, several sessions.
ifneq ($(wildcard test/t/*.pl),)
TAP_TESTS = 1
PROVE_TESTS ?= test/t/*.pl
endif

# No bitcode: nothing here is inlined by JIT, and it needs the server's own clang.
override with_llvm := no

PG_CPPFLAGS += -I$(CURDIR)/../common -isystem $(shell $(PG_CONFIG) --includedir-server)
PG_CFLAGS += -Wall -Wextra -Werror -Wno-unused-parameter -Wno-sign-compare -Wno-missing-field-initializers

# Calls inside the library are direct and those out of it take one step less: what a
# short statement pays for hooks is the code's memory pages, not its instructions.
ifeq ($(shell uname -s),Linux)
PG_CFLAGS += -fno-plt
SHLIB_LINK += -Wl,-Bsymbolic-functions
endif

PGXS := $(shell $(PG_CONFIG) --pgxs)
include $(PGXS)

$(OBJS): $(wildcard src/*.h) ../common/pg_compat.h
