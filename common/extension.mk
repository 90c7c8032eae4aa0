# The rules that all extensions' Makefiles share.  The extension sets EXTENSION (with a second
# name also MODULE_big), then includes this file; sources, scripts, tests and flags are found by folder, so a
# new file needs no line anywhere, unless it is for some servers only (OTHER_OBJS: those
# that are not for this one).  Sources are in src/ and in folders of src/; an
# include names the folder (#include "buffers/relfile.h").
#
#   PG_CONFIG=...   the server to build for (default: the one on PATH)
#   CC=...          another compiler than the server's
#   WERROR=1        warnings are errors (always in CI); without it a compiler that
#                   has more warnings than CI's still builds
#
# "make -f /path/to/EXTENSION/Makefile" builds in the current folder.

PG_CONFIG ?= pg_config

# The extension's folder with a slash: "./" unless built somewhere else.
EXTENSION_DIR := $(if $(VPATH),$(VPATH)/,$(dir $(firstword $(MAKEFILE_LIST))))
found = $(patsubst $(EXTENSION_DIR)%,%,$(sort $(wildcard $(addprefix $(EXTENSION_DIR),$(1)))))

MODULE_big ?= $(EXTENSION)
DATA := $(foreach name,$(EXTENSION),$(call found,sql/$(name)--*.sql))
OBJS := $(filter-out $(OTHER_OBJS),$(patsubst %.c,%.o,$(call found,src/*.c src/*/*.c)))
ifneq ($(EXTENSION_DIR),./)
$(shell mkdir -p $(dir $(OBJS)))
endif

# pg_regress: behavior that a user sees.  A private instance each, so that libraries
# can be preloaded and no server of the user's is touched.
REGRESS := $(patsubst test/sql/%.sql,%,$(call found,test/sql/*.sql))
REGRESS_OPTS = --inputdir=$(EXTENSION_DIR)test --temp-instance=tmp_regress --temp-config=$(EXTENSION_DIR)$(TEST_CONF)
TEST_CONF ?= test/regress.conf

# isolation tester: concurrency.
ISOLATION := $(patsubst test/specs/%.spec,%,$(call found,test/specs/*.spec))
ISOLATION_OPTS = --inputdir=$(EXTENSION_DIR)test --temp-instance=tmp_isolation --temp-config=$(EXTENSION_DIR)$(TEST_CONF)

# TAP: crashes, replicas, dump, upgrade, several sessions.
ifneq ($(call found,test/t/*.pl),)
TAP_TESTS = 1
PROVE_TESTS ?= test/t/*.pl
endif

# No bitcode: nothing here is inlined by JIT, and it needs the clang of the server's build.
override with_llvm := no

PG_CPPFLAGS += -I$(EXTENSION_DIR)src -I$(EXTENSION_DIR)../common -isystem $(shell $(PG_CONFIG) --includedir-server)
PG_CFLAGS += -Wall -Wextra -Wno-unused-parameter -Wno-sign-compare -Wno-missing-field-initializers
ifneq ($(WERROR)$(CI),)
PG_CFLAGS += -Werror
endif

# Calls inside the library are direct and those out of it take one step less: what a
# short statement pays for hooks is the code's memory pages, not its instructions.  Data
# of a library that was loaded before does not replace data of the same name.
ifeq ($(shell uname -s),Linux)
PG_CFLAGS += -fno-plt
SHLIB_LINK += -Wl,-Bsymbolic
endif

PGXS := $(shell $(PG_CONFIG) --pgxs)
include $(PGXS)

ifeq ($(filter 15 16 17 18 19,$(MAJORVERSION)),)
$(error pg_lean supports PostgreSQL 15 to 19, $(PG_CONFIG) is $(MAJORVERSION))
endif

$(OBJS): $(wildcard $(addprefix $(EXTENSION_DIR),src/*.h src/*/*.h ../common/*.h))

# The server's flags are those of the compiler that built it.
ifneq ($(findstring clang,$(shell $(CC) --version)),)
override CFLAGS += -Wno-unknown-warning-option -Wno-ignored-optimization-argument
endif
